//! Clients and agents on other machines: the built program as a server, met by clients that know nothing of it.

mod access;
mod agent_programs;
mod agents;
mod bad_input;
mod fake_servers;
mod http;
mod reconnect;
mod remote_restore;
mod sdk;
mod tls;
mod tokens;
mod websocket;

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{self, Message, WebSocket};

use crate::acpx::Place;
use crate::editor::wanting_error_data;
use crate::started_process::Started;

/// How long something may take to come. Only a test that fails waits for so long.
const TIMEOUT: Duration = Duration::from_mins(1);

/// A server at work. Dropped, it is killed.
pub(crate) struct Served {
    process: Started,
    /// Where it listens: an address and a port.
    pub(crate) place: String,
    pub(crate) url: String,
    pub(crate) websocket: String,
}

impl Served {
    /// Serves the demo agent.
    pub(crate) fn new(place: &Place, flags: &[&str]) -> Self {
        Self::agent(place, "demo", flags)
    }

    /// Serves an agent that has this name.
    pub(crate) fn agent(place: &Place, name: &str, flags: &[&str]) -> Self {
        Self::of(place.start(&[&["--format", "json", name, "serve"], flags].concat()))
    }

    fn of(mut process: Started) -> Self {
        let line: Value = serde_json::from_str(&process.wait_for("serving")).unwrap();
        crate::contract::check(&line);
        let text = |name: &str| line[name].as_str().unwrap().to_owned();
        let (url, websocket) = (text("url"), text("webSocketUrl"));
        let (_, rest) = url.split_once("://").unwrap();
        let place = rest.strip_suffix("/acp").unwrap().to_owned();
        Self { process, place, url, websocket }
    }

    /// Dies without a word.
    pub(crate) fn kill(self) {
        drop(self);
    }

    /// Is told to stop; how it ended.
    pub(crate) fn stop(self) -> crate::acpx::Done {
        self.process.signal(rustix::process::Signal::TERM);
        self.process.done()
    }

    pub(crate) fn stream(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.place).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream
    }

    /// Asks for something with a body; status, head and body of the answer.
    pub(crate) fn ask(&self, method: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let length = body.len().to_string();
        let headers = [headers, &[("content-length", &length)]].concat();
        let mut stream = self.request(method, "/acp", &headers);
        stream.get_mut().write_all(body.as_bytes()).unwrap();
        let head = head(&mut stream);
        let mut body = String::new();
        stream.read_to_string(&mut body).unwrap();
        Answer { body, ..head }
    }

    /// Sends the head of a request. Its answer ends with the connection, and has no other form than its own.
    pub(crate) fn request(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> BufReader<TcpStream> {
        let mut stream = self.stream();
        write!(stream, "{method} {path} HTTP/1.0\r\nhost: {}\r\n", self.place).unwrap();
        for (name, value) in headers {
            write!(stream, "{name}: {value}\r\n").unwrap();
        }
        write!(stream, "\r\n").unwrap();
        BufReader::new(stream)
    }
}

/// What a server answered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
    }
}

/// The head of an answer.
pub(crate) fn head(stream: &mut BufReader<TcpStream>) -> Answer {
    let mut head = String::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        if line.trim().is_empty() {
            break;
        }
        head.push_str(&line);
    }
    let status = head.split(' ').nth(1).unwrap_or_else(|| panic!("{head:?}")).parse().unwrap();
    Answer { status, head, body: String::new() }
}

/// A client on a WebSocket.
pub(crate) struct Socket {
    socket: WebSocket<TcpStream>,
    next: u64,
}

impl Socket {
    /// A client that has begun to speak.
    pub(crate) fn new(served: &Served) -> Self {
        Self::with_token(served, None)
    }

    pub(crate) fn with_token(served: &Served, token: Option<&str>) -> Self {
        let mut socket = Self::silent(served, token).unwrap();
        let mut greeting = wanting_error_data(1);
        greeting["_meta"] = json!({ "acpx": { "seq": true } });
        let answer = socket.call("initialize", greeting);
        assert_eq!(answer["result"]["protocolVersion"], 1, "{answer}");
        socket
    }

    /// One that has said nothing, unless it is kept out.
    pub(crate) fn silent(served: &Served, token: Option<&str>) -> Result<Self, tungstenite::Error> {
        let mut request = served.websocket.as_str().into_client_request().unwrap();
        if let Some(token) = token {
            request.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
        }
        Self::over(served.stream(), request)
    }

    pub(crate) fn over(
        stream: TcpStream,
        request: tungstenite::handshake::client::Request,
    ) -> Result<Self, tungstenite::Error> {
        match tungstenite::client::client(request, stream) {
            Ok((socket, response)) => {
                assert!(response.headers().contains_key("acp-connection-id"));
                Ok(Self { socket, next: 0 })
            }
            Err(tungstenite::HandshakeError::Failure(error)) => Err(error),
            Err(interrupted) => panic!("{interrupted}"),
        }
    }

    pub(crate) fn say(&mut self, frame: Message) {
        self.socket.send(frame).unwrap();
    }

    #[expect(clippy::needless_pass_by_value, reason = "calls read as the messages they are")]
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let request = json!({ "jsonrpc": "2.0", "id": self.next, "method": method, "params": params });
        self.say(Message::text(request.to_string()));
        json!(self.next)
    }

    /// The next message; what ended the connection, if nothing more comes.
    pub(crate) fn hear(&mut self) -> Result<Value, String> {
        loop {
            match self.socket.read() {
                Ok(Message::Text(text)) => return Ok(serde_json::from_str(&text).unwrap()),
                Ok(Message::Close(close)) => {
                    return Err(close.map(|close| close.reason.to_string()).unwrap_or_default());
                }
                Ok(_) => {}
                // A process that was stopped for a while goes on.
                Err(tungstenite::Error::Io(error)) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    /// What comes until the answer to a request, and the answer.
    pub(crate) fn hear_answer(&mut self, id: &Value) -> (Vec<Value>, Value) {
        let mut before = Vec::new();
        loop {
            let message = self.hear().unwrap();
            if message["id"] == *id && message.get("method").is_none() {
                return (before, message);
            }
            before.push(message);
        }
    }

    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params);
        self.hear_answer(&id).1
    }

    pub(crate) fn open(&mut self, place: &Place) -> String {
        let answer = self.call("session/new", json!({ "cwd": place.work(), "mcpServers": [] }));
        answer["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    #[expect(clippy::needless_pass_by_value, reason = "calls read as the messages they are")]
    pub(crate) fn ask_prompt(&mut self, session: &str, text: &str, meta: Value) -> Value {
        let prompt = json!([{ "type": "text", "text": text }]);
        let params = json!({ "sessionId": session, "prompt": prompt, "_meta": { "acpx": meta } });
        self.ask("session/prompt", params)
    }

    /// Prompts; what was said and the answer.
    pub(crate) fn prompt(&mut self, session: &str, text: &str) -> (Vec<String>, Value) {
        let id = self.ask_prompt(session, text, json!({}));
        let (before, answer) = self.hear_answer(&id);
        (crate::editor::words(&before), answer)
    }
}
