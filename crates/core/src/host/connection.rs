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

use crate::acp::Cursor;
use crate::acp::agent::{
    AgentService, CallError, Cancellation, ClientFacts, ClientLink, ExtensionCall, Feature, ForkCall,
    ListCall, LoginCall, Meta, NewCall, Offer, ParamProblem, PromptAnswer, PromptCall, RestoreCall,
    SessionPage, SessionSetup, SetModeCall, SetOptionCall, TurnLink,
};
use crate::acp::render::{Bounds, Rendering};
use crate::engine::{NewSession, RestoreSession, Servers, Session, SessionError};
use crate::machine::Awakening;
use crate::model::{AbsolutePath, AcpSessionId, McpServer, ProtocolVersion, RecordId, Seq};
use crate::wire::{WireError, splice};

use super::Host;
use super::attachment::{self, Attachment, Form, Gate, Gated, How, Telling, Updates};
use super::defaults::Defaults;
use super::fault;
use super::list;
use super::meta::{HostMeta, NewMeta, PROTOCOL, ReplayMeta, RestoreMeta, StartMeta};
use super::opening::Opened;
use super::passed;
use super::questions::{ConnectionId, Seat};
use super::replaying::{CursorError, KeptEvents, Replaying, standing};

/// One client's connection.
pub(super) struct Connection {
    pub(super) host: Arc<Host>,
    pub(super) number: ConnectionId,
    /// Whether the client is a program that one of our agents started. Such a one may not decide what agents
    /// are allowed to do.
    pub(super) confined: bool,
    pub(super) defaults: Defaults,
    attached: Mutex<HashMap<RecordId, Attachment>>,
}

/// Where a client of version 2 says from where it wants to be told a conversation.
const STANDARD_FIELD: &str = "replayFrom";
/// And where one of version 1 does.
const OUR_FIELD: &str = "_meta.acpx.replayFrom";

/// What every host offers. What a given agent cannot take, the session says when it comes to it.
pub(super) fn offer(version: &str) -> Offer {
    let meta = HostMeta { protocol: PROTOCOL, version: version.to_owned() };
    let features = [
        Feature::Load,
        Feature::Resume,
        Feature::Close,
        Feature::List,
        Feature::Delete,
        Feature::Modes,
        Feature::ConfigOptions,
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
    pub(super) fn new(host: Arc<Host>, confined: bool) -> Self {
        let number = host.next_connection();
        Self { host, number, confined, defaults: Defaults::default(), attached: Mutex::default() }
    }

    /// The session of a record that this client has in use, and what it would start its agent with. A record that was
    /// closed meanwhile is brought back.
    pub(super) async fn attached(&self, record: &RecordId) -> Result<(Session, RestoreSession), CallError> {
        let known =
            self.attachments().get(record).filter(|known| known.is_in_use()).map(|known| known.given.clone());
        let given = known.ok_or_else(|| fault::unknown(record))?;
        let session = self.host.engine.attach(record, &given).await;
        session.map(|session| (session, given)).map_err(|error| self.refused(&error))
    }

    /// Tells this client what happens to a record, after the answer that comes first.
    pub(super) fn telling<'a>(
        &self,
        how: How,
        record: &'a RecordId,
        from: Seq,
        after: Gated,
        link: &'a ClientLink,
    ) -> Telling<'a> {
        Telling { how, follower: self.host.engine.follow(record, from), record, after, link }
    }

    /// How this client is told the updates of a record.
    fn updates(&self, record: &RecordId, attachment: &Attachment, link: &ClientLink, with_seq: bool) -> How {
        let rendering = Rendering::new(record, link.client()).with_seq(with_seq);
        let (own, store) = (attachment.own.clone(), Arc::clone(&self.host.store));
        let engine = self.host.engine.clone();
        How::Updates(Box::new(Updates { rendering, own, store, engine }))
    }

    pub(super) fn refused(&self, error: &SessionError) -> CallError {
        self.host.refused(error)
    }

    pub(super) fn attachments(&self) -> MutexGuard<'_, HashMap<RecordId, Attachment>> {
        // Nothing panics while it holds the lock, and every step leaves the map whole.
        self.attached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn open(&self, call: NewCall, link: &ClientLink) -> Result<Opened, CallError> {
        let mut meta: NewMeta = read_meta(call.meta.as_deref())?;
        let agent = self.defaults.agent(meta.agent.take());
        let agent = agent.ok_or_else(|| problem("_meta.acpx.agent", "must name the agent to start"))?;
        self.defaults.complete(&mut meta.start);
        let mcp_servers = Servers { source: source(&meta.start)?, ..call.mcp_servers.into() };
        let environment = meta.start.take_environment();
        let (new, said) = (NewSession::new(agent, call.cwd, environment), for_agent(call.meta.as_deref()));
        let new = NewSession { mcp_servers, meta: said, ..new };
        let opened = match meta.shell {
            None => self.host.open(new).await?,
            Some(shell) => self.host.open_in_shell(new, shell).await?,
        };
        self.set_idle_time(&opened.session, &meta.start).await?;
        let seat = self.seat(opened.session.record_id(), &meta.start, link);
        let with_seq = meta.start.with_seq;
        Ok(Opened { seat, updates: !meta.start.without_updates, with_seq, ..opened })
    }

    /// A session that is kept, for this client, and what it would be started with. Nothing is started yet.
    async fn take_up(
        &self,
        call: RestoreCall,
        meta: &mut RestoreMeta,
        link: &ClientLink,
    ) -> Result<Opened, CallError> {
        let record = record_of(&call.session);
        let names_servers = call.mcp_servers.is_some();
        let restore = self.restoring(&record, call.mcp_servers, meta).await?;
        let restore = RestoreSession { meta: for_agent(call.meta.as_deref()), ..restore };
        let session = self.host.engine.attach(&record, &restore).await;
        let opened = Opened::known(session.map_err(|error| self.refused(&error))?, restore);
        let opened = Opened { seat: self.seat(&record, &meta.start, link), ..opened };
        self.stand_in(&opened).await?;
        self.set_idle_time(&opened.session, &meta.start).await?;
        let servers = if names_servers { self.renew_servers(&opened).await? } else { None };
        let (updates, with_seq) = (!meta.start.without_updates, meta.start.with_seq);
        Ok(Opened { servers, updates, with_seq, ..opened })
    }

    /// A place among those who are asked, for a client that has a person before it: one that wants to be told
    /// updates, and that no agent has started.
    pub(super) fn seat(&self, record: &RecordId, start: &StartMeta, link: &ClientLink) -> Option<Seat> {
        let can_be_asked = !self.confined && !start.without_updates;
        can_be_asked.then(|| self.host.askable.sit(record, self.number, link))
    }

    /// Whoever can be asked is also asked about turns whose own client has not come back.
    async fn stand_in(&self, opened: &Opened) -> Result<(), CallError> {
        if opened.seat.is_none() {
            return Ok(());
        }
        let advisor = self.host.advisor(opened.session.record_id(), None);
        opened.session.set_advisor(advisor).await.map_err(|error| self.refused(&error))
    }

    /// Sees to it that the agent has the session, unless that can wait for a prompt which needs it.
    async fn wake(&self, opened: &Opened, meta: &RestoreMeta) -> Result<Option<Awakening>, CallError> {
        if meta.later {
            return Ok(None);
        }
        let how = opened.session.wake(opened.given.clone()).await;
        how.map(Some).map_err(|error| self.refused(&error))
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
            self.host.recovered(kept.mcp_servers, &kept.cwd, environment.get("PATH")).await
        };
        let named = meta.agent.take();
        let agent = self.defaults.agent(named.clone());
        let agent = match agent {
            // A session goes on in the version that it has been spoken in, unless another is asked for.
            Some(agent) if !self.defaults.says_protocol(named.as_ref()) => {
                let kept = self.host.engine.record(record).await.map_err(|error| self.refused(&error))?;
                let protocol = kept.map_or(agent.protocol, |kept| kept.agent.protocol);
                Some(agent.with_protocol(protocol))
            }
            agent => agent,
        };
        Ok(RestoreSession { options: meta.wishes.into(), agent, environment, meta: None, mcp_servers })
    }

    pub(super) async fn set_idle_time(&self, session: &Session, start: &StartMeta) -> Result<(), CallError> {
        let Some(millis) = start.idle_ms else { return Ok(()) };
        let limit = (millis > 0).then(|| Duration::from_millis(millis));
        session.set_idle_time(limit).await.map_err(|error| self.refused(&error))
    }

    /// The answer to new, load and resume; from here on the client has the session in use. It is told what follows
    /// when it has the answer.
    fn answer(&self, client: AcpSessionId, opened: Opened, gate: Gate, link: &ClientLink) -> SessionSetup {
        let mut setup = SessionSetup::new(client);
        let (raw, commands) = passed::offered(&opened.session, link);
        setup.raw = raw;
        setup.afterwards.extend(commands);
        if let Some(meta) = opened.meta() {
            setup.agent_session = opened.session.identity().and_then(|identity| identity.agent_session);
            setup.meta = acpx_meta(&meta);
        }
        let Opened { session, hold: _hold, seat, unclaimed, given, from, updates, with_seq, .. } = opened;
        let record = session.record_id();
        let mut attachments = self.attachments();
        let attachment = attachments.entry(record.clone()).or_default();
        attachment.hold(&session, given);
        attachment.seat = seat;
        if updates {
            let how = self.updates(record, attachment, link, with_seq);
            attachment.stream_on(self.telling(how, record, from, gate.wait(), link));
        }
        setup.once_told = Some(Box::new(move || {
            if let Some(unclaimed) = unclaimed {
                unclaimed.claim();
            }
            drop(gate);
        }));
        setup
    }

    /// Brings a session back, and tells its conversation first if its client wants that: from where it says, or from
    /// the usual place. The agent is restored meanwhile.
    async fn bring_back(
        &self,
        call: RestoreCall,
        link: &ClientLink,
        usual: Option<Cursor>,
    ) -> Result<SessionSetup, CallError> {
        self.look_for(&call).await?;
        let client = call.session.clone();
        let mut meta: RestoreMeta = read_meta(call.meta.as_deref())?;
        self.defaults.complete(&mut meta.start);
        let cursor = match (&call.replay_from, meta.replay_from.take()) {
            (Some(standard), _) => Cursor::read(standard, STANDARD_FIELD)?,
            (None, Some(wanted)) => Cursor::of_value(wanted, OUR_FIELD)?,
            (None, None) => usual,
        };
        let field = if call.replay_from.is_some() { STANDARD_FIELD } else { OUR_FIELD };
        let opened = self.take_up(call, &mut meta, link).await?;
        let record = opened.session.record_id().clone();
        let Some(cursor) = cursor else {
            let how = self.wake(&opened, &meta).await?;
            self.tell_standing(&opened.session, None, link).await?;
            return Ok(self.answer(client, Opened { how, ..opened }, Gate::default(), link));
        };
        let was_told = self.pause_updates(&record).await;
        let until = opened.session.last_seq();
        let (gate, from) = (Gate::default(), until.map_or(Seq::FIRST, Seq::next));
        if was_told && let Some(attachment) = self.attachments().get_mut(&record) {
            let how = self.updates(&record, attachment, link, meta.start.with_seq);
            attachment.stream(self.telling(how, &record, from, gate.wait(), link));
        }
        let kept = KeptEvents::new(Arc::clone(&self.host.store), record.clone(), until);
        let start = self.place_of(&kept, (&cursor, field), meta.replay).await?;
        let replay = self.replay(kept, start, meta.replay, link);
        let (replayed, how) = tokio::join!(replay, self.wake(&opened, &meta));
        let how = how?;
        replayed?.map_err(|source| CallError::NotTold { session: client.clone(), source })?;
        // Whoever goes on after an event it has seen may have missed an end.
        let missed = Some(start).filter(|_| matches!(cursor, Cursor::Seq(_)));
        self.tell_standing(&opened.session, missed, link).await?;
        Ok(self.answer(client, Opened { how, from, ..opened }, gate, link))
    }

    /// Tells a client of version 2 how the session stands by now, and the last end of work if it missed that.
    async fn tell_standing(
        &self,
        session: &Session,
        missed: Option<Seq>,
        link: &ClientLink,
    ) -> Result<(), CallError> {
        if link.client().protocol == ProtocolVersion::V1 {
            return Ok(());
        }
        let (record, now) = (session.record_id(), session.last_seq().map_or(Seq::FIRST, Seq::next));
        let state = standing(&self.host.store, record, now).await.map_err(fault::not_kept)?;
        let client = client_session(record);
        let told = link.tell(&client, &state.standing(missed)).await;
        told.map_err(|source| CallError::NotTold { session: client, source })
    }

    /// Where a client's replay begins.
    async fn place_of(
        &self,
        kept: &KeptEvents,
        (cursor, field): (&Cursor, &str),
        wanted: ReplayMeta,
    ) -> Result<Seq, CallError> {
        let start = kept.find(cursor).await.map_err(|error| match error {
            CursorError::Store(error) => fault::not_kept(error),
            missing => problem(field, format!("names a place that is not there: {missing}")),
        })?;
        let bound = match wanted.turns {
            None => Seq::FIRST,
            Some(turns) => kept.last_turns(turns).await.map_err(fault::not_kept)?,
        };
        Ok(start.max(bound))
    }

    /// Tells what is kept of a conversation, from an event on.
    async fn replay(
        &self,
        kept: KeptEvents,
        start: Seq,
        wanted: ReplayMeta,
        link: &ClientLink,
    ) -> Result<Result<(), WireError>, CallError> {
        let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let bounds = Bounds { tool_output_bytes: wanted.tool_output_bytes.map(bytes) };
        let begun = Replaying::begin(kept, link.client(), start, bounds).await;
        let mut replaying = begun.map_err(fault::not_kept)?;
        while let Some(lines) = replaying.page().await.map_err(fault::not_kept)? {
            if let Err(error) = attachment::pass_on(lines, link).await {
                return Ok(Err(error));
            }
        }
        Ok(Ok(()))
    }

    /// Stops telling this client updates of a record that it loads again, so that none comes within the replay. They
    /// go on after it.
    async fn pause_updates(&self, record: &RecordId) -> bool {
        let attachment = |attachment: &mut Attachment| attachment.take_stream(Form::Updates);
        let stream = self.attachments().get_mut(record).and_then(attachment);
        let was_told = stream.is_some();
        if let Some(stream) = stream {
            stream.stop().await;
        }
        was_told
    }
}

impl AgentService for Connection {
    async fn offer(&self, client: &ClientFacts, to_everybody: Offer) -> Result<Offer, CallError> {
        let meta = self.defaults.take(client)?;
        self.offer_of_agent(&meta, client.protocol, to_everybody).await
    }

    async fn login(&self, call: LoginCall, _link: ClientLink) -> Result<(), CallError> {
        self.log_in(&call).await
    }

    async fn logout(&self) -> Result<(), CallError> {
        self.log_out().await
    }

    async fn set_mode(&self, call: SetModeCall, link: ClientLink) -> Result<(), CallError> {
        self.pass_mode(call, &link).await
    }

    async fn set_option(&self, call: SetOptionCall, link: ClientLink) -> Result<String, CallError> {
        self.pass_option(call, &link).await
    }

    /// A client of version 2 sees what the session does, whoever asked for it, and what it sees it can stop. One of
    /// version 1 only knows of its own turns.
    async fn cancel_others(&self, session: AcpSessionId, link: ClientLink) {
        if link.client().protocol == ProtocolVersion::V2
            && let Ok(Some(session)) = self.host.engine.running(&record_of(&session)).await
            && session.status().has_work
        {
            // A session that is gone does nothing more.
            drop(session.cancel(None).await);
        }
    }

    async fn new_session(&self, call: NewCall, link: ClientLink) -> Result<SessionSetup, CallError> {
        let opened = self.open(call, &link).await?;
        let client = client_session(opened.session.record_id());
        Ok(self.answer(client, opened, Gate::default(), &link))
    }

    async fn fork_session(&self, call: ForkCall, link: ClientLink) -> Result<SessionSetup, CallError> {
        let opened = self.fork(call, &link).await?;
        let client = client_session(opened.session.record_id());
        Ok(self.answer(client, opened, Gate::default(), &link))
    }

    async fn load_session(&self, call: RestoreCall, link: ClientLink) -> Result<SessionSetup, CallError> {
        self.bring_back(call, &link, Some(Cursor::Start)).await
    }

    async fn resume_session(&self, call: RestoreCall, link: ClientLink) -> Result<SessionSetup, CallError> {
        self.bring_back(call, &link, None).await
    }

    async fn list_sessions(&self, call: ListCall) -> Result<SessionPage, CallError> {
        let agent = self.listing(&call)?;
        list::page(&self.host, call, agent).await
    }

    async fn prompt(
        &self,
        call: PromptCall,
        cancellation: Cancellation,
        link: TurnLink,
    ) -> Result<PromptAnswer, CallError> {
        self.run_turn(call, cancellation, &link).await
    }

    /// The client has its turns cancelled and lets go. The last one to do so frees the agent.
    async fn close_session(&self, session: AcpSessionId) -> Result<(), CallError> {
        let record = record_of(&session);
        let attachment = self.attachments().remove(&record);
        if let Some(attachment) = attachment {
            attachment.end().await;
            let session = self.host.engine.running(&record).await;
            if let Some(session) = session.map_err(|error| self.refused(&error))?
                && !session.is_held()
            {
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
        let attachment = self.attachments().remove(&record);
        if let Some(attachment) = attachment {
            attachment.end().await;
        }
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

/// What a client says under `_meta` for its agent: everything but what is ours.
pub(super) fn for_agent(meta: Option<&str>) -> Option<Arc<str>> {
    let meta = meta?;
    let rest = splice::without(meta, &["acpx"]);
    let rest = rest.as_deref().unwrap_or(meta);
    let is_empty = rest.trim_start_matches('{').trim_start().starts_with('}');
    (!is_empty).then(|| rest.into())
}

/// The members of `_meta` with ours among them.
pub(super) fn acpx_meta(ours: &impl serde::Serialize) -> Meta {
    let ours = serde_json::to_value(ours).expect("what we say has only text, numbers and lists");
    Meta::from_iter([("acpx".to_owned(), ours)])
}

pub(super) fn problem(field: &str, problem: impl Into<String>) -> CallError {
    ParamProblem::new(field, problem).into()
}

pub(super) fn source(start: &StartMeta) -> Result<Option<AbsolutePath>, CallError> {
    let path = start.mcp_source.as_deref().map(AbsolutePath::new).transpose();
    path.map_err(|error| problem("_meta.acpx.mcpSource", error.to_string()))
}
