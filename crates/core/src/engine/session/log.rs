//! Log events of one session, in spans for the session, its agent process and its running turn.
//!
//! No event has the body of a message, a command line or an environment. Text of an agent is logged only where it is the
//! reason for a refused setup request, which is redacted like everything that is stored.

use tokio::time::Instant;
use tracing::{Span, debug, error, error_span, info, warn};

use crate::acp::client::OutgoingLine;
use crate::machine::{Deadline, Effect, WakeError};
use crate::model::{
    AgentError, AgentRequestId, AgentSpec, EventKind, Fact, Lifecycle, Permit, RecordId, RestoreError,
};
use crate::store::StoreError;
use crate::tools::TerminationOutcome;

/// The spans of a session.
pub(crate) struct SessionLog {
    session: Span,
    /// The span of the agent process, or that of the session.
    agent: Span,
    /// The running turn, and when it began.
    turn: Option<(u64, Span, Instant)>,
}

impl SessionLog {
    pub(crate) fn new(record: &RecordId) -> Self {
        // Of the highest level, so that every event that is logged has its record.
        let session = error_span!(parent: None, "session", record = record.as_str());
        Self { agent: session.clone(), session, turn: None }
    }

    /// The span of the session, for its task.
    pub(crate) fn span(&self) -> Span {
        self.session.clone()
    }

    /// The span of the running turn, or that of the session.
    fn turn(&self) -> &Span {
        self.turn.as_ref().map_or(&self.session, |(_, span, _)| span)
    }

    pub(crate) fn created(&self, agent: &AgentSpec) {
        info!(parent: &self.session, agent = program(agent), "session created");
    }

    /// An effect of the machine, except for its facts.
    pub(crate) fn effect(&self, effect: &Effect) {
        let turn = self.turn();
        match effect {
            Effect::RouteRequest(id) => {
                info!(parent: turn, request = &*id.0, "permission request routed to clients");
            }
            Effect::AnswerRequest(id, permit) => decided(turn, id, permit),
            Effect::SaveRestoreError(Some(error)) => {
                let RestoreReason { method, rpc, reason } = RestoreReason::of(error);
                warn!(parent: &self.agent, method, rpc, reason, "session not restored");
            }
            Effect::SaveLifecycle(Lifecycle::Deleted { .. }) => {
                info!(parent: &self.session, "session deleted");
            }
            Effect::ReplyWake(Err(WakeError::Agent(error))) => {
                warn!(parent: &self.session, code = error.code().as_str(), "session not opened");
            }
            Effect::TurnAccepted(_, turn) => {
                debug!(parent: &self.session, turn = turn.0, "prompt accepted");
            }
            Effect::TurnRefused(_, refusal) => {
                debug!(parent: &self.session, ?refusal, "prompt refused");
            }
            Effect::StopAgent(fault) => debug!(parent: &self.agent, fault, "agent is being ended"),
            Effect::ReplyPark(parked) => debug!(parent: &self.session, parked, "park requested"),
            _ => {}
        }
    }

    /// A fact of the record.
    pub(crate) fn fact(&mut self, fact: &Fact) {
        let session = &self.session;
        match fact {
            Fact::TurnStarted { turn, client, .. } => {
                let span = error_span!(parent: session, "turn", turn);
                let client = client.as_ref().map(|client| client.name.as_str());
                info!(parent: &span, client, "turn started");
                self.turn = Some((*turn, span, Instant::now()));
            }
            Fact::TurnEnded { turn, stop_reason, error } => {
                let began = self.turn.take_if(|(running, ..)| running == turn);
                let took_ms = began.as_ref().map(|(_, _, began)| millis(*began));
                let (stop, code) = (stop_reason.as_deref(), error.as_ref().map(|error| error.code.as_str()));
                if let Some((_, span, _)) = began {
                    info!(parent: &span, stop, code, took_ms, "turn ended");
                } else {
                    // It was only queued, or ran in an earlier host.
                    info!(parent: session, turn, stop, code, "turn ended");
                }
            }
            Fact::Restored { by, replay } => {
                let replay = replay.map(|replay| format!("{replay:?}").to_lowercase());
                info!(parent: &self.agent, by, replay, "session restored");
            }
            Fact::SessionReset { reason, error, .. } => {
                let why = error.as_ref().map(RestoreReason::of).unwrap_or_default();
                let RestoreReason { method, rpc, reason: words } = why;
                info!(parent: &self.agent, cause = reason, method, rpc, reason = words, "fresh session begun");
            }
            Fact::SessionReturned { .. } => info!(parent: &self.agent, "earlier session restored"),
            Fact::PromptResent { turn, .. } => warn!(parent: &self.agent, turn, "prompt sent again"),
            Fact::LoadDelayed { until } => info!(parent: &self.agent, %until, "load delayed"),
            Fact::ReplayedLate { .. } => debug!(parent: &self.agent, "replay continued after its response"),
            Fact::Moved { .. } => info!(parent: session, "session moved"),
            Fact::Closed {} => info!(parent: session, "session closed"),
            Fact::AgentAway {} => warn!(parent: &self.agent, "connection to the remote agent lost"),
            Fact::AgentBack {} => info!(parent: &self.agent, "connection to the remote agent restored"),
            Fact::LinesDropped { lines, .. } => {
                warn!(parent: self.turn(), lines, "lines of the agent dropped: too long");
            }
            Fact::LinesUnread { lines } => {
                warn!(parent: self.turn(), lines, "lines of the agent dropped: no messages");
            }
            Fact::ProcessesEnded { processes } => {
                for process in processes {
                    info!(parent: session, name = process.name, pid = process.pid, "stray process ended");
                }
            }
            Fact::McpServersLeftOut { names, .. } => {
                warn!(parent: session, count = names.len(), "MCP servers left out");
            }
            Fact::SettingNotRestored { option, .. } => {
                warn!(parent: &self.agent, option = option.as_deref().unwrap_or("mode"), "setting not restored");
            }
            Fact::LimitNotEnforced { .. } => warn!(parent: self.turn(), "usage limit not enforced"),
            // The run of the agent is logged by the methods below. The rest is content.
            Fact::AgentEnded { .. }
            | Fact::PermissionAsked { .. }
            | Fact::TerminalStarted { .. }
            | Fact::TerminalOutput { .. }
            | Fact::TerminalEnded { .. } => {}
        }
    }

    pub(crate) fn agent_started(&mut self, agent: &AgentSpec, pid: u32, protocol: u16) {
        self.agent = error_span!(parent: &self.session, "agent", agent = program(agent), pid);
        info!(parent: &self.agent, protocol, "agent started");
    }

    pub(crate) fn agent_not_started(&self, agent: &AgentSpec, error: &AgentError) {
        let (code, how) = (error.code(), exit(error));
        warn!(parent: &self.session, agent = program(agent), code = code.as_str(), how, "agent not started");
    }

    /// The agent exited by itself.
    pub(crate) fn agent_lost(&mut self, error: &AgentError) {
        warn!(parent: &self.agent, code = error.code().as_str(), how = exit(error), "agent ended by itself");
        self.agent = self.session.clone();
    }

    /// The agent was ended on request.
    pub(crate) fn agent_ended(&mut self, outcome: TerminationOutcome) {
        match outcome {
            TerminationOutcome::Gone => info!(parent: &self.agent, "agent ended"),
            TerminationOutcome::Left => warn!(parent: &self.agent, "agent could not be ended"),
        }
        self.agent = self.session.clone();
    }

    pub(crate) fn store_failed(&self, error: &StoreError) {
        error!(parent: &self.session, code = error.code().as_str(), %error, "session ended by the store");
    }

    pub(crate) fn sent(&self, line: &OutgoingLine) {
        // A response has no method.
        let method = Some(line.method()).filter(|method| !method.is_empty());
        debug!(parent: &self.agent, method, bytes = line.size(), "sent to the agent");
    }

    pub(crate) fn received(&self, kind: EventKind, bytes: usize) {
        debug!(parent: &self.agent, ?kind, bytes, "received from the agent");
    }

    pub(crate) fn deadline(&self, deadline: Deadline) {
        debug!(parent: &self.agent, ?deadline, "deadline reached");
    }
}

fn decided(turn: &Span, AgentRequestId(request): &AgentRequestId, permit: &Permit) {
    let decision = match permit {
        Permit::Approve | Permit::Choose { approves: true, .. } => "approved",
        Permit::Reject | Permit::Choose { .. } => "denied",
        Permit::Escalated(_) => "denied, no client could answer",
        Permit::Unselected(_) | Permit::Cancelled => "cancelled",
        Permit::ElicitationResult(_) => "answered",
        Permit::Declined => "declined",
    };
    info!(parent: turn, request = &**request, decision, "permission request decided");
}

/// Why a restore failed: what the agent answered, if it refused a request. Other reasons may quote its output.
#[derive(Default)]
struct RestoreReason<'a> {
    method: Option<&'a str>,
    rpc: Option<i64>,
    reason: Option<&'a str>,
}

impl<'a> RestoreReason<'a> {
    fn of(error: &'a RestoreError) -> Self {
        let reason = error.method.is_some().then_some(error.message.as_str());
        Self { method: error.method.as_deref(), rpc: error.code, reason }
    }
}

/// How an agent's process ended or what it did not do in time, without its output.
fn exit(error: &AgentError) -> Option<String> {
    match error {
        AgentError::Died { how, .. } | AgentError::ExitedAtOnce { how, .. } => Some(how.clone()),
        AgentError::SlowStart { missed, .. } => Some(missed.to_string()),
        AgentError::NotStarted { reason, .. } => Some(reason.clone()),
        _ => None,
    }
}

/// The name of an agent, or its program without the directory. Its arguments may have secrets.
fn program(agent: &AgentSpec) -> &str {
    let file = || agent.program.rsplit('/').next().unwrap_or_default();
    agent.name.as_deref().or(agent.url()).unwrap_or_else(file)
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
