//! A store that lives and dies with its process: for one-shot runs and for tests. It keeps the whole contract
//! but the lasting.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::page::Page;
use super::progress::Progress;
use super::{Change, Durability, Lease, Store, StoreError, StoreFuture};
use crate::model::{Event, HostId, Record, RecordId, RequestId, Seq, Timestamp, Turn, TurnId};

/// Records in memory.
#[derive(Debug, Default)]
pub struct MemoryStore {
    kept: Mutex<BTreeMap<RecordId, Kept>>,
}

#[derive(Debug)]
struct Kept {
    record: Record,
    generation: u64,
    events: Vec<Event>,
    turns: BTreeMap<TurnId, Turn>,
    requests: HashMap<RequestId, TurnId>,
}

impl MemoryStore {
    /// A store with nothing in it.
    pub fn new() -> Self {
        Self::default()
    }

    /// Every change is checked before the first one is made, so a panic between two cannot leave a half.
    fn kept(&self) -> MutexGuard<'_, BTreeMap<RecordId, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read<T>(&self, id: RecordId, answer: impl FnOnce(&Kept) -> T) -> Result<T, StoreError> {
        self.kept().get(&id).map(answer).ok_or(StoreError::NoRecord(id))
    }
}

impl Store for MemoryStore {
    fn create(&self, mut record: Record, changes: Vec<Change>, _host: HostId) -> StoreFuture<'_, Lease> {
        Box::pin(async move {
            let id = record.id.clone();
            record.last_seq = None;
            record.last_turn = None;
            record.answered_turns = 0;
            let generation = 1;
            let mut new = Kept {
                record,
                generation,
                events: Vec::new(),
                turns: BTreeMap::new(),
                requests: HashMap::new(),
            };
            let mut kept = self.kept();
            if kept.contains_key(&id) {
                return Err(StoreError::RecordExists(id));
            }
            let draft = Draft::check(&new, changes)?;
            draft.write(&mut new);
            kept.insert(id.clone(), new);
            Ok(Lease { record: id, generation })
        })
    }

    fn lease(&self, record: RecordId, _host: HostId) -> StoreFuture<'_, Lease> {
        Box::pin(async move {
            let mut kept = self.kept();
            match kept.get_mut(&record) {
                None => Err(StoreError::NoRecord(record)),
                Some(found) => {
                    found.generation += 1;
                    Ok(Lease { record, generation: found.generation })
                }
            }
        })
    }

    fn append(&self, lease: Lease, changes: Vec<Change>, _durability: Durability) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let Lease { record, generation: ours } = lease;
            let mut kept = self.kept();
            let Some(found) = kept.get_mut(&record) else { return Err(StoreError::NoRecord(record)) };
            if found.generation != ours {
                return Err(StoreError::LeaseLost { record, ours, current: found.generation });
            }
            let draft = Draft::check(found, changes)?;
            draft.write(found);
            Ok(())
        })
    }

    fn record(&self, id: RecordId) -> StoreFuture<'_, Option<Record>> {
        Box::pin(async move { Ok(self.kept().get(&id).map(|found| found.record.clone())) })
    }

    fn records(&self, after: Option<(Timestamp, RecordId)>, limit: usize) -> StoreFuture<'_, Vec<Record>> {
        Box::pin(async move {
            let place = |record: &Record| (record.updated_at, record.id.clone());
            let kept = self.kept();
            let mut rest: Vec<&Record> = kept
                .values()
                .map(|found| &found.record)
                .filter(|record| after.as_ref().is_none_or(|after| place(record) < *after))
                .collect();
            rest.sort_by_key(|record| std::cmp::Reverse(place(record)));
            Ok(rest.into_iter().take(limit).cloned().collect())
        })
    }

    fn events(&self, record: RecordId, from: Seq, limit: usize) -> StoreFuture<'_, Vec<Event>> {
        Box::pin(async move {
            self.read(record, |found| {
                let skipped = usize::try_from(from.0.saturating_sub(1)).unwrap_or(usize::MAX);
                let mut page = Page::new(limit);
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

    fn open_turns(&self, record: RecordId) -> StoreFuture<'_, Vec<Turn>> {
        Box::pin(async move {
            self.read(record, |found| found.turns.values().filter(|turn| turn.is_open()).cloned().collect())
        })
    }

    fn turn(&self, record: RecordId, request: RequestId) -> StoreFuture<'_, Option<Turn>> {
        Box::pin(async move {
            self.read(record, |found| {
                found.requests.get(&request).and_then(|turn| found.turns.get(turn)).cloned()
            })
        })
    }
}

/// What an append will make of a record, checked against it and not yet written.
struct Draft {
    record: Record,
    progress: Progress,
    events: Vec<Event>,
    turns: BTreeMap<TurnId, Turn>,
}

impl Draft {
    fn check(kept: &Kept, changes: Vec<Change>) -> Result<Self, StoreError> {
        let record = kept.record.clone();
        let Record { last_seq, last_turn, answered_turns, updated_at, .. } = record;
        let progress = Progress::resume(last_seq, last_turn, answered_turns, updated_at);
        let mut draft = Self { record, progress, events: Vec::new(), turns: BTreeMap::new() };
        for change in changes {
            draft.take(kept, change)?;
        }
        Ok(draft)
    }

    fn take(&mut self, kept: &Kept, change: Change) -> Result<(), StoreError> {
        match change {
            Change::Event(event) => {
                self.progress.event(&self.record.id, &event)?;
                self.events.push(event);
            }
            Change::Turn(turn) => {
                if self.holder(kept, &turn.request).is_some_and(|holder| holder != turn.id) {
                    let (record, request) = (self.record.id.clone(), turn.request);
                    return Err(StoreError::RequestExists { record, request });
                }
                let before = self.turns.get(&turn.id).or_else(|| kept.turns.get(&turn.id));
                self.progress.turn(before, &turn);
                self.turns.insert(turn.id, turn);
            }
            Change::Lineage(lineage) => {
                self.progress.lineage(&self.record.id, &self.record.lineage, &lineage)?;
                self.record.lineage = lineage;
            }
            Change::Title(title) => self.record.title = title,
            Change::McpServers(names) => self.record.mcp_servers = names,
            Change::Lifecycle(lifecycle) => {
                self.progress.lifecycle(lifecycle);
                self.record.lifecycle = lifecycle;
            }
        }
        Ok(())
    }

    /// The turn that has a request id, as things will stand.
    fn holder(&self, kept: &Kept, request: &RequestId) -> Option<TurnId> {
        let drafted = self.turns.values().find(|turn| turn.request == *request).map(|turn| turn.id);
        let as_kept = kept.requests.get(request).filter(|turn| !self.turns.contains_key(turn));
        drafted.or(as_kept.copied())
    }

    fn write(mut self, kept: &mut Kept) {
        self.record.last_seq = self.progress.last_seq;
        self.record.last_turn = self.progress.last_turn;
        self.record.answered_turns = self.progress.answered_turns;
        self.record.updated_at = self.progress.updated_at;
        kept.record = self.record;
        kept.events.extend(self.events);
        for id in self.turns.keys() {
            // A turn may come back under another request id: the one it had is free again.
            if let Some(before) = kept.turns.get(id) {
                kept.requests.remove(&before.request);
            }
        }
        for (id, turn) in self.turns {
            kept.requests.insert(turn.request.clone(), id);
            kept.turns.insert(id, turn);
        }
    }
}
