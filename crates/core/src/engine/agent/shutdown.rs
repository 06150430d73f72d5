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
        self.keep_news(true);
        let (strays, grace) =
            (self.shared.strays(self.keeper.record().as_str()), self.shared.settings.process);
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
    pub(crate) fn take_ended(&mut self, farewell: AgentExitReport) {
        let AgentExitReport { lines, commands, ended, strays } = farewell;
        self.keep_lines(lines);
        self.keep_commands(&commands);
        self.keep_strays(strays);
        let fault = self.fault.take().filter(|_| ended == TerminationOutcome::Gone);
        self.keep_run_end(fault.map_or_else(|| ended.into(), |how| AgentEnd::Otherwise(how.to_owned())));
        self.step(Input::AgentEnded);
    }

    /// Ends an agent that sends more than it may.
    pub(crate) fn stop_flood(&mut self) {
        let Some(agent) = self.take_agent_away() else { return };
        agent.connection.peer().abort();
        let limit =
            if self.keeper.has_record() { self.shared.settings.turn_bytes } else { UNBORN_BYTES as u64 };
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
        let run = self.keep_run_end(AgentEnd::Otherwise(error.to_string()));
        self.leftover = Some(Leftover { run, ..leftover });
        self.step(Input::AgentGone(error));
    }

    /// Persists how the agent's process ended, if one ran, and returns the stored run.
    fn keep_run_end(&mut self, how: AgentEnd) -> Option<AgentRun> {
        let ended = Some(AgentExit { at: self.now(), how });
        let run = AgentRun { ended, ..self.run.take()? };
        self.keeper.keep_run(run.clone());
        Some(run)
    }

    /// Persists the outcomes of commands that were ended with their agent.
    fn keep_commands(&mut self, facts: &[Fact]) {
        for fact in facts {
            self.keeper.keep_fact(self.now(), fact);
        }
    }

    /// Records the strays that were ended, as far as they are known to belong to this agent.
    pub(crate) fn keep_strays(&mut self, strays: Vec<SweptProcess>) {
        let named = |process: SweptProcess| EndedProcess { name: process.name, pid: process.identity.pid };
        let own = strays.into_iter().filter(|process| process.record.is_some());
        let processes: Vec<EndedProcess> = own.map(named).collect();
        if !processes.is_empty() {
            self.keeper.keep_fact(self.now(), &Fact::ProcessesEnded { processes });
        }
    }

    /// Persists that a process of the last agent could not be ended, unless another agent has started since.
    pub(crate) fn take_cleared(&mut self, farewell: AgentExitReport) {
        let AgentExitReport { commands, ended, strays, .. } = farewell;
        self.keep_commands(&commands);
        self.keep_strays(strays);
        let amended = self.leftover.take().and_then(|leftover| leftover.amended(ended));
        if let Some(run) = amended.filter(|_| self.run.is_none()) {
            self.keeper.keep_run(run);
        }
    }

    /// Waits until the leftovers of an agent that exited by itself are ended or given up.
    pub(crate) async fn clear_leftover(&mut self) {
        if let Some(leftover) = &mut self.leftover {
            let farewell = (&mut leftover.task).await.unwrap_or_default();
            self.take_cleared(farewell);
        }
    }

    /// Ends all processes of the session, or persists which are left. Takes no longer than their grace periods.
    pub(crate) async fn leave(mut self) {
        self.stop_listening();
        self.keeper.close();
        let grace = self.shared.settings.process;
        if self.coming.take().is_some() {
            let strays = self.shared.strays(self.keeper.record().as_str());
            let (_, strays) = live_agent::end_strays(strays, grace).await;
            self.keep_strays(strays);
        }
        if let Some(agent) = self.agent.take() {
            let AgentExitReport { commands, ended, strays, .. } = agent.end(grace).await;
            self.keep_commands(&commands);
            self.keep_strays(strays);
            self.keep_run_end(ended.into());
        }
        if let Some(going) = self.going.take() {
            let AgentExitReport { commands, ended, strays, .. } = going.await.unwrap_or_default();
            self.keep_commands(&commands);
            self.keep_strays(strays);
            self.keep_run_end(ended.into());
        }
        self.clear_leftover().await;
        // A store that failed has failed this session already; the next request reports it.
        drop(self.keeper.commit().await);
    }
}
