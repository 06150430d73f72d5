//! Paths as the protocol carries them: absolute, and JSON text.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An absolute path, stored byte for byte as first given.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AbsolutePath(Box<str>);

/// A path that ACP cannot carry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathProblem {
    /// It is relative, and the protocol has no base directory.
    #[error("{0:?} is not an absolute path")]
    Relative(String),
    /// It is not Unicode, which JSON requires.
    #[error("{0:?} is not valid UTF-8, and the protocol carries paths as text")]
    NotUnicode(std::path::PathBuf),
}

impl AbsolutePath {
    /// Checks a path; nothing is normalised.
    pub fn new(text: impl Into<Box<str>>) -> Result<Self, PathProblem> {
        let text = text.into();
        if Path::new(&*text).is_absolute() { Ok(Self(text)) } else { Err(PathProblem::Relative(text.into())) }
    }

    /// Converts a path of the file system.
    pub fn from_path(path: &Path) -> Result<Self, PathProblem> {
        match path.to_str() {
            Some(text) => Self::new(text),
            None => Err(PathProblem::NotUnicode(path.to_owned())),
        }
    }

    /// The path as text, byte for byte.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The path for the file system.
    pub fn as_path(&self) -> &Path {
        Path::new(&*self.0)
    }
}

impl fmt::Display for AbsolutePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for AbsolutePath {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        Self::new(String::deserialize(source)?).map_err(serde::de::Error::custom)
    }
}

impl Serialize for AbsolutePath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_kept_byte_for_byte() {
        assert_eq!(AbsolutePath::new("/a//b/../c/").unwrap().as_str(), "/a//b/../c/");
    }

    #[test]
    fn a_relative_path_is_refused_by_name() {
        assert_eq!(AbsolutePath::new("src").unwrap_err().to_string(), "\"src\" is not an absolute path");
    }
}
