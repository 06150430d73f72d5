//! Client requests of an agent, read from the events of a record: files and commands, which are not part of the
//! conversation.
//!
//! Each process of an agent numbers its requests anew, so a reply ends only a request of the same process.

use acpx_core::model::{Content, Direction, Event, EventKind, Fact, Timestamp, TurnId};
use acpx_core::wire::RpcMessage;
use serde_json::Value;

use crate::output::agent_request::{
    AgentRequest, AgentRequestOutcome, AgentRequestSubject, UnansweredRequests,
};

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
    pub(super) fn take(&mut self, event: &Event, content: &Content, entries: usize) {
        let message = || RpcMessage::parse(event.body.clone()).ok();
        match (event.direction, event.kind) {
            (Direction::Ours, _) if is_of_another_process(content) => self.open.clear(),
            (Direction::FromAgent, EventKind::Request) => {
                let Some(message) = message() else { return };
                let (Some(method), Some(id)) = (message.method(), message.id()) else { return };
                let errand = AgentRequest::read(method, message.params());
                if !matches!(errand.aim, AgentRequestSubject::File(_) | AgentRequestSubject::Command(_)) {
                    self.open.begin(id, None);
                    return;
                }
                let (before, turn, at) = (entries, event.turn, event.at);
                let words = told(&errand, "not answered");
                let forgotten = self.open.begin(id, Some((self.all.len(), errand)));
                self.all.push(RequestHistoryEntry { before, turn, at, words, terminal: None });
                if let Some((index, errand)) = forgotten
                    && let Some(work) = self.all.get_mut(index)
                {
                    work.words = told(&errand, "asked for");
                }
            }
            (Direction::ToAgent, EventKind::Response) if !self.open.is_empty() => {
                let Some(message) = message() else { return };
                let Some((index, errand)) = self.open.end(&message) else { return };
                let Some(work) = self.all.get_mut(index) else { return };
                let end = AgentRequestOutcome::read(&message);
                if let (AgentRequestSubject::Command(_), AgentRequestOutcome::Done(result)) =
                    (&errand.aim, &end)
                {
                    work.terminal = result.get("terminalId").and_then(Value::as_str).map(str::to_owned);
                }
                work.words = ended(&errand, &end, work.terminal.is_some());
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
            error.as_ref().is_some_and(|error| error.code == super::INTERRUPTED_CODE)
        }
        _ => false,
    }
}

/// A request and its result. For a command, the terminal shows the rest.
fn ended(errand: &AgentRequest, end: &AgentRequestOutcome, has_terminal: bool) -> String {
    let method = &errand.method;
    match end {
        AgentRequestOutcome::Done(_) if has_terminal => format!("[client:{method}]"),
        AgentRequestOutcome::Done(_) => format!("[client:{method}] {}", subject(errand)),
        end => {
            let error = end.error().map(|error| format!(": {error}")).unwrap_or_default();
            told(errand, end.word()) + &error
        }
    }
}

/// A request, with a word for its status.
fn told(errand: &AgentRequest, word: &str) -> String {
    format!("[client:{} ({word})] {}", errand.method, subject(errand))
}

fn subject(errand: &AgentRequest) -> &str {
    errand.subject().map(|(_, subject)| subject).unwrap_or_default()
}
