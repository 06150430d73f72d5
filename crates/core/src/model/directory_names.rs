//! The two names of a directory, real and written. Agents compare paths as text, so acpx lists an agent's sessions by
//! both names where they differ. Each session is listed under only one of them.

use std::path::PathBuf;

use super::AbsolutePath;

/// The name by which acpx requests the sessions of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DirectoryNameKind {
    /// With all links resolved: the path that a program sees as its working directory.
    #[default]
    Really,
    /// As written, if that differs: the path that an editor may have sent to the agent.
    AsWritten,
}

/// The names of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryNames {
    real: AbsolutePath,
    written: AbsolutePath,
}

impl DirectoryNames {
    /// The names of a directory with this real path, or `None` if it cannot be resolved.
    pub fn new(written: &AbsolutePath, real: Option<AbsolutePath>) -> Self {
        let written = plain(written);
        Self { real: real.unwrap_or_else(|| written.clone()), written }
    }

    /// One of them.
    pub fn get(&self, named: DirectoryNameKind) -> &AbsolutePath {
        match named {
            DirectoryNameKind::Really => &self.real,
            DirectoryNameKind::AsWritten => &self.written,
        }
    }

    /// Whether they differ.
    pub fn are_two(&self) -> bool {
        self.real != self.written
    }

    /// Whether a session of this directory is listed under this name. An agent that resolves links itself returns it
    /// for both.
    pub fn lists(&self, named: DirectoryNameKind, cwd: &AbsolutePath) -> bool {
        !self.are_two() || (plain(cwd) == self.real) == (named == DirectoryNameKind::Really)
    }
}

/// A path without redundant parts, such as a trailing slash.
fn plain(path: &AbsolutePath) -> AbsolutePath {
    let components: PathBuf = path.as_path().components().collect();
    AbsolutePath::from_path(&components).unwrap_or_else(|_| path.clone())
}
