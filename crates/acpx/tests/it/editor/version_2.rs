//! `acpx acp` to an editor of version 2, over the demo agent in either version: its turns end with a state, and hosts
//! and agents that go away end them with one too.

use serde_json::{Value, json};

use super::Editor;
use crate::acpx::{Place, kill_hard};

/// The command lines of an agent in version 1 and in version 2.
const AGENTS: [&[&str]; 2] = [&["demo", "acp"], &["--protocol", "2", "demo", "acp"]];

fn editor(place: &Place, arguments: &[&str]) -> Editor {
    let mut editor = Editor::silent(place, arguments);
    let info = json!({ "name": "editor", "version": "7" });
    let answer = editor.call("initialize", json!({
        "protocolVersion": 2, "info": info, "capabilities": { "_meta": { "acpx": { "errorData": true } } },
    }));
    assert_eq!(answer["result"]["protocolVersion"], 2, "{answer}");
    editor
}

/// What comes until the session has nothing more to do.
fn until_idle(editor: &Editor) -> Vec<Value> {
    let mut heard = Vec::new();
    loop {
        heard.push(editor.hear());
        if heard.last().is_some_and(|line| line["params"]["update"]["state"] == "idle") {
            return heard;
        }
    }
}

/// The agent's words in what was heard.
fn said(heard: &[Value]) -> String {
    let updates = heard.iter().map(|line| &line["params"]["update"]);
    let words = updates.filter(|update| update["sessionUpdate"] == "agent_message_chunk");
    words.filter_map(|update| update["content"]["text"].as_str()).collect()
}

/// Prompts to the end; the prompt's message id, the agent's words, and the last state.
fn prompt(editor: &mut Editor, session: &str, text: &str) -> (Value, String, Value) {
    let id = editor.ask_prompt(session, text);
    let (_, answer) = editor.hear_answer(&id);
    let heard = until_idle(editor);
    let state = heard.last().unwrap()["params"]["update"].clone();
    (answer["result"]["messageId"].clone(), said(&heard), state)
}

fn open(editor: &mut Editor, place: &Place) -> String {
    let answer = editor.call("session/new", json!({ "cwd": place.work() }));
    answer["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

#[test]
fn host_kill_in_mid_turn_ends_it_with_a_state_update() {
    for agent in AGENTS {
        let place = Place::new();
        let mut editor = editor(&place, agent);
        let session = open(&mut editor, &place);
        let (message, words, state) = prompt(&mut editor, &session, "one");
        assert_eq!((message, words.as_str()), (json!(format!("{session}:turn:1")), "You said: one"));
        assert_eq!(state["stopReason"], "end_turn");
        let id = editor.ask_prompt(&session, "two wait");
        assert!(editor.hear_answer(&id).1["result"]["messageId"].is_string());
        editor.hear_words("Waiting until cancelled.");
        kill_hard(place.host_pid());
        // The bridge takes the session up again, and tells what became of the turn.
        let heard = until_idle(&editor);
        let state = &heard.last().unwrap()["params"]["update"];
        assert_eq!(
            (&state["stopReason"], &state["error"]["data"]["acpx"]["code"]),
            (&json!("error"), &json!("INTERRUPTED")),
            "{heard:?}"
        );
        assert_eq!(said(&heard), "");
        let (message, words, _) = prompt(&mut editor, &session, "recall");
        assert_eq!(message, json!(format!("{session}:turn:3")));
        assert_eq!(words, "You said before:\n1. one\n2. two wait");
        assert_eq!(editor.leave().0, Some(0));
    }
}

#[test]
fn prompt_queued_at_a_host_kill_is_answered_once_and_runs_next() {
    for agent in AGENTS {
        let place = Place::new();
        let mut editor = editor(&place, agent);
        let session = open(&mut editor, &place);
        let first = editor.ask_prompt(&session, "first wait");
        editor.hear_answer(&first);
        editor.hear_words("Waiting until cancelled.");
        let second = editor.ask_prompt(&session, "second");
        let waits = || place.json(&["demo", "status", "-s", &session])["queued"] == 1;
        crate::acpx::eventually("the second waits", waits);
        kill_hard(place.host_pid());
        let (_, answer) = editor.hear_answer(&second);
        assert_eq!(answer["result"]["messageId"], json!(format!("{session}:turn:2")), "{answer}");
        let heard = until_idle(&editor);
        assert_eq!(said(&heard), "You said: second");
        assert_eq!(heard.last().unwrap()["params"]["update"]["stopReason"], "end_turn");
    }
}

#[test]
fn agent_crash_ends_its_turn_with_an_error_and_prompt_restores_it() {
    for agent in AGENTS {
        let place = Place::new();
        let mut editor = editor(&place, agent);
        let session = open(&mut editor, &place);
        prompt(&mut editor, &session, "one");
        let (_, _, state) = prompt(&mut editor, &session, "crash");
        assert_eq!(
            (&state["stopReason"], &state["error"]["data"]["acpx"]["code"]),
            (&json!("error"), &json!("AGENT_DIED")),
            "{state}"
        );
        assert!(prompt(&mut editor, &session, "recall").1.starts_with("You said before:\n1. one"));
    }
}

#[test]
fn turn_end_has_its_cursor_and_other_updates_only_on_request() {
    let place = Place::new();
    let mut editor = editor(&place, AGENTS[0]);
    let session = open(&mut editor, &place);
    let id = editor.ask_prompt(&session, "hello");
    let (mut heard, _) = editor.hear_answer(&id);
    heard.extend(until_idle(&editor));
    let numbered = |line: &Value| line["params"]["_meta"]["acpx"]["seq"].is_u64();
    let last = heard.pop().unwrap();
    assert!(numbered(&last) && !heard.iter().any(numbered), "{heard:?} {last}");
}

#[test]
fn shell_prints_the_messages_of_a_version_2_agent() {
    let place = Place::new();
    place.ok(&["--protocol", "2", "demo", "sessions", "new"]);
    assert_eq!(place.ok(&["--format", "quiet", "demo", "hello"]), "You said: hello\n");
    let shown = place.ok(&["--approve-all", "demo", "think permission"]);
    for words in
        ["[thinking] Thinking about", "Edit notes.txt", "You said: think permission", "[done] end_turn"]
    {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let again = place.ok(&["--format", "quiet", "demo", "sessions", "replay"]);
    assert_eq!(again, "You said: hello\nThe edit was made.\nYou said: think permission\n");
}
