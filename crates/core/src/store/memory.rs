//! A store in memory, for one-shot runs and for tests. It implements the whole contract except durability.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use super::query::{EventPage, short_id};
use super::{
    Append, Change, Durability, Lease, MAX_NOTIFICATIONS, OpenTurns, RecordFilter, ScopeQuery, SessionOwner,
    Store, StoreError, StoreFuture,
};
use crate::model::{
    AcpSessionId, AgentAnswer, AgentBuild, AgentMemory, AgentRun, AgentSpec, DeliveryOutcome, Event,
    ExchangeCheckpoint, HostId, Lifecycle, Notification, NotificationKind, QueuedNotification, Record,
    RecordId, RecordSettings, RequestId, Scope, Seq, SessionInfo, SinkStatus, Spending, Timestamp, Turn,
    TurnId, TurnState,
};
use crate::store::progress::RecordProgress;
use crate::sync::Lock;

/// Records in memory.
#[derive(Debug, Default)]
pub struct MemoryStore {
    records: Lock<Records>,
    /// The last `initialize` responses, by command line.
    answers: Lock<HashMap<Vec<String>, AgentAnswer>>,
    /// How the sinks of notifications are doing, by name.
    sinks: Lock<BTreeMap<String, SinkStatus>>,
}

type Records = BTreeMap<RecordId, MemoryRecord>;

#[derive(Debug, Clone)]
struct MemoryRecord {
    record: Record,
    /// How many records were created before it.
    position: usize,
    generation: u64,
    events: Vec<Event>,
    turns: BTreeMap<TurnId, Turn>,
    requests: HashMap<RequestId, TurnId>,
    exchanges: Option<ExchangeCheckpoint>,
    /// The notifications about it, by the event's id and the sink.
    notifications: BTreeMap<(String, String), QueuedNotification>,
}

impl MemoryRecord {
    /// Queues a notification, or removes that of a pending request.
    fn queue(&mut self, notification: Option<Notification>) {
        let is_waiting = |queued: &QueuedNotification| queued.event.kind() == NotificationKind::Waiting;
        let Some(Notification { at, event, sinks, due_at }) = notification else {
            return self.notifications.retain(|_, queued| !is_waiting(queued));
        };
        let (record, id) = (self.record.id.clone(), event.id(&self.record.id));
        for sink in sinks {
            let (attempts, next_attempt_at) = (0, due_at);
            let (key, record, event) = ((id.clone(), sink.clone()), record.clone(), event.clone());
            if event.kind() == NotificationKind::Waiting {
                self.notifications
                    .retain(|other, queued| !is_waiting(queued) || queued.sink != sink || *other == key);
            }
            let queued =
                QueuedNotification { id: id.clone(), sink, record, at, event, attempts, next_attempt_at };
            self.notifications.entry(key).or_insert(queued);
        }
    }
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn read<T>(&self, id: RecordId, answer: impl FnOnce(&MemoryRecord) -> T) -> Result<T, StoreError> {
        self.records.lock().get(&id).map(answer).ok_or(StoreError::NoRecord(id))
    }

    /// Drops what is too much in the queue of each sink, and counts it.
    fn drop_oldest_notifications(&self, stored: &mut Records) {
        let queued = stored.values().flat_map(|found| found.notifications.values());
        let mut sinks: BTreeMap<String, Vec<(Timestamp, String)>> = BTreeMap::new();
        for QueuedNotification { sink, at, id, .. } in queued {
            sinks.entry(sink.clone()).or_default().push((*at, id.clone()));
        }
        for (sink, mut ids) in sinks {
            ids.sort();
            let excess = ids.len().saturating_sub(MAX_NOTIFICATIONS);
            for (_, id) in ids.drain(..excess) {
                let key = (id, sink.clone());
                for found in stored.values_mut() {
                    found.notifications.remove(&key);
                }
            }
            if excess > 0 {
                self.sinks.lock().entry(sink).or_default().dropped += excess as u64;
            }
        }
    }
}

impl Store for MemoryStore {
    fn create(&self, mut record: Record, changes: Vec<Change>, _host: HostId) -> StoreFuture<'_, Lease> {
        Box::pin(async move {
            let id = record.id.clone();
            record.last_seq = None;
            record.last_turn = None;
            record.answered_turns = 0;
            let mut stored = self.records.lock();
            if stored.contains_key(&id) {
                return Err(StoreError::RecordExists(id));
            }
            refuse_taken_scope(&stored, &record)?;
            let generation = 1;
            let mut new = MemoryRecord {
                record,
                position: stored.len(),
                generation,
                events: Vec::new(),
                turns: BTreeMap::new(),
                requests: HashMap::new(),
                exchanges: None,
                notifications: BTreeMap::new(),
            };
            let draft = RecordDraft::check(&stored, &new, changes)?;
            draft.write(&mut new);
            stored.insert(id.clone(), new);
            self.drop_oldest_notifications(&mut stored);
            Ok(Lease { record: id, generation })
        })
    }

    fn lease(&self, record: RecordId, _host: HostId) -> StoreFuture<'_, Lease> {
        Box::pin(async move {
            let mut stored = self.records.lock();
            match stored.get_mut(&record) {
                None => Err(StoreError::NoRecord(record)),
                Some(found) => {
                    found.generation += 1;
                    Ok(Lease { record, generation: found.generation })
                }
            }
        })
    }

    /// No record in memory is damaged.
    fn remove_damaged(&self, record: RecordId) -> StoreFuture<'_, ()> {
        Box::pin(async move { Err(StoreError::NoRecord(record)) })
    }

    fn append(&self, lease: Lease, changes: Vec<Change>, _durability: Durability) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let mut stored = self.records.lock();
            append(&mut stored, Append { lease, changes })?;
            self.drop_oldest_notifications(&mut stored);
            Ok(())
        })
    }

    fn append_both(&self, one: Append, other: Append, _durability: Durability) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let mut stored = self.records.lock();
            let before = stored.get(&one.lease.record).cloned();
            append(&mut stored, one)?;
            let written = append(&mut stored, other);
            if let (Err(_), Some(before)) = (&written, before) {
                stored.insert(before.record.id.clone(), before);
            }
            self.drop_oldest_notifications(&mut stored);
            written
        })
    }

    fn record(&self, id: RecordId) -> StoreFuture<'_, Option<Record>> {
        Box::pin(async move { Ok(self.records.lock().get(&id).map(|found| found.record.clone())) })
    }

    fn records(
        &self,
        filter: RecordFilter,
        after: Option<(Timestamp, RecordId)>,
        limit: usize,
    ) -> StoreFuture<'_, Vec<Record>> {
        Box::pin(async move {
            let position = |record: &Record| (record.updated_at, record.id.clone());
            let stored = self.records.lock();
            let mut rest: Vec<&Record> = stored
                .values()
                .map(|found| &found.record)
                .filter(|record| filter.matches(record))
                .filter(|record| after.as_ref().is_none_or(|after| position(record) < *after))
                .collect();
            rest.sort_by_key(|record| Reverse(position(record)));
            Ok(rest.into_iter().take(limit).cloned().collect())
        })
    }

    fn records_by_creation(
        &self,
        filter: RecordFilter,
        after: Option<RecordId>,
        limit: usize,
    ) -> StoreFuture<'_, Vec<Record>> {
        Box::pin(async move {
            let stored = self.records.lock();
            let before = match after {
                None => usize::MAX,
                Some(after) => stored.get(&after).map_or(0, |found| found.position),
            };
            let mut rest: Vec<&MemoryRecord> = stored
                .values()
                .filter(|found| found.position < before && filter.matches(&found.record))
                .collect();
            rest.sort_by_key(|found| Reverse(found.position));
            Ok(rest.into_iter().take(limit).map(|found| found.record.clone()).collect())
        })
    }

    fn records_by_id_prefix(
        &self,
        filter: RecordFilter,
        prefix: String,
        limit: usize,
    ) -> StoreFuture<'_, Vec<Record>> {
        Box::pin(async move {
            let stored = self.records.lock();
            let records = stored.values().map(|found| &found.record);
            let meant =
                records.filter(|record| record.id.as_str().starts_with(&prefix) && filter.matches(record));
            Ok(meant.take(limit).cloned().collect())
        })
    }

    fn records_named(&self, named: Scope, limit: usize) -> StoreFuture<'_, Vec<Record>> {
        Box::pin(async move {
            let stored = self.records.lock();
            let is_meant = |record: &Record| {
                record.lifecycle == Lifecycle::Open && record.scope.as_ref() == Some(&named)
            };
            let mut meant: Vec<&MemoryRecord> =
                stored.values().filter(|found| is_meant(&found.record)).collect();
            meant.sort_by_key(|found| Reverse(found.position));
            Ok(meant.into_iter().take(limit).map(|found| found.record.clone()).collect())
        })
    }

    fn short_ids(&self, ids: Vec<RecordId>) -> StoreFuture<'_, Vec<String>> {
        Box::pin(async move {
            let stored = self.records.lock();
            let is_listed = |found: &&MemoryRecord| !found.record.lifecycle.is_deleted();
            let short = |id: &RecordId| {
                let before = stored.range(..id).map(|(_, found)| found).rfind(is_listed);
                let after = stored.range(id..).map(|(_, found)| found).filter(|found| found.record.id != *id);
                let neighbours = [before, after.clone().find(is_listed)];
                short_id(id.as_str(), neighbours.map(|found| found.map(|found| found.record.id.as_str())))
            };
            Ok(ids.iter().map(short).collect())
        })
    }

    fn unprompted(&self, before: Timestamp, limit: usize) -> StoreFuture<'_, Vec<RecordId>> {
        Box::pin(async move {
            let stored = self.records.lock();
            let all = RecordFilter::default();
            let is_meant = |record: &&Record| {
                all.matches(record) && record.is_unprompted() && record.updated_at < before
            };
            let mut found: Vec<&Record> =
                stored.values().map(|found| &found.record).filter(is_meant).collect();
            found.sort_by_key(|record| (record.updated_at, record.id.clone()));
            Ok(found.into_iter().take(limit).map(|record| record.id.clone()).collect())
        })
    }

    fn find(&self, query: ScopeQuery) -> StoreFuture<'_, Option<Record>> {
        Box::pin(async move {
            let ScopeQuery { agent, directories, name, closed } = query;
            let scope = Some(Scope { agent, name });
            let stored = self.records.lock();
            let best = directories.iter().find_map(|directory| {
                let here = stored.values().filter(|found| {
                    let is_meant = match found.record.lifecycle {
                        Lifecycle::Open => true,
                        Lifecycle::Closed { .. } => closed,
                        Lifecycle::Deleted { .. } => false,
                    };
                    is_meant && found.record.scope == scope && found.record.real_cwd == *directory
                });
                here.max_by_key(|found| preference(found))
            });
            Ok(best.map(|found| found.record.clone()))
        })
    }

    fn owners(&self, agent: AgentSpec, sessions: Vec<AcpSessionId>) -> StoreFuture<'_, Vec<SessionOwner>> {
        Box::pin(async move {
            let stored = self.records.lock();
            let records =
                stored.values().map(|found| &found.record).filter(|record| record.agent.is_same_as(&agent));
            let owned = records.flat_map(|record| {
                let rows = record.lineage.rows().iter().filter(|row| sessions.contains(&row.session));
                rows.map(|row| {
                    let (session, agent) = (row.session.clone(), record.agent.key());
                    let is_deleted = record.lifecycle.is_deleted();
                    SessionOwner { session, record: record.id.clone(), agent, is_deleted }
                })
            });
            let mut owned: Vec<_> = owned.collect();
            owned.sort();
            owned.dedup();
            Ok(owned)
        })
    }

    fn deleted_records(&self) -> StoreFuture<'_, u64> {
        Box::pin(async move {
            let stored = self.records.lock();
            Ok(stored.values().filter(|found| found.record.lifecycle.is_deleted()).count() as u64)
        })
    }

    fn created_after(&self, than: RecordId, records: Vec<RecordId>) -> StoreFuture<'_, Vec<RecordId>> {
        Box::pin(async move {
            let stored = self.records.lock();
            let Some(than) = stored.get(&than).map(|found| found.position) else { return Ok(Vec::new()) };
            let later =
                stored.values().filter(|found| found.position > than && records.contains(&found.record.id));
            let mut later: Vec<&MemoryRecord> = later.collect();
            later.sort_by_key(|found| found.position);
            Ok(later.into_iter().map(|found| found.record.id.clone()).collect())
        })
    }

    fn running(&self) -> StoreFuture<'_, Vec<(RecordId, AgentRun)>> {
        Box::pin(async move {
            let stored = self.records.lock();
            let runs = stored.iter().filter_map(|(id, found)| Some((id, found.record.agent_run.as_ref()?)));
            let without_end = runs.filter(|(_, run)| run.ended.is_none());
            Ok(without_end.map(|(id, run)| (id.clone(), run.clone())).collect())
        })
    }

    fn events(&self, record: RecordId, from: Seq, limit: usize) -> StoreFuture<'_, Vec<Event>> {
        Box::pin(async move {
            self.read(record, |found| {
                let skipped = usize::try_from(from.0.saturating_sub(1)).unwrap_or(usize::MAX);
                let mut page = EventPage::new(limit);
                for event in found.events.get(skipped..).unwrap_or_default() {
                    if !page.has_room_for(event.body.len()) {
                        break;
                    }
                    page.push(event.clone());
                }
                page.into_events()
            })
        })
    }

    fn exchanges(&self, record: RecordId) -> StoreFuture<'_, Option<ExchangeCheckpoint>> {
        Box::pin(async move { self.read(record, |found| found.exchanges.clone()) })
    }

    fn records_with_open_turns(&self) -> StoreFuture<'_, Vec<(RecordId, OpenTurns)>> {
        Box::pin(async move {
            let stored = self.records.lock();
            let open = stored.iter().filter(|(_, found)| found.turns.values().any(Turn::is_open));
            let turns = |found: &MemoryRecord| {
                let has =
                    |is_such: fn(&TurnState) -> bool| found.turns.values().any(|turn| is_such(&turn.state));
                OpenTurns {
                    has_dispatched: has(|state| matches!(state, TurnState::Dispatched { .. })),
                    has_queued: has(|state| *state == TurnState::Queued),
                }
            };
            Ok(open.map(|(id, found)| (id.clone(), turns(found))).collect())
        })
    }

    fn open_turns(&self, record: RecordId) -> StoreFuture<'_, Vec<Turn>> {
        Box::pin(async move {
            self.read(record, |found| found.turns.values().filter(|turn| turn.is_open()).cloned().collect())
        })
    }

    fn spent(&self, record: RecordId) -> StoreFuture<'_, Spending> {
        Box::pin(async move {
            self.read(record, |found| {
                let mut spending = Spending::default();
                for turn in found.turns.values() {
                    if turn.ended_at().is_some_and(|at| at >= found.record.created_at) {
                        spending.add(turn.cost.as_ref(), turn.tokens().total());
                    }
                }
                spending
            })
        })
    }

    fn turn(&self, record: RecordId, request: RequestId) -> StoreFuture<'_, Option<Turn>> {
        Box::pin(async move {
            self.read(record, |found| {
                found.requests.get(&request).and_then(|turn| found.turns.get(turn)).cloned()
            })
        })
    }

    fn turn_numbered(&self, record: RecordId, turn: TurnId) -> StoreFuture<'_, Option<Turn>> {
        Box::pin(async move { self.read(record, |found| found.turns.get(&turn).cloned()) })
    }

    fn first_turn_from(&self, record: RecordId, turn: TurnId) -> StoreFuture<'_, Option<Turn>> {
        Box::pin(async move {
            self.read(record, |found| found.turns.range(turn..).next().map(|(_, turn)| turn.clone()))
        })
    }

    fn agent_answer(&self, command: Vec<String>) -> StoreFuture<'_, Option<AgentAnswer>> {
        Box::pin(async move {
            let answers = self.answers.lock();
            Ok(answers.get(&command).cloned())
        })
    }

    fn store_agent_answer(&self, agent: AgentBuild, answer: String) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let mut answers = self.answers.lock();
            answers.insert(agent.command, AgentAnswer { program: agent.program, answer });
            Ok(())
        })
    }

    fn notifications(&self, sink: String, limit: usize) -> StoreFuture<'_, Vec<QueuedNotification>> {
        Box::pin(async move {
            let stored = self.records.lock();
            let mut waiting: Vec<&QueuedNotification> = queue_of(&stored, &sink).collect();
            waiting.sort_by_key(|queued| (queued.next_attempt_at, queued.at, &queued.id));
            Ok(waiting.into_iter().take(limit).cloned().collect())
        })
    }

    fn settle_notification(&self, id: String, sink: String, outcome: DeliveryOutcome) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let mut stored = self.records.lock();
            let key = (id, sink.clone());
            let Some(found) = stored.values_mut().find(|found| found.notifications.contains_key(&key)) else {
                return Ok(());
            };
            if let DeliveryOutcome::Failed { next_attempt_at, .. } = outcome {
                if let Some(queued) = found.notifications.get_mut(&key) {
                    queued.attempts += 1;
                    queued.next_attempt_at = next_attempt_at;
                }
            } else {
                found.notifications.remove(&key);
            }
            self.sinks.lock().entry(sink).or_default().count(&outcome);
            Ok(())
        })
    }

    fn notification_sinks(&self) -> StoreFuture<'_, Vec<SinkStatus>> {
        Box::pin(async move {
            let stored = self.records.lock();
            let mut known = self.sinks.lock().clone();
            for queued in stored.values().flat_map(|found| found.notifications.values()) {
                known.entry(queued.sink.clone()).or_default().queued += 1;
            }
            Ok(known.into_iter().map(|(sink, status)| SinkStatus { sink, ..status }).collect())
        })
    }

    fn shrink(&self) -> StoreFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }
}

/// The notifications that wait for a sink.
fn queue_of<'a>(stored: &'a Records, sink: &'a str) -> impl Iterator<Item = &'a QueuedNotification> {
    let queued = stored.values().flat_map(|found| found.notifications.values());
    queued.filter(move |queued| queued.sink == sink)
}

fn append(stored: &mut Records, append: Append) -> Result<(), StoreError> {
    let Append { lease: Lease { record, generation: ours }, changes } = append;
    let Some(found) = stored.get(&record) else { return Err(StoreError::NoRecord(record)) };
    if found.generation != ours {
        return Err(StoreError::LeaseLost { record, ours, current: found.generation });
    }
    let draft = RecordDraft::check(stored, found, changes)?;
    if let Some(found) = stored.get_mut(&record) {
        draft.write(found);
    }
    Ok(())
}

/// Orders the records with one scope in one directory: the greatest is found, that is, the open one or else the last
/// closed.
fn preference(found: &MemoryRecord) -> (bool, Option<Timestamp>, usize) {
    match found.record.lifecycle {
        Lifecycle::Open => (true, None, found.position),
        Lifecycle::Closed { at } | Lifecycle::Deleted { at } => (false, Some(at), found.position),
    }
}

/// A record with its changes, not yet written.
struct RecordDraft {
    record: Record,
    progress: RecordProgress,
    events: Vec<Event>,
    turns: BTreeMap<TurnId, Turn>,
    exchanges: Vec<ExchangeCheckpoint>,
    /// The notifications to queue; `None` removes that of a pending request.
    notifications: Vec<Option<Notification>>,
    /// The stored conversation is erased.
    erases: bool,
}

impl RecordDraft {
    /// Applies changes to a copy of a record and checks them against the other records.
    fn check(others: &Records, stored: &MemoryRecord, changes: Vec<Change>) -> Result<Self, StoreError> {
        let record = stored.record.clone();
        let Record { last_seq, last_turn, answered_turns, updated_at, .. } = record;
        let progress = RecordProgress::resume(last_seq, last_turn, answered_turns, updated_at);
        let (events, turns, exchanges, notifications) = (Vec::new(), BTreeMap::new(), Vec::new(), Vec::new());
        let mut draft = Self { record, progress, events, turns, exchanges, notifications, erases: false };
        for change in changes {
            draft.apply(others, stored, change)?;
        }
        Ok(draft)
    }

    fn apply(&mut self, others: &Records, stored: &MemoryRecord, change: Change) -> Result<(), StoreError> {
        match change {
            Change::Event(event) => {
                self.progress.event(&self.record.id, &event)?;
                self.events.push(event);
            }
            Change::Turn(turn) => {
                if self.holder(stored, &turn.request).is_some_and(|holder| holder != turn.id) {
                    let (record, request) = (self.record.id.clone(), turn.request);
                    return Err(StoreError::RequestExists { record, request });
                }
                let as_stored = stored.turns.get(&turn.id).filter(|_| !self.erases);
                let before = self.turns.get(&turn.id).or(as_stored);
                self.progress.turn(before, &turn);
                self.turns.insert(turn.id, turn);
            }
            Change::Lineage(lineage) => {
                self.progress.lineage(&self.record.id, &self.record.lineage, &lineage)?;
                self.record.lineage = lineage;
            }
            Change::Title(title) => self.record.info.title = title,
            Change::UserTitle(title) => self.record.info.user_title = title,
            Change::Usage(usage) => self.record.info.usage = usage,
            Change::McpServers(servers) => self.record.mcp_servers = servers,
            Change::AdditionalDirectories(directories) => {
                self.record.additional_directories = directories;
            }
            Change::Lifecycle(lifecycle) => {
                self.progress.lifecycle(lifecycle);
                self.record.lifecycle = lifecycle;
                if lifecycle.is_deleted() {
                    self.erase();
                }
                refuse_taken_scope(others, &self.record)?;
            }
            Change::Scope(scope) => {
                self.record.scope = scope;
                refuse_taken_scope(others, &self.record)?;
            }
            Change::WorkingDirectory { cwd, real_cwd } => {
                (self.record.cwd, self.record.real_cwd) = (cwd, real_cwd);
                refuse_taken_scope(others, &self.record)?;
            }
            Change::Settings(settings) => self.record.settings = settings,
            Change::Memory(memory) => self.record.memory = memory,
            Change::Exchanges(checkpoint) => self.exchanges.push(*checkpoint),
            Change::Notification(notification) => self.notifications.push(Some(notification)),
            Change::RequestSettled => self.notifications.push(None),
            Change::RestoreError(error) => self.record.restore_error = error,
            Change::AgentRun(run) => self.record.agent_run = Some(run),
            Change::LastActivity(at) => self.progress.spoken(at),
            Change::AgentCommand { program, args, protocol } => {
                self.record.agent = AgentSpec { program, args, protocol, ..self.record.agent.clone() };
            }
        }
        Ok(())
    }

    /// Erases the conversation.
    fn erase(&mut self) {
        self.record.info = SessionInfo::default();
        self.record.mcp_servers = Vec::new();
        self.record.settings = RecordSettings::default();
        self.record.memory = AgentMemory::default();
        self.record.restore_error = None;
        self.events = Vec::new();
        self.turns = BTreeMap::new();
        self.exchanges = Vec::new();
        self.notifications = Vec::new();
        self.erases = true;
    }

    /// The turn with a request id after the changes.
    fn holder(&self, stored: &MemoryRecord, request: &RequestId) -> Option<TurnId> {
        let drafted = self.turns.values().find(|turn| turn.request == *request).map(|turn| turn.id);
        let as_stored =
            stored.requests.get(request).filter(|turn| !self.erases && !self.turns.contains_key(turn));
        drafted.or(as_stored.copied())
    }

    /// Writes the draft to the record.
    fn write(mut self, stored: &mut MemoryRecord) {
        self.record.last_seq = self.progress.last_seq;
        self.record.last_turn = self.progress.last_turn;
        self.record.answered_turns = self.progress.answered_turns;
        self.record.updated_at = self.progress.updated_at;
        stored.record = self.record;
        if self.erases {
            stored.events = Vec::new();
            stored.turns = BTreeMap::new();
            stored.requests = HashMap::new();
            stored.exchanges = None;
            stored.notifications = BTreeMap::new();
        }
        for notification in self.notifications {
            stored.queue(notification);
        }
        for checkpoint in self.exchanges {
            match &mut stored.exchanges {
                Some(exchanges) => exchanges.add(checkpoint),
                none => *none = Some(checkpoint),
            }
        }
        stored.events.extend(self.events);
        for id in self.turns.keys() {
            // A turn may be written under another request id; its previous id becomes free.
            if let Some(before) = stored.turns.get(id) {
                stored.requests.remove(&before.request);
            }
        }
        for (id, turn) in self.turns {
            stored.requests.insert(turn.request.clone(), id);
            stored.turns.insert(id, turn);
        }
    }
}

/// Refuses a scope that another open record of the directory has.
fn refuse_taken_scope(others: &Records, ours: &Record) -> Result<(), StoreError> {
    if ours.scope.is_none() || ours.lifecycle != Lifecycle::Open {
        return Ok(());
    }
    let holder = others.values().map(|stored| &stored.record).find(|other| {
        other.id != ours.id
            && other.lifecycle == Lifecycle::Open
            && (&other.scope, &other.real_cwd) == (&ours.scope, &ours.real_cwd)
    });
    match holder {
        None => Ok(()),
        Some(holder) => Err(StoreError::ScopeTaken { record: holder.id.clone() }),
    }
}
