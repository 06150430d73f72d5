//! The `acpx` program: its grammar, its commands, and the demo agent.
//!
//! What sessions are and do is in `acpx-core`; here is only what a person types and reads. Layers, each using only those
//! before it: `agents`, `http`, `mcp`, `demo_agent`, `cli`, `config`, `prompt_input`, `error`, `output`, `terminal`,
//! `session`, `commands`.

mod agents;
mod cli;
mod commands;
mod config;
mod demo_agent;
mod error;
mod http;
mod mcp;
mod output;
mod prompt_input;
mod session;
mod terminal;

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::process::ExitCode;

use crate::cli::{Request, UsageError, requested_format};
use crate::error::{CliError, CliExit};
use crate::session::settings::LazyConfig;

/// Runs the program with the arguments it was given and says how it ended.
pub fn run() -> ExitCode {
    let config = LazyConfig::default();
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let shown: Vec<String> = arguments.iter().map(|text| text.to_string_lossy().into_owned()).collect();
    let done = match arguments.iter().position(|text| text.to_str().is_none()) {
        Some(index) => Err(UsageError::NotUnicode { shown: shown[index].clone() }.into()),
        None => run_with(&shown, &config),
    };
    done.unwrap_or_else(|error| {
        let is_usage_error = matches!(error, CliError::Usage(_) | CliError::Agent(_));
        output::report(&error, config.format_for(requested_format(&shown, is_usage_error)))
    })
}

fn run_with(arguments: &[String], config: &LazyConfig) -> Result<ExitCode, CliError> {
    let configured = |name: &str| config.agent_names(name);
    match cli::parse(arguments, &configured, io::stdin().is_terminal())? {
        Request::Run(invocation) => commands::run(*invocation, config),
        Request::Help(text) => {
            output::print(&text)?;
            Ok(CliExit::Success.into())
        }
        Request::Version => {
            output::print(concat!(env!("CARGO_PKG_VERSION"), "\n"))?;
            Ok(CliExit::Success.into())
        }
    }
}
