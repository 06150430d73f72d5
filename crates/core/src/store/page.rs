//! One page of events: bounded by count and by bytes, so that a reader's memory is bounded whatever an agent
//! wrote, and never empty while there is something to read.

use super::PAGE_BYTES;
use crate::model::Event;

/// Room for this many is made at once.
const USUAL: usize = 256;

/// A page being filled.
pub(super) struct Page {
    events: Vec<Event>,
    limit: usize,
    room: usize,
}

impl Page {
    pub(super) fn new(limit: usize) -> Self {
        Self { events: Vec::with_capacity(limit.min(USUAL)), limit, room: PAGE_BYTES }
    }

    /// Whether nothing more can go in.
    pub(super) fn is_full(&self) -> bool {
        self.events.len() >= self.limit
    }

    /// Adds an event unless the page is full with it left out; says whether it went in.
    pub(super) fn push(&mut self, event: Event) -> bool {
        let size = event.body.len();
        if self.is_full() || (size > self.room && !self.events.is_empty()) {
            return false;
        }
        self.room = self.room.saturating_sub(size);
        self.events.push(event);
        true
    }

    pub(super) fn into_events(self) -> Vec<Event> {
        self.events
    }
}
