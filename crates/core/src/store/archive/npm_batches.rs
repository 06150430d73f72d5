//! The conversation of an archive of npm acpx, in batches of changes, converted as its journals are.

use super::damage::ImportArchiveError;
use super::layout::{Items, SessionArchive};
use super::scanner::on_one_line;
use super::summary::ImportSummary;
use crate::model::Lineage;
use crate::store::Change;
use crate::store::import_acpx::archived::{NpmConversation, NpmRecord};

/// A batch ends with the line that makes it this large.
const BATCH_BYTES: usize = 1024 * 1024;

/// Reads an archive of npm acpx.
pub(super) struct NpmBatches {
    history: Items,
    conversation: NpmConversation,
    events: u64,
    turns: u64,
    is_over: bool,
}

impl NpmBatches {
    pub(super) fn new(archive: &SessionArchive, npm: &NpmRecord) -> Result<Self, ImportArchiveError> {
        let (history, conversation) = (archive.items("history", archive.history)?, NpmConversation::new(npm));
        Ok(Self { history, conversation, events: 0, turns: 0, is_over: false })
    }

    /// The next changes, or `None` after the last.
    pub(super) fn next(&mut self) -> Result<Option<Vec<Change>>, ImportArchiveError> {
        if self.is_over {
            return Ok(None);
        }
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while bytes < BATCH_BYTES {
            let Some(line) = self.history.next()? else {
                self.is_over = true;
                batch.extend(self.conversation.finish());
                break;
            };
            on_one_line(line);
            bytes += line.len();
            let line = std::mem::take(line);
            let text = std::str::from_utf8(&line).ok();
            let Some(changes) = text.and_then(|text| self.conversation.line(text)) else {
                return Err(self.history.wrong("it is no message of the protocol"));
            };
            batch.extend(changes);
        }
        for change in &batch {
            self.events += u64::from(matches!(change, Change::Event(_)));
            self.turns += u64::from(matches!(change, Change::Turn(_)));
        }
        Ok(Some(batch))
    }

    pub(super) fn summary(&mut self) -> ImportSummary {
        let lineage: Lineage = self.conversation.lineage();
        let notes = self.conversation.notes();
        ImportSummary { lineage, events: self.events, turns: self.turns, notes }
    }
}
