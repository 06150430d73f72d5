//! Models of agents that have `models` and `session/set_model` beside their options: what editors, the shell and clients
//! of version 2 see of them, and that a chosen model is restored. The messages are gemini's and claude-code-acp's.

use acpx_core::model::{MODEL_OPTION, Setting, SettingName, SettingValue};

use super::editor::Editor;
use super::settings::with_settings;
use super::*;
use crate::engine::received;

/// An agent as its messages show it.
struct Agent {
    capabilities: Value,
    /// The method that restores its sessions.
    restore: &'static str,
    /// What it answers `session/new` and a restore with, but for the session's id.
    offers: Value,
    /// A model that is not the first.
    other: &'static str,
}

fn gemini() -> Agent {
    let permissions = json!([
        { "id": "default", "name": "Default", "description": "Prompts for approval" },
        { "id": "autoEdit", "name": "Auto Edit", "description": "Auto-approves edit tools" },
    ]);
    let models = json!([
        { "modelId": "auto", "name": "Auto", "description": "Let Gemini CLI decide the best model for the task" },
        { "modelId": "gemini-3.8-pro", "name": "gemini-3.8-pro" },
        { "modelId": "gemini-3.8-flash", "name": "gemini-3.8-flash" },
    ]);
    Agent {
        capabilities: json!({
            "loadSession": true,
            "promptCapabilities": { "image": true, "audio": true, "embeddedContext": true },
            "mcpCapabilities": { "http": true, "sse": true },
        }),
        restore: "session/load",
        offers: json!({
            "modes": { "availableModes": permissions, "currentModeId": "default" },
            "models": { "availableModels": models, "currentModelId": "auto" },
        }),
        other: "gemini-3.8-flash",
    }
}

fn claude_code_acp() -> Agent {
    let permissions = json!([
        { "id": "default", "name": "Default", "description": "Standard behavior, prompts for dangerous operations" },
        { "id": "plan", "name": "Plan Mode", "description": "Planning mode, no actual tool execution" },
    ]);
    let models = json!([
        { "modelId": "default", "name": "Default (recommended)", "description": "Sonnet 4.5 · Best for everyday tasks" },
        { "modelId": "haiku", "name": "Haiku", "description": "Haiku 4.5 · Fastest for quick answers" },
    ]);
    Agent {
        capabilities: json!({
            "promptCapabilities": { "image": true, "embeddedContext": true },
            "mcpCapabilities": { "http": true, "sse": true },
            "loadSession": true,
            "sessionCapabilities": { "fork": {}, "list": {}, "resume": {} },
        }),
        restore: "session/resume",
        offers: json!({
            "models": { "availableModels": models, "currentModelId": "default" },
            "modes": { "currentModeId": "default", "availableModes": permissions },
        }),
        other: "haiku",
    }
}

impl Agent {
    fn script(&self) -> Script {
        let mut new = self.offers.clone();
        new["sessionId"] = json!("s1");
        let script = Script::new().initialize(self.capabilities.clone());
        script.serve([
            ("session/new", Script::new().reply(new)),
            (self.restore, Script::new().reply(self.offers.clone())),
            ("session/set_model", Script::new().reply(json!({}))),
            ("session/prompt", Script::new().say("hello").end("end_turn")),
        ])
    }

    /// Its models with another one in force.
    fn models(&self, current: &str) -> Value {
        let mut models = self.offers["models"].clone();
        models["currentModelId"] = json!(current);
        models
    }

    /// The same as version 2 has them.
    fn option(&self, current: &str) -> Value {
        let mut choices = self.offers["models"]["availableModels"].clone();
        for choice in choices.as_array_mut().unwrap() {
            let id = choice.as_object_mut().unwrap().remove("modelId").unwrap();
            choice["value"] = id;
        }
        json!({
            "configId": MODEL_OPTION, "name": "Model", "category": "model", "type": "select",
            "currentValue": current, "options": choices,
        })
    }
}

async fn set_model(editor: &mut Editor, record: &str, model: &str) -> Result<Value, Value> {
    editor.call("session/set_model", json!({ "sessionId": record, "modelId": model })).await
}

async fn chosen(bench: &Bench, record: &str) -> Vec<Setting> {
    bench.record(record).await.settings.chosen
}

fn wish(model: &str) -> Setting {
    let name = SettingName::Option(MODEL_OPTION.into());
    Setting { name, value: SettingValue::Id(model.into()) }
}

/// What the agent received since it was last started, but for prompts and lists.
fn since_last_start(argv: &[String]) -> Vec<(String, Value)> {
    let all = received(argv);
    let start = all.iter().rposition(|(method, _)| method == "initialize").unwrap();
    all[start + 1..]
        .iter()
        .filter(|(method, _)| !["session/prompt", "session/list"].contains(&&**method))
        .cloned()
        .collect()
}

#[tokio::test]
async fn session_set_model_is_forwarded_stored_and_restored_after_kill_9() {
    for agent in [gemini(), claude_code_acp()] {
        let bench = Bench::new();
        let argv = bench.agent(&agent.script());
        let mut editor = bench.editor(&argv).await;
        let new = json!({ "cwd": bench.home.path(), "mcpServers": [] });
        let answer = editor.call("session/new", new).await.unwrap();
        assert_eq!(answer["models"], agent.offers["models"]);
        let record = answer["sessionId"].as_str().unwrap().to_owned();
        editor.turn(&record, "one").await;

        let refused = set_model(&mut editor, &record, "nonsense").await.unwrap_err();
        assert_eq!((&refused["code"], &refused["data"]["field"]), (&json!(-32602), &json!("modelId")));
        let id =
            editor.ask("session/set_model", json!({ "sessionId": record, "modelId": agent.other })).await;
        let (answer, told) = editor.answer(id).await;
        assert_eq!((answer, told), (Ok(json!({})), Vec::new()), "version 1 has no update for a model");
        assert_eq!(chosen(&bench, &record).await, [wish(agent.other)]);

        bench.kill_host().await;
        let mut editor = bench.editor(&argv).await;
        let answer = editor.call("session/load", bench.load_params(&record)).await.unwrap();
        assert_eq!(answer["models"], agent.models(agent.other));
        let asked = since_last_start(&argv);
        let expected = ("session/set_model".to_owned(), json!({ "sessionId": "s1", "modelId": agent.other }));
        assert_eq!((&*asked[0].0, &asked[1..]), (agent.restore, &[expected][..]));
    }
}

#[tokio::test]
async fn a_client_of_version_2_chooses_the_model_by_a_config_option() {
    let bench = Bench::new();
    let agent = gemini();
    let argv = bench.agent(&agent.script());
    let mut old = bench.editor(&argv).await;
    let record = old.open(&bench).await;
    let mut editor = bench.speaking(2, 1, &argv).await;
    let resumed = editor.call("session/resume", bench.load_params(&record)).await.unwrap();
    assert_eq!(resumed["configOptions"][1], agent.option("auto"));
    assert_eq!(resumed.get("models"), None);

    let set = json!({ "sessionId": record, "configId": MODEL_OPTION, "type": "id", "value": agent.other });
    let answer = editor.call("session/set_config_option", set).await.unwrap();
    assert_eq!(answer["configOptions"][1], agent.option(agent.other));
    assert_eq!(chosen(&bench, &record).await, [wish(agent.other)]);

    // What a client of version 1 chooses reaches one of version 2 as an update.
    assert_eq!(set_model(&mut old, &record, "gemini-3.8-pro").await, Ok(json!({})));
    let is_update = |line: &Value| {
        let update = &line["params"]["update"];
        update["sessionUpdate"] == "config_option_update"
            && update["configOptions"][1]["currentValue"] == "gemini-3.8-pro"
    };
    let told = editor.until(is_update).await;
    assert_eq!(told["params"]["update"]["configOptions"][1], agent.option("gemini-3.8-pro"));
}

#[tokio::test]
async fn the_shell_chooses_the_model_by_set_model() {
    let bench = Bench::new();
    let agent = claude_code_acp();
    let argv = bench.agent(&agent.script());
    let mut shell = bench.client().await;
    let wanted = json!([{ "option": "model", "value": agent.other }]);
    let params = with_settings(bench.new_params(&argv), wanted);
    let answer: Value = shell.call("session/new", &params).await.unwrap();
    assert_eq!(answer["models"], agent.models(agent.other));
    let record = answer["sessionId"].as_str().unwrap();
    let settings = bench.record(record).await.settings;
    assert_eq!(settings.chosen, [wish(agent.other)]);
    let model = settings.reported.model().unwrap();
    assert_eq!(model.value, Some(SettingValue::Id(agent.other.into())));

    let unknown = with_settings(bench.resume_params(record), json!([{ "option": "model", "value": "x" }]));
    let refused = refusal(&mut shell, "session/resume", &unknown).await;
    let said = (refused.code().as_str(), refused.to_string(), refused.hint());
    assert_eq!(
        said,
        ("SETTING_BAD_VALUE", r#"the model cannot be "x""#.to_owned(), Some("it can be default, haiku"))
    );
}

#[tokio::test]
async fn an_agent_without_models_does_not_know_set_model() {
    let bench = Bench::new();
    let script = Script::new()
        .initialize(json!({}))
        .serve([("session/new", Script::new().reply(json!({ "sessionId": "s1" })))]);
    let mut editor = bench.editor(&bench.agent(&script)).await;
    let record = editor.open(&bench).await;
    let refused = set_model(&mut editor, &record, "x").await.unwrap_err();
    assert_eq!(refused["code"], -32601);
}

#[tokio::test]
async fn a_model_option_is_used_before_models() {
    let bench = Bench::new();
    let row = |id: &str| json!({ "value": id, "name": id });
    let options = |current: &str| {
        json!([{ "id": "model", "name": "Model", "category": "model", "type": "select",
                 "currentValue": current, "options": [row("m1"), row("m2")] }])
    };
    let models = |current: &str| {
        let model = |id: &str| json!({ "modelId": id, "name": id });
        json!({ "currentModelId": current, "availableModels": [model("m1"), model("m2")] })
    };
    let offers = json!({ "models": models("m1"), "configOptions": options("m1") });
    let mut new = offers.clone();
    new["sessionId"] = json!("s1");
    let script = Script::new().initialize(json!({ "loadSession": true })).serve([
        ("session/new", Script::new().reply(new)),
        ("session/load", Script::new().reply(offers)),
        ("session/set_model", Script::new().reply(json!({}))),
        ("session/set_config_option", Script::new().reply(json!({ "configOptions": options("m2") }))),
    ]);
    let argv = bench.agent(&script);
    let mut editor = bench.editor(&argv).await;
    let record = editor.open(&bench).await;
    let mut shell = bench.client().await;
    let wanted = json!([{ "option": "model", "value": "m2" }]);
    let params = with_settings(bench.resume_params(&record), wanted);
    let answer: Value = shell.call("session/resume", &params).await.unwrap();
    assert_eq!((&answer["models"], &answer["configOptions"]), (&models("m2"), &options("m2")));
    let option = |id: &str, value: &str| Setting { name: SettingName::Option(id.into()), ..wish(value) };
    assert_eq!(chosen(&bench, &record).await, [option("model", "m2")]);
    assert_eq!(since_last_start(&argv)[1].0, "session/set_config_option");

    // The last choice counts, whichever request made it.
    assert_eq!(set_model(&mut editor, &record, "m1").await, Ok(json!({})));
    assert_eq!(chosen(&bench, &record).await, [wish("m1")]);
    let status = bench.record(&record).await.settings;
    assert_eq!(status.reported.model().unwrap().value, Some(SettingValue::Id("m1".into())));
}
