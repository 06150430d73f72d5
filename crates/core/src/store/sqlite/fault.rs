//! Converts SQLite's errors to the store's: the only place that interprets result codes.

use std::io;
use std::num::TryFromIntError;
use std::path::Path;
use std::sync::Arc;

use rusqlite::ErrorCode;

use crate::store::StoreError;

/// The underlying error of a failed store operation, for messages.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct SqliteFailure(Cause);

#[derive(Debug, thiserror::Error)]
#[error(transparent)]
enum Cause {
    Sqlite(Arc<rusqlite::Error>),
    TooLarge(TryFromIntError),
}

/// Why a statement or a request failed, without the file.
#[derive(Debug)]
pub(super) enum SqliteFault {
    /// The request violates the contract; the store is intact.
    Refused(StoreError),
    /// An error of SQLite.
    Sql(rusqlite::Error),
    /// Content that acpx cannot have written.
    Damaged(String),
    /// A number is larger than a column can hold.
    TooLarge(TryFromIntError),
}

impl From<rusqlite::Error> for SqliteFault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<StoreError> for SqliteFault {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl From<TryFromIntError> for SqliteFault {
    fn from(error: TryFromIntError) -> Self {
        Self::TooLarge(error)
    }
}

impl SqliteFault {
    /// Whether another connection holds a lock.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self, Self::Sql(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy))
    }

    /// Whether a file could not be opened or written.
    pub(super) fn is_unwritable(&self) -> bool {
        let Self::Sql(error) = self else { return false };
        matches!(
            error.sqlite_error_code(),
            Some(
                ErrorCode::CannotOpen
                    | ErrorCode::DiskFull
                    | ErrorCode::PermissionDenied
                    | ErrorCode::ReadOnly
                    | ErrorCode::SystemIoFailure
            )
        )
    }

    /// Whether the content is unknown: damaged, or written by a newer program. Damage that SQLite itself reports is
    /// not unknown content, because no program can read it.
    pub(super) fn is_unknown_content(&self) -> bool {
        match self {
            Self::Damaged(_) => true,
            Self::Sql(error) => is_unknown_content(error),
            Self::Refused(_) | Self::TooLarge(_) => false,
        }
    }

    /// The damage that it reports, or the fault itself if it reports none.
    pub(super) fn damage(self) -> Result<String, Self> {
        match self {
            Self::Damaged(problem) => Ok(problem),
            Self::Sql(error) if is_unknown_content(&error) || is_damage(&error) => Ok(error.to_string()),
            fault => Err(fault),
        }
    }

    /// The error for the caller.
    pub(super) fn into_error(self, operation: &'static str, path: &Path) -> StoreError {
        match self {
            Self::Refused(error) => error,
            Self::Sql(error) => sql_error(&Arc::new(error), operation, path),
            Self::Damaged(problem) => StoreError::Corrupt { path: path.to_owned(), problem },
            Self::TooLarge(source) => {
                let source = SqliteFailure(Cause::TooLarge(source));
                StoreError::Failed { operation, path: path.to_owned(), source }
            }
        }
    }
}

/// An error of SQLite for the caller. It is shared because a failed commit answers every request in it.
pub(super) fn sql_error(error: &Arc<rusqlite::Error>, operation: &'static str, path: &Path) -> StoreError {
    let path = path.to_owned();
    if is_unknown_content(error) || is_damage(error) {
        return StoreError::Corrupt { path, problem: error.to_string() };
    }
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Locked { path },
        Some(ErrorCode::DiskFull) => StoreError::Full { path },
        // SQLite reports a full disk so only for some of its writes.
        Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen) if is_on_full_disk(&path) => {
            StoreError::Full { path }
        }
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::ReadOnly) => {
            let source = reason_not_opened(&path).unwrap_or_else(|| io::Error::other(Arc::clone(error)));
            StoreError::Open { path, source }
        }
        _ => StoreError::Failed { operation, path, source: SqliteFailure(Cause::Sqlite(Arc::clone(error))) },
    }
}

/// Whether the file contradicts itself. Every rule of the contract is checked before a row is written, so a violated
/// constraint means a row that should not exist.
fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::ConstraintViolation)
    )
}

/// Whether a value or a table does not have our format.
fn is_unknown_content(error: &rusqlite::Error) -> bool {
    match error {
        rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::Utf8Error(..)
        // Our statements are fixed, so one that does not compile meets a foreign schema.
        | rusqlite::Error::SqlInputError { .. } => true,
        // The same, where SQLite reports no position.
        rusqlite::Error::SqliteFailure(failure, Some(message)) if failure.code == ErrorCode::Unknown => {
            ["no such ", "table ", "access to view "].iter().any(|begin| message.starts_with(begin))
        }
        _ => false,
    }
}

/// Whether the disk of a file has no room left.
fn is_on_full_disk(path: &Path) -> bool {
    let disk = path.parent().and_then(|directory| rustix::fs::statvfs(directory).ok());
    disk.is_some_and(|disk| disk.f_bavail == 0 || (disk.f_files > 0 && disk.f_favail == 0))
}

/// SQLite hides the system's error, so query the system again.
fn reason_not_opened(path: &Path) -> Option<io::Error> {
    let wanted = rustix::fs::Access::READ_OK | rustix::fs::Access::WRITE_OK;
    rustix::fs::access(path, wanted).err().map(io::Error::from)
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    #[test]
    fn number_too_large_for_a_column_fails_with_one_reason() {
        let fault = SqliteFault::from(i64::try_from(u64::MAX).unwrap_err());
        let error = fault.into_error("write", Path::new("/s.db"));
        let mut said = vec![error.to_string()];
        let mut cause = error.source();
        while let Some(error) = cause {
            said.push(error.to_string());
            cause = error.source();
        }
        let reason = "out of range integral type conversion attempted";
        assert_eq!(said, ["cannot write in the store /s.db", reason]);
    }

    #[test]
    fn a_damaged_store_names_its_wal_and_shm_files_in_the_hint() {
        let error = SqliteFault::Damaged("it is cut short".to_owned()).into_error("open", Path::new("/s.db"));
        let hint = "the file was left as it is; check whether the disk reports errors, then restore a copy, or move it \
                    away with its -wal and -shm files to begin a new store";
        assert_eq!((error.code().as_str(), error.hint()), ("STORE_CORRUPT", Some(hint)));
    }
}
