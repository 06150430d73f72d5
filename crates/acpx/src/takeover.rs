//! Sessions of npm acpx come along by themselves: a command that finds files it has not yet taken takes them
//! first, through the running host or, with none, under the host's lock. Nothing is started for it.

use std::path::Path;
use std::time::{Duration, Instant};

use acpx_core::host::{HostError, HostLock, ImportMeta, ImportParams, import_alone};
use acpx_core::model::ProcessIdentity;
use acpx_core::store::import_acpx::{ImportMode, has_news};
use acpx_core::store::{Access, SqliteStore};

use crate::agents;
use crate::error::CliError;
use crate::output::Console;
use crate::patience::Patience;
use crate::reach::{Reach, block_on};
use crate::settings::Settings;
use crate::talk::Talk;

/// How long a host that is just coming or going is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often it is looked for.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Takes what is new in the home, and says so.
pub(crate) fn first(settings: &Settings) -> Result<(), CliError> {
    let reach = Reach::of_environment()?;
    let directory = reach.place.npm_sessions();
    if !directory.is_dir() {
        return Ok(());
    }
    block_on(async {
        if is_news(&reach, &directory).await? {
            let mut console = Console::of_program(settings.mode);
            let mut talk = Talk::new(&mut console, Patience::new(settings.timeout)?, Some(&reach));
            let report = take(&reach, &directory, ImportMode::Keep, &mut talk).await?;
            tell(&report, &mut console);
        }
        Ok(())
    })
}

async fn is_news(reach: &Reach, directory: &Path) -> Result<bool, CliError> {
    if let Some(store) = reach.kept()? {
        return Ok(has_news(&store, directory, ProcessIdentity::living).await?);
    }
    let is_record = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.is_ok_and(|entry| entry.path().extension().is_some_and(|extension| extension == "json"))
    };
    Ok(directory.read_dir().is_ok_and(|mut entries| entries.any(is_record)))
}

/// Takes the sessions of a directory over, or says what would be taken.
pub(crate) async fn take(
    reach: &Reach,
    directory: &Path,
    mode: ImportMode,
    talk: &mut Talk<'_>,
) -> Result<ImportMeta, CliError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let asked = talk.persist(async |talk| {
            let Some(mut client) = talk.during(reach.running()).await? else { return Ok(None) };
            let dry_run = mode == ImportMode::DryRun;
            let params = ImportParams { directory: directory.to_owned(), dry_run };
            talk.call::<ImportMeta>(&mut client, "_acpx/import", &params).await.map(Some)
        });
        if let Some(report) = asked.await? {
            return Ok(report);
        }
        if let Some(_alone) = HostLock::try_take(&reach.place)? {
            return alone(reach, directory, mode).await;
        }
        if Instant::now() >= deadline {
            return Err(HostError::Silent { home: reach.place.home().to_owned() }.into());
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

async fn alone(reach: &Reach, directory: &Path, mode: ImportMode) -> Result<ImportMeta, CliError> {
    let path = reach.place.store();
    if mode == ImportMode::Keep || path.exists() {
        let access = if mode == ImportMode::Keep { Access::ReadWrite } else { Access::ReadOnly };
        let store = SqliteStore::open(&path, access)?;
        return Ok(import_alone(&store, directory, agents::name_of, mode).await?);
    }
    // Where nothing is kept yet, a look must not leave anything either.
    let elsewhere = tempfile::tempdir()
        .map_err(|source| CliError::System { doing: "make a temporary directory".to_owned(), source })?;
    let store = SqliteStore::open(&elsewhere.path().join("acpx.db"), Access::ReadWrite)?;
    Ok(import_alone(&store, directory, agents::name_of, mode).await?)
}

/// Says it to people alone: what a command writes to stdout is its own answer, also in JSON, and a program that
/// reads it would take anything else for that. A program that wants to know asks `sessions migrate`, which
/// tells of every file each time.
fn tell(report: &ImportMeta, console: &mut Console<'_>) {
    match report.taken.len() + report.grown.len() {
        0 => {}
        1 => console.banner("took over 1 session of npm acpx"),
        count => console.banner(&format!("took over {count} sessions of npm acpx")),
    }
    for damaged in &report.damaged {
        console.banner(&format!("{} of npm acpx was not taken over: {}", damaged.file, damaged.reason));
    }
}
