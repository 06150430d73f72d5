//! Client requests of an agent, read from the events of a record: files and commands, which are not part of the
//! conversation.
//!
//! Each process of an agent numbers its requests anew, so a reply ends only a request of the same process.

use acpx_core::model::{Content, Direction, ErrorCode, Event, EventKind, Fact, Timestamp, TurnId};
use acpx_core::wire::RpcMessage;
use serde_json::Value;

use crate::output::agent_request::{AgentRequest, RequestOutcome, RequestSubject, UnansweredRequests};

/// Files and commands that an agent requested, in order.
#[derive(Debug, Default)]
pub(super) struct RequestHistory {
    all: Vec<RequestHistoryEntry>,
    /// The unanswered ones, with their indices.
    open: UnansweredRequests<(usize, AgentRequest)>,
}

/// One of them.
#[derive(Debug)]
pub(super) struct RequestHistoryEntry {
    /// The index of the conversation entry that follows it.
    pub(super) before: usize,
    pub(super) turn: Option<TurnId>,
    pub(super) at: Timestamp,
    /// The request and its result, in words. The content of a file that the agent read is not stored.
    pub(super) words: String,
    /// The terminal of a command that was run.
    pub(super) terminal: Option<String>,
}

impl RequestHistory {
    /// Takes the next event with its content; `entries` is the current number of entries in the conversation.
    pub(super) fn apply(&mut self, event: &Event, content: &Content, entries: usize) {
        let message = || RpcMessage::parse(event.body.clone()).ok();
        match (event.direction, event.kind) {
            (Direction::Ours, _) if is_of_another_process(content) => self.open.clear(),
            (Direction::FromAgent, EventKind::Request) => {
                let Some(message) = message() else { return };
                let (Some(method), Some(id)) = (message.method(), message.id()) else { return };
                let request = AgentRequest::read(method, message.params());
                if !matches!(request.subject, RequestSubject::File(_) | RequestSubject::Command(_)) {
                    self.open.begin(id, None);
                    return;
                }
                let (before, turn, at) = (entries, event.turn, event.at);
                let words = with_status(&request, "not answered");
                let dropped = self.open.begin(id, Some((self.all.len(), request)));
                self.all.push(RequestHistoryEntry { before, turn, at, words, terminal: None });
                if let Some((index, request)) = dropped
                    && let Some(entry) = self.all.get_mut(index)
                {
                    entry.words = with_status(&request, "asked for");
                }
            }
            (Direction::ToAgent, EventKind::Response) if !self.open.is_empty() => {
                let Some(message) = message() else { return };
                let Some((index, request)) = self.open.end(&message) else { return };
                let Some(entry) = self.all.get_mut(index) else { return };
                let end = RequestOutcome::read(&message);
                if let (RequestSubject::Command(_), RequestOutcome::Done(result)) = (&request.subject, &end) {
                    entry.terminal = result.get("terminalId").and_then(Value::as_str).map(str::to_owned);
                }
                entry.words = with_outcome(&request, &end, entry.terminal.is_some());
            }
            _ => {}
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &RequestHistoryEntry> {
        self.all.iter()
    }
}

/// Whether the next events belong to another process of the agent: the open requests will get no reply.
fn is_of_another_process(content: &Content) -> bool {
    match content {
        Content::Fact(Fact::AgentEnded { .. } | Fact::Restored { .. } | Fact::SessionReset { .. }) => true,
        Content::Fact(Fact::TurnEnded { error, .. }) => {
            error.as_ref().is_some_and(|error| error.code == ErrorCode::Interrupted)
        }
        _ => false,
    }
}

/// A request and its result. For a command, the terminal shows the rest.
fn with_outcome(request: &AgentRequest, end: &RequestOutcome, has_terminal: bool) -> String {
    let method = &request.method;
    match end {
        RequestOutcome::Done(_) if has_terminal => format!("[client:{method}]"),
        RequestOutcome::Done(_) => format!("[client:{method}] {}", subject(request)),
        end => {
            let error = end.error().map(|error| format!(": {error}")).unwrap_or_default();
            with_status(request, end.word()) + &error
        }
    }
}

/// A request, with a word for its status.
fn with_status(request: &AgentRequest, word: &str) -> String {
    format!("[client:{} ({word})] {}", request.method, subject(request))
}

fn subject(request: &AgentRequest) -> &str {
    request.labelled_subject().map(|(_, subject)| subject).unwrap_or_default()
}
