//! Which sessions a reader may see by their directories: those of one project, or all.
//!
//! A project is the root of a git repository with everything below it, or a directory outside of any repository. A
//! repository inside of another one is a project of its own; worktrees and submodules, whose `.git` is a file, are not.
//! Paths are compared with every link resolved.

use std::path::{Path, PathBuf};

use super::lookup::ScopeDirectories;
use crate::error::CliError;

/// The sessions of one project, or all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProjectScope {
    /// Of every project.
    All,
    /// Of the project with this root.
    Project(PathBuf),
}

impl ProjectScope {
    /// The project of a directory.
    pub(crate) fn of(directory: &Path) -> Result<Self, CliError> {
        let directories = ScopeDirectories::from(directory)?;
        Ok(Self::Project(directories.root().unwrap_or(directories.start()).to_owned()))
    }

    /// The root, unless it is every project.
    pub(crate) fn root(&self) -> Option<&Path> {
        match self {
            Self::All => None,
            Self::Project(root) => Some(root),
        }
    }

    /// Whether a directory, by its real path, belongs to the project.
    pub(crate) fn contains(&self, directory: &Path) -> bool {
        let Self::Project(root) = self else { return true };
        let below = || directory.ancestors().take_while(|ancestor| ancestor != root);
        directory.starts_with(root) && !below().any(|ancestor| ancestor.join(".git").is_dir())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_project_is_its_git_root_without_the_repositories_inside() {
        let home = tempfile::tempdir().unwrap();
        let top = home.path().canonicalize().unwrap();
        for directory in ["p/.git", "p/src/deep", "p/vendor/.git", "p/vendor/src", "p/worktree", "p-other"] {
            fs::create_dir_all(top.join(directory)).unwrap();
        }
        fs::write(top.join("p/worktree/.git"), "gitdir: elsewhere").unwrap();
        let scope = ProjectScope::of(&top.join("p/src/deep")).unwrap();
        assert_eq!(scope, ProjectScope::Project(top.join("p")));
        let cases = [
            ("p", true),
            ("p/src", true),
            ("p/worktree", true),
            ("p/gone/for/good", true),
            ("p/vendor", false),
            ("p/vendor/src", false),
            ("p-other", false),
            ("", false),
        ];
        for (directory, expected) in cases {
            assert_eq!(scope.contains(&top.join(directory)), expected, "{directory}");
            assert!(ProjectScope::All.contains(&top.join(directory)));
        }
        let plain = ProjectScope::of(&top.join("p-other")).unwrap();
        assert_eq!(plain, ProjectScope::Project(top.join("p-other")));
    }
}
