//! Builder of scripts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::ScriptStep;

/// The steps of a scripted agent for each of its starts. After the last step the agent reads until stdin ends, then
/// exits with code 0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Script {
    pub(crate) starts: Vec<Vec<ScriptStep>>,
    pub(crate) ignores_eof: bool,
    pub(crate) ignores_terminate: bool,
}

impl Default for Script {
    fn default() -> Self {
        Self { starts: vec![Vec::new()], ignores_eof: false, ignores_terminate: false }
    }
}

impl Script {
    /// A script without steps.
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins the steps of the next start. The steps of the last start also serve all later ones.
    #[must_use]
    pub fn next_start(mut self) -> Self {
        self.starts.push(Vec::new());
        self
    }

    /// The process keeps running when stdin ends.
    #[must_use]
    pub fn ignoring_eof(mut self) -> Self {
        self.ignores_eof = true;
        self
    }

    /// The process ignores SIGTERM.
    #[must_use]
    pub fn ignoring_terminate(mut self) -> Self {
        self.ignores_terminate = true;
        self
    }

    /// Adds any step.
    #[must_use]
    pub fn step(mut self, step: ScriptStep) -> Self {
        match self.starts.last_mut() {
            Some(steps) => steps.push(step),
            None => self.starts.push(vec![step]),
        }
        self
    }

    /// Replies to `initialize` with version 1 and these `agentCapabilities`.
    #[must_use]
    pub fn initialize(self, capabilities: Value) -> Self {
        let mut answer = json!({ "protocolVersion": 1 });
        answer["agentCapabilities"] = capabilities;
        self.expect("initialize").reply(answer)
    }

    /// Replies to `session/new` with this session id.
    #[must_use]
    pub fn session_new(self, session: &str) -> Self {
        self.expect("session/new").reply(json!({ "sessionId": session }))
    }

    /// Replies to `session/load` after the given steps, which send the replay.
    #[must_use]
    pub fn session_load(self, replay: impl FnOnce(Self) -> Self) -> Self {
        self.expect("session/load").then(replay).reply(json!({}))
    }

    /// Replies to `session/resume`.
    #[must_use]
    pub fn session_resume(self) -> Self {
        self.expect("session/resume").reply(json!({}))
    }

    /// Waits for a `session/prompt`; the steps are the turn, ended by [`end`](Self::end).
    #[must_use]
    pub fn prompt(self, turn: impl FnOnce(Self) -> Self) -> Self {
        self.expect("session/prompt").then(turn)
    }

    /// Ends a turn: replies to the last captured request with this stop reason.
    #[must_use]
    pub fn end(self, stop_reason: &str) -> Self {
        self.reply(json!({ "stopReason": stop_reason }))
    }

    /// Waits for a request and replies with an error object.
    #[must_use]
    pub fn refuse(self, method: &str, error: Value) -> Self {
        self.expect(method).reply_error(error)
    }

    /// Serves messages by method until stdin ends; see [`ScriptStep::Serve`].
    #[must_use]
    pub fn serve<const N: usize>(self, on: [(&str, Self); N]) -> Self {
        let on: BTreeMap<String, Vec<ScriptStep>> =
            on.into_iter().map(|(method, script)| (method.to_owned(), script.into_steps())).collect();
        self.step(ScriptStep::Serve { on })
    }

    /// Repeats the steps.
    #[must_use]
    pub fn repeat(self, times: u64, steps: impl FnOnce(Self) -> Self) -> Self {
        let steps = steps(Self::new()).into_steps();
        self.step(ScriptStep::Repeat { times, steps })
    }

    /// Performs the steps if the last message had this param.
    #[must_use]
    pub fn when(self, param: &str, steps: impl FnOnce(Self) -> Self) -> Self {
        let steps = steps(Self::new()).into_steps();
        self.step(ScriptStep::When { param: param.to_owned(), steps })
    }

    /// Waits for a message with this method.
    #[must_use]
    pub fn expect(self, method: &str) -> Self {
        self.step(ScriptStep::Expect { method: method.to_owned(), name: None })
    }

    /// Waits for a message with this method and names its id.
    #[must_use]
    pub fn expect_as(self, method: &str, name: &str) -> Self {
        self.step(ScriptStep::Expect { method: method.to_owned(), name: Some(name.to_owned()) })
    }

    /// Replies to the last captured request.
    #[must_use]
    pub fn reply(self, result: Value) -> Self {
        self.step(ScriptStep::Reply { to: None, result })
    }

    /// Replies to the request whose id has this name.
    #[must_use]
    pub fn reply_to(self, name: &str, result: Value) -> Self {
        self.step(ScriptStep::Reply { to: Some(name.to_owned()), result })
    }

    /// Replies to the last captured request with an error object.
    #[must_use]
    pub fn reply_error(self, error: Value) -> Self {
        self.step(ScriptStep::ReplyError { to: None, error })
    }

    /// Sends a `session/update`.
    #[must_use]
    pub fn update(self, update: Value) -> Self {
        self.step(ScriptStep::Update { update })
    }

    /// Sends a chunk of the agent's message.
    #[must_use]
    pub fn say(self, text: &str) -> Self {
        self.update(chunk("agent_message_chunk", text))
    }

    /// Sends a chunk of the user's message, as a replay does.
    #[must_use]
    pub fn user_said(self, text: &str) -> Self {
        self.update(chunk("user_message_chunk", text))
    }

    /// Sends a request and waits for its reply.
    #[must_use]
    pub fn request(self, method: &str, params: Value) -> Self {
        self.step(ScriptStep::Request { method: method.to_owned(), params })
    }

    /// Requests permission for an edit, with the options `yes` and `no`, and waits for the reply.
    #[must_use]
    pub fn ask_permission(self, tool_call: &str) -> Self {
        let option = |id: &str, kind: &str| json!({ "optionId": id, "name": id, "kind": kind });
        let params = json!({
            "sessionId": "{sessionId}",
            "toolCall": { "toolCallId": tool_call, "title": "Edit a file", "kind": "edit" },
            "options": [option("yes", "allow_once"), option("no", "reject_once")],
        });
        self.request("session/request_permission", params)
    }

    /// Sends a message chunk repeatedly; endlessly if `count` is absent.
    #[must_use]
    pub fn flood(self, count: Option<u64>) -> Self {
        self.step(ScriptStep::Flood { update: chunk("agent_message_chunk", "flood"), count })
    }

    /// Writes a line verbatim.
    #[must_use]
    pub fn line(self, text: &str) -> Self {
        self.step(ScriptStep::Line { text: text.to_owned() })
    }

    /// Writes bytes verbatim, without a line ending.
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        self.step(ScriptStep::Bytes { bytes: bytes.to_owned() })
    }

    /// Writes a line to stderr.
    #[must_use]
    pub fn stderr(self, text: &str) -> Self {
        self.step(ScriptStep::Stderr { text: text.to_owned() })
    }

    /// Waits.
    #[must_use]
    pub fn delay(self, millis: u64) -> Self {
        self.step(ScriptStep::Delay { millis })
    }

    /// Waits until a file exists.
    #[must_use]
    pub fn await_file(self, path: &Path) -> Self {
        self.step(ScriptStep::AwaitFile { path: PathBuf::from(path) })
    }

    /// Creates a file.
    #[must_use]
    pub fn touch(self, path: &Path) -> Self {
        self.step(ScriptStep::Touch { path: PathBuf::from(path) })
    }

    /// Ends the process.
    #[must_use]
    pub fn exit(self, code: u8) -> Self {
        self.step(ScriptStep::Exit { code })
    }

    /// Blocks forever.
    #[must_use]
    pub fn hang(self) -> Self {
        self.step(ScriptStep::Hang)
    }

    fn then(self, steps: impl FnOnce(Self) -> Self) -> Self {
        steps(self)
    }

    /// The steps of all starts, concatenated; a nested script has only one start.
    fn into_steps(self) -> Vec<ScriptStep> {
        self.starts.into_iter().flatten().collect()
    }
}

fn chunk(kind: &str, text: &str) -> Value {
    json!({ "sessionUpdate": kind, "content": { "type": "text", "text": text } })
}
