//! `acpx sessions import`: imports an archive of acpx or npm acpx as a new session, through the running host or, without
//! one, under the host's lock.
//!
//! The archive only names its agent. The agent that runs is one of this configuration or a built-in one, or the one that
//! the user chooses on the command line. Its directory is the archived one only below the user's home, or where the
//! command runs, because a session's directory is what its agent may read and write.

use std::path::{Component, Path, PathBuf};

use acpx_core::host::import_archive_alone;
use acpx_core::model::{AbsolutePath, AgentSpec, SessionName};
use acpx_core::protocol::{ArchiveMeta, ArchiveParams, ConfiguredAgent};
use acpx_core::store::archive::{ArchiveHead, SessionArchive};
use acpx_core::store::{Access, SqliteStore};

use crate::agents;
use crate::cli::{CliOptions, ImportArgs, UsageError};
use crate::config::Config;
use crate::error::{CliError, system_words};
use crate::output::{Console, imported};
use crate::session::agent_child::refuse_inside;
use crate::session::host_locator::{HostLocator, block_on};
use crate::session::host_session::HostSession;
use crate::session::lookup::{position_of, resolve};
use crate::session::settings::CommandSettings;
use crate::session::takeover;

/// Imports the archive.
pub(crate) fn run(
    settings: &CommandSettings,
    options: &CliOptions,
    config: &Config,
    args: &ImportArgs,
) -> Result<(), CliError> {
    let locator = HostLocator::of_environment()?;
    refuse_inside(&locator.paths, "import sessions")?;
    let path = std::path::absolute(&args.archive).map_err(|error| CliError::Directory {
        path: args.archive.clone(),
        reason: system_words(&error),
        flag: "sessions import ARCHIVE",
    })?;
    let archive = SessionArchive::open(&path)?;
    let agent = agent(archive.head(), settings, config)?;
    let cwd = if options.flags.cwd.is_some() {
        settings.cwd.clone()
    } else {
        let home = std::env::home_dir();
        let archived = directory(archive.head(), home.as_deref(), settings.cwd.as_path());
        let refused = || CliError::ArchiveDirectory {
            path: path.clone(),
            directory: archive.head().cwd_relative.clone(),
        };
        AbsolutePath::from_path(&archived.ok_or_else(refused)?)?
    };
    let name = match &settings.session {
        Some(name) if position_of(name.as_str()).is_some() => {
            return Err(UsageError::ReservedName { name: name.to_string() }.into());
        }
        Some(name) => Some(name.clone()),
        None => archived_name(archive.head())
            .map_err(|problem| CliError::ArchiveName { path: path.clone(), problem })?,
    };
    drop(archive);
    let params = ArchiveParams {
        archive: path,
        agent: agent.name.clone(),
        argv: agent.command(),
        cwd: cwd.clone(),
        name,
        native_session_id: None,
    };
    let mut console = Console::of_program(settings.mode);
    let session: ArchiveMeta = block_on(async {
        let mut session = HostSession::with_timeout(&mut console, settings.timeout, &locator)?;
        let alone = async || {
            let store = SqliteStore::open(&locator.paths.store(), Access::ReadWrite)?;
            Ok(import_archive_alone(&store, params.clone()).await?)
        };
        takeover::by_host_or_alone(&locator, &mut session, "_acpx/import_archive", &params, alone).await
    })?;
    Ok(imported(&session, &cwd, &mut console)?)
}

/// The agent of the new session: the typed one, unless the archive is of another that is known here; or else the one
/// that the archive names, if it is known here.
fn agent(head: &ArchiveHead, settings: &CommandSettings, config: &Config) -> Result<AgentSpec, CliError> {
    let argv = agents::split_line(&head.agent).unwrap_or_default();
    let by_command = ConfiguredAgent::name_of(&settings.configured_agents, agents::name_of, &argv);
    let is_known = |name: &String| {
        agents::is_built_in(name) || config.agent(&agents::canonical(name)).is_ok_and(|agent| agent.is_some())
    };
    let known =
        by_command.or_else(|| head.agent_name.clone().filter(is_known)).map(|name| agents::canonical(&name));
    let mismatch = |problem: String| CliError::ArchiveAgent { archived: head.agent.clone(), problem };
    if !settings.agent_is_typed {
        let name = known.ok_or_else(|| mismatch("which is neither configured nor built in".to_owned()))?;
        return resolve(&name, config);
    }
    let is_same = settings.agent.command() == argv || settings.agent.name == known;
    if known.is_none() || is_same {
        return Ok(settings.agent.clone());
    }
    Err(mismatch(format!("and not of {}", settings.agent.label())))
}

/// The directory of the archived session here, if it is below the user's home and not hidden there, or the current one.
fn directory(head: &ArchiveHead, home: Option<&Path>, current: &Path) -> Option<PathBuf> {
    let archived = Path::new(&head.cwd_relative);
    let path: PathBuf = match home {
        Some(home) => home.join(archived).components().collect(),
        None => archived.components().collect(),
    };
    // Directories such as ~/.ssh are no projects.
    let is_hidden = |below: &Path| below.iter().any(|part| part.as_encoded_bytes().starts_with(b"."));
    let below_home = home.and_then(|home| path.strip_prefix(home).ok());
    let is_below_home = below_home.is_some_and(|below| below != Path::new("") && !is_hidden(below));
    let is_plain = !path.components().any(|part| part == Component::ParentDir);
    (is_plain && (is_below_home || path == current)).then_some(path)
}

/// The archived name.
fn archived_name(head: &ArchiveHead) -> Result<Option<SessionName>, String> {
    let Some(name) = &head.name else { return Ok(None) };
    let name = SessionName::new(name).map_err(|error| error.to_string())?;
    if position_of(name.as_str()).is_some() {
        return Err(UsageError::ReservedName { name: name.to_string() }.to_string());
    }
    Ok(Some(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archived_directory_is_below_the_home_or_the_current_one() {
        let home = Path::new("/home/ada");
        let cases = [
            ("work/api", Some("/home/ada/work/api")),
            ("./work//api/.", Some("/home/ada/work/api")),
            ("/home/ada/work", Some("/home/ada/work")),
            ("/srv/here", Some("/srv/here")),
            (".ssh", None),
            ("work/.git/x", None),
            ("", None),
            (".", None),
            ("/", None),
            ("/home/ada", None),
            ("/home/adam/x", None),
            ("/srv", None),
            ("../..", None),
            ("work/../../eve", None),
            ("/srv/x/../here", None),
        ];
        for (archived, expected) in cases {
            let head = ArchiveHead {
                agent: "a".to_owned(),
                agent_name: None,
                name: None,
                cwd_relative: archived.to_owned(),
                cwd_original: "/elsewhere".to_owned(),
            };
            let found = directory(&head, Some(home), Path::new("/srv/here"));
            assert_eq!(found.as_deref(), expected.map(Path::new), "{archived}");
        }
    }
}
