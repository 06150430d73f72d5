//! What a session waits for and since when, for those who hear nothing from it.

use crate::machine::Awaited;
use crate::model::Timestamp;

use super::advice::QuestionKind;
use super::task::{Ask, SessionTask};

/// What a session waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// What it is.
    pub what: Awaited,
    /// What the questions are about that somebody has to answer, if that is it: the first one decides.
    pub question: Option<QuestionKind>,
    /// Since when.
    pub since: Timestamp,
    /// When the agent last said anything, if it has.
    pub heard: Option<Timestamp>,
}

/// What was last seen to be waited for.
#[derive(Debug, Default)]
pub(super) struct Glance {
    what: Option<Awaited>,
    since: Option<Timestamp>,
    heard: Option<Timestamp>,
}

impl Glance {
    /// The agent has said something.
    pub(super) fn heard(&mut self, now: Timestamp) {
        self.heard = Some(now);
    }

    /// Another agent is there, which has said nothing yet.
    pub(super) fn begin(&mut self) {
        self.heard = None;
    }
}

impl SessionTask {
    /// Takes note of what is waited for, so that it is known since when.
    pub(super) fn glance(&mut self) {
        let what = self.awaited();
        if what != self.glance.what {
            self.glance.since = Some(self.now());
            self.glance.what = what;
        }
    }

    /// An agent that waits for what it wants done is not waited for.
    fn awaited(&self) -> Option<Awaited> {
        let what = self.machine.awaited()?;
        let is_agents_turn = match &what {
            Awaited::Answer(method) => &**method == "session/prompt",
            Awaited::TurnEnd => true,
            _ => false,
        };
        let is_busy = self.agent.as_ref().is_some_and(|agent| agent.tools.is_busy());
        Some(if is_agents_turn && is_busy { Awaited::Done } else { what })
    }

    /// What the session waits for at the moment.
    pub(super) fn waiting(&self) -> Option<Waiting> {
        let what = self.awaited()?;
        let asked = if let Awaited::Questions(asked) = &what { asked.first() } else { None };
        let question = asked.and_then(|ask| match self.asks.get(ask) {
            Some(Ask::Permission(_) | Ask::Tool(_)) => Some(QuestionKind::Permission),
            Some(Ask::Elicitation(_)) => Some(QuestionKind::Elicitation),
            Some(Ask::Refused(_)) | None => None,
        });
        let since = self.glance.since.unwrap_or_else(|| self.now());
        Some(Waiting { what, question, since, heard: self.glance.heard })
    }
}
