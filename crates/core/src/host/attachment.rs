//! What one client has of one record: a hold on it if it has it in use, and the streams it asked for.
//!
//! A stream is a follower of the record and a position, so it goes on when the record does, whichever session that is
//! in. Before a client gets the answer to its prompt, its streams have passed everything the turn said: the answer
//! never overtakes an update. Nor does an update overtake the answer that tells of its session.

use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::acp::agent::ClientLink;
use crate::acp::{pass_on_update, replayed_prompt};
use crate::engine::{Follower, Hold, RecordFollower, RestoreSession, Session, SessionError};
use crate::model::{AcpSessionId, Direction, Event, EventKind, RecordId, Seq};
use crate::wire::WireError;

use super::questions::Seat;
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

/// What a stream waits for before it tells anything: the answer that comes first. Dropped, it is open.
#[derive(Default)]
pub(super) struct Gate(watch::Sender<()>);

/// A stream's share of a gate.
pub(super) struct Gated(Option<watch::Receiver<()>>);

/// A stream to be begun.
pub(super) struct Telling<'a> {
    pub(super) form: Form,
    pub(super) follower: RecordFollower,
    pub(super) record: &'a RecordId,
    pub(super) after: Gated,
    pub(super) link: &'a ClientLink,
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
        let is_told = |stream: &Stream| stream.form == telling.form && !stream.task.is_finished();
        if !self.streams.iter().any(is_told) {
            self.stream(telling);
        }
    }

    /// Tells the client what happens, in the place of a stream of this form that may run.
    pub(super) fn stream(&mut self, telling: Telling<'_>) {
        // What is not wanted counts as passed: nobody waits for it.
        let (told, passed) = watch::channel(Seq(telling.follower.position().0.saturating_sub(1)));
        let (record, link) = (telling.record.clone(), telling.link.clone());
        let Telling { form, follower, after, .. } = telling;
        let task = tokio::spawn(async move {
            after.passed().await;
            run(form, follower, &record, &link, &told).await;
        });
        self.take_stream(form);
        self.streams.push(Stream { form, passed, task });
    }

    /// Takes out the stream of this form, if one runs. It tells nothing more once it is dropped and has ended.
    pub(super) fn take_stream(&mut self, form: Form) -> Option<Stream> {
        let taken = self.streams.extract_if(.., |stream| stream.form == form).last();
        taken.filter(|stream| !stream.task.is_finished())
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

/// Tells events until there are none, or nobody to tell. A watch that ends says so.
async fn run(
    form: Form,
    mut follower: RecordFollower,
    record: &RecordId,
    link: &ClientLink,
    told: &watch::Sender<Seq>,
) {
    // A store that cannot be read ends the stream, too: the client's next request hears of it.
    while let Ok(Some(event)) = follower.next().await {
        if tell(form, record, &event, link).await.is_err() {
            return;
        }
        // Whoever waits for an event waits for the last of those that were kept together.
        if !follower.has_ready() {
            told.send_replace(event.seq);
        }
    }
    if form == Form::Events {
        let params = json!({ "sessionId": record, "from": follower.position().0 });
        // A client that is gone does not miss it.
        drop(link.notify(watched::ENDED, &params.to_string()).await);
    }
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

async fn tell(form: Form, record: &RecordId, event: &Event, link: &ClientLink) -> Result<(), WireError> {
    match (form, event.kind) {
        (Form::Events, _) => link.notify(watched::EVENT, &watched::params(record.as_str(), event)).await,
        (Form::Updates, EventKind::Update) => match pass_on_update(&event.body, record.as_str()) {
            Some(update) => link.pass_on(update).await,
            None => Ok(()),
        },
        (Form::Updates, _) => Ok(()),
    }
}

/// Replays a conversation to a client that loads it, up to an event: what the agent said, and what it was asked.
pub(super) async fn replay(
    mut follower: Follower,
    until: Option<Seq>,
    client: &AcpSessionId,
    link: &ClientLink,
) -> Result<Result<(), WireError>, SessionError> {
    while let Some(event) = follower.next().await? {
        if Some(event.seq) > until {
            break;
        }
        let lines = match (event.direction, event.kind) {
            (Direction::FromAgent, EventKind::Update) => {
                pass_on_update(&event.body, client.as_str()).into_iter().collect()
            }
            (Direction::ToAgent, EventKind::Request) => replayed_prompt(&event.body, client.as_str()),
            _ => Vec::new(),
        };
        for line in lines {
            if let Err(error) = link.pass_on(line).await {
                return Ok(Err(error));
            }
        }
    }
    Ok(Ok(()))
}
