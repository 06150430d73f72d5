//! Settings: which ones are recorded as chosen, in which order they are restored, and what is reported about the
//! others.

use super::*;
use crate::model::UnmetSetting;

fn named(id: &str) -> SettingName {
    SettingName::Option(id.into())
}

fn option(id: &str, category: Option<&str>, value: &str, choices: &[&str]) -> OfferedSetting {
    OfferedSetting {
        name: named(id),
        category: category.map(Into::into),
        value: Some(SettingValue::Id(value.into())),
        choices: Choices::Of(choices.iter().map(|choice| (*choice).into()).collect()),
    }
}

fn model(value: &str) -> OfferedSetting {
    option("model", Some("model"), value, &["m1", "m2"])
}

fn effort(value: &str) -> OfferedSetting {
    option("effort", Some("thought_level"), value, &["low", "high"])
}

fn mode(value: &str) -> OfferedSetting {
    offers(value).0.remove(0)
}

fn shows(settings: &[OfferedSetting]) -> Input {
    Input::SettingsOffered(OfferedSettings(settings.to_vec()))
}

fn stored_with(chosen: &[Setting]) -> SessionMachine {
    let mut machine = kept(1);
    machine.config.settings.chosen = chosen.to_vec();
    machine
}

/// Feeds the inputs and returns the calls to the agent and the facts, with the inputs that caused them.
fn asked(machine: &mut SessionMachine, inputs: Vec<Input>) -> Vec<String> {
    let mut told = Vec::new();
    for input in inputs {
        for effect in machine.handle(at(1000), input) {
            match effect {
                Effect::Call(AgentCall::Set(setting)) => {
                    told.push(format!("set {} {}", setting.name, setting.value));
                }
                Effect::Fact(Fact::SettingNotRestored { option, value, reason }) => {
                    told.push(format!("{} {value}: {reason}", option.as_deref().unwrap_or("mode")));
                }
                Effect::ReplyWake(Ok(_)) => told.push("awake".to_owned()),
                Effect::Call(AgentCall::Prompt { .. }) => told.push("prompt".to_owned()),
                _ => {}
            }
        }
    }
    told
}

fn wake() -> Input {
    Input::Wake(WakeOptions::default())
}

fn done() -> Input {
    Input::SettingAnswered(Ok(()))
}

#[test]
fn settings_restore_the_model_first_and_the_mode_last() {
    let choices =
        [wish(SettingName::Mode, "plan"), wish(named("effort"), "high"), wish(named("model"), "m2")];
    let mut machine = stored_with(&choices);
    let told = asked(
        &mut machine,
        vec![
            prompt("p"),
            ready(NONE),
            // Only the second model offers the effort.
            shows(&[mode("ask"), model("m1")]),
            Input::SessionCreated { session: session("s2"), agent_session: None },
            shows(&[mode("ask"), model("m2"), effort("low")]),
            done(),
            shows(&[mode("ask"), model("m2"), effort("high")]),
            done(),
            shows(&[mode("plan"), model("m2"), effort("high")]),
            done(),
        ],
    );
    let expected =
        ["set the option model m2", "set the option effort high", "set the mode plan", "awake", "prompt"];
    assert_eq!(told, expected);
    assert_eq!(machine.config.settings.chosen, choices);
    assert_eq!(machine.config.settings.unmet, []);
}

#[test]
fn state_reports_do_not_extend_the_setting_deadline() {
    let mut machine = stored_with(&[wish(SettingName::Mode, "plan")]);
    feed(
        &mut machine,
        [wake(), ready(ALL), shows(&[mode("ask")]), Input::SessionRestored { agent_session: None }],
    );
    let told = feed(&mut machine, [state(AgentState::Idle(None))]);
    assert_eq!(told, [Effect::PersistUpdate(Arc::from("state"))]);
    feed(&mut machine, [Input::Deadline(Deadline::Setting)]);
    assert!(machine.is_live());
}

#[test]
fn restored_session_does_not_request_settings_already_in_force() {
    let choices = [wish(SettingName::Mode, "plan"), wish(named("model"), "m2")];
    let mut machine = stored_with(&choices);
    let inputs = vec![
        wake(),
        ready(ALL),
        shows(&[mode("plan"), model("m1")]),
        Input::SessionRestored { agent_session: None },
        done(),
    ];
    // An agent that confirmed the setting but does not show it gets no second request.
    let told = ["set the option model m2", "model m2: the agent shows m1 instead", "awake"];
    assert_eq!(asked(&mut machine, inputs), told);
}

#[test]
fn unrestorable_setting_is_recorded_stays_chosen_and_the_others_continue() {
    let choices = [
        wish(SettingName::Mode, "plan"),
        wish(named("model"), "m3"),
        wish(named("gone"), "x"),
        wish(named("effort"), "high"),
    ];
    let mut machine = stored_with(&choices);
    let refused = Input::SettingAnswered(Err(died()));
    let told = asked(
        &mut machine,
        vec![
            prompt("p"),
            ready(ALL),
            shows(&[mode("ask"), model("m1"), effort("low")]),
            Input::SessionRestored { agent_session: None },
            refused,
            shows(&[mode("plan"), model("m1"), effort("low")]),
            done(),
        ],
    );
    let died = died().to_string();
    let expected = [
        "set the option effort high".to_owned(),
        format!("effort high: {died}"),
        "set the mode plan".to_owned(),
        "model m3: the agent does not offer this value any more".to_owned(),
        "gone x: the agent does not offer it in this session".to_owned(),
        "awake".to_owned(),
        "prompt".to_owned(),
    ];
    assert_eq!(told, expected);
    assert_eq!(machine.config.settings.chosen, choices);
    let unmet = |name: &str, reason: &str| UnmetSetting { name: named(name), reason: reason.into() };
    let expected = [
        unmet("effort", &died),
        unmet("model", "the agent does not offer this value any more"),
        unmet("gone", "the agent does not offer it in this session"),
    ];
    assert_eq!(machine.config.settings.unmet, expected);
}

#[test]
fn unanswered_setting_skips_the_others_and_the_prompt_is_sent() {
    let mut machine = stored_with(&[wish(SettingName::Mode, "plan"), wish(named("effort"), "high")]);
    let told = asked(
        &mut machine,
        vec![
            prompt("p"),
            ready(ALL),
            shows(&[mode("ask"), effort("low")]),
            Input::SessionRestored { agent_session: None },
            Input::Deadline(Deadline::Setting),
            // Too late to matter.
            done(),
        ],
    );
    let expected = [
        "set the option effort high",
        "effort high: the agent did not answer",
        "mode plan: the agent did not answer",
        "awake",
        "prompt",
    ];
    assert_eq!(told, expected);
}

#[test]
fn settings_of_an_earlier_agent_do_not_apply_to_the_next() {
    let mut machine = in_mode("plan");
    let inputs = vec![
        Input::AgentExited(died()),
        prompt("p"),
        ready(ALL),
        Input::SessionRestored { agent_session: None },
    ];
    let told = asked(&mut machine, inputs);
    assert_eq!(told, ["mode plan: the agent does not offer it in this session", "awake", "prompt"]);
}

#[test]
fn setting_is_chosen_only_after_the_agent_confirmed_it() {
    let mut machine = live(ALL);
    let answered = |answer| Input::ForwardAnswered { id: ForwardId(1), answer };
    feed(&mut machine, [Input::SettingsOffered(offers("ask")), pass_mode(1, "plan"), answered(Err(died()))]);
    assert_eq!(machine.config.settings.chosen, []);
    let done = || answered(Ok(Arc::from("{}")));
    // An agent that shows the same value as before has not changed it, regardless of its response.
    feed(&mut machine, [pass_mode(1, "plan"), done()]);
    assert_eq!(machine.config.settings.chosen, []);
    let effects = feed(&mut machine, [pass_mode(1, "plan"), Input::SettingsOffered(offers("plan")), done()]);
    let settings = RecordSettings {
        chosen: vec![wish(SettingName::Mode, "plan")],
        reported: offers("plan").to_stored(),
        ..RecordSettings::default()
    };
    assert!(effects.contains(&Effect::SaveSettings(settings)), "{effects:?}");
    // Choosing the current value counts as a choice.
    feed(&mut machine, [Input::ForgetSetting(SettingName::Mode), pass_mode(1, "plan"), done()]);
    assert_eq!(machine.config.settings.chosen, [wish(SettingName::Mode, "plan")]);
}

#[test]
fn late_setting_success_is_recorded_but_not_replied() {
    let mut machine = live(ALL);
    let over = Input::Deadline(Deadline::Forward(ForwardId(1)));
    feed(&mut machine, [Input::SettingsOffered(offers("ask")), pass_mode(1, "plan"), over]);
    let late = Input::ForwardAnswered { id: ForwardId(1), answer: Ok(Arc::from("{}")) };
    let effects = feed(&mut machine, [Input::SettingsOffered(offers("plan")), late]);
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::ReplyForward(..))), "{effects:?}");
    assert_eq!(machine.config.settings.chosen, [wish(SettingName::Mode, "plan")]);
}

#[test]
fn shown_setting_value_is_recorded_only_if_the_agent_offers_it() {
    for (shown, chosen) in [("m2", "m2"), ("m-2026", "latest")] {
        let mut machine = live(ALL);
        let offered = |value: &str| option("model", Some("model"), value, &["latest", "m1", "m2"]);
        let Input::Forward(asked) = pass(1) else { panic!("a request") };
        let asked = ForwardedRequest { setting: Some(wish(named("model"), "latest")), ..asked };
        let answer = Input::ForwardAnswered { id: ForwardId(1), answer: Ok(Arc::from("{}")) };
        feed(
            &mut machine,
            [shows(&[offered("m1")]), Input::Forward(asked), shows(&[offered(shown)]), answer],
        );
        assert_eq!(machine.config.settings.chosen, [wish(named("model"), chosen)], "{shown}");
    }
}

#[test]
fn forgotten_setting_is_neither_restored_nor_reported() {
    let choices = [wish(SettingName::Mode, "plan"), wish(named("engine"), "m2"), wish(named("gone"), "x")];
    let mut machine = stored_with(&choices);
    let engine = option("engine", Some("model"), "m1", &["m1", "m2"]);
    machine.config.settings.reported = OfferedSettings(vec![engine.clone()]);
    machine.config.settings.unmet = vec![UnmetSetting { name: named("gone"), reason: "why".into() }];
    let words = [None, Some("mode"), Some("model"), Some("engine"), Some("gone"), Some("effort")];
    let meant = words.map(|word| machine.chosen_setting(word).map(|wish| wish.name));
    let expected = [
        Some(SettingName::Mode),
        Some(SettingName::Mode),
        Some(named("engine")),
        Some(named("engine")),
        Some(named("gone")),
        None,
    ];
    assert_eq!(meant, expected);
    let effects = feed(&mut machine, [Input::ForgetSetting(named("gone"))]);
    assert_eq!(effects, [Effect::SaveSettings(machine.config.settings.clone())]);
    assert_eq!(machine.config.settings.chosen, choices[..2]);
    assert_eq!(machine.config.settings.unmet, []);
    feed(&mut machine, [Input::ForgetSetting(SettingName::Mode), Input::ForgetSetting(named("engine"))]);
    let inputs = vec![
        wake(),
        ready(ALL),
        shows(&[mode("ask"), engine]),
        Input::SessionRestored { agent_session: None },
    ];
    assert_eq!(asked(&mut machine, inputs), ["awake"]);
}

#[test]
fn agent_without_settings_clears_the_values_of_an_earlier_agent() {
    let mut machine = wishing();
    machine.config.settings.reported = offers("plan");
    feed(&mut machine, [wake(), ready(ALL), Input::SessionRestored { agent_session: None }]);
    let reason = "the agent does not offer it in this session".into();
    let expected = RecordSettings {
        chosen: vec![wish(SettingName::Mode, "plan")],
        unmet: vec![UnmetSetting { name: SettingName::Mode, reason }],
        ..RecordSettings::default()
    };
    assert_eq!(machine.config.settings, expected);
}

#[test]
fn setting_changed_by_the_agent_is_no_longer_chosen() {
    let mut machine = in_mode("plan");
    feed(&mut machine, [prompt("p"), Input::SettingsOffered(offers("ask"))]);
    assert_eq!(machine.config.settings.chosen, []);
    assert_eq!(machine.config.settings.reported, offers("ask").to_stored());
}

#[test]
fn side_effect_of_a_choice_withdraws_only_the_changed_setting() {
    let mut machine = live(ALL);
    let set = |id: u64, name: &str, value: &str| {
        let Input::Forward(pass) = pass(id) else { panic!("a request") };
        Input::Forward(ForwardedRequest { setting: Some(wish(named(name), value)), ..pass })
    };
    let answered = |id| Input::ForwardAnswered { id: ForwardId(id), answer: Ok(Arc::from("{}")) };
    let inputs = [
        shows(&[model("m1"), effort("low")]),
        set(1, "effort", "high"),
        shows(&[model("m1"), effort("high")]),
        answered(1),
        // The other model has its own effort, and the agent shows it under another name than requested.
        set(2, "model", "latest"),
        shows(&[model("m2"), effort("low")]),
        answered(2),
        // A repeated report changes nothing.
        shows(&[model("m2"), effort("low")]),
    ];
    feed(&mut machine, inputs);
    assert_eq!(machine.config.settings.chosen, [wish(named("model"), "m2")]);
}

#[test]
fn mode_offered_twice_is_chosen_once() {
    let mut machine = live(ALL);
    let twice = |value: &str| shows(&[mode(value), option("m", Some("mode"), value, &["ask", "plan"])]);
    let answered = |id| Input::ForwardAnswered { id: ForwardId(id), answer: Ok(Arc::from("{}")) };
    let Input::Forward(by_option) = pass(2) else { panic!("a request") };
    let by_option = ForwardedRequest { setting: Some(wish(named("m"), "ask")), ..by_option };
    feed(
        &mut machine,
        [
            twice("ask"),
            pass_mode(1, "plan"),
            twice("plan"),
            answered(1),
            Input::Forward(by_option),
            twice("ask"),
            answered(2),
        ],
    );
    assert_eq!(machine.config.settings.chosen, [wish(named("m"), "ask")]);
}

#[test]
fn chosen_mode_is_restored_by_the_agents_mode_option() {
    let mut machine = stored_with(&[wish(SettingName::Mode, "plan")]);
    let modes = option("session_mode", Some("mode"), "ask", &["ask", "plan"]);
    let set = option("session_mode", Some("mode"), "plan", &["ask", "plan"]);
    let inputs = vec![
        wake(),
        ready(ALL),
        shows(&[modes]),
        Input::SessionRestored { agent_session: None },
        shows(&[set]),
        done(),
    ];
    assert_eq!(asked(&mut machine, inputs), ["set the option session_mode plan", "awake"]);
}

#[test]
fn a_fork_begins_with_the_wishes_of_the_session_before_it() {
    let mut machine = forking();
    machine.config.settings.chosen = vec![wish(SettingName::Mode, "plan")];
    let opened = Input::SessionCreated { session: session("s2"), agent_session: None };
    let set = Input::SettingsOffered(offers("plan"));
    let inputs = vec![wake(), ready(ALL), Input::SettingsOffered(offers("ask")), opened, set, done()];
    assert_eq!(asked(&mut machine, inputs), ["set the mode plan", "awake"]);
}

#[test]
fn agent_exit_during_settings_restore_fails_waiters_and_keeps_the_choices() {
    let mut machine = wishing();
    let inputs = [
        wake(),
        ready(ALL),
        Input::SettingsOffered(offers("ask")),
        Input::SessionRestored { agent_session: None },
    ];
    feed(&mut machine, inputs);
    let effects = feed(&mut machine, [Input::AgentExited(died())]);
    assert!(effects.contains(&Effect::ReplyWake(Err(WakeError::Agent(died())))), "{effects:?}");
    assert_eq!(machine.config.settings.chosen, [wish(SettingName::Mode, "plan")]);
}
