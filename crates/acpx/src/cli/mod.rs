//! What a person typed, as values: the grammar of the command line.
//!
//! `acpx [flags] [agent] [verb] [flags] [words…]`. An own scan finds the agent and the verb and puts every
//! flag behind the verb; clap then reads the verb with its flags, and is the one table of them. Nothing here
//! reads a file, the environment or the clock: the names of configured agents are asked for only when a word
//! is neither a verb nor a built-in agent, so that `--version` and `--help` need no configuration.

mod demo_agent;
mod flags;
mod format_wish;
mod help;
mod invocation;
mod login;
mod options;
mod pending;
mod remote;
mod reserved;
mod scan;
mod sessions;
mod suggest;
mod usage;
mod verbs;

use clap::FromArgMatches;
use clap::error::ErrorKind;

pub(crate) use self::demo_agent::DemoAgentArgs;
pub(crate) use self::format_wish::{FormatWish, format_wish};
pub(crate) use self::invocation::{
    AgentChoice, AnswerCommand, CliCommand, CliOptions, ExecCommand, HostCommand, Invocation, ListCommand,
    MigrateCommand, OutputOptions, PromptAttachment, PromptCommand, PromptWords, ReplayCommand, ServeCommand,
    SessionsCommand, SetCommand, TokenCommand, Wait,
};
pub(crate) use self::login::AuthCommand;
pub(crate) use self::options::{Format, seconds_to_idle_time, seconds_to_limit};
pub(crate) use self::remote::RemoteAgentArgs;
pub(crate) use self::scan::is_verb;
pub(crate) use self::usage::UsageError;
pub(crate) use self::verbs::TourArgs;

use self::scan::{ScanResult, scan};
use self::verbs::{Verb, grammar};

/// What the arguments ask for.
#[derive(Debug)]
pub(crate) enum Request {
    /// Do something.
    Run(Box<Invocation>),
    /// Show this text.
    Help(String),
    /// Show the version.
    Version,
}

/// The agents that can be named beside the built-in ones, asked for because of this name. Asked at most once.
pub(crate) type ConfiguredNames<'a, E> = &'a dyn Fn(&str) -> Result<Vec<String>, E>;

/// Reads the arguments after the program's name. `terminal` says whether stdin is one: with nothing typed
/// there, help is what is wanted.
pub(crate) fn parse<E: From<UsageError>>(
    arguments: &[String],
    configured: ConfiguredNames<'_, E>,
    terminal: bool,
) -> Result<Request, E> {
    // Scripts ask for the version to see that we are there, and to build the grammar takes as long as to start.
    if let [only] = arguments
        && (only == "--version" || only == "-V")
    {
        return Ok(Request::Version);
    }
    if arguments.is_empty() && terminal {
        return Ok(Request::Help(grammar(&[]).render_long_help().to_string()));
    }
    let (agent, typed) = match scan(arguments, configured)? {
        ScanResult::Version => return Ok(Request::Version),
        ScanResult::Help { long: true } => {
            return Ok(Request::Help(grammar(&[]).render_long_help().to_string()));
        }
        ScanResult::Help { long: false } => return Ok(Request::Help(grammar(&[]).render_help().to_string())),
        ScanResult::Verb { agent, typed } => (agent, typed),
    };
    let path = path(&typed);
    let verb = match path[..] {
        [verb @ ("sessions" | "host" | "token"), below, ..] => format!("{verb} {below}"),
        [verb, ..] => verb.to_owned(),
        [] => String::new(),
    };
    let mut grammar = grammar(&path);
    let matches = grammar.try_get_matches_from_mut(&typed);
    // To free it piece by piece takes as long as to build it, and it is needed once: it goes with the process.
    std::mem::forget(grammar);
    match matches.and_then(|mut matches| Verb::from_arg_matches_mut(&mut matches)) {
        Ok(verb) => Ok(Request::Run(Box::new(Invocation::new(verb, agent)?))),
        Err(error) => match error.kind() {
            ErrorKind::DisplayVersion => Ok(Request::Version),
            ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                Ok(Request::Help(error.render().to_string()))
            }
            _ => Err(UsageError::of_verb(&verb, &error).into()),
        },
    }
}

/// The verbs of a line for clap. Help may be about any verb, so with it there is no path.
fn path(typed: &[String]) -> Vec<&str> {
    let verbs = typed.iter().skip(1).take(2).map(String::as_str).take_while(|word| !word.starts_with('-'));
    let path: Vec<&str> = verbs.collect();
    if path.contains(&"help") { Vec::new() } else { path }
}

#[cfg(test)]
mod tests;
