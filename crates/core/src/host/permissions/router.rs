//! Routes an agent's permission and elicitation requests to attached clients.
//!
//! A request goes to the turn's own client while that is connected and interactive, otherwise to every other responder
//! of the record. If the turn's client stops reading, the others are asked as well. The first answer counts, also one
//! given by id with `_acpx/answer`, and the request is withdrawn from the rest. Without a responder the turn's policy
//! decides; a request of an interactive turn stays pending. A request never outlives its turn: a later answer grants
//! nothing.

use std::borrow::Cow;
use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;

use crate::acp::agent::{ClientLink, ClientRequestError, PermissionOutcome};
use crate::acp::render::client_id_json;
use crate::acp::translate::{
    elicitation_answer_to_v1, elicitation_to_v2, permission_answer, permission_to_v1, permission_to_v2,
};
use crate::acp::{pass_on_params, with_client_call_ids};
use crate::engine::{ClientDecision, ClientOffer, QuestionKind, ResponderRequest};
use crate::model::{ProtocolVersion, RecordId, Seq};
use crate::wire::json;
use crate::wire::{RpcError, RpcId, WireError};

use super::pending::{ExternalDecision, PendingGuard, Subject};
use super::responders::{ConnectionId, Responder, Responders, TurnResponder};
use super::tool_call_snapshot::RequestedCall;
use crate::protocol::pending_requests::ResponderMeta;

/// How many requests of one turn may be open; as many again may be queued.
const OPEN_REQUESTS: usize = 16;

/// How long the turn's client may take to read or write a file.
const FILE_LIMIT: Duration = Duration::from_secs(30);

/// The tool call id for a version 2 permission request without a tool call, since version 1 requires one.
const UNNAMED_CALL: &str = "acpx.permission";

/// An agent's request, with the session id that clients use.
#[derive(Debug)]
struct RoutedRequest {
    kind: QuestionKind,
    /// The protocol version of the params.
    version: ProtocolVersion,
    params: String,
}

/// The outcome of asking one client.
enum ResponderReply {
    Answer(ClientDecision),
    /// The client is connected, but cannot be asked or sent no valid answer.
    Nothing,
    /// The client has disconnected.
    Gone,
}

/// Creates a channel for the requests of a record's agent, and the task that routes them until the channel closes.
pub(crate) fn route(
    responders: Arc<Responders>,
    record: RecordId,
    own: Option<TurnResponder>,
) -> (mpsc::Sender<ResponderRequest>, impl Future<Output = ()> + Send + 'static) {
    let (sender, mut requests) = mpsc::channel(OPEN_REQUESTS);
    let routing = async move {
        let mut open = JoinSet::new();
        let mut is_closed = false;
        while !is_closed || !open.is_empty() {
            tokio::select! {
                request = requests.recv(), if !is_closed && open.len() < OPEN_REQUESTS => match request {
                    Some(request) => {
                        open.spawn(route_one(request, Arc::clone(&responders), record.clone(), own.clone()));
                    }
                    None => is_closed = true,
                },
                Some(_) = open.join_next() => {}
            }
        }
    };
    (sender, routing)
}

/// Routes one request until a client answers it or no client is left.
async fn route_one(
    request: ResponderRequest,
    responders: Arc<Responders>,
    record: RecordId,
    own: Option<TurnResponder>,
) {
    let offered = |own: &TurnResponder, offer| own.is_connected() && own.client.services.include(offer);
    let provider = own.as_ref().zip(request.offer()).filter(|(own, offer)| offered(own, *offer));
    match (request.kind(), provider) {
        (QuestionKind::File, Some((own, offer))) => {
            return forward_file_request(request, &record, own.clone(), offer).await;
        }
        (QuestionKind::File, None) => return,
        // A service that a client provides to any agent needs no permission.
        (QuestionKind::Permission, Some(_)) => {
            request.answer(ClientDecision::Approve);
            return;
        }
        (QuestionKind::Permission | QuestionKind::Elicitation, _) => {}
    }
    let Some(params) = client_params(&request, &record) else {
        request.answer(ClientDecision::Reject);
        return;
    };
    let (kind, version, seq) = (request.kind(), request.version(), request.seq());
    let routed = Arc::new(RoutedRequest { kind, version, params });
    let listed = request.since().map(|since| {
        let shown = routed.params_for(ProtocolVersion::V1).unwrap_or_default();
        let subject = match request.wanted() {
            Some(wanted) => {
                Subject::permission(wanted.clone(), &routed.params, RequestedCall::new(&request, &shown))
            }
            None => Subject::elicitation(&shown),
        };
        responders.pending().list(&record, since, subject)
    });
    // Non-interactive clients are not asked; they decline forms unless the form may stay pending.
    let needs_user = kind == QuestionKind::Permission || request.waits();
    let accepts = |own: &TurnResponder| own.is_interactive || !needs_user;
    let can_be_asked = |own: &TurnResponder| routed.can_be_sent_to(&own.client.link) && accepts(own);
    let excluded = own.as_ref().filter(|own| !accepts(own)).map(|own| own.client.connection);
    let is_inexpressible =
        own.as_ref().is_some_and(|own| own.is_interactive && routed.is_inexpressible_for(&own.client.link));
    // The turn's client is connected but cannot show forms.
    let cannot_show = |own: &TurnResponder| {
        kind == QuestionKind::Elicitation && own.is_connected() && accepts(own) && !can_be_asked(own)
    };
    let declines = own.as_ref().is_some_and(cannot_show);
    let own = own.filter(can_be_asked);
    let (sent_to, open) = (HashMap::new(), JoinSet::new());
    let dispatch =
        RequestDispatch { routed, record, seq, excluded, is_inexpressible, declines, sent_to, open };
    dispatch.run(request, &responders, own, listed).await;
}

/// A request that is being sent to clients.
struct RequestDispatch {
    routed: Arc<RoutedRequest>,
    record: RecordId,
    seq: Seq,
    /// The turn's client, if it is not asked.
    excluded: Option<ConnectionId>,
    /// Whether a client cannot be asked because its protocol version cannot express the request.
    is_inexpressible: bool,
    /// Whether it is a form that the turn's connected client cannot show: without other responders it is declined.
    declines: bool,
    /// The clients it was sent to.
    sent_to: HashMap<ConnectionId, AbortHandle>,
    /// The tasks that wait for their answers.
    open: JoinSet<(ConnectionId, ResponderReply)>,
}

impl RequestDispatch {
    async fn run(
        mut self,
        mut request: ResponderRequest,
        responders: &Responders,
        mut own: Option<TurnResponder>,
        mut listed: Option<PendingGuard>,
    ) {
        let waits = request.waits();
        let mut changed = responders.changes();
        let mut has_invalid_answer = false;
        let (link, ask_others_after) =
            (own.as_ref().map(|own| own.client.link.clone()), responders.ask_others_after());
        let mut stalls = pin!(async move {
            match link {
                Some(link) => link.stalled_for(ask_others_after).await,
                None => std::future::pending().await,
            }
        });
        let mut has_stalled = false;
        loop {
            own = own.filter(TurnResponder::is_connected);
            let mut to_ask: Vec<_> = own.iter().map(|own| own.client.clone()).collect();
            if own.is_none() || has_stalled {
                let is_other = |client: &Responder| {
                    own.as_ref().is_none_or(|own| own.client.connection != client.connection)
                };
                to_ask.extend(responders.of(&self.record).into_iter().filter(is_other));
            }
            self.send_to(to_ask, own.as_ref().map(|own| own.client.connection), listed.as_ref());
            if self.open.is_empty()
                && (has_invalid_answer || self.declines || self.is_inexpressible || !waits)
            {
                // A client that was asked and gave no valid answer means a rejection. Without a client the policy
                // decides. If a client is connected but cannot be shown the request, it is cancelled.
                if has_invalid_answer || self.declines {
                    request.answer(ClientDecision::Reject);
                } else if self.is_inexpressible {
                    request.answer(ClientDecision::Cancel);
                }
                return;
            }
            request.report_pending(listed.as_ref().map(PendingGuard::id));
            let own_disconnected = async {
                match &mut own {
                    Some(own) => own.disconnected().await,
                    None => std::future::pending().await,
                }
            };
            let external_decision = async {
                match &mut listed {
                    Some(listed) => listed.next_decision().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = request.withdrawn() => return,
                Some(reply) = self.open.join_next() => match reply {
                    Ok((_, ResponderReply::Answer(decision))) => {
                        request.answer(decision);
                        return;
                    }
                    Ok((_, ResponderReply::Nothing)) => has_invalid_answer = true,
                    Ok((connection, ResponderReply::Gone)) => {
                        own = own.filter(|own| own.client.connection != connection);
                    }
                    // The request was withdrawn from this client.
                    Err(_) => {}
                },
                ExternalDecision { decision, counts } = external_decision => {
                    // The client that answered may have disconnected.
                    let _ = counts.send(request.answer(decision));
                    return;
                }
                () = own_disconnected => {}
                () = &mut stalls, if !has_stalled => has_stalled = true,
                _ = changed.changed() => {}
            }
        }
    }

    /// Sends the request to new responders, and withdraws it from those that are no longer responders.
    fn send_to(&mut self, to_ask: Vec<Responder>, own: Option<ConnectionId>, listed: Option<&PendingGuard>) {
        // A client that closed the session is no longer a responder.
        let is_left = |known: &ConnectionId| to_ask.iter().all(|client| client.connection != *known);
        // If it reattaches, it is asked again.
        self.sent_to.retain(|known, task| {
            let is_left = is_left(known);
            if is_left {
                task.abort();
            }
            !is_left
        });
        let is_excluded = |client: &Responder| self.excluded == Some(client.connection);
        let (to_ask, others): (Vec<_>, Vec<_>) = to_ask
            .into_iter()
            .filter(|client| !is_excluded(client))
            .partition(|client| self.routed.can_be_sent_to(&client.link));
        self.is_inexpressible = others.iter().any(|client| self.routed.is_inexpressible_for(&client.link));
        if let Some(listed) = listed {
            let responder = |client: &Responder| ResponderMeta {
                is_turns: own == Some(client.connection),
                name: client.link.client().name.clone(),
            };
            listed.set_responders(to_ask.iter().map(responder).collect());
        }
        for client in to_ask {
            let connection = client.connection;
            if self.sent_to.contains_key(&connection) {
                continue;
            }
            let (routed, record, seq) = (Arc::clone(&self.routed), self.record.clone(), self.seq);
            let task = self.open.spawn(async move {
                let Responder { link, updates, events, url_elicitations, .. } = client;
                // The events that the request refers to come first. A slow client does not delay the others.
                updates.delivered(Some(seq)).await;
                events.delivered(Some(seq)).await;
                let on_elicitation = |params: &str| url_elicitations.on_sent(&record, params);
                (connection, routed.send(&link, on_elicitation).await)
            });
            self.sent_to.insert(connection, task);
        }
    }
}

/// Has the turn's client read or write a file, which may be open there. If the client disconnects or takes too long, a
/// read falls back to the host. A write fails instead: the client may have written the file, and a second write could
/// undo its user's changes.
async fn forward_file_request(
    mut request: ResponderRequest,
    record: &RecordId,
    mut own: TurnResponder,
    offer: ClientOffer,
) {
    let method = match offer {
        ClientOffer::Reading => "fs/read_text_file",
        ClientOffer::Writing => "fs/write_text_file",
        ClientOffer::Terminals => return,
    };
    let Some(params) = pass_on_params(request.params(), record.as_str()) else { return };
    let link = own.client.link.clone();
    let answer = tokio::select! {
        answer = timeout(FILE_LIMIT, link.ask(method, &params)) => answer.ok(),
        () = own.disconnected() => None,
        () = request.withdrawn() => return,
    };
    let decision = match answer {
        Some(Ok(result)) => ClientDecision::Result(result.into()),
        Some(Err(ClientRequestError::Refused(error))) => ClientDecision::Fail(error),
        Some(Err(ClientRequestError::Gone | ClientRequestError::Unreadable)) | None
            if offer == ClientOffer::Writing =>
        {
            let words = "the client that has the file did not confirm the write";
            ClientDecision::Fail(RpcError::internal(words))
        }
        // The client never got the request, or the request was only a read.
        Some(Err(
            ClientRequestError::NotSent(_) | ClientRequestError::Gone | ClientRequestError::Unreadable,
        ))
        | None => return,
    };
    request.answer(decision);
}

/// The request's params with the session id and tool call ids that clients know; `None` if it names no session.
fn client_params(request: &ResponderRequest, record: &RecordId) -> Option<String> {
    let params = pass_on_params(request.params(), record.as_str())?;
    Some(with_client_call_ids(params, |id| client_id_json(id, request.lineage())))
}

/// Forwards a request that an agent makes during a client's own request to that client. Unsupported ones stay
/// unanswered.
pub(crate) async fn forward_to_caller(mut request: ResponderRequest, id: &RpcId, link: &ClientLink) {
    let params = request.params();
    // Each side has its own id of the request.
    let renamed = match json::get(params, &["requestId"]) {
        Some(_) => json::set(params, &["requestId"], id.as_str()),
        None => None,
    };
    let params = renamed.unwrap_or_else(|| params.to_owned());
    let routed = RoutedRequest { kind: request.kind(), version: request.version(), params };
    if !routed.can_be_sent_to(link) {
        return;
    }
    let reply = tokio::select! {
        reply = routed.send(link, |_| {}) => reply,
        () = request.withdrawn() => return,
    };
    if let ResponderReply::Answer(decision) = reply {
        request.answer(decision);
    }
}

impl RoutedRequest {
    /// Whether a client supports this kind of request. Every client takes permission requests that its version can
    /// express.
    fn can_be_sent_to(&self, link: &ClientLink) -> bool {
        #[derive(Deserialize)]
        struct Mode<'a> {
            #[serde(borrow)]
            mode: Option<Cow<'a, str>>,
        }
        let taken = link.client().elicitation;
        match self.kind {
            QuestionKind::Permission => !self.is_inexpressible_for(link),
            QuestionKind::File => false,
            QuestionKind::Elicitation => match serde_json::from_str(&self.params) {
                Ok(Mode { mode: Some(mode) }) if mode == "url" => taken.url,
                _ => taken.form,
            },
        }
    }

    /// Whether the client's version cannot express this permission request with any of its options.
    fn is_inexpressible_for(&self, link: &ClientLink) -> bool {
        let client = link.client().protocol;
        self.kind == QuestionKind::Permission
            && self.version != client
            && self.params_for(client).is_none_or(|params| offered(&params).is_empty())
    }

    /// Reads a client's answer to a permission request with these params. If client and agent use the same version, the
    /// agent gets the client's own result, except for an unknown outcome in version 1. Between versions, an option that
    /// this client was not offered is a rejection.
    fn permission_decision(
        &self,
        client: ProtocolVersion,
        params: &str,
        answer: (PermissionOutcome, Box<str>),
    ) -> ClientDecision {
        let (outcome, result) = answer;
        let is_same = self.version == client;
        let result = match outcome {
            PermissionOutcome::Selected(option) if !is_same && !offered(params).contains(&option) => {
                return ClientDecision::Reject;
            }
            PermissionOutcome::Unknown if client == ProtocolVersion::V1 => permission_answer(&result),
            _ if is_same => result,
            _ => permission_answer(&result),
        };
        ClientDecision::Result(result.into())
    }

    /// Sends the request to one client in its protocol version. Dropping the future withdraws it. `on_elicitation` is called
    /// with the params of an elicitation before it is sent.
    async fn send(&self, link: &ClientLink, on_elicitation: impl FnOnce(&str)) -> ResponderReply {
        let client = link.client().protocol;
        let Some(params) = self.params_for(client) else { return ResponderReply::Nothing };
        if self.kind == QuestionKind::Elicitation {
            on_elicitation(&params);
        }
        let decision = match self.kind {
            QuestionKind::Permission => {
                let answer = link.pass_on_question(&params).await;
                answer.map(|answer| self.permission_decision(client, &params, answer))
            }
            QuestionKind::File => return ResponderReply::Nothing,
            QuestionKind::Elicitation => link.ask("elicitation/create", &params).await.map(|result| {
                let is_new = (self.version, client) == (ProtocolVersion::V1, ProtocolVersion::V2);
                ClientDecision::Result(if is_new {
                    elicitation_answer_to_v1(&result).into()
                } else {
                    result.into()
                })
            }),
        };
        match decision {
            Ok(decision) => ResponderReply::Answer(decision),
            Err(
                ClientRequestError::NotSent(WireError::Closed | WireError::WriteFailed { .. })
                | ClientRequestError::Gone,
            ) => ResponderReply::Gone,
            Err(
                ClientRequestError::NotSent(_)
                | ClientRequestError::Refused(_)
                | ClientRequestError::Unreadable,
            ) => ResponderReply::Nothing,
        }
    }

    /// The params in this version; `None` if it cannot express them.
    fn params_for(&self, client: ProtocolVersion) -> Option<Cow<'_, str>> {
        use ProtocolVersion::{V1, V2};
        let translated = match (self.kind, self.version, client) {
            (QuestionKind::Permission, V1, V2) => permission_to_v2(&self.params)?,
            (QuestionKind::Permission, V2, V1) => permission_to_v1(&self.params, UNNAMED_CALL)?,
            (QuestionKind::Elicitation, V1, V2) => elicitation_to_v2(&self.params)?,
            // Version 1 reads a version 2 form unchanged.
            (QuestionKind::Elicitation, V2, V1) | (QuestionKind::File, ..) | (_, V1, V1) | (_, V2, V2) => {
                return Some(Cow::Borrowed(&self.params));
            }
        };
        Some(Cow::Owned(translated.into()))
    }
}

/// The ids of the options in the params.
fn offered(params: &str) -> Vec<String> {
    #[derive(Deserialize)]
    struct Offering {
        options: Vec<Value>,
    }
    let options = serde_json::from_str::<Offering>(params).map(|it| it.options).unwrap_or_default();
    options.iter().filter_map(|option| Some(option.get("optionId")?.as_str()?.to_owned())).collect()
}
