//! Flags, keys and variables of npm acpx that change how a prompt is sent and shown, and the skill.

use std::fs;
use std::process::Stdio;

use acpx_testkit::{Script, received_lines};
use serde_json::{Value, json};

use super::import_npm::npm_acpx;
use crate::acpx::{Done, Place, eventually};

fn prompts(argv: &[String]) -> usize {
    received_lines(argv).iter().filter(|line| line.contains(r#""method":"session/prompt""#)).count()
}

/// An agent that answers its first prompts with these errors, and then with words.
fn failing(errors: &[Value], words: &str) -> Script {
    let start = Script::new().initialize(json!({})).session_new("s1");
    let failing = errors.iter().fold(start, |script, error| script.refuse("session/prompt", error.clone()));
    failing.prompt(|turn| turn.say(words).end("end_turn"))
}

#[test]
fn prompt_retries_send_a_refused_prompt_again_as_in_npm_acpx() {
    let internal = json!({ "code": -32603, "message": "Internal error" });
    let line = ["--prompt-retries", "1", "--format", "quiet", "scripted", "exec", "hi"];
    let run = |run: &dyn Fn(&Place) -> Done, errors: &[Value]| {
        let place = Place::new();
        let argv = place.scripted(&failing(errors, "hello"));
        let done = run(&place);
        (done.code, done.out, prompts(&argv), done.err)
    };
    let ours = |errors: &[Value]| run(&|place| place.acpx(&line), errors);
    let npm = |errors: &[Value]| run(&|place| npm_acpx(place, &line), errors);
    let notice = "[acpx] prompt failed (Internal error), retrying in 1000ms (attempt 1/1)\n";
    let retried = (Some(0), "hello\n".to_owned(), 2, notice.to_owned());
    assert_eq!(ours(std::slice::from_ref(&internal)), retried);
    // npm acpx reports it in text alone.
    assert_eq!(npm(std::slice::from_ref(&internal)), (retried.0, retried.1, retried.2, String::new()));
    // An error that does not pass is not retried.
    let invalid = json!({ "code": -32602, "message": "Invalid params" });
    let (code, _, count, _) = ours(std::slice::from_ref(&invalid));
    assert_eq!((code, count), (Some(1), 1));
    let (code, _, count, _) = npm(&[invalid]);
    assert_eq!((code, count), (Some(1), 1));
}

#[test]
fn retried_prompt_is_one_message_of_one_turn_in_the_history() {
    let place = Place::new();
    let internal = json!({ "code": -32603, "message": "Internal error" });
    let argv = place.scripted(&failing(&[internal], "hello"));
    place.ok(&["scripted", "sessions", "new"]);
    let done = place.acpx(&["--prompt-retries", "2", "scripted", "hi"]);
    assert_eq!((done.code, prompts(&argv)), (Some(0), 2), "{done:?}");
    let history = place.json(&["scripted", "sessions", "history"]);
    let words: Vec<&Value> =
        history["entries"].as_array().unwrap().iter().map(|entry| &entry["textPreview"]).collect();
    assert_eq!(words, [&json!("hi"), &json!("hello")]);
}

#[test]
fn suppress_reads_replaces_read_contents_as_npm_acpx_does() {
    let script = || {
        let tool = json!({
            "sessionUpdate": "tool_call", "toolCallId": "t1", "title": "Read a.txt", "kind": "read",
            "status": "completed", "content": [{ "type": "content", "content": { "type": "text", "text": "s3cret" } }],
            "rawOutput": { "content": "s3cret" },
        });
        let path = json!({ "sessionId": "{sessionId}", "path": "a.txt" });
        Script::new().initialize(json!({})).serve([
            ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
            (
                "session/prompt",
                Script::new().request("fs/read_text_file", path).update(tool).say("done").end("end_turn"),
            ),
        ])
    };
    let lines = |run: &dyn Fn(&Place, &[&str]) -> Done, format: &str| {
        let place = Place::new();
        place.scripted(&script());
        let done = run(&place, &["--suppress-reads", "--format", format, "scripted", "exec", "hi"]);
        assert!(done.code == Some(0) && !done.out.contains("s3cret"), "{done:?}");
        done.out
    };
    let updates = |out: &str| -> Vec<Value> {
        let lines = out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter_map(|line| line.pointer("/params/update").cloned()).collect()
    };
    let ours = lines(&|place, line| place.acpx(line), "json");
    assert_eq!(updates(&ours), updates(&lines(&|place, line| npm_acpx(place, line), "json")));
    let text = lines(&|place, line| place.acpx(line), "text");
    assert!(text.contains("  output:\n    [read output suppressed]\n"), "{text}");
}

#[test]
fn queue_max_depth_of_the_configuration_bounds_the_queue() {
    let place = Place::new();
    let (begun, go) = (place.path_of("begun"), place.path_of("go"));
    let script = Script::new().initialize(json!({})).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        ("session/prompt", Script::new().touch(&begun).await_file(&go).end("end_turn")),
    ]);
    let argv = place.scripted(&script);
    place.configure(&json!({ "queueMaxDepth": 1, "agents": { "scripted": { "argv": argv } } }).to_string());
    place.ok(&["scripted", "sessions", "new"]);
    place.ok(&["scripted", "--no-wait", "one"]);
    eventually("the first turn", || begun.exists());
    place.ok(&["scripted", "--no-wait", "two"]);
    let full = place.acpx(&["--format", "json", "scripted", "--no-wait", "three"]);
    let error = full.lines().pop().unwrap()["error"].clone();
    let data = &error["data"];
    assert_eq!((full.code, &error["code"]), (Some(1), &json!(-32603)), "{full:?}");
    assert_eq!(
        (&data["acpxCode"], &data["detailCode"], &data["origin"], &data["retryable"]),
        (&json!("RUNTIME"), &json!("QUEUE_OWNER_OVERLOADED"), &json!("queue"), &json!(true))
    );
    assert!(data["hint"].as_str().unwrap().contains("acpx queue list"), "{data}");
    fs::write(go, "").unwrap();
}

#[test]
fn skill_is_listed_shown_and_exported_as_a_tar_archive() {
    let place = Place::new();
    let listed = place.ok(&["--skill", "list"]);
    let (id, summary) = listed.trim_end().split_once('\t').unwrap();
    let shown = place.ok(&["codex", "--skill", "show", "acpx"]);
    assert!(id == "acpx" && shown.contains(&format!("\ndescription: {summary}\n")), "{listed}");
    let json: Value = serde_json::from_str(&place.ok(&["--skill", "list", "--json"])).unwrap();
    let skill = &json["skills"][0];
    assert_eq!(
        (&json["skillflag_version"], &skill["id"], &skill["files"], &skill["summary"]),
        (&json!("0.1"), &json!("acpx"), &json!(1), &json!(summary))
    );
    let mut export = place.command(&["--skill", "export", "acpx"]).stdout(Stdio::piped()).spawn().unwrap();
    let unpacked = std::process::Command::new("tar")
        .args(["-x", "-C"])
        .arg(place.work())
        .stdin(export.stdout.take().unwrap())
        .status()
        .unwrap();
    assert!(unpacked.success() && export.wait().unwrap().success());
    assert_eq!(fs::read_to_string(place.work().join("acpx/SKILL.md")).unwrap(), shown);
    let cases = [
        (&["--skill"][..], "--skill needs an action"),
        (&["--skill", "show"], "--skill show needs the id of a skill"),
        (&["--skill", "export", "none"], "there is no skill \"none\""),
        (&["--skill", "fly"], "--skill has no action \"fly\""),
        (&["--skill", "install"], "acpx installs no skills itself"),
    ];
    for (line, message) in cases {
        let refused = place.acpx(line);
        let expected = format!("acpx: {message}\nhint: acpx --skill help lists what there is\n");
        assert_eq!((refused.code, refused.err), (Some(2), expected), "{line:?}");
    }
}

#[test]
fn variable_of_a_wrong_form_is_a_usage_error_that_names_it() {
    let place = Place::new();
    place.scripted(&failing(&[], "hello"));
    let cases = [
        ("ACPX_MAX_ACP_MESSAGE_BYTES", "scripted", "a number of bytes; 0 is as many as can be stored"),
        ("ACPX_TERMINAL_MAX_OUTPUT_BYTES", "scripted", "a number of bytes"),
        ("ACPX_QUEUE_MAX_REQUEST_BYTES", "scripted", "a number of bytes; 0 is no limit"),
        ("ACPX_GEMINI_ACP_STARTUP_TIMEOUT_MS", "gemini", "a number of milliseconds above 0"),
        ("ACPX_CLAUDE_ACP_SESSION_CREATE_TIMEOUT_MS", "claude", "a number of milliseconds above 0"),
    ];
    for (name, agent, expected) in cases {
        let refused = Done::of(place.command(&[agent, "exec", "hi"]).env(name, "many"));
        let message = format!("acpx: the environment variable {name} is \"many\", and must be {expected}\n");
        assert_eq!(
            (refused.code, refused.err),
            (Some(2), format!("{message}hint: unset {name}, or correct it\n"))
        );
    }
}

#[test]
fn limits_of_the_environment_apply_to_prompts_and_messages() {
    let place = Place::new();
    let long = "x".repeat(4096);
    let script = Script::new().initialize(json!({})).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        ("session/prompt", Script::new().say(&long).say("short").end("end_turn")),
    ]);
    place.scripted(&script);
    let with = |name: &str, value: &str, line: &[&str]| Done::of(place.command(line).env(name, value));
    let exec = ["--format", "quiet", "scripted", "exec", "hi"];
    let told = with("ACPX_MAX_ACP_MESSAGE_BYTES", "1024", &exec);
    assert_eq!((told.code, told.out.as_str()), (Some(0), "short\n"), "{told:?}");
    assert_eq!(with("ACPX_MAX_ACP_MESSAGE_BYTES", "0", &exec).out, format!("{long}short\n"));
    let line = ["--format", "json", "scripted", "exec", &long];
    let refused = with("ACPX_QUEUE_MAX_REQUEST_BYTES", "1000", &line);
    let hint = "send a shorter prompt, or raise ACPX_QUEUE_MAX_REQUEST_BYTES";
    assert_eq!(refused.failure(), ("QUEUE_REQUEST_TOO_LARGE".to_owned(), hint.to_owned(), Some(1)));
    assert_eq!(with("ACPX_QUEUE_MAX_REQUEST_BYTES", "0", &exec).code, Some(0));
}

#[test]
fn npm_scripts_drop_a_leading_separator_and_metrics_are_appended() {
    let place = Place::new();
    let file = place.path_of("metrics.ndjson");
    let mut command = place.command(&["--", "--version"]);
    let done = Done::of(command.env("npm_lifecycle_event", "acpx").env("ACPX_PERF_METRICS_FILE", &file));
    assert_eq!((done.code, done.out), (Some(0), place.ok(&["--version"])));
    let metrics: Value = serde_json::from_str(fs::read_to_string(file).unwrap().trim_end()).unwrap();
    let members: Vec<&str> = metrics.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(members, ["timestamp", "role", "pid", "arguments", "wallMs"]);
}
