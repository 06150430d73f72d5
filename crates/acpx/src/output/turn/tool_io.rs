//! Renders what acpx does for an agent as text: once when the agent requests it, in npm acpx's words, and once with the
//! result.
//!
//! A command's output belongs to the tool call that refers to its terminal. A command without one is shown by itself,
//! when its terminal is released or its turn ends: until then a tool call may still refer to it.

use acpx_core::model::{TerminalText, TerminalTexts};
use acpx_core::wire::{RpcId, RpcMessage};
use serde_json::Value;

use super::tool::{self, ToolCallView};
use crate::output::agent_request::{AgentRequest, RequestOutcome, RequestSubject, UnansweredRequests};

/// Open requests of the agent, and terminals not shown yet.
#[derive(Debug, Default)]
pub(super) struct ToolIoView {
    open: UnansweredRequests<AgentRequest>,
    /// The terminals that no tool call has referred to, in order.
    terminals: Vec<Box<str>>,
}

impl ToolIoView {
    /// Takes a request of the agent; returns its section. Requests about an existing terminal have none.
    pub(super) fn on_request(
        &mut self,
        id: &RpcId,
        method: &str,
        params: Option<&str>,
        verbose: bool,
    ) -> Option<String> {
        let request = AgentRequest::read(method, params);
        let section = section(&request, "running", None);
        let is_shown = verbose || !matches!(request.subject, RequestSubject::Terminal(_));
        self.open.begin(id, Some(request));
        is_shown.then_some(section)
    }

    /// Takes a reply to the agent; returns the section with the result of its request.
    pub(super) fn on_response(&mut self, answer: &RpcMessage, terminals: &TerminalTexts) -> Option<String> {
        let (request, end) = (self.open.end(answer)?, RequestOutcome::read(answer));
        match (&request.subject, &end) {
            (RequestSubject::Permission(title, _), end) => {
                Some(format!("[permission] {title}: {}\n", request.permission_outcome(end)))
            }
            (RequestSubject::Command(_), RequestOutcome::Done(result)) => {
                self.terminals.extend(result.get("terminalId").and_then(Value::as_str).map(Into::into));
                None
            }
            (RequestSubject::Terminal(id), RequestOutcome::Done(_))
                if request.method == "terminal/release" =>
            {
                let index = self.terminals.iter().position(|terminal| terminal == id)?;
                terminals.get(&self.terminals.remove(index)).map(terminal_section)
            }
            (RequestSubject::Terminal(_), RequestOutcome::Done(_) | RequestOutcome::Cancelled) => None,
            (
                RequestSubject::File(_)
                | RequestSubject::Command(_)
                | RequestSubject::Terminal(_)
                | RequestSubject::Other,
                end,
            ) => Some(section(&request, end.word(), end.error())),
        }
    }

    /// Drops the terminals that a tool call refers to: the tool call shows them.
    pub(super) fn drop_terminals_of(&mut self, tool: &ToolCallView) {
        self.terminals.retain(|terminal| !tool.refers_to(terminal));
    }

    /// The turn has ended: the sections of what was not shown.
    pub(super) fn finish_turn(&mut self, terminals: &TerminalTexts) -> Vec<String> {
        self.open.clear();
        self.terminals.drain(..).filter_map(|id| terminals.get(&id).map(terminal_section)).collect()
    }
}

fn section(request: &AgentRequest, word: &str, error: Option<&str>) -> String {
    let subject = request
        .labelled_subject()
        .map(|(what, subject)| format!("  {what}: {subject}\n"))
        .unwrap_or_default();
    let error = error.map(|error| format!("  error: {error}\n")).unwrap_or_default();
    format!("[client] {} ({word})\n{subject}{error}", request.method)
}

/// A command with its output.
fn terminal_section(terminal: &TerminalText) -> String {
    let word = if terminal.exit.is_some() { "completed" } else { "running" };
    format!("[client] terminal/create ({word})\n{}", tool::output(&tool::terminal(terminal)))
}
