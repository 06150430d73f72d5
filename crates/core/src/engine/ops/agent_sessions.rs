//! What an agent itself has: its own list of sessions, and one of them deleted. A process of the agent that runs is
//! asked, for a bounded time. If no running process answers, one process is started for all requests of the inquiry.
//! That a session is not in a list is known only if the list was read to its last page.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::acp::client::{
    AgentResponse, ListPage, ListedSession, MessageContext, OutgoingLine, ParsedMessage,
};
use crate::model::{AbsolutePath, AcpSessionId, AgentError, AgentSpec};

use super::session_query::{Inquiry, SessionQueryError};
use crate::engine::agent::launch_spec::LaunchSpec;
use crate::engine::agent::live_agent;
use crate::engine::agent::live_agent::{FailedStart, LiveAgent};
use crate::engine::{Engine, EngineContext, NewSession, Session, SessionError};

/// How long an agent that runs may take: it may do one thing after the other, and be at work.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long an agent's list is looked through for one session. A page that was asked for by then is still waited for.
const SEARCH: Duration = Duration::from_secs(10);

/// What is known of a session from its agent's own list.
#[derive(Debug)]
pub enum ListLookup {
    /// It is there, with this row.
    Listed(Box<ListedSession>),
    /// The list was read to its last page, and does not have it.
    NotListed,
    /// The list has more pages than could be read.
    Unread,
    /// The agent has no list.
    NoList,
}

impl Engine {
    /// A page of the agent's own sessions; `None` if it does not list any. An agent that is started for this is gone
    /// when it returns.
    pub async fn remote_sessions(
        &self,
        with: NewSession,
        cwd: Option<&AbsolutePath>,
        cursor: Option<&str>,
    ) -> Result<Option<ListPage>, SessionError> {
        let inquiry = Inquiry::List { cwd: cwd.cloned(), cursor: cursor.map(str::to_owned) };
        match self.inquire(with, inquiry).await? {
            Some(AgentResponse::Listed(page)) => Ok(Some(page?)),
            _ => Ok(None),
        }
    }

    /// What the agent's own list says of a session.
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

    /// Reads the list page by page. A process that has to be started for it is left in `alone`.
    async fn search(
        &self,
        with: &NewSession,
        session: &AcpSessionId,
        alone: &mut Option<InquiryProcess>,
    ) -> Result<ListLookup, SessionError> {
        let until = Instant::now() + SEARCH;
        let mut cursor = None;
        loop {
            let inquiry = Inquiry::List { cwd: None, cursor: cursor.clone() };
            let Some(AgentResponse::Listed(page)) = self.ask_one(with, &inquiry, alone).await? else {
                return Ok(ListLookup::NoList);
            };
            let ListPage { sessions, next } = page?;
            if let Some(row) = sessions.into_iter().find(|row| row.session == *session) {
                return Ok(ListLookup::Listed(Box::new(row)));
            }
            if next.is_none() {
                return Ok(ListLookup::NotListed);
            }
            // An agent that gives the same cursor again would be asked for ever.
            if next == cursor || Instant::now() >= until {
                return Ok(ListLookup::Unread);
            }
            cursor = next;
        }
    }

    /// Has the agent delete a session that is none of ours; whether it can.
    pub async fn delete_remote(
        &self,
        with: NewSession,
        session: &AcpSessionId,
    ) -> Result<bool, SessionError> {
        let inquiry = Inquiry::Delete(session.clone(), with.besides.clone());
        match self.inquire(with, inquiry).await? {
            Some(AgentResponse::Deleted(deleted)) => Ok(deleted.map(|()| true)?),
            _ => Ok(false),
        }
    }

    /// The answer of an agent that runs, or of one that is started for nothing else: where none runs, and where the one
    /// that does is busy. `None` if it has no such method.
    async fn inquire(
        &self,
        with: NewSession,
        inquiry: Inquiry,
    ) -> Result<Option<AgentResponse>, SessionError> {
        let mut alone = None;
        let answer = Box::pin(self.ask_one(&with, &inquiry, &mut alone)).await;
        if let Some(alone) = alone {
            Box::pin(alone.end()).await;
        }
        answer
    }

    /// The same, of a process in `alone` if there is one; one that is started is left there.
    async fn ask_one(
        &self,
        with: &NewSession,
        inquiry: &Inquiry,
        alone: &mut Option<InquiryProcess>,
    ) -> Result<Option<AgentResponse>, SessionError> {
        if alone.is_none()
            && let Some(live) = self.live_with(&with.agent).await
        {
            match timeout(PATIENCE, live.inquire(inquiry.clone())).await {
                Ok(Ok(answer)) => return Ok(Some(answer)),
                Ok(Err(SessionQueryError::NotOffered)) => return Ok(None),
                Ok(Err(SessionQueryError::NotThere)) | Err(_) => {}
            }
        }
        let asked = match alone.take() {
            Some(alone) => alone,
            None => self.start_alone(with.clone()).await?,
        };
        let (asked, answer) = asked.ask(inquiry).await?;
        *alone = Some(asked);
        Ok(answer)
    }

    /// A session whose agent runs, started by the same command line.
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

    /// An agent that is started for nothing but to be asked.
    async fn start_alone(&self, with: NewSession) -> Result<InquiryProcess, SessionError> {
        self.real_directory(&with.cwd).await?;
        let (place, shared) = (LaunchSpec::alone(with), self.0.shared.clone());
        let started =
            live_agent::start(place.clone(), shared.clone(), &live_agent::unused_mark(), None).await;
        let (agent, _) = started.map_err(|FailedStart { error, .. }| error)?;
        Ok(InquiryProcess { agent, place, shared })
    }
}

/// An agent that was started for nothing but to be asked, and is to be ended.
struct InquiryProcess {
    agent: LiveAgent,
    place: LaunchSpec,
    shared: EngineContext,
}

impl InquiryProcess {
    /// The answer; `None` if it has no such method. One that fails is ended.
    async fn ask(mut self, inquiry: &Inquiry) -> Result<(Self, Option<AgentResponse>), SessionError> {
        let Some(request) = inquiry.request(&self.agent.connection) else { return Ok((self, None)) };
        let limit = self.place.agent.patience(self.agent.connection.profile());
        match timeout(limit, ask(&mut self.agent, request)).await {
            Ok(Some(answer)) => Ok((self, Some(answer))),
            Ok(None) => {
                let (error, leftover) = self.agent.gone(&self.place, &self.shared.settings).await;
                drop(leftover.task.await);
                Err(error.into())
            }
            Err(_) => {
                let (agent, method) = (self.place.agent.label().into_owned(), inquiry.method().to_owned());
                self.end().await;
                Err(AgentError::Unresponsive { agent, method }.into())
            }
        }
    }

    async fn end(self) {
        self.agent.end(self.shared.settings.process).await;
    }
}

/// The answer; `None` if the agent went away first.
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
