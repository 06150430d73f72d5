//! Handles one HTTP request: the streamable HTTP transport of ACP, and the upgrade to a WebSocket.
//!
//! `POST` sends a message; its reply arrives on a stream. Only `initialize` gets its reply in the response, with the id
//! of the new connection. `GET` opens a stream, `DELETE` ends the connection.

use std::sync::Arc;
use std::time::Duration;

use acpx_core::wire::{InboundStream, RpcId, RpcMessage};
use bytes::Buf;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use tokio::time::timeout;

use super::connection::HttpConnection;
use super::events::ResponseBody;
use super::guard::{AccessError, only};
use super::limits::ReceiveBudget;
use super::peer_process::SocketAddresses;
use super::refusal::{HttpRefusal, empty, json};
use super::server::{Caller, HostLink, HttpServer};
use super::{CONNECTION, PATH, SESSION, as_line, longest_line, websocket};

/// How long a body may make no progress. A long one may arrive slowly.
const BODY: Duration = Duration::from_mins(1);
/// Maximum length of `initialize`, which needs little room.
const LONGEST_GREETING: usize = 256 * 1024;
/// How long the host may take to reply to `initialize`, including its start.
const GREETING: Duration = Duration::from_mins(2);
/// CORS headers for allowed origins.
const FOR_PAGES: [(HeaderName, &str); 3] = [
    (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, DELETE"),
    (header::ACCESS_CONTROL_ALLOW_HEADERS, "authorization, content-type, acp-connection-id, acp-session-id"),
    (header::ACCESS_CONTROL_EXPOSE_HEADERS, "acp-connection-id, acp-session-id"),
];

/// Handles a request and returns its response.
pub(crate) async fn answer(
    server: &Arc<HttpServer>,
    ends: SocketAddresses,
    request: Request<Incoming>,
) -> Response<ResponseBody> {
    let origin = request.headers().get(header::ORIGIN).cloned();
    let mut response = respond(server, ends, request).await.unwrap_or_else(|refusal| refusal.response());
    let allowed = |origin: &HeaderValue| origin.to_str().is_ok_and(|origin| server.guard.allows(origin));
    if let Some(origin) = origin.filter(allowed) {
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::VARY, HeaderValue::from_static("origin"));
        headers.extend(FOR_PAGES.map(|(name, value)| (name, HeaderValue::from_static(value))));
    }
    response
}

async fn respond(
    server: &Arc<HttpServer>,
    ends: SocketAddresses,
    request: Request<Incoming>,
) -> Result<Response<ResponseBody>, HttpRefusal> {
    if request.uri().path() != PATH {
        return Err(HttpRefusal::Path);
    }
    if request.method() == Method::OPTIONS {
        // A CORS preflight request, which never carries a token.
        server.guard.look_at_origin(request.uri(), request.headers())?;
        return Ok(empty(StatusCode::NO_CONTENT));
    }
    let secret = server.guard.look(request.uri(), request.headers())?;
    let caller = Caller { ends, token: admit(server, secret).await? };
    match *request.method() {
        Method::POST => post(server, caller, request).await,
        Method::GET if websocket::is_wanted(request.headers()) => {
            websocket::upgrade(server, caller, request).await
        }
        Method::GET => get(server, caller.token.as_deref(), request.headers()),
        Method::DELETE => delete(server, caller.token.as_deref(), request.headers()),
        _ => Err(HttpRefusal::Method),
    }
}

/// Authenticates a request; returns its token, or `None` if it needs none.
async fn admit(server: &HttpServer, secret: Option<&str>) -> Result<Option<String>, HttpRefusal> {
    let (tokens, secret) = (server.tokens.clone(), secret.map(str::to_owned));
    let has_secret = secret.is_some();
    let checked = tokio::task::spawn_blocking(move || match &secret {
        Some(secret) => tokens.check(secret).map(|token| (false, token)),
        None => tokens.are_needed().map(|needed| (needed, None)),
    });
    let (needed, token) = checked.await.map_err(|_| HttpRefusal::Tokens)?.map_err(|_| HttpRefusal::Tokens)?;
    match token {
        Some(token) => Ok(Some(token)),
        None if has_secret => Err(AccessError::BadToken.into()),
        None if server.guard.admits_nothing(needed) => Ok(None),
        None => Err(AccessError::NoToken.into()),
    }
}

async fn post(
    server: &Arc<HttpServer>,
    caller: Caller,
    request: Request<Incoming>,
) -> Result<Response<ResponseBody>, HttpRefusal> {
    let (head, body) = request.into_parts();
    let kind = head.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.map(|kind| kind.split(';').next().unwrap_or_default().trim());
    if !kind.is_some_and(|kind| kind.eq_ignore_ascii_case("application/json")) {
        return Err(HttpRefusal::ContentType);
    }
    let load = server.load();
    if !head.headers.contains_key(&CONNECTION) {
        let message = read(body, LONGEST_GREETING, &load).await?;
        let is_greeting = message.method() == Some("initialize") && message.id().is_some();
        return if is_greeting {
            begin(server, caller, &message).await
        } else {
            Err(HttpRefusal::NoConnection)
        };
    }
    let connection = known(server, caller.token.as_deref(), &head.headers)?;
    let session = text(&head.headers, &SESSION)?;
    let message = read(body, longest_line(), &load).await?;
    let line = connection.streams().register(&message, session)?;
    connection.peer.send(line).await.map_err(|_| HttpRefusal::UnknownConnection)?;
    Ok(empty(StatusCode::ACCEPTED))
}

/// Reads a body and parses it as a message.
async fn read(body: Incoming, longest: usize, load: &ReceiveBudget) -> Result<RpcMessage, HttpRefusal> {
    if body.size_hint().lower() > longest as u64 {
        return Err(HttpRefusal::TooLong);
    }
    let bytes = gather(Limited::new(body, longest), load).await?;
    let text = std::str::from_utf8(&bytes).map_err(|_| HttpRefusal::Unreadable)?;
    RpcMessage::parse(as_line(text)).map_err(HttpRefusal::NotAMessage)
}

/// Collects a body's bytes within the receive budget.
async fn gather(body: Limited<Incoming>, load: &ReceiveBudget) -> Result<Vec<u8>, HttpRefusal> {
    let mut body = std::pin::pin!(body);
    let mut bytes = Vec::new();
    while let Some(frame) = timeout(BODY, body.frame()).await.map_err(|_| HttpRefusal::Slow)? {
        let frame = frame.map_err(|error| match error.downcast_ref::<LengthLimitError>() {
            Some(_) => HttpRefusal::TooLong,
            None => HttpRefusal::Unreadable,
        })?;
        let Ok(mut data) = frame.into_data() else { continue };
        if !load.add(data.remaining()) {
            return Err(HttpRefusal::NoRoom);
        }
        bytes.reserve(data.remaining());
        while data.has_remaining() {
            let part = data.chunk();
            bytes.extend_from_slice(part);
            let length = part.len();
            data.advance(length);
        }
    }
    Ok(bytes)
}

/// Creates a connection once the host has replied to `initialize`.
async fn begin(
    server: &Arc<HttpServer>,
    caller: Caller,
    initialize: &RpcMessage,
) -> Result<Response<ResponseBody>, HttpRefusal> {
    let HostLink { peer, mut incoming, admission } = server.join(&caller).await?;
    peer.send(initialize.line().to_string()).await.map_err(|_| HttpRefusal::NoHost)?;
    let mut early = Vec::new();
    let answer = timeout(GREETING, greeting(&mut incoming, initialize.id(), &mut early)).await;
    let answer = answer.ok().flatten().ok_or(HttpRefusal::NoHost)?;
    let mut response = json(answer.line().to_string());
    if answer.result().is_some() {
        let connection = HttpConnection::begin(server, caller.token, peer, (incoming, early), admission);
        response.headers_mut().insert(CONNECTION, connection.header());
    }
    Ok(response)
}

/// Waits for the reply to `initialize`; earlier messages are collected in `early`.
async fn greeting(
    incoming: &mut InboundStream,
    id: Option<&RpcId>,
    early: &mut Vec<RpcMessage>,
) -> Option<RpcMessage> {
    loop {
        let message = incoming.recv().await?.message().clone();
        if message.method().is_none() && message.id() == id {
            return Some(message);
        }
        early.push(message);
    }
}

fn get(
    server: &Arc<HttpServer>,
    token: Option<&str>,
    headers: &HeaderMap,
) -> Result<Response<ResponseBody>, HttpRefusal> {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|accept| accept.to_str().ok());
    // Media types may have parameters, and their names are case-insensitive.
    let names = accepted.flat_map(|accept| accept.split(',')).filter_map(|kind| kind.split(';').next());
    if !names.map(str::trim).any(|name| name.eq_ignore_ascii_case("text/event-stream")) {
        return Err(HttpRefusal::Accept);
    }
    let connection = known(server, token, headers)?;
    let session = text(headers, &SESSION)?;
    let reader = connection.streams().open(session)?;
    let mut response = Response::new(ResponseBody::events(reader));
    let answered = response.headers_mut();
    answered.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    answered.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    answered.insert(CONNECTION, connection.header());
    if let Some(session) = headers.get(&SESSION) {
        answered.insert(SESSION, session.clone());
    }
    Ok(response)
}

fn delete(
    server: &Arc<HttpServer>,
    token: Option<&str>,
    headers: &HeaderMap,
) -> Result<Response<ResponseBody>, HttpRefusal> {
    let connection = known(server, token, headers)?;
    connection.end();
    server.connections().remove(&connection.id);
    Ok(empty(StatusCode::ACCEPTED))
}

/// The connection that a request names. It must have been created with the same token.
fn known(
    server: &HttpServer,
    token: Option<&str>,
    headers: &HeaderMap,
) -> Result<Arc<HttpConnection>, HttpRefusal> {
    let id = text(headers, &CONNECTION)?.ok_or(HttpRefusal::NoConnection)?;
    let connection = server.connections().get(id).cloned();
    let connection = connection.filter(|connection| connection.is_of(token));
    let connection = connection.ok_or(HttpRefusal::UnknownConnection)?;
    connection.touch();
    Ok(connection)
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, HttpRefusal> {
    only(headers, name).map_err(|()| HttpRefusal::Header(name.clone()))
}
