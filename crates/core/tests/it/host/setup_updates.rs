//! What an agent says right after it has made or restored a session reaches an ordinary client, after the answer.

use acpx_core::home::published;
use acpx_testkit::Script;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use super::Bench;
use crate::engine::everything;

/// A client that sees lines.
struct Raw {
    lines: Lines<BufReader<OwnedReadHalf>>,
    target: OwnedWriteHalf,
}

impl Raw {
    async fn connect(bench: &Bench) -> Self {
        let stream = UnixStream::connect(published(&bench.paths).unwrap().socket).await.unwrap();
        let (source, target) = stream.into_split();
        let mut raw = Self { lines: BufReader::new(source).lines(), target };
        raw.ask("initialize", json!({ "protocolVersion": 1 })).await;
        raw.next().await;
        raw
    }

    async fn ask(&mut self, method: &str, params: Value) {
        let line = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.target.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    async fn next(&mut self) -> Value {
        let line = self.lines.next_line().await.unwrap().expect("the host is there");
        serde_json::from_str(&line).unwrap()
    }
}

/// Answers, and tells its commands with the same breath.
fn with_commands(result: &str, command: &str) -> Script {
    let update = json!({
        "sessionUpdate": "available_commands_update",
        "availableCommands": [{ "name": command, "description": "" }],
    });
    let params = json!({ "sessionId": "s1", "update": update });
    let told = json!({ "jsonrpc": "2.0", "method": "session/update", "params": params });
    Script::new().line(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{{id}},\"result\":{result}}}\n{told}"))
}

fn command(update: &Value) -> (&Value, &Value) {
    let params = &update["params"];
    (&params["sessionId"], &params["update"]["availableCommands"][0]["name"])
}

#[tokio::test]
async fn updates_with_the_response_to_new_and_resume_come_after_it() {
    let bench = Bench::new();
    let script = Script::new().initialize(everything()).serve([
        ("session/new", with_commands(r#"{"sessionId":"s1"}"#, "made")),
        ("session/resume", with_commands("{}", "restored")),
    ]);
    let argv = bench.agent(&script);
    let _keeps_the_host = bench.client().await;
    let mut raw = Raw::connect(&bench).await;
    raw.ask("session/new", bench.new_params(&argv)).await;
    let answer = raw.next().await;
    let record = answer["result"]["sessionId"].clone();
    assert!(record.is_string(), "{answer}");
    assert_eq!(command(&raw.next().await), (&record, &json!("made")));

    bench.kill_host().await;
    let _keeps_the_host = bench.client().await;
    let mut raw = Raw::connect(&bench).await;
    raw.ask("session/resume", bench.resume_params(record.as_str().unwrap())).await;
    let answer = raw.next().await;
    assert_eq!((&answer["id"], answer["result"].is_object()), (&json!(1), true), "{answer}");
    assert_eq!(command(&raw.next().await), (&record, &json!("restored")));
}
