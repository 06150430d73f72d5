//! Restores the record's chosen settings whenever an agent gets the session, before queued prompts and requests run.
//!
//! Order: the model first, because options depend on it; the mode last, because it may depend on either. Each response
//! may change the offered settings, so the next one is looked up in the current offer. A setting that already has the
//! chosen value is skipped. One that cannot be restored is recorded as a fact and stays chosen; the others are still
//! restored.
//!
//! A setting that the agent changes by itself is no longer chosen. An agent that left plan mode is not put back into
//! it.

use crate::model::{
    AgentError, Fact, OfferedSetting, OfferedSettings, Setting, SettingName, SettingValue, Timestamp,
    UnmetSetting,
};

use super::state::{LiveSession, MachineState, SettingsRestore};
use super::{AgentCall, Deadline, Effect, SessionMachine, WakeOutcome};

impl SessionMachine {
    /// The chosen settings that could not be restored, each with the reason.
    pub fn unmet_settings(&self) -> Vec<(Setting, Box<str>)> {
        let open = self.settings.open_wishes();
        open.filter_map(|(wish, _, reason)| Some((wish.clone(), reason?.into()))).collect()
    }

    /// Stores the offered settings. Runs before the message that carried them is processed.
    pub(super) fn offer(&mut self, offered: OfferedSettings) {
        if offered == self.offered {
            return;
        }
        if matches!(self.state, MachineState::Idle(_) | MachineState::Prompting(_)) {
            let (before, passed) = (&self.offered, &self.passed);
            let asked_for = |wish: &Setting| {
                passed
                    .iter()
                    .filter_map(|passed| passed.pass.setting.as_ref())
                    .any(|asked| asked.name == wish.name)
            };
            self.settings.withdraw(|wish| {
                let shown = |offered: &OfferedSettings| {
                    offered.wished(&wish.name).and_then(|setting| setting.value.clone())
                };
                let now = shown(&offered);
                let is_other = now.is_some() && now.as_ref() != Some(&wish.value);
                is_other && now != shown(before) && !asked_for(wish)
            });
        }
        self.settings.shown = offered.kept();
        self.settings_changed = true;
        self.offered = offered;
    }

    /// Records a setting that a client chose and the agent confirmed. If the agent still shows the old value, nothing
    /// is recorded. If it shows a third value that it also offers, that value is recorded.
    pub(super) fn wish(&mut self, mut setting: Setting, before: Option<&SettingValue>) {
        if let Some(shown) = self.shown(&setting.name).filter(|shown| **shown != setting.value) {
            if Some(shown) == before {
                return;
            }
            if self.offered.wished(&setting.name).is_some_and(|offered| offered.can_be(shown)) {
                setting.value = shown.clone();
            }
        }
        let offered = &self.offered;
        let is_mode = |name: &SettingName| offered.named(name).is_some_and(OfferedSetting::is_mode);
        if is_mode(&setting.name) {
            // Some agents offer their modes twice. The last choice counts.
            self.settings.withdraw(|wish| is_mode(&wish.name));
        }
        // Some agents offer their models twice, too.
        self.settings.withdraw(|wish| offered.are_one_model(&wish.name, &setting.name));
        self.settings.choose(setting);
        self.settings_changed = true;
    }

    /// The chosen setting that a user's word for an option refers to; without a word, the chosen mode.
    pub fn wished(&self, word: Option<&str>) -> Option<Setting> {
        self.settings.wished_by(word).cloned()
    }

    /// Removes a chosen setting; the agent keeps its current value.
    pub(super) fn forget(&mut self, name: &SettingName) {
        self.settings.withdraw(|wish| wish.name == *name);
        self.settings_changed = true;
    }

    /// The agent has the session: restore the chosen settings, then go live.
    pub(super) fn settle(&mut self, now: Timestamp, live: LiveSession, how: WakeOutcome) {
        if !self.settings.unmet.is_empty() {
            self.settings.unmet.clear();
            self.settings_changed = true;
        }
        // Clears the values of an earlier agent, even if this one reported none.
        let shown = self.offered.kept();
        if shown != self.settings.shown {
            self.settings.shown = shown;
            self.settings_changed = true;
        }
        let left = self.settings.wished.clone();
        self.settle_next(now, live, how, left);
    }

    fn settle_next(&mut self, now: Timestamp, live: LiveSession, how: WakeOutcome, mut left: Vec<Setting>) {
        left.retain(|wish| !self.is_shown(wish));
        let possible = left.iter().enumerate().filter_map(|(index, wish)| {
            let offered = self.offered.wished(&wish.name).filter(|offered| offered.can_be(&wish.value))?;
            Some((rank(offered), index))
        });
        let Some((_, next)) = possible.min() else {
            for wish in left {
                let reason = match self.offered.wished(&wish.name) {
                    Some(_) => "the agent does not offer this value any more",
                    None => "the agent does not offer it in this session",
                };
                self.not_restored(wish, reason);
            }
            return self.become_live(now, live, how);
        };
        let asked = left.remove(next);
        let name = self
            .offered
            .wished(&asked.name)
            .map_or_else(|| asked.name.clone(), |offered| offered.name.clone());
        self.do_(Effect::Call(AgentCall::Set(Setting { name, value: asked.value.clone() })));
        self.do_(Effect::Arm(Deadline::Setting));
        self.state = MachineState::Settling(SettingsRestore { live, how, asked, left });
    }

    fn is_shown(&self, wish: &Setting) -> bool {
        self.shown(&wish.name) == Some(&wish.value)
    }

    /// The setting's current value in the session.
    pub(super) fn shown(&self, name: &SettingName) -> Option<&SettingValue> {
        self.offered.wished(name)?.value.as_ref()
    }

    pub(super) fn setting_answered(&mut self, now: Timestamp, answer: Result<(), AgentError>) {
        let SettingsRestore { live, how, asked, left } = match self.take_state() {
            MachineState::Settling(settling) => settling,
            other => return self.state = other,
        };
        let shown = self.shown(&asked.name).filter(|shown| **shown != asked.value);
        match (answer, shown.map(ToString::to_string)) {
            (Err(error), _) => self.not_restored(asked, &error.to_string()),
            (Ok(()), Some(shown)) => self.not_restored(asked, &format!("the agent shows {shown} instead")),
            (Ok(()), None) => {}
        }
        self.settle_next(now, live, how, left);
    }

    /// An agent that leaves one request unanswered would do so with the next, so the remaining settings are skipped.
    pub(super) fn settings_unanswered(&mut self, now: Timestamp) {
        let SettingsRestore { live, how, asked, left } = match self.take_state() {
            MachineState::Settling(settling) => settling,
            other => return self.state = other,
        };
        for wish in [asked].into_iter().chain(left) {
            self.not_restored(wish, "the agent did not answer");
        }
        self.become_live(now, live, how);
    }

    fn not_restored(&mut self, wish: Setting, reason: &str) {
        let Setting { name, value } = wish;
        let option = name.option().map(str::to_owned);
        self.do_(Effect::Fact(Fact::SettingNotRestored { option, value, reason: reason.to_owned() }));
        self.settings.unmet.push(UnmetSetting { name, reason: reason.into() });
        self.settings_changed = true;
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
