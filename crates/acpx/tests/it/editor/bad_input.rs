//! What an editor may get wrong, and what it hears of that.

use serde_json::{Value, json};

use super::Editor;
use crate::acpx::{Done, Place};
#[cfg(target_os = "linux")]
use crate::terminal::OnTerminal;

fn error(answer: &Value) -> (&Value, &Value) {
    (&answer["error"]["code"], &answer["error"]["data"])
}

#[test]
fn garbage_is_skipped_an_array_is_refused_and_initialize_comes_first() {
    let place = Place::new();
    let mut editor = Editor::silent(&place, &["demo", "acp", "--verbose"]);
    editor.say("no JSON at all");
    editor.say("{\"half\":");
    editor.say("");
    editor.say(r#"[{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}]"#);
    let refusal = editor.hear();
    let details = json!({ "details": "invalid request: a batch" });
    assert_eq!((&refusal["id"], error(&refusal)), (&json!(null), (&json!(-32600), &details)));
    let early = editor.call("session/new", json!({ "cwd": place.work(), "mcpServers": [] }));
    let details = "session/new came before initialize; send initialize first";
    let details = json!({ "method": "session/new", "details": details });
    assert_eq!(error(&early), (&json!(-32600), &details));
    let answer = editor.call("initialize", json!({ "protocolVersion": 1 }));
    assert_eq!(answer["result"]["protocolVersion"], 1);
}

#[test]
fn garbage_is_counted_on_stderr_and_never_on_stdout() {
    let place = Place::new();
    let rows = [
        ("hello\n", "ignored 1 line from the editor that is no message of the protocol"),
        ("a\n\nb\n", "ignored 2 lines from the editor that are no messages of the protocol"),
    ];
    for (said, words) in rows {
        let err = format!("[acpx] {words}\n");
        let expected = Done { out: String::new(), err: err.clone(), code: Some(0) };
        assert_eq!(place.acpx_with_stdin(said, &["demo", "acp"]), expected);
        // What is answered was not passed over.
        let Done { out, err: told, code } = place.acpx_with_stdin(&format!("[]\n{said}"), &["demo", "acp"]);
        assert!(out.contains("-32600"), "{out}");
        assert_eq!((told, code), (err, Some(0)));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn acp_command_on_a_terminal_explains_that_it_is_for_editors() {
    let place = Place::new();
    let mut terminal = OnTerminal::start(&place.command(&["demo", "acp"]));
    terminal.wait_for("an editor starts this command");
    terminal.type_in("\u{4}");
    assert_eq!(terminal.done(), Some(0));
}

#[test]
fn overlong_request_is_refused_by_its_id_and_the_connection_continues() {
    let place = Place::new();
    let mut editor = Editor::new(&place);
    let session = editor.open(&place);
    let long = "x".repeat(66 << 20);
    editor.say(&format!(
        r#"{{"jsonrpc":"2.0","id":"long","method":"session/prompt","params":{{"x":"{long}"}}}}"#
    ));
    let refusal = editor.hear();
    assert_eq!((&refusal["id"], &refusal["error"]["code"]), (&json!("long"), &json!(-32600)), "{refusal}");
    assert_eq!(editor.prompt(&session, "hello").1["result"]["stopReason"], "end_turn");
}

#[test]
fn a_bad_request_is_refused_by_the_field_that_is_wrong() {
    let place = Place::new();
    let mut editor = Editor::new(&place);
    let work = place.work();
    let session = editor.open(&place);
    let rows = [
        ("session/new", json!({ "cwd": "relative", "mcpServers": [] }), "cwd"),
        ("session/new", json!({ "cwd": work }), "mcpServers"),
        ("session/new", json!({ "cwd": work, "mcpServers": null }), "mcpServers"),
        ("session/load", json!({ "sessionId": session, "cwd": work }), "mcpServers"),
        ("session/prompt", json!({ "sessionId": session }), "prompt"),
    ];
    for (method, params, field) in rows {
        let answer = editor.call(method, params.clone());
        assert_eq!(error(&answer).0, &json!(-32602), "{method} {params}: {answer}");
        assert_eq!(error(&answer).1["field"], json!(field), "{method} {params}: {answer}");
    }
    let answer = editor.call("session/nothing", json!({}));
    let details = json!({ "method": "session/nothing", "details": "there is no method session/nothing" });
    assert_eq!(error(&answer), (&json!(-32601), &details));
}

#[test]
fn unknown_or_closed_session_is_named_and_closing_one_succeeds() {
    let place = Place::new();
    let mut editor = Editor::new(&place);
    let session = editor.open(&place);
    assert_eq!(editor.call("session/close", json!({ "sessionId": session }))["result"], json!({}));
    for unknown in ["nobody", session.as_str()] {
        let (_, answer) = editor.prompt(unknown, "hello");
        let (code, data) = error(&answer);
        assert_eq!((code, &data["sessionId"]), (&json!(-32002), &json!(unknown)), "{answer}");
        assert_eq!(editor.call("session/close", json!({ "sessionId": unknown }))["result"], json!({}));
    }
    editor.notify("session/cancel", json!({ "sessionId": session }));
    let (said, _) = editor.load(&place, &session);
    assert_eq!(said, [""; 0]);
}

#[test]
fn errors_before_the_protocol_begins_go_to_stderr_only() {
    let place = Place::new();
    place.configure("{ not JSON");
    for format in ["text", "json"] {
        let Done { out, err, code } = place.acpx_with_stdin("", &["--format", format, "demo", "acp"]);
        assert_eq!((out.as_str(), code), ("", Some(1)), "{err}");
        assert!(err.contains("config.json"), "{err}");
    }
}

#[test]
fn editor_that_disconnects_silently_leaves_nothing() {
    let place = Place::new();
    let editor = Editor::silent(&place, &["demo", "acp"]);
    assert_eq!(editor.leave(), (Some(0), Vec::new()));
}
