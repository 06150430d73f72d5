//! Errors of configuration files, which name the file and the key but never a value.

use std::io;
use std::path::PathBuf;

use acpx_core::model::{ErrorCode, WrongMember};

use super::trust::TrustError;

/// Why a configuration file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    /// It exists and cannot be read.
    #[error("cannot read {}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The I/O error.
        #[source]
        source: io::Error,
    },
    /// The file of a flag does not exist.
    #[error("there is no file {}", file.display())]
    NoFile {
        /// The file.
        file: PathBuf,
    },
    /// It is not JSON.
    #[error("{} is not JSON: {problem}", file.display())]
    NotJson {
        /// The file.
        file: PathBuf,
        /// Position and reason.
        problem: String,
    },
    /// A project's file is not safe to read.
    #[error("{} is not read: {reason}", file.display())]
    Refused {
        /// The file.
        file: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A project's file would have to be trusted.
    #[error("{} is not trusted as it is now", file.display())]
    Untrusted {
        /// The file.
        file: PathBuf,
    },
    /// No project's file applies to a directory.
    #[error("there is no .acpxrc.json for {}", directory.display())]
    NoProjectFile {
        /// The directory.
        directory: PathBuf,
    },
    /// The list of trusted files is unusable.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// A value has the wrong kind.
    #[error(transparent)]
    Wrong(#[from] WrongValue),
    /// The program of an MCP server was not found.
    #[error("{}: the command {command:?} of the MCP server {server:?} was not found", file.display())]
    NoCommand {
        /// The file.
        file: PathBuf,
        /// The server's name.
        server: String,
        /// Its command.
        command: String,
    },
}

/// A value of the wrong kind for its key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {wrong}", file.display())]
pub(crate) struct WrongValue {
    /// The file.
    pub(crate) file: PathBuf,
    /// The key and the expected kind.
    pub(crate) wrong: WrongMember,
}

impl ConfigError {
    /// The error for a file that cannot be read as text.
    pub(super) fn unread(file: PathBuf, source: io::Error) -> Self {
        if source.kind() == io::ErrorKind::InvalidData {
            return Self::NotJson { file, problem: "it is not UTF-8".to_owned() };
        }
        Self::Unreadable { file, source }
    }

    /// The error for the file of a flag: a path that leads nowhere was mistyped.
    pub(super) fn of_flag(self) -> Self {
        match self {
            Self::Unreadable { file, source } if source.kind() == io::ErrorKind::NotFound => {
                Self::NoFile { file }
            }
            other => other,
        }
    }

    /// The stable code of this error.
    pub(crate) fn code(&self) -> ErrorCode {
        match self {
            Self::Unreadable { .. } | Self::NoFile { .. } | Self::Refused { .. } => {
                ErrorCode::ConfigUnreadable
            }
            Self::Untrusted { .. } => ErrorCode::ConfigUntrusted,
            Self::NoProjectFile { .. } => ErrorCode::NoProjectFile,
            Self::Trust(_) => ErrorCode::TrustUnusable,
            Self::NotJson { .. } | Self::Wrong(_) => ErrorCode::ConfigInvalid,
            Self::NoCommand { .. } => ErrorCode::McpCommandNotFound,
        }
    }

    /// What the user can do next.
    pub(crate) fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NoFile { .. } => Some("check the path; it is relative to the command's working directory"),
            Self::Wrong(WrongValue { wrong, .. }) if wrong.path.starts_with("agents.") => {
                Some("correct the entry; other agents are not affected")
            }
            _ => self.code().hint(),
        }
    }
}
