//! Imports sessions of npm acpx, and archives of sessions. Only the holder of the host's lock writes: the host, or a command without a host.

use std::collections::HashSet;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use crate::acp::agent::{CallError, ExtensionCall};
use crate::engine::Engine;
use crate::model::{AgentSpec, HostId, ProcessIdentity, RecordId, Timestamp};
use crate::store::SqliteStore;
use crate::store::archive::{ArchiveDestination, ImportArchiveError, ImportedArchive, import_archive};
use crate::store::import_acpx::{
    ImportError, ImportMode, ImportNote, ImportOptions, ImportReport, ImportedRecord, RecordReservation,
    Reserve, SkipReason, import,
};

use crate::host::connection::access::{ClientAccess, UserAction};
use crate::protocol::acpx_meta::{problem, read_params};
use crate::protocol::import_params::{
    AgentNames, ArchiveMeta, ArchiveParams, ConfiguredAgent, FileMeta, ImportMeta, ImportParams,
    ImportedRecordMeta,
};
use crate::protocol::rpc_error;
use crate::wire::since_1970;

/// Imports sessions into a host's store.
pub(crate) struct Importer {
    pub(crate) store: Arc<SqliteStore>,
    pub(crate) host: HostId,
    /// The directory of npm acpx in this home.
    pub(crate) own_directory: PathBuf,
    /// The directory of the store, for archives of transcripts.
    pub(crate) home: PathBuf,
    /// The search index, which may be missing.
    pub(crate) index: PathBuf,
    pub(crate) name_of: AgentNames,
    /// Two concurrent imports would import the same records.
    pub(crate) one_at_a_time: tokio::sync::Mutex<()>,
}

/// Reserves records against the engine's sessions; only requests for a reserved record wait. An import that writes
/// first ends an idle session, because its agent does not know the imported turns.
struct InEngine<'e> {
    engine: &'e Engine,
    mode: ImportMode,
}

impl Reserve for InEngine<'_> {
    fn reserve<'a>(
        &'a self,
        record: &'a RecordId,
    ) -> Pin<Box<dyn Future<Output = Option<RecordReservation>> + Send + 'a>> {
        Box::pin(async move {
            if self.mode == ImportMode::Keep {
                self.engine.end_idle(record).await;
            }
            self.engine.reserve(record).await.map(|reserved| Box::new(reserved) as RecordReservation)
        })
    }
}

impl Importer {
    /// Imports for a client. A confined client may import only the home's own directory: other files could change the
    /// settings of any record.
    pub(crate) async fn import(
        &self,
        engine: &Engine,
        call: &ExtensionCall,
        access: &ClientAccess,
    ) -> Result<String, CallError> {
        let ImportParams { directory, dry_run, agents } = read_params(call)?;
        let mode = if dry_run { ImportMode::DryRun } else { ImportMode::Keep };
        // A dead disk does not block other imports.
        let (path, own) = (directory.clone(), self.own_directory.clone());
        let is_own_directory =
            move || path.canonicalize().map(|real| own.canonicalize().is_ok_and(|own| own == real));
        let answer = engine.disk().ask(&directory, is_own_directory).await;
        let is_own = answer.unwrap_or_else(|no_answer| Err(io::Error::other(no_answer)));
        if !matches!(is_own, Ok(true)) {
            access.check(UserAction::ImportDirectory)?;
        }
        let agents = access.import_agents(agents);
        is_own.map_err(|source| refused(ImportError::Directory { path: directory.clone(), source }))?;
        let _lock = self.one_at_a_time.lock().await;
        let reserve = &InEngine { engine, mode };
        let living = ProcessIdentity::living;
        let name_of = |argv: &[String]| ConfiguredAgent::name_of(&agents, self.name_of, argv);
        let options = ImportOptions { host: &self.host, name_of: &name_of, living, reserve, mode };
        let report = import(&self.store, &directory, options).await.map_err(refused)?;
        Ok(serde_json::to_string(&ImportMeta::from(report)).expect("a report has only text and numbers"))
    }
}

impl Importer {
    /// Imports an archive for a client. A confined client may not: the archive names any directory.
    pub(crate) async fn import_archive(
        &self,
        call: &ExtensionCall,
        access: &ClientAccess,
    ) -> Result<String, CallError> {
        let params: ArchiveParams = read_params(call)?;
        access.check(UserAction::ImportDirectory)?;
        if params.argv.first().is_none_or(String::is_empty) {
            return Err(problem("argv", "names no program"));
        }
        for (field, value) in [("agent", &params.agent), ("nativeSessionId", &params.native_session_id)] {
            if value.as_deref() == Some("") {
                return Err(problem(field, "is empty"));
            }
        }
        let imported = self.import_file(params).await.map_err(rpc_error::archive_not_imported)?;
        Ok(serde_json::to_string(&imported).expect("a report has only text and numbers"))
    }

    /// Imports the archive in a file.
    pub(crate) async fn import_file(&self, params: ArchiveParams) -> Result<ArchiveMeta, ImportArchiveError> {
        let _lock = self.one_at_a_time.lock().await;
        archive(&self.store, params, self.host.clone()).await
    }
}

/// Imports an archive without a host. The caller holds the host's lock.
pub async fn import_archive_alone(
    store: &SqliteStore,
    params: ArchiveParams,
) -> Result<ArchiveMeta, ImportArchiveError> {
    archive(store, params, HostId::new("import").expect("the name is not empty")).await
}

async fn archive(
    store: &SqliteStore,
    params: ArchiveParams,
    host: HostId,
) -> Result<ArchiveMeta, ImportArchiveError> {
    let ArchiveParams { archive, agent, argv, cwd, name, native_session_id } = params;
    let mut words = argv.into_iter();
    let spec = AgentSpec::new(words.next().unwrap_or_default(), words);
    let destination = ArchiveDestination {
        is_adopted: native_session_id.is_some(),
        record: native_session_id.and_then(|id| RecordId::new(id).ok()).unwrap_or_else(|| {
            RecordId::new(crate::wire::new_uuid().to_string()).expect("a UUID is not empty")
        }),
        agent: match agent {
            Some(name) => spec.named(name),
            None => spec,
        },
        cwd,
        name,
        host,
        at: Timestamp::since_1970(since_1970()),
    };
    let ImportedArchive { identity, turns, events, notes } =
        import_archive(store, &archive, destination).await?;
    Ok(ArchiveMeta { identity, turns, events, notes })
}

/// Imports sessions without a host. The caller holds the host's lock.
pub async fn import_alone(
    store: &SqliteStore,
    directory: &Path,
    agents: &[ConfiguredAgent],
    built_in: AgentNames,
    mode: ImportMode,
) -> Result<ImportMeta, ImportError> {
    let host = HostId::new("import").expect("the name is not empty");
    let (no_reservation, living) = (HashSet::new(), ProcessIdentity::living);
    let name_of = |argv: &[String]| ConfiguredAgent::name_of(agents, built_in, argv);
    let options = ImportOptions { host: &host, name_of: &name_of, living, reserve: &no_reservation, mode };
    Ok(import(store, directory, options).await?.into())
}

fn refused(error: ImportError) -> CallError {
    match error {
        ImportError::Store(error) => rpc_error::not_kept(error),
        other => rpc_error::not_imported(&other),
    }
}

impl From<ImportReport> for ImportMeta {
    fn from(report: ImportReport) -> Self {
        let taken = |taken: ImportedRecord| ImportedRecordMeta {
            file: taken.file,
            acpx_record_id: taken.record.to_string(),
            acpx_session_id: taken.session.to_string(),
            agent_session_id: taken.agent_session.map(|inner| inner.as_str().to_owned()),
            turns: taken.turns,
            notes: taken.notes.iter().map(ImportNote::to_string).collect(),
        };
        let left = report.skipped.into_iter();
        let damaged = report.damaged.into_iter();
        Self {
            taken: report.imported.into_iter().map(taken).collect(),
            grown: report.grown.into_iter().map(taken).collect(),
            unchanged: report.unchanged,
            left: left.map(|left| FileMeta { file: left.file, reason: left.reason.to_string() }).collect(),
            damaged: damaged
                .map(|damaged| FileMeta { file: damaged.file, reason: damaged.damage.to_string() })
                .collect(),
            continued: report.continued.iter().map(SkipReason::to_string).collect(),
        }
    }
}
