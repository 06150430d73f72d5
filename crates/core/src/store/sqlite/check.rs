//! Checks the integrity of a store with SQLite's own check. A large file takes long, so the check is bounded: an
//! unfinished one is marked as such and keeps the problems found until then.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode};

use super::fault::SqliteFault;

/// How many problems are reported.
const MOST: usize = 8;

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreCheck {
    /// The format of the file.
    pub format: i64,
    /// The problems, as SQLite reports them.
    pub problems: Vec<String>,
    /// Whether the check was completed.
    pub is_whole: bool,
}

pub(super) fn check(connection: &Connection, limit: Duration) -> Result<StoreCheck, SqliteFault> {
    let format = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let interrupt = connection.get_interrupt_handle();
    let (done, wait) = mpsc::sync_channel::<()>(1);
    let watch = thread::Builder::new().name("acpx-store-check".to_owned()).spawn(move || {
        if wait.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout) {
            interrupt.interrupt();
        }
    });
    let mut problems = Vec::new();
    // Without the watching thread, a check might never end.
    let looked = match &watch {
        Ok(_) => look(connection, CheckDepth::Quick, &mut problems),
        Err(_) => Ok(false),
    };
    drop(done);
    if let Ok(watch) = watch {
        // After the join nothing can be interrupted any more.
        drop(watch.join());
    }
    Ok(StoreCheck { format, problems, is_whole: looked? })
}

/// How much SQLite checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CheckDepth {
    /// The pages.
    Quick,
    /// The pages, and that every index has the rows of its table.
    Whole,
}

/// Collects the problems, and returns whether the check was completed.
pub(super) fn look(
    connection: &Connection,
    depth: CheckDepth,
    problems: &mut Vec<String>,
) -> Result<bool, SqliteFault> {
    let check = match depth {
        CheckDepth::Quick => "quick_check",
        CheckDepth::Whole => "integrity_check",
    };
    let mut statement = connection.prepare(&format!("PRAGMA {check}({MOST})"))?;
    let mut rows = statement.query([])?;
    loop {
        match rows.next() {
            Ok(None) => return Ok(true),
            Ok(Some(row)) => {
                let words: String = row.get(0)?;
                if words != "ok" {
                    problems.push(words);
                }
            }
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) => {
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        }
    }
}
