//! What an agent has done for it: files that are read and written, commands that run.
//!
//! All of it belongs to one run of the agent. Whatever takes time is a job, so that the session goes on meanwhile; how
//! many there may be is bounded, and so are the terminals. When the agent goes, jobs are dropped and commands are ended.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::{self, AbortHandle, JoinSet};
use tokio::time::Instant;

use crate::acp::client::{ToolAnswer, ToolRequest};
use crate::machine::AskId;
use crate::model::{PreviousContent, TurnId};
use crate::tools::{
    FileError, GracePeriods, LineRange, RootedPath, Roots, TerminalProcess, TerminationOutcome,
};
use crate::wire::RpcError;

use crate::engine::Disk;
use crate::engine::permissions::request::ClientDecision;

/// How many requests of one agent are seen to at once, of each sort.
const JOBS: usize = 64;
/// How many of them are at the disk.
const FILES: usize = 4;
/// How many texts of files may wait to be sent to it. Each is as long as a file may be that is read.
const TEXTS: usize = 4;
/// How many terminals an agent may have.
const TERMINALS: usize = 64;
/// How often what terminals show is kept while commands write.
const NEWS_EVERY: Duration = Duration::from_millis(250);
/// How much text of a file is read to show what a write would change, in bytes.
const OLD_TEXT_BYTES: u64 = 64 << 10;

/// The jobs and terminals of one agent.
pub(crate) struct Tools {
    jobs: JoinSet<ToolOutcome>,
    /// Those that are not answered.
    open: HashMap<task::Id, Job>,
    files: Files,
    terminals: TerminalTable,
    /// Hears of whatever happens on a terminal.
    pub(crate) changed: Arc<Notify>,
    /// When what has happened is to be kept, if anything has.
    due: Option<Instant>,
    kept_at: Option<Instant>,
}

/// Terminals by their ids.
pub(crate) type TerminalTable = HashMap<Box<str>, TerminalState>;

/// A request that is being seen to.
struct Job {
    errand: ToolRequestOrigin,
    sort: ToolJobKind,
    abort: AbortHandle,
}

/// A request of the agent, and the turn that it came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToolRequestOrigin {
    pub(crate) ask: AskId,
    pub(crate) turn: Option<TurnId>,
}

/// What a job does. There may be as many of each as there is room for jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToolJobKind {
    /// It uses a file, or looks where something leads.
    Work,
    /// It starts a command.
    Start,
    /// It waits for a command to exit.
    Wait,
    /// It ends a command, whatever the agent wants meanwhile.
    End,
}

/// A terminal and what is kept of it.
pub(crate) struct TerminalState {
    pub(crate) terminal: Arc<TerminalProcess>,
    /// What it has shown that may be the beginning of a secret.
    pub(crate) held: String,
    /// Whether it is kept that its command has ended.
    pub(crate) is_over: bool,
    /// Whether it is kept that the agent was told what it shows at the end.
    pub(crate) is_told: bool,
    /// The turn in which it began.
    turn: Option<TurnId>,
}

/// What has come of a request.
pub(crate) enum ToolOutcome {
    /// Whether what it wants is inside the session's directories; and for a file that is to be written, what it has.
    Checked(Result<Checked, RpcError>),
    /// What the agent gets.
    Answered(Result<ToolAnswer, RpcError>),
    /// The same of a file that was read, with the room that its text takes until it is sent.
    Read(Result<ToolAnswer, RpcError>, Option<OwnedSemaphorePermit>),
    /// The same, as a client said it.
    Passed(Arc<str>),
    /// A command runs; how a person would type it.
    Started(Box<(String, TerminalProcess)>),
    /// A terminal's command has ended, or would not.
    Ended(Box<str>, ToolAnswer),
}

/// A request that may be decided on.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    /// Where it leads.
    pub(crate) located: Option<RootedPath>,
    /// What the file has, if somebody is to be asked about it.
    pub(crate) old: Option<PreviousContent>,
}

/// A file that an agent may use.
pub(crate) struct FileWanted {
    pub(crate) request: ToolRequest,
    /// Where it is.
    pub(crate) place: RootedPath,
    /// What somebody was shown that is there.
    pub(crate) shown: Option<PreviousContent>,
}

/// The files that an agent may have.
#[derive(Clone)]
pub(crate) struct Files {
    roots: Arc<Roots>,
    disk: Disk,
    /// Whose they are: what one agent's disk does not answer is not to stop another's.
    whose: Arc<Path>,
    room: Arc<Semaphore>,
    /// Room for texts that were read and wait to be sent: an agent that reads no answers is read no more files.
    texts: Arc<Semaphore>,
}

impl Files {
    /// The files inside these directories.
    pub(crate) fn new(roots: Roots, disk: Disk) -> Self {
        let whose = PathBuf::from(crate::wire::new_uuid().to_string()).into();
        let [room, texts] = [FILES, TEXTS].map(|count| Arc::new(Semaphore::new(count)));
        Self { roots: Arc::new(roots), disk, whose, room, texts }
    }

    /// Looks where a path leads, whether so much can be written there, and with `shown` what that would replace.
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

    async fn read(self, place: RootedPath, lines: LineRange) -> ToolOutcome {
        let room = Arc::clone(&self.texts).acquire_owned().await.ok();
        ToolOutcome::Read(self.at_disk(move || place.read(lines).map(ToolAnswer::Text)).await, room)
    }

    /// Writes a file, unless it has something else than somebody was shown.
    async fn write(
        self,
        place: RootedPath,
        content: String,
        shown: Option<PreviousContent>,
    ) -> Result<ToolAnswer, RpcError> {
        self.at_disk(move || {
            if shown.is_some_and(|shown| place.replaced(OLD_TEXT_BYTES).ok() != Some(shown)) {
                return Err(place.changed());
            }
            place.write(&content).map(|()| ToolAnswer::Done)
        })
        .await
    }

    /// Does something with files. Whoever waits too long for a disk is told so.
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

    /// Whether more of this sort can be seen to.
    pub(crate) fn has_room(&self, sort: ToolJobKind) -> bool {
        self.open.values().filter(|job| job.sort == sort).count() < JOBS
    }

    /// Makes room for another terminal in a turn. Where there are as many as there may be, those that are being started
    /// among them, the oldest whose command has ended is forgotten, once that is kept and the agent has read what it
    /// shows, or is in another turn. Whether there is room.
    pub(crate) fn make_room_for_terminal(&mut self, turn: Option<TurnId>) -> bool {
        let starting = self.open.values().filter(|job| job.sort == ToolJobKind::Start).count();
        if self.terminals.len() + starting >= TERMINALS {
            let is_done_with =
                |running: &TerminalState| running.is_over && (running.is_told || running.turn != turn);
            // The ids are made in the order of the terminals.
            let done = self.terminals.iter().filter(|(_, running)| is_done_with(running)).map(|(id, _)| id);
            if let Some(oldest) = done.min().cloned() {
                self.terminals.remove(&oldest);
            }
        }
        self.terminals.len() + starting < TERMINALS
    }

    /// The next thing that has come of something. `None` if it is time to keep what terminals show.
    pub(crate) async fn next(&mut self) -> Option<(ToolRequestOrigin, ToolOutcome)> {
        loop {
            let due = self.due;
            tokio::select! {
                Some(joined) = self.jobs.join_next_with_id() => {
                    let (id, done) = match joined {
                        Ok(done) => done,
                        Err(error) => (error.id(), ToolOutcome::Answered(Err(unusable("it could not be done")))),
                    };
                    // One that was broken off is answered already, though it may have come to its end.
                    if let Some(Job { errand, .. }) = self.open.remove(&id) {
                        return Some((errand, done));
                    }
                }
                () = self.changed.notified(), if due.is_none() => {
                    let now = Instant::now();
                    let next = self.kept_at.map_or(now, |kept| kept + NEWS_EVERY);
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

    /// Begins a job.
    pub(crate) fn begin(
        &mut self,
        errand: ToolRequestOrigin,
        sort: ToolJobKind,
        work: impl Future<Output = ToolOutcome> + Send + 'static,
    ) {
        let abort = self.jobs.spawn(work);
        self.open.insert(abort.id(), Job { errand, sort, abort });
    }

    /// Whether a request is being seen to.
    pub(crate) fn is_open(&self, ask: &AskId) -> bool {
        self.open.values().any(|job| job.errand.ask == *ask)
    }

    /// Whether any is.
    pub(crate) fn is_busy(&self) -> bool {
        !self.open.is_empty()
    }

    /// Looks whether what a request wants is inside the session's directories, whether so many bytes can be written
    /// there, and with `shown` what they would replace.
    pub(crate) fn check(&mut self, errand: ToolRequestOrigin, path: &str, length: usize, shown: bool) {
        let check = self.files.clone().check(path.to_owned(), length, shown);
        self.begin(errand, ToolJobKind::Work, async { ToolOutcome::Checked(check.await) });
    }

    /// Reads or writes a file: by the client that has been asked to, or else here.
    pub(crate) fn serve_file(
        &mut self,
        errand: ToolRequestOrigin,
        wanted: FileWanted,
        client: oneshot::Receiver<ClientDecision>,
    ) {
        let files = self.files.clone();
        self.begin(errand, ToolJobKind::Work, async move {
            match client.await {
                Ok(ClientDecision::Say(result)) => return ToolOutcome::Passed(result),
                Ok(ClientDecision::Fail(error)) => return ToolOutcome::Answered(Err(error)),
                // Nobody has it open.
                Ok(
                    ClientDecision::Choose(_)
                    | ClientDecision::Approve
                    | ClientDecision::Reject
                    | ClientDecision::Cancel,
                )
                | Err(_) => {}
            }
            let FileWanted { request, place, shown } = wanted;
            match request {
                ToolRequest::Read { line, limit, .. } => {
                    files.read(place, LineRange { first: line, count: limit }).await
                }
                ToolRequest::Write { content, .. } => {
                    ToolOutcome::Answered(files.write(place, content, shown).await)
                }
                other => ToolOutcome::Answered(Err(RpcError::method_not_found(other.method()))),
            }
        });
    }

    /// Breaks off what can be of those that are meant; what they were for.
    pub(crate) fn withdraw(&mut self, is_meant: impl Fn(&AskId) -> bool) -> Vec<ToolRequestOrigin> {
        let is_meant = |job: &Job| job.sort != ToolJobKind::End && is_meant(&job.errand.ask);
        let broken_off = self.open.extract_if(|_, job| is_meant(job));
        broken_off
            .map(|(_, Job { errand, abort, .. })| {
                abort.abort();
                errand
            })
            .collect()
    }

    /// Takes a terminal in.
    pub(crate) fn add(&mut self, id: Box<str>, terminal: TerminalProcess, turn: Option<TurnId>) {
        let terminal = Arc::new(terminal);
        let (held, is_over, is_told) = (String::new(), false, false);
        self.terminals.insert(id, TerminalState { terminal, held, is_over, is_told, turn });
    }

    /// A terminal of the agent's.
    pub(crate) fn terminal(&mut self, id: &str) -> Option<&mut TerminalState> {
        self.terminals.get_mut(id)
    }

    /// All of them.
    pub(crate) fn terminals(&mut self) -> impl Iterator<Item = (&str, &mut TerminalState)> {
        self.terminals.iter_mut().map(|(id, running)| (&**id, running))
    }

    /// Forgets a terminal.
    pub(crate) fn forget(&mut self, id: &str) {
        self.terminals.remove(id);
    }

    /// Ends every command, in bounded time; what has come of each is then known of its terminal.
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

/// How an agent is told that a file is not read or written. One that is missing is said in the words of the system,
/// which is what some agents look for.
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

/// An error whose words stand also where agents look for them.
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
    async fn no_more_files_are_read_while_their_texts_wait_to_be_sent() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("f");
        std::fs::write(&file, "text").unwrap();
        let root = AbsolutePath::new(home.path().to_str().unwrap()).unwrap();
        let roots: Roots = Root::find(&root).into_iter().collect();
        let files = Files::new(roots, Disk::default());
        let read = || {
            let place = files.roots.locate(file.to_str().unwrap()).unwrap();
            Box::pin(files.clone().read(place, LineRange::default()))
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
    fn an_agent_finds_enoent_in_the_error_for_a_missing_file_and_words_for_every_other() {
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
