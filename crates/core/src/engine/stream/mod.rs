//! Reads a record from any event on: stored events, then new ones.

pub(super) mod follow;
pub(super) mod record_changes;
pub(super) mod record_follower;
