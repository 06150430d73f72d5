//! Questions of an agent that only the turn's client can answer.
//!
//! A question goes to whoever prompted, or asked for that prompt again since; the session goes on meanwhile. One that is
//! dropped has nobody's answer, and then the turn's policy says what becomes of it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet};

use crate::acp::client::{PermissionRequest, ToolRequest};
use crate::machine::AskId;
use crate::model::{LineageIndex, PreviousContent, ProtocolVersion, Seq, Timestamp, ToolUse};
use crate::wire::RpcError;

/// How many permissions are remembered until the agent uses them. Agents use each before they ask for the next.
const GRANTS: usize = 8;

/// A question of the agent, put to the turn's client.
#[derive(Debug)]
pub struct ResponderRequest {
    asked: RequestDetails,
    reply: oneshot::Sender<ClientDecision>,
    /// To say once that a person is asked.
    put: Option<oneshot::Sender<()>>,
}

/// What an agent asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestDetails {
    pub(crate) params: Arc<str>,
    pub(crate) version: ProtocolVersion,
    pub(crate) seq: Seq,
    pub(crate) lineage: LineageIndex,
    /// The permission it wants, if it wants one.
    pub(crate) wanted: Option<RequestedPermission>,
    /// Whether it stays pending while nobody can be asked.
    pub(crate) waits: bool,
    /// When the agent asked; none for logins and files.
    pub(crate) since: Option<Timestamp>,
    /// What a client may offer so that it is not asked, or so that this is for it to do.
    pub(crate) offer: Option<ClientOffer>,
}

/// A permission that an agent wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestedPermission {
    /// For what.
    pub tool: ToolUse,
    /// Whether one of the answers it offers is known to approve; a yes that names none is a no where none is.
    pub can_be_approved: bool,
}

/// What a client may do for an agent by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientOffer {
    /// It reads files.
    Reading,
    /// It writes files.
    Writing,
    /// It runs commands.
    Terminals,
}

/// What sort of question it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuestionKind {
    /// Whether it may do something: `session/request_permission`.
    Permission,
    /// Anything else that only the user knows or does: `elicitation/create`.
    Elicitation,
    /// A file that the turn's client may have open: `fs/read_text_file` or `fs/write_text_file`. One who cannot be
    /// asked leaves it to us.
    File,
}

/// What a client says.
#[derive(Debug, Clone, PartialEq)]
pub enum ClientDecision {
    /// The option of this id.
    Choose(Box<str>),
    /// Yes, in the narrowest way the agent offers.
    Approve,
    /// No, in whichever way the agent offers.
    Reject,
    /// Nothing: the turn is being cancelled.
    Cancel,
    /// What the client answered: the result of the agent's request, as JSON. It goes to the agent as it is, if it is an
    /// answer to the question.
    Say(Arc<str>),
    /// The error that the client answered a request for a file with.
    Fail(RpcError),
}

/// Where a turn's questions go.
pub(crate) type ResponderSender = mpsc::Sender<ResponderRequest>;

impl ResponderRequest {
    /// What sort of question it is.
    pub fn kind(&self) -> QuestionKind {
        match (&self.asked.wanted, self.asked.offer) {
            (Some(_), _) => QuestionKind::Permission,
            (None, Some(_)) => QuestionKind::File,
            (None, None) => QuestionKind::Elicitation,
        }
    }

    /// The params of the agent's request, as it wrote them.
    pub fn params(&self) -> &str {
        &self.asked.params
    }

    /// The version of the protocol that they are in.
    pub fn version(&self) -> ProtocolVersion {
        self.asked.version
    }

    /// The event that it is, or one soon after it: whoever has been told as far knows what the question is about.
    pub fn seq(&self) -> Seq {
        self.asked.seq
    }

    /// Which of the record's sessions it was asked in.
    pub fn lineage(&self) -> LineageIndex {
        self.asked.lineage
    }

    /// The permission that the agent wants, if it wants one.
    pub fn wanted(&self) -> Option<&RequestedPermission> {
        self.asked.wanted.as_ref()
    }

    /// Whether it stays pending while nobody can be asked.
    pub fn waits(&self) -> bool {
        self.asked.waits
    }

    /// Since when it is asked, if a turn asks it of a person.
    pub fn since(&self) -> Option<Timestamp> {
        self.asked.since
    }

    /// What a client may offer: one that offers to write files or run commands for any agent is not asked whether this
    /// one may; and a file is for one that offers to read or write it.
    pub fn offer(&self) -> Option<ClientOffer> {
        self.asked.offer
    }

    /// Says that it is put to a person, or waits for one: until it is answered the session waits for its user. A
    /// client that answers by itself leaves this out.
    pub fn waits_for_somebody(&mut self) {
        if let Some(put) = self.put.take() {
            // Where nobody wants to know, it is not known.
            let _unheard = put.send(());
        }
    }

    /// Waits until nobody wants the answer any more: the turn is over or being cancelled, or the agent has taken the
    /// question back.
    pub async fn withdrawn(&mut self) {
        self.reply.closed().await;
    }

    /// Answers it. Whether the answer was still wanted: one that comes too late is nobody's.
    pub fn answer(self, advice: ClientDecision) -> bool {
        self.reply.send(advice).is_ok()
    }
}

/// Puts a question to whoever is there; what comes back has no answer if nobody gives one.
pub(crate) fn put(asked: RequestDetails, advisor: Option<&ResponderSender>) -> PendingDecision {
    let ((reply, answer), (told, put)) = (oneshot::channel(), oneshot::channel());
    if let Some(advisor) = advisor {
        match advisor.try_send(ResponderRequest { asked, reply, put: Some(told) }) {
            // A client that has too many questions already gets no more, and what it is not asked it has not allowed.
            Err(TrySendError::Full(question)) => {
                let advice = match (question.kind(), question.offer()) {
                    // It may have the file open, and something that is not saved.
                    (QuestionKind::File, Some(ClientOffer::Writing)) => ClientDecision::Fail(
                        RpcError::internal("the client that may have the file is asked too much"),
                    ),
                    _ => ClientDecision::Reject,
                };
                question.answer(advice);
            }
            // One that is gone leaves the answer to nobody.
            Ok(()) | Err(TrySendError::Closed(_)) => {}
        }
    }
    PendingDecision { put, answer }
}

/// A question on its way.
#[derive(Debug)]
pub(crate) struct PendingDecision {
    put: oneshot::Receiver<()>,
    pub(crate) answer: oneshot::Receiver<ClientDecision>,
}

impl PendingDecision {
    /// What happens to it first.
    async fn first(mut self) -> DecisionStep {
        tokio::select! {
            biased;
            Ok(()) = &mut self.put => DecisionStep::Put(self.answer),
            advice = &mut self.answer => DecisionStep::Said(advice.ok()),
        }
    }
}

/// What happens to a question that is out.
#[derive(Debug)]
enum DecisionStep {
    /// Somebody is asked, and may answer.
    Put(oneshot::Receiver<ClientDecision>),
    /// The answer; nobody's, if there is none.
    Said(Option<ClientDecision>),
}

/// What has become of a question.
#[derive(Debug, PartialEq)]
pub(crate) enum DecisionEvent {
    /// A person is asked.
    Put(AskId),
    /// The answer; nobody's, if there is none.
    Said(AskId, Option<ClientDecision>),
}

/// The questions that are out.
#[derive(Debug, Default)]
pub(crate) struct PendingDecisions {
    open: JoinSet<(AskId, u64, DecisionStep)>,
    waiting: HashMap<AskId, Out>,
    /// How many were put. An agent may use the number of its question again; ours is used once, so that no word on one
    /// question counts for another.
    put: u64,
    /// What somebody was asked and has approved, and the agent has not yet come back to, oldest first.
    granted: VecDeque<PermissionRequest>,
}

/// A question whose answer is waited for.
#[derive(Debug)]
struct Out {
    number: u64,
    task: AbortHandle,
}

impl PendingDecisions {
    /// Puts a question; without anybody to take it, the answer is nobody's. One that the agent has put under the same
    /// number is withdrawn.
    pub(crate) fn put(&mut self, ask: AskId, asked: RequestDetails, advisor: Option<&ResponderSender>) {
        self.withdraw(&ask);
        self.put += 1;
        let (putting, number, name) = (put(asked, advisor), self.put, ask.clone());
        let task = self.open.spawn(async move { (ask, number, putting.first().await) });
        self.waiting.insert(name, Out { number, task });
    }

    /// What becomes of a question next; never, if nothing is out.
    pub(crate) async fn next(&mut self) -> DecisionEvent {
        loop {
            let (ask, number, heard) = match self.open.join_next().await {
                Some(Ok(heard)) => heard,
                Some(Err(_)) => continue,
                None => std::future::pending().await,
            };
            // One that was withdrawn meanwhile is nobody's question, also if its name is that of another.
            let Some(out) = self.waiting.get_mut(&ask).filter(|out| out.number == number) else { continue };
            match heard {
                DecisionStep::Said(advice) => {
                    self.waiting.remove(&ask);
                    return DecisionEvent::Said(ask, advice);
                }
                DecisionStep::Put(answer) => {
                    let name = ask.clone();
                    out.task =
                        self.open.spawn(async move { (name, number, DecisionStep::Said(answer.await.ok())) });
                    return DecisionEvent::Put(ask);
                }
            }
        }
    }

    /// Nobody waits for the answer to this any more.
    pub(crate) fn withdraw(&mut self, ask: &AskId) {
        if let Some(out) = self.waiting.remove(ask) {
            out.task.abort();
        }
    }

    /// Remembers that somebody has approved this. If that is too much, the oldest is asked once more.
    pub(crate) fn grant(&mut self, request: PermissionRequest) {
        if self.granted.len() == GRANTS {
            self.granted.pop_front();
        }
        self.granted.push_back(request);
    }

    /// Whether somebody has approved just this, where a file has `old`. A yes is for one time.
    pub(crate) fn take_grant(
        &mut self,
        request: &ToolRequest,
        old: Option<&PreviousContent>,
        cwd: &str,
    ) -> bool {
        let place = self.granted.iter().position(|granted| granted.is_about(request, old, cwd));
        place.and_then(|place| self.granted.remove(place)).is_some()
    }

    /// What was approved in a turn is approved for no other.
    pub(crate) fn end_turn(&mut self) {
        self.granted.clear();
    }

    /// Nobody waits for any answer any more, not even for one that has come: an agent may use the number of a
    /// question again.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
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
    async fn what_a_client_with_too_many_questions_is_not_asked_it_has_not_allowed() {
        let (advisor, mut asked) = mpsc::channel(1);
        let mut consultations = PendingDecisions::default();
        let ask = |number: &str| AskId(number.into());
        consultations.put(ask("1"), question(), Some(&advisor));
        consultations.put(ask("2"), question(), Some(&advisor));
        assert_eq!(consultations.next().await, DecisionEvent::Said(ask("2"), Some(ClientDecision::Reject)));
        asked.recv().await.unwrap().answer(ClientDecision::Cancel);
        assert_eq!(consultations.next().await, DecisionEvent::Said(ask("1"), Some(ClientDecision::Cancel)));
        // Where nobody is there, the answer is nobody's.
        drop(asked);
        consultations.put(ask("3"), question(), Some(&advisor));
        assert_eq!(consultations.next().await, DecisionEvent::Said(ask("3"), None));
        consultations.put(ask("4"), question(), None);
        assert_eq!(consultations.next().await, DecisionEvent::Said(ask("4"), None));
    }

    #[tokio::test]
    async fn that_a_person_is_asked_is_heard_once_and_before_the_answer() {
        let (advisor, mut asked) = mpsc::channel(1);
        let mut consultations = PendingDecisions::default();
        let ask = AskId("1".into());
        consultations.put(ask.clone(), question(), Some(&advisor));
        let mut question = asked.recv().await.unwrap();
        question.waits_for_somebody();
        question.waits_for_somebody();
        question.answer(ClientDecision::Approve);
        assert_eq!(consultations.next().await, DecisionEvent::Put(ask.clone()));
        assert_eq!(consultations.next().await, DecisionEvent::Said(ask, Some(ClientDecision::Approve)));
    }
    #[tokio::test]
    async fn no_word_on_a_withdrawn_question_counts_for_another_of_its_number() {
        let (advisor, mut asked) = mpsc::channel(2);
        let mut consultations = PendingDecisions::default();
        let ask = AskId("1".into());
        // That somebody is asked has come, and is not heard of before the question is withdrawn and another is put.
        consultations.put(ask.clone(), question(), Some(&advisor));
        let mut first = asked.recv().await.unwrap();
        first.waits_for_somebody();
        tokio::task::yield_now().await;
        consultations.withdraw(&ask);
        consultations.put(ask.clone(), question(), Some(&advisor));
        let mut second = asked.recv().await.unwrap();
        second.waits_for_somebody();
        assert_eq!(consultations.next().await, DecisionEvent::Put(ask.clone()));
        first.withdrawn().await;
        assert!(!first.answer(ClientDecision::Approve));
        second.answer(ClientDecision::Reject);
        assert_eq!(
            consultations.next().await,
            DecisionEvent::Said(ask.clone(), Some(ClientDecision::Reject))
        );
        // The same of an answer that has come, and of a question that is put twice.
        consultations.put(ask.clone(), question(), Some(&advisor));
        asked.recv().await.unwrap().answer(ClientDecision::Approve);
        tokio::task::yield_now().await;
        consultations.put(ask.clone(), question(), Some(&advisor));
        asked.recv().await.unwrap().answer(ClientDecision::Reject);
        assert_eq!(consultations.next().await, DecisionEvent::Said(ask, Some(ClientDecision::Reject)));
        let more = tokio::time::timeout(std::time::Duration::ZERO, consultations.next()).await;
        assert!(more.is_err(), "{more:?}");
    }
}
