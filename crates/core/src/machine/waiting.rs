//! What a session waits for, so that somebody who hears nothing can be told why.

use super::state::{MachineState, PromptTurn, Reset, SettingsRestore};
use super::{AskId, SessionMachine};
use crate::model::{LineageReason, SettingName};

/// What has to happen before a session goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitCondition {
    /// The agent's process has to come up and answer `initialize`.
    AgentStart,
    /// The time has to come from which the agent loads sessions.
    LoadTime,
    /// The agent has to answer this method.
    Answer(Box<str>),
    /// The agent has the prompt and has to say that it is done with it.
    TurnEnd,
    /// Somebody has to answer what the agent asks.
    Questions {
        /// The one that was asked first of those that are open.
        first: AskId,
        /// How many are open.
        open: usize,
    },
    /// The agent's process has to go.
    AgentEnd,
}

impl SessionMachine {
    /// What the session waits for; `None` if that is nothing but its clients.
    pub fn awaited(&self) -> Option<WaitCondition> {
        let answer = |method: &str| Some(WaitCondition::Answer(method.into()));
        match &self.state {
            MachineState::Parked | MachineState::Closed => None,
            MachineState::Starting => Some(WaitCondition::AgentStart),
            MachineState::Waiting(_) => Some(WaitCondition::LoadTime),
            MachineState::Looking(_) => answer("session/list"),
            MachineState::Creating(_, Some(Reset { reason: LineageReason::Forked, .. })) => {
                answer("session/fork")
            }
            MachineState::Creating(..) => answer("session/new"),
            MachineState::Restoring(restore) => answer(restore.rung.method()),
            MachineState::Settling(SettingsRestore { asked, .. }) => match asked.name {
                SettingName::Mode => answer("session/set_mode"),
                SettingName::Option(_) => answer("session/set_config_option"),
            },
            MachineState::Idle(_) => {
                let asked = self.passed.iter().find(|passed| passed.is_wanted);
                asked.and_then(|passed| answer(&passed.pass.method))
            }
            MachineState::Prompting(PromptTurn { stopping: Some(_), .. }) => answer("session/cancel"),
            MachineState::Prompting(PromptTurn { asked, inserted, .. }) => match (asked.first(), inserted) {
                (Some(first), _) => {
                    Some(WaitCondition::Questions { first: first.ask.clone(), open: asked.len() })
                }
                (None, true) => Some(WaitCondition::TurnEnd),
                (None, false) => answer("session/prompt"),
            },
            MachineState::Closing(advertised, _) if !advertised.close => answer("session/cancel"),
            MachineState::Closing(..) => answer("session/close"),
            MachineState::Deleting => answer("session/delete"),
            MachineState::Ending(_) => Some(WaitCondition::AgentEnd),
        }
    }
}
