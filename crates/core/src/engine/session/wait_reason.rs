//! Reports what a session waits for and since when, for clients that receive no updates.

use std::time::Duration;

use crate::machine::{Deadline, WaitCondition};
use crate::model::{AgentError, ForwardId, MissedDeadline, Timestamp};

use super::task::{Ask, SessionTask};
use crate::engine::agent::remote_host::RemoteHostState;
use crate::engine::permissions::request::QuestionKind;

/// What a session waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitReason {
    /// The condition.
    pub what: WaitCondition,
    /// Whether the agent itself waits for a file or a command.
    pub is_served: bool,
    /// Whether the agent's send queue is full, so that it has to read before we read from it.
    pub is_unread: bool,
    /// Whether the connection to a remote agent is lost and being re-established.
    pub is_away: bool,
    /// The kind of the first pending request, if the session waits for an answer.
    pub question: Option<QuestionKind>,
    /// Since when.
    pub since: Timestamp,
    /// When the agent last sent a message, if it has.
    pub heard: Option<Timestamp>,
}

/// The last observed wait condition.
#[derive(Debug, Default)]
pub(crate) struct Glance {
    seen: Option<Seen>,
    since: Option<Timestamp>,
    heard: Option<Timestamp>,
}

/// A wait condition, and the agent's part in it.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    what: WaitCondition,
    is_served: bool,
    is_unread: bool,
    is_away: bool,
}

impl Glance {
    /// The agent has sent a message.
    pub(crate) fn heard(&mut self, now: Timestamp) {
        self.heard = Some(now);
    }

    /// A new agent runs, which has sent nothing yet.
    pub(crate) fn begin(&mut self) {
        self.heard = None;
    }
}

impl SessionTask {
    /// Observes the wait condition, to know since when it holds.
    pub(crate) fn glance(&mut self) {
        let seen = self.seen();
        if seen != self.glance.seen {
            self.glance.since = Some(self.now());
            self.glance.seen = seen;
        }
    }

    /// The current wait condition, and whether the agent waits for us or has to read first.
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

    /// What the session waits for now.
    pub(crate) fn waiting(&self) -> Option<WaitReason> {
        let Seen { what, is_served, is_unread, is_away } = self.seen()?;
        let asked = if let WaitCondition::PendingRequests { first, .. } = &what { Some(first) } else { None };
        let question = asked.and_then(|ask| match self.asks.get(ask) {
            Some(Ask::Permission(_) | Ask::Tool(_)) => Some(QuestionKind::Permission),
            Some(Ask::Elicitation(_)) => Some(QuestionKind::Elicitation),
            Some(Ask::Refused(_)) | None => None,
        });
        let since = self.glance.since.unwrap_or_else(|| self.now());
        Some(WaitReason { what, is_served, is_unread, is_away, question, since, heard: self.glance.heard })
    }

    /// The error for a client whose start wait passed before the session was restored or the agent replied to a
    /// request, with the agent's output so far.
    pub(crate) fn slow_start(&self, wait: Duration, pass: Option<ForwardId>) -> AgentError {
        let asked = pass.and_then(|pass| self.machine.passed_method(pass));
        let awaited =
            asked.map(|method| WaitCondition::Answer(method.into())).or_else(|| self.machine.awaited());
        let missed = match (awaited, &self.deadline) {
            (Some(WaitCondition::AgentStart), _) => MissedDeadline::Initialize,
            (Some(WaitCondition::Answer(method)), _) => MissedDeadline::Answer(method),
            (Some(WaitCondition::LoadTime), Some((Deadline::Load(at), _))) => MissedDeadline::LoadTime(*at),
            (Some(WaitCondition::AgentExit), _) => MissedDeadline::End,
            (
                Some(
                    WaitCondition::LoadTime | WaitCondition::TurnEnd | WaitCondition::PendingRequests { .. },
                )
                | None,
                _,
            ) => MissedDeadline::Ready,
        };
        let agent = self.place.agent.label().into_owned();
        AgentError::SlowStart { agent, missed, limit: wait, said: self.place.last_words() }
    }
}
