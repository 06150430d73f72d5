//! How a session parts from its agent: one that is ended, one that goes by itself, one that says too much. What is left
//! of any of them is ended, and what is known of its end is kept.

use crate::machine::Input;
use crate::model::{AgentEnd, AgentError, AgentExit, AgentRun, EndedProcess, Fact};
use crate::tools::{SweptProcess, TerminationOutcome};

use super::live_agent;
use super::live_agent::{AgentExitReport, Leftover, LiveAgent};
use crate::engine::session::effects::UNBORN_BYTES;
use crate::engine::session::task::SessionTask;

impl SessionTask {
    /// Ends the agent, or the one that is coming up.
    pub(crate) fn end_agent(&mut self) {
        self.keep_news(true);
        let (strays, grace) =
            (self.shared.strays(self.keeper.record().as_str()), self.shared.settings.process);
        let going = match (self.take_agent_away(), self.coming.take()) {
            (Some(agent), _) => tokio::spawn(agent.end(grace)),
            // Dropping the start kills what it had started, but for what has left the agent's group.
            (None, coming) => tokio::spawn(async move {
                drop(coming);
                let (ended, strays) = live_agent::end_strays(strays, grace).await;
                AgentExitReport { ended, strays, ..AgentExitReport::default() }
            }),
        };
        self.going = Some(going);
        self.forget_agent();
    }

    /// The agent, if there is one, which from then on is none of the session's; what it lost is still known.
    pub(crate) fn take_agent_away(&mut self) -> Option<LiveAgent> {
        self.lost = self.lost_lines();
        self.agent.take()
    }

    /// The agent has gone as it was asked to, or would not.
    pub(crate) fn take_ended(&mut self, farewell: AgentExitReport) {
        let AgentExitReport { lines, commands, ended, strays } = farewell;
        self.keep_lines(lines);
        self.keep_commands(&commands);
        self.keep_strays(strays);
        let fault = self.fault.take().filter(|_| ended == TerminationOutcome::Gone);
        self.keep_run_end(fault.map_or_else(|| ended.into(), |how| AgentEnd::Otherwise(how.to_owned())));
        self.step(Input::AgentEnded);
    }

    /// Stops an agent that says more than it may.
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

    /// The agent has gone by itself, and what it left is being ended.
    pub(crate) fn lose_agent(&mut self, leftover: Leftover, error: AgentError) {
        self.forget_agent();
        let run = self.keep_run_end(AgentEnd::Otherwise(error.to_string()));
        self.leftover = Some(Leftover { run, ..leftover });
        self.step(Input::AgentGone(error));
    }

    /// Keeps how the agent's process ended, if one ran; the run as it is kept.
    fn keep_run_end(&mut self, how: AgentEnd) -> Option<AgentRun> {
        let ended = Some(AgentExit { at: self.now(), how });
        let run = AgentRun { ended, ..self.run.take()? };
        self.keeper.keep_run(run.clone());
        Some(run)
    }

    /// Keeps what became of the commands that were ended with their agent.
    fn keep_commands(&mut self, facts: &[Fact]) {
        for fact in facts {
            self.keeper.keep_fact(self.now(), fact);
        }
    }

    /// Names what was ended beyond an agent's own group, as far as it is known to be this agent's.
    pub(crate) fn keep_strays(&mut self, strays: Vec<SweptProcess>) {
        let named = |process: SweptProcess| EndedProcess { name: process.name, pid: process.identity.pid };
        let own = strays.into_iter().filter(|process| process.record.is_some());
        let processes: Vec<EndedProcess> = own.map(named).collect();
        if !processes.is_empty() {
            self.keeper.keep_fact(self.now(), &Fact::ProcessesEnded { processes });
        }
    }

    /// Keeps that something of the last agent would not go, unless another agent has come since.
    pub(crate) fn take_cleared(&mut self, farewell: AgentExitReport) {
        let AgentExitReport { commands, ended, strays, .. } = farewell;
        self.keep_commands(&commands);
        self.keep_strays(strays);
        let amended = self.leftover.take().and_then(|leftover| leftover.amended(ended));
        if let Some(run) = amended.filter(|_| self.run.is_none()) {
            self.keeper.keep_run(run);
        }
    }

    /// Waits until what an agent has left that went by itself is gone, or would not go.
    pub(crate) async fn clear_leftover(&mut self) {
        if let Some(leftover) = &mut self.leftover {
            let farewell = (&mut leftover.task).await.unwrap_or_default();
            self.take_cleared(farewell);
        }
    }

    /// Leaves nothing behind, or tells what is left. It does not take longer than processes are given.
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
        // A store that failed has failed this session already; whoever asks next is told.
        drop(self.keeper.commit().await);
    }
}
