//! What is kept, for commands that only read: the store is opened by the command itself, and nothing is
//! started. A store that is not there has no sessions.

use std::path::Path;
use std::sync::Arc;

use acpx_core::host::KeptEvents;
use acpx_core::model::{
    Content, Lifecycle, Record, RecordId, Seq, SessionName, SessionUsage, Timestamp, Update,
};
use acpx_core::store::{ScopeQuery, SqliteStore, Store};

use crate::error::{CliError, Remedy};
use crate::reach::Reach;
use crate::scope::Walk;
use crate::settings::Settings;

/// The store of a home, opened to be read.
pub(super) struct Kept {
    store: Option<SqliteStore>,
}

/// Whether closed sessions may be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    Open,
    OpenOrClosed,
}

impl Kept {
    /// Opens the store of the home.
    pub(super) fn open() -> Result<Self, CliError> {
        Ok(Self { store: Reach::of_environment()?.kept()? })
    }

    /// The store, if there is one.
    pub(super) fn store(&self) -> Option<&SqliteStore> {
        self.store.as_ref()
    }

    /// The session that is meant, in the nearest directory that has one.
    pub(super) async fn find(&self, settings: &Settings, which: Which) -> Result<Option<Record>, CliError> {
        let Some(store) = &self.store else { return Ok(None) };
        let query = ScopeQuery {
            agent: settings.agent.key(),
            directories: Walk::from(settings.cwd.as_path())?.directories()?,
            name: settings.session.clone(),
            closed: which == Which::OpenOrClosed,
        };
        Ok(store.find(query).await?)
    }

    /// The session that is meant, or else the one whose id the name is: ids are what commands print. An id means
    /// one session wherever it is, whichever agent it is with, and whether it is closed or not.
    pub(super) async fn meant(&self, settings: &Settings, which: Which) -> Result<Option<Record>, CliError> {
        match self.find(settings, which).await? {
            None => self.by_id(settings).await,
            found => Ok(found),
        }
    }

    /// The session whose id the name is.
    pub(super) async fn by_id(&self, settings: &Settings) -> Result<Option<Record>, CliError> {
        let (Some(store), Some(name)) = (&self.store, &settings.session) else { return Ok(None) };
        let Ok(id) = RecordId::new(name.as_str()) else { return Ok(None) };
        let record = store.record(id).await?;
        Ok(record.filter(|record| !matches!(record.lifecycle, Lifecycle::Deleted { .. })))
    }

    /// The open session that is meant, or else what to do to have one.
    pub(super) async fn open_one(&self, settings: &Settings) -> Result<Record, CliError> {
        if let Some(record) = self.meant(settings, Which::Open).await? {
            return Ok(record);
        }
        let closed = self.find(settings, Which::OpenOrClosed).await?;
        let is_id = |name: &SessionName| uuid::Uuid::try_parse(name.as_str()).is_ok();
        let remedy = match closed {
            Some(closed) => Remedy::GoOn(closed.id),
            // Nobody names a session so.
            None if settings.session.as_ref().is_some_and(is_id) => Remedy::Look,
            None => Remedy::Create,
        };
        Err(no_session(settings, remedy)?)
    }

    /// The session that is meant; without it the command cannot go on.
    pub(super) async fn need(&self, settings: &Settings) -> Result<(Record, &SqliteStore), CliError> {
        match (self.meant(settings, Which::OpenOrClosed).await?, &self.store) {
            (Some(record), Some(store)) => Ok((record, store)),
            _ => Err(no_session(settings, Remedy::Look)?),
        }
    }

    /// The events of a record as they are kept by now.
    pub(super) fn into_events(self, record: &Record) -> Option<(Arc<dyn Store>, KeptEvents)> {
        let store: Arc<dyn Store> = Arc::new(self.store?);
        let events = KeptEvents::new(Arc::clone(&store), record.id.clone(), record.last_seq);
        Some((store, events))
    }

    /// When the last prompt of a record was accepted.
    pub(super) async fn last_prompt(&self, record: &Record) -> Result<Option<Timestamp>, CliError> {
        let (Some(store), Some(turn)) = (&self.store, record.last_turn) else { return Ok(None) };
        let turn = store.turn_numbered(record.id.clone(), turn).await?;
        Ok(turn.map(|turn| turn.queued_at))
    }

    /// What the session of a record had used when its agent last told it, as far as that is not long ago.
    pub(super) async fn last_usage(&self, record: &Record) -> Result<Option<SessionUsage>, CliError> {
        let (Some(store), Some(last)) = (&self.store, record.last_seq) else { return Ok(None) };
        let from = Seq(last.0.saturating_sub(LOOKED_THROUGH).max(Seq::FIRST.0));
        let limit = usize::try_from(LOOKED_THROUGH).unwrap_or(usize::MAX).saturating_add(1);
        let events = store.events(record.id.clone(), from, limit).await?;
        let row = record.lineage.current_index();
        // A fresh session has used nothing of what the one before it had.
        let told = events.iter().rev().filter(|event| event.lineage == row && event.body.contains(USAGE));
        Ok(told.map(acpx_core::acp::content).find_map(|content| match content {
            Content::Update(Update::Usage(usage)) => Some(usage),
            _ => None,
        }))
    }
}

/// How many of the last events are looked through for what was used: agents tell it with every answer, or never.
const LOOKED_THROUGH: u64 = 511;
/// What an event that tells it has in it.
const USAGE: &str = "usage_update";

/// Whether the process of a record's last run is still there.
pub(super) fn agent_lives(record: &Record) -> bool {
    record.agent_run.as_ref().is_some_and(|run| run.ended.is_none() && run.process.is_alive())
}

/// That there is no such session, with where it was looked for and what to do about it.
pub(crate) fn no_session(settings: &Settings, remedy: Remedy) -> Result<CliError, CliError> {
    let walk = Walk::from(settings.cwd.as_path())?;
    Ok(CliError::NoSession {
        agent: settings.typed_agent(),
        name: settings.session.as_ref().map(ToString::to_string),
        cwd: walk.start().to_owned(),
        searched: walk.root().map(Path::to_owned),
        remedy,
    })
}
