//! The settings of a session: the values that its agent last showed, and requested values that differ from them. Before
//! an agent has shown the session, these are the values that it will start with.

use std::collections::BTreeMap;

use acpx_core::model::{Choices, MODEL_OPTION, OfferedSetting, RecordSettings, SettingName, SettingValue};
use serde::Serialize;

/// The settings members of a status. `model`, `availableModels` and `mode` are npm acpx's.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SettingsObject<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a SettingValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    available_models: Option<&'a [Box<str>]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<&'a SettingValue>,
    /// Every option by its id, including the model.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    options: BTreeMap<&'a str, &'a SettingValue>,
    /// Requested values that are not in effect.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    open_wishes: Vec<OpenWish<'a>>,
}

#[derive(Serialize)]
struct OpenWish<'a> {
    /// `None` for the mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    option: Option<&'a str>,
    value: &'a SettingValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

impl<'a> SettingsObject<'a> {
    pub(super) fn of(settings: &'a RecordSettings) -> Self {
        let model = settings.reported.model();
        let available_models = match model.map(|model| &model.choices) {
            Some(Choices::Of(choices)) => Some(choices.as_slice()),
            _ => None,
        };
        let options = settings.reported.0.iter();
        let untried_options =
            settings.unapplied().filter_map(|wish| Some((wish.name.option()?, &wish.value)));
        let open_wishes = settings.unconfirmed().map(|(wish, _, reason)| OpenWish {
            option: wish.name.option(),
            value: &wish.value,
            reason,
        });
        Self {
            model: value(model).or_else(|| untried(settings, is_model)),
            available_models,
            mode: value(settings.reported.mode()).or_else(|| untried(settings, is_mode)),
            options: options
                .filter_map(|offered| Some((offered.name.option()?, offered.value.as_ref()?)))
                .chain(untried_options)
                .collect(),
            open_wishes: open_wishes.collect(),
        }
    }
}

fn value(offered: Option<&OfferedSetting>) -> Option<&SettingValue> {
    offered?.value.as_ref()
}

/// The requested value of a setting, if no agent has shown the session yet.
fn untried(settings: &RecordSettings, is_it: fn(&SettingName) -> bool) -> Option<&SettingValue> {
    settings.unapplied().find(|wish| is_it(&wish.name)).map(|wish| &wish.value)
}

fn is_mode(name: &SettingName) -> bool {
    *name == SettingName::Mode
}

/// Whether it is the model. Before the agent has reported the categories of its options, only these ids identify it.
fn is_model(name: &SettingName) -> bool {
    matches!(name.option(), Some("model" | MODEL_OPTION))
}

/// The models and modes to choose from, as names and values.
pub(super) fn choices(settings: &RecordSettings) -> Vec<(&'static str, String)> {
    let offered = [("models", settings.reported.model()), ("modes", settings.reported.mode())];
    let listed = |(name, offered): (&'static str, Option<&OfferedSetting>)| match &offered?.choices {
        Choices::Of(choices) if !choices.is_empty() => Some((name, choices.join(", "))),
        _ => None,
    };
    offered.into_iter().filter_map(listed).collect()
}

/// The same for people, as names and values: model and mode always, and one for each other option.
pub(super) fn rows(settings: &RecordSettings) -> Vec<(String, String)> {
    let (model, mode) = (settings.reported.model(), settings.reported.mode());
    let shown = |offered: Option<&OfferedSetting>, is_it| {
        let value = value(offered).or_else(|| untried(settings, is_it));
        value.map_or("-".to_owned(), ToString::to_string)
    };
    let mut rows =
        vec![("model".to_owned(), shown(model, is_model)), ("mode".to_owned(), shown(mode, is_mode))];
    let named = [model, mode].map(|offered| offered.map(|offered| &offered.name));
    for offered in &settings.reported.0 {
        if let (SettingName::Option(id), Some(value)) = (&offered.name, &offered.value)
            && !named.contains(&Some(&offered.name))
        {
            rows.push((format!("option {id}"), value.to_string()));
        }
    }
    for wish in settings.unapplied().filter(|wish| !is_model(&wish.name)) {
        rows.extend(wish.name.option().map(|id| (format!("option {id}"), wish.value.to_string())));
    }
    for (wish, _, reason) in settings.unconfirmed() {
        let name = match wish.name.option() {
            None => "wished mode".to_owned(),
            Some(MODEL_OPTION) => "wished model".to_owned(),
            Some(id) => format!("wished option {id}"),
        };
        let why = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
        rows.push((name, format!("{}{why}", wish.value)));
    }
    rows
}
