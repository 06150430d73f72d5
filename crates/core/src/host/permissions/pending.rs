//! The permissions and forms that agents wait for, and how anybody on this machine answers one.
//!
//! A question is listed for as long as it is open: it comes with the agent's request and goes with its answer, its turn
//! or its host. Its id is made at random and given to one question only, so an id that somebody has kept never leads to
//! another question. What an agent has started answers none of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot};

use crate::acp::agent::CallError;
use crate::engine::{ClientDecision, RequestedPermission};
use crate::model::{RecordId, Timestamp, unmistakable};

use super::tool_call_snapshot::{AnswerBytes, AskedCall, ToolCallSnapshot};
use crate::host::connection::Connection;
use crate::protocol::meta::IdsMeta;
use crate::protocol::pending_requests::{
    AnswerParams, AnswerProblem, OptionMeta, PendingMeta, PendingParams, PendingRequestMeta, ResponderMeta,
};
use crate::protocol::rpc_error;

/// The questions that are open, by their ids.
#[derive(Debug, Default)]
pub(crate) struct OpenQuestions(Mutex<BTreeMap<String, PendingEntry>>);

#[derive(Debug, Clone)]
struct PendingEntry {
    record: RecordId,
    since: Timestamp,
    subject: Subject,
    asked: Vec<ResponderMeta>,
    answer: mpsc::Sender<ExternalDecision>,
}

/// What a question is about.
#[derive(Debug, Clone)]
pub(crate) enum Subject {
    Permission {
        wanted: RequestedPermission,
        options: Vec<OptionMeta>,
        call: Arc<AskedCall>,
    },
    /// The params of an `elicitation/create` as version 1 has them, without the session.
    Elicitation(Arc<Map<String, Value>>),
}

/// An answer that comes from outside of those who were asked.
#[derive(Debug)]
pub(crate) struct ExternalDecision {
    pub(crate) advice: ClientDecision,
    /// Whether it came in time.
    pub(crate) counts: oneshot::Sender<bool>,
}

/// A question's place in the list. Dropped, it is not open any more.
#[derive(Debug)]
pub(crate) struct PendingGuard {
    list: Arc<OpenQuestions>,
    id: String,
    answers: mpsc::Receiver<ExternalDecision>,
}

impl Subject {
    /// A permission that is asked for with these params.
    pub(crate) fn permission(wanted: RequestedPermission, params: &str, call: AskedCall) -> Self {
        let params: Value = serde_json::from_str(params).unwrap_or_default();
        Self::Permission { wanted, options: OptionMeta::of_request(&params), call: Arc::new(call) }
    }

    /// A form or an address that is asked for with these params.
    pub(crate) fn elicitation(params: &str) -> Self {
        let mut params: Map<String, Value> = serde_json::from_str(params).unwrap_or_default();
        params.remove("sessionId");
        Self::Elicitation(Arc::new(params))
    }

    /// What an answer means for it.
    fn advice(&self, answer: &AnswerParams) -> Result<ClientDecision, AnswerProblem> {
        match self {
            Self::Permission { wanted, options, .. } => {
                advice(options, wanted.can_be_approved, answer.approve, answer.option_id.as_deref())
            }
            Self::Elicitation(_) if !answer.approve => Ok(ClientDecision::Reject),
            Self::Elicitation(params) => accepted(params, answer.content.clone()),
        }
    }

    fn options(&self) -> &[OptionMeta] {
        match self {
            Self::Permission { options, .. } => options,
            Self::Elicitation(_) => &[],
        }
    }
}

/// The answer that accepts a form with what it is filled in with, or says that an address was opened.
fn accepted(
    params: &Map<String, Value>,
    content: Option<Map<String, Value>>,
) -> Result<ClientDecision, AnswerProblem> {
    let mut answer = Map::from_iter([("action".to_owned(), Value::from("accept"))]);
    if params.get("mode").is_none_or(|mode| mode == "form") {
        let fields = params.get("requestedSchema").and_then(|schema| schema.get("properties"));
        let has_fields = fields.and_then(Value::as_object).is_some_and(|fields| !fields.is_empty());
        let content = content.or_else(|| (!has_fields).then(Map::new)).ok_or(AnswerProblem::Unfilled)?;
        answer.insert("content".to_owned(), content.into());
    }
    Ok(ClientDecision::Say(Value::Object(answer).to_string().into()))
}

impl OpenQuestions {
    /// Lists a question about a record.
    pub(crate) fn list(
        self: &Arc<Self>,
        record: &RecordId,
        since: Timestamp,
        subject: Subject,
    ) -> PendingGuard {
        let (answer, answers) = mpsc::channel(1);
        let open = PendingEntry { record: record.clone(), since, subject, asked: Vec::new(), answer };
        // The last part of such an id is random and nothing else, and is short enough to be typed.
        let id = crate::wire::new_uuid().simple().to_string().split_off(20);
        self.lock().insert(id.clone(), open);
        PendingGuard { list: Arc::clone(self), id, answers }
    }

    /// The questions of a record, by their ids, oldest first.
    pub(crate) fn of(&self, record: &RecordId) -> Vec<String> {
        let of_record = |(id, open): (String, PendingEntry)| (open.record == *record).then_some(id);
        self.all().into_iter().filter_map(of_record).collect()
    }

    fn all(&self) -> Vec<(String, PendingEntry)> {
        let mut all: Vec<_> = self.lock().iter().map(|(id, open)| (id.clone(), open.clone())).collect();
        all.sort_by_key(|(_, open)| open.since);
        all
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, PendingEntry>> {
        // Nothing panics while it holds the lock, and every step leaves the map whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PendingGuard {
    /// Says who is asked from here on.
    pub(crate) fn asks(&self, clients: Vec<ResponderMeta>) {
        if let Some(open) = self.list.lock().get_mut(&self.id) {
            open.asked = clients;
        }
    }

    /// The next answer from outside.
    pub(crate) async fn answered(&mut self) -> ExternalDecision {
        match self.answers.recv().await {
            Some(outside) => outside,
            // The list itself holds the other end, so there is one for as long as this is listed.
            None => std::future::pending().await,
        }
    }
}

impl Drop for PendingGuard {
    fn drop(&mut self) {
        self.list.lock().remove(&self.id);
    }
}

/// What an answer means for a question with these options, of which one may be known to approve.
fn advice(
    options: &[OptionMeta],
    can_be_approved: bool,
    approve: bool,
    word: Option<&str>,
) -> Result<ClientDecision, AnswerProblem> {
    let Some(word) = word else {
        return match (approve, can_be_approved) {
            (true, true) => Ok(ClientDecision::Approve),
            (true, false) => Err(AnswerProblem::NoneApproves),
            (false, _) => Ok(ClientDecision::Reject),
        };
    };
    let chosen = chosen(options, word).ok_or(AnswerProblem::NotOne)?;
    // What an agent means by a kind of its own nobody knows; whoever approves has seen it in the list.
    match (approve, chosen.is_of_kind("reject")) {
        (true, true) => Err(AnswerProblem::Refuses),
        (false, false) => Err(AnswerProblem::MayApprove),
        (true, false) | (false, true) => Ok(ClientDecision::Choose(chosen.option_id.as_str().into())),
    }
}

/// The option that a word stands for: its id, its kind, or its number. The ids are the agent's to choose, so a word that
/// stands for one option by its id and for another by its number stands for none.
fn chosen<'a>(options: &'a [OptionMeta], word: &str) -> Option<&'a OptionMeta> {
    let number = word.parse::<usize>().ok();
    let is_meant = |(at, option): &(usize, &OptionMeta)| {
        option.option_id == word || option.kind.as_deref() == Some(word) || number == Some(*at)
    };
    let mut meant = (1..).zip(options).filter(is_meant);
    let meant = meant.next().filter(|_| meant.next().is_none()).map(|(_, option)| option);
    meant.filter(|option| unmistakable(options).any(|one| one.option_id == option.option_id))
}

impl Connection {
    /// The questions that are open.
    pub(crate) async fn pending(&self, params: PendingParams) -> Result<String, CallError> {
        let (mut questions, mut left) = (Vec::new(), AnswerBytes::default());
        for (id, open) in self.host.askable.open().all() {
            if params.session_id.as_deref().is_some_and(|wanted| wanted != open.record.as_str()) {
                continue;
            }
            let record = self.host.engine.record(&open.record).await;
            // A record that is gone by now has no questions.
            let Some(record) = record.map_err(|error| self.refused(&error))? else { continue };
            let told = match &open.subject {
                Subject::Permission { wanted, call, .. } => {
                    let ToolCallSnapshot { call, left_out } =
                        call.told(&self.host.store, &open.record, &mut left).await;
                    QuestionDetails {
                        title: wanted.tool.title.as_deref().map(str::to_owned),
                        kind: wanted.tool.kind_name().to_owned(),
                        tool_call: Some(call).filter(|call| !call.is_empty()),
                        elicitation: None,
                        left_out,
                    }
                }
                Subject::Elicitation(params) => QuestionDetails::elicitation(params, &mut left),
            };
            let QuestionDetails { title, kind, tool_call, elicitation, left_out } = told;
            questions.push(PendingRequestMeta {
                question_id: id,
                ids: record.identity().into(),
                name: record.scope.as_ref().and_then(|scope| scope.name.as_ref()).map(ToString::to_string),
                agent: record.agent.label().into_owned(),
                cwd: record.cwd.to_string(),
                title,
                kind,
                tool_call,
                left_out,
                elicitation,
                options: open.subject.options().to_vec(),
                since: open.since.to_string(),
                asked: open.asked,
            });
        }
        Ok(serde_json::to_string(&PendingMeta { questions }).expect("questions are text and lists"))
    }

    /// Answers a question in the place of those who are asked.
    pub(crate) async fn answer_question(&self, params: AnswerParams) -> Result<String, CallError> {
        if self.is_confined() {
            return Err(rpc_error::not_allowed("answer what an agent asks"));
        }
        let open = self.host.askable.open().lock().get(&params.question_id).cloned();
        let Some(open) = open else { return Err(rpc_error::no_question(&params.question_id)) };
        let advice = open.subject.advice(&params).map_err(|why| {
            let word = params.option_id.as_deref().unwrap_or_default();
            rpc_error::no_option(&params.question_id, why, word, open.subject.options())
        })?;
        let question_id = params.question_id;
        let record = self.host.engine.record(&open.record).await;
        let record = record.map_err(|error| self.refused(&error))?;
        let Some(record) = record else { return Err(rpc_error::no_question(&question_id)) };
        let (counts, counted) = oneshot::channel();
        // One who came first leaves no room, or has ended it.
        let was_taken = open.answer.try_send(ExternalDecision { advice, counts }).is_ok();
        if !was_taken || !counted.await.unwrap_or(false) {
            return Err(rpc_error::no_question(&question_id));
        }
        Ok(serde_json::to_string(&IdsMeta::from(record.identity())).expect("ids are text"))
    }
}

/// What is told of one question.
struct QuestionDetails {
    title: Option<String>,
    kind: String,
    tool_call: Option<Map<String, Value>>,
    elicitation: Option<Map<String, Value>>,
    left_out: Vec<String>,
}

impl QuestionDetails {
    fn elicitation(params: &Map<String, Value>, left: &mut AnswerBytes) -> Self {
        let text = |name: &str| params.get(name).and_then(Value::as_str).map(str::to_owned);
        let fits = left.take(serde_json::to_string(params).map_or(usize::MAX, |params| params.len()));
        Self {
            title: text("message"),
            kind: text("mode").unwrap_or_else(|| "form".to_owned()),
            tool_call: None,
            elicitation: fits.then(|| params.clone()),
            left_out: if fits { Vec::new() } else { vec!["elicitation".to_owned()] },
        }
    }
}

#[cfg(test)]
mod tests;
