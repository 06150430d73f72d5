//! MCP servers: given with a session, had again from their file, and their secrets nowhere to be found.

use acpx_testkit::{Script, received_lines};
use serde_json::{Value, json};

use crate::acpx::{Place, text};

const SECRET: &str = "s3cr3t-f0r-nobody";

/// An agent that takes servers over HTTP, brings sessions back, and says this to every prompt.
fn saying(script: Script, words: &str) -> Script {
    let capabilities = json!({
        "loadSession": true, "mcpCapabilities": { "http": true }, "sessionCapabilities": { "resume": {} },
    });
    script.serve([
        (
            "initialize",
            Script::new().reply(json!({ "protocolVersion": 1, "agentCapabilities": capabilities })),
        ),
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        ("session/resume", Script::new().reply(json!({}))),
        ("session/prompt", Script::new().say(words).end("end_turn")),
    ])
}

fn servers() -> Value {
    json!({ "mcpServers": [
        { "name": "files", "command": "sh", "args": ["-c", "true"], "env": [{ "name": "TOKEN", "value": SECRET }] },
        { "name": "web", "type": "http", "url": "https://example.invalid/mcp",
          "headers": [{ "name": "Authorization", "value": SECRET }] },
    ] })
}

/// The names of the servers in the last request of this method that the agent got, and whether the secret was there.
fn given(agent: &[String], method: &str) -> (Vec<String>, bool) {
    let lines = received_lines(agent);
    let of_method = |line: &&String| serde_json::from_str::<Value>(line).unwrap()["method"] == method;
    let line = lines.iter().rev().find(of_method).unwrap_or_else(|| panic!("no {method} in {lines:?}"));
    let request: Value = serde_json::from_str(line).unwrap();
    let servers = request["params"]["mcpServers"].as_array().unwrap();
    (
        servers.iter().map(|server| server["name"].as_str().unwrap().to_owned()).collect(),
        line.contains(SECRET),
    )
}

#[test]
fn mcp_servers_are_restored_from_their_file_and_secrets_are_never_stored() {
    let place = Place::new();
    // The agent repeats what it was given, for as long as it has it.
    let repeated = format!("I was told {SECRET}");
    let script = saying(saying(Script::new(), &repeated).next_start(), &repeated);
    let agent = place.scripted(&saying(script.next_start(), "I was told nothing"));
    let file = place.work().join("mcp.json");
    std::fs::write(&file, servers().to_string()).unwrap();
    let both = (vec!["files".to_owned(), "web".to_owned()], true);
    let mut shown = vec![place.acpx(&["--mcp-config", "mcp.json", "scripted", "sessions", "new"])];
    assert_eq!(given(&agent, "session/new"), both);
    shown.push(place.acpx(&["--verbose", "--format", "json", "scripted", "hello"]));
    place.ok(&["host", "stop"]);
    // Nobody says where the servers are, and they come from where they came from.
    shown.push(place.acpx(&["--verbose", "scripted", "hello"]));
    assert_eq!(given(&agent, "session/resume"), both);
    place.ok(&["host", "stop"]);
    std::fs::remove_file(&file).unwrap();
    let without = place.acpx(&["scripted", "hello"]);
    let why = format!("cannot read {}: No such file or directory (os error 2)", file.display());
    let left_out =
        format!("left out, since their values are not known any more ({why}): the MCP servers files, web\n");
    assert!(without.err.contains(&left_out), "{}", without.err);
    assert_eq!(given(&agent, "session/resume"), (Vec::new(), false));
    shown.push(without);
    shown.push(place.acpx(&["--format", "json", "scripted", "sessions", "show"]));
    shown.push(place.acpx(&["scripted", "sessions", "history"]));
    place.ok(&["host", "stop"]);
    for done in &shown {
        assert_eq!(done.code, Some(0), "{done:?}");
        assert!(!done.out.contains(SECRET) && !done.err.contains(SECRET), "{done:?}");
    }
    for entry in std::fs::read_dir(place.acpx_home()).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        let is_there = bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes());
        assert!(!is_there, "the secret is in {}", path.display());
    }
}

#[test]
fn prompt_with_mcp_servers_too_late_for_its_agent_warns() {
    let place = Place::new();
    let can = json!({ "sessionCapabilities": { "additionalDirectories": {} } });
    let forgetful = |script: Script| {
        script.serve([
            ("initialize", Script::new().reply(json!({ "protocolVersion": 1, "agentCapabilities": can }))),
            ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
            ("session/prompt", Script::new().say("hello").end("end_turn")),
        ])
    };
    let agent = place.scripted(&forgetful(forgetful(Script::new()).next_start()));
    let file = json!({ "mcpServers": [{ "name": "files", "command": "sh", "args": [], "env": [] }] });
    std::fs::write(place.work().join("mcp.json"), file.to_string()).unwrap();
    std::fs::create_dir(place.work().join("more")).unwrap();
    place.ok(&["scripted", "sessions", "new"]);
    place.ok(&["scripted", "hello"]);
    let late = place.acpx(&["--mcp-config", "mcp.json", "--add-dir", "more", "scripted", "hello"]);
    assert_eq!(late.code, Some(0), "{late:?}");
    let why = "since it is busy, another client uses the session, or it could not restore the session";
    for (what, flag) in [("MCP servers", "--mcp-config"), ("additional directories", "--add-dir")] {
        let line = format!(
            "[acpx] the agent keeps the {what} that it has, {why}; repeat {flag} with a later prompt, or with sessions new\n"
        );
        assert!(late.err.contains(&line), "{late:?}");
    }
    assert_eq!(given(&agent, "session/new"), (Vec::new(), false));
    let ensured = place.acpx(&[
        "--format",
        "json",
        "--mcp-config",
        "mcp.json",
        "--add-dir",
        "more",
        "scripted",
        "sessions",
        "ensure",
    ]);
    assert_eq!(ensured.json()["notApplied"], json!(["--mcp-config", "--add-dir"]));
    assert_eq!(ensured.err.matches("the agent keeps the").count(), 2, "{ensured:?}");
    place.ok(&["host", "stop"]);
}

#[test]
fn ensure_gives_an_existing_session_its_mcp_servers_and_reads_their_file() {
    let place = Place::new();
    let agent = place.scripted(&saying(saying(Script::new(), "hello").next_start(), "hello"));
    let made = place.json(&["scripted", "sessions", "new"]);
    place.ok(&["scripted", "hello"]);
    place.ok(&["host", "stop"]);
    let ensure = ["--mcp-config", "mcp.json", "scripted", "sessions", "ensure"];
    let unread = place.acpx(&[&["--format", "json"], &ensure[..]].concat());
    assert_eq!((unread.failure().0.as_str(), unread.code), ("CONFIG_UNREADABLE", Some(2)));
    assert_eq!(place.json(&["scripted", "sessions", "ensure"])["acpxRecordId"], made["acpxRecordId"]);
    assert_eq!(place.processes(), [0; 0], "nothing is started where nothing is brought");
    std::fs::write(place.work().join("mcp.json"), servers().to_string()).unwrap();
    let ensured = place.json(&ensure);
    assert_eq!((&ensured["created"], ensured.get("notApplied")), (&json!(false), None), "{ensured}");
    assert_eq!(given(&agent, "session/resume"), (vec!["files".to_owned(), "web".to_owned()], true));
}

#[test]
fn unusable_mcp_server_file_is_named_without_its_values() {
    let place = Place::new();
    let run = |line: &[&str]| {
        place.acpx(&[&["--format", "json", "--mcp-config", "mcp.json", "demo"], line].concat())
    };
    let missing = run(&["exec", "hi"]);
    assert_eq!((missing.failure().0.as_str(), missing.code), ("CONFIG_UNREADABLE", Some(2)));
    let file = place.work().join("mcp.json");
    for (text, code) in [
        (format!("{{\"mcpServers\":[{{\"name\":\"{SECRET}\"}}]}}"), "CONFIG_INVALID"),
        (
            json!({ "mcpServers": [{ "name": "a", "command": "no-such-program" }] }).to_string(),
            "MCP_COMMAND_NOT_FOUND",
        ),
    ] {
        std::fs::write(&file, &text).unwrap();
        for verb in [&["exec", "hi"][..], &["sessions", "new"], &["sessions", "ensure"]] {
            let done = run(verb);
            assert_eq!((done.failure().0.as_str(), done.code), (code, Some(1)), "{verb:?}");
            assert!(!done.out.contains(SECRET), "{done:?}");
        }
    }
    // An agent that takes no servers over HTTP is not asked to.
    place.demo_with(&["--no-http"]);
    std::fs::write(&file, servers().to_string()).unwrap();
    let refused = run(&["exec", "hi"]);
    assert_eq!((refused.failure().0.as_str(), refused.code), ("MCP_UNSUPPORTED", Some(1)));
}

#[test]
fn unsupported_mcp_server_is_refused_once_and_not_for_every_prompt() {
    let place = Place::new();
    place.demo_with(&["--no-http"]);
    let far = json!({ "type": "http", "name": "far", "url": "http://127.0.0.1:9/", "headers": [] });
    std::fs::write(place.work().join("mcp.json"), json!({ "mcpServers": [far] }).to_string()).unwrap();
    let path_of = text(place.path_of("beside"));
    std::fs::create_dir(&path_of).unwrap();
    place.ok(&["demo", "sessions", "new"]);
    place.ok(&["demo", "first"]);
    let refusals = [
        ("--add-dir", path_of.as_str(), "DIRECTORIES_UNSUPPORTED"),
        ("--mcp-config", "mcp.json", "MCP_UNSUPPORTED"),
    ];
    for (flag, value, code) in refusals {
        // Its agent has to be set up anew for it.
        place.ok(&["host", "stop"]);
        let refused = place.acpx(&["--format", "json", flag, value, "demo", "second"]);
        assert_eq!((refused.failure().0.as_str(), refused.code), (code, Some(1)), "{refused:?}");
        assert!(place.ok(&["demo", "third"]).contains("You said: third"));
    }
}
