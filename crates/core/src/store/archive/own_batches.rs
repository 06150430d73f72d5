//! The conversation of an archive of ours, in batches of changes: turns, then events with their own times and numbers.

use serde::de::IgnoredAny;

use super::damage::ImportArchiveError;
use super::layout::{Items, OwnParts, SessionArchive};
use super::own_record::{EventRow, turn};
use super::scanner::on_one_line;
use super::summary::ImportSummary;
use crate::model::{AgentMemory, Fact, Lineage, Seq, TurnId};
use crate::store::Change;

/// A batch ends with the change that makes it this large.
const BATCH_BYTES: usize = 1024 * 1024;

/// Reads an archive of ours.
pub(super) struct OwnBatches<'a> {
    own: &'a OwnParts,
    turns: Items,
    events: Items,
    history: Items,
    last_turn: TurnId,
    memory: AgentMemory,
    is_over: bool,
}

impl<'a> OwnBatches<'a> {
    pub(super) fn new(archive: &'a SessionArchive, own: &'a OwnParts) -> Result<Self, ImportArchiveError> {
        Ok(Self {
            own,
            turns: archive.items("acpx.turns", own.turns)?,
            events: archive.items("acpx.events", own.events)?,
            history: archive.items("history", archive.history)?,
            last_turn: TurnId(0),
            memory: AgentMemory::default(),
            is_over: false,
        })
    }

    /// The next changes, or `None` after the last.
    pub(super) fn next(&mut self) -> Result<Option<Vec<Change>>, ImportArchiveError> {
        if self.is_over {
            return Ok(None);
        }
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while bytes < BATCH_BYTES {
            let change = match self.next_turn()? {
                Some(change) => Some(change),
                None => self.next_event()?,
            };
            let Some((change, size)) = change else {
                self.finish(&mut batch)?;
                break;
            };
            bytes += size;
            batch.push(change);
        }
        Ok(Some(batch))
    }

    fn next_turn(&mut self) -> Result<Option<(Change, usize)>, ImportArchiveError> {
        if self.events.count() > 0 {
            return Ok(None);
        }
        let Some(turn) = self.turns.next_parsed(turn)? else { return Ok(None) };
        if turn.id <= self.last_turn {
            return Err(self.turns.wrong("turns are not in order"));
        }
        self.last_turn = turn.id;
        let size = turn.prompt.len();
        Ok(Some((Change::Turn(turn), size)))
    }

    fn next_event(&mut self) -> Result<Option<(Change, usize)>, ImportArchiveError> {
        let rows = self.own.record.lineage.rows().len() as u64;
        let Some(row) = self.events.next_parsed(|json| EventRow::read(json, rows))? else { return Ok(None) };
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
        self.is_over = true;
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
