//! ACP between machines: a server through which remote clients reach the sessions of this home, and a client that
//! connects to remote agents.
//!
//! No ACP method is implemented here. A remote client is connected to the host by the same bridge as a local editor.
//! These modules decide which requests are admitted ([`router`], [`guard`], [`tokens`], [`peer_process`]), limit what
//! each client may use ([`limits`], [`timeouts`]), and carry lines over WebSocket and HTTP. The host knows that a client is remote and
//! decides what it may do.

pub(crate) mod address;
pub(crate) mod client;
pub(crate) mod connection;
pub(crate) mod frames;
pub(crate) mod guard;
pub(crate) mod limits;
pub(crate) mod listener;
pub(crate) mod observed_stream;
pub(crate) mod peer_process;
pub(crate) mod refusal;
pub(crate) mod request;
pub(crate) mod router;
pub(crate) mod server;
pub(crate) mod streams;
pub(crate) mod subprotocol;
pub(crate) mod timeouts;
pub(crate) mod tls;
pub(crate) mod tokens;
pub(crate) mod websocket;

use acpx_core::wire::WireLimits;
use hyper::header::HeaderName;

/// Path of the ACP endpoint.
pub(crate) const PATH: &str = "/acp";
/// Header with the connection a request belongs to.
pub(crate) const CONNECTION: HeaderName = HeaderName::from_static("acp-connection-id");
/// Header with the session a request concerns.
pub(crate) const SESSION: HeaderName = HeaderName::from_static("acp-session-id");

/// Extra length that a host's line may have over the longest line of a client.
const ENVELOPE: usize = 128 * 1024;

/// Maximum length of a client's line.
pub(crate) fn longest_line() -> usize {
    WireLimits::default().line_bytes
}

/// Limits of a connection to the bridge; every line that the bridge forwards fits.
pub(crate) fn limits() -> WireLimits {
    WireLimits { line_bytes: longest_line() + ENVELOPE, ..WireLimits::default() }
}

/// Turns a frame or a body into one line; between JSON tokens a line break is whitespace.
pub(crate) fn as_line(text: &str) -> String {
    text.trim().replace(['\n', '\r'], " ")
}
