//! Reads the items of messages at known places in a file, one message at a time. The file has to be read from its
//! beginning again to find what has changed.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::item_queue::ItemQueue;
use super::line_items::LineParser;
use super::{TranscriptItem, TranscriptItems, Unread};

/// Where a message is in a file.
#[derive(Clone, Copy)]
pub(super) struct FilePlace {
    pub(super) begin: u64,
    pub(super) length: usize,
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
