//! Restores sessions and creates them from others: history, lookup in the agent's list, adoption, fork.

pub(super) mod adopt;
pub(super) mod fork;
pub(super) mod history;
pub(super) mod list_lookup;
