//! Creates and forks sessions, and replaces a shell's session by a new one.
//!
//! A shell finds at most one session per scope, so creation there holds the scope's lock and runs as a background task
//! of the host. If the client disconnects, the new session is removed again, unless it has already replaced another.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::acp::agent::{CallError, ClientLink, ForkCall, NewCall, SessionSetup};
use crate::engine::{Forked, Hold, NewSession, RestoreSession, Session, SessionError, UnclaimedSession};
use crate::machine::WakeOutcome;
use crate::model::{AbsolutePath, AcpSessionId, Record, RecordId, Scope, Seq, SessionName};
use crate::store::ScopeQuery;

use super::mcp_servers::{configured_servers, recover_servers};
use super::{resume, set_config};
use crate::host::Host;
use crate::host::attach::attachments::UpdateStart;
use crate::host::attach::stream::{AnswerGate, PausedStream};
use crate::host::connection::Connection;
use crate::host::connection::access::{ClientAccess, UserAction};
use crate::host::permissions::responders::ResponderGuard;
use crate::protocol::acpx_meta::{acpx_meta, client_session, problem, record_of};
use crate::protocol::meta::{
    AgentStateMeta, KeptMeta, NewMeta, SessionMeta, SettingMeta, ShellMeta, StartMeta,
};
use crate::protocol::rpc_error;

/// A session that was created or restored for a client.
pub(crate) struct OpenedSession {
    pub(crate) session: Session,
    /// Keeps the session in use until its client's attachment does.
    pub(crate) hold: Hold,
    /// Registers the client as a responder.
    pub(crate) responder: Option<ResponderGuard>,
    /// Deletes a new session again if its client never receives the reply.
    pub(crate) unclaimed: Option<UnclaimedSession>,
    pub(crate) created: bool,
    pub(crate) replaced: Option<RecordId>,
    pub(crate) wake: Option<WakeOutcome>,
    /// Where the agent's setup differs from what the client named.
    pub(crate) mismatch: SetupMismatch,
    /// The parameters with which the client would start the agent.
    pub(crate) restore: RestoreSession,
    /// The first event to stream to the client.
    pub(crate) from: Seq,
    /// Whether the client wants updates.
    pub(crate) updates: bool,
    /// Whether each update carries its event number.
    pub(crate) with_seq: bool,
    /// The client's paused update stream, which a new one replaces.
    pub(crate) paused: Option<PausedStream>,
}

/// Set for each part of the setup that the agent keeps although the client named another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SetupMismatch {
    pub(crate) servers: Option<KeptMeta>,
    pub(crate) directories: Option<KeptMeta>,
    pub(crate) setup: Option<KeptMeta>,
}

impl OpenedSession {
    /// A new session. Its client has seen none of its events.
    fn new((session, unclaimed): (Session, UnclaimedSession), restore: RestoreSession) -> Self {
        let existing = Self::existing(session, restore);
        Self { created: true, unclaimed: Some(unclaimed), from: Seq::FIRST, ..existing }
    }

    /// An existing session, before anything is done with it.
    pub(crate) fn existing(session: Session, restore: RestoreSession) -> Self {
        Self {
            hold: session.hold(),
            responder: None,
            unclaimed: None,
            created: false,
            replaced: None,
            wake: None,
            mismatch: SetupMismatch::default(),
            restore,
            from: session.last_seq().map_or(Seq::FIRST, Seq::next),
            updates: true,
            with_seq: false,
            paused: None,
            session,
        }
    }

    /// Removes a new session: its client never received it, or its settings failed.
    async fn remove(self) {
        drop(self.hold);
        if let Some(unclaimed) = self.unclaimed {
            unclaimed.take_back().await;
        }
    }

    fn meta(&self) -> Option<SessionMeta> {
        Some(SessionMeta {
            ids: self.session.identity()?,
            created: self.created,
            replaced_record_id: self.replaced.as_ref().map(ToString::to_string),
            agent: AgentStateMeta::of(&self.session.status(), self.wake),
            mcp_servers: self.mismatch.servers,
            additional_directories: self.mismatch.directories,
            setup: self.mismatch.setup,
            seq: Some(self.from.0.saturating_sub(1)),
        })
    }

    /// The reply to new, load, resume and fork. From here on the client uses the session. Its updates start after the
    /// reply was sent.
    pub(crate) fn into_reply(
        self,
        client: &Connection,
        session: AcpSessionId,
        link: &ClientLink,
    ) -> SessionSetup {
        let mut setup = SessionSetup::new(session);
        let (offered, commands) = set_config::offered(&self.session, link);
        setup.forwarded = Some(offered);
        setup.afterwards.extend(commands);
        if let Some(meta) = self.meta() {
            setup.agent_session = self.session.identity().and_then(|identity| identity.agent_session);
            setup.meta = acpx_meta(&meta);
        }
        let Self { session, hold: _hold, responder, unclaimed, restore, .. } = self;
        let (gate, replaces) = (AnswerGate::default(), self.paused.is_some());
        let updates = (self.updates || replaces).then(|| UpdateStart {
            from: self.from,
            with_seq: self.with_seq,
            replaces,
            after: gate.wait(),
        });
        client.attachments.attach(&session, restore, responder, updates, link);
        setup.on_delivered = Some(Box::new(move || {
            if let Some(unclaimed) = unclaimed {
                unclaimed.claim();
            }
            drop(gate);
        }));
        setup
    }
}

/// Creates a session for a client (`session/new`).
pub(crate) async fn create(
    client: &Connection,
    call: NewCall,
    link: &ClientLink,
) -> Result<SessionSetup, CallError> {
    let mut meta: NewMeta = client.access.authorized_meta(call.meta.as_deref())?;
    client.access.check_initial_settings(&meta.start.settings)?;
    client.access.check_mcp_servers(&call.mcp_servers)?;
    client.access.check_new_directories(&call.additional_directories)?;
    client.check_new_directory(&call.cwd).await?;
    client.check_directories(&call.additional_directories).await?;
    let permit = client.reserve_slot(None).await?;
    let agent = client.defaults.agent(meta.agent.take());
    let agent = agent.ok_or_else(|| problem("_meta.acpx.agent", "must name the agent to start"))?;
    let mut new = client.new_session(agent, call, &mut meta.start, link.client().protocol)?;
    // The page names no servers: its sessions have those of the configuration.
    if let Some(source) = client.access.page().and_then(|page| page.mcp_source.as_deref()) {
        let source = AbsolutePath::new(source).map_err(|error| problem("mcpSource", error.to_string()))?;
        let path = new.environment.get("PATH");
        new.mcp_servers = configured_servers(&client.host, source, &new.cwd, path).await;
    }
    let settings = std::mem::take(&mut meta.start.settings);
    let (access, resumed) = (client.access.clone(), meta.resume_session.take());
    let opened = match (meta.shell, resumed) {
        (None, None) => open(&client.host, new, &settings, std::future::pending()).await,
        (None, Some(id)) => open_resumed(&client.host, new, &id, &settings, &access).await,
        (Some(shell), resumed) => {
            open_in_shell(&client.host, new, shell, SessionWishes { settings, resumed }, access).await
        }
    };
    let opened = opened.map_err(|error| client.with_login_options(error))?;
    permit.commit(opened.session.record_id());
    client.attachments.add_created(opened.session.record_id().clone());
    reply_to_new(client, opened, &meta.start, link).await
}

/// Forks a session in an agent process that is started as this client would start it. The client is not sent the copied
/// events.
pub(crate) async fn fork(
    client: &Connection,
    ForkCall { session, new: call }: ForkCall,
    link: &ClientLink,
) -> Result<SessionSetup, CallError> {
    let host = &client.host;
    let record = record_of(&session);
    let stored = host.engine.record(&record).await.map_err(|error| client.refused(&error))?;
    let stored = stored.filter(|stored| client.can_see(stored)).ok_or_else(|| rpc_error::unknown(&record))?;
    client.access.check_mcp_servers(&call.mcp_servers)?;
    client.access.check_new_directories(&call.additional_directories)?;
    client.check_new_directory(&call.cwd).await?;
    let permit = client.reserve_slot(None).await?;
    let mut meta: NewMeta = client.access.authorized_meta(call.meta.as_deref())?;
    let named = client.agent_for(&stored, meta.agent.take());
    let agent = named.filter(|agent| agent.key() == stored.agent.key()).unwrap_or(stored.agent);
    client.check_directories(&call.additional_directories).await?;
    let mut new = client.new_session(agent, call, &mut meta.start, link.client().protocol)?;
    new.setup = stored.settings.setup.updated_by(&new.setup);
    let restore = restore_params(&new);
    let forked = host.engine.fork(&record, new).await;
    let not_forked =
        |error: SessionError| client.with_login_options(rpc_error::without_session(host.refused(&error)));
    let Forked { session, unclaimed, copied } = forked.map_err(not_forked)?;
    let from = copied.map_or(Seq::FIRST, Seq::next);
    permit.commit(session.record_id());
    let opened = OpenedSession { from, ..OpenedSession::new((session, unclaimed), restore) };
    reply_to_new(client, opened, &meta.start, link).await
}

async fn reply_to_new(
    client: &Connection,
    opened: OpenedSession,
    start: &StartMeta,
    link: &ClientLink,
) -> Result<SessionSetup, CallError> {
    let record = opened.session.record_id().clone();
    if opened.created && client.access.creates_confined_records() {
        client.host.confined_records.insert(&record);
    }
    client.set_idle_time(&opened.session, start).await?;
    let responder = client.register_responder(&record, start, link);
    let (updates, with_seq) = (!start.without_updates, start.with_seq);
    let opened = OpenedSession { responder, updates, with_seq, ..opened };
    Ok(opened.into_reply(client, client_session(&record), link))
}

/// How a shell finds its session.
struct ShellLookup {
    scope: Scope,
    real_cwd: AbsolutePath,
    /// The directories in which an existing session is returned; `None` if an existing one is replaced.
    unless_in: Option<Vec<AbsolutePath>>,
    /// What a new session is to be.
    wishes: SessionWishes,
    /// The rights of the requesting client.
    access: ClientAccess,
}

/// What a new session is to be.
struct SessionWishes {
    settings: Vec<SettingMeta>,
    /// The id of the agent's session to take instead of a fresh one.
    resumed: Option<String>,
}

/// Creates a session with these settings, unless `cancelled` completes first.
async fn open(
    host: &Host,
    new: NewSession,
    settings: &[SettingMeta],
    cancelled: impl Future<Output = ()>,
) -> Result<OpenedSession, CallError> {
    let (restore, begun) = (restore_params(&new), Instant::now());
    let not_created = |error: SessionError| rpc_error::without_session(host.refused(&error));
    let created = host.engine.open_unless(new, cancelled).await.map_err(not_created)?;
    let opened = OpenedSession::new(created, restore);
    match set_config::apply(host, &opened.session, &opened.restore, settings, begun).await {
        Ok(()) => Ok(opened),
        Err(error) => {
            opened.remove().await;
            Err(rpc_error::without_session(error))
        }
    }
}

/// Creates a session that a shell can find, one at a time per scope. An existing one is returned or replaced.
async fn open_in_shell(
    host: &Arc<Host>,
    new: NewSession,
    shell: ShellMeta,
    wishes: SessionWishes,
    access: ClientAccess,
) -> Result<OpenedSession, CallError> {
    let name = shell.name.as_deref().map(SessionName::new).transpose();
    let name = name.map_err(|error| problem("_meta.acpx.shell.name", error.to_string()))?;
    let scope = Scope { agent: new.agent.key(), name };
    let real_cwd = host.engine.real_directory(&new.cwd).await.map_err(|error| host.refused(&error))?;
    let paths = |paths: Vec<String>| paths.into_iter().map(AbsolutePath::new).collect::<Result<_, _>>();
    let unless_in = shell.unless_in.map(paths).transpose();
    let unless_in = unless_in.map_err(|error| problem("_meta.acpx.shell.unlessIn", error.to_string()))?;
    let lookup = ShellLookup { scope, real_cwd, unless_in, wishes, access };
    let (mut reply, opened) = oneshot::channel();
    let task_host = Arc::clone(host);
    host.background.spawn(async move {
        let host = task_host;
        let _lock = tokio::select! {
            lock = host.scope_locks.lock(&lookup.scope, &lookup.real_cwd) => lock,
            () = reply.closed() => return,
        };
        let opened = open_in_scope(&host, new, lookup, reply.closed()).await;
        // Still under the scope's lock, so the next caller does not find a session that is about to be removed.
        if let Err(Ok(opened)) = reply.send(opened) {
            opened.remove().await;
        }
    });
    // A host that shuts down first drops the task, and has created nothing.
    opened.await.unwrap_or(Err(CallError::Unanswered))
}

/// Creates the session of a locked scope, unless `cancelled` completes first.
async fn open_in_scope(
    host: &Host,
    mut new: NewSession,
    lookup: ShellLookup,
    cancelled: impl Future<Output = ()>,
) -> Result<OpenedSession, CallError> {
    let ShellLookup { scope, real_cwd, unless_in, wishes: SessionWishes { settings, resumed }, access } =
        lookup;
    let is_ensured = unless_in.is_some();
    let directories = unless_in.unwrap_or_else(|| vec![real_cwd]);
    let query =
        ScopeQuery { agent: scope.agent.clone(), directories, name: scope.name.clone(), closed: false };
    let existing = match host.store.find(query).await.map_err(rpc_error::not_kept)? {
        Some(existing) if is_ensured => return attach_existing(host, existing, new, &access).await,
        existing => existing.map(|existing| existing.id),
    };
    if let Some(existing) = &existing {
        let is_confined_record = host.confined_records.contains(existing);
        access.check_record(UserAction::ReplaceSession, is_confined_record)?;
    }
    let opened = match (resumed, &existing) {
        (Some(id), _) => open_resumed(host, new, &id, &settings, &access).await?,
        (None, Some(_)) => open(host, new, &settings, cancelled).await?,
        (None, None) => {
            new.scope = Some(scope);
            return open(host, new, &settings, cancelled).await;
        }
    };
    match existing {
        Some(existing) if existing == *opened.session.record_id() => Ok(opened),
        Some(existing) => replace(host, existing, opened, scope).await,
        None => {
            opened.session.set_scope(scope).await.map_err(|error| host.refused(&error))?;
            Ok(opened)
        }
    }
}

/// Opens a session that the agent has, with these settings.
async fn open_resumed(
    host: &Host,
    new: NewSession,
    id: &str,
    settings: &[SettingMeta],
    access: &ClientAccess,
) -> Result<OpenedSession, CallError> {
    let begun = Instant::now();
    let opened = resume::open(host, new, id, access).await?;
    set_config::apply(host, &opened.session, &opened.restore, settings, begun).await?;
    Ok(opened)
}

/// Attaches to the existing session, with those start parameters for the next start of its agent that this client may
/// set.
async fn attach_existing(
    host: &Host,
    existing: Record,
    new: NewSession,
    access: &ClientAccess,
) -> Result<OpenedSession, CallError> {
    let mcp_servers = if new.mcp_servers.list.is_empty() {
        recover_servers(host, existing.mcp_servers, &existing.cwd, new.environment.get("PATH")).await
    } else {
        Some(new.mcp_servers.clone())
    };
    // Keeps the session's protocol version, unless a newer one is requested.
    let protocol = existing.agent.protocol.max(new.agent.protocol);
    let agent = access.may_name_agent().then(|| new.agent.clone().with_protocol(protocol));
    // Naming no directories leaves those of the session.
    let additional_directories = Some(new.additional_directories.clone())
        .filter(|directories| access.may_set_directories(false) && !directories.is_empty());
    // The record was found by its real path.
    let cwd = Some(existing.real_cwd);
    let restore = RestoreSession { agent, cwd, mcp_servers, additional_directories, ..restore_params(&new) };
    let session = host.engine.attach(&existing.id, &restore).await.map_err(|error| host.refused(&error))?;
    Ok(OpenedSession::existing(session, restore))
}

/// Replaces the existing session by a new one. The new one then stays even if its client never receives the reply,
/// because the old one is closed.
async fn replace(
    host: &Host,
    old: RecordId,
    mut opened: OpenedSession,
    scope: Scope,
) -> Result<OpenedSession, CallError> {
    if let Err(error) = host.engine.hand_over(&old, &opened.session, scope).await {
        // Without the scope no shell would find it.
        opened.remove().await;
        return Err(host.refused(&error));
    }
    if let Some(unclaimed) = opened.unclaimed.take() {
        unclaimed.claim();
    }
    Ok(OpenedSession { replaced: Some(old), ..opened })
}

/// The parameters for a later restart of a new session's agent.
pub(super) fn restore_params(new: &NewSession) -> RestoreSession {
    RestoreSession {
        agent: Some(new.agent.clone()),
        mcp_servers: Some(new.mcp_servers.clone()),
        additional_directories: Some(new.additional_directories.clone()),
        setup: new.setup.clone(),
        login: new.login,
        logged_in: new.logged_in.clone(),
        capabilities: new.capabilities.clone(),
        start_wait: new.start_wait,
        ..RestoreSession::new(new.environment.clone())
    }
}
