//! `acpx acp` against the official SDK as the editor, in both versions, over the demo agent in either: a second reading of
//! the protocol. The editor is the example `sdk_editor`, with its checks; `./lab` runs it with real agents.

use std::process::Command;

use acpx_testkit::built_program;
use serde_json::{Value, json};

use crate::acpx::{Done, Place};

/// The steps of a whole life.
const STEPS: [&str; 13] = [
    "initialize",
    "new",
    "prompt",
    "permission",
    "cancel",
    "kill",
    "replay",
    "prompt after replay",
    "close",
    "resume",
    "list",
    "delete",
    "leave",
];

fn lives_a_whole_life(version: &str, agent: &[&str]) {
    let place = Place::new();
    let mut editor = Command::new(built_program("examples/sdk_editor"));
    editor.args([version, "demo"]).arg(place.work());
    let done = Done::of(&mut place.by(editor, agent));
    assert_eq!((done.err.as_str(), done.code), ("", Some(0)), "{}", done.out);
    let steps: Vec<Value> = done.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(steps, STEPS.map(|step| json!({ "step": step })));
}

#[test]
fn official_v1_client_runs_a_session_with_a_v1_agent() {
    lives_a_whole_life("1", &["demo", "acp"]);
}

#[test]
fn official_v1_client_runs_a_session_with_a_v2_agent() {
    lives_a_whole_life("1", &["--protocol", "2", "demo", "acp"]);
}

#[test]
fn official_v2_client_runs_a_session_with_a_v1_agent() {
    lives_a_whole_life("2", &["demo", "acp"]);
}

#[test]
fn official_v2_client_runs_a_session_with_a_v2_agent() {
    lives_a_whole_life("2", &["--protocol", "2", "demo", "acp"]);
}
