//! An editor that is killed and comes back: what it was told over all its lives, how far that goes, and what it asked.
//!
//! It believes what it is told. It comes back with its cursor, asks what it heard no answer to again under the same
//! name, and forgets nothing; so a number that does not rise is a repeat, and is a failure at once.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::process::{Process, Speaker};
use crate::editor::wanting_error_data;

/// An editor, alive or between two lives.
pub(super) struct Editor {
    /// The version of the protocol that it speaks.
    pub(super) version: u64,
    /// The session that it has open.
    pub(super) session: String,
    /// Its bridge. One that was killed is heard to its end.
    bridge: Option<Process>,
    is_killed: bool,
    /// Which of its lives it is in.
    life: usize,
    next: u64,
    /// The params of every update that it was told, in order.
    pub(super) told: Vec<Value>,
    /// The last event that it was told of.
    pub(super) cursor: u64,
    pub(super) prompts: Vec<Asked>,
    /// Whether the session does nothing, as far as this editor knows. Only version 2 says so.
    is_idle: bool,
    /// The prompts without an answer in this life, by the ids of their requests.
    open: HashMap<u64, usize>,
    answers: HashMap<u64, Value>,
}

/// A prompt of an editor. Its text is its name, and so is its request id.
pub(super) struct Asked {
    pub(super) name: String,
    /// The life that it was first asked in.
    life: usize,
    /// Its turn, as soon as the editor was told of one.
    pub(super) turn: Option<u64>,
    pub(super) answer: Option<Value>,
}

impl Asked {
    /// The stable code of the error that it was answered with.
    pub(super) fn error_code(&self) -> Option<&str> {
        self.answer.as_ref()?["error"]["data"]["acpx"]["code"].as_str()
    }

    /// Whether it was answered, and not with an error.
    pub(super) fn is_done(&self) -> bool {
        self.answer.as_ref().is_some_and(|answer| answer.get("result").is_some())
    }
}

impl Editor {
    pub(super) fn new(version: u64) -> Self {
        Self {
            version,
            session: String::new(),
            bridge: None,
            is_killed: false,
            life: 0,
            next: 0,
            told: Vec::new(),
            cursor: 0,
            prompts: Vec::new(),
            is_idle: true,
            open: HashMap::new(),
            answers: HashMap::new(),
        }
    }

    /// Whether it has no bridge that works.
    pub(super) fn is_away(&self) -> bool {
        self.bridge.is_none() || self.is_killed
    }

    /// Whether it has heard the last of the bridge it had.
    pub(super) fn has_buried(&self) -> bool {
        self.bridge.is_none()
    }

    pub(super) fn is(&self, who: Speaker) -> bool {
        self.bridge.as_ref().is_some_and(|bridge| bridge.who == who)
    }

    /// How many of its prompts wait for an answer, while it is there to hear one.
    pub(super) fn waiting(&self) -> usize {
        if self.is_away() { 0 } else { self.open.len() }
    }

    /// Whether nothing is to come, as far as it knows.
    pub(super) fn is_quiet(&self) -> bool {
        self.is_away() || self.open.is_empty() && self.is_idle
    }

    pub(super) fn begin_life(&mut self, bridge: Process) {
        assert!(self.bridge.is_none(), "it has a bridge");
        (self.bridge, self.is_killed, self.is_idle) = (Some(bridge), false, true);
        self.life += 1;
    }

    pub(super) fn kill(&mut self) {
        self.bridge.as_mut().unwrap().kill();
        self.is_killed = true;
    }

    /// The params of its `initialize`.
    pub(super) fn greeting(&self) -> Value {
        let info = json!({ "name": format!("editor-{}", self.version), "version": "1" });
        let mut greeting = wanting_error_data(self.version);
        greeting["_meta"] = json!({ "acpx": { "seq": true } });
        greeting[if self.version == 1 { "clientInfo" } else { "info" }] = info;
        greeting
    }

    /// Asks for something; the id of the request.
    #[expect(clippy::needless_pass_by_value, reason = "a call reads as the message it is")]
    pub(super) fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.next += 1;
        let line = json!({ "jsonrpc": "2.0", "id": self.next, "method": method, "params": params });
        self.bridge.as_mut().unwrap().say(&line.to_string());
        self.next
    }

    /// The answer to a request, if it has come.
    pub(super) fn answer(&self, id: u64) -> Option<&Value> {
        self.answers.get(&id)
    }

    /// Asks a new prompt.
    pub(super) fn prompt(&mut self, name: &str) {
        self.prompts.push(Asked { name: name.to_owned(), life: self.life, turn: None, answer: None });
        self.send(self.prompts.len() - 1);
    }

    /// Asks again what it heard no answer to.
    pub(super) fn ask_again(&mut self) {
        let is_open = |index: &usize| self.prompts[*index].answer.is_none();
        let open: Vec<usize> = (0..self.prompts.len()).filter(is_open).collect();
        for index in open {
            self.send(index);
        }
    }

    fn send(&mut self, index: usize) {
        let name = self.prompts[index].name.clone();
        let prompt = json!([{ "type": "text", "text": name }]);
        let meta = json!({ "acpx": { "requestId": name } });
        let params = json!({ "sessionId": self.session, "prompt": prompt, "_meta": meta });
        let id = self.ask("session/prompt", params);
        self.open.insert(id, index);
    }

    /// Takes what its bridge says.
    pub(super) fn take(&mut self, line: Option<&str>) {
        let Some(line) = line else {
            assert!(self.is_killed, "the bridge of editor {} is gone", self.version);
            drop(self.bridge.take());
            self.open.clear();
            return;
        };
        let message: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{line:?}: {error}"));
        match message["method"].as_str() {
            Some("session/update") => self.update(&message["params"]),
            Some("_acpx/accepted") => {
                let params = &message["params"];
                self.has_turn(params["requestId"].as_str().unwrap(), params["turn"].as_u64());
            }
            Some(_) => panic!("editor {} is told {message}", self.version),
            None => self.answered(&message),
        }
    }

    fn update(&mut self, params: &Value) {
        let version = self.version;
        // That a prompt waits is no event.
        if params["update"]["_meta"]["acpx"].get("notice").is_some() {
            return;
        }
        // How a session stands is told with the event it stands by, which may have been told before.
        let stands = params["update"]["sessionUpdate"] == "state_update"
            && params["update"].get("stopReason").is_none();
        if let Some(seq) = params["_meta"]["acpx"]["seq"].as_u64().filter(|seq| !stands || *seq > self.cursor)
        {
            let last = self.told.last();
            assert!(seq > self.cursor, "editor {version} is told {params} again, after {last:?}");
            self.cursor = seq;
        } else {
            let is_state = params["update"]["sessionUpdate"] == "state_update";
            assert!(is_state, "editor {version} is not told the number of {params}");
        }
        if version == 1 {
            // What it has said itself it is told in another life alone.
            let own = |asked: &&Asked| params["_meta"]["acpx"]["requestId"] == *asked.name;
            let is_known = self.prompts.iter().find(own).is_some_and(|asked| asked.life == self.life);
            assert!(!is_known, "editor {version} is told its own words: {params}");
        }
        if let Some(state) = params["update"]["state"].as_str() {
            self.is_idle = state == "idle";
        }
        self.told.push(params.clone());
    }

    fn has_turn(&mut self, name: &str, turn: Option<u64>) {
        let version = self.version;
        let prompt = self.prompts.iter_mut().find(|prompt| prompt.name == name).unwrap();
        let known = prompt.turn.or(turn);
        assert!(turn.is_none() || turn == known, "editor {version}: {name} has two turns");
        prompt.turn = known;
    }

    fn answered(&mut self, message: &Value) {
        let id = message["id"].as_u64().unwrap_or_else(|| panic!("an answer to nothing: {message}"));
        let Some(index) = self.open.remove(&id) else {
            let before = self.answers.insert(id, message.clone());
            assert_eq!(before, None, "a second answer: {message}");
            return;
        };
        if message["error"]["data"]["acpx"]["code"] == "HOST_LOST" {
            // No host lived to answer it. It says to ask again, and nothing of what became of it: that may be told.
            self.prompts[index].life = 0;
            return self.send(index);
        }
        let prompt = &mut self.prompts[index];
        prompt.answer = Some(message.clone());
        let name = prompt.name.clone();
        let told = &message["result"]["_meta"]["acpx"]["turn"];
        let turn = told.as_u64().or(message["error"]["data"]["acpx"]["turn"]["turn"].as_u64());
        self.has_turn(&name, turn);
    }
}
