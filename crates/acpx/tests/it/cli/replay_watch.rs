//! `sessions replay` and `sessions watch`: what was said, and what is said, to those who only look.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::acpx::{Place, eventually};
use crate::contract;

/// A session with two turns.
fn two_turns() -> Place {
    let place = Place::new();
    place.ok(&["demo", "sessions", "new"]);
    place.ok(&["demo", "first words"]);
    place.ok(&["demo", "second words"]);
    place
}

fn turns(lines: &[Value]) -> Vec<u64> {
    let mut turns: Vec<u64> = lines.iter().filter_map(|line| line["turn"].as_u64()).collect();
    turns.dedup();
    turns
}

#[test]
fn session_is_replayed_from_any_cursor_without_host_or_agent() {
    let place = two_turns();
    place.ok(&["host", "stop"]);
    let all = place.json_lines(&["demo", "sessions", "replay"]);
    let numbers: Vec<_> = all.iter().map(|line| line["seq"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=all.len() as u64).collect::<Vec<_>>());
    all.iter().for_each(contract::check);
    assert_eq!(turns(&all), [1, 2]);
    let record = all[0]["acpxRecordId"].as_str().unwrap();
    let from = |place_of: &str| place.json_lines(&["demo", "sessions", "replay", "--from", place_of]);
    assert_eq!(from("start"), all);
    assert_eq!(from("seq:3"), all[2..]);
    let second = from("turn:2");
    assert_eq!((turns(&second), &second[..]), (vec![2], &all[all.len() - second.len()..]));
    assert_eq!(from(&format!("message:{record}:turn:2")), second);
    assert_eq!(place.json_lines(&["demo", "sessions", "replay", "--last", "1"]), second);
    let text = place.ok(&["demo", "sessions", "replay", "--from", "turn:2"]);
    assert!(
        text.starts_with("[user, turn 2] second words\n") && text.ends_with("[done] end_turn\n"),
        "{text}"
    );
    let quiet = place.ok(&["--format", "quiet", "demo", "sessions", "replay", "--last", "1"]);
    assert!(!quiet.contains("[user") && quiet.ends_with('\n'), "{quiet}");
    assert_eq!(place.processes(), [0; 0]);
    assert_eq!(place.json_lines(&["demo", "sessions", "replay", record]), all, "by its id");
    let nowhere = place.acpx(&["--format", "json", "demo", "sessions", "replay", "--from", "turn:3"]);
    assert_eq!((nowhere.failure().0.as_str(), nowhere.code), ("USAGE", Some(2)));
    assert_eq!(place.acpx(&["demo", "sessions", "replay", "--from", "end"]).code, Some(2));
}

#[test]
fn a_session_is_shown_again_and_watched_by_its_name() {
    let place = two_turns();
    place.ok(&["demo", "sessions", "new", "-s", "other"]);
    place.ok(&["demo", "-s", "other", "third words"]);
    let shown = place.ok(&["demo", "sessions", "replay", "other"]);
    assert!(shown.starts_with("[user, turn 1] third words\n"), "{shown}");
    let mut watching = place.start(&["demo", "sessions", "watch", "other", "--from", "start"]);
    watching.wait_for("[user, turn 1] third words");
    watching.signal(Signal::INT);
    let done = watching.done();
    assert!(done.code == Some(0) && !done.out.contains("first words"), "{done:?}");
}

#[test]
fn watch_shows_a_prompt_that_was_cancelled_before_it_was_sent() {
    let place = Place::new();
    place.ok(&["demo", "sessions", "new"]);
    let mut first = place.start(&["demo", "first", "wait"]);
    first.wait_for("Waiting until cancelled.");
    let mut watching = place.start(&["demo", "sessions", "watch", "--from", "start"]);
    watching.wait_for("Waiting until cancelled.");
    let second = place.start(&["demo", "second"]);
    place.until("the second prompt waits", |status| status["queued"] == 1);
    second.signal(Signal::INT);
    assert_eq!(second.done().code, Some(130));
    watching.wait_for("[user, turn 2] second");
    first.signal(Signal::INT);
    assert_eq!(first.done().code, Some(130));
    watching.signal(Signal::INT);
    let shown = watching.done().out;
    assert!(
        shown.contains("[user, turn 2] second\n") && shown.contains("[user, turn 1] first wait\n"),
        "{shown}"
    );
}

#[test]
fn watch_follows_other_clients_until_interrupted_and_starts_no_agent() {
    let place = two_turns();
    let kept = place.json_lines(&["demo", "sessions", "replay", "--from", "turn:2"]);
    let mut watching = place
        .command(&["--format", "json", "demo", "sessions", "watch", "--from", "turn:2"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    for event in &kept {
        assert_eq!(&next(), event);
    }
    place.ok(&["demo", "third words"]);
    let news = loop {
        let event = next();
        contract::check(&event);
        if event["message"]["fact"] == "turn_ended" {
            break event;
        }
    };
    assert_eq!(news["turn"], 3);
    let pid = rustix::process::Pid::from_raw(i32::try_from(watching.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    eventually("it ends", || watching.try_wait().unwrap().is_some());
    assert!(watching.wait().unwrap().success());
}

#[test]
fn watch_names_its_session_and_reports_its_close_and_deletion() {
    let place = Place::new();
    let made = place.json(&["demo", "sessions", "new", "-s", "api"]);
    let id = made["acpxRecordId"].as_str().unwrap();
    let watch = |flags: &[&str]| place.start(&[flags, &["demo", "sessions", "watch", "api"]].concat());
    let mut watching = watch(&[]);
    watching.wait_for_word("watching session api");
    let mut others = [
        watch(&["--from", "start", "--format", "json"]),
        watch(&["--from", "start", "--format", "json", "--json-strict"]),
        watch(&["--from", "start", "--format", "quiet"]),
    ];
    place.ok(&["demo", "-s", "api", "hello"]);
    watching.wait_for("[done] end_turn");
    for other in &mut others {
        other.wait_for("You said: hello");
    }
    place.ok(&["demo", "sessions", "close", "api"]);
    watching.wait_for_word("closed");
    place.ok(&["sessions", "delete", id]);
    let work = place.work();
    let told = |begin: &str| {
        format!(
            "[acpx] watching session api ({id}) · {} · {begin}, until interrupted\n\
             [acpx] the session was closed\n\
             [acpx] the session was deleted; there is nothing more to watch\n",
            work.display()
        )
    };
    let done = watching.done();
    assert_eq!((done.err, done.code), (told("from now on"), Some(0)));
    let [json, strict, quiet] = others.map(|other| {
        let done = other.done();
        assert_eq!(done.code, Some(0), "{done:?}");
        done.err
    });
    assert_eq!((json, strict, quiet), (told("from the start"), String::new(), String::new()));
}

#[test]
fn watch_of_a_closed_session_shows_its_events_and_ends() {
    let place = Place::new();
    let made = place.json(&["demo", "sessions", "new", "-s", "api"]);
    let id = made["acpxRecordId"].as_str().unwrap();
    place.ok(&["demo", "-s", "api", "hello"]);
    place.ok(&["demo", "sessions", "close", "api"]);
    place.ok(&["host", "stop"]);
    let watched = place.acpx(&["demo", "sessions", "watch", "api"]);
    let banner =
        format!("[acpx] session api ({id}) · {} is closed; this is what there is\n", place.work().display());
    assert_eq!((watched.err.as_str(), watched.code), (banner.as_str(), Some(0)));
    assert_eq!(watched.out, place.ok(&["demo", "sessions", "replay", "api"]));
    assert!(watched.out.contains("You said: hello"), "{watched:?}");
    let json = place.json_lines(&["demo", "sessions", "watch", "api"]);
    assert_eq!(json, place.json_lines(&["demo", "sessions", "replay", "api"]));
    assert_eq!(place.json(&["host", "status"])["status"], json!("stopped"), "no host was started for it");
}

#[test]
fn watch_continues_after_the_cursor_of_an_event() {
    let place = Place::new();
    place.ok(&["demo", "sessions", "new", "--name", "api"]);
    place.ok(&["demo", "-s", "api", "first words"]);
    place.ok(&["demo", "sessions", "close", "api"]);
    let all = place.json_lines(&["demo", "sessions", "replay", "api"]);
    let cursor = all[2]["cursor"].as_str().unwrap();
    assert_eq!(cursor, "seq:4");
    let rest = place.json_lines(&["demo", "sessions", "watch", "--name", "api", "--cursor", cursor]);
    assert_eq!(rest, all[3..]);
    let last = all.last().unwrap()["cursor"].as_str().unwrap();
    assert_eq!(place.ok(&["--format", "json", "demo", "sessions", "watch", "api", "--cursor", last]), "");
    let npm = place.acpx(&["demo", "sessions", "watch", "api", "--cursor", "WyJmYjU0LDFd"]);
    assert!(npm.code == Some(2) && npm.err.contains("such as seq:12"), "{npm:?}");
}
