//! `sessions rename`: names and titles, and that the user's title replaces the agent's everywhere.

use acpx_testkit::Script;
use serde_json::{Value, json};

use crate::acpx::Place;
use crate::editor::Editor;

#[test]
fn named_session_is_found_by_its_new_name_and_keeps_its_conversation() {
    let place = Place::new();
    let made = place.json(&["demo", "sessions", "new", "--name", "api"]);
    place.ok(&["demo", "sessions", "new", "--name", "web"]);
    place.ok(&["demo", "-s", "api", "hello"]);
    let renamed = place.json(&["demo", "sessions", "rename", "api", "server"]);
    let expected = json!({
        "action": "session_renamed", "acpxRecordId": made["acpxRecordId"],
        "acpxSessionId": made["acpxSessionId"], "name": "server",
    });
    assert_eq!(renamed, expected);
    let shown = place.json(&["demo", "sessions", "show", "server"]);
    assert_eq!((&shown["acpxRecordId"], &shown["turns"]), (&made["acpxRecordId"], &json!(1)));
    assert_eq!(
        place.acpx(&["--format", "json", "demo", "sessions", "show", "api"]).failure().0,
        "NO_SESSION"
    );
    let taken = place.acpx(&["--format", "json", "demo", "sessions", "rename", "-s", "server", "web"]);
    assert_eq!(taken.failure().0, "SCOPE_TAKEN");
    let refused = ["@last", " ", "a\u{7}b"]
        .map(|name| place.acpx(&["--format", "json", "demo", "sessions", "rename", "server", name]).code);
    assert_eq!(refused, [Some(2), Some(1), Some(1)]);
    // After the host has ended, the next one knows the name.
    place.ok(&["host", "stop"]);
    assert_eq!(
        place.ok(&["demo", "sessions", "rename", "server", "back"]),
        format!("{}\t(renamed to back)\n", made["acpxRecordId"].as_str().unwrap())
    );
    place.ok(&["demo", "-s", "back", "hello again"]);
}

/// The titles in these messages.
fn titles(messages: &[Value]) -> Vec<&str> {
    messages.iter().filter_map(|message| message["params"]["update"]["title"].as_str()).collect()
}

#[test]
fn user_title_replaces_the_agents_in_lists_updates_and_replays() {
    let place = Place::new();
    let update = json!({ "sessionUpdate": "session_info_update", "title": "the agent's" });
    let turn = Script::new().update(update).say("done").end("end_turn");
    place.scripted(&Script::new().initialize(json!({})).session_new("s1").serve([("session/prompt", turn)]));
    let mut editor = Editor::silent(&place, &["scripted", "acp"]);
    editor.call("initialize", json!({ "protocolVersion": 1, "clientCapabilities": {} }));
    let session = editor.open(&place);
    let id = editor.ask_prompt(&session, "go");
    assert_eq!(titles(&editor.hear_answer(&id).0), ["the agent's"]);

    let renamed = place.json(&["sessions", "rename", &session, "mine"]);
    assert_eq!(renamed["title"], "mine");
    let (_, told) = editor.hear_method("session/update");
    assert_eq!(told["params"]["update"], json!({ "sessionUpdate": "session_info_update", "title": "mine" }));
    let id = editor.ask_prompt(&session, "go on");
    assert_eq!(titles(&editor.hear_answer(&id).0), [""; 0]);

    let listed = editor.call("session/list", json!({}));
    assert_eq!(listed["result"]["sessions"][0]["title"], "mine");
    assert_eq!(place.json(&["sessions", "list"])[0]["title"], "mine");
    let mut second = Editor::silent(&place, &["scripted", "acp"]);
    second.call("initialize", json!({ "protocolVersion": 1, "clientCapabilities": {} }));
    let params = json!({ "sessionId": session, "cwd": place.work(), "mcpServers": [] });
    let id = second.ask("session/load", params);
    assert_eq!(titles(&second.hear_answer(&id).0).last(), Some(&"mine"));
}
