//! Delivers notifications: what a sink gets, how it gets it, and the loop that empties the queue.
//!
//! The host queues notifications in the store and starts this in a process of its own, so that the host itself connects
//! to nothing. A notification is delivered at least once to each sink: its outcome is stored after the attempt.

mod command;
mod delivery;
mod payload;
mod queue;
mod text;

pub(crate) use self::delivery::deliver;
pub(crate) use self::payload::NotificationPayload;
pub(crate) use self::queue::{DeliveryContext, deliver_queue, host_ended, lock_queue};
