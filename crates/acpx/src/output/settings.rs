//! Settings of a session: confirms a change, and reports a setting that could not be restored.

use std::io;

use acpx_core::model::{SessionIdentity, SettingName, SettingValue};
use acpx_core::protocol::meta::{ForgottenMeta, UnmetSettingMeta};
use serde::Serialize;
use serde_json::value::RawValue;

use super::question::one_line;
use super::{Console, json_line};
use crate::cli::Format;

/// How much of a value is shown.
const LONGEST_VALUE: usize = 200;

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

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ChosenObject<'a> {
    action: &'static str,
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
    identity: &'a SessionIdentity,
}

/// Writes the change. The model has its own word.
pub(crate) fn chosen(chosen: &SettingChange<'_>, console: &mut Console<'_>) -> io::Result<()> {
    let SettingChange { identity, option, value, resumed, config_options } = *chosen;
    let said = on_one_line(value);
    let out = &mut *console.out;
    match (console.mode.format, option) {
        (Format::Quiet, _) => writeln!(out, "{said}"),
        (Format::Text, None) => writeln!(out, "mode set: {said}"),
        (Format::Text, Some("model")) => writeln!(out, "model set: {said}"),
        (Format::Text, Some(option)) => {
            writeln!(out, "config set: {option}={said} ({} options)", config_options.len())
        }
        (Format::Json, option) => {
            let nothing = ChosenObject {
                action: "config_set",
                mode_id: None,
                model_id: None,
                config_id: None,
                value: None,
                resumed,
                config_options: None,
                identity,
            };
            let object = match option {
                None => ChosenObject { action: "mode_set", mode_id: Some(value), ..nothing },
                Some("model") => ChosenObject { action: "model_set", model_id: Some(value), ..nothing },
                Some(option) => ChosenObject {
                    config_id: Some(option),
                    value: Some(value),
                    config_options: Some(config_options),
                    ..nothing
                },
            };
            json_line(&object, out)
        }
    }?;
    console.flush()
}

/// Reports that the agent shows another value than the requested one.
pub(crate) fn shown_otherwise(
    option: Option<&str>,
    wanted: &str,
    shown: &SettingValue,
    console: &mut Console<'_>,
) {
    let name = option.unwrap_or("mode");
    console.say(&format!("the agent shows {name} as {}, and was asked for {wanted}", on_one_line(shown)));
}

/// A value, possibly the agent's text, on one line.
fn on_one_line(value: &SettingValue) -> String {
    one_line(&value.to_string(), LONGEST_VALUE)
}

#[derive(Serialize)]
struct ForgottenObject<'a> {
    action: &'static str,
    #[serde(flatten)]
    forgotten: &'a ForgottenMeta,
}

/// Writes which stored setting was dropped, if there was one.
pub(crate) fn forgotten(
    option: Option<&str>,
    forgotten: &ForgottenMeta,
    console: &mut Console<'_>,
) -> io::Result<()> {
    let name = option.unwrap_or("mode");
    let out = &mut *console.out;
    match (console.mode.format, &forgotten.value) {
        (Format::Json, _) => json_line(&ForgottenObject { action: "setting_forgotten", forgotten }, out),
        (Format::Text, Some(value)) => {
            writeln!(out, "not wished any more: {name}={}", on_one_line(value))
        }
        (Format::Text, None) => writeln!(out, "nothing was wished for {name}"),
        (Format::Quiet, value) => value.iter().try_for_each(|value| writeln!(out, "{}", on_one_line(value))),
    }?;
    console.flush()
}

/// Reports which settings could not be restored.
pub(crate) fn unmet(unmet: &[UnmetSettingMeta], console: &mut Console<'_>) {
    for UnmetSettingMeta { option, value, reason } in unmet {
        console.say(&not_restored(option.as_deref(), value, reason));
    }
}

/// That a setting could not be restored, in words.
pub(super) fn not_restored(option: Option<&str>, value: &SettingValue, reason: &str) -> String {
    let setting = SettingName::of_option(option);
    format!("{setting} could not be set to {value} again: {reason}")
}
