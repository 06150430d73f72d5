//! Reads a record from any event on, through what is stored into what is to come.

pub(super) mod follow;
pub(super) mod record_follower;
