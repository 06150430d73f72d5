//! Whether a store's file and its log are still where they were opened. What is written to a file that has lost its name
//! is gone with the process, so nothing of it may be acknowledged.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::file::log_of;

/// The files of an open store, by the names and by what the system knows them by.
#[derive(Debug)]
pub(super) struct OpenFiles {
    path: PathBuf,
    log: PathBuf,
    file: Option<InodeId>,
    /// SQLite makes the log when it needs it, and leaves it in place while the store is open.
    log_file: OnceLock<InodeId>,
}

/// The device and the number of a file on it.
type InodeId = (u64, u64);

impl OpenFiles {
    /// The files of a store that was opened just now.
    pub(super) fn new(path: &Path) -> Self {
        let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        Self { path: path.to_owned(), log: log_of(&real), file: id(path), log_file: OnceLock::new() }
    }

    /// Whether the names still lead to them.
    pub(super) fn are_in_place(&self) -> bool {
        let is_log = match id(&self.log) {
            Some(log) => *self.log_file.get_or_init(|| log) == log,
            None => self.log_file.get().is_none(),
        };
        is_log && id(&self.path) == self.file
    }
}

fn id(path: &Path) -> Option<InodeId> {
    fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
}
