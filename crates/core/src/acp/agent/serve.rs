//! The dispatcher: one loop that reads and checks requests and spawns their handlers, and never waits for a handler.
//!
//! Every request runs in its own task. The loop itself writes only the reply to `initialize`, which must come first,
//! and refusals to a client that floods it. So it reads cancellations while turns run.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{sleep, timeout};
use tracing::{Instrument, debug, error_span};

use super::call::{self, ClientCall, ExtensionCall, NegotiatedOffer, PromptCall};
use super::client::ClientFacts;
use super::error::CallError;
use super::insertion::PromptInsertion;
use super::link::ClientLink;
use super::offer::Offer;
use super::service::AgentService;
use super::session_lanes::SessionLanes;
use super::sessions::Sessions;
use super::turn::{CancelCause, CancelSignal};
use super::worker::{RequestWorker, caught};
use crate::model::AcpSessionId;
use crate::model::ProtocolVersion;
use crate::wire::{InboundMessage, InboundStream, Peer, RpcId, RpcMessage, UnreadableLine};

/// Maximum number of concurrent requests per connection, which bounds memory. More are refused.
const MAX_REQUESTS: usize = 1024;

/// Serves one client until it disconnects. The service may [change the offer](AgentService::offer) for it. After the
/// disconnect, turns are cancelled and active requests have `grace` to end. Their replies are written within another
/// `grace`.
///
/// A service that [leaves](AgentService::leaving) ends its active requests itself; the loop reads nothing more.
pub async fn serve<S: AgentService>(
    peer: Peer,
    mut incoming: InboundStream,
    service: Arc<S>,
    offer: Offer,
    grace: Duration,
) {
    let mut leaving = std::pin::pin!(service.leaving());
    let mut server = ConnectionServer::new(peer, Arc::clone(&service), offer, grace);
    loop {
        tokio::select! {
            received = incoming.recv_each() => match received {
                Some(Ok(inbound)) => server.take(inbound).await,
                Some(Err(problem)) => server.refuse_malformed(problem).await,
                None => break server.end(grace).await,
            },
            Some(joined) = server.tasks.join_next_with_id() => server.joined(&joined),
            () = &mut leaving => break server.leave(grace).await,
        }
    }
}

struct ConnectionServer<S> {
    worker: RequestWorker<S>,
    base_offer: Offer,
    /// The offer to this client; `None` before `initialize`.
    offer: Option<Offer>,
    /// How long active requests may take after the client disconnected.
    grace: Duration,
    tasks: JoinSet<()>,
    requests: HashMap<Id, ActiveRequest>,
}

/// A request with a running handler.
struct ActiveRequest {
    request: RpcId,
    withdrawal: Withdrawal,
}

/// What `$/cancel_request` does to a request.
enum Withdrawal {
    /// Nothing: the request changes something and must complete.
    No,
    /// Drops it and replies with -32800.
    Drop(oneshot::Sender<()>),
    /// Cancels the turn like `session/cancel`. In version 2 the insertion replies to the prompt, and then there is
    /// nothing to withdraw.
    Turn(Arc<CancelSignal>, Arc<PromptInsertion>),
}

impl ActiveRequest {
    /// Whether the client has its reply while the work continues.
    fn is_answered(&self, version: ProtocolVersion) -> bool {
        match &self.withdrawal {
            Withdrawal::Turn(_, insertion) => version == ProtocolVersion::V2 && insertion.is_inserted(),
            Withdrawal::No | Withdrawal::Drop(_) => false,
        }
    }
}

impl<S: AgentService> ConnectionServer<S> {
    fn new(peer: Peer, service: Arc<S>, base_offer: Offer, grace: Duration) -> Self {
        let link = ClientLink::new(peer.clone());
        let worker = RequestWorker {
            peer,
            link,
            service,
            sessions: Arc::new(Sessions::default()),
            order: SessionLanes::default(),
        };
        let (tasks, requests) = (JoinSet::new(), HashMap::new());
        Self { worker, base_offer, offer: None, grace, tasks, requests }
    }

    async fn take(&mut self, inbound: InboundMessage) {
        match inbound {
            InboundMessage::Request { id, message } => self.request(id, &message).await,
            InboundMessage::Notification(message) => self.notification(&message),
            InboundMessage::Response { id, message, .. } => self.worker.link.answered(&id, message),
            InboundMessage::Stray(_) => {}
        }
    }

    /// Replies to a malformed message with one error, with the request's id if it is readable.
    async fn refuse_malformed(&mut self, UnreadableLine { problem, id }: UnreadableLine) {
        let error = CallError::Malformed(problem);
        if self.tasks.len() >= MAX_REQUESTS {
            self.worker.clone().refuse(id, error).await;
        } else {
            self.refuse(id, error);
        }
    }

    async fn request(&mut self, id: RpcId, message: &RpcMessage) {
        let method = message.method().unwrap_or_default();
        if self.tasks.len() >= MAX_REQUESTS {
            self.worker.clone().refuse(id, CallError::TooManyRequests(MAX_REQUESTS)).await;
        } else if method == "initialize" {
            self.initialize(id, message.params()).await;
        } else if let Some(offer) = &self.offer {
            match ClientCall::read(
                method,
                message.params(),
                NegotiatedOffer { offer, version: self.worker.version() },
            ) {
                Ok(call) => {
                    let span = error_span!("request", method);
                    span.in_scope(|| {
                        debug!(
                            id = id.as_str(),
                            bytes = message.params().map_or(0, str::len),
                            "request received"
                        );
                        self.start(id, call);
                    });
                }
                Err(error) => self.refuse(id, error),
            }
        } else {
            let call = ExtensionCall { method: method.into(), params: message.params().map(Into::into) };
            let service = Arc::clone(&self.worker.service);
            let done = caught(method, async { service.before_initialize(call).await }).await;
            match done {
                Ok(answer) => self.worker.clone().answer(id, Ok(answer)).await,
                Err(error) => self.refuse(id, error),
            }
        }
    }

    /// Replies before the next message is read, so every other message follows the reply. The negotiated version is
    /// final: a second `initialize` is refused.
    async fn initialize(&mut self, id: RpcId, params: Option<&str>) {
        let agreed = self.agree(params).await;
        self.worker.answer(id, agreed).await;
    }

    async fn agree(&mut self, params: Option<&str>) -> Result<String, CallError> {
        if self.offer.is_some() {
            return Err(CallError::VersionSettled(self.worker.version().number()));
        }
        let client = ClientFacts::read(params, self.base_offer.latest())?;
        let version = client.protocol;
        // A refusal uses the error format that the client asked for.
        self.worker.link = self.worker.link.to(client.clone(), false);
        let service = Arc::clone(&self.worker.service);
        let offer = async { service.offer(&client, self.base_offer.clone()).await };
        let gone = async {
            self.worker.peer.reading_ended().await;
            sleep(self.grace).await;
        };
        let offer = tokio::select! {
            offer = caught("initialize", offer) => offer?,
            // The client disconnected, so the offer has no recipient.
            () = gone => return Err(CallError::Unanswered),
        };
        let answer = offer.answer(version);
        let (logins, login_hint) =
            (offer.login_methods().map(Into::into), offer.login_hint().map(Into::into));
        let client = ClientFacts { logins, login_hint, ..client };
        self.worker.link = self.worker.link.to(client, !offer.service_sends_states());
        self.offer = Some(offer);
        Ok(answer)
    }

    fn notification(&mut self, message: &RpcMessage) {
        match message.method() {
            Some("session/cancel") => {
                if let Ok((session, extras)) =
                    call::cancelled_session(message.params(), self.worker.version())
                    && self.worker.sessions.cancel(&session, &extras)
                    && self.tasks.len() < MAX_REQUESTS
                {
                    self.tasks.spawn(self.worker.clone().cancel_turns(session, extras));
                }
            }
            Some("$/cancel_request") => {
                if let Some(request) = call::withdrawn_request(message.params()) {
                    self.withdraw(&request);
                }
            }
            _ => {}
        }
    }

    fn withdraw(&mut self, request: &RpcId) {
        let version = self.worker.version();
        let is_meant =
            |under_way: &&mut ActiveRequest| under_way.request == *request && !under_way.is_answered(version);
        let Some(under_way) = self.requests.values_mut().find(is_meant) else { return };
        match std::mem::replace(&mut under_way.withdrawal, Withdrawal::No) {
            Withdrawal::No => {}
            // The request may just have ended and have its reply.
            Withdrawal::Drop(signal) => drop(signal.send(())),
            Withdrawal::Turn(signal, _) => signal.give(CancelCause::Asked),
        }
    }

    fn start(&mut self, id: RpcId, call: ClientCall) {
        let worker = self.worker.clone();
        let request = id.clone();
        let under_way = |withdrawal| ActiveRequest { request, withdrawal };
        match call {
            ClientCall::New(call) => {
                let (withdrawal, withdrawn) = droppable();
                self.spawn(under_way(withdrawal), worker.new_session(id, call, withdrawn));
            }
            ClientCall::Restore(method, call) => {
                let (withdrawal, withdrawn) = droppable();
                let ticket = worker.order.restoring(&call.session);
                self.spawn(
                    under_way(withdrawal),
                    worker.restore_session(id, method, call, ticket, withdrawn),
                );
            }
            ClientCall::List(call) => {
                let (withdrawal, withdrawn) = droppable();
                self.spawn(under_way(withdrawal), worker.list_sessions(id, call, withdrawn));
            }
            ClientCall::Extension(call) => {
                let (withdrawal, withdrawn) = droppable();
                self.spawn(under_way(withdrawal), worker.extension(id, call, withdrawn));
            }
            ClientCall::Prompt(call) => self.prompt(id, call),
            ClientCall::Fork(call) => {
                let ticket = worker.order.shared(&call.session);
                self.spawn(under_way(Withdrawal::No), worker.fork_session(id, call, ticket));
            }
            ClientCall::Login(call) => {
                let (withdrawal, withdrawn) = droppable();
                self.spawn(under_way(withdrawal), worker.login(id, call, withdrawn));
            }
            ClientCall::Logout(extras) => self.spawn(under_way(Withdrawal::No), worker.logout(id, extras)),
            ClientCall::Set(call) if worker.sessions.is_active(&call.session) => {
                let ticket = worker.order.shared(&call.session);
                self.spawn(under_way(Withdrawal::No), worker.set(id, call, ticket));
            }
            ClientCall::Set(call) => self.refuse_inactive(id, call.session),
            ClientCall::Stop(call) if worker.sessions.is_active(&call.session) => {
                let ticket = worker.order.shared(&call.session);
                self.spawn(under_way(Withdrawal::No), worker.stop(id, call, ticket));
            }
            ClientCall::Stop(call) => self.refuse_inactive(id, call.session),
            ClientCall::Close(session) => {
                let leave = worker.leave(session);
                self.spawn(under_way(Withdrawal::No), worker.close_session(id, leave));
            }
            ClientCall::Delete(session, extras) => {
                let leave = worker.leave(session);
                self.spawn(under_way(Withdrawal::No), worker.delete_session(id, leave, extras));
            }
        }
    }

    fn prompt(&mut self, id: RpcId, call: PromptCall) {
        let worker = self.worker.clone();
        let service_queues = self.offer.as_ref().is_some_and(Offer::service_sends_states);
        match worker.sessions.begin_turn(&call, service_queues) {
            Some(mut turn) => {
                let waited_for = turn.insertion.take();
                let (session, blocks) = (call.session.clone(), call.blocks.clone());
                let insertion = Arc::new(PromptInsertion::new(id.clone(), session, blocks, waited_for));
                let withdrawal = Withdrawal::Turn(Arc::clone(&turn.signal), Arc::clone(&insertion));
                let under_way = ActiveRequest { request: id.clone(), withdrawal };
                self.spawn(under_way, worker.turn(id, call, turn, insertion));
            }
            None => self.refuse_inactive(id, call.session),
        }
    }

    fn refuse_inactive(&mut self, id: RpcId, session: AcpSessionId) {
        self.tasks.spawn(self.worker.clone().refuse_inactive(id, session).in_current_span());
    }

    fn refuse(&mut self, id: RpcId, error: CallError) {
        self.tasks.spawn(self.worker.clone().refuse(id, error).in_current_span());
    }

    fn spawn(&mut self, under_way: ActiveRequest, work: impl Future<Output = ()> + Send + 'static) {
        let task = self.tasks.spawn(work.in_current_span()).id();
        self.requests.insert(task, under_way);
    }

    fn joined(&mut self, joined: &Result<(Id, ()), JoinError>) {
        let task = match joined {
            Ok((task, ())) => *task,
            Err(error) => error.id(),
        };
        self.requests.remove(&task);
    }

    async fn end(mut self, grace: Duration) {
        self.worker.sessions.disconnected();
        self.worker.link.disconnected();
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        // Tasks that have not ended by then are dropped. A client that does not read receives nothing more.
        timeout(grace, ended).await.ok();
        self.tasks.shutdown().await;
        timeout(grace, self.worker.peer.close()).await.ok();
    }

    async fn leave(mut self, grace: Duration) {
        while self.tasks.join_next().await.is_some() {}
        timeout(grace, self.worker.peer.close()).await.ok();
    }
}

fn droppable() -> (Withdrawal, oneshot::Receiver<()>) {
    let (signal, withdrawn) = oneshot::channel();
    (Withdrawal::Drop(signal), withdrawn)
}

#[cfg(test)]
mod tests;
