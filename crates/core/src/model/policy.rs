//! What a turn allows its agent to do. The policy is stored with the turn, so it is the same after a crash.
//!
//! The rules for single tools come first, then the mode. A request that neither settles goes to a client; the
//! policy's [`UnattendedPolicy`] applies only if no client can answer.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

mod tool_policy;

pub use tool_policy::ToolPolicy;

/// Decides every permission request of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PermissionPolicy {
    /// Applies to tools without a rule.
    pub mode: PermissionMode,
    /// Rules for single tools.
    pub tools: Option<Arc<ToolPolicy>>,
    /// Applies to a request that no client can answer.
    pub unasked: UnattendedPolicy,
}

/// The decision for tools without a rule, the strictest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PermissionMode {
    /// Everything is rejected.
    DenyAll,
    /// Reading and searching are approved; a client decides the rest.
    #[default]
    ApproveReads,
    /// Everything is approved.
    ApproveAll,
    /// A client decides everything. On the wire the mode is absent then.
    #[serde(skip)]
    Ask,
}

/// What happens to a request that no client can answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UnattendedPolicy {
    /// The request is rejected, unless it only reads.
    #[default]
    Deny,
    /// The request gets no answer, and the turn fails.
    Fail,
    /// The request stays pending until a client answers it.
    Wait,
}

/// A policy's decision on one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Allow it.
    Approve,
    /// Reject it.
    Reject,
    /// Send it to a client.
    Ask,
}

/// A policy's decision on one tool call, and the rule behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ruling<'a> {
    /// The decision.
    pub decision: Decision,
    /// The rule that sends the request to a client in every mode.
    pub escalated_by: Option<&'a str>,
}

/// What the requesting tool call does, as far as a mode cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolKind {
    /// Reads or searches, and changes nothing.
    Reads,
    /// Anything else, including a kind that the agent did not send.
    Other,
}

/// The answer to a permission request or an elicitation of the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Permit {
    /// Approve.
    Approve,
    /// Reject.
    Reject,
    /// Reject: this rule escalates the request, and no client could answer it.
    Escalated(Box<str>),
    /// A client chose one of the agent's options.
    Choose {
        /// The option's id.
        option: Box<str>,
        /// Whether the option approves.
        approves: bool,
        /// The client's complete result, a JSON object.
        result: Option<Arc<str>>,
    },
    /// A client's answer to a permission request that selects no option: the result, a JSON object.
    Unselected(Arc<str>),
    /// A client's answer to an elicitation: the result, a JSON object.
    ElicitationResult(Arc<str>),
    /// No client answers the elicitation.
    Declined,
    /// The turn is being cancelled, or the request was withdrawn.
    Cancelled,
}

impl PermissionPolicy {
    /// The decision on a tool call.
    pub fn rule(&self, tool: &ToolUse) -> Ruling<'_> {
        let by_rule = self.tools.as_deref().and_then(|tools| tools.rule(tool));
        by_rule.unwrap_or(Ruling { decision: self.mode.decide(tool.kind()), escalated_by: None })
    }
}

impl From<PermissionMode> for PermissionPolicy {
    fn from(mode: PermissionMode) -> Self {
        Self { mode, ..Self::default() }
    }
}

impl PermissionMode {
    /// The answer for a tool of this kind.
    pub fn decide(self, kind: ToolKind) -> Decision {
        match (self, kind) {
            (Self::ApproveAll, _) | (Self::ApproveReads, ToolKind::Reads) => Decision::Approve,
            (Self::DenyAll, _) => Decision::Reject,
            (Self::ApproveReads, ToolKind::Other) | (Self::Ask, _) => Decision::Ask,
        }
    }
}

stable_names! {
    PermissionMode:
    ApproveAll = "approve-all",
    ApproveReads = "approve-reads",
    DenyAll = "deny-all",
    Ask = "ask",
}

stable_names! { UnattendedPolicy: Deny = "deny", Fail = "fail", Wait = "wait" }

/// The properties of a tool call that its agent has sent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolUse {
    /// The protocol's `kind`.
    pub protocol_kind: Option<Box<str>>,
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
        if let Some(kind) = &self.protocol_kind {
            return kind;
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
    pub(crate) fn tool(&self) -> Option<&str> {
        self.name.as_deref().or_else(|| self.first_word())
    }

    /// The first word of the title. Text in brackets or after a colon is not part of it.
    pub(crate) fn first_word(&self) -> Option<&str> {
        let title = self.title.as_deref()?.trim_start();
        let is_end = |letter: char| !(letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.'));
        let word = title.split(is_end).next()?;
        (!word.is_empty()).then_some(word)
    }

    /// Fills missing properties from an earlier update.
    #[must_use]
    pub fn or(self, earlier: &Self) -> Self {
        Self {
            protocol_kind: self.protocol_kind.or_else(|| earlier.protocol_kind.clone()),
            title: self.title.or_else(|| earlier.title.clone()),
            name: self.name.or_else(|| earlier.name.clone()),
        }
    }
}

#[cfg(test)]
mod tests;
