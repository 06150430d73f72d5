//! The host's notifier: a child process that delivers queued notifications, so that the host connects to nothing.
//!
//! It is started when something is queued, and once when the host starts, for what an earlier host left. There is at
//! most one, and it ends when the queue is empty or the host ends. Its failure is logged, and it is started again after
//! a pause. The configured sinks are read in the background, so a session never waits for the disk.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use acpx_core::engine::{NotificationQueue, NotificationTargets, ReadTargets};
use acpx_core::home::HostPaths;
use acpx_core::sync::Lock;
use acpx_core::tools::Tag;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{sleep, timeout};

use crate::config::Config;
use crate::config::notify::NotifySettings;
use crate::session::host_locator::own_program;

/// How long the notifier may take to end with its host.
const ENDS_WITHIN: Duration = Duration::from_secs(3);
/// How much of an error is logged.
const LOGGED_BYTES: u64 = 2048;
/// The pause after the first failure. It doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(30);
const MAX_PAUSE: Duration = Duration::from_mins(10);
/// The time between two checks whether the configuration has changed.
const CHECK_PAUSE: Duration = Duration::from_secs(1);

/// The task that starts the notifier.
pub(super) struct BackgroundNotifier {
    task: JoinHandle<()>,
    /// Dropped, it ends the task.
    stop: oneshot::Sender<()>,
}

impl BackgroundNotifier {
    /// Starts the task in this runtime. It also keeps the sinks up to date.
    pub(super) fn start(paths: &HostPaths, queue: NotificationQueue, sinks: ConfiguredSinks) -> Self {
        let (stop, stopped) = oneshot::channel();
        let home = paths.home().to_owned();
        let task = tokio::spawn(async move {
            let has_sinks = !sinks.0.lock().sinks.is_empty();
            tokio::select! {
                () = run(queue, has_sinks, stopped) => {}
                () = sinks.follow(home) => {}
            }
        });
        Self { task, stop }
    }

    /// Ends the task and its process.
    pub(super) async fn stop(self) {
        drop(self.stop);
        // A task that panicked has ended too.
        drop(self.task.await);
    }
}

/// Why a notifier has ended.
enum NotifierEnd {
    /// The host ends.
    HostStopped,
    /// The queue was empty. `is_due`: something was added, perhaps too late for it.
    Finished { is_due: bool },
    /// It ended with an error, or could not start.
    Failed,
}

/// Starts the notifier whenever one is due. An earlier host may have left notifications if there are sinks.
async fn run(queue: NotificationQueue, has_sinks: bool, mut stopped: oneshot::Receiver<()>) {
    let (mut is_due, mut failures) = (has_sinks, 0);
    loop {
        if !is_due {
            tokio::select! {
                _ = &mut stopped => return,
                () = queue.added() => {}
                () = sleep(pause_after(failures)), if failures > 0 => {}
            }
        }
        let end = match start() {
            Some(notifier) => attend(notifier, &queue, &mut stopped).await,
            None => NotifierEnd::Failed,
        };
        (is_due, failures) = match end {
            NotifierEnd::HostStopped => return,
            NotifierEnd::Finished { is_due } => (is_due, 0),
            NotifierEnd::Failed => (false, failures + 1),
        };
    }
}

/// The pause after this many failures in a row.
fn pause_after(failures: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(1 << failures.saturating_sub(1).min(8)).min(MAX_PAUSE)
}

/// Reports additions to a notifier until it ends.
async fn attend(
    mut notifier: Child,
    queue: &NotificationQueue,
    stopped: &mut oneshot::Receiver<()>,
) -> NotifierEnd {
    let (mut ended, mut is_due) = (ended(&mut notifier), false);
    let end = loop {
        tokio::select! {
            _ = &mut *stopped => break None,
            () = queue.added() => {
                wake(&mut notifier);
                // It may have been about to end, and not have seen what was added.
                is_due = true;
            }
            has_error = &mut ended => break Some(has_error),
        }
    };
    drop(notifier.stdin.take());
    if end.is_none() && timeout(ENDS_WITHIN, ended).await.is_err() {
        drop(notifier.kill());
    }
    // The host may have reaped it already.
    let has_failed = notifier.wait().is_ok_and(|status| !status.success());
    match end {
        None => NotifierEnd::HostStopped,
        Some(Ok(false)) if !has_failed => NotifierEnd::Finished { is_due },
        Some(_) => NotifierEnd::Failed,
    }
}

fn start() -> Option<Child> {
    let program = own_program().ok()?;
    let mut command = Command::new(program);
    command.args(["--format", "quiet", "notify", "run"]);
    // Only programs of agents have a tag. A host that one of them started may have inherited it.
    command.env_remove(Tag::VARIABLE);
    // If the host is killed, the stdin of the process ends, and the process with it.
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let started = command.spawn();
    match started {
        Ok(notifier) => {
            // A notifier that reads nothing must not block the host.
            let _ = notifier.stdin.as_ref().map(|stdin| rustix::io::ioctl_fionbio(stdin, true));
            Some(notifier)
        }
        Err(error) => {
            tracing::warn!(error = error.to_string(), "notifier could not start");
            None
        }
    }
}

/// Reports that something was added.
fn wake(notifier: &mut Child) {
    if let Some(stdin) = &mut notifier.stdin {
        // It may have ended, or have more reports than it has read.
        drop(stdin.write_all(b"\n"));
    }
}

/// Completes when the process has closed its stderr, after logging what it wrote there. Returns whether that was an
/// error: the host may reap the process first, so its exit code may be unknown.
fn ended(notifier: &mut Child) -> JoinHandle<bool> {
    let stderr = notifier.stderr.take();
    spawn_blocking(move || {
        let mut words = Vec::new();
        // What cannot be read is not logged.
        drop(stderr.map(|stderr| stderr.take(LOGGED_BYTES).read_to_end(&mut words)));
        match String::from_utf8_lossy(&words).trim() {
            "" => {
                tracing::debug!("notifications delivered");
                false
            }
            error => {
                tracing::warn!(error, "notifier failed");
                true
            }
        }
    })
}

/// The sinks of the configuration, as they were when it was read last.
#[derive(Clone)]
pub(super) struct ConfiguredSinks(Arc<Lock<NotifySettings>>);

impl ConfiguredSinks {
    /// The sinks of the configuration that the host began with.
    pub(super) fn new(settings: NotifySettings) -> Self {
        Self(Arc::new(Lock::new(settings)))
    }

    /// Which sinks want a kind of event. This reads no file.
    pub(super) fn targets(&self) -> ReadTargets {
        let known = Arc::clone(&self.0);
        Arc::new(move |kind| {
            let known = known.lock();
            let sinks = || known.sinks_of(kind);
            NotificationTargets {
                sinks: sinks().map(|sink| sink.name.clone()).collect(),
                wants_text: sinks().any(|sink| sink.bodies),
            }
        })
    }

    /// Reads the configuration when its file changes. A file that cannot be used changes nothing.
    async fn follow(self, home: PathBuf) {
        let mut stamp = None;
        loop {
            sleep(CHECK_PAUSE).await;
            let (home, known) = (home.clone(), stamp.clone());
            let check = move || (known != Some(FileStamp::of(&home))).then(|| read_settings(&home));
            // A check that panicked is repeated.
            if let Ok(Some((read, settings))) = spawn_blocking(check).await {
                stamp = Some(read);
                if let Some(settings) = settings {
                    *self.0.lock() = settings;
                }
            }
        }
    }
}

/// Reads the configured sinks, with the stamp that the file had before; no sinks if the file cannot be used.
fn read_settings(home: &Path) -> (FileStamp, Option<NotifySettings>) {
    (FileStamp::of(home), Config::load(home).ok().map(|config| config.home.notify))
}

/// Changes with the configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FileStamp(Option<(u64, SystemTime)>);

impl FileStamp {
    fn of(home: &Path) -> Self {
        let metadata = home.join("config.json").metadata().ok();
        Self(metadata.and_then(|metadata| Some((metadata.len(), metadata.modified().ok()?))))
    }
}

#[cfg(test)]
mod tests {
    use acpx_core::model::NotificationKind;

    use super::*;

    /// Waits until the sinks of an event are these.
    async fn until_sinks_are(targets: &ReadTargets, expected: &[&str]) {
        while targets(NotificationKind::Waiting).sinks != expected {
            tokio::time::advance(CHECK_PAUSE).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn sinks_of_an_event_follow_the_configuration_file() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("config.json");
        let sinks = ConfiguredSinks::new(NotifySettings::default());
        let targets = sinks.targets();
        let following = tokio::spawn(sinks.follow(home.path().to_owned()));
        assert_eq!(targets(NotificationKind::Waiting), NotificationTargets::default());
        std::fs::write(&file, r#"{"notify":{"sinks":[{"type":"desktop","bodies":true}]}}"#).unwrap();
        until_sinks_are(&targets, &["desktop"]).await;
        assert!(targets(NotificationKind::Waiting).wants_text);
        // A wrong file changes nothing.
        std::fs::write(&file, r#"{"notify":7}"#).unwrap();
        assert!(read_settings(home.path()).1.is_none());
        std::fs::write(&file, r#"{"notify":{"sinks":[{"type":"desktop","events":["failed"]}]}}"#).unwrap();
        until_sinks_are(&targets, &[]).await;
        following.abort();
    }

    #[test]
    fn failed_notifier_is_started_again_later_and_later() {
        let pauses: Vec<_> = (1..8).map(|failures| pause_after(failures).as_secs()).collect();
        assert_eq!(pauses, [30, 60, 120, 240, 480, 600, 600]);
        assert_eq!(pause_after(u32::MAX), MAX_PAUSE);
    }
}
