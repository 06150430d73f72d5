//! One request of a client, answered: the streamable HTTP of ACP, and the way from there to a WebSocket.
//!
//! `POST` says a message, and its answer comes on a stream; only `initialize` is answered at once, with the id of the
//! connection it has begun. `GET` opens a stream, `DELETE` ends the connection.

use std::sync::Arc;
use std::time::Duration;

use acpx_core::wire::{Incoming, Malformed, Message, Peer, RpcError, RpcId, encode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Body;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Instant, timeout};

use super::events::Reply;
use super::filter::{self, Verdict};
use super::guard::{Outside, Shown, only};
use super::server::{Joined, Server};
use super::streams::{BadMessage, NoStream, Streams};
use super::{CONNECTION, PATH, SESSION, as_line, longest_line, websocket};

/// How long the body of a request may take.
const BODY: Duration = Duration::from_mins(1);
/// How long the host may take to answer `initialize`; it may have to be started.
const GREETING: Duration = Duration::from_mins(2);
/// How long a client may leave a full stream unread.
const SLOW: Duration = Duration::from_secs(30);
/// How long a connection stays that nobody reads and nobody uses.
const IDLE: Duration = Duration::from_mins(2);
/// What a page of another origin may send and see.
const FOR_PAGES: [(HeaderName, &str); 3] = [
    (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, DELETE"),
    (header::ACCESS_CONTROL_ALLOW_HEADERS, "authorization, content-type, acp-connection-id, acp-session-id"),
    (header::ACCESS_CONTROL_EXPOSE_HEADERS, "acp-connection-id, acp-session-id"),
];

/// A connection of a client that speaks HTTP.
pub(crate) struct HttpConnection {
    id: String,
    /// Who may use it.
    token: Option<String>,
    peer: Peer,
    streams: std::sync::Mutex<Streams>,
    used: watch::Sender<Instant>,
    ended: watch::Sender<bool>,
}

/// Answers a request.
pub(crate) async fn answer<B>(server: &Arc<Server>, request: Request<B>) -> Response<Reply>
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let origin = request.headers().get(header::ORIGIN).cloned();
    let mut response = respond(server, request).await.unwrap_or_else(|refusal| refusal);
    let allowed = |origin: &HeaderValue| origin.to_str().is_ok_and(|origin| server.guard.allows(origin));
    if let Some(origin) = origin.filter(allowed) {
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::VARY, HeaderValue::from_static("origin"));
        headers.extend(FOR_PAGES.map(|(name, value)| (name, HeaderValue::from_static(value))));
    }
    response
}

async fn respond<B>(server: &Arc<Server>, request: Request<B>) -> Result<Response<Reply>, Response<Reply>>
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    if request.uri().path() != PATH {
        return Err(refusal(StatusCode::NOT_FOUND, "ACP is spoken at /acp"));
    }
    let shown = server.guard.look(request.uri(), request.headers());
    let shown = shown.map_err(|outside| refusal(outside.status(), &outside.to_string()))?;
    if request.method() == Method::OPTIONS {
        return Ok(refusal(StatusCode::NO_CONTENT, ""));
    }
    let token = admit(server, shown).await?;
    match *request.method() {
        Method::POST => post(server, token, request).await,
        Method::GET if websocket::is_wanted(request.headers()) => websocket::upgrade(server, token, request),
        Method::GET => get(server, token.as_deref(), request.headers()),
        Method::DELETE => delete(server, token.as_deref(), request.headers()),
        _ => Err(refusal(StatusCode::METHOD_NOT_ALLOWED, "POST, GET and DELETE are understood")),
    }
}

/// The token that lets a request in; none, if none is needed.
async fn admit(server: &Server, shown: Shown<'_>) -> Result<Option<String>, Response<Reply>> {
    let tokens = server.tokens.clone();
    let secret = match shown {
        Shown::Secret(secret) => Some(secret.to_owned()),
        Shown::Nothing => None,
    };
    let known = tokio::task::spawn_blocking(move || match &secret {
        Some(secret) => tokens.check(secret).map(|token| (token.is_some(), token)),
        None => tokens.are_needed().map(|needed| (needed, None)),
    });
    let failed = || refusal(StatusCode::SERVICE_UNAVAILABLE, "the tokens cannot be read");
    let (known, token) = known.await.map_err(|_| failed())?.map_err(|_| failed())?;
    let is_in = match shown {
        Shown::Secret(_) => known,
        Shown::Nothing => server.guard.admits_nothing(known),
    };
    if is_in {
        return Ok(token);
    }
    let mut response = refusal(Outside::Token.status(), &Outside::Token.to_string());
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    Err(response)
}

async fn post<B>(
    server: &Arc<Server>,
    token: Option<String>,
    request: Request<B>,
) -> Result<Response<Reply>, Response<Reply>>
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (head, body) = request.into_parts();
    let kind = head.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.map(|kind| kind.split(';').next().unwrap_or_default().trim());
    if !kind.is_some_and(|kind| kind.eq_ignore_ascii_case("application/json")) {
        return Err(refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the Content-Type must be application/json"));
    }
    let message = read(body).await?;
    let refused = match filter::judge(&message, server.allowance) {
        Verdict::Passes(line) if message.method() == Some("initialize") && message.id().is_some() => {
            return begin(server, token, line, &message).await;
        }
        Verdict::Passes(line) => Ok(Message::parse(line).map_err(|error| not_a_message(&error))?),
        Verdict::Refused(_, answer) => Err(Some(answer)),
        Verdict::Dropped => Err(None),
    };
    let connection = known(server, token.as_deref(), &head.headers)?;
    let session = text(&head.headers, &SESSION)?;
    let message_or_own = refused.as_ref().unwrap_or(&message);
    let line = connection.streams().heard(message_or_own, session);
    let line = line.map_err(|bad| refusal(status_of(bad), &bad.to_string()))?;
    match refused {
        Ok(_) => {
            let sent = connection.peer.send(line).await;
            sent.map_err(|_| refusal(StatusCode::NOT_FOUND, "the connection is over"))?;
        }
        Err(answer) => connection.answer(answer).await,
    }
    Ok(refusal(StatusCode::ACCEPTED, ""))
}

/// The message that a body is.
async fn read<B>(body: B) -> Result<Message, Response<Reply>>
where
    B: Body,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let too_long = || refusal(StatusCode::PAYLOAD_TOO_LARGE, "the message is longer than any may be");
    if body.size_hint().lower() > longest_line() as u64 {
        return Err(too_long());
    }
    let body = timeout(BODY, Limited::new(body, longest_line()).collect()).await;
    let body = body.map_err(|_| refusal(StatusCode::REQUEST_TIMEOUT, "the body took too long"))?;
    let body = body.map_err(|error| match error.downcast_ref::<LengthLimitError>() {
        Some(_) => too_long(),
        None => refusal(StatusCode::BAD_REQUEST, "the body cannot be read"),
    })?;
    let body = body.to_bytes();
    let text = std::str::from_utf8(&body).map_err(|_| refusal(StatusCode::BAD_REQUEST, "no UTF-8 text"))?;
    Message::parse(as_line(text)).map_err(|error| not_a_message(&error))
}

/// Begins a connection, and answers when the host has.
async fn begin(
    server: &Arc<Server>,
    token: Option<String>,
    line: String,
    initialize: &Message,
) -> Result<Response<Reply>, Response<Reply>> {
    let joined = server.join().ok_or_else(too_many)?;
    let no_host = || refusal(StatusCode::SERVICE_UNAVAILABLE, "the host cannot be reached");
    let Joined { peer, mut incoming, place } = joined;
    peer.send(line).await.map_err(|_| no_host())?;
    let mut early = Vec::new();
    let answer = timeout(GREETING, greeting(&mut incoming, initialize.id(), &mut early)).await;
    let answer = answer.ok().flatten().ok_or_else(no_host)?;
    let mut response = with_json(StatusCode::OK, answer.line().to_string());
    if answer.result().is_none() {
        return Ok(response);
    }
    let connection = Arc::new(HttpConnection {
        id: uuid::Uuid::now_v7().to_string(),
        token,
        peer,
        streams: std::sync::Mutex::default(),
        used: watch::Sender::new(Instant::now()),
        ended: watch::Sender::default(),
    });
    response.headers_mut().insert(CONNECTION, connection.header());
    server.connections().insert(connection.id.clone(), Arc::clone(&connection));
    let server = Arc::clone(server);
    tokio::spawn(async move {
        connection.see_through(&server, incoming, early, place).await;
        server.connections().remove(&connection.id);
        connection.over();
    });
    Ok(response)
}

/// The answer to the first request, and what came before it.
async fn greeting(incoming: &mut Incoming, id: Option<&RpcId>, early: &mut Vec<Message>) -> Option<Message> {
    loop {
        let message = incoming.recv().await?.message().clone();
        if message.method().is_none() && message.id() == id {
            return Some(message);
        }
        early.push(message);
    }
}

fn get(
    server: &Arc<Server>,
    token: Option<&str>,
    headers: &HeaderMap,
) -> Result<Response<Reply>, Response<Reply>> {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|accept| accept.to_str().ok());
    if !accepted.flat_map(|accept| accept.split(',')).any(|kind| kind.trim().starts_with("text/event-stream"))
    {
        return Err(refusal(StatusCode::NOT_ACCEPTABLE, "only text/event-stream can be had"));
    }
    let connection = known(server, token, headers)?;
    let session = text(headers, &SESSION)?;
    let reader = connection.streams().open(session);
    let reader = reader.map_err(|error| match error {
        NoStream::Busy => refusal(StatusCode::CONFLICT, &error.to_string()),
        NoStream::Unknown => refusal(StatusCode::NOT_FOUND, &error.to_string()),
    })?;
    let mut response = Response::new(Reply::events(reader));
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
    server: &Arc<Server>,
    token: Option<&str>,
    headers: &HeaderMap,
) -> Result<Response<Reply>, Response<Reply>> {
    let connection = known(server, token, headers)?;
    connection.ended.send_replace(true);
    server.connections().remove(&connection.id);
    Ok(refusal(StatusCode::ACCEPTED, ""))
}

/// The connection that a request belongs to. Who has not begun it does not find it.
fn known(
    server: &Server,
    token: Option<&str>,
    headers: &HeaderMap,
) -> Result<Arc<HttpConnection>, Response<Reply>> {
    let id = text(headers, &CONNECTION)?;
    let id = id.ok_or_else(|| refusal(StatusCode::BAD_REQUEST, "Acp-Connection-Id is needed"))?;
    let connection = server.connections().get(id).cloned();
    let connection = connection.filter(|connection| connection.token.as_deref() == token);
    let connection =
        connection.ok_or_else(|| refusal(StatusCode::NOT_FOUND, "there is no such connection"))?;
    connection.used.send_replace(Instant::now());
    Ok(connection)
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Response<Reply>> {
    only(headers, name).map_err(|()| refusal(StatusCode::BAD_REQUEST, &format!("{name} is not one text")))
}

impl HttpConnection {
    /// Puts what the host says into its streams, until the connection is over for whatever reason.
    async fn see_through(
        &self,
        server: &Server,
        mut incoming: Incoming,
        early: Vec<Message>,
        _place: OwnedSemaphorePermit,
    ) {
        let told = async {
            for message in early {
                if !self.pass(&message).await {
                    return;
                }
            }
            while let Some(inbound) = incoming.recv().await {
                if !self.pass(inbound.message()).await {
                    return;
                }
            }
        };
        let mut ended = self.ended.subscribe();
        tokio::select! {
            () = told => {}
            _ = ended.wait_for(|ended| *ended) => {}
            () = server.unwelcome(self.token.as_deref()) => {}
            () = self.idle() => {}
        }
    }

    /// Puts a line into its stream; whether there was room for it in time.
    async fn pass(&self, message: &Message) -> bool {
        let way = self.streams().way_of(message);
        timeout(SLOW, way.put(message.line().clone())).await.is_ok()
    }

    /// Answers a request of the client in the host's place.
    async fn answer(&self, answer: Option<String>) {
        if let Some(answer) = answer.and_then(|answer| Message::parse(answer).ok()) {
            self.pass(&answer).await;
        }
    }

    /// Waits until nobody has read or used it for a while.
    async fn idle(&self) {
        loop {
            let due = *self.used.borrow() + IDLE;
            tokio::time::sleep_until(due).await;
            if self.streams().has_reader() {
                self.used.send_replace(Instant::now());
            } else if *self.used.borrow() + IDLE <= Instant::now() {
                return;
            }
        }
    }

    /// Ends its streams: whoever reads them reads what is left, and then their end.
    fn over(&self) {
        *self.streams() = Streams::default();
    }

    fn streams(&self) -> std::sync::MutexGuard<'_, Streams> {
        self.streams.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn header(&self) -> HeaderValue {
        HeaderValue::from_str(&self.id).expect("a UUID is ASCII")
    }
}

fn status_of(bad: BadMessage) -> StatusCode {
    match bad {
        BadMessage::TooMany => StatusCode::SERVICE_UNAVAILABLE,
        BadMessage::NoSession | BadMessage::TwoSessions | BadMessage::BadParams => StatusCode::BAD_REQUEST,
    }
}

/// Says that a body is no message, in the protocol's own form.
fn not_a_message(error: &Malformed) -> Response<Reply> {
    let problem = error.to_string();
    let error = match error {
        Malformed::Batch => RpcError::invalid_request("batches are not part of the protocol"),
        _ => RpcError::parse_error(problem),
    };
    with_json(StatusCode::BAD_REQUEST, encode::error_response(&RpcId::null(), &error))
}

/// The server has as many clients as it may.
pub(super) fn too_many() -> Response<Reply> {
    refusal(StatusCode::SERVICE_UNAVAILABLE, "there are as many clients as there may be")
}

fn with_json(status: StatusCode, json: String) -> Response<Reply> {
    let mut response = refusal(status, &json);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// A response with a few words, or with none.
pub(super) fn refusal(status: StatusCode, words: &str) -> Response<Reply> {
    let mut response = Response::new(Reply::text(words.to_owned()));
    *response.status_mut() = status;
    response
}
