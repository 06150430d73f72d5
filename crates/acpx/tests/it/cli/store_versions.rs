//! Stores that cannot be used as they should: each is told by its own code, whoever meets it, and stays as it is.

use std::path::PathBuf;

use rusqlite::Connection;
use serde_json::json;

use crate::acpx::{Done, Place};

/// A place with a session in which one thing was said, and no host.
fn begun() -> (Place, PathBuf) {
    let place = Place::new();
    place.ok(&["demo", "sessions", "new"]);
    place.ok(&["demo", "My name is Ada."]);
    place.ok(&["host", "stop"]);
    let store = place.acpx_home().join("acpx.db");
    (place, store)
}

fn set_format(store: &PathBuf, version: i64) -> i64 {
    let file = Connection::open(store).unwrap();
    let before = file.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    file.pragma_update(None, "user_version", version).unwrap();
    before
}

/// What commands that read and commands that write say.
fn everybody(place: &Place) -> Vec<(&'static str, Done)> {
    let run = |line: &[&str]| place.acpx(&[&["--format", "json", "--json-strict", "demo"], line].concat());
    vec![
        ("status", run(&["status"])),
        ("list", run(&["sessions", "list"])),
        ("history", run(&["sessions", "history"])),
        ("prompt", run(&["recall"])),
        ("new", run(&["sessions", "new", "--name", "other"])),
        ("close", run(&["sessions", "close"])),
    ]
}

#[test]
fn a_store_of_a_newer_version_is_read_and_not_written() {
    let (place, store) = begun();
    let format = set_format(&store, 99);
    for (command, done) in everybody(&place) {
        if ["status", "list", "history"].contains(&command) {
            assert_eq!((done.code, done.err.as_str()), (Some(0), ""), "{command} {done:?}");
        } else {
            let (code, hint, exit) = done.failure();
            assert_eq!((code.as_str(), exit), ("STORE_NEWER", Some(1)), "{command} {done:?}");
            assert!(hint.contains("use the newer acpx"), "{hint}");
        }
    }
    set_format(&store, format);
    assert!(place.ok(&["demo", "recall"]).contains("1. My name is Ada."));
}

#[test]
fn file_that_is_no_store_is_left_unchanged() {
    let (place, store) = begun();
    let kept = place.path_of("kept.db");
    std::fs::rename(&store, &kept).unwrap();
    for (bytes, code) in
        [(Some("no store at all, and longer than a header"), "STORE_CORRUPT"), (None, "STORE_NOT_OPENED")]
    {
        match bytes {
            Some(bytes) => std::fs::write(&store, bytes).unwrap(),
            None => std::fs::create_dir(&store).unwrap(),
        }
        for (command, done) in everybody(&place) {
            let (found, _, exit) = done.failure();
            assert_eq!((found.as_str(), exit, done.err.as_str()), (code, Some(1), ""), "{command} {done:?}");
        }
        match bytes {
            Some(bytes) => {
                assert_eq!(std::fs::read_to_string(&store).unwrap(), bytes);
                std::fs::remove_file(&store).unwrap();
            }
            None => std::fs::remove_dir(&store).unwrap(),
        }
    }
    std::fs::rename(&kept, &store).unwrap();
    assert!(place.ok(&["demo", "recall"]).contains("1. My name is Ada."));
}

#[test]
fn watch_of_an_unreadable_store_ends_with_its_error() {
    let (place, store) = begun();
    let file = Connection::open(&store).unwrap();
    let change = |change: &str| assert!(file.execute(change, []).unwrap() > 0);
    change("UPDATE events SET at = at + 1 WHERE seq = 5");
    let watch = ["--format", "json", "--json-strict", "demo", "sessions", "watch", "--from", "start"];
    let watched = place.acpx(&watch);
    let (code, _, exit) = watched.failure();
    assert_eq!((code.as_str(), exit, watched.err.as_str()), ("STORE_CORRUPT", Some(1), ""), "{watched:?}");
    change("UPDATE events SET at = at - 1 WHERE seq = 5");
    let mut watching = place.start(&watch);
    watching.wait_for("My name is Ada.");
    watching.signal(rustix::process::Signal::INT);
    assert_eq!(watching.done().code, Some(0));
}

#[test]
fn store_locked_by_another_process_is_reported_as_locked() {
    let (place, store) = begun();
    let other = Connection::open(&store).unwrap();
    other.pragma_update(None, "locking_mode", "EXCLUSIVE").unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let verbs = [&["status"][..], &["sessions", "list"], &["recall"], &["sessions", "new", "-s", "other"]];
    let started = verbs.map(|verb| place.start(&[&["--format", "json", "demo"], verb].concat()));
    for (started, verb) in started.into_iter().zip(verbs) {
        let done = started.done();
        let (code, _, exit) = done.failure();
        assert_eq!((code.as_str(), exit), ("STORE_LOCKED", Some(1)), "{verb:?} {done:?}");
        assert_eq!(done.lines().pop().unwrap()["error"]["data"]["retryable"], true);
    }
    drop(other);
    assert!(place.ok(&["demo", "recall"]).contains("1. My name is Ada."));
}

#[test]
fn unwritable_store_fails_the_turn_and_keeps_acknowledged_events() {
    let (place, _) = begun();
    // No file may grow beyond 128 blocks of 512 bytes, which is less than the store has already.
    let script = "trap '' XFSZ; ulimit -f 128; exec \"$0\" \"$@\"";
    let limited = |arguments: &[&str]| {
        let plain = place.command(arguments);
        let mut command = std::process::Command::new("sh");
        command.args(["-c", script]).arg(plain.get_program()).args(plain.get_args());
        command.current_dir(place.work()).stdin(std::process::Stdio::null());
        for (name, value) in plain.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        Done::of(&mut command)
    };
    let done = limited(&["--format", "json", "demo", "chunks 5000"]);
    let (code, hint, exit) = done.failure();
    assert!(["STORE_FAILED", "STORE_FULL"].contains(&code.as_str()), "{code} {done:?}");
    assert!(hint.contains("what was acknowledged is safe"), "{hint}");
    assert_eq!(exit, Some(1));
    place.ok(&["host", "stop"]);
    let status = place.json(&["demo", "status"]);
    assert_eq!(status["queued"], json!(0), "{status}");
    assert!(place.ok(&["demo", "recall"]).contains("1. My name is Ada."));
}

#[test]
fn store_under_creation_has_no_sessions_yet() {
    let place = Place::new();
    std::fs::write(place.acpx_home().join("acpx.db"), "").unwrap();
    assert_eq!(place.json(&["demo", "status"])["status"], "no-session");
    assert_eq!(place.json(&["sessions", "list"]), json!([]));
    assert_eq!(place.json(&["demo", "sessions", "ensure"])["created"], true);
}

#[test]
fn session_lookup_reads_no_records_of_other_directories() {
    let (place, store) = begun();
    // Who reads this record sees that it is not as it was written.
    Connection::open(&store).unwrap().execute("UPDATE records SET title = 'another'", []).unwrap();
    let elsewhere = place.path_of("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let status = place.acpx_in(&elsewhere, &["--format", "json", "demo", "status"]);
    assert_eq!(status.json()["status"], "no-session", "{status:?}");
    let (code, _, _) = place.acpx(&["--format", "json", "--json-strict", "demo", "status"]).failure();
    assert_eq!(code, "STORE_CORRUPT");
}

#[test]
fn store_of_an_older_version_is_migrated_by_the_first_command() {
    let place = Place::new();
    let store = place.acpx_home().join("acpx.db");
    let old = include_str!("../../../../core/src/store/sqlite/tests/format_1.sql");
    Connection::open(&store).unwrap().execute_batch(old).unwrap();
    let rows = place.json(&["sessions", "list"]);
    let mut ids: Vec<&str> =
        rows.as_array().unwrap().iter().map(|row| row["acpxRecordId"].as_str().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["named", "plain"]);
    assert_eq!(place.processes(), [0; 0], "nothing was started for it");
    assert!(set_format(&store, 99) > 1);
}
