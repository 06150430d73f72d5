//! Reads and writes files for agents, only inside the session's directories.
//!
//! The roots are resolved once, including symlinks, before the agent can replace them. From then on, no symlink is
//! followed on the way to a root.
//!
//! A path is resolved once, including symlinks, and must lie inside one of the roots. The file is then opened relative
//! to that root by its resolved name: a symlink placed there later is followed only while it stays inside. Only regular
//! files are read or replaced, and a file is replaced atomically.

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Component, Path, PathBuf};

use cap_std::fs::{Dir, File, OpenOptions, OpenOptionsExt};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::model::{AbsolutePath, PreviousContent};

/// Maximum size of a text that is read or written, in bytes.
const MAX_TEXT_BYTES: usize = 10 << 20;
/// How far into a file the requested lines may reach, in bytes.
const MAX_SCAN_BYTES: usize = 256 << 20;
/// How many dangling symlinks are followed.
const MAX_LINKS: usize = 40;

/// The directories whose files an agent may use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Roots(Vec<Root>);

/// One root, as a resolved path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Root(PathBuf);

/// A path inside one of the roots; the file need not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RootedPath {
    /// The root, resolved.
    root: PathBuf,
    /// The path below the root, resolved.
    inner: PathBuf,
    /// The path as requested.
    requested: PathBuf,
}

/// Which lines of a file are requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LineRange {
    /// The first line, counted from 1; `None` and 0 mean the first line of the file.
    pub first: Option<u32>,
    /// How many lines; `None` means all.
    pub count: Option<u32>,
}

/// Why a file was not read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum FileError {
    /// The path is relative.
    #[error("path must be absolute: {}", path.display())]
    Relative {
        /// The path as requested.
        path: PathBuf,
    },
    /// The path is outside the session's directories.
    #[error("path is outside the session's directories: {}", path.display())]
    Outside {
        /// The path as requested.
        path: PathBuf,
    },
    /// The file does not exist.
    #[error("no such file or directory: {}", path.display())]
    Missing {
        /// The path as requested.
        path: PathBuf,
    },
    /// The system denies access.
    #[error("permission denied: {}", path.display())]
    Forbidden {
        /// The path as requested.
        path: PathBuf,
    },
    /// The path is a directory, a pipe, a device or the like.
    #[error("not a regular file: {}", path.display())]
    NotAFile {
        /// The path as requested.
        path: PathBuf,
    },
    /// The file changed since a client approved the request.
    #[error("changed since it was asked about: {}", path.display())]
    Changed {
        /// The path as requested.
        path: PathBuf,
    },
    /// The text exceeds the size limit.
    #[error("larger than {limit} bytes: {}", path.display())]
    TooLarge {
        /// The path as requested.
        path: PathBuf,
        /// The limit in bytes.
        limit: usize,
    },
    /// The file is not UTF-8 text, and the protocol carries only text.
    #[error("not UTF-8 text: {}", path.display())]
    NotText {
        /// The path as requested.
        path: PathBuf,
    },
    /// Any other system error.
    #[error("cannot use {}", path.display())]
    System {
        /// The path as requested.
        path: PathBuf,
        /// The system error.
        #[source]
        source: io::Error,
    },
}

impl Root {
    /// Resolves a directory to a root; from here on, the root is the resolved path. The directory need not exist yet.
    /// `None` if it cannot be resolved.
    pub(crate) fn find(directory: &AbsolutePath) -> Option<Self> {
        real_path(directory.as_path()).ok().map(Self)
    }
}

impl FromIterator<Root> for Roots {
    fn from_iter<I: IntoIterator<Item = Root>>(roots: I) -> Self {
        Self(roots.into_iter().collect())
    }
}

impl Roots {
    /// Resolves a path, which must be inside a root.
    pub(crate) fn locate(&self, path: &str) -> Result<RootedPath, FileError> {
        let requested = PathBuf::from(path);
        if !requested.is_absolute() {
            return Err(FileError::Relative { path: requested });
        }
        let real = real_path(&requested).map_err(|error| failed(&requested, error))?;
        let inside = self.0.iter().filter_map(|Root(root)| {
            let inner = real.strip_prefix(root).ok()?.to_owned();
            Some((root.clone(), inner))
        });
        match inside.max_by_key(|(root, _)| root.as_os_str().len()) {
            Some((root, inner)) => Ok(RootedPath { root, inner, requested }),
            None => Err(FileError::Outside { path: requested }),
        }
    }
}

impl RootedPath {
    /// The resolved path.
    pub(crate) fn real_path(&self) -> PathBuf {
        self.root.join(&self.inner)
    }

    /// The text of the file, or the requested lines without the newline that ends the last of them.
    pub(crate) fn read(&self, lines: LineRange) -> Result<String, FileError> {
        let bytes = self.open_file().and_then(|file| wanted(file, lines)).map_err(|error| self.failed(error));
        let bytes = bytes?.ok_or_else(|| self.too_large(MAX_TEXT_BYTES))?;
        String::from_utf8(bytes).map_err(|_| FileError::NotText { path: self.requested.clone() })
    }

    /// What a write would replace. For a text above the limit, or for binary content, only its length.
    pub(crate) fn replaced(&self, limit: u64) -> Result<PreviousContent, FileError> {
        let length = match self.open_file().and_then(|file| file.metadata()) {
            Ok(facts) => facts.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(PreviousContent::Nothing),
            Err(error) => return Err(self.failed(error)),
        };
        if length > limit {
            return Ok(PreviousContent::Unshown(length));
        }
        match self.read(LineRange::default()) {
            Ok(text) => Ok(PreviousContent::Text(text)),
            Err(FileError::NotText { .. }) => Ok(PreviousContent::Unshown(length)),
            Err(error) => Err(error),
        }
    }

    /// Checks the size of a text before a client is asked to approve writing it.
    pub(crate) fn takes(&self, length: usize) -> Result<(), FileError> {
        if length > MAX_TEXT_BYTES { Err(self.too_large(MAX_TEXT_BYTES)) } else { Ok(()) }
    }

    /// Replaces the file with this text and creates missing parent directories. The file keeps its mode.
    pub(crate) fn write(&self, text: &str) -> Result<(), FileError> {
        self.takes(text.len())?;
        let name = self.inner.file_name().ok_or_else(|| self.failed(not_a_file()))?;
        self.replace(name, text.as_bytes()).map_err(|error| self.failed(error))
    }

    fn replace(&self, name: &OsStr, bytes: &[u8]) -> io::Result<()> {
        let root = self.root()?;
        let directory = match self.inner.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            None => root,
            Some(parent) => match root.open_dir(parent) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    root.create_dir_all(parent)?;
                    root.open_dir(parent)?
                }
                opened => opened?,
            },
        };
        let mode = match directory.symlink_metadata(name) {
            Ok(facts) if !facts.is_file() => return Err(not_a_file()),
            Ok(facts) => {
                // A rename would succeed even if this file is not writable.
                directory.open_with(name, without_waiting(OpenOptions::new().write(true)))?;
                Some(facts.permissions())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let draft = TempFile::new(&directory)?;
        if let Some(mode) = mode {
            draft.file.set_permissions(mode)?;
        }
        draft.fill(bytes)?;
        draft.rename_over(name)
    }

    fn open_file(&self) -> io::Result<File> {
        let inner = if self.inner.as_os_str().is_empty() { Path::new(".") } else { &self.inner };
        let file = self.root()?.open_with(inner, without_waiting(OpenOptions::new().read(true)))?;
        if file.metadata()?.is_file() { Ok(file) } else { Err(not_a_file()) }
    }

    /// Opens the root step by step; fails if a symlink has replaced the root or a directory above it.
    fn root(&self) -> io::Result<Dir> {
        let mut directory = rustix::fs::open("/", STEP, Mode::empty())?;
        for step in self.root.components().filter(|step| matches!(step, Component::Normal(_))) {
            directory = match rustix::fs::openat(&directory, step.as_os_str(), STEP, Mode::empty()) {
                Err(Errno::LOOP | Errno::NOTDIR) => return Err(io::ErrorKind::PermissionDenied.into()),
                opened => opened?,
            };
        }
        Ok(Dir::from_std_file(directory.into()))
    }

    /// The error for a file that has changed.
    pub(crate) fn changed(&self) -> FileError {
        FileError::Changed { path: self.requested.clone() }
    }

    fn too_large(&self, limit: usize) -> FileError {
        FileError::TooLarge { path: self.requested.clone(), limit }
    }

    fn failed(&self, error: io::Error) -> FileError {
        failed(&self.requested, error)
    }
}

/// How a directory on the way to a root is opened. Where the system supports it, read permission is not needed.
#[cfg(target_os = "linux")]
const STEP: OFlags = OFlags::PATH.union(DIRECTORY);
#[cfg(not(target_os = "linux"))]
const STEP: OFlags = DIRECTORY;
const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opening a pipe without a writer would block forever.
fn without_waiting(options: &mut OpenOptions) -> &OpenOptions {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).expect("the system's flags fit its own type");
    options.custom_flags(flags)
}

/// A temporary file, removed on drop unless it was renamed over its target.
struct TempFile<'a> {
    directory: &'a Dir,
    name: String,
    file: File,
}

impl<'a> TempFile<'a> {
    fn new(directory: &'a Dir) -> io::Result<Self> {
        let name = format!(".{}.acpx", uuid::Uuid::new_v7(uuid::Timestamp::from_unix(uuid::NoContext, 0, 0)));
        let file = directory.open_with(&name, OpenOptions::new().write(true).create_new(true))?;
        Ok(Self { directory, name, file })
    }

    /// Writes and syncs the file, so that after a machine crash either the old or the new text is there.
    fn fill(&self, bytes: &[u8]) -> io::Result<()> {
        (&self.file).write_all(bytes)?;
        self.file.sync_all()
    }

    fn rename_over(&self, name: &OsStr) -> io::Result<()> {
        self.directory.rename(&self.name, self.directory, name)
    }
}

impl Drop for TempFile<'_> {
    fn drop(&mut self) {
        // After the rename, no file has this name.
        drop(self.directory.remove_file(&self.name));
    }
}

/// Resolves a path including symlinks. A path that does not exist is kept by name; dangling symlinks to it are
/// followed.
fn real_path(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    let mut rest = Vec::new();
    let mut links = 0;
    loop {
        match path.canonicalize() {
            Ok(real) => return Ok(rest.iter().rev().fold(real, |real, name| real.join(name))),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Err(error) => match path.read_link() {
                Ok(target) if links < MAX_LINKS => {
                    links += 1;
                    // An absolute target replaces the whole path.
                    path = path.parent().unwrap_or(Path::new("/")).join(target);
                }
                Ok(_) => return Err(error),
                Err(_) => {
                    // The parent of a missing path is unknown, so `..` cannot be resolved.
                    let name = path.file_name().ok_or(error)?;
                    rest.push(name.to_owned());
                    path.pop();
                }
            },
        }
    }
}

/// The requested part of a file; `None` if it is too large.
fn wanted(file: File, LineRange { first, count }: LineRange) -> io::Result<Option<Vec<u8>>> {
    let first = u64::from(first.unwrap_or(1).max(1));
    let end = count.map_or(u64::MAX, |count| first + u64::from(count));
    let mut reader = BufReader::with_capacity(64 << 10, file);
    let (mut text, mut line, mut scanned) = (Vec::new(), 1, 0);
    while line < end {
        let piece = reader.fill_buf()?;
        if piece.is_empty() {
            return Ok(Some(text));
        }
        let newline = memchr::memchr(b'\n', piece);
        let length = newline.map_or(piece.len(), |index| index + 1);
        if line >= first {
            text.extend_from_slice(piece.get(..length).unwrap_or_default());
        }
        reader.consume(length);
        line += u64::from(newline.is_some());
        scanned += length;
        if text.len() > MAX_TEXT_BYTES || scanned > MAX_SCAN_BYTES {
            return Ok(None);
        }
    }
    if text.ends_with(b"\n") {
        text.pop();
    }
    Ok(Some(text))
}

fn not_a_file() -> io::Error {
    io::ErrorKind::IsADirectory.into()
}

fn failed(path: &Path, error: io::Error) -> FileError {
    let path = path.to_owned();
    match error.kind() {
        io::ErrorKind::NotFound => FileError::Missing { path },
        // A denial by the system has an error number. One without a number is the sandbox's, for a path that leaves the
        // root.
        io::ErrorKind::PermissionDenied if error.raw_os_error().is_none() => FileError::Outside { path },
        io::ErrorKind::PermissionDenied => FileError::Forbidden { path },
        io::ErrorKind::IsADirectory | io::ErrorKind::NotADirectory => FileError::NotAFile { path },
        _ => FileError::System { path, source: error },
    }
}

#[cfg(test)]
mod tests;
