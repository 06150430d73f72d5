//! The raw event stream of a watched record: every event as exchanged with the agent. JSON output, following and
//! debugging use it.

use std::fmt::Write;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::model::{Direction, Event, EventKind, ProtocolVersion, Seq, Timestamp, TurnId};
use crate::wire::encode::{self, json_string};
use crate::wire::{RpcError, RpcMessage};

/// The notification that carries one event.
pub(crate) const EVENT: &str = "_acpx/event";
/// The notification that a watch has ended: the record is deleted, or cannot be read.
pub(crate) const ENDED: &str = "_acpx/watch_ended";
/// The notification of how many clients use the record and how many prompts wait.
pub(crate) const ACTIVITY: &str = "_acpx/activity";

/// Upper bound of an event's envelope, without the record id.
const AROUND: usize = 192;

/// One event as it crosses the socket.
#[derive(Debug, Clone)]
pub struct WatchedEvent {
    /// Its number within the record.
    pub seq: Seq,
    /// When it was persisted.
    pub at: Timestamp,
    /// Who sent it.
    pub direction: Direction,
    /// The turn it belongs to, if any.
    pub turn: Option<TurnId>,
    /// The protocol version of the line.
    pub version: ProtocolVersion,
    /// Whether it is an update outside the conversation, such as one for another session.
    pub is_outside_conversation: bool,
    /// The line as exchanged, secret values replaced; or the fact of ours, as JSON.
    pub message: Box<RawValue>,
}

/// The notification's params, for parsing.
#[derive(Deserialize)]
struct EventParams<'a> {
    seq: u64,
    at: &'a str,
    direction: Direction,
    turn: Option<u64>,
    /// Absent for version 1.
    protocol: Option<u16>,
    /// Absent for false.
    #[serde(default)]
    aside: bool,
    #[serde(borrow)]
    message: &'a RawValue,
}

impl WatchedEvent {
    /// An event as a watch sends it; `None` if its body is not JSON, which no persisted event's is.
    pub fn of(event: &Event) -> Option<Self> {
        let message = RawValue::from_string(event.body.to_string()).ok()?;
        let Event { seq, at, direction, turn, protocol, .. } = *event;
        let version = ProtocolVersion::from_number(protocol).unwrap_or_default();
        Some(Self {
            seq,
            at,
            direction,
            turn,
            version,
            is_outside_conversation: is_outside_conversation(event),
            message,
        })
    }

    /// Parses the params of a notification.
    pub(crate) fn read(params: &str) -> Option<Self> {
        let params: EventParams<'_> = serde_json::from_str(params).ok()?;
        Some(Self {
            seq: Seq(params.seq),
            at: Timestamp::parse(params.at).ok()?,
            direction: params.direction,
            turn: params.turn.map(TurnId),
            version: params.protocol.and_then(ProtocolVersion::from_number).unwrap_or_default(),
            is_outside_conversation: params.aside,
            message: params.message.to_owned(),
        })
    }
}

/// Whether an event is an update that was persisted outside the conversation.
fn is_outside_conversation(event: &Event) -> bool {
    (event.direction, event.kind) == (Direction::FromAgent, EventKind::Notification)
        && RpcMessage::parse(event.body.clone())
            .is_ok_and(|message| message.method() == Some("session/update"))
}

/// The params of the notification that a watch has ended: the number of the next event, and the error, unless the
/// record was deleted.
pub(crate) fn ended(session: &str, from: Seq, error: Option<&RpcError>) -> String {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Ended<'a> {
        session_id: &'a str,
        from: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<&'a RpcError>,
    }
    let ended = Ended { session_id: session, from: from.0, error };
    serde_json::to_string(&ended).expect("text, a number and an error can be written")
}

/// The notification that carries an event.
pub(crate) fn notification(session: &str, event: &Event) -> String {
    encode::notification(EVENT, &params(session, event))
}

/// The params of the notification that carries an event. The body is inserted unchanged.
fn params(session: &str, event: &Event) -> String {
    let direction = event.direction.as_str();
    let mut params = String::with_capacity(session.len() + event.body.len() + AROUND);
    let (session, seq, at) = (json_string(session), event.seq, event.at);
    // Writing to a string cannot fail.
    let _ = write!(params, r#"{{"sessionId":{session},"seq":{seq},"at":"{at}","direction":"{direction}""#);
    if let Some(turn) = event.turn {
        let _ = write!(params, r#","turn":{turn}"#);
    }
    if event.protocol != ProtocolVersion::V1.number() {
        let _ = write!(params, r#","protocol":{}"#, event.protocol);
    }
    if is_outside_conversation(event) {
        params.push_str(r#","aside":true"#);
    }
    params.push_str(r#","message":"#);
    params.push_str(&event.body);
    params.push('}');
    params
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::LineageIndex;

    #[test]
    fn a_watched_event_keeps_every_byte_of_its_line() {
        let body = r#"{"jsonrpc":"2.0" ,"method":"x","params":{"n":1e3,"n":2}}"#;
        let event = Event {
            seq: Seq(7),
            at: Timestamp::from_millis(1).unwrap(),
            turn: Some(TurnId(3)),
            lineage: LineageIndex::FIRST,
            protocol: 1,
            direction: Direction::ToAgent,
            kind: EventKind::Notification,
            body: body.into(),
        };
        let read = WatchedEvent::read(&params("r", &event)).unwrap();
        assert_eq!((read.seq, read.at, read.direction), (event.seq, event.at, event.direction));
        assert_eq!((read.turn, read.message.get()), (event.turn, body));
        assert_eq!(read.version, ProtocolVersion::V1);
        let second = WatchedEvent::read(&params("r", &Event { protocol: 2, ..event.clone() })).unwrap();
        assert_eq!(second.version, ProtocolVersion::V2);
        let outside = WatchedEvent::read(&params("r", &Event { turn: None, ..event.clone() })).unwrap();
        assert_eq!(outside.turn, None);
        let update: std::sync::Arc<str> = r#"{"jsonrpc":"2.0","method":"session/update","params":{}}"#.into();
        let told =
            |kind| Event { direction: Direction::FromAgent, kind, body: update.clone(), ..event.clone() };
        for (event, expected) in [(told(EventKind::Update), false), (told(EventKind::Notification), true)] {
            let read = WatchedEvent::read(&params("r", &event)).unwrap();
            assert_eq!(
                (read.is_outside_conversation, WatchedEvent::of(&event).unwrap().is_outside_conversation),
                (expected, expected)
            );
        }
    }
}
