//! Reads the items of messages at known places in a file, one message at a time. The file has to be read from its
//! beginning again to find what has changed.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

use serde::Deserialize;
use serde_json::from_slice;
use serde_json::value::RawValue;

use super::item_queue::ItemQueue;
use super::line_items::LineParser;
use super::lines::LINE_LIMIT;
use super::{TranscriptItem, TranscriptItems, Unread};

/// Where a message is in a file.
#[derive(Clone, Copy)]
pub(super) struct FilePlace {
    pub(super) begin: u64,
    pub(super) length: usize,
}

impl FilePlace {
    /// Where the messages of a JSON document are, which is a list of them or has one.
    pub(super) fn of_messages(document: &[u8]) -> Result<Vec<Self>, serde_json::Error> {
        #[derive(Deserialize)]
        struct Document<'a> {
            #[serde(borrow)]
            messages: Vec<&'a RawValue>,
        }
        let messages = match from_slice::<Vec<&RawValue>>(document) {
            Ok(messages) => messages,
            Err(_) => from_slice::<Document<'_>>(document)?.messages,
        };
        let place = |message: &&RawValue| {
            let begin = message.get().as_ptr().addr().saturating_sub(document.as_ptr().addr());
            Self { begin: begin as u64, length: message.get().len() }
        };
        Ok(messages.iter().map(place).collect())
    }

    /// The same of a file. A document that is too long or damaged has none, and is counted.
    pub(super) fn of_document(file: &File, items: &mut ItemQueue) -> io::Result<Vec<Self>> {
        let mut document = Vec::new();
        file.take(LINE_LIMIT as u64 + 1).read_to_end(&mut document)?;
        if document.len() > LINE_LIMIT {
            items.unread.too_long += 1;
            return Ok(Vec::new());
        }
        Ok(Self::of_messages(&document).unwrap_or_else(|_| {
            items.unread.damaged += 1;
            Vec::new()
        }))
    }
}

/// The items of messages at places in a file.
pub(super) struct PlacedItems<P> {
    pub(super) file: File,
    pub(super) places: VecDeque<FilePlace>,
    pub(super) parser: P,
    pub(super) queue: ItemQueue,
}

impl<P: LineParser> TranscriptItems for PlacedItems<P> {
    fn next(&mut self) -> io::Result<Option<TranscriptItem>> {
        loop {
            if let Some(item) = self.queue.pop() {
                return Ok(Some(item));
            }
            let Some(place) = self.places.pop_front() else { return Ok(None) };
            let mut bytes = vec![0; place.length];
            self.file.read_exact_at(&mut bytes, place.begin)?;
            if self.parser.read(&bytes, &mut self.queue).is_err() {
                self.queue.unread.damaged += 1;
            }
        }
    }

    fn position(&self) -> Option<u64> {
        None
    }

    fn unread(&self) -> Unread {
        self.queue.unread
    }
}

/// Refuses a position in a transcript that has none.
pub(super) fn refuse_position(from: u64) -> io::Result<()> {
    if from == 0 {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "it can only be read from its beginning"))
}
