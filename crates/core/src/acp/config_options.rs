//! Translates a session's modes, models, options and commands for a client with another protocol version than its
//! agent, and translates the client's choices back. Between peers of one version all bytes stay unchanged.

use std::borrow::Cow;

use super::agent::{ClientFacts, UpdateBody};
use super::client::SessionOffer;
use super::render::without_booleans;
use super::settings;
use super::translate::{
    MODE_OPTION, TranslatedCall, TranslationError, UpdatesToV1, UpdatesToV2, request_to_v1, request_to_v2,
};
use crate::model::ProtocolVersion::{self, V1, V2};
use crate::model::{Choices, MODEL_OPTION, OfferedSetting};
use crate::wire::json;

const SET_MODEL: &str = "session/set_model";

/// A session's offer, between its agent and one client.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OfferTranslator<'a> {
    /// The offer as the agent reported it.
    pub(crate) offered: &'a SessionOffer,
    /// The agent's version.
    pub(crate) agent: ProtocolVersion,
    pub(crate) client: &'a ClientFacts,
}

/// A client's choice, as a request to the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SettingRequest<'a> {
    pub(crate) method: &'static str,
    pub(crate) params: Cow<'a, str>,
}

/// The choice that the session does not have, and the valid ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum UnknownSetting {
    Option(Vec<Box<str>>),
    Value(Vec<Box<str>>),
}

impl<'a> SettingRequest<'a> {
    /// The request for a model, in version 1.
    pub(crate) fn of_model(params: &'a str) -> Self {
        Self { method: SET_MODEL, params: params.into() }
    }
}

impl From<TranslatedCall> for SettingRequest<'_> {
    fn from(call: TranslatedCall) -> Self {
        Self { method: call.method, params: call.params.into_string().into() }
    }
}

impl<'a> OfferTranslator<'a> {
    /// The members for a setup reply, as an object. A version 1 client of a version 2 agent also gets an update with
    /// the commands.
    pub(crate) fn setup(self) -> (String, Option<UpdateBody>) {
        let result = as_result(self.offered);
        match (self.agent, self.client.protocol) {
            (V1, V2) => {
                let translated = UpdatesToV2::new().setup_answer(&result);
                let commands = self.offered.commands.as_deref().and_then(commands_to_v2);
                let translated = match commands {
                    Some(commands) => json::set(&translated, &["availableCommands"], &commands),
                    None => json::remove(&translated, &["availableCommands"]),
                };
                (translated.unwrap_or_else(|| UpdatesToV2::new().setup_answer(&result).into()), None)
            }
            (V2, V1) => {
                let translated = UpdatesToV1::new().setup_answer(&result);
                let commands = translated.commands.and_then(|update| UpdateBody::from_json(update).ok());
                (self.shown(&translated.result).into_owned(), commands)
            }
            (V1, V1) => {
                // Version 1 reports commands in an update.
                let translated = json::remove(&result, &["availableCommands"]).unwrap_or(result);
                (self.shown(&translated).into_owned(), None)
            }
            (V2, V2) => (self.shown(&result).into_owned(), None),
        }
    }

    /// The request that sets the mode.
    pub(crate) fn set_mode(self, params: &'a str) -> Result<SettingRequest<'a>, TranslationError> {
        match self.agent {
            V1 => Ok(SettingRequest { method: "session/set_mode", params: params.into() }),
            V2 => Ok(self.v1_translator().set_mode(params)?.into()),
        }
    }

    /// The request that sets an option.
    pub(crate) fn set_option(self, params: &'a str) -> Result<SettingRequest<'a>, TranslationError> {
        let method = "session/set_config_option";
        match (self.agent, self.client.protocol) {
            (V1, V2) => Ok(request_to_v1(method, params)?.into()),
            (V2, V1) => Ok(request_to_v2(method, params)?.into()),
            (V1, V1) | (V2, V2) => Ok(SettingRequest { method, params: params.into() }),
        }
    }

    /// Whether the session has the chosen value. Unreadable offers, and methods that the session does not offer at all,
    /// are left to the agent.
    pub(crate) fn check(self, choice: &SettingRequest<'_>) -> Result<(), UnknownSetting> {
        if choice.method == "session/set_mode" {
            let is_named = member(&choice.params, "modeId").is_some_and(|mode| mode.starts_with('"'));
            return match settings::modes(self.offered) {
                Some(modes) => fits(&modes, choice),
                None if is_named => Ok(()),
                // The value of the version 2 mode option is always a string.
                None => Err(UnknownSetting::Option(Vec::new())),
            };
        }
        if choice.method == SET_MODEL {
            return match settings::models(self.offered) {
                Some(models) => fits(&models, choice),
                None if self.client.protocol == V1 => Ok(()),
                None => Err(UnknownSetting::Option(self.own_options())),
            };
        }
        let Some(options) = settings::options(self.offered, self.agent) else {
            // For a version 2 client, modes and models are the only options.
            let own = self.own_options();
            return if own.is_empty() { Ok(()) } else { Err(UnknownSetting::Option(own)) };
        };
        let wanted: Option<String> =
            member(&choice.params, "configId").and_then(|id| serde_json::from_str(id).ok());
        if let Some(option) = options.iter().find(|option| option.name.option() == wanted.as_deref()) {
            return fits(option, choice);
        }
        let ids = options.iter().filter_map(|option| option.name.option()).map(Into::into);
        Err(UnknownSetting::Option(self.own_options().into_iter().chain(ids).collect()))
    }

    /// The option ids under which a version 2 client sees an agent's separate modes and models.
    fn own_options(self) -> Vec<Box<str>> {
        let own = [(&self.offered.modes, MODE_OPTION), (&self.offered.models, MODEL_OPTION)].into_iter();
        let is_translated = (self.agent, self.client.protocol) == (V1, V2);
        own.filter(|(translated, _)| is_translated && translated.is_some()).map(|(_, id)| id.into()).collect()
    }

    /// The reply to a client that set a mode, from the agent's result.
    pub(crate) fn mode_answer(self, result: &str) -> String {
        let translated = match self.agent {
            V1 => result.to_owned(),
            V2 => self.v1_translator().mode_answer(result).into(),
        };
        // A result is an object, never null.
        if translated.trim_ascii_start().starts_with('{') { translated } else { "{}".to_owned() }
    }

    /// The reply to a client that set an option, from the agent's result for this choice.
    pub(crate) fn options_answer(self, choice: &SettingRequest<'_>, result: &str) -> String {
        match (self.agent, self.client.protocol) {
            (V1, V2) => {
                let mut translated = UpdatesToV2::new();
                translated.setup_answer(&as_result(self.offered));
                let chosen = |name| member(&choice.params, name).and_then(|id| serde_json::from_str(id).ok());
                let chosen: Option<String> = match choice.method {
                    "session/set_mode" => chosen("modeId"),
                    SET_MODEL => chosen("modelId"),
                    _ => None,
                };
                match chosen {
                    Some(model) if choice.method == SET_MODEL => translated.model_answer(&model).into(),
                    Some(mode) => translated.mode_answer(&mode).into(),
                    None => translated.options_answer(result).into(),
                }
            }
            (V2, V1) => self.shown(&self.v1_translator().options_answer(result)).into_owned(),
            (V1, V1) | (V2, V2) => self.shown(result).into_owned(),
        }
    }

    /// The reply without options that the client cannot show.
    fn shown(self, text: &str) -> Cow<'_, str> {
        if self.client.boolean_options {
            return text.into();
        }
        let Some((list, fewer)) = without_booleans(text) else { return text.into() };
        json::replace(text, list, &fewer).into()
    }

    fn v1_translator(self) -> UpdatesToV1 {
        let mut translated = UpdatesToV1::new();
        translated.setup_answer(&as_result(self.offered));
        translated
    }
}

/// The offer in the form of a setup result: the agent's own result with later changes merged in. It has no `sessionId`;
/// the caller adds it.
pub(crate) fn as_result(offered: &SessionOffer) -> String {
    let SessionOffer { modes, models, config_options, commands, setup } = offered;
    let setup = setup.as_deref().unwrap_or("{}");
    let mut result = json::remove(setup, &["sessionId"]).unwrap_or_else(|| setup.to_owned());
    let parts = [
        ("modes", modes),
        ("models", models),
        ("configOptions", config_options),
        ("availableCommands", commands),
    ];
    for (name, part) in parts {
        // A result with a duplicate member stays unchanged.
        if let Some(translated) = part.as_ref().and_then(|part| json::set(&result, &[name], part)) {
            result = translated;
        }
    }
    result
}

/// Whether a setting can have the chosen value.
fn fits(offered: &OfferedSetting, choice: &SettingRequest<'_>) -> Result<(), UnknownSetting> {
    let chosen = settings::chosen(choice.method, &choice.params);
    match (&offered.choices, chosen) {
        (Choices::Unknown, _) => Ok(()),
        (_, Some(chosen)) if offered.can_be(&chosen.value) => Ok(()),
        (Choices::Of(choices), _) => Err(UnknownSetting::Value(choices.clone())),
        (Choices::Flag, _) => Err(UnknownSetting::Value(vec!["true".into(), "false".into()])),
    }
}

fn commands_to_v2(commands: &str) -> Option<String> {
    let update = format!(r#"{{"sessionUpdate":"available_commands_update","availableCommands":{commands}}}"#);
    let translated = UpdatesToV2::new().update(&update, "");
    Some(member(translated.first()?, "availableCommands")?.to_owned())
}

fn member<'t>(object: &'t str, name: &str) -> Option<&'t str> {
    json::get(object, &[name])
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const MODES: &str =
        r#"{"currentModeId":"a","availableModes":[{"id":"a","name":"A"},{"id":"b","name":"B"}]}"#;
    const OPTIONS_V1: &str = r#"[{"id":"m","name":"M","type":"select","currentValue":"x","options":[{"value":"x","name":"X"}]},{"id":"f","name":"F","type":"boolean","currentValue":true}]"#;

    fn client(protocol: ProtocolVersion) -> ClientFacts {
        ClientFacts { protocol, boolean_options: protocol == V2, ..ClientFacts::default() }
    }

    fn value(json: &str) -> Value {
        serde_json::from_str(json).unwrap()
    }

    fn mode_option(current: &str) -> Value {
        json!({
            "configId": "acpx.mode", "name": "Mode", "category": "mode", "type": "select",
            "currentValue": current,
            "options": [{ "value": "a", "name": "A" }, { "value": "b", "name": "B" }],
        })
    }

    #[test]
    fn v1_modes_are_an_option_for_a_v2_client() {
        let commands = Some(r#"[{"name":"fix","description":"mend"}]"#.into());
        let setup = Some(r#"{"sessionId":"s","_meta":{"w":1.0},"availableCommands":[]}"#.into());
        let offered = SessionOffer { modes: Some(MODES.into()), commands, setup, ..SessionOffer::default() };
        let client = client(V2);
        let offers = OfferTranslator { offered: &offered, agent: V1, client: &client };
        let (setup, afterwards) = offers.setup();
        let command = json!([{ "type": "command", "name": "fix", "description": "mend" }]);
        let expected = json!({
            "configOptions": [mode_option("a")], "availableCommands": command, "_meta": { "w": 1.0 },
        });
        assert_eq!((value(&setup), afterwards), (expected, None));

        let params = r#"{"sessionId":"s","configId":"acpx.mode","type":"id","value":"b"}"#;
        let choice = offers.set_option(params).unwrap();
        assert_eq!(
            (choice.method, &*choice.params),
            ("session/set_mode", r#"{"sessionId":"s","modeId":"b"}"#)
        );
        let answer: Value = serde_json::from_str(&offers.options_answer(&choice, "{}")).unwrap();
        assert_eq!(answer, json!({ "configOptions": [mode_option("b")] }));

        // The error names the wrong part: the value of an existing option, or its type.
        let check = |offers: OfferTranslator<'_>, rest: &str| {
            let params = format!(r#"{{"sessionId":"s","configId":"acpx.mode",{rest}}}"#);
            let choice = offers.set_option(&params).map_err(|error| error.field())?;
            Ok(offers.check(&choice))
        };
        let modes = vec!["a".into(), "b".into()];
        assert_eq!(check(offers, r#""type":"boolean","value":true"#), Ok(Err(UnknownSetting::Value(modes))));
        assert_eq!(check(offers, r#""type":"_w","value":"b""#), Err(Some("type".to_owned())));
        let other = r#"{"configId":"other","type":"id","value":"b"}"#;
        let there = vec!["acpx.mode".into()];
        assert_eq!(offers.check(&offers.set_option(other).unwrap()), Err(UnknownSetting::Option(there)));
        let nothing = SessionOffer::default();
        let without = OfferTranslator { offered: &nothing, ..offers };
        assert_eq!(
            check(without, r#""type":"boolean","value":true"#),
            Ok(Err(UnknownSetting::Option(Vec::new())))
        );
    }

    #[test]
    fn v1_models_are_an_option_for_a_v2_client() {
        let option = |current: &str| {
            json!({
                "configId": "acpx.model", "name": "Model", "category": "model", "type": "select",
                "currentValue": current,
                "options": [{ "value": "x", "name": "X" }, { "value": "y", "name": "Y" }],
            })
        };
        let translated = r#"{"currentModelId":"x","availableModels":[{"modelId":"x","name":"X"},{"modelId":"y","name":"Y"}]}"#;
        let setup = Some(format!(r#"{{"sessionId":"s","models":{translated}}}"#).into());
        let modes = Some(MODES.into());
        let offered =
            SessionOffer { modes, models: Some(translated.into()), setup, ..SessionOffer::default() };
        let client = client(V2);
        let offers = OfferTranslator { offered: &offered, agent: V1, client: &client };
        let expected = json!({ "configOptions": [mode_option("a"), option("x")] });
        assert_eq!(value(&offers.setup().0), expected);

        let choose = |id: &str, model: &str| {
            let params = json!({ "sessionId": "s", "configId": id, "type": "id", "value": model });
            let params = params.to_string();
            let choice = offers.set_option(&params).unwrap();
            SettingRequest { method: choice.method, params: choice.params.into_owned().into() }
        };
        let choice = choose("acpx.model", "y");
        let asked = (choice.method, value(&choice.params));
        assert_eq!(asked, ("session/set_model", json!({ "sessionId": "s", "modelId": "y" })));
        assert_eq!(offers.check(&choice), Ok(()));
        let answer = value(&offers.options_answer(&choice, "{}"));
        assert_eq!(answer, json!({ "configOptions": [mode_option("a"), option("y")] }));
        let none = choose("acpx.model", "z");
        assert_eq!(offers.check(&none), Err(UnknownSetting::Value(vec!["x".into(), "y".into()])));
        let there = vec!["acpx.mode".into(), "acpx.model".into()];
        assert_eq!(offers.check(&choose("other", "y")), Err(UnknownSetting::Option(there)));

        // The agent's own model option is the one that is offered.
        let own = json!([{ "id": "m", "name": "M", "category": "model", "type": "select",
                           "currentValue": "x", "options": [] }]);
        let config_options = Some(own.to_string().into());
        let both = SessionOffer { config_options, ..offered.clone() };
        let translated = value(&OfferTranslator { offered: &both, ..offers }.setup().0);
        let ids: Vec<&Value> =
            translated["configOptions"].as_array().unwrap().iter().map(|row| &row["configId"]).collect();
        assert_eq!(ids, ["acpx.mode", "m"]);
    }

    #[test]
    fn v2_mode_option_becomes_the_modes_of_a_v1_client() {
        let options = json!([mode_option("a")]).to_string().replace("acpx.mode", "mode");
        let commands = Some(r#"[{"type":"command","name":"fix","description":"mend"}]"#.into());
        let config_options = Some(options.as_str().into());
        let offered = SessionOffer { config_options, commands, ..SessionOffer::default() };
        let client = client(V1);
        let offers = OfferTranslator { offered: &offered, agent: V2, client: &client };
        let (setup, afterwards) = offers.setup();
        assert_eq!(value(&setup)["modes"], value(MODES));
        let translated = r#"{"sessionUpdate":"available_commands_update","availableCommands":[{"name":"fix","description":"mend"}]}"#;
        assert_eq!(afterwards.map(|update| update.as_json().to_owned()).as_deref(), Some(translated));

        let choice = offers.set_mode(r#"{"sessionId":"s","modeId":"b"}"#).unwrap();
        let expected = json!({ "sessionId": "s", "configId": "mode", "type": "id", "value": "b" });
        let params: Value = serde_json::from_str(&choice.params).unwrap();
        assert_eq!((choice.method, params), ("session/set_config_option", expected));
        let nothing = SessionOffer::default();
        assert!(OfferTranslator { offered: &nothing, ..offers }.set_mode(r#"{"modeId":"b"}"#).is_err());
    }

    #[test]
    fn same_version_setup_keeps_its_bytes_except_unsupported_options() {
        let setup = |commands: &str| {
            format!(
                r#"{{ "n":1.0e2,{commands}"modes":{MODES} ,"models":{{"x":[ ]}},"configOptions":{OPTIONS_V1}}}"#
            )
        };
        let translated = Some(format!(r#"{{"sessionId":"s",{}"#, &setup("")[2..]).into());
        let commands = Some("[ ]".into());
        let offered = SessionOffer {
            modes: Some(MODES.into()),
            config_options: Some(OPTIONS_V1.into()),
            commands,
            setup: translated,
            ..SessionOffer::default()
        };
        let shows_all = ClientFacts { boolean_options: true, ..client(V1) };
        let (translated, _) = OfferTranslator { offered: &offered, agent: V1, client: &shows_all }.setup();
        assert_eq!(translated, setup("").replacen("{ ", "{", 1));
        let new = client(V2);
        let (translated, _) = OfferTranslator { offered: &offered, agent: V2, client: &new }.setup();
        assert_eq!(
            translated,
            setup(r#""availableCommands":[ ],"#).replacen("{ ", "{", 1).replacen(
                r#""n":1.0e2,"availableCommands":[ ]"#,
                r#""availableCommands":[ ],"n":1.0e2"#,
                1
            )
        );
        let plain = client(V1);
        let offers = OfferTranslator { offered: &offered, agent: V1, client: &plain };
        let fewer = json!([value(OPTIONS_V1)[0]]);
        assert_eq!(value(&offers.setup().0)["configOptions"], fewer);
        let params = r#"{"n":1.0e2,"configId":"m","value":"x"}"#;
        let choice = offers.set_option(params).unwrap();
        assert_eq!((choice.method, &*choice.params), ("session/set_config_option", params));
        let result = format!(r#"{{"n":1.0e2,"configOptions":{OPTIONS_V1}}}"#);
        let answer: Value = serde_json::from_str(&offers.options_answer(&choice, &result)).unwrap();
        assert_eq!(answer, json!({ "n": 100.0, "configOptions": fewer }));
    }

    #[test]
    fn unknown_setting_is_found_before_the_request_is_sent() {
        let grouped = json!([
            { "id": "m", "name": "M", "type": "select", "currentValue": "x",
              "options": [{ "group": "g", "name": "G", "options": [{ "value": "x", "name": "X" }] }] },
            { "id": "f", "name": "F", "type": "boolean", "currentValue": true },
            { "id": "n", "name": "N", "type": "from_the_future", "currentValue": 3 },
        ]);
        let config_options = Some(grouped.to_string().into());
        let offered = SessionOffer { modes: Some(MODES.into()), config_options, ..SessionOffer::default() };
        let client = client(V1);
        let offers = OfferTranslator { offered: &offered, agent: V1, client: &client };
        let check = |method, params: Value| {
            offers.check(&SettingRequest { method, params: params.to_string().into() })
        };
        let option = |id: &str, value: Value| {
            check("session/set_config_option", json!({ "configId": id, "value": value }))
        };
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).into()).collect();
        let value = |offered: &[&str]| UnknownSetting::Value(texts(offered));
        assert_eq!(check("session/set_mode", json!({ "modeId": "b" })), Ok(()));
        assert_eq!(check("session/set_mode", json!({ "modeId": "zzz" })), Err(value(&["a", "b"])));
        assert_eq!(option("m", json!("x")), Ok(()));
        assert_eq!(option("m", json!("y")), Err(value(&["x"])));
        assert_eq!(option("f", json!(false)), Ok(()));
        assert_eq!(option("f", json!("x")), Err(value(&["true", "false"])));
        assert_eq!(option("n", json!([])), Ok(()));
        assert_eq!(option("o", json!("x")), Err(UnknownSetting::Option(texts(&["m", "f", "n"]))));
        let nothing = SessionOffer::default();
        let offers = OfferTranslator { offered: &nothing, ..offers };
        let choice = SettingRequest { method: "session/set_mode", params: r#"{"modeId":"b"}"#.into() };
        assert_eq!(offers.check(&choice), Ok(()));
        assert_eq!(offers.mode_answer(r#"{ "_meta":{"m":1.0}}"#), r#"{ "_meta":{"m":1.0}}"#);
        assert_eq!(offers.mode_answer("null"), "{}");
    }
}
