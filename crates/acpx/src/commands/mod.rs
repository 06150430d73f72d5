//! The commands, one file each. Their arguments and help texts are in `cli`.

mod acp;
mod answer;
mod attach;
mod auth;
mod backup;
mod cancel;
mod compare;
mod complete;
mod completions;
mod config;
mod demo_agent;
mod doctor;
mod exec;
mod host;
mod host_index;
mod host_log;
mod host_notify;
mod host_request;
mod index;
mod man;
mod mcp;
pub(crate) mod near_verb;
mod notify;
mod pending;
pub(crate) mod perf_metrics;
pub(crate) mod picker;
mod prompt;
mod queue;
mod remote_agent;
mod schema;
mod search;
mod serve;
mod sessions;
mod set;
pub(crate) mod skill;
mod status;
mod token;
mod tour;
mod trust;
mod usage;
mod verify;
mod wait_reason;
mod web;

use std::process::ExitCode;

use crate::cli::{CliCommand, CliOptions, Invocation, OutputArgs, WebCommand};
use crate::error::{CliError, CliExit};
use crate::log::{self, LogFilter};
use crate::output;
use crate::session::search_index::repeated_if_damaged;
use crate::session::settings::{CommandSettings, LazyConfig};
use crate::session::takeover;
use crate::session::takeover::ImportScope;

/// The flags of a command and the configuration, from which it takes what it needs.
struct RunContext<'a> {
    options: &'a CliOptions,
    config: &'a LazyConfig,
}

impl RunContext<'_> {
    /// The settings of a command about one session, whose agent it may start.
    fn settings(&self) -> Result<CommandSettings, CliError> {
        imported(self.config.settings(self.options)?, ImportScope::One)
    }

    /// The settings of a command about any session of an agent.
    fn settings_of_any(&self) -> Result<CommandSettings, CliError> {
        imported(self.config.settings(self.options)?, ImportScope::Any)
    }

    /// The settings of a command that starts no agent: it works even if the agent's configuration entry is invalid.
    fn found(&self) -> Result<CommandSettings, CliError> {
        imported(self.config.without_start(self.options)?, ImportScope::One)
    }

    /// The settings of a command about sessions of all agents, unless one is named.
    fn of_any_agent(&self) -> Result<CommandSettings, CliError> {
        imported(self.config.of_any_agent(self.options)?, ImportScope::Any)
    }
}

/// Imports new sessions of npm acpx before the command runs.
fn imported(settings: CommandSettings, concerns: ImportScope) -> Result<CommandSettings, CliError> {
    takeover::first(&settings, concerns)?;
    Ok(settings)
}

/// Runs the command.
pub(crate) fn run(invocation: Invocation, config: &LazyConfig) -> Result<ExitCode, CliError> {
    let Invocation { options, command } = invocation;
    let context = RunContext { options: &options, config };
    log_own_process(&command, options.flags.output);
    match command {
        CliCommand::Tour(args) => tour::run(&args),
        CliCommand::DemoAgent(args) => return demo_agent::run(&args),
        CliCommand::RemoteAgent(args) => return Ok(remote_agent::run(&args)),
        CliCommand::Status => status::run(&context.found()?),
        CliCommand::Attach(start) => {
            return attach::run(&context.settings()?, &options, config, start.from.as_ref());
        }
        CliCommand::Prompt(prompt) if prompt.is_empty() => {
            let settings = context.settings()?;
            if settings.mode.is_text_on_terminal() && attach::is_possible() {
                return attach::run(&settings, &options, config, None);
            }
            return prompt::run(&prompt, &settings, &options, config);
        }
        CliCommand::Prompt(prompt) => return prompt::run(&prompt, &context.settings()?, &options, config),
        CliCommand::Exec(exec) => {
            return exec::run(&exec, &config.settings(&options)?, &options, config.get()?);
        }
        CliCommand::Acp => return Ok(acp::run(context.settings_of_any(), &options)),
        CliCommand::Auth(auth) => return auth::run(&config.settings(&options)?, &auth),
        CliCommand::Serve(serve) => serve::run(serve, &context.settings_of_any()?),
        CliCommand::Web(command) => return web::run(command, &options, config),
        CliCommand::Doctor => return doctor::run(&options, config),
        CliCommand::Token(command) => token::run(&command, options.flags.output, config),
        CliCommand::Compare(command) => return compare::run(&command, &options, config),
        CliCommand::Config(command) => config::run(command, &options, config),
        CliCommand::Trust(command) => trust::run(&command, &options, config),
        CliCommand::Backup(args) => backup::run(&args, options.flags.output, config),
        CliCommand::Verify(args) => return verify::run(&args, options.flags.output, config),
        CliCommand::Completions(args) => completions::run(args),
        CliCommand::Complete(args) => complete::run(&args, config),
        CliCommand::Man => man::run(),
        CliCommand::Mcp(args) => mcp::run(&args, &options, config),
        CliCommand::Schema(args) => schema::run(&args, options.flags.output, config),
        CliCommand::Pending => pending::run(options.flags.output, config),
        CliCommand::Approve(args) => answer::run(&args, true, options.flags.output, config),
        CliCommand::Deny(args) => answer::run(&args, false, options.flags.output, config),
        CliCommand::Queue(command) => queue::run(command, options.flags.output, config),
        CliCommand::Cancel(args) => match &args.request {
            Some(request) => cancel::by_id(request, &context.found()?),
            None => cancel::run(&context.found()?),
        },
        CliCommand::Usage(args) => usage::run(&context.of_any_agent()?, &options, &args),
        CliCommand::Search(args) => repeated_if_damaged(|| search::run(&args, &context)),
        CliCommand::Index(command) => repeated_if_damaged(|| index::run(command, &context)),
        CliCommand::Notify(command) => return notify::run(&command, options.flags.output, config),
        CliCommand::Set(set) => set::run(&set, &context.settings()?),
        CliCommand::Host(command) => return host::run(command, options.flags.output, config),
        CliCommand::Sessions(command) => return sessions::run(command, &context),
    }?;
    Ok(CliExit::Success.into())
}

/// Logs to stderr in a command that runs an engine or a bridge itself, if `ACPX_LOG` is set.
fn log_own_process(command: &CliCommand, flags: OutputArgs) {
    let (CliCommand::Exec(_)
    | CliCommand::Acp
    | CliCommand::Auth(_)
    | CliCommand::Serve(_)
    | CliCommand::Web(WebCommand::Run(_))) = command
    else {
        return;
    };
    let filter = std::env::var(log::VARIABLE).unwrap_or_default();
    if !filter.is_empty() && !flags.json_strict {
        log::to_stderr(LogFilter::parse(&filter), output::log_line);
    }
}
