//! Follows a record through all its sessions: when it is closed and restored, a follower continues with the new task.

use tokio::sync::watch;

use crate::model::{Event, RecordId, Seq};

use crate::engine::{Engine, Follower, SessionError};

/// A position in a record's events, across its sessions.
pub struct RecordFollower {
    engine: Engine,
    record: RecordId,
    next: Seq,
    following: Following,
    /// Changes when a session begins, of any record.
    begun: watch::Receiver<()>,
}

/// The current source of events.
enum Following {
    Nothing,
    /// The record's session.
    Session(Follower),
    /// The stored events, while there is no session.
    Kept(Follower),
    /// All stored events were read, and there is no session.
    CaughtUp,
}

impl RecordFollower {
    pub(crate) fn new(engine: Engine, record: RecordId, from: Seq) -> Self {
        let begun = engine.0.begun.subscribe();
        Self { engine, record, next: from.max(Seq::FIRST), following: Following::Nothing, begun }
    }

    /// The next event. `None` if none will come: the record is deleted, or the engine was shut down.
    pub async fn next(&mut self) -> Result<Option<Event>, SessionError> {
        loop {
            if let Following::Session(follower) | Following::Kept(follower) = &mut self.following {
                if let Some(event) = follower.next().await? {
                    self.next = event.seq.next();
                    return Ok(Some(event));
                }
                let was_session = matches!(self.following, Following::Session(_));
                self.following = if was_session { Following::Nothing } else { Following::CaughtUp };
            }
            if !self.find().await? {
                return Ok(None);
            }
        }
    }

    /// Whether another event is available without waiting.
    pub(crate) fn has_ready(&self) -> bool {
        match &self.following {
            Following::Session(follower) | Following::Kept(follower) => follower.has_ready(),
            Following::Nothing | Following::CaughtUp => false,
        }
    }

    /// The sequence number of the next event.
    pub(crate) fn position(&self) -> Seq {
        self.next
    }

    /// Finds the next source of events and waits for it; false if there is nothing to wait for.
    async fn find(&mut self) -> Result<bool, SessionError> {
        // Marked as seen before the lookup, so that no new session is missed in between.
        self.begun.borrow_and_update();
        let session = match self.engine.running(&self.record).await {
            Err(SessionError::ShutDown(_)) => return Ok(false),
            found => found?,
        };
        match (session, &self.following) {
            (Some(session), _) => self.following = Following::Session(session.follow(self.next)),
            (None, Following::CaughtUp) => {
                if self.engine.record(&self.record).await?.is_none() {
                    return Ok(false);
                }
                // Our engine has the sender, so the channel stays open.
                drop(self.begun.changed().await);
            }
            (None, _) => {
                self.following = Following::Kept(self.engine.replay(&self.record, self.next));
            }
        }
        Ok(true)
    }
}
