//! What clients ask of a session, and how its task takes each: every wish becomes an input of the machine, or is answered
//! from what the task knows.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::acp::ExtraParams;
use crate::acp::client::AgentResponse;
use crate::machine::{ForwardError, ForwardedRequest, Input, PassId, PromptRefusal, WakeError, WakeOutcome};
use crate::model::{
    AbsolutePath, AcpSessionId, AgentError, Fallback, McpServer, RequestId, Scope, Seq, Setting, Turn, TurnId,
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

/// Whether an agent may be parked that would forget its session with that.
pub(crate) enum Forgetting {
    Allowed,
    Unwanted,
}

/// What a client asks of a session.
pub(crate) enum SessionCommand {
    Wake(Box<RestoreSession>, oneshot::Sender<Result<WakeOutcome, WakeError>>),
    /// Return to an earlier ACP session.
    Return(AcpSessionId, Box<RestoreSession>, oneshot::Sender<Result<WakeOutcome, WakeError>>),
    Prompt {
        prompt: Box<Prompt>,
        waiter: PromptWaiter,
    },
    /// Whoever asks for a prompt again is asked what its turn still asks.
    Join(RequestId, Option<ResponderSender>, oneshot::Sender<Option<Turn>>),
    /// Whoever is asked where a turn has nobody of its own.
    Advise(ResponderSender),
    /// A request for the agent, beside any turn.
    Pass(Box<RestoreSession>, ForwardedRequest, oneshot::Sender<Result<Arc<str>, ForwardError>>),
    /// Nobody waits for its answer any more.
    Withdraw(PassId),
    /// What the agent has beside this session, if it is there.
    Inquire(Inquiry, oneshot::Sender<Result<AgentResponse, SessionQueryError>>),
    Cancel(Option<TurnId>, Option<ExtraParams>),
    /// Which turns are open?
    OpenTurns(oneshot::Sender<Vec<OpenTurnRef>>),
    /// Cancels these turns, and replies with the event of the last end when all of them are over.
    CancelTurns(Vec<TurnId>, Option<ExtraParams>, oneshot::Sender<Option<Seq>>),
    /// With a record that is to have the scope from then on.
    Close(Option<ScopeSuccessor>, oneshot::Sender<()>),
    /// Deletes a session whose client never heard of it, if it was never prompted.
    TakeBack(oneshot::Sender<Deletion>),
    Writer(oneshot::Sender<Option<SessionWriter>>),
    Delete(Option<ExtraParams>, oneshot::Sender<Deletion>),
    Park(Forgetting, oneshot::Sender<bool>),
    HasServers(Vec<McpServer>, oneshot::Sender<bool>),
    HasDirectories(Vec<AbsolutePath>, oneshot::Sender<bool>),
    /// What is waited for?
    Waiting(oneshot::Sender<Option<WaitReason>>),
    /// What has the agent not done in this time?
    SlowStart(Duration, Option<PassId>, oneshot::Sender<AgentError>),
    /// The setting that a word means is wished no more.
    Forget(Option<Box<str>>, oneshot::Sender<Option<Setting>>),
    Idle(Option<Duration>),
    Scope(Scope, oneshot::Sender<Result<(), StoreError>>),
    Move(Box<Moving>),
    Leave,
}

impl SessionCommand {
    /// Whether the agent is to do something.
    fn needs_agent(&self) -> bool {
        matches!(self, Self::Wake(..) | Self::Return(..) | Self::Prompt { .. } | Self::Pass(..))
    }
}

impl SessionTask {
    pub(crate) async fn take_command(&mut self, command: SessionCommand) -> Result<(), StoreError> {
        if command.needs_agent() {
            self.look_after_agent().await;
        }
        match command {
            SessionCommand::Wake(restore, reply) => self.take_wake(*restore, reply),
            SessionCommand::Return(session, restore, reply) => self.take_return(session, *restore, reply),
            SessionCommand::Prompt { prompt, waiter } => self.take_prompt(*prompt, waiter).await?,
            // The first may have been taken this moment: then it is kept before this is looked at.
            SessionCommand::Join(request, advisor, reply) => {
                self.outward.push(SessionAction::Joined(request, advisor, reply));
            }
            SessionCommand::Advise(advisor) => self.waiters.stand_in(advisor),
            SessionCommand::Pass(restore, pass, reply) => self.take_pass(*restore, pass, reply),
            SessionCommand::Withdraw(pass) => {
                self.waiters.passes.remove(&pass);
                self.step(Input::PassWithdrawn(pass));
            }
            SessionCommand::Inquire(inquiry, reply) => self.inquire(&inquiry, reply),
            SessionCommand::Cancel(turn, besides) => self.cancel(turn, besides),
            SessionCommand::OpenTurns(reply) => tell(reply, self.open_turns()),
            SessionCommand::CancelTurns(turns, besides, reply) => {
                self.cancel_turns(&turns, besides.as_ref(), reply);
            }
            SessionCommand::Close(heir, reply) => {
                if let Some(heir) = heir {
                    self.keeper.leave_scope_to(heir);
                }
                self.waiters.closed.push(reply);
                self.step(Input::Close);
            }
            SessionCommand::Writer(reply) => tell(reply, self.keeper.writer()),
            SessionCommand::TakeBack(reply) if self.keeper.has_begun_turn() => {
                tell(reply, Deletion::default());
            }
            SessionCommand::TakeBack(reply) => self.delete(None, reply),
            SessionCommand::Delete(besides, reply) => self.delete(besides, reply),
            SessionCommand::Park(Forgetting::Unwanted, reply) if self.machine.has_only_memory() => {
                tell(reply, false);
            }
            SessionCommand::Park(_, reply) => {
                self.waiters.parked.push(reply);
                self.step(Input::Park);
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
            SessionCommand::Scope(scope, reply) => self.outward.push(SessionAction::Scope(scope, reply)),
            SessionCommand::Move(moving) => self.outward.push(SessionAction::Move(moving)),
            SessionCommand::Leave => {
                self.step(Input::Leave);
                self.over = true;
            }
        }
        Ok(())
    }

    fn take_wake(&mut self, restore: RestoreSession, reply: oneshot::Sender<Result<WakeOutcome, WakeError>>) {
        let options = restore.options;
        let is_reset = options.fallback == Fallback::Reset;
        if let Some(refused) = self.machine.refuses_reset().filter(|_| is_reset) {
            return tell(reply, Err(refused));
        }
        self.waiters.awake.push(reply);
        self.prepare(restore);
        self.step(Input::Wake(options));
    }

    fn take_return(
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
        self.step(Input::Return(session));
    }

    async fn take_prompt(&mut self, prompt: Prompt, waiter: PromptWaiter) -> Result<(), StoreError> {
        let Prompt { blocks, policy, request, restore, client, besides, limits, spent } = prompt;
        if self.waiters.prompts.contains_key(&request) || self.keeper.turn_of(&request).await?.is_some() {
            tell(waiter.accepted, Err(PromptRefusal::RequestExists));
            return Ok(());
        }
        self.waiters.prompts.insert(request.clone(), waiter);
        self.waiters.asked_by(&request, client);
        self.metas.asked(&request, besides);
        let options = restore.options;
        self.given.insert(request.clone(), restore);
        self.step(Input::Prompt { request: request.clone(), prompt: blocks, policy, options, limits });
        self.limits.began_before(&self.machine, &request, spent);
        Ok(())
    }

    fn take_pass(
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
        self.step(Input::Pass(pass));
    }

    /// An agent that has just died may not have been heard of yet: others may hold its pipes. Nothing new is to be
    /// sent to it.
    async fn look_after_agent(&mut self) {
        let is_dead = self.agent.as_ref().is_some_and(|agent| !agent.process.is_running());
        if is_dead && self.machine.current_turn().is_none() {
            self.take_end().await;
        }
    }

    /// Whether so much waits for the agent to read it that it is sent no request of a client.
    pub(crate) fn agent_is_behind(&self) -> bool {
        self.agent.as_ref().is_some_and(|agent| !agent.sending.has_room())
    }

    fn delete(&mut self, besides: Option<ExtraParams>, reply: oneshot::Sender<Deletion>) {
        self.waiters.deleted.push(reply);
        self.metas.deleting = besides;
        self.note_deletion();
        self.step(Input::Delete);
    }

    /// Who is there to be told that the session is deleted.
    fn note_deletion(&mut self) {
        if let (Deletion::NotThere, Some(agent)) = (&self.deletion, &self.agent) {
            let is_offered = agent.connection.capabilities().sessions.delete;
            self.deletion = if is_offered { Deletion::Unanswered } else { Deletion::NotOffered };
        }
    }

    /// Cancels a turn, or whichever runs, and says besides to the agent what the client did.
    pub(crate) fn cancel(&mut self, turn: Option<TurnId>, besides: Option<ExtraParams>) {
        self.metas.cancelling = besides;
        self.step(Input::Cancel(turn));
        self.metas.cancelling = None;
    }

    /// Whether an agent runs, or is about to: it keeps what it was started with.
    fn has_agent(&self) -> bool {
        self.agent.is_some() || self.coming.is_some()
    }

    /// Takes what an agent is started with, if one is still to be.
    pub(crate) fn prepare(&mut self, restore: RestoreSession) {
        if !self.has_agent() {
            self.place.renew(restore);
        }
    }

    /// The agent has set the session up with what was given: from now on it is the record's.
    pub(crate) fn own_given(&mut self) {
        let before = std::mem::replace(&mut self.belongings, self.place.belongings());
        if self.place.has_moved(&before.agent) {
            self.keeper.keep_command(&self.place.agent);
        }
        if self.place.additional_directories != before.additional_directories {
            self.keeper.keep_additional_directories(&self.place.additional_directories);
        }
        if self.place.mcp_servers.left_out.is_empty() {
            self.keeper.keep_mcp_servers(self.place.mcp_servers.kept());
        }
    }

    /// The agent has not set the session up with what was given: the record keeps what it had.
    pub(crate) fn forget_given(&mut self) {
        self.place.restore(self.belongings.clone());
    }
}
