//! Restores a stored session for a client (`session/load`, `session/resume`): resolves the replay cursor, attaches with
//! the client's start parameters, and replays the conversation while the agent is restored.

use std::sync::Arc;

use tokio::time::Instant;

use crate::acp::Cursor;
use crate::acp::agent::{CallError, ClientLink, RestoreCall, SessionSetup};
use crate::acp::render::Bounds;
use crate::engine::{RestoreSession, Session};
use crate::machine::WakeOutcome;
use crate::model::{AcpSessionId, AgentSpec, McpServer, ProtocolVersion, Record, RecordId, Seq};
use crate::wire::WireError;

use super::create::OpenedSession;
use crate::host::attach::attachment;
use crate::host::attach::attachment::{AnswerGate, Attachment, PausedStream};
use crate::host::attach::foreign_turns::{OthersTurns, wants_states};
use crate::host::attach::replay::{CursorError, RecordEvents, Replaying, standing};
use crate::host::connection::Connection;
use crate::protocol::acpx_meta::{client_session, problem, record_of};
use crate::protocol::meta::{AgentMeta, FallbackMeta, ReplayMeta, RestoreMeta};
use crate::protocol::rpc_error;

/// The field of a version 2 client's replay cursor.
const STANDARD_FIELD: &str = "replayFrom";
/// The field of a version 1 client's replay cursor.
const OUR_FIELD: &str = "_meta.acpx.replayFrom";

impl Connection {
    /// Restores a session. If the client wants a replay, it starts at the client's cursor or at `usual`, and runs while
    /// the agent is restored.
    pub(crate) async fn bring_back(
        &self,
        call: RestoreCall,
        link: &ClientLink,
        usual: Option<Cursor>,
    ) -> Result<SessionSetup, CallError> {
        // Check everything that can be refused before anything changes.
        let mut meta: RestoreMeta = self.said(call.meta.as_deref())?;
        if !meta.start.settings.is_empty() {
            self.may_choose()?;
        }
        if meta.wishes.fallback == Some(FallbackMeta::Reset) || meta.return_to.is_some() {
            self.may_end(&record_of(&call.session), "reset other sessions")?;
        }
        self.defaults.complete(&mut meta.start);
        let cursor = match (&call.replay_from, meta.replay_from.take()) {
            (Some(standard), _) => Cursor::read(standard, STANDARD_FIELD)?,
            (None, Some(wanted)) => Cursor::of_value(&wanted, OUR_FIELD)?,
            (None, None) => usual,
        };
        let field = if call.replay_from.is_some() { STANDARD_FIELD } else { OUR_FIELD };
        self.are_directories(&call.additional_directories).await?;
        let place = cursor.as_ref().zip(Some(field));
        let adopted = self.look_for(&call, place, link.client().protocol).await?;
        let (client, created) = (call.session.clone(), adopted.is_some());
        let (opened, start) = self.take_up(call, &mut meta, place, link).await?;
        let record = opened.session.record_id().clone();
        let (Some(cursor), Some(start)) = (cursor, start) else {
            let how = adopted.or(self.wake(&opened, &meta).await?);
            // A running update stream continues after the reply, at its current position.
            let paused = self.pause_updates(&record).await;
            let from = paused.as_ref().map_or(opened.from, PausedStream::next);
            self.tell_standing(&record, from, None, link).await?;
            let answer = self.answer(
                client,
                OpenedSession { created, how, from, ..opened },
                AnswerGate::default(),
                link,
            );
            drop(paused);
            return Ok(answer);
        };
        // Pause until the reply is decided. If a step fails, the stream continues.
        let paused = self.pause_updates(&record).await;
        let kept = self.kept(&opened.session);
        let from = kept.end();
        let replay = self.replay(kept, start, meta.replay, link);
        let (replayed, how) = tokio::join!(replay, self.wake(&opened, &meta));
        let how = adopted.or(how?);
        replayed?.map_err(|source| CallError::NotTold { session: client.clone(), source })?;
        // A client that continues after a known event may have missed the end of a turn.
        let missed = Some(start).filter(|_| matches!(cursor, Cursor::Seq(_)));
        self.tell_standing(&record, from, missed, link).await?;
        let opened = OpenedSession { created, how, from, paused, ..opened };
        Ok(self.answer(client, opened, AnswerGate::default(), link))
    }

    /// The session's events stored so far.
    fn kept(&self, session: &Session) -> RecordEvents {
        RecordEvents::new(Arc::clone(&self.host.store), session.record_id().clone(), session.last_seq())
    }

    /// Sends the session's state before its next event to a version 2 client, with the last end of work if the client
    /// missed it. A version 1 client that asks for other turns gets the running turn.
    async fn tell_standing(
        &self,
        record: &RecordId,
        from: Seq,
        missed: Option<Seq>,
        link: &ClientLink,
    ) -> Result<(), CallError> {
        let client = link.client();
        if client.protocol == ProtocolVersion::V1 && !wants_states(&client) {
            return Ok(());
        }
        let state = standing(&self.host.store, record, &client, from, missed).await;
        let state = state.map_err(rpc_error::not_kept)?;
        let news = match client.protocol {
            ProtocolVersion::V1 => OthersTurns::standing(record, &state),
            ProtocolVersion::V2 => Some(state.standing_line(record, missed)),
        };
        let Some(news) = news else { return Ok(()) };
        let told = link.pass_on(news).await;
        told.map_err(|source| CallError::NotTold { session: client_session(record), source })
    }

    /// The event at which a client's replay begins.
    async fn place_of(
        &self,
        kept: &RecordEvents,
        (cursor, field): (&Cursor, &str),
        wanted: ReplayMeta,
    ) -> Result<Seq, CallError> {
        let start = kept.find(cursor).await.map_err(|error| match error {
            CursorError::Store(error) => rpc_error::not_kept(error),
            missing => problem(field, format!("names a place that is not there: {missing}")),
        })?;
        let bound = match wanted.turns {
            None => Seq::FIRST,
            Some(turns) => kept.last_turns(turns).await.map_err(rpc_error::not_kept)?,
        };
        Ok(start.max(bound))
    }

    /// Sends the stored conversation from an event on.
    async fn replay(
        &self,
        kept: RecordEvents,
        start: Seq,
        wanted: ReplayMeta,
        link: &ClientLink,
    ) -> Result<Result<(), WireError>, CallError> {
        let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let bounds = Bounds { tool_output_bytes: wanted.tool_output_bytes.map(bytes) };
        let begun = Replaying::begin(kept, link.client(), self.session_ids(), start, bounds).await;
        let mut replaying = begun.map_err(rpc_error::not_kept)?;
        while let Some(lines) = replaying.page().await.map_err(rpc_error::not_kept)? {
            if let Err(error) = attachment::pass_on(lines, link).await {
                return Ok(Err(error));
            }
        }
        Ok(Ok(()))
    }

    /// Pauses the client's update stream, so that no update comes within the replay; `None` if there is no stream.
    async fn pause_updates(&self, record: &RecordId) -> Option<PausedStream> {
        let pausing = self.attachments().get(record).and_then(Attachment::pause);
        match pausing {
            Some(pausing) => Some(pausing.await),
            None => None,
        }
    }

    /// Attaches to a stored session with this client's start parameters, and resolves the replay cursor. It starts no
    /// agent, and fails on an invalid cursor before it parks one.
    async fn take_up(
        &self,
        call: RestoreCall,
        meta: &mut RestoreMeta,
        cursor: Option<(&Cursor, &str)>,
        link: &ClientLink,
    ) -> Result<(OpenedSession, Option<Seq>), CallError> {
        let record = record_of(&call.session);
        let names_servers = call.mcp_servers.is_some();
        let restore = self.restoring(&record, call.mcp_servers, meta).await?;
        let cwd = Some(call.cwd);
        let besides = self.besides(link.client().protocol, call.meta.as_deref(), call.unknown.as_deref());
        let directories = Some(call.additional_directories)
            .filter(|directories| !(meta.same_directories && directories.is_empty()));
        let additional_directories = self.allowed_directories(&record, directories).await?;
        let restore = RestoreSession { cwd, besides, additional_directories, ..restore };
        let session = self.host.engine.attach(&record, &restore).await;
        let opened = OpenedSession::known(session.map_err(|error| self.refused(&error))?, restore);
        let start = match cursor {
            Some(cursor) => Some(self.place_of(&self.kept(&opened.session), cursor, meta.replay).await?),
            None => None,
        };
        let opened = OpenedSession { seat: self.seat(&record, &meta.start, link), ..opened };
        self.stand_in(&opened).await?;
        self.set_idle_time(&opened.session, &meta.start).await?;
        let kept = self.renew(&opened, names_servers).await?;
        let (updates, with_seq) = (!meta.start.without_updates, meta.start.with_seq);
        Ok((OpenedSession { kept, updates, with_seq, ..opened }, start))
    }

    /// Restores the session in the agent and applies the client's settings, unless that can wait for the next prompt.
    async fn wake(
        &self,
        opened: &OpenedSession,
        meta: &RestoreMeta,
    ) -> Result<Option<WakeOutcome>, CallError> {
        let settings = &meta.start.settings;
        if meta.later && settings.is_empty() {
            return Ok(None);
        }
        let begun = Instant::now();
        let room = self.room(Some(opened.session.record_id())).await?;
        let how = match &meta.return_to {
            None => opened.session.wake(opened.given.clone()).await,
            Some(id) => {
                let session = AcpSessionId::new(id.as_str());
                let session = session.map_err(|error| problem("_meta.acpx.returnTo", error.to_string()))?;
                opened.session.return_to(session, opened.given.clone()).await
            }
        };
        let how = how.map_err(|error| self.refused(&error))?;
        room.filled_by(opened.session.record_id());
        let given = opened.given.clone().without_reset();
        self.host.choose(&opened.session, &given, settings, begun).await?;
        Ok(Some(how))
    }

    /// The parameters to restore a session with. If the client names no MCP servers, they are read from their source
    /// file.
    async fn restoring(
        &self,
        record: &RecordId,
        servers: Option<Vec<McpServer>>,
        meta: &mut RestoreMeta,
    ) -> Result<RestoreSession, CallError> {
        let kept = self.host.engine.record(record).await.map_err(|error| self.refused(&error))?;
        let kept = kept.ok_or_else(|| rpc_error::unknown(record))?;
        let environment = meta.start.take_environment(&kept.agent);
        let agent = self.agent_for(&kept, meta.agent.take());
        let known = agent.as_ref().filter(|agent| agent.key() == kept.agent.key()).unwrap_or(&kept.agent);
        let start_wait = self.start_wait(&meta.start, known);
        let mcp_servers = match servers {
            Some(list) => Some(self.servers(list, &meta.start)?),
            None => self.host.recovered(kept.mcp_servers, &kept.cwd, environment.get("PATH")).await,
        };
        let (options, login) = (meta.wishes.into(), meta.start.login.unwrap_or_default().into());
        let (cwd, besides, additional_directories) = (None, None, None);
        Ok(RestoreSession {
            options,
            agent,
            cwd,
            environment,
            besides,
            login,
            logged_in: self.logged_in.clone(),
            capabilities: self.capabilities(),
            mcp_servers,
            additional_directories,
            start_wait,
        })
    }

    /// The agent as this client would start it, if it names one and may. The session keeps its protocol version, unless
    /// the client requests another.
    pub(crate) fn agent_for(&self, kept: &Record, named: Option<AgentMeta>) -> Option<AgentSpec> {
        // A flag can let an agent do everything unasked.
        if self.is_confined() {
            return None;
        }
        let says_protocol = self.defaults.says_protocol(named.as_ref());
        let agent = self.defaults.agent(named)?;
        Some(if says_protocol { agent } else { agent.with_protocol(kept.agent.protocol) })
    }
}
