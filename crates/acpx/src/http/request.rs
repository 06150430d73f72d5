//! Handles one HTTP request: the streamable HTTP transport of ACP, and the upgrade to a WebSocket.
//!
//! `POST` sends a message; its reply arrives on a stream. Only `initialize` gets its reply in the response, with the id
//! of the new connection. `GET` opens a stream, `DELETE` ends the connection.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use acpx_core::wire::{InboundStream, RpcId, RpcMessage};
use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{self, HeaderMap, HeaderName};
use axum::middleware::Next;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use http_body_util::{BodyExt, Limited};
use tokio::time::timeout;

use super::connection::HttpConnection;
use super::guard::{AccessError, only};
use super::limits::ReceiveBudget;
use super::peer_process::SocketAddresses;
use super::refusal::{HttpRefusal, json};
use super::server::{Caller, HostLink, HttpServer};
use super::tokens::{Token, TokenKind};
use super::{CONNECTION, SESSION, as_line, longest_line, websocket};

/// Interval of keep-alive comments on an idle stream, which keep proxies from closing it and reveal dead clients.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Maximum length of `initialize`, which needs little room.
const MAX_INITIALIZE_BYTES: usize = 256 * 1024;
/// How long the host may take to reply to `initialize`, including its start.
const INITIALIZE_TIMEOUT: Duration = Duration::from_mins(2);
/// Layer that admits a request: handlers behind it know its [`Caller`].
pub(super) async fn admit(
    State(server): State<Arc<HttpServer>>,
    Extension(ends): Extension<SocketAddresses>,
    mut request: Request,
    next: Next,
) -> Result<Response, HttpRefusal> {
    let secret = server.guard.check_headers(request.uri(), request.headers())?;
    let token = authenticate(&server, secret).await?;
    request.extensions_mut().insert(Caller::new(ends, token.as_ref()));
    Ok(next.run(request).await)
}

/// Authenticates a request; returns its token, or `None` if it needs none.
async fn authenticate(server: &HttpServer, secret: Option<&str>) -> Result<Option<Token>, HttpRefusal> {
    let (tokens, secret) = (server.tokens.clone(), secret.map(str::to_owned));
    let has_secret = secret.is_some();
    let checked = tokio::task::spawn_blocking(move || match &secret {
        Some(secret) => tokens.check(secret, TokenKind::Bearer).map(|token| (false, token)),
        None => tokens.are_needed().map(|needed| (needed, None)),
    });
    let (needed, token) = checked.await.map_err(|_| HttpRefusal::Tokens)?.map_err(|_| HttpRefusal::Tokens)?;
    match token {
        Some(token) => Ok(Some(token)),
        None if has_secret => Err(AccessError::BadToken.into()),
        None if server.guard.admits_without_token(needed) => Ok(None),
        None => Err(AccessError::NoToken.into()),
    }
}

/// Sends a message, or begins a connection with `initialize`.
pub(super) async fn post(
    State(server): State<Arc<HttpServer>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, HttpRefusal> {
    let (head, body) = request.into_parts();
    let kind = head.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.map(|kind| kind.split(';').next().unwrap_or_default().trim());
    if !kind.is_some_and(|kind| kind.eq_ignore_ascii_case("application/json")) {
        return Err(HttpRefusal::ContentType);
    }
    let load = server.load();
    if !head.headers.contains_key(&CONNECTION) {
        let message = read(body, MAX_INITIALIZE_BYTES, &load).await?;
        let is_greeting = message.method() == Some("initialize") && message.id().is_some();
        return if is_greeting {
            begin(&server, caller, &message).await
        } else {
            Err(HttpRefusal::NoConnection)
        };
    }
    let connection = known(&server, caller.token.as_deref(), &head.headers)?;
    let session = text(&head.headers, &SESSION)?;
    let message = read(body, longest_line(), &load).await?;
    let line = connection.streams().register(&message, session)?;
    connection.peer.send(line).await.map_err(|_| HttpRefusal::UnknownConnection)?;
    Ok(StatusCode::ACCEPTED.into_response())
}

/// Reads a body within the receive budget and parses it as a message.
async fn read(body: Body, longest: usize, load: &ReceiveBudget) -> Result<RpcMessage, HttpRefusal> {
    let mut body = Limited::new(body, longest);
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| HttpRefusal::of_body(&*error))?;
        let Ok(data) = frame.into_data() else { continue };
        if !load.add(data.len()) {
            return Err(HttpRefusal::NoRoom);
        }
        bytes.extend_from_slice(&data);
    }
    let text = std::str::from_utf8(&bytes).map_err(|_| HttpRefusal::Unreadable)?;
    RpcMessage::parse(as_line(text)).map_err(HttpRefusal::NotAMessage)
}

/// Creates a connection once the host has replied to `initialize`.
async fn begin(
    server: &Arc<HttpServer>,
    caller: Caller,
    initialize: &RpcMessage,
) -> Result<Response, HttpRefusal> {
    let HostLink { peer, mut incoming, admission } = server.join(&caller).await?;
    peer.send(initialize.line().to_string()).await.map_err(|_| HttpRefusal::NoHost)?;
    let mut early = Vec::new();
    let answer = timeout(INITIALIZE_TIMEOUT, greeting(&mut incoming, initialize.id(), &mut early)).await;
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

/// Upgrades to a WebSocket, or opens a stream of events.
pub(super) async fn get(
    State(server): State<Arc<HttpServer>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, HttpRefusal> {
    if websocket::is_wanted(request.headers()) {
        return websocket::upgrade(&server, caller, request).await;
    }
    let headers = request.headers();
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|accept| accept.to_str().ok());
    // Media types may have parameters, and their names are case-insensitive.
    let names = accepted.flat_map(|accept| accept.split(',')).filter_map(|kind| kind.split(';').next());
    if !names.map(str::trim).any(|name| name.eq_ignore_ascii_case("text/event-stream")) {
        return Err(HttpRefusal::Accept);
    }
    let connection = known(&server, caller.token.as_deref(), headers)?;
    let session = text(headers, &SESSION)?;
    let reader = connection.streams().open(session)?;
    let events = reader.map(|line| Ok::<_, Infallible>(Event::default().data(line)));
    let events = Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE));
    let session = headers.get(&SESSION).map(|session| [(SESSION, session.clone())]);
    Ok(([(CONNECTION, connection.header())], session, events).into_response())
}

/// Ends a connection.
pub(super) async fn delete(
    State(server): State<Arc<HttpServer>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
) -> Result<StatusCode, HttpRefusal> {
    let connection = known(&server, caller.token.as_deref(), &headers)?;
    connection.end();
    server.connections().remove(&connection.id);
    Ok(StatusCode::ACCEPTED)
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
