//! What an editor is offered: the agent's own, and what acpx adds to any agent.

use acpx_testkit::Script;
use serde_json::json;

use super::{Editor, wanting_error_data};
use crate::acpx::Place;

fn initialized(place: &Place, agent: &str) -> serde_json::Value {
    let mut editor = Editor::silent(place, &[agent, "acp"]);
    editor.call("initialize", json!({ "protocolVersion": 1 }))
}

#[test]
fn agent_without_capabilities_is_advertised_with_durable_sessions_and_its_name() {
    let place = Place::new();
    place.demo_with(&["--no-load", "--no-resume", "--no-close", "--no-list", "--no-delete"]);
    let answer = initialized(&place, "demo");
    let capabilities = &answer["result"]["agentCapabilities"];
    assert_eq!(capabilities["loadSession"], true, "{answer}");
    let sessions = json!({ "resume": {}, "close": {}, "list": {}, "delete": {} });
    assert_eq!(capabilities["sessionCapabilities"], sessions, "{answer}");
    assert_eq!(capabilities["mcpCapabilities"]["http"], true, "{answer}");
    assert_eq!(capabilities["mcpCapabilities"]["sse"], false, "{answer}");
    assert_eq!(answer["result"]["agentInfo"]["name"], "acpx-demo", "{answer}");
}

#[test]
fn unsupported_mcp_server_is_refused_by_name_and_capability() {
    let place = Place::new();
    place.demo_with(&["--no-http"]);
    let mut editor = Editor::new(&place);
    let server = json!({ "type": "http", "name": "search", "url": "http://localhost", "headers": [] });
    let answer = editor.call("session/new", json!({ "cwd": place.work(), "mcpServers": [server] }));
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    let problem = answer["error"]["data"].to_string();
    assert!(problem.contains("search") && problem.contains("mcpCapabilities.http"), "{problem}");
}

#[test]
fn cached_initialize_result_needs_no_agent_start() {
    let place = Place::new();
    let seen = place.path_of("started");
    let program = place.path_of("agent.sh");
    let script = format!(
        "#!/bin/sh\necho started >> {}\nexec {} demo-agent\n",
        seen.display(),
        env!("CARGO_BIN_EXE_acpx")
    );
    std::fs::write(&program, &script).unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, executable).unwrap();
    let argv = json!({ "mine": { "argv": [program] }, "by-shell": { "argv": ["sh", program] } });
    place.configure(&json!({ "agents": argv }).to_string());
    let starts = || std::fs::read_to_string(&seen).unwrap_or_default().lines().count();
    for agent in ["mine", "by-shell"] {
        std::fs::write(&program, &script).unwrap();
        let before = starts();
        let first = initialized(&place, agent);
        assert_eq!(starts(), before + 1, "{agent}");
        assert_eq!(initialized(&place, agent), first);
        place.ok(&["host", "stop"]);
        assert_eq!(initialized(&place, agent), first);
        assert_eq!(starts(), before + 1, "{agent}");
        // Another version of the program is another agent, whichever word of the command names it.
        std::fs::write(&program, format!("{script}# changed\n")).unwrap();
        initialized(&place, agent);
        assert_eq!(starts(), before + 2, "{agent}");
    }
}

#[test]
fn an_agent_that_cannot_be_started_is_a_clear_error_of_initialize() {
    let place = Place::new();
    let mut editor = Editor::silent(&place, &["--agent", "/nowhere/agent", "acp"]);
    for _ in 0..2 {
        let answer = editor.call("initialize", wanting_error_data(1));
        let fault = &answer["error"]["data"]["acpx"];
        assert_eq!(fault["code"], "AGENT_NOT_FOUND", "{answer}");
        assert!(fault["hint"].is_string(), "{answer}");
        // Zed and Toad show what is here, and nothing else.
        let answer = editor.call("initialize", json!({ "protocolVersion": 1 }));
        let hint = fault["hint"].as_str().unwrap();
        let details = format!("the agent command \"/nowhere/agent\" was not found; {hint}");
        assert_eq!(answer["error"]["data"], json!({ "details": details }));
    }
    let early = editor.call("session/new", json!({ "cwd": place.work(), "mcpServers": [] }));
    assert_eq!(early["error"]["code"], -32600, "{early}");
}

#[test]
fn editor_session_that_needs_a_login_gets_the_login_methods() {
    let place = Place::new();
    let answer = json!({
        "protocolVersion": 1, "agentCapabilities": {}, "authMethods": [{ "id": "key", "name": "Key" }],
    });
    let refusal = json!({ "code": -32000, "message": "Authentication required" });
    let script = Script::new().serve([
        ("initialize", Script::new().reply(answer.clone())),
        ("session/new", Script::new().reply_error(refusal)),
    ]);
    place.scripted(&script);
    let mut editor = Editor::silent(&place, &["scripted", "acp"]);
    editor.call("initialize", wanting_error_data(1));
    let refused = editor.call("session/new", json!({ "cwd": place.work(), "mcpServers": [] }));
    let error = &refused["error"];
    assert_eq!((&error["code"], &error["data"]["authMethods"]), (&json!(-32000), &answer["authMethods"]));
}

#[test]
fn editor_logs_in_and_out_and_gets_the_agents_own_error() {
    let place = Place::new();
    let answer = json!({
        "protocolVersion": 1,
        "agentCapabilities": { "auth": { "logout": {} } },
        "authMethods": [{ "id": "key", "name": "Key" }, { "id": "bad", "name": "Bad" }],
    });
    let refusal = json!({ "code": -32000, "message": "no such key" });
    let script = Script::new()
        .expect("initialize")
        .reply(answer.clone())
        .next_start()
        .expect("initialize")
        .reply(answer.clone())
        .expect("authenticate")
        .reply(json!({}))
        .next_start()
        .expect("initialize")
        .reply(answer.clone())
        .refuse("authenticate", refusal)
        .next_start()
        .expect("initialize")
        .reply(answer.clone())
        .expect("logout")
        .reply(json!({}));
    place.scripted(&script);
    let mut editor = Editor::silent(&place, &["scripted", "acp"]);
    let offered = editor.call("initialize", json!({ "protocolVersion": 1 }));
    assert_eq!(offered["result"]["authMethods"], answer["authMethods"], "{offered}");
    assert_eq!(offered["result"]["agentCapabilities"]["auth"], json!({ "logout": {} }), "{offered}");
    let done = editor.call("authenticate", json!({ "methodId": "key" }));
    assert_eq!(done["result"], json!({}), "{done}");
    let refused = editor.call("authenticate", json!({ "methodId": "bad" }));
    assert_eq!(refused["error"]["code"], -32000, "{refused}");
    assert!(refused["error"]["message"].as_str().unwrap().contains("no such key"), "{refused}");
    assert_eq!(editor.call("logout", json!({}))["result"], json!({}));
}
