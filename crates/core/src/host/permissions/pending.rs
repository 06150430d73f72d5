//! Pending permission requests and forms, and how a local client answers one by id.
//!
//! A request is listed while it is pending: from the agent's request to its answer, or the end of its turn or host. Its
//! id is random and never reused, so a stale id cannot reach another request. A program that an agent started may not
//! answer.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot, watch};

use crate::acp::ToolCallSnapshot;
use crate::acp::agent::{CallError, ClientLink};
use crate::engine::{ClientDecision, RequestedPermission};
use crate::model::{RecordId, Timestamp, unmistakable};
use crate::sync::Lock;

use super::tool_call_snapshot::{AnswerBytes, RequestedCall};
use crate::host::Host;
use crate::protocol::pending_requests::{
    AnswerParams, AnswerProblem, OptionMeta, PENDING_CHANGED, PendingMeta, PendingParams, PendingRequestMeta,
    ResponderMeta,
};
use crate::protocol::rpc_error;

/// The least time between two reports of the list. Changes in between are one report.
const REPORT_PAUSE: Duration = Duration::from_millis(50);
/// The pause after a report for each of its bytes, about a second for each MiB: all sessions share the host's thread.
const REPORT_PAUSE_PER_BYTE: Duration = Duration::from_micros(1);
/// How long after an error the list is read again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// The pending requests by id.
#[derive(Debug, Default)]
pub(crate) struct PendingRequests {
    entries: Lock<BTreeMap<String, PendingEntry>>,
    /// Changes when a request is added, removed or sent to other clients.
    changed: watch::Sender<()>,
}

#[derive(Debug, Clone)]
struct PendingEntry {
    record: RecordId,
    since: Timestamp,
    subject: Subject,
    responders: Vec<ResponderMeta>,
    answer: mpsc::Sender<ExternalDecision>,
}

/// What a pending request is about.
#[derive(Debug, Clone)]
pub(crate) enum Subject {
    Permission {
        wanted: RequestedPermission,
        options: Vec<OptionMeta>,
        call: Arc<RequestedCall>,
    },
    /// The version 1 params of an `elicitation/create`, without the session id.
    Elicitation(Arc<Map<String, Value>>),
}

/// An answer given by request id.
#[derive(Debug)]
pub(crate) struct ExternalDecision {
    pub(crate) decision: ClientDecision,
    /// Receives whether it came in time.
    pub(crate) counts: oneshot::Sender<bool>,
}

/// A listed request. Dropping it removes it from the list.
#[derive(Debug)]
pub(crate) struct PendingGuard {
    list: Arc<PendingRequests>,
    id: String,
    answers: mpsc::Receiver<ExternalDecision>,
}

impl Subject {
    /// A permission request with these params.
    pub(crate) fn permission(wanted: RequestedPermission, params: &str, call: RequestedCall) -> Self {
        let params: Value = serde_json::from_str(params).unwrap_or_default();
        Self::Permission { wanted, options: OptionMeta::of_request(&params), call: Arc::new(call) }
    }

    /// A form or URL elicitation with these params.
    pub(crate) fn elicitation(params: &str) -> Self {
        let mut params: Map<String, Value> = serde_json::from_str(params).unwrap_or_default();
        params.remove("sessionId");
        Self::Elicitation(Arc::new(params))
    }

    /// The decision that an answer stands for.
    fn decision(&self, answer: &AnswerParams) -> Result<ClientDecision, AnswerProblem> {
        match self {
            Self::Permission { wanted, options, .. } => {
                decision(options, wanted.can_be_approved, answer.approve, answer.option_id.as_deref())
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

/// The answer that accepts a form with its content, or confirms that a URL was opened.
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
    Ok(ClientDecision::Result(Value::Object(answer).to_string().into()))
}

impl PendingRequests {
    /// Lists a request about a record.
    pub(crate) fn list(
        self: &Arc<Self>,
        record: &RecordId,
        since: Timestamp,
        subject: Subject,
    ) -> PendingGuard {
        let (answer, answers) = mpsc::channel(1);
        let open = PendingEntry { record: record.clone(), since, subject, responders: Vec::new(), answer };
        // This part of the UUID is purely random, and short enough to type.
        let id = crate::wire::new_uuid().simple().to_string().split_off(20);
        self.entries.lock().insert(id.clone(), open);
        self.changed.send_replace(());
        PendingGuard { list: Arc::clone(self), id, answers }
    }

    /// The ids of a record's pending requests, oldest first.
    pub(crate) fn ids_of(&self, record: &RecordId) -> Vec<String> {
        let of_record = |(id, open): (String, PendingEntry)| (open.record == *record).then_some(id);
        self.all().into_iter().filter_map(of_record).collect()
    }

    /// The records that have pending requests.
    pub(crate) fn records(&self) -> HashSet<RecordId> {
        self.entries.lock().values().map(|open| open.record.clone()).collect()
    }

    /// Changes when the list does.
    pub(crate) fn watch(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    fn all(&self) -> Vec<(String, PendingEntry)> {
        let mut all: Vec<_> =
            self.entries.lock().iter().map(|(id, open)| (id.clone(), open.clone())).collect();
        all.sort_by_key(|(_, open)| open.since);
        all
    }
}

impl PendingGuard {
    /// The id by which the request is answered.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Sets which clients are being asked.
    pub(crate) fn set_responders(&self, clients: Vec<ResponderMeta>) {
        if let Some(open) = self.list.entries.lock().get_mut(&self.id) {
            open.responders = clients;
        }
        self.list.changed.send_replace(());
    }

    /// The next answer given by id.
    pub(crate) async fn next_decision(&mut self) -> ExternalDecision {
        match self.answers.recv().await {
            Some(decision) => decision,
            // The list holds the sender while the request is listed.
            None => std::future::pending().await,
        }
    }
}

impl Drop for PendingGuard {
    fn drop(&mut self) {
        self.list.entries.lock().remove(&self.id);
        self.list.changed.send_replace(());
    }
}

/// The decision that an answer stands for, given the request's options and whether one is known to approve.
fn decision(
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
    // An option of unknown kind may approve, so only an approving answer may choose it.
    match (approve, chosen.is_of_kind("reject")) {
        (true, true) => Err(AnswerProblem::Refuses),
        (false, false) => Err(AnswerProblem::MayApprove),
        (true, false) | (false, true) => Ok(ClientDecision::Choose(chosen.option_id.as_str().into())),
    }
}

/// The option that a word stands for: its id, kind or number. The agent chooses the ids, so a word that matches several
/// options stands for none.
fn chosen<'a>(options: &'a [OptionMeta], word: &str) -> Option<&'a OptionMeta> {
    let number = word.parse::<usize>().ok();
    let is_meant = |(at, option): &(usize, &OptionMeta)| {
        option.option_id == word || option.kind.as_deref() == Some(word) || number == Some(*at)
    };
    let mut meant = (1..).zip(options).filter(is_meant);
    let meant = meant.next().filter(|_| meant.next().is_none()).map(|(_, option)| option);
    meant.filter(|option| unmistakable(options).any(|one| one.option_id == option.option_id))
}

/// `_acpx/pending`: lists the pending requests.
pub(crate) async fn list(host: &Host, params: &PendingParams) -> Result<String, CallError> {
    let (mut questions, mut left) = (Vec::new(), AnswerBytes::default());
    for (id, open) in host.responders.pending().all() {
        if params.session_id.as_deref().is_some_and(|wanted| wanted != open.record.as_str()) {
            continue;
        }
        let record = host.engine.record(&open.record).await;
        // A deleted record has no pending requests.
        let Some(record) = record.map_err(|error| host.refused(&error))? else { continue };
        let details = match &open.subject {
            Subject::Permission { wanted, call, .. } => {
                let ToolCallSnapshot { members, left_out } =
                    call.snapshot(&host.store, &open.record, &mut left).await;
                PendingDetails {
                    title: wanted.tool.title.as_deref().map(str::to_owned),
                    kind: wanted.tool.kind_name().to_owned(),
                    tool_call: Some(members).filter(|members| !members.is_empty()),
                    elicitation: None,
                    left_out: left_out.into_iter().map(str::to_owned).collect(),
                }
            }
            Subject::Elicitation(params) => PendingDetails::elicitation(params, &mut left),
        };
        let PendingDetails { title, kind, tool_call, elicitation, left_out } = details;
        questions.push(PendingRequestMeta {
            question_id: id,
            ids: record.identity(),
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
            asked: open.responders,
        });
    }
    Ok(serde_json::to_string(&PendingMeta { questions }).expect("questions are text and lists"))
}

/// Sends the list after each change, until the client disconnects. The longer the list, the fewer the reports.
pub(crate) async fn report(
    host: Arc<Host>,
    params: PendingParams,
    mut changed: watch::Receiver<()>,
    link: ClientLink,
) {
    while changed.changed().await.is_ok() {
        let pause = match list(&host, &params).await {
            Ok(listed) if link.notify(PENDING_CHANGED, &listed).await.is_err() => return,
            Ok(listed) => report_pause(listed.len()),
            Err(error) => {
                tracing::warn!(%error, "the pending requests cannot be reported");
                changed.mark_changed();
                RETRY_PAUSE
            }
        };
        tokio::time::sleep(pause).await;
    }
}

/// The pause after a report of this many bytes.
fn report_pause(bytes: usize) -> Duration {
    REPORT_PAUSE.max(REPORT_PAUSE_PER_BYTE.saturating_mul(u32::try_from(bytes).unwrap_or(u32::MAX)))
}

/// `_acpx/answer`: answers a pending request in place of the clients that are asked.
pub(crate) async fn answer(host: &Host, params: AnswerParams) -> Result<String, CallError> {
    let open = host.responders.pending().entries.lock().get(&params.question_id).cloned();
    let Some(open) = open else { return Err(rpc_error::no_question(&params.question_id)) };
    let decision = open.subject.decision(&params).map_err(|why| {
        let word = params.option_id.as_deref().unwrap_or_default();
        rpc_error::no_option(&params.question_id, why, word, open.subject.options())
    })?;
    let question_id = params.question_id;
    let record = host.engine.record(&open.record).await;
    let record = record.map_err(|error| host.refused(&error))?;
    let Some(record) = record else { return Err(rpc_error::no_question(&question_id)) };
    let (counts, counted) = oneshot::channel();
    // Fails if another answer came first.
    let was_sent = open.answer.try_send(ExternalDecision { decision, counts }).is_ok();
    if !was_sent || !counted.await.unwrap_or(false) {
        return Err(rpc_error::no_question(&question_id));
    }
    Ok(serde_json::to_string(&record.identity()).expect("ids are text"))
}

/// The listed details of one request.
struct PendingDetails {
    title: Option<String>,
    kind: String,
    tool_call: Option<Map<String, Value>>,
    elicitation: Option<Map<String, Value>>,
    left_out: Vec<String>,
}

impl PendingDetails {
    fn elicitation(params: &Map<String, Value>, left: &mut AnswerBytes) -> Self {
        let text = |name: &str| params.get(name).and_then(Value::as_str).map(str::to_owned);
        let fits = left.reserve(serde_json::to_string(params).map_or(usize::MAX, |params| params.len()));
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
