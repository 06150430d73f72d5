//! The conversation of an archive of npm acpx as changes, converted as its journals are.

use super::damage::ImportArchiveError;
use super::layout::{Items, SessionArchive};
use super::scanner::on_one_line;
use super::summary::ImportSummary;
use crate::model::Lineage;
use crate::store::Change;
use crate::store::import_acpx::archived::{NpmConversation, NpmRecord};

/// Reads an archive of npm acpx.
pub(super) struct NpmChanges {
    history: Items,
    conversation: NpmConversation,
    events: u64,
    turns: u64,
}

impl NpmChanges {
    pub(super) fn new(archive: &SessionArchive, npm: &NpmRecord) -> Result<Self, ImportArchiveError> {
        let (history, conversation) = (archive.items("history", archive.history)?, NpmConversation::new(npm));
        Ok(Self { history, conversation, events: 0, turns: 0 })
    }

    /// Adds the changes of the next line, and returns the size of the line, or `None` after the last.
    pub(super) fn read(&mut self, batch: &mut Vec<Change>) -> Result<Option<usize>, ImportArchiveError> {
        let begin = batch.len();
        let size = match self.history.next()? {
            None => {
                batch.extend(self.conversation.finish());
                None
            }
            Some(line) => {
                on_one_line(line);
                let line = std::mem::take(line);
                let text = std::str::from_utf8(&line).ok();
                let Some(changes) = text.and_then(|text| self.conversation.line(text)) else {
                    return Err(self.history.wrong("it is no message of the protocol"));
                };
                batch.extend(changes);
                Some(line.len())
            }
        };
        for change in &batch[begin..] {
            self.events += u64::from(matches!(change, Change::Event(_)));
            self.turns += u64::from(matches!(change, Change::Turn(_)));
        }
        Ok(size)
    }

    pub(super) fn summary(&mut self) -> ImportSummary {
        let lineage: Lineage = self.conversation.lineage();
        let notes = self.conversation.notes();
        ImportSummary { lineage, events: self.events, turns: self.turns, notes }
    }
}
