//! One event of a record, as a turn's output is made from it.

use acpx_core::model::{Direction, Seq, Timestamp, TurnId};
use serde_json::value::RawValue;

/// One event, as it is watched.
#[derive(Debug, Clone)]
pub(crate) struct WatchedEvent {
    /// Its number within the record.
    pub(crate) seq: Seq,
    /// When it was kept.
    pub(crate) at: Timestamp,
    /// Who said it.
    pub(crate) direction: Direction,
    /// The turn it belongs to, if any.
    pub(crate) turn: Option<TurnId>,
    /// The line as exchanged with the agent, or the fact of ours, as JSON.
    pub(crate) message: Box<RawValue>,
}
