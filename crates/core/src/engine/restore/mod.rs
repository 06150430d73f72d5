//! How a session comes back or begins from another: history, lookup in the agent's list, adoption, fork.

pub(super) mod adopt;
pub(super) mod fork;
pub(super) mod history;
pub(super) mod list_lookup;
