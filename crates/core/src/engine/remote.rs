//! What an agent itself has: its own list of sessions, and one of them deleted. A process of the agent that runs is
//! asked; without one, a process is started for nothing else.

use serde_json::json;

use crate::acp::client::{Answer, Known, ListPage, ListedSession, Meaning, Outgoing, read_list};
use crate::model::{AbsolutePath, AcpSessionId, AgentError, AgentSpec};

use super::agent::{self, FailedStart, LiveAgent};
use super::place::Place;
use super::{Engine, NewSession, RestoreSession, Session, SessionError};

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
        if let Some(session) = self.live_with(&with.agent).await {
            let params = json!({ "cwd": cwd, "cursor": cursor });
            let params = params.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
            let params: serde_json::Map<_, _> = params.map(|(k, v)| (k.clone(), v.clone())).collect();
            let params = serde_json::Value::Object(params).to_string();
            match session.request("session/list", &params, RestoreSession::default()).await {
                Ok(result) => return Ok(Some(read_list(with.agent.label(), &result)?)),
                Err(SessionError::Agent(AgentError::NotOffered { .. })) => return Ok(None),
                // One that has just gone is no answer, and neither is one that is being closed.
                Err(error) if !is_answer(&error) => {}
                Err(error) => return Err(error),
            }
        }
        let answer = self
            .ask_alone_for(with, "session/list", |agent| {
                agent.connection.list().map(|list| list.request(cwd, cursor))
            })
            .await?;
        match answer {
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
        if let Some(live) = self.live_with(&with.agent).await {
            let params = json!({ "sessionId": session }).to_string();
            match live.request("session/delete", &params, RestoreSession::default()).await {
                Ok(_) => return Ok(true),
                Err(SessionError::Agent(AgentError::NotOffered { .. })) => return Ok(false),
                Err(error) if !is_answer(&error) => {}
                Err(error) => return Err(error),
            }
        }
        let answer = self
            .ask_alone_for(with, "session/delete", |agent| {
                agent.connection.delete().map(|delete| delete.request(session))
            })
            .await?;
        match answer {
            Some(Answer::Deleted(deleted)) => Ok(deleted.map(|()| true)?),
            _ => Ok(false),
        }
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

    /// The answer of an agent that is started for nothing but this request; `None` if it has no such method.
    async fn ask_alone_for(
        &self,
        with: NewSession,
        method: &str,
        request: impl FnOnce(&LiveAgent) -> Option<Outgoing>,
    ) -> Result<Option<Answer>, SessionError> {
        self.real_directory(&with.cwd).await?;
        let (place, shared) = (Place::alone(with), self.0.shared.clone());
        let started = agent::start(place.clone(), shared.clone(), &agent::unused_mark(), None).await;
        let (mut agent, _) = started.map_err(|FailedStart { error, .. }| error)?;
        let Some(request) = request(&agent) else {
            agent.end(shared.settings.process).await;
            return Ok(None);
        };
        let limit = place.agent.start_timeout;
        let answer = match tokio::time::timeout(limit, ask(&mut agent, request)).await {
            Ok(Some(answer)) => Ok(Some(answer)),
            Ok(None) => {
                let (error, leftover) = agent.gone(&place, &shared.settings).await;
                drop(leftover.task.await);
                return Err(error.into());
            }
            Err(_) => {
                let agent = place.agent.label().to_owned();
                Err(AgentError::Unresponsive { agent, method: method.to_owned() })
            }
        };
        agent.end(shared.settings.process).await;
        Ok(answer?)
    }
}

/// Whether the agent itself said it.
fn is_answer(error: &SessionError) -> bool {
    matches!(error, SessionError::Agent(AgentError::Refused { .. } | AgentError::BadAnswer { .. }))
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
