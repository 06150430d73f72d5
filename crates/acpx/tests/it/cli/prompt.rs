//! Prompts to a session: where their words come from, what is shown of them, and what waits.

use serde_json::{Value, json};

use crate::acpx::{Done, Place, text};

/// A place with a session of `demo`.
fn begun() -> Place {
    let place = Place::new();
    place.ok(&["demo", "sessions", "new"]);
    place
}

#[test]
fn a_prompt_is_shown_for_people_for_programs_and_alone() {
    let place = begun();
    let shown = place.acpx(&["demo", "think", "about", "it"]);
    let out = "[thinking] Thinking about: think about it\nYou said: think about it\n\n[done] end_turn\n";
    assert_eq!((shown.out.as_str(), shown.code), (out, Some(0)));
    let record = place.json(&["demo", "status"])["acpxRecordId"].clone();
    let banner = format!(
        "[acpx] session cwd ({}) · {} · agent connected\n",
        record.as_str().unwrap(),
        place.work().display()
    );
    assert_eq!(shown.err, format!("{banner}[acpx] tokens: input=4 output=14 total=18\n"));

    let quiet = place.acpx(&["--format", "quiet", "demo", "think about it"]);
    let err = "[acpx] tokens: input=7 output=14 total=21\n".to_owned();
    assert_eq!(quiet, Done { out: "You said: think about it\n".to_owned(), err, code: Some(0) });

    let lines = place.json_lines(&["--json-strict", "demo", "think about it"]);
    let methods: Vec<&Value> = lines.iter().map(|line| &line["method"]).collect();
    let update = &json!("session/update");
    assert_eq!(methods, [&json!("session/prompt"), update, update, &Value::Null, &Value::Null]);
    let result = lines.last().unwrap();
    assert_eq!((&result["action"], &result["status"]), (&json!("prompt_result"), &json!("completed")));
    assert!(result["durationMs"].is_u64() && result["requestId"].is_string(), "{result}");
    let usage = json!({ "inputTokens": 11, "outputTokens": 14, "totalTokens": 25 });
    assert_eq!((result.get("error"), &result["usage"]), (None, &usage), "{result}");
    assert_eq!(result["text"], quiet.out.trim_end(), "{result}");
}

#[test]
fn prompt_is_read_from_words_a_file_or_stdin() {
    let place = begun();
    std::fs::write(place.work().join("prompt.md"), "from a file\n").unwrap();
    let table = [
        (place.acpx_with_stdin("from stdin", &["--format", "quiet", "demo"]), "from stdin"),
        (
            place.acpx_with_stdin("from stdin", &["--format", "quiet", "demo", "prompt", "-f", "-"]),
            "from stdin",
        ),
        (place.acpx(&["--format", "quiet", "demo", "prompt", "--file", "prompt.md"]), "from a file"),
        (place.acpx(&["--format", "quiet", "demo", "--", "--is", "text"]), "--is text"),
        (place.acpx(&["--format", "quiet", "demo", "fix", "--this"]), "fix --this"),
        (
            place.acpx_with_stdin(r#"[{"type":"text","text":"a block"}]"#, &["--format", "quiet", "demo"]),
            "a block",
        ),
    ];
    for (done, said) in table {
        assert!(done.out.starts_with(&format!("You said: {said}")), "{done:?}");
        assert_eq!(done.code, Some(0), "{done:?}");
    }
    let closed = Done::of(
        std::process::Command::new("sh")
            .args(["-c", "exec \"$0\" demo <&-"])
            .arg(env!("CARGO_BIN_EXE_acpx"))
            .env("ACPX_HOME", place.acpx_home())
            .current_dir(place.work()),
    );
    assert_eq!(closed.code, Some(2), "{closed:?}");
    assert!(
        closed.err.contains("the prompt from stdin is empty\nhint: give the prompt as words"),
        "{closed:?}"
    );
}

#[test]
fn prompt_content_the_agent_does_not_support_is_refused_before_sending() {
    let place = begun();
    let image = r#"[{"type":"image","mimeType":"image/png","data":"aGk="}]"#;
    let refused = place.acpx_with_stdin(image, &["--format", "json", "demo"]);
    let mut lines = refused.lines();
    let result = lines.pop().unwrap();
    let error = &lines.pop().unwrap()["error"];
    assert_eq!(result["error"], *error, "{result}");
    let told = (&error["code"], &error["data"]["acpxCode"], &error["data"]["detailCode"]);
    assert_eq!(told, (&json!(-32602), &json!("USAGE"), &json!("CONTENT_UNSUPPORTED")));
    assert_eq!(refused.code, Some(2));
    let bad = place.acpx_with_stdin(r#"[{"type":"image"}]"#, &["--format", "json", "demo"]);
    assert_eq!((bad.failure().0.as_str(), bad.code), ("BAD_PROMPT", Some(2)));
}

#[test]
fn without_waiting_a_prompt_is_acknowledged_and_runs_behind_the_others() {
    let place = begun();
    let mut running = place.start(&["demo", "first", "wait"]);
    running.wait_for("Waiting until cancelled.");
    let queued = place.json_lines(&["demo", "prompt", "--no-wait", "second"]);
    let actions: Vec<_> = queued.iter().map(|line| line["action"].as_str()).collect();
    assert_eq!(actions, [Some("prompt_queued")], "that it waits, and nothing of what the agent says");
    let shown = place.ok(&["demo", "--no-wait", "third"]);
    assert!(shown.starts_with("[queued] "), "{shown}");
    let quiet = place.ok(&["--format", "quiet", "demo", "prompt", "--no-wait", "fourth"]);
    assert_eq!(quiet, "");
    let status = place.json(&["demo", "status"]);
    assert_eq!((&status["status"], &status["queued"]), (&json!("alive"), &json!(3)), "{status}");
    assert!(place.ok(&["demo", "status"]).contains("queued: 3, waiting since "));
    assert_eq!(place.ok(&["demo", "cancel"]), "cancel requested\n");
    assert!(running.done().out.ends_with("[done] cancelled\n"));
    assert!(place.ok(&["demo", "recall"]).contains("1. first wait\n2. second\n3. third\n4. fourth\n"));
}

#[test]
fn prompt_with_no_wait_and_no_running_agent_still_runs() {
    let place = begun();
    place.ok(&["demo", "one"]);
    place.ok(&["host", "stop"]);
    place.ok(&["demo", "--no-wait", "two"]);
    place.until("the queued prompt has run", |status| status["queued"] == 0 && status.get("turn").is_none());
    assert!(place.ok(&["demo", "recall"]).contains("1. one\n2. two\n"));
}

#[test]
fn prompt_without_a_session_exits_with_4_and_names_sessions_new() {
    let place = Place::new();
    let done = place.acpx(&["demo", "hello"]);
    let err = format!(
        "acpx: there is no session of demo in {}; nothing above it was searched, as it is in no git repository\n\
         hint: create one: acpx demo sessions new, or add --create\n",
        place.work().display()
    );
    assert_eq!(done, Done { out: String::new(), err, code: Some(4) });
    let named = place.acpx(&["--format", "json", "demo", "prompt", "-s", "api", "hello"]);
    let hint = "create one: acpx demo sessions new --name api, or add --create".to_owned();
    assert_eq!(named.failure(), ("NO_SESSION".to_owned(), hint, Some(4)));
    let line = format!("{} demo-agent", env!("CARGO_BIN_EXE_acpx"));
    let raw = place.acpx(&["--format", "json", "--agent", &line, "prompt", "hello"]);
    let hint = format!("create one: acpx --agent '{line}' sessions new, or add --create");
    assert_eq!(raw.failure(), ("NO_SESSION".to_owned(), hint, Some(4)));
    assert!(!place.acpx_home().join("host.lock").exists(), "no host was started");
}

#[test]
fn failed_turn_is_reported_in_every_format_and_the_next_one_works() {
    let place = begun();
    let died = place.acpx(&["demo", "crash"]);
    let error = "[error] AGENT_DIED: the agent \"demo\" died (exit code 70); it said: acpx demo-agent: the prompt asked for a crash\n\
                 hint: the conversation is kept; the next prompt restores it\n";
    assert_eq!((died.out.as_str(), died.code), (format!("You said: crash\n\n{error}").as_str(), Some(1)));
    let status = place.json(&["demo", "status"]);
    assert_eq!((&status["status"], status.get("pid")), (&json!("idle"), None), "{status}");
    let failed = place.acpx(&["--format", "json", "--json-strict", "demo", "fail"]);
    let result = failed.lines().pop().unwrap();
    assert_eq!(
        (&result["status"], &result["error"]["data"]["detailCode"]),
        (&json!("failed"), &json!("AGENT_REFUSED"))
    );
    assert_eq!((failed.err.as_str(), failed.code), ("", Some(1)));
    let quiet = place.acpx(&["--format", "quiet", "demo", "fail"]);
    assert!(quiet.err.starts_with("[acpx] error: RUNTIME [AGENT_REFUSED] "), "{quiet:?}");
    assert_eq!((quiet.out.as_str(), quiet.code), ("", Some(1)));
    let refused = place.acpx(&["demo", "refuse"]);
    assert_eq!((refused.out.as_str(), refused.code), ("I will not do that.\n\n[done] refusal\n", Some(0)));
    assert_eq!(place.acpx(&["demo", "fine"]).code, Some(0));
}

#[test]
fn a_file_that_is_no_prompt_is_named() {
    let place = begun();
    let missing = place.acpx(&["--format", "json", "demo", "prompt", "-f", "missing.md"]);
    assert_eq!((missing.failure().0.as_str(), missing.code), ("BAD_PROMPT", Some(2)));
    let path = text(place.work().join("missing.md"));
    assert!(missing.json()["error"]["message"].as_str().unwrap().contains(&path));
    std::fs::write(place.work().join("empty.md"), " \n").unwrap();
    assert_eq!(place.acpx(&["demo", "prompt", "-f", "empty.md"]).code, Some(2));
}
