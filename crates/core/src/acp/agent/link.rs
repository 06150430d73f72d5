//! The way back to the client, for handlers: updates, and questions that wait for an answer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::client::ClientFacts;
use super::permission::{PermissionOutcome, ToolPermissionRequest};
use super::setup::to_json;
use super::speech::SessionTranslations;
use super::states;
use super::turn::Cancellation;
use super::update::UpdateBody;
use crate::acp::translate::permission_to_v2;
use crate::model::{AcpSessionId, ProtocolVersion};
use crate::wire::{Peer, RpcError, RpcId, RpcMessage, WireError, encode};

/// The client at the other end of a connection. Clones speak to the same one.
///
/// What is sent through one link arrives in the order it was sent, and before the answer of the handler that
/// sent it.
#[derive(Debug, Clone)]
pub struct ClientLink {
    peer: Peer,
    questions: Arc<Mutex<ReplyWaiters>>,
    client: Arc<ClientFacts>,
    /// Whether the service leaves it to us to tell a client of version 2 which state a session is in.
    tells_states: bool,
    /// Whether what is said has been said before.
    is_replay: bool,
    speech: Arc<SessionTranslations>,
}

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientRequestError {
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
enum ReplyWaiters {
    Open(HashMap<RpcId, oneshot::Sender<RpcMessage>>),
    /// No answer will come any more.
    Closed,
}

impl ClientLink {
    pub(super) fn new(peer: Peer) -> Self {
        let questions = Arc::new(Mutex::new(ReplyWaiters::Open(HashMap::new())));
        let (client, speech) = (Arc::default(), Arc::default());
        Self { peer, questions, client, tells_states: false, is_replay: false, speech }
    }

    /// The same link to a client of whom this is known.
    pub(super) fn to(&self, client: ClientFacts, tells_states: bool) -> Self {
        Self { client: Arc::new(client), tells_states, ..self.clone() }
    }

    /// The same link for what has been said before.
    pub(super) fn replaying(&self) -> Self {
        Self { is_replay: true, ..self.clone() }
    }

    pub(super) fn speech(&self) -> &SessionTranslations {
        &self.speech
    }

    /// Whether it is for us to tell the client which state a session is in. Version 1 knows none.
    pub(super) fn says_states(&self) -> bool {
        self.client.protocol == ProtocolVersion::V2 && self.tells_states
    }

    /// What the client said of itself.
    pub fn client(&self) -> Arc<ClientFacts> {
        Arc::clone(&self.client)
    }

    /// Sends a `session/update`, in the client's version. Waits while the client does not read.
    pub async fn update(&self, session: &AcpSessionId, update: &UpdateBody) -> Result<(), WireError> {
        if self.client.protocol == ProtocolVersion::V1 {
            return self.tell(session, update.as_json()).await;
        }
        for update in self.speech.update(session, update.as_json(), self.is_replay) {
            self.tell(session, &update).await?;
        }
        Ok(())
    }

    /// Sends a `session/update` whose `update` object is in the client's version already.
    pub(crate) async fn tell(&self, session: &AcpSessionId, update: &str) -> Result<(), WireError> {
        let params = format!(r#"{{"sessionId":{},"update":{update}}}"#, to_json(session));
        self.peer.notify("session/update", &params).await
    }

    /// Answers a request of the client's.
    pub(super) async fn respond(&self, request: &RpcId, result: &str) -> Result<(), WireError> {
        self.peer.respond(request, result).await
    }

    /// Waits until the client has taken nothing of what it is told for this long, or up to twice as long.
    pub(crate) async fn takes_nothing_for(&self, time: Duration) {
        self.peer.takes_nothing_for(time).await;
    }

    /// Sends a notification.
    pub async fn notify(&self, method: &str, params: &str) -> Result<(), WireError> {
        self.peer.notify(method, params).await
    }

    /// Sends a line as it is.
    pub async fn pass_on(&self, line: String) -> Result<(), WireError> {
        self.peer.send(line).await
    }

    /// Asks the client what somebody else asks: a request with these params, as they are. Its result comes
    /// back as the client gave it. Dropping this withdraws the question with `$/cancel_request`.
    pub async fn ask(&self, method: &str, params: &str) -> Result<Box<str>, ClientRequestError> {
        let question = ClientRequestGuard { link: self, id: self.peer.mint_id() };
        let answer = question.answer(method, params).await?;
        result(&answer).map(Into::into)
    }

    /// Asks the user what somebody else asks: the params of a `session/request_permission`, as they are.
    /// What was chosen comes back with the whole result. Dropping this withdraws the question.
    pub async fn pass_on_question(
        &self,
        params: &str,
    ) -> Result<(PermissionOutcome, Box<str>), ClientRequestError> {
        let result = self.ask("session/request_permission", params).await?;
        Ok((chosen(&result)?, result))
    }

    /// Asks the user. Once the turn is cancelled the question is withdrawn and counts as cancelled, whether or
    /// not the client says so too.
    pub async fn request_permission(
        &self,
        ask: &ToolPermissionRequest,
        cancellation: &mut Cancellation,
    ) -> Result<PermissionOutcome, ClientRequestError> {
        if self.says_states() {
            self.tell(&ask.session, states::REQUIRES_ACTION).await.map_err(ClientRequestError::NotSent)?;
        }
        let outcome = self.outcome(ask, cancellation).await;
        // A turn that is cancelled ends without going on.
        if self.says_states() && !matches!(outcome, Ok(PermissionOutcome::Cancelled)) {
            self.tell(&ask.session, states::RUNNING).await.map_err(ClientRequestError::NotSent)?;
        }
        outcome
    }

    async fn outcome(
        &self,
        ask: &ToolPermissionRequest,
        cancellation: &mut Cancellation,
    ) -> Result<PermissionOutcome, ClientRequestError> {
        let question = ClientRequestGuard { link: self, id: self.peer.mint_id() };
        let params = match self.client.protocol {
            ProtocolVersion::V1 => ask.to_params(),
            ProtocolVersion::V2 => {
                permission_to_v2(&ask.to_params()).expect("what we ask is about a tool call").into()
            }
        };
        let answer = question.answer("session/request_permission", &params);
        tokio::select! {
            biased;
            _ = cancellation.requested() => Ok(PermissionOutcome::Cancelled),
            answer = answer => chosen(result(&answer?)?),
        }
    }

    /// Writes what has been sent and ends our half of the connection. Waits until the client has taken it all.
    pub async fn close(&self) -> Result<(), WireError> {
        self.peer.close().await
    }

    /// Hands a response to whoever asked.
    pub(super) fn answered(&self, id: &RpcId, message: RpcMessage) {
        let waiting = match &mut *self.questions() {
            ReplyWaiters::Open(waiting) => waiting.remove(id),
            ReplyWaiters::Closed => None,
        };
        if let Some(waiting) = waiting {
            // Whoever asked may have stopped waiting; then nobody misses the answer.
            waiting.send(message).ok();
        }
    }

    /// The client is gone: every open question fails, and every later one.
    pub(super) fn disconnected(&self) {
        *self.questions() = ReplyWaiters::Closed;
    }

    fn questions(&self) -> MutexGuard<'_, ReplyWaiters> {
        // Nothing panics while it holds the lock, and every step leaves the map whole.
        self.questions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The client's answer, unless it is an error.
fn result(answer: &RpcMessage) -> Result<&str, ClientRequestError> {
    match answer.error() {
        Some(error) => Err(ClientRequestError::Refused(RpcError::read(error))),
        None => answer.result().ok_or(ClientRequestError::Unreadable),
    }
}

/// What the user chose.
fn chosen(result: &str) -> Result<PermissionOutcome, ClientRequestError> {
    PermissionOutcome::read(result).ok_or(ClientRequestError::Unreadable)
}

/// One open question. Dropped without its answer, it is withdrawn from the client.
struct ClientRequestGuard<'a> {
    link: &'a ClientLink,
    id: RpcId,
}

impl ClientRequestGuard<'_> {
    async fn answer(&self, method: &str, params: &str) -> Result<RpcMessage, ClientRequestError> {
        let (sender, receiver) = oneshot::channel();
        match &mut *self.link.questions() {
            ReplyWaiters::Open(waiting) => waiting.insert(self.id.clone(), sender),
            ReplyWaiters::Closed => return Err(ClientRequestError::Gone),
        };
        let line = encode::request(&self.id, method, params);
        self.link
            .peer
            .send_request(self.id.clone(), method, line)
            .await
            .map_err(ClientRequestError::NotSent)?;
        receiver.await.map_err(|_| ClientRequestError::Gone)
    }
}

impl Drop for ClientRequestGuard<'_> {
    fn drop(&mut self) {
        if let ReplyWaiters::Open(waiting) = &mut *self.link.questions() {
            waiting.remove(&self.id);
        }
        // Sends nothing if the answer is here.
        self.link.peer.cancel(&self.id);
    }
}
