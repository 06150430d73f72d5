//! The store's side of an import: reads the stored part of a record and writes more of it.

use super::import_record::ImportContext;
use super::report::ImportNote;
use super::run::ImportMode;
use super::to_changes::RecordImport;
use super::transcript::ImportEvent;
use crate::model::{Event, Lineage, Record, RecordId, Seq};
use crate::store::{Change, Durability, Lease, SqliteStore, Store, StoreError};

/// How many stored events are read at a time.
const PAGE: usize = 4096;

/// The record that an import writes to.
#[derive(Debug)]
pub(super) enum Destination {
    /// It does not exist yet; the first write creates it.
    New(Box<Record>),
    /// It exists. The first write takes its lease.
    Stored(Box<Record>),
    /// The import holds its lease.
    Leased(Lease),
}

impl Destination {
    pub(super) fn id(&self) -> RecordId {
        match self {
            Self::New(record) | Self::Stored(record) => record.id.clone(),
            Self::Leased(lease) => lease.record().clone(),
        }
    }

    /// Writes changes; `false` if another writer has written to the record since it was read. `lineage` is the
    /// lineage of a new record. A dry run writes nothing.
    pub(super) async fn write(
        &mut self,
        context: &ImportContext<'_>,
        lineage: Lineage,
        changes: Vec<Change>,
        durability: Durability,
        notes: &mut Vec<ImportNote>,
    ) -> Result<bool, StoreError> {
        if context.options.mode == ImportMode::DryRun {
            return Ok(true);
        }
        let (store, host) = (context.store, context.options.host.clone());
        match self {
            Self::New(record) => {
                record.lineage = lineage;
                let created = store.create(record.as_ref().clone(), changes.clone(), host.clone()).await;
                let lease = match created {
                    // Another record took the scope in between; this one is found only by its id.
                    Err(StoreError::ScopeTaken { record: by }) => {
                        notes.push(ImportNote::ScopeTaken { by });
                        record.scope = None;
                        store.create(record.as_ref().clone(), changes, host).await?
                    }
                    created => created?,
                };
                *self = Self::Leased(lease);
                return Ok(true);
            }
            Self::Stored(_) | Self::Leased(_) if changes.is_empty() => return Ok(true),
            Self::Stored(record) => {
                let lease = store.lease(record.id.clone(), host).await?;
                let now = store.record(record.id.clone()).await?;
                if now.is_none_or(|now| now != **record) {
                    return Ok(false);
                }
                *self = Self::Leased(lease);
            }
            Self::Leased(_) => {}
        }
        if let Self::Leased(lease) = self {
            store.append(lease.clone(), changes, durability).await?;
        }
        Ok(true)
    }
}

/// Reads the stored events of a record in order.
#[derive(Debug)]
pub(super) struct RecordEventReader {
    record: RecordId,
    page: std::vec::IntoIter<Event>,
}

impl RecordEventReader {
    pub(super) fn of(record: RecordId) -> Self {
        Self { record, page: Vec::new().into_iter() }
    }

    /// Looks for a line of the journal among the stored events. Events that acpx added without a turn, such as those
    /// of a restore or of a setting, may precede it and are skipped.
    pub(super) async fn find(
        &mut self,
        store: &SqliteStore,
        import: &mut RecordImport,
        line: &ImportEvent,
    ) -> Result<JournalMatch, StoreError> {
        while let Some(seq) = import.next_stored() {
            let Some(event) = self.next(store, seq).await? else { return Ok(JournalMatch::Diverged) };
            let ImportEvent { turn, direction, kind, body } = line;
            let is_same = event.turn == *turn
                && event.direction == *direction
                && event.kind == *kind
                && event.body == *body;
            if is_same {
                import.skip_event();
                return Ok(JournalMatch::Stored);
            }
            if event.turn.is_some() {
                return Ok(JournalMatch::Diverged);
            }
            import.skip_own_event();
        }
        Ok(if import.has_other_session() { JournalMatch::Diverged } else { JournalMatch::New })
    }

    /// Skips the stored events after the last line of the journal; returns whether acpx added all of them without a
    /// turn.
    pub(super) async fn has_no_own_turn(
        &mut self,
        store: &SqliteStore,
        import: &mut RecordImport,
    ) -> Result<bool, StoreError> {
        while let Some(seq) = import.next_stored() {
            if self.next(store, seq).await?.is_none_or(|event| event.turn.is_some()) {
                return Ok(false);
            }
            import.skip_own_event();
        }
        Ok(!import.has_other_session())
    }

    async fn next(&mut self, store: &SqliteStore, seq: Seq) -> Result<Option<Event>, StoreError> {
        if self.page.as_slice().is_empty() {
            self.page = store.events(self.record.clone(), seq, PAGE).await?.into_iter();
        }
        Ok(self.page.next().filter(|event| event.seq == seq))
    }
}

/// The position of a journal line relative to the stored events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JournalMatch {
    /// It is already stored.
    Stored,
    /// It comes after all stored events.
    New,
    /// The record has diverged from the journal.
    Diverged,
}
