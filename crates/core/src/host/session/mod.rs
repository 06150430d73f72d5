//! Requests about sessions: create, load, prompt, settings, list, delete, and the queue.

pub(super) mod create;
pub(super) mod delete;
pub(super) mod directories;
pub(super) mod history;
pub(super) mod list;
pub(super) mod load;
pub(super) mod mcp_servers;
pub(super) mod native;
mod preview;
pub(super) mod prompt;
pub(super) mod prune;
pub(super) mod queue;
mod resume;
pub(super) mod rows;
mod search_index;
pub(super) mod set_config;
pub(super) mod title;
pub(super) mod turn_owners;
pub(super) mod turn_reply;
