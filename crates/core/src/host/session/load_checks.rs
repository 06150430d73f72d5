//! Checks before a session is restored: it must be a record or adoptable from the agent, and must work in the client's
//! directory. Also forks sessions, and parks an idle agent whose MCP servers or directories differ from the client's.

use crate::acp::Cursor;
use crate::acp::agent::{CallError, ClientLink, ForkCall, RestoreCall};
use crate::engine::{NewSession, SessionError};
use crate::machine::WakeOutcome;
use crate::model::{AgentError, LineageReason, ProtocolVersion, RecordId};

use super::create::{OpenedSession, SetupMismatch};
use crate::host::connection::Connection;
use crate::protocol::acpx_meta::{problem, record_of};
use crate::protocol::meta::{KeptMeta, NewMeta, RestoreMeta};
use crate::protocol::rpc_error;

impl Connection {
    /// Returns an error unless the session is a record in the client's directory. An unknown session is adopted if the
    /// connection's agent has it; the outcome is then returned. `place` is the client's replay cursor and its field.
    pub(crate) async fn look_for(
        &self,
        call: &RestoreCall,
        place: Option<(&Cursor, &str)>,
        spoken: ProtocolVersion,
    ) -> Result<Option<WakeOutcome>, CallError> {
        let record = record_of(&call.session);
        self.may_have(call.mcp_servers.as_deref().unwrap_or_default())?;
        // A deleted id stays reserved.
        let kept = self.host.store.record(record.clone()).await.map_err(rpc_error::not_kept)?;
        let Some(kept) = kept else { return self.adopt(&record, call, place, spoken).await };
        if kept.lifecycle.is_deleted() || !self.knows(&kept) {
            return Err(rpc_error::unknown(&record));
        }
        let checked = Box::pin(self.host.engine.check_directory(&kept, &call.cwd)).await;
        checked.map(|()| None).map_err(|error| self.refused(&error))
    }

    async fn adopt(
        &self,
        record: &RecordId,
        call: &RestoreCall,
        place: Option<(&Cursor, &str)>,
        spoken: ProtocolVersion,
    ) -> Result<Option<WakeOutcome>, CallError> {
        let Some(agent) = self.defaults.agent(None) else { return Err(rpc_error::unknown(record)) };
        let owners = self.host.store.owners(agent.clone(), vec![call.session.clone()]).await;
        if !owners.map_err(rpc_error::not_kept)?.is_empty() {
            // A record already has this session, and a second record would write to it at the same time.
            return Err(rpc_error::unknown(record));
        }
        // Nothing is stored yet, so no other cursor can be valid.
        if let Some((_, field)) = place.filter(|(cursor, _)| **cursor != Cursor::Start) {
            return Err(problem(
                field,
                "names a place that is not there: nothing is kept of this session yet",
            ));
        }
        let mut meta: RestoreMeta = self.said(call.meta.as_deref())?;
        self.defaults.complete(&mut meta.start);
        let mcp_servers = self.servers(call.mcp_servers.clone().unwrap_or_default(), &meta.start)?;
        let environment = meta.start.take_environment(&agent);
        let new = NewSession {
            additional_directories: call.additional_directories.clone(),
            mcp_servers,
            login: meta.start.login.unwrap_or_default().into(),
            logged_in: self.logged_in.clone(),
            capabilities: self.capabilities(),
            start_wait: self.start_wait(&meta.start, &agent),
            besides: self.besides(spoken, call.meta.as_deref(), call.unknown.as_deref()),
            ..NewSession::new(agent, call.cwd.clone(), environment)
        };
        let room = self.room(None).await?;
        match self.host.engine.adopt(new, call.session.clone()).await {
            Ok((_, how)) => {
                room.filled_by(record);
                Ok(Some(how))
            }
            // The agent does not have the session, or restores none.
            Err(SessionError::Agent(AgentError::NotRestored { reason, cause, .. }))
                if cause.is_none() || reason == LineageReason::AgentLost.as_str() =>
            {
                Err(rpc_error::unknown(record))
            }
            Err(error) => Err(rpc_error::without_session(self.refused(&error))),
        }
    }

    /// Forks a session in an agent process that is started as this client would start it.
    pub(crate) async fn fork(&self, call: ForkCall, link: &ClientLink) -> Result<OpenedSession, CallError> {
        let record = record_of(&call.session);
        let kept = self.host.engine.record(&record).await.map_err(|error| self.refused(&error))?;
        let kept = kept.filter(|kept| self.knows(kept)).ok_or_else(|| rpc_error::unknown(&record))?;
        self.may_have(&call.mcp_servers)?;
        let room = self.room(None).await?;
        let mut meta: NewMeta = self.said(call.meta.as_deref())?;
        self.defaults.complete(&mut meta.start);
        let moved = self.agent_for(&kept, meta.agent.take()).filter(|agent| agent.key() == kept.agent.key());
        let mcp_servers = self.servers(call.mcp_servers, &meta.start)?;
        let agent = moved.unwrap_or(kept.agent);
        let environment = meta.start.take_environment(&agent);
        let besides = self.besides(link.client().protocol, call.meta.as_deref(), call.unknown.as_deref());
        self.are_directories(&call.additional_directories).await?;
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
        let opened = self.host.fork(&record, new).await.map_err(|error| self.with_logins(error))?;
        room.filled_by(opened.session.record_id());
        if self.is_confined() {
            self.host.confined_records.insert(opened.session.record_id());
        }
        self.set_idle_time(&opened.session, &meta.start).await?;
        let seat = self.seat(opened.session.record_id(), &meta.start, link);
        let (updates, with_seq) = (!meta.start.without_updates, meta.start.with_seq);
        Ok(OpenedSession { seat, updates, with_seq, ..opened })
    }

    /// Parks the agent if its MCP servers or directories differ from the client's, it is idle, it can be restored, and
    /// no other client could answer its requests. Returns what still differs.
    pub(crate) async fn renew(
        &self,
        opened: &OpenedSession,
        names_servers: bool,
    ) -> Result<SetupMismatch, CallError> {
        let session = &opened.session;
        let kept = self.has_others(opened, names_servers).await?;
        if kept != SetupMismatch::default() && !self.host.askable.has_others(session.record_id(), self.number)
        {
            // A busy session keeps its agent and setup.
            drop(session.park_if_restorable().await);
            return self.has_others(opened, names_servers).await;
        }
        Ok(kept)
    }

    /// Where the agent's setup differs from what the client named.
    async fn has_others(
        &self,
        opened: &OpenedSession,
        names_servers: bool,
    ) -> Result<SetupMismatch, CallError> {
        let (session, mut kept) = (&opened.session, SetupMismatch::default());
        if let Some(servers) = opened.given.mcp_servers.as_ref().filter(|_| names_servers) {
            let has = session.has_servers(&servers.list).await.map_err(|error| self.refused(&error))?;
            kept.servers = (!has).then_some(KeptMeta::Kept);
        }
        if let Some(directories) = &opened.given.additional_directories {
            let has = session.has_directories(directories).await.map_err(|error| self.refused(&error))?;
            kept.directories = (!has).then_some(KeptMeta::Kept);
        }
        Ok(kept)
    }
}
