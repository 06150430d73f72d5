//! The engine's public API: requests, prompts, turn handles, logins, settings, errors.

pub(super) mod client_login;
pub(super) mod error;
pub(super) mod prompt;
pub(super) mod request;
