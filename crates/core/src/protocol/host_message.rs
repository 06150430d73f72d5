//! Decodes the messages that a host sends to acpx's own clients: responses, events, and requests of agents.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::model::{Seq, TurnId};
use crate::wire::json;
use crate::wire::{InboundMessage, RpcId, RpcMessage};

use super::rpc_error::HostErrorResponse;
use super::watched_event;
use super::watched_event::WatchedEvent;

/// A message of a host.
#[derive(Debug)]
pub enum HostMessage {
    /// An event of a watched record.
    Event(WatchedEvent),
    /// A watch has ended: the record is deleted, or cannot be read.
    WatchEnded {
        /// The number that the next event would have.
        from: Seq,
        /// Why the record cannot be read, in that case.
        error: Option<HostErrorResponse>,
    },
    /// A prompt of ours was persisted.
    Accepted {
        /// Its turn.
        turn: TurnId,
        /// Our request id for it.
        request: String,
    },
    /// A response.
    Answer {
        /// The request.
        id: RpcId,
        /// The result as raw JSON, or the error.
        result: Result<Box<str>, HostErrorResponse>,
    },
    /// A permission request of the agent, for us to answer.
    Question {
        /// Its id.
        id: RpcId,
        /// The params of a `session/request_permission`.
        params: Box<str>,
    },
    /// An elicitation of the agent, for us to answer.
    Elicitation {
        /// Its id.
        id: RpcId,
        /// The params of an `elicitation/create`.
        params: Box<str>,
    },
    /// A permission request or elicitation was withdrawn: another client answered it, or the agent needs no answer any
    /// more.
    Withdrawn {
        /// Its id.
        id: RpcId,
    },
    /// How many clients use a watched record, and how many prompts wait.
    Activity {
        /// The clients, this one included if it uses the record.
        clients: usize,
        /// The prompts of all clients.
        queued: usize,
    },
    /// The host refuses or ends the service for this client.
    Refused(HostErrorResponse),
    /// Anything else.
    Other,
}

/// The notification that a prompt was accepted: it is persisted and will be sent.
pub(crate) const ACCEPTED: &str = "_acpx/accepted";
/// Parses that notification.
pub(crate) fn read_accepted(params: &str) -> Option<HostMessage> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Accepted {
        turn: u64,
        request_id: String,
    }
    let Accepted { turn, request_id } = serde_json::from_str(params).ok()?;
    Some(HostMessage::Accepted { turn: TurnId(turn), request: request_id })
}

pub(crate) fn read(inbound: InboundMessage) -> HostMessage {
    match inbound {
        InboundMessage::Notification(message) => notification(&message),
        InboundMessage::Response { id, message, .. } => {
            let result = match message.result() {
                Some(result) => Ok(result.into()),
                None => Err(HostErrorResponse::read(message.error().unwrap_or("null"))),
            };
            HostMessage::Answer { id, result }
        }
        InboundMessage::Request { id, message } if message.method() == Some("session/request_permission") => {
            HostMessage::Question { id, params: message.params().unwrap_or("null").into() }
        }
        InboundMessage::Request { id, message } if message.method() == Some("elicitation/create") => {
            HostMessage::Elicitation { id, params: message.params().unwrap_or("null").into() }
        }
        InboundMessage::Stray(message) if message.id() == Some(&RpcId::null()) => message
            .error()
            .map_or(HostMessage::Other, |error| HostMessage::Refused(HostErrorResponse::read(error))),
        InboundMessage::Request { .. } | InboundMessage::Stray(_) => HostMessage::Other,
    }
}

fn notification(message: &RpcMessage) -> HostMessage {
    let params = message.params().unwrap_or("null");
    let read = match message.method() {
        Some(watched_event::EVENT) => WatchedEvent::read(params).map(HostMessage::Event),
        Some(watched_event::ENDED) => read_ended(params),
        Some(ACCEPTED) => read_accepted(params),
        Some(watched_event::ACTIVITY) => read_activity(params),
        Some("$/cancel_request") => json::get(params, &["requestId"])
            .and_then(RpcId::from_raw)
            .map(|id| HostMessage::Withdrawn { id }),
        _ => None,
    };
    read.unwrap_or(HostMessage::Other)
}

fn read_activity(params: &str) -> Option<HostMessage> {
    #[derive(Deserialize)]
    struct Activity {
        clients: usize,
        queued: usize,
    }
    let Activity { clients, queued } = serde_json::from_str(params).ok()?;
    Some(HostMessage::Activity { clients, queued })
}

/// Parses the notification that a watch has ended.
pub(crate) fn read_ended(params: &str) -> Option<HostMessage> {
    #[derive(Deserialize)]
    struct Ended<'a> {
        from: u64,
        #[serde(borrow, default)]
        error: Option<&'a RawValue>,
    }
    let Ended { from, error } = serde_json::from_str(params).ok()?;
    let error = error.map(|error| HostErrorResponse::read(error.get()));
    Some(HostMessage::WatchEnded { from: Seq(from), error })
}
