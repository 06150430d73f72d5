//! Keeps a process from opening the index while another one replaces its files.
//!
//! SQLite opens the companion files by name. A process that had opened the old database and then the log of the new one
//! would damage both.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The lock until it is dropped. It waits for the others, who hold it for milliseconds.
pub(super) struct OpenLock {
    /// `None` in a directory that cannot be written, where no process replaces a file.
    _file: Option<File>,
}

impl OpenLock {
    /// For opening the files. Several processes may have it.
    pub(super) fn shared(index: &Path) -> Self {
        Self { _file: open(index).filter(|file| file.lock_shared().is_ok()) }
    }

    /// For replacing the files.
    pub(super) fn exclusive(index: &Path) -> Self {
        Self { _file: open(index).filter(|file| file.lock().is_ok()) }
    }
}

fn open(index: &Path) -> Option<File> {
    let mut path = index.as_os_str().to_owned();
    path.push(".open");
    File::options().create(true).truncate(false).write(true).mode(0o600).open(path).ok()
}
