//! `sessions delete`: which session it takes, what it says, and that the session is gone for everybody.

use acpx_testkit::Script;
use serde_json::{Value, json};

use crate::acpx::{Done, Place};

fn id(made: &Value) -> &str {
    made["acpxRecordId"].as_str().unwrap()
}

#[test]
fn session_is_deleted_by_name_by_id_and_by_directory() {
    let place = Place::new();
    let named = place.json(&["demo", "sessions", "new", "-s", "api"]);
    let closed = place.json(&["demo", "sessions", "new", "-s", "old"]);
    place.ok(&["demo", "sessions", "close", "old"]);
    let here = place.json(&["demo", "sessions", "new"]);
    assert_eq!(place.ok(&["demo", "sessions", "delete", "api"]), format!("{}\t(deleted)\n", id(&named)));
    let quiet = place.ok(&["--format", "quiet", "sessions", "delete", id(&closed)]);
    assert_eq!(quiet, format!("{}\n", id(&closed)));
    let said = place.json(&["demo", "sessions", "delete"]);
    let expected = json!({
        "action": "session_deleted",
        "acpxRecordId": here["acpxRecordId"],
        "acpxSessionId": here["acpxSessionId"],
    });
    assert_eq!(said, expected);
    assert_eq!(place.json(&["sessions", "list"]), json!([]));
    let remote = place.json(&["demo", "sessions", "list", "--remote"]);
    let left: Vec<&Value> =
        remote["sessions"].as_array().unwrap().iter().map(|row| &row["acpxSessionId"]).collect();
    assert!(!left.contains(&&named["acpxSessionId"]) && !left.contains(&&here["acpxSessionId"]), "{remote}");
}

#[test]
fn delete_names_the_agent_that_still_stores_the_session() {
    let place = Place::new();
    place.scripted(&Script::new().initialize(json!({})).session_new("s1"));
    let kept = "the agent \"scripted\" does not offer session/delete";
    let made = place.json(&["scripted", "sessions", "new"]);
    let done = place.acpx(&["scripted", "sessions", "delete"]);
    let expected = Done {
        out: format!("{}\t(deleted)\n", id(&made)),
        err: format!("[acpx] it is deleted here; the agent may still have its own of it: {kept}\n"),
        code: Some(0),
    };
    assert_eq!(done, expected);
    place.scripted(&Script::new().initialize(json!({})).session_new("s1"));
    place.ok(&["scripted", "sessions", "new"]);
    assert_eq!(place.json(&["scripted", "sessions", "delete"])["keptByAgent"], kept);
}

#[test]
fn deleted_session_is_found_by_no_command() {
    let place = Place::new();
    let made = place.json(&["demo", "sessions", "new", "-s", "api"]);
    place.ok(&["demo", "-s", "api", "hello"]);
    place.ok(&["demo", "sessions", "delete", "api"]);
    let commands: [&[&str]; 5] = [
        &["demo", "sessions", "show"],
        &["demo", "sessions", "history"],
        &["demo", "sessions", "replay"],
        &["demo", "sessions", "delete"],
        &["demo", "prompt", "again"],
    ];
    for command in commands {
        for name in ["api", id(&made)] {
            let done = place.acpx(&[&["--format", "json"], command, &["-s", name]].concat());
            let (code, _, exit) = done.failure();
            assert_eq!((code.as_str(), exit), ("NO_SESSION", Some(4)), "{command:?} {name}");
        }
        let by_id = place.acpx(&[command, &["-s", id(&made)]].concat());
        let expected = "acpx: there is no session with the id ID\nhint: acpx sessions list shows the sessions there are\n";
        assert_eq!(by_id.err, expected.replace("ID", id(&made)), "{command:?}");
    }
}

#[test]
fn second_delete_without_a_name_deletes_no_closed_session() {
    let place = Place::new();
    let first = place.json(&["demo", "sessions", "new"]);
    place.ok(&["demo", "sessions", "new"]);
    place.ok(&["demo", "sessions", "delete"]);
    let Done { code, .. } = place.acpx(&["demo", "sessions", "delete"]);
    assert_eq!(code, Some(4));
    let listed = place.json(&["sessions", "list"]);
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["acpxRecordId"]), (1, &first["acpxRecordId"]));
}

#[cfg(target_os = "linux")]
#[test]
fn delete_asks_on_a_terminal_unless_yes_is_given() {
    use crate::terminal::OnTerminal;

    let place = Place::new();
    let made = place.json(&["demo", "sessions", "new"]);
    place.ok(&["demo", "mend the roof"]);
    let question = format!(
        "Delete the session \"mend the roof\" of demo in {} with 1 turn, for good? (y/N) ",
        place.work().display()
    );
    let mut terminal = OnTerminal::sized(&place.command(&["demo", "sessions", "delete"]), 200, 24);
    terminal.wait_for(&question);
    terminal.type_in("\n");
    terminal.wait_for("Nothing was deleted.\n");
    assert_eq!(terminal.done(), Some(0));
    assert_eq!(place.json(&["sessions", "list"])[0]["acpxRecordId"], made["acpxRecordId"]);
    let mut terminal = OnTerminal::sized(&place.command(&["demo", "sessions", "delete"]), 200, 24);
    terminal.wait_for(&question);
    terminal.type_in("y\n");
    assert_eq!(terminal.done(), Some(0));
    assert_eq!(place.json(&["sessions", "list"]), json!([]));
    place.ok(&["demo", "sessions", "new"]);
    let mut terminal = OnTerminal::start(&place.command(&["demo", "sessions", "delete", "--yes"]));
    assert_eq!(terminal.done(), Some(0));
    assert!(!terminal.seen.contains("(y/N)"), "{}", terminal.seen);
    assert_eq!(place.json(&["sessions", "list"]), json!([]));
}
