//! What one client has of one record: a hold on it if it has it in use, and the streams it asked for.
//!
//! A stream is a follower of the record and a position, so it goes on when the record does, whichever session that is
//! in. Before a client gets the answer to its prompt, its streams have passed everything the turn said: the answer
//! never overtakes an update. Nor does an update overtake the answer that tells of its session, or in version 1 the one
//! that ends the turn before it.

use std::sync::Arc;

use tokio::sync::{Mutex, OwnedMutexGuard, watch};
use tokio::task::JoinHandle;

use crate::acp::agent::{ClientFacts, ClientLink};
use crate::acp::offers::as_result;
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

/// A record that a client has in use, or watches.
#[derive(Default)]
pub(crate) struct Attachment {
    /// Whoever only watches does not keep the agent from being parked.
    hold: Option<Hold>,
    /// What the client would start the agent with.
    pub(crate) given: RestoreSession,
    /// Its place among those who are asked what the agent asks, if it can be asked.
    seat: Option<ResponderGuard>,
    /// The prompts that this client has asked and not heard the end of.
    pub(crate) own: OwnPrompts,
    /// What it is told as ACP tells it.
    updates: Streaming,
    /// What it is told as it was exchanged.
    events: Streaming,
}

/// What a client is told in one form.
#[derive(Default)]
struct Streaming {
    progress: DeliveryProgress,
    stream: Option<StreamHandle>,
}

/// What a stream waits for before it tells anything: the answer that comes first. Dropped, it is open.
#[derive(Default)]
pub(crate) struct AnswerGate(watch::Sender<()>);

/// A stream's share of a gate.
pub(crate) struct GateWaiter(Option<watch::Receiver<()>>);

/// A stream to be begun.
pub(crate) struct StreamSpec<'a> {
    pub(crate) how: StreamKind,
    pub(crate) follower: RecordFollower,
    pub(crate) record: &'a RecordId,
    pub(crate) after: GateWaiter,
    pub(crate) link: &'a ClientLink,
}

/// How a stream tells what happens, with what that needs.
pub(crate) enum StreamKind {
    Updates(Box<UpdateContext>),
    Events,
}

/// What is needed to tell updates.
pub(crate) struct UpdateContext {
    pub(crate) rendering: RecordRenderer,
    pub(crate) own: OwnPrompts,
    /// The turns that are not its own, for a client that wants to know of them.
    pub(crate) others: Option<OthersTurns>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) engine: Engine,
    pub(crate) elicited: UrlElicitations,
}

/// A stream that runs.
struct StreamHandle {
    task: JoinHandle<()>,
    /// The last event that was told. Whoever has it is alone with the client: the stream has it while it tells one.
    telling: Arc<Mutex<Seq>>,
}

/// Updates that pause. Dropped, they go on where they were.
pub(crate) struct PausedStream {
    last: OwnedMutexGuard<Seq>,
}

impl PausedStream {
    /// The event that they go on with.
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
    /// Nothing to wait for.
    pub(crate) fn by_nothing() -> Self {
        Self(None)
    }

    async fn passed(self) {
        let Some(mut gate) = self.0 else { return };
        // Nothing is ever sent: the only news is that the gate is gone.
        while gate.changed().await.is_ok() {}
    }
}

impl Attachment {
    /// The client has the record in use from here on, and would start its agent with this.
    pub(crate) fn hold(&mut self, session: &Session, given: RestoreSession) {
        self.hold.get_or_insert_with(|| session.hold());
        self.given = given.without_reset();
    }

    /// The client can be asked from here on, or no more.
    pub(crate) fn sit(&mut self, seat: Option<ResponderGuard>) {
        if let Some(seat) = &seat
            && !self.updates.runs()
        {
            // Whoever waits to ask it waits for the stream that comes now.
            self.updates.progress = seat.progress().clone();
        }
        self.seat = seat;
    }

    /// Whether the client has the record in use.
    pub(crate) fn is_in_use(&self) -> bool {
        self.hold.is_some()
    }

    /// Whether the client is told updates.
    pub(crate) fn is_told_updates(&self) -> bool {
        self.updates.runs()
    }

    /// How far it has been told the updates.
    pub(crate) fn progress(&self) -> &DeliveryProgress {
        &self.updates.progress
    }

    /// How far it has been told the events as they were exchanged.
    pub(crate) fn watched(&self) -> &DeliveryProgress {
        &self.events.progress
    }

    /// Tells the client what happens, unless a stream of this form does already.
    pub(crate) fn stream_on(&mut self, telling: StreamSpec<'_>) {
        if !self.streaming(&telling.how).runs() {
            self.stream(telling);
        }
    }

    /// Tells the client what happens, in the place of a stream of this form that may run.
    pub(crate) fn stream(&mut self, telling: StreamSpec<'_>) {
        self.streaming(&telling.how).begin(telling);
    }

    /// Stops telling the client updates, as soon as those of one event are out; `None` if it is told none.
    pub(crate) fn pause(&self) -> Option<impl Future<Output = PausedStream> + use<>> {
        let stream = self.updates.stream.as_ref().filter(|_| self.updates.runs())?;
        let alone = Arc::clone(&stream.telling).lock_owned();
        Some(async move { PausedStream { last: alone.await } })
    }

    /// Lets go of everything, and waits until nothing more is told.
    pub(crate) async fn end(self) {
        let Self { hold, seat, updates, events, .. } = self;
        drop((hold, seat));
        for stream in [updates.stream, events.stream].into_iter().flatten() {
            stream.stop().await;
        }
    }

    /// The streams, until they have passed this event: it comes before the answer to what has just been done.
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
        // What is not wanted counts as passed: nobody waits for it.
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
    /// Waits until it tells nothing more.
    async fn stop(mut self) {
        self.task.abort();
        // However it ended, it has.
        drop((&mut self.task).await);
    }
}

impl Drop for StreamHandle {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl StreamKind {
    /// Waits for the answer that comes before what is told next: that a prompt was inserted, or the end of a turn.
    async fn answered(&self, event: &Event, ended: Option<TurnId>) {
        let Self::Updates(updates) = self else { return };
        if let Some(request) = updates.rendering.inserted(event) {
            updates.own.answered(request).await;
        }
        if let Some(turn) = ended {
            updates.own.ended(turn).await;
        }
    }

    /// The turn that ends with an event, if its client is answered then; one of its own that begins is noted.
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

    /// What is told when no event is at hand.
    fn pause(&mut self) -> Vec<String> {
        match self {
            Self::Updates(updates) => updates.rendering.pause(),
            Self::Events => Vec::new(),
        }
    }

    /// What is told if no event comes for a while, if there is anything.
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
    /// Takes in what the client knows.
    async fn catch_up(&mut self, record: &RecordId, from: Seq) -> Result<(), StoreError> {
        catch_up(&mut self.rendering, &self.store, record, from).await?;
        if let Some(others) = &mut self.others {
            let client = ClientFacts::default();
            others.stand(&standing(&self.store, record, &client, from, None).await?);
        }
        // How the session stands it has been told.
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

/// What tells a client one record.
struct StreamTask {
    how: StreamKind,
    record: RecordId,
    link: ClientLink,
    told: Reporting,
    telling: Arc<Mutex<Seq>>,
}

impl StreamTask {
    /// Tells events until there are none, or nobody to tell. A watch that ends says so.
    async fn run(&mut self, mut follower: RecordFollower) {
        // A store that cannot be read ends the stream: the client's next request hears of it.
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
            // Mostly nobody waits, or whoever does waits for the last of those that were kept together.
            if !has_more || ended.is_some() || self.told.is_awaited() {
                self.told.told(event.seq);
            }
            self.how.answered(&event, ended).await;
        };
        if matches!(self.how, StreamKind::Events) {
            let why = why.map(|error| rpc_error::of_stream(&error));
            let params = watched_event::ended(self.record.as_str(), follower.position(), why.as_ref());
            // A client that is gone does not miss it.
            drop(self.link.notify(watched_event::ENDED, &params).await);
        }
    }

    /// The next event. What is held back for others to come with it is told if none comes for a while.
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

    /// Tells one event, alone with the client; `None` if that cannot be.
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

/// Passes lines on, in their order.
pub(crate) async fn pass_on(lines: Vec<String>, link: &ClientLink) -> Result<(), WireError> {
    for line in lines {
        link.pass_on(line).await?;
    }
    Ok(())
}
