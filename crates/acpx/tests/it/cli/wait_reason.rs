//! When nothing comes, `status` says what is waited for and since when.

use acpx_testkit::Script;
use serde_json::json;

use crate::acpx::{Place, eventually};

#[test]
fn status_reports_the_wait_reason_with_and_without_a_host() {
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

#[test]
fn status_reports_that_an_agent_is_still_being_ended_after_its_turn() {
    let place = Place::new();
    // An agent that wants a login in a turn is ended at once; this one has to be killed.
    let login = json!({ "code": -32000, "message": "log in first" });
    let script = Script::new().initialize(json!({})).session_new("s1").prompt(|turn| turn.reply_error(login));
    place.scripted(&script.ignoring_eof().ignoring_terminate());
    place.ok(&["scripted", "sessions", "new"]);
    let ready = place.json(&["scripted", "status"]);
    assert_eq!((&ready["status"], ready.get("ending")), (&json!("alive"), None), "{ready}");
    assert_eq!(place.acpx(&["scripted", "hi"]).code, Some(1));
    let ending = place.json(&["scripted", "status"]);
    assert_eq!((&ending["status"], &ending["ending"]), (&json!("alive"), &json!(true)), "{ending}");
    assert_eq!((&ending["pid"], ending.get("uptime")), (&ready["pid"], None), "{ending}");
    assert_eq!(ending["summary"], "the agent is being ended; the next prompt starts another");
    assert_eq!(ending["waitingFor"]["what"], "agent-end");
    eventually("its process is gone", || place.json(&["scripted", "status"]).get("pid").is_none());
}

#[test]
fn prompt_reports_the_agent_start_while_the_previous_one_is_ended() {
    let place = Place::new();
    let login = json!({ "code": -32000, "message": "log in first" });
    let script = Script::new().initialize(json!({})).session_new("s1").prompt(|turn| turn.reply_error(login));
    let script = script.next_start().initialize(json!({})).session_new("s2");
    let script = script.serve([("session/prompt", Script::new().end("end_turn"))]);
    place.scripted(&script.ignoring_eof().ignoring_terminate());
    place.ok(&["scripted", "sessions", "new"]);
    let word = |done: &crate::acpx::Done| {
        let line = done.err.lines().find(|line| line.starts_with("[acpx] session cwd ")).unwrap().to_owned();
        line.rsplit_once(" · ").unwrap().1.to_owned()
    };
    let words = ["one", "two", "three"].map(|text| word(&place.acpx(&["scripted", text])));
    assert_eq!(words, ["agent connected", "agent starting", "agent connected"]);
}
