//! Renders what acpx does for an agent as text: once when the agent requests it, in npm acpx's words, and once with the
//! result.
//!
//! A command's output belongs to the tool call that refers to its terminal. A command without one is shown by itself,
//! when its terminal is released or its turn ends: until then a tool call may still refer to it.

use acpx_core::model::{TerminalText, TerminalTexts};
use acpx_core::wire::{RpcId, RpcMessage};
use serde_json::Value;

use super::terminal;
use super::tool::{self, ToolCallView};
use crate::output::agent_request::{AgentRequest, RequestOutcome, RequestSubject, UnansweredRequests};
use crate::output::style::StyledText;

/// Open requests of the agent, and terminals not shown yet.
#[derive(Debug, Default)]
pub(super) struct ToolIoView {
    open: UnansweredRequests<AgentRequest>,
    /// The terminals that no tool call has referred to, in order.
    terminals: Vec<Box<str>>,
    /// Whether people read it on a terminal.
    is_terminal: bool,
}

impl ToolIoView {
    /// An empty view, for a terminal or a pipe.
    pub(super) fn new(is_terminal: bool) -> Self {
        Self { is_terminal, ..Self::default() }
    }

    /// Takes a request of the agent; returns its section. Requests about an existing terminal have none.
    pub(super) fn on_request(
        &mut self,
        id: &RpcId,
        method: &str,
        params: Option<&str>,
        verbose: bool,
    ) -> Option<StyledText> {
        let request = AgentRequest::read(method, params);
        let section = if self.is_terminal {
            terminal::open_request(&request)
        } else {
            Some(section(&request, "running", None))
        };
        let is_shown = verbose || !matches!(request.subject, RequestSubject::Terminal(_));
        self.open.begin(id, Some(request));
        section.filter(|_| is_shown)
    }

    /// Takes a reply to the agent; returns the section with the result of its request.
    pub(super) fn on_response(
        &mut self,
        answer: &RpcMessage,
        terminals: &TerminalTexts,
    ) -> Option<StyledText> {
        let (request, end) = (self.open.end(answer)?, RequestOutcome::read(answer));
        match (&request.subject, &end) {
            (RequestSubject::Permission(..), end) if self.is_terminal => {
                Some(terminal::answered_request(&request, end))
            }
            (RequestSubject::Permission(title, _), end) => {
                Some(format!("[permission] {title}: {}\n", request.permission_outcome(end)).into())
            }
            (RequestSubject::Command(_), RequestOutcome::Done(result)) => {
                self.terminals.extend(result.get("terminalId").and_then(Value::as_str).map(Into::into));
                None
            }
            (RequestSubject::Terminal(id), RequestOutcome::Done(_))
                if request.method == "terminal/release" =>
            {
                let index = self.terminals.iter().position(|terminal| terminal == id)?;
                terminals.get(&self.terminals.remove(index)).map(|text| self.terminal_section(text))
            }
            (RequestSubject::Terminal(_), RequestOutcome::Done(_) | RequestOutcome::Cancelled) => None,
            (
                RequestSubject::File(_)
                | RequestSubject::Command(_)
                | RequestSubject::Terminal(_)
                | RequestSubject::Other,
                end,
            ) => Some(if self.is_terminal {
                terminal::answered_request(&request, end)
            } else {
                section(&request, end.word(), end.error())
            }),
        }
    }

    /// Drops the terminals that a tool call refers to: the tool call shows them.
    pub(super) fn drop_terminals_of(&mut self, tool: &ToolCallView) {
        self.terminals.retain(|terminal| !tool.refers_to(terminal));
    }

    /// The turn has ended: the sections of what was not shown.
    pub(super) fn finish_turn(&mut self, terminals: &TerminalTexts) -> Vec<StyledText> {
        self.open.clear();
        let unshown = std::mem::take(&mut self.terminals);
        unshown.iter().filter_map(|id| terminals.get(id)).map(|text| self.terminal_section(text)).collect()
    }

    /// A command with its output.
    fn terminal_section(&self, text: &TerminalText) -> StyledText {
        if self.is_terminal {
            return terminal::command(text);
        }
        let word = if text.exit.is_some() { "completed" } else { "running" };
        format!("[client] terminal/create ({word})\n{}", tool::output(&tool::terminal(text))).into()
    }
}

fn section(request: &AgentRequest, word: &str, error: Option<&str>) -> StyledText {
    let subject = request
        .labelled_subject()
        .map(|(what, subject)| format!("  {what}: {subject}\n"))
        .unwrap_or_default();
    let error = error.map(|error| format!("  error: {error}\n")).unwrap_or_default();
    format!("[client] {} ({word})\n{subject}{error}", request.method).into()
}
