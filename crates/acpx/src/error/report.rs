//! An error as it is shown: everything the three formats need, and nothing of where it came from.

use serde::Serialize;
use serde_json::value::RawValue;

use super::class::is_retryable;
use super::{CliError, ErrorClass};

/// Who found an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Origin {
    /// The command itself.
    Cli,
    /// The session or its store.
    Runtime,
    /// The queue of prompts.
    Queue,
    /// The agent.
    Acp,
}

/// An error as it is shown.
#[derive(Debug, Clone)]
pub(crate) struct ErrorReport {
    pub(crate) class: ErrorClass,
    /// The stable code.
    pub(crate) code: String,
    /// What happened, with its causes.
    pub(crate) message: String,
    /// What a person can do next.
    pub(crate) hint: Option<String>,
    pub(crate) origin: Origin,
    pub(crate) retryable: bool,
    /// The ids of the session it is about, as JSON members of their own.
    pub(crate) identity: Option<acpx_core::model::SessionIdentity>,
    /// The agent's own error object.
    pub(crate) acp: Option<Box<RawValue>>,
}

impl From<&CliError> for ErrorReport {
    fn from(error: &CliError) -> Self {
        let code = error.code();
        Self {
            class: error.class(),
            retryable: is_retryable(&code),
            code: code.into_owned(),
            message: error.message(),
            hint: error.hint().map(Into::into),
            origin: error.origin(),
            identity: error.identity().cloned(),
            acp: error.acp().and_then(|json| serde_json::from_str(json).ok()),
        }
    }
}
