//! What an agent asks beside permissions is asked on the terminal of the command whose turn it is, or declined.
#![cfg(target_os = "linux")]

use acpx_testkit::{Script, received_lines};
use serde_json::{Value, json};

use crate::acpx::Place;
use crate::terminal::OnTerminal;

/// A place whose agent asks this in every turn, and how the agent is started.
fn asking(params: Value) -> (Place, Vec<String>) {
    let turn = Script::new().request("elicitation/create", params).say("done").end("end_turn");
    let script = Script::new().initialize(json!({})).session_new("s1").serve([("session/prompt", turn)]);
    let place = Place::new();
    let agent = place.scripted(&script);
    place.ok(&["scripted", "sessions", "new"]);
    (place, agent)
}

fn form() -> Value {
    let properties = json!({
        "colour": { "type": "string", "title": "Colour", "enum": ["red", "blue"] },
        "count": { "type": "integer", "minimum": 1, "default": 2 },
        "token": { "type": "string", "title": "Token" },
    });
    let schema = json!({ "type": "object", "properties": properties, "required": ["colour", "token"] });
    json!({ "sessionId": "{sessionId}", "mode": "form", "message": "How shall it look?", "requestedSchema": schema })
}

/// What the agent was answered.
fn answer(agent: &[String]) -> Value {
    let lines = received_lines(agent);
    let read = |line: &String| serde_json::from_str::<Value>(line).unwrap();
    lines.iter().map(read).find(|line| line["id"] == "scripted-1").unwrap()["result"].clone()
}

const SECRET: &str = "s3cret-typed";

#[test]
fn elicitation_form_is_filled_in_on_the_terminal_without_storing_secrets() {
    let (place, agent) = asking(form());
    let mut terminal = OnTerminal::start(&place.command(&["scripted", "go"]));
    terminal.wait_for("How shall it look?\n  1  red\n  2  blue\n");
    terminal.wait_for("Colour (a number of the list, required, - to decline): ");
    terminal.type_in("3\n");
    terminal.wait_for("type a number from 1 to 2\n");
    terminal.wait_for("to decline): ");
    terminal.type_in("2\n");
    terminal.wait_for("count (whole number, 1 or more, empty for 2, - to decline): ");
    terminal.type_in("\n");
    terminal.wait_for("Token (text, not shown as it is typed, required, - to decline, \\- for a hyphen): ");
    terminal.type_in(&format!("{SECRET}\n"));
    assert_eq!(terminal.done(), Some(0), "{}", terminal.seen);
    assert!(!terminal.seen.contains(SECRET), "{}", terminal.seen);
    let content = json!({ "colour": "blue", "count": 2, "token": SECRET });
    assert_eq!(answer(&agent), json!({ "action": "accept", "content": content }));
    place.ok(&["host", "stop"]);
    for file in std::fs::read_dir(place.acpx_home()).unwrap().map(|entry| entry.unwrap().path()) {
        let bytes = std::fs::read(&file).unwrap_or_default();
        assert!(!bytes.windows(SECRET.len()).any(|bytes| bytes == SECRET.as_bytes()), "{}", file.display());
    }
}

#[test]
fn hyphen_declines_an_elicitation_and_the_turn_continues() {
    let (place, agent) = asking(form());
    let mut terminal = OnTerminal::start(&place.command(&["scripted", "go"]));
    terminal.wait_for("Colour");
    terminal.type_in("-\n");
    terminal.wait_for("done");
    assert_eq!((terminal.done(), answer(&agent)), (Some(0), json!({ "action": "decline" })));
}

#[test]
fn ctrl_c_at_a_form_field_cancels_the_elicitation_and_its_turn() {
    let (place, agent) = asking(form());
    let mut terminal = OnTerminal::start(&place.command(&["scripted", "go"]));
    terminal.wait_for("Colour (a number of the list, required, - to decline): ");
    terminal.type_in("\u{3}");
    terminal.wait_for("\nThe request is cancelled with its turn\n");
    assert_eq!(terminal.done(), Some(130), "{}", terminal.seen);
    assert_eq!(terminal.seen.matches("Colour").count(), 1, "{}", terminal.seen);
    assert!(!terminal.seen.contains("withdrawn"), "{}", terminal.seen);
    assert_eq!(answer(&agent), json!({ "action": "cancel" }));
}

#[test]
fn an_address_is_shown_and_agreed_to() {
    let params = json!({
        "sessionId": "{sessionId}", "mode": "url", "elicitationId": "e1",
        "url": "https://example.invalid/login", "message": "Log in there",
    });
    let (place, agent) = asking(params);
    let mut terminal = OnTerminal::start(&place.command(&["scripted", "go"]));
    terminal.wait_for("Log in there\n  https://example.invalid/login\n");
    terminal.wait_for("(y/N) ");
    terminal.type_in("y\n");
    assert_eq!((terminal.done(), answer(&agent)), (Some(0), json!({ "action": "accept" })));
}

#[test]
fn url_elicitation_completed_by_the_agent_needs_no_answer_on_the_terminal() {
    let params = json!({
        "sessionId": "s1", "mode": "url", "elicitationId": "e1",
        "url": "https://example.invalid/login", "message": "Log in there",
    });
    let ask = json!({ "jsonrpc": "2.0", "id": "address", "method": "elicitation/create", "params": params });
    let complete =
        json!({ "jsonrpc": "2.0", "method": "elicitation/complete", "params": { "elicitationId": "e1" } });
    let place = Place::new();
    let shown = place.path_of("shown");
    let turn = Script::new()
        .line(&ask.to_string())
        .await_file(&shown)
        .line(&complete.to_string())
        .request("elicitation/create", form())
        .say("done")
        .end("end_turn");
    let script = Script::new().initialize(json!({})).session_new("s1").serve([("session/prompt", turn)]);
    let agent = place.scripted(&script);
    place.ok(&["scripted", "sessions", "new"]);
    let mut terminal = OnTerminal::start(&place.command(&["scripted", "go"]));
    terminal.wait_for("type y when done (y/N) ");
    std::fs::write(&shown, "").unwrap();
    terminal.wait_for("\nThe agent reports that it is done\n");
    // The next question comes once the answer to this one has gone.
    terminal.wait_for("Colour");
    terminal.type_in("-\n");
    assert_eq!(terminal.done(), Some(0), "{}", terminal.seen);
    let accepted = json!({ "jsonrpc": "2.0", "id": "address", "result": { "action": "accept" } });
    let answers: Vec<Value> = received_lines(&agent)
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|line: &Value| line["id"] == "address")
        .collect();
    assert_eq!((answers, answer(&agent)), (vec![accepted], json!({ "action": "decline" })));
}

#[test]
fn elicitation_without_a_terminal_is_declined_and_reported() {
    let (place, agent) = asking(form());
    let done = place.acpx(&["--format", "quiet", "scripted", "go"]);
    assert_eq!((done.out.as_str(), done.code), ("done\n", Some(0)), "{}", done.err);
    let words =
        "[acpx] declined, since there is no terminal to ask on: the agent's form \"How shall it look?\"\n";
    assert!(done.err.contains(words), "{}", done.err);
    assert_eq!(answer(&agent), json!({ "action": "decline" }));
    let exec = place.acpx(&["--format", "quiet", "scripted", "exec", "go"]);
    assert!(exec.err.contains(words), "{exec:?}");
}
