//! Imports one record of npm acpx into the store: creates it, or adds what is new since the last import.
//!
//! A record is created with its first batch and grows by the others. An interrupted import leaves the beginning of a
//! record, and the next import continues it as growth.

use std::collections::HashMap;
use std::path::Path;

use super::directory::RecordFile;
use super::record::NpmRecord;
use super::report::{Damage, ImportError, ImportNote, ImportedRecord, SkipReason};
use super::run::{ImportOptions, blocking};
use super::source::ConversationSource;
use super::target::{Destination, JournalMatch, RecordEventReader};
use super::to_changes::RecordImport;
use super::transcript::ImportStep;
use crate::model::{
    AbsolutePath, AgentSpec, Lifecycle, Lineage, LineageReason, Record, RecordId, RecordSettings, Scope,
    SessionInfo, TurnState,
};
use crate::store::{Durability, ScopeQuery, SqliteStore, Store, StoreError, real_path_or_written};

/// The outcome for one record.
#[derive(Debug)]
pub(super) enum ImportOutcome {
    Imported(ImportedRecord),
    Grown(ImportedRecord),
    Unchanged(RecordId),
    Skipped(SkipReason),
    Damaged(Damage),
}

/// What all records of an import share.
pub(super) struct ImportContext<'a> {
    pub(super) store: &'a SqliteStore,
    pub(super) directory: &'a Path,
    pub(super) options: ImportOptions<'a>,
    /// The scopes that this import has assigned; a dry run does not write them to the store.
    pub(super) assigned_scopes: HashMap<(AbsolutePath, Scope), RecordId>,
}

/// Why a record is not imported, or not completely.
enum ImportAbort {
    Skipped(SkipReason),
    Damaged(Damage),
    Store(StoreError),
}

impl From<StoreError> for ImportAbort {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl ImportContext<'_> {
    /// Imports a record, new or already stored.
    pub(super) async fn import(
        &mut self,
        files: &RecordFile,
        npm: NpmRecord,
    ) -> Result<ImportOutcome, ImportError> {
        match self.try_import(files, npm).await {
            Ok(outcome) => Ok(outcome),
            Err(ImportAbort::Skipped(reason)) => Ok(ImportOutcome::Skipped(reason)),
            Err(ImportAbort::Damaged(damage)) => Ok(ImportOutcome::Damaged(damage)),
            Err(ImportAbort::Store(error)) => Err(error.into()),
        }
    }

    async fn try_import(
        &mut self,
        files: &RecordFile,
        mut npm: NpmRecord,
    ) -> Result<ImportOutcome, ImportAbort> {
        let (directory, record_files) = (self.directory.to_owned(), files.clone());
        let open =
            move || ConversationSource::open(&directory, &record_files, &mut npm).map(|source| (npm, source));
        let (npm, source) = blocking(open).await.map_err(ImportAbort::Damaged)?;
        match self.store.record(npm.id.clone()).await? {
            None => {
                let mut notes = npm.notes.clone();
                let record = self.new_record(&npm, &mut notes).await?;
                let destination = Destination::New(Box::new(record));
                let (imported, _) = self
                    .write_conversation(files, source, RecordImport::new(&npm), destination, notes)
                    .await?;
                Ok(ImportOutcome::Imported(imported))
            }
            Some(record) if was_imported(&record) && !record.lifecycle.is_deleted() => {
                // A queued prompt has no event yet, and an imported turn would overwrite it.
                let open = self.store.open_turns(record.id.clone()).await?;
                if open.iter().any(|turn| turn.state == TurnState::Queued) {
                    return Err(ImportAbort::Skipped(SkipReason::InUse { record: record.id }));
                }
                let (id, import) = (record.id.clone(), RecordImport::of_stored(&npm, &record));
                let destination = Destination::Stored(Box::new(record));
                let (grown, is_new) =
                    self.write_conversation(files, source, import, destination, npm.notes).await?;
                Ok(if is_new { ImportOutcome::Grown(grown) } else { ImportOutcome::Unchanged(id) })
            }
            Some(record) => Err(ImportAbort::Skipped(SkipReason::IdTaken { record: record.id })),
        }
    }

    /// Writes a conversation to the store, after comparing its beginning with the stored part. Also returns whether
    /// anything was new. A record with turns of acpx is not changed: it is unchanged if npm acpx has no turn that it
    /// lacks, and has diverged otherwise.
    async fn write_conversation(
        &self,
        files: &RecordFile,
        mut source: ConversationSource,
        mut import: RecordImport,
        mut destination: Destination,
        mut notes: Vec<ImportNote>,
    ) -> Result<(ImportedRecord, bool), ImportAbort> {
        let record = destination.id();
        let diverged = || ImportAbort::Skipped(SkipReason::Diverged { record: record.clone() });
        let mut stored = RecordEventReader::of(record.clone());
        // Steps since the last stored event. The event after them shows whether they are new.
        let mut between = Vec::new();
        loop {
            let (rest, batch) = next_batch(source).await?;
            source = rest;
            let Some(batch) = batch else { break };
            let mut changes = Vec::new();
            for step in batch {
                match &step {
                    ImportStep::Line(line) => match stored.find(self.store, &mut import, line).await? {
                        JournalMatch::Stored => between.drain(..).for_each(|step| import.skip(step)),
                        JournalMatch::New => {
                            let steps = between.drain(..).chain([step]);
                            changes.extend(steps.filter_map(|step| import.convert(step)));
                        }
                        JournalMatch::Diverged => return Err(diverged()),
                    },
                    _ if import.next_stored().is_some() => between.push(step),
                    _ => changes.extend(import.convert(step)),
                }
            }
            let lineage = import.lineage();
            if !destination.write(self, lineage, changes, Durability::Process, &mut notes).await? {
                return Err(diverged());
            }
        }
        let mut rest = Vec::new();
        if stored.has_no_own_turn(self.store, &mut import).await? {
            rest.extend(between.into_iter().filter_map(|step| import.convert(step)));
            rest.extend(import.remaining_changes(|words| source.redact(words)));
        }
        let (events, turns) = import.added();
        let is_new = events > 0 || !rest.is_empty();
        if !destination.write(self, import.lineage(), rest, Durability::Machine, &mut notes).await? {
            return Err(diverged());
        }
        notes.extend(source.notes());
        let lineage = import.lineage();
        let current = lineage.current();
        let (session, agent_session) = (current.session.clone(), current.agent_session.clone());
        let (file, record) = (files.name.clone(), destination.id());
        let imported = ImportedRecord { file, record, session, agent_session, turns, events, notes };
        Ok((imported, is_new))
    }

    async fn new_record(
        &mut self,
        npm: &NpmRecord,
        notes: &mut Vec<ImportNote>,
    ) -> Result<Record, ImportAbort> {
        let agent = self.agent(npm);
        let cwd = npm.cwd.clone();
        let real_cwd = blocking(move || Ok(real_path_or_written(cwd))).await.map_err(ImportAbort::Damaged)?;
        let scope = match &npm.name {
            Ok(name) => {
                let scope = Scope { agent: agent.key(), name: name.clone() };
                self.free_scope(scope, &real_cwd, npm, notes).await?
            }
            Err(_) => None,
        };
        Ok(Record {
            id: npm.id.clone(),
            agent,
            cwd: npm.cwd.clone(),
            real_cwd,
            additional_directories: Vec::new(),
            scope,
            mcp_servers: Vec::new(),
            agent_run: None,
            settings: RecordSettings {
                chosen: npm.chosen.clone(),
                setup: npm.setup.clone(),
                ..RecordSettings::default()
            },
            memory: crate::model::AgentMemory::default(),
            restore_error: None,
            // It is written last, when all secrets are known.
            info: SessionInfo::default(),
            lifecycle: npm.lifecycle,
            lineage: Lineage::imported(npm.session.clone(), npm.agent_session.clone(), npm.created_at),
            created_at: npm.created_at,
            updated_at: npm.used_at,
            last_seq: None,
            last_turn: None,
            answered_turns: 0,
        })
    }

    /// The agent, by its configured name if it has one here. npm acpx may start a known agent by its own path.
    fn agent(&self, npm: &NpmRecord) -> AgentSpec {
        let mut words = npm.argv.iter().cloned();
        let agent = AgentSpec::new(words.next().unwrap_or_default(), words);
        let known_as = || npm.known_as.as_deref().and_then(self.options.name_of);
        match (self.options.name_of)(&npm.argv).or_else(known_as) {
            Some(name) => agent.named(name),
            None => agent,
        }
    }

    /// The scope, unless an open record has it: then this record is found only by its id.
    async fn free_scope(
        &mut self,
        scope: Scope,
        real_cwd: &AbsolutePath,
        npm: &NpmRecord,
        notes: &mut Vec<ImportNote>,
    ) -> Result<Option<Scope>, ImportAbort> {
        if npm.lifecycle != Lifecycle::Open {
            return Ok(Some(scope));
        }
        let query = ScopeQuery {
            agent: scope.agent.clone(),
            directories: vec![real_cwd.clone()],
            name: scope.name.clone(),
            closed: false,
        };
        let key = (real_cwd.clone(), scope);
        let holder = match self.store.find(query).await? {
            Some(record) => Some(record.id),
            None => self.assigned_scopes.get(&key).cloned(),
        };
        if let Some(by) = holder {
            notes.push(ImportNote::ScopeTaken { by });
            return Ok(None);
        }
        self.assigned_scopes.insert(key.clone(), npm.id.clone());
        Ok(Some(key.1))
    }
}

fn was_imported(record: &Record) -> bool {
    record.lineage.rows().first().is_some_and(|row| row.reason == LineageReason::Imported)
}

/// Reads the next batch on a thread that may block.
async fn next_batch(
    mut source: ConversationSource,
) -> Result<(ConversationSource, Option<Vec<ImportStep>>), ImportAbort> {
    let read = move || source.next_batch().map(|batch| (source, batch));
    blocking(read).await.map_err(ImportAbort::Damaged)
}
