//! Commands that clients send to a session's task. Each becomes an input of the state machine, or the task replies from
//! its own state.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::acp::ExtraParams;
use crate::acp::client::AgentResponse;
use crate::machine::{ForwardError, ForwardedRequest, Input, PromptRefusal, WakeError, WakeOutcome};
use crate::model::{
    AbsolutePath, AcpSessionId, AgentError, Fallback, ForwardId, McpServer, RequestId, Scope, Seq, Setting,
    Turn, TurnId,
};
use crate::store::{SessionWriter, StoreError};

use super::effects::SessionAction;
use super::journal::ScopeSuccessor;
use super::open_turns::OpenTurnRef;
use super::replies::{PromptWaiter, tell};
use super::task::SessionTask;
use super::wait_reason::WaitReason;
use crate::engine::ops::delete::Deletion;
use crate::engine::ops::relocate::Moving;
use crate::engine::ops::session_query::{Inquiry, SessionQueryError};
use crate::engine::permissions::request::ResponderSender;
use crate::engine::{Prompt, RestoreSession};

/// Whether an agent may be parked that cannot restore its session.
pub(crate) enum Forgetting {
    Allowed,
    Unwanted,
}

/// A command for a session's task.
pub(crate) enum SessionCommand {
    Wake(Box<RestoreSession>, oneshot::Sender<Result<WakeOutcome, WakeError>>),
    /// Return to an earlier ACP session.
    Return(AcpSessionId, Box<RestoreSession>, oneshot::Sender<Result<WakeOutcome, WakeError>>),
    Prompt {
        prompt: Box<Prompt>,
        waiter: PromptWaiter,
    },
    /// Attaches to a turn again and receives its pending requests.
    Join(RequestId, Option<ResponderSender>, oneshot::Sender<Option<Turn>>),
    /// Sets the client for requests of turns without a client.
    Advise(ResponderSender),
    /// Forwards a request to the agent, outside any turn.
    Pass(Box<RestoreSession>, ForwardedRequest, oneshot::Sender<Result<Arc<str>, ForwardError>>),
    /// Withdraws a forwarded request.
    Withdraw(ForwardId),
    /// Queries the agent about its other sessions, if it runs.
    Inquire(Inquiry, oneshot::Sender<Result<AgentResponse, SessionQueryError>>),
    Cancel(Option<TurnId>, Option<ExtraParams>),
    /// Lists the open turns.
    OpenTurns(oneshot::Sender<Vec<OpenTurnRef>>),
    /// Cancels these turns, and replies with the event of the last end when all of them are over.
    CancelTurns(Vec<TurnId>, Option<ExtraParams>, oneshot::Sender<Option<Seq>>),
    /// Closes the session, and moves the scope to the given record, if any.
    Close(Option<ScopeSuccessor>, oneshot::Sender<()>),
    /// Deletes a session that its client does not know yet, if it was never prompted.
    TakeBack(oneshot::Sender<Deletion>),
    Writer(oneshot::Sender<Option<SessionWriter>>),
    Delete(Option<ExtraParams>, oneshot::Sender<Deletion>),
    Park(Forgetting, oneshot::Sender<bool>),
    HasServers(Vec<McpServer>, oneshot::Sender<bool>),
    HasDirectories(Vec<AbsolutePath>, oneshot::Sender<bool>),
    /// Reports what the session waits for.
    Waiting(oneshot::Sender<Option<WaitReason>>),
    /// Reports what the agent has not done in this time.
    SlowStart(Duration, Option<ForwardId>, oneshot::Sender<AgentError>),
    /// Removes the requested setting that a word means.
    Forget(Option<Box<str>>, oneshot::Sender<Option<Setting>>),
    Idle(Option<Duration>),
    Scope(Scope, oneshot::Sender<Result<(), StoreError>>),
    Move(Box<Moving>),
    Leave,
}

impl SessionCommand {
    /// Whether the command needs the agent.
    fn needs_agent(&self) -> bool {
        matches!(self, Self::Wake(..) | Self::Return(..) | Self::Prompt { .. } | Self::Pass(..))
    }
}

impl SessionTask {
    pub(crate) async fn on_command(&mut self, command: SessionCommand) -> Result<(), StoreError> {
        if command.needs_agent() {
            self.look_after_agent().await;
        }
        match command {
            SessionCommand::Wake(restore, reply) => self.wake(*restore, reply),
            SessionCommand::Return(session, restore, reply) => self.return_to(session, *restore, reply),
            SessionCommand::Prompt { prompt, waiter } => self.prompt(*prompt, waiter).await?,
            // The first prompt may just have been accepted. It is persisted before this action runs.
            SessionCommand::Join(request, responder, reply) => {
                self.actions.push(SessionAction::Joined(request, responder, reply));
            }
            SessionCommand::Advise(responder) => self.waiters.stand_in(responder),
            SessionCommand::Pass(restore, pass, reply) => self.forward(*restore, pass, reply),
            SessionCommand::Withdraw(pass) => {
                self.waiters.passes.remove(&pass);
                self.feed(Input::ForwardCancelled(pass));
            }
            SessionCommand::Inquire(inquiry, reply) => self.inquire(&inquiry, reply),
            SessionCommand::Cancel(turn, besides) => self.cancel(turn, besides),
            SessionCommand::OpenTurns(reply) => tell(reply, self.open_turns()),
            SessionCommand::CancelTurns(turns, besides, reply) => {
                self.cancel_turns(&turns, besides.as_ref(), reply);
            }
            SessionCommand::Close(successor, reply) => {
                if let Some(successor) = successor {
                    self.journal.leave_scope_to(successor);
                }
                self.waiters.closed.push(reply);
                self.feed(Input::Close);
            }
            SessionCommand::Writer(reply) => tell(reply, self.journal.writer()),
            SessionCommand::TakeBack(reply) if self.journal.has_begun_turn() => {
                tell(reply, Deletion::default());
            }
            SessionCommand::TakeBack(reply) => self.delete(None, reply),
            SessionCommand::Delete(besides, reply) => self.delete(besides, reply),
            SessionCommand::Park(Forgetting::Unwanted, reply) if self.machine.has_only_memory() => {
                tell(reply, false);
            }
            SessionCommand::Park(_, reply) => {
                self.waiters.parked.push(reply);
                self.feed(Input::Park);
            }
            SessionCommand::HasServers(servers, reply) => {
                tell(reply, !self.has_agent() || self.place.mcp_servers.list == servers);
            }
            SessionCommand::HasDirectories(directories, reply) => {
                tell(reply, !self.has_agent() || self.place.additional_directories == directories);
            }
            SessionCommand::Waiting(reply) => tell(reply, self.waiting()),
            SessionCommand::SlowStart(wait, pass, reply) => tell(reply, self.slow_start(wait, pass)),
            SessionCommand::Forget(word, reply) => self.forget(word.as_deref(), reply),
            SessionCommand::Idle(limit) => {
                (self.idle, self.idle_is_wanted) = (limit, true);
                self.renew_idle_time();
            }
            SessionCommand::Scope(scope, reply) => self.actions.push(SessionAction::Scope(scope, reply)),
            SessionCommand::Move(moving) => self.actions.push(SessionAction::Move(moving)),
            SessionCommand::Leave => {
                self.feed(Input::HostStopping);
                self.over = true;
            }
        }
        Ok(())
    }

    fn wake(&mut self, restore: RestoreSession, reply: oneshot::Sender<Result<WakeOutcome, WakeError>>) {
        let options = restore.options;
        let is_reset = options.fallback == Fallback::Reset;
        if let Some(refused) = self.machine.refuses_reset().filter(|_| is_reset) {
            return tell(reply, Err(refused));
        }
        self.waiters.awake.push(reply);
        self.prepare(restore);
        self.feed(Input::Wake(options));
    }

    fn return_to(
        &mut self,
        session: AcpSessionId,
        restore: RestoreSession,
        reply: oneshot::Sender<Result<WakeOutcome, WakeError>>,
    ) {
        if let Some(refused) = self.machine.refuses_return(&session) {
            return tell(reply, Err(refused));
        }
        self.waiters.awake.push(reply);
        self.prepare(restore);
        self.feed(Input::Return(session));
    }

    async fn prompt(&mut self, prompt: Prompt, waiter: PromptWaiter) -> Result<(), StoreError> {
        let Prompt { blocks, policy, request, restore, client, besides, limits, spent } = prompt;
        if self.waiters.prompts.contains_key(&request) || self.journal.turn_of(&request).await?.is_some() {
            tell(waiter.accepted, Err(PromptRefusal::RequestExists));
            return Ok(());
        }
        self.waiters.prompts.insert(request.clone(), waiter);
        self.waiters.asked_by(&request, client);
        self.metas.asked(&request, besides);
        let options = restore.options;
        self.launch_values.insert(request.clone(), restore);
        self.feed(Input::Prompt { request: request.clone(), prompt: blocks, policy, options, limits });
        self.limits.began_before(&self.machine, &request, spent);
        Ok(())
    }

    fn forward(
        &mut self,
        restore: RestoreSession,
        pass: ForwardedRequest,
        reply: oneshot::Sender<Result<Arc<str>, ForwardError>>,
    ) {
        if self.agent_is_behind() {
            return tell(reply, Err(ForwardError::TooMany));
        }
        self.waiters.passes.insert(pass.id, reply);
        self.prepare(restore);
        self.feed(Input::Forward(pass));
    }

    /// Detects an agent that has exited while other processes hold its pipes open, so that no new request is sent to
    /// it.
    async fn look_after_agent(&mut self) {
        let is_dead = self.agent.as_ref().is_some_and(|agent| !agent.process.is_running());
        if is_dead && self.machine.current_turn().is_none() {
            self.on_agent_exit().await;
        }
    }

    /// Whether the agent's send queue is full, so that client requests are refused.
    pub(crate) fn agent_is_behind(&self) -> bool {
        self.agent.as_ref().is_some_and(|agent| !agent.sending.has_room())
    }

    fn delete(&mut self, besides: Option<ExtraParams>, reply: oneshot::Sender<Deletion>) {
        self.waiters.deleted.push(reply);
        self.metas.deleting = besides;
        self.note_deletion();
        self.feed(Input::Delete);
    }

    /// Notes whether a running agent supports `session/delete`.
    fn note_deletion(&mut self) {
        if let (Deletion::NotThere, Some(agent)) = (&self.deletion, &self.agent) {
            let is_offered = agent.connection.capabilities().sessions.delete;
            self.deletion = if is_offered { Deletion::Unanswered } else { Deletion::NotOffered };
        }
    }

    /// Cancels a turn, or the running one, and forwards the client's extra params.
    pub(crate) fn cancel(&mut self, turn: Option<TurnId>, besides: Option<ExtraParams>) {
        self.metas.cancelling = besides;
        self.feed(Input::Cancel(turn));
        self.metas.cancelling = None;
    }

    /// Whether an agent runs or is starting. Its launch spec cannot change then.
    fn has_agent(&self) -> bool {
        self.agent.is_some() || self.coming.is_some()
    }

    /// Applies launch values, if the agent is not started yet.
    pub(crate) fn prepare(&mut self, restore: RestoreSession) {
        if !self.has_agent() {
            self.place.renew(restore);
        }
    }

    /// Persists the launch values after the agent has set the session up with them.
    pub(crate) fn own_given(&mut self) {
        let before = std::mem::replace(&mut self.persisted, self.place.persisted());
        if self.place.has_moved(&before.agent) {
            self.journal.set_agent_command(&self.place.agent);
        }
        if self.place.additional_directories != before.additional_directories {
            self.journal.set_additional_directories(&self.place.additional_directories);
        }
        if self.place.mcp_servers.left_out.is_empty() {
            self.journal.set_mcp_servers(self.place.mcp_servers.kept());
        }
    }

    /// Restores the previous launch values after the agent failed to set the session up.
    pub(crate) fn forget_given(&mut self) {
        self.place.restore(self.persisted.clone());
    }
}
