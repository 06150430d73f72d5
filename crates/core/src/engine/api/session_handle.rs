//! A client's hold on a session. Any number of them may hold one; dropping them all leaves it running.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};

use crate::acp::ExtraParams;
use crate::acp::client::SessionOffer;
use crate::acp::settings;
use crate::machine::{ForwardError, ForwardedRequest, PassId, PromptRefusal, WakeError, WakeOutcome};
use crate::model::{
    AbsolutePath, AcpSessionId, AgentError, AgentMemory, McpServer, ProtocolVersion, RecordId, RequestId,
    Scope, Seq, SessionIdentity, Setting, Turn, TurnId,
};
use crate::store::{SessionWriter, Store};

use super::turn_handle::TurnTicket;
use crate::engine::ops::delete::Deletion;
use crate::engine::permissions::request::ResponderRequest;
use crate::engine::session::commands::{Forgetting, SessionCommand};
use crate::engine::session::exit_reason::{ExitReasonCell, gone};
use crate::engine::session::journal::ScopeSuccessor;
use crate::engine::session::replies::PromptWaiter;
use crate::engine::stream::follow::{EventTail, Follower};
use crate::engine::{
    CountGuard, EngineContext, Prompt, PromptProblem, RestoreSession, SessionError, WaitReason,
};

/// What a line holds besides the prompt's blocks, at most.
const ENVELOPE_BYTES: usize = 4096;

/// A session of an engine.
#[derive(Clone)]
pub struct Session {
    record: RecordId,
    commands: mpsc::Sender<SessionCommand>,
    status: watch::Receiver<SessionStatus>,
    offers: watch::Receiver<AgentOffer>,
    /// Numbers the requests for the agent.
    passes: Arc<AtomicU64>,
    held: Arc<watch::Sender<usize>>,
    /// Set in the engine's own handle when the engine frees the session.
    is_freed: bool,
    tail: Arc<EventTail>,
    store: Arc<dyn Store>,
    fate: ExitReasonCell,
    longest_prompt: usize,
}

/// How a session stands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionStatus {
    /// Its ids, once there is a record.
    pub identity: Option<SessionIdentity>,
    /// The process id of its agent, if one runs.
    pub agent_pid: Option<u32>,
    /// Whether it has an agent, from the first step of its start to the last of its end.
    pub has_agent: bool,
    /// Whether a turn runs or waits.
    pub has_work: bool,
    /// Whether processes that its last agent left are still being ended.
    pub has_leftover: bool,
    /// How much of the conversation the agent remembers, once it has had the session in this process.
    pub memory: AgentMemory,
    /// The wishes for its settings that could not be restored when the agent last had it anew, each with the reason.
    pub unmet: Vec<(Setting, Box<str>)>,
    /// The last turn that began with an agent which had the session anew, and how it had come to it.
    pub awakened: Option<(TurnId, WakeOutcome)>,
}

/// What the session's agent has said of itself and offers.
#[derive(Debug, Clone, Default)]
pub(crate) struct AgentOffer {
    pub(crate) offered: Arc<SessionOffer>,
    pub(crate) answer: Option<Arc<str>>,
    pub(crate) version: Option<ProtocolVersion>,
}

/// What a session's task tells its holders.
pub(crate) struct StatusPublisher {
    pub(crate) status: watch::Sender<SessionStatus>,
    pub(crate) offers: watch::Sender<AgentOffer>,
    /// How many hold the session.
    pub(crate) held: watch::Receiver<usize>,
    /// Without it the number would end with the last holder of the session.
    pub(crate) _holds: Arc<watch::Sender<usize>>,
    pub(crate) fate: ExitReasonCell,
}

/// A record somebody has in use, whichever session it goes on in. Dropped, its idle time begins anew.
#[derive(Debug)]
pub struct Hold {
    _counted: CountGuard,
}

/// A session that was just made, for a client that does not know of it yet. Dropped before it is claimed, it is
/// deleted, unless another client has prompted it by then.
pub struct UnclaimedSession(Option<Session>);

impl Session {
    pub(crate) fn new(
        record: RecordId,
        commands: mpsc::Sender<SessionCommand>,
        tail: Arc<EventTail>,
        shared: &EngineContext,
    ) -> (Self, StatusPublisher) {
        let (told, status) = watch::channel(SessionStatus::default());
        let (telling, offers) = watch::channel(AgentOffer::default());
        let fate = ExitReasonCell::default();
        let held = shared.holds.of(&record);
        let told = StatusPublisher {
            status: told,
            offers: telling,
            held: held.subscribe(),
            _holds: held.clone(),
            fate: fate.clone(),
        };
        let store = Arc::clone(&shared.store);
        let longest_prompt = shared.settings.wire.line_bytes.saturating_sub(ENVELOPE_BYTES);
        let passes = Arc::default();
        let session = Self {
            record,
            commands,
            status,
            offers,
            passes,
            held,
            is_freed: false,
            tail,
            store,
            fate,
            longest_prompt,
        };
        (session, told)
    }

    /// Whether the session's task takes no more commands.
    pub(crate) fn is_over(&self) -> bool {
        self.is_freed || self.commands.is_closed()
    }

    /// The record's id, which never changes.
    pub fn record_id(&self) -> &RecordId {
        &self.record
    }

    /// How the session stands at the moment.
    pub fn status(&self) -> SessionStatus {
        self.status.borrow().clone()
    }

    /// Waits until the session stands so.
    pub async fn wait_for(&self, mut condition: impl FnMut(&SessionStatus) -> bool) {
        // A session that is gone changes no more; whoever waits asks it next, and is told.
        drop(self.status.clone().wait_for(|status| condition(status)).await);
    }

    /// The three ids as they stand. `None` only while the first `session/new` is under way.
    pub fn identity(&self) -> Option<SessionIdentity> {
        self.status.borrow().identity.clone()
    }

    /// What the session offers: modes, options and commands as the agent last told them. Nothing before the agent
    /// had the session for the first time in this process.
    pub fn offered(&self) -> Arc<SessionOffer> {
        self.offers.borrow().offered.clone()
    }

    /// The result of the agent's `initialize` as it wrote it, likewise: capabilities, ways to log in, its name.
    pub fn agent_answer(&self) -> Option<Arc<str>> {
        self.offers.borrow().answer.clone()
    }

    /// The version of the protocol that is spoken with its agent, likewise: what it offers is told in this one.
    pub fn agent_version(&self) -> Option<ProtocolVersion> {
        self.offers.borrow().version
    }

    /// How long the agent may have nothing to do before it is parked; `None` for ever.
    pub async fn set_idle_time(&self, limit: Option<Duration>) -> Result<(), SessionError> {
        self.send(SessionCommand::Idle(limit)).await
    }

    /// Makes the session findable from a shell. Where another open one has the scope the store refuses, and the
    /// session goes on as it was.
    pub async fn set_scope(&self, scope: Scope) -> Result<(), SessionError> {
        let (reply, answer) = oneshot::channel();
        Ok(self.ask(SessionCommand::Scope(scope, reply), answer).await??)
    }

    /// Keeps the agent, and those who come after it, from being parked for idleness as long as the value lives.
    pub fn hold(&self) -> Hold {
        Hold { _counted: CountGuard::one(&self.held) }
    }

    /// Whether anybody holds it.
    pub fn is_held(&self) -> bool {
        *self.held.borrow() > 0
    }

    /// Whether it has no agent, no leftover process and nothing to do, and the engine has the only handle.
    pub(crate) fn is_unused(&self) -> bool {
        let status = self.status.borrow();
        let is_busy = status.has_agent || status.has_work || status.has_leftover;
        !is_busy && !self.is_held() && self.commands.strong_count() == 1
    }

    /// The number of the last event that followers can have.
    pub fn last_seq(&self) -> Option<Seq> {
        self.tail.last()
    }

    /// Sees to it that the agent has the session, and tells how that went.
    pub async fn wake(&self, restore: RestoreSession) -> Result<WakeOutcome, SessionError> {
        let (reply, answer) = oneshot::channel();
        let start_wait = restore.start_wait;
        self.awake(SessionCommand::Wake(Box::new(restore), reply), answer, start_wait).await
    }

    async fn awake(
        &self,
        command: SessionCommand,
        answer: oneshot::Receiver<Result<WakeOutcome, WakeError>>,
        start_wait: Option<Duration>,
    ) -> Result<WakeOutcome, SessionError> {
        let awake = self.ask(command, answer);
        let awake = match start_wait {
            None => awake.await,
            Some(wait) => match tokio::time::timeout(wait, awake).await {
                Ok(awake) => awake,
                Err(_) => return Err(self.slow_start(wait, None).await),
            },
        };
        awake?.map_err(|asleep| self.not_awake(asleep))
    }

    /// Returns to an earlier ACP session of the record: the agent restores it, and it is the current one again. If the
    /// agent does not restore it, the record stays as it is.
    pub async fn return_to(
        &self,
        session: AcpSessionId,
        restore: RestoreSession,
    ) -> Result<WakeOutcome, SessionError> {
        let (reply, answer) = oneshot::channel();
        let start_wait = restore.start_wait;
        self.awake(SessionCommand::Return(session, Box::new(restore), reply), answer, start_wait).await
    }

    fn not_awake(&self, asleep: WakeError) -> SessionError {
        match asleep {
            WakeError::Agent(error) => SessionError::Agent(error),
            WakeError::Closing => SessionError::Closing(self.record.clone()),
            WakeError::Busy => SessionError::Busy(self.record.clone()),
            WakeError::UnknownSession(session) => {
                SessionError::NotInLineage { record: self.record.clone(), session }
            }
        }
    }

    /// What the agent has not done in the time that somebody has waited for it, or for its answer to a request.
    async fn slow_start(&self, wait: Duration, pass: Option<PassId>) -> SessionError {
        let (reply, answer) = oneshot::channel();
        match self.ask(SessionCommand::SlowStart(wait, pass, reply), answer).await {
            Ok(error) => SessionError::Agent(error),
            Err(error) => error,
        }
    }

    /// Prompts the agent, after those who prompted before. Returns when the prompt is kept.
    pub async fn prompt(&self, prompt: Prompt) -> Result<TurnTicket, SessionError> {
        self.send_prompt(prompt, None).await
    }

    /// Prompts the agent likewise, and is asked what the agent asks, if the prompt's policy is to ask.
    pub async fn prompt_asking(
        &self,
        prompt: Prompt,
        advisor: mpsc::Sender<ResponderRequest>,
    ) -> Result<TurnTicket, SessionError> {
        self.send_prompt(prompt, Some(advisor)).await
    }

    async fn send_prompt(
        &self,
        prompt: Prompt,
        advisor: Option<mpsc::Sender<ResponderRequest>>,
    ) -> Result<TurnTicket, SessionError> {
        if prompt.blocks.len() > self.longest_prompt {
            return Err(PromptProblem::TooLong { limit: self.longest_prompt }.into());
        }
        let (accepted, answer) = oneshot::channel();
        let (inserted, insertion) = oneshot::channel();
        let (over, wait) = oneshot::channel();
        let request = prompt.request.clone();
        let waiter = PromptWaiter { accepted, inserted, over, advisor };
        self.send(SessionCommand::Prompt { prompt: Box::new(prompt), waiter }).await?;
        match answer.await {
            Ok(Ok(turn)) => {
                let (record, fate) = (self.record.clone(), self.fate.clone());
                Ok(TurnTicket { turn, request, inserted: insertion, over: wait, record, fate })
            }
            Ok(Err(PromptRefusal::Closing)) => Err(SessionError::Closing(self.record.clone())),
            Ok(Err(PromptRefusal::QueueFull)) => Err(SessionError::QueueFull(self.record.clone())),
            Ok(Err(PromptRefusal::RequestExists)) => {
                Err(SessionError::RequestExists { record: self.record.clone(), request })
            }
            Err(_) => Err(gone(&self.fate, &self.record)),
        }
    }

    /// The turn of a prompt that was asked for before under this name; `None` if there is none. An advisor is from then
    /// on the one who is asked what the agent asks.
    pub async fn join(
        &self,
        request: &RequestId,
        advisor: Option<mpsc::Sender<ResponderRequest>>,
    ) -> Result<Option<Turn>, SessionError> {
        let (reply, answer) = oneshot::channel();
        self.ask(SessionCommand::Join(request.clone(), advisor, reply), answer).await
    }

    /// Whom to ask what the agent asks in a turn whose own client is not known any more.
    pub async fn set_advisor(&self, advisor: mpsc::Sender<ResponderRequest>) -> Result<(), SessionError> {
        self.send(SessionCommand::Advise(advisor)).await
    }

    /// Asks the agent something beside any turn, such as for another mode; the agent is woken if need be. `params` is a
    /// JSON object, which goes out as it is but for the session it is about; the answer is the result as the agent
    /// wrote it. Dropping this withdraws the request.
    pub async fn request(
        &self,
        method: &str,
        params: &str,
        restore: RestoreSession,
    ) -> Result<Arc<str>, SessionError> {
        self.request_after(Duration::ZERO, method, params, restore).await
    }

    /// Asks likewise for a client that has waited so long of its start wait before.
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
        let id = PassId(self.passes.fetch_add(1, Ordering::Relaxed));
        let setting = settings::chosen(method, params);
        let (method, params, options) = (method.into(), params.into(), restore.options);
        let start_wait = restore.start_wait;
        let pass = ForwardedRequest { id, method, params, setting, options, is_resent: false };
        let (reply, answer) = oneshot::channel();
        self.send(SessionCommand::Pass(Box::new(restore), pass, reply)).await?;
        let mut asked = ForwardedRequestGuard { session: self, pass: Some(id) };
        let answer = match start_wait {
            None => answer.await,
            Some(wait) => match tokio::time::timeout(wait.saturating_sub(waited), answer).await {
                Ok(answer) => answer,
                Err(_) => return Err(self.slow_start(wait, Some(id)).await),
            },
        };
        let answer = answer.map_err(|_| gone(&self.fate, &self.record))?;
        asked.pass = None;
        answer.map_err(|unpassed| match unpassed {
            ForwardError::Agent(error) => SessionError::Agent(error),
            ForwardError::Closing => SessionError::Closing(self.record.clone()),
            ForwardError::TooMany => SessionError::QueueFull(self.record.clone()),
        })
    }

    /// Has a setting be wished no more, so that it is not restored again: the option that a word means, or without one the
    /// mode. What was wished, if it was; the agent is not asked, and need not run.
    pub async fn forget_setting(&self, word: Option<&str>) -> Result<Option<Setting>, SessionError> {
        let (reply, answer) = oneshot::channel();
        self.ask(SessionCommand::Forget(word.map(Into::into), reply), answer).await
    }

    /// Cancels the running turn, or a given one. A turn that is over stays as it is.
    pub async fn cancel(&self, turn: Option<TurnId>) -> Result<(), SessionError> {
        self.cancel_with(turn, None).await
    }

    /// Cancels likewise, with what the client says to the agent besides.
    pub async fn cancel_with(
        &self,
        turn: Option<TurnId>,
        besides: Option<ExtraParams>,
    ) -> Result<(), SessionError> {
        self.send(SessionCommand::Cancel(turn, besides)).await
    }

    /// Closes the session: its turns are cancelled, its agent is told and ended, the record stays.
    pub async fn close(&self) -> Result<(), SessionError> {
        let (reply, answer) = oneshot::channel();
        self.ask(SessionCommand::Close(None, reply), answer).await
    }

    /// Closes the session likewise, and in the same step another record has its scope.
    pub(crate) async fn close_for(&self, heir: ScopeSuccessor) -> Result<(), SessionError> {
        let (reply, answer) = oneshot::channel();
        self.ask(SessionCommand::Close(Some(heir), reply), answer).await
    }

    /// The right to write to the record; only its own task has it otherwise.
    pub(crate) async fn writer(&self) -> Result<Option<SessionWriter>, SessionError> {
        let (reply, answer) = oneshot::channel();
        self.ask(SessionCommand::Writer(reply), answer).await
    }

    /// Requests deletion without waiting; skipped if the command queue is full.
    fn abandon(&self) {
        let (reply, _) = oneshot::channel();
        drop(self.commands.try_send(SessionCommand::TakeBack(reply)));
    }

    /// Closes the session likewise, and takes the record out of every list for good. What its agent has said to that.
    pub(crate) async fn delete(&self, besides: Option<ExtraParams>) -> Result<Deletion, SessionError> {
        let (reply, answer) = oneshot::channel();
        self.ask(SessionCommand::Delete(besides, reply), answer).await
    }

    /// Deletes the record, unless a prompt has come since the session began.
    pub(crate) async fn delete_unless_prompted(&self) -> Result<Deletion, SessionError> {
        let (reply, answer) = oneshot::channel();
        self.ask(SessionCommand::TakeBack(reply), answer).await
    }

    /// Whether these are the servers that the agent has; one that has yet to be started can still have them.
    pub async fn has_servers(&self, servers: &[McpServer]) -> Result<bool, SessionError> {
        let (reply, answer) = oneshot::channel();
        self.ask(SessionCommand::HasServers(servers.into(), reply), answer).await
    }

    /// Whether these are the additional directories that the agent has, likewise.
    pub async fn has_directories(&self, directories: &[AbsolutePath]) -> Result<bool, SessionError> {
        let (reply, answer) = oneshot::channel();
        self.ask(SessionCommand::HasDirectories(directories.into(), reply), answer).await
    }

    /// What the session waits for; `None` if that is nothing but its clients.
    pub async fn waiting(&self) -> Result<Option<WaitReason>, SessionError> {
        let (reply, answer) = oneshot::channel();
        self.ask(SessionCommand::Waiting(reply), answer).await
    }

    /// Ends the agent and keeps the session, if nothing runs or waits. The next prompt brings it back.
    pub async fn park(&self) -> Result<(), SessionError> {
        self.end_agent(Forgetting::Allowed).await
    }

    /// Parks the session likewise, unless what its agent remembers would be lost with the process.
    pub async fn park_if_restorable(&self) -> Result<(), SessionError> {
        self.end_agent(Forgetting::Unwanted).await
    }

    async fn end_agent(&self, forgetting: Forgetting) -> Result<(), SessionError> {
        let (reply, answer) = oneshot::channel();
        let parked = self.ask(SessionCommand::Park(forgetting, reply), answer).await?;
        if parked { Ok(()) } else { Err(SessionError::Busy(self.record.clone())) }
    }

    /// Every event from `from` on: those that are kept, then those to come.
    pub fn follow(&self, from: Seq) -> Follower {
        Follower::of_session(self.store.clone(), self.record.clone(), from, self.tail.clone())
    }

    /// Stops the session's task. What ran is interrupted.
    pub(crate) async fn leave(&self) {
        // A task that is gone has left.
        drop(self.commands.send(SessionCommand::Leave).await);
    }

    /// Stops the task of an unused session without waiting for it. If its queue is full, it is not unused.
    pub(crate) fn free(&mut self) {
        self.is_freed = self.commands.try_send(SessionCommand::Leave).is_ok();
    }

    async fn send(&self, command: SessionCommand) -> Result<(), SessionError> {
        self.commands.send(command).await.map_err(|_| gone(&self.fate, &self.record))
    }

    pub(crate) async fn ask<T>(
        &self,
        command: SessionCommand,
        answer: oneshot::Receiver<T>,
    ) -> Result<T, SessionError> {
        self.send(command).await?;
        answer.await.map_err(|_| gone(&self.fate, &self.record))
    }
}

/// A request of a client, withdrawn if the client stops waiting for it.
struct ForwardedRequestGuard<'a> {
    session: &'a Session,
    pass: Option<PassId>,
}

impl Drop for ForwardedRequestGuard<'_> {
    fn drop(&mut self) {
        if let Some(pass) = self.pass {
            // A session that has no room for this answers a request that nobody waits for, and that is all.
            drop(self.session.commands.try_send(SessionCommand::Withdraw(pass)));
        }
    }
}

impl UnclaimedSession {
    pub(crate) fn new(session: Session) -> Self {
        Self(Some(session))
    }

    /// Somebody has the session from here on.
    pub fn claim(mut self) {
        self.0 = None;
    }

    /// Deletes the record, here and at an agent that can, and waits until nothing of it is left. A session that another
    /// client has prompted stays.
    pub async fn take_back(mut self) {
        if let Some(session) = self.0.take() {
            // One that ends in another way has ended all the same.
            drop(session.delete_unless_prompted().await);
        }
    }
}

impl Drop for UnclaimedSession {
    fn drop(&mut self) {
        if let Some(session) = &self.0 {
            session.abandon();
        }
    }
}
