//! The commands, one file each. Their arguments and help texts are the grammar's, in `cli`.

mod demo_agent;
mod tour;

pub(crate) use self::demo_agent::DemoAgentArgs;
pub(crate) use self::tour::TourArgs;

use std::process::ExitCode;

use crate::cli::{Command, Invocation, UsageError};
use crate::error::CliError;
use crate::settings::LazyConfig;

/// Does what was asked.
pub(crate) fn run(invocation: Invocation, _config: &LazyConfig) -> Result<ExitCode, CliError> {
    match invocation.command {
        Command::Tour(args) => tour::run(&args),
        Command::DemoAgent(args) => demo_agent::run(&args),
        Command::Prompt(_)
        | Command::Exec(_)
        | Command::Cancel
        | Command::Status
        | Command::Sessions(_)
        | Command::Host(_) => Err(UsageError::NoHost.into()),
    }
}
