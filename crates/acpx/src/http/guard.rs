//! Request admission: what a request must present before it is processed.
//!
//! Tokens keep out remote programs, the `Origin` check keeps out web pages in the user's browser, and the `Host` check
//! keeps out DNS rebinding.

use std::net::{IpAddr, SocketAddr};

use hyper::header::{AUTHORIZATION, HOST, HeaderMap, HeaderName, ORIGIN};
use hyper::http::uri::Authority;
use hyper::{StatusCode, Uri};

use super::subprotocol;

/// Allows web pages of every origin.
pub(crate) const ANY_ORIGIN: &str = "*";

/// The admission rules of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Guard {
    /// Whether the server listens on loopback only.
    pub(crate) is_loopback: bool,
    /// Whether the user allows access without a token from other machines.
    pub(crate) insecure_public: bool,
    /// Allowed origins of web pages.
    pub(crate) origins: Vec<String>,
}

/// Why a request is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AccessError {
    /// The web page's origin is not allowed.
    #[error("requests of this Origin are not allowed")]
    Origin,
    /// The `Host` is a name that could be rebound to this machine.
    #[error("without a token the Host must be localhost or an address")]
    Host,
    /// The token is missing.
    #[error("a bearer token is needed")]
    NoToken,
    /// The token is unknown or revoked, or the header is malformed.
    #[error("this token is unknown or revoked")]
    BadToken,
}

impl AccessError {
    /// The HTTP status of this error.
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::Origin | Self::Host => StatusCode::FORBIDDEN,
            Self::NoToken | Self::BadToken => StatusCode::UNAUTHORIZED,
        }
    }
}

impl Guard {
    /// Checks `Origin` and `Host`, and returns the request's secret, which must be checked. Without one the request is
    /// admitted only if the home has no tokens.
    pub(crate) fn check_headers<'a>(
        &self,
        uri: &'a Uri,
        headers: &'a HeaderMap,
    ) -> Result<Option<&'a str>, AccessError> {
        self.check_origin(uri, headers)?;
        let host = host_of(uri, headers);
        match secret(headers)? {
            Some(secret) => Ok(Some(secret)),
            // The owner of a DNS name can make it resolve to this machine; an IP address cannot be rebound.
            None if self.is_loopback && !host.is_some_and(is_this_machine) => Err(AccessError::Host),
            None if !host.is_some_and(is_no_name) => Err(AccessError::Host),
            None => Ok(None),
        }
    }

    /// Rejects a request from a web page whose origin is neither this server's nor allowed.
    pub(crate) fn check_origin(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), AccessError> {
        let Some(origin) = only(headers, &ORIGIN).map_err(|()| AccessError::Origin)? else { return Ok(()) };
        let is_own = host_of(uri, headers).is_some_and(|host| is_same_host(origin, host));
        if is_own || self.allows(origin) { Ok(()) } else { Err(AccessError::Origin) }
    }

    /// Whether a request without a token is admitted.
    pub(crate) fn admits_without_token(&self, tokens_needed: bool) -> bool {
        !tokens_needed && (self.is_loopback || self.insecure_public)
    }

    /// Whether the user allowed this origin.
    pub(crate) fn allows(&self, origin: &str) -> bool {
        self.origins.iter().any(|allowed| allowed == ANY_ORIGIN || allowed.eq_ignore_ascii_case(origin))
    }
}

/// The host and port that a request names.
pub(crate) fn host_of<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    match uri.authority() {
        Some(authority) => Some(authority.as_str()),
        None => only(headers, &HOST).unwrap_or_default(),
    }
}

/// Whether an address is a loopback address.
pub(crate) fn is_loopback(address: SocketAddr) -> bool {
    is_own_address(address.ip())
}

fn is_own_address(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

/// The single value of a header; an error if it is repeated or not text.
pub(crate) fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, ()> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| ()),
        (Some(_), Some(_)) => Err(()),
    }
}

/// The secret of a request: in `Authorization`, or in a subprotocol that a WebSocket client offers. Two are an error,
/// because it is unclear which one counts.
fn secret(headers: &HeaderMap) -> Result<Option<&str>, AccessError> {
    let header = only(headers, &AUTHORIZATION).map_err(|()| AccessError::BadToken)?;
    let header = header.map(|value| bearer(value).ok_or(AccessError::BadToken)).transpose()?;
    let mut secrets = header.into_iter().chain(subprotocol::tokens(headers));
    match (secrets.next(), secrets.next()) {
        (secret, None) => Ok(secret),
        (_, Some(_)) => Err(AccessError::BadToken),
    }
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, secret) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| secret.trim())
}

/// Whether an origin has the requested host and port.
fn is_same_host(origin: &str, host: &str) -> bool {
    let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
}

/// Whether a host, with or without a port, is localhost or a loopback address.
pub(crate) fn is_this_machine(host: &str) -> bool {
    let name = without_port(host);
    name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(is_own_address)
}

/// Whether a host is an IP address or localhost.
fn is_no_name(host: &str) -> bool {
    is_this_machine(host) || without_port(host).parse::<IpAddr>().is_ok()
}

pub(crate) fn without_port(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or("", |(address, _)| address),
        None => host.split_once(':').map_or(host, |(name, _)| name),
    }
}

/// Parses an origin: whether its scheme is `https`, and its host with an optional port.
pub(crate) fn scheme_and_authority(text: &str) -> Option<(bool, Authority)> {
    let (is_secure, rest) = match text.strip_prefix("https://") {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix("http://")?),
    };
    let authority = rest.parse::<Authority>().ok()?;
    let is_whole = authority.as_str() == rest && !authority.host().is_empty() && !rest.contains('@');
    is_whole.then_some((is_secure, authority))
}

/// Parses an allowed origin: `*`, or a scheme and a host with an optional port.
pub(crate) fn read_origin(text: &str) -> Result<String, &'static str> {
    if text == ANY_ORIGIN || scheme_and_authority(text).is_some() {
        Ok(text.to_owned())
    } else {
        Err("an origin is * or http:// or https:// with a host and perhaps a port, and nothing behind it")
    }
}

#[cfg(test)]
mod tests;
