//! Imports sessions of npm acpx: reads its records and journals and stores them as records.
//!
//! The files are only read, and ids do not change. The store's ledger has the time and size of each imported file, so
//! a second import of the same files does nothing, and one of files that have grown adds what is new.
//! `docs/guide/importing.md` describes the conversion.

mod answer;
pub(super) mod archived;
mod direction;
mod directory;
mod import_record;
mod journal;
mod messages;
mod owner;
mod record;
mod report;
mod run;
mod source;
mod target;
mod to_changes;
mod transcript;

pub use report::{
    Damage, ImportError, ImportNote, ImportProblem, ImportReport, ImportedRecord, SkipReason, SkippedFile,
};
pub use run::{HeldSession, ImportMode, ImportOptions, NpmSessions, import};
pub(crate) use run::{RecordReservation, Reserve};
