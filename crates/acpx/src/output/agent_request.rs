//! Client requests of an agent, such as files, commands and permissions, read from the exchanged lines for the views of
//! a turn.
//!
//! Everything the agent sends is rendered on one line here, so that it cannot imitate a line of acpx.

use acpx_core::engine::is_denial;
use acpx_core::model::command_line;
use acpx_core::protocol::OptionMeta;
use acpx_core::wire::{RpcError, RpcId, RpcMessage};
use serde_json::Value;

use super::sanitize::{BRIEF, agent_text, one_line};

/// How many open requests are tracked. An agent has a few at a time; beyond the limit the oldest is dropped.
const OPEN: usize = 64;
/// The code of a request that was cancelled.
const CANCELLED: i64 = -32800;

/// A request of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AgentRequest {
    pub(crate) method: String,
    pub(crate) subject: RequestSubject,
}

/// The subject of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RequestSubject {
    /// A file, with its first requested line.
    File(String),
    /// A command, as a person would type it.
    Command(String),
    /// An existing terminal.
    Terminal(Box<str>),
    /// A permission: its subject and the options.
    Permission(String, Vec<OptionMeta>),
    /// Anything else.
    Other,
}

/// How a request was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RequestOutcome {
    /// It was done; the result.
    Done(Value),
    /// It was denied; the reason.
    Denied(String),
    /// Its turn was cancelled, or the agent withdrew it.
    Cancelled,
    /// It failed; the error.
    Failed(String),
}

/// The unanswered requests, each with the data that its reader attaches. Agents number their requests anew with every
/// process, so a reused id is another request.
#[derive(Debug)]
pub(crate) struct UnansweredRequests<T>(Vec<(RpcId, T)>);

impl AgentRequest {
    /// Reads a request.
    pub(crate) fn read(method: &str, params: Option<&str>) -> Self {
        let params: Value = serde_json::from_str(params.unwrap_or("null")).unwrap_or_default();
        let text = |path: &str| params.pointer(path).and_then(Value::as_str);
        let subject = match method {
            "fs/read_text_file" | "fs/write_text_file" => {
                let line = params.get("line").and_then(Value::as_u64);
                let line = line.map(|line| format!(":{line}")).unwrap_or_default();
                RequestSubject::File(agent_text(text("/path").unwrap_or("-")) + &line)
            }
            "terminal/create" => {
                let args = params.get("args").and_then(Value::as_array).into_iter().flatten();
                let line = command_line(text("/command").unwrap_or("-"), args.filter_map(Value::as_str));
                RequestSubject::Command(agent_text(&line))
            }
            "session/request_permission" => {
                // Version 2 has the request's own text as a title.
                let title = text("/toolCall/title").or_else(|| text("/title"));
                let title = title.or_else(|| text("/toolCall/toolCallId")).unwrap_or("-");
                RequestSubject::Permission(one_line(title, BRIEF), OptionMeta::of_request(&params))
            }
            _ if method.starts_with("terminal/") => {
                RequestSubject::Terminal(text("/terminalId").unwrap_or("-").into())
            }
            _ => RequestSubject::Other,
        };
        Self { method: agent_text(method), subject }
    }

    /// Its subject on one line, with a word for its kind, if it has one.
    pub(crate) fn labelled_subject(&self) -> Option<(&'static str, &str)> {
        match &self.subject {
            RequestSubject::File(path) => Some(("files", path)),
            RequestSubject::Command(line) => Some(("input", line)),
            RequestSubject::Permission(title, _) => Some(("asks", title)),
            RequestSubject::Terminal(_) | RequestSubject::Other => None,
        }
    }

    /// The reply to a permission request, in words.
    pub(crate) fn permission_outcome(&self, end: &RequestOutcome) -> String {
        let RequestOutcome::Done(result) = end else {
            return end.error().map_or_else(|| end.word().to_owned(), str::to_owned);
        };
        let field = |name: &str| result.get("outcome")?.get(name)?.as_str();
        let options: &[OptionMeta] = match &self.subject {
            RequestSubject::Permission(_, options) => options,
            _ => &[],
        };
        match (field("outcome"), field("optionId")) {
            (Some("selected"), Some(chosen)) => {
                let name = options.iter().find(|option| option.option_id == chosen);
                let name = name.map_or(chosen, OptionMeta::label);
                format!("answered {}", agent_text(name))
            }
            (Some(outcome), _) => agent_text(outcome),
            (None, _) => "not answered".to_owned(),
        }
    }
}

impl RequestOutcome {
    /// How it ended, in one word. A form may have been declined.
    pub(crate) fn word(&self) -> &'static str {
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
    pub(crate) fn error(&self) -> Option<&str> {
        match self {
            Self::Denied(words) | Self::Failed(words) => Some(words),
            Self::Done(_) | Self::Cancelled => None,
        }
    }

    /// Reads a reply to the agent.
    pub(crate) fn read(answer: &RpcMessage) -> Self {
        let Some(error) = answer.error() else {
            return Self::Done(serde_json::from_str(answer.result().unwrap_or("null")).unwrap_or_default());
        };
        let error = RpcError::read(error);
        match error.code {
            CANCELLED => Self::Cancelled,
            _ if is_denial(&error) => Self::Denied(agent_text(&error.message)),
            _ => Self::Failed(agent_text(&error.message)),
        }
    }
}

impl<T> Default for UnansweredRequests<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> UnansweredRequests<T> {
    /// Takes a request of the agent with the attached data, `None` if its reply does not matter. Returns the data of
    /// the oldest request if that was dropped.
    pub(crate) fn begin(&mut self, id: &RpcId, data: Option<T>) -> Option<T> {
        self.0.retain(|(open, _)| open != id);
        let oldest = (data.is_some() && self.0.len() == OPEN).then(|| self.0.remove(0).1);
        self.0.extend(data.map(|data| (id.clone(), data)));
        oldest
    }

    /// Takes a reply to the agent; returns the data of its request.
    pub(crate) fn end(&mut self, answer: &RpcMessage) -> Option<T> {
        let index = self.0.iter().position(|(open, _)| Some(open) == answer.id())?;
        Some(self.0.remove(index).1)
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|(_, data)| data)
    }

    /// Whether none is open.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Drops the open requests: their turn has ended, or the agent has.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
