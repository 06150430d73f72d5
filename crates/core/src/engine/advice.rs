//! Questions of an agent that only the turn's client can answer.
//!
//! A question goes to whoever prompted, or asked for that prompt again since; the session goes on meanwhile. One that is
//! dropped has nobody's answer, and then what is not asked of anybody decides: reading is allowed, the rest is not.

use std::sync::Arc;

use tokio::sync::mpsc::error::TrySendError;
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
    /// No, in whichever way the agent offers.
    Reject,
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

    /// Waits until nobody wants the answer any more: the turn is over, or the agent is gone.
    pub async fn withdrawn(&mut self) {
        self.reply.closed().await;
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
            match advisor.try_send(Question { params, reply }) {
                // A client that has too many questions already gets no more, and what it is not asked it has not allowed.
                Err(TrySendError::Full(question)) => question.answer(Advice::Reject),
                // One that is gone leaves the answer to nobody.
                Ok(()) | Err(TrySendError::Closed(_)) => {}
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_a_client_with_too_many_questions_is_not_asked_it_has_not_allowed() {
        let (advisor, mut asked) = mpsc::channel(1);
        let mut consultations = Consultations::default();
        let ask = |number: &str| AskId(number.into());
        consultations.put(ask("1"), "{}".into(), Some(&advisor));
        consultations.put(ask("2"), "{}".into(), Some(&advisor));
        assert_eq!(consultations.next().await, (ask("2"), Some(Advice::Reject)));
        asked.recv().await.unwrap().answer(Advice::Cancel);
        assert_eq!(consultations.next().await, (ask("1"), Some(Advice::Cancel)));
        // Where nobody is there, the answer is nobody's.
        drop(asked);
        consultations.put(ask("3"), "{}".into(), Some(&advisor));
        assert_eq!(consultations.next().await, (ask("3"), None));
        consultations.put(ask("4"), "{}".into(), None);
        assert_eq!(consultations.next().await, (ask("4"), None));
    }
}
