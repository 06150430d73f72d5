//! The server goes away; its clients come back and go on after the last thing they know.

use serde_json::json;

use super::http::{Poster, prompt, request};
use super::{Served, Socket};
use crate::acpx::Place;
use crate::editor::words;

#[test]
fn websocket_client_continues_from_its_cursor_after_a_server_kill() {
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
    assert_eq!(whole(&heard), "chunk 1 of 3 chunk 2 of 3 chunk 3 of 3 Waiting until cancelled.");
}

/// What was heard in one line: what is told again is joined to one message.
fn whole(heard: &[String]) -> String {
    let said = heard.iter().map(|words| words.trim_start_matches("agent: "));
    said.collect::<Vec<_>>().join(" ").replace('\n', " ")
}

#[test]
fn http_client_continues_from_its_cursor_after_a_server_kill() {
    let place = Place::new();
    let served = Served::new(&place, &[]);
    let poster = Poster::new(&served, None);
    let mut connection = poster.stream(None).1;
    let session = poster.open(&place, &mut connection);
    let mut stream = poster.stream(Some(&session)).1;
    assert_eq!(poster.post(Some(&session), &prompt(2, &session, "chunks 3 wait")), 202);
    let (mut last, mut heard) = (0, Vec::new());
    while heard.len() < 2 {
        let message = stream.next().unwrap();
        last = message["params"]["_meta"]["acpx"]["seq"].as_u64().unwrap_or(last);
        heard.extend(words(&[message]));
    }
    served.kill();

    let served = Served::new(&place, &[]);
    let poster = Poster::new(&served, None);
    // The stream is there before the replay is asked for, and with it all of that.
    let mut stream = poster.stream(Some(&session)).1;
    let from = json!({ "type": "_acpx/seq", "seq": last + 1 });
    let meta = json!({ "acpx": { "replayFrom": from } });
    let params = json!({ "sessionId": session, "cwd": place.work(), "_meta": meta });
    assert_eq!(poster.post(Some(&session), &request(1, "session/resume", &params)), 202);
    let (missed, answer) = stream.hear_answer(1);
    assert!(answer["result"].is_object(), "{answer}");
    heard.extend(words(&missed));
    place.ok(&["demo", "cancel", "-s", &session]);
    while !heard.iter().any(|words| words.contains("Waiting")) {
        heard.extend(words(&[stream.next().unwrap()]));
    }
    assert_eq!(whole(&heard), "chunk 1 of 3 chunk 2 of 3 chunk 3 of 3 Waiting until cancelled.");
}

#[test]
fn killed_host_leaves_the_servers_clients_connected() {
    let place = Place::new();
    let served = Served::new(&place, &[]);
    let mut socket = Socket::new(&served);
    let session = socket.open(&place);
    socket.prompt(&session, "hello");
    crate::acpx::kill_hard(place.host_pid());
    let (said, answer) = socket.prompt(&session, "recall");
    assert_eq!(said, ["agent: You said before:\n1. hello"], "{answer}");
}
