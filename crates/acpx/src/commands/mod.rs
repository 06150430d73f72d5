//! The commands, one file each. Their arguments and help texts are in `cli`.

mod acp;
mod answer;
mod attach;
mod auth;
mod cancel;
mod demo_agent;
mod doctor;
mod exec;
mod host;
mod host_request;
pub(crate) mod near_verb;
mod pending;
pub(crate) mod picker;
mod prompt;
mod queue;
mod remote_agent;
mod schema;
mod serve;
mod sessions;
mod set;
mod status;
mod token;
mod tour;
mod wait_reason;

use std::process::ExitCode;

use crate::cli::{CliCommand, Invocation, SessionsCommand};
use crate::error::{CliError, CliExit};
use crate::session::settings::{CommandSettings, LazyConfig};
use crate::session::takeover;
use crate::session::takeover::ImportScope;

/// Runs the command.
pub(crate) fn run(invocation: Invocation, config: &LazyConfig) -> Result<ExitCode, CliError> {
    let Invocation { options, command } = invocation;
    let taken_over = |settings: CommandSettings, concerns| {
        takeover::first(&settings, concerns)?;
        Ok::<_, CliError>(settings)
    };
    let settings = || taken_over(CommandSettings::new(&options, config.get()?)?, ImportScope::One);
    let settings_of_any = || taken_over(CommandSettings::new(&options, config.get()?)?, ImportScope::Any);
    // A command that starts no agent works even if the agent's configuration entry is invalid.
    let found = || taken_over(config.without_start(&options)?, ImportScope::One);
    match command {
        CliCommand::Tour(args) => tour::run(&args),
        CliCommand::DemoAgent(args) => return demo_agent::run(&args),
        CliCommand::RemoteAgent(args) => return Ok(remote_agent::run(&args)),
        CliCommand::Status => status::run(&found()?),
        CliCommand::Attach => return attach::run(&settings()?, &options, config),
        CliCommand::Prompt(prompt) if prompt.is_empty() => {
            let settings = settings()?;
            if settings.mode.is_text_on_terminal() && attach::is_possible() {
                return attach::run(&settings, &options, config);
            }
            return prompt::run(&prompt, &settings, &options, config);
        }
        CliCommand::Prompt(prompt) => return prompt::run(&prompt, &settings()?, &options, config),
        CliCommand::Exec(exec) => {
            let config = config.get()?;
            return exec::run(&exec, &CommandSettings::new(&options, config)?, &options, config);
        }
        CliCommand::Acp => return Ok(acp::run(settings_of_any(), &options)),
        CliCommand::Auth(auth) => return auth::run(&CommandSettings::new(&options, config.get()?)?, &auth),
        CliCommand::Serve(serve) => serve::run(serve, &settings_of_any()?),
        CliCommand::Doctor => return doctor::run(&options, config),
        CliCommand::Token(command) => token::run(&command, options.flags.output, config),
        CliCommand::Schema(args) => schema::run(&args, options.flags.output, config),
        CliCommand::Pending => pending::run(options.flags.output, config),
        CliCommand::Approve(args) => answer::run(&args, true, options.flags.output, config),
        CliCommand::Deny(args) => answer::run(&args, false, options.flags.output, config),
        CliCommand::Queue(command) => queue::run(command, options.flags.output, config),
        CliCommand::Cancel(args) => match &args.request {
            Some(request) => cancel::by_id(request, &found()?),
            None => cancel::run(&found()?),
        },
        CliCommand::Set(set) => set::run(&set, &settings()?),
        CliCommand::Host(command) => return host::run(command, options.flags.output, config),
        CliCommand::Sessions(command) => match command {
            SessionsCommand::New => sessions::new::new(&settings()?, &options, config.get()?),
            SessionsCommand::Ensure => sessions::ensure::run(&settings()?, &options, config.get()?),
            SessionsCommand::Show => sessions::show::run(&found()?),
            SessionsCommand::History(args) => sessions::history::run(&found()?, args.limit),
            SessionsCommand::Replay(replay) => sessions::replay::run(&found()?, &replay),
            SessionsCommand::Result(args) => return sessions::result::run(&found()?, &args),
            SessionsCommand::Wait(args) => return sessions::wait::run(&found()?, &args),
            SessionsCommand::Watch(args) => sessions::watch::run(&found()?, args.start.from.as_ref()),
            SessionsCommand::List(list) if list.remote => sessions::remote::run(&settings_of_any()?, &list),
            SessionsCommand::List(list) => {
                let settings = taken_over(config.of_any_agent(&options)?, ImportScope::Any)?;
                sessions::list::run(&settings, &options, &list)
            }
            SessionsCommand::Close => sessions::close::run(&found()?),
            SessionsCommand::Delete(args) => sessions::delete::run(&settings()?, args.yes),
            SessionsCommand::Rename(args) => sessions::rename::run(&found()?, &args.new),
            SessionsCommand::Move => sessions::relocate::run(&found()?),
            SessionsCommand::Reset(args) => sessions::reset::run(&settings()?, args.carry_history),
            SessionsCommand::Restore(args) => sessions::restore::run(&settings()?, args.to),
            SessionsCommand::Migrate(migrate) => {
                return sessions::migrate::run(&migrate, options.flags.output, config);
            }
        },
    }?;
    Ok(CliExit::Success.into())
}
