//! WebSocket subprotocols. A browser cannot set headers of a WebSocket handshake, so its token is in the list of
//! subprotocols that it offers: `acp.v1, bearer.TOKEN`. The server selects `acp.v1` and never repeats the token.

use hyper::header::{HeaderMap, SEC_WEBSOCKET_PROTOCOL};

/// The subprotocol that the server selects if the client offers it.
pub(crate) const ACP_V1: &str = "acp.v1";
/// Begins a subprotocol that carries a token.
const BEARER: &str = "bearer.";

/// Whether a client offers `acp.v1`.
pub(crate) fn offers_acp(headers: &HeaderMap) -> bool {
    offered(headers).any(|protocol| protocol == ACP_V1)
}

/// The tokens in the offered subprotocols; a client needs at most one.
pub(crate) fn tokens(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    offered(headers).filter_map(|protocol| protocol.strip_prefix(BEARER))
}

fn offered(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}
