//! What a session waits for, so that somebody who hears nothing can be told why.

use super::state::{Prompting, Reset, Settling, State};
use super::{AskId, SessionMachine};
use crate::model::{LineageReason, SettingName};

/// What has to happen before a session goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Awaited {
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
    pub fn awaited(&self) -> Option<Awaited> {
        let answer = |method: &str| Some(Awaited::Answer(method.into()));
        match &self.state {
            State::Parked | State::Closed => None,
            State::Starting => Some(Awaited::AgentStart),
            State::Waiting(_) => Some(Awaited::LoadTime),
            State::Looking(_) => answer("session/list"),
            State::Creating(_, Some(Reset { reason: LineageReason::Forked, .. })) => answer("session/fork"),
            State::Creating(..) => answer("session/new"),
            State::Restoring(restore) => answer(restore.rung.method()),
            State::Settling(Settling { asked, .. }) => match asked.name {
                SettingName::Mode => answer("session/set_mode"),
                SettingName::Option(_) => answer("session/set_config_option"),
            },
            State::Idle(_) => {
                let asked = self.passed.iter().find(|passed| passed.is_wanted);
                asked.and_then(|passed| answer(&passed.pass.method))
            }
            State::Prompting(Prompting { stopping: Some(_), .. }) => answer("session/cancel"),
            State::Prompting(Prompting { asked, inserted, .. }) => match (asked.first(), inserted) {
                (Some(first), _) => Some(Awaited::Questions { first: first.ask.clone(), open: asked.len() }),
                (None, true) => Some(Awaited::TurnEnd),
                (None, false) => answer("session/prompt"),
            },
            State::Closing(advertised, _) if !advertised.close => answer("session/cancel"),
            State::Closing(..) => answer("session/close"),
            State::Deleting => answer("session/delete"),
            State::Ending(_) => Some(Awaited::AgentEnd),
        }
    }
}
