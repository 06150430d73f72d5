//! What becomes of what an editor has asked when it says no more: its stdin is a file or a pipe of a shell, or it died.

use std::io::Write;
use std::process::Stdio;
use std::time::Instant;

use serde_json::{Value, json};

use super::{Editor, TIMEOUT};
use crate::acpx::Place;

fn request(id: u64, method: &str, params: &Value) -> String {
    format!("{}\n", json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
}

fn initialize() -> String {
    request(1, "initialize", &json!({ "protocolVersion": 1 }))
}

#[test]
fn requests_before_the_end_of_stdin_are_answered() {
    let place = Place::new();
    let new = request(2, "session/new", &json!({ "cwd": place.work(), "mcpServers": [] }));
    // The second time the host is there already.
    for _ in 0..2 {
        let done = place.acpx_with_stdin(&format!("{}{new}", initialize()), &["demo", "acp"]);
        assert_eq!((done.err.as_str(), done.code), ("", Some(0)));
        let answers: Vec<Value> = done.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let ids: Vec<&Value> =
            answers.iter().filter(|line| line.get("result").is_some()).map(|line| &line["id"]).collect();
        assert_eq!(ids, [1, 2], "{}", done.out);
    }
    assert_eq!(place.json(&["sessions", "list"]).as_array().unwrap().len(), 2);
}

#[test]
fn prompt_before_the_end_of_stdin_runs_and_is_not_awaited() {
    let place = Place::new();
    let made = place.json(&["demo", "sessions", "new"]);
    let mut editor = Editor::new(&place);
    let session = made["acpxRecordId"].as_str().unwrap();
    editor.load(&place, session);
    editor.ask_prompt(session, "wait");
    assert_eq!(editor.leave().0, Some(0));
    let status = place.json(&["demo", "status"]);
    assert!(status.get("turn").is_some() || status["queued"] == 1, "it is kept: {status}");
    place.until("the turn runs", |status| status.get("turn").is_some());
    assert_eq!(place.ok(&["demo", "cancel"]), "cancel requested\n");
}

#[cfg(target_os = "linux")]
#[test]
fn an_editor_that_died_is_not_waited_for() {
    let place = Place::new();
    place.configure(&json!({ "agents": { "mute": { "argv": ["sleep", "600"] } } }).to_string());
    let mut command = place.command(&["mute", "acp"]);
    let mut shim = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = shim.stdin.take().unwrap();
    let new = request(2, "session/new", &json!({ "cwd": place.work(), "mcpServers": [] }));
    stdin.write_all(format!("{}{new}", initialize()).as_bytes()).unwrap();
    drop((stdin, shim.stdout.take()));
    let begun = Instant::now();
    assert!(shim.wait().unwrap().success());
    assert!(begun.elapsed() < TIMEOUT / 2, "it was waited for {:?}", begun.elapsed());
}
