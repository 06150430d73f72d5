//! Operations on records and agents: adopt, fork, delete, log in, probe, and the agent's own session list.

pub(super) mod adopt_fork;
pub(super) mod agent_sessions;
pub(super) mod probe;
pub(super) mod standalone;
