//! `acpx doctor`: what is wrong, and what to do about it.

mod mcp_servers;
mod sessions;

use std::fs;

use acpx_testkit::{Script, received_lines};
use serde_json::{Value, json};

use crate::acpx::{Done, Place, eventually};

/// The findings as `(level, check, detail)`, and the status that they come to.
fn findings(done: &Done) -> (Vec<(String, String, String)>, String) {
    let lines: Vec<Value> = done.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let (last, checks) = lines.split_last().expect("there is a verdict");
    let word = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
    let found = checks.iter().map(|check| {
        assert_eq!(check["action"], "doctor_check");
        (word(check, "level"), word(check, "check"), word(check, "detail"))
    });
    assert_eq!(last["action"], "doctor");
    (found.collect(), word(last, "status"))
}

fn level<'a>(found: &'a [(String, String, String)], check: &str) -> &'a str {
    found.iter().find(|(_, name, _)| name == check).map_or("none", |(level, ..)| level)
}

fn detail<'a>(found: &'a [(String, String, String)], check: &str) -> &'a str {
    found.iter().find(|(_, name, _)| name == check).map_or("", |(.., detail)| detail)
}

#[test]
fn doctor_reports_a_healthy_home_and_creates_nothing() {
    let place = Place::new();
    let before = place.acpx(&["--format", "json", "doctor"]);
    assert_eq!(before.code, Some(0), "{before:?}");
    assert!(!place.acpx_home().join("acpx.db").exists(), "the look made a store");
    place.ok(&["demo", "sessions", "new"]);
    let done = place.acpx(&["--format", "json", "doctor"]);
    let (found, _) = findings(&done);
    for check in ["acpx", "home", "store", "socket", "host", "config", "agents"] {
        assert_eq!(level(&found, check), "ok", "{check}: {found:?}");
    }
    let store = detail(&found, "store");
    assert!(store.contains("format ") && store.ends_with(", pages whole"), "{store}");
    assert!(detail(&found, "host").starts_with("runs, version "), "{found:?}");
    // What can be ended of what agents leave depends on the system, and is said on each.
    let (cleanup, words) =
        if cfg!(target_os = "linux") { ("ok", "process groups, orphans") } else { ("warn", "best effort") };
    assert_eq!(level(&found, "cleanup"), cleanup, "{found:?}");
    assert!(detail(&found, "cleanup").starts_with(words), "{found:?}");
    assert_eq!(place.acpx(&["--format", "quiet", "doctor"]).code, Some(0));
}

#[test]
fn doctor_reports_each_problem_with_a_hint_and_continues() {
    let place = Place::new();
    place.configure("{\"ttl\": \"s3cret\"}");
    fs::write(place.acpx_home().join("acpx.db"), "this is no store").unwrap();
    let done = place.acpx(&["--format", "json", "doctor"]);
    let (found, status) = findings(&done);
    assert_eq!((done.code, status.as_str()), (Some(1), "fail"), "{done:?}");
    assert_eq!((level(&found, "store"), level(&found, "config")), ("fail", "fail"), "{found:?}");
    assert_eq!(level(&found, "agents"), "ok", "{found:?}");
    assert!(!done.out.contains("s3cret"), "{done:?}");
    assert!(
        done.out.lines().filter(|line| line.contains("\"fail\",\"check\"")).all(|line| line.contains("hint"))
    );
}

#[test]
fn doctor_fails_for_a_home_that_cannot_be_created_and_creates_none() {
    let place = Place::new();
    let file = place.path_of("file");
    fs::write(&file, "text").unwrap();
    let look = |home: &std::path::Path| {
        findings(&Done::of(place.command(&["--format", "json", "doctor"]).env("ACPX_HOME", home))).0
    };
    let found = look(&file.join("a/b"));
    let words = format!("{0}/a/b is not there, and no directory can be made in {0}", file.display());
    assert_eq!((level(&found, "home"), detail(&found, "home")), ("fail", words.as_str()));
    let coming = place.path_of("c");
    let found = look(&coming.join("d"));
    assert_eq!((level(&found, "home"), coming.exists()), ("ok", false), "{found:?}");
}

#[test]
fn doctor_reports_invalid_configuration_and_missing_directories() {
    let place = Place::new();
    let (old, here) = (place.work().join("old"), place.work().join("here"));
    fs::create_dir(&old).unwrap();
    fs::create_dir(&here).unwrap();
    let made = place.acpx_in(&old, &["--format", "json", "demo", "sessions", "new"]).json();
    let id = made["acpxRecordId"].as_str().unwrap();
    fs::remove_dir(&old).unwrap();
    place.configure(
        r#"{"defaultAgent":"nosuch","agents":{"mine":{"argv":["/no/such/program"],"evn":{"A":"s3cret"}},
            "nof":{"argv":[]},"sessions":{"argv":["true"]}}}"#,
    );
    let mut command = place.command(&["--format", "json", "doctor"]);
    let done = Done::of(command.current_dir(&here));
    let (found, _) = findings(&done);
    let told = |level: &str, words: &str| {
        assert!(
            found.iter().any(|(is, _, said)| is == level && said.contains(words)),
            "{level} {words}: {found:?}"
        );
    };
    told("ok", &here.display().to_string());
    told("fail", "agents.nof.argv must be an array with at least the program");
    told("fail", "there is no agent named \"nosuch\", which ");
    told("warn", "the agent \"sessions\" has the name of a command, so it cannot be selected");
    told("warn", "nothing reads agents.mine.evn");
    told("warn", "mine, which the configuration has, is not there: its program is /no/such/program");
    told("warn", &format!("the directory is missing of {id} ({})", old.display()));
    assert_eq!((done.code, done.out.contains("s3cret")), (Some(1), false));
    let missing = found.iter().find(|(_, _, said)| said.starts_with("not installed: "));
    assert!(missing.is_none_or(|(_, _, said)| !said.contains("mine")), "{missing:?}");

    let of_agent = place.acpx_in(&here, &["--format", "json", "doctor", "demo"]);
    let (found, _) = findings(&of_agent);
    assert_eq!(level(&found, "sessions"), "warn", "{found:?}");
    // A shell may stand where nothing is any more.
    let nowhere = place.work().join("nowhere");
    fs::create_dir(&nowhere).unwrap();
    let script = r#"rmdir "$PWD"; exec "$0" --format json doctor"#;
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", script, env!("CARGO_BIN_EXE_acpx")]).current_dir(&nowhere);
    let shell = shell.env("ACPX_HOME", place.acpx_home()).env("XDG_RUNTIME_DIR", place.path_of("run"));
    let (found, _) = findings(&Done::of(shell));
    assert_eq!(level(&found, "directory"), "fail", "{found:?}");
}

#[test]
fn doctor_reports_an_agent_killed_on_exit_unless_its_profile_says_so() {
    let place = Place::new();
    let script = Script::new().ignoring_eof().ignoring_terminate().initialize(json!({})).session_new("s1");
    let argv = place.scripted(&script.hang());
    let end = || {
        let done = place.acpx(&["--format", "json", "scripted", "doctor"]);
        let (found, _) = findings(&done);
        (level(&found, "end").to_owned(), detail(&found, "end").to_owned())
    };
    let (level, words) = end();
    assert!(level == "warn" && words.starts_with("it was killed after "), "{words}");
    let profile = json!({"ignoresStdinEnd": true, "ignoresTerminate": true});
    place.configure(&json!({"agents": {"scripted": {"argv": argv, "profile": profile}}}).to_string());
    assert_eq!(end().0, "ok");
}

#[test]
fn doctor_probes_an_agent_without_a_prompt_and_leaves_no_record() {
    let place = Place::new();
    let answer = json!({
        "protocolVersion": 1,
        "agentCapabilities": {"loadSession": true},
        "agentInfo": {"name": "gemini-cli", "version": "0.61.0"},
    });
    let script = Script::new().expect("initialize").reply(answer).session_new("s1");
    let argv = place.scripted(&script);
    let done = place.acpx(&["--format", "json", "doctor", "scripted"]);
    let (found, status) = findings(&done);
    assert_eq!((done.code, status.as_str()), (Some(0), "ok"), "{done:?}");
    assert_eq!(detail(&found, "program"), argv[0]);
    assert!(
        detail(&found, "start").starts_with("gemini-cli 0.61.0, version 1 of the protocol, after "),
        "{found:?}"
    );
    assert!(detail(&found, "can").starts_with("load, MCP by stdio; not: resume, "), "{found:?}");
    assert!(
        detail(&found, "known as").contains("a session is not loaded in the minute it began"),
        "{found:?}"
    );
    assert!(detail(&found, "session").starts_with("session/new works"), "{found:?}");
    let said: Vec<String> = received_lines(&argv);
    assert!(said.iter().all(|line| !line.contains("session/prompt")), "{said:?}");
    assert_eq!(place.json(&["sessions", "list"]), json!([]));
}

#[test]
fn doctor_fails_with_a_hint_for_a_missing_login_or_agent() {
    let place = Place::new();
    let answer = json!({"protocolVersion": 1, "authMethods": [{"id": "key", "name": "API key"}]});
    let refusal = json!({"code": -32000, "message": "Authentication required"});
    place.scripted(&Script::new().expect("initialize").reply(answer).refuse("session/new", refusal));
    let done = place.acpx(&["--format", "json", "scripted", "doctor"]);
    let (found, _) = findings(&done);
    assert_eq!((done.code, level(&found, "login")), (Some(1), "fail"), "{done:?}");
    let words = "the agent \"scripted\" refused session/new: Authentication required; it offers key (API key) (-32000)";
    assert_eq!(detail(&found, "login"), words);
    assert!(done.out.contains("acpx scripted auth shows how to log in"), "{done:?}");

    let missing = place.acpx(&["--format", "json", "--agent", "./nowhere --acp", "doctor"]);
    let (found, _) = findings(&missing);
    assert_eq!((missing.code, level(&found, "program")), (Some(1), "fail"), "{missing:?}");
    let unknown = place.acpx(&["--format", "json", "doctor", "nobody"]);
    assert_eq!(unknown.failure().0, "AGENT_UNKNOWN", "{unknown:?}");
}

#[test]
fn doctor_probes_an_agent_with_the_credentials_of_a_session() {
    let ways = json!([{"id": "key", "name": "API key"}]);
    let answer = json!({"protocolVersion": 1, "authMethods": ways});
    let script = Script::new().expect("initialize").reply(answer).expect("authenticate").reply(json!({}));
    let place = Place::new();
    let argv = place.scripted(&script.session_new("s1"));
    let config = json!({"agents": {"scripted": {"argv": argv}}, "auth": {"key": "s3cret-cr3dential"}});
    place.configure(&config.to_string());
    let done = place.acpx(&["--format", "json", "scripted", "doctor"]);
    let (found, status) = findings(&done);
    assert_eq!((done.code, status.as_str(), level(&found, "session")), (Some(0), "ok", "ok"), "{done:?}");

    place.configure(&json!({"agents": {"scripted": {"argv": argv}}, "authPolicy": "fail"}).to_string());
    let done = place.acpx(&["--format", "json", "scripted", "doctor"]);
    let (found, _) = findings(&done);
    let words =
        "the agent \"scripted\" offers logins, and there is no credential for any of them: key (API key)";
    assert_eq!((level(&found, "login"), detail(&found, "login")), ("fail", words), "{done:?}");
}

#[test]
fn doctor_lists_the_login_methods_of_a_version_2_agent() {
    let ways = json!([{"methodId": "key", "name": "API key", "type": "agent"}]);
    let info = json!({"name": "a", "version": "1"});
    let answer =
        json!({"protocolVersion": 2, "info": info, "capabilities": {"session": {}}, "authMethods": ways});
    let refusal = json!({"code": -32000, "message": "Authentication required"});
    let place = Place::new();
    place.scripted(&Script::new().expect("initialize").reply(answer).refuse("session/new", refusal));
    let done = place.acpx(&["--format", "json", "--protocol", "2", "scripted", "doctor"]);
    let (found, _) = findings(&done);
    assert!(detail(&found, "login").contains("it offers key (API key)"), "{done:?}");
}

#[test]
fn doctor_names_the_mcp_server_with_which_session_new_fails() {
    let refusal = json!({"code": -32602, "message": "the server did not start"});
    let script = Script::new()
        .initialize(json!({}))
        .session_new("s1")
        .refuse("session/new", refusal)
        .session_new("s3");
    let place = Place::new();
    let argv = place.scripted(&script);
    let server = |name: &str| json!({"name": name, "command": "true", "args": [], "env": []});
    let config = json!({
        "agents": {"scripted": {"argv": argv}}, "mcpServers": [server("broken"), server("fine")],
    });
    place.configure(&config.to_string());
    let done = place.acpx(&["--format", "json", "scripted", "doctor"]);
    let (found, _) = findings(&done);
    let servers = found.iter().filter(|(_, check, _)| check == "MCP server");
    let told: Vec<_> = servers.map(|(level, _, words)| (level.as_str(), words.as_str())).collect();
    let words = "broken: without it the agent makes a session, with it not: \
                 the agent \"scripted\" refused session/new: the server did not start (-32602)";
    assert_eq!(told, [("fail", words), ("ok", "fine: the agent makes a session with it")], "{done:?}");
    let asked = received_lines(&argv).into_iter().filter(|line| line.contains("session/new"));
    let names = asked.map(|line| {
        let asked: Value = serde_json::from_str(&line).unwrap();
        asked["params"]["mcpServers"][0]["name"].clone()
    });
    assert_eq!(names.collect::<Vec<_>>(), [Value::Null, json!("broken"), json!("fine")]);
    assert_eq!(done.code, Some(1));
}

#[test]
fn doctor_reports_missing_session_directories_and_failed_last_turns_with_hints() {
    let place = Place::new();
    let old = place.work().join("old");
    fs::create_dir(&old).unwrap();
    let script = Script::new()
        .initialize(json!({}))
        .session_new("s1")
        .prompt(|turn| turn.reply_error(json!({"code": 400, "message": "the model refused"})))
        .next_start()
        .initialize(json!({}))
        .session_new("s2");
    place.scripted(&script);
    let made = place.acpx_in(&old, &["--format", "json", "scripted", "sessions", "new"]).json();
    assert_eq!(place.acpx_in(&old, &["scripted", "hello"]).code, Some(1));
    fs::rename(&old, place.work().join("new")).unwrap();
    let id = made["acpxRecordId"].as_str().unwrap();
    let done = place.acpx(&["--format", "json", "scripted", "doctor", "-s", id]);
    let (found, _) = findings(&done);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert_eq!((level(&found, "directory"), level(&found, "last turn")), ("fail", "fail"), "{found:?}");
    assert!(detail(&found, "last turn").contains("the model refused"), "{found:?}");
    assert!(done.out.contains(&format!("acpx sessions move {id} --cwd DIR")), "{done:?}");
    assert_eq!(level(&found, "restore"), "warn", "{found:?}");
}

#[test]
fn doctor_reports_an_unusable_agent_with_a_useful_hint() {
    let place = Place::new();
    let hint = |done: &Done, check: &str| {
        let mut lines = done.out.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let found = lines.find(|line| line["check"] == check).expect("it was looked at");
        found["hint"].as_str().unwrap_or_default().to_owned()
    };
    let file = place.work().join("notes");
    fs::write(&file, "no program").unwrap();
    let done = place.acpx(&["--format", "json", "--agent", file.to_str().unwrap(), "doctor"]);
    assert!(hint(&done, "program").contains("chmod +x"), "{done:?}");

    place.scripted(&Script::new().initialize(json!({})).expect("session/new").exit(3));
    let done = place.acpx(&["--format", "json", "scripted", "doctor"]);
    assert!(hint(&done, "session").starts_with("nothing was stored"), "{done:?}");

    let login = json!({"code": -32000, "message": "Authentication required"});
    place.scripted(&Script::new().refuse("initialize", login));
    for command in [&["scripted", "doctor"][..], &["scripted", "sessions", "new"], &["scripted", "auth"]] {
        let done = place.acpx(&[&["--format", "json"], command].concat());
        assert!(done.out.contains("log in with the agent's own program"), "{done:?}");
        assert!(!done.out.contains("auth METHOD"), "{done:?}");
    }
}

#[test]
fn doctor_reports_a_missing_additional_directory() {
    let place = Place::new();
    let more = place.work().join("more");
    fs::create_dir(&more).unwrap();
    let can = json!({"sessionCapabilities": {"additionalDirectories": {}}});
    let script = || Script::new().initialize(can.clone()).session_new("s1");
    place.scripted(&script().next_start().initialize(can.clone()).session_new("s2"));
    place.ok(&["--add-dir", more.to_str().unwrap(), "scripted", "sessions", "new"]);
    fs::remove_dir(&more).unwrap();
    let (found, _) = findings(&place.acpx(&["--format", "json", "scripted", "doctor"]));
    assert_eq!(level(&found, "additional directory"), "warn", "{found:?}");
    assert!(detail(&found, "additional directory").starts_with(more.to_str().unwrap()), "{found:?}");
}

#[test]
fn doctor_reports_a_session_that_was_refused_for_a_missing_login() {
    let place = Place::new();
    let can = json!({"sessionCapabilities": {"resume": {}}});
    let login = json!({"code": -32000, "message": "Authentication required"});
    let script = Script::new()
        .initialize(can.clone())
        .session_new("s1")
        .prompt(|turn| turn.end("end_turn"))
        .next_start()
        .initialize(can.clone())
        .refuse("session/resume", login)
        .next_start()
        .initialize(can)
        .session_new("s2");
    place.scripted(&script);
    place.ok(&["scripted", "sessions", "new"]);
    place.ok(&["scripted", "one"]);
    place.ok(&["host", "stop"]);
    assert_eq!(place.acpx(&["scripted", "two"]).code, Some(1));
    // The refusal is told at once, and how the agent ended when it has.
    let why = "lastExit: it wanted a login before it gave the session";
    eventually("status says it", || place.ok(&["scripted", "status"]).contains(why));
    let (found, _) = findings(&place.acpx(&["--format", "json", "scripted", "doctor"]));
    assert_eq!(level(&found, "last agent"), "warn", "{found:?}");
    assert!(detail(&found, "last agent").starts_with("it wanted a login"), "{found:?}");
}
