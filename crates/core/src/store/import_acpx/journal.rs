//! Parses one line of a journal of npm acpx: a message exchanged with the agent, or a marker of npm acpx's own. Lines
//! have no time and no direction.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

/// The schema of markers.
const SCHEMA: &str = r#""acpx.session.journal.v1""#;

/// A parsed line.
#[derive(Debug)]
pub(super) enum JournalLine<'a> {
    /// A segment begins, perhaps in the middle of the turn of this request.
    Segment {
        request: Option<Cow<'a, str>>,
    },
    TurnStarted {
        request: Cow<'a, str>,
    },
    TurnResult {
        request: Cow<'a, str>,
        result: &'a RawValue,
    },
    /// A marker of a later npm acpx.
    OtherMarker,
    Message(JournalMessage<'a>),
}

/// A turn's end in a marker.
#[derive(Debug, Default, Deserialize)]
pub(super) struct MarkedResult {
    #[serde(default)]
    pub(super) status: String,
    #[serde(default, rename = "stopReason")]
    pub(super) stop_reason: Option<String>,
    #[serde(default)]
    pub(super) error: Option<MarkedError>,
}

/// A turn's failure in a marker.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct MarkedError {
    pub(super) message: Option<String>,
    pub(super) code: Option<String>,
    #[serde(rename = "detailCode")]
    pub(super) detail_code: Option<String>,
}

/// A message between npm acpx and the agent.
#[derive(Debug, Clone, Copy)]
pub(super) enum JournalMessage<'a> {
    Request { id: &'a str, method: &'a RawValue, params: Option<&'a RawValue> },
    Notification { method: &'a RawValue, params: Option<&'a RawValue> },
    Response { id: &'a str, result: Option<&'a RawValue>, error: Option<&'a RawValue> },
}

#[derive(Deserialize)]
struct JournalMembers<'a> {
    #[serde(borrow, default)]
    schema: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow, default)]
    request_id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "crate::model::even_null")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<&'a RawValue>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "crate::model::even_null")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

impl<'a> JournalLine<'a> {
    /// Reads a line; `None` for one that is neither a message nor a marker.
    pub(super) fn read(line: &'a str) -> Option<Self> {
        let members: JournalMembers<'a> = serde_json::from_str(line).ok()?;
        match members.schema {
            Some(schema) if schema.get() == SCHEMA => members.marker(),
            _ => members.message().map(Self::Message),
        }
    }
}

impl<'a> JournalMembers<'a> {
    fn marker(&self) -> Option<JournalLine<'a>> {
        let request = self.request_id.and_then(|id| string(id.get()));
        Some(match self.kind?.get() {
            r#""segment""# => JournalLine::Segment { request },
            r#""turn_started""# => JournalLine::TurnStarted { request: request? },
            r#""turn_result""# => JournalLine::TurnResult { request: request?, result: self.result? },
            _ => JournalLine::OtherMarker,
        })
    }

    fn message(&self) -> Option<JournalMessage<'a>> {
        match (self.id, self.method) {
            (_, Some(method)) if !method.get().starts_with('"') => None,
            (Some(id), Some(method)) => {
                Some(JournalMessage::Request { id: id.get(), method, params: self.params })
            }
            (None, Some(method)) => Some(JournalMessage::Notification { method, params: self.params }),
            (Some(id), None) if self.result.is_some() || self.error.is_some() => {
                Some(JournalMessage::Response { id: id.get(), result: self.result, error: self.error })
            }
            (_, None) => None,
        }
    }
}

/// A JSON string as text.
pub(super) fn string(json: &str) -> Option<Cow<'_, str>> {
    serde_json::from_str::<Cow<'_, str>>(json).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_is_a_marker_or_a_message_or_nothing() {
        let table = [
            (
                r#"{"schema":"acpx.session.journal.v1","type":"segment","request_id":null}"#,
                "Segment { request: None }",
            ),
            (
                r#"{"schema":"acpx.session.journal.v1","type":"turn_started","request_id":"r"}"#,
                r#"TurnStarted { request: "r" }"#,
            ),
            (
                r#"{"schema":"acpx.session.journal.v1","type":"turn_result","request_id":"r","result":{"status":"completed","stopReason":"end_turn"}}"#,
                r#"TurnResult { request: "r", result: RawValue({"status":"completed","stopReason":"end_turn"}) }"#,
            ),
            (r#"{"schema":"acpx.session.journal.v1","type":"new"}"#, "OtherMarker"),
            (
                r#"{"id":1,"method":"m"}"#,
                r#"Message(Request { id: "1", method: RawValue("m"), params: None })"#,
            ),
            (
                r#"{"method":"m","params":[ ]}"#,
                r#"Message(Notification { method: RawValue("m"), params: Some(RawValue([ ])) })"#,
            ),
            (
                r#"{"id":"1","result":null}"#,
                r#"Message(Response { id: "\"1\"", result: Some(RawValue(null)), error: None })"#,
            ),
        ];
        for (line, read) in table {
            assert_eq!(format!("{:?}", JournalLine::read(line).unwrap()), read, "{line}");
        }
        for nothing in ["", "[]", "{}", "7", r#"{"id":1}"#, r#"{"method":7}"#, r#"{"id":1,"method":"m""#] {
            assert!(JournalLine::read(nothing).is_none(), "{nothing}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_not_and_nothing_panics(line in any::<String>()) {
            drop(JournalLine::read(&line));
        }
    }
}
