//! A temporary home.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A directory of its own, gone with the value.
#[derive(Debug)]
pub struct TempHome {
    directory: TempDir,
}

impl TempHome {
    /// Makes an empty one.
    ///
    /// # Panics
    /// If the temporary directory of the machine cannot be written: no test can go on then.
    pub fn new() -> Self {
        Self { directory: TempDir::new().expect("a temporary directory can be made") }
    }

    /// Where it is.
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
