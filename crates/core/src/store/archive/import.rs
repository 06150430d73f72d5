//! Imports an archive as a new record: copies it, reads the copy to its end once to check it, and again to write it in
//! one transaction.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use super::damage::ImportArchiveError;
use super::layout::{OwnParts, SessionArchive};
use super::npm_changes::NpmChanges;
use super::own_changes::OwnChanges;
use super::summary::ImportSummary;
use crate::model::{
    AbsolutePath, AgentMemory, AgentSpec, HostId, Lifecycle, Lineage, Record, RecordId, RecordSettings,
    Scope, SessionIdentity, SessionInfo, SessionName, SettingName, Timestamp,
};
use crate::store::import_acpx::archived::NpmRecord;
use crate::store::{Change, ChangeSource, SqliteStore, Store, StoreError, real_path_or_written};

/// A batch ends with the change that makes it this large.
const BATCH_BYTES: usize = 1024 * 1024;

/// Where the session of an archive goes.
#[derive(Debug, Clone)]
pub struct ArchiveDestination {
    /// The new record's id.
    pub record: RecordId,
    /// Its agent. The archive only names it.
    pub agent: AgentSpec,
    /// Its directory.
    pub cwd: AbsolutePath,
    /// Its name.
    pub name: Option<SessionName>,
    /// Whether it is a session that the agent has and that acpx did not know. It then has a name only if one is given.
    pub is_adopted: bool,
    /// The host that writes.
    pub host: HostId,
    /// Now.
    pub at: Timestamp,
}

/// An imported session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedArchive {
    /// Its ids.
    pub identity: SessionIdentity,
    /// How many turns it has.
    pub turns: u64,
    /// How many events it has.
    pub events: u64,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// Imports an archive. Other writes wait while it is written, about a second for 100 MB.
pub async fn import_archive(
    store: &SqliteStore,
    path: &Path,
    destination: ArchiveDestination,
) -> Result<ImportedArchive, ImportArchiveError> {
    let path = path.to_owned();
    let directory = store.path().parent().unwrap_or(Path::new(".")).to_owned();
    let checked =
        tokio::task::spawn_blocking(move || CheckedArchive::read(&path, &directory, destination)).await;
    let CheckedArchive { conversation, record, summary, host } = checked.map_err(|stopped| {
        // Reading does not panic; the runtime is ending.
        ImportArchiveError::NotRead { path: Path::new("").to_owned(), source: stopped.into() }
    })??;
    let sessions = summary.lineage.rows().iter().map(|row| row.session.clone()).collect();
    for owner in store.owners(record.agent.clone(), sessions).await? {
        if !owner.is_deleted {
            return Err(ImportArchiveError::SessionExists {
                record: owner.record,
                session: owner.session.to_string(),
            });
        }
    }
    let identity = record.identity();
    store.create_from(record, Arc::new(conversation), host).await?;
    let ImportSummary { turns, events, notes, .. } = summary;
    Ok(ImportedArchive { identity, turns, events, notes })
}

/// An archive that was read to its end, and the record that it becomes.
struct CheckedArchive {
    conversation: ArchivedConversation,
    record: Record,
    summary: ImportSummary,
    host: HostId,
}

impl CheckedArchive {
    fn read(
        path: &Path,
        directory: &Path,
        destination: ArchiveDestination,
    ) -> Result<Self, ImportArchiveError> {
        let mut archive = SessionArchive::open_copy(path, directory)?;
        let session = if let Some(own) = archive.own.take() {
            ArchivedSession::Own(Box::new(own))
        } else {
            let npm = NpmRecord::of_archive(archive.state()?, &destination.cwd, destination.at);
            ArchivedSession::Npm(Box::new(npm.map_err(|damage| archive.invalid_state(damage.to_string()))?))
        };
        let conversation = ArchivedConversation { archive, session };
        let mut batches = conversation.read()?;
        while batches.next()?.is_some() {}
        let mut summary = batches.summary();
        drop(batches);
        let (record, host) = conversation.record(destination, &mut summary);
        Ok(Self { conversation, record, summary, host })
    }
}

/// The conversation of an archive, which can be read again.
#[derive(Debug)]
struct ArchivedConversation {
    archive: SessionArchive,
    session: ArchivedSession,
}

/// The session of an archive: our record, or npm acpx's.
#[derive(Debug)]
enum ArchivedSession {
    Own(Box<OwnParts>),
    Npm(Box<NpmRecord>),
}

/// Reads it in batches.
struct Batches<'a> {
    reader: ArchivedChanges<'a>,
    is_over: bool,
}

enum ArchivedChanges<'a> {
    Own(Box<OwnChanges<'a>>),
    Npm(Box<NpmChanges>),
}

impl Batches<'_> {
    /// The next changes, or `None` after the last.
    fn next(&mut self) -> Result<Option<Vec<Change>>, ImportArchiveError> {
        if self.is_over {
            return Ok(None);
        }
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while bytes < BATCH_BYTES && !self.is_over {
            let size = match &mut self.reader {
                ArchivedChanges::Own(changes) => changes.read(&mut batch)?,
                ArchivedChanges::Npm(changes) => changes.read(&mut batch)?,
            };
            self.is_over = size.is_none();
            bytes += size.unwrap_or_default();
        }
        Ok(Some(batch))
    }

    fn summary(&mut self) -> ImportSummary {
        match &mut self.reader {
            ArchivedChanges::Own(changes) => changes.summary(),
            ArchivedChanges::Npm(changes) => changes.summary(),
        }
    }
}

impl ArchivedConversation {
    fn read(&self) -> Result<Batches<'_>, ImportArchiveError> {
        let reader = match &self.session {
            ArchivedSession::Own(own) => ArchivedChanges::Own(Box::new(OwnChanges::new(&self.archive, own)?)),
            ArchivedSession::Npm(npm) => ArchivedChanges::Npm(Box::new(NpmChanges::new(&self.archive, npm)?)),
        };
        Ok(Batches { reader, is_over: false })
    }

    /// The new record: open, without a process, and with the whole lineage.
    fn record(&self, destination: ArchiveDestination, summary: &mut ImportSummary) -> (Record, HostId) {
        let ArchiveDestination { record: id, agent, cwd, name, is_adopted, host, at: _ } = destination;
        let (info, mut settings, created_at, updated_at, mcp_servers) = match &self.session {
            ArchivedSession::Own(own) => {
                let own = &own.record;
                let servers = own.mcp_servers.clone();
                (own.info.clone(), own.settings.clone(), own.created_at, own.updated_at, servers)
            }
            ArchivedSession::Npm(npm) => {
                let (info, chosen) = (SessionInfo::default(), npm.chosen().to_vec());
                let settings = RecordSettings { chosen, ..RecordSettings::default() };
                let (created_at, used_at) = npm.times();
                (info, settings, created_at, used_at, Vec::new())
            }
        };
        // A mode or an option may let an agent do everything unasked, so a file does not choose them.
        if !settings.chosen.is_empty() {
            let chosen = settings.chosen.iter().map(|setting| match &setting.name {
                SettingName::Mode => format!("mode {}", setting.value),
                SettingName::Option(option) => format!("{option} {}", setting.value),
            });
            let chosen: Vec<String> = chosen.collect();
            summary
                .notes
                .push(format!("settings that are not restored; set them again: {}", chosen.join(", ")));
            settings.chosen.clear();
        }
        let real_cwd = real_path_or_written(cwd.clone());
        if !real_cwd.as_path().is_dir() {
            summary.notes.push(format!("the directory {cwd} does not exist here"));
        }
        let scope = Scope { agent: agent.key(), name };
        let first = summary.lineage.rows().first().cloned();
        let lineage = match first.filter(|_| is_adopted) {
            Some(row) => Lineage::adopted(row.session, row.from),
            None => summary.lineage.clone(),
        };
        let record = Record {
            id,
            scope: (!is_adopted || scope.name.is_some()).then_some(scope),
            agent,
            cwd,
            real_cwd,
            additional_directories: Vec::new(),
            mcp_servers,
            info,
            lifecycle: Lifecycle::Open,
            lineage,
            agent_run: None,
            settings,
            memory: AgentMemory::default(),
            restore_error: None,
            created_at,
            updated_at,
            last_seq: None,
            last_turn: None,
            answered_turns: 0,
        };
        (record, host)
    }
}

impl ChangeSource for ArchivedConversation {
    fn for_each(&self, each: &mut dyn FnMut(&[Change]) -> ControlFlow<()>) -> Result<(), StoreError> {
        let changed = |error: ImportArchiveError| StoreError::Import { source: Box::new(error) };
        let mut batches = self.read().map_err(changed)?;
        while let Some(mut batch) = batches.next().map_err(changed)? {
            // The record was created with its whole lineage.
            batch.retain(|change| !matches!(change, Change::Lineage(_)));
            if each(&batch).is_break() {
                break;
            }
        }
        Ok(())
    }
}
