//! Editors, hosts and agents that go away, each while the others go on.

use acpx_testkit::Script;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{Editor, wanting_error_data};
use crate::acpx::{Place, eventually, kill_hard};

#[test]
fn turn_of_an_editor_killed_in_mid_turn_is_replayed_by_load() {
    let place = Place::new();
    let mut editor = Editor::new(&place);
    let session = editor.open(&place);
    editor.ask_prompt(&session, "wait 200 then go on");
    editor.hear_words("Waiting");
    editor.kill();
    let ended = || !place.ok(&["demo", "status", "-s", &session, "--format", "json"]).contains("\"turn\"");
    eventually("the turn is over", ended);
    let mut next = Editor::new(&place);
    let (said, answer) = next.load(&place, &session);
    assert!(answer.get("result").is_some(), "{answer}");
    assert_eq!(said[0], "user: wait 200 then go on");
    assert!(said.len() >= 2, "{said:?}");
    assert_eq!(next.prompt(&session, "recall").0, ["agent: You said before:\n1. wait 200 then go on"]);
}

#[test]
fn restarted_editor_cancels_its_new_prompt_and_the_orphaned_turn() {
    let place = Place::new();
    let mut editor = Editor::new(&place);
    let session = editor.open(&place);
    editor.ask_prompt(&session, "wait");
    editor.hear_words("Waiting until cancelled.");
    editor.kill();
    let mut next = Editor::new(&place);
    next.load(&place, &session);
    let open = next.ask_prompt(&session, "behind it");
    let waits = || place.json(&["demo", "status", "-s", &session])["queued"] == 1;
    eventually("the prompt waits", waits);
    next.notify("session/cancel", json!({ "sessionId": session }));
    assert_eq!(next.hear_answer(&open).1["result"]["stopReason"], "cancelled");
    assert_eq!(next.prompt(&session, "recall").0, ["agent: You said before:\n1. wait"]);
}

#[test]
fn a_permission_request_of_a_killed_editor_stays_pending_for_the_next() {
    let place = Place::new();
    let mut editor = Editor::new(&place);
    let session = editor.open(&place);
    editor.ask_prompt(&session, "permission");
    let is_question = |message: &Value| message["method"] == "session/request_permission";
    std::iter::repeat_with(|| editor.hear()).find(is_question).unwrap();
    editor.kill();
    eventually("nobody is asked", || place.json(&["pending"])["questions"][0]["asked"] == json!([]));
    let mut next = Editor::new(&place);
    let load = json!({ "sessionId": session, "cwd": place.work(), "mcpServers": [] });
    next.ask("session/load", load);
    let question = std::iter::repeat_with(|| next.hear()).find(is_question).unwrap();
    let allowed = json!({ "outcome": { "outcome": "selected", "optionId": "allow" } });
    next.say(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": allowed }).to_string());
    next.hear_words("The edit was made.");
}

#[test]
fn host_kill_in_mid_turn_fails_only_the_running_prompt() {
    let place = Place::new();
    let mut editor = Editor::new(&place);
    let (session, other) = (editor.open(&place), editor.open(&place));
    editor.prompt(&session, "one");
    let open = editor.ask_prompt(&session, "two wait");
    editor.hear_words("Waiting until cancelled.");
    kill_hard(place.host_pid());
    let (before, answer) = editor.hear_answer(&open);
    assert_eq!(super::words(&before), [""; 0]);
    let error = &answer["error"];
    assert_eq!(
        (&error["message"], &error["data"]["acpx"]["code"]),
        (&json!("turn 2 was interrupted: its host went away"), &json!("INTERRUPTED")),
        "{answer}"
    );
    assert!(error["data"]["acpx"]["hint"].is_string(), "{answer}");
    assert_eq!(editor.prompt(&session, "recall").0, ["agent: You said before:\n1. one\n2. two wait"]);
    assert_eq!(editor.prompt(&other, "and here").0, ["agent: You said: and here"]);
    assert_eq!(editor.leave().0, Some(0));
}

#[test]
fn editor_gets_no_echo_of_its_prompt_after_a_host_kill() {
    let place = Place::new();
    let asked = place.path_of("asked");
    place.scripted(&Script::new().initialize(json!({})).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        ("session/prompt", Script::new().touch(&asked).hang()),
    ]));
    let mut editor = Editor::silent(&place, &["scripted", "acp"]);
    editor.call("initialize", wanting_error_data(1));
    let session = editor.open(&place);
    let open = editor.ask_prompt(&session, "my own words");
    eventually("the agent has the prompt", || asked.exists());
    kill_hard(place.host_pid());
    let (before, answer) = editor.hear_answer(&open);
    assert_eq!(super::words(&before), [""; 0]);
    assert_eq!(answer["error"]["data"]["acpx"]["code"], "INTERRUPTED", "{answer}");
}

#[test]
fn prompt_queued_when_the_host_was_killed_runs_on_the_next_host() {
    let place = Place::new();
    let mut editor = Editor::new(&place);
    let session = editor.open(&place);
    let first = editor.ask_prompt(&session, "first wait");
    editor.hear_words("Waiting until cancelled.");
    let mut shell = place.start(&["--format", "quiet", "demo", "-s", &session, "second"]);
    let waits = || place.json(&["demo", "status", "-s", &session])["queued"] == 1;
    eventually("the shell's prompt waits", waits);
    kill_hard(place.host_pid());
    assert_eq!(editor.hear_answer(&first).1["error"]["data"]["acpx"]["code"], "INTERRUPTED");
    shell.wait_for("You said: second");
    assert_eq!(shell.done().code, Some(0));
}

#[test]
fn host_stopped_in_mid_turn_is_replaced_on_the_same_connection() {
    let place = Place::new();
    let mut editor = Editor::new(&place);
    let session = editor.open(&place);
    let open = editor.ask_prompt(&session, "wait");
    editor.hear_words("Waiting until cancelled.");
    place.ok(&["host", "restart"]);
    assert_eq!(editor.hear_answer(&open).1["error"]["data"]["acpx"]["code"], "INTERRUPTED");
    assert_eq!(editor.prompt(&session, "on").0, ["agent: You said: on"]);
}

#[test]
fn a_question_that_was_open_when_the_host_was_killed_is_withdrawn() {
    let place = Place::new();
    let mut editor = Editor::new(&place);
    let session = editor.open(&place);
    let open = editor.ask_prompt(&session, "permission");
    let question = std::iter::repeat_with(|| editor.hear())
        .find(|message| message["method"] == "session/request_permission")
        .unwrap();
    kill_hard(place.host_pid());
    let (before, answer) = editor.hear_answer(&open);
    let withdrawal =
        json!({ "jsonrpc": "2.0", "method": "$/cancel_request", "params": { "requestId": question["id"] } });
    assert!(before.contains(&withdrawal), "{before:?}");
    assert_eq!(answer["error"]["data"]["acpx"]["code"], "INTERRUPTED");
    // A late answer reaches nobody, and the next question has an id of its own.
    let late = json!({ "outcome": { "outcome": "cancelled" } });
    editor.say(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": late }).to_string());
    let open = editor.ask_prompt(&session, "permission");
    let again = std::iter::repeat_with(|| editor.hear())
        .find(|message| message["method"] == "session/request_permission")
        .unwrap();
    assert_ne!(again["id"], question["id"]);
    let outcome = json!({ "outcome": { "outcome": "selected", "optionId": again["params"]["options"][0]["optionId"] } });
    editor.say(&json!({ "jsonrpc": "2.0", "id": again["id"], "result": outcome }).to_string());
    assert_eq!(editor.hear_answer(&open).1["result"]["stopReason"], "end_turn");
}

#[test]
fn updates_sent_while_the_bridge_had_no_host_reach_the_editor_once() {
    let place = Place::new();
    let mut editor = Editor::new(&place);
    let session = editor.open(&place);
    editor.prompt(&session, "before");
    // Stopped, it hears nothing of what happens, nor of the host that goes.
    let pid = Pid::from_raw(i32::try_from(editor.pid()).unwrap()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    kill_hard(place.host_pid());
    assert_eq!(place.ok(&["--format", "quiet", "demo", "-s", &session, "missed"]), "You said: missed\n");
    kill_process(pid, Signal::CONT).unwrap();
    let id = editor.ask_prompt(&session, "after");
    let (before, _) = editor.hear_answer(&id);
    let said = super::words(&before);
    assert_eq!(said, ["user: missed", "agent: You said: missed", "agent: You said: after"]);
}

#[test]
fn agent_crash_fails_the_prompt_and_the_next_prompt_restores_it() {
    let place = Place::new();
    let mut editor = Editor::new(&place);
    let session = editor.open(&place);
    editor.prompt(&session, "one");
    let (_, answer) = editor.prompt(&session, "crash");
    assert_eq!(answer["error"]["data"]["acpx"]["code"], "AGENT_DIED", "{answer}");
    let (said, answer) = editor.prompt(&session, "recall");
    assert!(said[0].starts_with("agent: You said before:\n1. one"), "{said:?} {answer}");
}

#[test]
fn each_request_fails_and_retries_when_no_host_can_start() {
    let place = Place::new();
    let mut editor = Editor::new(&place);
    let session = editor.open(&place);
    let lock = place.acpx_home().join("acpx.db");
    let pid = place.host_pid();
    let aside = place.path_of("aside.db");
    kill_hard(pid);
    std::fs::rename(&lock, &aside).unwrap();
    std::fs::create_dir(&lock).unwrap();
    for _ in 0..2 {
        let answer = editor.prompt(&session, "hello").1;
        assert!(answer["error"]["data"]["acpx"]["code"].is_string(), "{answer}");
    }
    std::fs::remove_dir(&lock).unwrap();
    std::fs::rename(&aside, &lock).unwrap();
    assert_eq!(editor.prompt(&session, "hello").0, ["agent: You said: hello"]);
}

#[test]
fn bridge_ends_with_its_editor_or_a_signal_and_the_turn_continues() {
    let place = Place::new();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut editor = Editor::new(&place);
        let session = editor.open(&place);
        editor.ask_prompt(&session, "wait 50");
        editor.hear_words("Waiting");
        let pid = Pid::from_raw(i32::try_from(editor.pid()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
        assert_eq!(editor.gone().0, Some(0));
        let ended = || place.json(&["demo", "status", "-s", &session]).get("turn").is_none();
        eventually("the turn is over", ended);
        let history = place.ok(&["--format", "quiet", "demo", "sessions", "history", &session]);
        assert!(history.contains("wait 50"), "{history}");
    }
}
