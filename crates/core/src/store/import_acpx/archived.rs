//! The conversation of an archive of npm acpx: the same record and the same messages as in its files, in one document.

use serde_json::Value;

use super::messages;
pub(in crate::store) use super::record::NpmRecord;
use super::report::{Damage, ImportNote};
use super::to_changes::RecordImport;
use super::transcript::{ImportStep, Transcript};
use crate::model::{AbsolutePath, AcpSessionId, Lineage, Setting, Timestamp};
use crate::store::Change;

impl NpmRecord {
    /// Reads the record of an archive for this directory. The archive's own may be relative to another home.
    pub(in crate::store) fn of_archive(
        mut state: Value,
        cwd: &AbsolutePath,
        written_at: Timestamp,
    ) -> Result<Self, Damage> {
        if let Value::Object(fields) = &mut state {
            fields.insert("cwd".to_owned(), cwd.as_str().into());
        }
        Self::of_value(state, written_at)
    }

    /// The settings that the user chose.
    pub(in crate::store) fn chosen(&self) -> &[Setting] {
        &self.chosen
    }

    /// When it was created and last used.
    pub(in crate::store) fn times(&self) -> (Timestamp, Timestamp) {
        (self.created_at, self.used_at)
    }
}

/// Converts the messages of an archive into changes of a new record.
#[derive(Debug)]
pub(in crate::store) struct NpmConversation {
    transcript: Transcript,
    import: RecordImport,
    messages: Vec<Value>,
    session: AcpSessionId,
    notes: Vec<ImportNote>,
    has_steps: bool,
}

impl NpmConversation {
    pub(in crate::store) fn new(npm: &NpmRecord) -> Self {
        Self {
            transcript: Transcript::new(npm.used_at),
            import: RecordImport::new(npm),
            messages: npm.messages.clone(),
            session: npm.session.clone(),
            notes: npm.notes.clone(),
            has_steps: false,
        }
    }

    /// The changes of the next message; `None` if it is none.
    pub(in crate::store) fn line(&mut self, line: &str) -> Option<Vec<Change>> {
        self.transcript.convert_line(line).ok()?;
        Some(self.drain())
    }

    /// The last changes. A conversation without messages of the protocol comes from the record's own.
    pub(in crate::store) fn finish(&mut self) -> Vec<Change> {
        self.transcript.finish();
        let mut changes = self.drain();
        if !self.has_steps && !self.messages.is_empty() {
            let (unknown, _) = messages::convert(&self.messages, &self.session, &mut self.transcript);
            changes.extend(self.drain());
            self.notes.push(ImportNote::FromMessages);
            if unknown > 0 {
                self.notes.push(ImportNote::UnknownMessages { count: unknown });
            }
        }
        let transcript = &self.transcript;
        changes.extend(self.import.remaining_changes(|words| transcript.redact(words)));
        changes
    }

    fn drain(&mut self) -> Vec<Change> {
        let steps: Vec<ImportStep> = self.transcript.drain().collect();
        self.has_steps |= !steps.is_empty();
        steps.into_iter().filter_map(|step| self.import.convert(step)).collect()
    }

    /// The lineage so far.
    pub(in crate::store) fn lineage(&mut self) -> Lineage {
        self.import.lineage()
    }

    /// Notes for the user; complete after the last message.
    pub(in crate::store) fn notes(&self) -> Vec<String> {
        self.notes.iter().map(ToString::to_string).collect()
    }
}
