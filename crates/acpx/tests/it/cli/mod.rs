//! Sessions from the shell: every command over the real program, its host and its agents.

mod asking;
mod bad_input;
mod configuration;
mod content;
mod crash;
mod deleting;
mod doctor;
mod exec;
mod following;
mod forging;
mod forms;
mod host_work;
mod hosts;
mod identity;
mod imports;
mod load;
mod login;
mod moving;
mod output;
mod permissions;
mod policies;
pub(crate) mod processes;
mod prompting;
mod resetting;
mod scope;
mod servers;
mod settings;
#[cfg(target_os = "linux")]
mod silent;
mod stopping;
mod stores;
mod titles;
mod waiting;
