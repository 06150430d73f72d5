//! `acpx sessions …`: one file per subcommand.

pub(super) mod close;
pub(super) mod delete;
pub(super) mod ensure;
pub(super) mod export;
pub(super) mod history;
pub(super) mod import;
pub(super) mod list;
pub(super) mod list_all;
pub(super) mod migrate;
pub(super) mod new;
pub(super) mod private;
pub(super) mod prune;
pub(super) mod relocate;
pub(super) mod remote;
pub(super) mod rename;
pub(super) mod replay;
pub(super) mod reset;
pub(super) mod restore;
pub(super) mod result;
pub(super) mod show;
pub(super) mod wait;
pub(super) mod watch;

use std::process::ExitCode;

use super::RunContext;
use crate::cli::SessionsCommand;
use crate::error::{CliError, CliExit};
use crate::output::HistoryPart;
use crate::session::search_index::repeated_if_damaged;

/// Runs a command below `sessions`.
pub(super) fn run(command: SessionsCommand, context: &RunContext<'_>) -> Result<ExitCode, CliError> {
    let RunContext { options, config } = *context;
    match command {
        SessionsCommand::New(args) => new::new(&args, &context.settings()?, options, config.get()?),
        SessionsCommand::Ensure(args) => ensure::run(&args, &context.settings()?, options, config.get()?),
        SessionsCommand::Show => show::run(&context.found()?),
        SessionsCommand::History(args) => history::run(&context.found()?, HistoryPart::Last(args.limit)),
        SessionsCommand::Read(args) => {
            history::run(&context.found()?, HistoryPart::Whole { tail: args.tail })
        }
        SessionsCommand::Replay(replay) => replay::run(&context.found()?, &replay),
        SessionsCommand::Result(args) => return result::run(&context.found()?, &args),
        SessionsCommand::Wait(args) => return wait::run(&context.found()?, &args),
        SessionsCommand::Watch(args) => {
            watch::run(&context.found()?, args.start.from.as_ref().or(args.cursor.as_ref()))
        }
        SessionsCommand::List(list) if list.remote => remote::run(&context.settings_of_any()?, &list),
        SessionsCommand::List(list) if list.all => repeated_if_damaged(|| list_all::run(context, &list)),
        SessionsCommand::List(list) => list::run(&context.of_any_agent()?, options, &list),
        SessionsCommand::Close => close::run(&context.found()?),
        SessionsCommand::Delete(args) => delete::run(&context.settings()?, args.yes),
        SessionsCommand::Prune(args) => prune::run(&context.of_any_agent()?, options, &args),
        SessionsCommand::Private(args) => private::run(&context.found()?, &args),
        SessionsCommand::Rename(args) => rename::run(&context.found()?, &args.new),
        SessionsCommand::Move => relocate::run(&context.found()?),
        SessionsCommand::Reset(args) => reset::run(&context.settings()?, args.carry_history),
        SessionsCommand::Restore(args) => restore::run(&context.settings()?, args.to),
        SessionsCommand::Export(args) => export::run(&context.found()?, &args),
        SessionsCommand::Import(args) => import::run(&context.of_any_agent()?, options, config.get()?, &args),
        SessionsCommand::Migrate(migrate) => return migrate::run(&migrate, options.flags.output, config),
    }?;
    Ok(CliExit::Success.into())
}
