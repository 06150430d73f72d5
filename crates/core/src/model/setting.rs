//! Settings of a session: its mode and its options, the model among them. A choice of the user is stored as a chosen
//! setting of the record; the values the agent sends are stored separately. Only chosen settings are restored, so acpx never forces a
//! value back that the agent chose for itself.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{ErrorCode, SetupOptions};

/// The setting that stands for version 1's `models` and `session/set_model`, in the store and for version 2 clients.
/// No agent has an option with this id.
pub const MODEL_OPTION: &str = "acpx.model";
/// The category of the option that is the model.
const MODEL: &str = "model";
/// The category of the option that is the mode, where the agent advertises modes as an option.
const MODE: &str = "mode";
/// How many settings or values an error lists, and how many characters of them.
const LISTED: usize = 20;
const LISTED_CHARS: usize = 600;
/// How many of an agent's models are stored with a record. A list of thousands would be read with every record.
const MAX_STORED_CHOICES: usize = 256;

/// Which setting.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SettingName {
    /// The session's mode, of an agent that has modes in addition to its options.
    Mode,
    /// An option, by its id.
    Option(Box<str>),
}

/// A current or wanted value of a setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SettingValue {
    /// On or off.
    Flag(bool),
    /// One of those that are offered.
    Id(Box<str>),
}

/// A setting with a chosen value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Which.
    pub name: SettingName,
    /// Its value.
    pub value: SettingValue,
}

/// A setting as an agent offers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferedSetting {
    /// Which.
    pub name: SettingName,
    /// What it is about, in the protocol's words: `mode`, `model`, `thought_level` or another.
    pub category: Option<Box<str>>,
    /// Its value at the moment, if that can be read.
    pub value: Option<SettingValue>,
    /// The values it can have.
    pub choices: Choices,
}

/// The values a setting can have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choices {
    /// One of these.
    Of(Vec<Box<str>>),
    /// On or off.
    Flag,
    /// Not known.
    Unknown,
}

/// The settings of a session as its agent offers them, in its order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OfferedSettings(pub Vec<OfferedSetting>);

/// The stored part of a record's settings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecordSettings {
    /// What was chosen, each setting once, in the order of the first choice.
    pub chosen: Vec<Setting>,
    /// The settings that the agent last sent.
    pub reported: OfferedSettings,
    /// The chosen settings that could not be restored when the session was last set up at the agent.
    pub unmet: Vec<UnmetSetting>,
    /// The options that the agent was set up with.
    pub setup: SetupOptions,
}

/// A chosen setting that could not be restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnmetSetting {
    /// Which setting.
    pub name: SettingName,
    /// The reason, as text.
    pub reason: Box<str>,
}

/// Why a setting cannot have the wanted value. The hint lists the alternatives.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingError {
    /// The session has no such setting.
    #[error("{}", nothing_of(.wanted.as_deref()))]
    NotOffered {
        /// The wanted option; `None` for the mode.
        wanted: Option<Box<str>>,
        /// The names of the settings that exist, as `choose` accepts them.
        offered: Vec<Box<str>>,
    },
    /// The setting cannot have this value.
    #[error("{setting} cannot be {value:?}")]
    BadValue {
        /// The setting.
        setting: SettingName,
        /// The value.
        value: Box<str>,
        /// What it can be.
        offered: Vec<Box<str>>,
    },
}

impl SettingError {
    /// The stable code of this error.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::NotOffered { .. } => ErrorCode::SettingNotOffered,
            Self::BadValue { .. } => ErrorCode::SettingBadValue,
        }
    }

    /// What can be chosen instead.
    pub fn hint(&self) -> String {
        match self {
            Self::NotOffered { offered, .. } if offered.is_empty() => {
                "the agent offers nothing to choose in this session; its own configuration may".to_owned()
            }
            Self::NotOffered { offered, .. } => format!("the session has {}", listed(offered)),
            Self::BadValue { offered, .. } if offered.is_empty() => "nothing is offered".to_owned(),
            Self::BadValue { offered, .. } => format!("it can be {}", listed(offered)),
        }
    }
}

impl fmt::Display for SettingName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mode => f.write_str("the mode"),
            Self::Option(id) if &**id == MODEL_OPTION => f.write_str("the model"),
            Self::Option(id) => write!(f, "the option {id}"),
        }
    }
}

impl SettingName {
    /// The option's id; `None` for the mode.
    pub fn option(&self) -> Option<&str> {
        match self {
            Self::Mode => None,
            Self::Option(id) => Some(id),
        }
    }

    /// Whether it is the model of an agent that has models in addition to its options.
    pub(crate) fn is_own_model(&self) -> bool {
        self.option() == Some(MODEL_OPTION)
    }

    /// The setting of an option's id, or the mode without one.
    pub fn of_option(id: Option<&str>) -> Self {
        id.map_or(Self::Mode, |id| Self::Option(id.into()))
    }
}

impl fmt::Display for SettingValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => flag.fmt(f),
            Self::Id(id) => f.write_str(id),
        }
    }
}

impl OfferedSetting {
    /// Whether it is the model.
    pub(crate) fn is_model(&self) -> bool {
        self.is_of(MODEL)
    }

    /// Whether it is the mode, advertised as a mode or as an option.
    pub(crate) fn is_mode(&self) -> bool {
        self.name == SettingName::Mode || self.is_of(MODE)
    }

    fn is_of(&self, category: &str) -> bool {
        self.category.as_deref() == Some(category)
    }

    /// Whether it can have this value. If that is not known, the agent decides.
    pub(crate) fn can_be(&self, value: &SettingValue) -> bool {
        match (&self.choices, value) {
            (Choices::Of(choices), SettingValue::Id(id)) => choices.contains(id),
            (Choices::Flag, SettingValue::Flag(_)) | (Choices::Unknown, _) => true,
            (Choices::Of(_), SettingValue::Flag(_)) | (Choices::Flag, SettingValue::Id(_)) => false,
        }
    }

    /// The value that a text means for it.
    fn value_of(&self, text: &str) -> Result<SettingValue, SettingError> {
        let value = match (&self.choices, text) {
            (Choices::Flag, "true") => SettingValue::Flag(true),
            (Choices::Flag, "false") => SettingValue::Flag(false),
            _ => SettingValue::Id(text.into()),
        };
        if self.can_be(&value) {
            return Ok(value);
        }
        let offered = match &self.choices {
            Choices::Of(choices) => choices.clone(),
            Choices::Flag => vec!["true".into(), "false".into()],
            Choices::Unknown => Vec::new(),
        };
        Err(SettingError::BadValue { setting: self.name.clone(), value: text.into(), offered })
    }
}

impl OfferedSettings {
    /// The setting of a name.
    pub(crate) fn named(&self, name: &SettingName) -> Option<&OfferedSetting> {
        self.0.iter().find(|offered| offered.name == *name)
    }

    /// The mode. If the agent advertises modes both as modes and as an option, this is the former.
    pub fn mode(&self) -> Option<&OfferedSetting> {
        self.named(&SettingName::Mode).or_else(|| self.0.iter().find(|offered| offered.is_mode()))
    }

    /// The setting that a choice applies to. A choice of a mode or a model applies to the matching option if the agent
    /// now offers that instead.
    pub(crate) fn setting_for(&self, name: &SettingName) -> Option<&OfferedSetting> {
        match name {
            SettingName::Mode => self.mode(),
            model if model.is_own_model() => self.named(name).or_else(|| self.model()),
            SettingName::Option(_) => self.named(name),
        }
    }

    /// Whether both names mean the model: one as an option, the other separate from the options.
    pub(crate) fn are_one_model(&self, one: &SettingName, other: &SettingName) -> bool {
        let is_model =
            |name: &SettingName| name.is_own_model() || self.model().is_some_and(|model| model.name == *name);
        is_model(one) && is_model(other)
    }

    /// The model: the option of that category, or of that id.
    pub fn model(&self) -> Option<&OfferedSetting> {
        self.option(MODEL)
    }

    /// The option with this id, or else the first of this category.
    pub fn option(&self, word: &str) -> Option<&OfferedSetting> {
        let by_id = self.0.iter().find(|offered| offered.name.option() == Some(word));
        let by_category = || {
            let mut options = self.0.iter().filter(|offered| offered.name != SettingName::Mode);
            options.find(|offered| offered.is_of(word))
        };
        by_id.or_else(by_category)
    }

    /// The setting of an option (by id or category), or of the mode if `option` is `None`, with the value that a text
    /// means.
    pub(crate) fn choose(&self, option: Option<&str>, value: &str) -> Result<Setting, SettingError> {
        let found = match option {
            None => self.mode(),
            // An agent may offer the mode as a mode and not as an option.
            Some(MODE) => self.option(MODE).or_else(|| self.mode()),
            Some(word) => self.option(word),
        };
        let Some(found) = found else {
            let word = |offered: &OfferedSetting| match &offered.name {
                SettingName::Mode => MODE.into(),
                name if name.is_own_model() => MODEL.into(),
                SettingName::Option(id) => id.clone(),
            };
            let offered = self.0.iter().map(word).collect();
            return Err(SettingError::NotOffered { wanted: option.map(Into::into), offered });
        };
        Ok(Setting { name: found.name.clone(), value: found.value_of(value)? })
    }

    /// The settings as they are stored with the record: without the choices, except those of the model and the mode.
    #[must_use]
    pub fn to_stored(&self) -> Self {
        let model = self.model().map(|model| &model.name);
        let mode = self.mode().map(|mode| &mode.name);
        let stored = |offered: &OfferedSetting| {
            let choices = match &offered.choices {
                Choices::Of(choices) if Some(&offered.name) == model || Some(&offered.name) == mode => {
                    Choices::Of(choices.iter().take(MAX_STORED_CHOICES).cloned().collect())
                }
                _ => Choices::Unknown,
            };
            OfferedSetting { choices, ..offered.clone() }
        };
        Self(self.0.iter().map(stored).collect())
    }
}

impl RecordSettings {
    /// The chosen setting for an option (by id or category), or for the mode if `word` is `None`.
    pub(crate) fn chosen_by(&self, word: Option<&str>) -> Option<&Setting> {
        let meant = |name: &SettingName| self.chosen.iter().find(|setting| setting.name == *name);
        let mode = || meant(&SettingName::Mode).or_else(|| meant(&self.reported.mode()?.name));
        match word {
            None => mode(),
            Some(word) => meant(&SettingName::Option(word.into()))
                .or_else(|| meant(&self.reported.option(word)?.name))
                .or_else(|| if word == MODE { mode() } else { None }),
        }
    }

    /// Stores a choice that the agent has accepted.
    pub(crate) fn choose(&mut self, chosen: Setting) {
        self.unmet.retain(|unmet| unmet.name != chosen.name);
        match self.chosen.iter_mut().find(|setting| setting.name == chosen.name) {
            Some(setting) => setting.value = chosen.value,
            None => self.chosen.push(chosen),
        }
    }

    /// Removes these choices.
    pub(crate) fn withdraw(&mut self, is_meant: impl Fn(&Setting) -> bool) {
        self.chosen.retain(|setting| !is_meant(setting));
        let Self { chosen, unmet, .. } = self;
        unmet.retain(|unmet| chosen.iter().any(|setting| setting.name == unmet.name));
    }

    /// The choices of a session whose settings no agent has sent here yet, as after an import. They are set when its
    /// agent starts.
    pub fn unapplied(&self) -> impl Iterator<Item = &Setting> {
        let is_unmet = |setting: &Setting| self.unmet.iter().any(|unmet| unmet.name == setting.name);
        self.chosen.iter().filter(move |setting| self.reported.0.is_empty() && !is_unmet(setting))
    }

    /// The choices that are known not to be in force: the setting, the current value if known, and the reason if known.
    pub fn unconfirmed(&self) -> impl Iterator<Item = (&Setting, Option<&SettingValue>, Option<&str>)> {
        self.chosen.iter().filter_map(|setting| {
            let unmet =
                self.unmet.iter().find(|unmet| unmet.name == setting.name).map(|unmet| &*unmet.reason);
            let reported =
                self.reported.setting_for(&setting.name).and_then(|offered| offered.value.as_ref());
            let is_open = unmet.is_some() || reported.is_some_and(|reported| *reported != setting.value);
            is_open.then_some((setting, reported, unmet))
        })
    }
}

fn nothing_of(wanted: Option<&str>) -> String {
    match wanted {
        None => "the agent offers no modes in this session".to_owned(),
        Some(wanted) => format!("the session has no option {wanted:?}"),
    }
}

/// The first of them as a list of limited length.
fn listed(offered: &[Box<str>]) -> String {
    let mut left = LISTED_CHARS;
    let fits = |word: &&str| {
        let size = word.chars().count();
        let fits = size <= left;
        left = left.saturating_sub(size);
        fits
    };
    let words = offered.iter().take(LISTED).map(AsRef::as_ref);
    let shown: Vec<&str> = words.take_while(fits).collect();
    match offered.len() - shown.len() {
        0 => shown.join(", "),
        more if shown.is_empty() => format!("{more} with names that are too long to list"),
        more => format!("{}, and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests;
