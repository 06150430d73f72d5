//! The host as one client sees it: an ACP agent whose sessions are our records.
//!
//! To a client `sessionId` is the acpxRecordId, so it never changes under its feet. What a client says beside
//! the protocol is in [`super::meta`]; a client that says nothing there is an ordinary ACP client, and is asked
//! whatever its agent asks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::acp::agent::{
    AgentService, CallError, Cancellation, ClientLink, ExtensionCall, Feature, ListCall, Meta, NewCall,
    Offer, ParamProblem, PromptAnswer, PromptCall, RestoreCall, SessionPage, SessionSetup,
};
use crate::engine::{Hold, NewSession, RestoreSession, Servers, Session, SessionError};
use crate::machine::Awakening;
use crate::model::{AbsolutePath, AcpSessionId, McpServer, Record, RecordId, Scope, Seq, SessionName};
use crate::store::ScopeQuery;

use super::attachment::{self, Attachment, Form};
use super::fault;
use super::list;
use super::meta::{AgentMeta, HostMeta, NewMeta, PROTOCOL, RestoreMeta, SessionMeta, ShellMeta, StartMeta};
use super::{Around, Host};

/// One client's connection.
pub(super) struct Connection {
    pub(super) host: Arc<Host>,
    /// Whether the client is a program that one of our agents started. Such a one may not decide what agents
    /// are allowed to do.
    pub(super) confined: bool,
    attached: Mutex<HashMap<RecordId, Attachment>>,
}

/// What every host offers. What a given agent cannot take, the session says when it comes to it.
pub(super) fn offer(version: &str) -> Offer {
    let meta = HostMeta { protocol: PROTOCOL, version: version.to_owned() };
    let features = [
        Feature::Load,
        Feature::Resume,
        Feature::Close,
        Feature::List,
        Feature::Delete,
        Feature::McpHttp,
        Feature::McpSse,
        Feature::Image,
        Feature::Audio,
        Feature::EmbeddedContext,
    ];
    Offer::new("acpx", version, features).with_meta(acpx_meta(&meta))
}

impl Connection {
    pub(super) fn new(host: Arc<Host>, confined: bool) -> Self {
        Self { host, confined, attached: Mutex::default() }
    }

    /// The session of a record that this client has in use.
    pub(super) fn attached(&self, record: &RecordId) -> Option<Session> {
        self.attachments().get(record).map(|attachment| attachment.session.clone())
    }

    /// What the client has of a session, made if it has nothing of it yet.
    pub(super) fn with_attachment<T>(&self, session: &Session, act: impl FnOnce(&mut Attachment) -> T) -> T {
        let mut attached = self.attachments();
        let known = attached.remove(session.record_id()).filter(|known| known.is_of(session));
        let attachment = known.unwrap_or_else(|| Attachment::new(session.clone()));
        act(attached.entry(session.record_id().clone()).or_insert(attachment))
    }

    /// What a session answers instead. A host on its way out leaves whoever it can no longer serve without an
    /// answer: the client finds the connection ended, and asks the next host.
    pub(super) fn refused(&self, error: &SessionError) -> CallError {
        match error {
            SessionError::ShutDown(_) if self.host.is_leaving() => CallError::Unanswered,
            other => fault::refused(other),
        }
    }

    pub(super) fn attachments(&self) -> MutexGuard<'_, HashMap<RecordId, Attachment>> {
        // Nothing panics while it holds the lock, and every step leaves the map whole.
        self.attached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn open(&self, call: NewCall) -> Result<Opened, CallError> {
        let mut meta: NewMeta = read_meta(call.meta.as_deref())?;
        let agent = meta.agent.take().and_then(AgentMeta::spec);
        let agent = agent.ok_or_else(|| problem("_meta.acpx.agent", "must name the agent to start"))?;
        let mcp_servers = Servers { source: source(&meta.start)?, ..call.mcp_servers.into() };
        let environment = meta.start.take_environment();
        let new = NewSession { mcp_servers, ..NewSession::new(agent, call.cwd, environment) };
        let opened = match meta.shell {
            None => Opened::new(self.begin(new).await?),
            Some(shell) => self.open_in_shell(new, shell).await?,
        };
        self.set_idle_time(&opened.session, &meta.start).await?;
        Ok(Opened { updates: !meta.start.without_updates, ..opened })
    }

    async fn begin(&self, new: NewSession) -> Result<Session, CallError> {
        self.host.engine.open(new).await.map_err(|error| self.refused(&error))
    }

    /// Makes a session that a shell can find, one at a time in one place: what is there is kept or closed.
    async fn open_in_shell(&self, mut new: NewSession, shell: ShellMeta) -> Result<Opened, CallError> {
        let name = shell.name.as_deref().map(SessionName::new).transpose();
        let name = name.map_err(|error| problem("_meta.acpx.shell.name", error.to_string()))?;
        let scope = Scope { agent: new.agent.key(), name };
        let real_cwd = new.real_cwd().map_err(|error| self.refused(&error))?;
        let _alone = self.host.scopes.alone(&scope, &real_cwd).await;
        let directories = match &shell.unless_in {
            Some(directories) => directories.iter().map(|path| AbsolutePath::new(path.as_str())).collect(),
            None => Ok(vec![real_cwd]),
        };
        let directories =
            directories.map_err(|error| problem("_meta.acpx.shell.unlessIn", error.to_string()))?;
        let query =
            ScopeQuery { agent: scope.agent.clone(), directories, name: scope.name.clone(), closed: false };
        let there = self.host.store.find(query).await.map_err(fault::not_kept)?;
        match there {
            None => {
                new.scope = Some(scope);
                Ok(Opened::new(self.begin(new).await?))
            }
            Some(there) if shell.unless_in.is_some() => self.take_up(there, new).await,
            Some(there) => self.replace(there.id, new, scope).await,
        }
    }

    /// The session that is there, to be started, should it have to be, with what this client has given.
    async fn take_up(&self, there: Record, new: NewSession) -> Result<Opened, CallError> {
        let around = Around { cwd: there.cwd.as_path(), path: new.environment.get("PATH") };
        let given = Some(new.mcp_servers).filter(|servers| !servers.list.is_empty());
        let mcp_servers = given.or_else(|| self.host.recovered(there.mcp_servers, around));
        let restore =
            RestoreSession { environment: new.environment, mcp_servers, ..RestoreSession::default() };
        let refused = |error: SessionError| self.refused(&error);
        let session = self.host.engine.attach(&there.id, &restore).await.map_err(refused)?;
        session.prepare(restore).await.map_err(refused)?;
        Ok(Opened { created: false, ..Opened::new(session) })
    }

    /// Makes a session in the place of the one that is there, which goes only when the new one has come.
    async fn replace(&self, old: RecordId, new: NewSession, scope: Scope) -> Result<Opened, CallError> {
        let opened = Opened::new(self.begin(new).await?);
        let take_over = async {
            self.host.engine.attach(&old, &RestoreSession::default()).await?.close().await?;
            opened.session.set_scope(scope).await
        };
        if let Err(error) = take_over.await {
            // Nobody would find it.
            drop(opened.session.close().await);
            return Err(self.refused(&error));
        }
        Ok(Opened { replaced: Some(old), ..opened })
    }

    /// Brings a session back for this client.
    async fn restore(&self, call: RestoreCall) -> Result<Opened, CallError> {
        let record = record_of(&call.session);
        let mut meta: RestoreMeta = read_meta(call.meta.as_deref())?;
        let refused = |error: SessionError| self.refused(&error);
        let restore = self.restoring(&record, call.mcp_servers, &mut meta).await?;
        let opened = Opened::new(self.host.engine.attach(&record, &restore).await.map_err(refused)?);
        self.set_idle_time(&opened.session, &meta.start).await?;
        let how = if meta.later {
            opened.session.prepare(restore).await.map_err(refused)?;
            None
        } else {
            Some(opened.session.wake(restore).await.map_err(refused)?)
        };
        let updates = !meta.start.without_updates;
        Ok(Opened { created: false, how, updates, ..opened })
    }

    /// What a session is restored with. Servers that this client does not name come from where they came from.
    async fn restoring(
        &self,
        record: &RecordId,
        servers: Option<Vec<McpServer>>,
        meta: &mut RestoreMeta,
    ) -> Result<RestoreSession, CallError> {
        let environment = meta.start.take_environment();
        let mcp_servers = if let Some(list) = servers {
            Some(Servers { source: source(&meta.start)?, ..list.into() })
        } else {
            let kept = self.host.engine.record(record).await.map_err(|error| self.refused(&error))?;
            let kept = kept.ok_or_else(|| fault::unknown(record))?;
            let around = Around { cwd: kept.cwd.as_path(), path: environment.get("PATH") };
            self.host.recovered(kept.mcp_servers, around)
        };
        let agent = meta.agent.take().and_then(AgentMeta::spec);
        Ok(RestoreSession { options: meta.wishes.into(), agent, environment, mcp_servers })
    }

    async fn set_idle_time(&self, session: &Session, start: &StartMeta) -> Result<(), CallError> {
        let Some(millis) = start.idle_ms else { return Ok(()) };
        let limit = (millis > 0).then(|| Duration::from_millis(millis));
        session.set_idle_time(limit).await.map_err(|error| self.refused(&error))
    }

    /// The answer to new, load and resume; from here on the client has the session in use.
    fn answer(&self, client: AcpSessionId, opened: &Opened, from: Seq, link: &ClientLink) -> SessionSetup {
        self.with_attachment(&opened.session, |attachment| {
            attachment.hold();
            if opened.updates {
                attachment.stream_on(Form::Updates, from, link);
            }
        });
        let mut setup = SessionSetup::new(client);
        if let Some(meta) = opened.meta() {
            setup.agent_session = opened.session.identity().and_then(|identity| identity.agent_session);
            setup.meta = acpx_meta(&meta);
        }
        setup
    }
}

/// A session that was made or brought back.
struct Opened {
    session: Session,
    /// It is in use before its client can have it in use itself.
    _hold: Hold,
    created: bool,
    replaced: Option<RecordId>,
    how: Option<Awakening>,
    updates: bool,
}

impl Opened {
    fn new(session: Session) -> Self {
        Self { _hold: session.hold(), session, created: true, replaced: None, how: None, updates: true }
    }

    fn meta(&self) -> Option<SessionMeta> {
        Some(SessionMeta {
            ids: self.session.identity()?.into(),
            created: self.created,
            replaced_record_id: self.replaced.as_ref().map(ToString::to_string),
            awakening: self.how.map(Into::into),
        })
    }
}

impl AgentService for Connection {
    async fn new_session(&self, call: NewCall, link: ClientLink) -> Result<SessionSetup, CallError> {
        let opened = self.open(call).await?;
        let client = client_session(opened.session.record_id());
        let from = opened.session.last_seq().map_or(Seq::FIRST, Seq::next);
        Ok(self.answer(client, &opened, from, &link))
    }

    async fn load_session(&self, call: RestoreCall, link: ClientLink) -> Result<SessionSetup, CallError> {
        let (client, record) = (call.session.clone(), record_of(&call.session));
        let refused = |error: SessionError| self.refused(&error);
        let kept = self.host.engine.record(&record).await.map_err(refused)?;
        let until = kept.ok_or_else(|| fault::unknown(&record))?.last_seq;
        let replay = self.host.engine.replay(&record, Seq::FIRST);
        let (replayed, opened) =
            tokio::join!(attachment::replay(replay, until, &client, &link), self.restore(call));
        let opened = opened?;
        replayed
            .map_err(refused)?
            .map_err(|source| CallError::NotTold { session: client.clone(), source })?;
        Ok(self.answer(client, &opened, until.map_or(Seq::FIRST, Seq::next), &link))
    }

    async fn resume_session(&self, call: RestoreCall, link: ClientLink) -> Result<SessionSetup, CallError> {
        let client = call.session.clone();
        let opened = self.restore(call).await?;
        let from = opened.session.last_seq().map_or(Seq::FIRST, Seq::next);
        Ok(self.answer(client, &opened, from, &link))
    }

    async fn list_sessions(&self, call: ListCall) -> Result<SessionPage, CallError> {
        list::page(&self.host, call).await
    }

    async fn prompt(
        &self,
        call: PromptCall,
        cancellation: Cancellation,
        link: ClientLink,
    ) -> Result<PromptAnswer, CallError> {
        self.run_turn(call, cancellation, &link).await
    }

    /// The client has its turns cancelled and lets go. The last one to do so frees the agent.
    async fn close_session(&self, session: AcpSessionId) -> Result<(), CallError> {
        let attachment = self.attachments().remove(&record_of(&session));
        if let Some(attachment) = attachment {
            let session = attachment.session.clone();
            drop(attachment);
            if !session.is_held() {
                // Somebody else's turn may have begun; then it is not the last one out.
                drop(session.park().await);
            }
        }
        Ok(())
    }

    async fn leaving(&self) {
        self.host.leaving().await;
    }

    /// The record is gone for everybody: whoever else has it in use finds an unknown session.
    async fn delete_session(&self, session: AcpSessionId) -> Result<(), CallError> {
        let record = record_of(&session);
        self.attachments().remove(&record);
        self.host.engine.delete(&record).await.map_err(|error| self.refused(&error))
    }

    async fn extension(&self, call: ExtensionCall, link: ClientLink) -> Result<String, CallError> {
        self.own_method(call, &link).await
    }
}

/// To a client our record is the session; this is the one place that says so.
pub(super) fn record_of(session: &AcpSessionId) -> RecordId {
    RecordId::new(session.as_str()).expect("a session id is not empty")
}

/// And this is the way back.
pub(super) fn client_session(record: &RecordId) -> AcpSessionId {
    AcpSessionId::new(record.as_str()).expect("the id of a record is not empty")
}

/// What a client says under `_meta.acpx`; nothing, if it says nothing.
pub(super) fn read_meta<T: DeserializeOwned + Default>(meta: Option<&str>) -> Result<T, CallError> {
    #[derive(Deserialize)]
    struct Under<T> {
        acpx: Option<T>,
    }
    let Some(meta) = meta else { return Ok(T::default()) };
    let read: Under<T> =
        serde_json::from_str(meta).map_err(|error| problem("_meta.acpx", error.to_string()))?;
    Ok(read.acpx.unwrap_or_default())
}

/// The members of `_meta` with ours among them.
pub(super) fn acpx_meta(ours: &impl serde::Serialize) -> Meta {
    let ours = serde_json::to_value(ours).expect("what we say has only text, numbers and lists");
    Meta::from_iter([("acpx".to_owned(), ours)])
}

pub(super) fn problem(field: &str, problem: impl Into<String>) -> CallError {
    ParamProblem::new(field, problem).into()
}

fn source(start: &StartMeta) -> Result<Option<AbsolutePath>, CallError> {
    let path = start.mcp_source.as_deref().map(AbsolutePath::new).transpose();
    path.map_err(|error| problem("_meta.acpx.mcpSource", error.to_string()))
}
