//! The `acpx` program: its grammar, its commands, and the demo agent.
//!
//! What sessions are and do is in `acpx-core`; here is only what a person types and reads.

mod agents;
mod asking;
mod cli;
mod commands;
mod config;
mod credentials;
mod demo_agent;
mod denial;
mod desk;
mod error;
mod home;
mod inside;
mod mcp;
mod output;
mod own_engine;
mod patience;
mod prompt_input;
mod reach;
mod remote;
mod scope;
mod settings;
mod setup;
mod takeover;
mod talk;
mod terminal;

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::cli::{Request, UsageError, format_wish};
use crate::error::{CliError, Exit};
use crate::settings::LazyConfig;

/// Runs the program with the arguments it was given and says how it ended.
pub fn run() -> ExitCode {
    let config = LazyConfig::default();
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let shown: Vec<String> = arguments.iter().map(|text| text.to_string_lossy().into_owned()).collect();
    let done = match arguments.iter().position(|text| text.to_str().is_none()) {
        Some(index) => Err(UsageError::NotUnicode { shown: shown[index].clone() }.into()),
        None => run_with(&shown, &config),
    };
    done.unwrap_or_else(|error| output::report(&error, config.format_for(format_wish(&shown))))
}

fn run_with(arguments: &[String], config: &LazyConfig) -> Result<ExitCode, CliError> {
    check_clock(SystemTime::now())?;
    let configured = |name: &str| config.agent_names(name);
    match cli::parse(arguments, &configured, io::stdin().is_terminal())? {
        Request::Run(invocation) => commands::run(*invocation, config),
        Request::Help(text) => {
            output::print(&text)?;
            Ok(Exit::Success.into())
        }
        Request::Version => {
            output::print(concat!(env!("CARGO_PKG_VERSION"), "\n"))?;
            Ok(Exit::Success.into())
        }
    }
}

/// Ids are made of the time since 1970, and there are none before that.
fn check_clock(now: SystemTime) -> Result<(), CliError> {
    if now >= UNIX_EPOCH {
        return Ok(());
    }
    let source = io::Error::other("the clock of this machine shows a time before 1970; set it");
    Err(CliError::System { doing: "tell the time".to_owned(), source })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_clock_that_shows_a_time_before_1970_is_an_error_and_no_panic() {
        assert!(check_clock(UNIX_EPOCH).is_ok());
        let error = check_clock(UNIX_EPOCH - Duration::from_secs(1)).unwrap_err();
        assert_eq!(error.code(), "SYSTEM");
    }
}
