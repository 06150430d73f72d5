//! The routes of the page's server, and the layers that every request passes.
//!
//! A request from anywhere but the page is refused before it reaches a route. Every response, also an error, forbids
//! the browser all but the page's own files.

use std::sync::Arc;
use std::time::Duration;

use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::header::{
    COOKIE, HeaderName, HeaderValue, REFERRER_POLICY, SET_COOKIE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router, routing};
use serde::Deserialize;
use serde_json::json;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tower_http::sensitive_headers::SetSensitiveRequestHeadersLayer;

use super::origin::check_site;
use super::refusal::WebRefusal;
use super::server::{LoginError, WebServer};
use crate::http::peer_process::SocketAddresses;
use crate::http::refusal::json as as_json;
use crate::http::server::Caller;
use crate::http::{PATH, websocket};

/// Maximum length of a login's body.
const LONGEST_LOGIN: usize = 4 * 1024;
/// How long the body of a login may take.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(10);

/// The headers of every response.
const HEADERS: [(HeaderName, &str); 5] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; \
         frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    ),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// The routes of a server.
pub(crate) fn router(server: &Arc<WebServer>) -> Router {
    Router::new()
        .route("/login", routing::post(login).fallback(unsupported))
        .route("/logout", routing::post(logout).fallback(unsupported))
        .route("/session", routing::get(session).fallback(unsupported))
        .route(PATH, routing::get(acp).head(unsupported).fallback(unsupported))
        .route_layer(middleware::from_fn(check_user))
        .fallback(file)
        .layer(middleware::from_fn_with_state(Arc::clone(server), check_origin))
        .layer(middleware::map_response(with_headers))
        .layer(SetSensitiveRequestHeadersLayer::new([COOKIE]))
        .with_state(Arc::clone(server))
}

async fn with_headers(mut response: Response) -> Response {
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

async fn check_origin(
    State(server): State<Arc<WebServer>>,
    Extension(ends): Extension<SocketAddresses>,
    request: Request,
    next: Next,
) -> Result<Response, WebRefusal> {
    server.origins.check(request.method(), request.uri(), request.headers(), ends)?;
    check_site(request.headers(), is_read(&request) && server.assets.contains(request.uri().path()))?;
    Ok(next.run(request).await)
}

/// Refuses the processes of other users of this machine: browsers send the cookie to their ports too.
async fn check_user(
    Extension(ends): Extension<SocketAddresses>,
    request: Request,
    next: Next,
) -> Result<Response, WebRefusal> {
    match spawn_blocking(move || ends.are_of_other_user()).await {
        Ok(false) => Ok(next.run(request).await),
        Ok(true) | Err(_) => Err(WebRefusal::User),
    }
}

fn is_read(request: &Request) -> bool {
    matches!(*request.method(), Method::GET | Method::HEAD)
}

async fn unsupported() -> WebRefusal {
    WebRefusal::Method
}

/// A file of the page.
async fn file(State(server): State<Arc<WebServer>>, request: Request) -> Result<Response, WebRefusal> {
    if !is_read(&request) {
        return Err(WebRefusal::Method);
    }
    let found = server.assets.response(request.uri().path(), request.headers());
    found.ok_or(WebRefusal::Path)
}

#[derive(Deserialize)]
struct LoginRequest {
    code: String,
    #[serde(default)]
    name: String,
}

/// Signs a device in by a one-time code.
async fn login(
    State(server): State<Arc<WebServer>>,
    Extension(ends): Extension<SocketAddresses>,
    request: Request,
) -> Result<Response, WebRefusal> {
    let (head, body) = request.into_parts();
    let body = timeout(LOGIN_TIMEOUT, to_bytes(body, LONGEST_LOGIN)).await;
    let body = body.ok().and_then(Result::ok).ok_or(WebRefusal::Body)?;
    let LoginRequest { code, name } = serde_json::from_slice(&body).map_err(|_| WebRefusal::Body)?;
    let secret = server.sign_in(ends.theirs.ip(), code, &name, &head.headers).await?;
    signed(&server, Some(&secret))
}

/// Signs the device out.
async fn logout(State(server): State<Arc<WebServer>>, request: Request) -> Result<Response, WebRefusal> {
    let device = server.device(request.headers()).await?.ok_or(WebRefusal::SignedOut)?;
    server.sign_out(device).await?;
    signed(&server, None)
}

/// An empty response that sets or removes the cookie.
fn signed(server: &WebServer, secret: Option<&str>) -> Result<Response, WebRefusal> {
    let mut cookie =
        HeaderValue::from_str(&server.set_cookie(secret)).map_err(|_| WebRefusal::Unavailable)?;
    cookie.set_sensitive(true);
    Ok((StatusCode::NO_CONTENT, [(SET_COOKIE, cookie)]).into_response())
}

/// Who is signed in, and the server's version.
async fn session(State(server): State<Arc<WebServer>>, request: Request) -> Result<Response, WebRefusal> {
    let device = server.device(request.headers()).await?.ok_or(WebRefusal::SignedOut)?;
    let session = json!({ "version": server.version, "scope": device.scope.as_str(), "device": device.name });
    Ok(([(header::CACHE_CONTROL, "no-store")], as_json(session.to_string())).into_response())
}

/// Upgrades to a WebSocket that speaks ACP.
async fn acp(
    State(server): State<Arc<WebServer>>,
    Extension(ends): Extension<SocketAddresses>,
    request: Request,
) -> Result<Response, WebRefusal> {
    let device = server.device(request.headers()).await?.ok_or(WebRefusal::SignedOut)?;
    if !websocket::is_wanted(request.headers()) {
        return Err(WebRefusal::NoUpgrade);
    }
    let caller = Caller::new(ends, Some(&device));
    Ok(websocket::upgrade(&server.http, caller, request).await?)
}

impl From<LoginError> for WebRefusal {
    fn from(error: LoginError) -> Self {
        match error {
            LoginError::Code => Self::Code,
            LoginError::TooManyAttempts => Self::TooManyAttempts,
            LoginError::Unavailable => Self::Unavailable,
        }
    }
}

#[cfg(test)]
mod tests;
