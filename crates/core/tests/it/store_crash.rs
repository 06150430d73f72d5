//! A process that is killed at any moment loses nothing it has acknowledged and leaves nothing half written.
//!
//! The writer that is to die is the example `store_writer`. The store grows from one life to the next, so what a
//! killed writer leaves is also what the next one begins with.
#![cfg(test)]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use acpx_core::model::{Record, Seq};
use acpx_core::store::{Access, SqliteStore, Store};

use crate::examples;

#[path = "../../examples/store_writer/expected.rs"]
mod expected;

use expected::{APPEND, NAMES, TURN, ended_turn, event, record, running_turn, turn_of};

const LIVES: u64 = 250;

#[tokio::test]
async fn writer_killed_at_any_moment_leaves_acknowledged_events_whole() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("store.db");
    let mut checked = [0; NAMES.len()];
    let mut random = 0x2545_F491_4F6C_DD1D_u64;
    for life in 0..LIVES {
        // A fixed walk through the numbers, so that a failure comes back.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let acknowledged = write_and_die(&path, random % 60);
        let store = SqliteStore::open(&path, Access::ReadWrite);
        let store = store.unwrap_or_else(|error| panic!("life {life}: {error}"));
        for (number, acknowledged) in acknowledged.into_iter().enumerate() {
            let everything = life + 1 == LIVES;
            let from = if everything { 1 } else { checked[number] + 1 };
            let last = check(&store, number, from).await;
            let kept = acknowledged.max(checked[number]);
            // At most the one append that was on its way may be there beyond what was acknowledged.
            assert!((kept..=kept + APPEND).contains(&last), "life {life}: {kept} was kept, {last} is there");
            checked[number] = last;
        }
    }
    assert!(checked.iter().all(|last| *last > LIVES), "too little was written to mean anything: {checked:?}");
}

/// Starts a writer and kills it after some acknowledgements; the last event each record had acknowledged.
fn write_and_die(path: &Path, patience: u64) -> [u64; NAMES.len()] {
    let mut child = store_writer("write", path).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut acknowledged = [0; NAMES.len()];
    // The lines that were still in the pipe when the writer died count too.
    for (seen, line) in (0..).zip(lines) {
        if seen == patience {
            child.kill().unwrap();
        }
        let line = line.unwrap();
        let Some(place) = line.strip_prefix("kept ") else { continue };
        let (number, last) = place.split_once(' ').unwrap();
        acknowledged[number.parse::<usize>().unwrap()] = last.parse().unwrap();
    }
    assert!(!child.wait().unwrap().success(), "the writer ended by itself");
    acknowledged
}

/// Compares a record with what must be there, its events from `from` on; the number of its last event.
async fn check(store: &SqliteStore, number: usize, from: u64) -> u64 {
    let new = record(number);
    let id = new.id.clone();
    let Some(found) = store.record(id.clone()).await.unwrap() else { return 0 };
    let last = found.last_seq.map_or(0, |seq| seq.0);
    let expected = Record {
        last_seq: found.last_seq,
        last_turn: (last > 0).then(|| turn_of(last)),
        answered_turns: last / TURN,
        // Updates come a millisecond apart, and move the time once a second.
        updated_at: if last >= 1000 { event(number, last - last % 1000).at } else { new.updated_at },
        ..new
    };
    assert_eq!(found, expected);
    let open = (!last.is_multiple_of(TURN)).then(|| running_turn(last));
    assert_eq!(store.open_turns(id.clone()).await.unwrap(), Vec::from_iter(open));
    if let Some(ended) = last.checked_sub(last % TURN).filter(|ended| *ended > 0).map(ended_turn) {
        assert_eq!(store.turn(id.clone(), ended.request.clone()).await.unwrap(), Some(ended));
    }
    let mut next = from;
    loop {
        let page = store.events(id.clone(), Seq(next), 256).await.unwrap();
        if page.is_empty() {
            break;
        }
        for found in page {
            assert!(found == event(number, next), "event {next} is not what was written");
            next += 1;
        }
    }
    assert_eq!(next, last.max(from - 1) + 1);
    last
}

#[test]
fn many_processes_may_make_one_store_at_once() {
    for _ in 0..10 {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("new/store.db");
        let start = || store_writer("open", &path).stdout(Stdio::null()).spawn().unwrap();
        let children: Vec<_> = (0..6).map(|_| start()).collect();
        for mut child in children {
            assert!(child.wait().unwrap().success());
        }
        SqliteStore::open(&path, Access::ReadOnly).unwrap();
    }
}

#[test]
fn process_killed_while_creating_the_store_leaves_it_creatable() {
    for step in 0..60 {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("new/store.db");
        let mut child = store_writer("open", &path).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // What follows this line is the making, of which each run lets a bit more happen.
        assert_eq!(lines.next().unwrap().unwrap(), "opening");
        let begin = Instant::now();
        while begin.elapsed() < step * Duration::from_micros(100) {
            std::hint::spin_loop();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        SqliteStore::open(&path, Access::ReadWrite).unwrap_or_else(|error| panic!("step {step}: {error}"));
        SqliteStore::open(&path, Access::ReadOnly).unwrap();
    }
}

fn store_writer(work: &str, path: &Path) -> Command {
    let mut command = Command::new(examples::program("store_writer"));
    command.arg(work).arg(path);
    command
}
