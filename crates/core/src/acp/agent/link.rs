//! The way back to the client, for handlers: updates, and questions that wait for an answer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::permission::{PermissionAsk, PermissionOutcome};
use super::setup::to_json;
use super::turn::Cancellation;
use super::update::UpdateBody;
use crate::model::AcpSessionId;
use crate::wire::{Message, Peer, RpcError, RpcId, WireError, encode};

/// The client at the other end of a connection. Clones speak to the same one.
///
/// What is sent through one link arrives in the order it was sent, and before the answer of the handler that
/// sent it.
#[derive(Debug, Clone)]
pub struct ClientLink {
    peer: Peer,
    questions: Arc<Mutex<Questions>>,
}

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The question could not be sent.
    #[error("cannot ask the client")]
    NotSent(#[source] WireError),
    /// The client is gone.
    #[error("the client is gone and leaves a question open")]
    Gone,
    /// The client answered with an error.
    #[error("the client refused the question")]
    Refused(#[source] RpcError),
    /// The client's answer is no answer to this question.
    #[error("the client's answer cannot be read")]
    Unreadable,
}

#[derive(Debug)]
enum Questions {
    Open(HashMap<RpcId, oneshot::Sender<Message>>),
    /// No answer will come any more.
    Closed,
}

impl ClientLink {
    pub(super) fn new(peer: Peer) -> Self {
        Self { peer, questions: Arc::new(Mutex::new(Questions::Open(HashMap::new()))) }
    }

    /// Sends a `session/update`. Waits while the client does not read.
    pub async fn update(&self, session: &AcpSessionId, update: &UpdateBody) -> Result<(), WireError> {
        let session = to_json(session);
        let params = format!(r#"{{"sessionId":{session},"update":{}}}"#, update.as_json());
        self.peer.notify("session/update", &params).await
    }

    /// Sends a notification.
    pub async fn notify(&self, method: &str, params: &str) -> Result<(), WireError> {
        self.peer.notify(method, params).await
    }

    /// Sends a line as it is.
    pub async fn pass_on(&self, line: String) -> Result<(), WireError> {
        self.peer.send(line).await
    }

    /// Asks the user what somebody else asks: the params of a `session/request_permission`, as they are.
    /// Dropping this withdraws the question.
    pub async fn pass_on_question(&self, params: &str) -> Result<PermissionOutcome, AskError> {
        let question = Question { link: self, id: self.peer.mint_id() };
        chosen(&question.answer("session/request_permission", params).await?)
    }

    /// Asks the user. Once the turn is cancelled the question is withdrawn and counts as cancelled, whether or
    /// not the client says so too.
    pub async fn request_permission(
        &self,
        ask: &PermissionAsk,
        cancellation: &mut Cancellation,
    ) -> Result<PermissionOutcome, AskError> {
        let question = Question { link: self, id: self.peer.mint_id() };
        let params = ask.to_params();
        let answer = question.answer("session/request_permission", &params);
        tokio::select! {
            biased;
            _ = cancellation.requested() => Ok(PermissionOutcome::Cancelled),
            answer = answer => chosen(&answer?),
        }
    }

    /// Writes what has been sent and ends our half of the connection. Waits until the client has taken it all.
    pub async fn close(&self) -> Result<(), WireError> {
        self.peer.close().await
    }

    /// Hands a response to whoever asked.
    pub(super) fn answered(&self, id: &RpcId, message: Message) {
        let waiting = match &mut *self.questions() {
            Questions::Open(waiting) => waiting.remove(id),
            Questions::Closed => None,
        };
        if let Some(waiting) = waiting {
            // Whoever asked may have stopped waiting; then nobody misses the answer.
            waiting.send(message).ok();
        }
    }

    /// The client is gone: every open question fails, and every later one.
    pub(super) fn disconnected(&self) {
        *self.questions() = Questions::Closed;
    }

    fn questions(&self) -> MutexGuard<'_, Questions> {
        // Nothing panics while it holds the lock, and every step leaves the map whole.
        self.questions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the user chose.
fn chosen(answer: &Message) -> Result<PermissionOutcome, AskError> {
    if let Some(error) = answer.error() {
        return Err(AskError::Refused(RpcError::read(error)));
    }
    answer.result().and_then(PermissionOutcome::read).ok_or(AskError::Unreadable)
}

/// One open question. Dropped without its answer, it is withdrawn from the client.
struct Question<'a> {
    link: &'a ClientLink,
    id: RpcId,
}

impl Question<'_> {
    async fn answer(&self, method: &str, params: &str) -> Result<Message, AskError> {
        let (sender, receiver) = oneshot::channel();
        match &mut *self.link.questions() {
            Questions::Open(waiting) => waiting.insert(self.id.clone(), sender),
            Questions::Closed => return Err(AskError::Gone),
        };
        let line = encode::request(&self.id, method, params);
        self.link.peer.send_request(self.id.clone(), method, line).await.map_err(AskError::NotSent)?;
        receiver.await.map_err(|_| AskError::Gone)
    }
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        if let Questions::Open(waiting) = &mut *self.link.questions() {
            waiting.remove(&self.id);
        }
        // Sends nothing if the answer is here.
        self.link.peer.cancel(&self.id);
    }
}
