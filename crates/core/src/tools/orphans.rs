//! Adopts orphans, which are processes whose parent died before them, and reaps them.
//!
//! Without this, the orphans of an agent go to the init process, out of reach. A task wakes on every SIGCHLD and reaps
//! the dead children that are not ours. It checks all children each time, so merged signals lose nothing, and a child
//! of ours that waits for its own reaper causes no busy loop.

use std::io;

/// The adoption of orphans by this process, on Linux. On other systems it does nothing.
///
/// It affects the whole process: from then on every child must be started through a [`Spawner`](super::Spawner), or its
/// exit status may be lost. Dropping it ends the adoption.
#[derive(Debug)]
pub struct OrphanReaper {
    #[cfg(target_os = "linux")]
    reaper: tokio::task::JoinHandle<()>,
}

#[cfg(target_os = "linux")]
impl OrphanReaper {
    /// Makes this process the subreaper of its descendants. Must be called inside a tokio runtime.
    pub fn adopt() -> io::Result<Self> {
        use rustix::process::{getpid, set_child_subreaper};
        use tokio::signal::unix::{SignalKind, signal};

        // Subscribe to the signal before the first orphan can arrive.
        let mut child_exited = signal(SignalKind::child())?;
        set_child_subreaper(Some(getpid()))?;
        super::children::set_adopts_orphans(true);
        let reaper = tokio::spawn(async move {
            while child_exited.recv().await.is_some() {
                reap().await;
            }
        });
        Ok(Self { reaper })
    }

    /// Ends the adoption and reaps the dead orphans, so that no zombie is left. Living orphans continue, and go to the
    /// init process when this process ends.
    pub async fn release(self) {
        drop(self);
        reap().await;
    }
}

/// How often to retry while it is unclear which dead children are orphans. That takes moments, and the next SIGCHLD
/// starts another attempt.
#[cfg(target_os = "linux")]
const ATTEMPTS: usize = 200;

/// Reaps on a blocking thread, because reading about many processes would block the runtime.
#[cfg(target_os = "linux")]
async fn reap() {
    for _ in 0..ATTEMPTS {
        // It fails only when the runtime shuts down.
        let is_done = tokio::task::spawn_blocking(super::children::reap_orphans).await.unwrap_or(true);
        if is_done {
            return;
        }
        tokio::time::sleep(super::termination::POLL_INTERVAL).await;
    }
}

#[cfg(target_os = "linux")]
impl Drop for OrphanReaper {
    fn drop(&mut self) {
        self.reaper.abort();
        super::children::set_adopts_orphans(false);
        // It fails only where setting it would have failed too.
        let _ = rustix::process::set_child_subreaper(None);
    }
}

#[cfg(not(target_os = "linux"))]
impl OrphanReaper {
    /// Does nothing: orphans go to the init process.
    pub(crate) fn adopt() -> io::Result<Self> {
        Ok(Self {})
    }

    /// Does nothing.
    pub(crate) async fn release(self) {}
}
