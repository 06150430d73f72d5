//! Reads a record's conversation: from its journal, oldest segment first, or from its own messages if the journal has
//! none. It reads in batches, so memory is bounded by one batch.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use serde_json::Value;

use super::directory::{JournalFile, RecordFile};
use super::messages;
use super::record::NpmRecord;
use super::report::{Damage, ImportNote};
use super::transcript::{ImportStep, Transcript};
use crate::model::AcpSessionId;
use crate::store::file_system;

/// A batch ends with the line that makes it this large.
const BATCH_BYTES: usize = 1024 * 1024;
/// The longest line that is read. By default npm acpx accepts no longer one from an agent.
const LINE_LIMIT: usize = 64 * 1024 * 1024;
/// The read buffer's size.
const BUFFER: usize = 256 * 1024;

/// A conversation being read.
#[derive(Debug)]
pub(super) struct ConversationSource {
    /// The remaining segments, the next one last.
    segments: Vec<Segment>,
    messages: Vec<Value>,
    session: AcpSessionId,
    transcript: Transcript,
    has_steps: bool,
    is_over: bool,
    is_torn: bool,
    damaged: u64,
    /// The number of unknown messages, if the conversation comes from messages.
    from_messages: Option<u64>,
}

#[derive(Debug)]
struct Segment {
    name: String,
    reader: BufReader<File>,
}

impl ConversationSource {
    /// Opens all journals of a record at once, so that an unreadable one is known before anything is stored.
    pub(super) fn open(directory: &Path, files: &RecordFile, record: &mut NpmRecord) -> Result<Self, Damage> {
        let open =
            |journal: &JournalFile| Segment::open(&directory.join(&journal.name), journal.name.clone());
        Ok(Self {
            segments: files.journals.iter().rev().map(open).collect::<Result<_, _>>()?,
            messages: std::mem::take(&mut record.messages),
            session: record.session.clone(),
            transcript: Transcript::new(record.used_at),
            has_steps: false,
            is_over: false,
            is_torn: false,
            damaged: 0,
            from_messages: None,
        })
    }

    /// The next steps, or `None` after the last. This blocks.
    pub(super) fn next_batch(&mut self) -> Result<Option<Vec<ImportStep>>, Damage> {
        if self.is_over {
            return Ok(None);
        }
        let mut bytes = 0;
        let mut batch = Vec::new();
        let mut line = Vec::new();
        while bytes < BATCH_BYTES {
            let Some(read) = self.next_line(&mut line)? else {
                self.finish(&mut batch);
                return Ok(Some(batch));
            };
            bytes += line.len();
            self.convert_line(&line, read);
            batch.extend(self.transcript.drain());
        }
        self.has_steps |= !batch.is_empty();
        Ok(Some(batch))
    }

    /// Notes for the user about the reading. They are complete after the last batch.
    pub(super) fn notes(&self) -> Vec<ImportNote> {
        let mut notes = Vec::new();
        if self.is_torn {
            notes.push(ImportNote::TornLine);
        }
        if self.damaged > 0 {
            notes.push(ImportNote::DamagedLines { count: self.damaged });
        }
        if let Some(unknown) = self.from_messages {
            notes.push(ImportNote::FromMessages);
            if unknown > 0 {
                notes.push(ImportNote::UnknownMessages { count: unknown });
            }
        }
        notes
    }

    /// A text of the record without the secrets found in its journal.
    pub(super) fn redact(&self, words: &str) -> String {
        self.transcript.redact(words)
    }

    fn next_line(&mut self, line: &mut Vec<u8>) -> Result<Option<LineRead>, Damage> {
        while let Some(segment) = self.segments.last_mut() {
            match read_line(&mut segment.reader, line, LINE_LIMIT) {
                Ok(Some(read)) => return Ok(Some(read)),
                Ok(None) => drop(self.segments.pop()),
                Err(error) => return Err(unreadable(&segment.name, &error)),
            }
        }
        Ok(None)
    }

    fn convert_line(&mut self, line: &[u8], read: LineRead) {
        let text = if read == LineRead::TooLong { None } else { std::str::from_utf8(line).ok() };
        match text {
            Some(text) if text.trim().is_empty() => {}
            Some(text) if self.transcript.convert_line(text).is_ok() => {}
            _ if read == LineRead::Unterminated => self.is_torn = true,
            _ => self.damaged += 1,
        }
    }

    fn finish(&mut self, batch: &mut Vec<ImportStep>) {
        self.is_over = true;
        self.transcript.finish();
        batch.extend(self.transcript.drain());
        let messages = std::mem::take(&mut self.messages);
        if self.has_steps || !batch.is_empty() || messages.is_empty() {
            return;
        }
        let (unknown, unread) = messages::convert(&messages, &self.session, &mut self.transcript);
        self.damaged += unread;
        batch.extend(self.transcript.drain());
        self.from_messages = Some(unknown);
    }
}

impl Segment {
    fn open(path: &Path, name: String) -> Result<Self, Damage> {
        match file_system::open(path) {
            Ok(file) => Ok(Self { name, reader: BufReader::with_capacity(BUFFER, file) }),
            Err(error) => Err(unreadable(&name, &error)),
        }
    }
}

fn unreadable(name: &str, error: &io::Error) -> Damage {
    Damage::Journal { file: name.to_owned(), why: error.to_string() }
}

/// How a line ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineRead {
    Ended,
    /// By the end of the file.
    Unterminated,
    /// It exceeds the limit; the rest was skipped.
    TooLong,
}

/// Reads a line without its end, at most `limit` bytes of it; `None` at the end of the file.
fn read_line(reader: &mut impl BufRead, line: &mut Vec<u8>, limit: usize) -> io::Result<Option<LineRead>> {
    line.clear();
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    if reader.by_ref().take(most).read_until(b'\n', line)? == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
        return Ok(Some(LineRead::Ended));
    }
    if line.len() <= limit {
        return Ok(Some(LineRead::Unterminated));
    }
    line.clear();
    reader.skip_until(b'\n')?;
    Ok(Some(LineRead::TooLong))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_any_length_is_passed_over_without_being_kept() {
        let mut reader = BufReader::with_capacity(4, &b"ab\nabcdefgh\n\nabcde\nx"[..]);
        let mut line = Vec::new();
        let mut next = || read_line(&mut reader, &mut line, 5).unwrap().map(|read| (line.clone(), read));
        let expected = [
            Some((b"ab".to_vec(), LineRead::Ended)),
            Some((Vec::new(), LineRead::TooLong)),
            Some((Vec::new(), LineRead::Ended)),
            Some((b"abcde".to_vec(), LineRead::Ended)),
            Some((b"x".to_vec(), LineRead::Unterminated)),
            None,
        ];
        for step in expected {
            assert_eq!(next(), step);
        }
    }
}
