//! The agent of one session: starting, running, being ended, or exited with leftovers that are being cleared.
//!
//! The slot owns the process and everything that is counted or reserved for it. Its methods return events and values,
//! and never touch the session's machine or journal.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tokio::task::JoinHandle;

use crate::acp::client::{AgentConnection, MessageContext, ReceivedMessage, SessionOffer};
use crate::acp::settings;
use crate::model::{
    AcpSessionId, AgentEnd, AgentError, AgentExit, AgentRun, AgentSpec, Fact, OfferedSettings,
    ProtocolVersion, RecordId, Timestamp,
};
use crate::tools::{GracePeriods, StrayProcesses, TerminationOutcome};

use super::launch_spec::LaunchSpec;
use super::live_agent::{
    self, AgentEvent, AgentExitReport, Leftover, LiveAgent, LiveId, LiveIds, Started, or_pending,
};
use super::remote_host::RemoteHostState;
use crate::engine::{CountGuard, EngineContext};

/// How many lines of an agent were discarded.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LostLines {
    /// Because they were no messages.
    pub(crate) garbage: u64,
    /// Because they were too long.
    pub(crate) dropped: u64,
}

/// A session's agent.
#[derive(Default)]
pub(crate) struct AgentSlot {
    live: Option<LiveAgent>,
    starting: Option<Pin<Box<dyn Future<Output = Started> + Send>>>,
    /// An agent that is being ended on request.
    ending: Option<JoinHandle<AgentExitReport>>,
    /// What the agent that is being ended did wrong, if anything.
    fault: Option<&'static str>,
    leftover: Option<Leftover>,
    /// The agent's process, until its end is persisted.
    run: Option<AgentRun>,
    /// Counts the session as live while it has an agent.
    counted: Option<CountGuard>,
    /// The ACP session that the agent has.
    reserved: Option<LiveId>,
    /// The state of the agent, if it is a remote acpx host.
    remote_host: Option<RemoteHostState>,
    /// The offer that was returned last.
    offered: Arc<SessionOffer>,
    /// Bytes the agent has sent since the last turn began or ended.
    received: u64,
    /// The discarded lines of an agent that was detached: the turn may end after that.
    lost: LostLines,
    /// The discarded lines that were reported. Garbage that is printed during the start or between turns is not.
    reported: LostLines,
    /// Lines dropped in the turn that ends.
    dropped_in_turn: u64,
}

impl AgentSlot {
    /// The running agent.
    pub(crate) fn live(&self) -> Option<&LiveAgent> {
        self.live.as_ref()
    }

    pub(crate) fn live_mut(&mut self) -> Option<&mut LiveAgent> {
        self.live.as_mut()
    }

    /// The running agent's connection, and the agent's state if it is a remote acpx host.
    pub(crate) fn connection_mut(&mut self) -> Option<(&mut AgentConnection, Option<&RemoteHostState>)> {
        Some((&mut self.live.as_mut()?.connection, self.remote_host.as_ref()))
    }

    /// Whether an agent runs or is starting. Its launch spec cannot change then.
    pub(crate) fn is_launched(&self) -> bool {
        self.live.is_some() || self.starting.is_some()
    }

    /// Whether there is an agent, from the first step of its start to the last of its shutdown.
    pub(crate) fn is_occupied(&self) -> bool {
        self.is_launched() || self.ending.is_some()
    }

    /// Whether processes of the last agent are still being ended.
    pub(crate) fn has_leftover(&self) -> bool {
        self.leftover.is_some()
    }

    /// Whether the agent's process has exited while other processes hold its pipes open.
    pub(crate) fn is_dead(&self) -> bool {
        self.live.as_ref().is_some_and(|agent| !agent.process.is_running())
    }

    /// Whether the agent's send queue is full, so that client requests are refused.
    pub(crate) fn is_behind(&self) -> bool {
        self.live.as_ref().is_some_and(|agent| !agent.send_queue.has_room())
    }

    /// Whether a file or terminal request of the agent is being executed.
    pub(crate) fn is_served(&self) -> bool {
        self.live.as_ref().is_some_and(|agent| agent.tools.is_busy())
    }

    /// Whether the connection to a remote agent is lost and being re-established.
    pub(crate) fn is_away(&self) -> bool {
        self.live.is_some() && self.remote_host.as_ref().is_some_and(RemoteHostState::is_away)
    }

    /// The state of the agent, if it is a remote acpx host.
    pub(crate) fn remote_host(&self) -> Option<&RemoteHostState> {
        self.remote_host.as_ref()
    }

    pub(crate) fn remote_host_mut(&mut self) -> Option<&mut RemoteHostState> {
        self.remote_host.as_mut()
    }

    /// The protocol version of the running agent.
    pub(crate) fn version(&self) -> Option<ProtocolVersion> {
        self.live.as_ref().map(|agent| agent.connection.version())
    }

    /// The next event; waits for ever if there is no agent. Cancel safe.
    pub(crate) async fn next(&mut self, context: MessageContext<'_>) -> AgentEvent {
        tokio::select! {
            started = or_pending(self.starting.as_mut()) => {
                self.starting = None;
                AgentEvent::Started(Box::new(started))
            }
            report = or_pending(self.ending.as_mut()) => {
                self.ending = None;
                AgentEvent::Ended(report.unwrap_or_default())
            }
            report = or_pending(self.leftover.as_mut().map(|leftover| &mut leftover.task)) => {
                AgentEvent::Cleared(report.unwrap_or_default())
            }
            event = or_pending(self.live.as_mut().map(|agent| Box::pin(agent.next(context)))) => event,
        }
    }

    /// A message that has already arrived, if the agent reads what it is sent.
    pub(crate) fn try_next(&mut self, context: MessageContext<'_>) -> Option<ReceivedMessage> {
        self.live.as_mut().filter(|agent| agent.send_queue.has_room())?.connection.try_recv(context)
    }

    /// Starts an agent, once the leftovers of the last one are cleared.
    pub(crate) fn start(&mut self, record: RecordId, launch: LaunchSpec, shared: EngineContext) {
        let predecessor = self.leftover.as_ref().map(|leftover| leftover.exited.clone());
        self.starting = Some(Box::pin(live_agent::start_for(record, launch, shared, predecessor)));
    }

    /// Takes over an agent that has started, and returns its run.
    pub(crate) fn install(
        &mut self,
        agent: LiveAgent,
        remote_host: Option<RemoteHostState>,
        now: Timestamp,
    ) -> AgentRun {
        let run = AgentRun { process: agent.process.identity().clone(), since: now, ended: None };
        self.run = Some(run.clone());
        (self.live, self.remote_host) = (Some(agent), remote_host);
        self.reported = LostLines { garbage: self.lost_lines().garbage, dropped: 0 };
        self.received = 0;
        self.offered = Arc::default();
        run
    }

    /// Ends the agent, or the one that is starting.
    pub(crate) fn end(&mut self, fault: Option<&'static str>, strays: StrayProcesses, grace: GracePeriods) {
        self.fault = fault;
        self.ending = Some(match (self.detach(), self.starting.take()) {
            (Some(agent), _) => tokio::spawn(agent.end(grace)),
            // Dropping the start kills the process group that it spawned, but no strays outside it.
            (None, starting) => tokio::spawn(async move {
                drop(starting);
                let (ended, strays) = live_agent::end_strays(strays, grace).await;
                AgentExitReport { ended, strays, ..AgentExitReport::default() }
            }),
        });
    }

    /// Ends the agent, if there is one, and waits for that.
    pub(crate) async fn shut_down(
        &mut self,
        strays: StrayProcesses,
        grace: GracePeriods,
    ) -> Option<AgentExitReport> {
        if self.is_launched() {
            self.end(None, strays, grace);
        }
        self.fault = None;
        Some(self.ending.take()?.await.unwrap_or_default())
    }

    /// Detaches the agent from the session, if there is one.
    pub(crate) fn detach(&mut self) -> Option<LiveAgent> {
        self.lost = self.lost_lines();
        self.reserved = None;
        self.live.take()
    }

    /// The run of an agent that was ended on request, to be stored.
    pub(crate) fn on_ended(&mut self, now: Timestamp, ended: TerminationOutcome) -> Option<AgentRun> {
        let fault = self.fault.take().filter(|_| ended == TerminationOutcome::Gone);
        self.end_run(now, fault.map_or_else(|| ended.into(), |fault| AgentEnd::Otherwise(fault.to_owned())))
    }

    /// The run of a detached agent that exited by itself, to be stored. Its leftovers are being ended.
    pub(crate) fn on_exited(
        &mut self,
        now: Timestamp,
        leftover: Leftover,
        error: &AgentError,
    ) -> Option<AgentRun> {
        let run = self.end_run(now, AgentEnd::Otherwise(error.to_string()));
        self.leftover = Some(Leftover { run: run.clone(), ..leftover });
        run
    }

    fn end_run(&mut self, now: Timestamp, how: AgentEnd) -> Option<AgentRun> {
        let ended = Some(AgentExit { at: now, how });
        Some(AgentRun { ended, ..self.run.take()? })
    }

    /// The run to amend if a process of the last agent could not be ended, unless another agent has started since.
    pub(crate) fn on_cleared(&mut self, ended: TerminationOutcome) -> Option<AgentRun> {
        self.leftover.take()?.amended(ended).filter(|_| self.run.is_none())
    }

    /// Waits until the leftovers of an agent that exited by itself are ended or given up.
    pub(crate) async fn clear_leftover(&mut self) -> Option<AgentExitReport> {
        Some((&mut self.leftover.as_mut()?.task).await.unwrap_or_default())
    }

    /// Counts this session as live while it has an agent.
    pub(crate) fn update_live_count(&mut self, shared: &EngineContext) {
        if self.is_occupied() != self.counted.is_some() {
            self.counted = self.is_occupied().then(|| CountGuard::one(&shared.live));
        }
    }

    /// Reserves an ACP session for this record. If another record is live on it, returns that record.
    pub(crate) fn reserve_id(
        &mut self,
        ids: &LiveIds,
        agent: &AgentSpec,
        session: AcpSessionId,
        record: &RecordId,
    ) -> Result<(), RecordId> {
        // A session that could not be restored is not live any more.
        self.reserved = None;
        self.reserved = Some(ids.take(agent, session, record)?);
        Ok(())
    }

    pub(crate) fn has_reserved_id(&self) -> bool {
        self.reserved.is_some()
    }

    /// Adds to the bytes received since the last turn began or ended, and returns their number.
    pub(crate) fn count_received(&mut self, bytes: usize) -> u64 {
        self.received += bytes as u64;
        self.received
    }

    pub(crate) fn reset_received(&mut self) {
        self.received = 0;
    }

    /// The agent's settings, if its offer has changed.
    pub(crate) fn changed_offer(&mut self) -> Option<OfferedSettings> {
        let connection = &self.live.as_ref()?.connection;
        if Arc::ptr_eq(&self.offered, connection.offered()) {
            return None;
        }
        self.offered = connection.offered().clone();
        Some(settings::offered(&self.offered, connection.version()))
    }

    /// The facts about terminals to store now. With `all` nothing more will come, and everything is stored.
    pub(crate) fn terminal_facts(&mut self, all: bool) -> Vec<Fact> {
        let Some(agent) = &mut self.live else { return Vec::new() };
        let terminals = agent.tools.terminals();
        terminals.flat_map(|(id, terminal)| terminal.facts(id, &agent.connection, all)).collect()
    }

    /// The agent's discarded lines; after its end, the final numbers.
    fn lost_lines(&self) -> LostLines {
        let counted = |agent: &LiveAgent| {
            let peer = agent.connection.peer();
            LostLines { garbage: peer.garbage_lines(), dropped: peer.dropped_lines() }
        };
        self.live.as_ref().map_or(self.lost, counted)
    }

    /// A turn begins: garbage before it is not reported.
    pub(crate) fn begin_turn(&mut self) {
        self.reported.garbage = self.lost_lines().garbage;
    }

    /// A turn ends: returns the lines that were discarded in it.
    pub(crate) fn end_turn(&mut self) -> LostLines {
        let LostLines { garbage, dropped } = self.lost_lines();
        let before = std::mem::replace(&mut self.reported, LostLines { garbage, dropped });
        self.dropped_in_turn = dropped.saturating_sub(before.dropped);
        LostLines { garbage: garbage.saturating_sub(before.garbage), dropped: self.dropped_in_turn }
    }

    /// How many lines were dropped in the turn that has ended.
    pub(crate) fn take_dropped_in_turn(&mut self) -> u64 {
        std::mem::take(&mut self.dropped_in_turn)
    }
}
