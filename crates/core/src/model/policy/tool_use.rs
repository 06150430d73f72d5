//! A tool call as a policy sees it: what it does, what it is called, and which tool it is.
//!
//! Agents say this in many ways and seldom all of it; what is missing is taken from the title, as npm acpx takes it.

use super::ToolKind;

/// What a tool call is, as far as its agent has said.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolUse {
    /// What it does, in the protocol's words.
    pub said_kind: Option<Box<str>>,
    /// Its title.
    pub title: Option<Box<str>>,
    /// The tool's own name, from the tool's input.
    pub name: Option<Box<str>>,
}

/// Which first words of a title mean which kind.
const KINDS: [(&str, &[&str]); 8] = [
    ("read", &["read", "cat"]),
    ("search", &["search", "find", "grep"]),
    ("edit", &["write", "edit", "patch"]),
    ("delete", &["delete", "remove"]),
    ("move", &["move", "rename"]),
    ("execute", &["run", "execute", "bash"]),
    ("fetch", &["fetch", "http", "url"]),
    ("think", &["think"]),
];

impl ToolUse {
    /// What it does: as the agent says it, or else as its title begins.
    pub fn kind_name(&self) -> &str {
        if let Some(said) = &self.said_kind {
            return said;
        }
        let Some(first) = self.first_word() else { return "other" };
        let is_meant = |words: &[&str]| words.iter().any(|word| word.eq_ignore_ascii_case(first));
        KINDS.iter().find(|(_, words)| is_meant(words)).map_or("other", |(kind, _)| kind)
    }

    /// The same, as far as a mode cares.
    pub fn kind(&self) -> ToolKind {
        match self.kind_name() {
            "read" | "search" => ToolKind::Reads,
            _ => ToolKind::Other,
        }
    }

    /// The tool: its name, or else the first word of its title.
    pub fn tool(&self) -> Option<&str> {
        self.name.as_deref().or_else(|| self.first_word())
    }

    /// The first word of the title. What stands in brackets or behind a colon is no part of it.
    pub fn first_word(&self) -> Option<&str> {
        let title = self.title.as_deref()?.trim_start();
        let is_end = |letter: char| !(letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.'));
        let word = title.split(is_end).next()?;
        (!word.is_empty()).then_some(word)
    }

    /// What is said later goes before what was said first; what is not said again stays.
    #[must_use]
    pub fn or(self, earlier: &Self) -> Self {
        Self {
            said_kind: self.said_kind.or_else(|| earlier.said_kind.clone()),
            title: self.title.or_else(|| earlier.title.clone()),
            name: self.name.or_else(|| earlier.name.clone()),
        }
    }
}
