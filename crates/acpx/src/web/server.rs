//! State of the page's server: it signs devices in and knows them by their cookies.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use acpx_core::protocol::meta::AccessScope;
use axum::http::header::{COOKIE, HeaderMap};

use super::assets::Assets;
use super::codes::OneTimeCodes;
use super::login_limit::LoginLimit;
use super::origin::OwnOrigins;
use crate::http::server::HttpServer;
use crate::http::tokens::{NewToken, Token, TokenError, TokenKind, Tokens};

/// How long a browser keeps the cookie, in seconds: a year.
const COOKIE_AGE: u32 = 31_536_000;
/// Maximum length of a device's name, in characters.
const LONGEST_NAME: usize = 100;

/// State that all connections of the page's server share.
pub(crate) struct WebServer {
    pub(crate) http: Arc<HttpServer>,
    pub(crate) origins: OwnOrigins,
    pub(crate) assets: Assets,
    /// The version with its build, as the page compares it.
    pub(crate) version: String,
    codes: OneTimeCodes,
    /// Names the port, because browsers send the cookies of a host to all its ports.
    cookie: String,
    limit: LoginLimit,
}

/// Why a device is not signed in.
#[derive(Debug)]
pub(crate) enum LoginError {
    /// The code is wrong, used or expired.
    Code,
    /// Too many codes were wrong, so this one is not looked at.
    TooManyAttempts,
    /// The codes or the tokens cannot be read or written.
    Unavailable,
}

impl From<io::Error> for LoginError {
    fn from(_: io::Error) -> Self {
        Self::Unavailable
    }
}

impl From<TokenError> for LoginError {
    fn from(_: TokenError) -> Self {
        Self::Unavailable
    }
}

impl WebServer {
    /// The page's server on a port.
    pub(crate) fn new(
        http: Arc<HttpServer>,
        origins: OwnOrigins,
        codes: OneTimeCodes,
        port: u16,
        version: String,
    ) -> Arc<Self> {
        Arc::new(Self {
            http,
            origins,
            assets: Assets::new(&version),
            version,
            codes,
            cookie: format!("acpx-{port}"),
            limit: LoginLimit::default(),
        })
    }

    /// Signs the device at this address in by its code, and returns the secret of its cookie. The browser's earlier device is signed out.
    pub(crate) async fn sign_in(
        self: &Arc<Self>,
        client: IpAddr,
        code: String,
        name: &str,
        headers: &HeaderMap,
    ) -> Result<String, LoginError> {
        let attempt = self.limit.begin(client).ok_or(LoginError::TooManyAttempts)?;
        let (server, earlier) = (Arc::clone(self), self.device(headers).await);
        let name = device_name(name);
        let signing_in = tokio::task::spawn_blocking(move || {
            let scope: AccessScope = server.codes.redeem(&code)?.ok_or(LoginError::Code)?;
            server.limit.succeeded(attempt);
            let tokens = &server.http.tokens;
            let device = NewToken { name: Some(&name), kind: TokenKind::Device, scope };
            let (secret, _) = tokens.make(device)?;
            if let Ok(Some(earlier)) = earlier {
                tokens.revoke(&earlier.id)?;
            }
            Ok(secret)
        });
        signing_in.await.unwrap_or(Err(LoginError::Unavailable))
    }

    /// The device whose cookie a request has; an error if the tokens cannot be read.
    pub(crate) async fn device(&self, headers: &HeaderMap) -> Result<Option<Token>, LoginError> {
        let Some(secret) = self.cookie_of(headers).map(str::to_owned) else { return Ok(None) };
        self.with_tokens(move |tokens| tokens.check(&secret, TokenKind::Device)).await
    }

    /// Signs a device out. Its connections end within a second.
    pub(crate) async fn sign_out(&self, device: Token) -> Result<(), LoginError> {
        self.with_tokens(move |tokens| tokens.revoke(&device.id)).await.map(drop)
    }

    async fn with_tokens<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Tokens) -> Result<T, TokenError> + Send + 'static,
    ) -> Result<T, LoginError> {
        let tokens = self.http.tokens.clone();
        let done = tokio::task::spawn_blocking(move || work(&tokens)).await;
        Ok(done.map_err(|_| LoginError::Unavailable)??)
    }

    /// The value of `Set-Cookie` that gives a browser this secret, or takes it away.
    pub(crate) fn set_cookie(&self, secret: Option<&str>) -> String {
        let (secret, age) = secret.map_or(("", 0), |secret| (secret, COOKIE_AGE));
        let secure = if self.origins.has_secure_cookies() { "; Secure" } else { "" };
        format!("{}={secret}; HttpOnly; SameSite=Strict; Path=/; Max-Age={age}{secure}", self.cookie)
    }

    /// The value of this server's cookie; `None` if there are several.
    fn cookie_of<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        let values = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let pairs = values.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let mut own = pairs.filter(|(name, _)| *name == self.cookie).map(|(_, value)| value);
        own.next().filter(|_| own.next().is_none())
    }
}

/// The name of a device as the token file can have it.
fn device_name(name: &str) -> String {
    let name: String = name.trim().chars().filter(|one| !one.is_control()).take(LONGEST_NAME).collect();
    if name.is_empty() { "browser".to_owned() } else { name }
}
