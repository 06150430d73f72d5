//! Where to search for a session: in the directory itself, and in its parents up to the root of the git repository.

use std::io;
use std::path::{Path, PathBuf};

use acpx_core::model::AbsolutePath;

use crate::error::{CliError, system_words};

/// The searched directories, nearest first. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScopeDirectories {
    directories: Vec<PathBuf>,
    /// Whether the last one is the root of a git repository.
    has_root: bool,
}

impl ScopeDirectories {
    /// The directories from `cwd` upwards, with links resolved.
    pub(crate) fn from(cwd: &Path) -> Result<Self, CliError> {
        let unusable = |source: io::Error| CliError::Directory {
            path: cwd.to_owned(),
            reason: system_words(&source),
            flag: "--cwd",
        };
        let start = cwd.canonicalize().map_err(unusable)?;
        let root = start.ancestors().position(|directory| directory.join(".git").exists());
        let count = root.map_or(1, |position| position + 1);
        let directories = start.ancestors().take(count).map(Path::to_owned).collect();
        Ok(Self { directories, has_root: root.is_some() })
    }

    /// The first directory.
    pub(crate) fn start(&self) -> &Path {
        self.directories.first().expect("a walk begins somewhere")
    }

    /// The root of the git repository, which is the last directory.
    pub(crate) fn root(&self) -> Option<&Path> {
        self.directories.last().filter(|_| self.has_root).map(PathBuf::as_path)
    }

    /// Every directory, nearest first, as the store has it.
    pub(crate) fn directories(&self) -> Result<Vec<AbsolutePath>, CliError> {
        Ok(self.directories.iter().map(|path| AbsolutePath::from_path(path)).collect::<Result<_, _>>()?)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn scope_lookup_ends_at_the_git_root_by_real_paths() {
        let home = tempfile::tempdir().unwrap();
        let top = home.path().canonicalize().unwrap();
        let deep = top.join("repository/a/b");
        fs::create_dir_all(&deep).unwrap();
        // A worktree has a file of this name, and a nested repository ends the walk first.
        fs::write(top.join("repository/.git"), "gitdir: elsewhere").unwrap();
        std::os::unix::fs::symlink(&deep, top.join("link")).unwrap();
        let walk = ScopeDirectories::from(&top.join("link")).unwrap();
        let expected = [deep, top.join("repository/a"), top.join("repository")];
        assert_eq!(walk, ScopeDirectories { directories: expected.to_vec(), has_root: true });
        assert_eq!(
            (walk.start(), walk.root()),
            (&*top.join("repository/a/b"), Some(&*top.join("repository")))
        );
    }

    #[test]
    fn without_a_git_root_only_the_directory_itself_is_searched() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().canonicalize().unwrap();
        assert_eq!(
            ScopeDirectories::from(home.path()).unwrap(),
            ScopeDirectories { directories: vec![directory], has_root: false }
        );
    }

    #[test]
    fn a_directory_that_is_not_there_is_named() {
        let error = ScopeDirectories::from(Path::new("/nowhere/at/all")).unwrap_err();
        assert_eq!(error.message(), "cannot work in /nowhere/at/all: No such file or directory");
    }
}
