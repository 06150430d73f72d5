//! A client that speaks ACP over the pipes of a program and counts what it hears. It is the same for an agent with
//! nothing between and for `acpx acp` before that agent, so that the difference is ours alone.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How much is read from the pipe at once.
const READ_BYTES: usize = 64 * 1024;
/// What every update has in it, and no answer.
const UPDATE: &str = r#""method":"session/update""#;

/// A program that speaks ACP, and the pipes to it.
pub(crate) struct Client {
    process: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    line: String,
}

impl Client {
    /// Starts a program and greets it in this version of the protocol.
    pub(crate) fn start(command: &mut Command, protocol: u8) -> Self {
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program starts");
        let stdin = process.stdin.take().expect("its stdin is a pipe");
        let stdout = process.stdout.take().expect("its stdout is a pipe");
        let stdout = BufReader::with_capacity(READ_BYTES, stdout);
        let mut client = Self { process, stdin, stdout, line: String::new() };
        let info = json!({ "name": "bench", "version": "1" });
        client.ask("initialize", &json!({ "protocolVersion": protocol, "info": info }));
        client.answer(|_| {});
        client
    }

    /// Makes a session.
    pub(crate) fn open(&mut self) -> String {
        self.ask("session/new", &json!({ "cwd": "/", "mcpServers": [] }));
        let answer = self.answer(|_| {});
        answer["sessionId"].as_str().expect("a session has an id").to_owned()
    }

    /// Prompts a session and reads the answer: so many updates, and the end of the turn.
    pub(crate) fn prompt(&mut self, session: &str, updates: u64) -> Duration {
        let started = Instant::now();
        let mut received = 0;
        self.receive(session, |_| received += 1);
        let time = started.elapsed();
        assert_eq!(received, updates, "every update is received");
        time
    }

    /// Prompts a session and gives every update of the answer to whoever wants to look at it.
    pub(crate) fn receive(&mut self, session: &str, on_update: impl FnMut(&str)) {
        let prompt = json!([{ "type": "text", "text": "go" }]);
        self.ask("session/prompt", &json!({ "sessionId": session, "prompt": prompt }));
        self.answer(on_update);
    }

    /// Takes up a session with this request and further members, and counts the updates that come before the answer.
    pub(crate) fn take_up(&mut self, method: &str, session: &str, more: &Value) -> (Duration, u64) {
        let mut params = json!({ "sessionId": session, "cwd": "/", "mcpServers": [] });
        for (name, value) in more.as_object().into_iter().flatten() {
            params[name] = value.clone();
        }
        let mut received = 0;
        let started = Instant::now();
        self.ask(method, &params);
        self.answer(|_| received += 1);
        (started.elapsed(), received)
    }

    /// Lets the program go, and waits until it is gone.
    pub(crate) fn end(self) {
        let Self { mut process, stdin, stdout, .. } = self;
        drop((stdin, stdout));
        process.wait().expect("the program ends");
    }

    fn ask(&mut self, method: &str, params: &Value) {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let line = format!("{request}\n");
        self.stdin.write_all(line.as_bytes()).expect("the program reads");
    }

    /// Reads until the answer, whose result comes back.
    fn answer(&mut self, mut on_update: impl FnMut(&str)) -> Value {
        loop {
            self.line.clear();
            let read = self.stdout.read_line(&mut self.line).expect("the program writes");
            assert!(read > 0, "the program left before it answered");
            if self.line.contains(UPDATE) {
                on_update(&self.line);
                continue;
            }
            let mut answer: Value = serde_json::from_str(&self.line).expect("an answer is JSON");
            assert!(answer.get("result").is_some(), "{answer}");
            return answer["result"].take();
        }
    }
}
