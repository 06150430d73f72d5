//! Settings over the socket: what one client chooses another sees, and what cannot be is said with what can.

use acpx_core::model::{Setting, SettingName, SettingValue};

use super::*;

fn modes(mode: &str) -> Value {
    json!({"currentModeId": mode, "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "plan", "name": "Plan"}]})
}

pub(super) fn options(model: &str) -> Value {
    let rows = json!([{"value": "m1", "name": "One"}, {"value": "m2", "name": "Two"}]);
    json!([{"id": "engine", "name": "Model", "category": "model", "type": "select", "currentValue": model, "options": rows}])
}

pub(super) fn offering(session: &str) -> Value {
    json!({"sessionId": session, "modes": modes("ask"), "configOptions": options("m1")})
}

/// An agent whose second process gives another session than the first.
fn choosing() -> Script {
    let served = |script: Script, session: &str| {
        script.initialize(json!({"loadSession": true})).serve([
            ("session/new", Script::new().reply(offering(session))),
            ("session/set_mode", Script::new().reply(json!({}))),
            ("session/set_config_option", Script::new().reply(json!({"configOptions": options("m2")}))),
            ("session/prompt", Script::new().say("hello").end("end_turn")),
        ])
    };
    served(served(Script::new(), "s1").next_start(), "s2")
}

/// Params with settings that are wanted.
pub(super) fn with_settings(mut params: Value, settings: Value) -> Value {
    params["_meta"]["acpx"]["settings"] = settings;
    params
}

fn wish(option: Option<&str>, value: &str) -> Setting {
    Setting { name: SettingName::of_option(option), value: SettingValue::Id(value.into()) }
}

#[tokio::test]
async fn settings_of_an_editor_are_visible_in_the_shell_and_reverse() {
    let bench = Bench::new();
    let argv = bench.agent(&choosing());
    let mut editor = bench.editor(&argv).await;
    let new = json!({ "cwd": bench.home.path(), "mcpServers": [] });
    let record = editor.call("session/new", new).await.unwrap()["sessionId"].as_str().unwrap().to_owned();
    editor.call("session/set_mode", json!({ "sessionId": record, "modeId": "plan" })).await.unwrap();
    assert_eq!(bench.record(&record).await.settings.chosen, [wish(None, "plan")]);
    let mut shell = bench.client().await;
    assert_eq!(bench.resume(&mut shell, &record).await["modes"], modes("plan"));

    let wanted = json!([{"option": "model", "value": "m2"}]);
    let params = with_settings(bench.resume_params(&record), wanted);
    let answer: Value = shell.call("session/resume", &params).await.unwrap();
    assert_eq!(answer["configOptions"], options("m2"));
    let turn = editor.turn(&record, "one").await;
    let update = turn.lines.iter().map(|line| &line["params"]["update"]);
    let told: Vec<&Value> =
        update.filter(|update| update["sessionUpdate"] == "config_option_update").collect();
    assert_eq!(told, [&json!({"sessionUpdate": "config_option_update", "configOptions": options("m2")})]);
    let settings = bench.record(&record).await.settings;
    assert_eq!(settings.chosen, [wish(None, "plan"), wish(Some("engine"), "m2")]);
}

#[tokio::test]
async fn session_whose_settings_fail_is_not_created_and_an_existing_stays() {
    let bench = Bench::new();
    let argv = bench.agent(&choosing());
    let mut client = bench.client().await;
    let shell = |mut params: Value| {
        params["_meta"]["acpx"]["shell"] = json!({});
        params
    };
    let there: Value = client.call("session/new", &shell(bench.new_params(&argv))).await.unwrap();
    let wanted = json!([{"option": "model", "value": "m3"}]);
    let params = with_settings(shell(bench.new_params(&argv)), wanted);
    let refused = refusal(&mut client, "session/new", &params).await;
    let said = (refused.number, refused.code().as_str(), refused.to_string(), refused.hint());
    let message = r#"the option engine cannot be "m3""#.to_owned();
    assert_eq!(said, (-32602, "SETTING_BAD_VALUE", message, Some("it can be m1, m2")));
    let record = bench.record(there["sessionId"].as_str().unwrap()).await;
    assert_eq!(record.lifecycle, acpx_core::model::Lifecycle::Open);

    let mut unknown = bench.resume_params(record.id.as_str());
    unknown = with_settings(unknown, json!([{"option": "effort", "value": "high"}]));
    let refused = refusal(&mut client, "session/resume", &unknown).await;
    let message = r#"the session has no option "effort""#.to_owned();
    let said = (refused.code().as_str(), refused.to_string(), refused.hint());
    assert_eq!(said, ("SETTING_NOT_OFFERED", message, Some("the session has mode, engine")));
}

#[tokio::test]
async fn set_mode_restores_a_session_that_the_same_client_has_reset() {
    let bench = Bench::new();
    let script = |script: Script, session: &str| {
        script.initialize(json!({"loadSession": true})).serve([
            ("session/new", Script::new().reply(offering(session))),
            ("session/load", Script::new().reply(json!({ "modes": modes("ask") }))),
            ("session/set_mode", Script::new().reply(json!({}))),
            ("session/prompt", Script::new().end("end_turn")),
        ])
    };
    let starts = script(script(script(Script::new(), "s1").next_start(), "s2").next_start(), "s3");
    let argv = bench.agent(&starts);
    let mut client = bench.client().await;
    let record = bench.open(&mut client, &argv).await;
    prompt(&mut client, &record, "one").await;
    let mut params = bench.resume_params(&record);
    params["_meta"]["acpx"]["fallback"] = json!("reset");
    params["_meta"]["acpx"]["carryHistory"] = json!(true);
    let answer: Value = client.call("session/resume", &params).await.unwrap();
    assert_eq!(answer["_meta"]["acpx"]["acpxSessionId"], "s2");
    let agent = bench.agent_of(&record).await;
    kill(agent.pid);
    eventually("the agent is gone", || !agent.is_alive()).await;
    let mode = json!({ "sessionId": record, "modeId": "plan" });
    client.call::<Value>("session/set_mode", &mode).await.unwrap();
    let lineage = bench.record(&record).await.lineage;
    let sessions: Vec<&str> = lineage.rows().iter().map(|row| row.session.as_str()).collect();
    assert_eq!(sessions, ["s1", "s2"]);
}

#[tokio::test]
async fn editor_gets_settings_that_could_not_be_restored_in_its_response() {
    let bench = Bench::new();
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
        .reply(json!({}))
        .prompt(|turn| turn.end("end_turn"));
    let argv = bench.agent(&script);
    let mut client = bench.client().await;
    let record = bench.open(&mut client, &argv).await;
    prompt(&mut client, &record, "one").await;
    let params = with_settings(bench.resume_params(&record), json!([{"value": "plan"}]));
    client.call::<Value>("session/resume", &params).await.unwrap();
    bench.kill_host().await;

    let mut editor = bench.editor(&argv).await;
    let answer = editor.call("session/load", bench.load_params(&record)).await.unwrap();
    let unmet = json!([{"value": "plan", "reason": "the agent does not offer it in this session"}]);
    assert_eq!(answer["_meta"]["acpx"]["unmetSettings"], unmet);
}
