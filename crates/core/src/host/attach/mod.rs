//! What attached clients receive: live updates, replays and raw events.

mod activity;
pub(super) mod attachments;
pub(super) mod delivered;
pub(super) mod foreign_turns;
pub(super) mod own_prompts;
pub(super) mod replay;
pub(super) mod stream;
pub(super) mod subscriptions;
