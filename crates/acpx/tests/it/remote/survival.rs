//! The server goes away; its clients come back and go on after the last thing they know.

use serde_json::json;

use super::{Served, Socket};
use crate::acpx::Place;
use crate::editor::words;

#[test]
fn after_the_server_was_killed_in_mid_turn_a_client_goes_on_after_the_last_number_it_knows() {
    let place = Place::new();
    let served = Served::new(&place, &[]);
    let mut socket = Socket::new(&served);
    let session = socket.open(&place);
    socket.ask_prompt(&session, "chunks 3 wait", json!({}));
    let (mut last, mut heard) = (0, Vec::new());
    while heard.len() < 2 {
        let message = socket.hear().unwrap();
        last = message["params"]["_meta"]["acpx"]["seq"].as_u64().unwrap_or(last);
        heard.extend(words(&[message]));
    }
    served.kill();
    while socket.hear().is_ok() {}

    let served = Served::new(&place, &[]);
    let mut socket = Socket::new(&served);
    let from = json!({ "type": "_acpx/seq", "seq": last + 1 });
    let meta = json!({ "acpx": { "replayFrom": from } });
    let params = json!({ "sessionId": session, "cwd": place.work(), "_meta": meta });
    let id = socket.ask("session/resume", params);
    let (missed, answer) = socket.hear_answer(&id);
    assert!(answer["result"].is_object(), "{answer}");
    heard.extend(words(&missed));
    // The turn still runs, and its end is heard.
    place.ok(&["demo", "cancel", "-s", &session]);
    while !heard.iter().any(|words| words.contains("Waiting")) {
        heard.extend(words(&[socket.hear().unwrap()]));
    }
    // What is told again is joined to one message.
    let whole = heard.iter().map(|words| words.trim_start_matches("agent: ")).collect::<Vec<_>>().join("\n");
    assert_eq!(whole.replace('\n', " "), "chunk 1 of 3 chunk 2 of 3 chunk 3 of 3 Waiting until cancelled.");
}

#[test]
fn a_host_that_is_killed_leaves_the_clients_of_a_server_connected() {
    let place = Place::new();
    let served = Served::new(&place, &[]);
    let mut socket = Socket::new(&served);
    let session = socket.open(&place);
    socket.prompt(&session, "hello");
    crate::acpx::kill_hard(place.host_pid());
    let (said, answer) = socket.prompt(&session, "recall");
    assert_eq!(said, ["agent: You said before:\n1. hello"], "{answer}");
}
