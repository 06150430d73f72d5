//! The derived state of a record, and the rules that every store applies before it writes: events are numbered
//! without gaps, answered turns are counted, a lineage only grows.
//!
//! Stores differ in where they write; the checks are implemented here, once.

use std::time::Duration;

use super::StoreError;
use crate::model::{
    Event, EventKind, Lifecycle, Lineage, LineageRow, RecordId, Seq, Timestamp, Turn, TurnId,
};

/// How far a record's time may lag behind incoming updates.
const BEHIND: Duration = Duration::from_secs(1);

/// The part of a record that follows from its changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordProgress {
    pub(super) last_seq: Option<Seq>,
    pub(super) last_turn: Option<TurnId>,
    pub(super) answered_turns: u64,
    pub(super) updated_at: Timestamp,
    /// Once an event has set the time, other changes of the same append do not move it.
    event_seen: bool,
}

impl RecordProgress {
    /// A record with no events and no turns.
    pub(super) fn new(updated_at: Timestamp) -> Self {
        Self::resume(None, None, 0, updated_at)
    }

    /// A record with this stored state.
    pub(super) fn resume(
        last_seq: Option<Seq>,
        last_turn: Option<TurnId>,
        answered_turns: u64,
        updated_at: Timestamp,
    ) -> Self {
        Self { last_seq, last_turn, answered_turns, updated_at, event_seen: false }
    }

    /// The state at the start of the next append.
    pub(super) fn at_rest(self) -> Self {
        Self { event_seen: false, ..self }
    }

    /// Counts an event, if it is the next one.
    pub(super) fn event(&mut self, record: &RecordId, event: &Event) -> Result<(), StoreError> {
        let last = self.last_seq.map_or(0, |seq| seq.0);
        if last.checked_add(1) != Some(event.seq.0) {
            return Err(StoreError::OutOfOrder { record: record.clone(), last, found: event.seq });
        }
        self.last_seq = Some(event.seq);
        if !event.is_use() {
            return Ok(());
        }
        if event.kind != EventKind::Update || self.is_behind(event.at) {
            self.updated_at = event.at;
        }
        self.event_seen = true;
        Ok(())
    }

    fn is_behind(&self, at: Timestamp) -> bool {
        at < self.updated_at || at.since(self.updated_at) >= BEHIND
    }

    /// Whether more than added events has changed since `before`.
    pub(super) fn differs_in_more_than_events(self, before: Self) -> bool {
        let Self { last_seq, event_seen, .. } = before;
        self.last_seq < last_seq || Self { last_seq, event_seen, ..self } != before
    }

    /// Counts a turn that replaces `before`.
    pub(super) fn turn(&mut self, before: Option<&Turn>, now: &Turn) {
        self.last_turn = self.last_turn.max(Some(now.id));
        match (before.is_some_and(Turn::is_answered), now.is_answered()) {
            (false, true) => self.answered_turns += 1,
            (true, false) => self.answered_turns = self.answered_turns.saturating_sub(1),
            (true, true) | (false, false) => {}
        }
    }

    /// Applies a lineage that replaces `before`, if it continues it.
    pub(super) fn lineage(
        &mut self,
        record: &RecordId,
        before: &Lineage,
        now: &Lineage,
    ) -> Result<(), StoreError> {
        let grows = before.rows().len() <= now.rows().len();
        if !grows || !before.rows().iter().zip(now.rows()).all(|(before, now)| completes(before, now)) {
            return Err(StoreError::LineageRewritten(record.clone()));
        }
        self.touch(now.current().from);
        Ok(())
    }

    /// Applies a change of lifecycle. Deleting a record resets its counters.
    pub(super) fn lifecycle(&mut self, lifecycle: Lifecycle) {
        match lifecycle {
            Lifecycle::Open => {}
            Lifecycle::Closed { at } => self.touch(at),
            Lifecycle::Deleted { at } => {
                self.touch(at);
                *self = Self { last_seq: None, last_turn: None, answered_turns: 0, ..*self };
            }
        }
    }

    /// Sets the time of the last activity.
    pub(super) fn spoken(&mut self, at: Timestamp) {
        self.updated_at = at;
    }

    fn touch(&mut self, at: Timestamp) {
        if !self.event_seen {
            self.updated_at = self.updated_at.max(at);
        }
    }
}

/// Whether a row keeps everything the earlier one had; it may add more.
fn completes(before: &LineageRow, now: &LineageRow) -> bool {
    before.session == now.session
        && before.from == now.from
        && before.reason == now.reason
        && before.error == now.error
        && (before.agent_session.is_none() || before.agent_session == now.agent_session)
        && (before.to.is_none() || before.to == now.to)
}
