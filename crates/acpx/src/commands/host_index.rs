//! The host's background indexer: a child process of low priority that updates the search index, some seconds after the
//! host has started, soon after the store has changed, and from time to time for what agents write themselves.
//!
//! There is at most one such process, it ends with the host, and a failure is logged and affects nothing else.

use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use acpx_core::home::HostPaths;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::sleep;

use crate::config::Config;
use crate::session::host_locator::own_program;

/// How long a new host waits: its first clients come first.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
/// The pause between two updates.
const PAUSE: Duration = Duration::from_secs(30);
/// The longest time between two updates. It also is the pause after one that failed.
const LONGEST_PAUSE: Duration = Duration::from_mins(5);
/// How much of an error is logged.
const LOGGED_BYTES: u64 = 2048;

/// The task that starts the indexer.
pub(super) struct BackgroundIndexer {
    task: JoinHandle<()>,
    /// Dropped, it ends the task.
    stop: oneshot::Sender<()>,
}

impl BackgroundIndexer {
    /// Starts the task in this runtime.
    pub(super) fn start(paths: HostPaths) -> Self {
        let (stop, stopped) = oneshot::channel();
        Self { task: tokio::spawn(run(paths, stopped)), stop }
    }

    /// Ends the task and its process.
    pub(super) async fn stop(self) {
        drop(self.stop);
        // A task that panicked has ended too, and its process with it.
        drop(self.task.await);
    }
}

async fn run(paths: HostPaths, mut stopped: oneshot::Receiver<()>) {
    let (mut pause, mut indexed): (_, Option<(StoreStamp, Instant)>) = (FIRST_PAUSE, None);
    loop {
        tokio::select! {
            _ = &mut stopped => return,
            () = sleep(pause) => pause = PAUSE,
        }
        let stamp = StoreStamp::of(&paths.store());
        let is_enabled = Config::load(paths.home()).is_ok_and(|config| config.home.index.is_enabled);
        let is_due =
            indexed.as_ref().is_none_or(|(indexed, at)| *indexed != stamp || at.elapsed() >= LONGEST_PAUSE);
        if !is_enabled || !is_due {
            continue;
        }
        let Some(mut child) = start() else { continue };
        let is_stopped = tokio::select! {
            _ = &mut stopped => true,
            () = ended(&mut child) => false,
        };
        if is_stopped {
            // An update that is cut off is continued by the next one.
            drop(child.kill());
        }
        // The host may have reaped it already.
        drop(child.wait());
        if is_stopped {
            return;
        }
        indexed = Some((stamp, Instant::now()));
    }
}

fn start() -> Option<Child> {
    let program = own_program().ok()?;
    let mut command = Command::new(program);
    command.args(["--format", "quiet", "index", "background"]);
    // If the host is killed, the stdin of the process ends, and the process with it.
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let started = command.spawn();
    if let Err(error) = &started {
        tracing::warn!(error = error.to_string(), "index update could not start");
    }
    started.ok()
}

/// Waits until the process has closed its stderr, and logs what it wrote there. The host may reap it first, so its exit
/// code is not used.
async fn ended(child: &mut Child) {
    let stderr = child.stderr.take();
    let read = spawn_blocking(move || {
        let mut words = Vec::new();
        // What cannot be read is not logged.
        drop(stderr.map(|stderr| stderr.take(LOGGED_BYTES).read_to_end(&mut words)));
        String::from_utf8_lossy(&words).into_owned()
    });
    match read.await.unwrap_or_default().trim() {
        "" => tracing::debug!("index updated"),
        error => tracing::warn!(error, "index update failed"),
    }
}

/// Changes with every commit to the store.
#[derive(Debug, PartialEq, Eq)]
struct StoreStamp([Option<(u64, SystemTime)>; 2]);

impl StoreStamp {
    fn of(store: &Path) -> Self {
        let mut log = store.as_os_str().to_owned();
        log.push("-wal");
        let stamp = |path: &Path| {
            let metadata = path.metadata().ok()?;
            Some((metadata.len(), metadata.modified().ok()?))
        };
        Self([stamp(store), stamp(Path::new(&log))])
    }
}
