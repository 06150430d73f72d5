//! Moves a record whose project has moved to another directory; its session is restored there.
//!
//! The agent cannot change its directory while it runs, so it is ended first; a record with work is not moved, so that
//! no work is lost. If another client starts an agent before the move is done, the move is refused.
//!
//! Additional directories inside the project move with it. Those outside stay and are reported.

use tokio::sync::oneshot;

use crate::model::{AbsolutePath, Fact};
use crate::store::StoreError;

use crate::engine::agent::directory::moved_with;
use crate::engine::session::commands::SessionCommand;
use crate::engine::session::replies::tell;
use crate::engine::session::task::SessionTask;
use crate::engine::{Session, SessionError};

/// The new directory of a record.
pub(crate) struct Moving {
    cwd: AbsolutePath,
    real_cwd: AbsolutePath,
    reply: oneshot::Sender<Result<Vec<AbsolutePath>, Immovable>>,
}

/// Why a record cannot be moved.
enum Immovable {
    /// It has an agent or work.
    Busy,
    Store(StoreError),
}

impl Session {
    /// Moves the record to another directory, given with its real path. Ends its agent; a record with work is
    /// [`SessionError::Busy`]. Returns the additional directories outside the old directory, which stay unchanged.
    pub async fn move_to(
        &self,
        cwd: AbsolutePath,
        real_cwd: AbsolutePath,
    ) -> Result<Vec<AbsolutePath>, SessionError> {
        self.park().await?;
        let (reply, answer) = oneshot::channel();
        let moving = Box::new(Moving { cwd, real_cwd, reply });
        match self.ask(SessionCommand::Move(moving), answer).await? {
            Ok(staying) => Ok(staying),
            Err(Immovable::Busy) => Err(SessionError::Busy(self.record_id().clone())),
            Err(Immovable::Store(error)) => Err(error.into()),
        }
    }
}

impl SessionTask {
    pub(crate) async fn move_to(&mut self, moving: Moving) -> Result<(), StoreError> {
        let Moving { cwd, real_cwd, reply } = moving;
        let has_agent = self.agent.is_some() || self.coming.is_some() || self.going.is_some();
        if has_agent || self.machine.has_work() {
            tell(reply, Err(Immovable::Busy));
            return Ok(());
        }
        match self.journal.set_directory(&cwd, &real_cwd).await {
            Err(error @ StoreError::ScopeTaken { .. }) => tell(reply, Err(Immovable::Store(error))),
            Err(error) => return Err(error),
            Ok(()) => {
                let fact = Fact::Moved { from: self.place.cwd.to_string(), to: cwd.to_string() };
                self.journal.append_fact(self.now(), &fact);
                self.place.real_cwd = Some(real_cwd);
                let old = std::mem::replace(&mut self.place.cwd, cwd);
                let staying = self.move_directories(&old);
                self.journal.commit().await?;
                tell(reply, Ok(staying));
            }
        }
        Ok(())
    }

    /// Moves the additional directories inside the old directory to the new one, and returns the others.
    pub(crate) fn move_directories(&mut self, old: &AbsolutePath) -> Vec<AbsolutePath> {
        let known = &self.place.additional_directories;
        let is_outside = |directory: &&AbsolutePath| !directory.as_path().starts_with(old.as_path());
        let staying = known.iter().filter(is_outside).cloned().collect();
        let after = moved_with(old, &self.place.cwd, known);
        if after != *known {
            self.journal.set_additional_directories(&after);
            self.place.additional_directories = after;
            self.persisted.additional_directories.clone_from(&self.place.additional_directories);
        }
        staying
    }
}
