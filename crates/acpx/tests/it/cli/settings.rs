//! Choosing how a session works: `set-mode`, `set` and `--model`, and what becomes of it when the agent goes.

use acpx_testkit::{Script, received_lines};
use serde_json::{Value, json};

use crate::acpx::{Done, Place, eventually};
use crate::editor::Editor;

fn modes(mode: &str) -> Value {
    json!({"currentModeId": mode, "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "plan", "name": "Plan"}]})
}

fn options(model: &str, web: bool) -> Value {
    let rows = json!([{"value": "m1", "name": "One"}, {"value": "m2", "name": "Two"}]);
    json!([
        {"id": "model", "name": "Model", "category": "model", "type": "select", "currentValue": model, "options": rows},
        {"id": "web", "name": "Web", "type": "boolean", "currentValue": web},
    ])
}

fn offering(mode: &str, model: &str, web: bool) -> Value {
    json!({"sessionId": "s1", "modes": modes(mode), "configOptions": options(model, web)})
}

/// A place with an agent that answers every option with the same list.
fn place(answered: &Value) -> Place {
    let place = Place::new();
    let script = Script::new().initialize(json!({"loadSession": true})).serve([
        ("session/new", Script::new().reply(offering("ask", "m1", false))),
        ("session/load", Script::new().reply(offering("ask", "m1", false))),
        ("session/set_mode", Script::new().reply(json!({}))),
        ("session/set_config_option", Script::new().reply(json!({"configOptions": answered}))),
        ("session/prompt", Script::new().say("hello").end("end_turn")),
    ]);
    place.scripted(&script);
    place
}

#[test]
fn mode_is_set_shown_and_refused_in_the_words_of_npm_acpx() {
    let place = Place::new();
    place.ok(&["demo", "sessions", "new"]);
    let modes = place.acpx(&["demo", "set-mode", "nonsense"]);
    assert_eq!(modes.code, Some(1), "{modes:?}");
    assert_eq!(modes.err, "acpx: the mode cannot be \"nonsense\"\nhint: it can be ask, code\n");
    let mode = "code".to_owned();
    assert_eq!(place.ok(&["demo", "set-mode", &mode]), format!("mode set: {mode}\n"));
    assert_eq!(place.ok(&["--format", "quiet", "demo", "set-mode", &mode]), format!("{mode}\n"));
    let status = place.json(&["demo", "status"]);
    assert_eq!(status["mode"], json!(mode), "{status}");
    let set = place.json(&["demo", "set-mode", &mode]);
    let expected = json!({
        "action": "mode_set", "modeId": mode, "resumed": false, "acpxRecordId": status["acpxRecordId"],
        "acpxSessionId": status["acpxSessionId"],
    });
    assert_eq!(set, expected);
    let none = place.acpx(&["demo", "set", "model", "big"]);
    assert_eq!(none.code, Some(1));
    assert_eq!(none.err, "acpx: the session has no option \"model\"\nhint: the session has mode\n");
    assert_eq!(place.ok(&["demo", "set", "mode", "ask"]), "mode set: ask\n", "it is no option here");
    let missing = place.acpx(&["demo", "set-mode", "-s", "other", &mode]);
    assert_eq!(missing.code, Some(4), "{missing:?}");
}

#[test]
fn ensure_sets_the_model_of_an_existing_session_and_refuses_unknown_ones() {
    let place = place(&options("m2", false));
    let made = place.json(&["scripted", "sessions", "new"]);
    let ensured = place.json(&["--model", "m2", "scripted", "sessions", "ensure"]);
    assert_eq!((&ensured["created"], &ensured["acpxRecordId"]), (&json!(false), &made["acpxRecordId"]));
    assert_eq!(place.json(&["scripted", "status"])["model"], "m2");
    let refused = place.acpx(&["--format", "json", "--model", "m9", "scripted", "sessions", "ensure"]);
    assert_eq!((refused.failure().0.as_str(), refused.code), ("SETTING_BAD_VALUE", Some(1)));
}

#[test]
fn ensure_restarts_the_agent_of_an_existing_session_for_a_new_version() {
    let place = Place::new();
    place.ok(&["demo", "sessions", "new"]);
    place.ok(&["demo", "hello"]);
    let ensure = ["--format", "json", "--protocol", "2", "demo", "sessions", "ensure"];
    let running = place.acpx(&ensure);
    assert_eq!(running.json()["notApplied"], json!(["--protocol"]));
    assert!(running.err.contains("keeps its version of the protocol"), "{running:?}");
    place.ok(&["host", "stop"]);
    let started = place.acpx(&ensure);
    assert_eq!((started.json().get("notApplied"), started.err.as_str()), (None, ""));
    let asked = place.json_lines(&["demo", "sessions", "replay"]);
    let versions = asked.iter().filter(|line| line["message"]["method"] == "initialize");
    let versions: Vec<&Value> = versions.map(|line| &line["message"]["params"]["protocolVersion"]).collect();
    assert_eq!(versions, [&json!(1), &json!(2)]);
}

#[test]
fn model_and_option_are_set_by_name_and_listed_in_the_error() {
    let place = place(&options("m2", true));
    place.ok(&["scripted", "sessions", "new"]);
    assert_eq!(place.ok(&["scripted", "set", "model", "m2"]), "model set: m2\n");
    assert_eq!(place.ok(&["scripted", "set", "web", "true"]), "config set: web=true (2 options)\n");
    assert_eq!(place.ok(&["--format", "quiet", "scripted", "set", "web", "true"]), "true\n");
    let set = place.json(&["scripted", "set", "web", "true"]);
    let kinds = (&set["action"], &set["configId"], &set["value"], &set["resumed"], &set["configOptions"]);
    let expected = (&json!("config_set"), &json!("web"), &json!(true), &json!(false), &options("m2", true));
    assert_eq!(kinds, expected);
    let model = place.json(&["scripted", "set", "model", "m2"]);
    assert_eq!((&model["action"], &model["modelId"]), (&json!("model_set"), &json!("m2")));
    for (words, (problem, hint)) in [
        (["set", "model", "m3"], ("the option model cannot be \"m3\"", "it can be m1, m2")),
        (["set", "web", "on"], ("the option web cannot be \"on\"", "it can be true, false")),
        (
            ["set", "effort", "high"],
            ("the session has no option \"effort\"", "the session has mode, model, web"),
        ),
    ] {
        let refused = place.acpx(&[&["scripted"], &words[..]].concat());
        assert_eq!(refused.code, Some(1), "{refused:?}");
        assert_eq!(refused.err, format!("acpx: {problem}\nhint: {hint}\n"));
    }
    let status = place.json(&["scripted", "status"]);
    assert_eq!((&status["model"], &status["availableModels"]), (&json!("m2"), &json!(["m1", "m2"])));
    assert_eq!((&status["mode"], &status["options"]), (&json!("ask"), &json!({"model": "m2", "web": true})));
    let shown = place.ok(&["scripted", "status"]);
    assert!(shown.contains("\nmodel: m2\nmode: ask\noption web: true\n"), "{shown}");
}

#[test]
fn setting_without_a_value_lists_its_choices() {
    let place = place(&options("m1", false));
    place.ok(&["scripted", "sessions", "new"]);
    assert_eq!(place.ok(&["scripted", "set", "model"]), "* m1\n  m2\n");
    assert_eq!(place.ok(&["--format", "quiet", "scripted", "set", "web"]), "true\nfalse\n");
    let modes = place.json(&["scripted", "set-mode"]);
    let expected = json!({
        "action": "setting_choices", "configId": "mode", "value": "ask", "choices": ["ask", "plan"],
        "acpxRecordId": modes["acpxRecordId"], "acpxSessionId": "s1",
    });
    assert_eq!(modes, expected);
    let unknown = place.acpx(&["scripted", "set", "effort"]);
    let hint = "acpx: the session has no option \"effort\"\nhint: the session has mode, model, web\n";
    assert_eq!((unknown.err.as_str(), unknown.code), (hint, Some(1)));
}

#[test]
fn setting_outlives_the_host_and_wakes_a_parked_session() {
    let place = place(&options("m2", false));
    place.ok(&["scripted", "sessions", "new"]);
    place.ok(&["scripted", "one"]);
    place.ok(&["scripted", "set-mode", "plan"]);
    place.ok(&["host", "stop"]);
    let set = place.json(&["scripted", "set", "model", "m2"]);
    assert_eq!(set["resumed"], true, "{set}");
    let status = place.json(&["scripted", "status"]);
    assert_eq!((&status["mode"], &status["model"]), (&json!("plan"), &json!("m2")), "{status}");
    assert!(status.get("openWishes").is_none(), "{status}");
}

#[test]
fn setting_that_cannot_be_restored_is_reported_once_in_every_format() {
    let place = Place::new();
    let load = json!({"loadSession": true});
    let turn = |script: Script| script.prompt(|turn| turn.say("hello").end("end_turn"));
    let begun = Script::new()
        .initialize(load.clone())
        .expect("session/new")
        .reply(offering("ask", "m1", false))
        .expect("session/prompt")
        .end("end_turn")
        .expect("session/set_mode")
        .reply(json!({}));
    let script =
        turn(turn(begun.next_start().initialize(load).expect("session/load").reply(json!({"modes": null}))));
    place.scripted(&script);
    place.ok(&["scripted", "sessions", "new"]);
    place.ok(&["scripted", "one"]);
    place.ok(&["scripted", "set-mode", "plan"]);
    place.ok(&["host", "stop"]);
    let done = place.acpx(&["--format", "json", "scripted", "two"]);
    let why = "the agent does not offer it in this session";
    let said = format!("the mode could not be set to plan again: {why}");
    assert_eq!(done.err.matches(&said).count(), 1, "{done:?}");
    let news: Vec<Value> =
        done.lines().into_iter().filter(|line| line["action"] == "setting_not_restored").collect();
    assert_eq!(news.len(), 1, "{done:?}");
    assert_eq!((&news[0]["value"], &news[0]["reason"]), (&json!("plan"), &json!(why)));
    let status = place.json(&["scripted", "status"]);
    assert_eq!(status["openWishes"], json!([{"value": "plan", "reason": why}]));
    let shown = place.ok(&["scripted", "status"]);
    assert!(shown.contains(&format!("wished mode: plan ({why})\n")), "{shown}");
    let again = place.acpx(&["scripted", "three"]);
    assert!(!again.err.contains("could not be set"), "{again:?}");

    let forgotten = place.json(&["scripted", "set", "mode", "--forget"]);
    let (record, session) = (&status["acpxRecordId"], &status["acpxSessionId"]);
    let expected = json!({
        "action": "setting_forgotten", "value": "plan", "acpxRecordId": record, "acpxSessionId": session,
    });
    assert_eq!(forgotten, expected);
    assert_eq!(place.json(&["scripted", "status"]).get("openWishes"), None);
    assert_eq!(place.ok(&["scripted", "set-mode", "--forget"]), "nothing was wished for mode\n");
}

#[test]
fn setting_shown_by_the_agent_after_set_is_the_one_stored() {
    let place = place(&options("m1", false));
    place.ok(&["scripted", "sessions", "new"]);
    let set = place.acpx(&["scripted", "set", "model", "m2"]);
    let other = "[acpx] the agent shows model as m1, and was asked for m2\n";
    assert_eq!((set.out.as_str(), set.err.as_str(), set.code), ("model set: m1\n", other, Some(0)));
    let status = place.json(&["scripted", "status"]);
    assert_eq!((&status["model"], status.get("openWishes")), (&json!("m1"), None), "{status}");
    let done = place.acpx(&["scripted", "--model", "m2", "one"]);
    assert!(done.err.contains(other) && done.code == Some(0), "{done:?}");
}

#[test]
fn unreadable_answer_to_a_setting_is_the_agents_error_and_changes_nothing() {
    let place = place(&json!("x"));
    place.ok(&["scripted", "sessions", "new"]);
    let set = place.acpx(&["--format", "json", "scripted", "set", "model", "m2"]);
    assert_eq!((set.failure().0.as_str(), set.code), ("AGENT_BAD_ANSWER", Some(1)), "{set:?}");
    let status = place.json(&["scripted", "status"]);
    assert_eq!((&status["model"], status.get("openWishes")), (&json!("m1"), None), "{status}");
}

#[test]
fn agent_that_never_answers_a_setting_times_out_and_is_parked() {
    let place = Place::new();
    let load = json!({"loadSession": true});
    let begun = Script::new()
        .initialize(load.clone())
        .expect("session/new")
        .reply(offering("ask", "m1", false))
        .prompt(|turn| turn.say("hello").end("end_turn"))
        .expect("session/set_mode")
        .reply(json!({}));
    let script = begun.next_start().initialize(load).serve([
        ("session/load", Script::new().reply(offering("ask", "m1", false))),
        ("session/set_mode", Script::new()),
        ("session/prompt", Script::new().say("hello").end("end_turn")),
    ]);
    place.scripted(&script);
    place.ok(&["scripted", "sessions", "new"]);
    place.ok(&["scripted", "one"]);
    place.ok(&["scripted", "set-mode", "plan"]);
    place.ok(&["host", "stop"]);

    // Half of the time is left for the prompt, and until then it is said what is waited for.
    let mut two = place.start(&["--timeout", "12", "scripted", "two"]);
    two.wait_for_word("[acpx] waiting for the agent's answer to session/set_mode");
    let status = place.json(&["scripted", "status"]);
    let waiting = &status["waitingFor"];
    let expected = (&json!("answer"), &json!("session/set_mode"));
    assert_eq!((&waiting["what"], &waiting["method"]), expected, "{status}");
    assert_eq!(status["summary"], "the agent is there, and is not ready yet");
    let two = two.done();
    assert!(two.err.contains("the mode could not be set to plan again: the agent did not answer"), "{two:?}");
    assert_eq!((two.out.contains("hello"), two.code), (true, Some(0)), "{two:?}");

    let late =
        place.acpx(&["--format", "json", "--timeout", "1.5", "--ttl", "1", "scripted", "set-mode", "plan"]);
    let message = "the agent \"scripted\" did not answer session/set_mode within 1.5 s";
    assert_eq!(late.lines()[0]["error"]["message"], message, "{late:?}");
    assert_eq!((late.failure().0.as_str(), late.code), ("AGENT_START_TIMEOUT", Some(3)));
    eventually("it is parked", || place.json(&["scripted", "status"])["status"] == "idle");
}

#[test]
fn model_is_set_with_a_prompt_a_new_session_or_exec() {
    let place = place(&options("m2", true));
    let refused = place.acpx(&["--model", "m3", "scripted", "sessions", "new"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(
        refused.err.contains("the option model cannot be \"m3\"\nhint: it can be m1, m2\n"),
        "{refused:?}"
    );
    assert_eq!(place.acpx(&["scripted", "one"]).code, Some(4));
    assert_eq!(place.json(&["sessions", "list"]), json!([]), "what was never to be is in no list");
    place.ok(&["--model", "m2", "scripted", "sessions", "new"]);
    assert_eq!(place.json(&["scripted", "status"])["model"], "m2");
    place.ok(&["scripted", "--model", "m2", "one"]);
    let refused = place.acpx(&["scripted", "--model", "m3", "two"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let done = place.acpx(&[
        "--format",
        "quiet",
        "scripted",
        "exec",
        "--model",
        "m2",
        "--config-option",
        "web=true",
        "hi",
    ]);
    assert_eq!((done.out.as_str(), done.code), ("hello\n", Some(0)), "{done:?}");
    let refused = place.acpx(&["scripted", "exec", "--config-option", "web", "hi"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
}

#[test]
fn claude_reads_the_settings_of_the_project_in_a_shell_session_only() {
    let place = Place::new();
    let script = Script::new().initialize(json!({ "sessionCapabilities": { "resume": {} } })).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        ("session/resume", Script::new().reply(json!({}))),
        ("session/prompt", Script::new().say("hello").end("end_turn")),
    ]);
    let argv = place.scripted_as("claude", &script);
    place.ok(&["claude", "sessions", "new"]);
    place.ok(&["claude", "prompt", "hi"]);
    place.ok(&["host", "stop"]);
    place.ok(&["claude", "prompt", "hi"]);
    let mut with_user = place.command(&["claude", "exec", "hi"]);
    assert_eq!(Done::of(with_user.env("ACPX_CLAUDE_INCLUDE_USER_SETTINGS", "1")).code, Some(0));
    let mut editor = Editor::silent(&place, &["claude", "acp"]);
    editor.call("initialize", json!({ "protocolVersion": 1 }));
    editor.call("session/new", json!({ "cwd": place.work(), "mcpServers": [] }));
    let requests = received_lines(&argv).into_iter().filter_map(|line| {
        let request: Value = serde_json::from_str(&line).unwrap();
        let is_setup = ["session/new", "session/resume"].iter().any(|method| request["method"] == *method);
        is_setup.then(|| (request["method"].clone(), request["params"]["_meta"]["claudeCode"].clone()))
    });
    let sources = |sources: &[&str]| json!({ "options": { "settingSources": sources } });
    let expected = [
        (json!("session/new"), sources(&["project", "local"])),
        (json!("session/resume"), sources(&["project", "local"])),
        (json!("session/new"), sources(&["user", "project", "local"])),
        (json!("session/new"), Value::Null),
    ];
    assert_eq!(requests.collect::<Vec<_>>(), expected);
}

#[test]
fn set_model_and_status_work_with_models_and_config_options() {
    let place = Place::new();
    let models = json!([{"modelId": "auto", "name": "Auto"}, {"modelId": "flash", "name": "Flash"}]);
    let offers = json!({"models": {"availableModels": models, "currentModelId": "auto"}});
    let mut new = offers.clone();
    new["sessionId"] = json!("s1");
    let script = Script::new().initialize(json!({"loadSession": true})).serve([
        ("session/new", Script::new().reply(new)),
        ("session/load", Script::new().reply(offers)),
        ("session/set_model", Script::new().reply(json!({}))),
        ("session/prompt", Script::new().say("hello").end("end_turn")),
    ]);
    place.scripted(&script);
    let status = || {
        let status = place.json(&["scripted", "status"]);
        (status["model"].clone(), status["availableModels"].clone())
    };
    place.ok(&["scripted", "sessions", "new"]);
    assert_eq!(status(), (json!("auto"), json!(["auto", "flash"])));
    let none = place.acpx(&["scripted", "set", "model", "pro"]);
    assert_eq!(none.err, "acpx: the model cannot be \"pro\"\nhint: it can be auto, flash\n");
    let none = place.acpx(&["scripted", "set", "effort", "high"]);
    assert_eq!(none.err, "acpx: the session has no option \"effort\"\nhint: the session has model\n");
    assert_eq!(place.ok(&["scripted", "set", "model", "flash"]), "model set: flash\n");
    place.ok(&["host", "stop"]);
    place.ok(&["scripted", "one"]);
    assert_eq!(status(), (json!("flash"), json!(["auto", "flash"])));
    let shown = place.ok(&["scripted", "status"]);
    assert!(shown.contains("\nmodel: flash\nmode: -\n") && !shown.contains("option"), "{shown}");
    place.ok(&["--model", "auto", "scripted", "two"]);
    assert_eq!(status().0, "auto");
    assert_eq!(place.ok(&["--format", "quiet", "--model", "flash", "scripted", "exec", "three"]), "hello\n");
}
