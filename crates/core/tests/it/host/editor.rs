//! An editor as the host sees it: a client of ours that says once which agent it means, and reads every line itself.

use acpx_core::home::published;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use super::{Bench, environment, prompt_params};

/// One editor's connection.
pub(super) struct Editor {
    lines: Lines<BufReader<OwnedReadHalf>>,
    target: OwnedWriteHalf,
    last_id: u64,
    /// The version of the protocol that it speaks.
    pub(super) version: u16,
}

/// A turn as an editor lives it.
pub(super) struct LivedTurn {
    /// What came meanwhile, but for the answer.
    pub(super) lines: Vec<Value>,
    pub(super) stop_reason: Value,
    /// The id of the prompt's message, which version 2 is answered with.
    pub(super) message: Option<String>,
}

impl Bench {
    /// An editor of version 1 whose agent has this command line.
    pub(super) async fn editor(&self, argv: &[String]) -> Editor {
        self.speaking(1, 1, argv).await
    }

    /// An editor that speaks one version of the protocol, and whose agent is asked for another. It wants all data of
    /// errors.
    pub(super) async fn speaking(&self, version: u16, of_agent: u16, argv: &[String]) -> Editor {
        let meta = json!({ "acpx": { "errorData": true } });
        let takes = json!({ "elicitation": { "form": {}, "url": {} }, "_meta": meta });
        self.speaking_with(version, of_agent, argv, takes).await
    }

    /// An editor with these capabilities.
    pub(super) async fn speaking_with(
        &self,
        version: u16,
        of_agent: u16,
        argv: &[String],
        takes: Value,
    ) -> Editor {
        let mut editor = self.joined(version).await;
        let agent = json!({ "name": "scripted", "argv": argv, "protocol": of_agent });
        let client = json!({ "agent": agent, "environment": environment(), "cwd": self.home.path() });
        let meta = json!({ "acpx": { "client": client } });
        let info = json!({ "name": "editor", "version": "7" });
        let capabilities = if version == 1 { "clientCapabilities" } else { "capabilities" };
        let mut params = json!({ "protocolVersion": version, "info": info, "_meta": meta });
        params[capabilities] = takes;
        let answer = editor.call("initialize", params).await.unwrap();
        assert_eq!(answer["protocolVersion"], version);
        editor
    }

    /// An editor of this version that has not said anything yet.
    pub(super) async fn joined(&self, version: u16) -> Editor {
        // Somebody has to start the host.
        let first = self.client().await;
        let socket = published(&self.paths).expect("a host listens").socket;
        let (source, target) = UnixStream::connect(socket).await.unwrap().into_split();
        let mut editor = Editor { lines: BufReader::new(source).lines(), target, last_id: 0, version };
        // The host has it in before the other one goes.
        let early = editor.call("session/list", json!({})).await.unwrap_err();
        assert_eq!(early["code"], -32600);
        first.close().await;
        editor
    }

    /// The params of `session/load` and `session/resume` as editors say them.
    pub(super) fn load_params(&self, session: &str) -> Value {
        json!({ "sessionId": session, "cwd": self.home.path(), "mcpServers": [] })
    }
}

impl Editor {
    async fn send(&mut self, message: &Value) {
        self.target.write_all(format!("{message}\n").as_bytes()).await.expect("the host reads");
    }

    /// Says something that has no answer.
    pub(super) async fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
    }

    /// Begins a session; its id.
    pub(super) async fn open(&mut self, bench: &Bench) -> String {
        let new = json!({ "cwd": bench.home.path(), "mcpServers": [] });
        let answer = self.call("session/new", new).await.unwrap();
        answer["sessionId"].as_str().unwrap().to_owned()
    }

    /// Prompts and lives the turn to its end: it says yes to what it is asked, and cancels an agent that waits.
    pub(super) async fn turn(&mut self, record: &str, text: &str) -> LivedTurn {
        let id = self.ask("session/prompt", prompt_params(record, text, json!({}))).await;
        let (mut lines, mut message, mut stop_reason, mut runs) = (Vec::new(), None, None, false);
        while stop_reason.is_none() || message.is_none() {
            let line = self.next().await;
            if line["id"] == id && line.get("method").is_none() {
                let result = line.get("result").unwrap_or_else(|| panic!("{line}"));
                message = Some(result["messageId"].as_str().map(str::to_owned));
                if self.version == 1 {
                    stop_reason = Some(result["stopReason"].clone());
                }
                continue;
            }
            if line["method"] == "session/request_permission" {
                self.choose(&line["id"], "yes").await;
            }
            let update = &line["params"]["update"];
            if update["content"]["text"] == "waiting" {
                self.notify("session/cancel", json!({ "sessionId": record })).await;
            }
            // An agent may still say that it has nothing to do when it has been prompted.
            runs |= update["state"] == "running";
            if update["state"] == "idle" && runs {
                stop_reason = Some(update["stopReason"].clone());
            }
            lines.push(line);
        }
        LivedTurn { lines, stop_reason: stop_reason.unwrap(), message: message.flatten() }
    }

    /// What is told until a session has nothing more to do.
    pub(super) async fn until_idle(&mut self) -> Vec<Value> {
        let mut lines = Vec::new();
        loop {
            lines.push(self.next().await);
            if lines.last().is_some_and(|line| line["params"]["update"]["state"] == "idle") {
                return lines;
            }
        }
    }

    /// Asks for something; the id of the request.
    pub(super) async fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        id
    }

    /// The next line.
    pub(super) async fn next(&mut self) -> Value {
        let line = self.lines.next_line().await.unwrap().expect("the host is there");
        serde_json::from_str(&line).expect("a line is JSON")
    }

    /// Reads until a line is what is looked for.
    pub(super) async fn until(&mut self, mut wanted: impl FnMut(&Value) -> bool) -> Value {
        loop {
            let line = self.next().await;
            if wanted(&line) {
                return line;
            }
        }
    }

    /// The result of a request that was asked, or its error, and what came before it.
    pub(super) async fn answer(&mut self, id: u64) -> (Result<Value, Value>, Vec<Value>) {
        let mut before = Vec::new();
        loop {
            let line = self.next().await;
            if line["id"] == id && line.get("method").is_none() {
                let answer = line.get("result").cloned().ok_or_else(|| line["error"].clone());
                return (answer, before);
            }
            before.push(line);
        }
    }

    /// Asks, and waits for the answer.
    pub(super) async fn call(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let id = self.ask(method, params).await;
        self.answer(id).await.0
    }

    /// The next question of the agent; its id.
    pub(super) async fn question(&mut self) -> Value {
        let asked = self.until(|line| line["method"] == "session/request_permission").await;
        asked["id"].clone()
    }

    /// Answers a question of the agent.
    pub(super) async fn choose(&mut self, question: &Value, option: &str) {
        self.respond(question, json!({ "outcome": { "outcome": "selected", "optionId": option } })).await;
    }

    /// Answers a question of the agent with this.
    pub(super) async fn respond(&mut self, question: &Value, result: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "id": question, "result": result })).await;
    }

    /// Whether nothing was asked of it: what the host had for it comes before the answer to what it asks now.
    pub(super) async fn was_not_asked(&mut self) -> bool {
        let id = self.ask("_acpx/host/status", json!({})).await;
        let (_, before) = self.answer(id).await;
        before.iter().all(|line| line["method"] != "session/request_permission")
    }
}

/// The messages that lines tell, whole or in pieces, in words and in order.
pub(super) fn conversation(lines: &[Value]) -> Vec<String> {
    let mut messages: Vec<(String, String, String)> = Vec::new();
    for line in lines {
        let update = &line["params"]["update"];
        let Some(kind) = update["sessionUpdate"].as_str() else { continue };
        let Some(who) = ["user", "agent"].into_iter().find(|who| kind.starts_with(&format!("{who}_message")))
        else {
            continue;
        };
        let id = update["messageId"].as_str().unwrap_or_default();
        let known =
            messages.iter().position(|(said_by, name, _)| said_by == who && !id.is_empty() && name == id);
        let goes_on = messages.last().is_some_and(|(said_by, name, _)| said_by == who && name == id);
        let index = known.or(goes_on.then(|| messages.len() - 1)).unwrap_or_else(|| {
            messages.push((who.to_owned(), id.to_owned(), String::new()));
            messages.len() - 1
        });
        let text = &mut messages[index].2;
        match update["content"].as_array() {
            Some(blocks) => *text = blocks.iter().map(|block| block["text"].as_str().unwrap()).collect(),
            None => text.push_str(update["content"]["text"].as_str().unwrap()),
        }
    }
    messages.into_iter().map(|(who, _, text)| format!("{who}: {text}")).collect()
}

/// The last state that lines tell.
pub(super) fn last_state(lines: &[Value]) -> &Value {
    let mut updates = lines.iter().map(|line| &line["params"]["update"]);
    updates.rfind(|update| update["sessionUpdate"] == "state_update").expect("a state is told")
}
