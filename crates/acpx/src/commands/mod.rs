//! The commands, one file each: its arguments, its help text, its `run`.

mod demo_agent;
mod tour;

use std::process::ExitCode;

use clap::Subcommand;

use crate::error::CliError;

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Tour(tour::TourArgs),
    DemoAgent(demo_agent::DemoAgentArgs),
}

impl Command {
    pub(crate) fn run(self) -> Result<ExitCode, CliError> {
        match self {
            Self::Tour(args) => tour::run(&args),
            Self::DemoAgent(args) => demo_agent::run(&args),
        }
    }
}
