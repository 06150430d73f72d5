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
use crate::engine::{
    Prompt, RestoreSession, Session, SessionError, SessionStatus, TurnEnd, TurnInsertion, TurnTicket,
};
use crate::model::{
    ClientName, EventKind, PermissionMode, PermissionPolicy, ProtocolVersion, RequestId, Seq, StopReason,
    Timestamp, ToolPolicy, Turn, TurnError, TurnId, TurnOutcome, TurnState, UnattendedPolicy,
    prompt_message_id,
};
use crate::store::Store;

use crate::host::attach::attachment::Attachment;
use crate::host::attach::foreign_turns::wants_states;
use crate::host::attach::own_prompts::OwnPrompt;
use crate::host::attach::replay::RecordEvents;
use crate::host::connection::{Connection, InUse};
use crate::host::permissions::responders::Presence;
use crate::protocol::acpx_meta::{acpx_meta, client_session, problem, record_of};
use crate::protocol::host_message::ACCEPTED;
use crate::protocol::meta::{
    AwakeningMeta, FallbackMeta, InsertedMeta, MemoryMeta, PolicyMeta, PromptMeta, TurnMeta, TurnTermsMeta,
    UnmetSettingMeta,
};
use crate::protocol::rpc_error;

/// How long delivering the last events of an overdue turn may delay its reply.
const TAIL: Duration = Duration::from_millis(500);

impl Connection {
    pub(crate) async fn run_turn(
        &self,
        call: PromptCall,
        cancellation: Cancellation,
        link: &TurnLink,
    ) -> Result<PromptReply, CallError> {
        let record = record_of(&call.session);
        let InUse { session, given, room } = self.attached(&record).await?;
        let meta: PromptMeta = self.said(call.meta.as_deref())?;
        let restore = RestoreSession { options: meta.wishes.into(), ..given };
        // A client that sends a policy is not interactive by default, and a confined client never is.
        let can_be_asked = meta.interactive.unwrap_or(meta.terms.policy.is_none()) && !self.is_confined();
        let prompt = self
            .prompt_of(&call, &meta, can_be_asked)?
            .with_restore(restore.clone())
            .with_client(client_name(link))
            .with_besides(self.besides(
                link.client().protocol,
                call.meta.as_deref(),
                call.unknown.as_deref(),
            ));
        let _claim = self.host.turn_owners.claim(&record, prompt.request(), self.number);
        let own = self.attachments().get(&record).map(|attachment| attachment.own.clone());
        let own = own.map(|own| Arc::new(own.add(prompt.request())));
        if let Some(own) = &own {
            link.keep_until_answered(Arc::clone(own));
        }
        let presence = Presence::default();
        let client = presence.of(self.somebody(&record, link), can_be_asked);
        let advisor = self.host.advisor(&record, Some(client));
        let waiting =
            TurnWaiter { connection: self, session: &session, link, own: own.as_deref(), cancellation };
        let end = loop {
            // Follow from before the turn is looked up, so that its end cannot be missed.
            let from = session.last_seq().map_or(Seq::FIRST, Seq::next);
            let request = match session.prompt_asking(prompt.clone(), advisor.clone()).await {
                Ok(ticket) => {
                    room.filled_by(&record);
                    // Further requests of this client are queued behind the turn.
                    link.queued();
                    break waiting.first(ticket).await;
                }
                Err(SessionError::RequestExists { request, .. }) => request,
                Err(error) => break Err(error),
            };
            // A confined client receives the outcome of its user's turn, but does not answer its requests.
            let advisor = Some(advisor.clone()).filter(|_| !self.is_confined());
            match session.join(&request, advisor).await {
                Ok(Some(first)) => {
                    room.filled_by(&record);
                    link.queued();
                    break waiting.again(&self.host.store, first, from, restore).await;
                }
                // The first prompt was refused in between, so send this one.
                Ok(None) => {}
                Err(error) => break Err(error),
            }
        };
        if let Some(own) = &own {
            own.answered();
        }
        let Some(end) = end.map_err(|error| self.refused(&error))? else {
            // The client has disconnected.
            return Ok(StopReason::cancelled().into());
        };
        let passing =
            self.attachments().get(&record).map(|attachment: &Attachment| attachment.until(end.seq));
        // The client of an overdue turn may prefer an early reply to the remaining events.
        let is_hurried = meta.answer_at_limit && end.turn.is_overdue();
        match passing {
            Some(passing) if is_hurried => drop(tokio::time::timeout(TAIL, passing).await),
            Some(passing) => passing.await,
            None => {}
        }
        answer(end, &session, &call.blocks, link.client().protocol).map_err(|error| self.with_logins(error))
    }

    /// The terms of a prompt's turn. A confined client cannot grant approvals.
    fn terms_of(&self, own: &TurnTermsMeta) -> Result<TurnTermsMeta, CallError> {
        if !self.is_confined() {
            return Ok(self.defaults.terms(own.clone()));
        }
        if own.policy == Some(PolicyMeta::ApproveAll) {
            return Err(rpc_error::not_allowed("approve everything"));
        }
        if own.tool_policy.is_some() {
            return Err(rpc_error::not_allowed("make rules for tools"));
        }
        let mut terms = self.defaults.terms(own.clone());
        terms.leave_out_approvals();
        terms.policy = terms.policy.or(PolicyMeta::of(PermissionMode::default()));
        Ok(terms)
    }

    fn prompt_of(
        &self,
        call: &PromptCall,
        meta: &PromptMeta,
        can_be_asked: bool,
    ) -> Result<Prompt, CallError> {
        if meta.wishes.fallback == Some(FallbackMeta::Reset) {
            // A prompt queues behind others, whose clients did not ask for a reset.
            return Err(problem(
                "_meta.acpx.fallback",
                "is \"reset\", which only session/resume and session/load do",
            ));
        }
        let terms = self.terms_of(&meta.terms)?;
        let prompt = Prompt::blocks(format!("[{}]", call.blocks.join(",")))
            .map_err(|error| rpc_error::refused(&error.into()))?
            .with_policy(policy(&terms, can_be_asked)?)
            .with_limits(terms.limits())
            .after(Duration::from_millis(meta.spent_ms.unwrap_or_default()));
        match &meta.request_id {
            None => Ok(prompt),
            Some(request) => {
                let request = RequestId::new(request.as_str())
                    .map_err(|error| problem("_meta.acpx.requestId", error.to_string()))?;
                Ok(prompt.with_request(request))
            }
        }
    }
}

/// The permission policy of a turn. Requests of an interactive client stay pending when it disconnects.
fn policy(terms: &TurnTermsMeta, can_be_asked: bool) -> Result<PermissionPolicy, CallError> {
    let unasked = if can_be_asked { UnattendedPolicy::Wait } else { UnattendedPolicy::Deny };
    let read = |rules| ToolPolicy::of(rules).map(Arc::new);
    let tools = terms.tool_policy.as_ref().map(read).transpose();
    Ok(PermissionPolicy {
        mode: terms.policy.map_or(PermissionMode::Ask, Into::into),
        tools: tools.map_err(|error| problem("_meta.acpx.toolPolicy", error.to_string()))?,
        unasked: terms.unasked.map_or(unasked, Into::into),
    })
}

/// A client that waits for a turn.
struct TurnWaiter<'a> {
    connection: &'a Connection,
    session: &'a Session,
    link: &'a TurnLink,
    own: Option<&'a OwnPrompt>,
    cancellation: Cancellation,
}

impl<'a> TurnWaiter<'a> {
    /// Waits for the end of a turn that this prompt created.
    async fn first(self, mut ticket: TurnTicket) -> Result<Option<TurnEnd>, SessionError> {
        let (turn, request) = (ticket.turn, ticket.request.clone());
        let inserting = self.inserting(turn, &request);
        let over = async {
            if let Some(TurnInsertion { answer, .. }) = ticket.inserted().await {
                inserting.tell(answer.as_deref()).await;
            }
            ticket.end().await
        };
        self.until(turn, &request, over).await
    }

    /// Waits for the end of an existing turn, following from an event before its end. Wakes the session if the turn is
    /// queued.
    async fn again(
        self,
        store: &Arc<dyn Store>,
        first: Turn,
        from: Seq,
        restore: RestoreSession,
    ) -> Result<Option<TurnEnd>, SessionError> {
        let session = self.session;
        let mut follower = session.follow(from);
        let (id, request, record) = (first.id, first.request.clone(), session.record_id());
        let inserting = self.inserting(id, &request);
        let known = || async {
            let turn = store.turn_numbered(record.clone(), id).await?;
            turn.ok_or_else(|| SessionError::NoRecord(record.clone()))
        };
        let over = async {
            if first.state == TurnState::Queued {
                // If that fails, the turn fails with the reason.
                drop(session.wake(restore).await);
            }
            let mut turn = known().await?;
            while turn.is_open() {
                if matches!(turn.state, TurnState::Dispatched { .. }) {
                    inserting.tell(None).await;
                }
                match follower.next().await? {
                    Some(event) if event.kind == EventKind::Fact => turn = known().await?,
                    Some(_) => {}
                    None => return Err(SessionError::ShutDown(record.clone())),
                }
            }
            let kept = RecordEvents::new(Arc::clone(store), record.clone(), session.last_seq());
            if kept.has_begun(id).await? {
                inserting.tell(None).await;
            }
            Ok(TurnEnd::kept(turn, kept.end_of(id).await?))
        };
        self.until(id, &request, over).await
    }

    fn inserting(&self, turn: TurnId, request: &RequestId) -> Inserting<'a> {
        let message = prompt_message_id(self.session.record_id(), turn);
        let (session, link, own) = (self.session, self.link, self.own);
        Inserting { session, link, own, message, turn, request: request.clone() }
    }

    /// Waits for the turn's end; `None` if the client disconnects first.
    async fn until(
        mut self,
        turn: TurnId,
        request: &RequestId,
        over: impl Future<Output = Result<TurnEnd, SessionError>>,
    ) -> Result<Option<TurnEnd>, SessionError> {
        if let Some(own) = self.own {
            own.is_turn(turn);
        }
        self.tell_accepted(turn, request).await;
        self.tell_waiting(turn).await;
        let mut over = pin!(over);
        let mut cancellable = true;
        loop {
            tokio::select! {
                end = &mut over => return end.map(Some),
                cause = self.cancellation.requested(), if cancellable => match cause {
                    CancelCause::Disconnected => return Ok(None),
                    CancelCause::Asked => {
                        cancellable = false;
                        let besides = self.connection.besides_of(&self.cancellation.aside());
                        self.session.cancel_with(Some(turn), besides).await?;
                    }
                },
            }
        }
    }

    /// Notifies a version 1 client that its prompt waits behind another client's turn, for which version 1 has no
    /// state. The notice is not stored.
    async fn tell_waiting(&self, turn: TurnId) {
        let client = self.link.client();
        if client.protocol != ProtocolVersion::V1 || wants_states(&client) {
            return;
        }
        let record = self.session.record_id();
        if !self.connection.attachments().get(record).is_some_and(Attachment::is_told_updates) {
            return;
        }
        // A session that has ended has no turn to wait for.
        let Ok(open) = self.session.open_turns().await else { return };
        let Some(notice) = self.connection.waiting_notice(record, &open, turn) else { return };
        let update = serde_json::json!({
            "sessionUpdate": "agent_thought_chunk",
            "content": { "type": "text", "text": format!("[acpx] {notice}\n") },
            "_meta": { "acpx": { "notice": "waiting" } },
        });
        // The client may have disconnected.
        drop(self.link.tell(&client_session(record), &update.to_string()).await);
    }

    async fn tell_accepted(&self, turn: TurnId, request: &RequestId) {
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
struct Inserting<'a> {
    link: &'a TurnLink,
    own: Option<&'a OwnPrompt>,
    session: &'a Session,
    turn: TurnId,
    request: RequestId,
    message: String,
}

impl Inserting<'_> {
    /// `answer` is the reply of a version 2 agent, if it has just arrived.
    async fn tell(&self, answer: Option<&str>) {
        let (awakening, memory, unmet_settings) = remembered(self.session, self.turn);
        let (turn, request_id) = (self.turn.0, self.request.to_string());
        let meta = InsertedMeta { turn, request_id, awakening, memory, unmet_settings };
        self.link.inserted_as(&self.message, &acpx_meta(&meta), answer).await;
        if let Some(own) = self.own {
            own.answered();
        }
    }
}

/// The client's name, if it sent one.
fn client_name(link: &ClientLink) -> Option<ClientName> {
    let client = link.client();
    let name = client.name.clone()?;
    Some(ClientName { name, version: client.version.clone().unwrap_or_default() })
}

/// How the session was restored for this turn, what its agent remembers if not everything, and which settings could not
/// be restored.
fn remembered(
    session: &Session,
    turn: TurnId,
) -> (Option<AwakeningMeta>, Option<MemoryMeta>, Vec<UnmetSettingMeta>) {
    let SessionStatus { memory, awakened, unmet, .. } = session.status();
    let how = awakened.filter(|(first, _)| *first == turn).map(|(_, how)| how.into());
    (how, MemoryMeta::of(memory), unmet.iter().map(Into::into).collect())
}

/// The content block that the agent does not support, as a parameter of the request.
fn untaken(error: &TurnError, session: &Session, blocks: &[Box<str>]) -> Option<String> {
    let answer = session.agent_answer().filter(|_| &*error.code == "CONTENT_UNSUPPORTED")?;
    let blocks = format!("[{}]", blocks.join(","));
    let untaken = Capabilities::of_answer(&answer).prompt.untaken(&blocks).ok()??;
    Some(format!("prompt[{}]", untaken.index))
}

/// Adds our `_meta` to that of a version 2 agent's stop reason.
fn beside_theirs(theirs: Option<&str>, ours: Meta) -> Meta {
    let mut meta: Meta = theirs.and_then(|theirs| serde_json::from_str(theirs).ok()).unwrap_or_default();
    meta.extend(ours);
    meta
}

fn answer(
    end: TurnEnd,
    session: &Session,
    blocks: &[Box<str>],
    client: ProtocolVersion,
) -> Result<PromptReply, CallError> {
    let TurnEnd { turn, seq, answer, meta: theirs, dropped_lines } = end;
    let (awakening, memory, unmet_settings) = remembered(session, turn.id);
    let meta = |ended: Option<Timestamp>| TurnMeta {
        ids: session.identity().map(Into::into),
        turn: turn.id.0,
        request_id: turn.request.to_string(),
        duration_ms: ended
            .map(|ended| u64::try_from(ended.since(turn.queued_at).as_millis()).unwrap_or(u64::MAX)),
        approved: turn.permissions.approved,
        rejected: turn.permissions.rejected,
        awakening: awakening.clone(),
        memory: memory.clone(),
        unmet_settings: unmet_settings.clone(),
        seq: seq.map(|seq| seq.0),
        stop_reason: None,
        dropped_lines,
    };
    match &turn.state {
        TurnState::Ended { at, outcome: TurnOutcome::Stopped(reason) } => {
            // A version 1 client gets a version 1 agent's stop reason unchanged.
            let (told, word) = match (client, &answer) {
                (ProtocolVersion::V1, None) => stop_reason_to_v1(reason.as_str()),
                (ProtocolVersion::V1, Some(_)) | (ProtocolVersion::V2, _) => (reason.as_str(), None),
            };
            let meta = TurnMeta { stop_reason: word.map(Into::into), ..meta(Some(*at)) };
            let (reason, usage) = (StopReason::new(told), turn.usage.clone());
            let meta = beside_theirs(theirs.as_deref(), acpx_meta(&meta));
            Ok(PromptReply { reason, usage, meta, passed_on: answer })
        }
        TurnState::Ended { at, outcome: TurnOutcome::Failed(error) } => {
            Err(rpc_error::failed(error, meta(Some(*at)), untaken(error, session, blocks).as_deref()))
        }
        TurnState::Interrupted { at } => Err(rpc_error::interrupted(&turn, meta(Some(*at)))),
        // Callers wait until the turn is no longer open.
        TurnState::Queued | TurnState::Dispatched { .. } => Err(rpc_error::interrupted(&turn, meta(None))),
    }
}
