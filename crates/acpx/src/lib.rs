//! The `acpx` program: its grammar, its commands, and the demo agent.
//!
//! What sessions are and do is in `acpx-core`; here is only what a person types and reads.

mod commands;
mod demo_agent;
mod error;
mod home;
mod output;

use std::process::ExitCode;

use clap::Parser;

use crate::commands::Command;

/// tmux for coding agents: sessions of the Agent Client Protocol that last.
#[derive(Debug, Parser)]
#[command(name = "acpx", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// Runs the program with the arguments it was given and says how it ended.
pub fn run() -> ExitCode {
    match Cli::parse().command.run() {
        Ok(code) => code,
        Err(error) => error.report(),
    }
}
