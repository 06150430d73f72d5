//! Turns that are stopped: by their own client, by another, by the clock, by a close.

use acpx_testkit::{Script, starts_of};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::acpx::{Place, eventually, kill_hard};

fn begun() -> Place {
    let place = Place::new();
    place.ok(&["demo", "sessions", "new"]);
    place
}

#[test]
fn an_interrupt_cancels_the_turn_and_ends_with_130() {
    let place = begun();
    let mut running = place.start(&["--format", "json", "demo", "wait"]);
    running.wait_for("Waiting until cancelled.");
    running.signal(Signal::INT);
    let done = running.done();
    let lines = done.lines();
    assert!(lines.iter().any(|line| line["method"] == "session/cancel"), "{done:?}");
    assert_eq!(lines.last().unwrap()["status"], "cancelled");
    assert_eq!(done.code, Some(130));
    // Nothing goes on behind its back.
    let status = place.json(&["demo", "status"]);
    assert_eq!((&status["status"], status.get("turn")), (&json!("alive"), None), "{status}");
}

#[test]
fn sigterm_ends_the_prompt_command_and_leaves_its_turn_running() {
    let place = begun();
    let mut running = place.start(&["--format", "json", "demo", "wait"]);
    running.wait_for("Waiting until cancelled.");
    running.signal(Signal::TERM);
    let done = running.done();
    assert!(done.lines().iter().all(|line| line["method"] != "session/cancel"), "{done:?}");
    assert_eq!(done.code, Some(130), "{done:?}");
    assert!(
        done.err.ends_with("the turn goes on; sessions watch shows it, and cancel ends it\n"),
        "{done:?}"
    );
    let status = place.json(&["demo", "status"]);
    assert_eq!(status["turn"]["number"], 1, "{status}");
    // A prompt that waits behind it stays queued.
    let waiting = place.start(&["demo", "second"]);
    place.until("the second prompt waits", |status| status["queued"] == 1);
    waiting.signal(Signal::TERM);
    let done = waiting.done();
    assert_eq!(done.code, Some(130), "{done:?}");
    let queued = "the prompt stays queued and runs later; sessions watch shows it\n";
    assert!(done.err.ends_with(queued), "{done:?}");
    place.ok(&["demo", "cancel"]);
    assert!(place.ok(&["demo", "recall"]).contains("second"));
}

#[test]
fn a_turn_outlives_the_terminal_that_it_was_begun_in() {
    let place = begun();
    let mut running = place.start(&["demo", "wait"]);
    running.wait_for("Waiting until cancelled.");
    running.signal(Signal::HUP);
    assert_eq!(running.done().code, Some(0));
    let status = place.json(&["demo", "status"]);
    assert_eq!((&status["status"], &status["turn"]["number"]), (&json!("alive"), &json!(1)), "{status}");
    // A prompt that was not accepted yet is sent all the same.
    let waiting = place.start(&["demo", "second"]);
    place.until("the second prompt waits", |status| status["queued"] == 1);
    waiting.signal(Signal::HUP);
    assert_eq!(waiting.done().code, Some(0));
    place.ok(&["demo", "cancel"]);
    assert!(place.ok(&["demo", "recall"]).contains("second"));
}

#[test]
fn interrupt_leaves_the_orphaned_turn_before_its_queued_prompt() {
    let place = begun();
    place.ok(&["demo", "--no-wait", "wait"]);
    place.until("the first turn runs", |status| status["turn"]["number"] == 1);
    let second = place.start(&["demo", "second"]);
    place.until("the second prompt waits", |status| status["queued"] == 1);
    second.signal(Signal::INT);
    assert_eq!(second.done().code, Some(130));
    let status = place.json(&["demo", "status"]);
    assert_eq!((&status["turn"]["number"], &status["queued"]), (&json!(1), &json!(0)), "{status}");
    // `acpx cancel` means the turn that runs, whoever began it.
    assert_eq!(place.json(&["demo", "cancel"])["cancelled"], json!(true));
}

#[test]
fn an_interrupt_cancels_a_prompt_that_still_waits_and_no_other() {
    let place = begun();
    let mut first = place.start(&["demo", "first", "wait"]);
    first.wait_for("Waiting until cancelled.");
    let second = place.start(&["--format", "json", "demo", "second"]);
    place.until("the second prompt waits", |status| status["queued"] == 1);
    second.signal(Signal::INT);
    let second = second.done();
    assert_eq!(second.code, Some(130), "{second:?}");
    let status = place.json(&["demo", "status"]);
    assert_eq!((&status["status"], &status["queued"]), (&json!("alive"), &json!(0)), "{status}");
    first.signal(Signal::INT);
    assert_eq!(first.done().code, Some(130));
    assert!(!place.ok(&["demo", "recall"]).contains("second"));
}

#[test]
fn a_prompt_that_was_cancelled_is_not_run_by_the_next_host() {
    let place = begun();
    let mut first = place.start(&["demo", "first", "wait"]);
    first.wait_for("Waiting until cancelled.");
    let mut second = place.start(&["--verbose", "--format", "json", "demo", "second"]);
    place.until("the second prompt waits", |status| status["queued"] == 1);
    // The host hears nothing of the interrupt, and is gone before it could.
    let host = place.host_pid();
    let pid = rustix::process::Pid::from_raw(i32::try_from(host).unwrap()).unwrap();
    rustix::process::kill_process(pid, Signal::STOP).unwrap();
    second.signal(Signal::INT);
    second.wait_for_word("cancelling the turn");
    kill_hard(host);
    let second = second.done();
    let result = second.lines().pop().unwrap();
    assert_eq!((&result["status"], second.code), (&json!("cancelled"), Some(130)), "{second:?}");
    first.done();
    assert!(!place.ok(&["demo", "recall"]).contains("second"));
}

#[test]
fn prompt_over_its_timeout_is_cancelled_and_exits_with_3() {
    let place = begun();
    let done = place.acpx(&["--format", "json", "--timeout", "1.5", "demo", "wait"]);
    let lines = done.lines();
    assert!(lines.iter().any(|line| line["method"] == "session/cancel"), "{done:?}");
    let result = lines.last().unwrap();
    assert_eq!((&result["status"], done.code), (&json!("failed"), Some(3)));
    // The error line of npm acpx comes before the result.
    let (error, ids) =
        (&lines[lines.len() - 2]["error"], (&result["acpxRecordId"], &result["acpxSessionId"]));
    assert_eq!((&error["code"], error), (&json!(-32070), &result["error"]));
    assert_eq!(error["data"]["acpxCode"], "TIMEOUT");
    assert_eq!((&error["data"]["acpxRecordId"], &error["data"]["acpxSessionId"]), ids);
    assert_eq!(place.json(&["demo", "status"])["status"], "alive");
    place.configure(r#"{"timeout":1.5}"#);
    let configured = place.acpx(&["demo", "wait"]);
    assert_eq!(configured.code, Some(3));
    assert!(configured.out.contains(
        "[error] TIMEOUT: the turn with the agent \"demo\" took longer than 1.5 s and was cancelled\nhint: "
    ));
}

#[test]
fn command_over_its_timeout_stops_printing_and_names_the_command_to_continue() {
    // More than the pipes and queues between the agent and whoever reads have room for.
    const SAID: usize = 30_000;
    let place = Place::new();
    let script = Script::new()
        .initialize(json!({}))
        .session_new("s1")
        .prompt(|turn| turn.flood(Some(SAID as u64)).expect("session/cancel").end("cancelled"));
    place.scripted(&script);
    let record = place.json(&["scripted", "sessions", "new"])["acpxRecordId"].as_str().unwrap().to_owned();
    let mut slow = place.start(&["--format", "json", "--timeout", "2", "scripted", "go on for ever"]);
    slow.wait_for("flood");
    // Nobody reads what it writes, until its turn is over.
    eventually("the turn is over", || place.json(&["scripted", "status"]).get("turn").is_none());
    let done = slow.done();
    let lines = done.lines();
    let floods = |lines: &[Value]| lines.iter().filter(|line| line.to_string().contains("\"flood\"")).count();
    let shown = floods(&lines);
    let result = lines.last().unwrap();
    let message = "the turn with the agent \"scripted\" took longer than 2 s and was cancelled";
    let hint = result["error"]["data"]["hint"].as_str().unwrap();
    let line = format!(
        "give it more time with --timeout; what was said beyond this is kept: acpx scripted sessions replay {record} --from "
    );
    let rest = hint.strip_prefix(&line).unwrap_or_else(|| panic!("{hint}"));
    assert_eq!(
        (&result["status"], &result["error"]["data"]["detailCode"]),
        (&json!("failed"), &json!("TIMEOUT"))
    );
    assert_eq!((&result["error"]["message"], done.code), (&json!(message), Some(3)));
    // The answer is as incomplete as the output.
    assert_eq!((result["text"].is_string(), &result["textTruncated"]), (true, &json!(true)), "{result}");
    assert!(shown < SAID, "{shown} are shown");
    // The rest begins where it broke off, and the record says the time as it was given.
    let rest = place.json_lines(&["scripted", "sessions", "replay", &record, "--from", rest]);
    assert_eq!(shown + floods(&rest), SAID);
    let ended = rest.iter().map(|event| &event["message"]).find(|fact| fact["fact"] == "turn_ended").unwrap();
    assert_eq!(ended["error"]["message"], message);
}

#[test]
fn a_prompt_whose_agent_falls_silent_is_cancelled_and_ends_with_3() {
    let place = begun();
    let done = place.acpx(&["--format", "json", "--idle-timeout", "0.5", "demo", "wait"]);
    let lines = done.lines();
    assert!(lines.iter().any(|line| line["method"] == "session/cancel"), "{done:?}");
    let result = lines.last().unwrap();
    let error = json!({
        "code": -32070,
        "message": "the agent \"demo\" said nothing for 0.5 s and the turn was cancelled",
        "data": {
            "acpxCode": "TIMEOUT", "detailCode": "IDLE_TIMEOUT", "origin": "runtime", "retryable": false,
            "hint": "check whether the agent or its model is stalled, or allow a longer silence with --idle-timeout",
            "acpxRecordId": result["acpxRecordId"], "acpxSessionId": result["acpxSessionId"],
        },
    });
    assert_eq!((&result["status"], &result["error"], done.code), (&json!("failed"), &error, Some(3)));
    place.configure(r#"{"idleTimeout":0.5}"#);
    let configured = place.acpx(&["demo", "wait"]);
    assert_eq!(configured.code, Some(3), "{configured:?}");
    // The session goes on.
    assert!(place.ok(&["demo", "recall"]).contains("1. wait"));
}

#[test]
fn queued_prompt_over_its_timeout_is_never_sent() {
    let place = begun();
    let mut first = place.start(&["demo", "first", "wait"]);
    first.wait_for("Waiting until cancelled.");
    let queued = place.json(&["--timeout", "0.5", "demo", "prompt", "--no-wait", "second"]);
    assert_eq!(queued["action"], "prompt_queued", "{queued}");
    place.until("the second prompt has had its time", |status| status["queued"] == 0);
    first.signal(Signal::INT);
    assert_eq!(first.done().code, Some(130));
    let record = queued["acpxRecordId"].as_str().unwrap().to_owned();
    let events = place.json_lines(&["demo", "sessions", "replay", "-s", &record]);
    let ended = events.iter().map(|event| &event["message"]).find(|fact| fact["turn"] == 2).unwrap();
    let error = json!({
        "code": -32070,
        "message": "the prompt waited behind turn 1 until its time was over, and was not sent",
        "data": {
            "acpxCode": "TIMEOUT", "detailCode": "QUEUE_TIMEOUT", "origin": "runtime", "retryable": true,
        },
    });
    assert_eq!((&ended["fact"], &ended["error"]), (&json!("turn_ended"), &error));
    assert!(!place.ok(&["demo", "recall"]).contains("second"));
}

#[test]
fn prompt_that_waited_too_long_in_the_queue_blames_no_login() {
    let place = begun();
    let mut first = place.start(&["demo", "first", "wait"]);
    first.wait_for("Waiting until cancelled.");
    let second = place.acpx(&["--timeout", "4", "demo", "second"]);
    assert!(second.err.contains("[acpx] the prompt is queued behind earlier turns;"), "{second:?}");
    let id = place.json(&["demo", "status"])["acpxRecordId"].as_str().unwrap().to_owned();
    let hint = format!(
        "hint: acpx status -s {id} shows what it waited for, and acpx cancel -s {id} stops a turn that came before it; or give it more time with --timeout\n"
    );
    let words =
        "[error] QUEUE_TIMEOUT: the prompt waited behind turn 1 until its time was over, and was not sent\n";
    assert!(second.out.ends_with(&format!("{words}{hint}")), "{second:?}");
    assert_eq!(second.code, Some(3));
    first.signal(Signal::INT);
    assert_eq!(first.done().code, Some(130));
}

#[test]
fn cancel_ends_running_or_queued_turns_and_reports_when_there_is_none() {
    let place = Place::new();
    assert_eq!(place.ok(&["demo", "cancel"]), "nothing to cancel\n");
    assert_eq!(place.json(&["demo", "cancel"]), json!({"action": "cancel_result", "cancelled": false}));
    assert!(!place.acpx_home().join("host.lock").exists(), "no host was started");
    let new = place.json(&["demo", "sessions", "new"]);
    let expected = |cancelled: bool| {
        json!({
            "action": "cancel_result", "cancelled": cancelled,
            "acpxRecordId": new["acpxRecordId"], "acpxSessionId": new["acpxSessionId"],
        })
    };
    assert_eq!(place.json(&["demo", "cancel"]), expected(false));
    let mut running = place.start(&["demo", "wait"]);
    running.wait_for("Waiting until cancelled.");
    assert_eq!(place.json(&["demo", "cancel"]), expected(true));
    let done = running.done();
    assert!(done.out.ends_with("[done] cancelled\n"), "{done:?}");
    // A turn that somebody cancelled is an answer, and no failure.
    assert_eq!(done.code, Some(0));
    place.ok(&["host", "stop"]);
    assert_eq!(place.json(&["demo", "cancel"]), expected(false));
}

#[test]
fn close_cancels_the_running_turn_and_hides_the_session() {
    let place = begun();
    let mut running = place.start(&["--format", "json", "demo", "wait"]);
    running.wait_for("Waiting until cancelled.");
    let queued = place.start(&["--format", "json", "demo", "never"]);
    place.until("the second prompt waits", |status| status["queued"] == 1);
    let closed = place.json(&["demo", "sessions", "close"]);
    assert_eq!(closed["action"], "session_closed", "{closed}");
    for done in [running.done(), queued.done()] {
        let result = done.lines().pop().unwrap();
        assert_eq!((&result["status"], done.code), (&json!("cancelled"), Some(0)), "{result}");
    }
    assert_eq!(place.json(&["demo", "status"])["status"], "no-session");
    assert_eq!(place.acpx(&["demo", "hello"]).code, Some(4));
    assert_eq!(place.acpx(&["demo", "sessions", "close"]).code, Some(4));
    // What was said can still be read, and another session can take the place.
    assert_eq!(place.json(&["demo", "sessions", "show"])["acpxRecordId"], closed["acpxRecordId"]);
    assert!(place.ok(&["sessions"]).contains(" [closed]\t-\t"));
    assert_ne!(place.json(&["demo", "sessions", "ensure"])["acpxRecordId"], closed["acpxRecordId"]);
}

#[test]
fn idle_session_is_parked_and_restored() {
    let place = begun();
    place.ok(&["--ttl", "0.01", "demo", "one"]);
    let parked = place.until("the session is parked", |status| status["status"] == "idle");
    assert_eq!(parked.get("pid"), None, "{parked}");
    assert!(place.ok(&["--ttl", "0", "demo", "recall"]).contains("1. one"));
    assert_eq!(place.json(&["demo", "status"])["status"], "alive");
}

#[test]
fn a_session_that_is_replaced_has_its_turn_cancelled() {
    let place = begun();
    let mut running = place.start(&["--format", "json", "demo", "wait"]);
    running.wait_for("Waiting until cancelled.");
    let new = place.json(&["demo", "sessions", "new"]);
    let done = running.done();
    let result = done.lines().pop().unwrap();
    assert_eq!((&result["status"], done.code), (&json!("cancelled"), Some(0)), "{result}");
    assert_eq!(new["replacedRecordId"], result["acpxRecordId"]);
}

#[test]
fn a_parked_session_is_closed_without_its_agent() {
    let place = Place::new();
    let agent = place.scripted(&Script::new().initialize(json!({})).session_new("s1"));
    place.ok(&["scripted", "sessions", "new"]);
    place.ok(&["host", "stop"]);
    place.ok(&["scripted", "sessions", "close"]);
    assert_eq!((starts_of(&agent), place.acpx(&["scripted", "hi"]).code), (1, Some(4)));
}
