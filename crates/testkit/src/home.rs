//! A temporary home.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A temporary directory that is removed on drop.
#[derive(Debug)]
pub struct TempHome {
    directory: TempDir,
}

impl TempHome {
    /// Creates an empty home.
    ///
    /// # Panics
    /// If the machine's temporary directory is not writable.
    pub fn new() -> Self {
        Self { directory: TempDir::new().expect("a temporary directory can be made") }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// A path inside it.
    pub fn join(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }
}

impl Default for TempHome {
    fn default() -> Self {
        Self::new()
    }
}
