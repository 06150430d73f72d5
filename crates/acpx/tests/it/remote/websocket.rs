//! A client on a WebSocket has what an editor has, within the rights of a remote client.

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use super::{Served, Socket};
use crate::acpx::Place;

#[test]
fn websocket_client_runs_a_session_that_the_shell_sees() {
    let place = Place::new();
    let served = Served::new(&place, &[]);
    let mut socket = Socket::new(&served);
    let session = socket.open(&place);
    let (said, answer) = socket.prompt(&session, "hello");
    assert_eq!(said, ["agent: You said: hello"]);
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    let listed = place.json(&["demo", "sessions", "list"]);
    assert_eq!(listed[0]["acpxRecordId"], json!(session));
    // Another client follows what the first one does, and goes on with it when that one is gone.
    let mut second = Socket::new(&served);
    let params = json!({ "sessionId": session, "cwd": place.work(), "mcpServers": [] });
    let load = second.ask("session/load", params);
    let (replayed, _) = second.hear_answer(&load);
    assert_eq!(crate::editor::words(&replayed), ["user: hello", "agent: You said: hello"]);
    drop(socket);
    assert_eq!(second.prompt(&session, "recall").0, ["agent: You said before:\n1. hello"]);
    assert_eq!(second.call("session/close", json!({ "sessionId": session }))["result"], json!({}));
    assert_eq!(served.stop().code, Some(0));
}

#[test]
fn a_text_frame_is_a_message_however_it_is_broken_into_lines() {
    let place = Place::new();
    let served = Served::new(&place, &[]);
    let mut socket = Socket::silent(&served, None).unwrap();
    socket.say(Message::text("no message"));
    socket.say(Message::text("[\n]"));
    let refused = socket.hear().unwrap();
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&Value::Null, &json!(-32600)));
    let pretty =
        json!({ "jsonrpc": "2.0", "id": "a", "method": "initialize", "params": { "protocolVersion": 1 } });
    socket.say(Message::text(serde_json::to_string_pretty(&pretty).unwrap()));
    assert_eq!(socket.hear_answer(&json!("a")).1["result"]["protocolVersion"], 1);
    // What is no text is no message, and whoever sends it is told so.
    socket.say(Message::binary(vec![1, 2, 3]));
    assert_eq!(socket.hear().unwrap_err(), "messages are text");
}

#[test]
fn websocket_close_of_a_client_is_answered_with_a_close() {
    let place = Place::new();
    let served = Served::new(&place, &[]);
    for mut socket in [Socket::silent(&served, None).unwrap(), Socket::new(&served)] {
        let bye = CloseFrame { code: CloseCode::Normal, reason: "bye".into() };
        socket.say(Message::Close(Some(bye)));
        assert_eq!(socket.hear().unwrap_err(), "bye");
    }
}

#[test]
fn remote_client_gets_permission_requests_unless_the_user_approves_all() {
    let place = Place::new();
    let served = Served::new(&place, &[]);
    let mut socket = Socket::new(&served);
    let session = socket.open(&place);
    let id = socket.ask_prompt(&session, "permission", json!({ "policy": "approve-all" }));
    let question = loop {
        let message = socket.hear().unwrap();
        if message["method"] == "session/request_permission" {
            break message;
        }
    };
    let outcome = json!({ "outcome": { "outcome": "cancelled" } });
    let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": outcome });
    socket.say(Message::text(answer.to_string()));
    socket.hear_answer(&id);

    let allowing = Served::new(&place, &["--allow-approve-all"]);
    let mut socket = Socket::new(&allowing);
    let session = socket.open(&place);
    let id = socket.ask_prompt(&session, "permission", json!({ "policy": "approve-all" }));
    let (before, answer) = socket.hear_answer(&id);
    assert!(before.iter().all(|message| message["method"] == "session/update"), "{before:?}");
    assert_eq!(answer["result"]["_meta"]["acpx"]["approved"], 1);
}

#[test]
fn remote_client_names_no_agent_and_starts_nothing_here() {
    let place = Place::new();
    let served = Served::new(&place, &[]);
    let mut socket = Socket::new(&served);
    let mark = place.path_of("mark");
    let agent = json!({ "argv": ["touch", mark] });
    let meta = json!({ "acpx": { "agent": agent, "environment": [["ACPX_HOME", "/nowhere"]] } });
    let params = json!({ "cwd": place.work(), "mcpServers": [], "_meta": meta });
    let made = socket.call("session/new", params);
    assert!(made["result"]["sessionId"].is_string(), "{made}");
    assert!(!mark.exists());

    let stdio = json!({ "name": "s", "command": "/bin/touch", "args": [mark], "env": [] });
    let params = json!({ "cwd": place.work(), "mcpServers": [stdio] });
    let refused = socket.call("session/new", params.clone());
    let error = &refused["error"];
    assert_eq!((&error["code"], &error["data"]["field"]), (&json!(-32602), &json!("mcpServers[0]")));
    let stopped = socket.call("_acpx/host/stop", json!({}));
    assert_eq!(stopped["error"]["code"], -32601);

    let allowing = Served::new(&place, &["--allow-stdio-servers"]);
    let made = Socket::new(&allowing).call("session/new", params);
    assert!(made["result"]["sessionId"].is_string(), "{made}");
}
