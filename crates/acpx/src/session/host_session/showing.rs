//! What a talk shows of a session: one turn or everything, for as long as stdout can be written. What cannot be shown is
//! no reason to stop; it is remembered why, and told when the work is done.

use std::io;
use std::sync::Arc;

use acpx_core::acp;
use acpx_core::model::{
    Direction, Fact, Lifecycle, ProtocolVersion, Record, RecordId, RequestId, Seq, Turn, TurnId,
};
use acpx_core::protocol::{HostErrorResponse, WatchedEvent};
use acpx_core::store::Store;
use acpx_core::wire::RpcMessage;

use super::unsent::unsent_turn;
use super::{HostSession, HostSessionEvent};
use crate::error::CliError;
use crate::error::InterruptReason;
use crate::output::{self, FollowView, TurnView};
use crate::terminal::prompt::TerminalPrompter;

/// What is shown of a session.
pub(super) struct SessionDisplay<'a> {
    what: DisplayScope<'a>,
    /// The first event that was not seen yet.
    pub(super) next: Seq,
}

/// How much of it.
enum DisplayScope<'a> {
    /// One turn.
    Turn {
        view: &'a mut TurnView,
        /// The name of our prompt; by it its turn is known.
        request: RequestId,
        turn: Option<TurnId>,
    },
    /// Everything that happens in a record.
    All { view: &'a mut FollowView, record: RecordId, store: Arc<dyn Store> },
}

impl<'a> HostSession<'a> {
    /// The same talk about one prompt; `next` is the first event of its record that is to be shown.
    pub(crate) fn showing(self, view: &'a mut TurnView, request: RequestId, next: Seq) -> Self {
        let what = DisplayScope::Turn { view, request, turn: None };
        Self { shown: Some(SessionDisplay { what, next }), ..self }
    }

    /// The same talk about everything that happens in a record, from an event on. The store is that of the record.
    pub(crate) fn following(
        self,
        view: &'a mut FollowView,
        record: RecordId,
        store: Arc<dyn Store>,
        next: Seq,
    ) -> Self {
        Self { shown: Some(SessionDisplay { what: DisplayScope::All { view, record, store }, next }), ..self }
    }

    /// The turn whose prompt is shown before an event: where everything is followed, one that is over without an agent
    /// having been sent it.
    pub(super) async fn unsent(&self, event: &WatchedEvent) -> Result<Option<Turn>, CliError> {
        match self.shown.as_ref().map(|shown| &shown.what) {
            Some(DisplayScope::All { view, record, store }) => {
                Ok(unsent_turn(view, event, store, record).await?)
            }
            Some(DisplayScope::Turn { .. }) | None => Ok(None),
        }
    }

    /// Says that the record that is followed was closed, if it was by this event. A delete closes it too, and is told by
    /// itself.
    pub(super) async fn say_if_closed(&mut self, event: &WatchedEvent) -> Result<(), CliError> {
        let Some(DisplayScope::All { record, store, .. }) = self.shown.as_ref().map(|shown| &shown.what)
        else {
            return Ok(());
        };
        if !is_close(event) {
            return Ok(());
        }
        let kept = store.record(record.clone()).await?;
        let is_there = |record: &Record| !matches!(record.lifecycle, Lifecycle::Deleted { .. });
        // What was said before it is seen before it.
        if kept.as_ref().is_some_and(is_there) && self.flushed() {
            output::watched_closed(self.console);
        }
        Ok(())
    }

    /// Shows what has been written; false if that is no longer possible.
    pub(super) fn flushed(&mut self) -> bool {
        self.console.flush().map_err(|error| self.give_stdout_up(error)).is_ok()
    }

    /// Shows nothing more on stdout.
    pub(super) fn give_stdout_up(&mut self, error: io::Error) {
        self.console.give_stdout_up();
        self.unwritable = Some(error);
    }

    /// What a reason to stop comes to: whose terminal is gone has only nobody left to show anything to.
    pub(super) fn stop(&mut self, stop: InterruptReason) -> HostSessionEvent {
        if stop != InterruptReason::HungUp {
            return HostSessionEvent::Stop(stop);
        }
        self.give_stdout_up(io::ErrorKind::BrokenPipe.into());
        HostSessionEvent::Unwritable
    }

    /// Why stdout could not be written, if it could not.
    pub(crate) fn trouble_with_stdout(&mut self) -> Option<io::Error> {
        self.unwritable.take()
    }

    /// A turn has failed: sees whether all of it was shown.
    pub(super) fn note_unshown(&mut self, refusal: &HostErrorResponse) {
        let last = refusal.turn().and_then(|turn| turn.seq).map(Seq);
        let next = self.shown.as_ref().map(|shown| shown.next);
        self.unshown = next.filter(|next| Some(*next) <= last);
    }

    /// The first event that is not shown of a turn whose time was over, if there is one.
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

    /// Shows what belongs to our turn, and how the agent was brought back for it, which belongs to none. Where everything is
    /// followed, a prompt may stand before it.
    pub(super) fn show(&mut self, event: &WatchedEvent, unsent: Option<&Turn>) -> io::Result<()> {
        let before = self.console.shown();
        let written = self.write(event, unsent);
        // Many events, such as `usage_update`, write nothing while the turn runs.
        if self.console.shown() > before {
            self.desk.iter_mut().for_each(TerminalPrompter::cover);
        }
        written
    }

    fn write(&mut self, event: &WatchedEvent, unsent: Option<&Turn>) -> io::Result<()> {
        let Some(shown) = &mut self.shown else { return Ok(()) };
        shown.next = event.seq.next();
        if let Some(desk) = &mut self.desk {
            desk.saw(event);
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
        }
        let is_meant = event.turn.map_or_else(|| !is_conversation(event), |of| *turn == Some(of));
        if is_meant { view.event(event, self.console) } else { Ok(()) }
    }
}

/// Whether an event of no turn is part of the conversation all the same: what was said where this host was not. It is no
/// answer to anything that is asked here.
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

/// Whether the record is closed by an event.
fn is_close(event: &WatchedEvent) -> bool {
    event.direction == Direction::Ours
        && matches!(Fact::from_body(event.message.get()), Some(Fact::Closed {}))
}
