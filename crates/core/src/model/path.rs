//! Paths as the protocol carries them: absolute, and JSON text.

use std::fmt;
use std::path::Path;

use serde::{Serialize, Serializer};

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

impl Serialize for AbsolutePath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
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
