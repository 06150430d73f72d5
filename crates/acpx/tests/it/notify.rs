//! Notifications, with receivers that check what they get.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use acpx_core::model::hmac_sha256_hex;
use acpx_core::store::{Access, SqliteStore, Store as _};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::acpx::{Place, eventually, kill_hard};
use crate::contract::validate;

const SECRET: &str = "correct-horse-battery";

/// What a receiver does with a request that it has read.
#[derive(Debug, Clone)]
enum Reaction {
    Accept,
    /// Answers with this status and header.
    Answer(&'static str, String),
    /// Closes the connection without an answer once it is released.
    CloseLater,
}

/// A request that a receiver got.
#[derive(Debug, Clone, PartialEq)]
struct Received {
    path: String,
    headers: BTreeMap<String, String>,
    body: String,
}

impl Received {
    fn read(stream: &TcpStream) -> Option<Self> {
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let path = line.split(' ').nth(1)?.to_owned();
        let mut headers = BTreeMap::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            headers.insert(name.to_ascii_lowercase(), value.to_owned());
        }
        let mut body = vec![0; headers.get("content-length")?.parse().ok()?];
        reader.read_exact(&mut body).ok()?;
        Some(Self { path, headers, body: String::from_utf8(body).ok()? })
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// The payload of a webhook whose signature is right.
    fn verified(&self) -> Value {
        let header = |name: &str| self.headers[name].as_str();
        let signed = format!("{}.{}", header("acpx-timestamp"), self.body);
        let signature = hmac_sha256_hex(SECRET.as_bytes(), signed.as_bytes());
        assert_eq!(header("acpx-signature"), format!("sha256={signature}"));
        let payload = self.json();
        assert_eq!(header("acpx-event-id"), payload["eventId"]);
        validate("notification", &payload);
        payload
    }
}

/// A server on a free port that reacts as it is told.
struct Receiver {
    port: u16,
    state: Arc<(Mutex<ReceiverState>, Condvar)>,
}

struct ReceiverState {
    reaction: Reaction,
    is_released: bool,
    received: Vec<Received>,
}

impl Receiver {
    fn new(reaction: Reaction) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = ReceiverState { reaction, is_released: false, received: Vec::new() };
        let state = Arc::new((Mutex::new(state), Condvar::new()));
        let shared = Arc::clone(&state);
        // It ends with the test's process.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                thread::spawn(move || react(&stream, &shared));
            }
        });
        Self { port, state }
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    fn received(&self) -> Vec<Received> {
        self.state.0.lock().unwrap().received.clone()
    }

    /// Waits for this many requests.
    fn wait_for(&self, count: usize) -> Vec<Received> {
        eventually("requests arrive", || self.received().len() >= count);
        self.received()
    }

    /// Closes the connections that are held, and reacts otherwise from now on.
    fn release(&self, reaction: Reaction) {
        let (state, released) = &*self.state;
        let mut state = state.lock().unwrap();
        state.reaction = reaction;
        state.is_released = true;
        released.notify_all();
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.release(Reaction::Accept);
    }
}

fn react(mut stream: &TcpStream, shared: &(Mutex<ReceiverState>, Condvar)) {
    let Some(received) = Received::read(stream) else { return };
    let (state, released) = shared;
    let mut state = state.lock().unwrap();
    state.received.push(received);
    let (status, header) = match state.reaction.clone() {
        Reaction::Accept => ("204 No Content", String::new()),
        Reaction::Answer(status, header) => (status, header),
        Reaction::CloseLater => {
            drop(released.wait_while(state, |state| !state.is_released).unwrap());
            return;
        }
    };
    drop(state);
    // The client may be gone.
    drop(write!(stream, "HTTP/1.1 {status}\r\ncontent-length: 0\r\n{header}\r\n"));
}

fn webhook(receiver: &Receiver) -> Value {
    json!({ "type": "webhook", "url": receiver.url("/private-path?key=1"), "secret": SECRET })
}

fn configure(place: &Place, sinks: &[Value]) {
    place.configure(&json!({ "notify": { "sinks": sinks } }).to_string());
}

/// A place with these sinks and a session of `demo`.
fn begun(sinks: &[Value]) -> Place {
    let place = Place::new();
    configure(&place, sinks);
    place.ok(&["demo", "sessions", "new"]);
    place
}

fn sinks(place: &Place) -> Vec<Value> {
    place.json(&["notify", "status"])["sinks"].as_array().unwrap().clone()
}

fn until_delivered(place: &Place, count: u64) {
    eventually("the notification is settled", || {
        sinks(place).iter().all(|sink| sink["queued"] == 0 && sink["delivered"] == count)
    });
}

#[test]
fn webhook_gets_a_signed_notification_without_text_of_the_conversation() {
    let receiver = Receiver::new(Reaction::Accept);
    let place = begun(&[webhook(&receiver)]);
    place.ok(&["demo", "echo", "private-words"]);
    let requests = receiver.wait_for(1);
    let payload = requests[0].verified();
    assert_eq!((&payload["event"], &payload["stopReason"]), (&json!("turn_ended"), &json!("end_turn")));
    assert_eq!(payload["acpxRecordId"], place.json(&["demo", "status"])["acpxRecordId"]);
    assert_eq!(payload["summary"], "demo in work has finished");
    assert_eq!(payload["turn"], 1);
    until_delivered(&place, 1);
    place.ok(&["notify", "test"]);
    let log = std::fs::read_to_string(place.acpx_home().join("host.log")).unwrap();
    let shown = [log, place.ok(&["notify", "status"]), place.ok(&["config", "show"]), place.ok(&["doctor"])];
    for text in shown.iter().chain([&requests[0].body]) {
        for word in ["private-words", SECRET, "private-path"] {
            assert!(!text.contains(word), "{word}: {text}");
        }
    }
    assert_eq!(receiver.received().len(), 2);
}

#[test]
fn notification_survives_a_host_killed_between_event_and_delivery() {
    let receiver = Receiver::new(Reaction::CloseLater);
    let place = begun(&[webhook(&receiver)]);
    place.ok(&["demo", "hello"]);
    let first = receiver.wait_for(1)[0].verified();
    kill_hard(place.host_pid());
    receiver.release(Reaction::Accept);
    place.ok(&["host", "restart"]);
    let requests = receiver.wait_for(2);
    until_delivered(&place, 1);
    assert_eq!(requests[1].verified()["eventId"], first["eventId"]);
    assert_eq!(receiver.received().len(), 2);
}

#[test]
fn pending_request_is_notified_with_the_command_that_answers_it() {
    let receiver = Receiver::new(Reaction::Accept);
    let place = begun(&[webhook(&receiver)]);
    let server = json!({ "pid": 1, "address": "127.0.0.1:7", "url": "http://127.0.0.1:7/", "version": "0" });
    std::fs::write(place.acpx_home().join("web.json"), server.to_string()).unwrap();
    place.ok(&["--non-interactive-permissions", "wait", "demo", "--no-wait", "permission"]);
    let payload = receiver.wait_for(1)[0].verified();
    assert_eq!(payload["event"], "waiting");
    assert_eq!(payload["questionId"], place.json(&["pending"])["questions"][0]["questionId"]);
    let page = format!("http://127.0.0.1:7/#/s/{}", payload["acpxRecordId"].as_str().unwrap());
    assert_eq!(payload["url"], page);
    assert_eq!(payload.get("text"), None);
    until_delivered(&place, 1);
    let command = payload["command"].as_str().unwrap().strip_prefix("acpx ").unwrap();
    place.ok(&command.split(' ').collect::<Vec<_>>());
    assert_eq!(receiver.wait_for(2)[1].verified()["event"], "turn_ended");
    until_delivered(&place, 2);
}

#[test]
fn answered_request_leaves_the_queue_of_its_sink() {
    let receiver = Receiver::new(Reaction::Answer("500 Internal Server Error", String::new()));
    let place = begun(&[webhook(&receiver)]);
    place.ok(&["--non-interactive-permissions", "wait", "demo", "--no-wait", "permission"]);
    assert_eq!(receiver.wait_for(1)[0].verified()["event"], "waiting");
    eventually("the failure is stored", || sinks(&place)[0]["lastError"].is_string());
    let question = place.json(&["pending"])["questions"][0]["questionId"].as_str().unwrap().to_owned();
    place.ok(&["approve", &question]);
    receiver.release(Reaction::Accept);
    until_delivered(&place, 1);
    assert_eq!(receiver.received().last().unwrap().verified()["event"], "turn_ended");
}

#[test]
fn turn_of_a_killed_host_is_notified_by_the_next_host() {
    let receiver = Receiver::new(Reaction::Accept);
    let place = begun(&[webhook(&receiver)]);
    let mut running = place.start(&["demo", "wait"]);
    running.wait_for("Waiting until cancelled.");
    running.signal(Signal::KILL);
    running.done();
    kill_hard(place.host_pid());
    place.ok(&["host", "restart"]);
    let payload = receiver.wait_for(1)[0].verified();
    assert_eq!((&payload["event"], &payload["turn"]), (&json!("host_lost"), &json!(1)));
    until_delivered(&place, 1);
    // It is the same to every later host.
    kill_hard(place.host_pid());
    place.ok(&["host", "restart"]);
    place.ok(&["demo", "hello"]);
    assert_eq!(receiver.wait_for(2)[1].verified()["event"], "turn_ended");
    until_delivered(&place, 2);
    assert_eq!(receiver.received().len(), 2);
}

#[test]
fn redirect_of_a_sink_is_not_followed_and_reported() {
    let target = Receiver::new(Reaction::Accept);
    let location = format!("location: {}\r\n", target.url("/elsewhere"));
    let receiver = Receiver::new(Reaction::Answer("307 Temporary Redirect", location));
    let place = begun(&[webhook(&receiver)]);
    place.ok(&["demo", "hello"]);
    receiver.wait_for(1);
    let mut sink = Value::Null;
    eventually("the failure is stored", || {
        sink = sinks(&place)[0].clone();
        sink["lastError"].is_string()
    });
    assert_eq!((&sink["queued"], &sink["delivered"]), (&json!(1), &json!(0)));
    let error = format!("{} answered 307 Temporary Redirect, and no redirect is followed", receiver.url(""));
    assert_eq!(sink["lastError"], error);
    let (code, text, _) = place.acpx(&["--format", "json", "notify", "test"]).failure();
    assert_eq!(code, "NOTIFICATION_FAILED", "{text}");
    assert_eq!(target.received(), []);
    receiver.release(Reaction::Accept);
    until_delivered(&place, 1);
}

#[test]
fn sink_that_hangs_delays_no_other_sink() {
    let (place, receiver) = (Place::new(), Receiver::new(Reaction::CloseLater));
    let file = place.path_of("events");
    let script = format!("cat >> '{}'", file.display());
    let command = json!({ "type": "command", "argv": ["sh", "-c", script], "bodies": true });
    configure(&place, &[webhook(&receiver), command]);
    place.ok(&["demo", "sessions", "new"]);
    place.ok(&["demo", "echo", "one"]);
    receiver.wait_for(1);
    place.ok(&["demo", "echo", "two"]);
    let payloads = || {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let all = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
        all.map_while(Result::ok).collect::<Vec<_>>()
    };
    eventually("the other sink has both", || payloads().len() == 2);
    for (payload, text) in payloads().iter().zip(["one", "two"]) {
        validate("notification", payload);
        assert!(payload["text"].as_str().unwrap().contains(text), "{payload}");
    }
    assert_eq!(receiver.received().len(), 1);
    receiver.release(Reaction::Accept);
    eventually("the webhook has both", || sinks(&place).iter().all(|sink| sink["delivered"] == 2));
}

#[test]
fn ntfy_topic_gets_the_summary_and_a_token_of_the_hosts_environment() {
    let (place, receiver) = (Place::new(), Receiver::new(Reaction::Accept));
    let ntfy = json!({ "type": "ntfy", "name": "phone", "url": receiver.url("/topic"), "secretEnv": "ACPX_NOTIFY_NTFY" });
    configure(&place, &[ntfy]);
    let mut first = place.command(&["demo", "sessions", "new"]);
    assert!(first.env("ACPX_NOTIFY_NTFY", "tk_1").output().unwrap().status.success());
    place.ok(&["demo", "hello"]);
    let requests = receiver.wait_for(1);
    assert_eq!(
        (requests[0].path.as_str(), requests[0].body.as_str()),
        ("/topic", "demo in work has finished")
    );
    assert_eq!(requests[0].headers["authorization"], "Bearer tk_1");
    assert_eq!(requests[0].headers["title"], "acpx");
    until_delivered(&place, 1);
    // This command has no such variable.
    let (code, text, _) = place.acpx(&["--format", "json", "notify", "test", "phone"]).failure();
    assert_eq!(code, "NOTIFICATION_FAILED", "{text}");
}

#[test]
fn notify_commands_print_objects_and_refuse_unknown_sinks() {
    let place = Place::new();
    assert_eq!(sinks(&place), Vec::<Value>::new());
    assert_eq!(place.acpx(&["--format", "json", "notify", "test"]).failure().0, "NO_SINK");
    let failing = |name: &str| json!({ "type": "command", "name": name, "argv": ["false"] });
    configure(&place, &[failing("one"), failing("two")]);
    let failed = place.acpx(&["--format", "json", "notify", "test"]);
    assert_eq!(failed.failure().0, "NOTIFICATION_FAILED");
    let text = failed.lines().pop().unwrap()["error"]["message"].to_string();
    assert!(text.contains("one: false failed") && text.contains("two: false failed"), "{text}");
    configure(&place, &[json!({ "type": "command", "argv": ["true"], "events": ["failed"] })]);
    assert_eq!(place.acpx(&["--format", "json", "notify", "test", "phone"]).failure().0, "NO_SINK");
    let tested = place.json(&["notify", "test", "command"]);
    assert_eq!((&tested["action"], &tested["delivered"]), (&json!("notify_tested"), &json!(true)));
    place.ok(&["demo", "--create", "hello"]);
    // Nothing is stored for a sink that does not want it.
    let store = SqliteStore::open(&place.acpx_home().join("acpx.db"), Access::ReadOnly).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert_eq!(runtime.block_on(store.notification_sinks()).unwrap(), []);
    assert_eq!(sinks(&place)[0]["events"], json!(["failed"]));
    assert!(place.ok(&["doctor"]).contains("command: 0 queued, 0 delivered"));
}
