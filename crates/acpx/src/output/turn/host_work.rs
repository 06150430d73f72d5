//! Renders what acpx does for an agent as text: once when the agent requests it, in npm acpx's words, and once with the
//! result.
//!
//! A command's output belongs to the tool call that refers to its terminal. A command without one is shown by itself,
//! when its terminal is released or its turn ends: until then a tool call may still refer to it.

use acpx_core::model::{TerminalText, TerminalTexts};
use acpx_core::wire::{RpcId, RpcMessage};
use serde_json::Value;

use super::tool::{self, ToolCallView};
use crate::output::agent_request::{
    AgentRequest, AgentRequestOutcome, AgentRequestSubject, UnansweredRequests,
};

/// Open requests of the agent, and terminals not shown yet.
#[derive(Debug, Default)]
pub(super) struct HostWork {
    open: UnansweredRequests<AgentRequest>,
    /// The terminals that no tool call has referred to, in order.
    terminals: Vec<Box<str>>,
}

impl HostWork {
    /// Takes a request of the agent; returns its section. Requests about an existing terminal have none.
    pub(super) fn begun(
        &mut self,
        id: &RpcId,
        method: &str,
        params: Option<&str>,
        verbose: bool,
    ) -> Option<String> {
        let errand = AgentRequest::read(method, params);
        let section = section(&errand, "running", None);
        let is_shown = verbose || !matches!(errand.aim, AgentRequestSubject::Terminal(_));
        self.open.begin(id, Some(errand));
        is_shown.then_some(section)
    }

    /// Takes a reply to the agent; returns the section with the result of its request.
    pub(super) fn answered(&mut self, answer: &RpcMessage, terminals: &TerminalTexts) -> Option<String> {
        let (errand, end) = (self.open.end(answer)?, AgentRequestOutcome::read(answer));
        match (&errand.aim, &end) {
            (AgentRequestSubject::Permission(wanted, _), end) => {
                Some(format!("[permission] {wanted}: {}\n", errand.outcome(end)))
            }
            (AgentRequestSubject::Command(_), AgentRequestOutcome::Done(result)) => {
                self.terminals.extend(result.get("terminalId").and_then(Value::as_str).map(Into::into));
                None
            }
            (AgentRequestSubject::Terminal(id), AgentRequestOutcome::Done(_))
                if errand.method == "terminal/release" =>
            {
                let index = self.terminals.iter().position(|terminal| terminal == id)?;
                terminals.get(&self.terminals.remove(index)).map(ended)
            }
            (
                AgentRequestSubject::Terminal(_),
                AgentRequestOutcome::Done(_) | AgentRequestOutcome::Cancelled,
            ) => None,
            (
                AgentRequestSubject::File(_)
                | AgentRequestSubject::Command(_)
                | AgentRequestSubject::Terminal(_)
                | AgentRequestSubject::Other,
                end,
            ) => Some(section(&errand, end.word(), end.error())),
        }
    }

    /// Drops the terminals that a tool call refers to: the tool call shows them.
    pub(super) fn leave_to_tool(&mut self, tool: &ToolCallView) {
        self.terminals.retain(|terminal| !tool.refers_to(terminal));
    }

    /// The turn has ended: the sections of what was not shown.
    pub(super) fn rest(&mut self, terminals: &TerminalTexts) -> Vec<String> {
        self.open.clear();
        self.terminals.drain(..).filter_map(|id| terminals.get(&id).map(ended)).collect()
    }
}

fn section(errand: &AgentRequest, word: &str, error: Option<&str>) -> String {
    let subject =
        errand.subject().map(|(what, subject)| format!("  {what}: {subject}\n")).unwrap_or_default();
    let error = error.map(|error| format!("  error: {error}\n")).unwrap_or_default();
    format!("[client] {} ({word})\n{subject}{error}", errand.method)
}

/// A command with its output.
fn ended(terminal: &TerminalText) -> String {
    let word = if terminal.exit.is_some() { "completed" } else { "running" };
    format!("[client] terminal/create ({word})\n{}", tool::output(&tool::terminal(terminal)))
}
