//! Settings of a session: what was chosen is set again whenever an agent has the session anew.

use acpx_core::model::{ProtocolVersion, RecordSettings, Setting, SettingName, SettingValue, UnmetSetting};

use super::*;

fn select(id: &str, category: &str, value: &str, choices: &[&str]) -> Value {
    let rows: Vec<_> = choices.iter().map(|choice| json!({"value": choice, "name": choice})).collect();
    json!({"id": id, "configId": id, "name": id, "category": category, "type": "select",
           "currentValue": value, "options": rows})
}

/// A model, what depends on it, and a switch.
fn options(model: &str, effort: &str, web: bool) -> Value {
    json!([
        select("model", "model", model, &["m1", "m2"]),
        select("effort", "thought_level", effort, &["low", "high"]),
        {"id": "web", "configId": "web", "name": "Web", "type": "boolean", "currentValue": web},
    ])
}

fn modes(mode: &str) -> Value {
    json!({"currentModeId": mode, "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "plan", "name": "Plan"}]})
}

fn offering(session: &str) -> Value {
    json!({"sessionId": session, "modes": modes("ask"), "configOptions": options("m1", "low", false)})
}

fn wish(option: Option<&str>, value: &str) -> Setting {
    Setting { name: SettingName::of_option(option), value: SettingValue::Id(value.into()) }
}

/// An agent that can load and does what it is asked for, but for its options.
fn obedient() -> Script {
    Script::new().initialize(json!({"loadSession": true})).serve([
        ("session/new", Script::new().reply(offering("s1"))),
        ("session/load", Script::new().reply(offering("s1"))),
        ("session/set_mode", Script::new().reply(json!({}))),
        ("session/prompt", Script::new().say("hello").end("end_turn")),
    ])
}

/// An agent is asked for each option in turn, and shows what comes of it.
fn set_one_by_one(script: Script) -> Script {
    let steps = [options("m2", "low", false), options("m2", "high", false), options("m2", "high", true)];
    steps.into_iter().fold(script, |script, options| {
        script.expect("session/set_config_option").reply(json!({"configOptions": options}))
    })
}

async fn set_mode(session: &Session, mode: &str) {
    let params = json!({"modeId": mode}).to_string();
    session.request("session/set_mode", &params, restore()).await.expect("the mode is set");
}

async fn set_option(session: &Session, params: Value) {
    let answer = session.request("session/set_config_option", &params.to_string(), restore()).await;
    answer.expect("the option is set");
}

async fn kept(bench: &Bench, session: &Session) -> RecordSettings {
    bench.store.record(session.record_id().clone()).await.unwrap().unwrap().settings
}

/// What the agent received since it was last started.
fn last_start(command: &[String]) -> Vec<(String, Value)> {
    let all = received(command);
    let start = all.iter().rposition(|(method, _)| method == "initialize").unwrap();
    all[start..].to_vec()
}

fn last_methods(command: &[String]) -> Vec<String> {
    last_start(command).into_iter().map(|(method, _)| method).collect()
}

#[tokio::test]
async fn settings_are_restored_before_the_prompt_after_an_agent_kill() {
    let bench = Bench::new();
    let (session, command) = bench.open(&obedient()).await;
    prompt(&session, "one").await;
    set_mode(&session, "plan").await;
    kill_agent(&session).await;
    assert_eq!(stop_reason(&prompt(&session, "two").await), "end_turn");
    assert_eq!(last_methods(&command), ["initialize", "session/load", "session/set_mode", "session/prompt"]);
    assert_eq!(last_start(&command)[2].1, json!({"sessionId": "s1", "modeId": "plan"}));
    let settings = kept(&bench, &session).await;
    assert_eq!((settings.chosen.as_slice(), settings.unmet.as_slice()), (&[wish(None, "plan")][..], &[][..]));
    assert_eq!(settings.unconfirmed().count(), 0, "the session shows what is wished");
}

#[tokio::test]
async fn next_host_sets_a_fresh_sessions_model_first_and_mode_last() {
    let bench = Bench::new();
    let begun = Script::new()
        .initialize(json!({}))
        .expect("session/new")
        .reply(offering("s1"))
        .prompt(|turn| turn.end("end_turn"))
        .expect("session/set_mode")
        .reply(json!({}));
    let again =
        set_one_by_one(begun).next_start().initialize(json!({})).expect("session/new").reply(offering("s2"));
    let script =
        set_one_by_one(again).expect("session/set_mode").reply(json!({})).prompt(|turn| turn.end("end_turn"));
    let (session, command) = bench.open(&script).await;
    prompt(&session, "one").await;
    set_mode(&session, "plan").await;
    set_option(&session, json!({"configId": "model", "value": "m2"})).await;
    set_option(&session, json!({"configId": "effort", "value": "high"})).await;
    set_option(&session, json!({"configId": "web", "type": "boolean", "value": true})).await;
    bench.engine.shutdown().await;

    let next = bench.next_host();
    let (session, _) = next.restore(session.record_id(), restore()).await.unwrap();
    prompt(&session, "two").await;
    let asked: Vec<_> = last_start(&command).split_off(2);
    let option = |id: &str, value: &str| json!({"sessionId": "s2", "configId": id, "value": value});
    let web = json!({"sessionId": "s2", "configId": "web", "type": "boolean", "value": true});
    let expected = [
        ("session/set_config_option", option("model", "m2")),
        ("session/set_config_option", option("effort", "high")),
        ("session/set_config_option", web),
        ("session/set_mode", json!({"sessionId": "s2", "modeId": "plan"})),
    ];
    let expected = expected.map(|(method, params)| (method.to_owned(), params));
    assert_eq!(asked[..4], expected);
    assert_eq!(asked[4].0, "session/prompt");
    next.shutdown().await;
}

#[tokio::test]
async fn settings_that_a_loaded_session_already_has_are_not_set_again() {
    let bench = Bench::new();
    let mut loaded = offering("s1");
    loaded["modes"] = modes("plan");
    let serve = |load: Value| {
        [
            ("session/new", Script::new().reply(offering("s1"))),
            ("session/load", Script::new().reply(load)),
            ("session/set_mode", Script::new().reply(json!({}))),
            ("session/prompt", Script::new().end("end_turn")),
        ]
    };
    let script = Script::new().initialize(json!({"loadSession": true})).serve(serve(loaded));
    let (session, command) = bench.open(&script).await;
    prompt(&session, "one").await;
    set_mode(&session, "plan").await;
    session.park().await.unwrap();
    prompt(&session, "two").await;
    assert_eq!(last_methods(&command), ["initialize", "session/load", "session/prompt"]);
}

#[tokio::test]
async fn setting_the_agent_refuses_is_reported_and_the_prompt_continues() {
    let bench = Bench::new();
    let refusal = json!({"code": -32602, "message": "not in this directory"});
    let script = Script::new()
        .initialize(json!({"loadSession": true}))
        .expect("session/new")
        .reply(offering("s1"))
        .prompt(|turn| turn.end("end_turn"))
        .expect("session/set_mode")
        .reply(json!({}))
        .next_start()
        .initialize(json!({"loadSession": true}))
        .expect("session/load")
        .reply(offering("s1"))
        .refuse("session/set_mode", refusal)
        .prompt(|turn| turn.end("end_turn"));
    let (session, _) = bench.open(&script).await;
    prompt(&session, "one").await;
    set_mode(&session, "plan").await;
    kill_agent(&session).await;
    assert_eq!(stop_reason(&prompt(&session, "two").await), "end_turn");
    let reason = r#"the agent "scripted" refused session/set_mode: not in this directory (-32602)"#;
    assert_eq!(session.status().unmet, [(wish(None, "plan"), reason.into())]);
    let settings = kept(&bench, &session).await;
    assert_eq!(settings.chosen, [wish(None, "plan")]);
    assert_eq!(settings.unmet, [UnmetSetting { name: SettingName::Mode, reason: reason.into() }]);
    let facts: Vec<Value> = bench
        .events(session.record_id())
        .await
        .iter()
        .filter_map(|event| serde_json::from_str::<Value>(&event.body).ok())
        .filter(|body| body["fact"] == "setting_not_restored")
        .collect();
    assert_eq!(facts, [json!({"fact": "setting_not_restored", "value": "plan", "reason": reason})]);
}

#[tokio::test]
async fn mode_that_the_agent_left_by_itself_is_not_restored() {
    let bench = Bench::new();
    let leaves = json!({"sessionUpdate": "current_mode_update", "currentModeId": "ask"});
    let script = Script::new().initialize(json!({"loadSession": true})).serve([
        ("session/new", Script::new().reply(offering("s1"))),
        ("session/load", Script::new().reply(offering("s1"))),
        ("session/set_mode", Script::new().reply(json!({}))),
        ("session/prompt", Script::new().update(leaves).end("end_turn")),
    ]);
    let (session, command) = bench.open(&script).await;
    set_mode(&session, "plan").await;
    assert_eq!(kept(&bench, &session).await.chosen, [wish(None, "plan")]);
    prompt(&session, "one").await;
    assert_eq!(kept(&bench, &session).await.chosen, []);
    session.park().await.unwrap();
    prompt(&session, "two").await;
    assert_eq!(last_methods(&command), ["initialize", "session/load", "session/prompt"]);
}

#[tokio::test]
async fn an_agent_of_version_2_is_set_by_its_options_alone() {
    let bench = Bench::new();
    let mode = |mode: &str| json!([select("mode", "mode", mode, &["ask", "plan"])]);
    let script = Script::new().initialize_v2(json!({})).serve([
        ("session/new", Script::new().reply(json!({"sessionId": "s1", "configOptions": mode("ask")}))),
        ("session/list", Script::new().reply(json!({"sessions": []}))),
        ("session/resume", Script::new().reply(json!({"configOptions": mode("ask")}))),
        ("session/set_config_option", Script::new().reply(json!({"configOptions": mode("plan")}))),
        ("session/prompt", Script::new().insert("one").state("running").idle("end_turn")),
    ]);
    let (agent, command) = bench.agent(&script);
    let agent = agent.with_protocol(ProtocolVersion::V2);
    let session = bench.engine.open(bench.new_session(agent, Vec::new())).await.unwrap();
    set_option(&session, json!({"configId": "mode", "type": "id", "value": "plan"})).await;
    session.park().await.unwrap();
    assert_eq!(stop_reason(&prompt(&session, "one").await), "end_turn");
    let asked = last_start(&command);
    let set = json!({"sessionId": "s1", "configId": "mode", "type": "id", "value": "plan"});
    let [(first, params), (second, _)] = &asked[asked.len() - 2..] else { panic!("{asked:?}") };
    let expected = ("session/set_config_option", &set, "session/prompt");
    assert_eq!((first.as_str(), params, second.as_str()), expected);
    assert_eq!(kept(&bench, &session).await.chosen, [wish(Some("mode"), "plan")]);
}
