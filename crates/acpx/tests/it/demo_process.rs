//! A demo agent as a child process, and a client that sees raw lines.

use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use acpx_testkit::TempHome;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::unix::pipe;
use tokio::time::timeout;

/// Longer than any answer takes; a test that waits this long has failed.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A running demo agent, killed with the value.
pub(crate) struct DemoProcess {
    pub(crate) child: Child,
}

impl DemoProcess {
    /// Starts one, and gives the two ends of its protocol.
    pub(crate) fn start(home: &TempHome, flags: &[&str]) -> (Self, pipe::Sender, pipe::Receiver) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_acpx"));
        command.arg("demo-agent").args(flags).env("ACPX_HOME", home.path());
        Self::of(command)
    }

    /// The same of a command that speaks the protocol as an agent does.
    pub(crate) fn of(mut command: Command) -> (Self, pipe::Sender, pipe::Receiver) {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let stdin = OwnedFd::from(child.stdin.take().unwrap());
        let stdout = OwnedFd::from(child.stdout.take().unwrap());
        let sender = pipe::Sender::from_owned_fd(stdin).unwrap();
        (Self { child }, sender, pipe::Receiver::from_owned_fd(stdout).unwrap())
    }
}

impl Drop for DemoProcess {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A client of a demo agent of its own.
pub(crate) struct RawClient {
    process: DemoProcess,
    sender: Option<pipe::Sender>,
    lines: Lines<BufReader<pipe::Receiver>>,
    requests: u64,
    /// The id of the message of every piece that was heard. In version 1 updates are given without it.
    pub(crate) messages: Vec<String>,
    /// The usage in the last answer, which answers are given without.
    pub(crate) usage: Option<Value>,
    version: u16,
}

impl RawClient {
    /// A client of version 1.
    pub(crate) async fn start(home: &TempHome, flags: &[&str]) -> Self {
        Self::speaking(1, home, flags).await
    }

    /// A client of this version.
    pub(crate) async fn speaking(version: u16, home: &TempHome, flags: &[&str]) -> Self {
        let mut client = Self::silent(version, home, flags);
        client.initialize(version).await;
        client
    }

    /// One that has said nothing yet.
    pub(crate) fn silent(version: u16, home: &TempHome, flags: &[&str]) -> Self {
        let (process, sender, receiver) = DemoProcess::start(home, flags);
        let lines = BufReader::new(receiver).lines();
        let (sender, messages) = (Some(sender), Vec::new());
        Self { process, sender, lines, requests: 0, messages, usage: None, version }
    }

    /// The answer to `initialize`.
    pub(crate) async fn initialize(&mut self, version: u16) -> Value {
        let info = json!({ "name": "raw", "version": "1" });
        self.call("initialize", json!({ "protocolVersion": version, "info": info })).await
    }

    /// Begins a session and gives its id.
    pub(crate) async fn new_session(&mut self) -> String {
        let answer = self.call("session/new", json!({ "cwd": "/project", "mcpServers": [] })).await;
        answer["result"]["sessionId"].as_str().unwrap().to_owned()
    }

    /// Sends a request; its id comes back.
    pub(crate) async fn send(&mut self, method: &str, params: Value) -> u64 {
        self.requests += 1;
        let id = self.requests;
        self.write(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        id
    }

    /// Sends a request and gives what came before its answer, and the answer without its envelope.
    pub(crate) async fn exchange(&mut self, method: &str, params: Value) -> (Vec<Value>, Value) {
        let id = self.send(method, params).await;
        self.until_answered(id).await
    }

    /// Sends a request and gives its answer; anything before it is a failure.
    pub(crate) async fn call(&mut self, method: &str, params: Value) -> Value {
        let (before, answer) = self.exchange(method, params).await;
        assert_eq!(before, Vec::<Value>::new());
        answer
    }

    /// Prompts and gives the updates and the answer.
    pub(crate) async fn prompt(&mut self, session: &str, text: &str) -> (Vec<Value>, Value) {
        self.exchange("session/prompt", prompt(session, text)).await
    }

    pub(crate) async fn notify(&mut self, method: &str, params: Value) {
        self.write(&json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
    }

    pub(crate) async fn answer(&mut self, id: &Value, result: Value) {
        self.write(&json!({ "jsonrpc": "2.0", "id": id, "result": result })).await;
    }

    /// The next message, or nothing when the agent has ended its output.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        let line = timeout(TIMEOUT, self.lines.next_line()).await.expect("the agent says something");
        line.unwrap().map(|line| serde_json::from_str(&line).expect("stdout carries only the protocol"))
    }

    /// The next `update`, which the next message must have.
    pub(crate) async fn next_update(&mut self) -> Value {
        let mut message = self.next().await.expect("the agent is there");
        assert_eq!(message["method"], "session/update");
        self.update(message["params"]["update"].take())
    }

    fn update(&mut self, mut update: Value) -> Value {
        let members = update.as_object_mut().expect("an update is an object");
        let id = if self.version == 1 { members.remove("messageId") } else { None };
        self.messages.extend(id.map(|id| id.as_str().unwrap().to_owned()));
        update
    }

    pub(crate) async fn until_answered(&mut self, id: u64) -> (Vec<Value>, Value) {
        let mut before = Vec::new();
        loop {
            let mut message = self.next().await.expect("the agent answers");
            if message["id"] == id && message.get("method").is_none() {
                let answer = message.as_object_mut().unwrap();
                answer.retain(|key, _| key == "result" || key == "error");
                // The usage of a turn has a test of its own.
                self.usage =
                    message.get_mut("result").and_then(|result| result.as_object_mut()?.remove("usage"));
                return (before, message);
            }
            assert_eq!(message["method"], "session/update", "{message}");
            before.push(self.update(message["params"]["update"].take()));
        }
    }

    /// Ends stdin.
    pub(crate) fn end_input(&mut self) {
        drop(self.sender.take());
    }

    /// Ends stdin and waits for the process.
    pub(crate) fn leave(mut self) -> ExitStatus {
        self.end_input();
        self.wait()
    }

    /// Kills the process without warning.
    pub(crate) fn kill(mut self) {
        self.process.child.kill().unwrap();
        self.process.child.wait().unwrap();
    }

    /// The process id of the agent.
    pub(crate) fn pid(&self) -> u32 {
        self.process.child.id()
    }

    /// Waits for a process that ends by itself.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.process.child.wait().unwrap()
    }

    async fn write(&mut self, message: &Value) {
        let sender = self.sender.as_mut().expect("stdin is open");
        sender.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }
}

/// The params of a prompt of text.
pub(crate) fn prompt(session: &str, text: &str) -> Value {
    json!({ "sessionId": session, "prompt": [{ "type": "text", "text": text }] })
}

/// The params of a load or resume.
pub(crate) fn restore(session: &str) -> Value {
    json!({ "sessionId": session, "cwd": "/project", "mcpServers": [] })
}

/// A piece of the agent's answer.
pub(crate) fn said(text: &str) -> Value {
    chunk("agent_message_chunk", text)
}

/// A piece of the user's message.
pub(crate) fn asked(text: &str) -> Value {
    chunk("user_message_chunk", text)
}

/// A piece of a message.
pub(crate) fn chunk(kind: &str, text: &str) -> Value {
    json!({ "sessionUpdate": kind, "content": { "type": "text", "text": text } })
}

/// The answer that ends a turn.
pub(crate) fn ended(stop_reason: &str) -> Value {
    json!({ "result": { "stopReason": stop_reason } })
}
