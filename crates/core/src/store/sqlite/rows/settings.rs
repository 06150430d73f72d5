//! The settings of a record as one column: a JSON object with the wished, the shown and the unmet settings, each left
//! out if empty.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::model::{
    Choices, OfferedSetting, OfferedSettings, RecordSettings, Setting, SettingName, SettingValue,
    SetupOptions, UnmetSetting,
};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SettingsColumn {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    wished: Vec<StoredWish>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    shown: Vec<StoredSetting>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unmet: Vec<StoredReason>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    setup: Option<Box<RawValue>>,
}

/// Without an option it is the mode, here and below.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredWish {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    option: Option<Box<str>>,
    value: SettingValue,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredSetting {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    option: Option<Box<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    category: Option<Box<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value: Option<SettingValue>,
    /// The known choices; `[]` where none are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    choices: Option<Vec<Box<str>>>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    flag: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredReason {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    option: Option<Box<str>>,
    reason: Box<str>,
}

/// Settings as a column value; `None` if there are none.
pub(in crate::store) fn settings_text(settings: &RecordSettings) -> Option<String> {
    if *settings == RecordSettings::default() {
        return None;
    }
    let option = |name: &SettingName| name.option().map(Into::into);
    let stored = SettingsColumn {
        wished: settings
            .chosen
            .iter()
            .map(|setting| StoredWish { option: option(&setting.name), value: setting.value.clone() })
            .collect(),
        shown: settings.reported.0.iter().map(stored_setting).collect(),
        unmet: settings
            .unmet
            .iter()
            .map(|unmet| StoredReason { option: option(&unmet.name), reason: unmet.reason.clone() })
            .collect(),
        setup: (!settings.setup.is_empty()).then(|| setup_json(&settings.setup)),
    };
    Some(serde_json::to_string(&stored).expect("settings have only texts, flags and lists of them"))
}

/// Settings from a column; `None` for a value that no version writes.
pub(in crate::store) fn settings(text: &str) -> Option<RecordSettings> {
    let SettingsColumn { wished, shown, unmet, setup } = serde_json::from_str(text).ok()?;
    let name = |option: Option<Box<str>>| SettingName::of_option(option.as_deref());
    let wished =
        wished.into_iter().map(|setting| Setting { name: name(setting.option), value: setting.value });
    let unmet =
        unmet.into_iter().map(|unmet| UnmetSetting { name: name(unmet.option), reason: unmet.reason });
    let read = RecordSettings {
        chosen: wished.collect(),
        reported: OfferedSettings(shown.into_iter().map(offered_setting).collect::<Option<_>>()?),
        unmet: unmet.collect(),
        setup: setup.map_or_else(|| Some(SetupOptions::default()), |stored| read_setup(&stored))?,
    };
    (read != RecordSettings::default()).then_some(read)
}

fn setup_json(setup: &SetupOptions) -> Box<RawValue> {
    serde_json::value::to_raw_value(setup).expect("texts, numbers and flags can be written")
}

/// The stored options of a setup; `None` unless it is what [`setup_json`] writes.
fn read_setup(stored: &RawValue) -> Option<SetupOptions> {
    let setup: SetupOptions = serde_json::from_str(stored.get()).ok()?;
    (!setup.is_empty() && setup_json(&setup).get() == stored.get()).then_some(setup)
}

fn stored_setting(offered: &OfferedSetting) -> StoredSetting {
    let OfferedSetting { name, category, value, choices } = offered;
    let (choices, flag) = match choices {
        Choices::Of(choices) => (Some(choices.clone()), false),
        Choices::Flag => (None, true),
        Choices::Unknown => (None, false),
    };
    let option = name.option().map(Into::into);
    StoredSetting { option, category: category.clone(), value: value.clone(), choices, flag }
}

fn offered_setting(stored: StoredSetting) -> Option<OfferedSetting> {
    let StoredSetting { option, category, value, choices, flag } = stored;
    let choices = match (choices, flag) {
        (Some(choices), false) => Choices::Of(choices),
        (None, true) => Choices::Flag,
        (None, false) => Choices::Unknown,
        (Some(_), true) => return None,
    };
    Some(OfferedSetting { name: SettingName::of_option(option.as_deref()), category, value, choices })
}
