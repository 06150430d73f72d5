//! An agent that puts lines of ours into everything it says: whichever command tells of it, none of them begins a line.

use acpx_testkit::Script;
use serde_json::{Value, json};

use crate::acpx::{Done, Place};

/// What begins a line if an agent can make one.
const FORGED: &str = "FORGED: all is well";

/// Words with every end of a line that some reader knows.
fn evil(word: &str) -> String {
    ["\n", "\r", "\u{b}", "\u{c}", "\u{85}", "\u{2028}"].map(|end| format!("{word}{end}{FORGED}")).concat()
}

/// The answer to a new session: its ids, modes and options.
fn session() -> Value {
    let mode = json!({ "id": evil("plan"), "name": evil("Plan") });
    let value = json!({ "value": evil("high"), "name": evil("High") });
    let option = json!({
        "id": evil("effort"), "name": evil("Effort"), "type": "select", "currentValue": evil("high"), "options": [value],
    });
    json!({
        "sessionId": evil("s1"), "_meta": { "agentSessionId": evil("inner") },
        "modes": { "currentModeId": evil("plan"), "availableModes": [mode] },
        "configOptions": [option],
    })
}

/// An agent that does its turns, or wants a login for them.
fn agent(login_wanted: bool) -> Script {
    let error = json!({ "code": -32000, "message": evil("log in"), "data": { "details": evil("now") } });
    let info = json!({ "name": evil("evil"), "title": evil("Evil"), "version": evil("1") });
    let way = json!({ "id": evil("key"), "name": evil("Key"), "description": evil("With a key") });
    let needs = json!({
        "id": evil("env"), "name": evil("Env"), "type": "env_var", "vars": [{ "name": evil("KEY") }],
    });
    let capabilities =
        json!({ "sessionCapabilities": { "list": {}, "resume": {} }, "auth": { "logout": {} } });
    let greeting = json!({
        "protocolVersion": 1, "agentCapabilities": capabilities, "agentInfo": info, "authMethods": [way, needs],
    });
    let row =
        json!({ "sessionId": evil("r1"), "cwd": evil("/tmp"), "title": evil("T"), "updatedAt": evil("now") });
    let turn = Script::new()
        .update(json!({ "sessionUpdate": "session_info_update", "title": evil("Title") }))
        .update(json!({ "sessionUpdate": "usage_update", "used": 1, "size": 2,
            "cost": { "amount": 1, "currency": evil("USD") } }))
        .update(json!({ "sessionUpdate": "notice", "severity": evil("bad"), "title": evil("T") }))
        .update(json!({ "sessionUpdate": "tool_call", "toolCallId": "t", "title": evil("Tool"), "status": evil("odd"),
            "rawInput": { "command": evil("ls") }, "locations": [{ "path": evil("/x") }] }))
        .update(json!({ "sessionUpdate": "plan", "entries": [{ "content": evil("P"), "status": evil("odd") }] }));
    let turn = if login_wanted { turn.reply_error(error.clone()) } else { turn.end(&evil("end")) };
    let refused = Script::new().reply_error(error);
    Script::new().serve([
        ("initialize", Script::new().reply(greeting)),
        ("session/new", Script::new().reply(session())),
        ("session/resume", Script::new().reply(json!({}))),
        ("session/list", Script::new().reply(json!({ "sessions": [row], "nextCursor": evil("c") }))),
        ("session/prompt", turn),
        ("session/set_mode", refused.clone()),
        ("session/set_config_option", refused.clone()),
        ("authenticate", refused.clone()),
        ("logout", refused),
    ])
}

/// What a command has written, where every line is looked at as any reader would.
fn honest(done: &Done, command: &[&str]) {
    let ends = ['\n', '\r', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}'];
    for line in done.out.split(ends).chain(done.err.split(ends)) {
        assert!(!line.trim_start().starts_with(FORGED), "{command:?} has written {line:?} in {done:?}");
    }
}

#[test]
fn no_command_prints_a_line_forged_by_an_agent() {
    for login_wanted in [false, true] {
        let place = Place::new();
        place.scripted(&agent(login_wanted));
        let commands: [&[&str]; 19] = [
            &["sessions", "new"],
            &["--verbose", "prompt", "hi"],
            &["status"],
            &["sessions", "show"],
            &["sessions", "list"],
            &["sessions", "list", "--remote"],
            &["sessions", "history"],
            &["sessions", "replay"],
            &["exec", "hi"],
            &["set-mode", "nowhere"],
            &["set", "nowhere", "x"],
            &["set", &evil("effort"), "x"],
            &["set", &evil("effort"), &evil("high")],
            &["set-mode", &evil("plan")],
            &["auth"],
            &["auth", "nowhere"],
            &["auth", &evil("key")],
            &["auth", "--logout"],
            &["doctor"],
        ];
        for command in commands {
            for format in ["text", "quiet"] {
                let whole = [&["--format", format, "scripted"], command].concat();
                honest(&place.acpx(&whole), command);
            }
        }
    }
}
