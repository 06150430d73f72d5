//! An error in the form that all three output formats render, independent of its source.

use acpx_core::model::{ErrorClass, ErrorCode, SessionIdentity};
use serde::Serialize;
use serde_json::value::RawValue;

use super::CliError;

/// The component that detected an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Origin {
    /// The command.
    Cli,
    /// The session or the store.
    Runtime,
    /// The queue of prompts.
    Queue,
    /// The agent.
    Acp,
}

/// An error ready to be rendered.
#[derive(Debug, Clone)]
pub(crate) struct ErrorReport {
    pub(crate) class: ErrorClass,
    /// The stable code.
    pub(crate) code: ErrorCode,
    /// What failed, with its causes.
    pub(crate) message: String,
    /// What the user can do next.
    pub(crate) hint: Option<String>,
    pub(crate) origin: Origin,
    pub(crate) retryable: bool,
    /// The ids of the session concerned, rendered as JSON members of their own.
    pub(crate) identity: Option<SessionIdentity>,
    /// The agent's own error object.
    pub(crate) acp: Option<Box<RawValue>>,
}

impl From<&CliError> for ErrorReport {
    fn from(error: &CliError) -> Self {
        let code = error.code();
        Self {
            class: error.class(),
            retryable: code.is_retryable(),
            code,
            message: error.message(),
            hint: error.hint().map(Into::into),
            origin: error.origin(),
            identity: error.identity().cloned(),
            acp: error.acp().and_then(|json| serde_json::from_str(json).ok()),
        }
    }
}
