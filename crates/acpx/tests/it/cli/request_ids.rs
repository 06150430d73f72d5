//! Prompts with a request id of the client, which run once; recorded results, and waiting for sessions.

use acpx_testkit::Script;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::acpx::{Place, kill_hard};

fn begun() -> Place {
    let place = Place::new();
    place.ok(&["demo", "sessions", "new"]);
    place
}

/// The last line of a prompt with this request id, and the exit code.
fn prompt(place: &Place, id: &str, words: &str) -> (Value, Option<i32>) {
    let done = place.acpx(&["--format", "json", "demo", "prompt", "--request-id", id, words]);
    (done.lines().pop().unwrap(), done.code)
}

/// The prompts that the session has had, in order.
fn prompts(place: &Place) -> Vec<String> {
    let history = place.json(&["demo", "sessions", "history", "--limit", "100"]);
    let entries = history["entries"].as_array().unwrap().clone();
    let prompts = entries.iter().filter(|entry| entry["role"] == "user");
    prompts.map(|entry| entry["textPreview"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn repeated_request_id_returns_the_recorded_result_without_a_second_turn() {
    let place = begun();
    let first = prompt(&place, "job-1", "hello");
    assert_eq!((&first.0["requestId"], &first.0["text"]), (&json!("job-1"), &json!("You said: hello")));
    assert_eq!(prompt(&place, "job-1", "hello"), first);
    let failed = prompt(&place, "job-2", "fail");
    assert_eq!((&failed.0["error"]["data"]["detailCode"], failed.1), (&json!("AGENT_REFUSED"), Some(1)));
    assert_eq!(prompt(&place, "job-2", "fail"), failed);
    let denied = prompt(&place, "job-3", "permission");
    assert_eq!((&denied.0["permissions"]["rejected"], denied.1), (&json!(1), Some(5)));
    assert_eq!(prompt(&place, "job-3", "permission"), denied);
    let queued = ["demo", "prompt", "--no-wait", "--request-id", "job-1", "hello"];
    assert_eq!(place.json(&queued)["requestId"], "job-1");
    // The record answers without a host.
    place.ok(&["host", "stop"]);
    assert_eq!(prompt(&place, "job-1", "hello"), first);
    assert_eq!(
        place.ok(&["--format", "quiet", "demo", "--request-id", "job-1", "hello"]),
        "You said: hello\n"
    );
    assert_eq!(place.json(&["demo", "sessions", "result", "--turn", "1"]), first.0);
    for (id, result) in [("job-1", first), ("job-2", failed), ("job-3", denied)] {
        let args = ["--format", "json", "demo", "sessions", "result", "--request-id", id];
        let recorded = place.acpx(&args);
        assert_eq!((recorded.json(), recorded.code), result, "{id}");
    }
    assert_eq!(place.json(&["host", "status"])["status"], "stopped");
    assert_eq!(prompts(&place), ["hello", "fail", "permission"]);
}

#[test]
fn request_id_of_another_prompt_is_refused() {
    let place = begun();
    prompt(&place, "job", "one");
    let reused = place.acpx(&["--format", "json", "demo", "prompt", "--request-id", "job", "two"]);
    let hint = "give each prompt a request id of its own".to_owned();
    assert_eq!(reused.failure(), ("REQUEST_EXISTS".to_owned(), hint, Some(1)));
    assert_eq!(prompts(&place), ["one"]);
    for bad in ["", "a b", "é", &"x".repeat(129)] {
        let done = place.acpx(&["--format", "json", "demo", "prompt", "--request-id", bad, "three"]);
        assert_eq!((done.failure().0.as_str(), done.code), ("USAGE", Some(2)), "{bad:?}");
    }
}

#[test]
fn repeated_request_id_of_a_running_turn_waits_for_the_same_result() {
    let place = begun();
    let line = ["--format", "json", "demo", "prompt", "--request-id", "job", "wait"];
    let mut first = place.start(&line);
    first.wait_for("Waiting until cancelled.");
    let mut second = place.start(&line);
    // It shows the turn from its beginning.
    second.wait_for("Waiting until cancelled.");
    place.ok(&["demo", "cancel"]);
    let [first, second] = [first.done(), second.done()].map(|done| done.lines().pop().unwrap());
    assert_eq!(
        (&first["status"], &first["text"]),
        (&json!("cancelled"), &json!("Waiting until cancelled.\n"))
    );
    assert_eq!(first, second);
    assert_eq!(prompts(&place), ["wait"]);
}

#[test]
fn request_id_runs_once_even_if_the_host_is_killed() {
    let place = begun();
    let line = ["--format", "json", "demo", "prompt", "--request-id", "cut", "wait"];
    let mut running = place.start(&line);
    running.wait_for("Waiting until cancelled.");
    // The client is killed too, so it cannot ask the next host.
    running.signal(Signal::KILL);
    running.done();
    kill_hard(place.host_pid());
    let cut = prompt(&place, "cut", "wait");
    let told = (&cut.0["status"], &cut.0["error"]["data"]["detailCode"], &cut.0["text"], cut.1);
    let text = json!("Waiting until cancelled.\n");
    assert_eq!(told, (&json!("interrupted"), &json!("INTERRUPTED"), &text, Some(1)));
    assert_eq!(prompt(&place, "cut", "wait"), cut);
    let whole = prompt(&place, "whole", "after");
    kill_hard(place.host_pid());
    assert_eq!(prompt(&place, "whole", "after"), whole);
    assert_eq!(prompts(&place), ["wait", "after"]);
    // A prompt that was queued when its host died runs once.
    let mut running = place.start(&["demo", "second wait"]);
    running.wait_for("Waiting until cancelled.");
    place.ok(&["demo", "prompt", "--no-wait", "--request-id", "late", "late"]);
    running.signal(Signal::KILL);
    running.done();
    kill_hard(place.host_pid());
    let late = prompt(&place, "late", "late");
    assert_eq!((&late.0["text"], late.1), (&json!("You said: late"), Some(0)));
    assert_eq!(prompt(&place, "late", "late"), late);
    assert_eq!(prompts(&place), ["wait", "after", "second wait", "late"]);
}

#[test]
fn recorded_result_is_text_or_an_error_with_a_code() {
    let place = begun();
    let result =
        |args: &[&str]| place.acpx(&[&["--format", "json", "demo", "sessions", "result"], args].concat());
    let no_turn = (
        "NO_TURN".to_owned(),
        "acpx sessions history shows the turns that the session has had".to_owned(),
        Some(4),
    );
    assert_eq!(result(&[]).failure(), no_turn);
    place.ok(&["demo", "one"]);
    assert_eq!(place.ok(&["demo", "sessions", "result"]), "You said: one\n");
    for args in [&["--turn", "7"][..], &["--request-id", "other"]] {
        assert_eq!(result(args).failure(), no_turn, "{args:?}");
    }
    let mut running = place.start(&["demo", "wait"]);
    running.wait_for("Waiting until cancelled.");
    assert_eq!(result(&[]).failure().0, "SESSION_BUSY");
    assert_eq!(place.ok(&["demo", "sessions", "result", "--turn", "1"]), "You said: one\n");
    place.ok(&["demo", "cancel"]);
    running.done();
    assert_eq!(result(&[]).json()["stopReason"], "cancelled");
}

#[test]
fn wait_ends_when_the_session_is_idle_or_needs_an_answer() {
    let place = begun();
    let ids = place.json(&["demo", "status"]);
    let wait = |args: &[&str]| {
        let done = place.acpx(&[&["--format", "json", "demo", "sessions", "wait"], args].concat());
        (done.lines(), done.code)
    };
    let expected = |state: &str| {
        json!({
            "action": "wait_result", "acpxRecordId": ids["acpxRecordId"],
            "acpxSessionId": ids["acpxSessionId"], "state": state,
        })
    };
    assert_eq!(wait(&[]), (vec![expected("idle")], Some(0)));
    let mut running = place.start(&["demo", "wait"]);
    running.wait_for("Waiting until cancelled.");
    let (late, code) = wait(&["--timeout", "0.3"]);
    assert_eq!((&late[0]["error"]["data"]["detailCode"], code), (&json!("TIMEOUT"), Some(3)));
    let waiting = place.start(&["--format", "json", "demo", "sessions", "wait"]);
    place.ok(&["demo", "cancel"]);
    running.done();
    let done = waiting.done();
    assert_eq!((done.lines(), done.code), (vec![expected("idle")], Some(0)));
    place.ok(&["--non-interactive-permissions", "wait", "demo", "--no-wait", "permission"]);
    let (lines, code) = wait(&[]);
    let pending = place.json(&["pending"])["questions"][0]["questionId"].clone();
    let mut needs_answer = expected("waiting");
    needs_answer["questions"] = json!([pending]);
    assert_eq!((lines, code), (vec![needs_answer], Some(6)));
    place.ok(&["approve", pending.as_str().unwrap()]);
    assert_eq!(wait(&[]), (vec![expected("idle")], Some(0)));
}

#[test]
fn wait_for_several_sessions_reports_each_once() {
    let place = begun();
    let id = |value: &Value| value["acpxRecordId"].as_str().unwrap().to_owned();
    let idle = id(&place.json(&["demo", "sessions", "new", "-s", "idle"]));
    let busy = id(&place.json(&["demo", "sessions", "new", "-s", "busy"]));
    let mut running = place.start(&["demo", "-s", "busy", "wait"]);
    running.wait_for("Waiting until cancelled.");
    let any = place.json_lines(&["demo", "sessions", "wait", "--any", "busy", "idle"]);
    assert_eq!(any.iter().map(id).collect::<Vec<_>>(), std::slice::from_ref(&idle));
    place.ok(&["demo", "-s", "busy", "--no-wait", "later"]);
    running.signal(Signal::KILL);
    running.done();
    kill_hard(place.host_pid());
    let all = place.acpx(&["--format", "quiet", "demo", "sessions", "wait", &busy, &idle, "busy"]);
    assert_eq!((all.out.as_str(), all.code), ("queued\nidle\n", Some(6)), "{all:?}");
    place.until("the agent is dead", |status| status.get("pid").is_none());
    place.ok(&["demo", "-s", "busy", "on"]);
    assert_eq!(place.ok(&["--format", "quiet", "demo", "sessions", "wait", "-s", "busy"]), "idle\n");
}

#[test]
fn stop_reason_decides_the_exit_code_only_if_asked_for() {
    let place = Place::new();
    let reasons = [
        ("end_turn", 0),
        ("max_tokens", 10),
        ("max_turn_requests", 11),
        ("refusal", 12),
        ("cancelled", 13),
        ("new", 14),
    ];
    for (reason, code) in reasons {
        let script = Script::new()
            .initialize(json!({}))
            .session_new("s1")
            .prompt(|turn| turn.end(reason))
            .prompt(|turn| turn.end(reason));
        place.scripted(&script);
        let flag = "--exit-by-stop-reason";
        assert_eq!(place.acpx(&["scripted", "exec", flag, "go"]).code, Some(code), "exec {reason}");
        place.ok(&["scripted", "sessions", "new"]);
        assert_eq!(place.acpx(&["scripted", flag, "go"]).code, Some(code), "{reason}");
        assert_eq!(place.acpx(&["scripted", "go"]).code, Some(0), "{reason}");
    }
}
