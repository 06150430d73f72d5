//! Those who wait for a session to do something, and how they are told.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::machine::{Asleep, Awakening, PassId, Refusal, Unpassed};
use crate::model::{ClientName, Fact, RequestId, TurnId};

use super::open_turns::EndWaiter;
use crate::engine::api::turn_handle::{Insertion, TurnEnd};
use crate::engine::ops::delete::Deletion;
use crate::engine::permissions::request::Advisor;

/// Tells one waiter; one that no longer waits is not an error.
pub(crate) fn tell<T>(waiter: oneshot::Sender<T>, news: T) {
    drop(waiter.send(news));
}

/// What a client that prompts waits for.
pub(crate) struct PromptWaiter {
    pub(crate) accepted: oneshot::Sender<Result<TurnId, Refusal>>,
    /// Dropped untold if the prompt never becomes part of the conversation.
    pub(crate) inserted: oneshot::Sender<Insertion>,
    pub(crate) over: oneshot::Sender<TurnEnd>,
    /// Whom to ask what the agent asks.
    pub(crate) advisor: Option<Advisor>,
}

#[derive(Default)]
pub(crate) struct Waiters {
    pub(crate) awake: Vec<oneshot::Sender<Result<Awakening, Asleep>>>,
    pub(crate) parked: Vec<oneshot::Sender<bool>>,
    pub(crate) closed: Vec<oneshot::Sender<()>>,
    pub(crate) deleted: Vec<oneshot::Sender<Deletion>>,
    pub(crate) prompts: HashMap<RequestId, PromptWaiter>,
    /// Those who have cancelled turns and wait for their ends.
    pub(crate) ends: Vec<EndWaiter>,
    /// Those whose request went to the agent.
    pub(crate) passes: HashMap<PassId, oneshot::Sender<Result<Arc<str>, Unpassed>>>,
    inserted: HashMap<TurnId, oneshot::Sender<Insertion>>,
    over: HashMap<TurnId, oneshot::Sender<TurnEnd>>,
    /// Whom to ask what the agent asks in a turn.
    advisors: HashMap<TurnId, Advisor>,
    /// Whom to ask where a turn has nobody.
    stand_in: Option<Advisor>,
    /// Who asked for the prompts that have not begun, as far as they said.
    askers: HashMap<RequestId, ClientName>,
}

impl Waiters {
    pub(crate) fn tell_awake(&mut self, news: &Result<Awakening, Asleep>) {
        for waiter in self.awake.drain(..) {
            tell(waiter, news.clone());
        }
    }

    pub(crate) fn tell_passed(&mut self, pass: PassId, answer: Result<Arc<str>, Unpassed>) {
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
        if let Some(PromptWaiter { accepted, inserted, over, advisor }) = self.prompts.remove(request) {
            self.inserted.insert(turn, inserted);
            self.over.insert(turn, over);
            self.advisors.extend(advisor.map(|advisor| (turn, advisor)));
            tell(accepted, Ok(turn));
        }
    }

    pub(crate) fn tell_refused(&mut self, request: &RequestId, refusal: Refusal) {
        self.askers.remove(request);
        if let Some(PromptWaiter { accepted, .. }) = self.prompts.remove(request) {
            tell(accepted, Err(refusal));
        }
    }

    pub(crate) fn tell_inserted(&mut self, turn: TurnId, answer: Option<Arc<str>>) {
        if let Some(inserted) = self.inserted.remove(&turn) {
            tell(inserted, Insertion { answer });
        }
    }

    pub(crate) fn tell_over(&mut self, end: TurnEnd) {
        let turn = &end.turn;
        self.inserted.remove(&turn.id);
        self.advisors.remove(&turn.id);
        self.askers.remove(&turn.request);
        for waiter in self.ends.extract_if(.., |waiter| !waiter.note(&end)) {
            waiter.tell();
        }
        if let Some(over) = self.over.remove(&turn.id) {
            tell(over, end);
        }
    }

    /// Remembers who asks, until the prompt begins.
    pub(crate) fn asked_by(&mut self, request: &RequestId, client: Option<ClientName>) {
        self.askers.extend(client.map(|client| (request.clone(), client)));
    }

    /// Says of a turn that begins who asked for it.
    pub(crate) fn name_asker(&mut self, fact: &mut Fact) {
        if let Fact::TurnStarted { request_id, client, .. } = fact
            && let Ok(request) = RequestId::new(request_id.as_str())
        {
            *client = self.askers.remove(&request);
        }
    }

    /// From here on this one is asked about a turn.
    pub(crate) fn advise(&mut self, turn: TurnId, advisor: Advisor) {
        self.advisors.insert(turn, advisor);
    }

    /// From here on this one is asked about turns that have nobody.
    pub(crate) fn stand_in(&mut self, advisor: Advisor) {
        self.stand_in = Some(advisor);
    }

    /// Whom to ask about a turn.
    pub(crate) fn advisor(&self, turn: TurnId) -> Option<&Advisor> {
        self.advisors.get(&turn).or(self.stand_in.as_ref())
    }
}
