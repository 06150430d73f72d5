//! `acpx acp` as an editor meets it: the built program on its stdin and stdout, over the demo agent.

mod bad_input;
mod capabilities;
mod exit;
mod real_clients;
mod reconnect;
mod sdk;
mod sdk_v2;
mod sessions;
mod turn_policies;
mod version_2;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::acpx::Place;

/// How long a line may take to come. Only a test that fails waits for so long.
const TIMEOUT: Duration = Duration::from_mins(1);
/// How many lines the program may be ahead of its test; then it waits.
const LINES: usize = 1024;

/// The params of an `initialize` whose client wants all data of errors.
pub(crate) fn wanting_error_data(version: u64) -> Value {
    let wants = json!({ "_meta": { "acpx": { "errorData": true } } });
    let capabilities = if version == 1 { "clientCapabilities" } else { "capabilities" };
    json!({ "protocolVersion": version, capabilities: wants })
}

/// An editor that speaks in lines. Dropped, it dies, and its agent with it.
pub(crate) struct Editor {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    next: u64,
}

impl Editor {
    /// An editor that has begun to speak with the demo agent.
    pub(crate) fn new(place: &Place) -> Self {
        let mut editor = Self::silent(place, &["demo", "acp"]);
        let answer = editor.call("initialize", wanting_error_data(1));
        assert_eq!(answer["result"]["protocolVersion"], 1, "{answer}");
        editor
    }

    /// One that has said nothing.
    pub(crate) fn silent(place: &Place, arguments: &[&str]) -> Self {
        let mut command = place.command(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = sync_channel(LINES);
        std::thread::spawn(move || {
            let mut line = String::new();
            while stdout.read_line(&mut line).is_ok_and(|size| size > 0) {
                if sender.send(std::mem::take(&mut line)).is_err() {
                    break;
                }
            }
        });
        Self { stdin: child.stdin.take(), child, lines, next: 0 }
    }

    /// Says a line as it is.
    pub(crate) fn say(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// Asks for something under a fresh id, which is the answer.
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let id = json!(self.next);
        self.ask_as(&id, method, params);
        id
    }

    #[expect(clippy::needless_pass_by_value, reason = "a call reads as the message it is")]
    pub(crate) fn ask_as(&mut self, id: &Value, method: &str, params: Value) {
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string());
    }

    #[expect(clippy::needless_pass_by_value, reason = "a call reads as the message it is")]
    pub(crate) fn notify(&mut self, method: &str, params: Value) {
        self.say(&json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string());
    }

    /// What comes next.
    pub(crate) fn hear(&self) -> Value {
        let line = self.lines.recv_timeout(TIMEOUT).expect("the program says something");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?}: {error}"))
    }

    /// What comes until the answer to a request, and the answer.
    pub(crate) fn hear_answer(&self, id: &Value) -> (Vec<Value>, Value) {
        let mut before = Vec::new();
        loop {
            let message = self.hear();
            if message["id"] == *id && message.get("method").is_none() {
                return (before, message);
            }
            before.push(message);
        }
    }

    /// What comes until a message with this method, and that message.
    pub(crate) fn hear_method(&self, method: &str) -> (Vec<Value>, Value) {
        let mut before = Vec::new();
        loop {
            let message = self.hear();
            if message["method"] == method {
                return (before, message);
            }
            before.push(message);
        }
    }

    /// Asks for something; its answer, whatever comes before.
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params);
        self.hear_answer(&id).1
    }

    /// Begins a session; its id.
    pub(crate) fn open(&mut self, place: &Place) -> String {
        let answer = self.call("session/new", json!({ "cwd": place.work(), "mcpServers": [] }));
        answer["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// Asks for a prompt; its id.
    pub(crate) fn ask_prompt(&mut self, session: &str, text: &str) -> Value {
        let prompt = json!([{ "type": "text", "text": text }]);
        self.ask("session/prompt", json!({ "sessionId": session, "prompt": prompt }))
    }

    /// Prompts; what was said and why the turn ended.
    pub(crate) fn prompt(&mut self, session: &str, text: &str) -> (Vec<String>, Value) {
        let id = self.ask_prompt(session, text);
        let (before, answer) = self.hear_answer(&id);
        (words(&before), answer)
    }

    /// Waits until something is said with these words.
    pub(crate) fn hear_words(&self, text: &str) {
        while !self.hear().to_string().contains(text) {}
    }

    /// Loads a session; what is told of it, and the answer.
    pub(crate) fn load(&mut self, place: &Place, session: &str) -> (Vec<String>, Value) {
        let params = json!({ "sessionId": session, "cwd": place.work(), "mcpServers": [] });
        let id = self.ask("session/load", params);
        let (before, answer) = self.hear_answer(&id);
        (words(&before), answer)
    }

    /// Dies without a word.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Closes its end; how the program ended, and what it still said.
    pub(crate) fn leave(mut self) -> (Option<i32>, Vec<String>) {
        drop(self.stdin.take());
        self.gone()
    }

    /// Waits for the end of the program.
    pub(crate) fn gone(mut self) -> (Option<i32>, Vec<String>) {
        let code = self.child.wait().unwrap().code();
        (code, self.lines.iter().collect())
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        // One that has ended cannot be killed, and is only waited for.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// What was said in updates, each with whose words they are.
pub(crate) fn words(messages: &[Value]) -> Vec<String> {
    let said = |message: &Value| {
        let update = &message["params"]["update"];
        let text = update["content"]["text"].as_str()?;
        let who = match update["sessionUpdate"].as_str()? {
            "user_message_chunk" => "user",
            "agent_message_chunk" => "agent",
            _ => return None,
        };
        Some(format!("{who}: {}", text.trim_end()))
    };
    messages.iter().filter_map(said).collect()
}
