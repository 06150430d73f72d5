//! An editor as the host sees it: a client of ours that says once which agent it means, and reads every line itself.

use acpx_core::host::published;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use super::{Bench, environment};

/// One editor's connection.
pub(super) struct Editor {
    lines: Lines<BufReader<OwnedReadHalf>>,
    target: OwnedWriteHalf,
    last_id: u64,
}

impl Bench {
    /// An editor whose agent has this command line.
    pub(super) async fn editor(&self, argv: &[String]) -> Editor {
        // Somebody has to start the host.
        let first = self.client().await;
        let socket = published(&self.place).expect("a host listens").socket;
        let (source, target) = UnixStream::connect(socket).await.unwrap().into_split();
        let mut editor = Editor { lines: BufReader::new(source).lines(), target, last_id: 0 };
        let agent = json!({ "name": "scripted", "argv": argv });
        let client = json!({ "agent": agent, "environment": environment(), "cwd": self.home.path() });
        let meta = json!({ "acpx": { "client": client } });
        editor.call("initialize", json!({ "protocolVersion": 1, "_meta": meta })).await.unwrap();
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
        let outcome = json!({ "outcome": { "outcome": "selected", "optionId": option } });
        self.send(&json!({ "jsonrpc": "2.0", "id": question, "result": outcome })).await;
    }

    /// Whether nothing was asked of it: what the host had for it comes before the answer to what it asks now.
    pub(super) async fn was_not_asked(&mut self) -> bool {
        let id = self.ask("_acpx/host/status", json!({})).await;
        let (_, before) = self.answer(id).await;
        before.iter().all(|line| line["method"] != "session/request_permission")
    }
}
