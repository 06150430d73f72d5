//! Locks a scope while a session is created in it, so that two concurrent requests do not create two sessions.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::OwnedMutexGuard;

use crate::model::{AbsolutePath, Scope};
use crate::sync::Lock;

/// The scopes that are locked.
#[derive(Debug, Default)]
pub(crate) struct ScopeLocks(Lock<HashMap<ScopeKey, Arc<tokio::sync::Mutex<()>>>>);

type ScopeKey = (Scope, AbsolutePath);

impl ScopeLocks {
    /// Waits for the lock of this scope in this directory.
    pub(crate) async fn lock(&self, scope: &Scope, real_cwd: &AbsolutePath) -> OwnedMutexGuard<()> {
        let lock = {
            let mut scopes = self.0.lock();
            scopes.retain(|_, lock| Arc::strong_count(lock) > 1);
            Arc::clone(scopes.entry((scope.clone(), real_cwd.clone())).or_default())
        };
        lock.lock_owned().await
    }
}
