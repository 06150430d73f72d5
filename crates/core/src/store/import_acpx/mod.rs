//! Sessions of npm acpx come along: its records and journals are read and become records of ours.
//!
//! The files are only ever read. Ids stay as they are. What was taken is noted in the store's ledger with the
//! time and size of each file, so a second import of the same files does nothing, and one of files that have
//! grown adds what is new. `docs/guide/importing.md` says what becomes of each part.

mod answer;
mod command;
mod direction;
mod directory;
mod importing;
mod journal;
mod keeping;
mod messages;
mod owner;
mod permission;
mod record;
mod report;
mod source;
mod taking;
mod telling;
mod transcript;

pub use importing::{
    HeldSession, ImportMode, ImportOptions, LivingProcess, NameOf, NpmSessions, RecordReservation, Reserve,
    import,
};
pub use report::{
    Damage, ImportError, ImportNote, ImportProblem, ImportReport, ImportedRecord, SkipReason, SkippedFile,
};
