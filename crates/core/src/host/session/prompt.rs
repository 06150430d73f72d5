//! Runs a client's prompt, from its acceptance to the reply.
//!
//! A turn continues when its client disconnects; until then the client owns it ([`super::turn_owners`]). A prompt with
//! a known request id joins the existing turn, so a client may repeat a prompt whose reply it did not receive.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use crate::acp::Capabilities;
use crate::acp::agent::{
    CallError, CancelCause, Cancellation, ClientLink, Meta, PromptCall, PromptReply, TurnLink,
};
use crate::acp::translate::stop_reason_to_v1;
use crate::engine::{Prompt, RestoreSession, Session, SessionError, TurnEnd, TurnHandle, TurnInsertion};
use crate::model::{
    ClientName, ErrorCode, EventKind, FactError, Fallback, PermissionMode, PermissionPolicy, ProtocolVersion,
    RequestId, Seq, StopReason, Timestamp, ToolPolicy, Turn, TurnError, TurnId, TurnOutcome, TurnState,
    UnattendedPolicy, prompt_message_id,
};

use super::turn_owners::waiting_notice;
use crate::host::attach::foreign_turns::wants_states;
use crate::host::attach::own_prompts::OwnPrompt;
use crate::host::attach::replay::RecordEvents;
use crate::host::connection::{Connection, SessionInUse};
use crate::host::permissions::responders::PresenceGuard;
use crate::protocol::acpx_meta::{acpx_meta, client_session, problem, record_of};
use crate::protocol::host_message::ACCEPTED;
use crate::protocol::meta::{AgentStateMeta, InsertedMeta, PromptMeta, TurnMeta, TurnTermsMeta};
use crate::protocol::rpc_error;

/// How long delivering the last events of an overdue turn may delay its reply.
const LAST_EVENTS_TIMEOUT: Duration = Duration::from_millis(500);

/// Runs the turn of a prompt, and returns its reply.
pub(crate) async fn run_turn(
    client: &Connection,
    call: PromptCall,
    cancellation: Cancellation,
    link: &TurnLink,
) -> Result<PromptReply, CallError> {
    let record = record_of(&call.session);
    let SessionInUse { session, restore, permit } = client.session_in_use(&record).await?;
    let meta: PromptMeta = client.access.authorized_meta(call.meta.as_deref())?;
    let restore = RestoreSession { options: meta.wishes.into(), ..restore };
    let is_interactive = client.access.is_interactive(&meta);
    let (version, call_meta, unknown) =
        (link.client().protocol, call.meta.as_deref(), call.unknown.as_deref());
    let prompt = prompt_of(client, &call, &meta, is_interactive)?
        .with_restore(restore.clone())
        .with_client(client_name(link))
        .with_extra_params(client.access.extra_params(version, call_meta, unknown));
    let _claim = client.host.turn_owners.claim(&record, prompt.request(), client.id);
    let own = client.attachments.own_prompts(&record).map(|own| Arc::new(own.add(prompt.request())));
    if let Some(own) = &own {
        link.keep_until_answered(Arc::clone(own));
    }
    let presence = PresenceGuard::default();
    let responder = presence.turn_responder(client.responder(&record, link), is_interactive);
    let requests = client.host.route_requests(&record, Some(responder));
    let waiter = TurnWaiter { client, session: &session, link, own: own.as_deref(), cancellation };
    let end = loop {
        // Follow from before the turn is looked up, so that its end cannot be missed.
        let from = session.last_seq().map_or(Seq::FIRST, Seq::next);
        let request = match session.prompt_with_responder(prompt.clone(), requests.clone()).await {
            Ok(ticket) => {
                permit.commit(&record);
                // Further requests of this client are queued behind the turn.
                link.queued();
                break waiter.wait_for_new(ticket).await;
            }
            Err(SessionError::RequestExists { request, .. }) => request,
            Err(error) => break Err(error),
        };
        match session.join(&request, None).await {
            // The client must get neither the answer to another prompt nor the requests of its turn.
            Ok(Some(existing)) if existing.prompt != prompt.blocks => {
                break Err(SessionError::RequestExists { record: record.clone(), request });
            }
            Ok(Some(_)) => {}
            // The first prompt was refused in between, so send this one.
            Ok(None) => continue,
            Err(error) => break Err(error),
        }
        let requests = client.access.may_answer_joined_turn().then(|| requests.clone());
        match session.join(&request, requests).await {
            Ok(Some(existing)) => {
                permit.commit(&record);
                link.queued();
                break waiter.wait_for_existing(existing, from, restore).await;
            }
            Ok(None) => {}
            Err(error) => break Err(error),
        }
    };
    if let Some(own) = &own {
        own.mark_answered();
    }
    let Some(end) = end.map_err(|error| client.refused(&error))? else {
        // The client has disconnected.
        return Ok(StopReason::cancelled().into());
    };
    let delivered = client.attachments.delivered(&record, end.seq);
    // The client of an overdue turn may prefer an early reply to the remaining events.
    if meta.answer_at_limit && end.turn.is_overdue() {
        drop(tokio::time::timeout(LAST_EVENTS_TIMEOUT, delivered).await);
    } else {
        delivered.await;
    }
    reply(end, &session, &call.blocks, version).map_err(|error| client.with_login_options(error))
}

fn prompt_of(
    client: &Connection,
    call: &PromptCall,
    meta: &PromptMeta,
    is_interactive: bool,
) -> Result<Prompt, CallError> {
    if meta.wishes.fallback == Some(Fallback::Reset) {
        // A prompt queues behind others, whose clients did not ask for a reset.
        return Err(problem(
            "_meta.acpx.fallback",
            "is \"reset\", which only session/resume and session/load do",
        ));
    }
    let ceiling = &client.host.configuration.usage_limits;
    let terms = client.access.turn_terms(&meta.terms, &client.defaults.client().terms, &**ceiling)?;
    let prompt = Prompt::blocks(format!("[{}]", call.blocks.join(",")))
        .map_err(|error| rpc_error::refused(&error.into()))?
        .with_policy(policy(&terms, is_interactive)?)
        .with_limits(terms.limits())
        .after(Duration::from_millis(meta.spent_ms.unwrap_or_default()));
    let Some(request) = &meta.request_id else { return Ok(prompt) };
    let request = RequestId::new(request.as_str())
        .map_err(|error| problem("_meta.acpx.requestId", error.to_string()))?;
    Ok(prompt.with_request(request))
}

/// The permission policy of a turn. Requests of an interactive client stay pending when it disconnects.
fn policy(terms: &TurnTermsMeta, is_interactive: bool) -> Result<PermissionPolicy, CallError> {
    let unasked = if is_interactive { UnattendedPolicy::Wait } else { UnattendedPolicy::Deny };
    let read = |rules| ToolPolicy::of(rules).map(Arc::new);
    let tools = terms.tool_policy.as_ref().map(read).transpose();
    Ok(PermissionPolicy {
        mode: terms.policy.unwrap_or(PermissionMode::Ask),
        tools: tools.map_err(|error| problem("_meta.acpx.toolPolicy", error.to_string()))?,
        unasked: terms.unasked.unwrap_or(unasked),
    })
}

/// A client that waits for a turn.
struct TurnWaiter<'a> {
    client: &'a Connection,
    session: &'a Session,
    link: &'a TurnLink,
    own: Option<&'a OwnPrompt>,
    cancellation: Cancellation,
}

impl<'a> TurnWaiter<'a> {
    /// Waits for the end of a turn that this prompt created.
    async fn wait_for_new(self, mut ticket: TurnHandle) -> Result<Option<TurnEnd>, SessionError> {
        let (turn, request) = (ticket.turn, ticket.request.clone());
        let notifier = self.insertion_notifier(turn, &request);
        let end = async {
            if let Some(TurnInsertion { answer, .. }) = ticket.inserted().await {
                notifier.notify(answer.as_deref()).await;
            }
            ticket.end().await
        };
        self.until_end(turn, &request, end).await
    }

    /// Waits for the end of an existing turn, following from an event before its end. Wakes the session if the turn is
    /// queued.
    async fn wait_for_existing(
        self,
        existing: Turn,
        from: Seq,
        restore: RestoreSession,
    ) -> Result<Option<TurnEnd>, SessionError> {
        let (session, store) = (self.session, &self.client.host.store);
        let mut follower = session.follow(from);
        let (id, request, record) = (existing.id, existing.request.clone(), session.record_id());
        let notifier = self.insertion_notifier(id, &request);
        let current = || async {
            let turn = store.turn_numbered(record.clone(), id).await?;
            turn.ok_or_else(|| SessionError::NoRecord(record.clone()))
        };
        let end = async {
            if existing.state == TurnState::Queued {
                // If that fails, the turn fails with the reason.
                drop(session.wake(restore).await);
            }
            let mut turn = current().await?;
            while turn.is_open() {
                if matches!(turn.state, TurnState::Dispatched { .. }) {
                    notifier.notify(None).await;
                }
                match follower.next().await? {
                    Some(event) if event.kind == EventKind::Fact => turn = current().await?,
                    Some(_) => {}
                    None => return Err(SessionError::ShutDown(record.clone())),
                }
            }
            // The end of the turn is committed, but may not be published yet: the session's last event may precede it.
            let committed = store.record(record.clone()).await?.and_then(|record| record.last_seq);
            let events = RecordEvents::new(Arc::clone(store), record.clone(), committed);
            if events.has_begun(id).await? {
                notifier.notify(None).await;
            }
            Ok(TurnEnd::kept(turn, events.turn_end(id).await?))
        };
        self.until_end(id, &request, end).await
    }

    fn insertion_notifier(&self, turn: TurnId, request: &RequestId) -> InsertionNotifier<'a> {
        let message = prompt_message_id(self.session.record_id(), turn);
        let (session, link, own) = (self.session, self.link, self.own);
        InsertionNotifier { session, link, own, message, turn, request: request.clone() }
    }

    /// Waits for the turn's end; `None` if the client disconnects first.
    async fn until_end(
        mut self,
        turn: TurnId,
        request: &RequestId,
        end: impl Future<Output = Result<TurnEnd, SessionError>>,
    ) -> Result<Option<TurnEnd>, SessionError> {
        if let Some(own) = self.own {
            own.link_turn(turn);
        }
        self.notify_accepted(turn, request).await;
        self.notify_waiting(turn).await;
        let mut end = pin!(end);
        let mut cancellable = true;
        loop {
            tokio::select! {
                end = &mut end => return end.map(Some),
                cause = self.cancellation.requested(), if cancellable => match cause {
                    CancelCause::Disconnected => return Ok(None),
                    CancelCause::Asked => {
                        cancellable = false;
                        let extra_params = self.client.access.extra_params_of(&self.cancellation.extras());
                        self.session.cancel_with(Some(turn), extra_params).await?;
                    }
                },
            }
        }
    }

    /// Notifies a version 1 client that its prompt waits behind another client's turn, for which version 1 has no
    /// state. The notice is not stored.
    async fn notify_waiting(&self, turn: TurnId) {
        let client = self.link.client();
        if client.protocol != ProtocolVersion::V1 || wants_states(&client) {
            return;
        }
        let record = self.session.record_id();
        if !self.client.attachments.receives_updates(record) {
            return;
        }
        // A session that has ended has no turn to wait for.
        let Ok(open) = self.session.open_turns().await else { return };
        let Some(notice) = waiting_notice(self.client, record, &open, turn) else { return };
        let update = serde_json::json!({
            "sessionUpdate": "agent_thought_chunk",
            "content": { "type": "text", "text": format!("[acpx] {notice}\n") },
            "_meta": { "acpx": { "notice": "waiting" } },
        });
        // The client may have disconnected.
        drop(self.link.send_update(&client_session(record), &update.to_string()).await);
    }

    async fn notify_accepted(&self, turn: TurnId, request: &RequestId) {
        let params = serde_json::json!({
            "sessionId": self.session.record_id(),
            "turn": turn.0,
            "requestId": request,
        });
        // The client may have disconnected.
        drop(self.link.notify(ACCEPTED, &params.to_string()).await);
    }
}

/// Reports that a prompt was inserted into the conversation, with the message id that every rendering uses.
struct InsertionNotifier<'a> {
    link: &'a TurnLink,
    own: Option<&'a OwnPrompt>,
    session: &'a Session,
    turn: TurnId,
    request: RequestId,
    message: String,
}

impl InsertionNotifier<'_> {
    /// `answer` is the reply of a version 2 agent, if it has just arrived.
    async fn notify(&self, answer: Option<&str>) {
        let agent = agent_state(self.session, self.turn);
        let meta = InsertedMeta { turn: self.turn.0, request_id: self.request.to_string(), agent };
        self.link.inserted_as(&self.message, &acpx_meta(&meta), answer).await;
        if let Some(own) = self.own {
            own.mark_answered();
        }
    }
}

/// The client's name, if it sent one.
fn client_name(link: &ClientLink) -> Option<ClientName> {
    let client = link.client();
    let name = client.name.clone()?;
    Some(ClientName { name, version: client.version.clone().unwrap_or_default() })
}

/// The state of the session's agent, with how it was restored for this turn.
fn agent_state(session: &Session, turn: TurnId) -> AgentStateMeta {
    let status = session.status();
    let wake = status.awakened.filter(|(first, _)| *first == turn).map(|(_, wake)| wake);
    AgentStateMeta::of(&status, wake)
}

/// The content block that the agent does not support, as a parameter of the request.
fn unsupported_block(error: &TurnError, session: &Session, blocks: &[Box<str>]) -> Option<String> {
    let answer = session.agent_answer().filter(|_| error.code == ErrorCode::ContentUnsupported)?;
    let blocks = format!("[{}]", blocks.join(","));
    let unsupported = Capabilities::of_answer(&answer).prompt.untaken(&blocks).ok()??;
    Some(format!("prompt[{}]", unsupported.index))
}

/// Adds our `_meta` to that of a version 2 agent's stop reason.
fn with_agent_meta(agents: Option<&str>, ours: Meta) -> Meta {
    let mut meta: Meta = agents.and_then(|agents| serde_json::from_str(agents).ok()).unwrap_or_default();
    meta.extend(ours);
    meta
}

fn reply(
    end: TurnEnd,
    session: &Session,
    blocks: &[Box<str>],
    client: ProtocolVersion,
) -> Result<PromptReply, CallError> {
    let TurnEnd { turn, seq, answer, meta: agent_meta, dropped_lines } = end;
    let agent = agent_state(session, turn.id);
    let meta = |ended: Option<Timestamp>| TurnMeta {
        ids: session.identity(),
        turn: turn.id.0,
        request_id: turn.request.to_string(),
        duration_ms: ended
            .map(|ended| u64::try_from(ended.since(turn.queued_at).as_millis()).unwrap_or(u64::MAX)),
        approved: turn.permissions.approved,
        rejected: turn.permissions.rejected,
        agent: agent.clone(),
        seq: seq.map(|seq| seq.0),
        stop_reason: None,
        limit: None,
        dropped_lines,
        usage: None,
    };
    match &turn.state {
        TurnState::Ended { at, outcome: TurnOutcome::Stopped(reason) } => {
            // A version 1 client gets a version 1 agent's stop reason unchanged.
            let (sent, original) = match (client, &answer) {
                (ProtocolVersion::V1, None) => stop_reason_to_v1(reason.as_str()),
                (ProtocolVersion::V1, Some(_)) | (ProtocolVersion::V2, _) => (reason.as_str(), None),
            };
            let meta = TurnMeta { stop_reason: original.map(Into::into), ..meta(Some(*at)) };
            let (reason, usage) = (StopReason::new(sent), turn.usage.clone());
            let meta = with_agent_meta(agent_meta.as_deref(), acpx_meta(&meta));
            Ok(PromptReply { reason, usage, meta, forwarded: answer })
        }
        // Every client understands a cancelled turn, and the turn did what was asked of it until then.
        TurnState::Ended { at, outcome: TurnOutcome::Failed(TurnError { code, message, .. }) }
            if matches!(code, ErrorCode::CostLimit | ErrorCode::TokenLimit) =>
        {
            let limit = FactError { code: code.clone(), message: message.to_string() };
            let meta = acpx_meta(&TurnMeta { limit: Some(limit), ..meta(Some(*at)) });
            let usage = turn.usage.clone();
            Ok(PromptReply { reason: StopReason::cancelled(), usage, meta, forwarded: None })
        }
        TurnState::Ended { at, outcome: TurnOutcome::Failed(error) } => {
            let usage = turn.usage.as_deref().and_then(|usage| serde_json::from_str(usage).ok());
            let block = unsupported_block(error, session, blocks);
            Err(rpc_error::failed(error, TurnMeta { usage, ..meta(Some(*at)) }, block.as_deref()))
        }
        TurnState::Interrupted { at } => Err(rpc_error::interrupted(&turn, meta(Some(*at)))),
        // Callers wait until the turn is no longer open.
        TurnState::Queued | TurnState::Dispatched { .. } => Err(rpc_error::interrupted(&turn, meta(None))),
    }
}
