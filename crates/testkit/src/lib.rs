//! Test doubles and fault injection for acpx's own tests.
//!
//! The scripted agent is a program that plays a [`Script`] over stdin and stdout: every misbehaviour of an agent is a
//! script, so no test needs its own agent. [`TempHome`] is a home that is removed on drop.

mod clock;
mod command;
mod home;
pub mod player;
mod script;
pub mod sdk;
mod step;
mod version_2;

pub use clock::monotonic_nanos;
pub use command::{built_program, children_of, received_lines, scripted_agent_command, starts_of};
pub use home::TempHome;
pub use script::Script;
pub use step::ScriptStep;
