//! The two names of a directory: agents compare what is written, so one is asked for its sessions by both where they
//! differ. A session is told by one of them alone.

use std::path::PathBuf;

use super::AbsolutePath;

/// By which of its names an agent is asked for the sessions of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DirectoryNameKind {
    /// With every link followed: so a program knows the directory that it was started in.
    #[default]
    Really,
    /// As it was written, where that is another: so an editor may have given it to the agent.
    AsWritten,
}

/// The names of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryNames {
    real: AbsolutePath,
    written: AbsolutePath,
}

impl DirectoryNames {
    /// Those of a directory with its real path, or `None` where that cannot be had.
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

    /// Whether a session of this directory is listed where the agent is asked by this name. An agent that follows links
    /// itself tells it by both.
    pub fn lists(&self, named: DirectoryNameKind, cwd: &AbsolutePath) -> bool {
        !self.are_two() || (plain(cwd) == self.real) == (named == DirectoryNameKind::Really)
    }
}

/// A path without what means nothing in it, such as a slash at its end.
fn plain(path: &AbsolutePath) -> AbsolutePath {
    let components: PathBuf = path.as_path().components().collect();
    AbsolutePath::from_path(&components).unwrap_or_else(|_| path.clone())
}
