//! Queries: which records to list, which record a shell means, which record owns a session, and a page of events.

use super::PAGE_BYTES;
use crate::model::{AbsolutePath, AcpSessionId, AgentKey, Event, Record, RecordId, SessionName};

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
    /// Whether the record is deleted.
    pub is_deleted: bool,
}

/// Which open turns a record has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenTurns {
    /// One was sent to the agent and has not ended.
    pub has_dispatched: bool,
    /// At least one waits.
    pub has_queued: bool,
}

/// The fewest characters of an abbreviated id.
pub const SHORT_ID: usize = 8;

/// The prefix of an id that none of its neighbours in the order of ids has.
pub(super) fn short_id(id: &str, neighbours: [Option<&str>; 2]) -> String {
    let common = |other: &str| id.chars().zip(other.chars()).take_while(|(one, other)| one == other).count();
    let shared = neighbours.into_iter().flatten().map(common).max();
    id.chars().take(shared.map_or(0, |shared| shared + 1).max(SHORT_ID)).collect()
}

/// The initial capacity.
const USUAL: usize = 256;

/// A page being filled.
pub(super) struct EventPage {
    events: Vec<Event>,
    limit: usize,
    room: usize,
}

impl EventPage {
    pub(super) fn new(limit: usize) -> Self {
        Self { events: Vec::with_capacity(limit.min(USUAL)), limit, room: PAGE_BYTES }
    }

    /// Whether the page is full.
    pub(super) fn is_full(&self) -> bool {
        self.events.len() >= self.limit
    }

    /// Whether an event with a body of this size may be added. The first one always may, regardless of its size.
    pub(super) fn has_room_for(&self, size: usize) -> bool {
        !self.is_full() && (size <= self.room || self.events.is_empty())
    }

    /// Adds an event; check [`Self::has_room_for`] first.
    pub(super) fn push(&mut self, event: Event) {
        self.room = self.room.saturating_sub(event.body.len());
        self.events.push(event);
    }

    pub(super) fn into_events(self) -> Vec<Event> {
        self.events
    }
}
