//! The page: a client of the sessions for browsers, and the server that serves it with `/acp` on one listener.
//!
//! The page is an ACP client like any other, so no session method is here. These modules serve its files ([`assets`]),
//! sign devices in by one-time codes ([`codes`]), limit their attempts ([`login_limit`]), check where a request comes from ([`origin`]), and register the one
//! server that a home has ([`registration`]). The connection to the host is that of [`crate::http`].

pub(crate) mod assets;
pub(crate) mod codes;
mod login_limit;
pub(crate) mod origin;
pub(crate) mod refusal;
pub(crate) mod registration;
pub(crate) mod router;
pub(crate) mod server;
