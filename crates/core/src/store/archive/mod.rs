//! Archives of single sessions: one JSON document in npm acpx's format 1, so that both programs read it.
//!
//! `session` and `history` are npm acpx's. The member `acpx` has the rest of a record of ours: its titles, lineage,
//! settings and turns, and one row for each event, whose line is the next one of `history` unless the event is a fact.
//! npm acpx ignores the member, and an archive without it is read as one of npm acpx.
//!
//! An archive is untrusted. It names no command that acpx runs and no file that acpx reads; the program that imports it
//! decides which directory the session gets. Its size is not bounded, but the memory for reading it is. It is checked to its end before anything is
//! written, and then written in one transaction.

mod damage;
mod import;
mod layout;
mod npm_changes;
mod own_changes;
mod own_record;
mod scanner;
mod summary;

pub use damage::ImportArchiveError;
pub use import::{ArchiveDestination, ImportedArchive, import_archive};
pub use layout::{ArchiveHead, SessionArchive};
pub use own_record::{event_row, record_object, turn_object};

/// The version of npm acpx's archive format.
pub const FORMAT_VERSION: u64 = 1;
