//! The `acpx` program: its grammar, its commands, and the demo agent.
//!
//! What sessions are and do is in `acpx-core`; here is only what a person types and reads. Layers, each using only those
//! before it: `version`, `private_file`, `home_file`, `agents`, `log`, `http`, `web`, `mcp`, `demo_agent`, `cli`, `config`, `prompt_input`, `error`, `output`, `terminal`,
//! `session`, `commands`.

mod agents;
mod cli;
mod commands;
mod config;
mod demo_agent;
mod error;
mod home_file;
mod http;
mod log;
mod mcp;
mod notify;
mod output;
mod private_file;
mod prompt_input;
mod session;
mod terminal;
mod version;
mod web;

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::process::ExitCode;

use crate::cli::{OutputArgs, ProgramTerminals, Request, UsageError, requested_format};
use crate::commands::perf_metrics::CommandTimer;
use crate::error::{CliError, CliExit};
use crate::output::OutputMode;
use crate::session::settings::LazyConfig;

/// Runs the program with the arguments it was given and says how it ended.
pub fn run() -> ExitCode {
    let timer = CommandTimer::start();
    let mut arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if config::environment::is_npm_script() && arguments.first().is_some_and(|first| first == "--") {
        arguments.remove(0);
    }
    let shown: Vec<String> = arguments.iter().map(|text| text.to_string_lossy().into_owned()).collect();
    let config = LazyConfig::of(&shown);
    let done = match arguments.iter().position(|text| text.to_str().is_none()) {
        Some(index) => Err(UsageError::NotUnicode { shown: shown[index].clone() }.into()),
        None => run_with(&shown, &config),
    };
    let exit = done.unwrap_or_else(|error| {
        let wish = requested_format(&shown);
        output::report(&error, config.format_for(wish), wish.color)
    });
    timer.finish(&arguments);
    exit
}

fn run_with(arguments: &[String], config: &LazyConfig) -> Result<ExitCode, CliError> {
    if arguments.is_empty() && io::stdin().is_terminal() && output::screen().is_terminal() {
        return commands::picker::run(config);
    }
    let configured = |name: &str| config.known_agents(name);
    let terminals = ProgramTerminals { stdin: io::stdin().is_terminal(), columns: output::columns() };
    match cli::parse(arguments, &configured, terminals)? {
        Request::Run(invocation) => commands::run(*invocation, config),
        Request::NearVerb(near) => {
            let format = config.format_for(requested_format(arguments));
            let mode = OutputMode::of_program(format, OutputArgs::default());
            match commands::near_verb::meant(near, mode)? {
                Some(arguments) => run_with(&arguments, config),
                None => Ok(CliExit::Usage.into()),
            }
        }
        Request::Skill(action) => commands::skill::run(&action).map(|()| CliExit::Success.into()),
        Request::Help(text) => {
            output::print(&text)?;
            Ok(CliExit::Success.into())
        }
        Request::Version => {
            output::print(&format!("{}\n", version::VERSION_LINE))?;
            Ok(CliExit::Success.into())
        }
    }
}
