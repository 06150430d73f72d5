//! Where a request to the page's server comes from: only the page itself, or a user who opens its address.
//!
//! `Host` keeps out DNS rebinding, `Origin` and `Sec-Fetch-Site` keep out the pages of other sites.

use std::net::{IpAddr, SocketAddr};

use axum::http::header::{HeaderMap, HeaderName, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{Method, Uri};

use super::refusal::WebRefusal;
use crate::http::guard::{host_of, is_this_machine, only, scheme_and_authority, without_port};
use crate::http::peer_process::SocketAddresses;
use crate::http::websocket;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// The URL under which browsers reach the server, if it differs from the address: a scheme and a host, and no path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PublicUrl {
    pub(crate) is_secure: bool,
    authority: Authority,
}

impl PublicUrl {
    /// Parses a URL.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        const EXPECTED: &str =
            "expected https:// or http:// with a host and perhaps a port, and nothing behind it";
        let (is_secure, authority) =
            scheme_and_authority(text.strip_suffix('/').unwrap_or(text)).ok_or(EXPECTED)?;
        let default_port = if is_secure { ":443" } else { ":80" };
        let authority = match authority.as_str().strip_suffix(default_port) {
            Some(host) => host.parse().map_err(|_| EXPECTED)?,
            None => authority,
        };
        Ok(Self { is_secure, authority })
    }

    /// The URL, with a slash at its end.
    pub(crate) fn url(&self) -> String {
        format!("{}://{}/", if self.is_secure { "https" } else { "http" }, self.authority)
    }
}

/// The addresses under which the page may be open.
#[derive(Debug, Clone)]
pub(crate) struct OwnOrigins {
    pub(crate) public: Option<PublicUrl>,
    /// Whether the listener uses TLS.
    pub(crate) is_secure: bool,
}

impl OwnOrigins {
    /// The URL of a listener, with a slash at its end.
    pub(crate) fn url(&self, address: SocketAddr) -> String {
        let scheme = if self.is_secure { "https" } else { "http" };
        self.public.as_ref().map_or_else(|| format!("{scheme}://{address}/"), PublicUrl::url)
    }

    /// Whether cookies are sent over TLS only.
    pub(crate) fn has_secure_cookies(&self) -> bool {
        self.is_secure || self.public.as_ref().is_some_and(|public| public.is_secure)
    }

    /// Rejects a request whose `Host` or `Origin` is not the page's own.
    pub(crate) fn check(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        ends: SocketAddresses,
    ) -> Result<(), WebRefusal> {
        let host = host_of(uri, headers).filter(|host| self.is_own_host(host, ends));
        let host = host.ok_or(WebRefusal::Host)?;
        let needs_origin = *method == Method::POST || websocket::is_wanted(headers);
        match only(headers, &ORIGIN).map_err(|()| WebRefusal::Origin)? {
            Some(origin) if self.is_own_origin(origin, host) => {}
            None if !needs_origin => {}
            Some(_) | None => return Err(WebRefusal::Origin),
        }
        Ok(())
    }

    fn is_own_host(&self, host: &str, ends: SocketAddresses) -> bool {
        // An IP address cannot be rebound, and this one is the listener's.
        let is_listener =
            || without_port(host).parse::<IpAddr>().is_ok_and(|ip| ip == ends.ours.ip().to_canonical());
        is_this_machine(host) || self.is_public(host) || is_listener()
    }

    fn is_public(&self, host: &str) -> bool {
        self.public.as_ref().is_some_and(|public| public.authority.as_str().eq_ignore_ascii_case(host))
    }

    fn is_own_origin(&self, origin: &str, host: &str) -> bool {
        let public = self.public.as_ref().filter(|_| self.is_public(host));
        let scheme = if public.map_or(self.is_secure, |public| public.is_secure) { "https" } else { "http" };
        let authority = origin.strip_prefix(scheme).and_then(|rest| rest.strip_prefix("://"));
        authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
    }
}

/// Rejects a request of another site, except a link to a file of the page: the files hold no secret.
pub(crate) fn check_site(headers: &HeaderMap, is_file: bool) -> Result<(), WebRefusal> {
    let value = |name| only(headers, name).map_err(|()| WebRefusal::Site);
    match value(&SEC_FETCH_SITE)? {
        None | Some("same-origin" | "none") => Ok(()),
        Some(_) if is_file && is_link(value(&SEC_FETCH_MODE)?, value(&SEC_FETCH_DEST)?) => Ok(()),
        Some(_) => Err(WebRefusal::Site),
    }
}

/// Whether a browser opens an address as a page of its own, and not in a frame.
fn is_link(mode: Option<&str>, destination: Option<&str>) -> bool {
    (mode, destination) == (Some("navigate"), Some("document"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_url_is_an_origin_without_its_default_port() {
        let url = |text| PublicUrl::parse(text).map(|public| public.url());
        assert_eq!(url("https://a.example"), Ok("https://a.example/".to_owned()));
        assert_eq!(url("https://a.example:443/"), Ok("https://a.example/".to_owned()));
        assert_eq!(url("http://a.example:8080"), Ok("http://a.example:8080/".to_owned()));
        for wrong in ["a.example", "ftp://a", "https://", "https://a/b", "https://u@a", "https://a?b"] {
            assert!(url(wrong).is_err(), "{wrong}");
        }
    }
}
