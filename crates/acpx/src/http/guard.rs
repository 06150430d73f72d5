//! Who may come in: what a request must show before anything is done for it.
//!
//! Three strangers are kept out: a program elsewhere, by a token; a web page in the user's own browser, by its
//! `Origin`; and a web page whose name was made to lead here, by its `Host`.

use std::net::{IpAddr, SocketAddr};

use hyper::header::{AUTHORIZATION, HOST, HeaderMap, HeaderName, ORIGIN};
use hyper::http::uri::Authority;
use hyper::{StatusCode, Uri};

/// Allows every web page.
pub(crate) const ANY_ORIGIN: &str = "*";

/// What the door of a server is like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Guard {
    /// Whether only programs on this machine reach it.
    pub(crate) is_loopback: bool,
    /// Whether its user wants it open to everybody.
    pub(crate) insecure_public: bool,
    /// Web pages that may come in.
    pub(crate) origins: Vec<String>,
}

/// What a request shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestCredential<'a> {
    /// This secret, which is to be checked.
    Secret(&'a str),
    /// Nothing, and none is needed if the home has no tokens.
    Nothing,
}

/// Why a request stays outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AccessError {
    /// A web page of somebody else.
    #[error("requests of this Origin are not allowed")]
    Origin,
    /// The name it was asked under is not this machine's.
    #[error("without a token the Host must be localhost or an address")]
    Host,
    /// Without a token.
    #[error("a bearer token is needed")]
    NoToken,
    /// With one that does not hold, or with what is none.
    #[error("this token does not hold here: it is unknown, or was revoked")]
    BadToken,
}

impl AccessError {
    /// How HTTP says it.
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::Origin | Self::Host => StatusCode::FORBIDDEN,
            Self::NoToken | Self::BadToken => StatusCode::UNAUTHORIZED,
        }
    }
}

impl Guard {
    /// What a request shows, if its way here is right.
    pub(crate) fn look<'a>(
        &self,
        uri: &'a Uri,
        headers: &'a HeaderMap,
    ) -> Result<RequestCredential<'a>, AccessError> {
        self.look_at_origin(uri, headers)?;
        let host = host_of(uri, headers);
        match only(headers, &AUTHORIZATION).map_err(|()| AccessError::BadToken)? {
            Some(value) => bearer(value).map(RequestCredential::Secret).ok_or(AccessError::BadToken),
            // A name can be made to lead here by whoever has the name; an address cannot.
            None if self.is_loopback && !host.is_some_and(is_this_machine) => Err(AccessError::Host),
            None if !host.is_some_and(is_no_name) => Err(AccessError::Host),
            None => Ok(RequestCredential::Nothing),
        }
    }

    /// Sees to it that a request is of no web page, or of one that may come in.
    pub(crate) fn look_at_origin(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), AccessError> {
        let Some(origin) = only(headers, &ORIGIN).map_err(|()| AccessError::Origin)? else { return Ok(()) };
        let is_own = host_of(uri, headers).is_some_and(|host| is_same_host(origin, host));
        if is_own || self.allows(origin) { Ok(()) } else { Err(AccessError::Origin) }
    }

    /// Whether whoever shows nothing comes in where tokens are needed, or are not.
    pub(crate) fn admits_nothing(&self, tokens_needed: bool) -> bool {
        !tokens_needed && (self.is_loopback || self.insecure_public)
    }

    /// Whether a web page was allowed by the user.
    pub(crate) fn allows(&self, origin: &str) -> bool {
        self.origins.iter().any(|allowed| allowed == ANY_ORIGIN || allowed.eq_ignore_ascii_case(origin))
    }
}

/// The name or address that a request was made to.
fn host_of<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    match uri.authority() {
        Some(authority) => Some(authority.as_str()),
        None => only(headers, &HOST).unwrap_or_default(),
    }
}

/// Whether only this machine reaches an address.
pub(crate) fn is_loopback(address: SocketAddr) -> bool {
    is_own_address(address.ip())
}

fn is_own_address(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

/// The one value of a header; an error if it is there twice or no text.
pub(crate) fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, ()> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| ()),
        (Some(_), Some(_)) => Err(()),
    }
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, secret) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| secret.trim())
}

/// Whether an origin is the host that was asked, on the same port.
fn is_same_host(origin: &str, host: &str) -> bool {
    let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
}

/// Whether a name with its port is one that no name server can give to anybody else.
pub(crate) fn is_this_machine(host: &str) -> bool {
    let name = without_port(host);
    name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(is_own_address)
}

/// Whether it is an address, or the one name that is as good.
fn is_no_name(host: &str) -> bool {
    is_this_machine(host) || without_port(host).parse::<IpAddr>().is_ok()
}

fn without_port(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or("", |(address, _)| address),
        None => host.split_once(':').map_or(host, |(name, _)| name),
    }
}

/// What a web page is allowed by: `*` for every one, or the scheme and the host with perhaps a port.
pub(crate) fn read_origin(text: &str) -> Result<String, &'static str> {
    let is_origin = || {
        let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"))?;
        let authority = rest.parse::<Authority>().ok()?;
        (authority.as_str() == rest && !authority.host().is_empty() && !rest.contains('@')).then_some(())
    };
    if text == ANY_ORIGIN || is_origin().is_some() {
        Ok(text.to_owned())
    } else {
        Err("an origin is * or http:// or https:// with a host and perhaps a port, and nothing behind it")
    }
}

#[cfg(test)]
mod tests;
