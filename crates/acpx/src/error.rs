//! What can go wrong with a command, and the one place that prints it.

use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use acpx_core::engine::{PromptProblem, SessionError};
use acpx_core::model::PathProblem;
use acpx_core::store::StoreError;

use crate::output::complain;

/// Why a command could not be done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// Neither `ACPX_HOME` nor `HOME` is set.
    #[error("cannot tell where acpx keeps its files")]
    NoHome,
    /// A home that depends on where the program is started is none.
    #[error("the home {} is not an absolute path", .0.display())]
    RelativeHome(PathBuf),
    /// The async runtime cannot be started.
    #[error("cannot start")]
    Runtime(#[source] io::Error),
    /// A file or process of the command's own is in the way.
    #[error("cannot {doing}")]
    System {
        /// What was tried.
        doing: String,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// Whoever read our output has gone.
    #[error("cannot write to stdout")]
    Output(#[from] io::Error),
    /// The session did something else.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A path cannot be used.
    #[error(transparent)]
    Path(#[from] PathProblem),
}

impl From<PromptProblem> for CliError {
    fn from(problem: PromptProblem) -> Self {
        Self::Session(problem.into())
    }
}

impl CliError {
    /// Prints the error with its causes and what to do next, and gives the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        if matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe) {
            return ExitCode::SUCCESS;
        }
        let mut text = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            text = format!("{text}: {error}");
            cause = error.source();
        }
        complain(&format!("acpx: {text}"));
        if let Some(hint) = self.hint() {
            complain(&format!("hint: {hint}"));
        }
        ExitCode::FAILURE
    }

    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NoHome => Some("set ACPX_HOME or HOME"),
            Self::RelativeHome(_) => Some("give ACPX_HOME (or HOME) from the root, as in /home/me/.acpx"),
            Self::System { source, .. } => match source.kind() {
                io::ErrorKind::AlreadyExists => Some("name a directory that does not exist yet"),
                io::ErrorKind::NotFound => Some("make the directory above it first"),
                io::ErrorKind::NotADirectory | io::ErrorKind::PermissionDenied => {
                    Some("choose another place; ACPX_HOME names the home")
                }
                _ => None,
            },
            Self::Session(error) => error.hint(),
            Self::Store(error) => error.hint(),
            Self::Runtime(_) | Self::Output(_) | Self::Path(_) => None,
        }
    }
}
