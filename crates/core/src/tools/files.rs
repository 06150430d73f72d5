//! Files that agents have read and written for them, inside the session's directories and nowhere else.
//!
//! Where the roots are is looked up once, links and all, before their agent can put others in their place. From then on a
//! root is what lies under that name, and no link is followed on the way to it.
//!
//! Where a path leads is looked up once, links and all, and must be inside one of the roots. What is then opened is
//! opened below that root by its name without links: a link that somebody puts there meanwhile is followed only as far
//! as it stays inside. Nothing but a regular file is read or replaced, and a file is replaced as a whole or not at all.

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Component, Path, PathBuf};

use cap_std::fs::{Dir, File, OpenOptions, OpenOptionsExt};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::model::{AbsolutePath, PreviousContent};

/// How much text is read or written at once, in bytes.
const MAX_TEXT_BYTES: usize = 10 << 20;
/// How far into a file some of its lines may be, in bytes.
const MAX_SCAN_BYTES: usize = 256 << 20;
/// How many links that lead to nothing are followed.
const MAX_LINKS: usize = 40;

/// The directories whose files an agent may have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Roots(Vec<Root>);

/// One of them, by its name without links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root(PathBuf);

/// A place inside one of the roots, whether or not there is anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootedPath {
    /// The root, without links.
    root: PathBuf,
    /// The rest of the way, without links.
    inner: PathBuf,
    /// The path as it was asked for.
    asked: PathBuf,
}

/// Which lines of a file are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LineRange {
    /// The first, counted from 1; absent, and 0, is the first of the file.
    pub first: Option<u32>,
    /// How many; absent is all.
    pub count: Option<u32>,
}

/// Why a file is not read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// There is no notion of "relative to where".
    #[error("path must be absolute: {}", path.display())]
    Relative {
        /// The path as it was asked for.
        path: PathBuf,
    },
    /// It leads out of the session's directories.
    #[error("path is outside the session's directories: {}", path.display())]
    Outside {
        /// The path as it was asked for.
        path: PathBuf,
    },
    /// There is nothing.
    #[error("no such file or directory: {}", path.display())]
    Missing {
        /// The path as it was asked for.
        path: PathBuf,
    },
    /// The system does not let us.
    #[error("permission denied: {}", path.display())]
    Forbidden {
        /// The path as it was asked for.
        path: PathBuf,
    },
    /// It is a directory, a pipe, a device or the like.
    #[error("not a regular file: {}", path.display())]
    NotAFile {
        /// The path as it was asked for.
        path: PathBuf,
    },
    /// It is not what somebody was shown who was asked about it.
    #[error("changed since it was asked about: {}", path.display())]
    Changed {
        /// The path as it was asked for.
        path: PathBuf,
    },
    /// It is more than is read or written at once.
    #[error("larger than {limit} bytes: {}", path.display())]
    TooLarge {
        /// The path as it was asked for.
        path: PathBuf,
        /// How much it may be.
        limit: usize,
    },
    /// The protocol carries text.
    #[error("not UTF-8 text: {}", path.display())]
    NotText {
        /// The path as it was asked for.
        path: PathBuf,
    },
    /// Anything else that the system says.
    #[error("cannot use {}", path.display())]
    System {
        /// The path as it was asked for.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
}

impl Root {
    /// The root that a directory is as things stand: from here on it is what lies under the name that is found now. One
    /// that is not there yet may still be made there. `None` if it cannot be known.
    pub fn find(directory: &AbsolutePath) -> Option<Self> {
        real_path(directory.as_path()).ok().map(Self)
    }
}

impl FromIterator<Root> for Roots {
    fn from_iter<I: IntoIterator<Item = Root>>(roots: I) -> Self {
        Self(roots.into_iter().collect())
    }
}

impl Roots {
    /// Where a path leads, if that is inside.
    pub fn locate(&self, path: &str) -> Result<RootedPath, FileError> {
        let asked = PathBuf::from(path);
        if !asked.is_absolute() {
            return Err(FileError::Relative { path: asked });
        }
        let real = real_path(&asked).map_err(|error| failed(&asked, error))?;
        let inside = self.0.iter().filter_map(|Root(root)| {
            let inner = real.strip_prefix(root).ok()?.to_owned();
            Some((root.clone(), inner))
        });
        match inside.max_by_key(|(root, _)| root.as_os_str().len()) {
            Some((root, inner)) => Ok(RootedPath { root, inner, asked }),
            None => Err(FileError::Outside { path: asked }),
        }
    }
}

impl RootedPath {
    /// The place by its name without links.
    pub fn real_path(&self) -> PathBuf {
        self.root.join(&self.inner)
    }

    /// The text of the file, or some of its lines. The newline that ends the last of these is no part of them.
    pub fn read(&self, lines: LineRange) -> Result<String, FileError> {
        let bytes = self.open_file().and_then(|file| wanted(file, lines)).map_err(|error| self.failed(error));
        let bytes = bytes?.ok_or_else(|| self.too_large(MAX_TEXT_BYTES))?;
        String::from_utf8(bytes).map_err(|_| FileError::NotText { path: self.asked.clone() })
    }

    /// What a write would replace; of a longer text, or of what is none, only how long it is.
    pub fn replaced(&self, limit: u64) -> Result<PreviousContent, FileError> {
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

    /// Whether so many bytes are a text that is written at once. It can be known before anybody is asked.
    pub fn takes(&self, length: usize) -> Result<(), FileError> {
        if length > MAX_TEXT_BYTES { Err(self.too_large(MAX_TEXT_BYTES)) } else { Ok(()) }
    }

    /// Puts this text in the file's place, and makes the directories that lead there. The file keeps its mode.
    pub fn write(&self, text: &str) -> Result<(), FileError> {
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
                // Renaming would not ask whether this file may be written.
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
        draft.take_the_place_of(name)
    }

    fn open_file(&self) -> io::Result<File> {
        let inner = if self.inner.as_os_str().is_empty() { Path::new(".") } else { &self.inner };
        let file = self.root()?.open_with(inner, without_waiting(OpenOptions::new().read(true)))?;
        if file.metadata()?.is_file() { Ok(file) } else { Err(not_a_file()) }
    }

    /// Opens the root, step by step: a link that has taken the place of it, or of a directory above it, leads out.
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

    /// Says that it has changed.
    pub fn changed(&self) -> FileError {
        FileError::Changed { path: self.asked.clone() }
    }

    fn too_large(&self, limit: usize) -> FileError {
        FileError::TooLarge { path: self.asked.clone(), limit }
    }

    fn failed(&self, error: io::Error) -> FileError {
        failed(&self.asked, error)
    }
}

/// How a directory is opened on the way to a root. Where the system can, it need not be readable for that.
#[cfg(target_os = "linux")]
const STEP: OFlags = OFlags::PATH.union(DIRECTORY);
#[cfg(not(target_os = "linux"))]
const STEP: OFlags = DIRECTORY;
const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opening a pipe that nobody writes to would take for ever.
fn without_waiting(options: &mut OpenOptions) -> &OpenOptions {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).expect("the system's flags fit its own type");
    options.custom_flags(flags)
}

/// A file in the making, which is gone with this value unless it takes the place of another.
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

    /// After a crash of the machine there is the old text or the new one.
    fn fill(&self, bytes: &[u8]) -> io::Result<()> {
        (&self.file).write_all(bytes)?;
        self.file.sync_all()
    }

    fn take_the_place_of(&self, name: &OsStr) -> io::Result<()> {
        self.directory.rename(&self.name, self.directory, name)
    }
}

impl Drop for TempFile<'_> {
    fn drop(&mut self) {
        // Once it has taken its place, there is none of this name.
        drop(self.directory.remove_file(&self.name));
    }
}

/// Where a path leads, links followed. What is not there yet is taken by its name: a link to it is followed too.
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
                    // An absolute target takes the place of all of it.
                    path = path.parent().unwrap_or(Path::new("/")).join(target);
                }
                Ok(_) => return Err(error),
                Err(_) => {
                    // The parent of what is not there is not known: `..` leads nowhere from it.
                    let name = path.file_name().ok_or(error)?;
                    rest.push(name.to_owned());
                    path.pop();
                }
            },
        }
    }
}

/// The wanted part of a file; `None` if that is too much.
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
        // The system has a number for what it forbids. What would lead out of the root is forbidden by nobody else.
        io::ErrorKind::PermissionDenied if error.raw_os_error().is_none() => FileError::Outside { path },
        io::ErrorKind::PermissionDenied => FileError::Forbidden { path },
        io::ErrorKind::IsADirectory | io::ErrorKind::NotADirectory => FileError::NotAFile { path },
        _ => FileError::System { path, source: error },
    }
}

#[cfg(test)]
mod tests;
