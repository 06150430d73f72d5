//! One prompt to an agent that is started for it: nothing is kept, and nothing is left.

use std::process::Command;

use acpx_testkit::{Script, received_lines};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::acpx::{Done, Place};

/// Nothing but what the demo agent keeps for itself, and an empty list of the commands that run.
fn is_untouched(place: &Place) -> bool {
    let names = |path: std::path::PathBuf| {
        let entries = std::fs::read_dir(path).into_iter().flatten();
        entries.map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>()
    };
    let is_known = |name: &std::ffi::OsString| name == "demo" || name == "config.json" || name == "holders";
    names(place.acpx_home()).iter().all(is_known)
        && names(place.acpx_home().join("holders")).is_empty()
        && place.processes().is_empty()
}

#[test]
fn exec_prints_three_formats_and_leaves_no_record_and_no_process() {
    let place = Place::new();
    let out = "You said: hi there\n\n[done] end_turn\n";
    let expected = |out: &str, tokens: &str| {
        let err = format!("[acpx] tokens: {tokens}\n");
        Done { out: out.to_owned(), err, code: Some(0) }
    };
    assert_eq!(place.acpx(&["demo", "exec", "hi", "there"]), expected(out, "input=2 output=5 total=7"));
    assert_eq!(
        place.acpx(&["--format", "quiet", "demo", "exec", "hi"]),
        expected("You said: hi\n", "input=1 output=3 total=4")
    );
    let done = place.acpx(&["demo", "exec", "hi", "--format", "json", "--json-strict"]);
    assert_eq!((done.err.as_str(), done.code), ("", Some(0)));
    let lines = done.lines();
    let methods: Vec<&str> = lines.iter().filter_map(|line| line["method"].as_str()).collect();
    assert_eq!(methods, ["initialize", "session/new", "session/prompt", "session/update"]);
    let result = lines.last().unwrap();
    assert_eq!((&result["action"], &result["stopReason"]), (&json!("prompt_result"), &json!("end_turn")));
    assert_eq!(result.get("acpxRecordId"), None, "{result}");
    assert!(result["acpxSessionId"].is_string() && result["requestId"].is_string(), "{result}");
    assert_eq!((&result["text"], result.get("textTruncated")), (&json!("You said: hi"), None), "{result}");
    assert!(is_untouched(&place));
}

/// The methods that an agent receives after its prompt.
fn methods_after_prompt(capabilities: &Value) -> Vec<String> {
    let place = Place::new();
    let reply = || Script::new().reply(json!({}));
    let script = Script::new().initialize(json!({ "sessionCapabilities": capabilities })).serve([
        ("session/new", Script::new().reply(json!({"sessionId": "s1"}))),
        ("session/prompt", Script::new().say("hello").end("end_turn")),
        ("session/close", reply()),
        ("session/delete", reply()),
    ]);
    let argv = place.scripted(&script);
    let done = place.acpx(&["--format", "quiet", "scripted", "exec", "hi"]);
    assert_eq!(done, Done { out: "hello\n".to_owned(), err: String::new(), code: Some(0) });
    let method = |line: String| serde_json::from_str::<Value>(&line).unwrap()["method"].clone();
    let methods = received_lines(&argv).into_iter().map(method).skip(3);
    methods.map(|method| method.as_str().unwrap().to_owned()).collect()
}

#[test]
fn exec_deletes_its_agents_session_where_the_agent_can() {
    assert_eq!(
        methods_after_prompt(&json!({"close": {}, "delete": {}})),
        ["session/close", "session/delete"]
    );
    assert_eq!(methods_after_prompt(&json!({"close": {}})), ["session/close"]);
    assert_eq!(methods_after_prompt(&json!({})), [""; 0]);
    let place = Place::new();
    let done = place.acpx(&["--format", "quiet", "demo", "exec", "hi"]);
    assert_eq!((done.out.as_str(), done.code), ("You said: hi\n", Some(0)));
    let left = place.acpx(&["--format", "json", "demo", "sessions", "list", "--remote"]);
    assert_eq!(left.json(), json!({"source": "agent", "sessions": []}), "{left:?}");
}

#[test]
fn agent_crash_in_exec_is_reported_in_every_format() {
    let place = Place::new();
    let message =
        "the agent \"demo\" died (exit code 70); it said: acpx demo-agent: the prompt asked for a crash";
    let text = place.acpx(&["demo", "exec", "crash"]);
    let told = format!("You said: crash\n\n[error] AGENT_DIED: {message}\n");
    assert!(text.out.contains(&told), "{text:?}");
    // There is no conversation that a next prompt could restore.
    assert!(!text.out.contains("next prompt"), "{text:?}");
    assert_eq!(text.code, Some(1));
    let quiet = place.acpx(&["--format", "quiet", "demo", "exec", "crash"]);
    let hint =
        "nothing was stored; try again, or run the agent's command by hand to see what is wrong with it";
    let err = format!("[acpx] error: RUNTIME [AGENT_DIED] {message}\n[acpx] hint: {hint}\n");
    assert_eq!(quiet, Done { out: "You said: crash\n".to_owned(), err, code: Some(1) });
    let json = place.acpx(&["--format", "json", "demo", "exec", "crash"]);
    let result = json.lines().pop().unwrap();
    let seen =
        (&result["status"], &result["error"]["data"]["detailCode"], &result["error"]["message"], json.code);
    assert_eq!(seen, (&json!("failed"), &json!("AGENT_DIED"), &json!(message), Some(1)));
    assert!(is_untouched(&place));
}

#[test]
fn an_interrupt_in_exec_cancels_the_turn_and_ends_with_130() {
    for signal in [Signal::INT, Signal::TERM] {
        let place = Place::new();
        let mut running = place.start(&["--format", "json", "demo", "exec", "wait"]);
        running.wait_for("Waiting until cancelled.");
        running.signal(signal);
        let done = running.done();
        let lines = done.lines();
        assert!(lines.iter().any(|line| line["method"] == "session/cancel"), "{done:?}");
        let result = lines.last().unwrap();
        assert_eq!((&result["status"], &result["stopReason"]), (&json!("cancelled"), &json!("cancelled")));
        assert_eq!((done.err.as_str(), done.code), ("", Some(130)));
        assert!(is_untouched(&place));
    }
}

#[test]
fn exec_over_its_timeout_is_cancelled_and_exits_with_3() {
    let place = Place::new();
    // Time enough for any agent to start, on a machine however busy.
    let done = place.acpx(&["--format", "json", "--timeout", "3", "demo", "exec", "wait"]);
    let lines = done.lines();
    assert!(lines.iter().any(|line| line["method"] == "session/cancel"), "{done:?}");
    let result = lines.last().unwrap();
    assert_eq!(
        (&result["status"], &result["error"]["data"]["detailCode"]),
        (&json!("failed"), &json!("TIMEOUT"))
    );
    assert!(!result["error"]["data"]["hint"].as_str().unwrap().contains("kept"), "{result}");
    assert_eq!(done.code, Some(3));
    assert!(is_untouched(&place));
}

#[test]
fn exec_can_be_forbidden() {
    let place = Place::new();
    place.configure(r#"{"disableExec":true}"#);
    let done = place.acpx(&["--format", "json", "demo", "exec", "hi"]);
    let error = done.json();
    assert_eq!(error["error"]["data"]["acpxCode"], "EXEC_DISABLED");
    assert_eq!(done.code, Some(1));
}

#[test]
fn agent_in_exec_gets_the_callers_environment_and_the_directory_as_typed() {
    let place = Place::new();
    let link = place.path_of("link");
    std::os::unix::fs::symlink(place.work(), &link).unwrap();
    let done = place.acpx(&["--format", "json", "--cwd", link.to_str().unwrap(), "demo", "exec", "hi"]);
    let lines = done.lines();
    let new = lines.iter().find(|line| line["method"] == "session/new").unwrap();
    assert_eq!(new["params"]["cwd"], Value::from(link.to_str().unwrap()));
}

#[test]
fn agent_without_home_gets_the_home_of_the_password_database() {
    let place = Place::new();
    let file = place.path_of("home.txt");
    let acpx = env!("CARGO_BIN_EXE_acpx");
    let agent = format!("sh -c 'printf %s \"$HOME\" >\"{}\"; exec \"{acpx}\" demo-agent'", file.display());
    let done = Done::of(place.command(&["--agent", &agent, "exec", "hello"]).env_remove("HOME"));
    assert_eq!(done.code, Some(0), "{done:?}");
    let mut shell = Command::new("bash");
    shell.args(["-c", "printf %s ~"]).env_remove("HOME");
    assert_eq!(std::fs::read_to_string(file).unwrap(), Done::of(&mut shell).out);
    // Only reads, since this is the home of the person who runs the tests.
    let mut status = place.command(&["host", "status"]);
    let done = Done::of(status.env_remove("HOME").env_remove("ACPX_HOME"));
    assert_eq!(done.code, Some(0), "{done:?}");
}
