//! What a session offers, for a client that speaks another version of the protocol than its agent: in the answers that
//! tell of it, and when the client chooses from it. Between peers of one version every byte goes through.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::agent::{ClientFacts, RawSetup, UpdateBody};
use super::client::Offered;
use super::render::without_booleans;
use super::translate::{Call, Untranslatable, UpdatesToV1, UpdatesToV2, request_to_v1, request_to_v2};
use crate::model::ProtocolVersion::{self, V1, V2};
use crate::wire::splice::{Splice, Step, locate, range_in};

/// What a session offers, between its agent and one client.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Offers<'a> {
    /// As the agent told it.
    pub(crate) offered: &'a Offered,
    /// The agent's version.
    pub(crate) agent: ProtocolVersion,
    pub(crate) client: &'a ClientFacts,
}

/// A client's choice as its agent is asked for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choice<'a> {
    pub(crate) method: &'static str,
    pub(crate) params: Cow<'a, str>,
}

impl From<Call> for Choice<'_> {
    fn from(call: Call) -> Self {
        Self { method: call.method, params: call.params.into_string().into() }
    }
}

impl<'a> Offers<'a> {
    /// What stands in the answer that sets a session up, and the update that tells a client of version 1 the commands of
    /// an agent whose updates do not.
    pub(crate) fn setup(self) -> (RawSetup, Option<UpdateBody>) {
        let Offered { modes, config_options, commands } = self.offered;
        match (self.agent, self.client.protocol) {
            (V1, V2) => {
                let told = UpdatesToV2::new().setup_answer(&as_result(self.offered));
                let commands = commands.as_deref().and_then(commands_to_v2);
                let raw = RawSetup {
                    modes: None,
                    config_options: member(&told, "configOptions").and_then(raw),
                    commands: commands.as_deref().and_then(raw),
                };
                (raw, None)
            }
            (V2, V1) => {
                let told = UpdatesToV1::new().setup_answer(&as_result(self.offered));
                let result = self.shown(&told.result);
                let (modes, config_options) = (member(&result, "modes"), member(&result, "configOptions"));
                let commands = told.commands.and_then(|update| UpdateBody::from_json(update).ok());
                let raw = RawSetup {
                    modes: modes.and_then(raw),
                    config_options: config_options.and_then(raw),
                    commands: None,
                };
                (raw, commands)
            }
            (V1, V1) | (V2, V2) => {
                let text = |part: &Option<Box<str>>| part.as_deref().and_then(raw);
                let options = as_result(self.offered);
                let options = member(&options, "configOptions").map(|_| self.shown(&options));
                let shown = options.as_deref().and_then(|shown| member(shown, "configOptions")).and_then(raw);
                let config_options = shown.or_else(|| text(config_options));
                (RawSetup { modes: text(modes), config_options, commands: text(commands) }, None)
            }
        }
    }

    /// The request that puts the session into a mode.
    pub(crate) fn set_mode(self, params: &'a str) -> Result<Choice<'a>, Untranslatable> {
        match self.agent {
            V1 => Ok(Choice { method: "session/set_mode", params: params.into() }),
            V2 => Ok(self.told_to_v1().set_mode(params)?.into()),
        }
    }

    /// The request that sets an option.
    pub(crate) fn set_option(self, params: &'a str) -> Result<Choice<'a>, Untranslatable> {
        let method = "session/set_config_option";
        match (self.agent, self.client.protocol) {
            (V1, V2) => Ok(request_to_v1(method, params)?.into()),
            (V2, V1) => Ok(request_to_v2(method, params)?.into()),
            (V1, V1) | (V2, V2) => Ok(Choice { method, params: params.into() }),
        }
    }

    /// The answer to a client that set an option, from the agent's answer to this choice of it.
    pub(crate) fn options_answer(self, choice: &Choice<'_>, result: &str) -> String {
        match (self.agent, self.client.protocol) {
            (V1, V2) => {
                let mut told = UpdatesToV2::new();
                told.setup_answer(&as_result(self.offered));
                let mode = member(&choice.params, "modeId").and_then(|mode| serde_json::from_str(mode).ok());
                match mode.filter(|_: &String| choice.method == "session/set_mode") {
                    Some(mode) => told.mode_answer(&mode).into(),
                    None => told.options_answer(result).into(),
                }
            }
            (V2, V1) => self.shown(&self.told_to_v1().options_answer(result)).into_owned(),
            (V1, V1) | (V2, V2) => self.shown(result).into_owned(),
        }
    }

    /// The answer or update without the options that the client cannot show.
    fn shown(self, text: &str) -> Cow<'_, str> {
        if self.client.boolean_options {
            return text.into();
        }
        let Some((list, fewer)) = without_booleans(text) else { return text.into() };
        let mut splice = Splice::new(text);
        // The list lies in the text, and nothing else is replaced.
        drop(splice.replace(range_in(text, list), &fewer));
        splice.finish().into()
    }

    fn told_to_v1(self) -> UpdatesToV1 {
        let mut told = UpdatesToV1::new();
        told.setup_answer(&as_result(self.offered));
        told
    }
}

/// What is offered, as the result of a setup request says it.
pub(crate) fn as_result(offered: &Offered) -> String {
    let Offered { modes, config_options, commands } = offered;
    let parts = [("modes", modes), ("configOptions", config_options), ("availableCommands", commands)];
    let members =
        parts.into_iter().filter_map(|(name, part)| Some(format!(r#""{name}":{}"#, part.as_ref()?)));
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

fn commands_to_v2(commands: &str) -> Option<String> {
    let update = format!(r#"{{"sessionUpdate":"available_commands_update","availableCommands":{commands}}}"#);
    let told = UpdatesToV2::new().update(&update, "");
    Some(member(told.first()?, "availableCommands")?.to_owned())
}

fn member<'t>(object: &'t str, name: &str) -> Option<&'t str> {
    object.get(locate(object, &[Step::Key(name)])?)
}

fn raw(json: &str) -> Option<Box<RawValue>> {
    RawValue::from_string(json.to_owned()).ok()
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

    fn value(raw: Option<Box<RawValue>>) -> Value {
        raw.map_or(Value::Null, |raw| serde_json::from_str(raw.get()).unwrap())
    }

    fn mode_option(current: &str) -> Value {
        json!({
            "configId": "acpx.mode", "name": "Mode", "category": "mode", "type": "select",
            "currentValue": current,
            "options": [{ "value": "a", "name": "A" }, { "value": "b", "name": "B" }],
        })
    }

    #[test]
    fn modes_of_version_1_are_an_option_to_a_client_of_version_2_who_sets_them_as_one() {
        let commands = Some(r#"[{"name":"fix","description":"mend"}]"#.into());
        let offered = Offered { modes: Some(MODES.into()), config_options: None, commands };
        let client = client(V2);
        let offers = Offers { offered: &offered, agent: V1, client: &client };
        let (setup, afterwards) = offers.setup();
        let command = json!([{ "type": "command", "name": "fix", "description": "mend" }]);
        assert_eq!(value(setup.config_options), json!([mode_option("a")]));
        assert_eq!((setup.modes.is_none(), value(setup.commands), afterwards), (true, command, None));

        let params = r#"{"sessionId":"s","configId":"acpx.mode","type":"id","value":"b"}"#;
        let choice = offers.set_option(params).unwrap();
        assert_eq!(
            (choice.method, &*choice.params),
            ("session/set_mode", r#"{"sessionId":"s","modeId":"b"}"#)
        );
        let answer: Value = serde_json::from_str(&offers.options_answer(&choice, "{}")).unwrap();
        assert_eq!(answer, json!({ "configOptions": [mode_option("b")] }));
    }

    #[test]
    fn an_option_of_version_2_for_modes_is_the_modes_of_a_client_of_version_1() {
        let options = json!([mode_option("a")]).to_string().replace("acpx.mode", "mode");
        let commands = Some(r#"[{"type":"command","name":"fix","description":"mend"}]"#.into());
        let offered = Offered { modes: None, config_options: Some(options.as_str().into()), commands };
        let client = client(V1);
        let offers = Offers { offered: &offered, agent: V2, client: &client };
        let (setup, afterwards) = offers.setup();
        assert_eq!(value(setup.modes), serde_json::from_str::<Value>(MODES).unwrap());
        let told = r#"{"sessionUpdate":"available_commands_update","availableCommands":[{"name":"fix","description":"mend"}]}"#;
        assert_eq!(afterwards.map(|update| update.as_json().to_owned()).as_deref(), Some(told));

        let choice = offers.set_mode(r#"{"sessionId":"s","modeId":"b"}"#).unwrap();
        let expected = json!({ "sessionId": "s", "configId": "mode", "type": "id", "value": "b" });
        let params: Value = serde_json::from_str(&choice.params).unwrap();
        assert_eq!((choice.method, params), ("session/set_config_option", expected));
        let nothing = Offered::default();
        assert!(Offers { offered: &nothing, ..offers }.set_mode(r#"{"modeId":"b"}"#).is_err());
    }

    #[test]
    fn between_peers_of_one_version_every_byte_goes_through_but_what_the_client_cannot_show() {
        let offered =
            Offered { modes: Some(MODES.into()), config_options: Some(OPTIONS_V1.into()), commands: None };
        let shows_all = ClientFacts { boolean_options: true, ..client(V1) };
        let (setup, _) = Offers { offered: &offered, agent: V1, client: &shows_all }.setup();
        assert_eq!((setup.modes.unwrap().get(), setup.config_options.unwrap().get()), (MODES, OPTIONS_V1));
        let plain = client(V1);
        let offers = Offers { offered: &offered, agent: V1, client: &plain };
        let fewer = json!([serde_json::from_str::<Value>(OPTIONS_V1).unwrap()[0]]);
        assert_eq!(value(offers.setup().0.config_options), fewer);
        let params = r#"{"n":1.0e2,"configId":"m","value":"x"}"#;
        let choice = offers.set_option(params).unwrap();
        assert_eq!((choice.method, &*choice.params), ("session/set_config_option", params));
        let result = format!(r#"{{"n":1.0e2,"configOptions":{OPTIONS_V1}}}"#);
        let answer: Value = serde_json::from_str(&offers.options_answer(&choice, &result)).unwrap();
        assert_eq!(answer, json!({ "n": 100.0, "configOptions": fewer }));
    }
}
