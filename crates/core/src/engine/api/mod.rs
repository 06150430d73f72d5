//! The engine's public API: requests, prompts, session and turn handles, settings, errors.

pub(super) mod error;
pub(super) mod prompt;
pub(super) mod request;
pub(super) mod session_handle;
