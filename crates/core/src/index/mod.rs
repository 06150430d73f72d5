//! The full-text index over every conversation on this machine: records of the store, and native transcripts.
//!
//! It is a SQLite file of its own, readable by its owner only. Everything in it comes from the store and the
//! transcripts, so it can be deleted at any time, and a damaged or older one is made anew. [`update`](SearchIndex)
//! reads what has changed, within a time limit; a search never waits for it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use crate::model::ErrorCode;
use crate::store::{database_uri, make_private_directory};

mod message_writer;
mod messages;
mod search;
mod sessions;
mod update;
mod words;

pub use messages::MessageRole;
pub use search::{SearchHit, SearchQuery, SearchScope};
pub use sessions::{IndexStatus, IndexedSession, SessionOrigin, SessionPlace, TranscriptFilter};
pub use update::{IndexExclusions, IndexProgress, TranscriptScan};

/// The version of the tables.
const FORMAT: i64 = 4;
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
}

impl SearchIndex {
    /// Opens the index, and creates it if it is missing, damaged or of another format.
    pub fn open(path: &Path) -> Result<Self, IndexError> {
        match Self::open_existing(path) {
            Ok(Some(index)) => Ok(index),
            Ok(None) => Self::create(path),
            Err(IndexError::Sqlite { source, .. }) if is_damage(&source) => Self::create(path),
            Err(error) => Err(error),
        }
    }

    /// Deletes the index and creates an empty one.
    pub fn create(path: &Path) -> Result<Self, IndexError> {
        let not_created = |source| IndexError::NotCreated { path: path.to_owned(), source };
        if let Some(directory) = path.parent() {
            make_private_directory(directory).map_err(not_created)?;
        }
        Self::delete(path).map_err(not_created)?;
        private_file(path).map_err(not_created)?;
        let index = Self::connect(path)?;
        index.run(|connection| {
            connection.execute_batch(SCHEMA)?;
            connection.pragma_update(None, "user_version", FORMAT)
        })?;
        Ok(index)
    }

    /// Deletes the index and its companion files.
    pub fn delete(path: &Path) -> io::Result<()> {
        for end in ["", "-wal", "-shm"] {
            let mut file = path.as_os_str().to_owned();
            file.push(end);
            match fs::remove_file(&file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Opens an index of this format; `None` if it is missing, empty or of another format.
    pub fn open_existing(path: &Path) -> Result<Option<Self>, IndexError> {
        if !path.exists() {
            return Ok(None);
        }
        let index = Self::connect(path)?;
        let format: i64 =
            index.run(|connection| connection.query_row("PRAGMA user_version", [], |row| row.get(0)))?;
        Ok((format == FORMAT).then_some(index))
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
        Ok(Self { connection, path: path.to_owned() })
    }

    fn connect(path: &Path) -> Result<Self, IndexError> {
        let failed = |source| IndexError::Sqlite { path: path.to_owned(), source };
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(failed)?;
        let index = Self { connection, path: path.to_owned() };
        index.run(|connection| {
            connection.busy_timeout(BUSY_TIMEOUT)?;
            connection.pragma_update(None, "journal_mode", "WAL")?;
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

    /// Runs statements, with errors that name the file.
    fn run<T>(
        &self,
        statements: impl FnOnce(&Connection) -> Result<T, rusqlite::Error>,
    ) -> Result<T, IndexError> {
        statements(&self.connection).map_err(|source| self.failed(source))
    }

    fn failed(&self, source: rusqlite::Error) -> IndexError {
        IndexError::Sqlite { path: self.path.clone(), source }
    }
}

/// Creates an empty file that only its owner can read; SQLite gives its companions the same mode.
fn private_file(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map(drop)
}

/// Whether the file is no database or is damaged.
fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    matches!(error.sqlite_error_code(), Some(DatabaseCorrupt | NotADatabase))
}

#[cfg(test)]
mod tests;
