//! What a turn allows its agent to do. The policy is stored with the turn, so it is the same after a crash.

/// What becomes of every permission the agent asks for during a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PermissionPolicy {
    /// Everything is approved.
    ApproveAll,
    /// Reading and searching are approved, the rest is rejected.
    #[default]
    ApproveReads,
    /// Everything is rejected.
    DenyAll,
    /// Every question goes to the turn's client.
    Ask,
}

/// What a policy says of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Go ahead.
    Approve,
    /// Do not.
    Reject,
    /// The turn's client is to say.
    Ask,
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
    /// What decides where there is nobody to ask.
    pub const UNASKED: Self = Self::ApproveReads;

    const ALL: [Self; 4] = [Self::ApproveAll, Self::ApproveReads, Self::DenyAll, Self::Ask];

    /// The answer for a tool of this kind.
    pub fn decide(self, kind: ToolKind) -> Decision {
        match (self, kind) {
            (Self::ApproveAll, _) | (Self::ApproveReads, ToolKind::Reads) => Decision::Approve,
            (Self::ApproveReads, ToolKind::Other) | (Self::DenyAll, _) => Decision::Reject,
            (Self::Ask, _) => Decision::Ask,
        }
    }

    /// The policy's stable name.
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
        Self::ALL.into_iter().find(|policy| policy.as_str() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_decides_by_kind_and_is_read_as_it_is_written() {
        let decided = PermissionPolicy::ALL
            .map(|policy| (policy.as_str(), policy.decide(ToolKind::Reads), policy.decide(ToolKind::Other)));
        let expected = [
            ("approve-all", Decision::Approve, Decision::Approve),
            ("approve-reads", Decision::Approve, Decision::Reject),
            ("deny-all", Decision::Reject, Decision::Reject),
            ("ask", Decision::Ask, Decision::Ask),
        ];
        assert_eq!(decided, expected);
        let read = PermissionPolicy::ALL.map(|policy| PermissionPolicy::parse(policy.as_str()));
        assert_eq!(read, PermissionPolicy::ALL.map(Some));
        assert_eq!(PermissionPolicy::parse("perhaps"), None);
    }
}
