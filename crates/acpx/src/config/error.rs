//! Errors of configuration files, which name the file and the key but never a value.

use std::io;
use std::path::PathBuf;

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
    /// It is not JSON.
    #[error("{} is not JSON: {problem}", file.display())]
    NotJson {
        /// The file.
        file: PathBuf,
        /// Position and reason.
        problem: String,
    },
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
#[error("{}: {key} must be {expected}", file.display())]
pub(crate) struct WrongValue {
    /// The file.
    pub(crate) file: PathBuf,
    /// The full key.
    pub(crate) key: String,
    /// The expected kind.
    pub(crate) expected: String,
}

impl ConfigError {
    /// The stable code of this error.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => "CONFIG_UNREADABLE",
            Self::NotJson { .. } | Self::Wrong(_) => "CONFIG_INVALID",
            Self::NoCommand { .. } => "MCP_COMMAND_NOT_FOUND",
        }
    }

    /// What the user can do next.
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Self::Unreadable { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                "check the path; it is taken from the directory the command works in"
            }
            Self::Unreadable { .. } => "check that it is a file, and yours",
            Self::Wrong(WrongValue { key, .. }) if key.starts_with("agents.") => {
                "mend the entry; other agents can be used all the same"
            }
            Self::NotJson { .. } | Self::Wrong(_) => "mend the file, or move it away",
            Self::NoCommand { .. } => "install it, or give its full path",
        }
    }
}
