//! Whether a store is whole, asked of SQLite itself. A large file takes long to look through, so the look is bounded:
//! one that was not finished says so, and what it had found until then stands.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode};

use super::fault::SqliteFault;

/// How many problems are told.
const MOST: usize = 8;

/// What a look at a store has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreCheck {
    /// The format that the file has.
    pub format: i64,
    /// What is wrong with it, in the words of SQLite.
    pub problems: Vec<String>,
    /// Whether all of it was looked at.
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
    // Without somebody to stop it, a look might never end.
    let looked = match &watch {
        Ok(_) => look(connection, &mut problems),
        Err(_) => Ok(false),
    };
    drop(done);
    if let Ok(watch) = watch {
        // Whatever it was about to interrupt is over, so nothing else is interrupted later.
        drop(watch.join());
    }
    Ok(StoreCheck { format, problems, is_whole: looked? })
}

/// Whether it came to the end.
fn look(connection: &Connection, problems: &mut Vec<String>) -> Result<bool, SqliteFault> {
    let mut statement = connection.prepare(&format!("PRAGMA quick_check({MOST})"))?;
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
