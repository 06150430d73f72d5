//! Queries about an agent's own sessions: lists them, looks one up, deletes one. A running process of the agent is
//! asked first, for a bounded time. If none replies, one process is started for all requests of the query. A session
//! counts as not listed only if the list was read to its last page.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::acp::client::{
    AgentResponse, ListPage, ListedSession, MessageContext, OutgoingLine, ParsedMessage,
};
use crate::model::{AbsolutePath, AcpSessionId, AgentError, AgentSpec};

use crate::engine::agent::launch_spec::LaunchSpec;
use crate::engine::agent::live_agent;
use crate::engine::agent::live_agent::{FailedStart, LiveAgent};
use crate::engine::session::agent_query::{AgentQuery, AgentQueryError};
use crate::engine::{Engine, EngineContext, NewSession, Session, SessionError};

/// How long a running agent may take to reply. It may handle requests one at a time, and be busy.
const PATIENCE: Duration = Duration::from_secs(3);
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

impl Engine {
    /// A page of the agent's own sessions; `None` if it does not support listing. An agent that is started for this is
    /// ended before this returns.
    pub async fn remote_sessions(
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
    pub async fn remote_session(
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
    pub async fn delete_remote(
        &self,
        with: NewSession,
        session: &AcpSessionId,
    ) -> Result<bool, SessionError> {
        let query = AgentQuery::Delete(session.clone(), with.besides.clone());
        match self.query(with, query).await? {
            Some(AgentResponse::Deleted(deleted)) => Ok(deleted.map(|()| true)?),
            _ => Ok(false),
        }
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
            match timeout(PATIENCE, live.query(query.clone())).await {
                Ok(Ok(answer)) => return Ok(Some(answer)),
                Ok(Err(AgentQueryError::NotOffered)) => return Ok(None),
                Ok(Err(AgentQueryError::NotRunning)) | Err(_) => {}
            }
        }
        let asked = match alone.take() {
            Some(alone) => alone,
            None => self.start_alone(with.clone()).await?,
        };
        let (asked, answer) = asked.ask(query).await?;
        *alone = Some(asked);
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

    /// Starts an agent for queries only.
    async fn start_alone(&self, with: NewSession) -> Result<StandaloneAgent, SessionError> {
        self.real_directory(&with.cwd).await?;
        let (launch, shared) = (LaunchSpec::alone(with), self.0.shared.clone());
        let started =
            live_agent::start(launch.clone(), shared.clone(), &live_agent::unused_mark(), None).await;
        let (agent, _) = started.map_err(|FailedStart { error, .. }| error)?;
        Ok(StandaloneAgent { agent, launch, shared })
    }
}

/// An agent that was started for queries only. The caller must end it.
struct StandaloneAgent {
    agent: LiveAgent,
    launch: LaunchSpec,
    shared: EngineContext,
}

impl StandaloneAgent {
    /// The reply; `None` if the agent does not support the method. On an error the agent is ended.
    async fn ask(mut self, query: &AgentQuery) -> Result<(Self, Option<AgentResponse>), SessionError> {
        let Some(request) = query.request(&self.agent.connection) else { return Ok((self, None)) };
        let limit = self.launch.agent.patience(self.agent.connection.profile());
        match timeout(limit, ask(&mut self.agent, request)).await {
            Ok(Some(answer)) => Ok((self, Some(answer))),
            Ok(None) => {
                let (error, leftover) = self.agent.into_leftover(&self.launch, &self.shared.settings).await;
                drop(leftover.task.await);
                Err(error.into())
            }
            Err(_) => {
                let (agent, method) = (self.launch.agent.label().into_owned(), query.method().to_owned());
                self.end().await;
                Err(AgentError::Unresponsive { agent, method }.into())
            }
        }
    }

    async fn end(self) {
        self.agent.end(self.shared.settings.process).await;
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
