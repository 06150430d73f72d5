//! Options of a session's setup: what the agent receives of `--system-prompt`, `--append-system-prompt`,
//! `--allowed-tools`, `--max-turns`, `--no-fs` and `--no-terminal`, compared with npm acpx, and sent again later.

use acpx_testkit::{Script, received_lines};
use serde_json::{Value, json};

use super::import_npm::npm_acpx;
use crate::acpx::{Place, eventually};

/// The requests with this method that the agents of a command received.
fn requests(argv: &[String], method: &str) -> Vec<Value> {
    let lines = received_lines(argv).into_iter().map(|line| serde_json::from_str::<Value>(&line).unwrap());
    lines.filter(|request| request["method"] == method).collect()
}

/// `_meta` of every setup request that the agents received, with its method.
fn setups(argv: &[String]) -> Vec<(String, Value)> {
    let lines = received_lines(argv).into_iter().map(|line| serde_json::from_str::<Value>(&line).unwrap());
    let setups = lines.filter_map(|request| {
        let method = request["method"].as_str()?.to_owned();
        let is_setup = ["session/new", "session/load", "session/resume"].contains(&method.as_str());
        is_setup.then(|| (method, request["params"]["_meta"].clone()))
    });
    setups.collect()
}

fn resuming() -> Script {
    Script::new().initialize(json!({ "loadSession": true, "sessionCapabilities": { "resume": {} } })).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        ("session/resume", Script::new().reply(json!({}))),
        ("session/prompt", Script::new().say("hello").end("end_turn")),
    ])
}

#[test]
fn setup_flags_reach_the_agent_as_npm_acpx_sends_them() {
    let cases: &[&[&str]] = &[
        &["--system-prompt", "be brief"],
        &["--append-system-prompt", "and\n\"kind\""],
        &["--allowed-tools", "Read, Write"],
        &["--allowed-tools", ""],
        &["--max-turns", "3"],
        &["--system-prompt", "x", "--allowed-tools", "Read", "--max-turns", "7"],
        &[],
    ];
    for flags in cases {
        let meta = |run: &dyn Fn(&Place, &[&str])| {
            let place = Place::new();
            let argv = place.scripted(&resuming());
            run(&place, &[flags, &["scripted", "sessions", "new"][..]].concat());
            setups(&argv)
        };
        let ours = meta(&|place, line| drop(place.ok(line)));
        let npm = meta(&|place, line| assert_eq!(npm_acpx(place, line).code, Some(0), "{line:?}"));
        assert_eq!(ours, npm, "{flags:?}");
    }
}

#[test]
fn setup_options_are_sent_again_by_resume_and_by_a_fallback() {
    let place = Place::new();
    let lost = json!({ "code": -32002, "message": "Resource not found" });
    let script = resuming().next_start().initialize(json!({ "sessionCapabilities": { "resume": {} } }));
    let script = script.serve([
        ("session/resume", Script::new().reply(json!({}))),
        ("session/prompt", Script::new().say("hello").end("end_turn")),
    ]);
    let script = script.next_start().initialize(json!({ "sessionCapabilities": { "resume": {} } })).serve([
        ("session/resume", Script::new().reply_error(lost)),
        ("session/new", Script::new().reply(json!({ "sessionId": "s2" }))),
        ("session/prompt", Script::new().say("hello").end("end_turn")),
    ]);
    let argv = place.scripted(&script);
    place.ok(&["--append-system-prompt", "be kind", "--max-turns", "2", "scripted", "sessions", "new"]);
    for _ in 0..2 {
        place.ok(&["scripted", "hi"]);
        place.ok(&["host", "stop"]);
    }
    place.ok(&["scripted", "hi"]);
    let meta =
        json!({ "claudeCode": { "options": { "maxTurns": 2 } }, "systemPrompt": { "append": "be kind" } });
    let sent = ["session/new", "session/resume", "session/resume", "session/new"];
    assert_eq!(setups(&argv), sent.map(|method| (method.to_owned(), meta.clone())));
}

#[test]
fn claude_gets_setup_options_together_with_its_setting_sources() {
    let place = Place::new();
    let argv = place.scripted_as("claude", &resuming());
    place.ok(&["--max-turns", "2", "claude", "sessions", "new"]);
    let options = json!({ "settingSources": ["project", "local"], "maxTurns": 2 });
    let meta = json!({ "claudeCode": { "options": options } });
    assert_eq!(setups(&argv), [("session/new".to_owned(), meta)]);
}

#[test]
fn withheld_files_and_terminals_are_not_advertised_and_requests_are_refused() {
    let read = json!({ "sessionId": "{sessionId}", "path": "/etc/hostname" });
    let run = json!({ "sessionId": "{sessionId}", "command": "true" });
    let script = || {
        Script::new().initialize(json!({})).serve([
            ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
            (
                "session/prompt",
                Script::new()
                    .request("fs/read_text_file", read.clone())
                    .request("terminal/create", run.clone())
                    .end("end_turn"),
            ),
        ])
    };
    let seen = |run: &dyn Fn(&Place, &[&str])| {
        let place = Place::new();
        let argv = place.scripted(&script());
        run(&place, &["--approve-all", "--no-fs", "--no-terminal", "scripted", "exec", "hi"]);
        let offered = requests(&argv, "initialize").remove(0)["params"]["clientCapabilities"].clone();
        let lines = received_lines(&argv).into_iter();
        let answers = lines.map(|line| serde_json::from_str::<Value>(&line).unwrap());
        let codes: Vec<Value> = answers.filter_map(|line| Some(line.get("error")?["code"].clone())).collect();
        (offered["fs"].clone(), offered["terminal"].clone(), codes)
    };
    let ours = seen(&|place, line| drop(place.ok(line)));
    let none = json!({ "readTextFile": false, "writeTextFile": false });
    assert_eq!(ours, (none, json!(false), vec![json!(-32601), json!(-32601)]));
    assert_eq!(seen(&|place, line| drop(npm_acpx(place, line))), ours);
}

#[test]
fn changed_setup_restarts_an_idle_agent_and_is_kept() {
    let place = Place::new();
    let argv = place.scripted(&resuming());
    place.ok(&["scripted", "sessions", "new"]);
    place.ok(&["scripted", "--no-fs", "one"]);
    place.ok(&["scripted", "two"]);
    place.ok(&["host", "stop"]);
    place.ok(&["scripted", "three"]);
    let starts = requests(&argv, "initialize");
    let files: Vec<&Value> =
        starts.iter().map(|start| &start["params"]["clientCapabilities"]["fs"]["readTextFile"]).collect();
    assert_eq!(files, [&json!(true), &json!(false), &json!(false)]);
}

#[test]
fn working_agent_keeps_its_setup_and_ensure_reports_that() {
    let place = Place::new();
    let (begun, go) = (place.path_of("begun"), place.path_of("go"));
    let turn = Script::new().touch(&begun).await_file(&go).end("end_turn");
    let script = Script::new().initialize(json!({ "sessionCapabilities": { "resume": {} } })).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        ("session/prompt", turn),
    ]);
    place.scripted(&script);
    place.ok(&["scripted", "sessions", "new"]);
    place.ok(&["scripted", "--no-wait", "hi"]);
    eventually("the turn", || begun.exists());
    let ensured = place.json(&["scripted", "--no-terminal", "--max-turns", "2", "sessions", "ensure"]);
    assert_eq!(ensured["notApplied"], json!(["--max-turns", "--no-terminal"]));
    std::fs::write(go, "").unwrap();
}

#[test]
fn resume_session_takes_the_agents_session_under_a_name() {
    let place = Place::new();
    let script = Script::new().initialize(json!({ "loadSession": true })).serve([
        ("session/load", Script::new().user_said("from before").say("yes").reply(json!({}))),
        ("session/prompt", Script::new().say("hello").end("end_turn")),
    ]);
    let argv = place.scripted(&script);
    let new = ["scripted", "sessions", "new", "--name", "api", "--resume-session", "theirs"];
    let made = place.json(&new);
    assert_eq!(
        (&made["action"], &made["created"], &made["acpxSessionId"], &made["acpxRecordId"], &made["name"]),
        (&json!("session_ensured"), &json!(true), &json!("theirs"), &json!("theirs"), &json!("api"))
    );
    let history = place.ok(&["scripted", "sessions", "history", "api"]);
    assert!(history.contains("\tuser\tfrom before\n"), "{history}");
    place.ok(&["scripted", "-s", "api", "go on"]);
    // The same again is the same session: nothing is replaced.
    let again = place.json(&new);
    assert_eq!((&again["acpxRecordId"], again.get("replacedRecordId")), (&json!("theirs"), None));
    // A session that acpx has gets the name, and the other one of that name is closed.
    let other = ["scripted", "sessions", "new", "--name", "web", "--resume-session"];
    let web = place.json(&[&other[..], &["second"]].concat());
    assert_eq!(web["acpxRecordId"], "second");
    let moved = place.json(&[&other[..], &["theirs"]].concat());
    assert_eq!((&moved["acpxRecordId"], &moved["replacedRecordId"]), (&json!("theirs"), &json!("second")));
    assert_eq!(place.acpx(&["scripted", "status", "-s", "api", "--format", "quiet"]).out, "no-session\n");
    let ensured = ["scripted", "sessions", "ensure", "--name", "web", "--resume-session", "ignored"];
    assert_eq!(place.json(&ensured)["acpxRecordId"], "theirs");
    assert!(requests(&argv, "session/new").is_empty());
}

#[test]
fn unrestored_resume_session_exits_as_in_npm_acpx() {
    let refusing = |capabilities: Value, error: Value| {
        let refuse = || Script::new().reply_error(error.clone());
        Script::new()
            .initialize(capabilities)
            .serve([("session/load", refuse()), ("session/resume", refuse())])
    };
    let lost = json!({ "code": -32002, "message": "Resource not found" });
    let broken = json!({ "code": -32603, "message": "Internal error" });
    let cases = [
        (refusing(json!({ "loadSession": true }), lost.clone()), 4, "NO_SESSION"),
        (refusing(json!({ "sessionCapabilities": { "resume": {} } }), lost), 4, "NO_SESSION"),
        (refusing(json!({}), json!({})), 1, "NOT_OFFERED"),
        (refusing(json!({ "loadSession": true }), broken), 1, "SESSION_NOT_RESTORED"),
    ];
    for (script, code, detail) in cases {
        let line = ["--format", "json", "scripted", "sessions", "new", "--resume-session", "theirs"];
        let place = Place::new();
        place.scripted(&script);
        let refused = place.acpx(&line);
        let data = refused.lines().pop().unwrap()["error"]["data"].clone();
        assert_eq!((refused.code, &data["detailCode"]), (Some(code), &json!(detail)), "{refused:?}");
        assert_eq!(place.json(&["sessions", "list"]), json!([]), "{detail}");
        let other = Place::new();
        other.scripted(&script);
        assert_eq!(npm_acpx(&other, &line).code, Some(code), "{detail}");
    }
}
