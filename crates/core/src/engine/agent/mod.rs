//! The agent process of a session: how it is started, addressed, logged in and ended.

pub(super) mod directory;
pub(super) mod initialize_cache;
pub(super) mod launch_spec;
pub(super) mod live_agent;
pub(super) mod login;
pub(super) mod remote_host;
pub(super) mod send_queue;
pub(super) mod slot;
