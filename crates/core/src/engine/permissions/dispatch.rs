//! Dispatches an agent's requests to the turn's client, and sends the decisions back.
//!
//! A request is persisted before it is dispatched, and a decision before it is sent.

use crate::acp::client::{Escalation, PermissionRequest, RedactedLine, is_elicitation_answer};
use crate::machine::Input;
use crate::model::{AgentRequestId, Fact, Permit, Seq, Timestamp, ToolKind, ToolUse, TurnId};
use crate::wire::RpcError;

use super::request::{ClientDecision, RequestDetails, RequestedPermission};
use crate::engine::session::effects::SessionAction;
use crate::engine::session::task::{Ask, SessionTask};

/// How many bytes of an unanswered request's description are stored.
const WHAT_BYTES: usize = 1024;

/// A request to dispatch.
pub(crate) struct Consulting {
    turn: Option<TurnId>,
    ask: AgentRequestId,
    at: Timestamp,
    /// The last stored event. The request is not after it.
    seq: Seq,
    /// Whether the request stays pending while no client is attached.
    waits: bool,
}

impl SessionTask {
    /// Schedules a request to be dispatched once it is persisted.
    pub(crate) fn put_later(&mut self, now: Timestamp, turn: Option<TurnId>, ask: AgentRequestId) {
        let (seq, waits) = (self.journal.last(), self.machine.waits_for_answers());
        self.actions.push(SessionAction::Consult(Consulting { turn, ask, at: now, seq, waits }));
    }

    /// Dispatches a persisted request to the turn's client.
    pub(crate) fn consult(&mut self, consulting: Consulting) {
        let Consulting { turn, ask, at, seq, waits } = consulting;
        let Some(version) = self.agent.as_ref().map(|agent| agent.connection.version()) else { return };
        let permission = |request: &PermissionRequest| {
            let (tool, can_be_approved) = (request.tool.clone(), request.can_be_approved());
            (request.params().clone(), Some(RequestedPermission { tool, can_be_approved }))
        };
        let (asked, offer) = match self.asks.get(&ask) {
            Some(Ask::Permission(request)) => (permission(request), None),
            Some(Ask::Elicitation(params)) => ((params.clone(), None), None),
            Some(Ask::Tool(tool)) => match tool.question() {
                // A rule that escalates overrides a client's offer to act without being asked.
                Some(question) => {
                    let is_escalated = tool.tool_use().is_some_and(|tool| self.machine.is_escalated(&tool));
                    let offer = tool.offer().filter(|_| !is_escalated);
                    (permission(question), offer)
                }
                None => return,
            },
            Some(Ask::Refused(_)) | None => return,
        };
        let (params, wanted) = asked;
        let responder = turn.and_then(|turn| self.waiters.responder(turn));
        let lineage = self.journal.lineage();
        let asked = RequestDetails { params, version, seq, lineage, wanted, waits, since: Some(at), offer };
        self.consultations.put(ask, asked, responder);
    }

    /// Persists that a client is asked about a file or a command. The agent's own request does not show that, because
    /// the decision to ask is made here.
    pub(crate) fn record_permission_asked(&mut self, ask: &AgentRequestId) {
        if matches!(self.asks.get(ask), Some(Ask::Tool(_))) {
            let fact = Fact::PermissionAsked { request: ask.0.to_string() };
            self.journal.append_fact_in(self.now(), self.machine.current_turn(), &fact);
        }
    }

    /// Applies a client's decision; `None` if there is none.
    pub(crate) fn on_decision(&mut self, ask: AgentRequestId, decision: Option<ClientDecision>) {
        let request = match self.asks.get(&ask) {
            Some(Ask::Permission(request)) => request,
            Some(Ask::Elicitation(_)) => {
                return self.feed(match decision {
                    Some(decision) => Input::RequestAnswered { id: ask, permit: elicited(decision) },
                    None => Input::RequestUnanswerable { id: ask, summary: String::new() },
                });
            }
            Some(Ask::Tool(tool)) => match tool.question() {
                Some(question) => question,
                None => return,
            },
            Some(Ask::Refused(_)) | None => return,
        };
        let permit = match decision {
            Some(ClientDecision::Choose(option)) => request.choice(&option),
            Some(ClientDecision::Say(result)) => request.said(&result),
            Some(ClientDecision::Approve) => request.approved(),
            Some(ClientDecision::Reject | ClientDecision::Fail(_)) => Permit::Reject,
            Some(ClientDecision::Cancel) => Permit::Cancelled,
            None => {
                let what = self.what_may_be_kept(&request.tool);
                return self.feed(Input::RequestUnanswerable { id: ask, summary: what });
            }
        };
        let approves = matches!(permit, Permit::Approve | Permit::Choose { approves: true, .. });
        // An approval of a request that the agent classifies as reading grants nothing further.
        let granted = match self.asks.get(&ask) {
            Some(Ask::Permission(request)) if approves && request.tool.kind() != ToolKind::Reads => {
                Some(request.clone())
            }
            _ => None,
        };
        self.feed(Input::RequestAnswered { id: ask.clone(), permit });
        // A decision that was not accepted grants nothing.
        if let Some(granted) = granted.filter(|_| !self.asks.contains_key(&ask)) {
            self.consultations.grant(granted);
        }
    }

    /// A description of a request, for a stored error. The agent's text may contain secrets and have any length, so it
    /// is masked and truncated.
    fn what_may_be_kept(&self, tool: &ToolUse) -> String {
        let what = tool.title.as_deref().unwrap_or(tool.kind_name());
        let kept = self.agent.as_ref().map(|agent| agent.connection.without_secrets(what));
        let mut kept = kept.unwrap_or_default();
        kept.truncate(kept.floor_char_boundary(WHAT_BYTES));
        kept
    }

    pub(crate) fn permit(
        &mut self,
        now: Timestamp,
        turn: Option<TurnId>,
        ask: &AgentRequestId,
        permit: &Permit,
    ) {
        self.consultations.withdraw(ask);
        // A scheduled request is dropped: the agent may reuse its id by then.
        self.actions.retain(
            |actions| !matches!(actions, SessionAction::Consult(consulting) if consulting.ask == *ask),
        );
        let asked = self.asks.remove(ask);
        if let Some(Ask::Tool(tool)) = asked {
            return self.permit_tool(turn, ask, *tool, permit);
        }
        let identity = self.identity();
        let Some(agent) = &mut self.agent else { return };
        let answer = match asked {
            Some(Ask::Permission(request)) => match (permit, identity) {
                (Permit::Escalated(rule), Some(identity)) => {
                    let escalation = Escalation { rule, identity, at: now };
                    agent.connection.escalate(ask, &request, &escalation)
                }
                _ => agent.connection.permit(ask, &request, permit),
            },
            Some(Ask::Elicitation(params)) => agent.connection.elicited(ask, &params, permit),
            Some(Ask::Tool(_) | Ask::Refused(_)) | None => return,
        };
        self.send(now, turn, answer);
    }

    /// Refuses a request with the id of a pending one: the decision on the first must not apply to it.
    pub(crate) fn refuse_second(&mut self, ask: &AgentRequestId, line: RedactedLine) {
        let (now, turn) = (self.now(), self.machine.current_turn());
        self.journal.append_line(now, turn, line);
        if let Some(agent) = &self.agent {
            let error = RpcError::invalid_request("a request with this id is still open");
            let answer = agent.connection.refusal(ask, &error);
            self.send(now, turn, answer);
        }
    }

    pub(crate) fn refuse(&mut self, now: Timestamp, turn: Option<TurnId>, ask: &AgentRequestId) {
        if let (Some(Ask::Refused(error)), Some(agent)) = (self.asks.remove(ask), &self.agent) {
            let answer = agent.connection.refusal(ask, &error);
            self.send(now, turn, answer);
        }
    }
}

/// Maps a client's decision to an elicitation. An unsuitable decision declines it.
pub(crate) fn elicited(decision: ClientDecision) -> Permit {
    match decision {
        ClientDecision::Say(result) if is_elicitation_answer(&result) => Permit::Elicited(result),
        ClientDecision::Cancel => Permit::Cancelled,
        ClientDecision::Say(_)
        | ClientDecision::Choose(_)
        | ClientDecision::Approve
        | ClientDecision::Reject
        | ClientDecision::Fail(_) => Permit::Declined,
    }
}
