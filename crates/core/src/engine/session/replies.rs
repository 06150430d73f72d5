//! Clients that wait for a session, what they sent along with their requests, and the replies to them.
//!
//! `_meta` and unknown params of a client's request belong to that client and may be confidential. They are held in
//! memory until they are forwarded to the agent, and never stored.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::acp::ExtraParams;
use crate::acp::client::AgentResponse;
use crate::machine::{ForwardError, PromptRefusal, WakeError, WakeOutcome};
use crate::model::{AgentError, ClientName, Fact, ForwardId, RequestId, Seq, Turn, TurnId};
use crate::wire::RpcId;

use super::agent_query::AgentQueryError;
use crate::engine::RestoreSession;
use crate::engine::api::prompt::{TurnEnd, TurnInsertion};
use crate::engine::permissions::request::ResponderSender;

pub(crate) type WakeReply = oneshot::Sender<Result<WakeOutcome, WakeError>>;
pub(crate) type ForwardReply = oneshot::Sender<Result<Arc<str>, ForwardError>>;
pub(crate) type QueryReply = oneshot::Sender<Result<AgentResponse, AgentQueryError>>;

/// Replies to one client. It is no error if the client is gone.
pub(crate) fn send<T>(reply: oneshot::Sender<T>, value: T) {
    drop(reply.send(value));
}

/// Replies to clients that wait for the same.
pub(crate) fn send_all<T: Clone>(replies: &mut Vec<oneshot::Sender<T>>, value: &T) {
    for reply in replies.drain(..) {
        send(reply, value.clone());
    }
}

/// The agent's response to `session/delete`.
#[derive(Debug, Clone, Default)]
pub(crate) enum Deletion {
    /// No agent was running.
    #[default]
    NotRunning,
    /// The agent does not support the method.
    NotOffered,
    /// The agent did not reply.
    Unanswered,
    /// The agent's reply.
    Answered(Result<(), AgentError>),
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

/// A prompt from its arrival to the end of its turn.
struct PromptEntry {
    turn: Option<TurnId>,
    accepted: Option<oneshot::Sender<Result<TurnId, PromptRefusal>>>,
    inserted: Option<oneshot::Sender<TurnInsertion>>,
    over: oneshot::Sender<TurnEnd>,
    responder: Option<ResponderSender>,
    /// The client's name, if it gave one, until the turn begins.
    client: Option<ClientName>,
    /// They stay until the turn's end, because the prompt may be sent a second time.
    extra_params: Option<ExtraParams>,
    launch_values: RestoreSession,
}

/// A client that waits for turns to end.
struct EndWaiter {
    left: HashSet<TurnId>,
    last: Option<Seq>,
    reply: oneshot::Sender<Option<Seq>>,
}

/// The waiting clients of a session.
#[derive(Default)]
pub(crate) struct Replies {
    pub(crate) wakes: Vec<WakeReply>,
    pub(crate) parks: Vec<oneshot::Sender<bool>>,
    pub(crate) closes: Vec<oneshot::Sender<()>>,
    deletes: Vec<oneshot::Sender<Deletion>>,
    prompts: HashMap<RequestId, PromptEntry>,
    /// Clients that have cancelled turns and wait for their ends.
    ends: Vec<EndWaiter>,
    /// Clients with a forwarded request.
    pub(crate) forwards: HashMap<ForwardId, ForwardReply>,
    /// Callers with a query about the agent's other sessions.
    pub(crate) queries: HashMap<RpcId, QueryReply>,
    /// The client that answers the agent's requests of a turn that another client began.
    joined: HashMap<TurnId, ResponderSender>,
    /// The client for turns without one.
    pub(crate) default_responder: Option<ResponderSender>,
    /// The extra params of a cancel, while it is executed.
    pub(crate) cancel_params: Option<ExtraParams>,
    pub(crate) delete_params: Option<ExtraParams>,
    /// The agent's response to `session/delete`, if the session is being deleted.
    pub(crate) deletion: Deletion,
    /// The agent's full result of a prompt, while it ends the turn.
    pub(crate) prompt_result: Option<Arc<str>>,
    /// The `_meta` object of a version 2 agent's last state update.
    pub(crate) idle_meta: Option<Arc<str>>,
}

impl Replies {
    /// Adds a client that deletes the session. `is_offered` is whether a running agent supports `session/delete`.
    pub(crate) fn add_delete(
        &mut self,
        reply: oneshot::Sender<Deletion>,
        params: Option<ExtraParams>,
        is_offered: Option<bool>,
    ) {
        self.deletes.push(reply);
        self.delete_params = params;
        if let (Deletion::NotRunning, Some(is_offered)) = (&self.deletion, is_offered) {
            self.deletion = if is_offered { Deletion::Unanswered } else { Deletion::NotOffered };
        }
    }

    pub(crate) fn send_closed(&mut self) {
        send_all(&mut self.closes, &());
        send_all(&mut self.deletes, &self.deletion);
    }

    pub(crate) fn send_forwarded(&mut self, id: ForwardId, answer: Result<Arc<str>, ForwardError>) {
        if let Some(reply) = self.forwards.remove(&id) {
            send(reply, answer);
        }
    }

    pub(crate) fn send_queried(&mut self, id: &RpcId, response: AgentResponse) {
        if let Some(reply) = self.queries.remove(id) {
            send(reply, Ok(response));
        }
    }

    pub(crate) fn has_prompt(&self, request: &RequestId) -> bool {
        self.prompts.contains_key(request)
    }

    pub(crate) fn add_prompt(
        &mut self,
        request: RequestId,
        waiter: PromptWaiter,
        client: Option<ClientName>,
        extra_params: Option<ExtraParams>,
        launch_values: RestoreSession,
    ) {
        let PromptWaiter { accepted, inserted, over, responder } = waiter;
        let (turn, accepted, inserted) = (None, Some(accepted), Some(inserted));
        let prompt =
            PromptEntry { turn, accepted, inserted, over, responder, client, extra_params, launch_values };
        self.prompts.insert(request, prompt);
    }

    /// The values that the client of a prompt gave for the agent's start.
    pub(crate) fn launch_values(&self, request: &RequestId) -> Option<&RestoreSession> {
        self.prompts.get(request).map(|prompt| &prompt.launch_values)
    }

    fn prompt_of(&self, turn: TurnId) -> Option<&PromptEntry> {
        self.prompts.values().find(|prompt| prompt.turn == Some(turn))
    }

    pub(crate) fn extra_params_of(&self, turn: TurnId) -> Option<&ExtraParams> {
        self.prompt_of(turn)?.extra_params.as_ref()
    }

    /// Assigns a turn to a prompt. The client learns it once that is persisted.
    pub(crate) fn assign_turn(&mut self, request: &RequestId, turn: TurnId) {
        if let Some(prompt) = self.prompts.get_mut(request) {
            prompt.turn = Some(turn);
        }
    }

    pub(crate) fn send_accepted(&mut self, request: &RequestId, turn: TurnId) {
        if let Some(reply) = self.prompts.get_mut(request).and_then(|prompt| prompt.accepted.take()) {
            send(reply, Ok(turn));
        }
    }

    pub(crate) fn send_refused(&mut self, request: &RequestId, refusal: PromptRefusal) {
        if let Some(reply) = self.prompts.remove(request).and_then(|prompt| prompt.accepted) {
            send(reply, Err(refusal));
        }
    }

    pub(crate) fn send_inserted(&mut self, turn: TurnId, answer: Option<Arc<str>>) {
        let prompt = self.prompts.values_mut().find(|prompt| prompt.turn == Some(turn));
        if let Some(reply) = prompt.and_then(|prompt| prompt.inserted.take()) {
            send(reply, TurnInsertion { answer });
        }
    }

    /// The end of the running turn, or of one that was only queued. The agent's messages concern only the first.
    pub(crate) fn turn_end(&mut self, turn: Turn, seq: Seq, dropped_lines: Option<u64>) -> TurnEnd {
        let mut end = TurnEnd::kept(turn, Some(seq));
        if let Some(dropped_lines) = dropped_lines {
            end.dropped_lines = dropped_lines;
            (end.answer, end.meta) = (self.prompt_result.take(), self.idle_meta.take());
        }
        end
    }

    pub(crate) fn send_over(&mut self, end: TurnEnd) {
        self.joined.remove(&end.turn.id);
        let is_waiting = |waiter: &mut EndWaiter| {
            if waiter.left.remove(&end.turn.id) {
                waiter.last = waiter.last.max(end.seq);
            }
            !waiter.left.is_empty()
        };
        for waiter in self.ends.extract_if(.., |waiter| !is_waiting(waiter)) {
            send(waiter.reply, waiter.last);
        }
        if let Some(prompt) = self.prompts.remove(&end.turn.request) {
            send(prompt.over, end);
        }
    }

    /// Replies with the event of the last end when all these turns are over.
    pub(crate) fn add_end_waiter(&mut self, turns: HashSet<TurnId>, reply: oneshot::Sender<Option<Seq>>) {
        if turns.is_empty() {
            return send(reply, None);
        }
        self.ends.push(EndWaiter { left: turns, last: None, reply });
    }

    /// Adds the client's name to the start of a turn.
    pub(crate) fn name_client(&mut self, fact: &mut Fact) {
        if let Fact::TurnStarted { request_id, client, .. } = fact
            && let Ok(request) = RequestId::new(request_id.as_str())
        {
            *client = self.prompts.get_mut(&request).and_then(|prompt| prompt.client.take());
        }
    }

    /// Sets the client that answers the agent's requests of a turn.
    pub(crate) fn join(&mut self, turn: TurnId, responder: ResponderSender) {
        self.joined.insert(turn, responder);
    }

    /// The client that answers the agent's requests of a turn.
    pub(crate) fn responder(&self, turn: TurnId) -> Option<&ResponderSender> {
        let own = || self.prompt_of(turn).and_then(|prompt| prompt.responder.as_ref());
        self.joined.get(&turn).or_else(own).or(self.default_responder.as_ref())
    }
}
