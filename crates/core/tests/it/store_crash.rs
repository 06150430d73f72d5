//! A process that is killed at any moment loses nothing it has acknowledged and leaves nothing half written.
//!
//! The test binary starts itself again as the writer that is to die. The store grows from one life to the
//! next, so what a killed writer leaves is also what the next one begins with.
#![cfg(test)]

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use acpx_core::model::{Event, Record, Seq, Turn, TurnId, TurnState};
use acpx_core::store::{Access, Change, Durability, SessionWriter, SqliteStore, Store};

use crate::store_contract::samples::{dispatched, event, host, id, record, stopped, turn};

/// Where the child finds its store; without it the child has nothing to do.
const PLACE: &str = "ACPX_TEST_CRASH_STORE";
const LIVES: u64 = 250;
const NAMES: [&str; 3] = ["r0", "r1", "r2"];
/// Events of one turn.
const TURN: u64 = 7;
/// Events of the largest append.
const APPEND: u64 = 40;

/// The writer that is killed. Each line on stdout is an append that was acknowledged: its record and its last
/// event.
#[expect(clippy::disallowed_methods, reason = "a test that starts itself has no other way to hand on a path")]
#[tokio::test]
async fn child_writer() {
    let Some(path) = env::var_os(PLACE).map(PathBuf::from) else { return };
    let store = Arc::new(SqliteStore::open(&path, Access::ReadWrite).unwrap());
    let lives = (0..NAMES.len()).map(|number| tokio::spawn(append_for_ever(Arc::clone(&store), number)));
    for life in lives.collect::<Vec<_>>() {
        life.await.unwrap();
    }
}

async fn append_for_ever(store: Arc<SqliteStore>, number: usize) {
    let name = NAMES[number];
    let (writer, mut last) = match store.record(id(name)).await.unwrap() {
        Some(found) => {
            let last = found.last_seq.map_or(0, |seq| seq.0);
            (SessionWriter::lease(store, id(name), host("h")).await.unwrap(), last)
        }
        None => (SessionWriter::create(store, record(name, 5), Vec::new(), host("h")).await.unwrap(), 0),
    };
    loop {
        let first = last + 1;
        last += 1 + (first * 31) % APPEND;
        let changes = (first..=last).flat_map(|seq| changes_at(number, seq)).collect();
        let durability = if last.is_multiple_of(5) { Durability::Machine } else { Durability::Process };
        writer.append(changes, durability).await.unwrap();
        let mut out = std::io::stdout().lock();
        writeln!(out, "kept {number} {last}").unwrap();
        out.flush().unwrap();
    }
}

/// What is written with one event: everything follows from its number, so a reader can tell what must be there.
fn changes_at(number: usize, seq: u64) -> Vec<Change> {
    let mut changes = vec![Change::Event(expected_event(number, seq))];
    if seq % TURN == 1 {
        changes.push(Change::Turn(expected_turn(seq, dispatched())));
    }
    if seq.is_multiple_of(TURN) {
        changes.push(Change::Turn(expected_turn(seq, stopped("end_turn"))));
    }
    changes
}

fn expected_event(number: usize, seq: u64) -> Event {
    // Now and then one that goes into a blob.
    let length = if seq.is_multiple_of(397) { 70_000 } else { (seq * 13) % 600 };
    let body = format!("{number}:{seq}:{}", "abcdefg".repeat(usize::try_from(length / 7).unwrap()));
    Event { turn: Some(turn_of(seq)), ..event(seq, body) }
}

fn turn_of(seq: u64) -> TurnId {
    TurnId((seq - 1) / TURN + 1)
}

fn expected_turn(seq: u64, state: TurnState) -> Turn {
    let number = turn_of(seq).0;
    turn(number, &format!("q{number}"), state)
}

#[tokio::test]
async fn killed_at_any_moment_a_writer_leaves_all_it_acknowledged_and_no_half() {
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
    let mut child = child("store_crash::child_writer", path).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut acknowledged = [0; NAMES.len()];
    // The lines that were still in the pipe when the writer died count too.
    for (seen, line) in (0..).zip(lines) {
        if seen == patience {
            child.kill().unwrap();
        }
        // The harness writes lines of its own, and the first acknowledgement stands at the end of one.
        let line = line.unwrap();
        let Some((_, place)) = line.split_once("kept ") else { continue };
        let (number, last) = place.split_once(' ').unwrap();
        acknowledged[number.parse::<usize>().unwrap()] = last.parse().unwrap();
    }
    assert!(!child.wait().unwrap().success(), "the writer ended by itself");
    acknowledged
}

/// Compares a record with what must be there, its events from `from` on; the number of its last event.
async fn check(store: &SqliteStore, number: usize, from: u64) -> u64 {
    let record_id = id(NAMES[number]);
    let Some(found) = store.record(record_id.clone()).await.unwrap() else { return 0 };
    let last = found.last_seq.map_or(0, |seq| seq.0);
    let turns = (last > 0).then(|| turn_of(last));
    let expected = Record {
        last_seq: found.last_seq,
        last_turn: turns,
        answered_turns: last / TURN,
        updated_at: if last > 0 { event(last, "").at } else { record("any", 5).updated_at },
        ..record(NAMES[number], 5)
    };
    assert_eq!(found, expected);
    let open = (!last.is_multiple_of(TURN)).then(|| expected_turn(last, dispatched()));
    assert_eq!(store.open_turns(record_id.clone()).await.unwrap(), Vec::from_iter(open));
    let mut next = from;
    loop {
        let page = store.events(record_id.clone(), Seq(next), 256).await.unwrap();
        if page.is_empty() {
            break;
        }
        for found in page {
            assert!(found == expected_event(number, next), "event {next} is not what was written");
            next += 1;
        }
    }
    assert_eq!(next, last.max(from - 1) + 1);
    last
}

/// A process that opens the store, no more.
#[expect(clippy::disallowed_methods, reason = "a test that starts itself has no other way to hand on a path")]
#[test]
fn child_opener() {
    let Some(path) = env::var_os(PLACE).map(PathBuf::from) else { return };
    SqliteStore::open(&path, Access::ReadWrite).unwrap();
}

#[test]
fn many_processes_may_make_one_store_at_once() {
    for _ in 0..10 {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("new/store.db");
        let start = || child("store_crash::child_opener", &path).stdout(Stdio::null()).spawn().unwrap();
        let children: Vec<_> = (0..6).map(|_| start()).collect();
        for mut child in children {
            assert!(child.wait().unwrap().success());
        }
        SqliteStore::open(&path, Access::ReadOnly).unwrap();
    }
}

#[test]
fn killed_while_it_makes_the_store_a_process_leaves_one_that_can_be_made() {
    for step in 0..60 {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("new/store.db");
        let mut child = child("store_crash::child_opener", &path).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // The harness announces the test; what follows is the making, of which each run lets a bit more happen.
        assert!(lines.any(|line| line.unwrap().starts_with("running")));
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

/// This binary again, to run one of its tests on the store at `path`.
fn child(test: &str, path: &Path) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(PLACE, path);
    command
}
