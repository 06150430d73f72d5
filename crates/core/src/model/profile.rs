//! The peculiarities of agents as data: what their errors mean, what they need before a load, how they shut down.
//!
//! An absent member means the default behaviour. No code outside this module branches on an agent's name: it reads
//! the profile, and `profile/agents.json` lists which agent has which peculiarity.

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ErrorMeaning, Timestamp};

mod parse;
mod table;

pub use table::Profiles;

/// The profile of an agent; `None` members are not specified.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub struct AgentProfile {
    /// What its errors mean: the first matching row decides.
    pub errors: Vec<ErrorRow>,
    /// How long it may take to answer `initialize`, and any later setup request.
    pub start_timeout: Option<Duration>,
    /// Whether it stores a session only when it is prompted, so that one without a prompt cannot be restored.
    pub needs_prompt_before_load: Option<bool>,
    /// What to wait for before a load.
    pub wait_before_load: Option<LoadWait>,
    /// Whether it keeps running when its stdin ends.
    pub ignores_stdin_end: Option<bool>,
    /// Whether it keeps running after SIGTERM.
    pub ignores_terminate: Option<bool>,
    /// Whether it replays the conversation on `session/resume` too.
    pub replays_on_resume: Option<bool>,
    /// The beginnings of notes that it writes into a conversation in the user's name.
    pub notes: Vec<String>,
}

/// The meaning of errors with this code (or any code) whose message or data contain all the words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorRow {
    /// The code.
    pub code: Option<i64>,
    /// The words, in lower case.
    pub words: Vec<String>,
    /// What it means.
    pub meaning: ErrorMeaning,
}

/// What to wait for before a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LoadWait {
    /// Nothing.
    #[default]
    None,
    /// The next minute: the agent names a session's file by the minute, and a load within the minute in which the
    /// session began would destroy it.
    NextMinute,
}

/// The part of a profile that decides how to restore a session.
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
    /// This profile, with absent members taken from the other one. Its error rows and notes precede the other's.
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

    /// The part that decides how to restore a session.
    pub fn restore_profile(&self) -> RestoreProfile {
        RestoreProfile {
            needs_prompt_before_load: self.needs_prompt_before_load.unwrap_or(false),
            wait_before_load: self.wait_before_load.unwrap_or_default(),
            replays_on_resume: self.replays_on_resume.unwrap_or(false),
            notes: self.notes.clone(),
        }
    }

    /// What an error means, from its code and from its message and data in one text.
    pub(crate) fn meaning_of(&self, code: i64, text: &str) -> ErrorMeaning {
        let text = text.to_lowercase();
        let fits = |row: &&ErrorRow| {
            row.code.is_none_or(|wanted| wanted == code) && row.words.iter().all(|word| text.contains(word))
        };
        self.errors.iter().find(fits).map_or(ErrorMeaning::Broken, |row| row.meaning)
    }
}

impl LoadWait {
    /// The time before which a session that began at `began` must not be loaded; `None` if it may be loaded now.
    pub(crate) fn until(self, began: Timestamp, now: Timestamp) -> Option<Timestamp> {
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

/// Programs that run a package which their arguments name.
const RUNNERS: [&str; 12] =
    ["npx", "npm", "npm-cli.js", "node", "bun", "bunx", "pnpm", "uv", "uvx", "pipx", "python", "python3"];

/// Whether these words run a package: directly or through a runner, with or without a version, as a runner's option,
/// or by a file in it.
pub fn runs_package(argv: &[String], package: &str) -> bool {
    let Some((program, arguments)) = argv.split_first() else { return false };
    let is_run = file_name(program).is_some_and(|name| RUNNERS.contains(&name));
    is_run && arguments.iter().any(|word| is_package(word, package))
}

/// Whether these words start a program of this name, or run a package of this name.
pub(super) fn starts(argv: &[String], name: &str) -> bool {
    let program = argv.first().and_then(|program| file_name(program));
    program == Some(name) || runs_package(argv, name)
}

fn file_name(program: &str) -> Option<&str> {
    Path::new(program).file_name()?.to_str()
}

fn is_package(word: &str, package: &str) -> bool {
    let word = word.strip_prefix("--package=").unwrap_or(word);
    match word.strip_prefix(package) {
        Some(rest) => rest.is_empty() || rest.starts_with('@'),
        None => word.contains(&format!("/node_modules/{package}/")),
    }
}

#[cfg(test)]
mod tests;
