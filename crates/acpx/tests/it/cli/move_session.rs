//! `sessions move`: a session goes on after its project has moved.

use std::fs;

use serde_json::json;

use crate::acpx::{Place, text};

#[test]
fn session_with_a_missing_directory_is_moved_and_continues_there() {
    let place = Place::new();
    let (old, new) = (place.work().join("old"), place.work().join("new"));
    fs::create_dir(&old).unwrap();
    let made = place.acpx_in(&old, &["--format", "json", "demo", "sessions", "new"]).json();
    assert_eq!(place.acpx_in(&old, &["demo", "My name is Ada."]).code, Some(0));
    place.ok(&["host", "stop"]);
    fs::rename(&old, &new).unwrap();

    let moved = place.acpx_in(&new, &["--format", "json", "demo", "sessions", "move"]).json();
    let expected = json!({
        "action": "session_moved",
        "acpxRecordId": made["acpxRecordId"],
        "acpxSessionId": made["acpxSessionId"],
        "from": text(&old),
        "cwd": text(&new),
    });
    let mut seen = moved.clone();
    seen.as_object_mut().unwrap().remove("agentSessionId");
    assert_eq!(seen, expected);
    let status = place.acpx_in(&new, &["--format", "json", "demo", "status"]).json();
    assert_eq!((&status["acpxRecordId"], &status["cwd"]), (&made["acpxRecordId"], &json!(text(&new))));
    let told = place.acpx_in(&new, &["demo", "What is my name?"]);
    assert_eq!(told.code, Some(0), "{told:?}");
    assert!(!told.err.contains("fresh"), "{told:?}");
}

#[test]
fn command_in_a_moved_project_suggests_sessions_move() {
    let place = Place::new();
    let (old, new) = (place.work().join("old"), place.work().join("new"));
    fs::create_dir(&old).unwrap();
    let made = place.acpx_in(&old, &["--format", "json", "demo", "sessions", "new"]).json();
    let id = made["acpxRecordId"].as_str().unwrap();
    fs::rename(&old, &new).unwrap();
    let hint = |done: &crate::acpx::Done| done.failure().1;
    let here = place.acpx_in(&new, &["--format", "json", "demo", "hello"]);
    let bring = format!("acpx demo sessions move {id} (it worked in {})", old.display());
    let create = "create one: acpx demo sessions new, or add --create; if the project has moved here, move its session too";
    assert_eq!(hint(&here), format!("{create}: {bring}"));
    // The agent lives on where its directory was.
    let alive = place.acpx(&["demo", "-s", id, "hello"]);
    let gone = format!("the session's directory {} is gone; if the project has moved: ", old.display());
    assert!(alive.code == Some(0) && alive.err.contains(&gone), "{alive:?}");
    place.ok(&["host", "stop"]);
    let by_id = place.acpx(&["--format", "json", "demo", "-s", id, "hello"]);
    let expected = format!(
        "the prompt was not sent; put the directory back, or move the session to where its project is now: \
         acpx sessions move {id} --cwd DIR"
    );
    assert_eq!(by_id.failure(), ("SESSION_DIRECTORY_MOVED".to_owned(), expected, Some(1)));
    let told = place.acpx_in(&new, &["demo", "sessions", "move", id]);
    assert_eq!(told.code, Some(0), "{told:?}");
    let again = place.acpx_in(&new, &["demo", "sessions", "move", id]);
    assert_eq!((again.out, again.code), (format!("{id}\t(works in {} already)\n", new.display()), Some(0)));
}

#[test]
fn session_with_a_changed_cwd_link_runs_in_its_directory_or_fails() {
    let place = Place::new();
    let [one, two, link] = ["one", "two", "link"].map(|name| place.work().join(name));
    fs::create_dir(&one).unwrap();
    fs::create_dir(&two).unwrap();
    std::os::unix::fs::symlink(&one, &link).unwrap();
    let made = place.json(&["--cwd", &text(&link), "demo", "sessions", "new"]);
    let id = made["acpxRecordId"].as_str().unwrap();
    place.ok(&["host", "stop"]);
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(&two, &link).unwrap();

    let (one, two, link) = (text(&one), text(&two), text(&link));
    for wait in [&["--no-wait"][..], &[]] {
        let by_id = place.acpx(&[&["demo", "-s", id], wait, &["hello"]].concat());
        let words = format!(
            "acpx: the session {id} was created in {one}, and its path {link} leads to {two} now\n\
             hint: the prompt was not sent; put the directory back, or move the session to where its project \
             is now: acpx sessions move {id} --cwd DIR\n"
        );
        assert!(by_id.err.ends_with(&words) && by_id.code == Some(1), "{by_id:?}");
    }
    // The path leads to another project, which has no session.
    assert_eq!(place.acpx(&["--cwd", &link, "demo", "hello"]).code, Some(4));

    let told = place.acpx(&["--cwd", &one, "demo", "hello"]);
    assert_eq!(told.code, Some(0), "{told:?}");
    assert_eq!(place.json(&["--cwd", &one, "demo", "status"])["cwd"], json!(one));
    assert_eq!(place.acpx(&["demo", "-s", id, "hello"]).code, Some(0));
}

#[test]
fn failed_move_is_reported_and_changes_nothing() {
    let place = Place::new();
    let none = place.acpx(&["--format", "json", "demo", "sessions", "move"]);
    assert_eq!((none.failure().0.as_str(), none.code), ("NO_SESSION", Some(4)), "{none:?}");
    let made = place.json(&["demo", "sessions", "new"]);
    let id = made["acpxRecordId"].as_str().unwrap();

    let nowhere = text(place.path_of("nowhere"));
    let missing = place.acpx(&["--format", "json", "demo", "sessions", "move", id, "--cwd", &nowhere]);
    assert_eq!((missing.failure().0.as_str(), missing.code), ("BAD_DIRECTORY", Some(2)), "{missing:?}");

    let other = place.path_of("other");
    fs::create_dir(&other).unwrap();
    let there = place.acpx_in(&other, &["--format", "json", "demo", "sessions", "new"]).json();
    let taken = place.acpx(&["--format", "json", "demo", "sessions", "move", id, "--cwd", &text(&other)]);
    let hint = "close that session first, by its id: acpx sessions close ID".to_owned();
    assert_eq!(taken.failure(), ("SCOPE_TAKEN".to_owned(), hint, Some(1)));
    let unknown = place.acpx(&["demo", "sessions", "move", "bogus"]);
    let words = "acpx: there is no session named \"bogus\" of demo\nhint: acpx sessions list shows the sessions there are\n";
    assert_eq!((unknown.err.as_str(), unknown.code), (words, Some(4)));
    assert_eq!(place.json(&["demo", "status"])["acpxRecordId"], made["acpxRecordId"]);
    assert_ne!(there["acpxRecordId"], made["acpxRecordId"]);

    // By its id it is moved wherever it was, and text says so in one line.
    let third = place.path_of("third");
    fs::create_dir(&third).unwrap();
    let said = place.acpx_in(&third, &["demo", "sessions", "move", id]);
    let (from, to) = (text(place.work()), text(&third));
    assert_eq!((said.out, said.code), (format!("{id}\t(moved from {from} to {to})\n"), Some(0)));
    let gone = place.acpx_in(&third, &["--format", "json", "demo", "status"]).json();
    assert_eq!(gone["acpxRecordId"], id);
}
