//! The handlers' link to the client: sends updates, and requests that wait for a reply.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::client::ClientFacts;
use super::permission::{PermissionOutcome, ToolPermissionRequest};
use super::setup::to_json;
use super::turn;
use super::turn::Cancellation;
use super::update::UpdateBody;
use super::v2_adapter::SessionTranslations;
use crate::acp::translate::permission_to_v2;
use crate::model::{AcpSessionId, ProtocolVersion};
use crate::sync::Lock;
use crate::wire::{Peer, RpcError, RpcId, RpcMessage, WireError, encode};

/// The client of a connection. Clones share the connection.
///
/// Messages sent through one link arrive in order, and before the reply of the handler that sent them.
#[derive(Debug, Clone)]
pub struct ClientLink {
    peer: Peer,
    questions: Arc<Lock<ReplyWaiters>>,
    client: Arc<ClientFacts>,
    /// Whether the dispatcher, not the service, sends session states to a version 2 client.
    sends_states: bool,
    /// Whether the updates are a replay.
    is_replay: bool,
    speech: Arc<SessionTranslations>,
}

/// Why a request to the client has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientRequestError {
    /// The request could not be sent.
    #[error("cannot ask the client")]
    NotSent(#[source] WireError),
    /// The client disconnected.
    #[error("the client disconnected with an open request")]
    Gone,
    /// The client answered with an error.
    #[error("the client refused the question")]
    Refused(#[source] RpcError),
    /// The client's result has the wrong shape.
    #[error("the client's answer cannot be read")]
    Unreadable,
}

#[derive(Debug)]
enum ReplyWaiters {
    Open(HashMap<RpcId, oneshot::Sender<RpcMessage>>),
    /// No reply can arrive any more.
    Closed,
}

impl ClientLink {
    pub(super) fn new(peer: Peer) -> Self {
        let questions = Arc::new(Lock::new(ReplyWaiters::Open(HashMap::new())));
        let (client, speech) = (Arc::default(), Arc::default());
        Self { peer, questions, client, sends_states: false, is_replay: false, speech }
    }

    /// The same link, with what the client reported in `initialize`.
    pub(super) fn to(&self, client: ClientFacts, sends_states: bool) -> Self {
        Self { client: Arc::new(client), sends_states, ..self.clone() }
    }

    /// The same link, for replayed updates.
    pub(super) fn replaying(&self) -> Self {
        Self { is_replay: true, ..self.clone() }
    }

    pub(super) fn speech(&self) -> &SessionTranslations {
        &self.speech
    }

    /// Whether the dispatcher sends session states to this client. Version 1 has none.
    pub(super) fn sends_states(&self) -> bool {
        self.client.protocol == ProtocolVersion::V2 && self.sends_states
    }

    /// What the client reported in `initialize`.
    pub fn client(&self) -> Arc<ClientFacts> {
        Arc::clone(&self.client)
    }

    /// Sends a `session/update` in the client's version. Waits while the client does not read.
    pub async fn update(&self, session: &AcpSessionId, update: &UpdateBody) -> Result<(), WireError> {
        if self.client.protocol == ProtocolVersion::V1 {
            return self.send_update(session, update.as_json()).await;
        }
        for update in self.speech.update(session, update.as_json(), self.is_replay) {
            self.send_update(session, &update).await?;
        }
        Ok(())
    }

    /// Sends a `session/update` whose `update` object already has the client's version.
    pub(crate) async fn send_update(&self, session: &AcpSessionId, update: &str) -> Result<(), WireError> {
        let params = format!(r#"{{"sessionId":{},"update":{update}}}"#, to_json(session));
        self.peer.notify("session/update", &params).await
    }

    /// Replies to a request of the client.
    pub(super) async fn respond(&self, request: &RpcId, result: &str) -> Result<(), WireError> {
        self.peer.respond(request, result).await
    }

    /// Waits until messages have been pending for this long, or up to twice as long, and the client has read none.
    pub(crate) async fn stalled_for(&self, time: Duration) {
        self.peer.stalled_for(time).await;
    }

    /// Sends a notification.
    pub(crate) async fn notify(&self, method: &str, params: &str) -> Result<(), WireError> {
        self.peer.notify(method, params).await
    }

    /// Sends a line unchanged.
    pub(crate) async fn pass_on(&self, line: String) -> Result<(), WireError> {
        self.peer.send(line).await
    }

    /// Forwards a request to the client with unchanged params, and returns the client's result unchanged. Dropping the
    /// future cancels the request with `$/cancel_request`.
    pub(crate) async fn ask(&self, method: &str, params: &str) -> Result<Box<str>, ClientRequestError> {
        let question = ClientRequestGuard { link: self, id: self.peer.mint_id() };
        let answer = question.answer(method, params).await?;
        result(&answer).map(Into::into)
    }

    /// Forwards the params of a `session/request_permission` unchanged. Returns the outcome and the whole result.
    /// Dropping the future cancels the request.
    pub(crate) async fn pass_on_question(
        &self,
        params: &str,
    ) -> Result<(PermissionOutcome, Box<str>), ClientRequestError> {
        let result = self.ask("session/request_permission", params).await?;
        Ok((chosen(&result)?, result))
    }

    /// Sends a permission request. When the turn is cancelled, the request is withdrawn and its outcome is `Cancelled`,
    /// even if the client never replies.
    pub async fn request_permission(
        &self,
        ask: &ToolPermissionRequest,
        cancellation: &mut Cancellation,
    ) -> Result<PermissionOutcome, ClientRequestError> {
        if self.sends_states() {
            self.send_update(&ask.session, turn::REQUIRES_ACTION)
                .await
                .map_err(ClientRequestError::NotSent)?;
        }
        let outcome = self.outcome(ask, cancellation).await;
        // A cancelled turn ends without running again.
        if self.sends_states() && !matches!(outcome, Ok(PermissionOutcome::Cancelled)) {
            self.send_update(&ask.session, turn::RUNNING).await.map_err(ClientRequestError::NotSent)?;
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

    /// Writes all queued messages and ends our half of the connection. Waits until everything is written.
    pub async fn close(&self) -> Result<(), WireError> {
        self.peer.close().await
    }

    /// Passes a response to the task that sent the request.
    pub(super) fn answered(&self, id: &RpcId, message: RpcMessage) {
        let waiting = match &mut *self.questions.lock() {
            ReplyWaiters::Open(waiting) => waiting.remove(id),
            ReplyWaiters::Closed => None,
        };
        if let Some(waiting) = waiting {
            // The task may have stopped waiting.
            waiting.send(message).ok();
        }
    }

    /// The client disconnected: every pending request fails, and every later one.
    pub(super) fn disconnected(&self) {
        *self.questions.lock() = ReplyWaiters::Closed;
    }
}

/// The client's result, unless it replied with an error.
fn result(answer: &RpcMessage) -> Result<&str, ClientRequestError> {
    match answer.error() {
        Some(error) => Err(ClientRequestError::Refused(RpcError::read(error))),
        None => answer.result().ok_or(ClientRequestError::Unreadable),
    }
}

/// Parses the user's choice.
fn chosen(result: &str) -> Result<PermissionOutcome, ClientRequestError> {
    PermissionOutcome::read(result).ok_or(ClientRequestError::Unreadable)
}

/// One pending request to the client. Dropping it before the reply withdraws it from the client.
struct ClientRequestGuard<'a> {
    link: &'a ClientLink,
    id: RpcId,
}

impl ClientRequestGuard<'_> {
    async fn answer(&self, method: &str, params: &str) -> Result<RpcMessage, ClientRequestError> {
        let (sender, receiver) = oneshot::channel();
        match &mut *self.link.questions.lock() {
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
        if let ReplyWaiters::Open(waiting) = &mut *self.link.questions.lock() {
            waiting.remove(&self.id);
        }
        // Sends nothing if the reply has arrived.
        self.link.peer.cancel(&self.id);
    }
}
