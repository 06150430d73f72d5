//! One client's connection to the host: its rights, its defaults and its attachments, as the context of its requests.
//!
//! The client's `sessionId` is the acpxRecordId, so it never changes. Extensions in `_meta` are in
//! [`crate::protocol::meta`]; a client that sends none is an ordinary ACP client, and receives its agent's requests.

pub(crate) mod access;
pub(crate) mod agent_page;
pub(crate) mod capabilities;
pub(crate) mod confined_records;
pub(crate) mod defaults;
pub(crate) mod session_quota;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::acp::ExtraParams;
use crate::acp::agent::{CallError, ClientLink, NewCall};
use crate::engine::{ClientLogin, NewSession, RestoreSession, Servers, Session, SessionError};
use crate::model::{AbsolutePath, AgentSpec, McpServer, ProtocolVersion, Record, RecordId};

use self::access::{ClientAccess, UserAction};
use self::agent_page::PendingPage;
use self::defaults::Defaults;
use self::session_quota::{MAX_SESSIONS, QuotaPermit};
use super::Host;
use super::attach::attachments::Attachments;
use super::attach::subscriptions::Subscriptions;
use super::permissions::responders::{ConnectionId, Responder, ResponderGuard};
use crate::protocol::acpx_meta::problem;
use crate::protocol::meta::{AgentMeta, StartMeta};
use crate::protocol::rpc_error;
use crate::store::RecordFilter;

/// One client's connection.
pub(super) struct Connection {
    pub(super) host: Arc<Host>,
    pub(super) id: ConnectionId,
    pub(super) access: ClientAccess,
    pub(super) defaults: Defaults,
    pub(super) attachments: Attachments,
    pub(super) subscriptions: Subscriptions,
    /// How the client has logged in with its agent.
    pub(super) login: ClientLogin,
    login_options: OnceLock<LoginOptions>,
    /// Client capabilities that only the agent understands; set by `initialize`.
    capabilities: OnceLock<Option<ExtraParams>>,
    /// A page of the agent's own list that took longer than the client waited.
    pub(super) agent_page: PendingPage,
}

/// How a client can log in.
struct LoginOptions {
    /// The login methods offered to the client, as a JSON list.
    methods: Option<Box<str>>,
    /// What the user can do when a login is missing.
    hint: Option<String>,
}

/// A session that a client uses, about to serve one of its requests.
pub(super) struct SessionInUse {
    pub(super) session: Session,
    /// The parameters with which the client would start the agent.
    pub(super) restore: RestoreSession,
    /// Quota for the session's agent, held until the session's status counts it.
    pub(super) permit: QuotaPermit,
}

impl Connection {
    pub(super) fn new(host: Arc<Host>, started_by_agent: bool) -> Self {
        Self {
            id: host.next_connection(),
            access: ClientAccess::new(started_by_agent),
            defaults: Defaults::default(),
            attachments: Attachments::new(host.engine.clone(), Arc::clone(&host.store)),
            subscriptions: Subscriptions::default(),
            login: ClientLogin::default(),
            login_options: OnceLock::new(),
            capabilities: OnceLock::new(),
            agent_page: PendingPage::default(),
            host,
        }
    }

    /// Whether the client has sent `initialize`.
    pub(super) fn is_initialized(&self) -> bool {
        self.capabilities.get().is_some()
    }

    /// The session of a record that this client uses, ready for a request. A closed record is reopened.
    pub(super) async fn session_in_use(&self, record: &RecordId) -> Result<SessionInUse, CallError> {
        let restore = self.attachments.restore_params(record).ok_or_else(|| rpc_error::unknown(record))?;
        let session =
            self.host.engine.attach(record, &restore).await.map_err(|error| self.refused(&error))?;
        let has_agent = session.status().has_agent;
        let permit = if has_agent { QuotaPermit::default() } else { self.reserve_slot(Some(record)).await? };
        Ok(SessionInUse { session, restore, permit })
    }

    /// The error for a failed session request.
    pub(super) fn refused(&self, error: &SessionError) -> CallError {
        self.with_login_options(self.host.refused(error))
    }

    /// Adds to an error about a missing login how this client can log in.
    pub(super) fn with_login_options(&self, error: CallError) -> CallError {
        let Some(LoginOptions { methods, hint }) = self.login_options.get() else {
            return rpc_error::wanting_login(error, None, None);
        };
        rpc_error::wanting_login(error, methods.as_deref(), hint.as_deref())
    }

    /// The client capabilities that are sent to an agent started for this client.
    pub(super) fn capabilities(&self) -> Option<ExtraParams> {
        self.capabilities.get().cloned().flatten().filter(|_| self.access.may_send_extras())
    }

    /// A session to create, as this client starts its agent.
    pub(super) fn new_session(
        &self,
        agent: AgentSpec,
        call: NewCall,
        start: &mut StartMeta,
        version: ProtocolVersion,
    ) -> Result<NewSession, CallError> {
        self.defaults.complete(start);
        let mcp_servers = self.mcp_servers(call.mcp_servers, start)?;
        let environment = start.take_environment(&agent);
        Ok(NewSession {
            additional_directories: call.additional_directories,
            mcp_servers,
            setup: self.access.setup(start)?,
            extra_params: self.access.extra_params(version, call.meta.as_deref(), call.unknown.as_deref()),
            login: start.launch.login.unwrap_or_default(),
            logged_in: self.login.clone(),
            capabilities: self.capabilities(),
            start_wait: self.access.start_wait(start, &agent),
            ..NewSession::new(agent, call.cwd, environment)
        })
    }

    /// The servers that this client names, restricted to what it may set, with their source file.
    pub(super) fn mcp_servers(&self, list: Vec<McpServer>, start: &StartMeta) -> Result<Servers, CallError> {
        let source = start.mcp_source.as_deref().map(AbsolutePath::new).transpose();
        let source = source.map_err(|error| problem("_meta.acpx.mcpSource", error.to_string()))?;
        Ok(Servers { source, ..self.access.mcp_servers(list).into() })
    }

    /// The agent of a stored session as this client would start it, if it names one and may. The session keeps its
    /// protocol version, unless the client requests another.
    pub(super) fn agent_for(&self, stored: &Record, named: Option<AgentMeta>) -> Option<AgentSpec> {
        if !self.access.may_name_agent() {
            return None;
        }
        let of_page = || self.access.page()?.agent(stored.agent.name.as_deref()?);
        let named = named.or_else(of_page);
        let sets_protocol = self.defaults.sets_protocol(named.as_ref());
        let agent = self.defaults.agent(named)?;
        Some(if sets_protocol { agent } else { agent.with_protocol(stored.agent.protocol) })
    }

    /// Returns an error unless all these directories exist.
    pub(super) async fn check_directories(&self, directories: &[AbsolutePath]) -> Result<(), CallError> {
        for (index, directory) in directories.iter().enumerate() {
            let real = self.host.engine.real_directory(directory).await;
            real.map_err(|error| problem(&format!("additionalDirectories[{index}]"), error.to_string()))?;
        }
        Ok(())
    }

    /// Returns an error if the client may not create a session in this directory: the page uses only those of records.
    pub(super) async fn check_new_directory(&self, cwd: &AbsolutePath) -> Result<(), CallError> {
        if self.access.page().is_none() {
            return Ok(());
        }
        // If the disk does not respond, the path is used as written.
        let real = self.host.engine.disk().real(cwd).await.unwrap_or_else(|_| cwd.clone());
        let filter = RecordFilter { agent: None, real_cwd: Some(real) };
        let known = self.host.store.records(filter, None, 1).await.map_err(rpc_error::not_kept)?;
        if known.is_empty() { Err(problem("cwd", "is not the directory of a session")) } else { Ok(()) }
    }

    /// Returns an error if this client is confined and the record is its user's.
    pub(super) fn check_record(&self, action: UserAction, record: &RecordId) -> Result<(), CallError> {
        self.access.check_record(action, self.host.confined_records.contains(record))
    }

    /// Whether this client may see a record.
    pub(super) fn can_see(&self, record: &Record) -> bool {
        self.access.can_see(record, self.defaults.agent(None).as_ref())
    }

    /// Returns an error if this client may not see the record.
    pub(super) async fn check_visible(&self, record: &RecordId) -> Result<(), CallError> {
        if self.access.can_see_all(self.defaults.agent(None).as_ref()) {
            return Ok(());
        }
        let stored = self.host.engine.record(record).await.map_err(|error| self.refused(&error))?;
        if stored.is_some_and(|stored| self.can_see(&stored)) {
            Ok(())
        } else {
            Err(rpc_error::unknown(record))
        }
    }

    /// The session of a record that this client may see. Its agent is not started.
    pub(super) async fn session(&self, record: &RecordId) -> Result<Session, CallError> {
        self.check_visible(record).await?;
        let session = self.host.engine.attach(record, &RestoreSession::unchanged()).await;
        session.map_err(|error| self.refused(&error))
    }

    /// Reserves quota for a session with an agent. A session that is already counted needs none. An error if the client
    /// has reached its limit.
    pub(super) async fn reserve_slot(&self, known: Option<&RecordId>) -> Result<QuotaPermit, CallError> {
        let Some(user) = self.access.quota_user() else { return Ok(QuotaPermit::default()) };
        let mut parked = Vec::new();
        for record in self.host.quota.sessions_of(user) {
            let session = self.host.engine.running(&record).await.map_err(|error| self.refused(&error))?;
            // A session that was just prompted has no agent yet, but is about to start one.
            let is_at_work = |session: Session| session.status().has_agent || session.status().has_work;
            if !session.is_some_and(is_at_work) {
                parked.push(record);
            }
        }
        let permit = self.host.quota.reserve(user, &parked, known);
        permit.ok_or_else(|| rpc_error::too_many_sessions(MAX_SESSIONS))
    }

    /// This client as a responder for a record.
    pub(super) fn responder(&self, record: &RecordId, link: &ClientLink) -> Responder {
        self.attachments.responder(record, self.id, self.access.services(&link.client()), link)
    }

    /// Registers the client as a responder for the record, if it can answer requests.
    pub(super) fn register_responder(
        &self,
        record: &RecordId,
        start: &StartMeta,
        link: &ClientLink,
    ) -> Option<ResponderGuard> {
        let is_responder = self.access.is_responder(start);
        is_responder.then(|| self.host.responders.register(record, self.responder(record, link)))
    }

    /// Sets how long the session's agent may be idle, if the client names a time.
    pub(super) async fn set_idle_time(&self, session: &Session, start: &StartMeta) -> Result<(), CallError> {
        let Some(millis) = start.launch.idle_ms else { return Ok(()) };
        let limit = (millis > 0).then(|| Duration::from_millis(millis));
        session.set_idle_time(limit).await.map_err(|error| self.refused(&error))
    }
}
