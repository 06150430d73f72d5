//! Queries: which records to list, which record a shell means, and which record owns a session.

use crate::model::{AbsolutePath, AcpSessionId, AgentKey, Record, RecordId, SessionName};

/// Which records to list. The default matches all; deleted ones never match.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecordFilter {
    /// Records of this agent, with or without a scope.
    pub agent: Option<AgentKey>,
    /// Records of this directory, with all links resolved.
    pub real_cwd: Option<AbsolutePath>,
}

impl RecordFilter {
    /// Whether a record matches.
    pub(super) fn matches(&self, record: &Record) -> bool {
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
    /// The directories to search, with all links resolved, nearest first.
    pub directories: Vec<AbsolutePath>,
    /// Its name; `None` for the unnamed session.
    pub name: Option<SessionName>,
    /// Whether to find closed ones too.
    pub closed: bool,
}

/// A record that has an ACP session in its lineage.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionOwner {
    /// The session.
    pub session: AcpSessionId,
    /// The record.
    pub record: RecordId,
    /// The key of its agent there.
    pub agent: AgentKey,
}
