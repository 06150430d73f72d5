//! Verifies a whole store: SQLite's own check of the file, and then every row of acpx with the checks that a reader has.
//! A damaged record does not end the verification; the others are read too.
//!
//! It runs in one read transaction, so a store in use is verified as it was at one moment.

use std::fmt;

use rusqlite::Connection;

use super::backup::StoreProgress;
use super::cells::{Cells, Columns};
use super::check::{self, CheckDepth};
use super::fault::SqliteFault;
use super::ledger::IMPORT;
use super::notifications::SINK;
use super::rows::LEASE;
use super::write::ANSWER;
use super::{notifications, read, schema};
use crate::model::{RecordId, Seq};
use crate::store::StoreError;

/// How many problems are reported.
const MOST: usize = 100;
/// How many events are read at once.
const PAGE: usize = 4096;

/// What a verification found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreVerification {
    /// The format of the file.
    pub format: i64,
    /// How many records there are, deleted ones aside.
    pub records: u64,
    /// How many deleted records keep their ids.
    pub deleted: u64,
    /// How many events were read.
    pub events: u64,
    /// How many turns were read.
    pub turns: u64,
    /// The damage, at most 100 entries.
    pub problems: Vec<StoreProblem>,
}

/// One damage of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreProblem {
    /// The damaged record, if it is one.
    pub record: Option<RecordId>,
    /// The damage.
    pub problem: String,
}

impl fmt::Display for StoreProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.record {
            Some(record) => write!(f, "session {record}: {}", self.problem),
            None => f.write_str(&self.problem),
        }
    }
}

impl StoreVerification {
    fn note(&mut self, record: Option<&RecordId>, problem: impl Into<String>) {
        if self.problems.len() < MOST {
            self.problems.push(StoreProblem { record: record.cloned(), problem: problem.into() });
        }
    }

    /// Notes damage. An error that is no damage ends the verification.
    fn note_fault(&mut self, record: Option<&RecordId>, fault: SqliteFault) -> Result<(), SqliteFault> {
        match fault.damage() {
            Ok(problem) => {
                self.note(record, problem);
                Ok(())
            }
            Err(fault) => Err(fault),
        }
    }
}

/// Verifies the whole file.
pub(super) fn verify(
    connection: &Connection,
    progress: &StoreProgress,
) -> Result<StoreVerification, SqliteFault> {
    let mut found = StoreVerification { format: schema::format(connection)?, ..StoreVerification::default() };
    let mut problems = Vec::new();
    if let Err(fault) = check::look(connection, CheckDepth::Whole, &mut problems) {
        found.note_fault(None, fault)?;
    }
    for problem in problems {
        found.note(None, problem);
    }
    if let Err(fault) = relations(connection, &mut found) {
        found.note_fault(None, fault)?;
    }
    if let Err(fault) = records(connection, &mut found, progress) {
        found.note_fault(None, fault)?;
    }
    for rows in [
        rows_of(connection, &LEASE),
        rows_of(connection, &IMPORT),
        rows_of(connection, &ANSWER),
        notifications::verify(connection),
        rows_of(connection, &SINK),
    ] {
        if let Err(fault) = rows {
            found.note_fault(None, fault)?;
        }
    }
    Ok(found)
}

/// Rows of other tables whose record is missing, events whose turn is missing, exchanges that no record continues, and
/// long texts that no row has.
fn relations(connection: &Connection, found: &mut StoreVerification) -> Result<(), SqliteFault> {
    let relations = [
        ("events", "SELECT count(*) FROM events WHERE key >> 40 NOT IN (SELECT key FROM records)"),
        (
            "exchange_folds",
            "SELECT count(*) FROM exchange_folds WHERE record NOT IN (SELECT key FROM records)",
        ),
        ("turns", "SELECT count(*) FROM turns WHERE record NOT IN (SELECT key FROM records)"),
        ("lineage", "SELECT count(*) FROM lineage WHERE record NOT IN (SELECT key FROM records)"),
        ("notifications", "SELECT count(*) FROM notifications WHERE record NOT IN (SELECT key FROM records)"),
        ("leases", "SELECT count(*) FROM leases WHERE record NOT IN (SELECT key FROM records)"),
        (
            "exchanges",
            "SELECT count(*) FROM exchanges WHERE key >> 40 NOT IN (SELECT record FROM exchange_folds)",
        ),
        (
            "blobs",
            "SELECT count(*) FROM blobs WHERE hash NOT IN (SELECT blob FROM events WHERE blob IS NOT NULL) \
             AND hash NOT IN (SELECT prompt_blob FROM turns WHERE prompt_blob IS NOT NULL)",
        ),
    ];
    for (table, statement) in relations {
        let lost: i64 = connection.query_row(statement, [], |row| row.get(0))?;
        if lost > 0 {
            found.note(None, format!("{lost} rows of {table} belong to no session"));
        }
    }
    let without_turn: i64 = connection.query_row(
        "SELECT count(*) FROM events WHERE turn IS NOT NULL AND NOT EXISTS \
         (SELECT 1 FROM turns WHERE turns.record = events.key >> 40 AND turns.turn = events.turn)",
        [],
        |row| row.get(0),
    )?;
    if without_turn > 0 {
        found.note(None, format!("{without_turn} events belong to a turn that is missing"));
    }
    Ok(())
}

/// Every record with its lineage, events and turns.
fn records(
    connection: &Connection,
    found: &mut StoreVerification,
    progress: &StoreProgress,
) -> Result<(), SqliteFault> {
    let total: i64 = connection.query_row("SELECT count(*) FROM events", [], |row| row.get(0))?;
    let mut statement = connection.prepare("SELECT id FROM records ORDER BY key")?;
    let mut ids = statement.query([])?;
    while let Some(row) = ids.next()? {
        let Ok(id) = RecordId::new(row.get::<_, String>(0)?) else {
            found.note(None, "a record has no id");
            continue;
        };
        let verified = record(connection, &id, found);
        if let Err(fault) = verified {
            found.note_fault(Some(&id), fault)?;
        }
        progress.set(found.events, u64::try_from(total).unwrap_or(0));
    }
    Ok(())
}

fn record(connection: &Connection, id: &RecordId, found: &mut StoreVerification) -> Result<(), SqliteFault> {
    let stored = read::record(connection, id)?.ok_or_else(|| StoreError::NoRecord(id.clone()))?;
    if stored.lifecycle.is_deleted() {
        found.deleted += 1;
    } else {
        found.records += 1;
    }
    let mut next = Seq::FIRST;
    loop {
        let page = read::events(connection, id, next, PAGE)?;
        let Some(last) = page.last() else { break };
        found.events += page.len() as u64;
        next = last.seq.next();
    }
    found.turns += read::turns(connection, id)?;
    read::exchanges(connection, id)?;
    read::open_turns(connection, id).map(drop)
}

/// Every row of a table that belongs to no single record.
fn rows_of<const N: usize>(connection: &Connection, columns: &'static Columns<N>) -> Result<(), SqliteFault> {
    let mut statement = connection.prepare(&format!("SELECT {} FROM {}", columns.list, columns.table))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        Cells::read(row, 0, columns)?;
    }
    Ok(())
}
