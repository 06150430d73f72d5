//! Follows a record: stored events, then new ones, without gaps or repeats.
//!
//! A follower has only a position. It reads from the store until it has caught up, then from a short tail that the
//! session's task keeps in memory, and from the store again if it falls behind. So a slow follower costs no memory and
//! does not slow the session down.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::watch;

use crate::model::{Event, RecordId, Seq};
use crate::store::Store;

use crate::engine::SessionError;
use crate::sync::Lock;

/// How many of the last events, and about how many bytes of them, are held in memory.
const TAIL_EVENTS: usize = 2048;
const TAIL_BYTES: usize = 1024 * 1024;
/// How many events are read from the store at a time.
const PAGE: usize = 1024;

/// The last committed events of a running session.
pub(crate) struct EventTail {
    recent: Lock<RecentEvents>,
    reached: watch::Sender<TailPosition>,
}

#[derive(Default)]
struct RecentEvents {
    events: VecDeque<Event>,
    bytes: usize,
}

#[derive(Debug, Clone, Copy)]
struct TailPosition {
    last: u64,
    over: bool,
}

impl EventTail {
    pub(crate) fn new(last: Option<Seq>) -> Self {
        let reached = TailPosition { last: last.map_or(0, |seq| seq.0), over: false };
        Self { recent: Lock::default(), reached: watch::Sender::new(reached) }
    }

    /// The sequence number of the last event.
    pub(crate) fn last(&self) -> Option<Seq> {
        let last = self.reached.borrow().last;
        (last > 0).then_some(Seq(last))
    }

    /// Publishes stored events.
    pub(crate) fn publish(&self, events: Vec<Event>) {
        let Some(last) = events.last().map(|event| event.seq.0) else { return };
        let mut recent = self.recent.lock();
        if self.reached.receiver_count() == 0 {
            // Without followers nothing is kept in memory: later ones read from the store.
            *recent = RecentEvents::default();
        } else {
            for event in events {
                recent.bytes += event.body.len();
                recent.events.push_back(event);
            }
        }
        while recent.events.len() > TAIL_EVENTS || recent.bytes > TAIL_BYTES {
            let Some(oldest) = recent.events.pop_front() else { break };
            recent.bytes -= oldest.body.len();
        }
        drop(recent);
        self.reached.send_modify(|reached| reached.last = last);
    }

    /// Clears the tail after the last follower: later ones read from the store.
    fn forget(&self) {
        *self.recent.lock() = RecentEvents::default();
    }

    /// No more events will come.
    pub(crate) fn close(&self) {
        self.reached.send_modify(|reached| reached.over = true);
    }

    /// The events from `from` on, if the tail goes back that far.
    fn since(&self, from: Seq) -> Option<VecDeque<Event>> {
        let recent = self.recent.lock();
        let first = recent.events.front()?.seq;
        let skip = usize::try_from(from.0.checked_sub(first.0)?).ok()?;
        Some(recent.events.iter().skip(skip).take(PAGE).cloned().collect())
    }
}

/// A position in a record's events.
pub struct Follower {
    store: Arc<dyn Store>,
    record: RecordId,
    next: Seq,
    ready: VecDeque<Event>,
    live: Option<(Arc<EventTail>, watch::Receiver<TailPosition>)>,
}

impl Drop for Follower {
    fn drop(&mut self) {
        // Our own receiver is the last one.
        if let Some((tail, _)) = &self.live
            && tail.reached.receiver_count() == 1
        {
            tail.forget();
        }
    }
}

impl Follower {
    pub(crate) fn of_store(store: Arc<dyn Store>, record: RecordId, from: Seq) -> Self {
        Self { store, record, next: from.max(Seq::FIRST), ready: VecDeque::new(), live: None }
    }

    pub(crate) fn of_session(
        store: Arc<dyn Store>,
        record: RecordId,
        from: Seq,
        tail: Arc<EventTail>,
    ) -> Self {
        let reached = tail.reached.subscribe();
        let mut follower = Self::of_store(store, record, from);
        follower.live = Some((tail, reached));
        follower
    }

    /// The next event. `None` at the end of the stored events or, if the session runs, when it has ended.
    pub async fn next(&mut self) -> Result<Option<Event>, SessionError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                self.next = event.seq.next();
                return Ok(Some(event));
            }
            if !self.fill().await? {
                return Ok(None);
            }
        }
    }

    /// Whether the next event is already read.
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The events that are available without waiting, at most a page; empty if there are none.
    pub async fn page(&mut self) -> Result<Vec<Event>, SessionError> {
        if self.ready.is_empty() && self.is_behind() {
            self.read().await?;
        }
        let page: Vec<_> = std::mem::take(&mut self.ready).into();
        if let Some(last) = page.last() {
            self.next = last.seq.next();
        }
        Ok(page)
    }

    /// Waits for events; false if none will come.
    async fn fill(&mut self) -> Result<bool, SessionError> {
        loop {
            if self.is_behind() {
                self.read().await?;
                // Stored events are there, unless the record has been deleted.
                return Ok(!self.ready.is_empty());
            }
            let Some((_, reached)) = &mut self.live else { return Ok(false) };
            let TailPosition { last, over } = *reached.borrow_and_update();
            if last >= self.next.0 {
                continue;
            }
            if over || reached.changed().await.is_err() {
                return Ok(false);
            }
        }
    }

    fn is_behind(&self) -> bool {
        self.live.as_ref().is_none_or(|(_, reached)| reached.borrow().last >= self.next.0)
    }

    async fn read(&mut self) -> Result<(), SessionError> {
        let recent = self.live.as_ref().and_then(|(tail, _)| tail.since(self.next));
        self.ready = match recent {
            Some(recent) => recent,
            None => self.store.events(self.record.clone(), self.next, PAGE).await?.into(),
        };
        Ok(())
    }
}
