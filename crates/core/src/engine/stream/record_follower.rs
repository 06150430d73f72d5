//! Following a record through all its sessions: one that is closed and restored goes on in another task, and whoever
//! follows it goes on too.

use tokio::sync::watch;

use crate::model::{Event, RecordId, Seq};

use crate::engine::{Engine, Follower, SessionError};

/// A position in a record's events, whichever session adds to them.
pub struct RecordFollower {
    engine: Engine,
    record: RecordId,
    next: Seq,
    following: Following,
    /// Changes when a session begins, of any record.
    begun: watch::Receiver<()>,
}

/// Where events come from at the moment.
enum Following {
    Nothing,
    /// The record's session.
    Session(Follower),
    /// What is kept, while there is no session.
    Kept(Follower),
    /// All that is kept was seen, and there is no session.
    CaughtUp,
}

impl RecordFollower {
    pub(crate) fn new(engine: Engine, record: RecordId, from: Seq) -> Self {
        let begun = engine.0.begun.subscribe();
        Self { engine, record, next: from.max(Seq::FIRST), following: Following::Nothing, begun }
    }

    /// The next event. `None` when none will come: the record is deleted, or the engine was shut down.
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

    /// Whether more events can be had without waiting.
    pub fn has_ready(&self) -> bool {
        match &self.following {
            Following::Session(follower) | Following::Kept(follower) => follower.has_ready(),
            Following::Nothing | Following::CaughtUp => false,
        }
    }

    /// The number of the event that comes next.
    pub fn position(&self) -> Seq {
        self.next
    }

    /// Looks for where more events can come from, and waits for that; false if there is nothing to wait for.
    async fn find(&mut self) -> Result<bool, SessionError> {
        // Noted before looking, so that no beginning slips through between.
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
                // Our engine has the sender, so there always is one.
                drop(self.begun.changed().await);
            }
            (None, _) => {
                self.following = Following::Kept(self.engine.replay(&self.record, self.next));
            }
        }
        Ok(true)
    }
}
