//! One client's connection to the host, which acts as an ACP agent whose sessions are our records.
//!
//! The client's `sessionId` is the acpxRecordId, so it never changes. Extensions in `_meta` are in
//! [`crate::protocol::meta`]; a client that sends none is an ordinary ACP client, and receives its agent's requests.
pub(crate) mod access;
pub(crate) mod capabilities;
pub(crate) mod confined_records;
pub(crate) mod defaults;
pub(crate) mod methods;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard, OnceLock};
use std::time::Duration;

use crate::acp::agent::{
    AgentService, CallError, CallExtras, Cancellation, ClientFacts, ClientLink, ExtensionCall, Feature,
    ForkCall, ListCall, LoginCall, Meta, NewCall, Offer, PromptCall, PromptReply, RestoreCall, SessionPage,
    SessionSetup, SetModeCall, SetModelCall, SetOptionCall, StopCall, TerminalLogin, TurnLink,
};
use crate::acp::render::{RecordRenderer, SessionIds};
use crate::acp::{Cursor, ExtraParams};
use crate::engine::{ClientLogin, NewSession, RestoreSession, Session, SessionError};
use crate::model::{AbsolutePath, AcpSessionId, ProtocolVersion, RecordId, Seq};

use crate::wire::RpcId;

use self::access::QuotaPermit;
use self::defaults::Defaults;
use super::Host;
use super::attach::attachment::{AnswerGate, Attachment, GateWaiter, StreamKind, StreamSpec, UpdateContext};
use super::attach::foreign_turns::{OthersTurns, wants_states};
use super::permissions::responders::{ClientServices, ConnectionId, Responder, ResponderGuard};
use super::permissions::url_elicitations::UrlElicitations;
use super::session::create::OpenedSession;
use super::session::list;
use super::session::set_config;
use super::session::set_config::ChoiceCall;
use crate::protocol::acpx_meta::{acpx_meta, client_session, problem, record_of};
use crate::protocol::meta::{HostMeta, NewMeta, PROTOCOL, RemoteClientMeta, StartMeta};
use crate::protocol::rpc_error;
use crate::sync::Lock;

/// One client's connection.
pub(super) struct Connection {
    pub(super) host: Arc<Host>,
    pub(super) number: ConnectionId,
    /// Whether an agent started the client program. Such a client may not decide what agents are allowed to do.
    pub(super) started_inside: bool,
    /// What `acpx serve` declared about a remote client; unset for a local client.
    pub(super) elsewhere: OnceLock<RemoteClientMeta>,
    pub(super) defaults: Defaults,
    attached: Lock<HashMap<RecordId, Attachment>>,
    /// The records that this client created.
    made: Lock<HashSet<RecordId>>,
    elicited: UrlElicitations,
    logins: OnceLock<LoginOptions>,
    /// How the client has logged in with its agent.
    pub(super) logged_in: ClientLogin,
    /// Whether the client has sent `initialize`.
    initialized: AtomicBool,
    /// Client capabilities that only the agent understands.
    capabilities: OnceLock<Option<ExtraParams>>,
    /// A page of the agent's own list that took longer than the client waited.
    pub(super) agent_page: list::PendingPage,
}

/// How a client can log in.
struct LoginOptions {
    /// The login methods offered to the client, as a JSON list.
    ways: Option<Box<str>>,
    /// What the user can do when a login is missing.
    hint: Option<String>,
}

/// A session that a client uses, about to serve one of its requests.
pub(super) struct InUse {
    pub(super) session: Session,
    /// The parameters with which the client would start the agent.
    pub(super) given: RestoreSession,
    /// Quota for the session's agent, held until the session's status counts it.
    pub(super) room: QuotaPermit,
}

/// What every host advertises. A session reports what its agent does not support when that is requested.
pub(super) fn offer(version: &str) -> Offer {
    let meta = HostMeta { protocol: PROTOCOL, version: version.to_owned() };
    let features = [
        Feature::Load,
        Feature::Resume,
        Feature::Close,
        Feature::List,
        Feature::Delete,
        Feature::Modes,
        Feature::Models,
        Feature::ConfigOptions,
        Feature::AdditionalDirectories,
        Feature::McpHttp,
        Feature::McpSse,
        Feature::Image,
        Feature::Audio,
        Feature::EmbeddedContext,
    ];
    Offer::new("acpx", version, features)
        .up_to(ProtocolVersion::V2)
        .tells_states()
        .with_meta(acpx_meta(&meta))
}

impl Connection {
    pub(super) fn new(host: Arc<Host>, started_inside: bool) -> Self {
        let number = host.next_connection();
        let (elsewhere, defaults) = (OnceLock::new(), Defaults::default());
        let (attached, made, elicited) = (Lock::default(), Lock::default(), UrlElicitations::default());
        let (logins, logged_in) = (OnceLock::new(), ClientLogin::default());
        Self {
            host,
            number,
            started_inside,
            elsewhere,
            defaults,
            attached,
            made,
            elicited,
            logins,
            logged_in,
            initialized: AtomicBool::default(),
            capabilities: OnceLock::new(),
            agent_page: list::PendingPage::default(),
        }
    }

    /// Whether the client has sent `initialize`.
    pub(super) fn is_initialized(&self) -> bool {
        self.initialized.load(Ordering::Relaxed)
    }

    /// The session of a record that this client uses, ready for a request. A closed record is reopened.
    pub(super) async fn attached(&self, record: &RecordId) -> Result<InUse, CallError> {
        let known =
            self.attachments().get(record).filter(|known| known.is_in_use()).map(|known| known.given.clone());
        let given = known.ok_or_else(|| rpc_error::unknown(record))?;
        let session = self.host.engine.attach(record, &given).await;
        let session = session.map_err(|error| self.refused(&error))?;
        let room =
            if session.status().has_agent { QuotaPermit::default() } else { self.room(Some(record)).await? };
        Ok(InUse { session, given, room })
    }

    /// Describes a stream of a record to this client, which starts after the reply that `after` waits for.
    pub(super) fn telling<'a>(
        &self,
        how: StreamKind,
        record: &'a RecordId,
        from: Seq,
        after: GateWaiter,
        link: &'a ClientLink,
    ) -> StreamSpec<'a> {
        StreamSpec { how, follower: self.host.engine.follow(record, from), record, after, link }
    }

    /// Recognises the ids of sessions that clients use.
    pub(super) fn session_ids(&self) -> SessionIds {
        let engine = self.host.engine.clone();
        SessionIds::new(move |id| RecordId::new(id).is_ok_and(|record| engine.is_held(&record)))
    }

    /// The update stream of a record for this client.
    pub(super) fn updates(
        &self,
        record: &RecordId,
        attachment: &Attachment,
        link: &ClientLink,
        with_seq: bool,
    ) -> StreamKind {
        let rendering =
            RecordRenderer::new(record, link.client()).with_seq(with_seq).beside_sessions(self.session_ids());
        let (own, store) = (attachment.own.clone(), Arc::clone(&self.host.store));
        let (engine, elicited) = (self.host.engine.clone(), self.elicited.clone());
        let others = wants_states(&link.client()).then(|| OthersTurns::new(record));
        StreamKind::Updates(Box::new(UpdateContext { rendering, own, others, store, engine, elicited }))
    }

    pub(super) fn refused(&self, error: &SessionError) -> CallError {
        self.with_logins(self.host.refused(error))
    }

    /// Adds to an error about a missing login how this client can log in.
    pub(super) fn with_logins(&self, error: CallError) -> CallError {
        let Some(LoginOptions { ways, hint }) = self.logins.get() else {
            return rpc_error::wanting_login(error, None, None);
        };
        rpc_error::wanting_login(error, ways.as_deref(), hint.as_deref())
    }

    pub(super) fn attachments(&self) -> MutexGuard<'_, HashMap<RecordId, Attachment>> {
        self.attached.lock()
    }

    /// Whether this client created the record.
    pub(super) fn has_made(&self, record: &RecordId) -> bool {
        self.made.lock().contains(record)
    }

    /// The client capabilities that are sent to an agent started for this client.
    pub(super) fn capabilities(&self) -> Option<ExtraParams> {
        self.capabilities.get().cloned().flatten().filter(|_| self.may_say_besides())
    }

    async fn open(&self, call: NewCall, link: &ClientLink) -> Result<OpenedSession, CallError> {
        let mut meta: NewMeta = self.said(call.meta.as_deref())?;
        self.may_choose_for_new(&meta.start.settings)?;
        self.may_have(&call.mcp_servers)?;
        self.are_directories(&call.additional_directories).await?;
        let room = self.room(None).await?;
        let agent = self.defaults.agent(meta.agent.take());
        let agent = agent.ok_or_else(|| problem("_meta.acpx.agent", "must name the agent to start"))?;
        self.defaults.complete(&mut meta.start);
        let mcp_servers = self.servers(call.mcp_servers, &meta.start)?;
        let environment = meta.start.take_environment(&agent);
        let settings = std::mem::take(&mut meta.start.settings);
        let besides = self.besides(link.client().protocol, call.meta.as_deref(), call.unknown.as_deref());
        let new = NewSession {
            additional_directories: call.additional_directories,
            mcp_servers,
            besides,
            login: meta.start.login.unwrap_or_default().into(),
            logged_in: self.logged_in.clone(),
            capabilities: self.capabilities(),
            start_wait: self.start_wait(&meta.start, &agent),
            ..NewSession::new(agent, call.cwd, environment)
        };
        let opened = match meta.shell {
            None => self.host.open(new, &settings).await,
            Some(shell) => self.host.open_in_shell(new, shell, settings, self.is_confined()).await,
        };
        let opened = opened.map_err(|error| self.with_logins(error))?;
        room.filled_by(opened.session.record_id());
        let record = opened.session.record_id().clone();
        if opened.created && self.is_confined() {
            self.host.confined_records.insert(&record);
        }
        self.made.lock().insert(record);
        self.set_idle_time(&opened.session, &meta.start).await?;
        let seat = self.seat(opened.session.record_id(), &meta.start, link);
        let with_seq = meta.start.with_seq;
        Ok(OpenedSession { seat, updates: !meta.start.without_updates, with_seq, ..opened })
    }

    /// Returns an error unless all these directories exist.
    pub(super) async fn are_directories(&self, directories: &[AbsolutePath]) -> Result<(), CallError> {
        for (index, directory) in directories.iter().enumerate() {
            let known = self.host.engine.real_directory(directory).await;
            known.map_err(|error| problem(&format!("additionalDirectories[{index}]"), error.to_string()))?;
        }
        Ok(())
    }

    /// Registers the client as a responder if it has a user: it must want updates, and must not be confined.
    pub(super) fn seat(
        &self,
        record: &RecordId,
        start: &StartMeta,
        link: &ClientLink,
    ) -> Option<ResponderGuard> {
        let can_be_asked = !self.is_confined() && !start.without_updates;
        can_be_asked.then(|| self.host.askable.sit(record, self.somebody(record, link)))
    }

    /// This client as a responder for a record.
    pub(super) fn somebody(&self, record: &RecordId, link: &ClientLink) -> Responder {
        let known = |attachment: &Attachment| (attachment.progress().clone(), attachment.watched().clone());
        let (progress, watched) = self.attachments().get(record).map(known).unwrap_or_default();
        Responder {
            connection: self.number,
            link: link.clone(),
            offers: self.offers_of(link),
            progress,
            watched,
            elicited: self.elicited.clone(),
        }
    }

    /// The services that a client provides to agents without asking its user. A remote client would use the files of
    /// its own machine, and a confined client may not decide what agents may do.
    fn offers_of(&self, link: &ClientLink) -> ClientServices {
        let client = link.client();
        if self.elsewhere.get().is_some() || self.is_confined() {
            return ClientServices::default();
        }
        ClientServices { fs: client.fs, terminal: client.terminal }
    }

    /// Routes the requests of turns without their own client to the record's responders, from now on.
    pub(super) async fn stand_in(&self, opened: &OpenedSession) -> Result<(), CallError> {
        let advisor = self.host.advisor(opened.session.record_id(), None);
        opened.session.set_advisor(advisor).await.map_err(|error| self.refused(&error))
    }

    pub(super) async fn set_idle_time(&self, session: &Session, start: &StartMeta) -> Result<(), CallError> {
        let Some(millis) = start.idle_ms else { return Ok(()) };
        let limit = (millis > 0).then(|| Duration::from_millis(millis));
        session.set_idle_time(limit).await.map_err(|error| self.refused(&error))
    }

    /// The reply to new, load, resume and fork. From here on the client uses the session. Its updates start after the
    /// reply was sent.
    pub(super) fn answer(
        &self,
        client: AcpSessionId,
        opened: OpenedSession,
        gate: AnswerGate,
        link: &ClientLink,
    ) -> SessionSetup {
        let mut setup = SessionSetup::new(client);
        let (told, commands) = set_config::offered(&opened.session, link);
        setup.passed_on = Some(told);
        setup.afterwards.extend(commands);
        if let Some(meta) = opened.meta() {
            setup.agent_session = opened.session.identity().and_then(|identity| identity.agent_session);
            setup.meta = acpx_meta(&meta);
        }
        let OpenedSession {
            session,
            hold: _hold,
            seat,
            unclaimed,
            given,
            from,
            updates,
            with_seq,
            paused,
            ..
        } = opened;
        let record = session.record_id();
        let mut attachments = self.attachments();
        let attachment = attachments.entry(record.clone()).or_default();
        attachment.hold(&session, given);
        attachment.sit(seat);
        if updates || paused.is_some() {
            let how = self.updates(record, attachment, link, with_seq);
            let telling = self.telling(how, record, from, gate.wait(), link);
            if paused.is_some() { attachment.stream(telling) } else { attachment.stream_on(telling) }
        }
        setup.once_told = Some(Box::new(move || {
            if let Some(unclaimed) = unclaimed {
                unclaimed.claim();
            }
            drop(gate);
        }));
        setup
    }
}

impl AgentService for Connection {
    async fn before_initialize(&self, call: ExtensionCall) -> Result<String, CallError> {
        self.let_in_from_elsewhere(call)
    }

    async fn offer(&self, client: &ClientFacts, to_everybody: Offer) -> Result<Offer, CallError> {
        self.initialized.store(true, Ordering::Relaxed);
        let meta = self.defaults.take(client)?;
        self.capabilities.get_or_init(|| client.capabilities.clone());
        let terminal_login = self.terminal_login(client);
        if meta.agent.is_some() && terminal_login == TerminalLogin::No {
            self.logged_in.without_terminal();
        }
        let offer = to_everybody.with_terminal_login(terminal_login);
        let offer = self.offer_of_agent(&meta, client.protocol, offer).await?;
        let hint = self.login_hint(offer.login_methods());
        let offer = offer.with_login_hint(hint.as_deref());
        self.logins.get_or_init(|| LoginOptions { ways: offer.login_methods().map(Into::into), hint });
        let may_start = self.may_start_servers();
        Ok(if may_start { offer } else { offer.without_telling_program_servers() })
    }

    async fn login(&self, call: LoginCall, request: RpcId, link: ClientLink) -> Result<(), CallError> {
        self.log_in(&call, &request, &link).await
    }

    async fn logout(&self, aside: CallExtras) -> Result<(), CallError> {
        self.log_out(&aside).await
    }

    async fn set_mode(&self, call: SetModeCall, link: ClientLink) -> Result<String, CallError> {
        self.pass_choice(ChoiceCall::Mode(call), &link).await
    }

    async fn set_model(&self, call: SetModelCall, link: ClientLink) -> Result<String, CallError> {
        self.pass_choice(ChoiceCall::Model(call), &link).await
    }

    async fn set_option(&self, call: SetOptionCall, link: ClientLink) -> Result<String, CallError> {
        self.pass_choice(ChoiceCall::Option(call), &link).await
    }

    async fn stop(&self, call: StopCall, _link: ClientLink) -> Result<String, CallError> {
        self.pass_stop(call).await
    }

    async fn cancel_turns(&self, session: AcpSessionId, aside: CallExtras, _link: ClientLink) {
        self.cancel_for_client(record_of(&session), &aside).await;
    }

    async fn new_session(&self, call: NewCall, link: ClientLink) -> Result<SessionSetup, CallError> {
        let opened = self.open(call, &link).await?;
        let client = client_session(opened.session.record_id());
        Ok(self.answer(client, opened, AnswerGate::default(), &link))
    }

    async fn fork_session(&self, call: ForkCall, link: ClientLink) -> Result<SessionSetup, CallError> {
        let opened = self.fork(call, &link).await?;
        let client = client_session(opened.session.record_id());
        Ok(self.answer(client, opened, AnswerGate::default(), &link))
    }

    async fn not_active(&self, session: AcpSessionId) -> CallError {
        let record = record_of(&session);
        match self.host.engine.record(&record).await {
            Ok(Some(kept)) if self.knows(&kept) => rpc_error::not_loaded(&record),
            _ => CallError::UnknownSession(session),
        }
    }

    async fn load_session(&self, call: RestoreCall, link: ClientLink) -> Result<SessionSetup, CallError> {
        self.bring_back(call, &link, Some(Cursor::Start)).await
    }

    async fn resume_session(&self, call: RestoreCall, link: ClientLink) -> Result<SessionSetup, CallError> {
        self.bring_back(call, &link, None).await
    }

    async fn list_sessions(&self, call: ListCall) -> Result<SessionPage, CallError> {
        let agent = self.listing(&call)?;
        list::page(self, call, agent).await
    }

    async fn prompt(
        &self,
        call: PromptCall,
        cancellation: Cancellation,
        link: TurnLink,
    ) -> Result<PromptReply, CallError> {
        self.run_turn(call, cancellation, &link).await
    }

    async fn cancel_for_close(&self, session: AcpSessionId) {
        self.cancel_unless_others(&record_of(&session)).await;
    }

    /// Detaches the client. The last client to detach frees the agent.
    async fn close_session(&self, session: AcpSessionId) -> Result<(), CallError> {
        let record = record_of(&session);
        let attachment = self.attachments().remove(&record);
        if let Some(attachment) = attachment {
            attachment.end().await;
            // A program that an agent started may not delete a session of its user.
            if self.may_end(&record, "delete").is_ok()
                && self.host.remove_if_unprompted(&record).await.map_err(|error| self.refused(&error))?
            {
                return Ok(());
            }
            let session = self.host.engine.running(&record).await;
            if let Some(session) = session.map_err(|error| self.refused(&error))?
                && !session.is_held()
            {
                // Another client's turn may have started; then the session is not parked.
                drop(session.park().await);
            }
        }
        Ok(())
    }

    async fn leaving(&self) {
        self.host.leaving().await;
    }

    /// Deletes the record for all clients: others that use it get an unknown-session error.
    async fn delete_session(&self, session: AcpSessionId, aside: CallExtras) -> Result<Meta, CallError> {
        let record = record_of(&session);
        let kept = self.host.store.record(record.clone()).await.map_err(rpc_error::not_kept)?;
        self.may_end(&record, "delete other sessions")?;
        self.agent_page.forget();
        let Some(kept) = kept else { return self.delete_theirs(&session, &aside).await };
        if !self.knows(&kept) {
            // For this client the record does not exist, and deleting a missing record succeeds.
            return Ok(Meta::new());
        }
        self.delete_ours(&record, &aside).await
    }

    async fn extension(&self, call: ExtensionCall, link: ClientLink) -> Result<String, CallError> {
        self.own_method(call, &link).await
    }
}
