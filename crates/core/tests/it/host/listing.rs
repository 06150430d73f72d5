//! `session/list` while sessions change.

use std::collections::BTreeSet;

use acpx_core::model::HostId;
use acpx_core::store::{Access, SqliteStore, Store};
use acpx_testkit::Script;
use serde_json::{Value, json};

use super::Bench;
use crate::store_contract::samples::record;

#[tokio::test]
async fn a_list_that_is_read_page_by_page_has_every_record_once_though_they_change_meanwhile() {
    let bench = Bench::new();
    bench.place.make_home().unwrap();
    let store = SqliteStore::open(&bench.place.store(), Access::ReadWrite).unwrap();
    let names: Vec<String> = (0..150).map(|number| format!("r{number:03}")).collect();
    for name in &names {
        store.create(record(name, 5), Vec::new(), HostId::new("before").unwrap()).await.unwrap();
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
async fn a_session_that_is_adopted_while_a_list_is_read_is_still_in_it_and_under_its_id() {
    let bench = Bench::new();
    let script = Script::new().initialize(capabilities()).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        ("session/list", Script::new().reply(page(&bench, &["old-1", "old-2", "s1"], None))),
        ("session/load", Script::new().user_said("hello?").say("yes").reply(json!({}))),
    ]);
    let mut editor = bench.editor(&bench.agent(&script)).await;
    let ours = editor.open(&bench).await;
    let first = editor.call("session/list", json!({})).await.unwrap();
    let (rows, next) = read(&first);
    assert_eq!(rows, [ours.as_str()]);
    editor.call("session/load", bench.load_params("old-2")).await.unwrap();
    let rest = editor.call("session/list", next.unwrap()).await.unwrap();
    assert_eq!(read(&rest), (vec!["old-1", "old-2"], None));
    let known = json!({ "acpxRecordId": "old-2", "acpxSessionId": "old-2" });
    assert_eq!(rest["sessions"][1]["_meta"]["acpx"], known);
    // A list that begins now has it among our records.
    let first = editor.call("session/list", json!({})).await.unwrap();
    let (rows, next) = read(&first);
    assert_eq!(rows, ["old-2", ours.as_str()]);
    let rest = editor.call("session/list", next.unwrap()).await.unwrap();
    assert_eq!(read(&rest), (vec!["old-1"], None));
}

#[tokio::test]
async fn what_an_agent_tells_again_because_sessions_appeared_is_listed_once() {
    let bench = Bench::new();
    let list = |script: Script, sessions: &[&str], next: Option<&str>| {
        script.expect("session/list").reply(page(&bench, sessions, next))
    };
    // It counts its rows, and two sessions come in front while it is read.
    let script = Script::new().initialize(capabilities()).next_start();
    let script = script.initialize(capabilities()).session_new("s1");
    let script = list(script, &["a", "b", "c"], Some("3"));
    let script = list(script, &["c", "c", "d"], Some("6"));
    let script = list(script, &["d", "s1", "e"], None);
    let mut editor = bench.editor(&bench.agent(&script)).await;
    let ours = editor.open(&bench).await;
    let (mut seen, mut next) = (Vec::new(), Some(json!({})));
    while let Some(params) = next {
        let page = editor.call("session/list", params).await.unwrap();
        let (rows, following) = read(&page);
        seen.extend(rows.into_iter().map(str::to_owned));
        next = following;
    }
    assert_eq!(seen, [ours.as_str(), "a", "b", "c", "d", "e"]);
}
