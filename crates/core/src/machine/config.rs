//! The settings of a session: which ones the agent offers, and which ones the record restores whenever an agent gets
//! the session.
//!
//! Restore order: the model first, because options depend on it; the mode last, because it may depend on either. Each
//! response may change the offered settings, so the next one is looked up in the current offer. A setting that already
//! has the chosen value is skipped. One that cannot be restored is recorded as a fact and stays chosen; the others are
//! still restored.
//!
//! A setting that the agent changes by itself is no longer chosen. An agent that left plan mode is not put back into
//! it.

use crate::model::{
    Fact, OfferedSetting, OfferedSettings, RecordSettings, Setting, SettingName, SettingValue, SetupOptions,
    UnmetSetting,
};

use super::forward::Forwards;

/// The offered, chosen and current settings of a session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct SessionConfig {
    /// The settings that the agent offers, as last reported.
    offered: OfferedSettings,
    /// The record's chosen and current settings.
    pub(super) settings: RecordSettings,
    /// Whether `settings` changed since they were persisted.
    is_changed: bool,
}

impl SessionConfig {
    pub(super) fn of_record(settings: RecordSettings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// The settings of a forked session: a new record, which has yet to persist what it inherits.
    pub(super) fn inherited(settings: RecordSettings) -> Self {
        let is_changed = settings != RecordSettings::default();
        Self { settings, is_changed, ..Self::default() }
    }

    /// The settings to persist, if they changed since the last call.
    pub(super) fn take_changed(&mut self) -> Option<RecordSettings> {
        std::mem::take(&mut self.is_changed).then(|| self.settings.clone())
    }

    /// Stores the options that the agent was set up with.
    pub(super) fn accept_setup(&mut self, setup: SetupOptions) {
        self.is_changed |= self.settings.setup != setup;
        self.settings.setup = setup;
    }

    /// The previous agent's offer does not apply to a new one.
    pub(super) fn forget_offer(&mut self) {
        self.offered = OfferedSettings::default();
    }

    /// Stores the offered settings. `forwards` are those of a live session, in which a changed value is the agent's
    /// choice unless a client has requested it.
    pub(super) fn on_offered(&mut self, offered: OfferedSettings, forwards: Option<&Forwards>) {
        if offered == self.offered {
            return;
        }
        if let Some(forwards) = forwards {
            let before = &self.offered;
            self.settings.withdraw(|choice| {
                let current = |offered: &OfferedSettings| {
                    offered.setting_for(&choice.name).and_then(|setting| setting.value.clone())
                };
                let now = current(&offered);
                let is_other = now.is_some() && now.as_ref() != Some(&choice.value);
                is_other && now != current(before) && !forwards.chooses(&choice.name)
            });
        }
        self.settings.reported = offered.to_stored();
        self.is_changed = true;
        self.offered = offered;
    }

    /// Records a setting that a client chose and the agent confirmed. If the agent still shows the old value, nothing
    /// is recorded. If it shows a third value that it also offers, that value is recorded.
    pub(super) fn choose(&mut self, mut setting: Setting, before: Option<&SettingValue>) {
        if let Some(current) = self.current(&setting.name).filter(|current| **current != setting.value) {
            if Some(current) == before {
                return;
            }
            if self.offered.setting_for(&setting.name).is_some_and(|offered| offered.can_be(current)) {
                setting.value = current.clone();
            }
        }
        let offered = &self.offered;
        let is_mode = |name: &SettingName| offered.named(name).is_some_and(OfferedSetting::is_mode);
        if is_mode(&setting.name) {
            // Some agents offer their modes twice. The last choice counts.
            self.settings.withdraw(|choice| is_mode(&choice.name));
        }
        // Some agents offer their models twice, too.
        self.settings.withdraw(|choice| offered.are_one_model(&choice.name, &setting.name));
        self.settings.choose(setting);
        self.is_changed = true;
    }

    /// Removes a chosen setting; the agent keeps its current value.
    pub(super) fn forget(&mut self, name: &SettingName) {
        self.settings.withdraw(|choice| choice.name == *name);
        self.is_changed = true;
    }

    /// The setting's current value in the session.
    pub(super) fn current(&self, name: &SettingName) -> Option<&SettingValue> {
        self.offered.setting_for(name)?.value.as_ref()
    }

    /// The agent has the session: returns the settings to restore.
    pub(super) fn begin_restore(&mut self) -> Vec<Setting> {
        // The values of an earlier agent do not apply, even if this one reported none.
        let current = self.offered.to_stored();
        if !self.settings.unmet.is_empty() || current != self.settings.reported {
            self.settings.unmet.clear();
            self.settings.reported = current;
            self.is_changed = true;
        }
        self.settings.chosen.clone()
    }

    /// Takes the next setting to request out of those that are left, together with the name to request it by.
    pub(super) fn next_to_restore(&self, left: &mut Vec<Setting>) -> Option<(Setting, SettingName)> {
        left.retain(|choice| self.current(&choice.name) != Some(&choice.value));
        let possible = left.iter().enumerate().filter_map(|(index, choice)| {
            let offered =
                self.offered.setting_for(&choice.name).filter(|offered| offered.can_be(&choice.value))?;
            Some((rank(offered), index, offered.name.clone()))
        });
        let (_, next, name) = possible.min_by_key(|(rank, index, _)| (*rank, *index))?;
        Some((left.remove(next), name))
    }

    /// Why a setting that is left over cannot be requested.
    pub(super) fn unmet_reason(&self, setting: &Setting) -> &'static str {
        match self.offered.setting_for(&setting.name) {
            Some(_) => "the agent does not offer this value any more",
            None => "the agent does not offer it in this session",
        }
    }

    /// Records that a setting could not be restored.
    pub(super) fn add_unmet(&mut self, Setting { name, value }: Setting, reason: &str) -> Fact {
        let option = name.option().map(str::to_owned);
        self.settings.unmet.push(UnmetSetting { name, reason: reason.into() });
        self.is_changed = true;
        Fact::SettingNotRestored { option, value, reason: reason.to_owned() }
    }
}

/// Restore order: lowest first.
fn rank(offered: &OfferedSetting) -> u8 {
    match offered {
        model if model.is_model() => 0,
        mode if mode.is_mode() => 2,
        _ => 1,
    }
}
