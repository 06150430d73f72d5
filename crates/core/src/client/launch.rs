//! Connects to a home's host, and starts one if there is none.
//!
//! A host that is shutting down counts as gone: the client starts another, which waits for the lock. When two clients
//! start one at the same time, the second host finds the lock taken and reports that, and both clients connect to the
//! first.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use serde::Deserialize;
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::HostClient;
use crate::home::local_socket::LocalSocket;
use crate::home::paths::check_private;
use crate::home::{HostInfo, HostPaths, published};
use crate::protocol::HostError;
use crate::protocol::meta::{PROTOCOL, ProtocolRange};
use crate::protocol::rpc_error::HostErrorResponse;
use crate::tools::HOST_VARIABLE;

/// How long a host may take to start, including its predecessor's shutdown.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// How often to retry while the socket's backlog is full.
const CONNECT_RETRY: Duration = Duration::from_millis(5);
/// How often a host that is killed during its start is started again.
const RESTARTS: usize = 2;
/// How many bytes of a failing host's output are read.
const OUTPUT_BYTES: u64 = 64 * 1024;

/// How a host is started: program, arguments and complete environment.
#[derive(Debug, Clone)]
pub struct Launcher {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Its environment. Agents do not get it: theirs comes from the client that uses them.
    pub environment: Vec<(OsString, OsString)>,
}

/// The line that a new host prints when it listens.
pub const READY: &str = "ready\n";

/// Connects to the host of a home, if one is listening.
pub async fn running(paths: &HostPaths) -> Result<Option<HostClient>, HostError> {
    match listening(paths, PROTOCOL).await? {
        Some(socket) => initialize(socket, paths).await,
        None => Ok(None),
    }
}

/// A socket to the host of a home, if one is listening with a compatible protocol version.
async fn listening(paths: &HostPaths, supported: ProtocolRange) -> Result<Option<LocalSocket>, HostError> {
    let Some(info) = published(paths) else { return Ok(None) };
    let Some(socket) = connect(&info).await? else { return Ok(None) };
    if !supported.meets(info.protocol) {
        let version = info.version;
        let newer = info.protocol.oldest > supported.newest;
        return Err(if newer { HostError::Newer { version } } else { HostError::Older { version } });
    }
    Ok(Some(socket))
}

/// Initializes the connection, with a timeout in case the host hangs.
async fn initialize(socket: LocalSocket, paths: &HostPaths) -> Result<Option<HostClient>, HostError> {
    let client = tokio::time::timeout(START_TIMEOUT, HostClient::start(socket)).await;
    client.unwrap_or_else(|_| Err(silent(paths)))
}

fn silent(paths: &HostPaths) -> HostError {
    HostError::Silent { home: paths.home().to_owned() }
}

async fn connect(info: &HostInfo) -> Result<Option<LocalSocket>, HostError> {
    let unusable = |source| HostError::Socket { path: info.socket.clone(), source };
    if let Some(directory) = info.socket.parent() {
        if !directory.exists() {
            return Ok(None);
        }
        check_private(directory)?;
    }
    match connect_socket(&info.socket).await {
        Ok(stream) => {
            let ours = rustix::process::getuid().as_raw();
            match stream.peer_cred() {
                Ok(peer) if peer.uid() == ours => LocalSocket::new(stream).map(Some).map_err(unusable),
                _ => Err(HostError::Stranger { path: info.socket.clone() }),
            }
        }
        Err(error) => match error.kind() {
            // A host that exits with a connection in its backlog resets it.
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset => {
                Ok(None)
            }
            _ => Err(unusable(error)),
        },
    }
}

/// Connects to a socket. Waits while its backlog is full.
async fn connect_socket(socket: &Path) -> io::Result<UnixStream> {
    let deadline = Instant::now() + START_TIMEOUT;
    loop {
        match UnixStream::connect(socket).await {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < deadline => {
                tokio::time::sleep(CONNECT_RETRY).await;
            }
            connected => return connected,
        }
    }
}

impl Launcher {
    /// Connects to the host of a home, and starts one if there is none.
    pub async fn reach(&self, paths: &HostPaths) -> Result<HostClient, HostError> {
        self.find_or_start(paths, || running(paths)).await
    }

    /// The same for a caller that initializes the connection itself, in one of these versions. A host that is shutting
    /// down may still accept: then the socket closes, and nothing has happened.
    pub(crate) async fn reach_socket(
        &self,
        paths: &HostPaths,
        supported: ProtocolRange,
    ) -> Result<LocalSocket, HostError> {
        self.find_or_start(paths, || listening(paths, supported)).await
    }

    /// Looks for a host and starts one until there is one.
    async fn find_or_start<T, L>(&self, paths: &HostPaths, find: impl Fn() -> L) -> Result<T, HostError>
    where
        L: Future<Output = Result<Option<T>, HostError>>,
    {
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            match find().await {
                Ok(Some(found)) => return Ok(found),
                Ok(None) => {}
                Err(HostError::Older { version }) => {
                    if !stop_if_idle(paths).await? {
                        return Err(HostError::Older { version });
                    }
                }
                Err(error) => return Err(error),
            }
            if Instant::now() >= deadline {
                return Err(silent(paths));
            }
            self.start(paths, &paths.log()).await?;
        }
    }

    /// Starts a process of a home, and waits until it prints [`READY`]: it listens, or knows that another one does. Its
    /// stderr goes to a log. A process that is killed before that is started again, a few times.
    pub async fn start(&self, paths: &HostPaths, log_file: &Path) -> Result<(), HostError> {
        paths.make_home()?;
        for _ in 0..RESTARTS {
            match self.start_process(paths, log_file).await {
                Err(HostError::Killed) => {}
                started => return started,
            }
        }
        self.start_process(paths, log_file).await
    }

    async fn start_process(&self, paths: &HostPaths, log_file: &Path) -> Result<(), HostError> {
        let mut child = Command::new(&self.program)
            .args(&self.args)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            // The client may be a descendant of an agent and end with it; this mark keeps the host from being ended
            // too.
            .env(HOST_VARIABLE, paths.lock())
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log(paths, log_file)?)
            .spawn()
            .map_err(HostError::NotStarted)?;
        let stdout = child.stdout.take();
        // Reaps the host if it exits before this client. The thread is detached.
        let (exited, exit) = oneshot::channel();
        std::thread::spawn(move || drop(exited.send(child.wait())));
        let mut output = Vec::new();
        if let Some(stdout) = stdout {
            let stdout = Receiver::from_owned_fd(OwnedFd::from(stdout)).map_err(HostError::NotStarted)?;
            let read = async { stdout.take(OUTPUT_BYTES).read_to_end(&mut output).await };
            match tokio::time::timeout(START_TIMEOUT, read).await {
                Ok(read) => drop(read.map_err(HostError::NotStarted)?),
                Err(_) => return Err(silent(paths)),
            }
        }
        if output == READY.as_bytes() {
            return Ok(());
        }
        let output = String::from_utf8_lossy(&output).trim().to_owned();
        if let Some(refusal) = HostErrorResponse::of_startup_output(&output) {
            return Err(refusal.into());
        }
        if !output.is_empty() {
            return Err(HostError::GaveUp { output });
        }
        match exit.await {
            Ok(Ok(status)) if status.signal() == Some(Signal::KILL.as_raw()) => Err(HostError::Killed),
            Ok(Ok(status)) => Err(HostError::GaveUp { output: format!("{status}, without a message") }),
            Ok(Err(source)) => Err(HostError::NotStarted(source)),
            Err(_) => Err(HostError::GaveUp { output: "it printed nothing".to_owned() }),
        }
    }
}

/// The stderr of a process. A host opens the same file as its log.
fn log(paths: &HostPaths, file: &Path) -> Result<Stdio, HostError> {
    let unusable = |source| HostError::Directory { path: paths.home().to_owned(), source };
    let log = OpenOptions::new().create(true).append(true).mode(0o600).open(file);
    log.map(Stdio::from).map_err(unusable)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HostLoad {
    live_sessions: u64,
    clients: u64,
}

#[derive(Deserialize)]
struct StopResponse {
    stopping: Option<bool>,
}

/// Stops a host of another version if it is idle; returns whether it stops. Every version supports this.
pub async fn stop_if_idle(paths: &HostPaths) -> Result<bool, HostError> {
    let Some(mut client) = any_version(paths).await? else { return Ok(true) };
    let request = async {
        let load: HostLoad = client.call("_acpx/host/status", &serde_json::json!({})).await?;
        if load.live_sessions > 0 || load.clients > 1 {
            return Ok(false);
        }
        // The host decides in its accept loop, so that no client can connect in between. A host that does not know
        // `ifIdle` stops.
        let answer: StopResponse =
            client.call("_acpx/host/stop", &serde_json::json!({ "ifIdle": true })).await?;
        Ok(answer.stopping.unwrap_or(true))
    };
    match tokio::time::timeout(START_TIMEOUT, request).await {
        // It exited by itself.
        Ok(Err(HostError::Lost)) => Ok(true),
        Ok(answered) => answered,
        Err(_) => Err(silent(paths)),
    }
}

/// Connects to the host of a home regardless of its version, if one is listening.
pub async fn any_version(paths: &HostPaths) -> Result<Option<HostClient>, HostError> {
    let Some(info) = published(paths) else { return Ok(None) };
    match connect(&info).await? {
        Some(socket) => initialize(socket, paths).await,
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts a host that is killed this often before it is ready; returns the result and the number of starts.
    async fn start_after_kills(kills: usize) -> (Result<(), HostError>, usize) {
        let home = tempfile::tempdir().unwrap();
        let paths = HostPaths::new(home.path().join("home"), None, &home.path().join("run"));
        let starts = home.path().join("starts");
        let script = format!("echo >> \"$0\"; [ $(wc -l < \"$0\") -gt {kills} ] && echo ready || kill -9 $$");
        let launcher = Launcher {
            program: "/bin/sh".into(),
            args: vec!["-c".into(), script.into(), starts.clone().into()],
            environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
        };
        let result = launcher.start(&paths, &paths.log()).await;
        (result, std::fs::read_to_string(starts).unwrap().lines().count())
    }

    #[tokio::test]
    async fn host_that_is_killed_while_it_starts_is_started_again() {
        assert!(matches!(start_after_kills(0).await, (Ok(()), 1)));
        assert!(matches!(start_after_kills(RESTARTS).await, (Ok(()), 3)));
        assert!(matches!(start_after_kills(usize::MAX >> 1).await, (Err(HostError::Killed), 3)));
    }
}
