//! `acpx trust`: allows what a project's `.acpxrc.json` sets, as long as the file does not change.
//!
//! The bytes that are shown are the bytes whose hash is pinned: the file is read once.

use std::path::{Path, PathBuf};

use acpx_core::model::AbsolutePath;

use crate::cli::{CliOptions, TrustCommand, UsageError};
use crate::config::ConfigError;
use crate::config::project::{self, FileOwner, ProjectContent};
use crate::config::trust::{TrustState, TrustedFile, TrustedFiles};
use crate::error::CliError;
use crate::output::{self, Console, TrustReview, TrustedFileState};
use crate::session::agent_child::refuse_inside;
use crate::session::host_locator::{HostLocator, block_on, make_private};
use crate::session::settings::{self, LazyConfig};
use crate::terminal::tty::ControllingTerminal;

const QUESTION: &str = "Trust it? Its programs run as you in this project. (y/N) ";

/// Runs a `trust` subcommand.
pub(super) fn run(command: &TrustCommand, options: &CliOptions, config: &LazyConfig) -> Result<(), CliError> {
    let locator = HostLocator::of_environment()?;
    let home = locator.paths.home();
    let trusted = TrustedFiles::of(home);
    if *command != TrustCommand::List {
        refuse_inside(&locator.paths, "decide which project's file is trusted")?;
        make_private(home)?;
    }
    let mut console = config.console(options.flags.output)?;
    match command {
        TrustCommand::Add(args) => add(&found(options)?, args.yes, &trusted, &mut console),
        TrustCommand::List => list(&trusted, &mut console),
        TrustCommand::Revoke { file } => {
            let file = match file {
                Some(file) => settings::directory(options.flags.cwd.as_deref())?.as_path().join(file),
                None => found(options)?,
            };
            let path = AbsolutePath::from_path(&real(&file))?;
            let revoked = trusted.revoke(path.as_str()).map_err(ConfigError::from)?;
            Ok(output::trust_revoked(path.as_str(), revoked, &mut console)?)
        }
    }
}

/// The project's file for the command's directory.
fn found(options: &CliOptions) -> Result<PathBuf, CliError> {
    let cwd = settings::directory(options.flags.cwd.as_deref())?;
    let missing = || ConfigError::NoProjectFile { directory: cwd.as_path().to_owned() };
    Ok(project::find(cwd.as_path()).ok_or_else(missing)?)
}

/// A file in its real directory. The file itself may be gone.
fn real(file: &Path) -> PathBuf {
    let directory = file.parent().and_then(|directory| directory.canonicalize().ok());
    match (directory, file.file_name()) {
        (Some(directory), Some(name)) => directory.join(name),
        _ => file.to_owned(),
    }
}

/// Shows what the file sets, and trusts it if the user does.
fn add(
    path: &Path,
    is_confirmed: bool,
    trusted: &TrustedFiles,
    console: &mut Console<'_>,
) -> Result<(), CliError> {
    let file = path.to_owned();
    let content = project::content(file.clone(), FileOwner::of_process())?;
    let ProjectContent { bytes, members, .. } =
        content.map_err(|reason| ConfigError::Refused { file, reason })?;
    let path = AbsolutePath::from_path(path)?;
    let settings = project::listing(&members);
    let known: Vec<TrustedFile> = trusted.list().map_err(ConfigError::from)?;
    let before = known.iter().find(|file| file.path == path.as_str());
    if let Some(file) = before
        && trusted.state(path.as_path(), &bytes) == TrustState::Trusted
    {
        return Ok(output::trusted(file, console)?);
    }
    let before = before.map(|file| &file.settings);
    output::trust_review(&TrustReview { path: path.as_str(), settings: &settings, before }, console)?;
    if !is_confirmed && !confirms(console)? {
        console.notice("it is not trusted");
        return Ok(());
    }
    let file = trusted.pin(path.as_str(), &bytes, settings).map_err(ConfigError::from)?;
    Ok(output::trusted(&file, console)?)
}

/// Asks the user at the terminal.
fn confirms(console: &Console<'_>) -> Result<bool, CliError> {
    let is_for_a_person = console.mode.is_for_a_person();
    block_on(async {
        let terminal = is_for_a_person.then(ControllingTerminal::of_program).flatten();
        match terminal {
            Some(mut terminal) => Ok(terminal.confirm(QUESTION).await),
            None => Err(UsageError::TrustUnconfirmed.into()),
        }
    })
}

fn list(trusted: &TrustedFiles, console: &mut Console<'_>) -> Result<(), CliError> {
    let files = trusted.list().map_err(ConfigError::from)?;
    let states = files.into_iter().map(|file| {
        let path = Path::new(&file.path);
        let state = match project::read(path, FileOwner::of_process()) {
            Err(_) if path.try_exists().is_ok_and(|exists| !exists) => TrustedFileState::Missing,
            Err(_) => TrustedFileState::Refused,
            Ok(bytes) if trusted.state(path, &bytes) == TrustState::Trusted => TrustedFileState::Trusted,
            Ok(_) => TrustedFileState::Changed,
        };
        (file, state)
    });
    Ok(output::trusted_files(&states.collect::<Vec<_>>(), console)?)
}
