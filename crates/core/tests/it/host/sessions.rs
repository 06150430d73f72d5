//! `_acpx/sessions`, `_acpx/history`, `_acpx/agents` and the subscriptions: what a client that shows many sessions gets.

use acpx_core::model::{HostId, Timestamp};
use acpx_core::store::{Access, PAGE_BYTES, SqliteStore, Store};
use acpx_testkit::Script;
use serde_json::{Value, json};

use super::editor::Editor;
use super::{Bench, in_time, prompt, prompt_params, refusal};
use crate::engine::everything;
use crate::store_contract::samples::record;

/// An agent that answers every prompt.
fn answering() -> Script {
    Script::new().initialize(everything()).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        ("session/prompt", Script::new().say("first ").say("second").end("end_turn")),
    ])
}

/// The params of the next notification of a method.
async fn notification(editor: &mut Editor, method: &str) -> Value {
    let line = in_time(method, editor.until(|line| line["method"] == method)).await;
    line["params"].clone()
}

#[tokio::test]
async fn session_rows_come_last_changed_first_and_page_by_cursor() {
    let bench = Bench::new();
    bench.paths.make_home().unwrap();
    let store = SqliteStore::open(&bench.paths.store(), Access::ReadWrite).unwrap();
    for number in 0..5_i64 {
        let mut stored = record(&format!("r{number}"), 5);
        stored.updated_at = Timestamp::from_millis(1_000_000 + number).unwrap();
        let scope = acpx_core::model::Scope {
            agent: stored.agent.key(),
            name: Some(acpx_core::model::SessionName::new(&format!("n{number}")).unwrap()),
        };
        stored.scope = Some(scope);
        store.create(stored, Vec::new(), HostId::new("before").unwrap()).await.unwrap();
    }
    drop(store);
    let mut client = bench.client().await;
    let (mut seen, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let page: Value =
            client.call("_acpx/sessions", &json!({ "limit": 2, "cursor": cursor })).await.unwrap();
        let rows = page["sessions"].as_array().unwrap();
        assert!(rows.len() <= 2, "{page}");
        seen.extend(rows.iter().map(|row| row["acpxRecordId"].as_str().unwrap().to_owned()));
        assert!(rows.iter().all(|row| row["state"] == "parked"), "{page}");
        match page.get("nextCursor") {
            Some(next) => cursor = next.clone(),
            None => break,
        }
    }
    assert_eq!(seen, ["r4", "r3", "r2", "r1", "r0"]);
    let wrong = refusal(&mut client, "_acpx/sessions", &json!({ "cursor": "x" })).await;
    assert_eq!(wrong.number, -32602);
}

#[tokio::test]
async fn unprompted_session_has_a_row_only_by_its_id() {
    let bench = Bench::new();
    let mut client = bench.client().await;
    let record = bench.open(&mut client, &bench.agent(&answering())).await;
    client.close().await;
    let mut other = bench.client().await;
    let listed: Value = other.call("_acpx/sessions", &json!({})).await.unwrap();
    assert_eq!(listed, json!({ "sessions": [] }));
    let ids = json!({ "ids": [record, "none", ""] });
    let listed: Value = other.call("_acpx/sessions", &ids).await.unwrap();
    let rows = listed["sessions"].as_array().unwrap();
    let rows: Vec<_> = rows.iter().map(|row| (&row["acpxRecordId"], &row["cwd"])).collect();
    assert_eq!(rows, [(&json!(record), &json!(bench.home.path()))]);
}

#[tokio::test]
async fn subscriber_gets_changed_rows_and_removed_records() {
    let bench = Bench::new();
    let argv = bench.agent(&answering());
    let (mut watcher, mut client) = (bench.editor(&argv).await, bench.client().await);
    let empty = watcher.call("_acpx/sessions", json!({ "subscribe": true })).await.unwrap();
    assert_eq!(empty, json!({ "sessions": [] }));
    let record = bench.open(&mut client, &argv).await;
    prompt(&mut client, &record, "hello").await;
    let row = loop {
        let changes = notification(&mut watcher, "_acpx/sessions/changed").await;
        let row = changes["changed"][0].clone();
        if row["state"] == "idle" {
            break row;
        }
    };
    assert_eq!(row["acpxRecordId"], *record);
    assert_eq!(row["title"], "hello");
    assert_eq!(row["lastMessage"], json!({ "role": "agent", "text": "first second" }));
    assert_eq!(row["outcome"], "end_turn");
    client.call::<Value>("session/delete", &json!({ "sessionId": record })).await.unwrap();
    loop {
        let changes = notification(&mut watcher, "_acpx/sessions/changed").await;
        if changes["removed"] == json!([record]) {
            break;
        }
    }
}

#[tokio::test]
async fn last_message_of_a_row_follows_events_larger_than_a_page() {
    let bench = Bench::new();
    let large = "x".repeat(PAGE_BYTES);
    let tool = |id: &str| json!({ "sessionUpdate": "tool_call", "toolCallId": id, "title": "read", "rawInput": large });
    let turn = Script::new().update(tool("t1")).update(tool("t2")).say("the ").say("end").end("end_turn");
    let script = Script::new().initialize(everything()).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        ("session/prompt", turn),
    ]);
    let mut client = bench.client().await;
    let record = bench.open(&mut client, &bench.agent(&script)).await;
    prompt(&mut client, &record, "hello").await;
    let page: Value = client.call("_acpx/sessions", &json!({})).await.unwrap();
    assert_eq!(page["sessions"][0]["lastMessage"], json!({ "role": "agent", "text": "the end" }));
}

#[tokio::test]
async fn pending_subscriber_gets_the_list_after_each_change() {
    let bench = Bench::new();
    let script = Script::new().initialize(everything()).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        ("session/prompt", Script::new().ask_permission("t1").say("done").end("end_turn")),
    ]);
    let argv = bench.agent(&script);
    let (mut watcher, mut rows) = (bench.editor(&argv).await, bench.editor(&argv).await);
    let (mut client, mut other) = (bench.client().await, bench.client().await);
    let params = || json!({ "subscribe": true });
    let empty = watcher.call("_acpx/pending", params()).await.unwrap();
    assert_eq!(empty, json!({ "questions": [] }));
    rows.call("_acpx/sessions", params()).await.unwrap();
    let record = bench.open(&mut client, &argv).await;
    client.request("session/prompt", &prompt_params(&record, "edit", json!({}))).await.unwrap();
    let listed = loop {
        let listed = notification(&mut watcher, "_acpx/pending/changed").await;
        if listed["questions"][0].is_object() {
            break listed;
        }
    };
    loop {
        let changes = notification(&mut rows, "_acpx/sessions/changed").await;
        if changes["changed"][0]["state"] == "waiting" {
            break;
        }
    }
    let id = &listed["questions"][0]["questionId"];
    other.call::<Value>("_acpx/answer", &json!({ "questionId": id, "approve": true })).await.unwrap();
    while notification(&mut watcher, "_acpx/pending/changed").await != json!({ "questions": [] }) {}
}

#[tokio::test]
async fn history_pages_back_by_turns_without_attaching() {
    let bench = Bench::new();
    let mut client = bench.client().await;
    let record = bench.open(&mut client, &bench.agent(&answering())).await;
    for text in ["one", "two", "three"] {
        prompt(&mut client, &record, text).await;
    }
    let mut reader = bench.client().await;
    let (mut before, mut seen) = (Value::Null, Vec::new());
    loop {
        let params = json!({ "sessionId": record, "before": before, "turns": 1 });
        let page: Value = reader.call("_acpx/history", &params).await.unwrap();
        let updates = page["updates"].as_array().unwrap();
        let kind = |update: &Value| update["update"]["sessionUpdate"].as_str().unwrap().to_owned();
        let text =
            |update: &Value| update["update"]["content"]["text"].as_str().unwrap_or_default().to_owned();
        seen.push(updates.iter().filter(|one| kind(one).contains("message")).map(text).collect::<Vec<_>>());
        assert!(updates.iter().all(|one| one["sessionId"] == *record));
        before = page["from"].clone();
        if page["more"] == false {
            break;
        }
        assert!(seen.len() < 6, "{seen:?}");
    }
    let said = |text: &str| vec![text.to_owned(), "first second".to_owned()];
    let expected = [said("three"), said("two"), said("one")];
    assert_eq!(seen[..3], expected);
    let unknown = refusal(&mut reader, "_acpx/history", &json!({ "sessionId": "none" })).await;
    assert_eq!(unknown.number, -32002);
}

#[tokio::test]
async fn history_says_how_each_unfinished_turn_ended() {
    let bench = Bench::new();
    let turn = |reason: &'static str| move |turn: Script| turn.say("said").end(reason);
    let script = Script::new().initialize(everything()).session_new("s1").prompt(turn("cancelled"));
    let script =
        script.prompt(turn("end_turn")).refuse("session/prompt", json!({ "code": 1, "message": "no" }));
    let mut editor = bench.speaking(2, 1, &bench.agent(&script.prompt(turn("max_tokens")))).await;
    let record = editor.open(&bench).await;
    for text in ["one", "two", "three", "four"] {
        let id = editor.ask("session/prompt", prompt_params(&record, text, json!({}))).await;
        editor.answer(id).await.0.unwrap();
        editor.until_idle().await;
    }
    let page = editor.call("_acpx/history", json!({ "sessionId": record })).await.unwrap();
    let shown = page["updates"].as_array().unwrap().iter().filter_map(|params| {
        let update = &params["update"];
        match update["sessionUpdate"].as_str()? {
            "user_message" => update["content"][0]["text"].as_str(),
            "state_update" if params["_meta"]["acpx"]["seq"].is_u64() => update["stopReason"].as_str(),
            _ => None,
        }
    });
    let shown: Vec<_> = shown.collect();
    assert_eq!(shown, ["one", "cancelled", "two", "three", "error", "four", "max_tokens"], "{page}");
}

#[tokio::test]
async fn directories_of_records_and_queued_content_are_listed() {
    let bench = Bench::new();
    let hold = bench.home.join("go");
    let modes = json!({ "currentModeId": "ask", "availableModes": [{ "id": "ask", "name": "Ask" }, { "id": "code", "name": "Code" }] });
    let script = Script::new().initialize(everything()).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1", "modes": modes }))),
        ("session/prompt", Script::new().await_file(&hold).end("end_turn")),
    ]);
    let mut client = bench.client().await;
    let record = bench.open(&mut client, &bench.agent(&script)).await;
    for text in ["a", "b\nc"] {
        client.request("session/prompt", &prompt_params(&record, text, json!({}))).await.unwrap();
    }
    let mut other = bench.client().await;
    let queued = async {
        loop {
            let queue: Value = other.call("_acpx/queue", &json!({ "full": true })).await.unwrap();
            if queue["prompts"][0].is_object() {
                return queue;
            }
        }
    };
    let queue = in_time("a prompt is queued", queued).await;
    assert_eq!(queue["prompts"][0]["content"], json!([{ "type": "text", "text": "b\nc" }]));
    let rows: Value = other.call("_acpx/sessions", &json!({})).await.unwrap();
    assert_eq!(
        (&rows["sessions"][0]["state"], &rows["sessions"][0]["queued"], rows["sessions"][0].get("outcome")),
        (&json!("working"), &json!(1), None)
    );
    let known: Value = other.call("_acpx/agents", &json!({})).await.unwrap();
    let value = |value: &str| json!({ "value": value, "name": value });
    let mode = json!({
        "configId": "acpx.mode",
        "name": "Mode",
        "category": "mode",
        "type": "select",
        "currentValue": "ask",
        "options": [value("ask"), value("code")],
    });
    assert_eq!(known["agents"], json!([{ "name": "scripted", "lastUsed": true, "options": [mode] }]));
    assert_eq!(known["directories"][0]["cwd"], json!(bench.home.path()));
    std::fs::write(&hold, "").unwrap();
}
