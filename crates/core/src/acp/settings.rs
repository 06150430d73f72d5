//! Reads the settings that an agent offers, in either version, and builds the requests that choose them. Version 1 has
//! the mode, and for older agents the model (`models`), apart from the options; in version 2 both are options.

use serde_json::{Value, json};

use super::client::SessionOffer;
use crate::model::{
    AcpSessionId, Choices, MODEL_OPTION, OfferedSetting, OfferedSettings, ProtocolVersion, Setting,
    SettingName, SettingValue,
};

const SET_MODEL: &str = "session/set_model";
const SET_MODE: &str = "session/set_mode";
const SET_OPTION: &str = "session/set_config_option";

/// All settings, the mode first. Unreadable ones are left out, and so are `models` that an option also offers.
pub(crate) fn offered(offered: &SessionOffer, version: ProtocolVersion) -> OfferedSettings {
    let mode = modes(offered);
    let mut all =
        OfferedSettings(mode.into_iter().chain(options(offered, version).unwrap_or_default()).collect());
    let models = models(offered).filter(|_| version == ProtocolVersion::V1);
    all.0.extend(models.filter(|models| !all.model().is_some_and(|option| has_all(option, models))));
    all
}

/// Whether an option has every choice of another setting.
fn has_all(option: &OfferedSetting, other: &OfferedSetting) -> bool {
    match (&option.choices, &other.choices) {
        (Choices::Of(choices), Choices::Of(others)) => others.iter().all(|other| choices.contains(other)),
        _ => false,
    }
}

/// The separate `models`, if readable.
pub(super) fn models(offered: &SessionOffer) -> Option<OfferedSetting> {
    let models: Value = serde_json::from_str(offered.models.as_deref()?).ok()?;
    let ids = models["availableModels"].as_array()?.iter().filter_map(|model| model["modelId"].as_str());
    Some(OfferedSetting {
        name: SettingName::Option(MODEL_OPTION.into()),
        category: Some("model".into()),
        value: value(&models["currentModelId"]),
        choices: Choices::Of(ids.map(Into::into).collect()),
    })
}

/// The modes, if readable.
pub(super) fn modes(offered: &SessionOffer) -> Option<OfferedSetting> {
    let modes: Value = serde_json::from_str(offered.modes.as_deref()?).ok()?;
    let ids = modes["availableModes"].as_array()?.iter().filter_map(|mode| mode["id"].as_str());
    Some(OfferedSetting {
        name: SettingName::Mode,
        category: None,
        value: value(&modes["currentModeId"]),
        choices: Choices::Of(ids.map(Into::into).collect()),
    })
}

/// The options, if the list is readable.
pub(super) fn options(offered: &SessionOffer, version: ProtocolVersion) -> Option<Vec<OfferedSetting>> {
    let options: Value = serde_json::from_str(offered.config_options.as_deref()?).ok()?;
    let id = option_id(version);
    let read = |option: &Value| {
        let choices = match (option["type"].as_str(), option["options"].as_array()) {
            (Some("boolean"), _) => Choices::Flag,
            (Some("select"), Some(rows)) => Choices::Of(values(rows)),
            _ => Choices::Unknown,
        };
        Some(OfferedSetting {
            name: SettingName::Option(option[id].as_str()?.into()),
            category: option["category"].as_str().map(Into::into),
            value: value(&option["currentValue"]),
            choices,
        })
    };
    Some(options.as_array()?.iter().filter_map(read).collect())
}

/// The name of an option's id member.
pub(super) fn option_id(version: ProtocolVersion) -> &'static str {
    match version {
        ProtocolVersion::V1 => "id",
        ProtocolVersion::V2 => "configId",
    }
}

/// The values of an option, with or without groups.
fn values(rows: &[Value]) -> Vec<Box<str>> {
    let row = |row: &Value| match row["options"].as_array() {
        Some(group) => values(group),
        None => row["value"].as_str().map(Into::into).into_iter().collect(),
    };
    rows.iter().flat_map(row).collect()
}

fn value(offer: &Value) -> Option<SettingValue> {
    match offer {
        Value::String(id) => Some(SettingValue::Id(id.as_str().into())),
        Value::Bool(flag) => Some(SettingValue::Flag(*flag)),
        _ => None,
    }
}

/// The setting that a client's request chooses; `None` for other requests and for values of unknown types.
pub(crate) fn chosen(method: &str, params: &str) -> Option<Setting> {
    let params: Value = serde_json::from_str(params).ok()?;
    let (name, member) = match method {
        SET_MODE => (SettingName::Mode, "modeId"),
        SET_MODEL => (SettingName::Option(MODEL_OPTION.into()), "modelId"),
        SET_OPTION => (SettingName::Option(params["configId"].as_str()?.into()), "value"),
        _ => return None,
    };
    Some(Setting { name, value: value(&params[member])? })
}

/// The request that chooses a setting: its method and its params.
pub(crate) fn request(
    setting: &Setting,
    session: &AcpSessionId,
    version: ProtocolVersion,
) -> (&'static str, String) {
    let Setting { name, value } = setting;
    let SettingName::Option(option) = name else {
        return (SET_MODE, json!({ "sessionId": session, "modeId": value }).to_string());
    };
    if name.is_own_model() && version == ProtocolVersion::V1 {
        return (SET_MODEL, json!({ "sessionId": session, "modelId": value }).to_string());
    }
    let mut params = json!({ "sessionId": session, "configId": option, "value": value });
    match (value, version) {
        (SettingValue::Flag(_), _) => params["type"] = "boolean".into(),
        (SettingValue::Id(_), ProtocolVersion::V2) => params["type"] = "id".into(),
        // In version 1 a value without a type is the id of a choice, and older agents know no type.
        (SettingValue::Id(_), ProtocolVersion::V1) => {}
    }
    (SET_OPTION, params.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> SettingValue {
        SettingValue::Id(text.into())
    }

    fn option(
        name: &str,
        category: Option<&str>,
        value: Option<SettingValue>,
        choices: Choices,
    ) -> OfferedSetting {
        let name = SettingName::Option(name.into());
        OfferedSetting { name, category: category.map(Into::into), value, choices }
    }

    fn of(choices: &[&str]) -> Choices {
        Choices::Of(choices.iter().map(|choice| (*choice).into()).collect())
    }

    #[test]
    fn settings_are_read_in_both_versions_and_unreadable_ones_left_out() {
        let modes = json!({ "currentModeId": "a", "availableModes": [{ "id": "a" }, { "id": "b" }, 7] });
        let options = json!([
            { "id": "m", "configId": "m2", "category": "model", "type": "select", "currentValue": "x",
              "options": [{ "options": [{ "value": "x" }] }, { "value": "y" }] },
            { "id": "f", "configId": "f2", "type": "boolean", "currentValue": true },
            { "id": "n", "configId": "n2", "type": "from_the_future", "currentValue": 3 },
            { "name": "nameless" },
            7,
        ]);
        let offer = SessionOffer {
            modes: Some(modes.to_string().into()),
            config_options: Some(options.to_string().into()),
            ..SessionOffer::default()
        };
        let mode = OfferedSetting {
            name: SettingName::Mode,
            category: None,
            value: Some(id("a")),
            choices: of(&["a", "b"]),
        };
        let flag = Some(SettingValue::Flag(true));
        let read = offered(&offer, ProtocolVersion::V1);
        let expected = vec![
            mode.clone(),
            option("m", Some("model"), Some(id("x")), of(&["x", "y"])),
            option("f", None, flag.clone(), Choices::Flag),
            option("n", None, None, Choices::Unknown),
        ];
        assert_eq!(read, OfferedSettings(expected));
        let read = offered(&offer, ProtocolVersion::V2);
        assert_eq!(read.0[2], option("f2", None, flag, Choices::Flag));
        for garbage in ["7", "{}", "[", "null", r#"{"availableModes":7}"#] {
            let (modes, config_options) = (Some(garbage.into()), Some(garbage.into()));
            let offer = SessionOffer { modes, config_options, ..SessionOffer::default() };
            assert_eq!(offered(&offer, ProtocolVersion::V1), OfferedSettings::default(), "{garbage}");
        }
    }

    #[test]
    fn models_are_a_setting_unless_an_option_offers_them_as_well() {
        let models =
            json!({ "currentModelId": "x", "availableModels": [{ "modelId": "x" }, { "modelId": "y" }, 7] });
        let select = |choices: Value| json!([{ "id": "m", "category": "model", "type": "select", "currentValue": "x", "options": choices }]);
        let offer = |options: Option<Value>| SessionOffer {
            models: Some(models.to_string().into()),
            config_options: options.map(|options| options.to_string().into()),
            ..SessionOffer::default()
        };
        let own = option(MODEL_OPTION, Some("model"), Some(id("x")), of(&["x", "y"]));
        let v1 = |offer: &SessionOffer| offered(offer, ProtocolVersion::V1).0;
        assert_eq!(v1(&offer(None)), std::slice::from_ref(&own));
        let all = select(json!([{ "value": "y" }, { "value": "x" }]));
        assert_eq!(v1(&offer(Some(all))), [option("m", Some("model"), Some(id("x")), of(&["y", "x"]))]);
        let other = select(json!([{ "value": "x" }]));
        assert_eq!(v1(&offer(Some(other))), [option("m", Some("model"), Some(id("x")), of(&["x"])), own]);
        assert_eq!(offered(&offer(None), ProtocolVersion::V2), OfferedSettings::default());
    }

    #[test]
    fn setting_request_round_trips_in_both_versions() {
        let session = AcpSessionId::new("s").unwrap();
        let mode = Setting { name: SettingName::Mode, value: SettingValue::Id("b".into()) };
        let choice = Setting { name: SettingName::Option("m".into()), ..mode.clone() };
        let model = Setting { name: SettingName::Option(MODEL_OPTION.into()), ..mode.clone() };
        let flag = Setting { name: SettingName::Option("f".into()), value: SettingValue::Flag(true) };
        let (v1, v2) = (ProtocolVersion::V1, ProtocolVersion::V2);
        let cases = [
            (&mode, v1, SET_MODE, json!({ "sessionId": "s", "modeId": "b" })),
            (&model, v1, SET_MODEL, json!({ "sessionId": "s", "modelId": "b" })),
            (&choice, v1, SET_OPTION, json!({ "sessionId": "s", "configId": "m", "value": "b" })),
            (
                &choice,
                v2,
                SET_OPTION,
                json!({ "sessionId": "s", "configId": "m", "type": "id", "value": "b" }),
            ),
            (
                &flag,
                v1,
                SET_OPTION,
                json!({ "sessionId": "s", "configId": "f", "type": "boolean", "value": true }),
            ),
            (
                &flag,
                v2,
                SET_OPTION,
                json!({ "sessionId": "s", "configId": "f", "type": "boolean", "value": true }),
            ),
        ];
        for (setting, version, method, expected) in cases {
            let (asked, params) = request(setting, &session, version);
            let offer: Value = serde_json::from_str(&params).unwrap();
            assert_eq!((asked, offer), (method, expected));
            assert_eq!(chosen(asked, &params).as_ref(), Some(setting));
        }
        assert_eq!(chosen("session/fork", "{}"), None);
        assert_eq!(chosen(SET_OPTION, r#"{"configId":"m","value":[]}"#), None);
        assert_eq!(chosen(SET_MODE, "7"), None);
    }
}
