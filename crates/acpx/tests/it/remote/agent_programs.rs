//! A program that an agent started is that agent, whichever way it takes: a server on this machine is no way around.
#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use acpx_core::home::HostPaths;
use acpx_core::tools::Tag;
use serde_json::{Value, json};

use super::Served;
use crate::acpx::{Done, Place};

/// The mark of an agent of this home.
fn tag(place: &Place) -> String {
    let home = HostPaths::new(place.acpx_home(), None, &std::env::temp_dir());
    Tag::of_this_process(home.name().unwrap()).unwrap().to_string()
}

/// Prompts for something that needs a permission, over a relay; whether anybody was asked, and what was approved.
fn prompts(place: &Place, mut relay: Command) -> (bool, Value) {
    let mut child = relay.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut to, mut from) =
        (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()).lines());
    let mut was_asked = false;
    let mut call = |id: u64, method: &str, params: Value| -> Value {
        writeln!(to, "{}", json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
            .unwrap();
        loop {
            let message: Value = serde_json::from_str(&from.next().unwrap().unwrap()).unwrap();
            if message["method"] == "session/request_permission" {
                was_asked = true;
                let option = message["params"]["options"][0]["optionId"].clone();
                let outcome = json!({ "outcome": { "outcome": "selected", "optionId": option } });
                writeln!(to, "{}", json!({ "jsonrpc": "2.0", "id": message["id"], "result": outcome }))
                    .unwrap();
            } else if message["id"] == id && message.get("method").is_none() {
                return message["result"].clone();
            }
        }
    };
    call(1, "initialize", json!({ "protocolVersion": 1 }));
    let made = call(2, "session/new", json!({ "cwd": place.work(), "mcpServers": [] }));
    let prompt = json!([{ "type": "text", "text": "permission" }]);
    let done = call(3, "session/prompt", json!({ "sessionId": made["sessionId"], "prompt": prompt }));
    drop(to);
    child.wait().unwrap();
    (was_asked, done["_meta"]["acpx"]["approved"].clone())
}

#[test]
fn program_started_by_an_agent_answers_no_pending_request_through_a_server() {
    let place = Place::new();
    let served = Served::new(&place, &[]);
    let relay = || place.command(&["remote-agent", &served.websocket]);
    assert_eq!(prompts(&place, relay()), (true, json!(1)));
    let mut inside = relay();
    inside.env(Tag::VARIABLE, tag(&place));
    assert_eq!(prompts(&place, inside), (false, json!(0)));
}

#[test]
fn program_started_by_an_agent_creates_no_token() {
    let place = Place::new();
    place.ok(&["token", "new"]);
    let mut inside = place.command(&["--format", "json", "token", "new"]);
    let done = Done::of(inside.env(Tag::VARIABLE, tag(&place)));
    assert_eq!(done.failure().0, "NOT_ALLOWED", "{done:?}");
    assert_eq!(place.json(&["token", "list"])["tokens"].as_array().unwrap().len(), 1);
}

#[test]
fn program_started_by_an_agent_approves_and_serves_nothing_without_a_host() {
    let place = Place::new();
    place.ok(&["demo", "exec", "hello", "--approve-all"]);
    let rules = r#"{"autoApprove":["*"]}"#;
    let refused = [
        &["--approve-all", "demo", "exec", "permission"][..],
        &["--permission-policy", rules, "demo", "exec", "permission"],
        &["--approve-all", "demo", "acp"],
        &["--permission-policy", rules, "demo", "acp"],
        &["demo", "serve", "--listen", "127.0.0.1:0"],
    ];
    for arguments in refused {
        let done = Done::of(place.command(arguments).env(Tag::VARIABLE, tag(&place)));
        assert!(done.err.contains("a program that an agent started may not "), "{arguments:?} {done:?}");
        assert_eq!((done.out.as_str(), done.code), ("", Some(1)), "{arguments:?} {done:?}");
    }
    // Commands about requests and queued prompts are the user's, even where nothing is pending or queued.
    let users = [&["approve"][..], &["deny", "3f9c1a7b"], &["queue", "list"], &["queue", "drop", "--all"]];
    for arguments in users {
        let json = [&["--format", "json"], arguments].concat();
        let done = Done::of(place.command(&json).env(Tag::VARIABLE, tag(&place)));
        assert_eq!(
            (done.failure().0.as_str(), done.code),
            ("NOT_ALLOWED", Some(1)),
            "{arguments:?} {done:?}"
        );
    }
    let asks = Done::of(place.command(&["demo", "exec", "hello"]).env(Tag::VARIABLE, tag(&place)));
    assert_eq!((asks.out.as_str(), asks.code), ("You said: hello\n\n[done] end_turn\n", Some(0)));
}
