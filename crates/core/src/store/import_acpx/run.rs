//! Imports a directory: reads changed files, imports each record separately, and updates the ledger. An unreadable
//! file is reported and does not stop the import of others.

use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::hash::BuildHasher;
use std::path::Path;
use std::pin::Pin;

use super::directory::{self, Ledger, RecordFile, Stamp};
use super::import_record::{ImportContext, ImportOutcome};
use super::owner::{self, LeaseFiles};
use super::record::{NpmRecord, file_stem};
use super::report::{Damage, ImportError, ImportNote, ImportProblem, ImportReport, SkipReason, SkippedFile};
use crate::model::{AbsolutePath, HostId, Lifecycle, ProcessIdentity, RecordId, SessionName, Timestamp};
use crate::store::file_system;
use crate::store::{ImportedFile, SqliteStore};

/// The configured name of the agent with this command line, if any.
pub(crate) type NameOf<'a> = &'a (dyn Fn(&[String]) -> Option<String> + Sync);

/// The running process with a pid, to verify the claims of npm acpx's lease files.
pub(crate) type LivingProcess = fn(u32) -> Option<ProcessIdentity>;

/// The options of an import.
#[derive(Clone, Copy)]
pub struct ImportOptions<'a> {
    /// The host that writes.
    pub host: &'a HostId,
    /// Maps command lines to agents' names.
    pub name_of: NameOf<'a>,
    /// Looks up running processes.
    pub living: LivingProcess,
    /// Reserves records while the import writes to them. Records in use are skipped until they are free.
    pub reserve: &'a dyn Reserve,
    /// Whether it writes.
    pub mode: ImportMode,
}

/// Holds a record for the import until it is dropped; no other writer has it.
pub(crate) type RecordReservation = Box<dyn Any + Send>;

/// Knows which records are in use.
pub trait Reserve: Sync {
    /// Reserves a record; `None` if it is in use.
    fn reserve<'a>(
        &'a self,
        record: &'a RecordId,
    ) -> Pin<Box<dyn Future<Output = Option<RecordReservation>> + Send + 'a>>;
}

/// A fixed set of records in use, where no other writer exists.
impl<S: BuildHasher + Sync> Reserve for HashSet<RecordId, S> {
    fn reserve<'a>(
        &'a self,
        record: &'a RecordId,
    ) -> Pin<Box<dyn Future<Output = Option<RecordReservation>> + Send + 'a>> {
        Box::pin(async move { (!self.contains(record)).then(|| Box::new(()) as RecordReservation) })
    }
}

/// Whether an import writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportMode {
    /// Records and ledger entries are written.
    Keep,
    /// Nothing is written; the report describes what would be.
    DryRun,
}

/// The largest record that is read. npm acpx cuts the messages in it, so real ones are far smaller.
const LARGEST_RECORD: u64 = 64 * 1024 * 1024;

/// Outcomes in the ledger.
const TAKEN: &str = "taken";
const GONE_ON: &str = "left: gone on";
const ID_TAKEN: &str = "left: id taken";
const DAMAGED: &str = "damaged";

/// The current content of npm acpx's sessions directory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NpmSessions {
    /// Whether a session, or more of one, can be imported now.
    pub has_news: bool,
    /// The sessions that a running npm acpx holds, most recently changed first.
    pub held: Vec<HeldSession>,
}

/// A session that a running npm acpx holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldSession {
    /// The process of npm acpx.
    pub pid: i32,
    /// The session's record.
    pub record: RecordId,
    /// Its agent: the command line, and the one npm acpx knew it by if that differs.
    pub commands: Vec<Vec<String>>,
    /// The directory it works in.
    pub cwd: AbsolutePath,
    /// Its name, if it has one.
    pub name: Option<SessionName>,
}

impl NpmSessions {
    /// Inspects a sessions directory; without a store nothing was imported yet.
    ///
    /// It is cheap enough for every command: it lists the directory, compares it with the ledger, and reads only the
    /// records of sessions that are held.
    pub async fn look(
        store: Option<&SqliteStore>,
        directory: &Path,
        living: LivingProcess,
    ) -> Result<Self, ImportError> {
        let Ok(directory) = directory.canonicalize() else { return Ok(Self::default()) };
        let records = directory::list(&directory)
            .map_err(|source| ImportError::Directory { path: directory.clone(), source })?;
        if records.is_empty() {
            return Ok(Self::default());
        }
        let ledger = match store {
            Some(store) => ledger(store, &directory).await?,
            None => Ledger::default(),
        };
        let leases = LeaseFiles::beside(&directory);
        let mut found = Self::default();
        for files in &records {
            match leases.owner_of(files, &directory, living) {
                Some(pid) => found.held.extend(HeldSession::read(files, &directory, pid)),
                None => found.has_news |= files.is_changed(&ledger),
            }
        }
        Ok(found)
    }
}

impl HeldSession {
    /// The session of these files; `None` if its record is damaged or closed.
    fn read(files: &RecordFile, directory: &Path, pid: i32) -> Option<Self> {
        let bytes = read_file(&directory.join(&files.name)).ok()?;
        let npm = NpmRecord::read(&bytes, Timestamp::from_millis(0).ok()?).ok()?;
        (npm.lifecycle == Lifecycle::Open).then(|| Self {
            pid,
            record: npm.id,
            commands: [npm.argv].into_iter().chain(npm.known_as).collect(),
            cwd: npm.cwd,
            name: npm.name.unwrap_or_default(),
        })
    }
}

/// Imports the sessions of npm acpx from its sessions directory.
///
/// No session of a record may start while the record is written to, because an import of growth takes its lease. Only
/// one import may run at a time. Call it within a tokio runtime, whose blocking threads read the files.
pub async fn import(
    store: &SqliteStore,
    directory: &Path,
    options: ImportOptions<'_>,
) -> Result<ImportReport, ImportError> {
    let not_read = |source| ImportError::Directory { path: directory.to_owned(), source };
    let path = directory.to_owned();
    let list = move || path.canonicalize().and_then(|real| Ok((directory::list(&real)?, real)));
    let looked = tokio::task::spawn_blocking(list).await.unwrap_or_else(|error| Err(error.into()));
    let (records, real) = looked.map_err(not_read)?;
    let directory = &*real;
    let ledger = ledger(store, directory).await?;
    let context = ImportContext { store, directory, options, assigned_scopes: HashMap::new() };
    let mut run = ImportRun { context, ledger, report: ImportReport::default(), noted: Vec::new() };
    let outcome = run.import_all(records).await;
    // Records imported before a failure need not be read again.
    let ImportRun { report, noted, .. } = run;
    if options.mode == ImportMode::Keep && !noted.is_empty() {
        store.note_imports(directory.to_owned(), noted).await?;
    }
    outcome.map(|()| report)
}

async fn ledger(store: &SqliteStore, directory: &Path) -> Result<Ledger, ImportError> {
    let noted = store.imports(directory.to_owned()).await?;
    Ok(noted.into_iter().map(|noted| (noted.file.clone(), noted)).collect())
}

struct ImportRun<'a> {
    context: ImportContext<'a>,
    ledger: Ledger,
    report: ImportReport,
    noted: Vec<ImportedFile>,
}

impl ImportRun<'_> {
    async fn import_all(&mut self, records: Vec<RecordFile>) -> Result<(), ImportError> {
        // A file that is not named after its record may be a copy, so the record's own file comes first. The other is
        // read again later, because records may be large and such files many.
        let mut others = Vec::new();
        for files in records {
            if self.report_unchanged(&files) {
                continue;
            }
            match self.read(&files).await {
                Ok(npm) if npm.notes.contains(&ImportNote::FileName) => others.push(files),
                Ok(npm) => self.import(files, npm).await?,
                Err(damage) => self.record_outcome(&files, ImportOutcome::Damaged(damage)),
            }
        }
        for files in others {
            match self.read(&files).await {
                Ok(npm) => self.import(files, npm).await?,
                Err(damage) => self.record_outcome(&files, ImportOutcome::Damaged(damage)),
            }
        }
        Ok(())
    }

    /// Reports a record with unchanged files from the ledger. A damaged one is examined again, so that a manual
    /// import reports it.
    fn report_unchanged(&mut self, files: &RecordFile) -> bool {
        let Some(noted) = self.ledger.get(&files.name).filter(|_| !files.is_changed(&self.ledger)) else {
            return false;
        };
        let reason = match (&*noted.outcome, noted.record.clone()) {
            (TAKEN, _) => None,
            (GONE_ON, Some(record)) => Some(SkipReason::Diverged { record }),
            (ID_TAKEN, Some(record)) => Some(SkipReason::IdTaken { record }),
            _ => return false,
        };
        match reason {
            None => self.report.unchanged += 1,
            Some(reason) => self.report.skipped.push(SkippedFile { file: files.name.clone(), reason }),
        }
        true
    }

    async fn read(&self, files: &RecordFile) -> Result<NpmRecord, Damage> {
        let path = self.context.directory.join(&files.name);
        let written_at = Timestamp::from_millis(files.stamp.modified_ns / 1_000_000)
            .map_err(|error| Damage::Unreadable { why: error.to_string() })?;
        let mut npm = blocking(move || NpmRecord::read(&read_file(&path)?, written_at)).await?;
        if file_stem(&npm.id) != files.stem() {
            npm.notes.push(ImportNote::FileName);
        }
        Ok(npm)
    }

    async fn import(&mut self, files: RecordFile, npm: NpmRecord) -> Result<(), ImportError> {
        let living = self.context.options.living;
        let record = npm.id.clone();
        let is_copy = npm.notes.contains(&ImportNote::FileName);
        let (directory, stem, id) =
            (self.context.directory.to_owned(), files.stem().to_owned(), record.clone());
        let find_owner = move || Ok(owner::living_owner(&directory, &stem, id.as_str(), living));
        let owner = match blocking(find_owner).await {
            Ok(owner) => owner,
            Err(damage) => {
                self.record_outcome(&files, ImportOutcome::Damaged(damage));
                return Ok(());
            }
        };
        let outcome = if let Some(pid) = owner {
            ImportOutcome::Skipped(SkipReason::OwnerAlive { pid })
        } else if let Some(_reserved) = self.context.options.reserve.reserve(&record).await {
            self.context.import(&files, npm).await?
        } else {
            ImportOutcome::Skipped(SkipReason::InUse { record })
        };
        if let ImportOutcome::Skipped(reason @ (SkipReason::Diverged { .. } | SkipReason::InUse { .. })) =
            &outcome
            && !is_copy
        {
            self.report.continued.push(reason.clone());
        }
        self.record_outcome(&files, outcome);
        Ok(())
    }

    /// Adds an outcome to the report and, unless the next import may have another, to the ledger.
    fn record_outcome(&mut self, files: &RecordFile, outcome: ImportOutcome) {
        let file = files.name.clone();
        let (record, words) = match outcome {
            ImportOutcome::Imported(taken) => {
                let record = taken.record.clone();
                self.report.imported.push(taken);
                (Some(record), TAKEN.to_owned())
            }
            ImportOutcome::Grown(grown) => {
                let record = grown.record.clone();
                self.report.grown.push(grown);
                (Some(record), TAKEN.to_owned())
            }
            ImportOutcome::Unchanged(record) => {
                self.report.unchanged += 1;
                (Some(record), TAKEN.to_owned())
            }
            ImportOutcome::Skipped(reason) => {
                let noted = match &reason {
                    SkipReason::OwnerAlive { .. } | SkipReason::InUse { .. } => None,
                    SkipReason::Diverged { record } => Some((record.clone(), GONE_ON)),
                    SkipReason::IdTaken { record } => Some((record.clone(), ID_TAKEN)),
                };
                self.report.skipped.push(SkippedFile { file, reason });
                let Some((record, words)) = noted else { return };
                (Some(record), words.to_owned())
            }
            ImportOutcome::Damaged(damage) => {
                let words = format!("{DAMAGED}: {damage}");
                self.report.damaged.push(ImportProblem { file, damage });
                (None, words)
            }
        };
        self.update_ledger(files, record.as_ref(), &words);
    }

    fn update_ledger(&mut self, files: &RecordFile, record: Option<&RecordId>, words: &str) {
        for (name, Stamp { modified_ns, size }) in files.files() {
            let (file, outcome) = (name.to_owned(), words.to_owned());
            let noted = ImportedFile { file, modified_ns, size, record: record.cloned(), outcome };
            if self.ledger.get(name) != Some(&noted) {
                self.noted.push(noted);
            }
        }
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>, Damage> {
    match file_system::read(path, LARGEST_RECORD) {
        Ok(bytes) => bytes.ok_or(Damage::TooLarge { limit: LARGEST_RECORD }),
        Err(error) => Err(Damage::Unreadable { why: error.to_string() }),
    }
}

/// Runs work that may block on the disk on a blocking thread.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Damage> + Send + 'static,
) -> Result<T, Damage> {
    let stopped = |error: tokio::task::JoinError| Damage::Unreadable { why: error.to_string() };
    tokio::task::spawn_blocking(work).await.map_err(stopped)?
}
