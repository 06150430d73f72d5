//! Runs an agent's file and terminal requests.
//!
//! All state belongs to one run of the agent. Slow work runs in jobs, so that the session is not blocked; the numbers
//! of jobs and terminals are bounded. When the agent ends, jobs are dropped and commands are ended.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::{self, AbortHandle, JoinSet};
use tokio::time::Instant;

use crate::acp::client::{ToolAnswer, ToolRequest};
use crate::model::{AgentRequestId, PreviousContent, TurnId};
use crate::tools::{
    FileError, GracePeriods, LineRange, RootedPath, Roots, TerminalProcess, TerminationOutcome,
};
use crate::wire::RpcError;

use crate::engine::Disk;
use crate::engine::permissions::request::ClientDecision;

/// How many jobs of each kind one agent may have at once.
const JOBS: usize = 64;
/// How many of them access the disk.
const FILES: usize = 4;
/// How many file contents may wait to be sent to it. Each may have the maximum size of a file.
const TEXTS: usize = 4;
/// How many terminals an agent may have.
const TERMINALS: usize = 64;
/// How often terminal output is stored while commands write.
const OUTPUT_INTERVAL: Duration = Duration::from_millis(250);
/// How many bytes of a file are read to show what a write would change.
const OLD_TEXT_BYTES: u64 = 64 << 10;

/// The jobs and terminals of one agent.
pub(crate) struct Tools {
    jobs: JoinSet<ToolOutcome>,
    /// The jobs without a reply.
    open: HashMap<task::Id, Job>,
    files: Files,
    terminals: TerminalTable,
    /// Notified of every change of a terminal.
    pub(crate) changed: Arc<Notify>,
    /// When new terminal output is to be stored, if there is any.
    due: Option<Instant>,
    kept_at: Option<Instant>,
}

/// Terminals by their ids.
pub(crate) type TerminalTable = HashMap<Box<str>, TerminalState>;

/// A request that is being executed.
struct Job {
    origin: ToolRequestOrigin,
    kind: ToolJobKind,
    abort: AbortHandle,
}

/// A request of the agent, and the turn that it arrived in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToolRequestOrigin {
    pub(crate) ask: AgentRequestId,
    pub(crate) turn: Option<TurnId>,
}

/// The kind of a job. The limit applies to each kind separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToolJobKind {
    /// Accesses a file or resolves a path.
    Work,
    /// Starts a command.
    Start,
    /// Waits for a command to exit.
    Wait,
    /// Ends a command. It cannot be withdrawn.
    End,
}

/// A terminal and what is stored of it.
pub(crate) struct TerminalState {
    pub(crate) terminal: Arc<TerminalProcess>,
    /// Output that may be the beginning of a secret.
    pub(crate) held: String,
    /// Whether the end of its command is stored.
    pub(crate) is_over: bool,
    /// Whether the reply with its final output is stored.
    pub(crate) is_reported: bool,
    /// The turn in which it was started.
    turn: Option<TurnId>,
}

/// The outcome of a request.
pub(crate) enum ToolOutcome {
    /// Whether the path is inside the session's directories and, for a write, the file's current content.
    Checked(Result<Checked, RpcError>),
    /// The reply to the agent.
    Answered(Result<ToolAnswer, RpcError>),
    /// The reply to a read, with the permit for its text until it is sent.
    Read(Result<ToolAnswer, RpcError>, Option<OwnedSemaphorePermit>),
    /// The reply of a client.
    Forwarded(Arc<str>),
    /// A command runs, with its command line as a person would type it.
    Started(Box<(String, TerminalProcess)>),
    /// A terminal's command has ended or been given up.
    Ended(Box<str>, ToolAnswer),
}

/// A checked request, ready for a decision.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    /// The resolved path.
    pub(crate) located: Option<RootedPath>,
    /// The file's content, if a client is asked for permission.
    pub(crate) old: Option<PreviousContent>,
}

/// The files that an agent may access.
#[derive(Clone)]
pub(crate) struct Files {
    roots: Arc<Roots>,
    disk: Disk,
    /// The agent's own key for disk queries, so that a disk that does not respond to one agent does not block others.
    whose: Arc<Path>,
    room: Arc<Semaphore>,
    /// Permits for texts that wait to be sent: an agent that does not read its replies gets no more files.
    texts: Arc<Semaphore>,
}

impl Files {
    /// The files inside these directories.
    pub(crate) fn new(roots: Roots, disk: Disk) -> Self {
        let whose = PathBuf::from(crate::wire::new_uuid().to_string()).into();
        let [room, texts] = [FILES, TEXTS].map(|count| Arc::new(Semaphore::new(count)));
        Self { roots: Arc::new(roots), disk, whose, room, texts }
    }

    /// Resolves a path, checks that `length` bytes can be written there, and with `shown` reads what they would
    /// replace.
    async fn check(self, path: String, length: usize, shown: bool) -> Result<Checked, RpcError> {
        let roots = Arc::clone(&self.roots);
        self.at_disk(move || {
            let located = roots.locate(&path)?;
            located.takes(length)?;
            let old = if shown { Some(located.replaced(OLD_TEXT_BYTES)?) } else { None };
            Ok(Checked { located: Some(located), old })
        })
        .await
    }

    async fn read(self, path: RootedPath, lines: LineRange) -> ToolOutcome {
        let room = Arc::clone(&self.texts).acquire_owned().await.ok();
        ToolOutcome::Read(self.at_disk(move || path.read(lines).map(ToolAnswer::Text)).await, room)
    }

    /// Writes a file, unless its content differs from what the permission request showed.
    async fn write(
        self,
        path: RootedPath,
        content: String,
        shown: Option<PreviousContent>,
    ) -> Result<ToolAnswer, RpcError> {
        self.at_disk(move || {
            if shown.is_some_and(|shown| path.replaced(OLD_TEXT_BYTES).ok() != Some(shown)) {
                return Err(path.changed());
            }
            path.write(&content).map(|()| ToolAnswer::Done)
        })
        .await
    }

    /// Runs file operations. Returns an error if the disk takes too long.
    async fn at_disk<T: Send + 'static>(
        self,
        work: impl FnOnce() -> Result<T, FileError> + Send + 'static,
    ) -> Result<T, RpcError> {
        let room = self.room.acquire().await;
        let done = self.disk.ask(&self.whose, work).await;
        drop(room);
        match done {
            Ok(done) => done.map_err(|error| refusal(&error)),
            Err(no_answer) => Err(unusable(&no_answer.to_string())),
        }
    }
}

impl Tools {
    pub(crate) fn new(files: Files) -> Self {
        Self {
            jobs: JoinSet::new(),
            open: HashMap::new(),
            files,
            terminals: HashMap::new(),
            changed: Arc::default(),
            due: None,
            kept_at: None,
        }
    }

    /// Whether there is room for another job of this kind.
    pub(crate) fn has_room(&self, kind: ToolJobKind) -> bool {
        self.open.values().filter(|job| job.kind == kind).count() < JOBS
    }

    /// Makes room for another terminal in a turn. At the limit, which includes terminals that are being started, it
    /// removes the oldest one whose end is stored and whose final output the agent has read, or that is from another
    /// turn. Returns whether there is room.
    pub(crate) fn make_room_for_terminal(&mut self, turn: Option<TurnId>) -> bool {
        let starting = self.open.values().filter(|job| job.kind == ToolJobKind::Start).count();
        if self.terminals.len() + starting >= TERMINALS {
            let is_done_with =
                |running: &TerminalState| running.is_over && (running.is_reported || running.turn != turn);
            // Ids are ordered by creation.
            let done = self.terminals.iter().filter(|(_, running)| is_done_with(running)).map(|(id, _)| id);
            if let Some(oldest) = done.min().cloned() {
                self.terminals.remove(&oldest);
            }
        }
        self.terminals.len() + starting < TERMINALS
    }

    /// The next outcome. `None` if it is time to store terminal output.
    pub(crate) async fn next(&mut self) -> Option<(ToolRequestOrigin, ToolOutcome)> {
        loop {
            let due = self.due;
            tokio::select! {
                Some(joined) = self.jobs.join_next_with_id() => {
                    let (id, done) = match joined {
                        Ok(done) => done,
                        Err(error) => (error.id(), ToolOutcome::Answered(Err(unusable("it could not be done")))),
                    };
                    // A withdrawn job is already answered, even if it has finished.
                    if let Some(Job { origin, .. }) = self.open.remove(&id) {
                        return Some((origin, done));
                    }
                }
                () = self.changed.notified(), if due.is_none() => {
                    let now = Instant::now();
                    let next = self.kept_at.map_or(now, |kept| kept + OUTPUT_INTERVAL);
                    self.due = Some(next.max(now));
                }
                () = async { tokio::time::sleep_until(due.unwrap_or_else(Instant::now)).await }, if due.is_some() => {
                    self.due = None;
                    self.kept_at = Some(Instant::now());
                    return None;
                }
            }
        }
    }

    /// Starts a job.
    pub(crate) fn begin(
        &mut self,
        origin: ToolRequestOrigin,
        kind: ToolJobKind,
        work: impl Future<Output = ToolOutcome> + Send + 'static,
    ) {
        let abort = self.jobs.spawn(work);
        self.open.insert(abort.id(), Job { origin, kind, abort });
    }

    /// Whether a request is being executed.
    pub(crate) fn is_open(&self, ask: &AgentRequestId) -> bool {
        self.open.values().any(|job| job.origin.ask == *ask)
    }

    /// Whether any request is being executed.
    pub(crate) fn is_busy(&self) -> bool {
        !self.open.is_empty()
    }

    /// Checks that a path is inside the session's directories and that `length` bytes can be written there, and with
    /// `shown` reads what they would replace.
    pub(super) fn check_path(&mut self, origin: ToolRequestOrigin, path: String, length: usize, shown: bool) {
        let check = self.files.clone().check(path, length, shown);
        self.begin(origin, ToolJobKind::Work, async { ToolOutcome::Checked(check.await) });
    }

    /// Reads or writes a file: through the client that was asked, or else here. `shown` is the content that the
    /// permission request showed.
    pub(crate) fn serve_file(
        &mut self,
        origin: ToolRequestOrigin,
        request: ToolRequest,
        path: RootedPath,
        shown: Option<PreviousContent>,
        client: oneshot::Receiver<ClientDecision>,
    ) {
        let files = self.files.clone();
        self.begin(origin, ToolJobKind::Work, async move {
            match client.await {
                Ok(ClientDecision::Result(result)) => return ToolOutcome::Forwarded(result),
                Ok(ClientDecision::Fail(error)) => return ToolOutcome::Answered(Err(error)),
                // The client does not have it open.
                Ok(
                    ClientDecision::Choose(_)
                    | ClientDecision::Approve
                    | ClientDecision::Reject
                    | ClientDecision::Cancel,
                )
                | Err(_) => {}
            }
            match request {
                ToolRequest::Read { line, limit, .. } => {
                    files.read(path, LineRange { first: line, count: limit }).await
                }
                ToolRequest::Write { content, .. } => {
                    ToolOutcome::Answered(files.write(path, content, shown).await)
                }
                other => ToolOutcome::Answered(Err(RpcError::method_not_found(other.method()))),
            }
        });
    }

    /// Aborts the matching jobs that can be withdrawn, and returns their requests.
    pub(crate) fn withdraw(&mut self, is_meant: impl Fn(&AgentRequestId) -> bool) -> Vec<ToolRequestOrigin> {
        let is_meant = |job: &Job| job.kind != ToolJobKind::End && is_meant(&job.origin.ask);
        let broken_off = self.open.extract_if(|_, job| is_meant(job));
        broken_off
            .map(|(_, Job { origin, abort, .. })| {
                abort.abort();
                origin
            })
            .collect()
    }

    /// Adds a terminal.
    pub(crate) fn add(&mut self, id: Box<str>, terminal: TerminalProcess, turn: Option<TurnId>) {
        let terminal = Arc::new(terminal);
        let (held, is_over, is_reported) = (String::new(), false, false);
        self.terminals.insert(id, TerminalState { terminal, held, is_over, is_reported, turn });
    }

    /// A terminal of the agent.
    pub(crate) fn terminal(&mut self, id: &str) -> Option<&mut TerminalState> {
        self.terminals.get_mut(id)
    }

    /// All terminals.
    pub(crate) fn terminals(&mut self) -> impl Iterator<Item = (&str, &mut TerminalState)> {
        self.terminals.iter_mut().map(|(id, running)| (&**id, running))
    }

    /// Removes a terminal.
    pub(crate) fn forget(&mut self, id: &str) {
        self.terminals.remove(id);
    }

    /// Ends every command in bounded time, and returns the terminals with their outcomes.
    pub(crate) async fn end(self, grace: GracePeriods) -> (TerminationOutcome, TerminalTable) {
        let Self { jobs, terminals, .. } = self;
        drop(jobs);
        let mut ending = JoinSet::new();
        for TerminalState { terminal, .. } in terminals.values() {
            let terminal = Arc::clone(terminal);
            ending.spawn(async move { terminal.kill(grace).await });
        }
        let ended = ending.join_all().await;
        (
            if ended.contains(&TerminationOutcome::Left) {
                TerminationOutcome::Left
            } else {
                TerminationOutcome::Gone
            },
            terminals,
        )
    }
}

/// The error for a failed file request. A missing file is reported with the system's message, which some agents look
/// for.
pub(crate) fn refusal(error: &FileError) -> RpcError {
    let words = error.to_string();
    match error {
        FileError::Missing { path } => {
            let uri = format!("file://{}", path.display());
            let details = format!("ENOENT: no such file or directory, open '{}'", path.display());
            let data = serde_json::json!({ "uri": uri, "details": details });
            RpcError::new(RpcError::RESOURCE_NOT_FOUND, format!("Resource not found: {uri} ({details})"))
                .with_data(&data.to_string())
        }
        FileError::Relative { .. } | FileError::Outside { .. } | FileError::TooLarge { .. } => {
            with_details(RpcError::invalid_params(words.clone()), &words)
        }
        FileError::Forbidden { path } => {
            unusable(&format!("EACCES: permission denied, open '{}'", path.display()))
        }
        FileError::System { source, .. } => unusable(&format!("{words}: {source}")),
        _ => unusable(&words),
    }
}

/// An error that repeats its message in `details`, where agents look for it.
pub(crate) fn unusable(words: &str) -> RpcError {
    with_details(RpcError::internal(words), words)
}

fn with_details(error: RpcError, words: &str) -> RpcError {
    error.with_data(&serde_json::json!({ "details": words }).to_string())
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::model::AbsolutePath;
    use crate::tools::Root;

    #[tokio::test]
    async fn no_more_files_are_read_while_replies_wait_to_be_sent() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("f");
        std::fs::write(&file, "text").unwrap();
        let root = AbsolutePath::new(home.path().to_str().unwrap()).unwrap();
        let roots: Roots = Root::find(&root).into_iter().collect();
        let files = Files::new(roots, Disk::default());
        let read = || {
            let path = files.roots.locate(file.to_str().unwrap()).unwrap();
            Box::pin(files.clone().read(path, LineRange::default()))
        };
        let mut unsent = Vec::new();
        for _ in 0..TEXTS {
            unsent.push(read().await);
        }
        let mut next = read();
        assert!(tokio::time::timeout(Duration::from_millis(20), &mut next).await.is_err());
        unsent.pop();
        assert!(
            matches!(next.await, ToolOutcome::Read(Ok(ToolAnswer::Text(text)), Some(_)) if text == "text")
        );
    }

    #[test]
    fn file_errors_carry_enoent_or_a_message_in_details() {
        let told = |error: &FileError| {
            let RpcError { code, message, data } = refusal(error);
            (code, message, serde_json::from_str::<serde_json::Value>(data.unwrap().get()).unwrap())
        };
        let path = || "/w/a".into();
        let details = "ENOENT: no such file or directory, open '/w/a'";
        let missing = (
            -32002,
            format!("Resource not found: file:///w/a ({details})"),
            serde_json::json!({ "uri": "file:///w/a", "details": details }),
        );
        assert_eq!(told(&FileError::Missing { path: path() }), missing);
        let cases = [
            (FileError::Relative { path: "a".into() }, -32602, "path must be absolute: a"),
            (FileError::Outside { path: path() }, -32602, "path is outside the session's directories: /w/a"),
            (FileError::TooLarge { path: path(), limit: 7 }, -32602, "larger than 7 bytes: /w/a"),
            (FileError::Forbidden { path: path() }, -32603, "EACCES: permission denied, open '/w/a'"),
            (FileError::Changed { path: path() }, -32603, "changed since it was asked about: /w/a"),
            (FileError::NotAFile { path: path() }, -32603, "not a regular file: /w/a"),
            (FileError::NotText { path: path() }, -32603, "not UTF-8 text: /w/a"),
            (
                FileError::System { path: path(), source: io::ErrorKind::StorageFull.into() },
                -32603,
                "cannot use /w/a: no storage space",
            ),
        ];
        for (error, code, words) in cases {
            assert_eq!(told(&error), (code, words.to_owned(), serde_json::json!({ "details": words })));
        }
    }
}
