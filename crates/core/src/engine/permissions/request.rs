//! Requests of an agent that the turn's client has to answer.
//!
//! A request goes to the client that sent the prompt, or that last joined its turn, without blocking the session. If it
//! is dropped without an answer, the turn's policy decides.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet};

use crate::acp::client::{PermissionRequest, ToolRequest};
use crate::model::{
    AgentRequestId, ErrorCode, LineageIndex, PreviousContent, ProtocolVersion, Seq, Timestamp, ToolUse,
};
use crate::wire::RpcError;

/// How many grants are remembered until the agent uses them. Agents use each before they request the next.
const GRANTS: usize = 8;

/// A request of the agent for the turn's client.
#[derive(Debug)]
pub struct ResponderRequest {
    details: RequestDetails,
    reply: oneshot::Sender<ClientDecision>,
    /// Reports once that a person is being asked, with the id by which the request is listed.
    pending: Option<oneshot::Sender<Option<String>>>,
}

/// The content of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestDetails {
    pub(crate) params: Arc<str>,
    pub(crate) version: ProtocolVersion,
    pub(crate) seq: Seq,
    pub(crate) lineage: LineageIndex,
    /// The requested permission, if it is a permission request.
    pub(crate) wanted: Option<RequestedPermission>,
    /// Whether it stays pending while no client is attached.
    pub(crate) waits: bool,
    /// When the agent sent it; none for logins and files.
    pub(crate) since: Option<Timestamp>,
    /// The client capability that makes asking unnecessary, or that is needed to serve the file.
    pub(crate) offer: Option<ClientOffer>,
}

/// A permission that an agent requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestedPermission {
    /// The tool use to permit.
    pub tool: ToolUse,
    /// Whether one of the options is known to approve. Without one, a plain approval counts as a rejection.
    pub can_be_approved: bool,
}

/// What a client can do for an agent without asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientOffer {
    /// Reads files.
    Reading,
    /// Writes files.
    Writing,
    /// Runs commands.
    Terminals,
}

/// The kind of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuestionKind {
    /// A permission request: `session/request_permission`.
    Permission,
    /// Any other input from the user: `elicitation/create`.
    Elicitation,
    /// A file that the turn's client may have open: `fs/read_text_file` or `fs/write_text_file`. If no client serves
    /// it, acpx does.
    File,
}

/// A client's decision.
#[derive(Debug, Clone, PartialEq)]
pub enum ClientDecision {
    /// Selects the option with this id.
    Choose(Box<str>),
    /// Approves with the narrowest option.
    Approve,
    /// Rejects with any rejecting option.
    Reject,
    /// No decision: the turn is being cancelled.
    Cancel,
    /// The client's result for the agent's request, as JSON. It is forwarded unchanged if it is a valid answer.
    Result(Arc<str>),
    /// The client's error for a file request.
    Fail(RpcError),
}

/// The channel to the client that answers a turn's requests.
pub(crate) type ResponderSender = mpsc::Sender<ResponderRequest>;

impl ResponderRequest {
    /// The kind of request.
    pub fn kind(&self) -> QuestionKind {
        match (&self.details.wanted, self.details.offer) {
            (Some(_), _) => QuestionKind::Permission,
            (None, Some(_)) => QuestionKind::File,
            (None, None) => QuestionKind::Elicitation,
        }
    }

    /// The params of the agent's request, unchanged.
    pub fn params(&self) -> &str {
        &self.details.params
    }

    /// The protocol version of the params.
    pub fn version(&self) -> ProtocolVersion {
        self.details.version
    }

    /// The request's event, or one soon after it: a client that has received events up to here has the request's
    /// context.
    pub(crate) fn seq(&self) -> Seq {
        self.details.seq
    }

    /// The lineage in which it was sent.
    pub fn lineage(&self) -> LineageIndex {
        self.details.lineage
    }

    /// The requested permission, if it is a permission request.
    pub fn wanted(&self) -> Option<&RequestedPermission> {
        self.details.wanted.as_ref()
    }

    /// Whether it stays pending while no client is attached.
    pub(crate) fn waits(&self) -> bool {
        self.details.waits
    }

    /// Since when it has been pending, if it belongs to a turn.
    pub(crate) fn since(&self) -> Option<Timestamp> {
        self.details.since
    }

    /// The relevant client capability. A client that offers to write files or run commands for any agent is not asked
    /// for permission, and a file request goes to a client that offers to read or write files.
    pub fn offer(&self) -> Option<ClientOffer> {
        self.details.offer
    }

    /// Reports that a person is asked or awaited, so that the session can record it, and the id by which the request is
    /// listed, if it is. A client that decides by itself does not call this.
    pub(crate) fn report_pending(&mut self, question: Option<&str>) {
        if let Some(pending) = self.pending.take() {
            // The receiver may be gone.
            pending.send(question.map(str::to_owned)).ok();
        }
    }

    /// Waits until the answer is no longer needed: the turn has ended or is being cancelled, or the agent withdrew the
    /// request.
    pub async fn withdrawn(&mut self) {
        self.reply.closed().await;
    }

    /// Answers the request. Returns whether the answer was still needed; a late one is discarded.
    pub fn answer(self, decision: ClientDecision) -> bool {
        self.reply.send(decision).is_ok()
    }
}

/// Sends a request to the responder, if there is one. Without an answer, the pending decision resolves to none.
pub(crate) fn send_request(details: RequestDetails, responder: Option<&ResponderSender>) -> PendingDecision {
    let ((reply, answer), (pending_sender, pending)) = (oneshot::channel(), oneshot::channel());
    if let Some(responder) = responder {
        match responder.try_send(ResponderRequest { details, reply, pending: Some(pending_sender) }) {
            // A client with too many pending requests gets no more, and has not approved this one.
            Err(TrySendError::Full(question)) => {
                let decision = match (question.kind(), question.offer()) {
                    // It may have the file open with unsaved changes.
                    (QuestionKind::File, Some(ClientOffer::Writing)) => ClientDecision::Fail(
                        RpcError::internal("the client that may have the file has too many open requests"),
                    ),
                    _ => ClientDecision::Reject,
                };
                question.answer(decision);
            }
            // A disconnected client gives no answer.
            Ok(()) | Err(TrySendError::Closed(_)) => {}
        }
    }
    PendingDecision { pending, answer }
}

/// A request that was sent to the client.
#[derive(Debug)]
pub(crate) struct PendingDecision {
    pending: oneshot::Receiver<Option<String>>,
    pub(crate) answer: oneshot::Receiver<ClientDecision>,
}

impl PendingDecision {
    /// Its first event.
    async fn first(mut self) -> DecisionStep {
        tokio::select! {
            biased;
            Ok(question) = &mut self.pending => DecisionStep::Pending(question, self.answer),
            decision = &mut self.answer => DecisionStep::Decided(decision.ok()),
        }
    }
}

/// An event of one pending request.
#[derive(Debug)]
enum DecisionStep {
    /// A person is asked; the request may be listed under this id, and the receiver gets the answer.
    Pending(Option<String>, oneshot::Receiver<ClientDecision>),
    /// The answer; `None` if the client gave none.
    Decided(Option<ClientDecision>),
}

/// An event of any pending request.
#[derive(Debug, PartialEq)]
pub(crate) enum DecisionEvent {
    /// A person is asked; the request may be listed under this id.
    Pending(AgentRequestId, Option<String>),
    /// The answer; `None` if the client gave none.
    Decided(AgentRequestId, Option<ClientDecision>),
}

/// The pending requests of a session.
#[derive(Debug, Default)]
pub(crate) struct PendingDecisions {
    open: JoinSet<(AgentRequestId, u64, DecisionStep)>,
    waiting: HashMap<AgentRequestId, AwaitedDecision>,
    /// How many requests were sent. An agent may reuse an id; this number is unique, so that no answer applies to
    /// another request.
    sent: u64,
    /// Approved requests that the agent has not used yet, oldest first.
    granted: VecDeque<PermissionRequest>,
}

/// A pending request.
#[derive(Debug)]
struct AwaitedDecision {
    number: u64,
    task: AbortHandle,
}

impl PendingDecisions {
    /// Sends a request; without a responder the answer is `None`. Withdraws a pending request with the same id.
    pub(crate) fn send(
        &mut self,
        request: AgentRequestId,
        details: RequestDetails,
        responder: Option<&ResponderSender>,
    ) {
        self.withdraw(&request);
        self.sent += 1;
        let (decision, number, id) = (send_request(details, responder), self.sent, request.clone());
        let task = self.open.spawn(async move { (request, number, decision.first().await) });
        self.waiting.insert(id, AwaitedDecision { number, task });
    }

    /// The next event of a pending request; waits for ever if there is none.
    pub(crate) async fn next(&mut self) -> DecisionEvent {
        loop {
            let (request, number, step) = match self.open.join_next().await {
                Some(Ok(step)) => step,
                Some(Err(_)) => continue,
                None => std::future::pending().await,
            };
            // Ignores events of a withdrawn request, even if another one has reused its id.
            let Some(entry) = self.waiting.get_mut(&request).filter(|entry| entry.number == number) else {
                continue;
            };
            match step {
                DecisionStep::Decided(decision) => {
                    self.waiting.remove(&request);
                    return DecisionEvent::Decided(request, decision);
                }
                DecisionStep::Pending(question, answer) => {
                    let id = request.clone();
                    entry.task = self
                        .open
                        .spawn(async move { (id, number, DecisionStep::Decided(answer.await.ok())) });
                    return DecisionEvent::Pending(request, question);
                }
            }
        }
    }

    /// Withdraws a request.
    pub(crate) fn withdraw(&mut self, request: &AgentRequestId) {
        if let Some(entry) = self.waiting.remove(request) {
            entry.task.abort();
        }
    }

    /// Remembers an approval. If there are too many, the oldest is forgotten and has to be requested again.
    pub(crate) fn grant(&mut self, request: PermissionRequest) {
        if self.granted.len() == GRANTS {
            self.granted.pop_front();
        }
        self.granted.push_back(request);
    }

    /// Whether exactly this use was approved, for a file with the content `old`. An approval is valid once.
    pub(crate) fn take_grant(
        &mut self,
        request: &ToolRequest,
        old: Option<&PreviousContent>,
        cwd: &str,
    ) -> bool {
        let index = self.granted.iter().position(|granted| granted.is_about(request, old, cwd));
        index.and_then(|index| self.granted.remove(index)).is_some()
    }

    /// Forgets the approvals of a turn when it ends.
    pub(crate) fn end_turn(&mut self) {
        self.granted.clear();
    }

    /// Withdraws all requests, including those whose answer has arrived: an agent may reuse their ids.
    pub(crate) fn withdraw_all(&mut self) {
        *self = Self::default();
    }
}

/// The error for a denied request, with the rule if one required a decision that no client could make. The message is
/// repeated in `details`, where agents look for it.
pub(crate) fn denied(method: &str, rule: Option<&str>) -> RpcError {
    let why = rule.map(|rule| format!(": the rule {rule:?} asks for it, and no client can answer"));
    let words = format!("Permission denied for {method}{}", why.unwrap_or_default());
    let data = json!({ "details": words, "acpx": { "code": ErrorCode::PermissionDenied } });
    RpcError::internal(words).with_data(&data.to_string())
}

/// Whether an error that was sent to an agent is a denial.
pub fn is_denial(error: &RpcError) -> bool {
    #[derive(Deserialize)]
    struct Data {
        acpx: Code,
    }
    #[derive(Deserialize)]
    struct Code {
        code: ErrorCode,
    }
    let data = error.data.as_deref().and_then(|data| serde_json::from_str::<Data>(data.get()).ok());
    data.is_some_and(|data| data.acpx.code == ErrorCode::PermissionDenied)
}

#[cfg(test)]
mod denied_tests {
    use super::*;

    #[test]
    fn permission_denial_is_recognised_by_its_code_alone() {
        let plain = denied("terminal/create", None);
        assert_eq!(plain.message, "Permission denied for terminal/create");
        let ruled = denied("terminal/create", Some("execute"));
        let words = r#"Permission denied for terminal/create: the rule "execute" asks for it, and no client can answer"#;
        assert_eq!(ruled.message, words);
        assert!(is_denial(&plain) && is_denial(&ruled));
        // A client may return the same message for a file it serves itself, which is no denial.
        let same_words = RpcError::internal(plain.message.clone());
        assert!(!is_denial(&same_words));
        for data in
            [r#"{"details":"Permission denied for x"}"#, r#"{"acpx":{"code":"STORE_FULL"}}"#, "7", "{}"]
        {
            assert!(!is_denial(&same_words.clone().with_data(data)), "{data}");
        }
        assert!(is_denial(&RpcError::new(1, "no").with_data(r#"{"acpx":{"code":"PERMISSION_DENIED"}}"#)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question() -> RequestDetails {
        RequestDetails {
            params: "{}".into(),
            version: ProtocolVersion::V1,
            seq: Seq::FIRST,
            lineage: LineageIndex::FIRST,
            wanted: None,
            waits: false,
            since: None,
            offer: None,
        }
    }

    #[tokio::test]
    async fn permission_request_beyond_the_clients_queue_is_rejected() {
        let (responder, mut asked) = mpsc::channel(1);
        let mut decisions = PendingDecisions::default();
        let ask = |number: &str| AgentRequestId(number.into());
        decisions.send(ask("1"), question(), Some(&responder));
        decisions.send(ask("2"), question(), Some(&responder));
        assert_eq!(decisions.next().await, DecisionEvent::Decided(ask("2"), Some(ClientDecision::Reject)));
        asked.recv().await.unwrap().answer(ClientDecision::Cancel);
        assert_eq!(decisions.next().await, DecisionEvent::Decided(ask("1"), Some(ClientDecision::Cancel)));
        // Without a client there is no answer.
        drop(asked);
        decisions.send(ask("3"), question(), Some(&responder));
        assert_eq!(decisions.next().await, DecisionEvent::Decided(ask("3"), None));
        decisions.send(ask("4"), question(), None);
        assert_eq!(decisions.next().await, DecisionEvent::Decided(ask("4"), None));
    }

    #[tokio::test]
    async fn pending_request_is_reported_once_and_before_its_decision() {
        let (responder, mut asked) = mpsc::channel(1);
        let mut decisions = PendingDecisions::default();
        let ask = AgentRequestId("1".into());
        decisions.send(ask.clone(), question(), Some(&responder));
        let mut question = asked.recv().await.unwrap();
        question.report_pending(Some("4f"));
        question.report_pending(None);
        question.answer(ClientDecision::Approve);
        assert_eq!(decisions.next().await, DecisionEvent::Pending(ask.clone(), Some("4f".to_owned())));
        assert_eq!(decisions.next().await, DecisionEvent::Decided(ask, Some(ClientDecision::Approve)));
    }
    #[tokio::test]
    async fn decision_on_a_withdrawn_request_does_not_apply_to_a_reused_id() {
        let (responder, mut asked) = mpsc::channel(2);
        let mut decisions = PendingDecisions::default();
        let ask = AgentRequestId("1".into());
        // The event of the first request is not read before that request is withdrawn and another one is sent.
        decisions.send(ask.clone(), question(), Some(&responder));
        let mut first = asked.recv().await.unwrap();
        first.report_pending(None);
        tokio::task::yield_now().await;
        decisions.withdraw(&ask);
        decisions.send(ask.clone(), question(), Some(&responder));
        let mut second = asked.recv().await.unwrap();
        second.report_pending(None);
        assert_eq!(decisions.next().await, DecisionEvent::Pending(ask.clone(), None));
        first.withdrawn().await;
        assert!(!first.answer(ClientDecision::Approve));
        second.answer(ClientDecision::Reject);
        assert_eq!(decisions.next().await, DecisionEvent::Decided(ask.clone(), Some(ClientDecision::Reject)));
        // The same with an answer that has arrived, and a request that is sent twice.
        decisions.send(ask.clone(), question(), Some(&responder));
        asked.recv().await.unwrap().answer(ClientDecision::Approve);
        tokio::task::yield_now().await;
        decisions.send(ask.clone(), question(), Some(&responder));
        asked.recv().await.unwrap().answer(ClientDecision::Reject);
        assert_eq!(decisions.next().await, DecisionEvent::Decided(ask, Some(ClientDecision::Reject)));
        let more = tokio::time::timeout(std::time::Duration::ZERO, decisions.next()).await;
        assert!(more.is_err(), "{more:?}");
    }
}
