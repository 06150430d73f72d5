//! Ends a session's agent: on request, after it exited by itself, or because it sent too much. Leftover processes are
//! ended, and the outcome is persisted.

use crate::machine::Input;
use crate::model::{AgentEnd, AgentError, AgentExit, AgentRun, EndedProcess, Fact};
use crate::tools::{SweptProcess, TerminationOutcome};

use super::live_agent;
use super::live_agent::{AgentExitReport, Leftover, LiveAgent};
use crate::engine::session::effects::UNBORN_BYTES;
use crate::engine::session::task::SessionTask;

impl SessionTask {
    /// Ends the agent, or the one that is starting.
    pub(crate) fn end_agent(&mut self) {
        self.persist_terminal_output(true);
        let (strays, grace) =
            (self.shared.strays(self.journal.record().as_str()), self.shared.settings.process);
        let going = match (self.take_agent_away(), self.coming.take()) {
            (Some(agent), _) => tokio::spawn(agent.end(grace)),
            // Dropping the start kills the process group that it spawned, but no strays outside it.
            (None, coming) => tokio::spawn(async move {
                drop(coming);
                let (ended, strays) = live_agent::end_strays(strays, grace).await;
                AgentExitReport { ended, strays, ..AgentExitReport::default() }
            }),
        };
        self.going = Some(going);
        self.forget_agent();
    }

    /// Detaches the agent from the session, if there is one, and remembers how many lines it lost.
    pub(crate) fn take_agent_away(&mut self) -> Option<LiveAgent> {
        self.lost = self.lost_lines();
        self.agent.take()
    }

    /// Handles the end of an agent that was ended on request.
    pub(crate) fn on_agent_ended(&mut self, report: AgentExitReport) {
        let AgentExitReport { lines, commands, ended, strays } = report;
        self.append_lines(lines);
        self.append_facts(&commands);
        self.record_strays(strays);
        let fault = self.fault.take().filter(|_| ended == TerminationOutcome::Gone);
        self.persist_run_end(fault.map_or_else(|| ended.into(), |how| AgentEnd::Otherwise(how.to_owned())));
        self.feed(Input::AgentStopped);
    }

    /// Ends an agent that sends more than it may.
    pub(crate) fn stop_flood(&mut self) {
        let Some(agent) = self.take_agent_away() else { return };
        agent.connection.peer().abort();
        let limit =
            if self.journal.has_record() { self.shared.settings.turn_bytes } else { UNBORN_BYTES as u64 };
        let during = match self.machine.current_turn() {
            Some(turn) => format!("in turn {turn}"),
            None => "outside any turn".to_owned(),
        };
        let error = AgentError::Flooded { agent: self.place.agent.label().into_owned(), limit, during };
        let leftover = Leftover::of(agent, self.shared.settings.process);
        self.lose_agent(leftover, error);
    }

    /// Handles an agent that exited by itself, while its leftovers are being ended.
    pub(crate) fn lose_agent(&mut self, leftover: Leftover, error: AgentError) {
        self.forget_agent();
        let run = self.persist_run_end(AgentEnd::Otherwise(error.to_string()));
        self.leftover = Some(Leftover { run, ..leftover });
        self.feed(Input::AgentExited(error));
    }

    /// Persists how the agent's process ended, if one ran, and returns the stored run.
    fn persist_run_end(&mut self, how: AgentEnd) -> Option<AgentRun> {
        let ended = Some(AgentExit { at: self.now(), how });
        let run = AgentRun { ended, ..self.run.take()? };
        self.journal.set_run(run.clone());
        Some(run)
    }

    /// Persists the outcomes of commands that were ended with their agent.
    fn append_facts(&mut self, facts: &[Fact]) {
        for fact in facts {
            self.journal.append_fact(self.now(), fact);
        }
    }

    /// Records the strays that were ended, as far as they are known to belong to this agent.
    pub(crate) fn record_strays(&mut self, strays: Vec<SweptProcess>) {
        let named = |process: SweptProcess| EndedProcess { name: process.name, pid: process.identity.pid };
        let own = strays.into_iter().filter(|process| process.record.is_some());
        let processes: Vec<EndedProcess> = own.map(named).collect();
        if !processes.is_empty() {
            self.journal.append_fact(self.now(), &Fact::ProcessesEnded { processes });
        }
    }

    /// Persists that a process of the last agent could not be ended, unless another agent has started since.
    pub(crate) fn on_leftover_cleared(&mut self, report: AgentExitReport) {
        let AgentExitReport { commands, ended, strays, .. } = report;
        self.append_facts(&commands);
        self.record_strays(strays);
        let amended = self.leftover.take().and_then(|leftover| leftover.amended(ended));
        if let Some(run) = amended.filter(|_| self.run.is_none()) {
            self.journal.set_run(run);
        }
    }

    /// Waits until the leftovers of an agent that exited by itself are ended or given up.
    pub(crate) async fn clear_leftover(&mut self) {
        if let Some(leftover) = &mut self.leftover {
            let report = (&mut leftover.task).await.unwrap_or_default();
            self.on_leftover_cleared(report);
        }
    }

    /// Ends all processes of the session, or persists which are left. Takes no longer than their grace periods.
    pub(crate) async fn leave(mut self) {
        self.stop_listening();
        self.journal.close();
        let grace = self.shared.settings.process;
        if self.coming.take().is_some() {
            let strays = self.shared.strays(self.journal.record().as_str());
            let (_, strays) = live_agent::end_strays(strays, grace).await;
            self.record_strays(strays);
        }
        if let Some(agent) = self.agent.take() {
            let AgentExitReport { commands, ended, strays, .. } = agent.end(grace).await;
            self.append_facts(&commands);
            self.record_strays(strays);
            self.persist_run_end(ended.into());
        }
        if let Some(going) = self.going.take() {
            let AgentExitReport { commands, ended, strays, .. } = going.await.unwrap_or_default();
            self.append_facts(&commands);
            self.record_strays(strays);
            self.persist_run_end(ended.into());
        }
        self.clear_leftover().await;
        // A store that failed has failed this session already; the next request reports it.
        drop(self.journal.commit().await);
    }
}
