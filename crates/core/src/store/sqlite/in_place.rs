//! Checks whether a store's file and log still exist under their names. Data written to an unlinked file is lost when
//! the process ends, so it must not be acknowledged.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::file::log_of;

/// The files of an open store: their paths and inodes.
#[derive(Debug)]
pub(super) struct OpenFiles {
    path: PathBuf,
    log: PathBuf,
    file: Option<InodeId>,
    /// SQLite creates the log on demand and keeps it while the store is open.
    log_file: OnceLock<InodeId>,
}

/// Device and inode number.
type InodeId = (u64, u64);

impl OpenFiles {
    /// The files of a store that was just opened.
    pub(super) fn new(path: &Path) -> Self {
        let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        Self { path: path.to_owned(), log: log_of(&real), file: id(path), log_file: OnceLock::new() }
    }

    /// Whether the paths still lead to the same files.
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
