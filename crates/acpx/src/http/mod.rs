//! ACP between machines: a server that lets clients elsewhere reach the sessions of this home, and a client that
//! reaches agents elsewhere.
//!
//! Nothing of ACP is implemented here. A client from elsewhere is joined to the host by the same bridge as an editor
//! on this machine; what is here decides who may come in ([`guard`], [`tokens`], [`owner`]), how much
//! there may be of anybody ([`bounds`], [`patient`]), and how lines travel over WebSocket and over HTTP. What a client
//! from elsewhere may say is decided where it is heard, in the host, which is told that it is one.

pub(crate) mod address;
pub(crate) mod bounds;
pub(crate) mod client;
pub(crate) mod connection;
pub(crate) mod events;
pub(crate) mod frames;
pub(crate) mod guard;
pub(crate) mod owner;
pub(crate) mod patient;
pub(crate) mod refusal;
pub(crate) mod request;
pub(crate) mod server;
pub(crate) mod streams;
pub(crate) mod tls;
pub(crate) mod tokens;
pub(crate) mod websocket;

use acpx_core::wire::WireLimits;
use hyper::header::HeaderName;

/// Where on a server ACP is spoken.
pub(crate) const PATH: &str = "/acp";
/// Which connection a request belongs to.
pub(crate) const CONNECTION: HeaderName = HeaderName::from_static("acp-connection-id");
/// Which session it is about.
pub(crate) const SESSION: HeaderName = HeaderName::from_static("acp-session-id");

/// What a host's line has beyond the longest that a client may send.
const ENVELOPE: usize = 128 * 1024;

/// The longest line that a client may send.
pub(crate) fn longest_line() -> usize {
    WireLimits::default().line_bytes
}

/// The limits of a connection to the bridge: whatever it passes fits.
pub(crate) fn limits() -> WireLimits {
    WireLimits { line_bytes: longest_line() + ENVELOPE, ..WireLimits::default() }
}

/// A frame or a body as one line: between the tokens of JSON a line break is a space like any other.
pub(crate) fn as_line(text: &str) -> String {
    text.trim().replace(['\n', '\r'], " ")
}
