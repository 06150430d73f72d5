//! The agent's pending requests: what each one asks, the clients' decisions on them, and the approvals that the agent
//! has not used yet.
//!
//! The session persists a request before it is dispatched, and a decision before it is sent.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::acp::client::{PermissionRequest, ToolRequest, is_elicitation_answer};
use crate::machine::Input;
use crate::model::{AgentRequestId, Permit, PreviousContent, Timestamp, ToolKind, ToolUse};
use crate::wire::RpcError;

use super::request::{
    ClientDecision, ClientOffer, PendingDecisions, QuestionKind, RequestDetails, RequestedPermission,
    ResponderSender,
};
use crate::engine::tools::dispatch::PendingTool;
use crate::engine::tools::run::Checked;

/// The least time between two notifications of pending requests.
const NOTIFICATION_INTERVAL: Duration = Duration::from_secs(15);

/// How many bytes of an unanswered request's description are stored.
const SUMMARY_BYTES: usize = 1024;

/// A pending request of the agent.
pub(crate) enum InboundRequest {
    Permission(PermissionRequest),
    /// With its params.
    Elicitation(Arc<str>),
    /// A file or a terminal.
    Tool(Box<PendingTool>),
    /// Refused with this error.
    Refused(RpcError),
}

impl InboundRequest {
    /// The permission request that a client decides on.
    fn permission(&self) -> Option<&PermissionRequest> {
        match self {
            Self::Permission(request) => Some(request),
            Self::Tool(tool) => tool.question.as_ref(),
            Self::Elicitation(_) | Self::Refused(_) => None,
        }
    }
}

/// The pending requests of a session's agent.
#[derive(Default)]
pub(crate) struct Permissions {
    requests: HashMap<AgentRequestId, InboundRequest>,
    pub(crate) decisions: PendingDecisions,
    notified: Option<NotifiedRequest>,
}

/// The request of the session's last notification.
#[derive(Debug)]
struct NotifiedRequest {
    ask: AgentRequestId,
    due_at: Timestamp,
    /// Whether its notification was removed from the queues.
    is_settled: bool,
}

impl Permissions {
    pub(crate) fn add(&mut self, ask: AgentRequestId, request: InboundRequest) {
        self.requests.insert(ask, request);
    }

    /// Removes a request, and withdraws it from its client.
    pub(crate) fn remove(&mut self, ask: &AgentRequestId) -> Option<InboundRequest> {
        self.decisions.withdraw(ask);
        self.requests.remove(ask)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    pub(crate) fn is_pending(&self, ask: &AgentRequestId) -> bool {
        self.requests.contains_key(ask)
    }

    /// Whether a pending request is for a file or a command.
    pub(crate) fn is_tool(&self, ask: &AgentRequestId) -> bool {
        matches!(self.requests.get(ask), Some(InboundRequest::Tool(_)))
    }

    /// How many bytes the pending file and terminal requests have together.
    pub(crate) fn tool_bytes(&self) -> usize {
        let bytes = |request: &InboundRequest| match request {
            InboundRequest::Tool(tool) => tool.params.len(),
            _ => 0,
        };
        self.requests.values().map(bytes).sum()
    }

    /// The kind of a request that a client answers.
    pub(crate) fn kind_of(&self, ask: &AgentRequestId) -> Option<QuestionKind> {
        match self.requests.get(ask)? {
            InboundRequest::Permission(_) | InboundRequest::Tool(_) => Some(QuestionKind::Permission),
            InboundRequest::Elicitation(_) => Some(QuestionKind::Elicitation),
            InboundRequest::Refused(_) => None,
        }
    }

    /// The agent's title of what a pending request permits.
    pub(crate) fn title_of(&self, ask: &AgentRequestId) -> Option<&str> {
        self.requests.get(ask)?.permission()?.tool.title.as_deref()
    }

    /// What a client gets of a request: its params, the permission and, for a file or a command, the capability that
    /// makes asking unnecessary. A rule that escalates overrides that capability.
    pub(crate) fn content_of(
        &self,
        ask: &AgentRequestId,
        is_escalated: impl Fn(&ToolUse) -> bool,
    ) -> Option<(Arc<str>, Option<RequestedPermission>, Option<ClientOffer>)> {
        let request = self.requests.get(ask)?;
        if let InboundRequest::Elicitation(params) = request {
            return Some((params.clone(), None, None));
        }
        let offer = match request {
            InboundRequest::Tool(tool) => {
                tool.offer().filter(|_| !tool.request.tool_use().is_some_and(|tool| is_escalated(&tool)))
            }
            _ => None,
        };
        let permission = request.permission()?;
        let (tool, can_be_approved) = (permission.tool.clone(), permission.can_be_approved());
        Some((permission.params().clone(), Some(RequestedPermission { tool, can_be_approved }), offer))
    }

    /// When the notification of a pending request is due. It takes the place of an earlier one that is not due yet, so
    /// an agent that sends many requests causes one in each interval.
    pub(crate) fn notify(&mut self, ask: &AgentRequestId, now: Timestamp) -> Timestamp {
        let due_at = match &self.notified {
            Some(last) if last.due_at > now => last.due_at,
            Some(last) => now.max(later(last.due_at, NOTIFICATION_INTERVAL)),
            None => now,
        };
        self.notified = Some(NotifiedRequest { ask: ask.clone(), due_at, is_settled: false });
        due_at
    }

    /// Whether the request of the last notification is settled, and was not when this was called before.
    pub(crate) fn take_settled_notification(&mut self) -> bool {
        let Self { requests, notified, .. } = self;
        let last = notified.as_mut().filter(|last| !last.is_settled && !requests.contains_key(&last.ask));
        last.map(|last| last.is_settled = true).is_some()
    }

    /// Sends a persisted request to the turn's client, unless it was withdrawn.
    pub(crate) fn dispatch(
        &mut self,
        ask: AgentRequestId,
        details: RequestDetails,
        responder: Option<&ResponderSender>,
    ) {
        if self.is_pending(&ask) {
            self.decisions.send(ask, details, responder);
        }
    }

    /// The input for a client's decision, or for none, and the request that an accepted decision grants. The
    /// description of an unanswered request is stored, so `redact` redacts secrets in it.
    pub(crate) fn on_decision(
        &self,
        ask: AgentRequestId,
        decision: Option<ClientDecision>,
        redact: impl FnOnce(&str) -> String,
    ) -> Option<(Input, Option<PermissionRequest>)> {
        let pending = self.requests.get(&ask)?;
        if let InboundRequest::Elicitation(_) = pending {
            let input = match decision {
                Some(decision) => Input::RequestAnswered { id: ask, permit: elicited(decision) },
                None => Input::RequestUnanswerable { id: ask, summary: String::new() },
            };
            return Some((input, None));
        }
        let request = pending.permission()?;
        let permit = match decision {
            Some(ClientDecision::Choose(option)) => request.choice(&option),
            Some(ClientDecision::Result(result)) => request.client_choice(&result),
            Some(ClientDecision::Approve) => request.approved(),
            Some(ClientDecision::Reject | ClientDecision::Fail(_)) => Permit::Reject,
            Some(ClientDecision::Cancel) => Permit::Cancelled,
            None => {
                let mut summary = redact(request.tool.title.as_deref().unwrap_or(request.tool.kind_name()));
                summary.truncate(summary.floor_char_boundary(SUMMARY_BYTES));
                return Some((Input::RequestUnanswerable { id: ask, summary }, None));
            }
        };
        let approves = matches!(permit, Permit::Approve | Permit::Choose { approves: true, .. });
        // An approval of a request that the agent classifies as reading grants nothing further.
        let granted = match pending {
            InboundRequest::Permission(request) if approves && request.tool.kind() != ToolKind::Reads => {
                Some(request.clone())
            }
            _ => None,
        };
        Some((Input::RequestAnswered { id: ask, permit }, granted))
    }

    /// The input for a file or terminal request whose path was checked. `question` makes its permission request.
    pub(crate) fn on_path_checked(
        &mut self,
        ask: AgentRequestId,
        checked: Result<Checked, RpcError>,
        question: impl FnOnce(&ToolRequest, Option<&PreviousContent>) -> Option<PermissionRequest>,
        cwd: &str,
    ) -> Option<Input> {
        let Some(InboundRequest::Tool(tool)) = self.requests.get_mut(&ask) else { return None };
        match checked {
            Ok(Checked { located, old }) => {
                tool.question = question(&tool.request, old.as_ref());
                (tool.located, tool.old) = (located, old);
                let granted = self.decisions.take_grant(&tool.request, tool.old.as_ref(), cwd);
                Some(Input::Tool { id: ask, tool: tool.request.tool_use(), granted })
            }
            Err(error) => {
                self.add(ask.clone(), InboundRequest::Refused(error));
                Some(Input::OtherRequest { id: ask })
            }
        }
    }

    /// The agent is gone, and its requests with it.
    pub(crate) fn clear(&mut self) {
        self.requests.clear();
        self.decisions.withdraw_all();
    }
}

fn later(at: Timestamp, by: Duration) -> Timestamp {
    let millis = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_millis(at.as_millis().saturating_add(millis)).unwrap_or(at)
}

/// Maps a client's decision to an elicitation. An unsuitable decision declines it.
pub(crate) fn elicited(decision: ClientDecision) -> Permit {
    match decision {
        ClientDecision::Result(result) if is_elicitation_answer(&result) => Permit::ElicitationResult(result),
        ClientDecision::Cancel => Permit::Cancelled,
        ClientDecision::Result(_)
        | ClientDecision::Choose(_)
        | ClientDecision::Approve
        | ClientDecision::Reject
        | ClientDecision::Fail(_) => Permit::Declined,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notifications_of_pending_requests_keep_their_interval() {
        let at = |seconds: i64| Timestamp::from_millis(seconds * 1000).unwrap();
        let ask = |name: &str| AgentRequestId(name.into());
        let mut permissions = Permissions::default();
        let due: Vec<_> = [(1, 1), (2, 2), (3, 12), (4, 17), (5, 100)]
            .map(|(name, now)| permissions.notify(&ask(&name.to_string()), at(now)))
            .into();
        assert_eq!(due, [1, 16, 16, 31, 100].map(at));
    }

    #[test]
    fn notification_of_a_settled_request_is_taken_back_once() {
        let at = Timestamp::from_millis(0).unwrap();
        let ask = AgentRequestId("one".into());
        let mut permissions = Permissions::default();
        assert!(!permissions.take_settled_notification());
        permissions.add(ask.clone(), InboundRequest::Elicitation("{}".into()));
        permissions.notify(&ask, at);
        assert!(!permissions.take_settled_notification());
        permissions.remove(&ask);
        assert!(permissions.take_settled_notification());
        assert!(!permissions.take_settled_notification());
    }
}
