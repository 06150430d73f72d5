//! Runs sessions: one task per session, which feeds the state machine and executes its effects.
//!
//! Invariant: persist, then act. A task collects effects, commits them together, and only then sends, replies and
//! publishes. So no client sees an event before it is stored, and a prompt is stored before its bytes reach the agent.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{MappedMutexGuard, Mutex, MutexGuard, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::Instrument;

use crate::machine::{Input, SessionMachine, WakeOutcome};
use crate::model::{AbsolutePath, AgentSpec, Conversation, HostId, Record, RecordId, Scope, Seq, Timestamp};
use crate::store::{SessionWriter, Store};
use crate::tools::{Spawner, StrayProcesses, Tag};

mod agent;
mod api;
mod ops;
mod path_queries;
mod permissions;
mod registry;
mod restore;
mod session;
mod stream;
mod tools;

pub use crate::acp::client::SessionOffer;
pub use crate::machine::MAX_QUEUED;
pub use agent::initialize_cache::{agent_build, has_answered, last_answers};
pub(crate) use api::client_login::ClientLogin;
pub use api::error::{PromptProblem, SessionError};
pub use api::notifications::{NotificationQueue, NotificationTargets, ReadTargets};
pub use api::prompt::{Prompt, TurnHandle};
pub(crate) use api::prompt::{TurnEnd, TurnInsertion};
pub(crate) use api::request::Servers;
pub use api::request::{EngineSettings, NewSession, RestoreSession};
pub(crate) use ops::adopt_fork::Forked;
pub use ops::agent_sessions::{AtAgent, ListLookup};
pub use ops::probe::{ProbeReport, SessionTrial};
pub(crate) use permissions::request::RequestedPermission;
pub use permissions::request::{ClientDecision, ClientOffer, QuestionKind, ResponderRequest, is_denial};
pub(crate) use registry::{CountGuard, Reservation};
pub(crate) use session::commands::{OpenTurnRef, PruneConditions};
pub use session::handle::Session;
pub(crate) use session::handle::{Hold, UnclaimedSession};
pub(crate) use session::status::SessionStatus;
pub(crate) use session::wait_reason::WaitReason;
pub(crate) use stream::follow::Follower;
pub(crate) use stream::record_changes::{ChangedRecords, RecordChanges};
pub(crate) use stream::record_follower::RecordFollower;

use agent::launch_spec::{LaunchSpec, OutputTail, PersistedLaunchSpec};
use agent::live_agent::LiveIds;
pub(crate) use path_queries::Disk;
use registry::{AttachCounts, Reservations};
use session::journal::{CopiedHistory, NewRecord, ScopeSuccessor, SessionJournal};
use session::task::SessionTask;
use stream::follow::EventTail;

/// How many unused sessions are freed at once, to limit concurrent use of the store.
const FREED_AT_ONCE: usize = 256;
/// How long an import waits for a session that it frees.
const FREED_WITHIN: Duration = Duration::from_secs(10);
/// How many commands may wait for a session's task.
const COMMANDS: usize = 64;

/// Runs sessions over a store.
#[derive(Clone)]
pub struct Engine(Arc<EngineInner>);

struct EngineInner {
    shared: EngineContext,
    /// The sessions with a task; `None` after the shutdown.
    running: Mutex<Option<HashMap<RecordId, RunningSession>>>,
    /// Changes whenever a session begins.
    begun: watch::Sender<()>,
    reservations: Reservations,
}

struct RunningSession {
    session: Session,
    /// The agent as it was requested.
    agent: AgentSpec,
    task: JoinHandle<()>,
    /// True once the task has ended.
    done: watch::Receiver<bool>,
    /// For how many consecutive checks it has been unused.
    unused: u32,
}

/// State that all sessions of an engine share.
#[derive(Clone)]
pub(crate) struct EngineContext {
    store: Arc<dyn Store>,
    host: HostId,
    settings: Arc<EngineSettings>,
    live_ids: LiveIds,
    /// How many sessions have an agent.
    live: Arc<watch::Sender<usize>>,
    holds: AttachCounts,
    changes: RecordChanges,
    disk: Disk,
    spawner: Spawner,
}

impl EngineContext {
    /// Finds the processes that agents with this mark left outside their groups.
    fn strays(&self, mark: &str) -> StrayProcesses {
        StrayProcesses::of(mark, self.spawner.tag().cloned(), Arc::clone(&self.settings.keep_programs))
    }
}

impl Engine {
    /// An engine that writes to the store as `host`.
    pub fn new(store: Arc<dyn Store>, host: HostId, settings: EngineSettings) -> Self {
        let tag = settings.tag.as_deref().and_then(Tag::of_this_process);
        let spawner = Spawner::keeping(tag, &settings.keep_programs);
        let shared = EngineContext {
            store,
            host,
            settings: Arc::new(settings),
            live_ids: LiveIds::default(),
            live: Arc::default(),
            holds: AttachCounts::default(),
            changes: RecordChanges::default(),
            disk: Disk::default(),
            spawner,
        };
        let running = Mutex::new(Some(HashMap::new()));
        Self(Arc::new(EngineInner {
            shared,
            running,
            begun: watch::Sender::default(),
            reservations: Reservations::default(),
        }))
    }

    /// Starts an agent and opens a session with it. The record exists once the agent has replied. Dropping this ends
    /// the agent, and deletes a record that was just created.
    pub async fn open(&self, new: NewSession) -> Result<Session, SessionError> {
        let (session, unclaimed) = self.open_unless(new, std::future::pending()).await?;
        unclaimed.claim();
        Ok(session)
    }

    /// Opens a session, unless `unwanted` completes first: then nothing of it is left when this returns, and the result
    /// is [`SessionError::Closing`]. The caller must claim the session, or it is deleted.
    pub async fn open_unless(
        &self,
        new: NewSession,
        unwanted: impl Future<Output = ()>,
    ) -> Result<(Session, UnclaimedSession), SessionError> {
        let record = RecordId::new(crate::wire::new_uuid().to_string()).expect("a UUID is not empty");
        let machine = SessionMachine::new(new.agent.label());
        let (session, unclaimed, _) =
            self.make(record, machine, new, CopiedHistory::default(), unwanted).await?;
        Ok((session, unclaimed))
    }

    /// Starts the session of a new record, and waits until the record exists. Returns [`SessionError::Busy`] while
    /// another session has this id.
    async fn make(
        &self,
        record: RecordId,
        machine: SessionMachine,
        new: NewSession,
        history: CopiedHistory,
        unwanted: impl Future<Output = ()>,
    ) -> Result<(Session, UnclaimedSession, WakeOutcome), SessionError> {
        let real_cwd = self.real_directory(&new.cwd).await?;
        let launch = LaunchSpec::of_new(&new, real_cwd.clone());
        let NewSession {
            agent,
            cwd,
            additional_directories,
            mcp_servers,
            scope,
            extra_params,
            capabilities,
            start_wait,
            ..
        } = new;
        let mcp_servers = mcp_servers.kept();
        let id = record.clone();
        let seed = NewRecord { id, agent, cwd, real_cwd, additional_directories, mcp_servers, scope };
        let tail = Arc::new(EventTail::new(None));
        let journal = SessionJournal::of_new(self.0.shared.clone(), seed, history, tail.clone());
        let session = {
            let mut running = self.sessions(&record).await?;
            if running.contains_key(&record) {
                return Err(SessionError::Busy(record));
            }
            let persisted = launch.persisted();
            let begun = self.start(record.clone(), machine, journal, (launch, persisted), tail);
            let session = begun.session.clone();
            running.insert(record.clone(), begun);
            session
        };
        let unclaimed = UnclaimedSession::new(session.clone());
        let restore =
            RestoreSession { extra_params, capabilities, start_wait, ..RestoreSession::unchanged() };
        let awake = tokio::select! {
            awake = session.wake(restore) => awake,
            () = unwanted => {
                unclaimed.take_back().await;
                return Err(SessionError::Closing(record));
            }
        };
        match awake {
            Ok(how) => Ok((session, unclaimed, how)),
            Err(error) => {
                // Without a record there is nothing to restore; the task ends by itself. If its agent only takes too
                // long, the task is abandoned and ends later.
                let failed = self.0.running.lock().await.as_mut().and_then(|running| {
                    // Another caller may have started it again by now.
                    running
                        .get(&record)
                        .is_some_and(|known| known.session.is_over())
                        .then(|| running.remove(&record))?
                });
                if let Some(failed) = failed {
                    drop(failed.task.await);
                }
                Err(error)
            }
        }
    }

    /// Closes a record, and in the same transaction moves a scope of its directory to another record's session. If the
    /// host is killed during that, one of the two has the scope.
    pub async fn hand_over(&self, old: &RecordId, new: &Session, scope: Scope) -> Result<(), SessionError> {
        let writer = new.writer().await?.ok_or_else(|| SessionError::NoRecord(new.record_id().clone()))?;
        loop {
            let successor = ScopeSuccessor { writer: writer.clone(), scope: scope.clone() };
            let closed = match self.attach(old, &RestoreSession::unchanged()).await {
                Ok(session) => session.close_for(successor).await,
                Err(SessionError::ShutDown(record)) => return Err(SessionError::ShutDown(record)),
                Err(error) => Err(error),
            };
            match closed {
                // The session ended before it received this; the next attempt starts it again.
                Err(SessionError::ShutDown(_)) => {}
                // The record was deleted in between, and its scope is free.
                Err(SessionError::NoRecord(_)) => return new.set_scope(scope).await,
                closed => return closed,
            }
        }
    }

    /// Restores a session that is live, parked or closed, and returns how it was restored.
    pub async fn restore(
        &self,
        record: &RecordId,
        restore: RestoreSession,
    ) -> Result<(Session, WakeOutcome), SessionError> {
        let session = self.attach(record, &restore).await?;
        let how = session.wake(restore).await?;
        Ok((session, how))
    }

    /// The session of a record. Its agent need not run: the next prompt starts it.
    pub async fn attach(&self, record: &RecordId, restore: &RestoreSession) -> Result<Session, SessionError> {
        loop {
            let mut going = {
                let mut running = self.sessions(record).await?;
                match (running.get(record), self.0.reservations.end_of(record)) {
                    (Some(known), _) if !known.session.is_over() => return Ok(known.session.clone()),
                    (Some(known), _) => known.done.clone(),
                    (None, Some(end)) => end,
                    (None, None) => {
                        let begun = self.begin(record, restore).await?;
                        let session = begun.session.clone();
                        running.insert(record.clone(), begun);
                        self.0.begun.send_replace(());
                        return Ok(session);
                    }
                }
            };
            // Its agent may still be ending, and its last lines, or a reservation's, may still be being written to the
            // store.
            drop(going.wait_for(|done| *done).await);
        }
    }

    /// The sessions whose tasks have not ended; an error for this record after the shutdown.
    async fn sessions(
        &self,
        record: &RecordId,
    ) -> Result<MappedMutexGuard<'_, HashMap<RecordId, RunningSession>>, SessionError> {
        let running = MutexGuard::try_map(self.0.running.lock().await, Option::as_mut);
        let mut running = running.map_err(|_| SessionError::ShutDown(record.clone()))?;
        running.retain(|_, known| !*known.done.borrow());
        Ok(running)
    }

    /// The running session of a record, if it has one.
    pub async fn running(&self, record: &RecordId) -> Result<Option<Session>, SessionError> {
        let running = self.sessions(record).await?;
        Ok(running.get(record).map(|known| known.session.clone()).filter(|session| !session.is_over()))
    }

    /// The states of all running sessions, by record.
    pub(crate) async fn running_states(&self) -> HashMap<RecordId, SessionStatus> {
        let running = self.0.running.lock().await;
        let running = running.iter().flatten().filter(|(_, known)| !known.session.is_over());
        running.map(|(record, known)| (record.clone(), known.session.status())).collect()
    }

    /// Collects the records that change from now on.
    pub(crate) fn watch_records(&self) -> ChangedRecords {
        self.0.shared.changes.subscribe()
    }

    /// Every event of a record from `from` on: the stored ones, then new ones, across sessions.
    pub fn follow(&self, record: &RecordId, from: Seq) -> RecordFollower {
        RecordFollower::new(self.clone(), record.clone(), from)
    }

    async fn begin(
        &self,
        record: &RecordId,
        restore: &RestoreSession,
    ) -> Result<RunningSession, SessionError> {
        let shared = &self.0.shared;
        let no_record = || SessionError::NoRecord(record.clone());
        // The store leases only existing records.
        self.record(record).await?.ok_or_else(no_record)?;
        let writer = SessionWriter::lease(shared.store.clone(), record.clone(), shared.host.clone()).await?;
        tracing::debug!(record = record.as_str(), "lease taken");
        // Read again under the lease: the previous writer may have changed the record until now.
        let kept = self.record(record).await?.ok_or_else(no_record)?;
        let open_turns = shared.store.open_turns(record.clone()).await?;
        let tail = Arc::new(EventTail::new(kept.last_seq));
        let mut journal = SessionJournal::of_record(shared.clone(), &kept, writer, tail.clone());
        let mut machine = SessionMachine::of_record(&kept);
        machine.set_spent(shared.store.spent(record.clone()).await?);
        let now = (shared.settings.clock)();
        for effect in machine.handle(now, Input::Recover(open_turns)) {
            journal.persist_effect(now, effect);
        }
        journal.commit().await?;
        let real_cwd = kept.known_real_cwd().cloned();
        let persisted = PersistedLaunchSpec {
            agent: kept.agent,
            additional_directories: kept.additional_directories,
            mcp_servers: Servers::lost(kept.mcp_servers),
            setup: kept.settings.setup,
        };
        let PersistedLaunchSpec { agent, additional_directories, mcp_servers, setup } = persisted.clone();
        let launch = LaunchSpec {
            agent,
            cwd: kept.cwd,
            real_cwd,
            asked_by: restore.cwd.clone(),
            additional_directories,
            environment: restore.environment.clone(),
            mcp_servers: restore.mcp_servers.clone().unwrap_or(mcp_servers),
            setup,
            login: Some(restore.login),
            logged_in: restore.logged_in.clone(),
            extra_params: restore.extra_params.clone(),
            capabilities: restore.capabilities.clone(),
            start_wait: restore.start_wait,
            words: OutputTail::default(),
        };
        Ok(self.start(record.clone(), machine, journal, (launch, persisted), tail))
    }

    fn start(
        &self,
        record: RecordId,
        machine: SessionMachine,
        journal: SessionJournal,
        (launch, persisted): (LaunchSpec, PersistedLaunchSpec),
        tail: Arc<EventTail>,
    ) -> RunningSession {
        let (agent, span) = (launch.agent.clone(), journal.log.span());
        let (commands, inbox) = mpsc::channel(COMMANDS);
        let (session, publisher) = Session::new(record, commands, tail, &self.0.shared);
        let task =
            SessionTask::new(self.0.shared.clone(), machine, journal, (launch, persisted), inbox, publisher);
        let (finished, done) = watch::channel(false);
        let task = tokio::spawn(async move {
            Box::pin(task.run()).instrument(span).await;
            finished.send_replace(true);
        });
        RunningSession { session, agent, task, done, unused: 0 }
    }

    /// Frees sessions without an agent, work or clients, except for the `keep` most recently used ones. The next client
    /// of such a record starts its session again, as after a restart of the host. Call it periodically: it does not
    /// block, and does nothing while a session begins.
    pub fn free_unused(&self, keep: usize) {
        let Ok(mut running) = self.0.running.try_lock() else { return };
        let Some(running) = running.as_mut() else { return };
        running.retain(|_, known| !*known.done.borrow());
        for known in running.values_mut() {
            known.unused = if known.session.is_unused() { known.unused.saturating_add(1) } else { 0 };
        }
        let mut unused: Vec<_> = running.iter().filter(|(_, known)| known.unused > 0).collect();
        unused.sort_by_key(|(_, known)| known.unused);
        let longest = unused.into_iter().skip(keep).rev().take(FREED_AT_ONCE);
        let freed: Vec<_> = longest.map(|(record, _)| record.clone()).collect();
        for record in freed {
            // It stays in the map until its task has ended: an attach to this record and a shutdown wait for that.
            if let Some(known) = running.get_mut(&record) {
                known.session.free();
            }
        }
    }

    /// Ends the session of a record if it has no client and no work, and if its agent can restore it. The next client
    /// of the record starts its session again.
    pub async fn end_idle(&self, record: &RecordId) {
        let Ok(Some(session)) = self.running(record).await else { return };
        if session.is_held() || session.park_if_restorable().await.is_err() {
            return;
        }
        drop(session);
        let mut done = {
            let mut running = self.0.running.lock().await;
            let known = running.as_mut().and_then(|running| running.get_mut(record));
            let Some(known) = known.filter(|known| known.session.is_unused()) else { return };
            known.session.free();
            known.done.clone()
        };
        // If the task ends without a value, the sender is dropped, which ends the wait too.
        drop(timeout(FREED_WITHIN, done.wait_for(|done| *done)).await);
    }

    /// Reserves a record, so that no session of it can begin; `None` if it has one, or is already reserved.
    pub async fn reserve(&self, record: &RecordId) -> Option<Reservation> {
        let running = self.0.running.lock().await;
        // During the shutdown, sessions still write.
        let known = running.as_ref()?.get(record);
        let is_free = known.is_none_or(|known| *known.done.borrow());
        is_free.then(|| self.0.reservations.take(record)).flatten()
    }

    /// A directory with every link followed, unless its disk takes too long to respond.
    pub(crate) async fn real_directory(&self, cwd: &AbsolutePath) -> Result<AbsolutePath, SessionError> {
        let path = cwd.clone();
        let real = self.disk().ask(cwd.as_path(), move || api::request::real_directory(&path)).await;
        real.unwrap_or_else(|no_answer| {
            Err(SessionError::Directory { cwd: cwd.clone(), reason: no_answer.to_string() })
        })
    }

    /// Runs file system queries with a timeout.
    pub(crate) fn disk(&self) -> &Disk {
        &self.0.shared.disk
    }

    /// How many sessions have an agent, from its start to its end.
    pub fn live(&self) -> watch::Receiver<usize> {
        self.0.shared.live.subscribe()
    }

    /// Whether this record has a hold.
    pub(crate) fn is_held(&self, record: &RecordId) -> bool {
        *self.0.shared.holds.of(record).borrow() > 0
    }

    /// The current time of the engine's clock.
    pub(crate) fn now(&self) -> Timestamp {
        (self.0.shared.settings.clock)()
    }

    /// A stored record; `None` if it is unknown or deleted.
    pub async fn record(&self, id: &RecordId) -> Result<Option<Record>, SessionError> {
        let kept = self.0.shared.store.record(id.clone()).await?;
        Ok(kept.filter(|record| !record.lifecycle.is_deleted()))
    }

    /// The stored events of a record from `from` to its current end.
    pub fn replay(&self, record: &RecordId, from: Seq) -> Follower {
        Follower::of_store(self.0.shared.store.clone(), record.clone(), from)
    }

    /// The whole conversation of a record, folded from its events.
    pub async fn conversation(&self, record: &RecordId) -> Result<Conversation, SessionError> {
        Ok(restore::history::fold(&self.0.shared.store, record).await?)
    }

    /// Stops every session and ends every agent, for good. Running turns are interrupted; no stored data is lost.
    pub async fn shutdown(&self) {
        let running = self.0.running.lock().await.take().unwrap_or_default();
        // Wakes those that wait for a session to begin.
        self.0.begun.send_replace(());
        for known in running.values() {
            known.session.leave().await;
        }
        for known in running.into_values() {
            drop(known.task.await);
        }
    }
}
