//! Walks the directories of an agent: regular files of this user only, and no link that leads out of the directory.

use std::ffi::OsStr;
use std::fs::{self, DirEntry, File, Metadata};
use std::io;
use std::num::NonZero;
use std::os::unix::fs::MetadataExt;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread;

use super::{SourceStamp, TranscriptProblem, TranscriptSource};
use crate::model::AcpSessionId;
use crate::store::open_regular_file;

/// How many entries of a directory tree are looked at.
const MOST_ENTRIES: usize = 1_000_000;
/// So many entries of a directory are checked at once.
const PART: usize = 8_192;
/// By at most so many threads.
const THREADS: usize = 4;
/// A thread has at least so many.
const THREAD_PART: usize = 512;

/// An entry that may be read, `None` if it is of no use, or why it may not be read.
type CheckedEntry = Result<Option<WalkEntry>, TranscriptProblem>;

/// A walk through one directory tree, with the problems that it met.
pub(super) struct Walk {
    /// The directory with its links resolved.
    root: PathBuf,
    user: u32,
    left: usize,
    pub(super) problems: Vec<TranscriptProblem>,
}

/// A directory, or a regular file, in a directory.
pub(super) struct WalkEntry {
    pub(super) path: PathBuf,
    pub(super) name: String,
    pub(super) is_directory: bool,
    pub(super) stamp: SourceStamp,
}

impl WalkEntry {
    /// Whether it is a file with content.
    pub(super) fn has_content(&self) -> bool {
        !self.is_directory && self.stamp.size > 0
    }
}

impl TranscriptSource {
    /// The transcript of a session in a file of its own.
    pub(super) fn of_file(agent: &'static str, entry: &WalkEntry, session: &str) -> Option<Self> {
        let (session, path) = (AcpSessionId::new(session).ok()?, entry.path.clone());
        Some(Self { agent, session, path, stamp: entry.stamp, parent: None, is_archived: false })
    }
}

impl SourceStamp {
    /// The stamp of a file.
    pub(super) fn of(metadata: &Metadata) -> Self {
        let modified = metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec());
        Self { size: metadata.len(), modified, inode: metadata.ino() }
    }
}

impl Walk {
    /// Begins at a directory; `None` if it does not exist.
    pub(super) fn new(directory: &Path, problems: &mut Vec<TranscriptProblem>) -> Option<Self> {
        match directory.canonicalize() {
            Ok(root) => Some(Self {
                root,
                user: rustix::process::geteuid().as_raw(),
                left: MOST_ENTRIES,
                problems: Vec::new(),
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                problems.push(TranscriptProblem::new(directory, error.to_string()));
                None
            }
        }
    }

    /// The directory where the walk begins, with its links resolved.
    pub(super) fn root(&self) -> PathBuf {
        self.root.clone()
    }

    /// The directories in a directory.
    pub(super) fn directories(&mut self, directory: &Path) -> Vec<WalkEntry> {
        self.entries(directory, |entry| entry.is_directory)
    }

    /// The regular files in a directory that are not empty.
    pub(super) fn files(&mut self, directory: &Path) -> Vec<WalkEntry> {
        self.entries(directory, WalkEntry::has_content)
    }

    /// The directories and the regular files in a directory.
    pub(super) fn all(&mut self, directory: &Path) -> Vec<WalkEntry> {
        self.entries(directory, |_| true)
    }

    /// A regular file with this name in a directory, if it is not empty and may be read. A name with a `/` is none.
    pub(super) fn named_file(&mut self, directory: &Path, name: &str) -> Option<WalkEntry> {
        self.named_file_or_empty(directory, name).filter(WalkEntry::has_content)
    }

    /// The same for a file that may be empty.
    pub(super) fn named_file_or_empty(&mut self, directory: &Path, name: &str) -> Option<WalkEntry> {
        let is_name = !name.contains(['/', '\0']) && name != "." && name != "..";
        let path = is_name.then(|| directory.join(name))?;
        let metadata = fs::symlink_metadata(&path);
        self.entry(path, metadata).filter(|entry| !entry.is_directory)
    }

    /// Opens a file that was found.
    pub(super) fn open(&self, path: &Path) -> io::Result<File> {
        open_below(&self.root, path)
    }

    fn entries(&mut self, directory: &Path, is_meant: impl Fn(&WalkEntry) -> bool) -> Vec<WalkEntry> {
        let mut listed = match fs::read_dir(directory) {
            Ok(listed) => listed,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
            Err(error) => {
                self.note(directory, error.to_string());
                return Vec::new();
            }
        };
        let mut found = Vec::new();
        while self.left > 0 {
            let part: Vec<io::Result<DirEntry>> = listed.by_ref().take(PART.min(self.left)).collect();
            if part.is_empty() {
                return found;
            }
            self.left -= part.len();
            for checked in self.check_all(directory, &part) {
                match checked {
                    Ok(entry) => found.extend(entry.filter(&is_meant)),
                    Err(problem) => self.problems.push(problem),
                }
            }
        }
        if listed.next().is_some() {
            self.note(directory, format!("more than {MOST_ENTRIES} files; the rest is left out"));
        }
        found
    }

    /// Checks entries of a directory, many of them in several threads: most of the time is the kernel's.
    fn check_all<'part>(
        &self,
        directory: &Path,
        entries: &'part [io::Result<DirEntry>],
    ) -> Vec<CheckedEntry> {
        let check = |entry: &io::Result<DirEntry>| match entry {
            // The kernel looks the name up in the open directory, which is faster than the whole path.
            Ok(entry) => self.check(entry.path(), entry.metadata()),
            Err(error) => Err(TranscriptProblem::new(directory, error.to_string())),
        };
        if entries.len() <= THREAD_PART {
            return entries.iter().map(check).collect();
        }
        let threads = thread::available_parallelism().map_or(1, NonZero::get).min(THREADS);
        let size = entries.len().div_ceil(threads).max(THREAD_PART);
        thread::scope(|scope| {
            let part = |part: &'part [_]| scope.spawn(move || part.iter().map(check).collect::<Vec<_>>());
            let running: Vec<_> = entries.chunks(size).map(part).collect();
            let join = |part: thread::ScopedJoinHandle<'_, _>| {
                part.join().unwrap_or_else(|panic| resume_unwind(panic))
            };
            running.into_iter().flat_map(join).collect()
        })
    }

    fn entry(&mut self, path: PathBuf, metadata: io::Result<Metadata>) -> Option<WalkEntry> {
        self.check(path, metadata).unwrap_or_else(|problem| {
            self.problems.push(problem);
            None
        })
    }

    /// An entry of this user that a link does not lead out of the directory; `None` if it is gone, or its name is not
    /// text.
    fn check(&self, path: PathBuf, metadata: io::Result<Metadata>) -> CheckedEntry {
        let Some(name) = path.file_name().and_then(OsStr::to_str).map(ToOwned::to_owned) else {
            return Ok(None);
        };
        let problem = |reason: String| Err(TranscriptProblem::new(&path, reason));
        let mut metadata = match metadata {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return problem(error.to_string()),
        };
        if metadata.is_symlink() {
            let target = path.canonicalize().and_then(|target| Ok((fs::metadata(&target)?, target)));
            match target {
                Ok((target, real)) if real.starts_with(&self.root) => metadata = target,
                Ok(_) => return problem("it is a link that leads out of the agent's directory".to_owned()),
                Err(error) => return problem(error.to_string()),
            }
        }
        if metadata.uid() != self.user {
            return problem("it belongs to another user".to_owned());
        }
        if !metadata.is_file() && !metadata.is_dir() {
            return problem("it is not a regular file".to_owned());
        }
        // The owner's permission decides, because the file is this user's.
        if metadata.mode() & 0o400 == 0 {
            return problem("you may not read it".to_owned());
        }
        Ok(Some(WalkEntry { path, name, is_directory: metadata.is_dir(), stamp: SourceStamp::of(&metadata) }))
    }

    pub(super) fn note(&mut self, path: &Path, reason: impl Into<String>) {
        self.problems.push(TranscriptProblem::new(path, reason));
    }
}

impl TranscriptProblem {
    pub(super) fn new(path: &Path, reason: impl Into<String>) -> Self {
        Self { path: path.to_owned(), reason: reason.into() }
    }
}

/// Opens a regular file of this user below a directory for reading, if no link leads out of the directory.
pub(super) fn open_within(directory: &Path, path: &Path) -> io::Result<File> {
    open_below(&directory.canonicalize()?, path)
}

/// The same for a directory whose links are resolved.
fn open_below(directory: &Path, path: &Path) -> io::Result<File> {
    let real = path.canonicalize()?;
    if !real.starts_with(directory) {
        let reason = "it is a link that leads out of the agent's directory";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
    }
    let file = open_regular_file(&real)?;
    if file.metadata()?.uid() == rustix::process::geteuid().as_raw() {
        Ok(file)
    } else {
        Err(io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to another user"))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_regular_files_within_the_directory_are_listed() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap();
        let agent = root.join("agent");
        fs::create_dir_all(agent.join("project")).unwrap();
        fs::write(root.join("outside"), "secret").unwrap();
        fs::write(agent.join("project/one"), "1").unwrap();
        fs::write(agent.join("project/empty"), "").unwrap();
        symlink("one", agent.join("project/inside")).unwrap();
        symlink(root.join("outside"), agent.join("project/out")).unwrap();
        symlink("missing", agent.join("project/broken")).unwrap();
        assert!(
            std::process::Command::new("mkfifo").arg(agent.join("project/pipe")).status().unwrap().success()
        );
        let mut walk = Walk::new(&agent, &mut Vec::new()).unwrap();
        let directories: Vec<PathBuf> =
            walk.directories(&agent).into_iter().map(|entry| entry.path).collect();
        assert_eq!(directories, [agent.join("project")]);
        let mut names: Vec<String> =
            walk.files(&directories[0]).into_iter().map(|entry| entry.name).collect();
        names.sort();
        assert_eq!(names, ["inside", "one"]);
        let mut problems: Vec<(String, String)> = walk
            .problems
            .iter()
            .map(|problem| {
                (problem.path.file_name().unwrap().to_str().unwrap().into(), problem.reason.clone())
            })
            .collect();
        problems.sort();
        let expected = [
            ("broken", "No such file or directory (os error 2)"),
            ("out", "it is a link that leads out of the agent's directory"),
            ("pipe", "it is not a regular file"),
        ];
        assert_eq!(problems, expected.map(|(name, reason)| (name.to_owned(), reason.to_owned())));
        let mut other = Walk { user: u32::MAX, ..Walk::new(&agent, &mut Vec::new()).unwrap() };
        assert_eq!(other.directories(&agent).len(), 0);
        let theirs = TranscriptProblem::new(&agent.join("project"), "it belongs to another user");
        assert_eq!(other.problems, [theirs]);
        assert_eq!(Walk::new(&root.join("missing"), &mut Vec::new()).map(|_| ()), None);
    }
}
