//! Commands that clients send to a session's task. Each becomes an input of the state machine, or the task replies from
//! its own state.

use std::time::Duration;

use tokio::sync::oneshot;

use crate::acp::{ExtraParams, title_line};
use crate::machine::{ForwardError, ForwardedRequest, Input, PromptRefusal, WaitCondition};
use crate::model::{
    AbsolutePath, AcpSessionId, AgentError, Fact, Fallback, ForwardId, Lifecycle, McpServer, Record,
    RequestId, Scope, Seq, Setting, SetupOptions, Timestamp, Turn, TurnId,
};
use crate::store::{SessionWriter, StoreError};

use super::agent_query::{AgentQuery, AgentQueryError};
use super::effects::SessionAction;
use super::journal::{ScopeChange, ScopeSuccessor};
use super::replies::{Deletion, ForwardReply, PromptWaiter, QueryReply, WakeReply, send};
use super::task::SessionTask;
use super::wait_reason::WaitReason;
use crate::engine::agent::directory::moved_with;
use crate::engine::permissions::request::ResponderSender;
use crate::engine::{Prompt, RestoreSession};

/// Whether an agent may be parked that cannot restore its session.
pub(crate) enum UnrestorablePark {
    Allowed,
    Refused,
}

/// Why a record cannot be moved.
pub(crate) enum MoveError {
    /// It has an agent or work.
    Busy,
    Store(StoreError),
}

/// A running or queued turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenTurnRef {
    /// Its id.
    pub(crate) id: TurnId,
    /// The request id of its prompt.
    pub(crate) request: RequestId,
}

impl OpenTurnRef {
    fn of(turn: &Turn) -> Self {
        Self { id: turn.id, request: turn.request.clone() }
    }
}

/// What keeps a record from being deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeletionObstacle {
    /// A turn has begun since the session did.
    BegunTurn,
    /// A turn runs or is queued, or the record does not meet the conditions.
    NotPrunable(PruneConditions),
}

/// What a record without open turns must be to be pruned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PruneConditions {
    /// Whether it may be open.
    pub(crate) include_open: bool,
    /// It was not used or closed after this time.
    pub(crate) unchanged_since: Option<Timestamp>,
}

impl PruneConditions {
    fn are_met_by(&self, record: &Record) -> bool {
        (self.include_open || record.lifecycle != Lifecycle::Open)
            && self.unchanged_since.is_none_or(|since| record.updated_at <= since)
    }
}

/// A command for a session's task.
pub(crate) enum SessionCommand {
    Wake(Box<RestoreSession>, WakeReply),
    /// Return to an earlier ACP session.
    Return(AcpSessionId, Box<RestoreSession>, WakeReply),
    Prompt {
        prompt: Box<Prompt>,
        waiter: PromptWaiter,
    },
    /// Sets the client for requests of turns without a client.
    SetFallbackResponder(ResponderSender),
    /// Forwards a request to the agent, outside any turn.
    Forward(Box<RestoreSession>, ForwardedRequest, ForwardReply),
    /// Withdraws a forwarded request.
    Withdraw(ForwardId),
    /// Queries the agent about its other sessions, if it runs.
    Query(AgentQuery, QueryReply),
    Cancel(Option<TurnId>, Option<ExtraParams>),
    /// Lists the open turns.
    OpenTurns(oneshot::Sender<Vec<OpenTurnRef>>),
    /// Cancels these turns, and replies with the event of the last end when all of them are over.
    CancelTurns(Vec<TurnId>, Option<ExtraParams>, oneshot::Sender<Option<Seq>>),
    /// Cancels those of these prompts that are not sent, and replies with their request ids.
    DropQueued(Vec<RequestId>, oneshot::Sender<Vec<RequestId>>),
    /// Closes the session, and moves the scope to the given record, if any.
    Close(Option<ScopeSuccessor>, oneshot::Sender<()>),
    /// Deletes the record, unless something keeps it.
    DeleteUnless(DeletionObstacle, oneshot::Sender<Deletion>),
    Writer(oneshot::Sender<Option<SessionWriter>>),
    Delete(Option<ExtraParams>, oneshot::Sender<Deletion>),
    Park(UnrestorablePark, oneshot::Sender<bool>),
    HasServers(Vec<McpServer>, oneshot::Sender<bool>),
    HasDirectories(Vec<AbsolutePath>, oneshot::Sender<bool>),
    HasSetup(SetupOptions, oneshot::Sender<bool>),
    /// Reports what the session waits for.
    Waiting(oneshot::Sender<Option<WaitReason>>),
    /// Reports what the agent has not done in this time.
    SlowStart(Duration, Option<ForwardId>, oneshot::Sender<AgentError>),
    /// Removes the requested setting that a word means.
    Forget(Option<Box<str>>, oneshot::Sender<Option<Setting>>),
    Idle(Option<Duration>),
    Deferred(DeferredCommand),
    Leave,
}

/// A command that is executed after the changes before it are persisted.
pub(crate) enum DeferredCommand {
    /// Attaches to a turn again and receives its pending requests.
    Join(RequestId, Option<ResponderSender>, oneshot::Sender<Option<Turn>>),
    Scope(Scope, oneshot::Sender<Result<(), StoreError>>),
    /// Sets the user's title.
    Title(String, oneshot::Sender<()>),
    /// Moves the record to a directory with this path and real path, unless it has an agent or work. Replies with the
    /// additional directories outside the old directory, which stay unchanged.
    Move {
        cwd: AbsolutePath,
        real_cwd: AbsolutePath,
        reply: oneshot::Sender<Result<Vec<AbsolutePath>, MoveError>>,
    },
}

impl SessionCommand {
    /// Whether the command needs the agent.
    fn needs_agent(&self) -> bool {
        matches!(self, Self::Wake(..) | Self::Return(..) | Self::Prompt { .. } | Self::Forward(..))
    }
}

impl SessionTask {
    pub(super) async fn on_command(&mut self, command: SessionCommand) -> Result<(), StoreError> {
        // An agent may have exited while other processes hold its pipes open. No new request is sent to it.
        if command.needs_agent() && self.agent.is_dead() && self.machine.current_turn().is_none() {
            self.on_agent_exit().await;
        }
        match command {
            SessionCommand::Wake(restore, reply) => self.wake(*restore, reply),
            SessionCommand::Return(session, restore, reply) => self.return_to(session, *restore, reply),
            SessionCommand::Prompt { prompt, waiter } => self.prompt(*prompt, waiter).await?,
            SessionCommand::SetFallbackResponder(responder) => {
                self.replies.default_responder = Some(responder);
            }
            SessionCommand::Forward(restore, forward, reply) => self.forward(*restore, forward, reply),
            SessionCommand::Withdraw(forward) => {
                self.replies.forwards.remove(&forward);
                self.feed(Input::ForwardCancelled(forward));
            }
            SessionCommand::Query(query, reply) => self.query(&query, reply),
            SessionCommand::Cancel(turn, extra_params) => self.cancel(turn, extra_params),
            SessionCommand::OpenTurns(reply) => {
                send(reply, self.machine.open_turns().map(OpenTurnRef::of).collect());
            }
            SessionCommand::CancelTurns(turns, extra_params, reply) => {
                self.cancel_turns(&turns, extra_params.as_ref(), reply);
            }
            SessionCommand::DropQueued(requests, reply) => self.drop_queued(&requests, reply),
            SessionCommand::Close(successor, reply) => {
                if let Some(successor) = successor {
                    self.journal.leave_scope_to(successor);
                }
                self.replies.closes.push(reply);
                self.feed(Input::Close);
            }
            SessionCommand::Writer(reply) => send(reply, self.journal.writer()),
            SessionCommand::DeleteUnless(obstacle, reply) => self.delete_unless(obstacle, reply).await?,
            SessionCommand::Delete(extra_params, reply) => self.delete(extra_params, reply),
            SessionCommand::Park(UnrestorablePark::Refused, reply) if self.machine.has_only_memory() => {
                send(reply, false);
            }
            SessionCommand::Park(_, reply) => {
                self.replies.parks.push(reply);
                self.feed(Input::Park);
            }
            SessionCommand::HasServers(servers, reply) => {
                send(reply, !self.agent.is_launched() || self.launch.mcp_servers.list == servers);
            }
            SessionCommand::HasDirectories(directories, reply) => {
                send(reply, !self.agent.is_launched() || self.launch.additional_directories == directories);
            }
            SessionCommand::HasSetup(setup, reply) => send(reply, self.has_setup(&setup)),
            SessionCommand::Waiting(reply) => {
                send(reply, self.wait_reason().map(|reason| self.timers.wait.with_times(reason)));
            }
            SessionCommand::SlowStart(wait, forward, reply) => send(reply, self.slow_start(wait, forward)),
            SessionCommand::Forget(word, reply) => self.forget_setting(word.as_deref(), reply),
            SessionCommand::Idle(limit) => {
                self.timers.set_idle(limit);
                self.restart_idle_time();
            }
            // A first prompt to join may just have been accepted. It is persisted before the command is executed.
            SessionCommand::Deferred(command) => self.actions.push(SessionAction::Command(command)),
            SessionCommand::Leave => {
                self.feed(Input::HostStopping);
                self.over = true;
            }
        }
        Ok(())
    }

    /// Whether the agent was set up with these options, or can still be.
    fn has_setup(&self, setup: &SetupOptions) -> bool {
        let own = &self.launch.setup;
        !self.agent.is_launched() || own.updated_by(setup) == *own
    }

    /// Executes a command that waits for the changes before it to be persisted.
    pub(super) async fn on_deferred_command(&mut self, command: DeferredCommand) -> Result<(), StoreError> {
        match command {
            DeferredCommand::Join(request, responder, reply) => {
                let turn = self.journal.turn_of(&request).await?;
                if let (Some(turn), Some(responder)) =
                    (turn.as_ref().filter(|turn| turn.is_open()), responder)
                {
                    self.replies.join(turn.id, responder);
                }
                send(reply, turn);
            }
            DeferredCommand::Scope(scope, reply) => match self.journal.set_scope(scope).await {
                Err(error) if !matches!(error, StoreError::ScopeTaken { .. }) => return Err(error),
                stored => send(reply, stored),
            },
            DeferredCommand::Title(title, reply) => {
                self.feed(Input::UserTitleSet);
                let session = self.machine.lineage().map(|lineage| &lineage.current().session);
                if let Some(session) = session {
                    let line = title_line(session, &title);
                    self.journal.set_user_title(self.now(), title, line);
                    self.journal.commit().await?;
                }
                send(reply, ());
            }
            DeferredCommand::Move { cwd, real_cwd, reply } => {
                if self.agent.is_occupied() || self.machine.has_work() {
                    send(reply, Err(MoveError::Busy));
                    return Ok(());
                }
                match self.journal.set_directory(&cwd, &real_cwd, ScopeChange::Keep).await {
                    Err(error @ StoreError::ScopeTaken { .. }) => send(reply, Err(MoveError::Store(error))),
                    Err(error) => return Err(error),
                    Ok(()) => {
                        let staying = self.move_to(cwd, real_cwd);
                        self.journal.commit().await?;
                        send(reply, Ok(staying));
                    }
                }
            }
        }
        Ok(())
    }

    /// Applies the record's new directory. Additional directories inside the old directory move with it; returns the
    /// others.
    pub(super) fn move_to(&mut self, cwd: AbsolutePath, real_cwd: AbsolutePath) -> Vec<AbsolutePath> {
        let fact = Fact::Moved { from: self.launch.cwd.to_string(), to: cwd.to_string() };
        self.journal.append_fact(self.now(), &fact);
        self.launch.real_cwd = Some(real_cwd);
        let old = std::mem::replace(&mut self.launch.cwd, cwd);
        let known = &self.launch.additional_directories;
        let is_outside = |directory: &&AbsolutePath| !directory.as_path().starts_with(old.as_path());
        let staying = known.iter().filter(is_outside).cloned().collect();
        let after = moved_with(&old, &self.launch.cwd, known);
        if after != *known {
            self.journal.set_additional_directories(&after);
            self.launch.additional_directories = after;
            self.persisted_launch.additional_directories.clone_from(&self.launch.additional_directories);
        }
        staying
    }

    fn wake(&mut self, restore: RestoreSession, reply: WakeReply) {
        let options = restore.options;
        let is_reset = options.fallback == Fallback::Reset;
        if let Some(refused) = self.machine.reset_refusal().filter(|_| is_reset) {
            return send(reply, Err(refused));
        }
        self.replies.wakes.push(reply);
        self.prepare_launch(restore);
        self.feed(Input::Wake(options));
    }

    fn return_to(&mut self, session: AcpSessionId, restore: RestoreSession, reply: WakeReply) {
        if let Some(refused) = self.machine.return_refusal(&session) {
            return send(reply, Err(refused));
        }
        self.replies.wakes.push(reply);
        self.prepare_launch(restore);
        self.feed(Input::Return(session));
    }

    async fn prompt(&mut self, prompt: Prompt, waiter: PromptWaiter) -> Result<(), StoreError> {
        let Prompt { blocks, policy, request, restore, client, extra_params, limits, spent } = prompt;
        if self.replies.has_prompt(&request) || self.journal.turn_of(&request).await?.is_some() {
            send(waiter.accepted, Err(PromptRefusal::RequestExists));
            return Ok(());
        }
        let options = restore.options;
        self.replies.add_prompt(request.clone(), waiter, client, extra_params, restore);
        self.feed(Input::Prompt { request: request.clone(), prompt: blocks, policy, options, limits });
        self.timers.began_before(&self.machine, &request, spent);
        Ok(())
    }

    fn forward(&mut self, restore: RestoreSession, forward: ForwardedRequest, reply: ForwardReply) {
        if self.agent.is_behind() {
            return send(reply, Err(ForwardError::TooMany));
        }
        self.replies.forwards.insert(forward.id, reply);
        self.prepare_launch(restore);
        self.feed(Input::Forward(forward));
    }

    fn query(&mut self, query: &AgentQuery, reply: QueryReply) {
        let agent =
            self.agent.live_mut().filter(|agent| self.machine.is_live() && agent.send_queue.has_room());
        let Some(agent) = agent else { return send(reply, Err(AgentQueryError::NotRunning)) };
        let Some(request) = query.request(&agent.connection) else {
            return send(reply, Err(AgentQueryError::NotOffered));
        };
        let Some(id) = agent.connection.register_query(&request) else {
            return send(reply, Err(AgentQueryError::NotRunning));
        };
        self.replies.queries.insert(id, reply);
        self.actions.push(SessionAction::Send(request));
    }

    async fn delete_unless(
        &mut self,
        obstacle: DeletionObstacle,
        reply: oneshot::Sender<Deletion>,
    ) -> Result<(), StoreError> {
        if self.has_obstacle(obstacle).await? {
            send(reply, Deletion::default());
        } else {
            self.delete(None, reply);
        }
        Ok(())
    }

    async fn has_obstacle(&mut self, obstacle: DeletionObstacle) -> Result<bool, StoreError> {
        match obstacle {
            DeletionObstacle::BegunTurn => Ok(self.journal.has_begun_turn()),
            DeletionObstacle::NotPrunable(_) if self.machine.open_turns().next().is_some() => Ok(true),
            DeletionObstacle::NotPrunable(conditions) => {
                let stored = self.shared.store.record(self.journal.record().clone());
                Ok(stored.await?.is_some_and(|record| !conditions.are_met_by(&record)))
            }
        }
    }

    fn delete(&mut self, extra_params: Option<ExtraParams>, reply: oneshot::Sender<Deletion>) {
        let is_offered = self.agent.live().map(|agent| agent.connection.capabilities().sessions.delete);
        self.replies.add_delete(reply, extra_params, is_offered);
        self.feed(Input::Delete);
    }

    /// Cancels a turn, or the running one, and forwards the client's extra params.
    fn cancel(&mut self, turn: Option<TurnId>, extra_params: Option<ExtraParams>) {
        self.replies.cancel_params = extra_params;
        self.feed(Input::Cancel(turn));
        self.replies.cancel_params = None;
    }

    /// Cancels turns from the last queued one to the running one, so that no prompt that is to be cancelled is
    /// dispatched first. A cancel ends in bounded time, and so does the wait for it.
    fn cancel_turns(
        &mut self,
        turns: &[TurnId],
        extra_params: Option<&ExtraParams>,
        reply: oneshot::Sender<Option<Seq>>,
    ) {
        let open: Vec<TurnId> =
            self.machine.open_turns().map(|turn| turn.id).filter(|id| turns.contains(id)).collect();
        for id in open.iter().rev() {
            self.cancel(Some(*id), extra_params.cloned());
        }
        self.replies.add_end_waiter(open.into_iter().collect(), reply);
    }

    /// Cancels the prompts that are not sent, the last one first, so that none of them is dispatched in between. Replies
    /// once that is persisted.
    fn drop_queued(&mut self, requests: &[RequestId], reply: oneshot::Sender<Vec<RequestId>>) {
        let is_meant = |turn: &&Turn| !turn.is_sent() && requests.contains(&turn.request);
        let meant = self.machine.open_turns().filter(is_meant).map(|turn| (turn.id, turn.request.clone()));
        let (turns, dropped): (Vec<TurnId>, Vec<RequestId>) = meant.unzip();
        for id in turns.iter().rev() {
            self.cancel(Some(*id), None);
        }
        self.actions.push(SessionAction::QueueDropped(dropped, reply));
    }

    /// Removes the requested setting that a word means. Replies once that is persisted.
    fn forget_setting(&mut self, word: Option<&str>, reply: oneshot::Sender<Option<Setting>>) {
        let setting = self.machine.chosen_setting(word);
        if let Some(setting) = &setting {
            self.feed(Input::ForgetSetting(setting.name.clone()));
        }
        self.actions.push(SessionAction::Forgotten(setting, reply));
    }

    /// The reason why the session waits, and whether the agent waits for a reply of ours or has unread messages.
    pub(super) fn wait_reason(&self) -> Option<WaitReason> {
        let what = self.machine.wait_condition()?;
        let (is_at_work, question) = match &what {
            WaitCondition::Answer(method) => (&**method == "session/prompt", None),
            WaitCondition::TurnEnd => (true, None),
            WaitCondition::PendingRequests { first, .. } => (false, self.permissions.kind_of(first)),
            _ => (false, None),
        };
        let is_served = is_at_work && self.agent.is_served();
        let is_unread =
            matches!(what, WaitCondition::Answer(_) | WaitCondition::TurnEnd) && self.agent.is_behind();
        let (is_away, since) = (self.agent.is_away(), self.now());
        Some(WaitReason { what, is_served, is_unread, is_away, question, since, last_message: None })
    }

    /// The error for a client whose start wait passed before the session was restored or the agent replied to a
    /// request, with the agent's output so far.
    fn slow_start(&self, wait: Duration, forward: Option<ForwardId>) -> AgentError {
        let method = forward.and_then(|forward| self.machine.forwarded_method(forward));
        let awaited = method.map(|method| WaitCondition::Answer(method.into()));
        let missed = self.timers.missed(awaited.or_else(|| self.machine.wait_condition()));
        let agent = self.launch.agent.label().into_owned();
        AgentError::SlowStart { agent, missed, limit: wait, output: self.launch.output_tail() }
    }

    /// Applies launch values, if the agent is not started yet.
    pub(super) fn prepare_launch(&mut self, restore: RestoreSession) {
        if !self.agent.is_launched() {
            self.launch.apply(restore);
        }
    }
}
