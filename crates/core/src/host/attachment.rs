//! What one client has of one record: a hold on it if it has it in use, and the streams it asked for.
//!
//! A stream is a follower of the record and a position, so it goes on when the record does, whichever session that is
//! in. Before a client gets the answer to its prompt, its streams have passed everything the turn said: the answer
//! never overtakes an update. Nor does an update overtake the answer that tells of its session.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::acp::agent::ClientLink;
use crate::acp::offers::as_result;
use crate::acp::render::{CONTENT_EVERY, Rendering};
use crate::engine::{Engine, Hold, RecordFollower, RestoreSession, Session, SessionError};
use crate::model::{Event, RecordId, RequestId, Seq};
use crate::store::{Store, StoreError};
use crate::wire::WireError;

use super::questions::Seat;
use super::replaying::{catch_up, teach};
use super::watched;

/// A record that a client has in use, or watches.
#[derive(Default)]
pub(super) struct Attachment {
    /// Whoever only watches does not keep the agent from being parked.
    hold: Option<Hold>,
    /// What the client would start the agent with.
    pub(super) given: RestoreSession,
    /// Its place among those who are asked what the agent asks, if it can be asked.
    pub(super) seat: Option<Seat>,
    /// The prompts that this client has asked and not heard the end of.
    pub(super) own: OwnPrompts,
    streams: Vec<Stream>,
}

/// How a stream tells what happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// As ACP does: updates of the agent.
    Updates,
    /// As it was exchanged: every event.
    Events,
}

/// The prompts of a client, which it need not be told: it has said them itself.
#[derive(Debug, Clone, Default)]
pub(super) struct OwnPrompts(Arc<watch::Sender<HashMap<Box<str>, Stage>>>);

/// How far a prompt has come towards its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// In version 2 it has no answer yet.
    Asked,
    /// It has, or will have none before its end.
    Answered,
}

/// One of them. Dropped, it is no more.
pub(super) struct OwnPrompt {
    own: OwnPrompts,
    request: Box<str>,
}

impl OwnPrompt {
    /// What is told of its turn need not wait for its answer any more.
    pub(super) fn answered(&self) {
        self.own.0.send_modify(|own| {
            if let Some(stage) = own.get_mut(&self.request) {
                *stage = Stage::Answered;
            }
        });
    }
}

impl Drop for OwnPrompt {
    fn drop(&mut self) {
        self.own.0.send_modify(|own| {
            own.remove(&self.request);
        });
    }
}

/// What a stream waits for before it tells anything: the answer that comes first. Dropped, it is open.
#[derive(Default)]
pub(super) struct Gate(watch::Sender<()>);

/// A stream's share of a gate.
pub(super) struct Gated(Option<watch::Receiver<()>>);

/// A stream to be begun.
pub(super) struct Telling<'a> {
    pub(super) how: How,
    pub(super) follower: RecordFollower,
    pub(super) record: &'a RecordId,
    pub(super) after: Gated,
    pub(super) link: &'a ClientLink,
}

/// How a stream tells what happens, with what that needs.
pub(super) enum How {
    Updates(Box<Updates>),
    Events,
}

/// What is needed to tell updates.
pub(super) struct Updates {
    pub(super) rendering: Rendering,
    pub(super) own: OwnPrompts,
    pub(super) store: Arc<dyn Store>,
    pub(super) engine: Engine,
}

/// A stream that runs.
pub(super) struct Stream {
    form: Form,
    passed: watch::Receiver<Seq>,
    task: JoinHandle<()>,
}

impl Gate {
    pub(super) fn wait(&self) -> Gated {
        Gated(Some(self.0.subscribe()))
    }
}

impl Gated {
    /// Nothing to wait for.
    pub(super) fn by_nothing() -> Self {
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
    pub(super) fn hold(&mut self, session: &Session, given: RestoreSession) {
        self.hold.get_or_insert_with(|| session.hold());
        self.given = given;
    }

    /// Whether the client has the record in use.
    pub(super) fn is_in_use(&self) -> bool {
        self.hold.is_some()
    }

    /// Tells the client what happens, unless a stream of this form does already.
    pub(super) fn stream_on(&mut self, telling: Telling<'_>) {
        let form = telling.how.form();
        let is_told = |stream: &Stream| stream.form == form && !stream.task.is_finished();
        if !self.streams.iter().any(is_told) {
            self.stream(telling);
        }
    }

    /// Tells the client what happens, in the place of a stream of this form that may run.
    pub(super) fn stream(&mut self, telling: Telling<'_>) {
        // What is not wanted counts as passed: nobody waits for it.
        let (told, passed) = watch::channel(Seq(telling.follower.position().0.saturating_sub(1)));
        let (record, link) = (telling.record.clone(), telling.link.clone());
        let Telling { how, follower, after, .. } = telling;
        let form = how.form();
        let task = tokio::spawn(async move {
            after.passed().await;
            run(how, follower, &record, &link, &told).await;
        });
        self.take_stream(form);
        self.streams.push(Stream { form, passed, task });
    }

    /// Takes out the stream of this form, if one runs. It tells nothing more once it is dropped and has ended.
    pub(super) fn take_stream(&mut self, form: Form) -> Option<Stream> {
        let taken = self.streams.extract_if(.., |stream| stream.form == form).last();
        taken.filter(|stream| !stream.task.is_finished())
    }

    /// Lets go of everything, and waits until nothing more is told.
    pub(super) async fn end(self) {
        let Self { hold, seat, streams, .. } = self;
        drop((hold, seat));
        for stream in streams {
            stream.stop().await;
        }
    }

    /// The streams, until they have passed this event: it comes before the answer to what has just been done.
    pub(super) fn until(&self, last: Option<Seq>) -> Passing {
        Passing { last, streams: self.streams.iter().map(|stream| stream.passed.clone()).collect() }
    }
}

impl Stream {
    /// Waits until it tells nothing more.
    pub(super) async fn stop(mut self) {
        self.task.abort();
        // However it ended, it has.
        drop((&mut self.task).await);
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl How {
    fn form(&self) -> Form {
        match self {
            Self::Updates(_) => Form::Updates,
            Self::Events => Form::Events,
        }
    }

    /// Waits for the answer to a prompt whose client is told next what came of it.
    async fn answered(&self, event: &Event) {
        if let Self::Updates(updates) = self
            && let Some(request) = updates.rendering.inserted(event)
        {
            updates.own.answered(request).await;
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
    fn owed(&mut self) -> Option<&mut Rendering> {
        match self {
            Self::Updates(updates) => Some(&mut updates.rendering).filter(|rendering| rendering.owes()),
            Self::Events => None,
        }
    }

    async fn lines(&mut self, record: &RecordId, event: &Event) -> Result<Vec<String>, StoreError> {
        match self {
            Self::Updates(updates) => updates.lines(record, event).await,
            Self::Events => Ok(vec![watched::notification(record.as_str(), event)]),
        }
    }
}

impl Updates {
    /// Takes in what the client knows.
    async fn catch_up(&mut self, record: &RecordId, from: Seq) -> Result<(), StoreError> {
        catch_up(&mut self.rendering, &self.store, record, from).await?;
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
        Ok(self.rendering.tell(event, &|request| self.own.has(request)))
    }
}

impl OwnPrompts {
    /// A prompt of the client, from before anybody can be told of it until the client has heard its end.
    pub(super) fn add(&self, request: &RequestId) -> OwnPrompt {
        self.0.send_modify(|own| {
            own.insert(request.as_str().into(), Stage::Asked);
        });
        OwnPrompt { own: self.clone(), request: request.as_str().into() }
    }

    fn has(&self, request: &str) -> bool {
        self.0.borrow().contains_key(request)
    }

    /// Waits until a prompt has its answer.
    async fn answered(&self, request: &str) {
        let is_answered = |own: &HashMap<_, _>| own.get(request) != Some(&Stage::Asked);
        // The prompts are there as long as whoever waits.
        drop(self.0.subscribe().wait_for(is_answered).await);
    }
}

/// Tells events until there are none, or nobody to tell. A watch that ends says so.
async fn run(
    mut how: How,
    mut follower: RecordFollower,
    record: &RecordId,
    link: &ClientLink,
    told: &watch::Sender<Seq>,
) {
    // A store that cannot be read ends the stream: the client's next request hears of it.
    if let How::Updates(updates) = &mut how
        && updates.catch_up(record, follower.position()).await.is_err()
    {
        return;
    }
    while let Ok(Some(event)) = next(&mut how, &mut follower, link).await {
        let Ok(mut lines) = how.lines(record, &event).await else { return };
        if !follower.has_ready() {
            lines.extend(how.pause());
        }
        if pass_on(lines, link).await.is_err() {
            return;
        }
        how.answered(&event).await;
        // Whoever waits for an event waits for the last of those that were kept together.
        if !follower.has_ready() {
            told.send_replace(event.seq);
        }
    }
    if how.form() == Form::Events {
        let params = json!({ "sessionId": record, "from": follower.position().0 });
        // A client that is gone does not miss it.
        drop(link.notify(watched::ENDED, &params.to_string()).await);
    }
}

/// The next event. What is held back for others to come with it is told if none comes for a while.
async fn next(
    how: &mut How,
    follower: &mut RecordFollower,
    link: &ClientLink,
) -> Result<Option<Event>, SessionError> {
    if let Some(rendering) = how.owed() {
        if let Ok(next) = tokio::time::timeout(CONTENT_EVERY, follower.next()).await {
            return next;
        }
        if pass_on(rendering.settle(), link).await.is_err() {
            return Ok(None);
        }
    }
    follower.next().await
}

/// Streams that have yet to reach an event.
pub(super) struct Passing {
    last: Option<Seq>,
    streams: Vec<watch::Receiver<Seq>>,
}

impl Passing {
    /// Waits until they have. One that has ended passes nothing more, and is not waited for.
    pub(super) async fn done(mut self) {
        for stream in &mut self.streams {
            drop(stream.wait_for(|passed| Some(*passed) >= self.last).await);
        }
    }
}

/// Passes lines on, in their order.
pub(super) async fn pass_on(lines: Vec<String>, link: &ClientLink) -> Result<(), WireError> {
    for line in lines {
        link.pass_on(line).await?;
    }
    Ok(())
}
