//! Routes an agent's permission and elicitation requests to clients that can answer them.

pub(super) mod pending;
pub(super) mod responders;
pub(super) mod router;
pub(super) mod tool_call_snapshot;
pub(super) mod url_elicitations;
