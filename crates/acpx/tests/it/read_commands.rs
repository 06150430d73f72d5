//! Commands that only read: they open the store themselves, and start nothing.

use std::path::Path;

use acpx_core::model::{
    AbsolutePath, AcpSessionId, AgentSessionId, AgentSpec, HostId, Lifecycle, Lineage, LineageReason, Record,
    RecordId, Scope, SessionName, Timestamp,
};
use acpx_core::store::{Access, SqliteStore, Store};
use serde_json::{Value, json};

use crate::acpx::{Done, Place};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000 + seconds * 1000).unwrap()
}

/// A session of `demo` that lost its first ACP session.
fn record(id: &str, name: Option<&str>, directory: &Path) -> Record {
    let mut lineage = Lineage::begin(AcpSessionId::new("s1").unwrap(), None, at(0));
    lineage.replace(
        AcpSessionId::new("s2").unwrap(),
        AgentSessionId::from_agent("inner-2"),
        LineageReason::AgentLost,
        at(5),
    );
    let agent = AgentSpec::new("acpx", ["demo-agent"]).named("demo");
    let cwd = AbsolutePath::from_path(directory).unwrap();
    Record {
        id: RecordId::new(id).unwrap(),
        scope: Some(Scope { agent: agent.key(), name: name.map(|name| SessionName::new(name).unwrap()) }),
        agent,
        real_cwd: cwd.clone(),
        additional_directories: Vec::new(),
        cwd,
        mcp_servers: Vec::new(),
        info: acpx_core::model::SessionInfo::default(),
        lifecycle: Lifecycle::Open,
        lineage,
        agent_run: None,
        settings: acpx_core::model::RecordSettings::default(),
        memory: acpx_core::model::AgentMemory::default(),
        restore_error: None,
        created_at: at(0),
        updated_at: at(9),
        last_seq: None,
        last_turn: None,
        answered_turns: 0,
    }
}

fn keep(place: &Place, records: Vec<Record>) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let store = SqliteStore::open(&place.acpx_home().join("acpx.db"), Access::ReadWrite).unwrap();
    for record in records {
        let host = HostId::new("test").unwrap();
        runtime.block_on(store.create(record, Vec::new(), host)).unwrap();
    }
}

fn json_of(done: &Done) -> Value {
    assert_eq!((done.err.as_str(), done.code), ("", Some(0)), "{done:?}");
    done.json()
}

/// Every key of every object in a value.
fn keys(value: &Value) -> Vec<String> {
    match value {
        Value::Object(map) => {
            map.iter().flat_map(|(key, value)| [vec![key.clone()], keys(value)].concat()).collect()
        }
        Value::Array(items) => items.iter().flat_map(keys).collect(),
        Value::Null => panic!("there is a null"),
        _ => Vec::new(),
    }
}

#[test]
fn a_home_without_a_store_has_no_sessions_and_stays_without_one() {
    let place = Place::new();
    assert_eq!(json_of(&place.acpx(&["demo", "status", "--format", "json"]))["status"], "no-session");
    assert_eq!(json_of(&place.acpx(&["sessions", "list", "--format", "json"])), json!([]));
    assert_eq!(place.acpx(&["sessions"]).out, "No sessions\n");
    let found = place.acpx(&["demo", "-s", "api", "sessions", "show"]);
    let err = format!(
        "acpx: there is no session named \"api\" of demo in {}; nothing above it was searched, as it is in no git repository\n\
         hint: acpx sessions list shows the sessions there are\n",
        place.work().display()
    );
    assert_eq!(found, Done { out: String::new(), err, code: Some(4) });
    assert_eq!(std::fs::read_dir(place.acpx_home()).unwrap().count(), 0, "nothing was made");
}

#[test]
fn status_reads_ids_with_no_host_and_no_agent() {
    let place = Place::new();
    keep(&place, vec![record("r1", None, &place.work())]);
    let status = json_of(&place.acpx(&["demo", "status", "--format", "json"]));
    let expected = json!({
        "action": "status_snapshot", "status": "idle",
        "summary": "no agent runs; the next prompt starts one",
        "acpxRecordId": "r1", "acpxSessionId": "s2", "agentSessionId": "inner-2",
        "agentName": "demo", "agentCommand": status["agentCommand"], "cwd": place.work(), "queued": 0,
    });
    assert_eq!(status, expected);
    let left: Vec<_> =
        std::fs::read_dir(place.acpx_home()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(
        left.iter().all(|name| name.to_str().unwrap().starts_with("acpx.db")),
        "no host was started: {left:?}"
    );
}

#[test]
fn every_reading_command_walks_up_to_the_git_root() {
    let place = Place::new();
    let deep = place.work().join("a/b");
    std::fs::create_dir_all(&deep).unwrap();
    std::fs::create_dir(place.work().join(".git")).unwrap();
    keep(&place, vec![record("r1", None, &place.work()), record("r2", Some("api"), &place.work().join("a"))]);
    for verb in [&["status"][..], &["sessions", "show"], &["sessions", "history"]] {
        let line = [&["--format", "json", "demo"], verb].concat();
        assert_eq!(json_of(&place.acpx_in(&deep, &line))["acpxRecordId"], "r1", "{line:?}");
        let named = [&line[..], &["-s", "api"]].concat();
        assert_eq!(json_of(&place.acpx_in(&deep, &named))["acpxRecordId"], "r2", "{named:?}");
        let elsewhere = [&line[..], &["-s", "other"]].concat();
        let code = if verb == ["status"] { Some(0) } else { Some(4) };
        assert_eq!(place.acpx_in(&deep, &elsewhere).code, code, "{elsewhere:?}");
    }
}

#[test]
fn record_is_printed_with_canonical_names_only() {
    let place = Place::new();
    keep(&place, vec![record("r1", Some("api"), &place.work())]);
    let shown = json_of(&place.acpx(&["demo", "sessions", "show", "api", "--format", "json"]));
    let listed = json_of(&place.acpx(&["sessions", "list", "--format", "json"]));
    let history = json_of(&place.acpx(&["demo", "sessions", "history", "api", "--format", "json"]));
    for value in [&shown, &listed[0], &history] {
        let ids = (&value["acpxRecordId"], &value["acpxSessionId"], &value["agentSessionId"]);
        assert_eq!(ids, (&json!("r1"), &json!("s2"), &json!("inner-2")), "{value}");
        for key in keys(value) {
            assert!(
                !["id", "sessionId", "runtimeSessionId", "acpSessionId"].contains(&key.as_str()),
                "{key} in {value}"
            );
            assert!(!key.contains('_'), "{key} in {value}");
        }
    }
    let lineage = json!([
        {"acpxSessionId": "s1", "from": "2023-11-14T22:13:20.000Z", "to": "2023-11-14T22:13:25.000Z", "reason": "created"},
        {"acpxSessionId": "s2", "agentSessionId": "inner-2", "from": "2023-11-14T22:13:25.000Z", "reason": "agent-lost"},
    ]);
    assert_eq!(shown["lineage"], lineage);
}

#[test]
fn list_covers_one_agent_or_all_and_one_directory_or_all() {
    let place = Place::new();
    let other = place.work().join("other");
    std::fs::create_dir(&other).unwrap();
    keep(&place, vec![record("r1", None, &place.work()), record("r2", None, &other)]);
    let ids = |line: &[&str]| {
        let rows = json_of(&place.acpx(&[&["--format", "json"], line].concat()));
        rows.as_array()
            .unwrap()
            .iter()
            .map(|row| row["acpxRecordId"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(&["sessions", "list"]), ["r2", "r1"]);
    assert_eq!(ids(&["demo", "sessions", "--local"]), ["r2", "r1"]);
    assert_eq!(ids(&["claude", "sessions"]), [""; 0]);
    assert_eq!(ids(&["sessions", "list", "--filter-cwd", "other"]), ["r2"]);
}

#[test]
fn a_store_that_cannot_be_read_is_an_error_with_its_code() {
    let place = Place::new();
    std::fs::write(place.acpx_home().join("acpx.db"), "no store at all, and longer than a header").unwrap();
    let found = place.acpx(&["status", "--format", "json"]);
    let error = &found.json()["error"];
    assert_eq!((&error["data"]["detailCode"], found.code), (&json!("STORE_CORRUPT"), Some(1)), "{error}");
    assert!(error["data"]["hint"].is_string(), "{error}");
}

#[test]
fn sessions_read_prints_every_entry_of_the_history_in_full() {
    let place = Place::new();
    place.ok(&["demo", "sessions", "new"]);
    let long = "word ".repeat(1000);
    place.ok(&["demo", &long]);
    place.ok(&["demo", "second"]);
    place.ok(&["host", "stop"]);
    let read = place.json(&["demo", "sessions", "read"]);
    let text = |index: usize| read["entries"][index]["textPreview"].as_str().unwrap().to_owned();
    let counts = ["limit", "count", "total"].map(|member| read[member].as_u64().unwrap());
    assert_eq!((counts, text(0), text(2)), ([0, 4, 4], long.trim().to_owned(), "second".to_owned()));
    let tail = place.json(&["demo", "sessions", "read", "--tail", "1"]);
    let counts = ["limit", "count"].map(|member| tail[member].as_u64().unwrap());
    assert_eq!((counts, &tail["entries"][0]), ([1, 1], &read["entries"][3]));
    let lines = place.ok(&["--format", "quiet", "demo", "sessions", "read"]);
    assert_eq!(lines.lines().next(), Some(long.trim()));
    assert_eq!(place.processes(), [0; 0]);
}
