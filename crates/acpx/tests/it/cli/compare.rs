//! `acpx compare`: the rows and exit codes of several agents, and what stops before the first one starts.

use serde_json::{Value, json};

use crate::acpx::Place;

/// The rows of a comparison, each without its time.
fn rows(place: &Place, line: &[&str]) -> (Vec<Value>, Option<i32>) {
    let done = place.acpx(line);
    let mut rows: Vec<Value> = serde_json::from_str(&done.out).unwrap_or_else(|_| panic!("{done:?}"));
    for row in &mut rows {
        crate::contract::validate("compare", row);
        assert!(row.as_object_mut().unwrap().remove("wall_ms").unwrap().is_u64());
    }
    (rows, done.code)
}

/// A row of the demo agent's answer to `hello there`.
fn row(agent: &str, status: &str, message: &str, error: Option<&str>) -> Value {
    let stop_reason = if error.is_none() { json!("end_turn") } else { Value::Null };
    json!({
        "agent": agent, "status": status, "stop_reason": stop_reason, "input_tokens": 3, "output_tokens": 6,
        "total_tokens": 9, "final_message": message, "error": error, "permission_requests": 0,
        "permission_denied": 0,
    })
}

#[test]
fn compare_runs_every_agent_and_exits_by_the_worst() {
    let place = Place::new();
    place.configure(
        &json!({ "agents": {
        "other": { "argv": [env!("CARGO_BIN_EXE_acpx"), "demo-agent"] },
        "absent": { "argv": ["/no/such/program"] },
    } })
        .to_string(),
    );
    let (answers, code) = rows(&place, &["compare", "demo", "other", "--json", "hello there"]);
    let said = "You said: hello there";
    assert_eq!(
        (answers, code),
        (vec![row("demo", "ok", said, None), row("other", "ok", said, None)], Some(0))
    );

    let (answers, code) =
        rows(&place, &["--format", "json", "compare", "absent", "demo", "--", "hello", "there"]);
    assert_eq!((&answers[1], code), (&row("demo", "ok", said, None), Some(1)));
    assert_eq!((&answers[0]["status"], answers[0]["error"].is_string()), (&json!("error"), true));

    let (answers, code) = rows(&place, &["--deny-all", "compare", "demo", "--json", "permission"]);
    let denied =
        (&answers[0]["status"], &answers[0]["permission_requests"], &answers[0]["permission_denied"]);
    assert_eq!((denied, code), ((&json!("permission_denied"), &json!(1), &json!(1)), Some(5)));

    let (answers, code) = rows(&place, &["compare", "demo", "--timeout", "1", "--json", "wait"]);
    assert_eq!((&answers[0]["status"], code), (&json!("cancelled"), Some(3)));
    assert_eq!(answers[0]["final_message"], "Waiting until cancelled.");

    let quiet = place.ok(&["--format", "quiet", "compare", "demo", "other", "hi"]);
    assert_eq!(quiet, "demo\tok\nother\tok\n");
    let file = place.acpx_with_stdin("from stdin", &["compare", "demo", "--file", "-"]);
    let lines: Vec<&str> = file.out.lines().collect();
    let title =
        "agent  status  wall_ms  input  output  total  permissions  stop_reason  final_message         error";
    assert_eq!(lines[0], title);
    assert!(lines[2].ends_with("end_turn     You said: from stdin  -"), "{file:?}");
    // Nothing is stored.
    assert_eq!(place.ok(&["sessions", "list"]), "No sessions\n");
}

#[test]
fn compare_refuses_an_unknown_agent_before_any_starts() {
    let place = Place::new();
    let unknown = place.acpx(&["--format", "json", "compare", "demo", "nosuch", "hi"]);
    assert_eq!((unknown.failure().0.as_str(), unknown.code), ("AGENT_UNKNOWN", Some(2)));
    place.configure(r#"{"disableExec":true}"#);
    let disabled = place.acpx(&["compare", "--json", "demo", "hi"]);
    assert_eq!(disabled.failure().0, "EXEC_DISABLED");
}

#[test]
fn compare_with_agents_alone_needs_a_prompt_from_stdin() {
    let place = Place::new();
    place.configure(
        &json!({ "agents": { "other": { "argv": [env!("CARGO_BIN_EXE_acpx"), "demo-agent"] } } }).to_string(),
    );
    for last in ["demo", "other"] {
        let done = place.acpx(&["--format", "json", "compare", "demo", last]);
        let hint = format!(
            "add it: acpx compare demo {last} 'why is the build slow?'; to send the word {last}, put it after --"
        );
        assert_eq!(done.failure(), ("USAGE".to_owned(), hint, Some(2)));
        let message = format!("compare needs a prompt, and \"{last}\" is an agent");
        assert_eq!(done.json()["error"]["message"], json!(message));
    }
    let piped = place.acpx_with_stdin("from a pipe", &["--format", "quiet", "compare", "demo", "other"]);
    assert_eq!((piped.out.as_str(), piped.code), ("demo\tok\nother\tok\n", Some(0)), "{piped:?}");
    let (answers, _) = rows(&place, &["compare", "--json", "demo", "--", "other"]);
    assert_eq!(answers[0]["final_message"], "You said: other");
}

#[test]
fn flow_is_a_usage_error_with_the_npm_command_line() {
    let place = Place::new();
    let done = place.acpx(&["--format", "json", "flow", "run", "a flow.mjs"]);
    assert_eq!((done.failure().0.as_str(), done.code), ("FLOW_IN_NPM_ACPX", Some(2)));
    let hint = "to run it there: npx acpx@0.19 --format json flow run 'a flow.mjs'";
    assert_eq!(done.json()["error"]["data"]["hint"], hint);
}

#[test]
fn binary_prompt_is_refused_with_the_flags_that_attach_it() {
    let place = Place::new();
    std::fs::write(place.work().join("img.png"), b"\x89PNG\r\n\x1a\n\0").unwrap();
    let file = place.acpx(&["--format", "json", "demo", "exec", "--file", "img.png"]);
    assert_eq!((file.failure().0.as_str(), file.code), ("BAD_PROMPT", Some(2)));
    let path = place.work().join("img.png").display().to_string();
    let hint = format!("attach it instead, with --image {path}, --audio {path} or --resource {path}");
    assert_eq!(file.json()["error"]["data"]["hint"], json!(hint));
    let stdin = place.acpx_with_stdin("a\0b", &["--format", "json", "demo", "exec"]);
    let hint = "attach it instead, with --image -, --audio - or --resource -; </dev/null leaves stdin out";
    assert_eq!(stdin.json()["error"]["data"]["hint"], hint);
}
