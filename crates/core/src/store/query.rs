//! What to look for: which records to list, and which one a shell means; and whose a session is.

use crate::model::{AbsolutePath, AcpSessionId, AgentKey, Record, RecordId, SessionName};

/// Which records to list. One that says nothing means all; deleted ones are never among them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecordFilter {
    /// Those with this agent, whether or not they have a scope.
    pub agent: Option<AgentKey>,
    /// Those whose directory this is, every link followed.
    pub real_cwd: Option<AbsolutePath>,
}

impl RecordFilter {
    /// Whether a record is one of those.
    pub(super) fn takes(&self, record: &Record) -> bool {
        !record.lifecycle.is_deleted()
            && self.agent.as_ref().is_none_or(|agent| record.agent.key() == *agent)
            && self.real_cwd.as_ref().is_none_or(|real_cwd| record.real_cwd == *real_cwd)
    }
}

/// The session that a shell means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScopeQuery {
    /// The agent it is with.
    pub agent: AgentKey,
    /// Where to look, every link followed, nearest first.
    pub directories: Vec<AbsolutePath>,
    /// Its name; `None` for the session without one.
    pub name: Option<SessionName>,
    /// Whether closed ones may be found too.
    pub closed: bool,
}

/// A record that has an ACP session in its lineage.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionOwner {
    /// The session.
    pub session: AcpSessionId,
    /// The record.
    pub record: RecordId,
    /// What its agent is called there.
    pub agent: AgentKey,
}
