//! A page of the agent's own list, requested in a task that outlives the answer to one `session/list`.
//!
//! An agent that has to start may take longer than a client waits for its page. The request continues, and the next
//! `session/list` for the same page gets its result. Each connection has at most one such request.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::acp::client::ListPage;
use crate::engine::{Engine, NewSession, SessionError};
use crate::model::{AbsolutePath, AgentSpec};
use crate::sync::Lock;
use crate::tools::Environment;

/// The maximum age of an unclaimed result.
const MAX_AGE: Duration = Duration::from_mins(1);

/// The agent's reply; `None` if it lists no sessions.
pub(crate) type AgentPage = Result<Option<ListPage>, SessionError>;

/// The pending request of one connection, which took longer than its page.
#[derive(Default)]
pub(crate) struct PendingPage(Lock<Option<PageRequest>>);

struct PageRequest {
    agent: AgentSpec,
    environment: Environment,
    cwd: Option<AbsolutePath>,
    cursor: Option<String>,
    /// One task, which ends with the request: its result, and when it arrived.
    task: JoinSet<(AgentPage, Instant)>,
}

impl PendingPage {
    /// The page of the agent's list; `None` if it takes longer than `limit`.
    pub(crate) async fn get(
        &self,
        engine: &Engine,
        with: NewSession,
        cwd: Option<AbsolutePath>,
        cursor: Option<String>,
        limit: Duration,
    ) -> Option<AgentPage> {
        let began = Instant::now();
        let until = began + limit;
        let is_same = |request: &PageRequest| {
            request.agent == with.agent
                && request.environment == with.environment
                && request.cwd == cwd
                && request.cursor == cursor
        };
        if let Some(mut earlier) = self.replace(None).filter(is_same) {
            match timeout(limit, earlier.task.join_next()).await {
                // An earlier failure may be over, such as a missing login.
                Ok(Some(Ok((page, at)))) if at >= began || (page.is_ok() && at.elapsed() <= MAX_AGE) => {
                    return Some(page);
                }
                Ok(_) => {}
                Err(_) => {
                    self.replace(Some(earlier));
                    return None;
                }
            }
        }
        let mut request = PageRequest::start(engine.clone(), with, cwd, cursor);
        match timeout(until - Instant::now(), request.task.join_next()).await {
            Ok(Some(Ok((page, _)))) => Some(page),
            // Only the end of the runtime cancels the task.
            Ok(_) => None,
            Err(_) => {
                self.replace(Some(request));
                None
            }
        }
    }

    /// Drops the request: what the agent lists has changed.
    pub(crate) fn forget(&self) {
        drop(self.replace(None));
    }

    fn replace(&self, request: Option<PageRequest>) -> Option<PageRequest> {
        std::mem::replace(&mut self.0.lock(), request)
    }
}

impl PageRequest {
    fn start(engine: Engine, with: NewSession, cwd: Option<AbsolutePath>, cursor: Option<String>) -> Self {
        let (agent, environment) = (with.agent.clone(), with.environment.clone());
        let (to_cwd, to_cursor) = (cwd.clone(), cursor.clone());
        let mut task = JoinSet::new();
        task.spawn(async move {
            let page = engine.list_agent_sessions(with, to_cwd.as_ref(), to_cursor.as_deref()).await;
            (page, Instant::now())
        });
        Self { agent, environment, cwd, cursor, task }
    }
}
