//! What a user fixed about the agent of a session when it was set up: its system prompt, its tools, its number of turns,
//! and the services that acpx withholds from it. A record keeps them, so every later agent of the session gets them too.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

/// The options of a session's setup. An absent option leaves the agent's own default.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SetupOptions {
    /// The system prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<SystemPrompt>,
    /// The tools that the agent may use; an empty list means none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_tools: Option<Vec<String>>,
    /// How many model turns one prompt may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<NonZeroU64>,
    /// Whether the agent gets no access to files through acpx.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_fs: bool,
    /// Whether the agent runs no commands through acpx.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_terminal: bool,
}

/// What becomes of the agent's system prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SystemPrompt {
    /// This text replaces it.
    Replace(String),
    /// This text follows it.
    Append {
        /// The text.
        append: String,
    },
}

impl SetupOptions {
    /// These options, with those that a later request sets in their place.
    #[must_use]
    pub fn updated_by(&self, later: &Self) -> Self {
        let (own, later) = (self.clone(), later.clone());
        Self {
            system_prompt: later.system_prompt.or(own.system_prompt),
            allowed_tools: later.allowed_tools.or(own.allowed_tools),
            max_turns: later.max_turns.or(own.max_turns),
            no_fs: later.no_fs || own.no_fs,
            no_terminal: later.no_terminal || own.no_terminal,
        }
    }

    /// Whether no option is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Only the options that withhold a service from the agent. They give it nothing, so any client may set them.
    #[must_use]
    pub(crate) fn only_restrictions(self) -> Self {
        Self { no_fs: self.no_fs, no_terminal: self.no_terminal, ..Self::default() }
    }

    /// The members of `_meta` that carry the options to the agent, each as a path and a JSON value. claude-agent-acp
    /// reads them there, and so does npm acpx's convention.
    pub(crate) fn meta_members(&self) -> Vec<(&'static [&'static str], String)> {
        let Self { system_prompt, allowed_tools, max_turns, no_fs: _, no_terminal: _ } = self;
        let json = |value: serde_json::Result<String>| value.expect("texts and numbers can be written");
        let tools = allowed_tools.as_ref().map(|tools| json(serde_json::to_string(tools)));
        let turns = max_turns.map(|turns| turns.to_string());
        let prompt = system_prompt.as_ref().map(|prompt| json(serde_json::to_string(prompt)));
        let members: [(&'static [&'static str], _); 3] = [
            (&["claudeCode", "options", "allowedTools"], tools),
            (&["claudeCode", "options", "maxTurns"], turns),
            (&["systemPrompt"], prompt),
        ];
        members.into_iter().filter_map(|(path, value)| Some((path, value?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_setup_options_replace_earlier_ones_one_by_one() {
        let append = |text: &str| Some(SystemPrompt::Append { append: text.to_owned() });
        let first = SetupOptions {
            system_prompt: Some(SystemPrompt::Replace("one".to_owned())),
            allowed_tools: Some(vec!["Read".to_owned()]),
            no_fs: true,
            ..SetupOptions::default()
        };
        let later = SetupOptions {
            system_prompt: append("two"),
            max_turns: NonZeroU64::new(3),
            ..SetupOptions::default()
        };
        let both =
            SetupOptions { system_prompt: append("two"), max_turns: NonZeroU64::new(3), ..first.clone() };
        assert_eq!(first.updated_by(&later), both);
        assert_eq!(first.updated_by(&SetupOptions::default()), first);
        assert!(SetupOptions::default().is_empty() && !first.is_empty());
    }
}
