//! A conversation is told again from our own store: from anywhere, to several clients at once, whatever the agent
//! itself has left of it.

use acpx_core::home::published;
use acpx_testkit::Script;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use super::{Bench, environment, eventually};
use crate::engine::everything;

/// A client that sees lines.
struct Raw {
    lines: Lines<BufReader<OwnedReadHalf>>,
    target: OwnedWriteHalf,
}

impl Raw {
    async fn connect(bench: &Bench, name: &str) -> Self {
        let stream = UnixStream::connect(published(&bench.paths).unwrap().socket).await.unwrap();
        let (source, target) = stream.into_split();
        let mut raw = Self { lines: BufReader::new(source).lines(), target };
        let info = json!({ "name": name, "version": "7" });
        raw.ask("initialize", json!({ "protocolVersion": 1, "clientInfo": info })).await;
        raw
    }

    async fn send(&mut self, method: &str, params: Value) {
        let line = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.target.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    async fn next(&mut self) -> Value {
        let line = self.lines.next_line().await.unwrap().expect("the host is there");
        serde_json::from_str(&line).unwrap()
    }

    /// Asks; the updates that came before the answer, and the answer.
    async fn ask(&mut self, method: &str, params: Value) -> (Vec<Value>, Value) {
        self.send(method, params).await;
        let mut updates = Vec::new();
        loop {
            let line = self.next().await;
            match line["method"].as_str() {
                None => return (updates, line),
                Some("session/update") => updates.push(line["params"].clone()),
                Some(_) => {}
            }
        }
    }

    async fn load(&mut self, bench: &Bench, record: &str, acpx: Value) -> (Vec<Value>, Value) {
        self.ask("session/load", restore(bench, record, acpx)).await
    }
}

fn restore(bench: &Bench, record: &str, mut acpx: Value) -> Value {
    acpx["environment"] = json!(environment());
    json!({ "sessionId": record, "cwd": bench.home.path(), "mcpServers": [], "_meta": { "acpx": acpx } })
}

/// Updates in words, each with the number it says.
fn words(updates: &[Value]) -> Vec<(u64, String)> {
    let word = |params: &Value| {
        let update = &params["update"];
        let said = match update["sessionUpdate"].as_str().unwrap() {
            "user_message_chunk" => format!("user: {}", update["content"]["text"].as_str().unwrap()),
            "agent_message_chunk" => format!("agent: {}", update["content"]["text"].as_str().unwrap()),
            "tool_call" => format!("tool: {} {}", update["title"], update["status"]),
            other => other.to_owned(),
        };
        (params["_meta"]["acpx"]["seq"].as_u64().unwrap(), said)
    };
    updates.iter().map(word).collect()
}

fn said(updates: &[Value]) -> Vec<String> {
    words(updates).into_iter().map(|(_, said)| said).collect()
}

fn tool(status: &str) -> Value {
    json!({ "sessionUpdate": "tool_call", "toolCallId": "t", "title": "look", "status": status })
}

/// Says two things in each of two turns.
fn talkative(capabilities: Value) -> Script {
    Script::new().initialize(capabilities).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        ("session/resume", Script::new().reply(json!({}))),
        ("session/prompt", Script::new().say("one ").say("two").update(tool("completed")).end("end_turn")),
    ])
}

/// All of that. The agent uses the id of its tool call again in the second turn.
const WHOLE: [&str; 6] = [
    "user: first",
    "agent: one two",
    "tool: \"look\" \"completed\"",
    "user: second",
    "agent: one two",
    "tool: \"look\" \"completed\"",
];

/// A record with two turns of a talkative agent.
async fn two_turns(bench: &Bench, script: &Script) -> (Vec<String>, String) {
    let argv = bench.agent(script);
    let mut client = bench.client().await;
    let record = bench.open(&mut client, &argv).await;
    super::prompt(&mut client, &record, "first").await;
    super::prompt(&mut client, &record, "second").await;
    client.close().await;
    (argv, record)
}

#[tokio::test]
async fn conversation_is_replayed_from_any_valid_cursor_only() {
    let bench = Bench::new();
    let (_, record) = two_turns(&bench, &talkative(everything())).await;
    let _keeps_the_host = bench.client().await;
    let mut raw = Raw::connect(&bench, "one").await;
    let (whole, answer) = raw.load(&bench, &record, json!({})).await;
    assert_eq!(said(&whole), WHOLE);
    let last = bench.record(&record).await.last_seq.unwrap().0;
    assert_eq!(answer["result"]["_meta"]["acpx"]["seq"], last);
    let all = words(&whole);
    // From each event on it is the rest; one past the last there is none.
    for from in 1..=last + 1 {
        let cursor = json!({ "type": "_acpx/seq", "seq": from });
        let (rest, _) = raw.load(&bench, &record, json!({ "replayFrom": cursor })).await;
        let expected: Vec<_> = all.iter().filter(|(seq, _)| *seq >= from).map(|(seq, _)| *seq).collect();
        assert_eq!(words(&rest).iter().map(|(seq, _)| *seq).collect::<Vec<_>>(), expected, "from {from}");
    }
    let bounded = [
        (json!({ "replayFrom": { "type": "_acpx/turn", "turn": 2 } }), &WHOLE[3..]),
        (
            json!({ "replayFrom": { "type": "_acpx/message", "messageId": format!("{record}:turn:2") } }),
            &WHOLE[3..],
        ),
        (json!({ "replay": { "turns": 1 } }), &WHOLE[3..]),
        (json!({ "replay": { "turns": 9 } }), &WHOLE[..]),
        (json!({ "replayFrom": null }), &WHOLE[..0]),
    ];
    for (acpx, expected) in bounded {
        let (told, answer) = raw.load(&bench, &record, acpx.clone()).await;
        assert_eq!(
            (said(&told), answer["error"].clone()),
            (expected.iter().map(ToString::to_string).collect(), Value::Null),
            "{acpx}"
        );
    }
    let (told, _) = raw.ask("session/resume", restore(&bench, &record, json!({}))).await;
    assert_eq!(told, [Value::Null; 0]);
    let start = json!({ "replayFrom": { "type": "start" } });
    assert_eq!(said(&raw.ask("session/resume", restore(&bench, &record, start)).await.0), WHOLE);
    // A message of ours is named by its first event, and nothing else is by its own.
    let begins = |seq: u64| json!({ "type": "_acpx/message", "messageId": format!("{record}:{seq}") });
    let mut found = Vec::new();
    for seq in 0..=last + 1 {
        let (told, answer) = raw.load(&bench, &record, json!({ "replayFrom": begins(seq) })).await;
        match &answer["error"]["code"] {
            Value::Null => found.push(said(&told)),
            code => assert_eq!((told.len(), code), (0, &json!(-32602)), "{seq}"),
        }
    }
    assert_eq!(found, [&WHOLE[1..], &WHOLE[4..]]);
    let wrong = [
        json!({ "type": "end" }),
        json!({ "type": "_acpx/message", "messageId": format!("{record}:turn:3") }),
        json!({ "type": "_acpx/seq", "seq": last + 2 }),
        json!({ "type": "_acpx/turn", "turn": 3 }),
        json!({ "type": "_acpx/message", "messageId": "never" }),
        json!(7),
    ];
    for cursor in wrong {
        let (told, answer) = raw.load(&bench, &record, json!({ "replayFrom": cursor })).await;
        let error = &answer["error"];
        assert_eq!((told.len(), &error["code"]), (0, &json!(-32602)), "{cursor}: {answer}");
        assert!(error["message"].as_str().unwrap().contains("_meta.acpx.replayFrom"), "{error}");
    }
}

#[tokio::test]
async fn conversation_is_replayed_though_its_agent_lost_it() {
    // It can neither load nor resume; it can, and has lost it; it can, and has compacted it.
    let lost = Script::new().reply_error(json!({ "code": -32002, "message": "Resource not found" }));
    let compacted = Script::new().user_said("first").say("in short").reply(json!({}));
    let agents = [
        (json!({}), None, "fresh"),
        (json!({ "loadSession": true }), Some(("session/load", lost)), "fresh"),
        (json!({ "loadSession": true }), Some(("session/load", compacted)), "session/load"),
    ];
    for (capabilities, restoring, by) in agents {
        let bench = Bench::new();
        let (method, answer) = restoring.unwrap_or(("session/never", Script::new()));
        let turn = Script::new().say("one ").say("two").update(tool("completed")).end("end_turn");
        let script = Script::new().initialize(capabilities).serve([
            ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
            (method, answer),
            ("session/prompt", turn),
        ]);
        let (_, record) = two_turns(&bench, &script).await;
        bench.kill_host().await;
        let _keeps_the_host = bench.client().await;
        let mut raw = Raw::connect(&bench, "one").await;
        let (told, answer) = raw.load(&bench, &record, json!({})).await;
        assert_eq!(said(&told), WHOLE, "{by}");
        assert_eq!(answer["result"]["_meta"]["acpx"]["awakening"]["by"], by, "{answer}");
    }
}

#[tokio::test]
async fn other_clients_see_who_prompted_and_the_prompting_client_does_not() {
    let bench = Bench::new();
    let script = talkative(everything());
    let argv = bench.agent(&script);
    let _keeps_the_host = bench.client().await;
    let mut asker = Raw::connect(&bench, "zed").await;
    let (_, made) = asker.ask("session/new", bench.new_params(&argv)).await;
    let record = made["result"]["sessionId"].as_str().unwrap().to_owned();
    let mut other = Raw::connect(&bench, "vim").await;
    let with_seq = json!({ "withSeq": true });
    other.ask("session/resume", restore(&bench, &record, with_seq)).await;
    let acpx = json!({ "requestId": "mine" });
    let (heard, answer) = asker.ask("session/prompt", super::prompt_params(&record, "first", acpx)).await;
    let kinds: Vec<_> = heard.iter().map(|params| params["update"]["sessionUpdate"].clone()).collect();
    assert_eq!(kinds, ["agent_message_chunk", "agent_message_chunk", "tool_call"]);
    let first = other.next().await["params"].clone();
    let by = &first["_meta"]["acpx"];
    assert_eq!(first["update"]["content"]["text"], "first");
    assert_eq!((&by["turn"], &by["requestId"]), (&json!(1), &json!("mine")));
    assert_eq!(by["client"], json!({ "name": "zed", "version": "7" }));
    let mut told = vec![first];
    for _ in 0..3 {
        told.push(other.next().await["params"].clone());
    }
    // It goes on behind the last one it has seen, and nothing comes twice.
    let seen = words(&told).last().unwrap().0;
    let next = json!({ "replayFrom": { "type": "_acpx/seq", "seq": seen + 1 } });
    assert_eq!(other.load(&bench, &record, next).await.0, [Value::Null; 0]);
    assert_eq!(answer["result"]["stopReason"], "end_turn");
}

#[tokio::test]
async fn tool_call_is_open_in_its_turn_and_cancelled_by_host_crash() {
    let bench = Bench::new();
    let began = bench.home.join("began");
    let script = Script::new().initialize(everything()).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        ("session/resume", Script::new().reply(json!({}))),
        ("session/prompt", Script::new().say("half").update(tool("in_progress")).touch(&began).hang()),
    ]);
    let argv = bench.agent(&script);
    let mut client = bench.client().await;
    let record = bench.open(&mut client, &argv).await;
    client.request("session/prompt", &super::prompt_params(&record, "first", json!({}))).await.unwrap();
    eventually("the turn began", || began.exists()).await;
    let mut raw = Raw::connect(&bench, "one").await;
    let shown = loop {
        let told = said(&raw.load(&bench, &record, json!({})).await.0);
        if told.len() == 3 {
            break told;
        }
    };
    assert_eq!(shown, ["user: first", "agent: half", "tool: \"look\" \"in_progress\""]);
    bench.kill_host().await;
    let _keeps_the_host = bench.client().await;
    let (told, _) = Raw::connect(&bench, "one").await.load(&bench, &record, json!({})).await;
    assert_eq!(said(&told), ["user: first", "agent: half", "tool: \"look\" \"failed\""]);
    assert_eq!(told[2]["update"]["_meta"]["acpx"]["status"], "cancelled");
}

#[tokio::test]
async fn overlong_output_is_left_out_of_a_replay_and_named() {
    let bench = Bench::new();
    let output = json!("0123456789");
    let mut call = tool("completed");
    call["rawOutput"] = output.clone();
    let script = Script::new().initialize(everything()).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        ("session/prompt", Script::new().update(call).end("end_turn")),
    ]);
    let argv = bench.agent(&script);
    let mut client = bench.client().await;
    let record = bench.open(&mut client, &argv).await;
    super::prompt(&mut client, &record, "x").await;
    let mut raw = Raw::connect(&bench, "one").await;
    for (bytes, told, left_out) in [
        (None, output.clone(), Value::Null),
        (Some(100), output, Value::Null),
        (Some(4), Value::Null, json!(["rawOutput"])),
    ] {
        let replay = json!({ "replay": { "toolOutputBytes": bytes } });
        let (updates, _) = raw.load(&bench, &record, replay).await;
        let call = &updates.last().unwrap()["update"];
        assert_eq!((&call["title"], &call["rawOutput"]), (&json!("look"), &told), "{bytes:?}: {call}");
        assert_eq!(call["_meta"]["acpx"]["leftOut"], left_out, "{bytes:?}: {call}");
    }
}
