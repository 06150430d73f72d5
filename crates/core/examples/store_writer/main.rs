//! A process to be killed: it opens a store and says so before it does, or goes on to write to it and says what
//! was acknowledged. The tests of crashes start it and look at what it leaves.
//!
//!     store_writer open|write FILE

mod expected;

use std::error::Error;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use acpx_core::model::HostId;
use acpx_core::store::{Access, Change, Durability, SessionWriter, SqliteStore, Store};

use expected::{APPEND, NAMES, TURN, ended_turn, event, record, running_turn};

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let (work, path) = (arguments.next(), arguments.next().map(PathBuf::from));
    let (Some(work), Some(path)) = (work, path) else { return Err("store_writer open|write FILE".into()) };
    say("opening")?;
    let store = Arc::new(SqliteStore::open(&path, Access::ReadWrite)?);
    match work.as_str() {
        "open" => Ok(()),
        "write" => tokio::runtime::Builder::new_current_thread().build()?.block_on(write(store)),
        other => Err(format!("{other} is neither open nor write").into()),
    }
}

/// Writes to all the records at once, without end.
async fn write(store: Arc<SqliteStore>) -> Result<(), Failure> {
    let writers = (0..NAMES.len()).map(|number| tokio::spawn(append_for_ever(Arc::clone(&store), number)));
    for writer in writers.collect::<Vec<_>>() {
        writer.await??;
    }
    Ok(())
}

/// Says each append that was acknowledged: its record and its last event.
async fn append_for_ever(store: Arc<SqliteStore>, number: usize) -> Result<(), Failure> {
    let (new, host) = (record(number), HostId::new("h")?);
    let (writer, mut last) = match store.record(new.id.clone()).await? {
        Some(found) => {
            let last = found.last_seq.map_or(0, |seq| seq.0);
            (SessionWriter::lease(store, new.id, host).await?, last)
        }
        None => (SessionWriter::create(store, new, Vec::new(), host).await?, 0),
    };
    loop {
        let first = last + 1;
        last += 1 + (first * 31) % APPEND;
        let changes = (first..=last).flat_map(|seq| changes_at(number, seq)).collect();
        let durability = if last.is_multiple_of(5) { Durability::Machine } else { Durability::Process };
        writer.append(changes, durability).await?;
        say(&format!("kept {number} {last}"))?;
    }
}

/// What is written with one event.
fn changes_at(number: usize, seq: u64) -> Vec<Change> {
    let mut changes = vec![Change::Event(event(number, seq))];
    if seq % TURN == 1 {
        changes.push(Change::Turn(running_turn(seq)));
    }
    if seq.is_multiple_of(TURN) {
        changes.push(Change::Turn(ended_turn(seq)));
    }
    changes
}

/// A line that is out before anything else happens.
fn say(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}
