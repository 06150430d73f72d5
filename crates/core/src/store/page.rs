//! One page of events: bounded by count and by bytes, so that a reader's memory is bounded, and never empty while
//! there is something to read.

use super::PAGE_BYTES;
use crate::model::Event;

/// The initial capacity.
const USUAL: usize = 256;

/// A page being filled.
pub(super) struct EventPage {
    events: Vec<Event>,
    limit: usize,
    room: usize,
}

impl EventPage {
    pub(super) fn new(limit: usize) -> Self {
        Self { events: Vec::with_capacity(limit.min(USUAL)), limit, room: PAGE_BYTES }
    }

    /// Whether the page is full.
    pub(super) fn is_full(&self) -> bool {
        self.events.len() >= self.limit
    }

    /// Whether an event with a body of this size may be added. The first one always may, regardless of its size.
    pub(super) fn has_room_for(&self, size: usize) -> bool {
        !self.is_full() && (size <= self.room || self.events.is_empty())
    }

    /// Adds an event; check [`Self::has_room_for`] first.
    pub(super) fn push(&mut self, event: Event) {
        self.room = self.room.saturating_sub(event.body.len());
        self.events.push(event);
    }

    pub(super) fn into_events(self) -> Vec<Event> {
        self.events
    }
}
