//! What a turn allows its agent to do. The policy is stored with the turn, so it is the same after a crash.

/// The turn's own answer to every permission the agent asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PermissionPolicy {
    /// Everything is approved.
    ApproveAll,
    /// Reading and searching are approved, the rest is rejected.
    #[default]
    ApproveReads,
    /// Everything is rejected.
    DenyAll,
}

/// What a policy says of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Go ahead.
    Approve,
    /// Do not.
    Reject,
}

/// What the tool call that wants permission does, as far as a policy cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolKind {
    /// Reads or searches, and changes nothing.
    Reads,
    /// Anything else, and whatever the agent did not say.
    Other,
}

impl PermissionPolicy {
    /// The answer for a tool of this kind.
    pub fn decide(self, kind: ToolKind) -> Decision {
        match (self, kind) {
            (Self::ApproveAll, _) | (Self::ApproveReads, ToolKind::Reads) => Decision::Approve,
            (Self::ApproveReads, ToolKind::Other) | (Self::DenyAll, _) => Decision::Reject,
        }
    }

    /// The policy's stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ApproveAll => "approve-all",
            Self::ApproveReads => "approve-reads",
            Self::DenyAll => "deny-all",
        }
    }

    /// Reads a stable name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::ApproveAll, Self::ApproveReads, Self::DenyAll]
            .into_iter()
            .find(|policy| policy.as_str() == name)
    }
}
