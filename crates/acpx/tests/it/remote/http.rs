//! A client over HTTP: messages are posted, answers come on streams.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Error;

use super::{Served, Socket, head};
use crate::acpx::Place;

/// The headers of a request, in order.
type Headers<'a> = &'a [(&'a str, &'a str)];

/// A client that speaks HTTP.
pub(super) struct Poster<'a> {
    served: &'a Served,
    pub(super) id: String,
    token: Option<String>,
}

impl<'a> Poster<'a> {
    /// A client that has begun a connection.
    pub(super) fn new(served: &'a Served, token: Option<&str>) -> Self {
        Self::admitted(served, token).unwrap_or_else(|status| panic!("the status is {status}"))
    }

    /// One that has begun a connection, or the status that refused it.
    fn admitted(served: &'a Served, token: Option<&str>) -> Result<Self, u16> {
        let mut poster = Self { served, id: String::new(), token: token.map(str::to_owned) };
        let answer =
            served.ask("POST", &poster.headers(&[("content-type", "application/json")]), &initialize());
        if answer.status != 200 {
            return Err(answer.status);
        }
        assert_eq!(answer.header("content-type"), Some("application/json".to_owned()));
        let result: Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!((&result["id"], &result["result"]["protocolVersion"]), (&json!(0), &json!(1)));
        poster.id = answer.header("acp-connection-id").unwrap();
        Ok(poster)
    }

    fn headers<'b>(&'b self, more: &[(&'b str, &'b str)]) -> Vec<(&'b str, &'b str)> {
        let mut headers = more.to_vec();
        if !self.id.is_empty() {
            headers.push(("acp-connection-id", &self.id));
        }
        if let Some(token) = &self.token {
            headers.push(("authorization", token));
        }
        headers
    }

    /// Posts a message; the status.
    pub(super) fn post(&self, session: Option<&str>, message: &Value) -> u16 {
        let mut headers = self.headers(&[("content-type", "application/json; charset=utf-8")]);
        headers.extend(session.map(|session| ("acp-session-id", session)));
        self.served.ask("POST", &headers, &message.to_string()).status
    }

    /// Posts a text, whatever it is; the status.
    pub(super) fn post_text(&self, text: &str) -> u16 {
        self.served.ask("POST", &self.headers(&[("content-type", "application/json")]), text).status
    }

    /// Opens a stream; its status, and what it says.
    pub(super) fn stream(&self, session: Option<&str>) -> (u16, Stream) {
        let mut headers = self.headers(&[("accept", "text/event-stream")]);
        headers.extend(session.map(|session| ("acp-session-id", session)));
        let mut stream = self.served.request("GET", "/acp", &headers);
        (head(&mut stream).status, Stream(stream))
    }

    pub(super) fn end(&self) -> u16 {
        self.served.ask("DELETE", &self.headers(&[]), "").status
    }

    /// Begins a session; its id.
    pub(super) fn open(&self, place: &Place, connection: &mut Stream) -> String {
        let params = json!({ "cwd": place.work(), "mcpServers": [] });
        assert_eq!(self.post(None, &request(1, "session/new", &params)), 202);
        let answer = connection.next().unwrap();
        answer["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }
}

/// A stream of events.
pub(super) struct Stream(BufReader<TcpStream>);

impl Stream {
    /// The next message; `None` at its end.
    pub(super) fn next(&mut self) -> Option<Value> {
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            if let Some(data) = line.strip_prefix("data: ") {
                return Some(serde_json::from_str(data).unwrap());
            }
        }
    }

    /// What comes until the answer to a request, and the answer.
    pub(super) fn hear_answer(&mut self, id: u64) -> (Vec<Value>, Value) {
        let mut before = Vec::new();
        loop {
            let message = self.next().unwrap();
            if message["id"] == id && message.get("method").is_none() {
                return (before, message);
            }
            before.push(message);
        }
    }
}

fn initialize() -> String {
    let meta = json!({ "acpx": { "seq": true } });
    request(0, "initialize", &json!({ "protocolVersion": 1, "_meta": meta })).to_string()
}

pub(super) fn request(id: u64, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

pub(super) fn prompt(id: u64, session: &str, text: &str) -> Value {
    let prompt = json!([{ "type": "text", "text": text }]);
    request(id, "session/prompt", &json!({ "sessionId": session, "prompt": prompt }))
}

#[test]
fn a_client_over_http_lives_a_session_on_two_streams() {
    let place = Place::new();
    let served = Served::new(&place, &[]);
    let poster = Poster::new(&served, None);
    let (status, mut connection) = poster.stream(None);
    assert_eq!(status, 200);
    let session = poster.open(&place, &mut connection);
    let (status, mut stream) = poster.stream(Some(&session));
    assert_eq!(status, 200);
    assert_eq!(poster.post(Some(&session), &prompt(2, &session, "permission")), 202);
    let question = loop {
        let message = stream.next().unwrap();
        if message["method"] == "session/request_permission" {
            break message;
        }
    };
    let chosen = json!({ "outcome": "selected", "optionId": question["params"]["options"][0]["optionId"] });
    let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "outcome": chosen } });
    assert_eq!(poster.post(Some(&session), &answer), 202);
    let (before, answer) = stream.hear_answer(2);
    assert!(crate::editor::words(&before).contains(&"agent: The edit was made.".to_owned()), "{before:?}");
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    // What is refused is answered where the answer would have come.
    let stdio = json!({ "name": "s", "command": "sh", "args": [], "env": [] });
    let load = json!({ "sessionId": session, "cwd": place.work(), "mcpServers": [stdio] });
    assert_eq!(poster.post(None, &request(3, "session/load", &load)), 202);
    assert_eq!(stream.hear_answer(3).1["error"]["code"], -32602);
    assert_eq!(poster.end(), 202);
    assert_eq!((stream.next(), connection.next()), (None, None));
    assert_eq!(poster.end(), 404);
}

#[test]
fn stream_opened_before_session_load_gets_the_whole_replay() {
    let place = Place::new();
    let served = Served::new(&place, &[]);
    let session = {
        let poster = Poster::new(&served, None);
        let (_, mut connection) = poster.stream(None);
        let session = poster.open(&place, &mut connection);
        let (_, mut stream) = poster.stream(Some(&session));
        poster.post(None, &prompt(2, &session, "hello"));
        stream.hear_answer(2);
        session
    };
    let poster = Poster::new(&served, None);
    let (status, mut early) = poster.stream(Some(&session));
    assert_eq!(status, 200);
    let load = json!({ "sessionId": session, "cwd": place.work(), "mcpServers": [] });
    assert_eq!(poster.post(Some(&session), &request(1, "session/load", &load)), 202);
    let (replayed, _) = early.hear_answer(1);
    assert_eq!(crate::editor::words(&replayed), ["user: hello", "agent: You said: hello"]);
    // A reader that comes back goes on; a session in the header alone is named in the params, too.
    drop(early);
    crate::acpx::eventually("the stream can be read again", || {
        let (status, mut again) = poster.stream(Some(&session));
        if status == 409 {
            return false;
        }
        let prompt = json!({ "prompt": [{ "type": "text", "text": "again" }] });
        assert_eq!(poster.post(Some(&session), &request(2, "session/prompt", &prompt)), 202);
        assert_eq!(again.hear_answer(2).1["result"]["stopReason"], "end_turn");
        true
    });
}

#[test]
fn invalid_http_request_is_answered_with_its_status() {
    let place = Place::new();
    let served = Served::new(&place, &[]);
    let poster = Poster::new(&served, None);
    let (id, json) = (poster.id.as_str(), ("content-type", "application/json"));
    let connection = ("acp-connection-id", id);
    let list = request(1, "session/list", &json!({})).to_string();
    let padding = "x".repeat(256 * 1024);
    let long_greeting =
        request(1, "initialize", &json!({ "protocolVersion": 1, "_meta": padding })).to_string();
    let nameless = request(1, "session/prompt", &json!({ "prompt": [] })).to_string();
    let named = prompt(1, "s", "x").to_string();
    let cases: &[(&str, Headers<'_>, &str, u16)] = &[
        ("POST", &[connection], &list, 415),
        ("POST", &[("content-type", "text/plain"), connection], &list, 415),
        ("POST", &[json], &list, 400),
        ("POST", &[json], &long_greeting, 413),
        ("POST", &[json, ("acp-connection-id", "no")], &list, 404),
        ("POST", &[json, connection, connection], &list, 400),
        ("POST", &[json, connection], "{", 400),
        ("POST", &[json, connection], "[]", 400),
        ("POST", &[json, connection], &nameless, 400),
        ("POST", &[json, connection, ("acp-session-id", "t")], &named, 400),
        ("POST", &[json, connection], &list, 202),
        ("GET", &[connection], "", 406),
        ("GET", &[connection, ("accept", "application/json")], "", 406),
        ("GET", &[("accept", "text/event-stream")], "", 400),
        ("GET", &[("accept", "*/*, Text/Event-Stream;q=1"), ("acp-connection-id", "no")], "", 404),
        ("GET", &[connection, ("upgrade", "websocket"), ("connection", "upgrade")], "", 400),
        ("DELETE", &[], "", 400),
        ("DELETE", &[("acp-connection-id", "no")], "", 404),
        ("PUT", &[], "", 405),
    ];
    for (method, headers, body, status) in cases {
        let answer = served.ask(method, headers, body);
        assert_eq!(answer.status, *status, "{method} {headers:?} {body}: {answer:?}");
    }
    let batch = served.ask("POST", &[json, connection], "[]");
    let batch: Value = serde_json::from_str(&batch.body).unwrap();
    let problem = "batches are not part of the protocol";
    let error = json!({ "code": -32600, "message": problem, "data": { "details": problem } });
    assert_eq!(batch, json!({ "jsonrpc": "2.0", "id": null, "error": error }));
    let mut elsewhere = served.request("GET", "/", &[]);
    assert_eq!(head(&mut elsewhere).status, 404);
    let mut endless = served.request("POST", "/acp", &[json, connection, ("content-length", "99999999999")]);
    assert_eq!(head(&mut endless).status, 413);
    // Many and short: of a long one, the rest would be on its way when the connection ends, and take the answer with it.
    let mut talkative = served.request("GET", "/acp", &[("x-more", "x"); 200]);
    assert_eq!(head(&mut talkative).status, 431);
    let (status, _reader) = poster.stream(None);
    assert_eq!((status, poster.stream(None).0), (200, 409));
}

#[test]
fn an_initialize_that_the_host_refuses_begins_no_connection() {
    let place = Place::new();
    let served = Served::new(&place, &[]);
    let bad = request(7, "initialize", &json!({ "protocolVersion": "one" })).to_string();
    let answer = served.ask("POST", &[("content-type", "application/json")], &bad);
    let body: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!((answer.status, answer.header("acp-connection-id")), (200, None));
    assert_eq!((&body["id"], &body["error"]["code"]), (&json!(7), &json!(-32602)));
}

#[test]
fn clients_that_only_send_initialize_do_not_exhaust_the_server() {
    let place = Place::new();
    let served = Served::new(&place, &[]);
    let body = initialize();
    let length = body.len().to_string();
    let headers = [("content-type", "application/json"), ("content-length", length.as_str())];
    // As many as one address may have. At once, so that none ends before the last is there.
    let mut abandoned: Vec<_> = (0..32).map(|_| served.request("POST", "/acp", &headers)).collect();
    for stream in &mut abandoned {
        stream.get_mut().write_all(body.as_bytes()).unwrap();
    }
    let statuses: Vec<u16> = abandoned.iter_mut().map(|stream| head(stream).status).collect();
    assert_eq!(statuses, [200; 32]);
    let begun = Instant::now();
    assert_eq!(Poster::admitted(&served, None).err(), Some(503));
    assert!(matches!(Socket::silent(&served, None), Err(Error::Http(answer)) if answer.status() == 503));

    let mut socket = admitted("over WebSocket", || Socket::silent(&served, None).ok());
    let poster = admitted("over HTTP", || Poster::admitted(&served, None).ok());
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());

    socket.call("initialize", json!({ "protocolVersion": 1 }));
    let session = socket.open(&place);
    assert_eq!(socket.prompt(&session, "hello").1["result"]["stopReason"], "end_turn");
    let (_, mut connection) = poster.stream(None);
    let session = poster.open(&place, &mut connection);
    let (_, mut stream) = poster.stream(Some(&session));
    assert_eq!(poster.post(Some(&session), &prompt(2, &session, "hello")), 202);
    assert_eq!(stream.hear_answer(2).1["result"]["stopReason"], "end_turn");
}

/// Connects again and again until the server admits the client.
fn admitted<Client>(how: &str, connect: impl Fn() -> Option<Client>) -> Client {
    let mut client = None;
    crate::acpx::eventually(&format!("a client is admitted {how}"), || {
        client = connect();
        client.is_some()
    });
    client.unwrap()
}
