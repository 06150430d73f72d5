//! What a host sends to its own clients, decoded: answers, events, and the requests of agents.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::model::{Seq, TurnId};
use crate::wire::splice::{Step, locate};
use crate::wire::{Inbound, Message, RpcId};

use super::rpc_error::Refusal;
use super::watched_event;
use super::watched_event::WatchedEvent;

/// What a host says.
#[derive(Debug)]
pub enum FromHost {
    /// Something happened in a session that is watched.
    Event(WatchedEvent),
    /// No more happens to a record that was watched: it is deleted, or cannot be read.
    WatchEnded {
        /// The number that its next event would have had.
        from: Seq,
        /// Why it cannot be read, if that is it.
        error: Option<Refusal>,
    },
    /// A prompt of ours is on the disk.
    Accepted {
        /// Its turn.
        turn: TurnId,
        /// Our name for it.
        request: String,
    },
    /// A request was answered.
    Answer {
        /// Which.
        id: RpcId,
        /// The result as raw JSON, or why not.
        result: Result<Box<str>, Refusal>,
    },
    /// The agent asks, and we are the one to answer.
    Question {
        /// Its id.
        id: RpcId,
        /// The params of a `session/request_permission`.
        params: Box<str>,
    },
    /// The agent asks the user something that is no permission, and we are the one to answer.
    Elicitation {
        /// Its id.
        id: RpcId,
        /// The params of an `elicitation/create`.
        params: Box<str>,
    },
    /// A question of the agent has been taken back: it was answered elsewhere, or nobody wants the answer any more.
    Withdrawn {
        /// Its id.
        id: RpcId,
    },
    /// The host serves this client no more, or not at all.
    Refused(Refusal),
    /// Anything else.
    Other,
}

/// The notification that a prompt was accepted: it is on the disk and will be sent.
pub(crate) const ACCEPTED: &str = "_acpx/accepted";
/// Reads that notification.
pub(crate) fn read_accepted(params: &str) -> Option<FromHost> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Accepted {
        turn: u64,
        request_id: String,
    }
    let Accepted { turn, request_id } = serde_json::from_str(params).ok()?;
    Some(FromHost::Accepted { turn: TurnId(turn), request: request_id })
}

pub(crate) fn read(inbound: Inbound) -> FromHost {
    match inbound {
        Inbound::Notification(message) => notification(&message),
        Inbound::Response { id, message, .. } => {
            let result = match message.result() {
                Some(result) => Ok(result.into()),
                None => Err(Refusal::read(message.error().unwrap_or("null"))),
            };
            FromHost::Answer { id, result }
        }
        Inbound::Request { id, message } if message.method() == Some("session/request_permission") => {
            FromHost::Question { id, params: message.params().unwrap_or("null").into() }
        }
        Inbound::Request { id, message } if message.method() == Some("elicitation/create") => {
            FromHost::Elicitation { id, params: message.params().unwrap_or("null").into() }
        }
        Inbound::Stray(message) if message.id() == Some(&RpcId::null()) => {
            message.error().map_or(FromHost::Other, |error| FromHost::Refused(Refusal::read(error)))
        }
        Inbound::Request { .. } | Inbound::Stray(_) => FromHost::Other,
    }
}

fn notification(message: &Message) -> FromHost {
    let params = message.params().unwrap_or("null");
    let read = match message.method() {
        Some(watched_event::EVENT) => WatchedEvent::read(params).map(FromHost::Event),
        Some(watched_event::ENDED) => read_ended(params),
        Some(ACCEPTED) => read_accepted(params),
        Some("$/cancel_request") => locate(params, &[Step::Key("requestId")])
            .and_then(|id| RpcId::from_raw(&params[id]))
            .map(|id| FromHost::Withdrawn { id }),
        _ => None,
    };
    read.unwrap_or(FromHost::Other)
}

/// Reads the notification that no more will come.
pub(crate) fn read_ended(params: &str) -> Option<FromHost> {
    #[derive(Deserialize)]
    struct Ended<'a> {
        from: u64,
        #[serde(borrow, default)]
        error: Option<&'a RawValue>,
    }
    let Ended { from, error } = serde_json::from_str(params).ok()?;
    let error = error.map(|error| Refusal::read(error.get()));
    Some(FromHost::WatchEnded { from: Seq(from), error })
}
