//! How an agent behaves where agents differ, as data: what its errors mean, what it wants before a load, how it goes.
//!
//! What a profile does not say is as with any agent. Nothing outside this module decides by an agent's name how to speak
//! with it: whoever depends on a peculiarity asks for the habit, and `profile/agents.json` says who has it.

use std::time::Duration;

use super::{ErrorMeaning, Timestamp};

mod command;
mod parse;
mod table;

pub use command::runs_package;
pub use parse::ProfileError;
pub use table::Profiles;

/// What is said of an agent; `None` where nothing is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentProfile {
    /// What its errors mean, read from the top: the first row that fits decides.
    pub errors: Vec<ErrorRow>,
    /// How long it may take to answer `initialize`, and any later setup request.
    pub start_timeout: Option<Duration>,
    /// Whether it writes a session down only when it is prompted, so that one without a prompt cannot be restored.
    pub needs_prompt_before_load: Option<bool>,
    /// What it has to be given time for before a load.
    pub wait_before_load: Option<LoadWait>,
    /// Whether it stays when its stdin ends.
    pub ignores_stdin_end: Option<bool>,
    /// Whether it stays when it is told to terminate.
    pub ignores_terminate: Option<bool>,
    /// Whether it replays the conversation on `session/resume` too.
    pub replays_on_resume: Option<bool>,
    /// How notes begin that it writes into a conversation in the user's name.
    pub notes: Vec<String>,
}

/// What an error means: one of this code, or of any, in whose message or data all the words are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorRow {
    /// The code.
    pub code: Option<i64>,
    /// The words, in lower case.
    pub words: Vec<String>,
    /// What it means.
    pub reading: ErrorMeaning,
}

/// What an agent has to be given time for before a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LoadWait {
    /// Nothing.
    #[default]
    None,
    /// It names a session's file by the minute, and a load in the minute the session began would destroy it.
    NextMinute,
}

/// What of a profile decides how a session is brought back.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RestoreProfile {
    /// See [`AgentProfile::needs_prompt_before_load`].
    pub needs_prompt_before_load: bool,
    /// See [`AgentProfile::wait_before_load`].
    pub wait_before_load: LoadWait,
    /// See [`AgentProfile::replays_on_resume`].
    pub replays_on_resume: bool,
    /// See [`AgentProfile::notes`].
    pub notes: Vec<String>,
}

impl AgentProfile {
    /// This profile, and where it says nothing, the other one. Rows of errors come before the other's, and so do notes.
    #[must_use]
    pub fn over(&self, other: &Self) -> Self {
        Self {
            errors: self.errors.iter().chain(&other.errors).cloned().collect(),
            start_timeout: self.start_timeout.or(other.start_timeout),
            needs_prompt_before_load: self.needs_prompt_before_load.or(other.needs_prompt_before_load),
            wait_before_load: self.wait_before_load.or(other.wait_before_load),
            ignores_stdin_end: self.ignores_stdin_end.or(other.ignores_stdin_end),
            ignores_terminate: self.ignores_terminate.or(other.ignores_terminate),
            replays_on_resume: self.replays_on_resume.or(other.replays_on_resume),
            notes: self.notes.iter().chain(&other.notes).cloned().collect(),
        }
    }

    /// What of it decides how a session is brought back.
    pub fn habits(&self) -> RestoreProfile {
        RestoreProfile {
            needs_prompt_before_load: self.needs_prompt_before_load.unwrap_or(false),
            wait_before_load: self.wait_before_load.unwrap_or_default(),
            replays_on_resume: self.replays_on_resume.unwrap_or(false),
            notes: self.notes.clone(),
        }
    }

    /// What an error means, from its code and from its message and data in one text.
    pub fn reading(&self, code: i64, text: &str) -> ErrorMeaning {
        let text = text.to_lowercase();
        let fits = |row: &&ErrorRow| {
            row.code.is_none_or(|wanted| wanted == code) && row.words.iter().all(|word| text.contains(word))
        };
        self.errors.iter().find(fits).map_or(ErrorMeaning::Broken, |row| row.reading)
    }
}

impl LoadWait {
    /// Until when a session that began then has to wait to be loaded; `None` if it need not wait.
    pub fn until(self, began: Timestamp, now: Timestamp) -> Option<Timestamp> {
        const MINUTE: i64 = 60_000;
        let minute = |at: Timestamp| at.as_millis().div_euclid(MINUTE);
        match self {
            Self::NextMinute if minute(began) == minute(now) => {
                Timestamp::from_millis((minute(now) + 1) * MINUTE).ok()
            }
            Self::NextMinute | Self::None => None,
        }
    }
}

#[cfg(test)]
mod tests;
