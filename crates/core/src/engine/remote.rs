//! What an agent itself has: its own list of sessions, and one of them deleted. A process of the agent that runs is
//! asked, for a bounded time; without one that answers, a process is started for nothing else.

use std::time::Duration;

use tokio::time::timeout;

use crate::acp::client::{Answer, Known, ListPage, ListedSession, Meaning, Outgoing};
use crate::model::{AbsolutePath, AcpSessionId, AgentError, AgentSpec};

use super::agent::{self, FailedStart, LiveAgent};
use super::inquiry::{Inquiry, Unanswered};
use super::place::Place;
use super::{Engine, NewSession, Session, SessionError};

/// How long an agent that runs may take: it may do one thing after the other, and be at work.
const PATIENCE: Duration = Duration::from_secs(3);
/// How many pages of an agent's list are looked through for one session.
const MAX_PAGES: usize = 20;

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
            Some(Answer::Listed(page)) => Ok(Some(page?)),
            _ => Ok(None),
        }
    }

    /// The row of a session in the agent's own list; `None` if it is not there, or the agent has no list.
    pub async fn remote_session(
        &self,
        with: &NewSession,
        session: &AcpSessionId,
    ) -> Result<Option<ListedSession>, SessionError> {
        let mut cursor = None;
        for _ in 0..MAX_PAGES {
            let page = self.remote_sessions(with.clone(), None, cursor.as_deref()).await?;
            let Some(ListPage { sessions, next }) = page else { break };
            if let Some(row) = sessions.into_iter().find(|row| row.session == *session) {
                return Ok(Some(row));
            }
            // An agent that gives the same cursor again would be asked for ever.
            if next.is_none() || next == cursor {
                break;
            }
            cursor = next;
        }
        Ok(None)
    }

    /// Has the agent delete a session that is none of ours; whether it can.
    pub async fn delete_remote(
        &self,
        with: NewSession,
        session: &AcpSessionId,
    ) -> Result<bool, SessionError> {
        let inquiry = Inquiry::Delete(session.clone(), with.besides.clone());
        match self.inquire(with, inquiry).await? {
            Some(Answer::Deleted(deleted)) => Ok(deleted.map(|()| true)?),
            _ => Ok(false),
        }
    }

    /// The answer of an agent that runs, or of one that is started for nothing else: where none runs, and where the one
    /// that does is busy. `None` if it has no such method.
    async fn inquire(&self, with: NewSession, inquiry: Inquiry) -> Result<Option<Answer>, SessionError> {
        if let Some(live) = self.live_with(&with.agent).await {
            match timeout(PATIENCE, live.inquire(inquiry.clone())).await {
                Ok(Ok(answer)) => return Ok(Some(answer)),
                Ok(Err(Unanswered::NotOffered)) => return Ok(None),
                Ok(Err(Unanswered::NotThere)) | Err(_) => {}
            }
        }
        self.inquire_alone(with, inquiry).await
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

    /// The answer of an agent that is started for nothing but this; `None` if it has no such method.
    async fn inquire_alone(
        &self,
        with: NewSession,
        inquiry: Inquiry,
    ) -> Result<Option<Answer>, SessionError> {
        self.real_directory(&with.cwd).await?;
        let (place, shared) = (Place::alone(with), self.0.shared.clone());
        let started = agent::start(place.clone(), shared.clone(), &agent::unused_mark(), None).await;
        let (mut agent, _) = started.map_err(|FailedStart { error, .. }| error)?;
        let Some(request) = inquiry.request(&agent.connection) else {
            agent.end(shared.settings.process).await;
            return Ok(None);
        };
        let limit = place.agent.patience(agent.connection.profile());
        let answer = match timeout(limit, ask(&mut agent, request)).await {
            Ok(Some(answer)) => Ok(Some(answer)),
            Ok(None) => {
                let (error, leftover) = agent.gone(&place, &shared.settings).await;
                drop(leftover.task.await);
                return Err(error.into());
            }
            Err(_) => {
                let (agent, method) = (place.agent.label().into_owned(), inquiry.method().to_owned());
                Err(AgentError::Unresponsive { agent, method })
            }
        };
        agent.end(shared.settings.process).await;
        Ok(answer?)
    }
}

/// The answer; `None` if the agent went away first.
async fn ask(agent: &mut LiveAgent, request: Outgoing) -> Option<Answer> {
    request.send().await.ok()?;
    loop {
        if let Meaning::Answer(answer @ (Answer::Listed(_) | Answer::Deleted(_))) =
            agent.connection.recv(Known::default()).await?.meaning
        {
            return Some(answer);
        }
    }
}
