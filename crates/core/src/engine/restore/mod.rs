//! Restores sessions: history, lookup in the agent's list.

pub(super) mod history;
pub(super) mod list_lookup;
