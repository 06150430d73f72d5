//! What a configuration that is not right stops, what it does not, and what an agent gets of one that is.

use std::fs;

use acpx_testkit::Script;
use serde_json::{Value, json};

use crate::acpx::{Place, text};
use crate::editor::Editor;

const WRONG: &str =
    "agents.demo.command must be one program without spaces or quotes, since \"args\" has the arguments";

#[test]
fn a_wrong_entry_stops_what_would_start_its_agent_and_nothing_else() {
    let place = Place::new();
    let made = place.json(&["demo", "sessions", "new"]);
    let mut running = place.start(&["demo", "wait"]);
    running.wait_for("Waiting until cancelled.");
    place
        .configure(r#"{"agents":{"demo":{"command":"a b","args":[]},"other":{"argv":["no-such-program"]}}}"#);
    for line in
        [&["demo", "hello"][..], &["demo", "exec", "hello"], &["demo", "sessions", "new"], &["demo", "auth"]]
    {
        let refused = place.acpx(&[&["--format", "json"], line].concat());
        assert_eq!(refused.failure().0, "CONFIG_INVALID", "{line:?}");
        let message = refused.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.ends_with(WRONG), "{message}");
        let hint = "correct the entry; other agents are not affected";
        assert_eq!(refused.json()["error"]["data"]["hint"], hint, "{line:?}");
    }
    let reading: [&[&str]; 9] = [
        &["demo", "status"],
        &["demo", "sessions", "show"],
        &["demo", "sessions", "list"],
        &["demo", "sessions", "history"],
        &["demo", "sessions", "replay"],
        &["other", "status"],
        &["status"],
        &["pending"],
        &["host", "status"],
    ];
    for line in reading {
        place.ok(line);
    }
    assert_eq!(place.json(&["demo", "status"])["acpxRecordId"], made["acpxRecordId"]);
    assert_eq!(place.ok(&["demo", "cancel"]), "cancel requested\n");
    assert_eq!(running.done().code, Some(0));
    place.ok(&["demo", "sessions", "close"]);
    place.ok(&["host", "stop"]);
}

#[test]
fn commands_that_start_no_agent_work_with_an_unreadable_configuration_and_warn() {
    let place = Place::new();
    let own = json!({ "agents": { "own": { "argv": [env!("CARGO_BIN_EXE_acpx"), "demo-agent"] } } });
    place.configure(&own.to_string());
    let made = place.json(&["own", "sessions", "new"]);
    place.ok(&["own", "sessions", "new", "--name", "work"]);
    let record = made["acpxRecordId"].as_str().unwrap();
    let mut running = place.start(&["own", "wait"]);
    running.wait_for("Waiting until cancelled.");
    place.configure(r#"{"agents":"#);
    let file = text(place.acpx_home().join("config.json"));
    let of_it = |verb: &'static str| [verb, "-s", record];
    let going_on: [&[&str]; 11] = [
        &["pending"],
        &["host", "status"],
        &["demo", "status"],
        &of_it("status"),
        &["own", "status"],
        &["own", "status", "-s", "work"],
        &["own", "sessions", "list"],
        &["sessions", "list"],
        &["own", "sessions", "history"],
        &["own", "cancel"],
        &["own", "sessions", "close", "work"],
    ];
    for line in going_on {
        let done = place.acpx(line);
        assert_eq!(done.code, Some(0), "{line:?}: {done:?}");
        assert!(done.err.starts_with(&format!("[acpx] {file} is not JSON: ")), "{line:?}: {done:?}");
        assert!(done.err.ends_with("; nothing of it is used\n"), "{line:?}: {done:?}");
    }
    assert_eq!(running.done().code, Some(0));
    assert_eq!(place.acpx(&["--format", "json", "own", "status"]).json()["acpxRecordId"], record);
    // Which agent is the default one, whose name a name is then, how one is started, and which other words are agents,
    // only the file can say.
    let refused: [&[&str]; 8] = [
        &["status"],
        &["cancel", "-s", "work"],
        &["sessions", "close", "work"],
        &["status", "-s", "01980000-0000-7000-8000-000000000000"],
        &["other", "status"],
        &["own", "hello"],
        &["own", "sessions", "new"],
        &["demo", "hello"],
    ];
    for line in refused {
        let refused = place.acpx(&[&["--format", "json"], line].concat());
        assert_eq!(refused.failure().0, "CONFIG_INVALID", "{line:?}");
    }
    place.ok(&["host", "stop"]);
}

#[test]
fn env_of_an_agent_entry_reaches_only_that_agent() {
    let place = Place::new();
    let agent = |file: &str| {
        let line = format!("env > {file}; exec {} demo-agent", env!("CARGO_BIN_EXE_acpx"));
        json!(["sh", "-c", line])
    };
    let says = place.scripted(&Script::new().initialize(json!({})).session_new("s1"));
    let telling = [&["sh", "-c", "env > mine.env; exec \"$@\"", "sh"].map(str::to_owned)[..], &says].concat();
    let config = json!({ "defaultAgent": "mine", "agents": {
        "mine": { "argv": telling, "env": { "FOO": "of-mine", "HOME": "/nowhere" } },
        "plain": { "argv": agent("plain.env") },
    } });
    place.configure(&config.to_string());
    place.ok(&["mine", "sessions", "new"]);
    let made = place.json(&["plain", "sessions", "new"]);
    place.ok(&["host", "stop"]);
    let seen = |file: &str, line: &str| {
        let text = fs::read_to_string(place.work().join(file)).unwrap();
        text.lines().any(|seen| seen == line)
    };
    assert!(seen("mine.env", "FOO=of-mine") && seen("mine.env", "HOME=/nowhere"));
    assert!(!seen("plain.env", "FOO=of-mine") && !seen("plain.env", "HOME=/nowhere"));
    // An id means its own agent, whichever is the default.
    fs::remove_file(place.work().join("plain.env")).unwrap();
    place.ok(&["prompt", "-s", made["acpxRecordId"].as_str().unwrap(), "hello"]);
    assert!(!seen("plain.env", "FOO=of-mine"));
}

#[test]
fn environment_values_are_masked_by_name_or_pattern_and_others_are_stored() {
    let place = Place::new();
    let words = "production eu-central-1 t0ken-value l1cence-value inherited-mark url-password seven77";
    let ask = json!({
        "sessionId": "{sessionId}", "toolCall": { "toolCallId": "t1", "title": words, "kind": "execute" },
        "options": [{ "optionId": "yes", "name": "Yes", "kind": "allow_once" }],
    });
    let says = Script::new().initialize(json!({})).session_new("s1");
    let says = says.prompt(|turn| turn.request("session/request_permission", ask).say(words).end("end_turn"));
    let argv = place.scripted(&says);
    let env = json!({
        "NODE_ENV": "production", "REGION": "eu-central-1", "MY_TOKEN": "t0ken-value", "LICENCE": "l1cence-value",
        "DATABASE_URL": "postgres://me:url-password@db/app", "SHORT_KEY": "seven77",
    });
    let mine = json!({ "argv": argv, "env": env, "secretEnv": ["LICENCE", "FROM_SHELL"] });
    place.configure(&json!({ "agents": { "mine": mine } }).to_string());
    let run = |args: &[&str]| {
        let done = place.command(args).env("FROM_SHELL", "inherited-mark").output().unwrap();
        assert!(done.status.success(), "{done:?}");
        String::from_utf8(done.stdout).unwrap()
    };
    let masked = "production eu-central-1 [secret] [secret] [secret] [secret] seven77";
    run(&["mine", "sessions", "new"]);
    let told = run(&["--approve-all", "mine", "go"]);
    assert!(told.contains(&format!("  asks: {masked}\n")), "{told}");
    assert!(told.contains(&format!("\n{masked}\n")), "{told}");
    place.ok(&["host", "stop"]);
    let store = fs::read(place.acpx_home().join("acpx.db")).unwrap();
    for secret in ["t0ken-value", "l1cence-value", "inherited-mark", "url-password"] {
        assert!(!store.windows(secret.len()).any(|bytes| bytes == secret.as_bytes()), "{secret}");
    }
}

#[test]
fn unknown_configuration_keys_warn_when_a_session_is_created_and_stop_nothing() {
    let place = Place::new();
    let argv = json!([env!("CARGO_BIN_EXE_acpx"), "demo-agent"]);
    let config = json!({
        "defaultPermision": "deny-all",
        "agents": {
            "mine": { "argv": argv, "evn": { "FOO": "s3cret" } },
            "other": { "argv": ["x"], "cwd": "/" },
        },
    });
    place.configure(&config.to_string());
    let file = text(place.acpx_home().join("config.json"));
    let warning = format!(
        "[acpx] {file}: nothing reads defaultPermision (did you mean defaultPermissions?), agents.mine.evn (did you mean env?)\n"
    );
    let made = place.acpx(&["mine", "sessions", "new"]);
    assert!(made.code == Some(0) && made.err.contains(&warning), "{made:?}");
    let run = place.acpx(&["mine", "exec", "hello"]);
    assert!(run.code == Some(0) && run.err.contains(&warning), "{run:?}");
    let said = place.acpx(&["mine", "hello"]);
    assert!(said.code == Some(0) && !said.err.contains("nothing reads"), "{said:?}");
    let quiet = place.acpx(&["--format", "quiet", "mine", "sessions", "new"]);
    assert_eq!((quiet.code, quiet.err.as_str()), (Some(0), ""));
}

#[test]
fn editor_naming_an_agent_by_command_line_loads_with_configured_env() {
    let place = Place::new();
    let agent = |file: &str| {
        let line = format!("env > {file}; exec {} demo-agent", env!("CARGO_BIN_EXE_acpx"));
        json!(["sh", "-c", line])
    };
    let other = agent("other.env");
    let config = json!({ "agents": {
        "mine": { "argv": agent("mine.env"), "env": { "FOO": "of-mine" } },
        "other": { "argv": other, "env": { "BAR": "of-other" } },
    } });
    place.configure(&config.to_string());
    let made = place.json(&["other", "sessions", "new"]);
    place.ok(&["host", "stop"]);
    let file = place.work().join("other.env");
    fs::remove_file(&file).unwrap();
    let load = json!({ "sessionId": made["acpxRecordId"], "cwd": place.work(), "mcpServers": [] });
    let mut editor = Editor::silent(&place, &["mine", "acp"]);
    editor.call("initialize", json!({ "protocolVersion": 1 }));
    let unknown = editor.call("session/load", load.clone());
    assert_eq!(unknown["error"]["code"], -32002, "{unknown}");
    let line = format!("sh -c '{}'", other[2].as_str().unwrap());
    let mut editor = Editor::silent(&place, &["--agent", &line, "acp"]);
    editor.call("initialize", json!({ "protocolVersion": 1 }));
    // It may have been started to be asked what it can do.
    drop(fs::remove_file(&file));
    let loaded = editor.call("session/load", load);
    assert!(loaded.get("result").is_some(), "{loaded}");
    let text = fs::read_to_string(file).unwrap();
    let own: Vec<&str> =
        text.lines().filter(|line| line.starts_with("FOO=") || line.starts_with("BAR=")).collect();
    assert_eq!(own, ["BAR=of-other"]);
}

#[test]
fn doctor_searches_an_agents_program_in_its_configured_path() {
    let place = Place::new();
    let bin = place.work().join("bin");
    fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_acpx"), bin.join("my-agent")).unwrap();
    let env = json!({ "PATH": bin });
    let config = json!({ "agents": { "mine": { "argv": ["my-agent", "demo-agent"], "env": env } } });
    place.configure(&config.to_string());
    let of_agent = place.acpx(&["--format", "json", "doctor", "mine"]);
    let found = format!("{}", bin.join("my-agent").display());
    let program = json!({ "action": "doctor_check", "level": "ok", "check": "program", "detail": found });
    let is_found = |line: &str| serde_json::from_str::<Value>(line).is_ok_and(|line| line == program);
    assert!(of_agent.out.lines().any(is_found), "{of_agent:?}");
    let of_all = place.acpx(&["doctor"]);
    assert!(!of_all.out.contains("mine, which the configuration has, is not there"), "{of_all:?}");
}
