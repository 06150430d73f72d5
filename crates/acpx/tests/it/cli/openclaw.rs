//! The command lines with which `OpenClaw` drives acpx, in its order, with the exit codes and the JSON members it reads.

use acpx_testkit::Script;
use serde_json::{Value, json};

use crate::acpx::{Done, Place, text};

/// Control output: the first object with an id.
fn control(done: &Done) -> Value {
    let ids = ["agentSessionId", "acpxSessionId", "acpxRecordId"];
    let found = done.lines().into_iter().find(|line| ids.iter().any(|id| line[id].is_string()));
    found.unwrap_or_else(|| panic!("{done:?}"))
}

fn agent() -> Script {
    let modes = json!({
        "currentModeId": "ask",
        "availableModes": [{ "id": "ask", "name": "Ask" }, { "id": "plan", "name": "Plan" }],
    });
    let effort = |value: &str| {
        json!([{
            "id": "effort", "name": "Effort", "type": "select", "currentValue": value,
            "options": [{ "value": "low", "name": "Low" }, { "value": "high", "name": "High" }],
        }])
    };
    let offers = json!({ "modes": modes, "configOptions": effort("low") });
    let mut new = offers.clone();
    new["sessionId"] = json!("s1");
    new["_meta"] = json!({ "agentSessionId": "inner-1" });
    let tool = json!({
        "sessionUpdate": "tool_call", "toolCallId": "t1", "title": "Read a", "kind": "read", "status": "completed",
    });
    Script::new().initialize(json!({ "loadSession": true, "promptCapabilities": { "image": true } })).serve([
        ("session/new", Script::new().reply(new)),
        ("session/load", Script::new().reply(offers)),
        ("session/set_mode", Script::new().reply(json!({}))),
        ("session/set_config_option", Script::new().reply(json!({ "configOptions": effort("high") }))),
        ("session/prompt", Script::new().update(tool).say("hello").end("end_turn")),
    ])
}

/// The `session/update` kinds of a prompt's output, and its result.
fn turn(done: &Done) -> (Vec<String>, Value) {
    let lines = done.lines();
    let kinds = lines.iter().filter_map(|line| line.pointer("/params/update/sessionUpdate")?.as_str());
    let result = lines.iter().find(|line| line.pointer("/result/stopReason").is_some());
    (kinds.map(str::to_owned).collect(), result.unwrap_or_else(|| panic!("{done:?}"))["result"].clone())
}

#[test]
fn openclaw_call_pattern_works_from_health_check_to_close() {
    let place = Place::new();
    let argv = place.scripted_as("claude", &agent());
    let cwd = text(place.work());
    let prefix = ["--format", "json", "--json-strict", "--cwd", cwd.as_str()];
    let run = |line: &[&str]| {
        let done = place.acpx(&[&prefix[..], line].concat());
        assert_eq!(done.err, "", "{line:?}");
        done
    };
    let ok = |line: &[&str]| {
        let done = run(line);
        assert_eq!(done.code, Some(0), "{line:?} {done:?}");
        done
    };
    let prompt = |stdin: &str, extra: &[&str]| {
        let verb = ["--ttl", "60", "claude", "prompt", "--session", "main", "--file", "-"];
        let done = place.acpx_with_stdin(stdin, &[&prefix[..], extra, &verb].concat());
        assert_eq!(done.err, "", "{extra:?}");
        done
    };
    assert_eq!((place.acpx(&["--version"]).code, place.acpx(&["--help"]).code), (Some(0), Some(0)));
    let shown: Value = serde_json::from_str(&place.ok(&["--cwd", &cwd, "config", "show"])).unwrap();
    assert_eq!(shown["agents"]["claude"], json!({ "argv": argv }));

    // No session yet: the code is special to OpenClaw, and its status is none.
    let none = prompt("hi", &["--approve-all"]);
    assert_eq!((none.code, none.failure().0.as_str()), (Some(4), "NO_SESSION"));
    assert_eq!(ok(&["claude", "status", "--session", "main"]).json()["status"], "no-session");

    let ensured = control(&ok(&["claude", "sessions", "ensure", "--name", "main"]));
    assert_eq!(
        (&ensured["action"], &ensured["created"], &ensured["acpxSessionId"], &ensured["agentSessionId"]),
        (&json!("session_ensured"), &json!(true), &json!("s1"), &json!("inner-1"))
    );
    let record = ensured["acpxRecordId"].clone();
    let again = control(&ok(&["claude", "sessions", "ensure", "--name", "main"]));
    assert_eq!((&again["created"], &again["acpxRecordId"]), (&json!(false), &record));

    let status = control(&ok(&["claude", "status", "--session", "main"]));
    assert!(
        status["status"] == "alive" && status["pid"].is_u64() && status["summary"].is_string(),
        "{status}"
    );
    assert_eq!(control(&ok(&["claude", "set-mode", "plan", "--session", "main"]))["modeId"], "plan");
    let set = control(&ok(&["claude", "set", "effort", "high", "--session", "main"]));
    assert_eq!((&set["configId"], &set["value"]), (&json!("effort"), &json!("high")));

    let expected =
        (vec!["tool_call".to_owned(), "agent_message_chunk".to_owned()], json!({ "stopReason": "end_turn" }));
    let modes = [
        &["--approve-all", "--non-interactive-permissions", "deny"][..],
        &["--approve-reads", "--non-interactive-permissions", "fail", "--timeout", "60"],
        &["--deny-all", "--non-interactive-permissions", "deny", "--timeout", "60"],
    ];
    for extra in modes {
        let done = prompt("hi there", extra);
        assert_eq!((done.code, turn(&done)), (Some(0), expected.clone()), "{extra:?} {done:?}");
    }
    let image = json!([
        { "type": "text", "text": "what is this?" },
        { "type": "image", "mimeType": "image/png", "data": "aGk=" },
    ]);
    assert_eq!(turn(&prompt(&image.to_string(), &["--approve-all"])), expected);
    assert_eq!(ok(&["claude", "cancel", "--session", "main"]).json()["cancelled"], false);

    // After the host is gone the session is idle, never dead, and the next prompt restores it.
    place.ok(&["host", "stop"]);
    assert_eq!(ok(&["claude", "status", "--session", "main"]).json()["status"], "idle");
    assert_eq!(turn(&prompt("go on", &["--approve-all"])), expected);

    // A replacement that resumes the agent's session is the same record.
    let resume = ["claude", "sessions", "new", "--name", "main", "--resume-session", "s1"];
    assert_eq!(control(&ok(&resume))["acpxRecordId"], record);
    let closed = control(&ok(&["claude", "sessions", "close", "main"]));
    assert_eq!((&closed["action"], &closed["acpxRecordId"]), (&json!("session_closed"), &record));
    let gone = run(&["claude", "sessions", "close", "main"]);
    assert_eq!((gone.code, gone.failure().0.as_str()), (Some(4), "NO_SESSION"));
}
