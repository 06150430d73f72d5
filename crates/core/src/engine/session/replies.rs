//! Callers that wait for a session, and the replies to them.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::machine::{ForwardError, PromptRefusal, WakeError, WakeOutcome};
use crate::model::{ClientName, Fact, ForwardId, RequestId, TurnId};

use super::open_turns::EndWaiter;
use crate::engine::api::turn_handle::{TurnEnd, TurnInsertion};
use crate::engine::ops::delete::Deletion;
use crate::engine::permissions::request::ResponderSender;

/// Replies to one waiter. It is no error if the waiter is gone.
pub(crate) fn tell<T>(waiter: oneshot::Sender<T>, news: T) {
    drop(waiter.send(news));
}

/// The reply channels of a client that prompts.
pub(crate) struct PromptWaiter {
    pub(crate) accepted: oneshot::Sender<Result<TurnId, PromptRefusal>>,
    /// Dropped without a value if the prompt never becomes part of the conversation.
    pub(crate) inserted: oneshot::Sender<TurnInsertion>,
    pub(crate) over: oneshot::Sender<TurnEnd>,
    /// The client that answers the agent's requests.
    pub(crate) responder: Option<ResponderSender>,
}

#[derive(Default)]
pub(crate) struct Waiters {
    pub(crate) awake: Vec<oneshot::Sender<Result<WakeOutcome, WakeError>>>,
    pub(crate) parked: Vec<oneshot::Sender<bool>>,
    pub(crate) closed: Vec<oneshot::Sender<()>>,
    pub(crate) deleted: Vec<oneshot::Sender<Deletion>>,
    pub(crate) prompts: HashMap<RequestId, PromptWaiter>,
    /// Clients that have cancelled turns and wait for their ends.
    pub(crate) ends: Vec<EndWaiter>,
    /// Clients with a forwarded request.
    pub(crate) passes: HashMap<ForwardId, oneshot::Sender<Result<Arc<str>, ForwardError>>>,
    inserted: HashMap<TurnId, oneshot::Sender<TurnInsertion>>,
    over: HashMap<TurnId, oneshot::Sender<TurnEnd>>,
    /// The client that answers the agent's requests of each turn.
    responder: HashMap<TurnId, ResponderSender>,
    /// The client for turns without one.
    stand_in: Option<ResponderSender>,
    /// The names of the clients whose prompts have not begun, if they gave one.
    askers: HashMap<RequestId, ClientName>,
}

impl Waiters {
    pub(crate) fn tell_awake(&mut self, news: &Result<WakeOutcome, WakeError>) {
        for waiter in self.awake.drain(..) {
            tell(waiter, news.clone());
        }
    }

    pub(crate) fn tell_passed(&mut self, pass: ForwardId, answer: Result<Arc<str>, ForwardError>) {
        if let Some(waiter) = self.passes.remove(&pass) {
            tell(waiter, answer);
        }
    }

    pub(crate) fn tell_parked(&mut self, parked: bool) {
        for waiter in self.parked.drain(..) {
            tell(waiter, parked);
        }
    }

    pub(crate) fn tell_closed(&mut self, deletion: &Deletion) {
        for waiter in self.closed.drain(..) {
            tell(waiter, ());
        }
        for waiter in self.deleted.drain(..) {
            tell(waiter, deletion.clone());
        }
    }

    pub(crate) fn tell_accepted(&mut self, request: &RequestId, turn: TurnId) {
        if let Some(PromptWaiter { accepted, inserted, over, responder }) = self.prompts.remove(request) {
            self.inserted.insert(turn, inserted);
            self.over.insert(turn, over);
            self.responder.extend(responder.map(|responder| (turn, responder)));
            tell(accepted, Ok(turn));
        }
    }

    pub(crate) fn tell_refused(&mut self, request: &RequestId, refusal: PromptRefusal) {
        self.askers.remove(request);
        if let Some(PromptWaiter { accepted, .. }) = self.prompts.remove(request) {
            tell(accepted, Err(refusal));
        }
    }

    pub(crate) fn tell_inserted(&mut self, turn: TurnId, answer: Option<Arc<str>>) {
        if let Some(inserted) = self.inserted.remove(&turn) {
            tell(inserted, TurnInsertion { answer });
        }
    }

    pub(crate) fn tell_over(&mut self, end: TurnEnd) {
        let turn = &end.turn;
        self.inserted.remove(&turn.id);
        self.responder.remove(&turn.id);
        self.askers.remove(&turn.request);
        for waiter in self.ends.extract_if(.., |waiter| !waiter.note(&end)) {
            waiter.tell();
        }
        if let Some(over) = self.over.remove(&turn.id) {
            tell(over, end);
        }
    }

    /// Remembers the client's name until the prompt begins.
    pub(crate) fn asked_by(&mut self, request: &RequestId, client: Option<ClientName>) {
        self.askers.extend(client.map(|client| (request.clone(), client)));
    }

    /// Adds the client's name to the start of a turn.
    pub(crate) fn name_asker(&mut self, fact: &mut Fact) {
        if let Fact::TurnStarted { request_id, client, .. } = fact
            && let Ok(request) = RequestId::new(request_id.as_str())
        {
            *client = self.askers.remove(&request);
        }
    }

    /// Sets the client that answers the agent's requests of a turn.
    pub(crate) fn advise(&mut self, turn: TurnId, responder: ResponderSender) {
        self.responder.insert(turn, responder);
    }

    /// Sets the client for turns without one.
    pub(crate) fn stand_in(&mut self, responder: ResponderSender) {
        self.stand_in = Some(responder);
    }

    /// The client that answers the agent's requests of a turn.
    pub(crate) fn responder(&self, turn: TurnId) -> Option<&ResponderSender> {
        self.responder.get(&turn).or(self.stand_in.as_ref())
    }
}
