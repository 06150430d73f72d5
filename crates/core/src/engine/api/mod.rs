//! The engine's public API: requests, prompts, turn handles, logins, settings, notifications, errors.

pub(super) mod client_login;
pub(super) mod error;
pub(super) mod notifications;
pub(super) mod prompt;
pub(super) mod request;
