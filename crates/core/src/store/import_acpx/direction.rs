//! Infers the sender of a line, which a journal does not contain: of a request by its method, of a response by the
//! request it answers. Both sides number their requests from 0, so an id may be open on both at once.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::journal::{JournalMessage, string};
use crate::model::{Direction, EventKind};

/// The requests and notifications of an ACP version 1 client. All other methods come from the agent: npm acpx sends
/// nothing else, and an agent may have methods of its own.
const CLIENT_METHODS: &[&str] = &[
    "initialize",
    "authenticate",
    "logout",
    "session/new",
    "session/load",
    "session/resume",
    "session/fork",
    "session/list",
    "session/close",
    "session/delete",
    "session/prompt",
    "session/cancel",
    "session/set_mode",
    "session/set_model",
    "session/set_config_option",
];

/// A request without a response yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct JournalRequest {
    pub(super) method: Box<str>,
    /// Its params, if the response can only be interpreted with them.
    pub(super) params: Option<Box<str>>,
    /// Its number within the journal.
    number: u64,
}

/// A line's direction and kind, and the request that a response answers.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LineOrigin {
    pub(super) direction: Direction,
    pub(super) kind: EventKind,
    pub(super) answers: Option<JournalRequest>,
}

/// The open requests, by sender.
#[derive(Debug, Default)]
pub(super) struct Directions {
    ours: HashMap<Box<str>, JournalRequest>,
    agents: HashMap<Box<str>, JournalRequest>,
    number: u64,
}

impl Directions {
    /// Finds the sender of a message. Messages must come in the journal's order.
    pub(super) fn locate(&mut self, message: &JournalMessage<'_>) -> LineOrigin {
        match message {
            JournalMessage::Request { id, method, params } => self.request(id, method, *params),
            JournalMessage::Notification { method, .. } => {
                let method = string(method.get()).unwrap_or_default();
                let is_update = method == "session/update";
                let kind = if is_update { EventKind::Update } else { EventKind::Notification };
                LineOrigin { direction: sender_of(&method), kind, answers: None }
            }
            JournalMessage::Response { id, result, .. } => self.response(id, *result),
        }
    }

    fn request(&mut self, id: &str, method: &RawValue, params: Option<&RawValue>) -> LineOrigin {
        let method = string(method.get()).unwrap_or_default();
        let direction = sender_of(&method);
        if method == "initialize" {
            // A new process: the requests of the previous one will never be answered.
            self.ours.clear();
            self.agents.clear();
        }
        self.number += 1;
        let params =
            (method == "session/request_permission").then(|| params.map(|params| params.get().into()));
        let request =
            JournalRequest { method: (&*method).into(), params: params.flatten(), number: self.number };
        match direction {
            Direction::ToAgent => self.ours.insert(id.into(), request),
            Direction::FromAgent | Direction::Ours => self.agents.insert(id.into(), request),
        };
        LineOrigin { direction, kind: EventKind::Request, answers: None }
    }

    fn response(&mut self, id: &str, result: Option<&RawValue>) -> LineOrigin {
        let answers_us = match (self.ours.get(id), self.agents.get(id)) {
            (Some(ours), Some(agents)) => answers_ours(ours, agents, result),
            (None, Some(_)) => false,
            // The beginning of a journal may be missing. The most likely missing request is a prompt, which the agent
            // answers.
            (Some(_) | None, None) => true,
        };
        let (direction, request) = if answers_us {
            (Direction::FromAgent, self.ours.remove(id))
        } else {
            (Direction::ToAgent, self.agents.remove(id))
        };
        LineOrigin { direction, kind: EventKind::Response, answers: request }
    }
}

/// Whether a response that fits two requests answers ours. Its shape decides for the two requests that stay open for
/// long; otherwise the younger request is answered first, because it was sent within the other.
fn answers_ours(ours: &JournalRequest, agents: &JournalRequest, result: Option<&RawValue>) -> bool {
    #[derive(Deserialize)]
    struct Shape {
        #[serde(default, rename = "stopReason")]
        stop_reason: Option<serde::de::IgnoredAny>,
        #[serde(default)]
        outcome: Option<serde::de::IgnoredAny>,
    }
    let shape = result.and_then(|result| serde_json::from_str::<Shape>(result.get()).ok());
    match shape {
        Some(Shape { stop_reason: Some(_), .. }) if &*ours.method == "session/prompt" => true,
        Some(Shape { outcome: Some(_), .. }) if &*agents.method == "session/request_permission" => false,
        _ => ours.number > agents.number,
    }
}

fn sender_of(method: &str) -> Direction {
    if CLIENT_METHODS.contains(&method) { Direction::ToAgent } else { Direction::FromAgent }
}

#[cfg(test)]
mod tests {
    use super::super::journal::JournalLine;
    use super::*;

    fn directions(lines: &[&str]) -> Vec<(Direction, EventKind, Option<String>)> {
        let mut directions = Directions::default();
        let place = |line: &&str| {
            let Some(JournalLine::Message(message)) = JournalLine::read(line) else { panic!("{line}") };
            let LineOrigin { direction, kind, answers } = directions.locate(&message);
            (direction, kind, answers.map(|request| request.method.into()))
        };
        lines.iter().map(place).collect()
    }

    #[test]
    fn response_to_an_ambiguous_id_finds_its_request() {
        use Direction::{FromAgent, ToAgent};
        use EventKind::{Notification, Request, Response, Update};
        let answer = |method: &str| Some(method.to_owned());
        let exchange = [
            (r#"{"id":0,"method":"initialize"}"#, (ToAgent, Request, None)),
            (r#"{"id":0,"result":{}}"#, (FromAgent, Response, answer("initialize"))),
            (r#"{"id":3,"method":"session/prompt"}"#, (ToAgent, Request, None)),
            (r#"{"method":"session/update"}"#, (FromAgent, Update, None)),
            (r#"{"id":3,"method":"fs/read_text_file"}"#, (FromAgent, Request, None)),
            (r#"{"id":3,"error":{}}"#, (ToAgent, Response, answer("fs/read_text_file"))),
            (r#"{"id":3,"method":"session/request_permission"}"#, (FromAgent, Request, None)),
            (r#"{"method":"session/cancel"}"#, (ToAgent, Notification, None)),
            // The prompt is answered although the permission is younger and still open.
            (
                r#"{"id":3,"result":{"stopReason":"cancelled"}}"#,
                (FromAgent, Response, answer("session/prompt")),
            ),
            (
                r#"{"id":3,"result":{"outcome":{"outcome":"cancelled"}}}"#,
                (ToAgent, Response, answer("session/request_permission")),
            ),
            (r#"{"id":7,"result":{}}"#, (FromAgent, Response, None)),
            (r#"{"id":"x","method":"_vendor/ask"}"#, (FromAgent, Request, None)),
            (r#"{"id":0,"method":"initialize"}"#, (ToAgent, Request, None)),
            (r#"{"id":"x","result":{}}"#, (FromAgent, Response, None)),
        ];
        let lines: Vec<&str> = exchange.iter().map(|(line, _)| *line).collect();
        let expected: Vec<_> = exchange.into_iter().map(|(_, placed)| placed).collect();
        assert_eq!(directions(&lines), expected);
    }
}
