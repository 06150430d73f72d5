//! What a turn allows its agent to do. The policy is stored with the turn, so it is the same after a crash.
//!
//! The rules for single tools come first, then the mode. What neither of them settles is put to whoever can be asked,
//! and only where nobody can, the policy says what becomes of it.

use std::sync::Arc;

mod tool_policy;
mod tool_use;

pub use tool_policy::{PolicyProblem, ToolPolicy};
pub use tool_use::ToolUse;

/// What becomes of every permission the agent asks for during a turn.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PermissionPolicy {
    /// What holds for tools that no rule is about.
    pub mode: PermissionMode,
    /// Rules for single tools.
    pub tools: Option<Arc<ToolPolicy>>,
    /// What becomes of a question where nobody can be asked.
    pub unasked: UnattendedPolicy,
}

/// What holds for all tools alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PermissionMode {
    /// Everything is approved.
    ApproveAll,
    /// Reading and searching are approved, the rest is asked.
    #[default]
    ApproveReads,
    /// Everything is rejected.
    DenyAll,
    /// Everything is asked.
    Ask,
}

/// What becomes of a question that nobody can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnattendedPolicy {
    /// The answer is no, unless it is about reading.
    #[default]
    Deny,
    /// It has no answer, and the turn fails.
    Fail,
    /// It stays open until somebody answers it.
    Wait,
}

/// What a policy says of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Go ahead.
    Approve,
    /// Do not.
    Reject,
    /// Whoever can be asked is to say.
    Ask,
}

/// What a policy says of one tool call, and by which of its rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ruling<'a> {
    /// What it says.
    pub decision: Decision,
    /// The rule that wants it asked, whatever the mode says.
    pub escalated_by: Option<&'a str>,
}

/// What the tool call that wants permission does, as far as a mode cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolKind {
    /// Reads or searches, and changes nothing.
    Reads,
    /// Anything else, and whatever the agent did not say.
    Other,
}

impl PermissionPolicy {
    /// What it says of a tool call.
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
    const ALL: [Self; 4] = [Self::ApproveAll, Self::ApproveReads, Self::DenyAll, Self::Ask];

    /// The answer for a tool of this kind.
    pub fn decide(self, kind: ToolKind) -> Decision {
        match (self, kind) {
            (Self::ApproveAll, _) | (Self::ApproveReads, ToolKind::Reads) => Decision::Approve,
            (Self::DenyAll, _) => Decision::Reject,
            (Self::ApproveReads, ToolKind::Other) | (Self::Ask, _) => Decision::Ask,
        }
    }

    /// The mode's stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ApproveAll => "approve-all",
            Self::ApproveReads => "approve-reads",
            Self::DenyAll => "deny-all",
            Self::Ask => "ask",
        }
    }

    /// Reads a stable name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == name)
    }
}

impl UnattendedPolicy {
    const ALL: [Self; 3] = [Self::Deny, Self::Fail, Self::Wait];

    /// The rule's stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deny => "deny",
            Self::Fail => "fail",
            Self::Wait => "wait",
        }
    }

    /// Reads a stable name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|rule| rule.as_str() == name)
    }
}

#[cfg(test)]
mod tests;
