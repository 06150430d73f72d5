use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::model::{AgentSpec, WrongMember};

fn parse(value: &Value) -> Result<AgentProfile, String> {
    AgentProfile::try_from(value.clone())
        .map_err(|error| error.to_string().split("; found ").next().unwrap_or_default().to_owned())
}

fn of(agent: &AgentSpec, info: Option<&str>) -> Option<&'static str> {
    Profiles::built_in().name_of(agent, info)
}

#[test]
fn built_in_profiles_have_sixteen_agents_and_no_unknown_members() {
    let table: Value = serde_json::from_str(include_str!("agents.json")).unwrap();
    let profiles = Profiles::of_table(&table).unwrap();
    let names: Vec<_> = profiles.names().collect();
    let expected = [
        "claude",
        "claude-code",
        "zed-codex",
        "codex",
        "gemini",
        "opencode",
        "kilocode",
        "qwen",
        "copilot",
        "pi",
        "goose",
        "vibe",
        "fast-agent",
        "kimi",
        "cline",
        "openclaw",
    ];
    assert_eq!(names, expected);
    let said =
        table["agents"].as_array().unwrap().iter().map(|entry| &entry["profile"]).chain([&table["any"]]);
    for said in said {
        assert_eq!(Value::from(AgentProfile::try_from(said.clone()).unwrap()), *said);
    }
}

#[test]
fn profile_is_found_by_command_then_name_then_agent_info() {
    let spec = |words: &[&str]| AgentSpec::new(words[0], words[1..].to_vec());
    let by_command: [(&[&str], _); 9] = [
        (&["/opt/bin/gemini", "--acp"], Some("gemini")),
        (&["npx", "-y", "@agentclientprotocol/codex-acp@^1.1.5"], Some("codex")),
        (&["npx", "@zed-industries/codex-acp"], Some("zed-codex")),
        (&["node", "/x/node_modules/@zed-industries/claude-code-acp/dist/index.js"], Some("claude-code")),
        (&["uvx", "fast-agent-mcp", "acp"], Some("fast-agent")),
        (&["npm", "exec", "--package=pi-acp@0.0.33"], Some("pi")),
        (&["./wrapper", "gemini"], None),
        (&["npx", "gemini-like"], None),
        (&["wss://host/gemini"], None),
    ];
    for (words, expected) in by_command {
        assert_eq!(of(&spec(words), None), expected, "{words:?}");
    }
    let named = spec(&["./own", "x"]).named("vibe");
    assert_eq!(of(&named, Some("goose")), Some("vibe"));
    assert_eq!(of(&spec(&["gemini"]).named("vibe"), None), Some("gemini"));
    assert_eq!(of(&spec(&["./own"]), Some("Gemini-CLI")), Some("gemini"));
    assert_eq!(of(&spec(&["./own"]), Some("nobody")), None);
}

#[test]
fn user_profile_overrides_the_built_in_one_and_that_the_default() {
    let said = parse(&json!({"errors": [{"code": -32602, "reading": "broken"}], "ignoresTerminate": false}))
        .unwrap();
    let vibe = AgentSpec::new("vibe-acp", [""; 0]);
    let of = |agent: &AgentSpec| Profiles::built_in().of(agent, None);
    let known = of(&vibe);
    assert_eq!(
        (known.ignores_terminate, known.meaning_of(-32602, "session not found")),
        (Some(true), ErrorMeaning::Lost)
    );
    let said = of(&vibe.with_profile(Some(Arc::new(said))));
    assert_eq!(
        (said.ignores_terminate, said.meaning_of(-32602, "session not found")),
        (Some(false), ErrorMeaning::Broken)
    );
    assert_eq!(
        (said.needs_prompt_before_load, said.meaning_of(-32000, "x")),
        (Some(true), ErrorMeaning::LoginNeeded)
    );
    assert_eq!(of(&AgentSpec::new("own", [""; 0])), *Profiles::built_in().any());
    let RestoreProfile { notes, .. } = Profiles::built_in().any().restore_profile();
    assert_eq!(
        Profiles::built_in().any().restore_profile(),
        RestoreProfile { notes: notes.clone(), ..RestoreProfile::default() }
    );
    let more = parse(&json!({"notes": ["[Note"]})).unwrap();
    let own = AgentSpec::new("own", [""; 0]).with_profile(Some(Arc::new(more)));
    assert_eq!(of(&own).restore_profile().notes, [vec!["[Note".to_owned()], notes].concat());
}

#[test]
fn start_timeout_comes_from_the_agent_entry_or_the_profile() {
    let slow = AgentProfile { start_timeout: Some(Duration::from_mins(5)), ..AgentProfile::default() };
    let agent = AgentSpec::new("a", [""; 0]);
    assert_eq!(agent.effective_start_timeout(&AgentProfile::default()), AgentSpec::DEFAULT_START_TIMEOUT);
    assert_eq!(agent.effective_start_timeout(&slow), Duration::from_mins(5));
    assert_eq!(
        agent.with_start_timeout(Duration::from_secs(1)).effective_start_timeout(&slow),
        Duration::from_secs(1)
    );
}

#[test]
fn profile_error_names_its_member() {
    let cases = [
        (json!([]), "a profile must be an object"),
        (json!({"errors": {}}), "errors must be an array"),
        (json!({"errors": [7]}), "errors[0] must be an object"),
        (json!({"errors": [{"code": 1.5, "reading": "lost"}]}), "errors[0].code must be a whole number"),
        (
            json!({"errors": [{"code": 1, "words": "x", "reading": "lost"}]}),
            "errors[0].words must be an array",
        ),
        (
            json!({"errors": [{"words": [" "], "reading": "lost"}]}),
            "errors[0].words[0] must be a non-empty string",
        ),
        (
            json!({"errors": [{"code": 1}]}),
            "errors[0].reading must be \"lost\", \"busy-elsewhere\", \"login-needed\", \"worker-died\" or \"broken\"",
        ),
        (
            json!({"errors": [{"code": 1, "reading": "lost"}, {"reading": "lost"}]}),
            "errors[1] must be an object with a code, with words, or with both",
        ),
        (
            json!({"startTimeoutSeconds": 0}),
            "startTimeoutSeconds must be a number of seconds above 0, a day at most",
        ),
        (json!({"waitBeforeLoad": "tomorrow"}), "waitBeforeLoad must be \"none\" or \"next-minute\""),
        (json!({"ignoresStdinEnd": "yes"}), "ignoresStdinEnd must be true or false"),
        (json!({"needsPromptBeforeLoad": null}), "needsPromptBeforeLoad must be true or false"),
        (json!({"notes": "x"}), "notes must be an array"),
        (json!({"notes": ["x", " "]}), "notes[1] must be a non-empty string"),
    ];
    for (value, problem) in cases {
        assert_eq!(parse(&value), Err(problem.to_owned()), "{value}");
    }
    assert_eq!(parse(&json!({"fromTheFuture": 7})), Ok(AgentProfile::default()));
}

#[test]
fn load_wait_ends_with_the_minute_the_session_began_in() {
    let at = |millis| Timestamp::from_millis(millis).unwrap();
    let until = |began, now| LoadWait::NextMinute.until(at(began), at(now));
    assert_eq!(until(60_000, 60_000), Some(at(120_000)));
    assert_eq!(until(60_000, 119_999), Some(at(120_000)));
    assert_eq!(until(119_999, 120_000), None);
    // A clock that was set back must not cause an endless wait.
    assert_eq!(until(600_000, 60_000), None);
    assert_eq!(LoadWait::None.until(at(0), at(0)), None);
}

fn any_json() -> impl Strategy<Value = Value> {
    let names = prop_oneof![
        Just("errors"),
        Just("code"),
        Just("words"),
        Just("reading"),
        Just("startTimeoutSeconds"),
        Just("needsPromptBeforeLoad"),
        Just("waitBeforeLoad"),
        Just("ignoresStdinEnd"),
        Just("notes"),
        Just("x"),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "lost|broken|next-minute|none|[a-z ]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((names.clone(), inner), 0..6).prop_map(|members| members
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect()),
        ]
    })
}

fn any_profile() -> impl Strategy<Value = AgentProfile> {
    let meaning = prop_oneof![
        Just(ErrorMeaning::Lost),
        Just(ErrorMeaning::BusyElsewhere),
        Just(ErrorMeaning::LoginNeeded),
        Just(ErrorMeaning::WorkerDied),
        Just(ErrorMeaning::Broken)
    ];
    let words = prop::collection::vec("[a-z]{1,8}", 0..3);
    let row = (any::<i64>(), any::<bool>(), words, meaning).prop_map(|(code, any_code, words, meaning)| {
        ErrorRow { code: (!any_code || words.is_empty()).then_some(code), words, meaning }
    });
    let wait = prop_oneof![Just(LoadWait::None), Just(LoadWait::NextMinute)];
    let yes = || prop::option::of(any::<bool>());
    let seconds = prop::option::of((1_u64..86_400).prop_map(Duration::from_secs));
    let notes = prop::collection::vec("[a-z<]{1,8}", 0..3);
    (prop::collection::vec(row, 0..4), seconds, prop::option::of(wait), yes(), yes(), yes(), yes(), notes)
        .prop_map(|(errors, start_timeout, wait_before_load, prompt, stdin, term, replays, notes)| {
            AgentProfile {
                notes,
                errors,
                start_timeout,
                needs_prompt_before_load: prompt,
                wait_before_load,
                ignores_stdin_end: stdin,
                ignores_terminate: term,
                replays_on_resume: replays,
            }
        })
}

proptest! {
    #[test]
    fn a_profile_is_read_as_it_was_written(profile in any_profile()) {
        prop_assert_eq!(AgentProfile::try_from(Value::from(profile.clone())), Ok(profile));
    }

    #[test]
    fn any_json_is_a_profile_or_an_error_with_its_member(value in any_json()) {
        match AgentProfile::try_from(value.clone()) {
            Ok(profile) => prop_assert_eq!(AgentProfile::try_from(Value::from(profile.clone())), Ok(profile)),
            Err(WrongMember { path: member, .. }) => {
                let path = member.replace('[', "/").replace([']'], "").replace('.', "/");
                let names_it = member == "a profile"
                    || value.pointer(&format!("/{path}")).is_some()
                    || member.ends_with("reading");
                prop_assert!(names_it, "{} in {}", member, value);
            }
        }
    }
}
