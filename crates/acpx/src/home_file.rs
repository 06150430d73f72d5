//! A JSON file of the home that commands change: one owner reads and writes it, others read it at any time.
//!
//! A change happens under a lock and replaces the file, so a reader sees the old content or the new one, and of two
//! changes at once neither is lost. The file and its lock are readable by their owner only.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::marker::PhantomData;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::private_file::{ExistingFile, PrivateFile};

/// The file, with its content as `T`.
#[derive(Debug, Clone)]
pub(crate) struct HomeFile<T> {
    path: PathBuf,
    largest: u64,
    content: PhantomData<T>,
}

/// An exclusive lock on a file that has no other purpose; it is released when dropped.
#[derive(Debug)]
pub(crate) struct LockFile {
    _file: File,
}

impl LockFile {
    /// Takes the lock; `None` if another process has it.
    pub(crate) fn try_take(path: &Path) -> io::Result<Option<Self>> {
        let file = Self::open(path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits for the lock.
    fn take(path: &Path) -> io::Result<Self> {
        let file = Self::open(path)?;
        flock(&file, FlockOperation::LockExclusive)?;
        Ok(Self { _file: file })
    }

    fn open(path: &Path) -> io::Result<File> {
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)
    }
}

impl<T: Default + Serialize + DeserializeOwned> HomeFile<T> {
    /// The file with this path, of which at most `largest` bytes are read.
    pub(crate) fn new(path: PathBuf, largest: u64) -> Self {
        Self { path, largest, content: PhantomData }
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Its content; the default if there is no file.
    pub(crate) fn read(&self) -> io::Result<T> {
        let mut text = String::new();
        match File::open(&self.path) {
            Ok(file) => file.take(self.largest).read_to_string(&mut text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(T::default()),
            Err(error) => return Err(error),
        };
        Ok(serde_json::from_str(&text)?)
    }

    /// Replaces the file under its lock, unless `change` fails.
    pub(crate) fn change<R, E>(
        &self,
        change: impl FnOnce(&mut T) -> Result<R, E>,
    ) -> io::Result<Result<R, E>> {
        let _lock = LockFile::take(&self.path.with_extension("lock"))?;
        let mut content = self.read()?;
        let done = change(&mut content);
        if done.is_ok() {
            self.write(&content)?;
        }
        Ok(done)
    }

    fn write(&self, content: &T) -> io::Result<()> {
        let mut file = PrivateFile::next_to(&self.path, ".acpx-home-")?;
        file.write_all(serde_json::to_string_pretty(content)?.as_bytes())?;
        file.persist(&self.path, ExistingFile::Replace)
    }
}
