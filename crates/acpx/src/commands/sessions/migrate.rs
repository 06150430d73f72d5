//! `acpx sessions migrate`: imports npm acpx sessions on request, and reports the result of each file.

use std::process::ExitCode;

use acpx_core::store::import_acpx::ImportMode;

use crate::cli::{MigrateArgs, OutputArgs};
use crate::config::Config;
use crate::error::{CliError, CliExit, system_words};
use crate::output::migrated;
use crate::session::agent_child::refuse_inside;
use crate::session::host_locator::{HostLocator, block_on};
use crate::session::host_session::HostSession;
use crate::session::settings::LazyConfig;
use crate::session::takeover;

/// Imports them. An unreadable file is reported, and makes the command fail after the others were imported.
pub(crate) fn run(
    command: &MigrateArgs,
    output: OutputArgs,
    config: &LazyConfig,
) -> Result<ExitCode, CliError> {
    let mut console = config.console(output)?;
    let locator = HostLocator::of_environment()?;
    if command.directory.is_some() {
        refuse_inside(&locator.paths, "import sessions from other directories")?;
    }
    let directory = match &command.directory {
        Some(directory) => std::path::absolute(directory).map_err(|error| CliError::Directory {
            path: directory.clone(),
            reason: system_words(&error),
            flag: "sessions migrate DIR",
        })?,
        None => locator.paths.npm_sessions(),
    };
    let mode = if command.dry_run { ImportMode::DryRun } else { ImportMode::Keep };
    // An error in the configuration does not stop the import.
    let agents = config.get().map(Config::configured_agents).unwrap_or_default();
    let report = block_on(async {
        let mut session = HostSession::with_timeout(&mut console, None, &locator)?;
        takeover::take(&locator, &directory, &agents, mode, &mut session).await
    })?;
    migrated(&report, command.dry_run, &mut console)?;
    Ok(if report.damaged.is_empty() { CliExit::Success } else { CliExit::Failure }.into())
}
