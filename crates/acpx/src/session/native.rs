//! Native transcripts as sessions of the shell: found by their ids, read as records without an agent, and adopted.
//!
//! To read one, its conversation is written to a store of its own that has no name any more. To continue one, it becomes
//! a record of the home with the id that the agent gave the session; the agent then restores it like any other.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use acpx_core::host::import_archive_alone;
use acpx_core::model::{AbsolutePath, AgentSpec, RecordId, Secrets, SessionName};
use acpx_core::protocol::{ArchiveMeta, ArchiveParams};
use acpx_core::store::{Access, SqliteStore, Store};
use acpx_core::transcripts::{
    TRANSCRIPT_AGENTS, TranscriptArchive, TranscriptHome, TranscriptReader, TranscriptSource, archive_file,
    transcript_reader,
};

use super::host_locator::HostLocator;
use super::host_session::HostSession;
use super::lookup::{RecordLookup, SHORTEST_PREFIX, SessionFilter, position_of};
use super::settings::CommandSettings;
use super::takeover;
use crate::error::{CliError, SessionMatch, system_words};
use crate::output::Console;

/// How many transcripts with an ambiguous prefix are listed.
const LISTED_MATCHES: usize = 10;

/// How names of temporary files and directories with conversations begin.
const TEMPORARY: &str = ".transcript-";
/// After this time a temporary file belongs to no process that runs.
const ABANDONED_AFTER: Duration = Duration::from_hours(1);

/// Removes temporary files with conversations that killed processes have left in the home.
pub(crate) fn remove_abandoned(home: &Path) {
    let Ok(entries) = fs::read_dir(home) else { return };
    for entry in entries.filter_map(Result::ok) {
        let is_temporary = entry.file_name().to_str().is_some_and(|name| name.starts_with(TEMPORARY));
        let Ok(metadata) = entry.metadata() else { continue };
        let age = metadata.modified().ok().and_then(|modified| modified.elapsed().ok());
        if is_temporary && age.is_some_and(|age| age >= ABANDONED_AFTER) {
            // Another host may have removed it, and what stays is removed by the next one.
            drop(if metadata.is_dir() {
                fs::remove_dir_all(entry.path())
            } else {
                fs::remove_file(entry.path())
            });
        }
    }
}

/// The readers of the agents' transcripts, and what is masked in them.
pub(crate) struct NativeSessions {
    pub(crate) readers: Vec<Box<dyn TranscriptReader>>,
    pub(crate) secrets: Arc<Secrets>,
}

impl NativeSessions {
    /// The readers of all agents, or of the typed one.
    pub(crate) fn of(settings: &CommandSettings) -> Self {
        let typed = settings.agent_is_typed.then(|| settings.agent.name.as_deref().unwrap_or_default());
        Self::of_agents(settings, |agent| typed.is_none_or(|typed| typed == agent))
    }

    /// The readers of all agents.
    pub(crate) fn of_all(settings: &CommandSettings) -> Self {
        Self::of_agents(settings, |_| true)
    }

    fn of_agents(settings: &CommandSettings, is_meant: impl Fn(&str) -> bool) -> Self {
        let Some(home) = std::env::home_dir() else {
            return Self { readers: Vec::new(), secrets: Arc::default() };
        };
        let (mut readers, mut secrets) = (Vec::new(), settings.environment().secrets());
        for agent in TRANSCRIPT_AGENTS.iter().filter(|agent| is_meant(agent)) {
            let environment = settings.environment_of_named(agent);
            let variable = |name: &str| environment.get(name).map(ToOwned::to_owned);
            readers.extend(transcript_reader(agent, &TranscriptHome { home: &home, variable: &variable }));
            secrets = secrets.and(environment.secrets());
        }
        Self { readers, secrets: Arc::new(secrets) }
    }

    /// The reader of an agent.
    pub(crate) fn reader(&self, agent: &str) -> Option<&dyn TranscriptReader> {
        self.readers.iter().find(|reader| reader.agent() == agent).map(|reader| &**reader)
    }

    /// The transcript of a session by its whole id, if it is not empty.
    pub(crate) fn find_whole(&self, session: &str) -> Option<TranscriptSource> {
        let found = self.readers.iter().flat_map(|reader| reader.find(session));
        found.filter(|source| !source.is_empty()).max_by_key(|source| source.stamp.modified)
    }

    /// The transcript of a session, by its whole id or the beginning of it. An error if several begin so.
    pub(crate) fn find(&self, reference: &str) -> Result<Option<TranscriptSource>, CliError> {
        if let Some(source) = self.find_whole(reference) {
            return Ok(Some(source));
        }
        if reference.chars().count() < SHORTEST_PREFIX || position_of(reference).is_some() {
            return Ok(None);
        }
        let mut matches: Vec<TranscriptSource> = Vec::new();
        for reader in &self.readers {
            reader.list(&mut |source| {
                let is_known = matches.iter().any(|known| known.session == source.session);
                if source.parent.is_none() && !is_known && source.session.as_str().starts_with(reference) {
                    matches.push(source);
                }
            });
        }
        if matches.len() < 2 {
            return Ok(matches.pop());
        }
        let is_cut = matches.len() > LISTED_MATCHES;
        matches.truncate(LISTED_MATCHES);
        let listed = matches.iter().map(|source| SessionMatch {
            id: source.session.to_string(),
            agent: source.agent.to_owned(),
            name: None,
            cwd: source.path.display().to_string(),
        });
        Err(CliError::AmbiguousId { prefix: reference.to_owned(), matches: listed.collect(), is_cut })
    }

    /// Writes the transcript as an archive in a directory.
    fn archive(
        &self,
        source: &TranscriptSource,
        cwd: &AbsolutePath,
        directory: &Path,
    ) -> Result<TranscriptArchive, CliError> {
        let not_read = |error: io::Error| CliError::Transcript {
            path: source.path.clone(),
            session: source.session.to_string(),
            reason: system_words(&error),
        };
        let Some(reader) = self.reader(source.agent) else {
            return Err(not_read(io::ErrorKind::NotFound.into()));
        };
        archive_file(reader, source, Arc::clone(&self.secrets), cwd, directory).map_err(not_read)
    }

    /// A store with the conversation of a transcript and nothing else, and how many prompts it has. Its file has no name
    /// any more.
    pub(crate) async fn store_of(
        &self,
        source: &TranscriptSource,
        settings: &CommandSettings,
    ) -> Result<(SqliteStore, u64), CliError> {
        let home = HostLocator::of_environment()?;
        let parent =
            if home.paths.home().is_dir() { home.paths.home().to_owned() } else { std::env::temp_dir() };
        let not_made = |error: io::Error| CliError::Directory {
            path: parent.clone(),
            reason: system_words(&error),
            flag: "ACPX_HOME",
        };
        let directory = tempfile::Builder::new().prefix(TEMPORARY).tempdir_in(&parent).map_err(not_made)?;
        let archive = self.archive(source, &settings.cwd, directory.path())?;
        let agent = AgentSpec::new(source.agent, [""; 0]).named(source.agent);
        let params = params(source, &agent, &archive, None);
        let path = directory.path().join("acpx.db");
        let written = SqliteStore::open(&path, Access::ReadWrite)?;
        import_archive_alone(&written, params).await?;
        drop(written);
        let store = SqliteStore::open_copy(&path)?;
        // The store has the file open.
        fs::remove_dir_all(directory.keep()).map_err(not_made)?;
        Ok((store, archive.prompts))
    }

    /// Makes a record of a transcript, through the running host or, without one, under the host's lock.
    pub(crate) async fn adopt(
        &self,
        source: &TranscriptSource,
        agent: &AgentSpec,
        name: Option<SessionName>,
        settings: &CommandSettings,
        console: &mut Console<'static>,
    ) -> Result<ArchiveMeta, CliError> {
        let locator = HostLocator::of_environment()?;
        let home = locator.paths.home();
        acpx_core::store::make_private_directory(home).map_err(|error| CliError::Directory {
            path: home.to_owned(),
            reason: system_words(&error),
            flag: "ACPX_HOME",
        })?;
        let archive = self.archive(source, &settings.cwd, home)?;
        let params = params(source, agent, &archive, name);
        let mut session = HostSession::with_timeout(console, settings.timeout, &locator)?;
        let alone = async || {
            let store = SqliteStore::open(&locator.paths.store(), Access::ReadWrite)?;
            Ok(import_archive_alone(&store, params.clone()).await?)
        };
        takeover::by_host_or_alone(&locator, &mut session, "_acpx/import_archive", &params, alone).await
    }
}

impl RecordLookup {
    /// Opens the store of the home or, if the name refers to no session there but to an agent's own transcript, a store
    /// with that conversation alone.
    pub(crate) async fn with_transcripts(settings: &CommandSettings) -> Result<Self, CliError> {
        let lookup = Self::open()?;
        let Some(reference) = &settings.session else { return Ok(lookup) };
        if lookup.selected(settings, SessionFilter::OpenOrClosed).await?.is_some() {
            return Ok(lookup);
        }
        let native = NativeSessions::of(settings);
        match native.find(reference.as_str())? {
            Some(source) if !lookup.has_deleted(&source).await? => {
                let (store, prompts) = native.store_of(&source, settings).await?;
                Ok(Self { store: Some(store), native_prompts: Some(prompts) })
            }
            Some(_) | None => Ok(lookup),
        }
    }

    /// Whether a record with this session was deleted. Its agent's transcript does not bring it back.
    pub(crate) async fn has_deleted(&self, source: &TranscriptSource) -> Result<bool, CliError> {
        let (Some(store), Ok(id)) = (self.store(), RecordId::new(source.session.as_str())) else {
            return Ok(false);
        };
        let agent = AgentSpec::new(source.agent, [""; 0]).named(source.agent);
        let owners = store.owners(agent, vec![source.session.clone()]).await?;
        for id in owners.into_iter().map(|owner| owner.record).chain([id]) {
            if store.record(id).await?.is_some_and(|record| record.lifecycle.is_deleted()) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn params(
    source: &TranscriptSource,
    agent: &AgentSpec,
    archive: &TranscriptArchive,
    name: Option<SessionName>,
) -> ArchiveParams {
    ArchiveParams {
        archive: archive.file.path().to_owned(),
        agent: agent.name.clone(),
        argv: agent.command(),
        cwd: archive.cwd.clone(),
        name,
        native_session_id: Some(source.session.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn only_old_temporary_transcripts_are_removed_from_the_home() {
        let home = tempfile::tempdir().unwrap();
        let old = SystemTime::now() - 2 * ABANDONED_AFTER;
        for (name, is_old) in [(".transcript-a", true), (".transcript-b", false), ("acpx.db", true)] {
            fs::create_dir(home.path().join(name)).unwrap();
            fs::write(home.path().join(name).join("acpx.db"), "words").unwrap();
            let directory = fs::File::open(home.path().join(name)).unwrap();
            directory.set_modified(if is_old { old } else { SystemTime::now() }).unwrap();
        }
        fs::File::create(home.path().join(".transcript-c")).unwrap().set_modified(old).unwrap();
        remove_abandoned(home.path());
        let entries = fs::read_dir(home.path()).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, [".transcript-b", "acpx.db"]);
    }
}
