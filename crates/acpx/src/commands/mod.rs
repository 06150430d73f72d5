//! The commands, one file each. Their arguments and help texts are the grammar's, in `cli`.

mod acp;
mod answer;
mod auth;
mod cancel;
mod demo_agent;
mod doctor;
mod exec;
mod host;
mod pending;
mod prompt;
mod remote_agent;
mod serve;
mod sessions;
mod set;
mod status;
mod token;
mod tour;
mod waiting;

use std::process::ExitCode;

use crate::cli::{Command, Invocation, SessionsCommand};
use crate::error::CliError;
use crate::session::settings::{LazyConfig, Settings};
use crate::session::takeover;
use crate::session::takeover::Concerns;

/// Does what was asked.
pub(crate) fn run(invocation: Invocation, config: &LazyConfig) -> Result<ExitCode, CliError> {
    let Invocation { options, command } = invocation;
    let taken_over = |settings: Settings, concerns| {
        takeover::first(&settings, concerns)?;
        Ok::<_, CliError>(settings)
    };
    let settings = || taken_over(Settings::new(&options, config.get()?)?, Concerns::One);
    let settings_of_any = || taken_over(Settings::new(&options, config.get()?)?, Concerns::Any);
    // What starts no agent works, whatever is wrong with the agent's entry in the configuration.
    let found = || taken_over(config.without_start(&options)?, Concerns::One);
    match command {
        Command::Tour(args) => tour::run(&args),
        Command::DemoAgent(args) => demo_agent::run(&args),
        Command::RemoteAgent(args) => Ok(remote_agent::run(&args)),
        Command::Status => status::run(&found()?),
        Command::Sessions(SessionsCommand::Show) => sessions::show::run(&found()?),
        Command::Sessions(SessionsCommand::History { limit }) => sessions::history::run(&found()?, limit),
        Command::Sessions(SessionsCommand::Replay(replay)) => sessions::replay::run(&found()?, &replay),
        Command::Sessions(SessionsCommand::Watch { from }) => sessions::watch::run(&found()?, from.as_ref()),
        Command::Sessions(SessionsCommand::List(list)) if !list.remote => {
            let settings = taken_over(config.of_any_agent(&options)?, Concerns::Any)?;
            sessions::list::run(&settings, &options, list.filter_cwd.as_deref())
        }
        Command::Prompt(prompt) => prompt::run(&prompt, &settings()?, &options),
        Command::Exec(exec) => {
            exec::run(&exec, &Settings::new(&options, config.get()?)?, &options, config.get()?)
        }
        Command::Acp => Ok(acp::run(settings_of_any(), &options)),
        Command::Auth(auth) => auth::run(&Settings::new(&options, config.get()?)?, &auth),
        Command::Serve(serve) => serve::run(serve, &settings_of_any()?),
        Command::Doctor => doctor::run(&options, config),
        Command::Token(command) => token::run(&command, options.output, config),
        Command::Pending => pending::run(options.output, config),
        Command::Answer(answer) => answer::run(&answer, options.output, config),
        Command::Cancel => cancel::run(&found()?),
        Command::Set(set) => set::run(&set, &settings()?),
        Command::Sessions(SessionsCommand::New) => sessions::new::new(&settings()?, &options, config.get()?),
        Command::Sessions(SessionsCommand::Ensure) => {
            sessions::ensure::run(&settings()?, &options, config.get()?)
        }
        Command::Sessions(SessionsCommand::Close) => sessions::close::run(&found()?),
        Command::Sessions(SessionsCommand::Delete) => sessions::delete::run(&settings()?),
        Command::Sessions(SessionsCommand::Move) => sessions::moving::run(&found()?),
        Command::Sessions(SessionsCommand::Reset { carry_history }) => {
            sessions::reset::run(&settings()?, carry_history)
        }
        Command::Sessions(SessionsCommand::Restore { to }) => sessions::restore::run(&settings()?, to),
        Command::Host(command) => host::run(command, options.output, config),
        Command::Sessions(SessionsCommand::List(list)) => sessions::remote::run(&settings_of_any()?, &list),
        Command::Sessions(SessionsCommand::Migrate(migrate)) => {
            sessions::migrate::run(&migrate, options.output, config)
        }
    }
}
