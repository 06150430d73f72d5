//! One at a time in one place: whoever makes a session that a shell can find is alone in its scope meanwhile,
//! so that two who do it at once do not leave two.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OwnedMutexGuard;

use crate::model::{AbsolutePath, Scope};

/// The scopes that somebody is busy in.
#[derive(Debug, Default)]
pub(crate) struct ScopeLocks(Mutex<HashMap<ScopeKey, Arc<tokio::sync::Mutex<()>>>>);

type ScopeKey = (Scope, AbsolutePath);

impl ScopeLocks {
    /// Waits until nobody else is busy in this scope of this directory.
    pub(crate) async fn alone(&self, scope: &Scope, real_cwd: &AbsolutePath) -> OwnedMutexGuard<()> {
        let lock = {
            let mut scopes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            scopes.retain(|_, lock| Arc::strong_count(lock) > 1);
            Arc::clone(scopes.entry((scope.clone(), real_cwd.clone())).or_default())
        };
        lock.lock_owned().await
    }
}
