//! Orphans: processes whose parent died before them. They come to us, and none of them stays a zombie.
//!
//! Without this the orphans of an agent go to the machine's first process, out of reach. A task wakes up with every
//! SIGCHLD and reaps what is dead and not ours. It looks at all children each time, so signals that the kernel
//! merges lose nothing, and a child of ours that waits for its own reaper keeps nobody busy.

use std::io;

/// The adoption of orphans by this process, on Linux. Elsewhere it does nothing.
///
/// It takes hold of the whole process: from then on every child must be started through a
/// [`Spawner`](super::Spawner), or its exit status may be lost. Dropped, it takes no more orphans in.
#[derive(Debug)]
pub struct OrphanReaper {
    #[cfg(target_os = "linux")]
    reaper: tokio::task::JoinHandle<()>,
}

#[cfg(target_os = "linux")]
impl OrphanReaper {
    /// Makes this process the one that orphaned descendants come to. To be called inside a tokio runtime.
    pub fn adopt() -> io::Result<Self> {
        use rustix::process::{getpid, set_child_subreaper};
        use tokio::signal::unix::{SignalKind, signal};

        // The signal is listened to before the first orphan can come.
        let mut child_exited = signal(SignalKind::child())?;
        set_child_subreaper(Some(getpid()))?;
        super::children::look_after_orphans(true);
        let reaper = tokio::spawn(async move {
            while child_exited.recv().await.is_some() {
                reap().await;
            }
        });
        Ok(Self { reaper })
    }

    /// Takes no more orphans in and reaps those that are dead by now, so that no zombie is left. Those that live go
    /// on, and go to the machine's first process with the end of this one.
    pub async fn release(self) {
        drop(self);
        reap().await;
    }
}

/// How often the dead are looked at again while it cannot be told whose they are. It is a matter of moments, and
/// whoever dies next has them looked at again.
#[cfg(target_os = "linux")]
const LOOKS: usize = 200;

/// Reaps in a place where reading about many processes does not stop the runtime.
#[cfg(target_os = "linux")]
async fn reap() {
    for _ in 0..LOOKS {
        // It is cancelled only with the runtime itself, and then nobody is left to care.
        let is_done = tokio::task::spawn_blocking(super::children::reap_orphans).await.unwrap_or(true);
        if is_done {
            return;
        }
        tokio::time::sleep(super::ending::LOOK_AGAIN).await;
    }
}

#[cfg(target_os = "linux")]
impl Drop for OrphanReaper {
    fn drop(&mut self) {
        self.reaper.abort();
        super::children::look_after_orphans(false);
        // Refused only where it could not have been asked for.
        let _ = rustix::process::set_child_subreaper(None);
    }
}

#[cfg(not(target_os = "linux"))]
impl OrphanReaper {
    /// Does nothing: orphans go to the machine's first process.
    pub fn adopt() -> io::Result<Self> {
        Ok(Self {})
    }

    /// Does nothing.
    pub async fn release(self) {}
}
