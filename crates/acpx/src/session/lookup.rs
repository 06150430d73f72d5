//! What is kept, for commands that only read: the store is opened by the command itself, and nothing is
//! started. A store that is not there has no sessions.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use acpx_core::acp::Capabilities;
use acpx_core::engine::{agent_build, has_answered, last_answers};
use acpx_core::home::{HostPlace, listens, published};
use acpx_core::host::RecordEvents;
use acpx_core::model::{
    Content, Event, Lifecycle, ProcessIdentity, Record, RecordId, Seq, SessionName, SessionUsage, Turn,
};
use acpx_core::store::{RecordFilter, ScopeQuery, SqliteStore, Store};
use tokio::time::timeout;

use super::host_locator::HostLocator;
use super::scope::ScopeDirectories;
use super::settings::CommandSettings;
use crate::agents;
use crate::error::{Alternatives, CliError, Intent, LostSession, NoSessionHelp};

/// The store of a home, opened to be read.
pub(crate) struct RecordLookup {
    store: Option<SqliteStore>,
}

/// Whether closed sessions may be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionFilter {
    Open,
    OpenOrClosed,
}

impl RecordLookup {
    /// Opens the store of the home.
    pub(crate) fn open() -> Result<Self, CliError> {
        Ok(Self { store: HostLocator::of_environment()?.kept()? })
    }

    /// Leaves the store without closing it, at the end of a command: what SQLite would free piece by piece goes with the
    /// process, and whoever only reads has nothing to put away.
    pub(crate) fn leave(self) {
        std::mem::forget(self);
    }

    /// The store, if there is one.
    pub(crate) fn store(&self) -> Option<&SqliteStore> {
        self.store.as_ref()
    }

    /// The session that is meant, in the nearest directory that has one.
    pub(crate) async fn find(
        &self,
        settings: &CommandSettings,
        which: SessionFilter,
    ) -> Result<Option<Record>, CliError> {
        let Some(store) = &self.store else { return Ok(None) };
        let query = ScopeQuery {
            agent: settings.agent.key(),
            directories: ScopeDirectories::from(settings.cwd.as_path())?.directories()?,
            name: settings.session.clone(),
            closed: which == SessionFilter::OpenOrClosed,
        };
        Ok(store.find(query).await?)
    }

    /// The session that is meant, or else the one whose id the name is: ids are what commands print. An id means
    /// one session wherever it is, and whether it is closed or not; where an agent is typed, one of that agent.
    pub(crate) async fn meant(
        &self,
        settings: &CommandSettings,
        which: SessionFilter,
    ) -> Result<Option<Record>, CliError> {
        match self.find(settings, which).await? {
            None => self.by_id(settings).await,
            found => Ok(found),
        }
    }

    /// The session whose id the name is.
    pub(crate) async fn by_id(&self, settings: &CommandSettings) -> Result<Option<Record>, CliError> {
        let (Some(store), Some(name)) = (&self.store, &settings.session) else { return Ok(None) };
        let Ok(id) = RecordId::new(name.as_str()) else { return Ok(None) };
        let record = store.record(id).await?;
        let record = record.filter(|record| !matches!(record.lifecycle, Lifecycle::Deleted { .. }));
        match record {
            Some(record) if settings.agent_is_typed && !record.agent.is_same_as(&settings.agent) => {
                let (id, own) = (record.id.to_string(), agents::typed(&record.agent));
                Err(CliError::OtherAgent { id, own, typed: settings.typed_agent() })
            }
            record => Ok(record),
        }
    }

    /// The open session that is meant, or else what to do to have one.
    pub(crate) async fn open_one(&self, settings: &CommandSettings) -> Result<Record, CliError> {
        if let Some(record) = self.meant(settings, SessionFilter::Open).await? {
            return Ok(record);
        }
        Err(self.missing(settings, Intent::Said).await?)
    }

    /// That there is no open session of those that are meant, with what there is in its place.
    pub(crate) async fn missing(
        &self,
        settings: &CommandSettings,
        wanted: Intent,
    ) -> Result<CliError, CliError> {
        let other = self.other(settings).await?;
        no_session(settings, NoSessionHelp { wanted, other })
    }

    /// What there is in the place of an open session that no shell finds: an open one without a scope, a closed one, or
    /// one whose directory is gone.
    pub(crate) async fn other(&self, settings: &CommandSettings) -> Result<Alternatives, CliError> {
        let open = self.without_scope(settings).await?;
        if !open.is_empty() {
            return Ok(Alternatives::Open(open));
        }
        if let Some(closed) = self.find(settings, SessionFilter::OpenOrClosed).await? {
            return Ok(Alternatives::Closed(closed.id));
        }
        let lost: Vec<Record> = self.lost_of(settings).await?;
        if !lost.is_empty() {
            return Ok(Alternatives::Lost(lost.iter().map(told).collect()));
        }
        Ok(if self.may_be_remote(settings).await? { Alternatives::Remote } else { Alternatives::None })
    }

    /// Whether the name is an id that nothing here ever had, and that the agent may have: it has said, when it was last
    /// asked, that it lists its sessions and can bring them back.
    async fn may_be_remote(&self, settings: &CommandSettings) -> Result<bool, CliError> {
        let (Some(store), Some(id)) = (&self.store, id_of(settings)) else { return Ok(false) };
        // What is deleted is wanted no more, also not from the agent.
        let Ok(id) = RecordId::new(id.as_str()) else { return Ok(false) };
        if store.record(id).await?.is_some() {
            return Ok(false);
        }
        let last = last_answers(store, settings.agent.command()).await?;
        let mut sessions = last.iter().map(|last| Capabilities::of_answer(&last.answer).sessions);
        Ok(sessions.any(|sessions| sessions.list && sessions.restores()))
    }

    /// The open sessions without a scope in the nearest directory that has any, but for those that an editor opened and
    /// never prompted. Only the records of these directories are read.
    pub(crate) async fn without_scope(&self, settings: &CommandSettings) -> Result<Vec<RecordId>, CliError> {
        let Some(store) = &self.store else { return Ok(Vec::new()) };
        let directories = ScopeDirectories::from(settings.cwd.as_path())?.directories()?;
        // Whoever names a session does not mean one that has no name.
        for directory in directories.into_iter().filter(|_| settings.session.is_none()) {
            let filter = RecordFilter { agent: Some(settings.agent.key()), real_cwd: Some(directory) };
            let records = store.records(filter, None, usize::MAX).await?;
            let is_meant = |record: &Record| {
                record.lifecycle == Lifecycle::Open && record.scope.is_none() && !record.is_unprompted()
            };
            let open: Vec<RecordId> = records.into_iter().filter(is_meant).map(|record| record.id).collect();
            if !open.is_empty() {
                return Ok(open);
            }
        }
        Ok(Vec::new())
    }

    /// The open sessions of this agent and name whose own directories are gone. Where they were, nobody who works in
    /// another directory can say.
    pub(crate) async fn lost_of(&self, settings: &CommandSettings) -> Result<Vec<Record>, CliError> {
        let lost = self.lost(Some(settings)).await?;
        Ok(lost.into_iter().filter(|record| has_name(record, settings.session.as_ref())).collect())
    }

    /// The open sessions, of the agent that is meant or of all, whose own directories are gone, but for those that an
    /// editor opened and never prompted.
    pub(crate) async fn lost(&self, settings: Option<&CommandSettings>) -> Result<Vec<Record>, CliError> {
        let mut open = self.open_with(settings).await?;
        open.retain(|record| !record.is_unprompted());
        Ok(lost_among(open).await)
    }

    /// The open sessions of the agent that is meant, or of all, last used first.
    pub(crate) async fn open_with(
        &self,
        settings: Option<&CommandSettings>,
    ) -> Result<Vec<Record>, CliError> {
        let Some(store) = &self.store else { return Ok(Vec::new()) };
        let filter = RecordFilter { agent: settings.map(|settings| settings.agent.key()), real_cwd: None };
        let records = store.records(filter, None, usize::MAX).await?;
        Ok(records.into_iter().filter(|record| record.lifecycle == Lifecycle::Open).collect())
    }

    /// The session that is meant, for a command behind `sessions` that shows it and cannot go on without it.
    pub(crate) async fn need(
        &self,
        settings: &CommandSettings,
        verb: &'static str,
    ) -> Result<(Record, &SqliteStore), CliError> {
        match (self.meant(settings, SessionFilter::OpenOrClosed).await?, &self.store) {
            (Some(record), Some(store)) => Ok((record, store)),
            _ => Err(self.missing(settings, Intent::Shown(verb)).await?),
        }
    }

    /// The events of a record as they are kept by now.
    pub(crate) fn into_events(self, record: &Record) -> Option<(Arc<dyn Store>, RecordEvents)> {
        let store: Arc<dyn Store> = Arc::new(self.store?);
        let events = RecordEvents::new(Arc::clone(&store), record.id.clone(), record.last_seq);
        Some((store, events))
    }

    /// The last turn of a record.
    pub(crate) async fn last_turn(&self, record: &Record) -> Result<Option<Turn>, CliError> {
        let (Some(store), Some(turn)) = (&self.store, record.last_turn) else { return Ok(None) };
        Ok(store.turn_numbered(record.id.clone(), turn).await?)
    }

    /// Whether the agent of a record has said that it can bring no session back, and its program is still the one that
    /// said it.
    pub(crate) async fn forgets(
        &self,
        record: &Record,
        settings: &CommandSettings,
    ) -> Result<bool, CliError> {
        let Some(store) = &self.store else { return Ok(false) };
        let mut last = last_answers(store, record.agent.command()).await?;
        last.retain(|last| !Capabilities::of_answer(&last.answer).sessions.restores());
        if last.is_empty() {
            return Ok(false);
        }
        // Only this is worth a look at the disk, which may take its time.
        let (agent, cwd) = (record.agent.clone(), record.cwd.as_path().to_owned());
        let environment = settings.environment();
        let look = tokio::task::spawn_blocking(move || agent_build(&agent, &environment, &cwd));
        let build = timeout(LOOK, look).await.ok().and_then(Result::ok).flatten();
        Ok(build.is_some_and(|build| last.iter().any(|last| has_answered(&build, last))))
    }

    /// The last events of a record, at most so many and one, in order: of large ones no more than two pages.
    pub(crate) async fn recent(&self, record: &Record, count: u64) -> Result<Vec<Event>, CliError> {
        let (Some(store), Some(last)) = (&self.store, record.last_seq) else { return Ok(Vec::new()) };
        let (mut recent, mut before) = (Vec::new(), 0);
        let mut from = Seq(last.0.saturating_sub(count).max(Seq::FIRST.0));
        while from <= last {
            let page = store.events(record.id.clone(), from, usize::MAX).await?;
            let Some(end) = page.last() else { break };
            from = end.seq.next();
            recent.drain(..before);
            before = recent.len();
            recent.extend(page);
        }
        Ok(recent)
    }
}

/// What the session of a record had used when its agent last told it among these events.
pub(crate) fn last_usage(record: &Record, recent: &[Event]) -> Option<SessionUsage> {
    let row = record.lineage.current_index();
    // A fresh session has used nothing of what the one before it had.
    let told = recent.iter().rev().filter(|event| event.lineage == row && event.body.contains(USAGE));
    SessionUsage::last(told.map(acpx_core::acp::content).filter_map(|content| match content {
        Content::Update(update) => Some(update),
        _ => None,
    }))
}

/// How long directories are looked for.
const LOOK: Duration = Duration::from_secs(2);

/// How many of the last events are looked through for what was used: agents tell it with every answer, or never.
pub(crate) const LOOKED_THROUGH: u64 = 511;
/// What an event that tells it has in it.
const USAGE: &str = "usage_update";

/// Whether the process of a record's last run is still there. A host in another PID namespace, in a container for
/// instance, starts agents whose processes cannot be looked at from here: as long as it listens, the record is believed.
pub(crate) fn agent_lives(record: &Record, place: &HostPlace) -> bool {
    let run = record.agent_run.as_ref().filter(|run| run.ended.is_none());
    run.is_some_and(|run| run.process.is_alive() || is_in_namespace_of_host(&run.process, place))
}

/// Whether the home's host listens, cannot be seen from here, and may have started this process: it began before it.
fn is_in_namespace_of_host(process: &ProcessIdentity, place: &HostPlace) -> bool {
    let started_it = |host: &ProcessIdentity| {
        !host.boot.is_empty() && host.boot == process.boot && host.started <= process.started
    };
    published(place).is_some_and(|host| started_it(&host.process) && !host.process.is_alive())
        && listens(place)
}

/// Those of these records whose own directories are gone. A disk that does not answer in time has not been seen to have
/// lost anything.
pub(crate) async fn lost_among(records: Vec<Record>) -> Vec<Record> {
    let is_lost = |record: &Record| !record.cwd.as_path().is_dir();
    let look = tokio::task::spawn_blocking(move || records.into_iter().filter(is_lost).collect());
    timeout(LOOK, look).await.ok().and_then(Result::ok).unwrap_or_default()
}

/// Whether a shell finds a record under this name, or under none.
pub(crate) fn has_name(record: &Record, name: Option<&SessionName>) -> bool {
    record.scope.as_ref().is_some_and(|scope| scope.name.as_ref() == name)
}

/// A session and where it works.
pub(crate) fn told(record: &Record) -> LostSession {
    LostSession { id: record.id.clone(), cwd: record.cwd.to_string() }
}

/// The name, if it is an id: nobody names a session so.
pub(crate) fn id_of(settings: &CommandSettings) -> Option<String> {
    let name = settings.session.as_ref()?.as_str();
    uuid::Uuid::try_parse(name).is_ok().then(|| name.to_owned())
}

/// That there is no such session, with where it was looked for and what to do about it.
pub(crate) fn no_session(settings: &CommandSettings, remedy: NoSessionHelp) -> Result<CliError, CliError> {
    if let Some(id) =
        id_of(settings).filter(|_| matches!(remedy.other, Alternatives::None | Alternatives::Remote))
    {
        // Nobody makes a session of that name.
        let remedy = if remedy.other == Alternatives::None { NoSessionHelp::LOOK } else { remedy };
        return Ok(CliError::NoId { id, hint: remedy.hint(&settings.typed_agent(), None) });
    }
    let walk = ScopeDirectories::from(settings.cwd.as_path())?;
    Ok(CliError::NoSession {
        agent: settings.typed_agent(),
        name: settings.session.as_ref().map(ToString::to_string),
        cwd: walk.start().to_owned(),
        searched: walk.root().map(Path::to_owned),
        remedy: remedy.into(),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use serde_json::json;

    use super::*;

    #[test]
    fn an_agent_in_another_pid_namespace_lives_while_its_host_listens() {
        let home = tempfile::tempdir().unwrap();
        let place = HostPlace::new(home.path().to_owned(), None, home.path());
        let socket = home.path().join("socket");
        let agent = ProcessIdentity { pid: 14, started: 700, boot: "this boot".to_owned() };
        // Neither is a process that can be seen from here.
        let lives = |started: u64, boot: &str| {
            let protocol = json!({ "oldest": 1, "newest": 1 });
            let host = json!({ "pid": 3, "started": started, "boot": boot, "socket": socket, "protocol": protocol, "version": "0" });
            std::fs::write(home.path().join("host.lock"), host.to_string()).unwrap();
            is_in_namespace_of_host(&agent, &place)
        };
        assert!(!lives(700, "this boot"), "no host listens");
        let _host = UnixListener::bind(&socket).unwrap();
        assert!(lives(700, "this boot"));
        assert!(!lives(701, "this boot"), "an earlier host started it");
        assert!(!lives(1, "another"), "it ran before the machine was restarted");
        assert!(!lives(0, ""), "the host does not say which process it is");
    }
}
