//! What an attached client receives of a record: live updates, replays and raw events.

pub(super) mod attachment;
pub(super) mod delivered;
pub(super) mod foreign_turns;
pub(super) mod own_prompts;
pub(super) mod replay;
