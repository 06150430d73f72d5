//! Handle to a session. Any number of handles may exist; dropping them all leaves the session running.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};

use crate::acp::client::{AgentResponse, SessionOffer};
use crate::acp::{ExtraParams, settings};
use crate::machine::{ForwardError, ForwardedRequest, PromptRefusal, WakeError, WakeOutcome};
use crate::model::{
    AbsolutePath, AcpSessionId, AgentError, ForwardId, McpServer, ProtocolVersion, RecordId, RequestId,
    Scope, Seq, SessionIdentity, Setting, SetupOptions, Turn, TurnId,
};
use crate::store::{SessionWriter, Store};

use super::agent_query::{AgentQuery, AgentQueryError};
use super::commands::{
    DeferredCommand, DeletionObstacle, MoveError, OpenTurnRef, PruneConditions, SessionCommand,
    UnrestorablePark,
};
use super::journal::ScopeSuccessor;
use super::replies::{Deletion, PromptWaiter, WakeReply};
use super::status::{AgentOffer, SessionStatus, StatusPublisher};
use crate::engine::api::error::ExitReasonCell;
use crate::engine::permissions::request::ResponderRequest;
use crate::engine::stream::follow::{EventTail, Follower};
use crate::engine::{
    CountGuard, EngineContext, Prompt, PromptProblem, RestoreSession, SessionError, TurnHandle, WaitReason,
};

/// Reserved bytes of a line for everything except the prompt's blocks.
const ENVELOPE_BYTES: usize = 4096;

/// A session of an engine.
#[derive(Clone)]
pub struct Session {
    record: RecordId,
    commands: mpsc::Sender<SessionCommand>,
    status: watch::Receiver<SessionStatus>,
    offers: watch::Receiver<AgentOffer>,
    /// The next id of a forwarded request.
    forward_ids: Arc<AtomicU64>,
    held: Arc<watch::Sender<usize>>,
    /// Set in the engine's own handle when the engine frees the session.
    is_freed: bool,
    tail: Arc<EventTail>,
    store: Arc<dyn Store>,
    exit_reason: ExitReasonCell,
    longest_prompt: usize,
}

/// Keeps a record in use, across the sessions that run it. Dropping it restarts the idle time.
#[derive(Debug)]
pub struct Hold {
    _counted: CountGuard,
}

/// A newly created session that its client does not know yet. Dropping it before it is claimed deletes the session,
/// unless another client has prompted it by then.
pub struct UnclaimedSession(Option<Session>);

impl Session {
    pub(crate) fn new(
        record: RecordId,
        commands: mpsc::Sender<SessionCommand>,
        tail: Arc<EventTail>,
        shared: &EngineContext,
    ) -> (Self, StatusPublisher) {
        let (publisher, status) = watch::channel(SessionStatus::default());
        let (with_plain, offers) = watch::channel(AgentOffer::default());
        let exit_reason = ExitReasonCell::default();
        let held = shared.holds.of(&record);
        let publisher = StatusPublisher {
            status: publisher,
            offers: with_plain,
            held: held.subscribe(),
            _holds: held.clone(),
            exit_reason: exit_reason.clone(),
            record: record.clone(),
            changes: shared.changes.clone(),
        };
        let store = Arc::clone(&shared.store);
        let longest_prompt = shared.settings.wire.longest_sent().saturating_sub(ENVELOPE_BYTES);
        let forward_ids = Arc::default();
        let session = Self {
            record,
            commands,
            status,
            offers,
            forward_ids,
            held,
            is_freed: false,
            tail,
            store,
            exit_reason,
            longest_prompt,
        };
        (session, publisher)
    }

    /// Whether the session's task takes no more commands.
    pub(crate) fn is_over(&self) -> bool {
        self.is_freed || self.commands.is_closed()
    }

    /// The record's id, which never changes.
    pub fn record_id(&self) -> &RecordId {
        &self.record
    }

    /// The current state of the session.
    pub fn status(&self) -> SessionStatus {
        self.status.borrow().clone()
    }

    /// Follows the state.
    pub(crate) fn watch_status(&self) -> watch::Receiver<SessionStatus> {
        self.status.clone()
    }

    /// The number of holds of the record, which outlives the session.
    pub(crate) fn holds(&self) -> Arc<watch::Sender<usize>> {
        Arc::clone(&self.held)
    }

    /// Waits until the state fulfils the condition.
    pub async fn wait_for(&self, mut condition: impl FnMut(&SessionStatus) -> bool) {
        // The state of an ended session does not change any more; the caller's next request reports the end.
        drop(self.status.clone().wait_for(|status| condition(status)).await);
    }

    /// The three ids. `None` only while the first `session/new` is pending.
    pub fn identity(&self) -> Option<SessionIdentity> {
        self.status.borrow().identity.clone()
    }

    /// The session's modes, options and commands as the agent last reported them. Empty until the agent has loaded the
    /// session in this process.
    pub fn offered(&self) -> Arc<SessionOffer> {
        self.offers.borrow().offered.clone()
    }

    /// The agent's `initialize` result, unchanged: capabilities, login methods, name. `None` until the agent has loaded
    /// the session in this process.
    pub fn agent_answer(&self) -> Option<Arc<str>> {
        self.offers.borrow().answer.clone()
    }

    /// The agent's protocol version, in which its offer is written. `None` until the agent has loaded the session in
    /// this process.
    pub(crate) fn agent_version(&self) -> Option<ProtocolVersion> {
        self.offers.borrow().version
    }

    /// Sets how long the agent may be idle before it is parked; `None` for ever.
    pub async fn set_idle_time(&self, limit: Option<Duration>) -> Result<(), SessionError> {
        self.send(SessionCommand::Idle(limit)).await
    }

    /// Makes the session findable from a shell. If another open session has the scope, the store refuses and nothing
    /// changes.
    pub async fn set_scope(&self, scope: Scope) -> Result<(), SessionError> {
        Ok(self.ask(|reply| SessionCommand::Deferred(DeferredCommand::Scope(scope, reply))).await??)
    }

    /// Sets the user's title, which replaces the agent's from now on. Attached clients get it as an update.
    pub async fn set_title(&self, title: String) -> Result<(), SessionError> {
        self.ask(|reply| SessionCommand::Deferred(DeferredCommand::Title(title, reply))).await
    }

    /// Prevents the agent, and later agents of the session, from being parked for idleness until the value is dropped.
    pub fn hold(&self) -> Hold {
        Hold { _counted: CountGuard::one(&self.held) }
    }

    /// Whether it has a hold.
    pub(crate) fn is_held(&self) -> bool {
        *self.held.borrow() > 0
    }

    /// Whether it has no agent, no leftover process and no work, and the engine has the only handle.
    pub(crate) fn is_unused(&self) -> bool {
        let status = self.status.borrow();
        let is_busy = status.has_agent || status.has_work || status.has_leftover;
        !is_busy && !self.is_held() && self.commands.strong_count() == 1
    }

    /// The sequence number of the last event that followers can read.
    pub(crate) fn last_seq(&self) -> Option<Seq> {
        self.tail.last()
    }

    /// Starts the agent and restores the session if necessary, and returns how it was restored.
    pub async fn wake(&self, restore: RestoreSession) -> Result<WakeOutcome, SessionError> {
        let start_wait = restore.start_wait;
        self.awake(|reply| SessionCommand::Wake(Box::new(restore), reply), start_wait).await
    }

    async fn awake(
        &self,
        command: impl FnOnce(WakeReply) -> SessionCommand,
        start_wait: Option<Duration>,
    ) -> Result<WakeOutcome, SessionError> {
        let awake = self.ask(command);
        let awake = match start_wait {
            None => awake.await,
            Some(wait) => match tokio::time::timeout(wait, awake).await {
                Ok(awake) => awake,
                Err(_) => return Err(self.slow_start(wait, None).await),
            },
        };
        awake?.map_err(|asleep| match asleep {
            WakeError::Agent(error) => SessionError::Agent(error),
            WakeError::Closing => SessionError::Closing(self.record.clone()),
            WakeError::Busy => SessionError::Busy(self.record.clone()),
            WakeError::UnknownSession(session) => {
                SessionError::NotInLineage { record: self.record.clone(), session }
            }
        })
    }

    /// Returns to an earlier ACP session of the record: the agent restores it, and it becomes the current one. If the
    /// agent does not restore it, the record does not change.
    pub async fn return_to(
        &self,
        session: AcpSessionId,
        restore: RestoreSession,
    ) -> Result<WakeOutcome, SessionError> {
        let start_wait = restore.start_wait;
        self.awake(|reply| SessionCommand::Return(session, Box::new(restore), reply), start_wait).await
    }

    /// The error for a client whose start wait has passed: names the step, or the request, that the agent has not
    /// finished.
    async fn slow_start(&self, wait: Duration, forward: Option<ForwardId>) -> SessionError {
        let answer = self.ask(|reply| SessionCommand::SlowStart(wait, forward, reply)).await;
        answer.map_or_else(|error| error, SessionError::Agent)
    }

    /// Queues a prompt. Returns when it is persisted.
    pub async fn prompt(&self, prompt: Prompt) -> Result<TurnHandle, SessionError> {
        self.send_prompt(prompt, None).await
    }

    /// Queues a prompt. The responder receives the agent's requests, if the prompt's policy is to ask.
    pub async fn prompt_with_responder(
        &self,
        prompt: Prompt,
        responder: mpsc::Sender<ResponderRequest>,
    ) -> Result<TurnHandle, SessionError> {
        self.send_prompt(prompt, Some(responder)).await
    }

    async fn send_prompt(
        &self,
        prompt: Prompt,
        responder: Option<mpsc::Sender<ResponderRequest>>,
    ) -> Result<TurnHandle, SessionError> {
        if prompt.blocks.len() > self.longest_prompt {
            return Err(PromptProblem::TooLong { limit: self.longest_prompt }.into());
        }
        let (accepted, answer) = oneshot::channel();
        let (inserted, insertion) = oneshot::channel();
        let (over, wait) = oneshot::channel();
        let request = prompt.request.clone();
        let waiter = PromptWaiter { accepted, inserted, over, responder };
        self.send(SessionCommand::Prompt { prompt: Box::new(prompt), waiter }).await?;
        match answer.await {
            Ok(Ok(turn)) => {
                let (record, exit_reason) = (self.record.clone(), self.exit_reason.clone());
                Ok(TurnHandle { turn, request, inserted: insertion, ended: wait, record, exit_reason })
            }
            Ok(Err(PromptRefusal::Closing)) => Err(SessionError::Closing(self.record.clone())),
            Ok(Err(PromptRefusal::QueueFull { limit })) => {
                Err(SessionError::PromptQueueFull { record: self.record.clone(), limit })
            }
            Ok(Err(PromptRefusal::RequestExists)) => {
                Err(SessionError::RequestExists { record: self.record.clone(), request })
            }
            Ok(Err(PromptRefusal::LimitReached(reached))) => {
                Err(SessionError::LimitReached { record: self.record.clone(), reached: *reached })
            }
            Err(_) => Err(self.exit_reason.error(&self.record)),
        }
    }

    /// The turn of an earlier prompt with this request id, if there is one. A responder then receives the agent's
    /// requests of that turn.
    pub async fn join(
        &self,
        request: &RequestId,
        responder: Option<mpsc::Sender<ResponderRequest>>,
    ) -> Result<Option<Turn>, SessionError> {
        self.ask(|reply| SessionCommand::Deferred(DeferredCommand::Join(request.clone(), responder, reply)))
            .await
    }

    /// Sets the responder for turns whose own client is not known any more.
    pub(crate) async fn set_fallback_responder(
        &self,
        responder: mpsc::Sender<ResponderRequest>,
    ) -> Result<(), SessionError> {
        self.send(SessionCommand::SetFallbackResponder(responder)).await
    }

    /// Forwards a request to the agent outside any turn, such as for another mode. Starts the agent if necessary.
    /// `params` is a JSON object, forwarded unchanged except for the session id. Returns the agent's result unchanged.
    /// Dropping this withdraws the request.
    pub async fn request(
        &self,
        method: &str,
        params: &str,
        restore: RestoreSession,
    ) -> Result<Arc<str>, SessionError> {
        self.request_after(Duration::ZERO, method, params, restore).await
    }

    /// Forwards a request for a client that has already spent this much of its start wait.
    pub(crate) async fn request_after(
        &self,
        waited: Duration,
        method: &str,
        params: &str,
        restore: RestoreSession,
    ) -> Result<Arc<str>, SessionError> {
        if params.len() > self.longest_prompt {
            let (method, problem) = (method.to_owned(), format!("it is longer than {}", self.longest_prompt));
            return Err(AgentError::BadRequest { method, problem }.into());
        }
        let id = ForwardId(self.forward_ids.fetch_add(1, Ordering::Relaxed));
        let setting = settings::chosen(method, params);
        let (method, params, options) = (method.into(), params.into(), restore.options);
        let start_wait = restore.start_wait;
        let forward = ForwardedRequest { id, method, params, setting, options, is_resent: false };
        let (reply, answer) = oneshot::channel();
        self.send(SessionCommand::Forward(Box::new(restore), forward, reply)).await?;
        let mut guard = ForwardedRequestGuard { session: self, forward: Some(id) };
        let answer = match start_wait {
            None => answer.await,
            Some(wait) => match tokio::time::timeout(wait.saturating_sub(waited), answer).await {
                Ok(answer) => answer,
                Err(_) => return Err(self.slow_start(wait, Some(id)).await),
            },
        };
        let answer = answer.map_err(|_| self.exit_reason.error(&self.record))?;
        guard.forward = None;
        answer.map_err(|failure| match failure {
            ForwardError::Agent(error) => SessionError::Agent(error),
            ForwardError::Closing => SessionError::Closing(self.record.clone()),
            ForwardError::TooMany => SessionError::QueueFull(self.record.clone()),
        })
    }

    /// Removes a requested setting, so that it is not restored any more: the option that a word means, or without one
    /// the mode. Returns what was requested. The agent need not run.
    pub(crate) async fn forget_setting(&self, word: Option<&str>) -> Result<Option<Setting>, SessionError> {
        self.ask(|reply| SessionCommand::Forget(word.map(Into::into), reply)).await
    }

    /// Cancels the running turn, or a given one. No effect on a turn that is over.
    pub async fn cancel(&self, turn: Option<TurnId>) -> Result<(), SessionError> {
        self.cancel_with(turn, None).await
    }

    /// Cancels a turn, and forwards the client's extra params.
    pub(crate) async fn cancel_with(
        &self,
        turn: Option<TurnId>,
        extra_params: Option<ExtraParams>,
    ) -> Result<(), SessionError> {
        self.send(SessionCommand::Cancel(turn, extra_params)).await
    }

    /// The open turns: the running one first, then the queued ones in order.
    pub(crate) async fn open_turns(&self) -> Result<Vec<OpenTurnRef>, SessionError> {
        self.ask(SessionCommand::OpenTurns).await
    }

    /// Cancels these turns, with the client's extra params, and waits until they are over. Returns the event of the
    /// last end. No effect on a turn that is already over.
    pub(crate) async fn cancel_turns(
        &self,
        turns: Vec<TurnId>,
        extra_params: Option<ExtraParams>,
    ) -> Result<Option<Seq>, SessionError> {
        self.ask(|reply| SessionCommand::CancelTurns(turns, extra_params, reply)).await
    }

    /// Cancels those of these prompts that are not sent to the agent, in one step; returns their request ids once that
    /// is persisted.
    pub(crate) async fn drop_queued(&self, requests: Vec<RequestId>) -> Result<Vec<RequestId>, SessionError> {
        self.ask(|reply| SessionCommand::DropQueued(requests, reply)).await
    }

    /// Moves the record to another directory, given with its real path; its session is restored there. Ends its agent,
    /// which cannot change its directory while it runs. A record with work is [`SessionError::Busy`], and so is one
    /// for which another client starts an agent before the move. Additional directories inside the project move with
    /// it. Returns the others, which stay unchanged.
    pub async fn move_to(
        &self,
        cwd: AbsolutePath,
        real_cwd: AbsolutePath,
    ) -> Result<Vec<AbsolutePath>, SessionError> {
        self.park().await?;
        self.ask(|reply| SessionCommand::Deferred(DeferredCommand::Move { cwd, real_cwd, reply }))
            .await?
            .map_err(|error| match error {
                MoveError::Busy => SessionError::Busy(self.record.clone()),
                MoveError::Store(error) => error.into(),
            })
    }

    /// Sends a query about the agent's other sessions, if the agent runs.
    pub(crate) async fn query(&self, query: AgentQuery) -> Result<AgentResponse, AgentQueryError> {
        let answer = self.ask(|reply| SessionCommand::Query(query, reply)).await;
        answer.unwrap_or(Err(AgentQueryError::NotRunning))
    }

    /// Closes the session: cancels its turns, sends the agent `session/close` and ends it. The record stays.
    pub async fn close(&self) -> Result<(), SessionError> {
        self.ask(|reply| SessionCommand::Close(None, reply)).await
    }

    /// Closes the session, and in the same transaction moves its scope to another record.
    pub(crate) async fn close_for(&self, successor: ScopeSuccessor) -> Result<(), SessionError> {
        self.ask(|reply| SessionCommand::Close(Some(successor), reply)).await
    }

    /// The record's writer, which otherwise only its task has.
    pub(crate) async fn writer(&self) -> Result<Option<SessionWriter>, SessionError> {
        self.ask(SessionCommand::Writer).await
    }

    /// Closes the session and deletes the record. Returns the agent's reply to `session/delete`.
    pub(crate) async fn delete(&self, extra_params: Option<ExtraParams>) -> Result<Deletion, SessionError> {
        self.ask(|reply| SessionCommand::Delete(extra_params, reply)).await
    }

    /// Deletes the record, unless it was prompted since the session began.
    pub(crate) async fn delete_unless_prompted(&self) -> Result<Deletion, SessionError> {
        self.ask(|reply| SessionCommand::DeleteUnless(DeletionObstacle::BegunTurn, reply)).await
    }

    /// Deletes the record, unless it has an open turn or does not meet the conditions.
    pub(crate) async fn prune(&self, conditions: PruneConditions) -> Result<Deletion, SessionError> {
        self.ask(|reply| SessionCommand::DeleteUnless(DeletionObstacle::NotPrunable(conditions), reply)).await
    }

    /// Whether the agent has these servers. An agent that is not started yet can still get them.
    pub(crate) async fn has_servers(&self, servers: &[McpServer]) -> Result<bool, SessionError> {
        self.ask(|reply| SessionCommand::HasServers(servers.into(), reply)).await
    }

    /// Whether the agent has these additional directories. An agent that is not started yet can still get them.
    pub(crate) async fn has_directories(&self, directories: &[AbsolutePath]) -> Result<bool, SessionError> {
        self.ask(|reply| SessionCommand::HasDirectories(directories.into(), reply)).await
    }

    /// Whether the agent was set up with these options. An agent that is not started yet can still get them.
    pub(crate) async fn has_setup(&self, setup: &SetupOptions) -> Result<bool, SessionError> {
        self.ask(|reply| SessionCommand::HasSetup(setup.clone(), reply)).await
    }

    /// What the session waits for; `None` if only for its clients.
    pub async fn waiting(&self) -> Result<Option<WaitReason>, SessionError> {
        self.ask(SessionCommand::Waiting).await
    }

    /// Ends the agent and keeps the session, if no turn runs or is queued. The next prompt restores it.
    pub async fn park(&self) -> Result<(), SessionError> {
        self.end_agent(UnrestorablePark::Allowed).await
    }

    /// Parks the session, unless its agent cannot restore it and would lose its memory.
    pub(crate) async fn park_if_restorable(&self) -> Result<(), SessionError> {
        self.end_agent(UnrestorablePark::Refused).await
    }

    async fn end_agent(&self, forgetting: UnrestorablePark) -> Result<(), SessionError> {
        let parked = self.ask(|reply| SessionCommand::Park(forgetting, reply)).await?;
        if parked { Ok(()) } else { Err(SessionError::Busy(self.record.clone())) }
    }

    /// Every event from `from` on: the stored ones, then new ones.
    pub fn follow(&self, from: Seq) -> Follower {
        Follower::of_session(self.store.clone(), self.record.clone(), from, self.tail.clone())
    }

    /// Stops the session's task. A running turn is interrupted.
    pub(crate) async fn leave(&self) {
        // The task has already stopped.
        drop(self.commands.send(SessionCommand::Leave).await);
    }

    /// Stops the task of an unused session without waiting for it. A session with a full queue is not unused.
    pub(crate) fn free(&mut self) {
        self.is_freed = self.commands.try_send(SessionCommand::Leave).is_ok();
    }

    async fn send(&self, command: SessionCommand) -> Result<(), SessionError> {
        self.commands.send(command).await.map_err(|_| self.exit_reason.error(&self.record))
    }

    /// Sends the command with a reply channel, and waits for the reply.
    async fn ask<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> SessionCommand,
    ) -> Result<T, SessionError> {
        let (reply, answer) = oneshot::channel();
        self.send(command(reply)).await?;
        answer.await.map_err(|_| self.exit_reason.error(&self.record))
    }
}

/// RAII guard: withdraws a client's request if the client stops waiting for it.
struct ForwardedRequestGuard<'a> {
    session: &'a Session,
    forward: Option<ForwardId>,
}

impl Drop for ForwardedRequestGuard<'_> {
    fn drop(&mut self) {
        if let Some(forward) = self.forward {
            // If the queue is full, the session answers a request without a receiver, which is harmless.
            drop(self.session.commands.try_send(SessionCommand::Withdraw(forward)));
        }
    }
}

impl UnclaimedSession {
    pub(crate) fn new(session: Session) -> Self {
        Self(Some(session))
    }

    /// The client knows the session: keeps it.
    pub(crate) fn claim(mut self) {
        self.0 = None;
    }

    /// Deletes the record, here and on an agent that supports it, and waits until that is done. Keeps a session that
    /// another client has prompted.
    pub async fn take_back(mut self) {
        if let Some(session) = self.0.take() {
            // A session that ended in another way needs no deletion.
            drop(session.delete_unless_prompted().await);
        }
    }
}

impl Drop for UnclaimedSession {
    fn drop(&mut self) {
        if let Some(session) = &self.0 {
            // Skipped if the command queue is full.
            drop(
                session.commands.try_send(SessionCommand::DeleteUnless(
                    DeletionObstacle::BegunTurn,
                    oneshot::channel().0,
                )),
            );
        }
    }
}
