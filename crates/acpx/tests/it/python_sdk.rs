//! The official Python SDK as the client, over stdio, HTTP and a WebSocket.
//!
//! The client with its steps is `tests/python/client.py`. `.ci/python-sdk` installs the SDK; without it these tests fail.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::acpx::{Done, Place, text};
use crate::remote::Served;

/// The Python that has the SDK, with the client and its working directory.
fn client(place: &Place) -> Command {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = manifest.join("../../target/python/bin/python");
    assert!(python.exists(), "{} does not exist: run .ci/python-sdk", python.display());
    let mut command = Command::new(python);
    command.arg(manifest.join("tests/python/client.py")).arg("--cwd").arg(place.work());
    command
}

fn steps(command: &mut Command) -> Vec<Value> {
    let done = Done::of(command);
    assert_eq!((done.err.as_str(), done.code), ("", Some(0)), "{}", done.out);
    done.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn expected() -> Vec<Value> {
    let answered = |words: &str, messages: Value| json!({ "step": format!("prompt {words}"), "stop": "end_turn", "messages": messages });
    let mut permission =
        answered("permission", json!(["agent: The edit was made.", "agent: You said: permission"]));
    permission["permissions"] = json!(["Edit notes.txt"]);
    let replay = [
        "user: hello",
        "agent: You said: hello",
        "user: permission",
        "agent: The edit was made.\nYou said: permission",
        "user: wait",
        "agent: Waiting until cancelled.",
    ];
    vec![
        json!({ "step": "new" }),
        answered("hello", json!(["agent: You said: hello"])),
        permission,
        json!({ "step": "prompt wait", "stop": "cancelled", "messages": ["agent: Waiting until cancelled."] }),
        json!({ "step": "load", "messages": replay }),
        answered("after load", json!(["agent: You said: after load"])),
        json!({ "step": "resume", "messages": [] }),
        answered("after resume", json!(["agent: You said: after resume"])),
        json!({ "step": "list", "sessions": [true] }),
    ]
}

#[test]
fn the_python_sdk_runs_a_session_over_stdio() {
    let place = Place::new();
    let mut client = client(&place);
    client.arg("--");
    assert_eq!(steps(&mut place.by(client, &["demo", "acp"])), expected());
}

#[test]
fn the_python_sdk_runs_a_session_over_http_and_websocket() {
    for is_websocket in [false, true] {
        let place = Place::new();
        let served = Served::new(&place, &[]);
        let url = if is_websocket { &served.websocket } else { &served.url };
        assert_eq!(steps(client(&place).args(["--url", url])), expected(), "{}", text(url));
    }
}
