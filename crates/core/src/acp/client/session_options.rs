//! The current modes, models, options and commands of a session, each as the agent last reported it.
//!
//! A client that attaches later must receive the same as the one that created the session. So this module reads every
//! message that reports them: setup results, updates, and results of changes. It also keeps the whole setup result, so
//! that unknown members reach clients too.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::acp::content::UpdateParams;
use crate::acp::settings::{self, option_id};
use crate::model::{ProtocolVersion, SettingValue};
use crate::wire::encode::json_string;
use crate::wire::json;

/// Maximum size of a remembered list, in bytes. A longer one is stored and forwarded like any update, and clients that
/// attach later receive the previous list.
const LIST_BYTES: usize = 1 << 20;
/// Maximum size of the remembered setup result, in bytes.
const SETUP_BYTES: usize = 2 << 20;
/// The start of the `_meta` of an update that reports the current model.
const MODEL_META: &str = r#","_meta":{"acpx":{"currentModelId":"#;

/// What a session offers, as raw JSON; `None` if the agent does not offer it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionOffer {
    /// `modes`: the current mode and all modes.
    pub modes: Option<Box<str>>,
    /// `models`: the current model and all models, if the agent reports them separately from its options.
    pub models: Option<Box<str>>,
    /// `configOptions`: every option with its value.
    pub config_options: Option<Box<str>>,
    /// `availableCommands`.
    pub commands: Option<Box<str>>,
    /// The result of the last setup request, a JSON object.
    pub setup: Option<Box<str>>,
}

#[derive(Deserialize)]
struct SetupView<'a> {
    #[serde(borrow, default)]
    modes: Option<&'a RawValue>,
    #[serde(borrow, default)]
    models: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "configOptions")]
    config_options: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "availableCommands")]
    commands: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct OfferUpdateView<'a> {
    #[serde(borrow, rename = "sessionUpdate")]
    kind: Cow<'a, str>,
    #[serde(borrow, default, rename = "currentModeId")]
    mode: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "configOptions")]
    config_options: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "availableCommands")]
    commands: Option<&'a RawValue>,
}

impl SessionOffer {
    /// The offer after the result of `session/new`, `session/fork`, `session/load` or `session/resume`; `None` if the
    /// result is not an object.
    pub(super) fn after_setup(&self, result: &str) -> Option<Self> {
        let sent: SetupView<'_> = serde_json::from_str(result).ok()?;
        let is_stored = result.trim_ascii().starts_with('{') && result.len() <= SETUP_BYTES;
        let setup = is_stored.then(|| result.into());
        let models = sent.models.filter(|models| models.get().len() <= LIST_BYTES);
        let models = models.map(|models| models.get().into()).or_else(|| self.models.clone());
        let sent =
            self.with_lists(sent.modes, sent.config_options, sent.commands).unwrap_or_else(|| self.clone());
        Some(Self { models, setup, ..sent })
    }

    /// The offer after the result of `session/set_config_option`. A result without options means that the option has
    /// the requested value; `option` and `value` are JSON. The error describes what is wrong with the result.
    pub(super) fn after_choice(
        &self,
        result: &str,
        option: &str,
        value: &str,
        version: ProtocolVersion,
    ) -> Result<Option<Self>, &'static str> {
        if !matches!(result.trim_ascii().as_bytes().first(), Some(b'{' | b'n')) {
            return Err("the result is no object");
        }
        let sent: Option<SetupView<'_>> =
            serde_json::from_str(result).map_err(|_| "the result cannot be read")?;
        let sent = sent.and_then(|sent| Some((sent.config_options?, sent)));
        let changed = match sent {
            None => self.with_value(option, value, version),
            Some((options, sent)) => {
                json::items(options.get()).ok_or("configOptions is no list")?;
                self.with_lists(sent.modes, Some(options), sent.commands)
            }
        };
        Ok(changed.map(Self::with_model_of_option))
    }

    /// The offer after a successful `session/set_model`; the model is JSON. An option that offers this model changes
    /// too.
    pub(super) fn with_model(&self, model: &str) -> Option<Self> {
        let then = Self { models: Some(self.models_at(model)?), ..self.clone() };
        let id = SettingValue::Id(serde_json::from_str(model).ok()?);
        let offered = settings::offered(&then, ProtocolVersion::V1);
        let option =
            offered.model().filter(|option| option.can_be(&id)).and_then(|option| option.name.option());
        let shown = option.and_then(|id| then.with_value(&json_string(id), model, ProtocolVersion::V1));
        Some(shown.unwrap_or(then))
    }

    /// Copies the model from the model option into `models`, if it is one of them.
    fn with_model_of_option(self) -> Self {
        let shown = || {
            let models = settings::models(&self)?;
            let offered = settings::offered(&self, ProtocolVersion::V1);
            let shown = offered.model()?.value.clone().filter(|shown| models.can_be(shown))?;
            self.models_at(&json_string(&shown.to_string()))
        };
        let models = shown().or_else(|| self.models.clone());
        Self { models, ..self }
    }

    /// The models with this current model, which is JSON.
    fn models_at(&self, model: &str) -> Option<Box<str>> {
        let models = self.models.as_deref()?;
        Some(json::replace(models, json::get(models, &["currentModelId"])?, model).into())
    }

    /// The offer with another value of an option; `None` if there is no such option.
    fn with_value(&self, option: &str, value: &str, version: ProtocolVersion) -> Option<Self> {
        let options = self.config_options.as_deref()?;
        let name = option_id(version);
        let wanted = json::string(option)?;
        let is_wanted = |row: &&str| json::get(row, &[name]).and_then(json::string).as_ref() == Some(&wanted);
        let row = json::items(options)?.into_iter().find(is_wanted)?;
        let options = json::replace(options, json::get(row, &["currentValue"])?, value);
        Some(Self { config_options: Some(options.into()), ..self.clone() })
    }

    /// The offer after the params of a `session/update`.
    pub(super) fn after_update(&self, params: &str) -> Option<Self> {
        // A cheap search: most updates are of other kinds and need not be parsed.
        memchr::memmem::find(params.as_bytes(), b"_update\"")?;
        let UpdateParams::<OfferUpdateView<'_>> { update } = serde_json::from_str(params).ok()?;
        match &*update.kind {
            "current_mode_update" => self.in_mode(update.mode?.get()),
            "config_option_update" => {
                Some(self.with_lists(None, update.config_options, None)?.with_model_of_option())
            }
            "available_commands_update" => self.with_lists(None, None, update.commands),
            _ => None,
        }
    }

    /// The `update` that reports the change to `then`; `None` if there is none.
    pub(super) fn update_to(&self, then: &Self) -> Option<String> {
        if then.modes != self.modes {
            let modes = then.modes.as_deref()?;
            let mode = json::get(modes, &["currentModeId"])?;
            return Some(format!(r#"{{"sessionUpdate":"current_mode_update","currentModeId":{mode}}}"#));
        }
        let options = then.config_options.as_deref();
        let update = |options: &str, meta: &str| {
            Some(format!(r#"{{"sessionUpdate":"config_option_update","configOptions":{options}{meta}}}"#))
        };
        if then.config_options != self.config_options {
            return update(options?, "");
        }
        let models = then.models.as_deref().filter(|_| then.models != self.models)?;
        let model = json::get(models, &["currentModelId"])?;
        update(options.unwrap_or("[]"), &format!("{MODEL_META}{model}}}}}"))
    }

    /// Whether an update of ours reports only the model. Version 1 has no such update, so only version 2 clients
    /// receive it.
    pub(crate) fn tells_model_alone(update: &str) -> bool {
        memchr::memmem::find(update.as_bytes(), MODEL_META.as_bytes()).is_some()
    }

    /// The offer with another current mode, whose id is JSON.
    pub(super) fn in_mode(&self, mode: &str) -> Option<Self> {
        let modes = self.modes.as_deref()?;
        let modes = json::replace(modes, json::get(modes, &["currentModeId"])?, mode);
        Some(Self { modes: Some(modes.into()), ..self.clone() })
    }

    fn with_lists(
        &self,
        modes: Option<&RawValue>,
        config_options: Option<&RawValue>,
        commands: Option<&RawValue>,
    ) -> Option<Self> {
        // Without any of them nothing changes.
        modes.or(config_options).or(commands)?;
        let newer = |sent: Option<&RawValue>, known: &Option<Box<str>>| {
            let sent = sent.filter(|sent| sent.get().len() <= LIST_BYTES);
            sent.map(|sent| sent.get().into()).or_else(|| known.clone())
        };
        Some(Self {
            modes: newer(modes, &self.modes),
            models: self.models.clone(),
            config_options: newer(config_options, &self.config_options),
            commands: newer(commands, &self.commands),
            setup: self.setup.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(parts: [Option<&str>; 3]) -> SessionOffer {
        let [modes, config_options, commands] = parts.map(|part| part.map(Into::into));
        SessionOffer { modes, models: None, config_options, commands, setup: None }
    }

    #[test]
    fn last_reported_options_are_offered_byte_for_byte() {
        let update = |text: &str| format!(r#"{{"sessionId":"s","update":{text}}}"#);
        let nothing = SessionOffer::default();
        let result =
            r#"{"sessionId":"s","modes":{"currentModeId" : "a","availableModes":[ ]},"configOptions":[1.0]}"#;
        let set_up = nothing.after_setup(result).unwrap();
        assert_eq!(set_up.setup.as_deref(), Some(result));
        assert_eq!(
            set_up.after_setup("{}").unwrap(),
            SessionOffer { setup: Some("{}".into()), ..set_up.clone() }
        );
        assert_eq!(set_up.after_setup("null"), None);
        let begun = SessionOffer { setup: None, ..set_up };
        let modes = r#"{"currentModeId" : "a","availableModes":[ ]}"#;
        assert_eq!(begun, offered([Some(modes), Some("[1.0]"), None]));
        let cases = [
            (
                r#"{"sessionUpdate":"current_mode_update","currentModeId":"b"}"#,
                Some(offered([Some(r#"{"currentModeId" : "b","availableModes":[ ]}"#), Some("[1.0]"), None])),
            ),
            (
                r#"{"sessionUpdate":"config_option_update","configOptions":[2]}"#,
                Some(offered([Some(modes), Some("[2]"), None])),
            ),
            (
                r#"{"sessionUpdate":"available_commands_update","availableCommands":[{"name":"x"}]}"#,
                Some(offered([Some(modes), Some("[1.0]"), Some(r#"[{"name":"x"}]"#)])),
            ),
            (r#"{"sessionUpdate":"config_option_update","configOptions":null}"#, None),
            (r#"{"sessionUpdate":"agent_message_chunk","configOptions":[]}"#, None),
            ("7", None),
        ];
        for (text, expected) in cases {
            assert_eq!(begun.after_update(&update(text)), expected, "{text}");
        }
    }

    #[test]
    fn option_change_is_rendered_like_an_update_of_the_agent() {
        let before = offered([Some(r#"{"currentModeId" : "a"}"#), Some("[1.0]"), None]);
        let mode = r#"{"sessionUpdate":"current_mode_update","currentModeId":"b"}"#;
        assert_eq!(before.update_to(&before.in_mode(r#""b""#).unwrap()).as_deref(), Some(mode));
        let options = r#"{"sessionUpdate":"config_option_update","configOptions":[ 2]}"#;
        let sent = before.after_choice(r#"{"configOptions":[ 2]}"#, r#""x""#, "1", ProtocolVersion::V1);
        let after = sent.unwrap().unwrap();
        assert_eq!(before.update_to(&after).as_deref(), Some(options));
        assert_eq!(before.update_to(&before), None);
    }

    #[test]
    fn set_model_changes_the_models_and_an_option_that_offers_the_same() {
        let models = |current: &str| {
            format!(
                r#"{{"currentModelId" : "{current}","availableModels":[{{"modelId":"x"}},{{"modelId":"y"}}]}}"#
            )
        };
        let option = |current: &str| {
            format!(
                r#"[{{"id":"m","category":"model","type":"select","currentValue":"{current}","options":[{{"value":"x"}},{{"value":"y"}}]}}]"#
            )
        };
        let result = format!(r#"{{"sessionId":"s","models":{}}}"#, models("x"));
        let begun = SessionOffer { setup: None, ..SessionOffer::default().after_setup(&result).unwrap() };
        let with = |model: &str, options: Option<String>| SessionOffer {
            models: Some(models(model).into()),
            config_options: options.map(Into::into),
            ..SessionOffer::default()
        };
        assert_eq!(begun, with("x", None));
        let then = begun.with_model(r#""y""#).unwrap();
        assert_eq!(then, with("y", None));
        let update = r#"{"sessionUpdate":"config_option_update","configOptions":[],"_meta":{"acpx":{"currentModelId":"y"}}}"#;
        assert_eq!(begun.update_to(&then).as_deref(), Some(update));
        assert!(SessionOffer::tells_model_alone(update));

        let both = with("x", Some(option("x")));
        let changed = with("y", Some(option("y")));
        assert_eq!(both.with_model(r#""y""#).as_ref(), Some(&changed));
        let chosen = both.after_choice("{}", r#""m""#, r#""y""#, ProtocolVersion::V1);
        assert_eq!(chosen, Ok(Some(changed.clone())));
        let sent = format!(r#"{{"sessionUpdate":"config_option_update","configOptions":{}}}"#, option("y"));
        assert_eq!(both.update_to(&changed).as_deref(), Some(sent.as_str()));
        assert_eq!(both.after_update(&format!(r#"{{"sessionId":"s","update":{sent}}}"#)), Some(changed));
        assert_eq!(SessionOffer::default().with_model(r#""y""#), None);
    }

    #[test]
    fn set_option_result_without_options_applies_the_value() {
        let options = |value: &str| {
            format!(
                r#"[7,{{"id":"a","configId":"x","currentValue":1}},{{"id":"b","configId":"a","currentValue" : {value} }}]"#
            )
        };
        let begun = offered([None, Some(&options(r#""low""#)), None]);
        let set =
            |version, option: &str, result: &str| begun.after_choice(result, option, r#""high""#, version);
        let done = offered([None, Some(&options(r#""high""#)), None]);
        for nothing in ["{}", "null", r#"{"configOptions":null,"_meta":{}}"#] {
            assert_eq!(set(ProtocolVersion::V1, r#""b""#, nothing), Ok(Some(done.clone())), "{nothing}");
            assert_eq!(set(ProtocolVersion::V2, r#""a""#, nothing), Ok(Some(done.clone())), "{nothing}");
            assert_eq!(set(ProtocolVersion::V1, r#""c""#, nothing), Ok(None), "{nothing}");
        }
        let listed = Ok(Some(offered([None, Some("[ 2]"), None])));
        assert_eq!(set(ProtocolVersion::V1, r#""b""#, r#"{"configOptions":[ 2]}"#), listed);
        for (broken, problem) in [
            (r#"{"configOptions":"x"}"#, "configOptions is no list"),
            (r#"{"configOptions":{}}"#, "configOptions is no list"),
            ("7", "the result is no object"),
            (r#"["x"]"#, "the result is no object"),
        ] {
            assert_eq!(set(ProtocolVersion::V1, r#""b""#, broken), Err(problem), "{broken}");
        }
    }

    #[test]
    fn modes_options_and_commands_that_are_too_long_are_not_remembered() {
        let begun = offered([Some(r#"{"currentModeId":"a"}"#), Some("[1]"), Some("[2]")]);
        let long = format!("[{:?}]", "x".repeat(LIST_BYTES));
        let options = format!(r#"{{"sessionUpdate":"config_option_update","configOptions":{long}}}"#);
        let commands =
            format!(r#"{{"sessionUpdate":"available_commands_update","availableCommands":{long}}}"#);
        for update in [options, commands] {
            assert_eq!(begun.after_update(&format!(r#"{{"update":{update}}}"#)), Some(begun.clone()));
        }
        let result = format!(r#"{{"modes":{long},"configOptions":{long}}}"#);
        assert_eq!(begun.after_setup(&result), Some(begun));
    }

    #[test]
    fn a_mode_of_an_agent_without_modes_is_none() {
        let update = r#"{"update":{"sessionUpdate":"current_mode_update","currentModeId":"b"}}"#;
        assert_eq!(SessionOffer::default().after_update(update), None);
    }
}
