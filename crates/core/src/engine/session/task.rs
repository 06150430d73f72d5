//! One session's task: the loop over its components, and the only owner of its machine, its agent and its lease on the
//! record.
//!
//! It waits for an event, takes the agent's other messages that have arrived, and settles them together: commit, then
//! act. Everything that can happen is a [`SessionEvent`]; nothing else changes the session.

use std::sync::Arc;

use tokio::sync::mpsc;

use crate::acp;
use crate::acp::client::{MessageContext, RedactedLine};
use crate::machine::{Deadline, Input, OnResume, SessionMachine};
use crate::model::{AgentError, EndedProcess, Event, Fact, LineageIndex, RecordId, Seq, SessionIdentity};
use crate::store::{Store, StoreError};
use crate::tools::SweptProcess;

use super::agent_memory::MemoryTracker;
use super::commands::SessionCommand;
use super::effects::SessionAction;
use super::journal::{ScopeChange, SessionJournal};
use super::replies::Replies;
use super::status::{SessionStatus, StatusPublisher};
use super::timers::Timers;
use crate::engine::EngineContext;
use crate::engine::agent::directory::DirectoryChange;
use crate::engine::agent::launch_spec::{LaunchSpec, PersistedLaunchSpec};
use crate::engine::agent::live_agent::{
    AgentEvent, AgentExitReport, FailedStart, Leftover, LiveAgent, or_pending,
};
use crate::engine::agent::remote_host::RemoteHostState;
use crate::engine::agent::slot::AgentSlot;
use crate::engine::api::error::ExitReason;
use crate::engine::permissions::dispatch::Permissions;
use crate::engine::permissions::request::DecisionEvent;
use crate::engine::restore::history::{self, StoredHistory};
use crate::engine::restore::list_lookup::RestoreState;

/// How many of the agent's messages, and about how many bytes, are committed together at most.
const BATCH_MESSAGES: usize = 512;
const BATCH_BYTES: usize = 1024 * 1024;

/// Anything that can happen to a session.
enum SessionEvent {
    Command(Option<SessionCommand>),
    Agent(AgentEvent),
    Deadline(Deadline),
    /// A pending request has a decision, or a person is being asked.
    Decision(DecisionEvent),
    /// The number of holds has changed.
    Held,
}

pub(crate) struct SessionTask {
    pub(super) shared: EngineContext,
    pub(super) machine: SessionMachine,
    pub(super) journal: SessionJournal,
    pub(super) launch: LaunchSpec,
    /// The part that the session keeps from start to start.
    pub(super) persisted_launch: PersistedLaunchSpec,
    commands: mpsc::Receiver<SessionCommand>,
    pub(super) status: StatusPublisher,
    pub(super) agent: AgentSlot,
    pub(super) permissions: Permissions,
    pub(super) replies: Replies,
    pub(super) timers: Timers,
    /// What is known of the agent's memory.
    pub(super) memory: MemoryTracker,
    pub(super) restore: RestoreState,
    /// What to do once the collected changes are committed.
    pub(super) actions: Vec<SessionAction>,
    pub(super) over: bool,
}

impl SessionTask {
    pub(crate) fn new(
        shared: EngineContext,
        machine: SessionMachine,
        journal: SessionJournal,
        (launch, persisted_launch): (LaunchSpec, PersistedLaunchSpec),
        commands: mpsc::Receiver<SessionCommand>,
        status: StatusPublisher,
    ) -> Self {
        let (timers, memory) = (Timers::new(shared.settings.idle), MemoryTracker::of(journal.memory()));
        let mut task = Self {
            shared,
            machine,
            journal,
            launch,
            persisted_launch,
            commands,
            status,
            agent: AgentSlot::default(),
            permissions: Permissions::default(),
            replies: Replies::default(),
            timers,
            memory,
            restore: RestoreState::default(),
            actions: Vec::new(),
            over: false,
        };
        // A caller may read the ids before the task runs for the first time.
        task.publish_status();
        task
    }

    pub(crate) async fn run(mut self) {
        // The time of prompts that were queued in an earlier host has been running since.
        self.timers.update(self.now(), &self.machine);
        if let Err(error) = self.serve().await {
            self.journal.log.store_failed(&error);
            self.status.exit_reason.set(ExitReason::Failed(Arc::new(error)));
        }
        self.leave().await;
    }

    async fn serve(&mut self) -> Result<(), StoreError> {
        while !self.over {
            let event = self.next().await;
            self.on_event(event).await?;
            self.drain_ready();
            self.settle().await?;
        }
        Ok(())
    }

    async fn next(&mut self) -> SessionEvent {
        let context = MessageContext { session: self.machine.target_session() };
        let agent_waits = !self.permissions.is_empty() || self.agent.is_served();
        let deadline = self.timers.next(&self.machine, agent_waits);
        tokio::select! {
            command = self.commands.recv() => SessionEvent::Command(command),
            event = self.agent.next(context) => SessionEvent::Agent(event),
            event = self.permissions.decisions.next() => SessionEvent::Decision(event),
            held = self.status.held.changed() => {
                // The task owns a sender, so the channel stays open.
                drop(held);
                SessionEvent::Held
            }
            reached = or_pending(deadline.map(|(name, at)| Box::pin(async move {
                tokio::time::sleep_until(at).await;
                name
            }))) => {
                self.timers.on_reached(reached);
                SessionEvent::Deadline(reached)
            }
        }
    }

    async fn on_event(&mut self, event: SessionEvent) -> Result<(), StoreError> {
        match event {
            SessionEvent::Command(Some(command)) => self.on_command(command).await?,
            SessionEvent::Command(None) => self.over = true,
            SessionEvent::Agent(AgentEvent::Started(started)) => match *started {
                Ok((agent, lines)) => self.on_agent_started(agent, lines).await?,
                Err(failed) => self.on_start_failed(failed),
            },
            SessionEvent::Agent(AgentEvent::Ended(report)) => self.on_agent_ended(report),
            SessionEvent::Agent(AgentEvent::Cleared(report)) => self.on_leftover_cleared(report),
            SessionEvent::Agent(AgentEvent::Message(Some(message))) => self.on_agent_message(message),
            SessionEvent::Agent(AgentEvent::Message(None)) => self.on_agent_exit().await,
            SessionEvent::Agent(AgentEvent::ToolOutcome(outcome)) => self.on_tool_outcome(outcome),
            SessionEvent::Deadline(deadline) => {
                self.journal.log.deadline(deadline);
                self.feed(Input::Deadline(deadline));
            }
            SessionEvent::Decision(DecisionEvent::Decided(ask, decision)) => self.on_decision(&ask, decision),
            SessionEvent::Decision(DecisionEvent::Pending(ask, question)) => {
                self.record_permission_asked(&ask);
                self.notify_waiting(&ask, question);
            }
            SessionEvent::Held => self.restart_idle_time(),
        }
        Ok(())
    }

    /// Takes the messages that have arrived, so that they are committed together.
    fn drain_ready(&mut self) {
        for _ in 0..BATCH_MESSAGES {
            if self.journal.waiting_bytes() > BATCH_BYTES || self.over {
                break;
            }
            let context = MessageContext { session: self.machine.target_session() };
            let Some(message) = self.agent.try_next(context) else { break };
            self.on_agent_message(message);
        }
    }

    /// Commits the collected changes, then acts on them, until nothing is left to do. The status is published first, so
    /// that a client that receives a reply sees the status after it.
    async fn settle(&mut self) -> Result<(), StoreError> {
        loop {
            if self.permissions.take_settled_notification() {
                self.journal.remove_waiting_notification();
            }
            self.journal.commit().await?;
            self.timers.update(self.now(), &self.machine);
            self.timers.wait.observe(self.wait_reason());
            self.publish_status();
            if self.actions.is_empty() {
                return Ok(());
            }
            for action in std::mem::take(&mut self.actions) {
                self.execute(action).await?;
            }
        }
    }

    fn publish_status(&mut self) {
        self.agent.update_live_count(&self.shared);
        if let Some(agent) = self.agent.live().filter(|_| self.machine.is_live()) {
            self.status.publish_offer(&agent.connection);
        }
        self.status.publish(SessionStatus {
            identity: self.identity(),
            agent_pid: self.agent.live().map(|agent| agent.process.pid()),
            has_agent: self.agent.is_occupied(),
            has_work: self.machine.has_work(),
            queued: self.machine.queued_count(),
            has_leftover: self.agent.has_leftover(),
            memory: self.memory.memory(),
            unmet: self.machine.unmet_settings(),
            awakened: self.memory.awakened(),
        });
    }

    /// The record's three ids, once there is a record.
    pub(super) fn identity(&self) -> Option<SessionIdentity> {
        self.machine.lineage().filter(|_| self.journal.has_record()).map(|lineage| SessionIdentity {
            record: self.journal.record().clone(),
            session: lineage.current().session.clone(),
            agent_session: lineage.current().agent_session.clone(),
        })
    }

    fn on_start_failed(&mut self, failed: FailedStart) {
        let FailedStart { error, lines, left, strays } = failed;
        self.journal.log.agent_not_started(&self.launch.agent, &error);
        self.launch.restore(self.persisted_launch.clone());
        if self.journal.has_record() {
            self.append_lines(lines);
            self.record_strays(strays);
            self.journal.set_run(left);
        }
        self.feed(Input::StartFailed(error));
    }

    async fn on_agent_started(
        &mut self,
        mut agent: LiveAgent,
        lines: Vec<RedactedLine>,
    ) -> Result<(), StoreError> {
        if let Some(change) = agent.directory_change.take() {
            self.persist_directory(*change).await?;
        }
        let advertised = agent.connection.capabilities().sessions;
        let profile = agent.connection.profile().restore_profile();
        // Only updates through the relay to another machine carry sequence numbers.
        let is_remote_host = agent.connection.is_host() && self.launch.agent.url().is_some();
        let remote_host = is_remote_host.then(|| RemoteHostState::new(self.journal.lineage()));
        let (pid, protocol) = (agent.process.pid(), agent.connection.version());
        self.journal.log.agent_started(&self.launch.agent, pid, protocol.number());
        self.journal.set_protocol(protocol);
        self.journal.set_run(self.agent.install(agent, remote_host, self.now()));
        self.timers.wait.set_last_message(None);
        self.append_lines(lines);
        let StoredHistory { exchanges, last_message_at, transcript, .. } = self.read_history().await?;
        let carried_history;
        (self.restore.transcript, carried_history) = transcript.unzip();
        let on_resume = self.agent.remote_host().map_or(OnResume::Nothing, RemoteHostState::on_resume);
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

    /// Reads the conversation so far, if there is a record.
    async fn read_history(&mut self) -> Result<StoredHistory, StoreError> {
        if !self.journal.has_record() {
            return Ok(StoredHistory::default());
        }
        self.journal.commit_exchanges().await?;
        let record = self.journal.record();
        let (history, exchanges) = history::read(&self.shared.store, record, &self.machine).await?;
        if let Some(host) = self.agent.remote_host_mut() {
            *host = remote_host(&self.shared.store, record, self.journal.lineage(), history.recent).await?;
        }
        self.journal.set_exchanges(exchanges);
        if let Some(memory) = history.memory {
            self.memory.remember(memory);
            self.journal.set_memory(memory);
        }
        Ok(history)
    }

    /// Persists the directory that a start resolved. If another record has the scope of a newly resolved directory,
    /// this record loses its scope and is found by its id.
    async fn persist_directory(&mut self, change: DirectoryChange) -> Result<(), StoreError> {
        let DirectoryChange { cwd, real_cwd } = change;
        match self.journal.set_directory(&cwd, &real_cwd, ScopeChange::Keep).await {
            Err(StoreError::ScopeTaken { .. }) => {
                self.journal.set_directory(&cwd, &real_cwd, ScopeChange::Remove).await?;
            }
            stored => stored?,
        }
        if self.launch.cwd == cwd {
            self.launch.real_cwd = Some(real_cwd);
        } else {
            self.move_to(cwd, real_cwd);
        }
        Ok(())
    }

    fn append_lines(&mut self, lines: Vec<RedactedLine>) {
        let now = self.now();
        for line in lines {
            self.journal.append_line(now, None, &line);
        }
    }

    /// Handles an agent that exited by itself.
    pub(super) async fn on_agent_exit(&mut self) {
        self.persist_terminal_output(true);
        let Some(agent) = self.agent.detach() else { return };
        let (error, leftover) = agent.into_leftover(&self.launch, &self.shared.settings).await;
        self.lose_agent(leftover, error);
    }

    /// Handles the loss of a detached agent, while its leftovers are being ended.
    pub(super) fn lose_agent(&mut self, leftover: Leftover, error: AgentError) {
        self.forget_agent();
        self.journal.log.agent_lost(&error);
        self.journal.set_run(self.agent.on_exited(self.now(), leftover, &error));
        self.feed(Input::AgentExited(error));
    }

    /// Handles the end of an agent that was ended on request.
    fn on_agent_ended(&mut self, mut report: AgentExitReport) {
        self.append_lines(std::mem::take(&mut report.lines));
        self.persist_exit(report);
        self.feed(Input::AgentStopped);
    }

    /// Persists the end of an agent that was ended on request.
    fn persist_exit(&mut self, report: AgentExitReport) {
        self.append_facts(&report.commands);
        self.record_strays(report.strays);
        self.journal.log.agent_ended(report.ended);
        self.journal.set_run(self.agent.on_ended(self.now(), report.ended));
    }

    /// Persists that a process of the last agent could not be ended, unless another agent has started since.
    fn on_leftover_cleared(&mut self, report: AgentExitReport) {
        self.append_facts(&report.commands);
        self.record_strays(report.strays);
        self.journal.set_run(self.agent.on_cleared(report.ended));
    }

    /// Waits until the leftovers of an agent that exited by itself are ended or given up.
    pub(super) async fn clear_leftover(&mut self) {
        if let Some(report) = self.agent.clear_leftover().await {
            self.on_leftover_cleared(report);
        }
    }

    fn append_facts(&mut self, facts: &[Fact]) {
        let now = self.now();
        for fact in facts {
            self.journal.append_fact(now, fact);
        }
    }

    /// Records the strays that were ended, as far as they are known to belong to this agent.
    fn record_strays(&mut self, strays: Vec<SweptProcess>) {
        let named = |process: SweptProcess| EndedProcess { name: process.name, pid: process.identity.pid };
        let own = strays.into_iter().filter(|process| process.record.is_some());
        let processes: Vec<EndedProcess> = own.map(named).collect();
        if !processes.is_empty() {
            self.journal.append_fact(self.now(), &Fact::ProcessesEnded { processes });
        }
    }

    /// Ends all processes of the session, or persists which are left. Takes no longer than their grace periods.
    async fn leave(mut self) {
        self.stop_listening();
        self.journal.close();
        let strays = self.shared.strays(self.journal.record().as_str());
        if let Some(report) = self.agent.shut_down(strays, self.shared.settings.process).await {
            self.persist_exit(report);
        }
        self.clear_leftover().await;
        // A store that failed has failed this session already; the next request reports it.
        drop(self.journal.commit().await);
    }

    /// Accepts no more commands; a new client starts the session again.
    pub(super) fn stop_listening(&mut self) {
        self.commands.close();
    }

    /// Drops what belongs to an agent that is detached.
    pub(super) fn forget_agent(&mut self) {
        self.permissions.clear();
        self.replies.queries.clear();
        self.timers.disarm();
    }
}

/// What is known of a remote acpx host after the stored events. The recent exchanges suffice, because the host works on
/// one prompt at a time, unless they have no event with the host's numbers.
async fn remote_host(
    store: &Arc<dyn Store>,
    record: &RecordId,
    lineage: LineageIndex,
    recent: Option<Seq>,
) -> Result<RemoteHostState, StoreError> {
    let mut host = RemoteHostState::new(lineage);
    for from in recent.into_iter().chain([Seq::FIRST]) {
        host = RemoteHostState::new(lineage);
        let apply = |event: &Event| host.apply_event(record, event, &acp::content(event));
        history::visit(store, record, from, apply).await?;
        if host.missed().is_some() {
            break;
        }
    }
    Ok(host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::session::journal::NewRecord;
    use crate::model::{
        AbsolutePath, AcpSessionId, AgentSpec, Direction, EventKind, HostId, Lineage, Timestamp,
    };
    use crate::store::{Change, MemoryStore};

    #[tokio::test]
    async fn remote_host_is_read_from_recent_events_that_have_its_numbers() {
        let (at, directory) = (Timestamp::from_millis(0).unwrap(), AbsolutePath::new("/w").unwrap());
        let id = RecordId::new("r").unwrap();
        let seed = NewRecord {
            id: id.clone(),
            agent: AgentSpec::new("a", [""; 0]),
            cwd: directory.clone(),
            real_cwd: directory,
            additional_directories: Vec::new(),
            mcp_servers: Vec::new(),
            scope: None,
        };
        let lineage = Lineage::begin(AcpSessionId::new("s").unwrap(), None, at);
        let body = |meta: &str| {
            let params = format!(r#"{{"sessionId":"s","update":{{}},"_meta":{meta}}}"#);
            format!(r#"{{"jsonrpc":"2.0","method":"session/update","params":{params}}}"#)
        };
        let numbered = |number: u64| body(&format!(r#"{{"acpx":{{"seq":{number}}}}}"#));
        let bodies = [numbered(50), numbered(9), body("{}")];
        let events = (1..).zip(bodies).map(|(seq, body)| {
            Change::Event(Event {
                seq: Seq(seq),
                at,
                turn: None,
                lineage: LineageIndex::FIRST,
                protocol: 1,
                direction: Direction::FromAgent,
                kind: EventKind::Update,
                body: body.into(),
            })
        });
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let record = seed.into_record(lineage, at);
        store.create(record, events.collect(), HostId::new("h").unwrap()).await.unwrap();
        for (recent, missed) in [(Some(Seq(2)), 10), (Some(Seq(3)), 51), (None, 51)] {
            let host = remote_host(&store, &id, LineageIndex::FIRST, recent).await.unwrap();
            assert_eq!(host.missed(), Some(Seq(missed)), "{recent:?}");
        }
    }
}
