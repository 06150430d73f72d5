//! Modes, options and commands of a session, and how clients set them.

use serde_json::json;

use super::*;

fn modes() -> Value {
    json!({
        "currentModeId": "ask",
        "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code", "description": "d"}],
    })
}

fn mode_option(current: &str) -> Value {
    json!({
        "configId": MODE_OPTION, "name": "Mode", "category": "mode", "type": "select", "currentValue": current,
        "options": [{"value": "ask", "name": "Ask"}, {"value": "code", "name": "Code", "description": "d"}],
    })
}

fn model(id: &str, group: &str) -> Value {
    let mut option = json!({"name": "Model", "category": "model", "type": "select", "currentValue": "m"});
    option["options"] = json!([{"name": "G", "options": [{"value": "m", "name": "M"}]}]);
    option[id] = json!("model");
    option["options"][0][group] = json!("g");
    option
}

#[test]
fn modes_are_set_and_reported_as_a_v2_option() {
    let mut session = UpdatesToV2::new();
    let answer = json!({"sessionId": "s", "modes": modes(), "configOptions": [model("id", "group")], "_meta": {"k": 1}});
    let expected = json!({
        "sessionId": "s", "_meta": {"k": 1},
        "configOptions": [mode_option("ask"), model("configId", "groupId")],
    });
    assert_eq!(value(&session.setup_answer(&answer.to_string())), expected);

    let set = json!({"sessionId": "s", "configId": MODE_OPTION, "type": "id", "value": "code"});
    let call = request_to_v1("session/set_config_option", &set.to_string()).unwrap();
    assert_eq!(
        (call.method, value(&call.params)),
        ("session/set_mode", json!({"sessionId": "s", "modeId": "code"}))
    );
    let options = json!([mode_option("code"), model("configId", "groupId")]);
    assert_eq!(value(&session.mode_answer("code")), json!({"configOptions": options}));

    let update = json!({"sessionUpdate": "current_mode_update", "currentModeId": "ask"});
    let options = json!([mode_option("ask"), model("configId", "groupId")]);
    let expected = json!({"sessionUpdate": "config_option_update", "configOptions": options});
    assert_eq!(values(&session.update(&update.to_string(), "m")), [expected]);
}

#[test]
fn models_are_an_option_for_version_2_unless_the_agent_has_one() {
    let mut session = UpdatesToV2::new();
    let models =
        json!({"currentModelId": "x", "availableModels": [{"modelId": "x", "name": "X"}], "_meta": {"k": 1}});
    let option = |current: &str| {
        json!({
            "configId": "acpx.model", "name": "Model", "category": "model", "type": "select",
            "currentValue": current, "options": [{"value": "x", "name": "X"}], "_meta": {"k": 1},
        })
    };
    let answer = |options: Value| json!({"models": models, "configOptions": options}).to_string();
    let told = value(&session.setup_answer(&answer(json!([]))));
    assert_eq!(told, json!({"configOptions": [option("x")]}));
    assert_eq!(value(&session.model_answer("y")), json!({"configOptions": [option("y")]}));
    let told = value(&session.setup_answer(&answer(json!([model("id", "group")]))));
    assert_eq!(told, json!({"configOptions": [model("configId", "groupId")]}));
}

#[test]
fn an_agents_own_option_for_its_modes_is_not_doubled() {
    let mut session = UpdatesToV2::new();
    let own = |id: &str, current: &str| {
        let mut option = mode_option(current);
        option.as_object_mut().unwrap().remove("configId");
        option[id] = json!("own");
        option
    };
    let answer = json!({"sessionId": "s", "modes": modes(), "configOptions": [own("id", "ask")]});
    let expected = json!({"sessionId": "s", "configOptions": [own("configId", "ask")]});
    assert_eq!(value(&session.setup_answer(&answer.to_string())), expected);
    let update = json!({"sessionUpdate": "current_mode_update", "currentModeId": "code"});
    let expected =
        json!({"sessionUpdate": "config_option_update", "configOptions": [own("configId", "code")]});
    assert_eq!(values(&session.update(&update.to_string(), "m")), [expected]);
}

#[test]
fn v2_mode_option_becomes_modes_and_commands_follow_the_reply() {
    let mut session = UpdatesToV1::new();
    let mut own = mode_option("ask");
    own["configId"] = json!("own");
    let odd = json!({"configId": "odd", "name": "Odd", "type": "_odd"});
    let command =
        json!({"type": "command", "name": "c", "description": "d", "input": {"type": "text", "hint": "h"}});
    let answer = json!({
        "sessionId": "s",
        "configOptions": [own, odd, model("configId", "groupId")],
        "availableCommands": [command, {"type": "_odd", "name": "o", "description": "d"}],
    });
    let told = session.setup_answer(&answer.to_string());
    let mut shown = own.clone();
    shown.as_object_mut().unwrap().remove("configId");
    shown["id"] = json!("own");
    let expected =
        json!({"sessionId": "s", "modes": modes(), "configOptions": [shown, model("id", "group")]});
    assert_eq!(value(&told.result), expected);
    let command = json!({"name": "c", "description": "d", "input": {"hint": "h"}});
    let expected = json!({"sessionUpdate": "available_commands_update", "availableCommands": [command]});
    assert_eq!(told.commands.map(|commands| value(&commands)), Some(expected));

    let call = session.set_mode(r#"{"sessionId":"s","modeId":"code"}"#).unwrap();
    let expected = json!({"sessionId": "s", "configId": "own", "type": "id", "value": "code"});
    assert_eq!((call.method, value(&call.params)), ("session/set_config_option", expected));
    own["currentValue"] = json!("code");
    let answer = json!({"configOptions": [own]});
    assert_eq!(value(&session.mode_answer(&answer.to_string())), json!({}));
    assert_eq!(value(&session.options_answer(&answer.to_string()))["configOptions"][0]["id"], json!("own"));
}

#[test]
fn mode_only_and_options_only_changes_are_sent_separately() {
    let mut session = UpdatesToV1::new();
    let update = |mode: &str, with_model: bool| {
        let mut options = vec![mode_option(mode)];
        options.extend(with_model.then(|| model("configId", "groupId")));
        json!({"sessionUpdate": "config_option_update", "configOptions": options, "_meta": {"k": 1}})
            .to_string()
    };
    let options = |options: Value| json!({"sessionUpdate": "config_option_update", "configOptions": options, "_meta": {"k": 1}});
    let mode = |mode: &str| json!({"sessionUpdate": "current_mode_update", "currentModeId": mode, "_meta": {"k": 1}});
    let answer = json!({"sessionId": "s", "configOptions": [mode_option("ask")]});
    assert_eq!(
        value(&session.setup_answer(&answer.to_string()).result),
        json!({"sessionId": "s", "modes": modes()})
    );
    assert_eq!(values(&session.update(&update("code", false))), [mode("code")]);
    assert_eq!(values(&session.update(&update("code", true))), [options(json!([model("id", "group")]))]);
    let both = [json!({"sessionUpdate": "current_mode_update", "currentModeId": "ask"}), options(json!([]))];
    assert_eq!(values(&session.update(&update("ask", false))), both);
    assert_eq!(values(&session.update(&update("ask", false))), [options(json!([]))]);
}

#[test]
fn set_mode_without_modes_and_unknown_value_types_are_refused() {
    let session = UpdatesToV1::new();
    assert_eq!(session.set_mode(r#"{"sessionId":"s","modeId":"m"}"#), Err(TranslationError::NoModes));
    let refused = request_to_v1("session/set_config_option", r#"{"configId":"c","type":"_odd","value":1}"#);
    assert_eq!(refused, Err(TranslationError::OptionValue { option: "c".into(), kind: "_odd".into() }));
    assert_eq!(refused.unwrap_err().field().as_deref(), Some("type"));
}
