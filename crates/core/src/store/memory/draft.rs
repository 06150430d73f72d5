//! The result of an append to a record in memory, checked completely before any of it is written.

use std::collections::{BTreeMap, HashMap};

use super::{MemoryRecord, Records};
use crate::model::{
    AgentMemory, AgentSpec, Event, Lifecycle, Record, RecordSettings, RequestId, Turn, TurnId,
};
use crate::store::progress::RecordProgress;
use crate::store::{Change, StoreError};

/// A record with its changes, not yet written.
pub(super) struct RecordDraft {
    record: Record,
    progress: RecordProgress,
    events: Vec<Event>,
    turns: BTreeMap<TurnId, Turn>,
    /// The stored conversation is erased.
    erases: bool,
}

impl RecordDraft {
    /// Applies changes to a copy of a record and checks them against the other records.
    pub(super) fn check(
        others: &Records,
        stored: &MemoryRecord,
        changes: Vec<Change>,
    ) -> Result<Self, StoreError> {
        let record = stored.record.clone();
        let Record { last_seq, last_turn, answered_turns, updated_at, .. } = record;
        let progress = RecordProgress::resume(last_seq, last_turn, answered_turns, updated_at);
        let mut draft = Self { record, progress, events: Vec::new(), turns: BTreeMap::new(), erases: false };
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
            Change::Title(title) => self.record.title = title,
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
            Change::Place { cwd, real_cwd } => {
                (self.record.cwd, self.record.real_cwd) = (cwd, real_cwd);
                refuse_taken_scope(others, &self.record)?;
            }
            Change::Settings(settings) => self.record.settings = settings,
            Change::Memory(memory) => self.record.memory = memory,
            Change::RestoreError(error) => self.record.restore_error = error,
            Change::AgentRun(run) => self.record.agent_run = Some(run),
            Change::SpokenAt(at) => self.progress.spoken(at),
            Change::AgentCommand { program, args, protocol } => {
                self.record.agent = AgentSpec { program, args, protocol, ..self.record.agent.clone() };
            }
        }
        Ok(())
    }

    /// Erases the conversation.
    fn erase(&mut self) {
        self.record.title = None;
        self.record.mcp_servers = Vec::new();
        self.record.settings = RecordSettings::default();
        self.record.memory = AgentMemory::default();
        self.record.restore_error = None;
        self.events = Vec::new();
        self.turns = BTreeMap::new();
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
    pub(super) fn write(mut self, stored: &mut MemoryRecord) {
        self.record.last_seq = self.progress.last_seq;
        self.record.last_turn = self.progress.last_turn;
        self.record.answered_turns = self.progress.answered_turns;
        self.record.updated_at = self.progress.updated_at;
        stored.record = self.record;
        if self.erases {
            stored.events = Vec::new();
            stored.turns = BTreeMap::new();
            stored.requests = HashMap::new();
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
pub(super) fn refuse_taken_scope(others: &Records, ours: &Record) -> Result<(), StoreError> {
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
