//! Replay cursors: where a client wants a replay to start. The protocol defines `start`; the others are ours. A cursor
//! is inclusive. An unknown one is refused, never replaced by another.

use serde::Deserialize;
use serde_json::Value;

use super::agent::ParamProblem;
use crate::model::{Seq, TurnId};

/// A position in a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cursor {
    /// Its beginning.
    Start,
    /// An event.
    Seq(Seq),
    /// The first event of a message.
    Message(Box<str>),
    /// The first event of a turn. A turn that has not started has no position.
    Turn(TurnId),
}

impl Cursor {
    /// The JSON of a cursor at this event.
    pub(crate) fn json_from(seq: Seq) -> String {
        format!(r#"{{"type":"_acpx/seq","seq":{seq}}}"#)
    }

    /// Reads a cursor from the member `field` of a request; `null` is `None`.
    pub(crate) fn read(json: &str, field: &str) -> Result<Option<Self>, ParamProblem> {
        let value = serde_json::from_str(json).map_err(|_| ParamProblem::new(field, "is no JSON"))?;
        Self::of_value(&value, field)
    }

    /// The same, from a parsed value.
    pub(crate) fn of_value(value: &Value, field: &str) -> Result<Option<Self>, ParamProblem> {
        #[derive(Deserialize)]
        #[serde(tag = "type", rename_all_fields = "camelCase")]
        enum Wire {
            #[serde(rename = "start")]
            Start {},
            #[serde(rename = "_acpx/seq")]
            Seq { seq: u64 },
            #[serde(rename = "_acpx/message")]
            Message { message_id: Box<str> },
            #[serde(rename = "_acpx/turn")]
            Turn { turn: u64 },
        }
        let read: Option<Wire> = Option::deserialize(value).map_err(|_| unread(value, field))?;
        match read {
            None => Ok(None),
            Some(Wire::Start {}) => Ok(Some(Self::Start)),
            Some(Wire::Seq { seq: 0 }) => Err(ParamProblem::new(format!("{field}.seq"), "counts from 1")),
            Some(Wire::Turn { turn: 0 }) => Err(ParamProblem::new(format!("{field}.turn"), "counts from 1")),
            Some(Wire::Seq { seq }) => Ok(Some(Self::Seq(Seq(seq)))),
            Some(Wire::Message { message_id }) => Ok(Some(Self::Message(message_id))),
            Some(Wire::Turn { turn }) => Ok(Some(Self::Turn(TurnId(turn)))),
        }
    }
}

/// The problem with an invalid cursor: the member that its type requires, or the whole cursor.
fn unread(value: &Value, field: &str) -> ParamProblem {
    let member = match value.get("type").and_then(Value::as_str) {
        Some("_acpx/seq") => "seq",
        Some("_acpx/message") => "messageId",
        Some("_acpx/turn") => "turn",
        _ => return ParamProblem::new(field, "is no cursor that is known here"),
    };
    let problem = match (value.get(member), member) {
        (None, _) => "is missing",
        (Some(_), "messageId") => "must be a string",
        (Some(_), _) => "must be a number, from 1 on",
    };
    ParamProblem::new(format!("{field}.{member}"), problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cursor_is_read_and_anything_else_is_refused_by_its_field() {
        let known = [
            ("null", None),
            (r#"{"type":"start"}"#, Some(Cursor::Start)),
            (r#"{"seq":7,"type":"_acpx/seq"}"#, Some(Cursor::Seq(Seq(7)))),
            (r#"{"type":"_acpx/message","messageId":"m"}"#, Some(Cursor::Message("m".into()))),
            (r#"{"type":"_acpx/turn","turn":2,"_meta":{}}"#, Some(Cursor::Turn(TurnId(2)))),
        ];
        for (json, cursor) in known {
            assert_eq!(Cursor::read(json, "replayFrom").unwrap(), cursor, "{json}");
        }
        let refused = [
            ("7", "replayFrom"),
            ("{}", "replayFrom"),
            (r#"{"type":"end"}"#, "replayFrom"),
            (r#"{"type":"_acpx/seq"}"#, "replayFrom.seq"),
            (r#"{"type":"_acpx/seq","seq":-1}"#, "replayFrom.seq"),
            (r#"{"type":"_acpx/turn","seq":1}"#, "replayFrom.turn"),
            (r#"{"type":"_acpx/seq","seq":0}"#, "replayFrom.seq"),
            (r#"{"type":"_acpx/turn","turn":0}"#, "replayFrom.turn"),
            (r#"{"type":"_acpx/message","messageId":null}"#, "replayFrom.messageId"),
        ];
        for (json, field) in refused {
            assert_eq!(Cursor::read(json, "replayFrom").unwrap_err().field, field, "{json}");
        }
    }
}
