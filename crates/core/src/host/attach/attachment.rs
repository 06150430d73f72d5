//! One client's attachment to one record: a hold while it uses the record, and the streams it subscribed to.
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
use crate::engine::{Engine, Hold, RecordFollower, RestoreSession, Session, SessionError};
use crate::model::{Event, EventKind, Fact, ProtocolVersion, RecordId, Seq, TurnId};
use crate::store::{Store, StoreError};
use crate::wire::WireError;

use super::delivered::{DeliveryProgress, Reporting};
use super::foreign_turns::OthersTurns;
use super::own_prompts::OwnPrompts;
use super::replay::{catch_up, standing, teach};
use crate::host::permissions::responders::ResponderGuard;
use crate::host::permissions::url_elicitations::UrlElicitations;
use crate::protocol::rpc_error;
use crate::protocol::watched_event;

/// A record that a client uses or watches.
#[derive(Default)]
pub(crate) struct Attachment {
    /// `None` for a client that only watches: it does not keep the agent from being parked.
    hold: Option<Hold>,
    /// The parameters with which this client would start the agent.
    pub(crate) given: RestoreSession,
    /// Registers the client as a responder to the agent's requests, if it can answer them.
    seat: Option<ResponderGuard>,
    /// The client's prompts whose final reply it has not received.
    pub(crate) own: OwnPrompts,
    /// The stream of ACP updates.
    updates: Streaming,
    /// The stream of raw events.
    events: Streaming,
}

/// One stream of a client and its delivery progress.
#[derive(Default)]
struct Streaming {
    progress: DeliveryProgress,
    stream: Option<StreamHandle>,
}

/// Holds a stream back until the reply that must precede it was sent. Dropping the gate opens it.
#[derive(Default)]
pub(crate) struct AnswerGate(watch::Sender<()>);

/// The stream's end of an [`AnswerGate`].
pub(crate) struct GateWaiter(Option<watch::Receiver<()>>);

/// A stream to start.
pub(crate) struct StreamSpec<'a> {
    pub(crate) how: StreamKind,
    pub(crate) follower: RecordFollower,
    pub(crate) record: &'a RecordId,
    pub(crate) after: GateWaiter,
    pub(crate) link: &'a ClientLink,
}

/// The form in which a stream sends events, with the state this form needs.
pub(crate) enum StreamKind {
    Updates(Box<UpdateContext>),
    Events,
}

/// State for rendering events as ACP updates.
pub(crate) struct UpdateContext {
    pub(crate) rendering: RecordRenderer,
    pub(crate) own: OwnPrompts,
    /// Reports the turns of other clients, if the client asked for that.
    pub(crate) others: Option<OthersTurns>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) engine: Engine,
    pub(crate) elicited: UrlElicitations,
}

/// A running stream.
struct StreamHandle {
    task: JoinHandle<()>,
    /// The last event that was sent. The stream locks it while it sends an event, so the lock's holder is the only
    /// sender.
    telling: Arc<Mutex<Seq>>,
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
    /// A waiter that never waits.
    pub(crate) fn by_nothing() -> Self {
        Self(None)
    }

    async fn passed(self) {
        let Some(mut gate) = self.0 else { return };
        // Nothing is ever sent: the channel only closes when the gate is dropped.
        while gate.changed().await.is_ok() {}
    }
}

impl Attachment {
    /// Marks the record as in use by the client, and stores how the client would start its agent.
    pub(crate) fn hold(&mut self, session: &Session, given: RestoreSession) {
        self.hold.get_or_insert_with(|| session.hold());
        self.given = given.without_reset();
    }

    /// Registers the client as a responder, or unregisters it.
    pub(crate) fn sit(&mut self, seat: Option<ResponderGuard>) {
        if let Some(seat) = &seat
            && !self.updates.runs()
        {
            // Requests that wait for this responder's progress now wait for the stream that starts next.
            self.updates.progress = seat.progress().clone();
        }
        self.seat = seat;
    }

    /// Whether the client uses the record.
    pub(crate) fn is_in_use(&self) -> bool {
        self.hold.is_some()
    }

    /// Whether an update stream is running.
    pub(crate) fn is_told_updates(&self) -> bool {
        self.updates.runs()
    }

    /// The delivery progress of the update stream.
    pub(crate) fn progress(&self) -> &DeliveryProgress {
        &self.updates.progress
    }

    /// The delivery progress of the raw event stream.
    pub(crate) fn watched(&self) -> &DeliveryProgress {
        &self.events.progress
    }

    /// Starts a stream, unless one of the same kind is running.
    pub(crate) fn stream_on(&mut self, telling: StreamSpec<'_>) {
        if !self.streaming(&telling.how).runs() {
            self.stream(telling);
        }
    }

    /// Starts a stream, and replaces one of the same kind.
    pub(crate) fn stream(&mut self, telling: StreamSpec<'_>) {
        self.streaming(&telling.how).begin(telling);
    }

    /// Pauses the update stream after the event it is sending; `None` if no update stream is running.
    pub(crate) fn pause(&self) -> Option<impl Future<Output = PausedStream> + use<>> {
        let stream = self.updates.stream.as_ref().filter(|_| self.updates.runs())?;
        let alone = Arc::clone(&stream.telling).lock_owned();
        Some(async move { PausedStream { last: alone.await } })
    }

    /// Releases the record, and waits until both streams have stopped.
    pub(crate) async fn end(self) {
        let Self { hold, seat, updates, events, .. } = self;
        drop((hold, seat));
        for stream in [updates.stream, events.stream].into_iter().flatten() {
            stream.stop().await;
        }
    }

    /// Waits until both streams have passed this event, which must be delivered before the reply.
    pub(crate) fn until(&self, last: Option<Seq>) -> impl Future<Output = ()> + use<> {
        let told = [&self.updates, &self.events].map(|streaming| streaming.progress.clone());
        async move {
            for progress in told {
                progress.passed(last).await;
            }
        }
    }

    fn streaming(&mut self, how: &StreamKind) -> &mut Streaming {
        match how {
            StreamKind::Updates(_) => &mut self.updates,
            StreamKind::Events => &mut self.events,
        }
    }
}

impl Streaming {
    fn runs(&self) -> bool {
        self.stream.as_ref().is_some_and(|stream| !stream.task.is_finished())
    }

    fn begin(&mut self, telling: StreamSpec<'_>) {
        let (record, link) = (telling.record.clone(), telling.link.clone());
        let StreamSpec { how, follower, after, .. } = telling;
        // Events before the follower's position count as delivered.
        let last = Seq(follower.position().0.saturating_sub(1));
        let told = self.progress.begin(last);
        let alone = Arc::new(Mutex::new(last));
        let mut telling = StreamTask { how, record, link, told, telling: Arc::clone(&alone) };
        let task = tokio::spawn(async move {
            after.passed().await;
            telling.run(follower).await;
        });
        self.stream = Some(StreamHandle { task, telling: alone });
    }
}

impl StreamHandle {
    /// Aborts the task, and waits until it has ended.
    async fn stop(mut self) {
        self.task.abort();
        // The outcome of an aborted task does not matter.
        drop((&mut self.task).await);
    }
}

impl Drop for StreamHandle {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl StreamKind {
    /// Waits for the reply that must precede the next event: "prompt inserted", or the end of a turn.
    async fn answered(&self, event: &Event, ended: Option<TurnId>) {
        let Self::Updates(updates) = self else { return };
        if let Some(request) = updates.rendering.inserted(event) {
            updates.own.answered(request).await;
        }
        if let Some(turn) = ended {
            updates.own.ended(turn).await;
        }
    }

    /// The turn that this event ends, if version 1 replies to its prompt then. Links a turn that starts to its own
    /// prompt.
    fn ended(&self, event: &Event, protocol: ProtocolVersion) -> Option<TurnId> {
        let Self::Updates(updates) = self else { return None };
        if event.kind != EventKind::Fact || protocol != ProtocolVersion::V1 {
            return None;
        }
        match Fact::from_body(&event.body)? {
            Fact::TurnStarted { turn, request_id, .. } => {
                updates.own.is_turn(&request_id, TurnId(turn));
                None
            }
            Fact::TurnEnded { turn, .. } => Some(TurnId(turn)),
            _ => None,
        }
    }

    /// The lines to send when no further event is ready.
    fn pause(&mut self) -> Vec<String> {
        match self {
            Self::Updates(updates) => updates.rendering.pause(),
            Self::Events => Vec::new(),
        }
    }

    /// The renderer, if it holds back lines that are due when no event follows soon.
    fn owed(&mut self) -> Option<&mut RecordRenderer> {
        match self {
            Self::Updates(updates) => Some(&mut updates.rendering).filter(|rendering| rendering.owes()),
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
        catch_up(&mut self.rendering, &self.store, record, from).await?;
        if let Some(others) = &mut self.others {
            let client = ClientFacts::default();
            others.stand(&standing(&self.store, record, &client, from, None).await?);
        }
        // The client already has the session's state.
        drop(self.rendering.pause());
        Ok(())
    }

    async fn lines(&mut self, record: &RecordId, event: &Event) -> Result<Vec<String>, StoreError> {
        teach(&mut self.rendering, &self.store, record, event).await?;
        if self.rendering.lacks_offers(event)
            && let Ok(Some(session)) = self.engine.running(record).await
        {
            self.rendering.offers(&as_result(&session.offered()));
        }
        let is_own = |request: &str| self.own.has(request);
        let mut lines = self.rendering.tell(event, &is_own);
        lines.extend(self.others.as_mut().and_then(|others| others.take(event, is_own)));
        lines.extend(self.elicited.completed(record, event));
        Ok(lines)
    }
}

/// The task that streams one record to one client.
struct StreamTask {
    how: StreamKind,
    record: RecordId,
    link: ClientLink,
    told: Reporting,
    telling: Arc<Mutex<Seq>>,
}

impl StreamTask {
    /// Sends events until the record or the connection ends. A raw event stream ends with a notification.
    async fn run(&mut self, mut follower: RecordFollower) {
        // A store error ends the stream; the client's next request reports it.
        if let StreamKind::Updates(updates) = &mut self.how
            && updates.catch_up(&self.record, follower.position()).await.is_err()
        {
            return;
        }
        let protocol = self.link.client().protocol;
        let why = loop {
            let event = match self.next(&mut follower).await {
                Ok(Some(event)) => event,
                Ok(None) => break None,
                Err(error) => break Some(error),
            };
            let has_more = follower.has_ready();
            if self.tell(&event, has_more).await.is_none() {
                return;
            }
            let ended = self.how.ended(&event, protocol);
            // Waking waiters once per batch is enough, unless one is waiting or a turn ended.
            if !has_more || ended.is_some() || self.told.is_awaited() {
                self.told.told(event.seq);
            }
            self.how.answered(&event, ended).await;
        };
        if matches!(self.how, StreamKind::Events) {
            let why = why.map(|error| rpc_error::of_stream(&error));
            let params = watched_event::ended(self.record.as_str(), follower.position(), why.as_ref());
            // The client may have disconnected.
            drop(self.link.notify(watched_event::ENDED, &params).await);
        }
    }

    /// The next event. Flushes lines that the renderer holds back if no event follows within [`CONTENT_EVERY`].
    async fn next(&mut self, follower: &mut RecordFollower) -> Result<Option<Event>, SessionError> {
        if let Some(rendering) = self.how.owed() {
            if let Ok(next) = tokio::time::timeout(CONTENT_EVERY, follower.next()).await {
                return next;
            }
            let _alone = self.telling.lock().await;
            if pass_on(rendering.settle(), &self.link).await.is_err() {
                return Ok(None);
            }
        }
        follower.next().await
    }

    /// Sends one event under the stream's lock; `None` if reading or sending failed.
    async fn tell(&mut self, event: &Event, has_more: bool) -> Option<()> {
        let mut last = self.telling.lock().await;
        let mut lines = self.how.lines(&self.record, event).await.ok()?;
        if !has_more {
            lines.extend(self.how.pause());
        }
        pass_on(lines, &self.link).await.ok()?;
        *last = event.seq;
        Some(())
    }
}

/// Forwards lines in order.
pub(crate) async fn pass_on(lines: Vec<String>, link: &ClientLink) -> Result<(), WireError> {
    for line in lines {
        link.pass_on(line).await?;
    }
    Ok(())
}
