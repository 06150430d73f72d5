//! One session's task: the only owner of its machine, its agent and its lease on the record.
//!
//! It waits for an event, takes the agent's other messages that have arrived, and settles them together: commit, then
//! act. Everything that can happen is a [`SessionEvent`]; nothing else changes the session.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::acp::client::{
    AgentResponse, MessageContext, PermissionRequest, ReceivedMessage, RedactedLine, SessionOffer,
};
use crate::machine::{Deadline, Input, OnResume, SessionMachine};
use crate::model::{AgentRequestId, AgentRun, RequestId};
use crate::store::StoreError;
use crate::wire::{RpcError, RpcId};

use super::agent_memory::Knowledge;
use super::commands::SessionCommand;
use super::effects::{LostLines, SessionAction};
use super::exit_reason::ExitReason;
use super::forwarded_params::ForwardedParams;
use super::journal::SessionJournal;
use super::replies::Waiters;
use super::timers::SessionTimers;
use super::wait_reason::Glance;
use crate::engine::agent::launch_spec::{LaunchSpec, PersistedLaunchSpec};
use crate::engine::agent::live_agent::{
    AgentExitReport, FailedStart, Leftover, LiveAgent, LiveAgentEvent, LiveId,
};
use crate::engine::agent::remote_host::RemoteHostState;
use crate::engine::api::session_handle::StatusPublisher;
use crate::engine::ops::delete::Deletion;
use crate::engine::ops::session_query::SessionQueryError;
use crate::engine::permissions::request::{DecisionEvent, PendingDecisions};
use crate::engine::tools::dispatch::ToolAsk;
use crate::engine::tools::run::{ToolOutcome, ToolRequestOrigin};
use crate::engine::{CountGuard, EngineContext, RestoreSession};

/// How many of the agent's messages, and about how many bytes, are committed together at most.
const BATCH_MESSAGES: usize = 512;
const BATCH_BYTES: usize = 1024 * 1024;

/// A pending request of the agent.
pub(crate) enum Ask {
    Permission(PermissionRequest),
    /// With its params.
    Elicitation(Arc<str>),
    /// A file or a terminal.
    Tool(Box<ToolAsk>),
    /// Refused with this error.
    Refused(RpcError),
}

type Coming = Pin<Box<dyn Future<Output = Result<(LiveAgent, Vec<RedactedLine>), FailedStart>> + Send>>;

/// Anything that can happen to a session.
enum SessionEvent {
    Command(Option<SessionCommand>),
    Started(Box<Result<(LiveAgent, Vec<RedactedLine>), FailedStart>>),
    /// An agent was ended on request.
    Ended(AgentExitReport),
    /// The leftovers of an agent that exited by itself were ended or given up.
    Cleared(AgentExitReport),
    Said(Option<ReceivedMessage>),
    /// A tool request has an outcome, or terminals have new output.
    Done(Option<(ToolRequestOrigin, ToolOutcome)>),
    Deadline(Deadline),
    /// A pending request has a decision, or a person is being asked.
    Consulted(DecisionEvent),
    /// The number of holds has changed.
    Held,
}

pub(crate) struct SessionTask {
    pub(crate) shared: EngineContext,
    pub(crate) machine: SessionMachine,
    pub(crate) journal: SessionJournal,
    pub(crate) place: LaunchSpec,
    /// The part that the session keeps from start to start.
    pub(crate) persisted: PersistedLaunchSpec,
    commands: mpsc::Receiver<SessionCommand>,
    pub(crate) told: StatusPublisher,
    /// How long an idle agent stays while the session has no hold, and whether a client set that time.
    pub(crate) idle: Option<Duration>,
    pub(crate) idle_is_wanted: bool,
    /// Counts this session as live while it has an agent.
    pub(crate) live: Option<CountGuard>,
    pub(crate) agent: Option<LiveAgent>,
    pub(crate) coming: Option<Coming>,
    /// The agent's process, until its end is persisted.
    pub(crate) run: Option<AgentRun>,
    /// An agent that is being ended on request.
    pub(crate) going: Option<JoinHandle<AgentExitReport>>,
    pub(crate) leftover: Option<Leftover>,
    /// What the agent that is being ended did wrong, if anything.
    pub(crate) fault: Option<&'static str>,
    /// The inputs that the machine gets next.
    pub(crate) inputs: VecDeque<Input>,
    pub(crate) deadline: Option<(Deadline, Instant)>,
    pub(crate) limits: SessionTimers,
    pub(crate) glance: Glance,
    pub(crate) asks: HashMap<AgentRequestId, Ask>,
    pub(crate) consultations: PendingDecisions,
    pub(crate) waiters: Waiters,
    /// Callers with a query about the agent's other sessions.
    pub(crate) inquirers: HashMap<RpcId, oneshot::Sender<Result<AgentResponse, SessionQueryError>>>,
    pub(crate) metas: ForwardedParams,
    /// The launch values of the clients with open prompts.
    pub(crate) launch_values: HashMap<RequestId, RestoreSession>,
    pub(crate) actions: Vec<SessionAction>,
    pub(crate) live_id: Option<LiveId>,
    /// The agent's full result of a prompt, while it ends the turn.
    pub(crate) prompted: Option<Arc<str>>,
    /// The `_meta` object of a version 2 agent's last state update.
    pub(crate) idle_meta: Option<Arc<str>>,
    /// The discarded lines of an agent that was detached: the turn may end after that.
    pub(crate) lost: LostLines,
    /// Lines dropped in the turn that ends, and up to the end of the previous one.
    pub(crate) dropped: u64,
    pub(crate) dropped_before: u64,
    /// Lines that were no messages, counted before the running turn. Those printed during the start or between turns
    /// are not reported.
    pub(crate) garbage_before: u64,
    /// The conversation so far as text, while a fresh session may need it.
    pub(crate) history: Option<String>,
    /// The state of the agent, if it is a remote acpx host.
    pub(crate) far: Option<RemoteHostState>,
    /// What is known of the agent's memory.
    pub(crate) knowledge: Knowledge,
    /// The first user message of a session that is being adopted, and whether it is complete.
    pub(crate) first_words: String,
    pub(crate) first_words_end: bool,
    /// The offer that the machine got last.
    pub(crate) offered: Arc<SessionOffer>,
    /// How many pages of the agent's list were read.
    pub(crate) pages: usize,
    /// Bytes the agent has sent since the last turn began or ended.
    pub(crate) received: u64,
    /// The agent's response to `session/delete`, if the session is being deleted.
    pub(crate) deletion: Deletion,
    pub(crate) over: bool,
}

impl SessionTask {
    pub(crate) fn new(
        shared: EngineContext,
        machine: SessionMachine,
        journal: SessionJournal,
        (place, persisted): (LaunchSpec, PersistedLaunchSpec),
        commands: mpsc::Receiver<SessionCommand>,
        told: StatusPublisher,
    ) -> Self {
        let idle = shared.settings.idle;
        let knowledge = Knowledge::of(journal.memory());
        let mut task = Self {
            shared,
            machine,
            journal,
            place,
            persisted,
            commands,
            told,
            idle,
            idle_is_wanted: false,
            live: None,
            agent: None,
            coming: None,
            run: None,
            going: None,
            leftover: None,
            fault: None,
            inputs: VecDeque::new(),
            deadline: None,
            limits: SessionTimers::new(),
            glance: Glance::default(),
            asks: HashMap::new(),
            consultations: PendingDecisions::default(),
            waiters: Waiters::default(),
            inquirers: HashMap::new(),
            metas: ForwardedParams::default(),
            launch_values: HashMap::new(),
            actions: Vec::new(),
            live_id: None,
            prompted: None,
            idle_meta: None,
            lost: LostLines::default(),
            dropped: 0,
            dropped_before: 0,
            garbage_before: 0,
            history: None,
            far: None,
            knowledge,
            first_words: String::new(),
            first_words_end: false,
            offered: Arc::default(),
            pages: 0,
            received: 0,
            deletion: Deletion::default(),
            over: false,
        };
        // A caller may read the ids before the task runs for the first time.
        task.tell_status();
        task
    }

    pub(crate) async fn run(mut self) {
        // The time of prompts that were queued in an earlier host has been running since.
        self.limits.note(self.now(), &self.machine);
        if let Err(error) = self.serve().await {
            self.told.exit_reason.set(ExitReason::Failed(Arc::new(error)));
        }
        self.leave().await;
    }

    async fn serve(&mut self) -> Result<(), StoreError> {
        while !self.over {
            let happening = self.next().await;
            self.take(happening).await?;
            self.drain_ready().await?;
            self.settle().await?;
        }
        Ok(())
    }

    async fn next(&mut self) -> SessionEvent {
        let known = known(&self.machine);
        // An agent that waits for a reply of ours is not silent.
        let limit = self.limits.next(&self.machine, !self.is_waited_for());
        let deadline = self.deadline.into_iter().chain(limit).min_by_key(|(_, at)| *at);
        tokio::select! {
            command = self.commands.recv() => SessionEvent::Command(command),
            started = when(self.coming.as_mut()) => {
                self.coming = None;
                SessionEvent::Started(Box::new(started))
            }
            report = when(self.going.as_mut()) => {
                self.going = None;
                SessionEvent::Ended(report.unwrap_or_default())
            }
            ended = when(self.leftover.as_mut().map(|leftover| &mut leftover.task)) => {
                SessionEvent::Cleared(ended.unwrap_or_default())
            }
            news = when(self.agent.as_mut().map(|agent| Box::pin(agent.next(known)))) => match news {
                LiveAgentEvent::Said(said) => SessionEvent::Said(said),
                LiveAgentEvent::Done(done) => SessionEvent::Done(done),
            },
            consulted = self.consultations.next() => SessionEvent::Consulted(consulted),
            held = self.told.held.changed() => {
                // The task owns a sender, so the channel stays open.
                drop(held);
                SessionEvent::Held
            }
            reached = when(deadline.map(|(name, at)| Box::pin(async move {
                tokio::time::sleep_until(at).await;
                name
            }))) => {
                self.deadline.take_if(|(name, _)| *name == reached);
                SessionEvent::Deadline(reached)
            }
        }
    }

    async fn take(&mut self, happening: SessionEvent) -> Result<(), StoreError> {
        match happening {
            SessionEvent::Command(Some(command)) => self.on_command(command).await?,
            SessionEvent::Command(None) => self.over = true,
            SessionEvent::Started(started) => match *started {
                Ok((agent, lines)) => self.take_agent(agent, lines).await?,
                Err(failed) => self.on_start_failed(failed),
            },
            SessionEvent::Ended(report) => self.on_agent_ended(report),
            SessionEvent::Cleared(report) => self.on_leftover_cleared(report),
            SessionEvent::Said(Some(said)) => self.on_agent_message(said),
            SessionEvent::Said(None) => self.on_agent_exit().await,
            SessionEvent::Done(done) => self.on_tool_outcome(done),
            SessionEvent::Deadline(deadline) => self.feed(Input::Deadline(deadline)),
            SessionEvent::Consulted(DecisionEvent::Said(ask, decision)) => self.on_decision(ask, decision),
            SessionEvent::Consulted(DecisionEvent::Put(ask)) => self.record_permission_asked(&ask),
            SessionEvent::Held => self.renew_idle_time(),
        }
        Ok(())
    }

    fn on_start_failed(&mut self, failed: FailedStart) {
        let FailedStart { error, lines, left, strays } = failed;
        self.forget_given();
        if self.journal.has_record() {
            self.append_lines(lines);
            self.record_strays(strays);
            if let Some(run) = left {
                self.journal.set_run(run);
            }
        }
        self.feed(Input::StartFailed(error));
    }

    async fn take_agent(&mut self, mut agent: LiveAgent, lines: Vec<RedactedLine>) -> Result<(), StoreError> {
        if let Some(settled) = agent.settled.take() {
            self.persist_directory(*settled).await?;
        }
        let advertised = agent.connection.capabilities().sessions;
        let profile = agent.connection.profile().restore_profile();
        let run = AgentRun { process: agent.process.identity().clone(), since: self.now(), ended: None };
        self.journal.set_run(run.clone());
        self.run = Some(run);
        self.journal.set_protocol(agent.connection.version());
        self.agent = Some(agent);
        self.garbage_before = self.lost_lines().garbage;
        self.glance.begin();
        self.received = 0;
        self.dropped_before = 0;
        self.offered = Arc::default();
        self.append_lines(lines);
        let (exchanges, last_message_at, carried_history) = self.read_history().await?;
        let on_resume = self.far.as_ref().map_or(OnResume::Nothing, RemoteHostState::on_resume);
        self.feed(Input::AgentReady {
            advertised,
            profile,
            exchanges,
            last_message_at,
            carried_history,
            on_resume,
        });
        Ok(())
    }

    pub(crate) fn append_lines(&mut self, lines: Vec<RedactedLine>) {
        let now = self.now();
        for line in lines {
            self.journal.append_line(now, None, line);
        }
    }

    /// Takes the messages that have arrived, so that they are committed together.
    async fn drain_ready(&mut self) -> Result<(), StoreError> {
        for _ in 0..BATCH_MESSAGES {
            if self.journal.waiting_bytes() > BATCH_BYTES || self.over {
                break;
            }
            let Some(agent) = self.agent.as_mut().filter(|agent| agent.sending.has_room()) else { break };
            let Some(said) = agent.connection.try_recv(known(&self.machine)) else { break };
            self.take(SessionEvent::Said(Some(said))).await?;
        }
        Ok(())
    }

    pub(crate) async fn on_agent_exit(&mut self) {
        self.persist_terminal_output(true);
        let Some(agent) = self.take_agent_away() else { return };
        let (error, leftover) = agent.gone(&self.place, &self.shared.settings).await;
        self.lose_agent(leftover, error);
    }

    /// Commits the collected changes, then acts on them, until nothing is left to do. The status is published first, so
    /// that a client that receives a reply sees the status after it.
    async fn settle(&mut self) -> Result<(), StoreError> {
        loop {
            self.journal.commit().await?;
            self.limits.note(self.now(), &self.machine);
            self.glance();
            self.tell_status();
            if self.actions.is_empty() {
                return Ok(());
            }
            for actions in std::mem::take(&mut self.actions) {
                self.execute(actions).await?;
            }
        }
    }

    /// Accepts no more commands; a new client starts the session again.
    pub(crate) fn stop_listening(&mut self) {
        self.commands.close();
    }

    pub(crate) fn forget_agent(&mut self) {
        self.asks.clear();
        self.inquirers.clear();
        self.consultations.forget();
        self.live_id = None;
        self.deadline = None;
    }

    /// How long the agent may be idle from now on. The default never ends an agent that has the only copy of its
    /// session.
    pub(crate) fn idle_time(&self) -> Option<Duration> {
        let is_kept = !self.idle_is_wanted && self.machine.has_only_memory();
        self.idle.filter(|_| !is_kept && *self.told.held.borrow() == 0)
    }

    pub(crate) fn renew_idle_time(&mut self) {
        if self.machine.is_live() && self.machine.is_idle() {
            self.arm(Deadline::Idle);
        }
    }
}

/// The context for parsing the agent's next message.
fn known(machine: &SessionMachine) -> MessageContext<'_> {
    MessageContext { session: machine.target_session() }
}

/// Awaits a future if there is one, or else for ever.
async fn when<F: Future + Unpin>(future: Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}
