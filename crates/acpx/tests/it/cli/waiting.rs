//! When nothing comes, `status` says what is waited for and since when.

use serde_json::json;

use crate::acpx::Place;

#[test]
fn status_says_what_a_turn_waits_for_with_a_host_and_without() {
    let place = Place::new();
    place.ok(&["demo", "sessions", "new"]);
    assert_eq!(place.json(&["demo", "status"]).get("waitingFor"), None);
    let mut running = place.start(&["demo", "wait"]);
    running.wait_for("Waiting until cancelled.");
    let status = place.json(&["demo", "status"]);
    let waiting = &status["waitingFor"];
    assert_eq!(
        (&waiting["what"], &waiting["method"]),
        (&json!("answer"), &json!("session/prompt")),
        "{status}"
    );
    assert!(waiting["since"].is_string() && waiting["lastLineAt"].is_string(), "{status}");
    let text = place.ok(&["demo", "status"]);
    let line = text.lines().find(|line| line.starts_with("waitingFor: ")).unwrap();
    assert!(line.starts_with("waitingFor: the agent's answer to session/prompt, since 2"), "{line}");
    assert!(line.contains("; its last line came ") && line.ends_with(" s ago"), "{line}");

    let queued = place.json(&["demo", "prompt", "--no-wait", "later"]);
    assert_eq!(queued["action"], "prompt_queued");
    place.ok(&["host", "stop"]);
    running.done();
    let waiting = place.json(&["demo", "status"])["waitingFor"].take();
    assert_eq!((&waiting["what"], waiting["since"].is_string()), (&json!("client"), true), "{waiting}");
    let text = place.ok(&["demo", "status"]);
    assert!(
        text.contains("waitingFor: a client: no host runs, and the next prompt starts one, since 2"),
        "{text}"
    );
}
