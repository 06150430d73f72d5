//! Reads the events of one turn from the store, page by page.

use std::sync::Arc;

use acpx_core::acp::Cursor;
use acpx_core::host::RecordEvents;
use acpx_core::model::{Direction, Fact, RecordId, Seq, TurnId};
use acpx_core::protocol::WatchedEvent;
use acpx_core::store::Store;

use crate::error::CliError;

/// How many events are read at a time.
const PAGE: usize = 1024;

/// The stored events of a turn, in order.
pub(crate) struct RecordedTurn {
    store: Arc<dyn Store>,
    record: RecordId,
    turn: TurnId,
    /// The next event to read; `None` after the end of the turn.
    next: Option<Seq>,
}

impl RecordedTurn {
    /// All events of a turn of a record; none if the turn never began.
    pub(crate) async fn whole(
        store: Arc<dyn Store>,
        record: RecordId,
        turn: TurnId,
    ) -> Result<Self, CliError> {
        let last = store.record(record.clone()).await?.and_then(|record| record.last_seq);
        let events = RecordEvents::new(Arc::clone(&store), record.clone(), last);
        let next = events.find(&Cursor::Turn(turn)).await.ok();
        Ok(Self { store, record, turn, next })
    }

    /// Its events from one on.
    pub(crate) fn from(store: Arc<dyn Store>, record: RecordId, turn: TurnId, next: Seq) -> Self {
        Self { store, record, turn, next: Some(next) }
    }

    /// The next events of the turn, and those of no turn among them; `None` after its end.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<WatchedEvent>>, CliError> {
        let Some(from) = self.next else { return Ok(None) };
        let page = self.store.events(self.record.clone(), from, PAGE).await?;
        self.next = page.last().map(|last| last.seq.next());
        let mut shown: Vec<WatchedEvent> = page.iter().filter_map(WatchedEvent::of).collect();
        if let Some(end) = shown.iter().position(|event| self.is_end(event)) {
            shown.truncate(end + 1);
            self.next = None;
        }
        Ok(Some(shown).filter(|_| !page.is_empty()))
    }

    fn is_end(&self, event: &WatchedEvent) -> bool {
        let fact = (event.direction == Direction::Ours).then(|| Fact::from_body(event.message.get()));
        matches!(fact, Some(Some(Fact::TurnEnded { turn, .. })) if TurnId(turn) == self.turn)
    }
}
