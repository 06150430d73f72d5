//! The store's side of an import: what is kept of a record already, and the way to write more of it.

use super::importing::ImportMode;
use super::report::ImportNote;
use super::taking::Taker;
use super::transcript::{Line, Step};
use crate::model::{Event, Lineage, Record, RecordId, Seq};
use crate::store::{Change, Durability, Lease, SqliteStore, Store, StoreError};

/// How many kept events are read at a time.
const PAGE: usize = 4096;

/// Where a record is written to.
#[derive(Debug)]
pub(super) enum Destination {
    /// It does not exist yet, and is made by the first write.
    Unborn(Box<Record>),
    /// It is there, as it was read. The first write takes its lease.
    Kept(Box<Record>),
    /// We are its writer.
    Ours(Lease),
}

impl Destination {
    pub(super) fn id(&self) -> RecordId {
        match self {
            Self::Unborn(record) | Self::Kept(record) => record.id.clone(),
            Self::Ours(lease) => lease.record().clone(),
        }
    }

    /// Writes changes; `false` if somebody else has written to the record since it was read. The lineage is the
    /// one a record begins with. A dry run writes nothing.
    pub(super) async fn write(
        &mut self,
        taker: &Taker<'_>,
        lineage: Lineage,
        changes: Vec<Change>,
        durability: Durability,
        notes: &mut Vec<ImportNote>,
    ) -> Result<bool, StoreError> {
        if taker.options.mode == ImportMode::DryRun {
            return Ok(true);
        }
        let (store, host) = (taker.store, taker.options.host.clone());
        match self {
            Self::Unborn(record) => {
                record.lineage = lineage;
                let created = store.create(record.as_ref().clone(), changes.clone(), host.clone()).await;
                let lease = match created {
                    // Somebody was faster; this one is found by its id.
                    Err(StoreError::ScopeTaken { record: by }) => {
                        notes.push(ImportNote::ScopeTaken { by });
                        record.scope = None;
                        store.create(record.as_ref().clone(), changes, host).await?
                    }
                    created => created?,
                };
                *self = Self::Ours(lease);
                return Ok(true);
            }
            Self::Kept(_) | Self::Ours(_) if changes.is_empty() => return Ok(true),
            Self::Kept(record) => {
                let lease = store.lease(record.id.clone(), host).await?;
                let now = store.record(record.id.clone()).await?;
                if now.is_none_or(|now| now != **record) {
                    return Ok(false);
                }
                *self = Self::Ours(lease);
            }
            Self::Ours(_) => {}
        }
        if let Self::Ours(lease) = self {
            store.append(lease.clone(), changes, durability).await?;
        }
        Ok(true)
    }
}

/// The events that are kept of a record, read in order.
#[derive(Debug)]
pub(super) struct KeptEvents {
    record: RecordId,
    page: std::vec::IntoIter<Event>,
}

impl KeptEvents {
    pub(super) fn of(record: RecordId) -> Self {
        Self { record, page: Vec::new().into_iter() }
    }

    /// Whether a step fits what is kept, where the event `seq` is the next. What is no event leaves no trace
    /// there that could be compared.
    pub(super) async fn agree(
        &mut self,
        store: &SqliteStore,
        seq: Seq,
        step: &Step,
    ) -> Result<bool, StoreError> {
        let Step::Line(Line { turn, direction, kind, body }) = step else { return Ok(true) };
        if self.page.as_slice().is_empty() {
            self.page = store.events(self.record.clone(), seq, PAGE).await?.into_iter();
        }
        let same = |event: Event| {
            event.seq == seq
                && event.turn == *turn
                && event.direction == *direction
                && event.kind == *kind
                && event.body == *body
        };
        Ok(self.page.next().is_some_and(same))
    }
}
