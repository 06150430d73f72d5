//! Questions of an agent that only the turn's client can answer.
//!
//! A question goes to whoever prompted, if it listens; the session goes on meanwhile. One that is dropped has
//! nobody's answer, which is no.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::machine::AskId;

/// A permission request of the agent, put to the turn's client.
#[derive(Debug)]
pub struct Question {
    params: Arc<str>,
    reply: oneshot::Sender<Advice>,
}

/// What a client says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Advice {
    /// The option of this id.
    Choose(Box<str>),
    /// Nothing: the turn is being cancelled.
    Cancel,
}

/// Where a turn's questions go.
pub(super) type Advisor = mpsc::Sender<Question>;

impl Question {
    /// The params of the agent's `session/request_permission`, as it wrote them.
    pub fn params(&self) -> &str {
        &self.params
    }

    /// Answers it. An answer that comes too late is nobody's.
    pub fn answer(self, advice: Advice) {
        drop(self.reply.send(advice));
    }
}

/// The questions that are out.
#[derive(Debug, Default)]
pub(super) struct Consultations(JoinSet<(AskId, Option<Advice>)>);

impl Consultations {
    /// Puts a question; without anybody to take it, the answer is nobody's.
    pub(super) fn put(&mut self, ask: AskId, params: Arc<str>, advisor: Option<&Advisor>) {
        let (reply, answer) = oneshot::channel();
        if let Some(advisor) = advisor {
            // A client that has too many questions already gets no more.
            drop(advisor.try_send(Question { params, reply }));
        }
        self.0.spawn(async move { (ask, answer.await.ok()) });
    }

    /// The next answer; never, if nothing is out.
    pub(super) async fn next(&mut self) -> (AskId, Option<Advice>) {
        loop {
            match self.0.join_next().await {
                Some(Ok(answer)) => return answer,
                Some(Err(_)) => {}
                None => std::future::pending().await,
            }
        }
    }

    /// Nobody waits for any answer any more, not even for one that has come: an agent may use the number of a
    /// question again.
    pub(super) fn forget(&mut self) {
        self.0 = JoinSet::new();
    }
}
