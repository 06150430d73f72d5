//! What a session waits for and since when, for those who hear nothing from it.

use std::time::Duration;

use crate::machine::{Deadline, PassId, WaitCondition};
use crate::model::{AgentError, MissedDeadline, Timestamp};

use super::task::{Ask, SessionTask};
use crate::engine::agent::remote_host::RemoteHostState;
use crate::engine::permissions::request::QuestionKind;

/// What a session waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitReason {
    /// What it is.
    pub what: WaitCondition,
    /// Whether the agent waits itself, for a file or a command that it wants.
    pub is_served: bool,
    /// Whether the agent has to read what it was sent before it is heard again.
    pub is_unread: bool,
    /// Whether the way to the agent, on another machine, has to be found again.
    pub is_away: bool,
    /// What the questions are about that somebody has to answer, if that is it: the first one decides.
    pub question: Option<QuestionKind>,
    /// Since when.
    pub since: Timestamp,
    /// When the agent last said anything, if it has.
    pub heard: Option<Timestamp>,
}

/// What was last seen to be waited for.
#[derive(Debug, Default)]
pub(crate) struct Glance {
    seen: Option<Seen>,
    since: Option<Timestamp>,
    heard: Option<Timestamp>,
}

/// What is waited for, and what the agent has to do with it.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    what: WaitCondition,
    is_served: bool,
    is_unread: bool,
    is_away: bool,
}

impl Glance {
    /// The agent has said something.
    pub(crate) fn heard(&mut self, now: Timestamp) {
        self.heard = Some(now);
    }

    /// Another agent is there, which has said nothing yet.
    pub(crate) fn begin(&mut self) {
        self.heard = None;
    }
}

impl SessionTask {
    /// Takes note of what is waited for, so that it is known since when.
    pub(crate) fn glance(&mut self) {
        let seen = self.seen();
        if seen != self.glance.seen {
            self.glance.since = Some(self.now());
            self.glance.seen = seen;
        }
    }

    /// What is waited for, and whether the agent waits itself for what it wants done, or has to read first.
    fn seen(&self) -> Option<Seen> {
        let what = self.machine.awaited()?;
        let is_at_work = match &what {
            WaitCondition::Answer(method) => &**method == "session/prompt",
            WaitCondition::TurnEnd => true,
            _ => false,
        };
        let is_served = is_at_work && self.agent.as_ref().is_some_and(|agent| agent.tools.is_busy());
        let is_unread =
            matches!(what, WaitCondition::Answer(_) | WaitCondition::TurnEnd) && self.agent_is_behind();
        let is_away = self.agent.is_some() && self.far.as_ref().is_some_and(RemoteHostState::is_away);
        Some(Seen { what, is_served, is_unread, is_away })
    }

    /// What the session waits for at the moment.
    pub(crate) fn waiting(&self) -> Option<WaitReason> {
        let Seen { what, is_served, is_unread, is_away } = self.seen()?;
        let asked = if let WaitCondition::Questions { first, .. } = &what { Some(first) } else { None };
        let question = asked.and_then(|ask| match self.asks.get(ask) {
            Some(Ask::Permission(_) | Ask::Tool(_)) => Some(QuestionKind::Permission),
            Some(Ask::Elicitation(_)) => Some(QuestionKind::Elicitation),
            Some(Ask::Refused(_)) | None => None,
        });
        let since = self.glance.since.unwrap_or_else(|| self.now());
        Some(WaitReason { what, is_served, is_unread, is_away, question, since, heard: self.glance.heard })
    }

    /// The error for whoever has waited in vain, for as long as the start wait, for the session to be awake or for the
    /// agent's answer to a request, with what the agent has said so far.
    pub(crate) fn slow_start(&self, wait: Duration, pass: Option<PassId>) -> AgentError {
        let asked = pass.and_then(|pass| self.machine.passed_method(pass));
        let awaited =
            asked.map(|method| WaitCondition::Answer(method.into())).or_else(|| self.machine.awaited());
        let missed = match (awaited, &self.deadline) {
            (Some(WaitCondition::AgentStart), _) => MissedDeadline::Initialize,
            (Some(WaitCondition::Answer(method)), _) => MissedDeadline::Answer(method),
            (Some(WaitCondition::LoadTime), Some((Deadline::Load(at), _))) => MissedDeadline::LoadTime(*at),
            (Some(WaitCondition::AgentEnd), _) => MissedDeadline::End,
            (
                Some(WaitCondition::LoadTime | WaitCondition::TurnEnd | WaitCondition::Questions { .. })
                | None,
                _,
            ) => MissedDeadline::Ready,
        };
        let agent = self.place.agent.label().into_owned();
        AgentError::SlowStart { agent, missed, limit: wait, said: self.place.last_words() }
    }
}
