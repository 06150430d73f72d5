//! The URL of a remote agent, validated before anything is sent to it.

use std::fmt;

use hyper::Uri;
use hyper::http::uri::Authority;

use super::PATH;
use super::guard::is_this_machine;

/// The transport of a remote agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    /// Over a WebSocket.
    WebSocket,
    /// HTTP requests with event streams.
    Http,
}

/// A validated URL of a remote agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) transport: Transport,
    pub(crate) is_secure: bool,
    authority: Authority,
    path: String,
}

/// Why a URL is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AddressError {
    /// It is not a URL of an agent.
    #[error("{url:?} is no URL of an agent")]
    NoUrl {
        /// The text.
        url: String,
    },
    /// It contains a user name or password, which would be stored with the session.
    #[error("the URL of the agent has a user's name in it")]
    Credentials,
    /// It contains a query, which may carry a token and would be stored with the session.
    #[error("the URL of the agent has a query in it")]
    Query,
    /// The connection would be unencrypted.
    #[error("{url} leads to another machine without TLS")]
    Plain {
        /// The URL.
        url: String,
    },
}

impl AddressError {
    /// What the user can do instead.
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Self::NoUrl { .. } => "it begins with wss://, ws://, https:// or http:// and a host",
            Self::Credentials | Self::Query => {
                "give a token as ACPX_REMOTE_TOKEN, or as tokenFile in the configuration"
            }
            Self::Plain { .. } => "use wss:// or https://, or put --insecure behind the URL",
        }
    }
}

impl Address {
    /// Parses a URL. Without TLS it must name this machine, unless `insecure` is set.
    pub(crate) fn parse(url: &str, insecure: bool) -> Result<Self, AddressError> {
        let no_url = || AddressError::NoUrl { url: url.to_owned() };
        let parts = url.parse::<Uri>().map_err(|_| no_url())?.into_parts();
        let scheme = parts.scheme.ok_or_else(no_url)?;
        let (transport, is_secure) = match scheme.as_str().to_ascii_lowercase().as_str() {
            "ws" => (Transport::WebSocket, false),
            "wss" => (Transport::WebSocket, true),
            "http" => (Transport::Http, false),
            "https" => (Transport::Http, true),
            _ => return Err(no_url()),
        };
        let authority = parts.authority.ok_or_else(no_url)?;
        if authority.as_str().contains('@') {
            return Err(AddressError::Credentials);
        }
        if !is_secure && !insecure && !is_this_machine(authority.as_str()) {
            return Err(AddressError::Plain { url: url.to_owned() });
        }
        if parts.path_and_query.as_ref().is_some_and(|path| path.query().is_some()) {
            return Err(AddressError::Query);
        }
        let path = parts.path_and_query.map(|path| path.to_string()).filter(|path| path != "/");
        let path = path.unwrap_or_else(|| PATH.to_owned());
        Ok(Self { transport, is_secure, authority, path })
    }

    /// The host without brackets, for name resolution and certificates.
    pub(crate) fn host(&self) -> &str {
        let host = self.authority.host();
        host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
    }

    /// The port.
    pub(crate) fn port(&self) -> u16 {
        self.authority.port_u16().unwrap_or(if self.is_secure { 443 } else { 80 })
    }

    /// Host and port as in the `Host` header.
    pub(crate) fn authority(&self) -> &str {
        self.authority.as_str()
    }

    /// The path of the endpoint.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match (self.transport, self.is_secure) {
            (Transport::WebSocket, false) => "ws",
            (Transport::WebSocket, true) => "wss",
            (Transport::Http, false) => "http",
            (Transport::Http, true) => "https",
        };
        write!(f, "{scheme}://{}{}", self.authority, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parsed form of a URL, with its host and port.
    type Read = Result<(&'static str, &'static str, u16), AddressError>;

    #[test]
    fn url_has_a_host_and_needs_tls_for_other_machines() {
        let plain = |url: &str| AddressError::Plain { url: url.to_owned() };
        let cases: &[(&str, bool, Read)] = &[
            ("wss://far.example/acp", false, Ok(("wss://far.example/acp", "far.example", 443))),
            ("wss://far.example", false, Ok(("wss://far.example/acp", "far.example", 443))),
            ("HTTPS://far.example:8443/x", false, Ok(("https://far.example:8443/x", "far.example", 8443))),
            ("wss://far.example/acp?token=word", false, Err(AddressError::Query)),
            ("wss://far.example?", false, Err(AddressError::Query)),
            ("ws://127.0.0.1:7/acp", false, Ok(("ws://127.0.0.1:7/acp", "127.0.0.1", 7))),
            ("http://[::1]/", false, Ok(("http://[::1]/acp", "::1", 80))),
            ("ws://localhost", false, Ok(("ws://localhost/acp", "localhost", 80))),
            ("ws://far.example", false, Err(plain("ws://far.example"))),
            ("http://localhost.far.example", false, Err(plain("http://localhost.far.example"))),
            ("ws://far.example", true, Ok(("ws://far.example/acp", "far.example", 80))),
            ("wss://me:word@far.example", false, Err(AddressError::Credentials)),
            ("wss://", false, Err(AddressError::NoUrl { url: "wss://".to_owned() })),
            ("ftp://x", false, Err(AddressError::NoUrl { url: "ftp://x".to_owned() })),
        ];
        for (url, insecure, expected) in cases {
            let read = Address::parse(url, *insecure);
            let read = read.as_ref().map(|address| (address.to_string(), address.host(), address.port()));
            let expected = expected.as_ref().map(|(shown, host, port)| ((*shown).to_owned(), *host, *port));
            assert_eq!(read, expected, "{url}");
        }
    }
}
