//! The conversation of an archive of ours as changes: turns, then events with their own times and numbers.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use serde::de::IgnoredAny;

use super::damage::ImportArchiveError;
use super::layout::{Items, OwnParts, SessionArchive};
use super::own_record::{EventRow, turn};
use super::scanner::on_one_line;
use super::summary::ImportSummary;
use crate::model::{AgentMemory, Fact, Lineage, Seq, TurnId};
use crate::store::Change;

/// The highest number of a turn: JSON keeps it exactly, and as many may follow.
const LAST_TURN: TurnId = TurnId(1 << 53);

/// Reads an archive of ours.
pub(super) struct OwnChanges<'a> {
    own: &'a OwnParts,
    turns: Items,
    events: Items,
    history: Items,
    last_turn: TurnId,
    /// The digests of the request ids so far.
    requests: HashSet<u64>,
    hasher: RandomState,
    memory: AgentMemory,
}

impl<'a> OwnChanges<'a> {
    pub(super) fn new(archive: &'a SessionArchive, own: &'a OwnParts) -> Result<Self, ImportArchiveError> {
        Ok(Self {
            own,
            turns: archive.items("acpx.turns", own.turns)?,
            events: archive.items("acpx.events", own.events)?,
            history: archive.items("history", archive.history)?,
            last_turn: TurnId(0),
            requests: HashSet::new(),
            hasher: RandomState::new(),
            memory: AgentMemory::default(),
        })
    }

    /// Adds the next change, and returns its size, or `None` after the last.
    pub(super) fn read(&mut self, batch: &mut Vec<Change>) -> Result<Option<usize>, ImportArchiveError> {
        let change = match self.next_turn()? {
            Some(change) => Some(change),
            None => self.next_event()?,
        };
        let Some((change, size)) = change else {
            self.finish(batch)?;
            return Ok(None);
        };
        batch.push(change);
        Ok(Some(size))
    }

    fn next_turn(&mut self) -> Result<Option<(Change, usize)>, ImportArchiveError> {
        if self.events.count() > 0 {
            return Ok(None);
        }
        let Some(turn) = self.turns.next_parsed(turn)? else { return Ok(None) };
        if turn.id <= self.last_turn {
            return Err(self.turns.wrong("turns are not in order"));
        }
        if turn.id > LAST_TURN {
            return Err(self.turns.wrong("the number of a turn is too large"));
        }
        if !self.requests.insert(self.hasher.hash_one(&turn.request)) {
            return Err(self.turns.wrong("another turn has the same request id"));
        }
        self.last_turn = turn.id;
        let size = turn.prompt.len();
        Ok(Some((Change::Turn(turn), size)))
    }

    fn next_event(&mut self) -> Result<Option<(Change, usize)>, ImportArchiveError> {
        let rows = self.own.record.lineage.rows().len() as u64;
        let Some(row) = self.events.next_parsed(|json| EventRow::read(json, rows))? else { return Ok(None) };
        if row.turn().is_some_and(|turn| turn > self.last_turn) {
            return Err(self.events.wrong("the turn of an event is missing"));
        }
        let seq = Seq(self.events.count());
        let mut line = String::new();
        if row.has_line() {
            line = self.next_line()?;
        }
        let event = row.event(seq, &line);
        if let Some(fact) = line.is_empty().then(|| Fact::from_body(&event.body)).flatten() {
            self.memory.apply(seq, &fact);
        }
        let size = event.body.len();
        Ok(Some((Change::Event(event), size)))
    }

    /// The next line of the history.
    fn next_line(&mut self) -> Result<String, ImportArchiveError> {
        let Some(line) = self.history.next()? else {
            return Err(self.events.wrong("the history has no line for this event"));
        };
        if line.first() != Some(&b'{') {
            return Err(self.history.wrong("a message is an object"));
        }
        on_one_line(line);
        let line = std::mem::take(line);
        let Ok(line) = String::from_utf8(line) else { return Err(self.history.wrong("it is not UTF-8")) };
        serde_json::from_str::<IgnoredAny>(&line).map_err(|error| self.history.wrong(error.to_string()))?;
        Ok(line)
    }

    fn finish(&mut self, batch: &mut Vec<Change>) -> Result<(), ImportArchiveError> {
        if self.history.next()?.is_some() {
            return Err(self.history.wrong("no event has this line of the history"));
        }
        batch.extend([Change::Memory(self.memory), Change::LastActivity(self.own.record.updated_at)]);
        Ok(())
    }

    pub(super) fn summary(&self) -> ImportSummary {
        let mut notes = Vec::new();
        if self.own.record.left_directories > 0 {
            notes.push(
                "its additional directories are not restored; give them again with --add-dir".to_owned(),
            );
        }
        if !self.own.record.mcp_servers.is_empty() {
            notes.push("its MCP servers are not restored; give them again with --mcp-config".to_owned());
        }
        if self.own.record.has_setup {
            notes.push("its system prompt, tools and limits are not restored; give them again".to_owned());
        }
        let lineage: Lineage = self.own.record.lineage.clone();
        ImportSummary { lineage, events: self.events.count(), turns: self.turns.count(), notes }
    }
}
