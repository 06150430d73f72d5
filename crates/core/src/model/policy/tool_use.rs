//! A tool call as a policy sees it: its kind, its title and the tool's name.
//!
//! Agents send these in different ways and rarely all of them. A missing kind or name is derived from the title, as
//! in npm acpx.

use super::ToolKind;

/// The properties of a tool call that its agent has sent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolUse {
    /// The protocol's `kind`.
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
    /// The kind that the agent sent, or else the one its title's first word means.
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

    /// The first word of the title. Text in brackets or after a colon is not part of it.
    pub fn first_word(&self) -> Option<&str> {
        let title = self.title.as_deref()?.trim_start();
        let is_end = |letter: char| !(letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.'));
        let word = title.split(is_end).next()?;
        (!word.is_empty()).then_some(word)
    }

    /// Fills missing properties from an earlier update.
    #[must_use]
    pub fn or(self, earlier: &Self) -> Self {
        Self {
            said_kind: self.said_kind.or_else(|| earlier.said_kind.clone()),
            title: self.title.or_else(|| earlier.title.clone()),
            name: self.name.or_else(|| earlier.name.clone()),
        }
    }
}
