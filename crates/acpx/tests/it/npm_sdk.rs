//! The SDK that editors are written with as the client: whether what we send is what others understand.
//!
//! The scenario itself, with its checks, is in `tests/npm`. Node and the SDK are installed by `.ci/npm-sdk`; without
//! them these tests fail.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::acpx::{Done, Place, text};
use crate::remote::Served;

/// Where the SDK is installed.
pub(crate) fn installed() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/npm")
}

/// Runs the scenario with an acpx command as the agent, and gives its steps without their times.
fn scenario(place: &Place, protocol: &str, agent: &[&str]) -> Vec<Value> {
    let mut client = client(place, protocol);
    client.arg("--");
    steps(&mut place.by(client, agent))
}

/// A script of `tests/npm`, run by the installed node.
pub(crate) fn script(name: &str) -> Command {
    let node = installed().join("node_modules/.bin/node");
    assert!(node.exists(), "{} is not there: run .ci/npm-sdk", node.display());
    let mut command = Command::new(node);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/npm").join(name));
    command
}

/// The client with the scenario, before it is told of the agent.
fn client(place: &Place, protocol: &str) -> Command {
    let mut command = script("client.mjs");
    command.arg("--sdk").arg(installed()).args(["--protocol", protocol, "--words", "demo"]);
    command.arg("--cwd").arg(place.work());
    command
}

fn steps(client: &mut Command) -> Vec<Value> {
    let done = Done::of(client);
    assert_eq!((done.err.as_str(), done.code), ("", Some(0)), "{}", done.out);
    done.out.lines().map(step).collect()
}

fn step(line: &str) -> Value {
    let mut step: Value = serde_json::from_str(line).unwrap();
    step.as_object_mut().unwrap().remove("ms");
    step
}

/// All that the scenario hears of an agent that is the demo agent in the end; `diff` is how an edit is shown.
fn whole_life(name: &str, title: &str, diff: &Value) -> Vec<Value> {
    let read = json!({
        "toolCallId": "call-1-1",
        "title": "Read notes.txt",
        "kind": "read",
        "status": "completed",
        "content": [{ "type": "content", "content": { "type": "text", "text": "one note: all is well" } }],
    });
    let edit = json!({
        "toolCallId": "call-2-1",
        "title": "Edit notes.txt",
        "kind": "edit",
        "status": "completed",
        "content": [diff],
    });
    let hello = [
        json!({ "thought": "Thinking about: think tool hello" }),
        json!({ "tool": read }),
        json!({ "agent": "You said: think tool hello" }),
    ];
    let permission =
        [json!({ "tool": edit }), json!({ "agent": "The edit was made.\nYou said: permission" })];
    let cancelled = [json!({ "agent": "Waiting until cancelled.\n" })];
    let user = |text: &str| [json!({ "user": text })];
    let replayed =
        [&user("think tool hello")[..], &hello, &user("permission"), &permission, &user("wait"), &cancelled]
            .concat();
    let asked =
        json!({ "for": "Edit notes.txt", "options": ["allow_once", "reject_once"], "chosen": "allow_once" });
    let recalled = "You said before:\n1. think tool hello\n2. permission\n3. wait";
    vec![
        json!({ "step": "initialize", "agent": name }),
        json!({ "step": "new" }),
        json!({ "step": "prompt", "heard": hello }),
        json!({ "step": "permission", "heard": permission, "asked": asked }),
        json!({ "step": "cancel", "heard": cancelled }),
        json!({ "step": "kill" }),
        json!({ "step": "replay", "heard": replayed }),
        json!({ "step": "prompt after replay", "heard": [{ "agent": recalled }] }),
        json!({ "step": "close" }),
        json!({ "step": "resume", "heard": [{ "agent": "You said: and again" }] }),
        json!({ "step": "list", "title": title }),
        json!({ "step": "delete" }),
        json!({ "step": "leave" }),
    ]
}

/// An edit as version 1 shows it.
fn diff_of_version_1(place: &Place) -> Value {
    json!({
        "type": "diff",
        "path": text(place.work().join("notes.txt")),
        "oldText": "one note: all is well\n",
        "newText": "one note: all is well\nanother note: it was edited\n",
    })
}

/// An edit as version 2 shows it.
fn diff_of_version_2(place: &Place) -> Value {
    let file = text(place.work().join("notes.txt"));
    let shown = format!(
        "diff --git a{file} b{file}\n--- a{file}\n+++ b{file}\n@@ -1,1 +1,2 @@\n \
         one note: all is well\n+another note: it was edited\n"
    );
    json!({
        "type": "diff",
        "changes": [{ "operation": "modify", "path": file, "fileType": "text" }],
        "patch": { "format": "git_patch", "text": shown },
    })
}

#[test]
fn npm_sdk_v1_client_runs_a_session_with_the_demo_agent() {
    let place = Place::new();
    let steps = scenario(&place, "1", &["demo-agent"]);
    assert_eq!(steps, whole_life("acpx-demo", "think tool hello", &diff_of_version_1(&place)));
}

#[test]
fn npm_sdk_v2_client_runs_a_session_with_the_demo_agent() {
    let place = Place::new();
    let steps = scenario(&place, "2", &["demo-agent"]);
    assert_eq!(steps, whole_life("acpx-demo", "think tool hello", &diff_of_version_2(&place)));
}

/// The agents that an editor has through us: the demo agent in version 1 and in version 2.
const BRIDGED: [&[&str]; 2] = [&["demo", "acp"], &["--protocol", "2", "demo", "acp"]];

#[test]
fn npm_sdk_v1_client_runs_sessions_through_the_host_with_both_versions() {
    for agent in BRIDGED {
        let place = Place::new();
        let steps = scenario(&place, "1", agent);
        assert_eq!(
            steps,
            whole_life("acpx-demo", "think tool hello", &diff_of_version_1(&place)),
            "{agent:?}"
        );
    }
}

#[test]
fn npm_sdk_v2_client_runs_sessions_through_the_host_with_both_versions() {
    for agent in BRIDGED {
        let place = Place::new();
        let steps = scenario(&place, "2", agent);
        assert_eq!(
            steps,
            whole_life("acpx-demo", "think tool hello", &diff_of_version_2(&place)),
            "{agent:?}"
        );
    }
}

#[test]
fn npm_sdk_runs_a_session_over_http_and_websocket_in_both_versions() {
    for is_websocket in [false, true] {
        let place = Place::new();
        let served = Served::new(&place, &[]);
        let url = if is_websocket { &served.websocket } else { &served.url };
        for (protocol, diff) in [("1", diff_of_version_1(&place)), ("2", diff_of_version_2(&place))] {
            let heard = steps(client(&place, protocol).args(["--url", url]));
            assert_eq!(heard, whole_life("acpx-demo", "think tool hello", &diff), "{url} {protocol}");
        }
    }
}

#[test]
fn websocket_of_a_web_page_authenticates_with_a_subprotocol() {
    let place = Place::new();
    let token = place.ok(&["token", "new"]);
    let served = Served::new(&place, &[]);
    let shown = |token: &str| steps(script("page.mjs").args([&served.websocket, token]));
    assert_eq!(shown(token.trim()), [json!({ "protocol": "acp.v1", "version": 1 })]);
    assert_eq!(shown("acpx_wrong"), [json!({ "protocol": "", "error": true })]);
}
