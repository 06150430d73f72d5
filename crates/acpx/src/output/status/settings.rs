//! How a session is set: as its agent last showed it, and what was wished where that is another thing.

use std::collections::BTreeMap;
use std::io::{self, Write};

use acpx_core::model::{Choices, MODEL_OPTION, OfferedSetting, RecordSettings, SettingName, SettingValue};
use serde::Serialize;

use super::super::clean::line;

/// The settings among the members of a status. `model`, `availableModels` and `mode` are npm acpx's.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SettingsObject<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a SettingValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    available_models: Option<&'a [Box<str>]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<&'a SettingValue>,
    /// Every option by its id, the model among them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    options: BTreeMap<&'a str, &'a SettingValue>,
    /// What is wished and is not so.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    open_wishes: Vec<OpenWish<'a>>,
}

#[derive(Serialize)]
struct OpenWish<'a> {
    /// The mode without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    option: Option<&'a str>,
    value: &'a SettingValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

impl<'a> SettingsObject<'a> {
    pub(super) fn of(settings: &'a RecordSettings) -> Self {
        let model = settings.shown.model();
        let available_models = match model.map(|model| &model.choices) {
            Some(Choices::Of(choices)) => Some(choices.as_slice()),
            _ => None,
        };
        let options = settings.shown.0.iter();
        let open_wishes = settings.open_wishes().map(|(wish, _, reason)| OpenWish {
            option: wish.name.option(),
            value: &wish.value,
            reason,
        });
        Self {
            model: value(model),
            available_models,
            mode: value(settings.shown.mode()),
            options: options
                .filter_map(|offered| Some((offered.name.option()?, offered.value.as_ref()?)))
                .collect(),
            open_wishes: open_wishes.collect(),
        }
    }
}

fn value(offered: Option<&OfferedSetting>) -> Option<&SettingValue> {
    offered?.value.as_ref()
}

/// The same for people: model and mode always, and a line for each other option.
pub(super) fn text(settings: &RecordSettings, out: &mut dyn Write) -> io::Result<()> {
    let (model, mode) = (settings.shown.model(), settings.shown.mode());
    let shown = |offered: Option<&OfferedSetting>| value(offered).map_or("-".to_owned(), ToString::to_string);
    line(out, format_args!("model: {}", shown(model)))?;
    line(out, format_args!("mode: {}", shown(mode)))?;
    let named = [model, mode].map(|offered| offered.map(|offered| &offered.name));
    for offered in &settings.shown.0 {
        if let (SettingName::Option(id), Some(value)) = (&offered.name, &offered.value)
            && !named.contains(&Some(&offered.name))
        {
            line(out, format_args!("option {id}: {value}"))?;
        }
    }
    for (wish, _, reason) in settings.open_wishes() {
        let why = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
        match wish.name.option() {
            None => line(out, format_args!("wished mode: {}{why}", wish.value))?,
            Some(MODEL_OPTION) => line(out, format_args!("wished model: {}{why}", wish.value))?,
            Some(id) => line(out, format_args!("wished option {id}: {}{why}", wish.value))?,
        }
    }
    Ok(())
}
