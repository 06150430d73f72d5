//! The full-text index over every conversation on this machine: records of the store, and native transcripts.
//!
//! It is a SQLite file of its own, readable by its owner only. Everything in it comes from the store and the
//! transcripts, so it can be deleted at any time, and a damaged or older one is made anew. [`update`](SearchIndex)
//! reads what has changed, within a time limit; a search never waits for it.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use self::open_lock::OpenLock;
use crate::model::ErrorCode;
use crate::store::{database_uri, make_private_directory};

mod message_writer;
mod messages;
mod open_lock;
mod search;
mod sessions;
mod update;
mod words;

pub use messages::MessageRole;
pub use search::{SearchHit, SearchQuery, SearchScope};
pub use sessions::{IndexStatus, IndexedSession, SessionOrigin, SessionPlace, TranscriptFilter};
pub use update::{IndexExclusions, IndexProgress, TranscriptScan};

/// The version of the tables.
const FORMAT: i64 = 5;
const SCHEMA: &str = include_str!("schema.sql");
/// How long a statement waits for another process.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);

/// An error of the index. Nothing but the index is affected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// A file or directory cannot be created.
    #[error("cannot create the index {}", path.display())]
    NotCreated {
        /// The index.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// SQLite reports an error.
    #[error("cannot use the index {}", path.display())]
    Sqlite {
        /// The index.
        path: PathBuf,
        /// Why.
        #[source]
        source: rusqlite::Error,
    },
    /// A record cannot be read.
    #[error(transparent)]
    Store(#[from] crate::store::StoreError),
}

impl IndexError {
    /// The stable code of this error.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::NotCreated { .. } | Self::Sqlite { .. } => ErrorCode::IndexFailed,
            Self::Store(error) => error.code(),
        }
    }

    /// Whether the file is no database or is damaged.
    pub fn is_damage(&self) -> bool {
        use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
        match self {
            Self::Sqlite { source, .. } => {
                matches!(source.sqlite_error_code(), Some(DatabaseCorrupt | NotADatabase))
            }
            Self::NotCreated { .. } | Self::Store(_) => false,
        }
    }

    /// Whether the disk is full, or the file or its directory may not be written.
    pub fn is_unwritable(&self) -> bool {
        use rusqlite::ErrorCode::{CannotOpen, DiskFull, PermissionDenied, ReadOnly};
        match self {
            Self::NotCreated { source, .. } => matches!(
                source.kind(),
                io::ErrorKind::PermissionDenied
                    | io::ErrorKind::ReadOnlyFilesystem
                    | io::ErrorKind::StorageFull
                    | io::ErrorKind::QuotaExceeded
            ),
            Self::Sqlite { source, .. } => matches!(
                source.sqlite_error_code(),
                Some(CannotOpen | DiskFull | PermissionDenied | ReadOnly)
            ),
            Self::Store(_) => false,
        }
    }
}

/// An open index.
pub struct SearchIndex {
    connection: Connection,
    path: PathBuf,
    /// The file that may be deleted if it is damaged; `None` while it is locked, or if it is only read.
    inode: Option<u64>,
}

impl SearchIndex {
    /// Opens the index, and creates it if it is missing, damaged or of another format.
    pub fn open(path: &Path) -> Result<Self, IndexError> {
        let usable = |opened: Result<Option<Self>, IndexError>| match opened {
            Err(error) if error.is_damage() => Ok(None),
            opened => opened,
        };
        if let Some(index) = usable(Self::open_existing(path))? {
            return Ok(index);
        }
        let _lock = Self::lock_to_replace(path)?;
        // Another process may have created it since.
        match usable(Self::open_locked(path))? {
            Some(index) => Ok(index),
            None => Self::replace(path),
        }
    }

    /// Deletes the index and creates an empty one.
    pub fn create(path: &Path) -> Result<Self, IndexError> {
        let _lock = Self::lock_to_replace(path)?;
        Self::replace(path)
    }

    /// Opens an index of this format; `None` if it is missing, empty or of another format.
    pub fn open_existing(path: &Path) -> Result<Option<Self>, IndexError> {
        if !path.exists() {
            return Ok(None);
        }
        let _lock = OpenLock::shared(path);
        Self::open_locked(path)
    }

    fn lock_to_replace(path: &Path) -> Result<OpenLock, IndexError> {
        if let Some(directory) = path.parent() {
            make_private_directory(directory)
                .map_err(|source| IndexError::NotCreated { path: path.to_owned(), source })?;
        }
        Ok(OpenLock::exclusive(path))
    }

    /// Opens an index of this format. The caller has the lock.
    fn open_locked(path: &Path) -> Result<Option<Self>, IndexError> {
        if !path.exists() {
            return Ok(None);
        }
        let mut index = Self::connect(path)?;
        let format: i64 =
            index.run(|connection| connection.query_row("PRAGMA user_version", [], |row| row.get(0)))?;
        index.inode = inode_of(path);
        Ok((format == FORMAT).then_some(index))
    }

    /// Replaces the files by an empty index. The caller has the lock. Another process that has the old ones open goes on
    /// with them.
    fn replace(path: &Path) -> Result<Self, IndexError> {
        let not_created = |source| IndexError::NotCreated { path: path.to_owned(), source };
        delete(path).map_err(not_created)?;
        private_file(path).map_err(not_created)?;
        let mut index = Self::connect(path)?;
        index.run(|connection| {
            // The file keeps it. To set it while others open the file would fail.
            connection.pragma_update(None, "journal_mode", "WAL")?;
            let transaction = connection.unchecked_transaction()?;
            transaction.execute_batch(SCHEMA)?;
            transaction.pragma_update(None, "user_version", FORMAT)?;
            transaction.commit()
        })?;
        index.inode = inode_of(path);
        Ok(index)
    }

    /// Opens the index as it is, where it cannot be written; an empty one in memory if there is none.
    pub fn open_unchanged(path: &Path) -> Result<Self, IndexError> {
        let failed = |source| IndexError::Sqlite { path: path.to_owned(), source };
        let open = || {
            // SQLite cannot create its companion files there, and does not need them if there is no log.
            let has_log = path.with_extension("db-wal").metadata().is_ok_and(|log| log.len() > 0);
            let uri = database_uri(path, if has_log { "mode=ro" } else { "immutable=1" });
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
            let connection = Connection::open_with_flags(uri, flags)?;
            let format: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
            Ok((format == FORMAT).then_some(connection))
        };
        let existing = if path.exists() { open().map_err(failed)? } else { None };
        let connection = match existing {
            Some(connection) => connection,
            None => Connection::open_in_memory()
                .and_then(|memory| memory.execute_batch(SCHEMA).map(|()| memory))
                .map_err(failed)?,
        };
        Ok(Self { connection, path: path.to_owned(), inode: None })
    }

    fn connect(path: &Path) -> Result<Self, IndexError> {
        let failed = |source| IndexError::Sqlite { path: path.to_owned(), source };
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(failed)?;
        let index = Self { connection, path: path.to_owned(), inode: None };
        index.run(|connection| {
            connection.busy_timeout(BUSY_TIMEOUT)?;
            // What a crash of the machine loses is read again.
            connection.pragma_update(None, "synchronous", "OFF")?;
            connection.pragma_update(None, "secure_delete", "ON")?;
            connection.pragma_update(None, "foreign_keys", "ON")?;
            connection.pragma_update(None, "cache_size", -16_384)?;
            connection.pragma_update(None, "mmap_size", 1_i64 << 30)
        })?;
        Ok(index)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs statements, with errors that name the file. A damaged file is deleted: its content is read again when the
    /// index is opened the next time.
    fn run<T>(
        &self,
        statements: impl FnOnce(&Connection) -> Result<T, rusqlite::Error>,
    ) -> Result<T, IndexError> {
        statements(&self.connection).map_err(|source| {
            let error = IndexError::Sqlite { path: self.path.clone(), source };
            if error.is_damage() {
                self.delete_damaged();
            }
            error
        })
    }

    /// Deletes the file, unless another process has replaced it.
    fn delete_damaged(&self) {
        let Some(inode) = self.inode else { return };
        let _lock = OpenLock::exclusive(&self.path);
        if inode_of(&self.path) == Some(inode) {
            // A file that cannot be deleted stays damaged, and each use of it reports that.
            drop(delete(&self.path));
        }
    }
}

/// Deletes an index and its companion files.
fn delete(path: &Path) -> io::Result<()> {
    for end in ["", "-journal", "-wal", "-shm"] {
        let mut file = path.as_os_str().to_owned();
        file.push(end);
        match fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn inode_of(path: &Path) -> Option<u64> {
    fs::metadata(path).ok().map(|file| file.ino())
}

/// Creates an empty file that only its owner can read; SQLite gives its companions the same mode.
fn private_file(path: &Path) -> io::Result<()> {
    fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map(drop)
}

#[cfg(test)]
mod tests;
