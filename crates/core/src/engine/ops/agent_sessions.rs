//! Queries about an agent's own sessions: lists them, looks one up, deletes one. A running process of the agent is
//! asked first, for a bounded time. If none replies, one process is started for all requests of the query. A session
//! counts as not listed only if the list was read to its last page.
//!
//! A record is deleted here first, and always. If the agent cannot delete its session, the result says why.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::acp::ExtraParams;
use crate::acp::client::{
    AgentResponse, ListPage, ListedSession, MessageContext, OutgoingLine, ParsedMessage,
};
use crate::model::{AbsolutePath, AcpSessionId, AgentError, AgentSpec, ErrorCode, Record, RecordId};

use super::standalone::StandaloneAgent;
use crate::engine::agent::launch_spec::LaunchSpec;
use crate::engine::agent::live_agent::LiveAgent;
use crate::engine::session::agent_query::{AgentQuery, AgentQueryError};
use crate::engine::session::commands::PruneConditions;
use crate::engine::session::replies::Deletion;
use crate::engine::{Engine, NewSession, RestoreSession, Session, SessionError};

/// How long a running agent may take to reply. It may handle requests one at a time, and be busy.
const LIVE_AGENT_TIMEOUT: Duration = Duration::from_secs(3);
/// How long an agent's list is searched for one session. A page that is already requested is still awaited.
const SEARCH: Duration = Duration::from_secs(10);

/// The result of looking up a session in its agent's list.
#[derive(Debug)]
pub enum ListLookup {
    /// The session's row.
    Listed(Box<ListedSession>),
    /// The list was read to its last page and does not contain it.
    NotListed,
    /// The list has more pages than could be read.
    Unread,
    /// The agent does not support `session/list`.
    NoList,
}

/// What happened to a deleted record's session on its agent.
#[derive(Debug)]
pub enum AtAgent {
    /// The agent does not have it any more.
    Deleted,
    /// The agent may still have it, for this reason.
    Kept(SessionError),
}

impl Engine {
    /// A page of the agent's own sessions; `None` if it does not support listing. An agent that is started for this is
    /// ended before this returns.
    pub async fn list_agent_sessions(
        &self,
        with: NewSession,
        cwd: Option<&AbsolutePath>,
        cursor: Option<&str>,
    ) -> Result<Option<ListPage>, SessionError> {
        let query = AgentQuery::List { cwd: cwd.cloned(), cursor: cursor.map(str::to_owned) };
        match self.query(with, query).await? {
            Some(AgentResponse::Listed(page)) => Ok(Some(page?)),
            _ => Ok(None),
        }
    }

    /// Looks a session up in the agent's own list.
    pub async fn find_agent_session(
        &self,
        with: &NewSession,
        session: &AcpSessionId,
    ) -> Result<ListLookup, SessionError> {
        let mut alone = None;
        let found = Box::pin(self.search(with, session, &mut alone)).await;
        if let Some(alone) = alone {
            Box::pin(alone.end()).await;
        }
        found
    }

    /// Reads the list page by page. A process that is started for it is left in `alone`.
    async fn search(
        &self,
        with: &NewSession,
        session: &AcpSessionId,
        alone: &mut Option<StandaloneAgent>,
    ) -> Result<ListLookup, SessionError> {
        let until = Instant::now() + SEARCH;
        let mut cursor = None;
        loop {
            let query = AgentQuery::List { cwd: None, cursor: cursor.clone() };
            let Some(AgentResponse::Listed(page)) = self.ask_one(with, &query, alone).await? else {
                return Ok(ListLookup::NoList);
            };
            let ListPage { sessions, next } = page?;
            if let Some(row) = sessions.into_iter().find(|row| row.session == *session) {
                return Ok(ListLookup::Listed(Box::new(row)));
            }
            if next.is_none() {
                return Ok(ListLookup::NotListed);
            }
            // An agent that repeats its cursor would be asked for ever.
            if next == cursor || Instant::now() >= until {
                return Ok(ListLookup::Unread);
            }
            cursor = next;
        }
    }

    /// Lets the agent delete a session that has no record here. Returns whether the agent supports it.
    pub(crate) async fn delete_remote(
        &self,
        with: NewSession,
        session: &AcpSessionId,
    ) -> Result<bool, SessionError> {
        let query = AgentQuery::Delete(session.clone(), with.extra_params.clone());
        match self.query(with, query).await? {
            Some(AgentResponse::Deleted(deleted)) => Ok(deleted.map(|()| true)?),
            _ => Ok(false),
        }
    }

    /// Deletes a record: closes its session as [`Session::close`](crate::engine::Session::close) does, sends a running
    /// agent `session/delete`, and erases the conversation from the store. The record is then in no list and cannot be
    /// restored. An unknown or already deleted record counts as deleted.
    pub async fn delete(&self, record: &RecordId) -> Result<(), SessionError> {
        self.delete_here(record, None).await.map(drop)
    }

    /// Deletes a record without prompts and holds. Returns whether it did.
    pub(crate) async fn delete_unprompted(&self, record: &RecordId) -> Result<bool, SessionError> {
        let session = match self.attach(record, &RestoreSession::unchanged()).await {
            Err(SessionError::NoRecord(_)) => return Ok(false),
            attached => attached?,
        };
        // From here on only this session writes to the record; a prompt before the deletion keeps the record.
        let is_unprompted = self.record(record).await?.is_some_and(|kept| kept.is_unprompted());
        if !is_unprompted || session.is_held() {
            return Ok(false);
        }
        session.delete_unless_prompted().await?;
        Ok(self.record(record).await?.is_none())
    }

    /// Deletes a record without open turns that meets the conditions, as [`Engine::delete`] does. Returns whether it
    /// did; a missing record counts as deleted.
    pub(crate) async fn prune(
        &self,
        record: &RecordId,
        conditions: PruneConditions,
    ) -> Result<bool, SessionError> {
        loop {
            let session = match self.attach(record, &RestoreSession::unchanged()).await {
                Err(SessionError::NoRecord(_)) => return Ok(true),
                attached => attached?,
            };
            match session.prune(conditions).await {
                // The session ended before it received this; the next attempt starts it again.
                Err(SessionError::ShutDown(_)) => {}
                deleted => {
                    deleted?;
                    return Ok(self.record(record).await?.is_none());
                }
            }
        }
    }

    /// Deletes a record here and on its agent. If its agent does not run, one is started as `launch_values` describes, for at
    /// most `limit`, to delete its session. The extra params of `launch_values` are forwarded. A record that is damaged is
    /// removed from the store without its agent, which cannot be read.
    pub async fn delete_everywhere(
        &self,
        record: &RecordId,
        launch_values: RestoreSession,
        limit: Duration,
    ) -> Result<AtAgent, SessionError> {
        match self.delete_readable(record, launch_values, limit).await {
            Err(error) if error.code() == ErrorCode::StoreCorrupt => {
                self.0.shared.store.remove_damaged(record.clone()).await?;
                Ok(AtAgent::Kept(error))
            }
            deleted => deleted,
        }
    }

    async fn delete_readable(
        &self,
        record: &RecordId,
        launch_values: RestoreSession,
        limit: Duration,
    ) -> Result<AtAgent, SessionError> {
        let Some(kept) = self.record(record).await? else { return Ok(AtAgent::Deleted) };
        let agent = kept.agent.label().into_owned();
        let method = "session/delete".to_owned();
        match self.delete_here(record, launch_values.extra_params.clone()).await? {
            Deletion::NotRunning => {
                let deleted = timeout(limit, self.delete_at_agent(kept, launch_values)).await;
                let unanswered = || Err(AgentError::Unresponsive { agent, method }.into());
                Ok(deleted.unwrap_or_else(|_| unanswered()).map_or_else(AtAgent::Kept, |()| AtAgent::Deleted))
            }
            Deletion::NotOffered => Ok(AtAgent::Kept(AgentError::NotOffered { agent, method }.into())),
            Deletion::Unanswered => Ok(AtAgent::Kept(AgentError::Unresponsive { agent, method }.into())),
            Deletion::Answered(answer) => {
                Ok(answer.map_or_else(|error| AtAgent::Kept(error.into()), |()| AtAgent::Deleted))
            }
        }
    }

    async fn delete_here(
        &self,
        record: &RecordId,
        extra_params: Option<ExtraParams>,
    ) -> Result<Deletion, SessionError> {
        loop {
            let deleted = match self.attach(record, &RestoreSession::unchanged()).await {
                Ok(session) => match session.delete(extra_params.clone()).await {
                    // The session ended before it received this; the next attempt starts it again.
                    Err(SessionError::ShutDown(_)) => continue,
                    deleted => deleted,
                },
                Err(error) => Err(error),
            };
            return match deleted {
                Err(SessionError::NoRecord(_)) => Ok(Deletion::Answered(Ok(()))),
                deleted => deleted,
            };
        }
    }

    /// Lets the agent delete the record's last session, in any process of that agent.
    async fn delete_at_agent(&self, kept: Record, launch_values: RestoreSession) -> Result<(), SessionError> {
        self.check_directory(&kept, &kept.cwd).await?;
        let Record { agent, cwd, lineage, .. } = kept;
        let moved = launch_values.agent.filter(|launch_values| launch_values.key() == agent.key());
        let agent: AgentSpec = moved.unwrap_or(agent);
        let not_offered = || {
            let (agent, method) = (agent.label().into_owned(), "session/delete".to_owned());
            SessionError::from(AgentError::NotOffered { agent, method })
        };
        let new = NewSession::new(agent.clone(), cwd, launch_values.environment);
        let RestoreSession { extra_params, capabilities, logged_in, .. } = launch_values;
        let with = NewSession { extra_params, capabilities, logged_in, ..new };
        let known = self.known_capabilities(with.clone()).await?;
        if known.is_some_and(|known| !known.sessions.delete) {
            return Err(not_offered());
        }
        let deleted = self.delete_remote(with, &lineage.current().session).await?;
        if deleted { Ok(()) } else { Err(not_offered()) }
    }

    /// The reply of a running agent, or of a new process if none runs or the running one is busy. `None` if the agent
    /// does not support the method.
    async fn query(
        &self,
        with: NewSession,
        query: AgentQuery,
    ) -> Result<Option<AgentResponse>, SessionError> {
        let mut alone = None;
        let answer = Box::pin(self.ask_one(&with, &query, &mut alone)).await;
        if let Some(alone) = alone {
            Box::pin(alone.end()).await;
        }
        answer
    }

    /// The same with the process in `alone`, if there is one. A newly started process is left there.
    async fn ask_one(
        &self,
        with: &NewSession,
        query: &AgentQuery,
        alone: &mut Option<StandaloneAgent>,
    ) -> Result<Option<AgentResponse>, SessionError> {
        if alone.is_none()
            && let Some(live) = self.live_with(&with.agent).await
        {
            match timeout(LIVE_AGENT_TIMEOUT, live.query(query.clone())).await {
                Ok(Ok(answer)) => return Ok(Some(answer)),
                Ok(Err(AgentQueryError::NotOffered)) => return Ok(None),
                Ok(Err(AgentQueryError::NotRunning)) | Err(_) => {}
            }
        }
        let agent = match alone.take() {
            Some(alone) => alone,
            None => StandaloneAgent::start(self, LaunchSpec::alone(with.clone())).await?,
        };
        let (agent, answer) = agent.query(query).await?;
        *alone = Some(agent);
        Ok(answer)
    }

    /// A session whose agent runs and has the same command line.
    async fn live_with(&self, agent: &AgentSpec) -> Option<Session> {
        let command =
            |agent: &AgentSpec| (agent.key(), agent.program.clone(), agent.args.clone(), agent.protocol);
        let running = self.0.running.lock().await;
        let same = running.as_ref()?.values().filter(|known| command(&known.agent) == command(agent));
        let mut live = same.map(|known| &known.session).filter(|session| {
            !session.is_over() && session.status().agent_pid.is_some() && session.agent_version().is_some()
        });
        live.next().cloned()
    }
}

impl StandaloneAgent {
    /// The reply; `None` if the agent does not support the method. On an error the agent is ended.
    async fn query(mut self, query: &AgentQuery) -> Result<(Self, Option<AgentResponse>), SessionError> {
        let Some(request) = query.request(&self.agent.connection) else { return Ok((self, None)) };
        let limit = self.launch.agent.effective_start_timeout(self.agent.connection.profile());
        match timeout(limit, ask(&mut self.agent, request)).await {
            Ok(Some(answer)) => Ok((self, Some(answer))),
            Ok(None) => Err(self.exited().await.0.into()),
            Err(_) => {
                let error = self.unresponsive(query.method());
                self.end().await;
                Err(error.into())
            }
        }
    }
}

/// The reply; `None` if the agent exited first.
async fn ask(agent: &mut LiveAgent, request: OutgoingLine) -> Option<AgentResponse> {
    request.send().await.ok()?;
    loop {
        if let ParsedMessage::Answer(answer @ (AgentResponse::Listed(_) | AgentResponse::Deleted(_))) =
            agent.connection.recv(MessageContext::default()).await?.meaning
        {
            return Some(answer);
        }
    }
}
