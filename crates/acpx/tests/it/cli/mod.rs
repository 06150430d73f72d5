//! Sessions from the shell: every command over the real program, its host and its agents.

mod crash;
mod exec;
mod identity;
mod load;
mod permissions;
mod prompting;
mod scope;
mod stopping;
