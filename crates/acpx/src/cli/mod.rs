//! The grammar of the command line.
//!
//! `acpx [flags] [agent] [verb] [flags] [words…]`. A scan finds the agent and the verb and moves every flag after the
//! verb; clap then parses the verb with its flags. Nothing here reads a file, the environment or the clock. The names of
//! configured agents are requested only for a word that is neither a verb nor a built-in agent, so `--version` and
//! `--help` need no configuration.

mod backup;
mod compare;
mod complete;
mod configuration;
mod demo_agent;
mod flags;
mod help;
mod invocation;
mod login;
mod man;
mod mcp;
mod near_verb;
mod notify;
mod options;
mod pages;
mod pending;
mod prune;
mod queue;
mod remote;
mod requested_format;
mod scan;
mod search;
mod sessions;
mod shell;
mod skill;
mod usage;
mod usage_report;
mod verbs;
mod web;

use std::path::PathBuf;

use clap::FromArgMatches;
use clap::error::ErrorKind;

pub(crate) use self::backup::{BackupArgs, VerifyArgs};
pub(crate) use self::complete::{Candidate, CompletionKind, CompletionRequest, complete};
pub(crate) use self::configuration::{ConfigCommand, TrustCommand};
pub(crate) use self::demo_agent::DemoAgentArgs;
pub(crate) use self::invocation::{
    AgentChoice, CliCommand, CliOptions, CompareCommand, ExecCommand, Invocation, PromptAttachment,
    PromptCommand, PromptWords, SetAction, SetCommand, Wait,
};
pub(crate) use self::login::AuthCommand;
pub(crate) use self::man::page as manual_page;
pub(crate) use self::mcp::McpArgs;
pub(crate) use self::near_verb::NearVerb;
pub(crate) use self::notify::NotifyCommand;
pub(crate) use self::options::{
    CURRENCY_LETTERS, ColorMode, DEFAULT_CURRENCY, Format, OutputArgs, SessionArgs, SetupArgs,
    seconds_to_idle_time, seconds_to_limit,
};
pub(crate) use self::pending::AnswerArgs;
pub(crate) use self::prune::PruneArgs;
pub(crate) use self::queue::{QueueCommand, QueueDropArgs, QueueFilterArgs, QueueListArgs};
pub(crate) use self::remote::{RemoteAgentArgs, ServeArgs, TokenCommand};
pub(crate) use self::requested_format::{RequestedFormat, requested_cwd, requested_format};
pub(crate) use self::scan::is_verb;
pub(crate) use self::search::{IndexCommand, RoleArg, SearchArgs};
pub(crate) use self::sessions::{
    ExportArgs, ExportFormat, ImportArgs, ListArgs, MigrateArgs, NewArgs, PrivateArgs, PrivateState,
    ReplayArgs, ResultArgs, SessionsCommand, WaitArgs,
};
pub(crate) use self::shell::{CompleteArgs, CompletionsArgs, Shell};
pub(crate) use self::skill::SkillAction;
pub(crate) use self::usage::{UsageError, nearest};
pub(crate) use self::usage_report::{Moment, UsageArgs, UsageBy, moment};
pub(crate) use self::verbs::{HostCommand, HostLogArgs, SchemaArgs, TourArgs};
pub(crate) use self::web::{WebCommand, WebListenArgs, WebOpenArgs};

use self::invocation::SharedFlags;
use self::scan::{HelpTopic, ScanResult, scan};
use self::verbs::{Verb, grammar};

/// The result of parsing.
#[derive(Debug)]
pub(crate) enum Request {
    /// Run a command.
    Run(Box<Invocation>),
    /// Show this text.
    Help(String),
    /// Show the version.
    Version,
    /// Do this with the program's skills.
    Skill(SkillAction),
    /// Ask whether a command or a prompt is meant.
    NearVerb(NearVerb),
}

/// Returns the configured agents, for the meaning of this name. Called at most once.
pub(crate) type ConfiguredNames<'a, E> = &'a dyn Fn(&str) -> Result<KnownAgents, E>;

/// The agents that a configuration adds to the built-in ones.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct KnownAgents {
    /// Their names.
    pub(crate) names: Vec<String>,
    /// The project's file that would define the looked-up name if it were trusted.
    pub(crate) untrusted_file: Option<PathBuf>,
}

/// The terminals of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ProgramTerminals {
    /// Whether stdin is one.
    pub(crate) stdin: bool,
    /// The columns of stdout, if it is one.
    pub(crate) columns: Option<usize>,
}

/// Parses the arguments after the program's name. Without arguments, a terminal gets help; help is wrapped to its
/// width.
pub(crate) fn parse<E: From<UsageError>>(
    arguments: &[String],
    configured: ConfiguredNames<'_, E>,
    terminals: ProgramTerminals,
) -> Result<Request, E> {
    let help = |page: String| match terminals.columns {
        Some(columns) => Request::Help(pages::wrapped(&page, columns)),
        None => Request::Help(page),
    };
    // Scripts use `--version` to check that acpx is installed, and building the grammar takes as long as starting.
    if let [only] = arguments
        && (only == "--version" || only == "-V")
    {
        return Ok(Request::Version);
    }
    if let Some(action) = SkillAction::read(arguments) {
        return Ok(Request::Skill(action?));
    }
    if arguments.is_empty() && terminals.stdin {
        return Ok(help(pages::short()));
    }
    let (agent, typed) = match scan(arguments, configured)? {
        ScanResult::Version => return Ok(Request::Version),
        ScanResult::Help(topic) => {
            return Ok(help(match topic {
                HelpTopic::Agent(name) => pages::agent(&name),
                HelpTopic::Overview { .. } if terminals.columns.is_some() => pages::short(),
                HelpTopic::Overview { is_summary: true } => grammar(&[]).render_help().to_string(),
                HelpTopic::Everything | HelpTopic::Overview { is_summary: false } => pages::complete(),
            }));
        }
        ScanResult::NearVerb(near) => return Ok(Request::NearVerb(near)),
        ScanResult::Verb { agent, typed } => (agent, typed),
    };
    let path = path(&typed);
    let verb = match path[..] {
        [verb @ ("sessions" | "host" | "token" | "config" | "trust"), below, ..] => format!("{verb} {below}"),
        [verb, ..] => verb.to_owned(),
        [] => String::new(),
    };
    let mut grammar = grammar(&path);
    let matches = grammar.try_get_matches_from_mut(&typed);
    // Freeing it takes as long as building it, and the process ends soon.
    std::mem::forget(grammar);
    let read = |mut matches| {
        let flags = SharedFlags::new(&matches)?;
        Ok((Verb::from_arg_matches_mut(&mut matches)?, flags))
    };
    match matches.and_then(read) {
        Ok((verb, flags)) => Ok(Request::Run(Box::new(Invocation::new(verb, flags, agent)?))),
        Err(error) => match error.kind() {
            ErrorKind::DisplayVersion => Ok(Request::Version),
            ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                Ok(help(error.render().to_string()))
            }
            _ => Err(UsageError::of_verb(&verb, &error).into()),
        },
    }
}

/// The verbs of a line for clap; empty for help, which may be about any verb.
fn path(typed: &[String]) -> Vec<&str> {
    let verbs = typed.iter().skip(1).take(2).map(String::as_str).take_while(|word| !word.starts_with('-'));
    let path: Vec<&str> = verbs.collect();
    if path.contains(&"help") { Vec::new() } else { path }
}

#[cfg(test)]
mod tests;
