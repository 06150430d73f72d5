//! Operations on records and agents beyond a running session: delete, relocate, probe, list.

pub(super) mod agent_sessions;
pub(super) mod delete;
pub(super) mod probe;
