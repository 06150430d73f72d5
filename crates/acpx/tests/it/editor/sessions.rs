//! What an editor does all day: sessions, prompts, permissions, cancellations.

use serde_json::{Value, json};

use super::{Editor, words};
use crate::acpx::Place;

#[test]
fn session_of_an_editor_is_visible_in_the_shell() {
    let place = Place::new();
    let mut editor = Editor::new(&place);
    let session = editor.open(&place);
    let (said, answer) = editor.prompt(&session, "hello");
    assert_eq!(
        (said, &answer["result"]["stopReason"]),
        (vec!["agent: You said: hello".into()], &json!("end_turn"))
    );
    let rows = place.json(&["demo", "sessions", "list"]);
    assert_eq!(rows[0]["acpxRecordId"], json!(session));
    let said = place.ok(&["--format", "quiet", "demo", "-s", &session, "from the shell"]);
    assert_eq!(said, "You said: from the shell\n");
    editor.hear_words("You said: from the shell");
    let (loaded, _) = editor.load(&place, &session);
    let expected =
        ["user: hello", "agent: You said: hello", "user: from the shell", "agent: You said: from the shell"];
    assert_eq!(loaded, expected);
}

#[test]
fn two_sessions_on_one_connection_do_not_mix() {
    let place = Place::new();
    let mut editor = Editor::new(&place);
    let (one, two) = (editor.open(&place), editor.open(&place));
    let waits = editor.ask_prompt(&one, "wait");
    editor.hear_words("Waiting until cancelled.");
    let (said, _) = editor.prompt(&two, "meanwhile");
    assert_eq!(said, ["agent: You said: meanwhile"]);
    editor.notify("session/cancel", json!({ "sessionId": one }));
    assert_eq!(editor.hear_answer(&waits).1["result"]["stopReason"], "cancelled");
    assert_eq!(editor.prompt(&two, "recall").0, ["agent: You said before:\n1. meanwhile"]);
}

#[test]
fn concurrent_session_new_requests_in_one_directory_all_succeed() {
    let place = Place::new();
    let mut editor = Editor::new(&place);
    let params = json!({ "cwd": place.work(), "mcpServers": [] });
    let asked: Vec<Value> = (0..32).map(|_| editor.ask("session/new", params.clone())).collect();
    let mut refused = Vec::new();
    let mut answered = 0;
    while answered < asked.len() {
        let message = editor.hear();
        if asked.contains(&message["id"]) && message.get("method").is_none() {
            answered += 1;
            refused.extend(message.get("error").cloned());
        }
    }
    assert_eq!(refused, Vec::<Value>::new());
}

#[test]
fn a_permission_is_the_editors_to_give() {
    let place = Place::new();
    let mut editor = Editor::new(&place);
    let session = editor.open(&place);
    for (kind, expected) in [("allow_once", 1), ("reject_once", 0)] {
        let prompt = editor.ask_prompt(&session, "permission");
        let question = std::iter::repeat_with(|| editor.hear())
            .find(|message| message["method"] == "session/request_permission")
            .unwrap();
        assert_eq!(question["params"]["sessionId"], json!(session));
        let options = question["params"]["options"].as_array().unwrap();
        let option = options.iter().find(|option| option["kind"] == kind).unwrap();
        let outcome = json!({ "outcome": { "outcome": "selected", "optionId": option["optionId"] } });
        editor.say(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": outcome }).to_string());
        let (_, answer) = editor.hear_answer(&prompt);
        assert_eq!(answer["result"]["_meta"]["acpx"]["approved"], expected, "{answer}");
    }
}

#[test]
fn request_ids_are_returned_verbatim_and_concurrent_prompts_queue_in_order() {
    let place = Place::new();
    let mut editor = Editor::new(&place);
    let session = editor.open(&place);
    let prompt = |text: &str| json!({ "sessionId": session, "prompt": [{ "type": "text", "text": text }] });
    let ids = [json!("92"), json!(92), json!("a \"b\"")];
    for (index, id) in ids.iter().enumerate() {
        editor.ask_as(id, "session/prompt", prompt(&index.to_string()));
    }
    let mut heard: Vec<Value> = Vec::new();
    for id in &ids {
        let (before, answer) = editor.hear_answer(id);
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
        heard.extend(before);
    }
    assert_eq!(words(&heard), ["agent: You said: 0", "agent: You said: 1", "agent: You said: 2"]);
}

#[test]
fn a_mode_is_in_the_answers_and_can_be_set() {
    let place = Place::new();
    let mut editor = Editor::new(&place);
    let answer = editor.call("session/new", json!({ "cwd": place.work(), "mcpServers": [] }));
    assert_eq!(answer["result"]["modes"]["currentModeId"], "ask", "{answer}");
    let session = answer["result"]["sessionId"].clone();
    let set = editor.call("session/set_mode", json!({ "sessionId": session, "modeId": "code" }));
    assert_eq!(set["result"], json!({}), "{set}");
    let (_, loaded) = editor.load(&place, session.as_str().unwrap());
    assert_eq!(loaded["result"]["modes"]["currentModeId"], "code", "{loaded}");
    let refused = editor
        .call("session/set_config_option", json!({ "sessionId": session, "configId": "x", "value": "y" }));
    let error = (&refused["error"]["code"], &refused["error"]["data"]["acpx"]["code"]);
    assert_eq!(error, (&json!(-32601), &json!("NOT_OFFERED")), "{refused}");
}

#[test]
fn update_has_no_acpx_member_unless_the_editor_requested_it() {
    let place = Place::new();
    let mut quiet = Editor::new(&place);
    let session = quiet.open(&place);
    let id = quiet.ask_prompt(&session, "hello");
    let (before, _) = quiet.hear_answer(&id);
    assert_eq!(before[0]["params"].get("_meta"), None, "{before:?}");
    let mut curious = Editor::silent(&place, &["demo", "acp"]);
    curious.call("initialize", json!({ "protocolVersion": 1, "_meta": { "acpx": { "seq": true } } }));
    curious.load(&place, &session);
    let id = curious.ask_prompt(&session, "again");
    let (before, answer) = curious.hear_answer(&id);
    let said = before.iter().find(|message| message.to_string().contains("You said: again")).unwrap();
    let seq = said["params"]["_meta"]["acpx"]["seq"].as_u64().unwrap();
    assert!(seq < answer["result"]["_meta"]["acpx"]["seq"].as_u64().unwrap(), "{said} {answer}");
}
