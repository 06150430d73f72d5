//! Creates sessions, and replaces a shell's session by a new one.
//!
//! A shell finds at most one session per scope, so creation there holds the scope's lock and runs as a background task
//! of the host. If the client disconnects, the new session is removed again, unless it has already replaced another.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::acp::agent::CallError;
use crate::engine::{Forked, Hold, NewSession, RestoreSession, Session, SessionError, UnclaimedSession};
use crate::machine::WakeOutcome;
use crate::model::{AbsolutePath, Record, RecordId, Scope, Seq, SessionName};
use crate::store::ScopeQuery;

use crate::host::Host;
use crate::host::attach::attachment::PausedStream;
use crate::host::permissions::responders::ResponderGuard;
use crate::protocol::acpx_meta::problem;
use crate::protocol::meta::{KeptMeta, MemoryMeta, SessionMeta, SettingMeta, ShellMeta};
use crate::protocol::rpc_error;

/// A session that was created or restored for a client.
pub(crate) struct OpenedSession {
    pub(crate) session: Session,
    /// Keeps the session in use until its client's attachment does.
    pub(crate) hold: Hold,
    /// Registers the client as a responder.
    pub(crate) seat: Option<ResponderGuard>,
    /// Deletes a new session again if its client never receives the reply.
    pub(crate) unclaimed: Option<UnclaimedSession>,
    pub(crate) created: bool,
    pub(crate) replaced: Option<RecordId>,
    pub(crate) how: Option<WakeOutcome>,
    /// Where the agent's setup differs from what the client named.
    pub(crate) kept: SetupMismatch,
    /// The parameters with which the client would start the agent.
    pub(crate) given: RestoreSession,
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
}

impl OpenedSession {
    /// A new session. Its client has seen none of its events.
    fn new((session, unclaimed): (Session, UnclaimedSession), given: RestoreSession) -> Self {
        let known = Self::known(session, given);
        Self { created: true, unclaimed: Some(unclaimed), from: Seq::FIRST, ..known }
    }

    /// An existing session, before anything is done with it.
    pub(crate) fn known(session: Session, given: RestoreSession) -> Self {
        Self {
            hold: session.hold(),
            seat: None,
            unclaimed: None,
            created: false,
            replaced: None,
            how: None,
            kept: SetupMismatch::default(),
            given,
            from: session.last_seq().map_or(Seq::FIRST, Seq::next),
            updates: true,
            with_seq: false,
            paused: None,
            session,
        }
    }

    /// Removes a new session: its client never received it, or its settings failed.
    async fn take_back(self) {
        drop(self.hold);
        if let Some(unclaimed) = self.unclaimed {
            unclaimed.take_back().await;
        }
    }

    pub(crate) fn meta(&self) -> Option<SessionMeta> {
        let status = self.session.status();
        Some(SessionMeta {
            ids: self.session.identity()?.into(),
            created: self.created,
            replaced_record_id: self.replaced.as_ref().map(ToString::to_string),
            awakening: self.how.map(Into::into),
            memory: MemoryMeta::of(status.memory),
            unmet_settings: status.unmet.iter().map(Into::into).collect(),
            mcp_servers: self.kept.servers,
            additional_directories: self.kept.directories,
            seq: Some(self.from.0.saturating_sub(1)),
        })
    }
}

/// How a shell finds its session.
struct ShellLookup {
    scope: Scope,
    real_cwd: AbsolutePath,
    /// The directories in which an existing session is returned; `None` if an existing one is replaced.
    unless_in: Option<Vec<AbsolutePath>>,
    /// The settings of a new session.
    settings: Vec<SettingMeta>,
    /// Whether the requesting client is confined.
    is_confined: bool,
}

impl Host {
    /// Creates a session without a scope.
    pub(crate) async fn open(
        &self,
        new: NewSession,
        settings: &[SettingMeta],
    ) -> Result<OpenedSession, CallError> {
        self.make(new, settings, std::future::pending()).await
    }

    /// Creates a session with these settings, unless `unwanted` completes first.
    async fn make(
        &self,
        new: NewSession,
        settings: &[SettingMeta],
        unwanted: impl Future<Output = ()>,
    ) -> Result<OpenedSession, CallError> {
        let (given, begun) = (given_again(&new), Instant::now());
        let unmade = |error: SessionError| rpc_error::without_session(self.refused(&error));
        let made = self.engine.open_unless(new, unwanted).await.map_err(unmade)?;
        let opened = OpenedSession::new(made, given);
        match self.choose(&opened.session, &opened.given, settings, begun).await {
            Ok(()) => Ok(opened),
            Err(error) => {
                opened.take_back().await;
                Err(rpc_error::without_session(error))
            }
        }
    }

    /// Creates a session by forking another. The client is not sent the copied events.
    pub(crate) async fn fork(&self, of: &RecordId, new: NewSession) -> Result<OpenedSession, CallError> {
        let given = given_again(&new);
        let unmade = |error: SessionError| rpc_error::without_session(self.refused(&error));
        let forked = self.engine.fork(of, new).await.map_err(unmade)?;
        let Forked { session, unclaimed, copied } = forked;
        let from = copied.map_or(Seq::FIRST, Seq::next);
        Ok(OpenedSession { from, ..OpenedSession::new((session, unclaimed), given) })
    }

    /// Creates a session that a shell can find, one at a time per scope. An existing one is returned or replaced.
    pub(crate) async fn open_in_shell(
        self: &Arc<Self>,
        new: NewSession,
        shell: ShellMeta,
        settings: Vec<SettingMeta>,
        is_confined: bool,
    ) -> Result<OpenedSession, CallError> {
        let name = shell.name.as_deref().map(SessionName::new).transpose();
        let name = name.map_err(|error| problem("_meta.acpx.shell.name", error.to_string()))?;
        let scope = Scope { agent: new.agent.key(), name };
        let real_cwd = self.engine.real_directory(&new.cwd).await.map_err(|error| self.refused(&error))?;
        let paths = |paths: Vec<String>| paths.into_iter().map(AbsolutePath::new).collect::<Result<_, _>>();
        let unless_in = shell.unless_in.map(paths).transpose();
        let unless_in = unless_in.map_err(|error| problem("_meta.acpx.shell.unlessIn", error.to_string()))?;
        let wanted = ShellLookup { scope, real_cwd, unless_in, settings, is_confined };
        let (answer, opened) = oneshot::channel();
        let host = Arc::clone(self);
        self.works.see_through(async move { host.make_in_shell(new, wanted, answer).await });
        // A host that shuts down first drops the task, and has created nothing.
        opened.await.unwrap_or(Err(CallError::Unanswered))
    }

    async fn make_in_shell(
        &self,
        new: NewSession,
        wanted: ShellLookup,
        mut answer: oneshot::Sender<Result<OpenedSession, CallError>>,
    ) {
        let _alone = tokio::select! {
            alone = self.scopes.alone(&wanted.scope, &wanted.real_cwd) => alone,
            () = answer.closed() => return,
        };
        let opened = self.make_alone(new, wanted, answer.closed()).await;
        // Still under the scope's lock, so the next caller does not find a session that is about to be removed.
        if let Err(Ok(opened)) = answer.send(opened) {
            opened.take_back().await;
        }
    }

    /// Creates the session of a locked scope, unless `unwanted` completes first.
    async fn make_alone(
        &self,
        mut new: NewSession,
        wanted: ShellLookup,
        unwanted: impl Future<Output = ()>,
    ) -> Result<OpenedSession, CallError> {
        let ShellLookup { scope, real_cwd, unless_in, settings, is_confined } = wanted;
        let is_ensured = unless_in.is_some();
        let directories = unless_in.unwrap_or_else(|| vec![real_cwd]);
        let query =
            ScopeQuery { agent: scope.agent.clone(), directories, name: scope.name.clone(), closed: false };
        let there = self.store.find(query).await.map_err(rpc_error::not_kept)?;
        match there {
            Some(there) if is_ensured => self.take_up(there, new, is_confined).await,
            None => {
                new.scope = Some(scope);
                self.make(new, &settings, unwanted).await
            }
            Some(there) => {
                self.may_end(
                    &there.id,
                    is_confined,
                    "close the session of this name; give its own another name",
                )?;
                let opened = self.make(new, &settings, unwanted).await?;
                self.replace(there.id, opened, scope).await
            }
        }
    }

    /// Attaches to the existing session, with this client's start parameters for the next start of its agent. A
    /// confined client sets neither the agent nor the directories.
    async fn take_up(
        &self,
        there: Record,
        new: NewSession,
        is_confined: bool,
    ) -> Result<OpenedSession, CallError> {
        let mcp_servers = if new.mcp_servers.list.is_empty() {
            self.recovered(there.mcp_servers, &there.cwd, new.environment.get("PATH")).await
        } else {
            Some(new.mcp_servers.clone())
        };
        // Keeps the session's protocol version, unless a newer one is requested.
        let protocol = there.agent.protocol.max(new.agent.protocol);
        let agent = (!is_confined).then(|| new.agent.clone().with_protocol(protocol));
        // Naming no directories leaves those of the session.
        let additional_directories = Some(new.additional_directories.clone())
            .filter(|directories| !is_confined && !directories.is_empty());
        // The record was found by its real path.
        let cwd = Some(there.real_cwd);
        let given = RestoreSession { agent, cwd, mcp_servers, additional_directories, ..given_again(&new) };
        let session = self.engine.attach(&there.id, &given).await.map_err(|error| self.refused(&error))?;
        Ok(OpenedSession::known(session, given))
    }

    /// Replaces the existing session by a new one. The new one then stays even if its client never receives the reply,
    /// because the old one is closed.
    async fn replace(
        &self,
        old: RecordId,
        mut opened: OpenedSession,
        scope: Scope,
    ) -> Result<OpenedSession, CallError> {
        if let Err(error) = self.engine.hand_over(&old, &opened.session, scope).await {
            // Without the scope no shell would find it.
            opened.take_back().await;
            return Err(self.refused(&error));
        }
        if let Some(unclaimed) = opened.unclaimed.take() {
            unclaimed.claim();
        }
        Ok(OpenedSession { replaced: Some(old), ..opened })
    }
}

/// The parameters for a later restart of a new session's agent.
fn given_again(new: &NewSession) -> RestoreSession {
    RestoreSession {
        agent: Some(new.agent.clone()),
        environment: new.environment.clone(),
        mcp_servers: Some(new.mcp_servers.clone()),
        additional_directories: Some(new.additional_directories.clone()),
        login: new.login,
        logged_in: new.logged_in.clone(),
        capabilities: new.capabilities.clone(),
        start_wait: new.start_wait,
        ..RestoreSession::default()
    }
}
