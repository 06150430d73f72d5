//! The search index of the home, brought up to date before it is used.
//!
//! The configuration says what is left out. If it cannot be read, the index is not updated: what must not be in it is
//! unknown then.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use acpx_core::index::{IndexError, IndexExclusions, IndexProgress, SearchIndex};
use acpx_core::model::{AcpSessionId, AgentSpec, Secrets};
use acpx_core::store::Store;
use tokio::task::spawn_blocking;

use super::host_locator::{HostLocator, block_on};
use super::native::NativeSessions;
use super::settings::{CommandSettings, LazyConfig};
use crate::error::{CliError, with_causes};
use crate::output::Console;

/// How long a command reads what is missing in the index.
pub(crate) const UPDATE_LIMIT: Duration = Duration::from_secs(2);

/// An index, and how far it is.
pub(crate) struct UpdatedIndex {
    pub(crate) index: SearchIndex,
    pub(crate) progress: IndexProgress,
    /// What is masked in texts of the index: the process that wrote them may not have known these values.
    pub(crate) secrets: Arc<Secrets>,
    /// Why it was not brought up to date: its file cannot be written.
    pub(crate) not_written: Option<IndexError>,
}

/// The file of the index.
pub(crate) fn path(locator: &HostLocator) -> PathBuf {
    locator.paths.index()
}

/// What the configuration leaves out of the index.
pub(crate) fn exclusions(config: &LazyConfig) -> Result<IndexExclusions, CliError> {
    Ok(config.get()?.home.index.exclusions(std::env::home_dir().as_deref()))
}

/// Opens the index and reads what has changed, for at most this time or to the end. A terminal shows these words if it
/// takes long.
pub(crate) async fn updated(
    settings: &CommandSettings,
    exclusions: &IndexExclusions,
    limit: Option<Duration>,
    words: &str,
    console: &mut Console<'_>,
) -> Result<UpdatedIndex, CliError> {
    let (native, exclusions) = (NativeSessions::of_all(settings), exclusions.clone());
    let mut work = pin!(spawn_blocking(move || block_on(update(&native, &exclusions, limit))));
    console.wait_for(words);
    let done = loop {
        tokio::select! {
            biased;
            done = &mut work => break done,
            () = console.next_frame() => {}
        }
    };
    console.stop_waiting();
    let updated = done.map_err(|error| CliError::Runtime(error.into()))??;
    if let Some(error) = &updated.not_written {
        console.banner(&format!("new conversations are missing: {}", with_causes(error)));
    }
    Ok(updated)
}

/// The same for a program without a terminal.
pub(crate) async fn updated_silently(
    settings: &CommandSettings,
    exclusions: &IndexExclusions,
    limit: Duration,
) -> Result<UpdatedIndex, CliError> {
    let (native, exclusions) = (NativeSessions::of_all(settings), exclusions.clone());
    let work = spawn_blocking(move || block_on(update(&native, &exclusions, Some(limit))));
    work.await.map_err(|error| CliError::Runtime(error.into()))?
}

/// Runs a command that reads the index, and runs it again if the index was damaged: it is made anew then. The command
/// reads the index before it prints.
pub(crate) fn repeated_if_damaged<T>(command: impl Fn() -> Result<T, CliError>) -> Result<T, CliError> {
    command().or_else(|error| if is_damage(&error) { command() } else { Err(error) })
}

/// Whether the index was damaged. It is deleted then, and made anew by the next update.
pub(crate) fn is_damage(error: &CliError) -> bool {
    matches!(error, CliError::Index(error) if error.is_damage())
}

/// An index that cannot be written is used as it is, unless it has to be read to the end.
async fn update(
    native: &NativeSessions,
    exclusions: &IndexExclusions,
    limit: Option<Duration>,
) -> Result<UpdatedIndex, CliError> {
    let locator = HostLocator::of_environment()?;
    let mut updated = update_file(&locator, native, exclusions, limit).await;
    if updated.as_ref().is_err_and(is_damage) {
        updated = update_file(&locator, native, exclusions, limit).await;
    }
    match updated {
        Err(CliError::Index(error)) if error.is_unwritable() && limit.is_some() => Ok(UpdatedIndex {
            index: SearchIndex::open_unchanged(&path(&locator))?,
            progress: IndexProgress::default(),
            secrets: Arc::clone(&native.secrets),
            not_written: Some(error),
        }),
        updated => updated,
    }
}

async fn update_file(
    locator: &HostLocator,
    native: &NativeSessions,
    exclusions: &IndexExclusions,
    limit: Option<Duration>,
) -> Result<UpdatedIndex, CliError> {
    let mut index = SearchIndex::open(&path(locator))?;
    let until = limit.map(|limit| Instant::now() + limit);
    let mut progress = IndexProgress::default();
    let scan = index.scan(&native.readers, exclusions);
    let store = locator.open_store()?;
    if let Some(store) = &store {
        let is_complete = limit.is_none();
        progress.add(index.update_records(store, exclusions, until, is_complete).await?);
    }
    let (records, secrets) = (store.as_ref().map(|store| store as &dyn Store), &native.secrets);
    let read = index.update_transcripts(records, &native.readers, &scan, exclusions, secrets, until);
    progress.add(read.await?);
    progress.problems.extend(scan.problems);
    // A reader has nothing to flush.
    std::mem::forget(store);
    Ok(UpdatedIndex { index, progress, secrets: Arc::clone(&native.secrets), not_written: None })
}

/// Native sessions that belong to records.
#[derive(Default)]
pub(crate) struct OwnedSessions {
    /// To deleted records and to no other ones: a deleted conversation is not shown again because its agent keeps a
    /// transcript.
    pub(crate) deleted: HashSet<String>,
    /// To other records.
    pub(crate) recorded: HashSet<String>,
}

impl OwnedSessions {
    /// Which of these native sessions, given with their agents, belong to a record.
    pub(crate) async fn read<'a>(
        store: Option<&dyn Store>,
        sessions: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, CliError> {
        let mut owned = Self::default();
        let Some(store) = store else { return Ok(owned) };
        let mut by_agent: BTreeMap<&str, Vec<AcpSessionId>> = BTreeMap::new();
        for (agent, session) in sessions {
            by_agent.entry(agent).or_default().extend(AcpSessionId::new(session).ok());
        }
        for (agent, sessions) in by_agent {
            let agent = AgentSpec::new(agent, [""; 0]).named(agent);
            for owner in store.owners(agent, sessions).await? {
                let owned = if owner.is_deleted { &mut owned.deleted } else { &mut owned.recorded };
                owned.insert(owner.session.to_string());
            }
        }
        owned.deleted.retain(|session| !owned.recorded.contains(session));
        Ok(owned)
    }

    /// Whether a session belongs to any record.
    pub(crate) fn contains(&self, session: &str) -> bool {
        self.deleted.contains(session) || self.recorded.contains(session)
    }
}
