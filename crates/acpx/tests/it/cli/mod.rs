//! Sessions from the shell: every command over the real program, its host and its agents.

mod bad_input;
mod crash;
mod deleting;
mod exec;
mod following;
mod hosts;
mod identity;
mod imports;
mod load;
mod output;
mod permissions;
mod prompting;
mod scope;
mod servers;
mod settings;
#[cfg(target_os = "linux")]
mod silent;
mod stopping;
mod stores;
mod titles;
