//! What a session's task has to keep, gathered and committed together.
//!
//! The keeper numbers the events. Until the agent has answered `session/new` there is no record, and what
//! was exchanged so far waits here; the record is made with all of it.

use std::sync::Arc;

use crate::acp::client::RedactedLine;
use crate::machine::Effect;
use crate::model::{
    AbsolutePath, AgentMemory, AgentRun, AgentSpec, Direction, Event, EventKind, Fact, Lifecycle, Lineage,
    LineageIndex, McpServerRef, ProtocolVersion, Record, RecordId, RequestId, Scope, Seq, Timestamp, Turn,
    TurnId,
};
use crate::store::{Change, Durability, SessionWriter, StoreError};

use crate::engine::EngineContext;
use crate::engine::restore::fork::Past;
use crate::engine::stream::follow::EventTail;

/// A record that does not exist yet.
pub(crate) struct NewRecord {
    pub(crate) id: RecordId,
    pub(crate) agent: AgentSpec,
    pub(crate) cwd: AbsolutePath,
    pub(crate) real_cwd: AbsolutePath,
    pub(crate) additional_directories: Vec<AbsolutePath>,
    pub(crate) mcp_servers: Vec<McpServerRef>,
    pub(crate) scope: Option<Scope>,
}

pub(crate) struct SessionJournal {
    shared: EngineContext,
    record: RecordId,
    stage: Stage,
    next: Seq,
    lineage: LineageIndex,
    /// The version that lines to and from the agent are in.
    protocol: ProtocolVersion,
    changes: Vec<Change>,
    durability: Durability,
    /// Bytes of bodies in `changes`.
    bytes: usize,
    tail: Arc<EventTail>,
    has_title: bool,
    /// Whether a turn was asked for since this began.
    has_turn: bool,
    /// What the record has of its agent's memory.
    memory: AgentMemory,
    /// Who has the record's scope once it is closed.
    heir: Option<ScopeSuccessor>,
    /// When something was last said elsewhere, until something is said here.
    spoken_elsewhere: Option<Timestamp>,
}

/// The record that takes the place of one that is closed.
pub(crate) struct ScopeSuccessor {
    pub(crate) writer: SessionWriter,
    pub(crate) scope: Scope,
}

enum Stage {
    /// There is no record. It has a lineage once `session/new` was answered, and is made with this batch.
    Unborn(Box<NewRecord>, Option<(Lineage, Timestamp)>),
    /// There is one, and we are its writer.
    Kept(SessionWriter),
}

impl SessionJournal {
    pub(crate) fn of_new(shared: EngineContext, seed: NewRecord, past: Past, tail: Arc<EventTail>) -> Self {
        let (last, lineage, id) = (past.last_seq(), past.lineage(), seed.id.clone());
        let stage = Stage::Unborn(Box::new(seed), None);
        let mut keeper = Self::new(shared, id, stage, last, lineage, tail);
        keeper.has_title = past.title.is_some();
        keeper.changes = past.into_changes();
        keeper
    }

    pub(crate) fn of_record(
        shared: EngineContext,
        record: &Record,
        writer: SessionWriter,
        tail: Arc<EventTail>,
    ) -> Self {
        let lineage = record.lineage.current_index();
        let stage = Stage::Kept(writer);
        let keeper = Self::new(shared, record.id.clone(), stage, record.last_seq, lineage, tail);
        let spoken_elsewhere = record.spoken_elsewhere();
        Self { has_title: record.title.is_some(), memory: record.memory, spoken_elsewhere, ..keeper }
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
            has_turn: false,
            memory: AgentMemory::default(),
            heir: None,
            spoken_elsewhere: None,
        }
    }

    pub(crate) fn record(&self) -> &RecordId {
        &self.record
    }

    /// Whether there is a record.
    pub(crate) fn has_record(&self) -> bool {
        matches!(self.stage, Stage::Kept(_))
    }

    /// Whether a turn was asked for since this began. Those that a fork was made with do not count.
    pub(crate) fn has_begun_turn(&self) -> bool {
        self.has_turn
    }

    /// From here on lines are in this version.
    pub(crate) fn set_protocol(&mut self, version: ProtocolVersion) {
        self.protocol = version;
    }

    /// The last event so far, committed or not.
    pub(crate) fn last(&self) -> Seq {
        Seq(self.next.0 - 1)
    }

    /// Which of the record's sessions is in force.
    pub(crate) fn lineage(&self) -> LineageIndex {
        self.lineage
    }

    /// How many bytes wait to be committed.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn keep_line(&mut self, now: Timestamp, turn: Option<TurnId>, line: RedactedLine) {
        let event = Event {
            seq: self.next,
            at: now,
            turn,
            lineage: self.lineage,
            protocol: self.protocol.number(),
            direction: line.direction,
            kind: line.kind,
            body: line.body,
        };
        self.next = self.next.next();
        self.bytes += event.body.len();
        if turn.is_some() {
            self.spoken_elsewhere = None;
        }
        self.changes.push(Change::Event(event));
    }

    pub(crate) fn keep_update(&mut self, now: Timestamp, turn: Option<TurnId>, body: Arc<str>) {
        let line = RedactedLine { direction: Direction::FromAgent, kind: EventKind::Update, body };
        self.keep_line(now, turn, line);
    }

    /// Keeps an update that is no part of the conversation.
    pub(crate) fn keep_aside(&mut self, now: Timestamp, turn: Option<TurnId>, body: Arc<str>) {
        let line = RedactedLine { direction: Direction::FromAgent, kind: EventKind::Notification, body };
        self.keep_line(now, turn, line);
    }

    pub(crate) fn keep_fact(&mut self, now: Timestamp, fact: &Fact) {
        let turn = match fact {
            Fact::TurnStarted { turn, .. } | Fact::TurnEnded { turn, .. } => Some(TurnId(*turn)),
            _ => None,
        };
        self.keep_fact_in(now, turn, fact);
    }

    /// Keeps a fact that belongs to a turn if one runs.
    pub(crate) fn keep_fact_in(&mut self, now: Timestamp, turn: Option<TurnId>, fact: &Fact) {
        let line = RedactedLine { direction: Direction::Ours, kind: EventKind::Fact, body: fact.to_body() };
        self.keep_line(now, turn, line);
    }

    /// Keeps what an effect says is to be kept; any other effect is given back.
    pub(crate) fn keep_effect(&mut self, now: Timestamp, effect: Effect) -> Option<Effect> {
        match effect {
            Effect::Fact(fact) => self.keep_fact(now, &fact),
            // What a client was promised, what may have reached the agent and what it answered are worth a
            // sync, so a turn always is.
            Effect::SaveTurn(turn) => {
                self.has_turn = true;
                self.durability = Durability::Machine;
                self.changes.push(Change::Turn(turn));
            }
            Effect::SaveLineage(lineage) => self.keep_lineage(now, lineage),
            Effect::SaveTitle(title) => {
                self.has_title = title.is_some();
                self.changes.push(Change::Title(title.map(String::from)));
            }
            Effect::SaveSettings(settings) => self.changes.push(Change::Settings(settings)),
            Effect::SaveRestoreError(error) => self.changes.push(Change::RestoreError(error)),
            Effect::SaveLifecycle(lifecycle) => {
                // What was deleted does not come back, whatever happens to the machine.
                if lifecycle.is_deleted() {
                    self.durability = Durability::Machine;
                }
                self.changes.push(Change::Lifecycle(lifecycle));
            }
            other => return Some(other),
        }
        None
    }

    /// Keeps a title for a record that has none.
    pub(crate) fn keep_first_title(&mut self, title: String) {
        if !std::mem::replace(&mut self.has_title, true) {
            self.changes.push(Change::Title(Some(title)));
        }
    }

    /// Takes when something was last said, by the agent, in a session where nothing has been said here. A time that is
    /// yet to come says nothing.
    pub(crate) fn note_spoken_elsewhere(&mut self, now: Timestamp, at: Timestamp) {
        let is_unborn = matches!(self.stage, Stage::Unborn(..));
        if at < now && (is_unborn || self.spoken_elsewhere.is_some_and(|known| known < at)) {
            self.spoken_elsewhere = Some(at);
        }
    }

    /// What the record has of its agent's memory.
    pub(crate) fn memory(&self) -> AgentMemory {
        self.memory
    }

    /// Keeps what the agent remembers, if that is something else than before.
    pub(crate) fn keep_memory(&mut self, memory: AgentMemory) {
        if std::mem::replace(&mut self.memory, memory) != memory {
            self.changes.push(Change::Memory(memory));
        }
    }

    pub(crate) fn keep_mcp_servers(&mut self, servers: Vec<McpServerRef>) {
        match &mut self.stage {
            Stage::Unborn(seed, _) => seed.mcp_servers = servers,
            Stage::Kept(_) => self.changes.push(Change::McpServers(servers)),
        }
    }

    /// Keeps which directories belong to the session from now on beside the one it works in.
    pub(crate) fn keep_additional_directories(&mut self, directories: &[AbsolutePath]) {
        match &mut self.stage {
            Stage::Unborn(seed, _) => seed.additional_directories = directories.to_vec(),
            Stage::Kept(_) => self.changes.push(Change::AdditionalDirectories(directories.to_vec())),
        }
    }

    /// Keeps what a shell finds the record by, at once and alone: it may be refused, and nothing else is then.
    pub(crate) async fn set_scope(&mut self, scope: Scope) -> Result<(), StoreError> {
        match &mut self.stage {
            Stage::Unborn(seed, _) => {
                seed.scope = Some(scope);
                Ok(())
            }
            Stage::Kept(writer) => writer.append(vec![Change::Scope(Some(scope))], Durability::Process).await,
        }
    }

    /// Keeps where the record works, at once and alone: it may be refused, and nothing else is then.
    pub(crate) async fn set_place(
        &mut self,
        cwd: &AbsolutePath,
        real_cwd: &AbsolutePath,
    ) -> Result<(), StoreError> {
        match &mut self.stage {
            Stage::Unborn(seed, _) => {
                (seed.cwd, seed.real_cwd) = (cwd.clone(), real_cwd.clone());
                Ok(())
            }
            Stage::Kept(writer) => {
                let place = Change::Place { cwd: cwd.clone(), real_cwd: real_cwd.clone() };
                writer.append(vec![place], Durability::Machine).await
            }
        }
    }

    /// Keeps where the record works, and that no shell finds it any more: another record has its scope there.
    pub(crate) async fn set_place_without_scope(
        &mut self,
        cwd: &AbsolutePath,
        real_cwd: &AbsolutePath,
    ) -> Result<(), StoreError> {
        match &mut self.stage {
            Stage::Unborn(seed, _) => {
                (seed.cwd, seed.real_cwd, seed.scope) = (cwd.clone(), real_cwd.clone(), None);
                Ok(())
            }
            Stage::Kept(writer) => {
                let place = Change::Place { cwd: cwd.clone(), real_cwd: real_cwd.clone() };
                writer.append(vec![Change::Scope(None), place], Durability::Machine).await
            }
        }
    }

    /// Once the record is closed, this one has a scope: both are kept in one step.
    pub(crate) fn leave_scope_to(&mut self, heir: ScopeSuccessor) {
        self.heir = Some(heir);
    }

    /// The right to write to the record, if there is one.
    pub(crate) fn writer(&self) -> Option<SessionWriter> {
        match &self.stage {
            Stage::Unborn(..) => None,
            Stage::Kept(writer) => Some(writer.clone()),
        }
    }

    /// Keeps by what command line the agent is started from now on.
    pub(crate) fn keep_command(&mut self, agent: &AgentSpec) {
        match &mut self.stage {
            Stage::Unborn(seed, _) => seed.agent = agent.clone(),
            Stage::Kept(_) => {
                let AgentSpec { program, args, protocol, .. } = agent.clone();
                self.changes.push(Change::AgentCommand { program, args, protocol });
            }
        }
    }

    /// Keeps which process the agent is, or that it has ended.
    pub(crate) fn keep_run(&mut self, run: AgentRun) {
        self.changes.push(Change::AgentRun(run));
    }

    fn keep_lineage(&mut self, now: Timestamp, lineage: Lineage) {
        self.lineage = lineage.current_index();
        self.durability = Durability::Machine;
        match &mut self.stage {
            Stage::Unborn(_, born) => *born = Some((lineage, now)),
            Stage::Kept(_) => self.changes.push(Change::Lineage(lineage)),
        }
    }

    /// The turn of a prompt that a client has named so, as it is kept.
    pub(crate) async fn turn_of(&self, request: &RequestId) -> Result<Option<Turn>, StoreError> {
        if !self.has_record() {
            return Ok(None);
        }
        self.shared.store.turn(self.record.clone(), request.clone()).await
    }

    /// Commits what was gathered and shows its events to those who follow.
    pub(crate) async fn commit(&mut self) -> Result<(), StoreError> {
        let unborn = match &self.stage {
            Stage::Unborn(_, None) => return Ok(()),
            Stage::Unborn(seed, Some((lineage, born))) => Some(seed.record(lineage.clone(), *born)),
            Stage::Kept(_) if self.changes.is_empty() => return Ok(()),
            Stage::Kept(_) => None,
        };
        self.changes.extend(self.spoken_elsewhere.map(Change::SpokenAt));
        let (changes, events) = self.take_batch();
        let durability = std::mem::replace(&mut self.durability, Durability::Process);
        match (unborn, &self.stage) {
            (Some(record), _) => {
                let EngineContext { store, host, .. } = &self.shared;
                let writer = SessionWriter::create(store.clone(), record, changes, host.clone()).await?;
                self.stage = Stage::Kept(writer);
            }
            (None, Stage::Kept(writer)) => match self.heir.take_if(|_| is_given_up(&changes)) {
                None => append(writer, changes, durability).await?,
                Some(ScopeSuccessor { writer: heir, scope }) => {
                    let taken = vec![Change::Scope(Some(scope))];
                    writer.append_with(changes, &heir, taken, Durability::Machine).await?;
                }
            },
            (None, Stage::Unborn(..)) => {}
        }
        self.tail.publish(events);
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

/// Appends to a record. Opened again by its id, it has its scope again, unless somebody else has it meanwhile.
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

/// Whether a record leaves its scope to others with these changes.
fn is_given_up(changes: &[Change]) -> bool {
    changes
        .iter()
        .any(|change| matches!(change, Change::Lifecycle(lifecycle) if *lifecycle != Lifecycle::Open))
}

impl NewRecord {
    fn record(&self, lineage: Lineage, born: Timestamp) -> Record {
        Record {
            id: self.id.clone(),
            // What a user says of an agent's behaviour is said anew with every start.
            agent: self.agent.clone().with_profile(None),
            cwd: self.cwd.clone(),
            real_cwd: self.real_cwd.clone(),
            additional_directories: self.additional_directories.clone(),
            scope: self.scope.clone(),
            mcp_servers: self.mcp_servers.clone(),
            title: None,
            lifecycle: Lifecycle::Open,
            lineage,
            agent_run: None,
            settings: crate::model::RecordSettings::default(),
            memory: crate::model::AgentMemory::default(),
            restore_error: None,
            created_at: born,
            updated_at: born,
            last_seq: None,
            last_turn: None,
            answered_turns: 0,
        }
    }
}
