//! What a session currently waits for, for status reports.

use super::SessionMachine;
use super::state::{MachineState, PromptTurn, Reset, SettingsRestore};
use crate::model::{AgentRequestId, LineageReason, SettingName};

/// What a session waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitCondition {
    /// The agent's process to start and answer `initialize`.
    AgentStart,
    /// The time from which the agent can load sessions.
    LoadTime,
    /// The agent's response to this method.
    Answer(Box<str>),
    /// The end of the turn; the agent has received the prompt.
    TurnEnd,
    /// Answers of clients to pending requests of the agent.
    PendingRequests {
        /// The oldest pending request.
        first: AgentRequestId,
        /// How many are pending.
        open: usize,
    },
    /// The agent's process to exit.
    AgentExit,
}

impl SessionMachine {
    /// What the session waits for; `None` if it waits only for clients.
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
                    Some(WaitCondition::PendingRequests { first: first.id.clone(), open: asked.len() })
                }
                (None, true) => Some(WaitCondition::TurnEnd),
                (None, false) => answer("session/prompt"),
            },
            MachineState::Closing(advertised, _) if !advertised.close => answer("session/cancel"),
            MachineState::Closing(..) => answer("session/close"),
            MachineState::Deleting => answer("session/delete"),
            MachineState::Ending(_) => Some(WaitCondition::AgentExit),
        }
    }
}
