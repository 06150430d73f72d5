//! Shows one turn or a whole session while stdout can be written. A write error does not stop the work; it is stored,
//! and reported when the work is done.

use std::io;
use std::sync::Arc;

use acpx_core::acp;
use acpx_core::model::{
    Direction, Fact, Lifecycle, ProtocolVersion, Record, RecordId, RequestId, Seq, Turn, TurnId,
};
use acpx_core::protocol::{HostErrorResponse, PendingParams, WatchedEvent};
use acpx_core::store::Store;
use acpx_core::wire::RpcMessage;

use super::{HostSession, HostSessionEvent, unsent_turn};
use crate::error::{CliError, InterruptReason};
use crate::output::{self, FollowView, TurnView};
use crate::session::recorded_turn::RecordedTurn;
use crate::terminal::prompt::TerminalPrompter;

/// The part of a session to show.
pub(super) struct SessionDisplay<'a> {
    what: DisplayScope<'a>,
    /// The first event that was not seen yet.
    pub(super) next: Seq,
}

/// One turn or everything.
enum DisplayScope<'a> {
    /// One turn.
    Turn {
        view: &'a mut TurnView,
        /// The request id of our prompt, which identifies its turn.
        request: RequestId,
        turn: Option<TurnId>,
    },
    /// Everything that happens in a record.
    All { view: &'a mut FollowView, record: RecordId, store: Arc<dyn Store> },
}

impl<'a> HostSession<'a> {
    /// Shows the turn of one prompt; `next` is the first event of its record to show.
    pub(crate) fn showing(self, view: &'a mut TurnView, request: RequestId, next: Seq) -> Self {
        let what = DisplayScope::Turn { view, request, turn: None };
        Self { shown: Some(SessionDisplay { what, next }), ..self }
    }

    /// Shows everything that happens in a record, from an event on. `store` is the record's store.
    pub(crate) fn following(
        self,
        view: &'a mut FollowView,
        record: RecordId,
        store: Arc<dyn Store>,
        next: Seq,
    ) -> Self {
        Self { shown: Some(SessionDisplay { what: DisplayScope::All { view, record, store }, next }), ..self }
    }

    /// The turn whose prompt is to be shown before this event: when following a record, a turn that ended before any
    /// agent was sent its prompt.
    pub(super) async fn unsent(&self, event: &WatchedEvent) -> Result<Option<Turn>, CliError> {
        match self.shown.as_ref().map(|shown| &shown.what) {
            Some(DisplayScope::All { view, record, store }) => {
                Ok(unsent_turn(view, event, store, record).await?)
            }
            Some(DisplayScope::Turn { .. }) | None => Ok(None),
        }
    }

    /// Reports that the followed record was closed by this event. A delete also closes it, and is reported separately.
    pub(super) async fn report_if_closed(&mut self, event: &WatchedEvent) -> Result<(), CliError> {
        let Some(DisplayScope::All { record, store, .. }) = self.shown.as_ref().map(|shown| &shown.what)
        else {
            return Ok(());
        };
        if !is_close(event) {
            return Ok(());
        }
        let stored = store.record(record.clone()).await?;
        let is_there = |record: &Record| !matches!(record.lifecycle, Lifecycle::Deleted { .. });
        // Write pending output first.
        if stored.as_ref().is_some_and(is_there) && self.flushed() {
            output::watched_closed(self.console);
        }
        Ok(())
    }

    /// The record that is followed, as params of a request.
    pub(super) fn followed(&self) -> PendingParams {
        let shown = self.shown.as_ref().map(|shown| &shown.what);
        let session_id = match shown {
            Some(DisplayScope::All { record, .. }) => Some(record.to_string()),
            Some(DisplayScope::Turn { .. }) | None => None,
        };
        PendingParams { session_id, ..PendingParams::default() }
    }

    /// Whether the agent of a followed record requests something with this event.
    pub(super) fn is_followed_request(&self, event: &WatchedEvent) -> bool {
        let is_followed =
            self.shown.as_ref().is_some_and(|shown| matches!(shown.what, DisplayScope::All { .. }));
        is_followed
            && event.direction == Direction::FromAgent
            && RpcMessage::parse(event.message.get())
                .is_ok_and(|message| message.method().and(message.id()).is_some())
    }

    /// Shows the stored events of an ended turn that were not shown yet.
    pub(crate) async fn show_stored(
        &mut self,
        store: &Arc<dyn Store>,
        record: &RecordId,
        turn: TurnId,
    ) -> Result<(), CliError> {
        let Some(next) = self.shown.as_ref().map(|shown| shown.next) else { return Ok(()) };
        let mut events = RecordedTurn::from(Arc::clone(store), record.clone(), turn, next);
        while let Some(page) = events.next().await? {
            for event in &page {
                if let Err(error) = self.show(event, None) {
                    self.stop_writing(error);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Flushes stdout; false if it can no longer be written.
    pub(super) fn flushed(&mut self) -> bool {
        self.console.flush().map_err(|error| self.stop_writing(error)).is_ok()
    }

    /// Stops writing to stdout.
    pub(super) fn stop_writing(&mut self, error: io::Error) {
        self.console.stop_writing();
        self.unwritable = Some(error);
    }

    /// Turns an interrupt into the next event. A lost terminal only means that nothing can be shown any more.
    pub(super) fn stop(&mut self, stop: InterruptReason) -> HostSessionEvent {
        if stop != InterruptReason::HungUp {
            return HostSessionEvent::Stop(stop);
        }
        self.stop_writing(io::ErrorKind::BrokenPipe.into());
        HostSessionEvent::Unwritable
    }

    /// Why stdout could not be written, if so.
    pub(crate) fn trouble_with_stdout(&mut self) -> Option<io::Error> {
        self.unwritable.take()
    }

    /// Stores whether a failed turn has events that were not shown.
    pub(super) fn note_unshown(&mut self, refusal: &HostErrorResponse) {
        let last = refusal.turn().and_then(|turn| turn.seq).map(Seq);
        let next = self.shown.as_ref().map(|shown| shown.next);
        self.unshown = next.filter(|next| Some(*next) <= last);
    }

    /// The first event of a timed-out turn that was not shown.
    pub(crate) fn unshown(&self) -> Option<Seq> {
        self.unshown
    }

    pub(super) fn is_ours(&self, request: &str) -> bool {
        let shown = self.shown.as_ref().map(|shown| &shown.what);
        matches!(shown, Some(DisplayScope::Turn { request: ours, .. }) if ours.as_str() == request)
    }

    /// Whether the turn of our prompt has begun.
    pub(super) fn has_begun(&self) -> bool {
        let shown = self.shown.as_ref().map(|shown| &shown.what);
        matches!(shown, Some(DisplayScope::Turn { turn: Some(_), .. }))
    }

    /// Shows the events of our turn, and how the agent was restored for it, which belongs to no turn. When following a
    /// record, the prompt of `unsent` comes first.
    pub(super) fn show(&mut self, event: &WatchedEvent, unsent: Option<&Turn>) -> io::Result<()> {
        let before = self.console.shown();
        let written = self.write(event, unsent);
        // Many events, such as `usage_update`, write nothing while the turn runs.
        if self.console.shown() > before {
            self.prompter.iter_mut().for_each(TerminalPrompter::cover);
        }
        written
    }

    fn write(&mut self, event: &WatchedEvent, unsent: Option<&Turn>) -> io::Result<()> {
        let Some(shown) = &mut self.shown else { return Ok(()) };
        shown.next = event.seq.next();
        if let Some(prompter) = &mut self.prompter {
            prompter.on_event(event);
        }
        let (view, request, turn) = match &mut shown.what {
            DisplayScope::All { view, .. } => {
                unsent.map_or(Ok(()), |turn| view.unsent(turn, self.console))?;
                return view.event(event, self.console);
            }
            DisplayScope::Turn { view, request, turn } => (view, request, turn),
        };
        if event.direction == Direction::Ours
            && let Some(Fact::TurnStarted { turn: begun, request_id, .. }) =
                Fact::from_body(event.message.get())
            && request.as_str() == request_id
        {
            *turn = Some(TurnId(begun));
            self.console.stop_waiting();
            self.console.wait_for(&format!("waiting for {}", self.agent));
        }
        let is_meant = event.turn.map_or_else(|| !is_conversation(event), |of| *turn == Some(of));
        if is_meant { view.event(event, self.console) } else { Ok(()) }
    }
}

/// Whether an event without a turn is part of the conversation: a message from a time when this host did not run. It
/// answers nothing that was asked here.
fn is_conversation(event: &WatchedEvent) -> bool {
    let Ok(message) = RpcMessage::parse(event.message.get()) else { return false };
    let is_update = event.direction == Direction::FromAgent && message.method() == Some("session/update");
    let params = message.params().unwrap_or("null");
    is_update
        && match event.version {
            ProtocolVersion::V1 => acp::update(params).is_history(),
            ProtocolVersion::V2 => acp::update_v2(params).is_history(),
        }
}

/// Whether the event closes the record.
fn is_close(event: &WatchedEvent) -> bool {
    event.direction == Direction::Ours
        && matches!(Fact::from_body(event.message.get()), Some(Fact::Closed {}))
}
