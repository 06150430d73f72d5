use super::*;

fn option(id: &str, category: Option<&str>, value: &str, choices: &[&str]) -> OfferedSetting {
    OfferedSetting {
        name: SettingName::Option(id.into()),
        category: category.map(Into::into),
        value: Some(SettingValue::Id(value.into())),
        choices: Choices::Of(choices.iter().map(|choice| (*choice).into()).collect()),
    }
}

fn mode(value: &str) -> OfferedSetting {
    OfferedSetting { name: SettingName::Mode, category: None, ..option("", None, value, &["ask", "plan"]) }
}

fn flag(id: &str) -> OfferedSetting {
    let value = Some(SettingValue::Flag(false));
    OfferedSetting { value, choices: Choices::Flag, ..option(id, None, "", &[]) }
}

fn chosen(name: SettingName, value: &str) -> Setting {
    Setting { name, value: SettingValue::Id(value.into()) }
}

fn named(id: &str) -> SettingName {
    SettingName::Option(id.into())
}

#[test]
fn option_is_found_by_its_id_or_its_category() {
    let engine = option("engine", Some("model"), "m1", &["m1", "m2"]);
    let effort = option("reasoning_effort", Some("thought_level"), "low", &["low", "high"]);
    let offered = OfferedSettings(vec![mode("ask"), engine, effort, flag("web")]);
    let choose = |option, value: &str| offered.choose(option, value);
    assert_eq!(choose(None, "plan"), Ok(chosen(SettingName::Mode, "plan")));
    assert_eq!(choose(Some("mode"), "plan"), Ok(chosen(SettingName::Mode, "plan")));
    assert_eq!(choose(Some("model"), "m2"), Ok(chosen(named("engine"), "m2")));
    assert_eq!(choose(Some("thought_level"), "high"), Ok(chosen(named("reasoning_effort"), "high")));
    let web = Setting { name: named("web"), value: SettingValue::Flag(true) };
    assert_eq!(choose(Some("web"), "true"), Ok(web));
}

#[test]
fn invalid_setting_value_lists_the_valid_ones() {
    let offered = OfferedSettings(vec![option("model", Some("model"), "m1", &["m1", "m2"]), flag("web")]);
    let said = |option, value: &str| {
        let error = offered.choose(option, value).unwrap_err();
        (error.code().to_string(), format!("{error}; {}", error.hint()))
    };
    let (missing, bad) = ("SETTING_NOT_OFFERED", "SETTING_BAD_VALUE");
    let cases = [
        (None, "plan", missing, "the agent offers no modes in this session; the session has model, web"),
        (Some("effort"), "x", missing, r#"the session has no option "effort"; the session has model, web"#),
        (Some("model"), "m3", bad, r#"the option model cannot be "m3"; it can be m1, m2"#),
        (Some("web"), "on", bad, r#"the option web cannot be "on"; it can be true, false"#),
    ];
    for (option, value, code, message) in cases {
        assert_eq!(said(option, value), (code.to_owned(), message.to_owned()));
    }
    let nothing = OfferedSettings::default().choose(Some("model"), "m1").unwrap_err();
    assert_eq!(
        nothing.hint(),
        "the agent offers nothing to choose in this session; its own configuration may"
    );
    let modes = OfferedSetting {
        name: SettingName::Mode,
        category: None,
        value: None,
        choices: Choices::Of(vec!["ask".into(), "code".into()]),
    };
    let modes_alone = OfferedSettings(vec![modes]);
    assert_eq!(modes_alone.choose(Some("model"), "m1").unwrap_err().hint(), "the session has mode");
    assert_eq!(modes_alone.choose(None, "x").unwrap_err().hint(), "it can be ask, code");
}

#[test]
fn setting_error_lists_a_readable_number_of_choices() {
    let hint = |offered: &[&str]| {
        let settings = OfferedSettings(vec![option("model", Some("model"), "m", offered)]);
        settings.choose(Some("model"), "none").unwrap_err().hint()
    };
    assert_eq!(hint(&["m"; LISTED]), format!("it can be {}", ["m"; LISTED].join(", ")));
    let many = format!("it can be {}, and 5 more", ["m"; LISTED].join(", "));
    assert_eq!(hint(&["m"; LISTED + 5]), many);
    let long = "m".repeat(LISTED_CHARS);
    assert_eq!(hint(&[&long, "n"]), format!("it can be {long}, and 1 more"));
    assert_eq!(hint(&[&format!("{long}m")]), "it can be 1 with names that are too long to list");
}

#[test]
fn mode_reported_as_an_option_is_set_as_one() {
    let offered = OfferedSettings(vec![option("m", Some("mode"), "ask", &["ask", "plan"])]);
    assert_eq!(offered.choose(None, "plan"), Ok(chosen(named("m"), "plan")));
}

#[test]
fn record_stores_current_settings_and_only_the_model_choices() {
    let effort = option("effort", None, "low", &["low", "high"]);
    let models = option("model", None, "m1", &["m1", "m2"]);
    let kept = OfferedSettings(vec![effort.clone(), models.clone()]).to_stored();
    let unknown = |offered| OfferedSetting { choices: Choices::Unknown, ..offered };
    assert_eq!(kept, OfferedSettings(vec![unknown(effort), models]));
    let many: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let kept = OfferedSettings(vec![option("model", None, "m1", &many)]).to_stored();
    assert_eq!(kept.0, [option("model", None, "m1", &many[..256])]);
}

#[test]
fn a_wish_is_open_while_the_session_is_known_to_stand_otherwise() {
    let mut settings = RecordSettings::default();
    settings.choose(chosen(named("effort"), "high"));
    settings.choose(chosen(SettingName::Mode, "ask"));
    settings.choose(chosen(SettingName::Mode, "plan"));
    assert_eq!(settings.chosen, [chosen(named("effort"), "high"), chosen(SettingName::Mode, "plan")]);
    assert_eq!(settings.unconfirmed().count(), 0);

    settings.reported = OfferedSettings(vec![mode("ask")]);
    let unmet = UnmetSetting { name: named("effort"), reason: "it is gone".into() };
    settings.unmet = vec![unmet];
    let (effort, plan) = (&settings.chosen[0], &settings.chosen[1]);
    let ask = SettingValue::Id("ask".into());
    let open: Vec<_> = settings.unconfirmed().collect();
    assert_eq!(open, [(effort, None, Some("it is gone")), (plan, Some(&ask), None)]);

    settings.withdraw(|wish| wish.name == named("effort"));
    assert_eq!((settings.chosen.len(), settings.unmet.len()), (1, 0));
}
