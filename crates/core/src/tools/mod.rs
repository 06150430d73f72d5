//! What agents run on here: processes.

mod process;
mod stderr;

pub use process::{AgentProcess, Environment, Exit, Grace, Pipes};
