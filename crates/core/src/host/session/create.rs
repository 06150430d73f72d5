//! How sessions are made, and how a shell's old one gives way to its new one.
//!
//! A shell finds one session in one place. So whoever makes one there is alone meanwhile, and does it as a task of the
//! host: a client that goes away takes back what it has begun, and what can no longer be taken back is seen through.

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

/// A session that was made or brought back.
pub(crate) struct OpenedSession {
    pub(crate) session: Session,
    /// It is in use before its client can have it in use itself.
    pub(crate) hold: Hold,
    /// Its client's place among those who are asked what the agent asks.
    pub(crate) seat: Option<ResponderGuard>,
    /// A session that is new goes again if its client never hears of it.
    pub(crate) unclaimed: Option<UnclaimedSession>,
    pub(crate) created: bool,
    pub(crate) replaced: Option<RecordId>,
    pub(crate) how: Option<WakeOutcome>,
    /// What its agent has otherwise than its client named it.
    pub(crate) kept: SetupMismatch,
    /// What its client would start the agent with.
    pub(crate) given: RestoreSession,
    /// The first event that its client cannot know of.
    pub(crate) from: Seq,
    /// Whether its client wants to be told updates.
    pub(crate) updates: bool,
    /// Whether each of them says which event it is.
    pub(crate) with_seq: bool,
    /// Those that pause for it: they begin anew.
    pub(crate) paused: Option<PausedStream>,
}

/// What an agent keeps though its client named others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SetupMismatch {
    pub(crate) servers: Option<KeptMeta>,
    pub(crate) directories: Option<KeptMeta>,
}

impl OpenedSession {
    /// A session that was made. Whatever its agent has said is news.
    fn new((session, unclaimed): (Session, UnclaimedSession), given: RestoreSession) -> Self {
        let known = Self::known(session, given);
        Self { created: true, unclaimed: Some(unclaimed), from: Seq::FIRST, ..known }
    }

    /// A session that was there, as it is before anything is done with it.
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

    /// Takes it back: its client never hears of it, or it cannot be set as its client wants it.
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

/// What a shell's session is to be found by.
struct ShellLookup {
    scope: Scope,
    real_cwd: AbsolutePath,
    /// Where one that is there is the answer; `None` if it is to give way.
    unless_in: Option<Vec<AbsolutePath>>,
    /// What a new one is set to.
    settings: Vec<SettingMeta>,
    /// Whether an agent has started whoever wants it.
    is_confined: bool,
}

impl Host {
    /// Makes a session that no shell finds.
    pub(crate) async fn open(
        &self,
        new: NewSession,
        settings: &[SettingMeta],
    ) -> Result<OpenedSession, CallError> {
        self.make(new, settings, std::future::pending()).await
    }

    /// Makes a session with these settings, until it is unwanted.
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

    /// Makes a session that the agent forks from another one's. What was said in that one is no news.
    pub(crate) async fn fork(&self, of: &RecordId, new: NewSession) -> Result<OpenedSession, CallError> {
        let given = given_again(&new);
        let unmade = |error: SessionError| rpc_error::without_session(self.refused(&error));
        let forked = self.engine.fork(of, new).await.map_err(unmade)?;
        let Forked { session, unclaimed, copied } = forked;
        let from = copied.map_or(Seq::FIRST, Seq::next);
        Ok(OpenedSession { from, ..OpenedSession::new((session, unclaimed), given) })
    }

    /// Makes a session that a shell can find, one at a time in one place: what is there is kept or gives way.
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
        // A host that is shut down before it comes to this has made nothing.
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
        // Whoever comes next finds what is there, and nothing that is about to go.
        if let Err(Ok(opened)) = answer.send(opened) {
            opened.take_back().await;
        }
    }

    /// Makes the session of a scope that nobody else is busy in, until it is unwanted.
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

    /// The session that is there, to be started, should it have to be, with what this client has given. One that an
    /// agent has started says neither how its agent is started nor which directories it has.
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
        // It goes on in the version that it has been spoken in, unless a newer one is asked for.
        let protocol = there.agent.protocol.max(new.agent.protocol);
        let agent = (!is_confined).then(|| new.agent.clone().with_protocol(protocol));
        // Whoever names no directories leaves those that the session has.
        let additional_directories = Some(new.additional_directories.clone())
            .filter(|directories| !is_confined && !directories.is_empty());
        // It was found by its real path.
        let cwd = Some(there.real_cwd);
        let given = RestoreSession { agent, cwd, mcp_servers, additional_directories, ..given_again(&new) };
        let session = self.engine.attach(&there.id, &given).await.map_err(|error| self.refused(&error))?;
        Ok(OpenedSession::known(session, given))
    }

    /// Puts a new session in the place of the one that is there. From here on it stays, even if its client never
    /// hears of it: the old one is gone.
    async fn replace(
        &self,
        old: RecordId,
        mut opened: OpenedSession,
        scope: Scope,
    ) -> Result<OpenedSession, CallError> {
        if let Err(error) = self.engine.hand_over(&old, &opened.session, scope).await {
            // No shell would find it.
            opened.take_back().await;
            return Err(self.refused(&error));
        }
        if let Some(unclaimed) = opened.unclaimed.take() {
            unclaimed.claim();
        }
        Ok(OpenedSession { replaced: Some(old), ..opened })
    }
}

/// What the agent of a session that is made now would be started with again.
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
