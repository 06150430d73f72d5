//! `session/list` while sessions change.

use std::collections::BTreeSet;

use acpx_core::model::{AgentKey, HostId, Record, Scope, SessionName};
use acpx_core::store::{Access, SqliteStore, Store};
use acpx_testkit::Script;
use serde_json::{Value, json};

use super::Bench;
use crate::store_contract::samples::record;

#[tokio::test]
async fn paged_session_list_has_every_record_once_despite_changes() {
    let bench = Bench::new();
    bench.paths.make_home().unwrap();
    let store = SqliteStore::open(&bench.paths.store(), Access::ReadWrite).unwrap();
    let names: Vec<String> = (0..150).map(|number| format!("r{number:03}")).collect();
    for name in &names {
        let scope = Scope { agent: AgentKey::new("claude"), name: Some(SessionName::new(name).unwrap()) };
        let scoped = Record { scope: Some(scope), ..record(name, 5) };
        store.create(scoped, Vec::new(), HostId::new("before").unwrap()).await.unwrap();
    }
    drop(store);

    let mut client = bench.client().await;
    let (mut seen, mut params) = (Vec::new(), json!({}));
    for changed in ["r000", "r149"] {
        let page: Value = client.call("session/list", &params).await.unwrap();
        let rows = page["sessions"].as_array().unwrap();
        seen.extend(rows.iter().map(|row| row["sessionId"].as_str().unwrap().to_owned()));
        params = json!({ "cursor": page.get("nextCursor") });
        client.call::<Value>("_acpx/close", &json!({ "sessionId": changed })).await.unwrap();
    }
    assert_eq!(params, json!({ "cursor": null }));
    assert_eq!(seen.len(), 150);
    assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), names.into_iter().collect());
}

/// The ids of a page's rows, and the params that ask for the next one.
fn read(page: &Value) -> (Vec<&str>, Option<Value>) {
    let rows = page["sessions"].as_array().unwrap();
    let ids = rows.iter().map(|row| row["sessionId"].as_str().unwrap()).collect();
    (ids, page.get("nextCursor").map(|cursor| json!({ "cursor": cursor })))
}

fn capabilities() -> Value {
    json!({ "loadSession": true, "sessionCapabilities": { "list": {} } })
}

/// A page of an agent's list.
fn page(bench: &Bench, sessions: &[&str], next: Option<&str>) -> Value {
    let row = |session: &&str| json!({ "sessionId": session, "cwd": bench.home.path() });
    let mut page = json!({ "sessions": sessions.iter().map(row).collect::<Vec<_>>() });
    if let Some(next) = next {
        page["nextCursor"] = json!(next);
    }
    page
}

#[tokio::test]
async fn session_adopted_during_a_paged_list_stays_listed_under_its_id() {
    let bench = Bench::new();
    let go = bench.home.join("go");
    let list = Script::new().await_file(&go).reply(page(&bench, &["old-1", "old-2", "s1"], None));
    let script = Script::new().initialize(capabilities()).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        ("session/prompt", Script::new().end("end_turn")),
        ("session/list", list),
        ("session/load", Script::new().user_said("hello?").say("yes").reply(json!({}))),
    ]);
    let mut editor = bench.editor(&bench.agent(&script)).await;
    let ours = editor.open(&bench).await;
    editor.turn(&ours, "x").await;
    // The first page does not wait for an agent that takes longer than a second.
    let first = editor.call("session/list", json!({})).await.unwrap();
    let (rows, next) = read(&first);
    assert_eq!(rows, [ours.as_str()]);
    std::fs::write(&go, "").unwrap();
    editor.call("session/load", bench.load_params("old-2")).await.unwrap();
    let rest = editor.call("session/list", next.unwrap()).await.unwrap();
    assert_eq!(read(&rest), (vec!["old-1", "old-2"], None));
    let known = json!({ "acpxRecordId": "old-2", "acpxSessionId": "old-2" });
    assert_eq!(rest["sessions"][1]["_meta"]["acpx"], known);
    // A list that begins now has it among our records.
    let first = editor.call("session/list", json!({})).await.unwrap();
    assert_eq!(read(&first), (vec!["old-2", ours.as_str(), "old-1"], None));
}

#[tokio::test]
async fn the_next_session_list_uses_the_answer_of_a_slow_agent() {
    let bench = Bench::new();
    let go = bench.home.join("go");
    // The editor's initialize has the first start. A third start would list nothing.
    let script = Script::new()
        .initialize(capabilities())
        .next_start()
        .await_file(&go)
        .initialize(capabilities())
        .expect("session/list")
        .reply(page(&bench, &["old-1"], None))
        .next_start()
        .initialize(capabilities())
        .expect("session/list")
        .reply(page(&bench, &[], None));
    let mut editor = bench.editor(&bench.agent(&script)).await;
    let first = editor.call("session/list", json!({})).await.unwrap();
    assert_eq!(read(&first).0, [""; 0]);
    std::fs::write(&go, "").unwrap();
    let second = editor.call("session/list", json!({})).await.unwrap();
    assert_eq!(read(&second), (vec!["old-1"], None));
}

#[tokio::test]
async fn session_repeated_by_the_agents_list_is_listed_once() {
    let bench = Bench::new();
    let list = |script: Script, sessions: &[&str], next: Option<&str>| {
        script.expect("session/list").reply(page(&bench, sessions, next))
    };
    // It counts its rows, and two sessions come in front while it is read.
    let script = Script::new().initialize(capabilities()).next_start();
    let script = script.initialize(capabilities()).session_new("s1").prompt(|turn| turn.end("end_turn"));
    let script = list(script, &["a", "b", "c"], Some("3"));
    let script = list(script, &["c", "c", "d"], Some("6"));
    let script = list(script, &["d", "s1", "e"], None);
    let mut editor = bench.editor(&bench.agent(&script)).await;
    let ours = editor.open(&bench).await;
    editor.turn(&ours, "x").await;
    let (mut seen, mut next) = (Vec::new(), Some(json!({})));
    while let Some(params) = next {
        let page = editor.call("session/list", params).await.unwrap();
        let (rows, following) = read(&page);
        seen.extend(rows.into_iter().map(str::to_owned));
        next = following;
    }
    assert_eq!(seen, [ours.as_str(), "a", "b", "c", "d", "e"]);
}

/// An agent with a session of its own, which lists also what nobody has prompted.
fn with_a_session(bench: &Bench, new: &str) -> Vec<String> {
    let row = |session: &str, title: &str, at: &str| json!({ "sessionId": session, "cwd": bench.home.path(), "title": title, "updatedAt": at });
    let rows = [
        row("old", " An old one\n\n", "2020-01-01T00:00:00Z"),
        row("new", "A new one", "2120-01-01T00:00:00Z"),
        row("s1", "s1", "2026-11-15T00:00:00Z"),
        row("s2", "s2", "2026-11-15T00:00:00Z"),
    ];
    let script = Script::new().initialize(capabilities()).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": new }))),
        ("session/list", Script::new().reply(json!({ "sessions": rows }))),
        ("session/load", Script::new().reply(json!({}))),
        ("session/prompt", Script::new().say("done").end("end_turn")),
    ]);
    bench.agent(&script)
}

/// The title and the id of each row of a page that has no next one.
fn titled(page: &Value) -> Vec<(&str, &str)> {
    assert_eq!(page.get("nextCursor"), None, "{page}");
    let rows = page["sessions"].as_array().unwrap().iter();
    rows.map(|row| (row["title"].as_str().unwrap(), row["sessionId"].as_str().unwrap())).collect()
}

#[tokio::test]
async fn session_list_has_prompted_sessions_and_those_of_the_agent_by_time() {
    let bench = Bench::new();
    let agents = ["s1", "s2", "s3", "s4"].map(|new| with_a_session(&bench, new));
    let here = json!({ "cwd": bench.home.path() });
    // Toad, CodeCompanion and avante begin with a session that is perhaps never used.
    let mut editor = bench.editor(&agents[0]).await;
    let ours = editor.open(&bench).await;
    editor.turn(&ours, " hello Ada\nmore").await;
    drop(editor);
    for argv in &agents[1..3] {
        bench.editor(argv).await.open(&bench).await;
    }
    let argv = &agents[3];
    let expected = [("A new one", "new"), ("hello Ada", ours.as_str()), ("An old one", "old")];
    // CodeCompanion: a chat is opened, and `/resume` lists and loads.
    let mut code_companion = bench.editor(argv).await;
    code_companion.open(&bench).await;
    let page = code_companion.call("session/list", here.clone()).await.unwrap();
    assert_eq!(titled(&page), expected);
    code_companion.call("session/load", bench.load_params(&ours)).await.unwrap();
    // agent-shell reads one page before it has a session.
    let mut agent_shell = bench.editor(argv).await;
    let page = agent_shell.call("session/list", here).await.unwrap();
    assert_eq!(titled(&page), expected);
    agent_shell.call("session/resume", bench.load_params(&ours)).await.unwrap();
    // Toad knows its sessions itself.
    let mut toad = bench.editor(argv).await;
    toad.call("session/load", bench.load_params(&ours)).await.unwrap();
    assert_eq!(toad.turn(&ours, "again").await.stop_reason, "end_turn");
}

#[tokio::test]
async fn session_close_removes_a_session_that_was_never_prompted() {
    let bench = Bench::new();
    let argv = with_a_session(&bench, "s1");
    let (mut one, mut two) = (bench.editor(&argv).await, bench.editor(&argv).await);
    let record = one.open(&bench).await;
    let close = json!({ "sessionId": record });
    two.call("session/load", bench.load_params(&record)).await.unwrap();
    // Another client has it in use.
    one.call("session/close", close.clone()).await.unwrap();
    assert!(!bench.record(&record).await.lifecycle.is_deleted());
    two.call("session/close", close.clone()).await.unwrap();
    assert!(bench.record(&record).await.lifecycle.is_deleted());
    let gone = two.call("session/load", bench.load_params(&record)).await.unwrap_err();
    assert_eq!(gone["code"], -32002);
    // A session that was prompted stays, and so does one that a shell made.
    let prompted = one.open(&bench).await;
    one.turn(&prompted, "x").await;
    let mut shell = bench.client().await;
    let mut new = bench.new_params(&with_a_session(&bench, "s2"));
    new["_meta"]["acpx"]["shell"] = json!({});
    let made: Value = shell.call("session/new", &new).await.unwrap();
    let made = made["sessionId"].as_str().unwrap().to_owned();
    one.call("session/load", bench.load_params(&made)).await.unwrap();
    for session in [&prompted, &made] {
        one.call("session/close", json!({ "sessionId": session })).await.unwrap();
        assert!(!bench.record(session).await.lifecycle.is_deleted());
    }
}
