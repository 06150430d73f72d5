//! Queued prompts are listed and dropped, and any prompt is cancelled by its id.

use serde_json::{Value, json};

use crate::acpx::{Place, eventually, kill_hard};

/// A session named `api` whose agent works on a turn, with these prompts behind it.
fn busy(prompts: &[&str]) -> (Place, Vec<String>) {
    let place = Place::new();
    place.ok(&["demo", "sessions", "new", "-s", "api"]);
    let queue = |text: &&str| {
        let queued = place.json(&["demo", "-s", "api", "--no-wait", text]);
        queued["requestId"].as_str().unwrap().to_owned()
    };
    queue(&"wait");
    eventually("the turn runs", || place.json(&["demo", "-s", "api", "status"])["turn"]["number"] == 1);
    let ids = prompts.iter().map(queue).collect();
    (place, ids)
}

fn queued(place: &Place) -> Vec<Value> {
    place.json(&["queue", "list"])["prompts"].as_array().unwrap().clone()
}

fn conversation(place: &Place) -> String {
    place.ok(&["demo", "-s", "api", "sessions", "history", "--format", "quiet"])
}

#[test]
fn queued_prompts_are_listed_and_dropped_by_id() {
    let (place, ids) = busy(&["first\nof two lines", "second", "third"]);
    let session = place.json(&["demo", "sessions", "show", "api"]);
    let prompts = queued(&place);
    let row = |index: usize, text: &str| {
        json!({
            "requestId": ids[index], "position": index + 1, "acpxRecordId": session["acpxRecordId"],
            "acpxSessionId": session["acpxSessionId"], "name": "api", "agent": "demo", "cwd": place.work(),
            "queuedAt": prompts[index]["queuedAt"], "text": text,
        })
    };
    assert_eq!(prompts, [row(0, "first…"), row(1, "second"), row(2, "third")]);
    assert_eq!(place.ok(&["--format", "quiet", "queue"]), format!("{}\n", ids.join("\n")));
    place.ok(&["demo", "sessions", "new", "-s", "other"]);
    let id = session["acpxRecordId"].as_str().unwrap();
    for (filter, shown) in [("api", 3), ("@2", 3), (&id[..16], 3), ("other", 0), ("@last", 0)] {
        let listed = place.json(&["queue", "list", filter]);
        assert_eq!(listed["prompts"].as_array().unwrap().len(), shown, "{filter}");
    }
    assert_eq!(place.acpx(&["queue", "list", "nosuch"]).code, Some(4));
    assert_eq!(place.acpx(&["queue", "drop", "--all", "-s", "nosuch"]).code, Some(4));
    let dropped = place.json(&["queue", "drop", &ids[1]]);
    assert_eq!(dropped, json!({ "action": "queue_dropped", "requestIds": [ids[1]] }));
    assert_eq!(place.ok(&["queue", "drop", &ids[0]]), format!("dropped {}\n", ids[0]));
    let unknown = place.acpx(&["--format", "json", "queue", "drop", &ids[0]]);
    assert_eq!((unknown.failure().0.as_str(), unknown.code), ("NO_PROMPT", Some(4)));
    place.ok(&["demo", "-s", "api", "cancel"]);
    eventually("the queue is empty", || queued(&place).is_empty());
    eventually("the last prompt has run", || conversation(&place).contains("You said: third"));
    let expected = "[not sent] second\n[not sent] first of two lines\nthird\nYou said: third\n";
    assert!(conversation(&place).ends_with(expected), "{}", conversation(&place));
}

#[test]
fn cancel_takes_the_id_of_a_queued_or_running_prompt() {
    let (place, ids) = busy(&["first"]);
    let status = place.json(&["demo", "-s", "api", "status"]);
    let running = status["turn"]["requestId"].as_str().unwrap();
    let sent = place.acpx(&["queue", "drop", running]);
    let expected =
        format!("acpx: the agent already has the prompt {running:?}\nhint: acpx cancel {running} stops it\n");
    assert_eq!((sent.err, sent.code), (expected, Some(4)));
    let ids_of_session = |cancelled: bool| {
        json!({
            "action": "cancel_result", "cancelled": cancelled, "acpxRecordId": status["acpxRecordId"],
            "acpxSessionId": status["acpxSessionId"],
        })
    };
    assert_eq!(place.json(&["cancel", &ids[0]]), ids_of_session(true));
    eventually("nothing is queued", || queued(&place).is_empty());
    assert_eq!(place.json(&["cancel", running]), ids_of_session(true));
    eventually("the turn is over", || place.json(&["demo", "-s", "api", "status"]).get("turn").is_none());
    let late = place.acpx(&["--format", "json", "cancel", running]);
    assert_eq!((late.failure().0.as_str(), late.code), ("NO_PROMPT", Some(4)));
}

#[test]
fn prompts_of_a_dead_host_are_dropped_without_starting_an_agent() {
    let (place, ids) = busy(&["first", "second"]);
    kill_hard(place.host_pid());
    eventually("the host is gone", || place.json(&["host", "status"])["status"] == "stopped");
    assert_eq!(queued(&place).len(), 2);
    let dropped = place.json(&["queue", "drop", "--all", "--agent", "demo"]);
    assert_eq!(dropped["requestIds"], json!(ids));
    assert_eq!(place.json(&["queue", "drop", "--all"])["requestIds"], json!([]));
    assert_eq!(place.ok(&["queue"]), "no queued prompts\n");
    assert_eq!(place.json(&["demo", "-s", "api", "status"])["status"], "idle");
}
