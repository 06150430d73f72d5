//! Parses records in every spelling, and invalid bytes.

use std::num::NonZeroU64;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::model::SystemPrompt;

fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

fn written() -> Timestamp {
    at("2026-03-01T00:00:00Z")
}

fn read(value: &Value) -> Result<NpmRecord, Damage> {
    NpmRecord::read(value.to_string().as_bytes(), written())
}

/// The content of all three spellings below.
fn expected() -> NpmRecord {
    NpmRecord {
        id: RecordId::new("r").unwrap(),
        session: AcpSessionId::new("s").unwrap(),
        agent_session: AgentSessionId::from_agent("i"),
        argv: vec!["codex-acp".to_owned(), "--fast".to_owned()],
        known_as: None,
        cwd: AbsolutePath::new("/home/ada/project").unwrap(),
        name: Ok(Some(SessionName::new("api").unwrap())),
        title: Some("A title".to_owned()),
        lifecycle: Lifecycle::Closed { at: at("2026-02-03T00:00:00Z") },
        created_at: at("2026-02-01T00:00:00Z"),
        used_at: at("2026-02-02T00:00:00Z"),
        chosen: Vec::new(),
        setup: SetupOptions::default(),
        messages: vec![json!("Resume")],
        notes: Vec::new(),
    }
}

#[test]
fn every_spelling_of_a_record_says_the_same() {
    let snake = json!({
        "schema": "acpx.session.v1", "acpx_record_id": "r", "acp_session_id": "s", "agent_session_id": "i",
        "agent_command": "codex-acp --fast", "agent_argv": ["codex-acp", "--fast"], "cwd": "/home/ada/project",
        "name": "api", "title": "A title", "created_at": "2026-02-01T00:00:00Z",
        "last_used_at": "2026-02-02T00:00:00Z", "closed": true, "closed_at": "2026-02-03T00:00:00Z",
        "messages": ["Resume"],
    });
    let canonical = json!({
        "acpxRecordId": "r", "acpxSessionId": "s", "agentSessionId": "i", "agentCommand": "codex-acp --fast",
        "cwd": "/home/ada/project", "name": "api", "title": "A title", "createdAt": "2026-02-01T00:00:00Z",
        "lastUsedAt": "2026-02-02T00:00:00Z", "closedAt": "2026-02-03T00:00:00Z", "messages": ["Resume"],
    });
    let legacy = json!({
        "id": "r", "sessionId": "s", "runtimeSessionId": "i", "agentArgv": ["codex-acp", "--fast"],
        "cwd": "/home/ada/project", "name": "api", "title": "A title", "createdAt": "2026-02-01T00:00:00Z",
        "lastUsedAt": "2026-02-02T00:00:00Z", "closed": true, "closedAt": "2026-02-03T00:00:00Z",
        "messages": ["Resume"],
    });
    let mixed = json!({
        "id": "not this one", "acpxRecordId": "r", "sessionId": "nor this", "acp_session_id": "s",
        "agentSessionId": " ", "runtimeSessionId": "i", "agent_command": "codex-acp '--fast'",
        "cwd": "/home/ada/project", "name": " api ", "title": "A title", "created_at": "2026-02-01T00:00:00Z",
        "lastUsedAt": "2026-02-02T00:00:00Z", "closed": true, "closed_at": "2026-02-03T00:00:00Z",
        "messages": ["Resume"],
    });
    for spelling in [snake, canonical, legacy, mixed] {
        assert_eq!(read(&spelling), Ok(expected()), "{spelling}");
    }
}

#[test]
fn missing_optional_member_gets_a_default() {
    let least = json!({"id": "r", "sessionId": "s", "cwd": "/", "agentCommand": "agent"});
    let sensible = NpmRecord {
        agent_session: None,
        argv: vec!["agent".to_owned()],
        cwd: AbsolutePath::new("/").unwrap(),
        name: Ok(None),
        title: None,
        lifecycle: Lifecycle::Open,
        created_at: written(),
        used_at: written(),
        messages: Vec::new(),
        notes: vec![ImportNote::Time { field: "created_at" }, ImportNote::Time { field: "last_used_at" }],
        ..expected()
    };
    assert_eq!(read(&least), Ok(sensible.clone()));
    // A value of a wrong type counts as missing.
    let odd = json!({
        "id": "r", "sessionId": "s", "cwd": "/", "agentCommand": "agent", "agentSessionId": 7, "agentArgv": "x",
        "name": null, "title": [], "createdAt": "yesterday", "lastUsedAt": 5, "closed": "no", "messages": {},
    });
    assert_eq!(read(&odd), Ok(sensible));
}

#[test]
fn setup_options_of_npm_acpx_are_imported_and_odd_ones_are_not() {
    let append = SystemPrompt::Append { append: "more".to_owned() };
    let cases = [
        (
            json!({ "system_prompt": "be brief", "allowed_tools": ["Read"], "max_turns": 3, "model": "m" }),
            SetupOptions {
                system_prompt: Some(SystemPrompt::Replace("be brief".to_owned())),
                allowed_tools: Some(vec!["Read".to_owned()]),
                max_turns: NonZeroU64::new(3),
                ..SetupOptions::default()
            },
        ),
        (
            json!({ "system_prompt": { "append": "more" }, "allowed_tools": "Read", "max_turns": 0 }),
            SetupOptions { system_prompt: Some(append), ..SetupOptions::default() },
        ),
        (json!(7), SetupOptions::default()),
    ];
    for (options, setup) in cases {
        let state = json!({ "session_options": options });
        let record = json!({"id": "r", "sessionId": "s", "cwd": "/", "agentCommand": "agent", "acpx": state});
        assert_eq!(read(&record).unwrap().setup, setup, "{options}");
    }
}

#[test]
fn mode_model_and_options_that_the_user_chose_are_wishes() {
    let option = |id: &str, value| Setting { name: SettingName::Option(id.into()), value };
    let id = |text: &str| SettingValue::Id(text.into());
    let mode = Setting { name: SettingName::Mode, value: id("plan") };
    let options = json!([{ "id": "llm", "category": "model" }]);
    let cases = [
        (json!({ "desired_mode_id": "plan", "current_mode_id": "code" }), vec![mode.clone()]),
        (
            json!({
                "desired_mode_id": "plan",
                "desired_config_options": { "effort": "high", "web": true, "odd": 7, "empty": "" },
                "session_options": { "model": "m2" },
                "config_options": options,
            }),
            vec![
                mode,
                option("effort", id("high")),
                option("web", SettingValue::Flag(true)),
                option("llm", id("m2")),
            ],
        ),
        (
            json!({
                "desired_config_options": { "llm": "m3" },
                "session_options": { "model": "m2" },
                "config_options": options,
            }),
            vec![option("llm", id("m3"))],
        ),
        (
            json!({ "session_options": { "model": "m2" }, "model_control": "legacy_set_model" }),
            vec![option("acpx.model", id("m2"))],
        ),
        (json!({ "session_options": { "model": "m2" } }), vec![]),
        (json!(7), vec![]),
    ];
    for (state, chosen) in cases {
        let record = json!({"id": "r", "sessionId": "s", "cwd": "/", "agentCommand": "agent", "acpx": state});
        assert_eq!(read(&record).unwrap().chosen, chosen, "{state}");
    }
}

#[test]
fn a_name_that_cannot_name_a_session_is_noted() {
    let record = json!({"id": "r", "sessionId": "s", "cwd": "/", "agentCommand": "a", "name": "a\u{1b}[2J",
        "createdAt": "2026-02-01T00:00:00Z", "lastUsedAt": "2026-02-02T00:00:00Z"});
    let record = read(&record).unwrap();
    let problem = "the session name \"a\\u{1b}[2J\" has a control character".to_owned();
    assert_eq!((record.name, record.notes), (Err(problem.clone()), vec![ImportNote::Name { problem }]));
}

#[test]
fn agent_started_by_path_keeps_its_known_command_line() {
    let record = json!({"id": "r", "sessionId": "s", "cwd": "/",
        "agent_argv": ["/usr/bin/node", "/opt/codex.js"], "agent_command": "npx -y codex-acp"});
    let record = read(&record).unwrap();
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(
        (record.argv, record.known_as),
        (words("/usr/bin/node /opt/codex.js"), Some(words("npx -y codex-acp")))
    );
}

#[test]
fn missing_required_member_of_a_record_is_named() {
    let whole = json!({"id": "r", "sessionId": "s", "cwd": "/", "agentCommand": "agent"});
    let cases = [
        ("id", json!(""), "it has no record id (acpx_record_id, acpxRecordId or id)"),
        ("sessionId", json!(null), "it has no session id (acp_session_id, acpxSessionId or sessionId)"),
        ("cwd", json!(7), "it has no cwd"),
        ("cwd", json!("a/b"), "its cwd \"a/b\" is not an absolute path"),
        ("agentCommand", json!(" "), "it has no agent command (agent_argv or agent_command)"),
        ("agentCommand", json!("'' x"), "it has no agent command (agent_argv or agent_command)"),
        ("agentCommand", json!("a \"b"), "its agent command \"a \\\"b\" has a quote that does not end"),
        (
            "schema",
            json!("acpx.session.v2"),
            "its schema is \"acpx.session.v2\", and acpx.session.v1 is known",
        ),
    ];
    for (field, value, message) in cases {
        let mut record = whole.clone();
        record[field] = value;
        assert_eq!(read(&record).unwrap_err().to_string(), message);
    }
    assert_eq!(NpmRecord::read(b"[]", written()), Err(Damage::NotAnObject));
    assert_eq!(NpmRecord::read(b"{\"a\":\n}", written()), Err(Damage::NotJson { line: 2, column: 1 }));
}

#[test]
fn files_are_named_as_npm_acpx_names_them() {
    let stem = |id: &str| file_stem(&RecordId::new(id).unwrap());
    assert_eq!(stem("01a1e157-b125_x.~!*'()"), "01a1e157-b125_x.~!*'()");
    assert_eq!(stem("a/b é%"), "a%2Fb%20%C3%A9%25");
}

proptest! {
    #[test]
    fn any_bytes_are_a_record_or_damage(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        drop(NpmRecord::read(&bytes, written()));
    }

    #[test]
    fn a_record_with_any_values_is_read_or_damaged(
        values in prop::collection::vec((0..16_usize, 0..8_usize), 0..16),
    ) {
        let names = [RECORD, SESSION, AGENT_SESSION, ARGV, COMMAND, CREATED, USED, CLOSED].concat();
        let values_of = [
            json!(null), json!(1e300), json!("x"), json!("'"), json!(["a", ""]), json!({}), json!("/"),
            json!("-009999-01-01T00:00:00Z"),
        ];
        let mut record = json!({"id": "r", "sessionId": "s", "cwd": "/", "agentCommand": "a"});
        for (name, value) in values {
            record[names[name % names.len()]] = values_of[value].clone();
        }
        drop(read(&record));
    }
}
