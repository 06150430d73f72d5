//! Opens the store's file: creates it private if it is new, inspects it before anything is written, and leaves it
//! unchanged byte for byte if it is not ours or is damaged.
//!
//! Only SQLite opens an existing store. When a process closes any descriptor of a file, the kernel drops all its
//! locks on it, including SQLite's.

use std::ffi::OsString;
use std::fs::{self, Metadata, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{io, thread};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::fault::SqliteFault;
use super::schema::{self, Migrations, SchemaStatus};
use super::{SqliteOptions, filesystem};
use crate::store::StoreError;
use crate::store::file_system::{make_private_directory, sync_entry};
use crate::sync::Lock;

/// How many prepared statements a connection caches; more than there are.
const STATEMENTS: usize = 64;
/// A log that grew beyond this is truncated to it.
const LOG_BYTES: i64 = 64 * 1024 * 1024;

/// The pause between two attempts where SQLite does not wait by itself.
const RETRY: Duration = Duration::from_millis(5);

/// While a file is being created, no connection of this process may lock it.
static MAKING: Lock<()> = Lock::new(());

/// How to open a file.
pub(super) struct StoreOpener<'a> {
    pub(super) path: &'a Path,
    pub(super) options: &'a SqliteOptions,
    pub(super) migrations: Migrations,
    /// The name of the network file system that contains a path, if any.
    pub(super) network_kind: fn(&Path) -> Option<&'static str>,
    /// Whether no program writes to the file while it is open.
    pub(super) is_immutable: bool,
}

impl<'a> StoreOpener<'a> {
    /// With this program's migrations.
    pub(super) fn new(path: &'a Path, options: &'a SqliteOptions) -> Self {
        let network_kind = filesystem::network_kind;
        Self { path, options, migrations: Migrations::OURS, network_kind, is_immutable: false }
    }

    /// Opens a store for writing, and creates it if it is missing.
    pub(super) fn writer(&self) -> Result<Connection, StoreError> {
        self.refuse_network()?;
        let making = MAKING.lock();
        make(self.path).map_err(|source| self.not_opened(source))?;
        let opened = refuse_emptied(self.path).and_then(|()| self.prepare_writer());
        drop(making);
        opened.map_err(|fault| fault.into_error("open", self.path))
    }

    fn prepare_writer(&self) -> Result<Connection, SqliteFault> {
        let mut connection = self.connect(OpenFlags::SQLITE_OPEN_READ_WRITE, false)?;
        // SQLite silently opens a write-protected file read-only.
        if connection.is_readonly("main")? {
            return Err(self.not_opened(io::ErrorKind::PermissionDenied.into()).into());
        }
        // Until the file is known to be ours, closing it must not checkpoint its log.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        retry_while_busy(self.options.busy_timeout, || {
            let found = schema::inspect(&connection, self.migrations.known())?;
            refuse_partial_page(self.path)?;
            schema::migrate(&mut connection, found, self.migrations, self.path)
        })?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
        connection.pragma_update(None, "journal_size_limit", LOG_BYTES)?;
        // Deleted or moved content is overwritten.
        connection.pragma_update(None, "secure_delete", true)?;
        // On macOS a plain fsync does not reach the medium. These change nothing on other systems.
        connection.pragma_update(None, "fullfsync", true)?;
        connection.pragma_update(None, "checkpoint_fullfsync", true)?;
        if let Some(limit) = self.options.size_limit {
            let pages = i64::try_from(limit / schema::PAGE_SIZE)?;
            connection.pragma_update(None, "max_page_count", pages.max(1))?;
        }
        Ok(connection)
    }

    /// Opens a store for reading. A missing one is not created.
    pub(super) fn reader(&self) -> Result<Connection, StoreError> {
        self.refuse_network()?;
        let found = fs::metadata(self.path).and_then(|found| refuse_other_kinds(&found));
        found.map_err(|source| self.not_opened(source))?;
        let opened = refuse_emptied(self.path).and_then(|()| match self.prepare_reader(self.is_immutable) {
            // On a full disk, or in a directory that is not ours, SQLite cannot create its companion files.
            Err(fault) if fault.is_unwritable() && sizes(self.path).1 == 0 => self.prepare_reader(true),
            opened => opened,
        });
        opened.map_err(|fault| fault.into_error("open", self.path))
    }

    fn prepare_reader(&self, is_immutable: bool) -> Result<Connection, SqliteFault> {
        let connection = self.connect(OpenFlags::SQLITE_OPEN_READ_ONLY, is_immutable)?;
        let known = self.migrations.known();
        let found = schema::inspect(&connection, known)?;
        refuse_partial_page(self.path)?;
        match found {
            SchemaStatus::Current | SchemaStatus::Newer(_) => Ok(connection),
            SchemaStatus::Older(found) => {
                Err(StoreError::Older { path: self.path.to_owned(), found, known }.into())
            }
            // For a reader, an unfinished store is a missing one.
            SchemaStatus::Unfinished => {
                Err(self.not_opened(io::Error::new(io::ErrorKind::NotFound, "the file is empty")).into())
            }
        }
    }

    fn connect(&self, access: OpenFlags, is_immutable: bool) -> Result<Connection, SqliteFault> {
        // Each connection has one thread, so SQLite needs no mutex.
        let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = if is_immutable || self.is_on_read_only_disk() {
            Connection::open_with_flags(uri(self.path, "immutable=1"), flags | OpenFlags::SQLITE_OPEN_URI)?
        } else {
            Connection::open_with_flags(self.path, flags)?
        };
        connection.busy_timeout(self.options.busy_timeout)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        // Another program may have written the file: disable triggers, views and functions with side effects in its
        // schema, and check pages as they are read.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        connection.pragma_update(None, "cell_size_check", true)?;
        // Query plans must not depend on bound values: otherwise SQLite prepares a cached statement again for every
        // value that might prefer another index.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        Ok(connection)
    }

    /// Whether it is on a read-only disk. SQLite cannot create its companion files there, and does not need them if
    /// there is no log.
    fn is_on_read_only_disk(&self) -> bool {
        let written = rustix::fs::access(self.path, rustix::fs::Access::WRITE_OK);
        written == Err(rustix::io::Errno::ROFS) && sizes(self.path).1 == 0
    }

    /// SQLite's locks and shared memory require a single kernel, so a file on a network file system is refused before
    /// anything is created or opened there.
    fn refuse_network(&self) -> Result<(), StoreError> {
        match (self.network_kind)(self.path) {
            None => Ok(()),
            // It needs no locks.
            Some(_) if self.is_immutable => Ok(()),
            Some(kind) => {
                Err(StoreError::NetworkFileSystem { path: self.path.to_owned(), kind: kind.to_owned() })
            }
        }
    }

    fn not_opened(&self, source: io::Error) -> StoreError {
        StoreError::Open { path: self.path.to_owned(), source }
    }
}

/// The URI by which SQLite opens a file with a parameter.
pub(crate) fn uri(path: &Path, parameter: &str) -> String {
    let escaped = |byte: &u8| match byte {
        b'/' | b'-' | b'.' | b'_' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => char::from(*byte).to_string(),
        other => format!("%{other:02X}"),
    };
    let name: String = path.as_os_str().as_bytes().iter().map(escaped).collect();
    format!("file:{name}?{parameter}")
}

/// Retries while other connections hold locks. SQLite waits for most locks by itself, but not for the one that turns
/// the log on.
fn retry_while_busy<T>(
    timeout: Duration,
    mut attempt: impl FnMut() -> Result<T, SqliteFault>,
) -> Result<T, SqliteFault> {
    let begin = Instant::now();
    loop {
        match attempt() {
            Err(fault) if fault.is_busy() && begin.elapsed() < timeout => thread::sleep(RETRY),
            outcome => return outcome,
        }
    }
}

/// Creates the directory and the file, readable by their owner only, if they are missing.
fn make(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(found) => return refuse_other_kinds(&found),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Err(_) => {}
    }
    if let Some(directory) = path.parent() {
        make_private_directory(directory)?;
    }
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => sync_entry(path),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// A directory is not a store, and opening a pipe would block forever.
fn refuse_other_kinds(found: &Metadata) -> io::Result<()> {
    match found {
        found if found.is_file() => Ok(()),
        found if found.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
    }
}

/// An empty file is a new store, unless a log next to it shows that there was one: SQLite would discard the log.
fn refuse_emptied(path: &Path) -> Result<(), SqliteFault> {
    let (file, log) = sizes(path);
    if file > 0 || log == 0 {
        return Ok(());
    }
    Err(SqliteFault::Damaged("it is empty, but its log is not".to_owned()))
}

/// SQLite accepts a truncated last page as a whole one. Only a log that is not yet checkpointed explains it.
fn refuse_partial_page(path: &Path) -> Result<(), SqliteFault> {
    let (file, log) = sizes(path);
    if log > 0 || file.is_multiple_of(schema::PAGE_SIZE) {
        return Ok(());
    }
    Err(SqliteFault::Damaged("it is cut short".to_owned()))
}

/// The sizes of the file and its log. The log is read first: it is deleted once the file is complete.
fn sizes(path: &Path) -> (u64, u64) {
    let size = |path: &Path| fs::metadata(path).map_or(0, |found| found.len());
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let log = size(&log_of(&real));
    (size(&real), log)
}

pub(super) fn log_of(path: &Path) -> PathBuf {
    companion(path, "-wal")
}

/// The path of one of SQLite's companion files.
pub(super) fn companion(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn immutable_store_is_read_without_companion_files() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a b?c#d%e=ü.db");
        Connection::open(&path).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
        let connection = Connection::open_with_flags(uri(&path, "immutable=1"), flags).unwrap();
        let tables: i64 =
            connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).unwrap();
        let files = fs::read_dir(home.path()).unwrap().count();
        assert_eq!((tables, files), (1, 1));
    }
}
