//! Collects the changes of a session's record, and commits them together.
//!
//! The journal numbers the events. Until the agent has replied to `session/new` there is no record, and the lines so
//! far wait here; the record is created with all of them.

use std::sync::Arc;

use crate::acp::client::RedactedLine;
use crate::machine::Effect;
use crate::model::{
    AbsolutePath, AgentMemory, AgentRun, AgentSpec, Direction, Event, EventKind, ExchangeFold, Fact,
    Lifecycle, Lineage, LineageIndex, McpServerRef, Notification, ProtocolVersion, Record, RecordId,
    RecordSettings, RequestId, Scope, Seq, SessionInfo, SessionUsage, Timestamp, Turn, TurnId,
};
use crate::store::{Change, Durability, SessionWriter, StoreError};

use super::log::SessionLog;
use crate::engine::EngineContext;
use crate::engine::restore::history;
use crate::engine::stream::follow::EventTail;

/// A record that does not exist yet.
#[derive(Clone)]
pub(crate) struct NewRecord {
    pub(crate) id: RecordId,
    pub(crate) agent: AgentSpec,
    pub(crate) cwd: AbsolutePath,
    pub(crate) real_cwd: AbsolutePath,
    pub(crate) additional_directories: Vec<AbsolutePath>,
    pub(crate) mcp_servers: Vec<McpServerRef>,
    pub(crate) scope: Option<Scope>,
}

/// The copied content that a record begins with.
#[derive(Default)]
pub(crate) struct CopiedHistory {
    pub(crate) events: Vec<Event>,
    pub(crate) turns: Vec<Turn>,
    pub(crate) title: Option<String>,
}

impl CopiedHistory {
    /// The sequence number of its last event.
    pub(crate) fn last_seq(&self) -> Option<Seq> {
        self.events.last().map(|event| event.seq)
    }

    /// The lineage row that it ends in.
    pub(crate) fn lineage(&self) -> LineageIndex {
        self.events.last().map_or(LineageIndex::FIRST, |event| event.lineage)
    }

    /// The changes that store it.
    pub(crate) fn into_changes(self) -> Vec<Change> {
        let title = self.title.map(|title| Change::Title(Some(title)));
        let events = self.events.into_iter().map(Change::Event);
        events.chain(self.turns.into_iter().map(Change::Turn)).chain(title).collect()
    }
}

pub(crate) struct SessionJournal {
    shared: EngineContext,
    /// Logs every fact that is stored, and what the session's task adds.
    pub(crate) log: SessionLog,
    record: RecordId,
    stage: Stage,
    next: Seq,
    lineage: LineageIndex,
    /// The protocol version of lines to and from the agent.
    protocol: ProtocolVersion,
    changes: Vec<Change>,
    durability: Durability,
    /// Bytes of bodies in `changes`.
    bytes: usize,
    tail: Arc<EventTail>,
    has_title: bool,
    /// The usage as stored in the record.
    usage: Option<SessionUsage>,
    /// Whether a turn was requested since the task began.
    has_turn: bool,
    /// The agent's memory as stored in the record.
    memory: AgentMemory,
    /// The exchanges after all events so far; `None` until those of a stored record are read.
    exchanges: Option<ExchangeFold>,
    /// The record that gets the scope once this one is closed.
    successor: Option<ScopeSuccessor>,
    /// The time of the last message that was exchanged outside acpx, until one is exchanged here.
    external_activity: Option<Timestamp>,
}

/// The record that gets the scope of a closed one.
pub(crate) struct ScopeSuccessor {
    pub(crate) writer: SessionWriter,
    pub(crate) scope: Scope,
}

/// What becomes of the scope when a record's directory changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScopeChange {
    Keep,
    /// Another record has it in the new directory.
    Remove,
}

enum Stage {
    /// There is no record. It has a lineage once `session/new` was answered, and is created with this batch.
    NotCreated(Box<NewRecord>, Option<(Lineage, Timestamp)>),
    /// There is a record, and we are its writer.
    Stored(SessionWriter),
}

impl SessionJournal {
    pub(crate) fn of_new(
        shared: EngineContext,
        seed: NewRecord,
        history: CopiedHistory,
        tail: Arc<EventTail>,
    ) -> Self {
        let (last, lineage, id) = (history.last_seq(), history.lineage(), seed.id.clone());
        let stage = Stage::NotCreated(Box::new(seed), None);
        let mut journal = Self::new(shared, id, stage, last, lineage, tail);
        let mut exchanges = ExchangeFold::new();
        for event in &history.events {
            history::apply(&mut exchanges, event);
        }
        journal.exchanges = Some(exchanges);
        journal.has_title = history.title.is_some();
        journal.changes = history.into_changes();
        journal
    }

    pub(crate) fn of_record(
        shared: EngineContext,
        record: &Record,
        writer: SessionWriter,
        tail: Arc<EventTail>,
    ) -> Self {
        let lineage = record.lineage.current_index();
        let stage = Stage::Stored(writer);
        let journal = Self::new(shared, record.id.clone(), stage, record.last_seq, lineage, tail);
        let external_activity = record.external_activity();
        Self {
            has_title: record.info.title.is_some(),
            usage: record.info.usage.clone(),
            memory: record.memory,
            external_activity,
            ..journal
        }
    }

    fn new(
        shared: EngineContext,
        record: RecordId,
        stage: Stage,
        last: Option<Seq>,
        lineage: LineageIndex,
        tail: Arc<EventTail>,
    ) -> Self {
        Self {
            shared,
            log: SessionLog::new(&record),
            record,
            stage,
            next: last.map_or(Seq::FIRST, Seq::next),
            lineage,
            protocol: ProtocolVersion::default(),
            changes: Vec::new(),
            durability: Durability::Process,
            bytes: 0,
            tail,
            has_title: false,
            usage: None,
            has_turn: false,
            memory: AgentMemory::default(),
            exchanges: None,
            successor: None,
            external_activity: None,
        }
    }

    pub(crate) fn record(&self) -> &RecordId {
        &self.record
    }

    /// Whether there is a record.
    pub(crate) fn has_record(&self) -> bool {
        matches!(self.stage, Stage::Stored(_))
    }

    /// Whether a turn was requested since the task began. The copied turns of a fork do not count.
    pub(crate) fn has_begun_turn(&self) -> bool {
        self.has_turn
    }

    /// Sets the protocol version of the following lines.
    pub(crate) fn set_protocol(&mut self, version: ProtocolVersion) {
        self.protocol = version;
    }

    /// The last event so far, committed or not.
    pub(crate) fn last(&self) -> Seq {
        Seq(self.next.0 - 1)
    }

    /// The current lineage.
    pub(crate) fn lineage(&self) -> LineageIndex {
        self.lineage
    }

    /// How many bytes wait to be committed.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn append_line(&mut self, now: Timestamp, turn: Option<TurnId>, line: &RedactedLine) {
        let event = Event {
            seq: self.next,
            at: now,
            turn,
            lineage: self.lineage,
            protocol: self.protocol.number(),
            direction: line.direction,
            kind: line.kind,
            body: line.body().clone(),
        };
        self.next = self.next.next();
        self.bytes += event.body.len();
        if turn.is_some() {
            self.external_activity = None;
        }
        if let Some(exchanges) = &mut self.exchanges {
            history::apply(exchanges, &event);
        }
        self.changes.push(Change::Event(event));
    }

    /// Continues with these exchanges, which include all stored events.
    pub(crate) fn set_exchanges(&mut self, exchanges: ExchangeFold) {
        self.exchanges = Some(exchanges);
    }

    /// Commits all changes with the exchanges so far.
    pub(crate) async fn commit_exchanges(&mut self) -> Result<(), StoreError> {
        self.add_checkpoint();
        self.commit().await
    }

    fn add_checkpoint(&mut self) {
        let checkpoint = self.exchanges.as_mut().and_then(ExchangeFold::take_checkpoint);
        self.changes.extend(checkpoint.map(|checkpoint| Change::Exchanges(Box::new(checkpoint))));
    }

    pub(crate) fn append_update(&mut self, now: Timestamp, turn: Option<TurnId>, body: Arc<str>) {
        let line = RedactedLine::assume_redacted(Direction::FromAgent, EventKind::Update, body);
        self.append_line(now, turn, &line);
    }

    /// Stores an update that is not part of the conversation.
    pub(crate) fn append_notification(&mut self, now: Timestamp, turn: Option<TurnId>, body: Arc<str>) {
        let line = RedactedLine::assume_redacted(Direction::FromAgent, EventKind::Notification, body);
        self.append_line(now, turn, &line);
    }

    pub(crate) fn append_fact(&mut self, now: Timestamp, fact: &Fact) {
        let turn = match fact {
            Fact::TurnStarted { turn, .. } | Fact::TurnEnded { turn, .. } => Some(TurnId(*turn)),
            _ => None,
        };
        self.append_fact_in(now, turn, fact);
    }

    /// Stores a fact, as part of a turn if one is given.
    pub(crate) fn append_fact_in(&mut self, now: Timestamp, turn: Option<TurnId>, fact: &Fact) {
        self.log.fact(fact);
        let line = RedactedLine::assume_redacted(Direction::Ours, EventKind::Fact, fact.to_body());
        self.append_line(now, turn, &line);
    }

    /// Stores an effect that has to be persisted, and returns any other effect.
    pub(crate) fn persist_effect(&mut self, now: Timestamp, effect: Effect) -> Option<Effect> {
        match effect {
            Effect::Fact(fact) => self.append_fact(now, &fact),
            // Turns are always synced: they hold what a client was promised, what may have reached the agent, and what
            // it replied.
            Effect::SaveTurn(turn) => {
                self.has_turn = true;
                self.durability = Durability::Machine;
                self.changes.push(Change::Turn(turn));
            }
            Effect::SaveLineage(lineage) => self.set_lineage(now, lineage),
            Effect::SaveTitle(title) => {
                self.has_title = title.is_some();
                self.changes.push(Change::Title(title.map(String::from)));
            }
            Effect::SaveUsage { usage, cost_stands } => {
                self.set_usage(Some(usage.after(self.usage.as_ref(), cost_stands)));
            }
            // Not synced: the turn's end is.
            Effect::SaveCost(turn) => self.changes.push(Change::Turn(turn)),
            Effect::SaveSettings(settings) => self.changes.push(Change::Settings(settings)),
            Effect::SaveRestoreError(error) => self.changes.push(Change::RestoreError(error)),
            Effect::SaveLifecycle(lifecycle) => {
                // A deletion must survive a crash of the machine, and nothing of the conversation is written after it.
                if lifecycle.is_deleted() {
                    self.durability = Durability::Machine;
                    self.exchanges = None;
                }
                self.changes.push(Change::Lifecycle(lifecycle));
            }
            other => return Some(other),
        }
        None
    }

    /// Queues a notification in the transaction of what it reports.
    pub(crate) fn queue_notification(&mut self, notification: impl Into<Option<Notification>>) {
        self.changes.extend(notification.into().map(Change::Notification));
    }

    /// Removes the notification of a pending request from the queues.
    pub(crate) fn remove_waiting_notification(&mut self) {
        self.changes.push(Change::RequestSettled);
    }

    /// Stores the usage, if it has changed.
    fn set_usage(&mut self, usage: Option<SessionUsage>) {
        if self.usage != usage {
            self.usage.clone_from(&usage);
            self.changes.push(Change::Usage(usage));
        }
    }

    /// Stores the user's title, and the update that clients receive of it.
    pub(crate) fn set_user_title(&mut self, now: Timestamp, title: String, update: Arc<str>) {
        self.changes.push(Change::UserTitle(Some(title)));
        let line = RedactedLine::assume_redacted(Direction::Ours, EventKind::Update, update);
        self.append_line(now, None, &line);
    }

    /// Stores a title for a record that has none.
    pub(crate) fn set_first_title(&mut self, title: String) {
        if !std::mem::replace(&mut self.has_title, true) {
            self.changes.push(Change::Title(Some(title)));
        }
    }

    /// Notes when the last message was exchanged according to the agent, for a session without messages here. Ignores
    /// times in the future.
    pub(crate) fn note_external_message(&mut self, now: Timestamp, at: Timestamp) {
        let is_new = matches!(self.stage, Stage::NotCreated(..));
        if at < now && (is_new || self.external_activity.is_some_and(|known| known < at)) {
            self.external_activity = Some(at);
        }
    }

    /// The agent's memory as stored in the record.
    pub(crate) fn memory(&self) -> AgentMemory {
        self.memory
    }

    /// Stores the agent's memory, if it has changed.
    pub(crate) fn set_memory(&mut self, memory: AgentMemory) {
        if std::mem::replace(&mut self.memory, memory) != memory {
            self.changes.push(Change::Memory(memory));
        }
    }

    pub(crate) fn set_mcp_servers(&mut self, servers: Vec<McpServerRef>) {
        match &mut self.stage {
            Stage::NotCreated(seed, _) => seed.mcp_servers = servers,
            Stage::Stored(_) => self.changes.push(Change::McpServers(servers)),
        }
    }

    /// Stores the additional directories of the session.
    pub(crate) fn set_additional_directories(&mut self, directories: &[AbsolutePath]) {
        match &mut self.stage {
            Stage::NotCreated(seed, _) => seed.additional_directories = directories.to_vec(),
            Stage::Stored(_) => self.changes.push(Change::AdditionalDirectories(directories.to_vec())),
        }
    }

    /// Stores the scope, immediately and in its own transaction: if it is refused, nothing else is.
    pub(crate) async fn set_scope(&mut self, scope: Scope) -> Result<(), StoreError> {
        match &mut self.stage {
            Stage::NotCreated(seed, _) => {
                seed.scope = Some(scope);
                Ok(())
            }
            Stage::Stored(writer) => {
                writer.append(vec![Change::Scope(Some(scope))], Durability::Process).await?;
                self.shared.changes.mark(&self.record);
                Ok(())
            }
        }
    }

    /// Stores the directory, immediately and in its own transaction: if it is refused, nothing else is.
    pub(crate) async fn set_directory(
        &mut self,
        cwd: &AbsolutePath,
        real_cwd: &AbsolutePath,
        scope: ScopeChange,
    ) -> Result<(), StoreError> {
        let drops_scope = scope == ScopeChange::Remove;
        match &mut self.stage {
            Stage::NotCreated(seed, _) => {
                (seed.cwd, seed.real_cwd) = (cwd.clone(), real_cwd.clone());
                seed.scope.take_if(|_| drops_scope);
                Ok(())
            }
            Stage::Stored(writer) => {
                let mut changes =
                    vec![Change::WorkingDirectory { cwd: cwd.clone(), real_cwd: real_cwd.clone() }];
                if drops_scope {
                    changes.insert(0, Change::Scope(None));
                }
                writer.append(changes, Durability::Machine).await?;
                self.shared.changes.mark(&self.record);
                Ok(())
            }
        }
    }

    /// When the record is closed, moves its scope to this record in the same transaction.
    pub(crate) fn leave_scope_to(&mut self, successor: ScopeSuccessor) {
        self.successor = Some(successor);
    }

    /// The record's writer, if there is a record.
    pub(crate) fn writer(&self) -> Option<SessionWriter> {
        match &self.stage {
            Stage::NotCreated(..) => None,
            Stage::Stored(writer) => Some(writer.clone()),
        }
    }

    /// Stores the agent's new command line.
    pub(crate) fn set_agent_command(&mut self, agent: &AgentSpec) {
        match &mut self.stage {
            Stage::NotCreated(seed, _) => seed.agent = agent.clone(),
            Stage::Stored(_) => {
                let AgentSpec { program, args, protocol, .. } = agent.clone();
                self.changes.push(Change::AgentCommand { program, args, protocol });
            }
        }
    }

    /// Stores the agent's process, or its end.
    pub(crate) fn set_run(&mut self, run: impl Into<Option<AgentRun>>) {
        self.changes.extend(run.into().map(Change::AgentRun));
    }

    fn set_lineage(&mut self, now: Timestamp, lineage: Lineage) {
        // A fresh session does not inherit the usage of the previous one.
        if lineage.current_index() != self.lineage {
            self.set_usage(None);
        }
        self.lineage = lineage.current_index();
        self.durability = Durability::Machine;
        match &mut self.stage {
            Stage::NotCreated(_, first) => *first = Some((lineage, now)),
            Stage::Stored(_) => self.changes.push(Change::Lineage(lineage)),
        }
    }

    /// The stored turn of a prompt with this request id.
    pub(crate) async fn turn_of(&self, request: &RequestId) -> Result<Option<Turn>, StoreError> {
        if !self.has_record() {
            return Ok(None);
        }
        self.shared.store.turn(self.record.clone(), request.clone()).await
    }

    /// Commits the collected changes and publishes their events to followers.
    pub(crate) async fn commit(&mut self) -> Result<(), StoreError> {
        let created = match &self.stage {
            Stage::NotCreated(_, None) => return Ok(()),
            Stage::NotCreated(seed, Some((lineage, at))) => {
                Some(seed.clone().into_record(lineage.clone(), *at))
            }
            Stage::Stored(_) if self.changes.is_empty() => return Ok(()),
            Stage::Stored(_) => None,
        };
        self.changes.extend(self.external_activity.map(Change::LastActivity));
        if self.exchanges.as_ref().is_some_and(ExchangeFold::is_checkpoint_due) {
            self.add_checkpoint();
        }
        let (changes, events) = self.take_batch();
        let has_notification = changes.iter().any(|change| matches!(change, Change::Notification(_)));
        let durability = std::mem::replace(&mut self.durability, Durability::Process);
        match (created, &self.stage) {
            (Some(record), _) => {
                let EngineContext { store, host, .. } = &self.shared;
                let agent = record.agent.clone();
                let writer = SessionWriter::create(store.clone(), record, changes, host.clone()).await?;
                self.log.created(&agent);
                self.stage = Stage::Stored(writer);
            }
            (None, Stage::Stored(writer)) => match self.successor.take_if(|_| is_given_up(&changes)) {
                None => append(writer, changes, durability).await?,
                Some(ScopeSuccessor { writer: successor, scope }) => {
                    let taken = vec![Change::Scope(Some(scope))];
                    writer.append_with(changes, &successor, taken, Durability::Machine).await?;
                }
            },
            (None, Stage::NotCreated(..)) => {}
        }
        if has_notification {
            self.shared.settings.notifications.report_added();
        }
        self.tail.publish(events);
        self.shared.changes.mark(&self.record);
        Ok(())
    }

    fn take_batch(&mut self) -> (Vec<Change>, Vec<Event>) {
        self.bytes = 0;
        let changes = std::mem::take(&mut self.changes);
        let event =
            |change: &Change| if let Change::Event(event) = change { Some(event.clone()) } else { None };
        let events = changes.iter().filter_map(event).collect();
        (changes, events)
    }

    pub(crate) fn close(&self) {
        self.tail.close();
    }
}

/// Appends to a record. A record that is reopened by its id gets its scope back, unless another record has it by then.
async fn append(
    writer: &SessionWriter,
    changes: Vec<Change>,
    durability: Durability,
) -> Result<(), StoreError> {
    let opens = |change: &Change| matches!(change, Change::Lifecycle(Lifecycle::Open));
    if !changes.iter().any(opens) {
        return writer.append(changes, durability).await;
    }
    match writer.append(changes.clone(), durability).await {
        Err(StoreError::ScopeTaken { .. }) => {
            let without = [Change::Scope(None)].into_iter().chain(changes);
            writer.append(without.collect(), durability).await
        }
        done => done,
    }
}

/// Whether these changes give up the record's scope.
fn is_given_up(changes: &[Change]) -> bool {
    changes
        .iter()
        .any(|change| matches!(change, Change::Lifecycle(lifecycle) if *lifecycle != Lifecycle::Open))
}

impl NewRecord {
    pub(crate) fn into_record(self, lineage: Lineage, at: Timestamp) -> Record {
        let Self { id, agent, cwd, real_cwd, additional_directories, mcp_servers, scope } = self;
        Record {
            id,
            // A user-configured profile is not stored; every start provides it again.
            agent: agent.with_profile(None),
            cwd,
            real_cwd,
            additional_directories,
            scope,
            mcp_servers,
            info: SessionInfo::default(),
            lifecycle: Lifecycle::Open,
            lineage,
            agent_run: None,
            settings: RecordSettings::default(),
            memory: AgentMemory::default(),
            restore_error: None,
            created_at: at,
            updated_at: at,
            last_seq: None,
            last_turn: None,
            answered_turns: 0,
        }
    }
}
