//! Native transcripts as sessions of the shell: found by their ids, read as records without an agent, and adopted.
//!
//! To continue one, it becomes a record of the home with the id that the agent gave the session; the agent then restores
//! it like any other.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use acpx_core::host::import_archive_alone;
use acpx_core::index::SearchIndex;
use acpx_core::model::{AbsolutePath, AgentSpec, RecordId, Secrets, SessionName};
use acpx_core::protocol::{ArchiveMeta, ArchiveParams};
use acpx_core::store::{Access, SqliteStore, Store};
use acpx_core::transcripts::{
    TRANSCRIPT_AGENTS, TranscriptArchive, TranscriptHome, TranscriptProblem, TranscriptReader,
    TranscriptSource, archive_file, transcript_reader,
};

use super::host_locator::HostLocator;
use super::host_session::HostSession;
use super::lookup::{RecordLookup, SHORTEST_PREFIX, no_session, position_of};
use super::settings::CommandSettings;
use super::takeover;
use crate::error::{
    Alternatives, CliError, Intent, NativeAlternative, NoSessionHelp, SessionMatch, system_words,
};
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
        self.find_readable(session, &mut Vec::new())
    }

    /// The same, with what could not be read.
    fn find_readable(
        &self,
        session: &str,
        problems: &mut Vec<TranscriptProblem>,
    ) -> Option<TranscriptSource> {
        let mut found = Vec::new();
        for reader in &self.readers {
            problems.extend(reader.find_each(session, &mut |source| found.push(source)));
        }
        found.retain(|source| !source.is_empty());
        found.into_iter().max_by_key(|source| source.stamp.modified)
    }

    /// The transcript of a session, by its whole id or the beginning of it. An error if several begin so, or if there is
    /// one that cannot be read.
    pub(crate) fn find(&self, reference: &str) -> Result<Option<TranscriptSource>, CliError> {
        let mut problems = Vec::new();
        if let Some(source) = self.find_readable(reference, &mut problems) {
            return Ok(Some(source));
        }
        if reference.chars().count() < SHORTEST_PREFIX || position_of(reference).is_some() {
            return Ok(None);
        }
        let mut matches: Vec<TranscriptSource> = Vec::new();
        for reader in &self.readers {
            problems.extend(reader.list(&mut |source| {
                let is_known = matches.iter().any(|known| known.session == source.session);
                if source.parent.is_none() && !is_known && source.session.as_str().starts_with(reference) {
                    matches.push(source);
                }
            }));
        }
        match matches.len() {
            0 => self.refuse_unreadable(reference, problems).map(|()| None),
            1 => Ok(matches.pop()),
            found => {
                matches.truncate(LISTED_MATCHES);
                let listed = matches.iter().map(|source| SessionMatch {
                    id: source.session.to_string(),
                    agent: source.agent.to_owned(),
                    name: None,
                    cwd: source.path.display().to_string(),
                });
                let (prefix, is_cut) = (reference.to_owned(), found > LISTED_MATCHES);
                Err(CliError::AmbiguousId { prefix, matches: listed.collect(), is_cut })
            }
        }
    }

    /// An error if a transcript that was not found exists: where it may be cannot be read, or the index has it from a
    /// process whose environment names another directory.
    fn refuse_unreadable(&self, reference: &str, problems: Vec<TranscriptProblem>) -> Result<(), CliError> {
        let places: Vec<PathBuf> = self.readers.iter().flat_map(|reader| reader.locations()).collect();
        let may_have_it = |path: &Path| {
            path.to_string_lossy().contains(reference)
                || may_be_id(reference) && places.iter().any(|place| place == path)
        };
        if let Some(TranscriptProblem { path, reason }) =
            problems.into_iter().find(|problem| may_have_it(&problem.path))
        {
            return Err(CliError::Transcript { path, session: reference.to_owned(), reason });
        }
        let index = HostLocator::of_environment()?.paths.index();
        // The index is only a help here: without it there is no such session.
        let Ok(index) = SearchIndex::open_unchanged(&index) else { return Ok(()) };
        let rows = index.transcripts_by_prefix(reference, None, LISTED_MATCHES).unwrap_or_default();
        for row in rows {
            let Some(reader) = self.reader(&row.agent) else { continue };
            let places = reader.locations();
            let is_below = |place: &PathBuf| {
                row.path.starts_with(place)
                    || place.canonicalize().is_ok_and(|real| row.path.starts_with(real))
            };
            if row.path.exists() && !places.iter().any(is_below) {
                let places: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
                let reason =
                    format!("transcripts of {} are read from {} here", row.agent, places.join(" and "));
                return Err(CliError::Transcript { path: row.path, session: row.session, reason });
            }
        }
        Ok(())
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
    /// The error for a missing open session, with the alternatives.
    pub(crate) async fn missing(
        &self,
        settings: &CommandSettings,
        intent: Intent,
    ) -> Result<CliError, CliError> {
        let alternatives = match self.native_alternative(settings).await? {
            Some(native) => Alternatives::Native(native),
            None => self.alternatives(settings).await?,
        };
        no_session(settings, NoSessionHelp { intent, alternatives })
    }

    /// The session of any agent that is selected by its id and has no record.
    pub(crate) async fn native_alternative(
        &self,
        settings: &CommandSettings,
    ) -> Result<Option<NativeAlternative>, CliError> {
        let typed = settings.session.as_ref().map(SessionName::as_str).filter(|typed| may_be_id(typed));
        let Some(typed) = typed else { return Ok(None) };
        // A transcript that cannot be read is no alternative.
        let found = NativeSessions::of_all(settings).find(typed).ok().flatten();
        let Some(source) = found else { return Ok(None) };
        let native = NativeAlternative { agent: source.agent.to_owned(), id: typed.to_owned() };
        Ok((!self.has_deleted(&source).await?).then_some(native))
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

/// Whether a text may be the id of a session, or the beginning of one, rather than a name.
fn may_be_id(reference: &str) -> bool {
    let rest = reference.strip_prefix("ses_").unwrap_or(reference);
    rest.len() < reference.len()
        || rest.bytes().any(|byte| byte.is_ascii_digit())
            && rest.bytes().all(|byte| byte.is_ascii_hexdigit() || b"-_".contains(&byte))
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
