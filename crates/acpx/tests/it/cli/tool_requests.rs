//! What the host does for an agent is said by every command that shows a turn.

use acpx_testkit::Script;
use serde_json::{Value, json};

use crate::acpx::Place;

/// A place whose agent writes a file, runs a command and reads a file that is not there, in every turn.
fn place() -> (Place, String) {
    let place = Place::new();
    let work = place.work().display().to_string();
    let path =
        |name: &str| json!({ "sessionId": "{sessionId}", "path": format!("{work}/{name}"), "content": "x" });
    let create =
        json!({ "sessionId": "{sessionId}", "command": "sh", "args": ["-c", "echo hello w; exit 4"] });
    let terminal = || json!({ "sessionId": "{sessionId}", "terminalId": "{terminalId}" });
    let tool = json!({ "sessionUpdate": "tool_call", "toolCallId": "tc1", "title": "run it", "status": "completed" });
    let turn = Script::new()
        .request("fs/write_text_file", path("in.txt"))
        .request("terminal/create", create)
        .request("terminal/wait_for_exit", terminal())
        .request("terminal/release", terminal())
        .request("fs/read_text_file", path("none"))
        .update(tool)
        .end("end_turn");
    place.scripted(&Script::new().initialize(json!({})).session_new("s1").serve([("session/prompt", turn)]));
    place.ok(&["scripted", "sessions", "new"]);
    (place, work)
}

#[test]
fn prompt_replay_and_history_show_file_and_terminal_requests_with_their_results() {
    let (place, work) = place();
    let missing = format!(
        "Resource not found: file://{work}/none (ENOENT: no such file or directory, open '{work}/none')"
    );
    let shown = format!(
        "\
[client] fs/write_text_file (running)
  files: {work}/in.txt

[client] fs/write_text_file (completed)
  files: {work}/in.txt

[client] terminal/create (running)
  input: sh -c 'echo hello w; exit 4'

[client] terminal/create (completed)
  output:
    $ sh -c 'echo hello w; exit 4'
    hello w
    [exit code 4]

[client] fs/read_text_file (running)
  files: {work}/none

[client] fs/read_text_file (failed)
  files: {work}/none
  error: {missing}

[tool] run it (completed)

[done] end_turn
"
    );
    assert_eq!(place.ok(&["--approve-all", "scripted", "go"]), shown);
    assert_eq!(place.ok(&["scripted", "sessions", "replay"]), format!("[user, turn 1] go\n\n{shown}"));
    let row = format!(
        "[client:fs/write_text_file] {work}/in.txt [client:terminal/create] $ sh -c 'echo hello w; exit 4' hello w [exit code 4] [client:fs/read_text_file (failed)] {work}/none: {missing} [tool:run it]"
    );
    let said = || -> Vec<Value> {
        let history = place.json(&["scripted", "sessions", "history"]);
        history["entries"].as_array().unwrap().iter().map(|entry| entry["textPreview"].clone()).collect()
    };
    assert_eq!(said(), [json!("go"), json!(row)]);
    // The same id of a tool call in another turn is another call.
    place.ok(&["--approve-all", "scripted", "again"]);
    assert_eq!(said()[2..], [json!("again"), json!(row)]);
}

#[test]
fn denied_tool_requests_are_reported_in_place_and_at_the_end() {
    let (place, work) = place();
    let done = place.acpx(&["scripted", "go"]);
    let refused = format!(
        "\
[client] fs/write_text_file (denied)
  files: {work}/in.txt
  error: Permission denied for fs/write_text_file

[client] terminal/create (running)
  input: sh -c 'echo hello w; exit 4'

[client] terminal/create (denied)
  input: sh -c 'echo hello w; exit 4'
  error: Permission denied for terminal/create
"
    );
    assert!(done.out.contains(&refused), "{}", done.out);
    let end = format!(
        "\
[done] end_turn
[error] PERMISSION_DENIED: every permission that the agent asked for was denied: Write {work}/in.txt, and 1 more
hint: no client that could answer has allowed it: prompt on a terminal, or let it wait with --non-interactive-permissions wait and answer with acpx approve; --approve-all lets the agent do everything
"
    );
    assert!(done.out.ends_with(&end), "{}", done.out);
    assert_eq!(done.code, Some(5));
    let history = place.json(&["scripted", "sessions", "history"]);
    let row = history["entries"][1]["textPreview"].as_str().unwrap();
    let denied = format!(
        "[client:fs/write_text_file (denied)] {work}/in.txt: Permission denied for fs/write_text_file"
    );
    assert!(row.starts_with(&denied), "{row}");
}
