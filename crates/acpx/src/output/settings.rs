//! Settings of a session: confirms a change, and reports a setting that could not be restored.

use std::io;

use acpx_core::model::{SessionIdentity, SettingName, SettingValue};
use acpx_core::protocol::meta::{ForgottenMeta, UnmetSettingMeta};
use serde::Serialize;
use serde_json::value::RawValue;

use super::Console;
use super::sanitize::one_line;

/// How much of a value is shown.
const LONGEST_VALUE: usize = 200;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ChoicesObject<'a> {
    config_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a str>,
    choices: &'a [String],
    #[serde(flatten)]
    identity: &'a SessionIdentity,
}

/// Writes the values that a setting can have, the current one marked.
pub(crate) fn setting_choices(
    identity: &SessionIdentity,
    config_id: &str,
    value: Option<&str>,
    choices: &[String],
    console: &mut Console<'_>,
) -> io::Result<()> {
    let line = |choice: &String| {
        let mark = if Some(choice.as_str()) == value { "* " } else { "  " };
        format!("{mark}{}", one_line(choice, LONGEST_VALUE))
    };
    let text = choices.iter().map(line).collect::<Vec<_>>().join("\n");
    let quiet = choices.iter().map(|choice| one_line(choice, LONGEST_VALUE)).collect::<Vec<_>>().join("\n");
    let object = ChoicesObject { config_id, value, choices, identity };
    console.result("setting_choices", &object, Some(&text), Some(&quiet))
}

/// A changed setting.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SettingChange<'a> {
    /// The session.
    pub(crate) identity: &'a SessionIdentity,
    /// The option, as typed; `None` for the mode.
    pub(crate) option: Option<&'a str>,
    /// The value that the agent now shows.
    pub(crate) value: &'a SettingValue,
    /// Whether the agent had to be started for it.
    pub(crate) resumed: bool,
    /// All current options.
    pub(crate) config_options: &'a [Box<RawValue>],
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct ChosenObject<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    mode_id: Option<&'a SettingValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model_id: Option<&'a SettingValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    config_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a SettingValue>,
    resumed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    config_options: Option<&'a [Box<RawValue>]>,
    #[serde(flatten)]
    identity: Option<&'a SessionIdentity>,
}

/// Writes the change. The model has its own word.
pub(crate) fn chosen(chosen: &SettingChange<'_>, console: &mut Console<'_>) -> io::Result<()> {
    let SettingChange { identity, option, value, resumed, config_options } = *chosen;
    let shown = on_one_line(value);
    let mut object = ChosenObject { resumed, identity: Some(identity), ..ChosenObject::default() };
    let (action, text) = match option {
        None => {
            object.mode_id = Some(value);
            ("mode_set", format!("mode set: {shown}"))
        }
        Some("model") => {
            object.model_id = Some(value);
            ("model_set", format!("model set: {shown}"))
        }
        Some(option) => {
            (object.config_id, object.value) = (Some(option), Some(value));
            object.config_options = Some(config_options);
            ("config_set", format!("config set: {option}={shown} ({} options)", config_options.len()))
        }
    };
    console.result(action, &object, Some(&text), Some(&shown))
}

/// Reports that the agent shows another value than the requested one.
pub(crate) fn shown_otherwise(
    option: Option<&str>,
    wanted: &str,
    shown: &SettingValue,
    console: &mut Console<'_>,
) {
    let name = option.unwrap_or("mode");
    console.notice(&format!("the agent shows {name} as {}, and was asked for {wanted}", on_one_line(shown)));
}

/// A value, possibly the agent's text, on one line.
fn on_one_line(value: &SettingValue) -> String {
    one_line(&value.to_string(), LONGEST_VALUE)
}

/// Writes which stored setting was dropped, if there was one.
pub(crate) fn forgotten(
    option: Option<&str>,
    forgotten: &ForgottenMeta,
    console: &mut Console<'_>,
) -> io::Result<()> {
    let name = option.unwrap_or("mode");
    let value = forgotten.value.as_ref().map(on_one_line);
    let text = match &value {
        Some(value) => format!("not wished any more: {name}={value}"),
        None => format!("nothing was wished for {name}"),
    };
    console.result("setting_forgotten", forgotten, Some(&text), value.as_deref())
}

/// Reports which settings could not be restored.
pub(crate) fn unmet(unmet: &[UnmetSettingMeta], console: &mut Console<'_>) {
    for UnmetSettingMeta { option, value, reason } in unmet {
        console.notice(&not_restored(option.as_deref(), value, reason));
    }
}

/// That a setting could not be restored, in words.
pub(super) fn not_restored(option: Option<&str>, value: &SettingValue, reason: &str) -> String {
    let setting = SettingName::of_option(option);
    format!("{setting} could not be set to {value} again: {reason}")
}
