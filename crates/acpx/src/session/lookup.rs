//! Finds the session that a command means, in the store, without a host. A missing store has no sessions.

use std::cmp::Reverse;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use acpx_core::acp::Capabilities;
use acpx_core::engine::{agent_build, has_answered, last_answers};
use acpx_core::home::{HostPaths, listens, published};
use acpx_core::host::RecordEvents;
use acpx_core::model::{
    AbsolutePath, AcpSessionId, AgentSpec, Content, Event, Lifecycle, ProcessIdentity, Record, RecordId,
    Scope, Seq, SessionName, SessionUsage, Turn,
};
use acpx_core::store::{
    Access, ReadThread, RecordFilter, ScopeQuery, SqliteOptions, SqliteStore, Store, StoreError,
};
use acpx_core::transcripts::TRANSCRIPT_AGENTS;
use tokio::time::timeout;

use super::host_locator::{HostLocator, own_program};
use super::settings::CommandSettings;
use crate::agents;
use crate::agents::UnknownAgent;
use crate::cli::nearest;
use crate::config::{Config, ConfigError};
use crate::error::{
    Alternatives, CliError, Intent, LostSession, NoSessionHelp, SessionMatch, SimilarSession, system_words,
};
use crate::output::{Console, OutputMode};

/// A home's store, opened read-only.
pub(crate) struct RecordLookup {
    pub(super) store: Option<SqliteStore>,
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
        Ok(Self { store: HostLocator::of_environment()?.open_store()? })
    }

    /// Opens the store as it is: one of an older format, or one that cannot be read, counts as none.
    pub(crate) fn as_it_is() -> Result<Self, CliError> {
        let options =
            SqliteOptions { reads: ReadThread::OnCallersThread, ..SqliteOptions::new(Access::ReadOnly) };
        Ok(Self {
            store: SqliteStore::open_with(&HostLocator::of_environment()?.paths.store(), &options).ok(),
        })
    }

    /// Leaves the store open at the end of a command: a reader has nothing to flush, and the process exit frees
    /// SQLite's memory faster.
    pub(crate) fn leave(self) {
        std::mem::forget(self);
    }

    /// A session's id for this output: on a terminal as short as it can be typed, otherwise whole.
    pub(crate) async fn short_id(&self, id: &RecordId, mode: OutputMode) -> String {
        let short = match self.store.as_ref().filter(|_| mode.is_terminal) {
            Some(store) => store.short_ids(vec![id.clone()]).await.ok().and_then(|mut ids| ids.pop()),
            None => None,
        };
        short.unwrap_or_else(|| id.to_string())
    }

    /// The store, if there is one.
    pub(crate) fn store(&self) -> Option<&SqliteStore> {
        self.store.as_ref()
    }

    /// The session that agent, directory and name select, in the nearest directory that has one.
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

    /// The session for a prompt: the selected one, or else the one that the name refers to by id or by position, since
    /// commands print ids. Such a reference finds a session in any directory, open or closed; if an agent is typed, the
    /// session must be that agent's.
    pub(crate) async fn for_prompt(
        &self,
        settings: &CommandSettings,
        which: SessionFilter,
    ) -> Result<Option<Record>, CliError> {
        match self.find(settings, which).await? {
            None => self.by_reference(settings).await,
            found => Ok(found),
        }
    }

    /// The session that is selected by its whole id and is damaged, so that nothing but its id is known.
    pub(crate) async fn damaged(&self, settings: &CommandSettings) -> Option<RecordId> {
        let (Some(store), Some(name)) = (&self.store, &settings.session) else { return None };
        let id = RecordId::new(name.as_str()).ok()?;
        let read = store.record(id.clone()).await;
        matches!(read, Err(StoreError::Corrupt { .. })).then_some(id)
    }

    /// Says which sessions the lists of this store have left out.
    pub(crate) fn report_unreadable(&self, console: &mut Console<'_>) {
        for id in self.store.iter().flat_map(SqliteStore::unreadable_records) {
            console.notice(&format!(
                "the session {id} is damaged and left out; acpx verify has the damage, and to delete it: \
                 acpx sessions delete {id}"
            ));
        }
    }

    /// The session for any other command. A person who types no agent means the default one, or else the session of
    /// any agent here that was used last. A prompt never goes to another agent than the default one by this rule.
    pub(crate) async fn selected(
        &self,
        settings: &CommandSettings,
        which: SessionFilter,
    ) -> Result<Option<Record>, CliError> {
        match self.for_prompt(settings, which).await? {
            None if !settings.agent_is_typed && settings.mode.is_for_a_person() => {
                self.of_any_agent(settings, which).await
            }
            found => Ok(found),
        }
    }

    /// The session of any agent with the selected name, in the nearest directory that has one: open before closed, and
    /// the one used last.
    async fn of_any_agent(
        &self,
        settings: &CommandSettings,
        which: SessionFilter,
    ) -> Result<Option<Record>, CliError> {
        let Some(store) = &self.store else { return Ok(None) };
        for directory in ScopeDirectories::from(settings.cwd.as_path())?.directories()? {
            let filter = RecordFilter { agent: None, real_cwd: Some(directory) };
            let mut records = store.records(filter, None, usize::MAX).await?;
            records.retain(|record| has_name(record, settings.session.as_ref()));
            let open = records.iter().position(|record| record.lifecycle == Lifecycle::Open);
            let found = open.or((which == SessionFilter::OpenOrClosed && !records.is_empty()).then_some(0));
            if let Some(index) = found {
                return Ok(Some(records.swap_remove(index)));
            }
        }
        Ok(None)
    }

    /// The session whose id, beginning of an id or position is given as the name, or the id that its agent gave it. With
    /// a typed agent only that agent's sessions are counted.
    pub(crate) async fn by_reference(&self, settings: &CommandSettings) -> Result<Option<Record>, CliError> {
        let (Some(store), Some(name)) = (&self.store, &settings.session) else { return Ok(None) };
        let filter = RecordFilter {
            agent: settings.agent_is_typed.then(|| settings.agent.key()),
            ..RecordFilter::default()
        };
        let record = match referenced(store, name.as_str(), &filter).await? {
            // Perhaps it is another agent's.
            None if settings.agent_is_typed && position_of(name.as_str()).is_none() => {
                referenced(store, name.as_str(), &RecordFilter::default()).await?
            }
            found => found,
        };
        let record = match record {
            None => with_session(store, name.as_str(), settings).await?,
            found => found,
        };
        match record {
            Some(record) if settings.agent_is_typed && !record.agent.is_same_as(&settings.agent) => {
                let (id, own) = (record.id.to_string(), agents::typed(&record.agent));
                Err(CliError::OtherAgent { id, own, typed: settings.typed_agent() })
            }
            record => Ok(record),
        }
    }

    /// The selected open session, or an error that names the alternatives.
    pub(crate) async fn open_one(&self, settings: &CommandSettings) -> Result<Record, CliError> {
        if let Some(record) = self.selected(settings, SessionFilter::Open).await? {
            return Ok(record);
        }
        Err(self.missing(settings, Intent::Use).await?)
    }

    /// The alternatives where lookup finds no open session: an open one without a scope, a closed one, one whose
    /// directory is missing, or one that the agent may list.
    pub(crate) async fn alternatives(&self, settings: &CommandSettings) -> Result<Alternatives, CliError> {
        let open = self.without_scope(settings).await?;
        if !open.is_empty() {
            return Ok(Alternatives::Open(open));
        }
        if let Some(closed) = self.find(settings, SessionFilter::OpenOrClosed).await? {
            return Ok(Alternatives::Closed(closed.id));
        }
        let lost: Vec<Record> = self.lost_of(settings, RECENT).await?;
        if !lost.is_empty() {
            return Ok(Alternatives::Lost(lost.iter().map(lost_session).collect()));
        }
        let similar = self.similar(settings).await?;
        if !similar.is_empty() {
            return Ok(Alternatives::Similar(similar));
        }
        Ok(if self.may_be_remote(settings).await? { Alternatives::Remote } else { Alternatives::None })
    }

    /// The recently used open sessions whose name may be meant: of this agent here, of this agent in other directories, of other
    /// agents here, and, if no agent is typed, of others in other directories; at most one of each.
    async fn similar(&self, settings: &CommandSettings) -> Result<Vec<SimilarSession>, CliError> {
        let Some(typed) = settings.session.as_ref().filter(|_| id_of(settings).is_none()) else {
            return Ok(Vec::new());
        };
        let directories = ScopeDirectories::from(settings.cwd.as_path())?.directories()?;
        let Some(store) = &self.store else { return Ok(Vec::new()) };
        let mut open = store.records(RecordFilter::default(), None, RECENT).await?;
        open.retain(|record| record.lifecycle == Lifecycle::Open);
        let named = open.iter().filter_map(|record| Some((record, record.scope.as_ref()?.name.as_ref()?)));
        let of_group = |is_own: bool, is_here: bool| {
            let of_group = |record: &Record| {
                (record.agent.key() == settings.agent.key()) == is_own
                    && directories.contains(&record.real_cwd) == is_here
            };
            let group: Vec<_> = named.clone().filter(|(record, _)| of_group(record)).collect();
            let near = nearest(typed.as_str(), group.iter().map(|(_, name)| name.as_str()))?;
            let (record, name) = group.into_iter().find(|(_, name)| name.as_str() == near)?;
            let cwd = (!is_here).then(|| record.cwd.to_string());
            Some(SimilarSession { agent: agents::typed(&record.agent), name: name.to_string(), cwd })
        };
        // Without an agent's name, any agent may be meant.
        let others = (!settings.agent_is_typed).then_some((false, false));
        Ok([(true, true), (true, false), (false, true)]
            .iter()
            .chain(&others)
            .filter_map(|group| of_group(group.0, group.1))
            .collect())
    }

    /// Whether the name is an id that no record here ever had, of an agent that advertised listing and restoring
    /// sessions.
    async fn may_be_remote(&self, settings: &CommandSettings) -> Result<bool, CliError> {
        let (Some(store), Some(id)) = (&self.store, id_of(settings)) else { return Ok(false) };
        // A deleted record is not restored, not even from the agent.
        let Ok(id) = RecordId::new(id.as_str()) else { return Ok(false) };
        if store.record(id).await?.is_some() {
            return Ok(false);
        }
        let last = last_answers(store, settings.agent.command()).await?;
        let mut sessions = last.iter().map(|last| Capabilities::of_answer(&last.answer).sessions);
        Ok(sessions.any(|sessions| sessions.list && sessions.restores()))
    }

    /// The open sessions without a scope in the nearest directory that has any, except those that an editor opened and
    /// never prompted. Reads only the records of these directories.
    pub(crate) async fn without_scope(&self, settings: &CommandSettings) -> Result<Vec<RecordId>, CliError> {
        let Some(store) = &self.store else { return Ok(Vec::new()) };
        let directories = ScopeDirectories::from(settings.cwd.as_path())?.directories()?;
        // A typed name never selects a session without a name.
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

    /// The open sessions of this agent and name whose directories are missing, among so many of the newest, most
    /// recently used first. Their original location is unknown, so the directory is not compared.
    pub(crate) async fn lost_of(
        &self,
        settings: &CommandSettings,
        newest: usize,
    ) -> Result<Vec<Record>, CliError> {
        let Some(store) = &self.store else { return Ok(Vec::new()) };
        let named = Scope { agent: settings.agent.key(), name: settings.session.clone() };
        let mut open = store.records_named(named, newest).await?;
        open.sort_by_key(|record| Reverse(record.updated_at));
        Ok(lost_among(open).await)
    }

    /// The open sessions, of the selected agent or of all, whose directories are missing, except those that an editor
    /// opened and never prompted.
    pub(crate) async fn lost(&self, settings: Option<&CommandSettings>) -> Result<Vec<Record>, CliError> {
        let mut open = self.open_with(settings).await?;
        open.retain(|record| !record.is_unprompted());
        Ok(lost_among(open).await)
    }

    /// The open sessions of the selected agent, or of all, most recently used first.
    pub(crate) async fn open_with(
        &self,
        settings: Option<&CommandSettings>,
    ) -> Result<Vec<Record>, CliError> {
        let Some(store) = &self.store else { return Ok(Vec::new()) };
        let filter = RecordFilter { agent: settings.map(|settings| settings.agent.key()), real_cwd: None };
        let records = store.records(filter, None, usize::MAX).await?;
        Ok(records.into_iter().filter(|record| record.lifecycle == Lifecycle::Open).collect())
    }

    /// The selected session, for a `sessions` subcommand that cannot continue without it.
    pub(crate) async fn need(
        &self,
        settings: &CommandSettings,
        verb: &'static str,
    ) -> Result<(Record, &SqliteStore), CliError> {
        match (self.selected(settings, SessionFilter::OpenOrClosed).await?, &self.store) {
            (Some(record), Some(store)) => Ok((record, store)),
            _ => Err(self.missing(settings, Intent::Show(verb)).await?),
        }
    }

    /// The stored events of a record.
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

    /// Whether the agent of a record advertised that it cannot restore sessions, and its program has not changed since.
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
        // Only this case needs to read the disk, which may be slow.
        let (agent, cwd) = (record.agent.clone(), record.cwd.as_path().to_owned());
        let environment = settings.environment();
        let look = tokio::task::spawn_blocking(move || agent_build(&agent, &environment, &cwd));
        let build = timeout(CHECK_TIMEOUT, look).await.ok().and_then(Result::ok).flatten();
        Ok(build.is_some_and(|build| last.iter().any(|last| has_answered(&build, last))))
    }

    /// The last `count` events of a record and one more, in order: at most two pages of large ones.
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

/// The session that a text refers to: by its whole id, which finds any agent's session, by its position among the open
/// sessions that match the filter, or by the beginning of its id.
pub(crate) async fn referenced(
    store: &SqliteStore,
    reference: &str,
    filter: &RecordFilter,
) -> Result<Option<Record>, CliError> {
    let Ok(id) = RecordId::new(reference) else { return Ok(None) };
    if let Some(record) = store.record(id).await? {
        return Ok(Some(record).filter(|record| !record.lifecycle.is_deleted()));
    }
    if let Some(position) = position_of(reference) {
        return open_at(store, filter, position).await;
    }
    if reference.chars().count() < SHORTEST_PREFIX {
        return Ok(None);
    }
    let mut matches =
        store.records_by_id_prefix(filter.clone(), reference.to_owned(), LISTED_MATCHES + 1).await?;
    match matches.len() {
        0 | 1 => Ok(matches.pop()),
        found => {
            matches.truncate(LISTED_MATCHES);
            let ids = matches.iter().map(|record| record.id.clone()).collect();
            let short = store.short_ids(ids).await?;
            let listed = short.into_iter().zip(&matches).map(|(id, record)| session_match(id, record));
            let (prefix, is_cut) = (reference.to_owned(), found > LISTED_MATCHES);
            Err(CliError::AmbiguousId { prefix, matches: listed.collect(), is_cut })
        }
    }
}

/// The record that has had an ACP session with this whole id: of the typed agent, or else of any whose transcripts are
/// read. The agent's own program shows this id.
async fn with_session(
    store: &SqliteStore,
    session: &str,
    settings: &CommandSettings,
) -> Result<Option<Record>, CliError> {
    let Ok(session) = AcpSessionId::new(session) else { return Ok(None) };
    let named = |agent: &&str| AgentSpec::new(*agent, [""; 0]).named(*agent);
    let others = TRANSCRIPT_AGENTS.iter().filter(|_| !settings.agent_is_typed).map(named);
    for agent in std::iter::once(settings.agent.clone()).chain(others) {
        for owner in store.owners(agent, vec![session.clone()]).await? {
            let record = store.record(owner.record).await?;
            if let Some(record) = record.filter(|record| !record.lifecycle.is_deleted()) {
                return Ok(Some(record));
            }
        }
    }
    Ok(None)
}

/// The open session at this position, counted from 1, most recently used first. Closed ones do not count: closing is
/// no use.
async fn open_at(
    store: &SqliteStore,
    filter: &RecordFilter,
    position: NonZeroUsize,
) -> Result<Option<Record>, CliError> {
    let (mut left, mut after) = (position.get(), None);
    loop {
        let page = store.records(filter.clone(), after.take(), POSITION_PAGE).await?;
        let Some(last) = page.last() else { return Ok(None) };
        after = Some((last.updated_at, last.id.clone()));
        for record in page.into_iter().filter(|record| record.lifecycle == Lifecycle::Open) {
            left -= 1;
            if left == 0 {
                return Ok(Some(record));
            }
        }
    }
}

/// The position among the open sessions, from 1, that `@last` or a number such as `@2` means.
pub(crate) fn position_of(reference: &str) -> Option<NonZeroUsize> {
    match reference.strip_prefix('@')? {
        "last" => Some(NonZeroUsize::MIN),
        number if number.bytes().all(|byte| byte.is_ascii_digit()) => number.parse().ok(),
        _ => None,
    }
}

/// Whether a text is an id, or the beginning of it that is long enough.
pub(crate) fn abbreviates(reference: &str, id: &RecordId) -> bool {
    let is_long_enough = reference.chars().count() >= SHORTEST_PREFIX;
    reference == id.as_str() || (is_long_enough && id.as_str().starts_with(reference))
}

pub(crate) fn session_match(id: String, record: &Record) -> SessionMatch {
    let name = record.scope.as_ref().and_then(|scope| scope.name.as_ref()).map(ToString::to_string);
    SessionMatch {
        id,
        agent: record.agent.label().into_owned(),
        name: name.or_else(|| record.info.title().map(str::to_owned)),
        cwd: record.cwd.to_string(),
    }
}

/// The fewest characters that an id can be abbreviated to. With fewer, an old id could soon be taken for another.
pub(crate) const SHORTEST_PREFIX: usize = 6;
/// How many sessions are considered for a hint. With tens of thousands of them, a command does not read all for that.
const RECENT: usize = 256;
/// How many records are read at a time to find one by its position.
const POSITION_PAGE: usize = 64;
/// How many sessions with an ambiguous prefix are listed.
const LISTED_MATCHES: usize = 10;

/// The session's usage as the record has it. A record whose usage was reported before records had it is found in its
/// recent events.
pub(crate) fn last_usage(record: &Record, recent: &[Event]) -> Option<SessionUsage> {
    if record.info.usage.is_some() {
        return record.info.usage.clone();
    }
    let row = record.lineage.current_index();
    // A fresh session does not inherit the usage of the previous one.
    let reported = recent.iter().rev().filter(|event| event.lineage == row && event.body.contains(USAGE));
    SessionUsage::last(reported.map(acpx_core::acp::content).filter_map(|content| match content {
        Content::Update(update) => Some(update),
        _ => None,
    }))
}

/// Timeout of the checks for missing directories and for the agent's build.
const CHECK_TIMEOUT: Duration = Duration::from_secs(2);

/// How many of the last events to search for usage: agents report it with every answer, or never.
pub(crate) const LOOKED_THROUGH: u64 = 511;
/// What an event that reports usage contains.
const USAGE: &str = "usage_update";

/// Whether the process of a record's last run is alive. Processes that a host in another PID namespace started, a
/// container for instance, are not visible here; while that host listens, the record is trusted.
pub(crate) fn agent_lives(record: &Record, paths: &HostPaths) -> bool {
    let run = record.agent_run.as_ref().filter(|run| run.ended.is_none());
    run.is_some_and(|run| run.process.is_alive() || is_in_namespace_of_host(&run.process, paths))
}

/// Whether the home's host listens, is not visible from here, and may have started this process: it began earlier.
fn is_in_namespace_of_host(process: &ProcessIdentity, paths: &HostPaths) -> bool {
    let started_it = |host: &ProcessIdentity| {
        !host.boot.is_empty() && host.boot == process.boot && host.started <= process.started
    };
    published(paths).is_some_and(|host| started_it(&host.process) && !host.process.is_alive())
        && listens(paths)
}

/// The records whose directories are missing. A disk that does not answer in time does not count as missing.
pub(crate) async fn lost_among(records: Vec<Record>) -> Vec<Record> {
    let is_lost = |record: &Record| !record.cwd.as_path().is_dir();
    let look = tokio::task::spawn_blocking(move || records.into_iter().filter(is_lost).collect());
    timeout(CHECK_TIMEOUT, look).await.ok().and_then(Result::ok).unwrap_or_default()
}

/// Whether lookup finds a record under this name, or under none.
pub(crate) fn has_name(record: &Record, name: Option<&SessionName>) -> bool {
    record.scope.as_ref().is_some_and(|scope| scope.name.as_ref() == name)
}

/// A session and its directory.
pub(crate) fn lost_session(record: &Record) -> LostSession {
    LostSession { id: record.id.clone(), cwd: record.cwd.to_string() }
}

/// The name, if it has the form of an id or is a position: names of sessions never do.
pub(crate) fn id_of(settings: &CommandSettings) -> Option<String> {
    let name = settings.session.as_ref()?.as_str();
    (position_of(name).is_some() || uuid::Uuid::try_parse(name).is_ok()).then(|| name.to_owned())
}

/// The error for a missing session: where it was searched, and what to do about it.
pub(crate) fn no_session(settings: &CommandSettings, remedy: NoSessionHelp) -> Result<CliError, CliError> {
    if let Some(id) =
        id_of(settings).filter(|_| matches!(remedy.alternatives, Alternatives::None | Alternatives::Remote))
    {
        // No session can be created under such a name.
        let remedy = if remedy.alternatives == Alternatives::None { NoSessionHelp::LOOK } else { remedy };
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

/// The agent of this name: the configuration's, or the built-in one.
pub(crate) fn resolve(name: &str, config: &Config) -> Result<AgentSpec, CliError> {
    let name = agents::canonical(name);
    if let Some(argv) = config.agent(&name).map_err(ConfigError::from)? {
        return Ok(agents::spec(argv.iter().map(String::as_str)).named(name));
    }
    if name == agents::DEMO {
        let program = AbsolutePath::from_path(&own_program()?)?;
        return Ok(AgentSpec::new(program.as_str(), ["demo-agent"]).named(name));
    }
    agents::built_in(&name).ok_or_else(|| {
        let untrusted_file = config.untrusted_file_of(&name).map(Into::into);
        UnknownAgent { name, chosen_in: None, untrusted_file }.into()
    })
}

/// The searched directories, nearest first. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScopeDirectories {
    directories: Vec<PathBuf>,
    /// Whether the last one is the root of a git repository.
    has_root: bool,
}

impl ScopeDirectories {
    /// The directories from `cwd` upwards, with links resolved.
    pub(crate) fn from(cwd: &Path) -> Result<Self, CliError> {
        let unusable = |source: io::Error| CliError::Directory {
            path: cwd.to_owned(),
            reason: system_words(&source),
            flag: "--cwd",
        };
        let start = cwd.canonicalize().map_err(unusable)?;
        let root = start.ancestors().position(|directory| directory.join(".git").exists());
        let count = root.map_or(1, |position| position + 1);
        let directories = start.ancestors().take(count).map(Path::to_owned).collect();
        Ok(Self { directories, has_root: root.is_some() })
    }

    /// The first directory.
    pub(crate) fn start(&self) -> &Path {
        self.directories.first().expect("a walk begins somewhere")
    }

    /// The root of the git repository, which is the last directory.
    pub(crate) fn root(&self) -> Option<&Path> {
        self.directories.last().filter(|_| self.has_root).map(PathBuf::as_path)
    }

    /// Every directory, nearest first, as the store has it.
    pub(crate) fn directories(&self) -> Result<Vec<AbsolutePath>, CliError> {
        Ok(self.directories.iter().map(|path| AbsolutePath::from_path(path)).collect::<Result<_, _>>()?)
    }
}

#[cfg(test)]
mod scope_tests {
    use std::fs;

    use super::*;

    #[test]
    fn scope_lookup_ends_at_the_git_root_by_real_paths() {
        let home = tempfile::tempdir().unwrap();
        let top = home.path().canonicalize().unwrap();
        let deep = top.join("repository/a/b");
        fs::create_dir_all(&deep).unwrap();
        // A worktree has a file of this name, and a nested repository ends the walk first.
        fs::write(top.join("repository/.git"), "gitdir: elsewhere").unwrap();
        std::os::unix::fs::symlink(&deep, top.join("link")).unwrap();
        let walk = ScopeDirectories::from(&top.join("link")).unwrap();
        let expected = [deep, top.join("repository/a"), top.join("repository")];
        assert_eq!(walk, ScopeDirectories { directories: expected.to_vec(), has_root: true });
        assert_eq!(
            (walk.start(), walk.root()),
            (&*top.join("repository/a/b"), Some(&*top.join("repository")))
        );
    }

    #[test]
    fn without_a_git_root_only_the_directory_itself_is_searched() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().canonicalize().unwrap();
        assert_eq!(
            ScopeDirectories::from(home.path()).unwrap(),
            ScopeDirectories { directories: vec![directory], has_root: false }
        );
    }

    #[test]
    fn a_directory_that_is_not_there_is_named() {
        let error = ScopeDirectories::from(Path::new("/nowhere/at/all")).unwrap_err();
        assert_eq!(error.message(), "cannot work in /nowhere/at/all: No such file or directory");
    }
}

#[cfg(test)]
mod agent_lookup_tests {
    use std::path::Path;

    use super::*;

    fn config(text: &str) -> Config {
        Config::parse(Path::new("/home/config.json"), text).unwrap()
    }

    #[test]
    fn an_agent_is_the_configured_one_or_else_the_built_in_one() {
        let spec = |program: &str, args: &[&str], name: &str| {
            AgentSpec::new(program, args.iter().copied()).named(name)
        };
        let mine = config(
            r#"{"agents":{"Mine":{"command":"mine","args":["a b"]},"codex":{"argv":["codex-acp","--x"]},
                "factory-droid":{"command":"droid 'acp mode'"}}}"#,
        );
        let cases = [
            ("claude", spec("npx", &["-y", "@agentclientprotocol/claude-agent-acp@^0.76.0"], "claude")),
            (" Gemini ", spec("gemini", &["--acp"], "gemini")),
            ("mine", spec("mine", &["a b"], "mine")),
            ("codex", spec("codex-acp", &["--x"], "codex")),
            ("factorydroid", spec("droid", &["acp mode"], "droid")),
        ];
        for (name, expected) in cases {
            assert_eq!(resolve(name, &mine).unwrap(), expected, "{name}");
        }
        let this = std::env::current_exe().unwrap();
        assert_eq!(resolve("demo", &mine).unwrap(), spec(this.to_str().unwrap(), &["demo-agent"], "demo"));
        let error = resolve("nobody", &mine).unwrap_err();
        assert_eq!(
            (error.message(), error.code()),
            ("there is no agent named \"nobody\"".to_owned(), acpx_core::model::ErrorCode::AgentUnknown)
        );
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use serde_json::json;

    use super::*;

    #[test]
    fn an_agent_in_another_pid_namespace_lives_while_its_host_listens() {
        let home = tempfile::tempdir().unwrap();
        let paths = HostPaths::new(home.path().to_owned(), None, home.path());
        let socket = home.path().join("socket");
        let agent = ProcessIdentity { pid: 14, started: 700, boot: "this boot".to_owned() };
        // Neither process is visible from here.
        let lives = |started: u64, boot: &str| {
            let protocol = json!({ "oldest": 1, "newest": 1 });
            let host = json!({ "pid": 3, "started": started, "boot": boot, "socket": socket, "protocol": protocol, "version": "0" });
            std::fs::write(home.path().join("host.lock"), host.to_string()).unwrap();
            is_in_namespace_of_host(&agent, &paths)
        };
        assert!(!lives(700, "this boot"), "no host listens");
        let _host = UnixListener::bind(&socket).unwrap();
        assert!(lives(700, "this boot"));
        assert!(!lives(701, "this boot"), "an earlier host started it");
        assert!(!lives(1, "another"), "it ran before the machine was restarted");
        assert!(!lives(0, ""), "the host does not say which process it is");
    }
}
