//! Sessions from the shell: every command over the real program, its host and its agents.

mod bad_input;
mod cancel_and_timeouts;
mod concurrent_prompts;
mod configuration;
mod content;
mod crash;
mod delete;
mod doctor;
mod exec;
mod forged_output;
mod forms;
mod hosts;
mod identity;
mod import_npm;
mod login;
mod mcp_servers;
mod move_session;
mod output;
mod permission_policies;
mod permission_requests;
mod permissions;
pub(crate) mod processes;
mod prompt;
mod replay_watch;
mod reset;
mod scope;
mod settings;
mod store_versions;
mod titles;
mod tool_requests;
#[cfg(target_os = "linux")]
mod unresponsive_host;
mod wait_reason;
