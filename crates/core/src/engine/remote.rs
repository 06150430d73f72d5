//! What an agent itself has: its own list of sessions, asked of a process that is started for nothing else.

use crate::acp::client::{Answer, Known, ListPage, Meaning};
use crate::model::{AbsolutePath, AgentError};

use super::agent::{self, FailedStart, LiveAgent};
use super::place::Place;
use super::{Engine, NewSession, SessionError};

impl Engine {
    /// A page of the agent's own sessions; `None` if it does not list any. Nothing is kept of this, and the
    /// agent is gone when it returns.
    pub async fn remote_sessions(
        &self,
        with: NewSession,
        cwd: Option<&AbsolutePath>,
        cursor: Option<&str>,
    ) -> Result<Option<ListPage>, SessionError> {
        self.real_directory(&with.cwd).await?;
        let NewSession { agent, cwd: place, environment, mcp_servers, .. } = with;
        let place = Place { agent, cwd: place, environment, mcp_servers, besides: None };
        let shared = self.0.shared.clone();
        let started = agent::start(place.clone(), shared.clone(), None).await;
        let (mut agent, _) = started.map_err(|FailedStart { error, .. }| error)?;
        let limit = place.agent.start_timeout;
        let asked = tokio::time::timeout(limit, ask(&mut agent, cwd, cursor)).await;
        let page = match asked {
            Ok(Asked::Answered(page)) => page,
            Ok(Asked::Gone) => {
                let (error, leftover) = agent.gone(&place, &shared.settings).await;
                drop(leftover.task.await);
                return Err(error.into());
            }
            Err(_) => {
                let agent = place.agent.label().to_owned();
                Err(AgentError::Unresponsive { agent, method: "session/list".to_owned() })
            }
        };
        agent.end(shared.settings.process).await;
        Ok(page?)
    }
}

enum Asked {
    Answered(Result<Option<ListPage>, AgentError>),
    Gone,
}

async fn ask(agent: &mut LiveAgent, cwd: Option<&AbsolutePath>, cursor: Option<&str>) -> Asked {
    let Some(list) = agent.connection.list() else { return Asked::Answered(Ok(None)) };
    let request = list.request(cwd, cursor);
    if request.send().await.is_err() {
        return Asked::Gone;
    }
    while let Some(said) = agent.connection.recv(Known::default()).await {
        if let Meaning::Answer(Answer::Listed(page)) = said.meaning {
            return Asked::Answered(page.map(Some));
        }
    }
    Asked::Gone
}
