//! One session: its handle, the task's loop, what it persists, what it replies, and what it publishes.

pub(super) mod agent_memory;
pub(super) mod agent_query;
pub(super) mod commands;
pub(super) mod effects;
pub(super) mod handle;
pub(super) mod journal;
pub(super) mod log;
pub(super) mod on_agent_message;
pub(super) mod replies;
pub(super) mod status;
pub(super) mod task;
pub(super) mod timers;
pub(super) mod wait_reason;
