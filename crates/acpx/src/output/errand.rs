//! What an agent has its client do: files that are read and written, commands that run, permissions; read from the lines
//! that were exchanged, for whoever shows a turn.
//!
//! Whatever the agent says goes on one line here, so that nothing it asks for can look like another line of ours.

use acpx_core::engine::is_denial;
use acpx_core::model::command_line;
use acpx_core::protocol::OptionMeta;
use acpx_core::wire::{RpcError, RpcId, RpcMessage};
use serde_json::Value;

use super::question::{BRIEF, WORDS, one_line};

/// How many requests may be open. An agent has one or a few at a time, and of more the oldest is not waited for.
const OPEN: usize = 64;
/// The code of a request that was cancelled.
const CANCELLED: i64 = -32800;

/// A request of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AgentRequest {
    pub(super) method: String,
    pub(super) aim: AgentRequestSubject,
}

/// What a request is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AgentRequestSubject {
    /// A file, with the line that is wanted first.
    File(String),
    /// A command, as a person would type it.
    Command(String),
    /// A terminal that there is.
    Terminal(Box<str>),
    /// A permission: what for, and the options.
    Permission(String, Vec<OptionMeta>),
    /// Anything else.
    Other,
}

/// How a request was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AgentRequestOutcome {
    /// It was done; the result.
    Done(Value),
    /// It was not allowed; the words for that.
    Denied(String),
    /// Its turn was cancelled, or the agent has taken it back.
    Cancelled,
    /// It went wrong; how.
    Failed(String),
}

/// The requests that are not answered, each with what its reader keeps of it. An agent counts its requests, and starts
/// again with its process, so an id that is used again is another request.
#[derive(Debug)]
pub(super) struct UnansweredRequests<T>(Vec<(RpcId, T)>);

impl AgentRequest {
    /// Reads a request.
    pub(super) fn read(method: &str, params: Option<&str>) -> Self {
        let params: Value = serde_json::from_str(params.unwrap_or("null")).unwrap_or_default();
        let text = |path: &str| params.pointer(path).and_then(Value::as_str);
        let aim = match method {
            "fs/read_text_file" | "fs/write_text_file" => {
                let line = params.get("line").and_then(Value::as_u64);
                let line = line.map(|line| format!(":{line}")).unwrap_or_default();
                AgentRequestSubject::File(shown(text("/path").unwrap_or("-")) + &line)
            }
            "terminal/create" => {
                let args = params.get("args").and_then(Value::as_array).into_iter().flatten();
                let line = command_line(text("/command").unwrap_or("-"), args.filter_map(Value::as_str));
                AgentRequestSubject::Command(shown(&line))
            }
            "session/request_permission" => {
                // Version 2 has the question itself as a title.
                let title = text("/toolCall/title").or_else(|| text("/title"));
                let title = title.or_else(|| text("/toolCall/toolCallId")).unwrap_or("-");
                AgentRequestSubject::Permission(brief(title), OptionMeta::of_request(&params))
            }
            _ if method.starts_with("terminal/") => {
                AgentRequestSubject::Terminal(text("/terminalId").unwrap_or("-").into())
            }
            _ => AgentRequestSubject::Other,
        };
        Self { method: shown(method), aim }
    }

    /// What it is about, with a word for what that is, if that can be said in a line.
    pub(super) fn subject(&self) -> Option<(&'static str, &str)> {
        match &self.aim {
            AgentRequestSubject::File(path) => Some(("files", path)),
            AgentRequestSubject::Command(line) => Some(("input", line)),
            AgentRequestSubject::Permission(title, _) => Some(("asks", title)),
            AgentRequestSubject::Terminal(_) | AgentRequestSubject::Other => None,
        }
    }

    /// What a permission request was answered, in words.
    pub(super) fn outcome(&self, end: &AgentRequestOutcome) -> String {
        let AgentRequestOutcome::Done(result) = end else {
            return end.error().map_or_else(|| end.word().to_owned(), str::to_owned);
        };
        let field = |name: &str| result.get("outcome")?.get(name)?.as_str();
        let options: &[OptionMeta] = match &self.aim {
            AgentRequestSubject::Permission(_, options) => options,
            _ => &[],
        };
        match (field("outcome"), field("optionId")) {
            (Some("selected"), Some(chosen)) => {
                let name = options.iter().find(|option| option.option_id == chosen);
                let name = name.map_or(chosen, OptionMeta::label);
                format!("answered {}", shown(name))
            }
            (Some(outcome), _) => shown(outcome),
            (None, _) => "not answered".to_owned(),
        }
    }
}

impl AgentRequestOutcome {
    /// How it ended, in one word. What a person was asked to fill in may have been declined.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Done(result) => match result.get("action").and_then(Value::as_str) {
                Some("decline") => "declined",
                Some("cancel") => "cancelled",
                _ => "completed",
            },
            Self::Denied(_) => "denied",
            Self::Cancelled => "cancelled",
            Self::Failed(_) => "failed",
        }
    }

    /// Why it was not done.
    pub(super) fn error(&self) -> Option<&str> {
        match self {
            Self::Denied(words) | Self::Failed(words) => Some(words),
            Self::Done(_) | Self::Cancelled => None,
        }
    }

    /// Reads an answer to the agent.
    pub(super) fn read(answer: &RpcMessage) -> Self {
        let Some(error) = answer.error() else {
            return Self::Done(serde_json::from_str(answer.result().unwrap_or("null")).unwrap_or_default());
        };
        let error = RpcError::read(error);
        match error.code {
            CANCELLED => Self::Cancelled,
            _ if is_denial(&error) => Self::Denied(shown(&error.message)),
            _ => Self::Failed(shown(&error.message)),
        }
    }
}

impl<T> Default for UnansweredRequests<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> UnansweredRequests<T> {
    /// Takes a request of the agent, and what is kept of it: nothing of one whose answer is of no interest. What was kept
    /// of the oldest, if that had to go: its end will not be known.
    pub(super) fn begin(&mut self, id: &RpcId, kept: Option<T>) -> Option<T> {
        self.0.retain(|(asked, _)| asked != id);
        let oldest = (kept.is_some() && self.0.len() == OPEN).then(|| self.0.remove(0).1);
        self.0.extend(kept.map(|kept| (id.clone(), kept)));
        oldest
    }

    /// Takes an answer to the agent; what was kept of the request that it answers.
    pub(super) fn end(&mut self, answer: &RpcMessage) -> Option<T> {
        let index = self.0.iter().position(|(asked, _)| Some(asked) == answer.id())?;
        Some(self.0.remove(index).1)
    }

    /// Whether none is open.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Nothing more comes of those that are open: their turn is over, or the agent has gone.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

/// Words of an agent in a line of ours.
pub(super) fn shown(words: &str) -> String {
    one_line(words, WORDS)
}

/// The same with no more than it takes to know what is meant.
pub(super) fn brief(words: &str) -> String {
    one_line(words, BRIEF)
}
