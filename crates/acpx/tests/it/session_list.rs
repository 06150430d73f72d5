//! The list of sessions: what each is doing and has cost, and the table on a terminal.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;

use acpx_testkit::Script;
use serde_json::{Value, json};

use crate::acpx::{Place, eventually};
use crate::terminal::OnTerminal;

/// What the sessions are doing, by name.
fn states(place: &Place) -> BTreeMap<String, String> {
    let rows = place.json(&["sessions", "ls"]);
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    rows.as_array().unwrap().iter().map(|row| (text(&row["name"]), text(&row["state"]))).collect()
}

fn state_of(place: &Place, name: &str) -> String {
    states(place).remove(name).unwrap_or_default()
}

#[test]
fn session_list_has_the_state_of_every_session() {
    let place = Place::new();
    for name in ["quiet", "works", "asks"] {
        place.ok(&["demo", "sessions", "new", "--name", name]);
    }
    place.ok(&["demo", "-s", "quiet", "hello"]);
    assert_eq!(state_of(&place, "quiet"), "idle");
    place.ok(&["demo", "-s", "works", "prompt", "--no-wait", "wait 60000"]);
    eventually("it works", || state_of(&place, "works") == "working");
    place.ok(&[
        "demo",
        "-s",
        "asks",
        "--non-interactive-permissions",
        "wait",
        "prompt",
        "--no-wait",
        "permission",
    ]);
    eventually("it waits for an answer", || state_of(&place, "asks") == "waiting");
    place.ok(&["demo", "sessions", "close", "asks"]);
    place.ok(&["demo", "cancel", "-s", "works"]);
    eventually("the turn has ended", || state_of(&place, "works") == "idle");
    place.ok(&["host", "stop"]);
    let expected = [("asks", "closed"), ("quiet", "parked"), ("works", "parked")];
    let expected = expected.map(|(name, state)| (name.to_owned(), state.to_owned()));
    assert_eq!(states(&place), BTreeMap::from(expected));
}

#[test]
fn session_list_has_the_usage_that_the_agent_last_reported() {
    let usage = |used: u32| json!({ "sessionUpdate": "usage_update", "used": used, "size": 200, "cost": { "amount": 0.25, "currency": "USD" } });
    let turn = Script::new().update(usage(5)).update(usage(53)).end("end_turn");
    let place = Place::new();
    place.scripted(&Script::new().initialize(json!({})).session_new("s1").serve([("session/prompt", turn)]));
    place.ok(&["scripted", "sessions", "new"]);
    assert_eq!(place.json(&["sessions", "list"])[0].get("usage"), None);
    place.ok(&["scripted", "go"]);
    let expected = json!({ "used": 53, "size": 200, "cost": { "amount": 0.25, "currency": "USD" } });
    assert_eq!(place.json(&["sessions", "list"])[0]["usage"], expected);
    let mut terminal = OnTerminal::start(&place.command(&["sessions"]));
    assert_eq!(terminal.done(), Some(0));
    assert!(terminal.rows()[1].contains(" just now  $0.25  "), "{:#?}", terminal.rows());
}

#[test]
fn session_table_on_a_terminal_has_this_directory_first_and_short_ids() {
    let place = Place::new();
    let other = place.work().join("other");
    std::fs::create_dir(&other).unwrap();
    place.ok(&["demo", "sessions", "new", "--name", "api"]);
    place.ok(&["demo", "-s", "api", "hello"]);
    place.acpx_in(&other, &["demo", "sessions", "new"]);
    place.acpx_in(&other, &["demo", "mend the roof"]);
    let table = |columns: u16, words: &[&str]| {
        let mut terminal = OnTerminal::sized(&place.command(words), columns, 24);
        assert_eq!(terminal.done(), Some(0), "{}", terminal.seen);
        terminal.rows()
    };
    let rows = table(120, &["sessions", "list"]);
    let words: Vec<Vec<&str>> = rows
        .iter()
        .map(|row| row.split("  ").map(str::trim).filter(|word| !word.is_empty()).collect())
        .collect();
    assert_eq!(words[0], ["STATE", "AGENT", "SESSION", "DIRECTORY", "USED", "ID"]);
    assert_eq!(words[1][..5], ["idle", "demo", "api", ".", "just now"]);
    assert_eq!(words[2][..3], ["idle", "demo", "mend the roof"]);
    assert!(words[2][3].ends_with("/other"), "{rows:#?}");
    assert_eq!(rows.len(), 3);
    let id = words[2][5];
    let shown = place.json(&["sessions", "show", id]);
    assert_eq!(shown["title"], "mend the roof");
    let rows = table(40, &["sessions", "--limit", "1"]);
    assert_eq!(rows.len(), 3, "{rows:#?}");
    assert!(rows[1].starts_with("idle   demo   api  "), "{rows:#?}");
    assert_eq!(rows[2], "Only 1 are shown: --limit N shows more");
    assert!(table(20, &["sessions"]).iter().all(|row| row.chars().count() <= 20));
    let rows = table(80, &["--agent", "./none", "sessions"]);
    assert_eq!(rows, ["No sessions. Start one: acpx --agent ./none 'your prompt'"]);
}

#[test]
fn pages_of_the_session_list_have_every_session_once() {
    let place = Place::new();
    for name in ["a", "b", "c", "d", "e"] {
        place.ok(&["demo", "sessions", "new", "--name", name]);
    }
    let (mut cursor, mut names, mut sizes) = ("start".to_owned(), Vec::new(), Vec::new());
    loop {
        let page = place.json(&["sessions", "list", "--limit", "2", "--cursor", &cursor]);
        crate::contract::validate("agent_sessions", &page);
        let sessions = page["sessions"].as_array().unwrap();
        sizes.push(sessions.len());
        names.extend(sessions.iter().map(|row| row["name"].as_str().unwrap().to_owned()));
        let Some(next) = page["nextCursor"].as_str() else { break };
        cursor = next.to_owned();
    }
    assert_eq!((names.concat(), sizes), ("edcba".to_owned(), vec![2, 2, 1]));
    let text = place.ok(&["sessions", "list", "--cursor", "start", "--limit", "4"]);
    let last = text.lines().last().unwrap();
    let next = last.strip_prefix("Next cursor: ").unwrap();
    let rest = place.ok(&["sessions", "list", "--cursor", next]);
    assert!(rest.lines().count() == 1 && rest.contains("\ta\t"), "{rest}");
    let wrong = place.acpx(&["sessions", "list", "--cursor", "7"]);
    assert!(wrong.code == Some(2) && wrong.err.contains("--cursor start"), "{wrong:?}");
}
