//! What one client has of one session: a hold on it if it has it in use, and the streams it asked for.
//!
//! A stream is a follower of the record and a position. Before a client gets the answer to its prompt, its
//! streams have passed everything the turn said: the answer never overtakes an update.

use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::acp::agent::ClientLink;
use crate::acp::{pass_on_update, replayed_prompt};
use crate::engine::{Follower, Hold, Session, SessionError};
use crate::model::{AcpSessionId, Direction, Event, EventKind, RecordId, Seq};
use crate::wire::WireError;

use super::watched;

/// A session that a client has in use, or watches.
pub(super) struct Attachment {
    pub(super) session: Session,
    /// Whoever only watches does not keep the agent from being parked.
    hold: Option<Hold>,
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

struct Stream {
    form: Form,
    passed: watch::Receiver<Seq>,
    task: JoinHandle<()>,
}

impl Attachment {
    pub(super) fn new(session: Session) -> Self {
        Self { session, hold: None, streams: Vec::new() }
    }

    /// The client has the session in use from here on.
    pub(super) fn hold(&mut self) {
        self.hold.get_or_insert_with(|| self.session.hold());
    }

    /// Whether it is of this running session, and not of one that has ended since.
    pub(super) fn is_of(&self, session: &Session) -> bool {
        self.session.is_same(session)
    }

    /// Tells the client what happens from `from` on, unless a stream of this form does already.
    pub(super) fn stream_on(&mut self, form: Form, from: Seq, link: &ClientLink) {
        if !self.streams.iter().any(|stream| stream.form == form && !stream.task.is_finished()) {
            self.stream(form, from, link);
        }
    }

    /// Tells the client what happens from `from` on, in the place of a stream of this form that may run.
    pub(super) fn stream(&mut self, form: Form, from: Seq, link: &ClientLink) {
        // What is not wanted counts as passed: nobody waits for it.
        let (told, passed) = watch::channel(Seq(from.0.saturating_sub(1)));
        let (session, link) = (self.session.clone(), link.clone());
        let task = tokio::spawn(async move {
            let mut follower = session.follow(from);
            // A client that is gone, and a store that cannot be read, both end the stream; the client's next
            // request hears of it.
            while let Ok(Some(event)) = follower.next().await {
                if tell(form, session.record_id(), &event, &link).await.is_err() {
                    break;
                }
                // Whoever waits for an event waits for the last of those that were kept together.
                if !follower.has_ready() {
                    told.send_replace(event.seq);
                }
            }
        });
        for old in self.streams.extract_if(.., |stream| stream.form == form) {
            old.task.abort();
        }
        self.streams.push(Stream { form, passed, task });
    }

    /// The streams, until they have passed this event: it comes before the answer to what has just been done.
    pub(super) fn until(&self, last: Option<Seq>) -> Passing {
        Passing { last, streams: self.streams.iter().map(|stream| stream.passed.clone()).collect() }
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        for stream in &self.streams {
            stream.task.abort();
        }
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
