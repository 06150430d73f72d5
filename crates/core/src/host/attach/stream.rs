//! The streams that a client receives of one record: ACP updates, or raw events.
//!
//! A stream is a record follower with a position, so it continues across the record's ACP sessions. The reply to a
//! prompt never overtakes an update: it is sent after the client's streams have delivered every event of the turn. An
//! update never overtakes the reply that introduces its session, nor, in version 1, the reply that ends the previous
//! turn.

use std::sync::Arc;

use tokio::sync::{Mutex, OwnedMutexGuard, watch};
use tokio::task::JoinHandle;

use crate::acp::agent::{ClientFacts, ClientLink};
use crate::acp::config_options::as_result;
use crate::acp::render::{CONTENT_EVERY, RecordRenderer};
use crate::engine::{Engine, RecordFollower, SessionError};
use crate::model::{Event, EventKind, Fact, ProtocolVersion, RecordId, Seq, TurnId};
use crate::store::{Store, StoreError};
use crate::wire::WireError;

use super::delivered::{DeliveryProgress, DeliveryReporter};
use super::foreign_turns::ForeignTurns;
use super::own_prompts::OwnPrompts;
use super::replay::{catch_up, state_before};
use crate::host::permissions::url_elicitations::UrlElicitations;
use crate::protocol::rpc_error;
use crate::protocol::watched_event;

/// The place of a client's stream of one kind. Its delivery progress outlives a stream.
#[derive(Default)]
pub(crate) struct StreamSlot {
    pub(crate) progress: DeliveryProgress,
    running: Option<StreamHandle>,
}

/// Holds a stream back until the reply that must precede it was sent. Dropping the gate opens it.
#[derive(Default)]
pub(crate) struct AnswerGate(watch::Sender<()>);

/// The stream's end of an [`AnswerGate`]; the default never waits.
#[derive(Default)]
pub(crate) struct GateWaiter(Option<watch::Receiver<()>>);

/// A stream to start.
pub(crate) struct StreamSpec {
    pub(crate) kind: StreamKind,
    pub(crate) follower: RecordFollower,
    pub(crate) record: RecordId,
    pub(crate) after: GateWaiter,
    pub(crate) link: ClientLink,
}

/// The form in which a stream sends events, with the state this form needs.
pub(crate) enum StreamKind {
    Updates(Box<UpdateContext>),
    Events,
}

/// State for rendering events as ACP updates.
pub(crate) struct UpdateContext {
    pub(crate) renderer: RecordRenderer,
    pub(crate) own_prompts: OwnPrompts,
    /// Reports the turns of other clients, if the client asked for that.
    pub(crate) foreign_turns: Option<ForeignTurns>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) engine: Engine,
    pub(crate) url_elicitations: UrlElicitations,
}

/// A running stream.
struct StreamHandle {
    task: JoinHandle<()>,
    /// The last event that was sent. The stream locks it while it sends an event, so the lock's holder is the only
    /// sender.
    last_sent: Arc<Mutex<Seq>>,
}

/// A paused update stream. It continues when this is dropped.
pub(crate) struct PausedStream {
    last: OwnedMutexGuard<Seq>,
}

impl PausedStream {
    /// The event with which the stream continues.
    pub(crate) fn next(&self) -> Seq {
        self.last.next()
    }
}

impl AnswerGate {
    pub(crate) fn wait(&self) -> GateWaiter {
        GateWaiter(Some(self.0.subscribe()))
    }
}

impl GateWaiter {
    async fn opened(self) {
        let Some(mut gate) = self.0 else { return };
        // Nothing is ever sent: the channel only closes when the gate is dropped.
        while gate.changed().await.is_ok() {}
    }
}

impl StreamSlot {
    pub(crate) fn is_running(&self) -> bool {
        self.running.as_ref().is_some_and(|stream| !stream.task.is_finished())
    }

    /// Starts a stream, and replaces a running one.
    pub(crate) fn start(&mut self, spec: StreamSpec) {
        let StreamSpec { kind, follower, record, after, link } = spec;
        // Events before the follower's position count as delivered.
        let last = Seq(follower.position().0.saturating_sub(1));
        let progress = self.progress.start_stream(last);
        let last_sent = Arc::new(Mutex::new(last));
        let mut stream = StreamTask { kind, record, link, progress, last_sent: Arc::clone(&last_sent) };
        let task = tokio::spawn(async move {
            after.opened().await;
            stream.run(follower).await;
        });
        self.running = Some(StreamHandle { task, last_sent });
    }

    /// Pauses the stream after the event it is sending; `None` if it is not running.
    pub(crate) fn pause(&self) -> Option<impl Future<Output = PausedStream> + use<>> {
        let stream = self.running.as_ref().filter(|_| self.is_running())?;
        let last = Arc::clone(&stream.last_sent).lock_owned();
        Some(async move { PausedStream { last: last.await } })
    }

    /// Aborts the stream's task, and waits until it has ended.
    pub(crate) async fn stop(self) {
        if let Some(mut stream) = self.running {
            stream.task.abort();
            // The outcome of an aborted task does not matter.
            drop((&mut stream.task).await);
        }
    }
}

impl Drop for StreamHandle {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl StreamKind {
    /// Waits for the reply that must precede the next event: "prompt inserted", or the end of a turn.
    async fn wait_for_reply(&self, event: &Event, ended: Option<TurnId>) {
        let Self::Updates(updates) = self else { return };
        if let Some(request) = updates.renderer.inserted(event) {
            updates.own_prompts.wait_answered(request).await;
        }
        if let Some(turn) = ended {
            updates.own_prompts.wait_ended(turn).await;
        }
    }

    /// The turn that this event ends, if version 1 replies to its prompt then. Links a turn that starts to its own
    /// prompt.
    fn ended_turn(&self, event: &Event, protocol: ProtocolVersion) -> Option<TurnId> {
        let Self::Updates(updates) = self else { return None };
        if event.kind != EventKind::Fact || protocol != ProtocolVersion::V1 {
            return None;
        }
        match Fact::from_body(&event.body)? {
            Fact::TurnStarted { turn, request_id, .. } => {
                updates.own_prompts.link_turn(&request_id, TurnId(turn));
                None
            }
            Fact::TurnEnded { turn, .. } => Some(TurnId(turn)),
            _ => None,
        }
    }

    /// The lines to send when no further event is ready.
    fn pause(&mut self) -> Vec<String> {
        match self {
            Self::Updates(updates) => updates.renderer.pause(),
            Self::Events => Vec::new(),
        }
    }

    /// The renderer, if it holds back lines that are due when no event follows soon.
    fn renderer_with_held_lines(&mut self) -> Option<&mut RecordRenderer> {
        match self {
            Self::Updates(updates) => Some(&mut updates.renderer).filter(|renderer| renderer.has_pending()),
            Self::Events => None,
        }
    }

    async fn lines(&mut self, record: &RecordId, event: &Event) -> Result<Vec<String>, StoreError> {
        match self {
            Self::Updates(updates) => updates.lines(record, event).await,
            Self::Events => Ok(vec![watched_event::notification(record.as_str(), event)]),
        }
    }
}

impl UpdateContext {
    /// Brings the renderer to the state that the client already knows.
    async fn catch_up(&mut self, record: &RecordId, from: Seq) -> Result<(), StoreError> {
        catch_up(&mut self.renderer, &self.store, record, from).await?;
        if let Some(foreign_turns) = &mut self.foreign_turns {
            let client = ClientFacts::default();
            foreign_turns.set_running(&state_before(&self.store, record, &client, from, None).await?);
        }
        // The client already has the session's state.
        drop(self.renderer.pause());
        Ok(())
    }

    async fn lines(&mut self, record: &RecordId, event: &Event) -> Result<Vec<String>, StoreError> {
        if self.renderer.lacks_offers(event)
            && let Ok(Some(session)) = self.engine.running(record).await
        {
            self.renderer.offers(&as_result(&session.offered()));
        }
        let is_own = |request: &str| self.own_prompts.contains(request);
        let mut lines = self.renderer.render(event, &is_own);
        lines.extend(self.foreign_turns.as_mut().and_then(|turns| turns.on_event(event, is_own)));
        lines.extend(self.url_elicitations.completed(record, event));
        Ok(lines)
    }
}

/// The task that streams one record to one client.
struct StreamTask {
    kind: StreamKind,
    record: RecordId,
    link: ClientLink,
    progress: DeliveryReporter,
    last_sent: Arc<Mutex<Seq>>,
}

impl StreamTask {
    /// Sends events until the record or the connection ends. A raw event stream ends with a notification.
    async fn run(&mut self, mut follower: RecordFollower) {
        // A store error ends the stream; the client's next request reports it.
        if let StreamKind::Updates(updates) = &mut self.kind
            && updates.catch_up(&self.record, follower.position()).await.is_err()
        {
            return;
        }
        let protocol = self.link.client().protocol;
        let error = loop {
            let event = match self.next(&mut follower).await {
                Ok(Some(event)) => event,
                Ok(None) => break None,
                Err(error) => break Some(error),
            };
            let has_more = follower.has_ready();
            if self.send(&event, has_more).await.is_none() {
                return;
            }
            let ended = self.kind.ended_turn(&event, protocol);
            // Waking waiters once per batch is enough, unless one is waiting or a turn ended.
            if !has_more || ended.is_some() || self.progress.is_awaited() {
                self.progress.on_delivered(event.seq);
            }
            self.kind.wait_for_reply(&event, ended).await;
        };
        if matches!(self.kind, StreamKind::Events) {
            let error = error.map(|error| rpc_error::of_stream(&error));
            let params = watched_event::ended(self.record.as_str(), follower.position(), error.as_ref());
            // The client may have disconnected.
            drop(self.link.notify(watched_event::ENDED, &params).await);
        }
    }

    /// The next event. Flushes lines that the renderer holds back if no event follows within [`CONTENT_EVERY`].
    async fn next(&mut self, follower: &mut RecordFollower) -> Result<Option<Event>, SessionError> {
        if let Some(renderer) = self.kind.renderer_with_held_lines() {
            if let Ok(next) = tokio::time::timeout(CONTENT_EVERY, follower.next()).await {
                return next;
            }
            let _last = self.last_sent.lock().await;
            if send_lines(renderer.settle(), &self.link).await.is_err() {
                return Ok(None);
            }
        }
        follower.next().await
    }

    /// Sends one event under the stream's lock; `None` if reading or sending failed.
    async fn send(&mut self, event: &Event, has_more: bool) -> Option<()> {
        let mut last = self.last_sent.lock().await;
        let mut lines = self.kind.lines(&self.record, event).await.ok()?;
        if !has_more {
            lines.extend(self.kind.pause());
        }
        send_lines(lines, &self.link).await.ok()?;
        *last = event.seq;
        Some(())
    }
}

/// Sends lines in order.
pub(crate) async fn send_lines(lines: Vec<String>, link: &ClientLink) -> Result<(), WireError> {
    for line in lines {
        link.pass_on(line).await?;
    }
    Ok(())
}
