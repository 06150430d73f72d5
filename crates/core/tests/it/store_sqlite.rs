//! The SQLite store as a file: who may read it, what becomes of one that is damaged, locked, full, newer or
//! someone else's, and that many writers at once lose nothing.
#![cfg(test)]

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use acpx_core::model::{
    AgentKey, AgentRun, Event, EventKind, Lifecycle, ProcessIdentity, Record, Scope, Seq, SessionName,
    TurnState,
};
use acpx_core::store::{
    Access, Change, Durability, ReadThread, RecordFilter, SqliteOptions, SqliteStore, Store, StoreError,
};
use rusqlite::Connection;
use rusqlite::types::Value;
use tempfile::TempDir;

use crate::store_contract::samples::{all_events, at, event, events, host, id, record, request, turn};

/// A directory with the place of a store in it.
fn place() -> (TempDir, PathBuf) {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("store.db");
    (home, path)
}

fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(path, Access::ReadWrite).unwrap()
}

#[tokio::test]
async fn integrity_check_reports_a_whole_store_or_its_damage() {
    let (_home, path) = place();
    filled(&path, 200).await;
    let look = async |limit| SqliteStore::open(&path, Access::ReadOnly).unwrap().check(limit).await.unwrap();
    let whole = look(Duration::from_mins(1)).await;
    assert_eq!((whole.problems, whole.is_whole), (Vec::new(), true));
    let format: i64 =
        Connection::open(&path).unwrap().pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    assert_eq!(whole.format, format);
    // Damage in a page that is read for nothing else.
    let mut bytes = fs::read(&path).unwrap();
    let last = bytes.len() - 4096;
    bytes[last..].fill(0xff);
    fs::write(&path, bytes).unwrap();
    let looked = SqliteStore::open(&path, Access::ReadOnly).unwrap().check(Duration::from_mins(1)).await;
    match looked {
        Ok(look) => assert_ne!(look.problems, Vec::<String>::new()),
        Err(error) => assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}"),
    }
}

/// A store of one record with `count` events and a turn, closed again, so that all of it is in the one file.
async fn filled(path: &Path, count: u64) -> (Record, Vec<Event>) {
    let store = open(path);
    let mut changes = events(1, count);
    changes.push(Change::Turn(turn(1, "q", TurnState::Queued)));
    let agent_run = Some(AgentRun {
        process: ProcessIdentity { pid: 77, started: 5, boot: "boot".to_owned() },
        since: at(5),
        ended: None,
    });
    let scope = Some(Scope { agent: AgentKey::new("claude"), name: SessionName::new("name").ok() });
    store.create(Record { scope, agent_run, ..record("r", 5) }, changes, host("h")).await.unwrap();
    (store.record(id("r")).await.unwrap().unwrap(), all_events(&store, &id("r"), 100).await.unwrap())
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn corrupt_problem(opened: Result<SqliteStore, StoreError>, expected: &Path) -> String {
    match opened.unwrap_err() {
        StoreError::Corrupt { path, problem } if path == expected => problem,
        other => panic!("not taken for damage: {other:?}"),
    }
}

/// Opens both ways; each must find the damage and leave the file as it is.
fn assert_refused_untouched(path: &Path, expected: &str) {
    let before = fs::read(path).unwrap();
    for access in [Access::ReadWrite, Access::ReadOnly] {
        assert_eq!(corrupt_problem(SqliteStore::open(path, access), path), expected);
        assert!(fs::read(path).unwrap() == before, "the file has changed");
    }
}

#[tokio::test]
async fn a_new_store_is_for_its_owner_alone() {
    let (home, _) = place();
    let directory = home.path().join("a/b");
    let path = directory.join("store.db");
    let store = open(&path);
    store.create(record("r", 5), events(1, 3), host("h")).await.unwrap();
    assert_eq!(store.path(), path);
    let modes = [home.path().join("a"), directory.clone(), path].map(|path| mode(&path));
    assert_eq!(modes, [0o700, 0o700, 0o600]);
    for beside in ["store.db-wal", "store.db-shm"] {
        assert_eq!(mode(&directory.join(beside)), 0o600, "{beside}");
    }
}

#[test]
fn store_file_has_its_application_id() {
    let (_home, path) = place();
    drop(open(&path));
    let file = Connection::open(&path).unwrap();
    let pragma = |name| file.pragma_query_value(None, name, |row| row.get::<_, Value>(0)).unwrap();
    let found = ["application_id", "user_version", "page_size", "auto_vacuum", "journal_mode"].map(pragma);
    let expected = [0x6163_7078, 13, 4096, 2].map(Value::Integer);
    assert_eq!(found[..4], expected);
    assert_eq!(found[4], Value::Text("wal".to_owned()));
}

#[tokio::test]
async fn a_closed_store_is_one_file_and_has_everything_when_opened_again() {
    let (home, path) = place();
    let (expected, expected_events) = filled(&path, 500).await;
    assert_eq!(files(home.path()), ["store.db"]);
    for access in [Access::ReadWrite, Access::ReadOnly] {
        let store = SqliteStore::open(&path, access).unwrap();
        assert_eq!(store.record(id("r")).await.unwrap(), Some(expected.clone()));
        assert_eq!(all_events(&store, &id("r"), 64).await.unwrap(), expected_events);
        assert_eq!(store.open_turns(id("r")).await.unwrap(), [turn(1, "q", TurnState::Queued)]);
    }
    // Leases go on from where they were.
    assert_eq!(open(&path).lease(id("r"), host("h2")).await.unwrap().generation(), 2);
}

#[tokio::test]
async fn dropping_the_store_finishes_what_is_queued() {
    let (_home, path) = place();
    let store = open(&path);
    let lease = store.create(record("r", 5), Vec::new(), host("h")).await.unwrap();
    for seq in 1..=50 {
        let append = store.append(lease.clone(), events(seq, seq), Durability::Process);
        // One look at the future queues the request; nobody waits for the answer.
        tokio::select! {
            biased;
            _ = append => {}
            () = std::future::ready(()) => {}
        }
    }
    drop(store);
    assert_eq!(all_events(&open(&path), &id("r"), 100).await.unwrap().len(), 50);
}

#[tokio::test]
async fn an_idle_store_copies_its_log_into_the_file() {
    let (_home, path) = place();
    let open_with = |idle| {
        let options = SqliteOptions { idle, ..SqliteOptions::new(Access::ReadWrite) };
        SqliteStore::open_with(&path, &options).unwrap()
    };
    let store = open_with(Duration::from_hours(1));
    store.create(record("r", 5), events(1, 2000), host("h")).await.unwrap();
    let size = || fs::metadata(&path).unwrap().len();
    assert!(size() < 8192, "the events were not in the log to begin with");
    let idle = open_with(Duration::ZERO);
    let copied = async {
        while size() < 100_000 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), copied).await.expect("the log was not copied");
    // Both go on as before.
    let lease = idle.lease(id("r"), host("h")).await.unwrap();
    store.append(lease, events(2001, 2001), Durability::Process).await.unwrap();
    assert_eq!(all_events(&idle, &id("r"), 1000).await.unwrap().len(), 2001);
}

#[tokio::test]
async fn idle_store_returns_pages_of_a_deleted_session_to_the_disk() {
    let (_home, path) = place();
    let options = SqliteOptions { idle: Duration::from_millis(1), ..SqliteOptions::new(Access::ReadWrite) };
    let store = SqliteStore::open_with(&path, &options).unwrap();
    store.create(record("kept", 5), events(1, 100), host("h")).await.unwrap();
    let lease = store.create(record("r", 5), events(1, 100_000), host("h")).await.unwrap();
    let until = async |what: &str, condition: &dyn Fn(u64) -> bool| {
        let looking = async {
            while !condition(fs::metadata(&path).unwrap().len()) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_mins(1), looking).await.expect(what);
    };
    until("the events are not in the file", &|size| size > 4_000_000).await;
    let deleted = Change::Lifecycle(Lifecycle::Deleted { at: at(6) });
    store.append(lease, vec![deleted], Durability::Machine).await.unwrap();
    until("the file has not shrunk", &|size| size < 1_500_000).await;
    assert_eq!(all_events(&store, &id("kept"), 1000).await.unwrap().len(), 100);
}

/// Updates `first..=last`, which leave the row of their record as it is.
fn updates(first: u64, last: u64) -> Vec<Change> {
    let update = |change| match change {
        Change::Event(event) => Change::Event(Event { kind: EventKind::Update, at: at(5), ..event }),
        other => other,
    };
    events(first, last).into_iter().map(update).collect()
}

#[tokio::test]
async fn short_append_commits_at_once_unless_it_would_wait() {
    let (_home, path) = place();
    let store = open(&path);
    let lease = store.create(record("r", 5), Vec::new(), host("h")).await.unwrap();
    let (process, machine) = (Durability::Process, Durability::Machine);
    let at_once = |changes, durability| {
        let mut append = Box::pin(store.append(lease.clone(), changes, durability));
        async move {
            let first = asked_once(append.as_mut());
            let kept_at_once = first.is_ready();
            match first {
                Poll::Ready(kept) => kept.unwrap(),
                Poll::Pending => append.await.unwrap(),
            }
            kept_at_once
        }
    };
    assert!(at_once(updates(1, 1), process).await);
    // What must reach the disk and what is long is done by a thread, which may be done before it is asked.
    at_once(updates(2, 2), machine).await;
    assert!(at_once(updates(3, 10), process).await);
    at_once(updates(11, 50), process).await;
    let lock = Connection::open(&path).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    let waiting = at_once(updates(51, 51), process);
    let released = async move {
        tokio::task::yield_now().await;
        lock.execute_batch("COMMIT").unwrap();
    };
    assert_eq!(tokio::join!(waiting, released), (false, ()));
    assert!(at_once(updates(52, 52), process).await);
    assert_eq!(all_events(&store, &id("r"), 100).await.unwrap().len(), 52);
}

/// What a future has to say when it is asked once.
fn asked_once<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test]
async fn cached_record_state_is_dropped_when_another_process_writes() {
    let (_home, path) = place();
    let (one, other) = (open(&path), open(&path));
    let first = one.create(record("r", 5), Vec::new(), host("one")).await.unwrap();
    one.append(first.clone(), updates(1, 1), Durability::Process).await.unwrap();
    let second = other.lease(id("r"), host("other")).await.unwrap();
    other.append(second.clone(), updates(2, 2), Durability::Process).await.unwrap();
    let late = one.append(first, updates(2, 2), Durability::Process).await.unwrap_err();
    assert_eq!(late.code().as_str(), "LEASE_LOST");
    let third = one.lease(id("r"), host("one")).await.unwrap();
    one.append(third, updates(3, 3), Durability::Process).await.unwrap();
    let late = other.append(second, updates(3, 3), Durability::Process).await.unwrap_err();
    assert_eq!(late.code().as_str(), "LEASE_LOST");
    assert_eq!(all_events(&other, &id("r"), 100).await.unwrap().len(), 3);
}

#[tokio::test]
async fn fast_path_appends_are_checkpointed_when_the_store_is_idle() {
    let (_home, path) = place();
    let options = SqliteOptions { idle: Duration::from_millis(1), ..SqliteOptions::new(Access::ReadWrite) };
    let store = SqliteStore::open_with(&path, &options).unwrap();
    let lease = store.create(record("r", 5), Vec::new(), host("h")).await.unwrap();
    let size = || fs::metadata(&path).unwrap().len();
    let mut seq = 0;
    for pages in [16, 32] {
        for _ in 0..pages * 4 {
            seq += 1;
            let body = "x".repeat(1000);
            let change = Change::Event(Event { kind: EventKind::Update, ..event(seq, body) });
            store.append(lease.clone(), vec![change], Durability::Process).await.unwrap();
        }
        let copied = async {
            while size() < 4096 * pages {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), copied).await.expect("the log was not copied");
    }
}

/// The files in a directory, by name.
fn files(directory: &Path) -> Vec<String> {
    let names =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[tokio::test]
async fn reading_creates_no_store_and_changes_none() {
    let (home, path) = place();
    let missing = home.path().join("not/there.db");
    match SqliteStore::open(&missing, Access::ReadOnly).unwrap_err() {
        StoreError::Open { path, source } => {
            assert_eq!((path, source.kind()), (missing, io::ErrorKind::NotFound));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(files(home.path()), [""; 0]);
    filled(&path, 3).await;
    let before = fs::read(&path).unwrap();
    let store = SqliteStore::open(&path, Access::ReadOnly).unwrap();
    let refused = store.create(record("s", 5), Vec::new(), host("h")).await.unwrap_err();
    assert_eq!(refused.to_string(), format!("the store {} is open for reading only", path.display()));
    let lease = store.lease(id("r"), host("h")).await;
    assert!(matches!(lease, Err(StoreError::ReadOnly { .. })));
    assert_eq!(all_events(&store, &id("r"), 10).await.unwrap().len(), 3);
    drop(store);
    assert!(fs::read(&path).unwrap() == before, "the file has changed");
}

#[tokio::test]
async fn empty_companion_files_of_a_reader_are_removed_by_the_writer() {
    let (home, path) = place();
    filled(&path, 3).await;
    drop(SqliteStore::open(&path, Access::ReadOnly).unwrap());
    assert_eq!(files(home.path()), ["store.db", "store.db-shm", "store.db-wal"]);
    assert_eq!(fs::metadata(home.path().join("store.db-wal")).unwrap().len(), 0);
    drop(open(&path));
    assert_eq!(files(home.path()), ["store.db"]);
    // One that outlives the writer keeps the writer's log, and the next writer copies and clears that too.
    let writer = open(&path);
    let lease = writer.lease(id("r"), host("h")).await.unwrap();
    let reader = SqliteStore::open(&path, Access::ReadOnly).unwrap();
    writer.append(lease, events(4, 50), Durability::Machine).await.unwrap();
    drop(writer);
    drop(reader);
    assert_eq!(files(home.path()), ["store.db", "store.db-shm", "store.db-wal"]);
    assert_eq!(all_events(&open(&path), &id("r"), 100).await.unwrap().len(), 50);
    assert_eq!(files(home.path()), ["store.db"]);
}

#[tokio::test]
async fn reader_sees_what_another_connection_has_committed() {
    let (_home, path) = place();
    let writer = open(&path);
    let lease = writer.create(record("r", 5), Vec::new(), host("h")).await.unwrap();
    let reader = SqliteStore::open(&path, Access::ReadOnly).unwrap();
    for seq in 1..=20 {
        writer.append(lease.clone(), events(seq, seq), Durability::Process).await.unwrap();
        assert_eq!(reader.events(id("r"), Seq(seq), 10).await.unwrap().len(), 1);
    }
}

#[tokio::test]
async fn store_read_on_the_callers_thread_gives_equal_results() {
    let (_home, path) = place();
    let (expected, expected_events) = filled(&path, 30).await;
    for access in [Access::ReadOnly, Access::ReadWrite] {
        let options = SqliteOptions { reads: ReadThread::OnCallersThread, ..SqliteOptions::new(access) };
        let store = SqliteStore::open_with(&path, &options).unwrap();
        assert_eq!(store.record(id("r")).await.unwrap(), Some(expected.clone()));
        assert_eq!(all_events(&store, &id("r"), 7).await.unwrap(), expected_events);
        let missing = store.events(id("gone"), Seq(1), 1).await.unwrap_err();
        assert_eq!(missing.to_string(), "there is no record gone");
    }
    // What is written is read at once.
    let options =
        SqliteOptions { reads: ReadThread::OnCallersThread, ..SqliteOptions::new(Access::ReadWrite) };
    let store = SqliteStore::open_with(&path, &options).unwrap();
    let lease = store.lease(id("r"), host("h")).await.unwrap();
    store.append(lease, events(31, 31), Durability::Process).await.unwrap();
    assert_eq!(all_events(&store, &id("r"), 7).await.unwrap().len(), 31);
}

#[tokio::test]
async fn empty_file_is_a_new_store_to_a_writer_only() {
    let (_home, path) = place();
    fs::write(&path, "").unwrap();
    match SqliteStore::open(&path, Access::ReadOnly).unwrap_err() {
        StoreError::Open { source, .. } => assert_eq!(source.kind(), io::ErrorKind::NotFound),
        other => panic!("{other:?}"),
    }
    assert_eq!(fs::read(&path).unwrap(), b"");
    filled(&path, 3).await;
}

#[tokio::test]
async fn a_newer_file_is_read_and_not_written() {
    let (_home, path) = place();
    let (expected, expected_events) = filled(&path, 30).await;
    let newer = Connection::open(&path).unwrap();
    let change = "ALTER TABLE records ADD COLUMN mood TEXT; ALTER TABLE events ADD COLUMN weight INTEGER; \
                  CREATE TABLE moods (mood TEXT); PRAGMA user_version = 14;";
    newer.execute_batch(change).unwrap();
    drop(newer);
    let before = fs::read(&path).unwrap();
    let refused = SqliteStore::open(&path, Access::ReadWrite).unwrap_err();
    let said =
        format!("the store {} was written by a newer acpx (format 14, this one writes 13)", path.display());
    assert_eq!(refused.to_string(), said);
    assert!(fs::read(&path).unwrap() == before, "the file has changed");
    let store = SqliteStore::open(&path, Access::ReadOnly).unwrap();
    assert_eq!(store.record(id("r")).await.unwrap(), Some(expected));
    assert_eq!(all_events(&store, &id("r"), 100).await.unwrap(), expected_events);
}

#[tokio::test]
async fn foreign_file_is_reported_as_damage_and_left_unchanged() {
    let (_home, path) = place();
    for content in
        [b"hello".to_vec(), vec![0; 4096], b"SQLite format 3\0 and then nothing of the kind".repeat(99)]
    {
        fs::write(&path, content).unwrap();
        assert_refused_untouched(&path, "file is not a database");
    }
    filled(&path.with_extension("other"), 100).await;
    let mut whole = fs::read(path.with_extension("other")).unwrap();
    whole[..16].copy_from_slice(b"SQLite format 4\0");
    fs::write(&path, whole).unwrap();
    assert_refused_untouched(&path, "file is not a database");
}

#[test]
fn database_of_another_program_is_left_alone_with_its_log() {
    for mode in ["DELETE", "WAL"] {
        let (_home, path) = place();
        let other = Connection::open(&path).unwrap();
        let mode: String =
            other.pragma_update_and_check(None, "journal_mode", mode, |row| row.get(0)).unwrap();
        other.execute_batch("CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1);").unwrap();
        // With the log in use its content is not in the file yet; a copy is as a crash would leave it.
        let copy = path.with_file_name("copy.db");
        fs::copy(&path, &copy).unwrap();
        let log = path.with_file_name("copy.db-wal");
        if mode == "wal" {
            fs::copy(path.with_file_name("store.db-wal"), &log).unwrap();
        }
        let before = fs::read(&log).ok();
        assert_refused_untouched(&copy, "it is not a store of acpx");
        assert!(fs::read(&log).ok() == before, "its log has changed");
        let count =
            Connection::open(&copy).unwrap().query_row("SELECT count(*) FROM theirs", [], |row| row.get(0));
        assert_eq!(count, Ok(1));
    }
}

#[tokio::test]
async fn emptied_file_with_a_log_is_not_a_new_store() {
    let (_home, path) = place();
    let store = open(&path);
    store.create(record("r", 5), events(1, 100), host("h")).await.unwrap();
    let lost = path.with_file_name("lost.db");
    fs::write(&lost, "").unwrap();
    let log = path.with_file_name("lost.db-wal");
    fs::copy(path.with_file_name("store.db-wal"), &log).unwrap();
    let before = fs::read(&log).unwrap();
    assert_refused_untouched(&lost, "it is empty, but its log is not");
    assert!(fs::read(&log).unwrap() == before, "its log has changed");
}

#[tokio::test]
async fn truncated_file_is_damage_at_every_length() {
    let (_home, path) = place();
    filled(&path, 2000).await;
    let whole = fs::read(&path).unwrap();
    let cut = path.with_file_name("cut.db");
    for percent in [1, 10, 50, 90, 99] {
        fs::write(&cut, &whole[..whole.len() * percent / 100]).unwrap();
        let before = fs::read(&cut).unwrap();
        for access in [Access::ReadWrite, Access::ReadOnly] {
            corrupt_problem(SqliteStore::open(&cut, access), &cut);
            assert!(fs::read(&cut).unwrap() == before, "the file has changed");
        }
    }
}

#[tokio::test]
async fn flipped_bytes_are_an_error_or_make_no_difference() {
    let (_home, path) = place();
    let (expected, expected_events) = filled(&path, 400).await;
    let whole = fs::read(&path).unwrap();
    let flipped = path.with_file_name("flipped.db");
    let (mut errors, mut same) = (0, 0);
    // A fixed stride through the whole file: the same places in every run, and every bit of a byte in turn.
    for place in (100..whole.len()).step_by(97) {
        let mut bytes = whole.clone();
        bytes[place] ^= 1 << (place % 8);
        fs::write(&flipped, &bytes).unwrap();
        let read = async {
            let store = SqliteStore::open(&flipped, Access::ReadOnly)?;
            let found = all_events(&store, &expected.id, 100).await?;
            Ok::<_, StoreError>((store.record(expected.id.clone()).await?, found))
        };
        match read.await {
            Ok((found, found_events)) => {
                assert!(
                    found.as_ref() == Some(&expected) && found_events == expected_events,
                    "byte {place} changed what is read: {found:?}"
                );
                same += 1;
            }
            Err(StoreError::Corrupt { path, .. }) => {
                assert_eq!(path, flipped);
                errors += 1;
            }
            Err(other) => panic!("byte {place}: {other:?}"),
        }
    }
    assert!(errors > 100 && same > 10, "{errors} errors, {same} without effect");
}

#[tokio::test]
async fn a_row_that_is_not_what_was_written_is_damage() {
    let changes = [
        "UPDATE records SET id = 'r', title = 'another'",
        "UPDATE records SET cwd = '/elsewhere'",
        "UPDATE records SET program = program || 'x'",
        "UPDATE records SET closed_at = 5",
        "UPDATE records SET deleted_at = 5",
        "UPDATE records SET scope_agent = NULL, scope_name = NULL",
        "UPDATE records SET run_ended_at = 5, run_ended_how = ''",
        "UPDATE records SET last_turn = 2",
        "UPDATE records SET last_seq = 4",
        "UPDATE lineage SET session = 's9'",
        "UPDATE lineage SET agent_session = NULL",
        "UPDATE turns SET prompt = replace(prompt, 'prompt', 'tpmorp')",
        "UPDATE turns SET policy = 'approve-all'",
        "DELETE FROM turns",
        "UPDATE turns SET turn = 2",
        "INSERT INTO events SELECT key + 1, at, turn, lineage, protocol, direction, kind, checksum, body, blob \
         FROM events WHERE seq = 5",
        "UPDATE events SET kind = 9 WHERE seq = 3",
        "UPDATE events SET direction = 0 WHERE seq = 3",
        "UPDATE events SET body = body || ' ' WHERE seq = 3",
        "UPDATE events SET at = at + 1 WHERE seq = 3",
        "UPDATE events SET at = 9223372036854775807 WHERE seq = 3",
        "UPDATE events SET blob = zeroblob(32) WHERE seq = 3",
        "UPDATE events SET blob = zeroblob(32), body = NULL WHERE seq = 3",
        "DELETE FROM events WHERE seq = 3",
        "DELETE FROM events WHERE seq >= 3",
        "UPDATE lineage SET reason = 'because'",
        "UPDATE lineage SET row = 2",
        "DELETE FROM lineage",
        "UPDATE records SET args = 'not json'",
        "UPDATE records SET cwd = 'relative'",
        "UPDATE records SET answered_turns = -1",
        "UPDATE turns SET state = 'asleep'",
        "UPDATE turns SET policy = 'perhaps'",
        "UPDATE turns SET state = 'ended', ended_at = 5",
        "DROP TABLE turns",
    ];
    for change in changes {
        let (_home, path) = place();
        filled(&path, 5).await;
        Connection::open(&path).unwrap().execute_batch(change).unwrap();
        let store = SqliteStore::open(&path, Access::ReadOnly).unwrap();
        let read = async {
            store.record(id("r")).await?;
            all_events(&store, &id("r"), 2).await?;
            store.turn(id("r"), request("q")).await?;
            store.open_turns(id("r")).await
        };
        match read.await.unwrap_err() {
            StoreError::Corrupt { path: found, .. } => assert_eq!(found, path, "{change}"),
            other => panic!("{change}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn damaged_records_are_left_out_of_lists_and_can_be_removed() {
    let (_home, path) = place();
    let store = open(&path);
    for (name, millis) in [("a", 1), ("b", 2), ("c", 3), ("d", 4)] {
        store.create(record(name, millis), events(1, 2), host("h")).await.unwrap();
    }
    drop(store);
    Connection::open(&path)
        .unwrap()
        .execute_batch("UPDATE records SET title = 'other' WHERE id IN ('b', 'c')")
        .unwrap();
    let store = open(&path);
    let listed = async |limit| {
        let records = store.records(RecordFilter::default(), None, limit).await.unwrap();
        records.into_iter().map(|record| record.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(store.unreadable_records(), [""; 0]);
    // A page is short only at the end of the list.
    assert_eq!(
        (listed(2).await, listed(9).await),
        (vec!["d".to_owned(), "a".to_owned()], vec!["d".to_owned(), "a".to_owned()])
    );
    assert_eq!(listed(1).await, ["d"]);
    assert_eq!(store.unreadable_records(), ["b", "c"]);
    let remove = async |name| store.remove_damaged(id(name)).await.map_err(|error| error.to_string());
    assert_eq!(remove("b").await, Ok(()));
    for readable_or_missing in ["a", "b"] {
        assert_eq!(
            remove(readable_or_missing).await,
            Err(format!("there is no record {readable_or_missing}"))
        );
    }
    assert_eq!(remove("c").await, Ok(()));
    let verified = store.verify(Arc::default()).await.unwrap();
    assert_eq!((verified.records, verified.events, verified.problems), (2, 4, Vec::new()));
}

#[tokio::test]
async fn a_damaged_blob_is_noticed() {
    let (_home, path) = place();
    let store = open(&path);
    let body = "x".repeat(100_000);
    let twice = (1..=2).map(|seq| Change::Event(event(seq, body.as_str()))).collect();
    store.create(record("r", 5), twice, host("h")).await.unwrap();
    drop(store);
    let other = Connection::open(&path).unwrap();
    assert_eq!(other.query_row("SELECT count(*) FROM blobs", [], |row| row.get(0)), Ok(1));
    other.execute("UPDATE blobs SET bytes = replace(CAST(bytes AS TEXT), 'xxxx', 'xxxy')", []).unwrap_err();
    other.execute("UPDATE blobs SET bytes = zeroblob(100000)", []).unwrap();
    drop(other);
    let read = SqliteStore::open(&path, Access::ReadOnly).unwrap().events(id("r"), Seq(1), 1).await;
    let said = format!("the store {} is damaged: a blob is not what its hash says", path.display());
    assert_eq!(read.unwrap_err().to_string(), said);
}

#[tokio::test]
async fn lock_held_too_long_is_reported_and_nothing_is_written() {
    let (_home, path) = place();
    filled(&path, 3).await;
    let options =
        SqliteOptions { busy_timeout: Duration::from_millis(20), ..SqliteOptions::new(Access::ReadWrite) };
    let store = SqliteStore::open_with(&path, &options).unwrap();
    let lease = store.lease(id("r"), host("h")).await.unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let refused = store.append(lease.clone(), events(4, 4), Durability::Process).await.unwrap_err();
    assert_eq!(refused.to_string(), format!("the store {} is locked by another process", path.display()));
    // Reading goes on, and so does writing when the lock is gone.
    assert_eq!(all_events(&store, &id("r"), 10).await.unwrap().len(), 3);
    other.execute_batch("ROLLBACK").unwrap();
    store.append(lease, events(4, 4), Durability::Process).await.unwrap();
    assert_eq!(all_events(&store, &id("r"), 10).await.unwrap().len(), 4);
}

#[tokio::test]
async fn full_store_reports_it_and_keeps_its_data() {
    let (_home, path) = place();
    filled(&path, 3).await;
    let options = SqliteOptions { size_limit: Some(256 * 1024), ..SqliteOptions::new(Access::ReadWrite) };
    let store = SqliteStore::open_with(&path, &options).unwrap();
    let lease = store.lease(id("r"), host("h")).await.unwrap();
    let mut last = 3;
    let refused = loop {
        let batch = (last + 1..=last + 20).map(|seq| Change::Event(event(seq, "x".repeat(1000)))).collect();
        match store.append(lease.clone(), batch, Durability::Process).await {
            Ok(()) => last += 20,
            Err(error) => break error,
        }
    };
    assert_eq!(refused.to_string(), format!("no space is left for the store {}", path.display()));
    assert_eq!(store.record(id("r")).await.unwrap().unwrap().last_seq, Some(Seq(last)));
    assert_eq!(all_events(&store, &id("r"), 1000).await.unwrap().len() as u64, last);
    drop(store);
    // With room again it goes on where it stopped.
    let store = open(&path);
    let lease = store.lease(id("r"), host("h")).await.unwrap();
    store.append(lease, events(last + 1, last + 20), Durability::Machine).await.unwrap();
    assert_eq!(all_events(&store, &id("r"), 1000).await.unwrap().len() as u64, last + 20);
}

#[tokio::test]
async fn unopenable_store_is_named_with_the_reason() {
    let (home, path) = place();
    filled(&path, 3).await;
    let kinds = |path: &Path| {
        [Access::ReadWrite, Access::ReadOnly].map(|access| match SqliteStore::open(path, access) {
            Ok(_) => None,
            Err(StoreError::Open { path: named, source }) if named == path => Some(source.kind()),
            Err(other) => panic!("{other:?}"),
        })
    };
    assert_eq!(kinds(&path.join("below-a-file.db")), [Some(io::ErrorKind::NotADirectory); 2]);
    assert!(kinds(home.path()).iter().all(Option::is_some), "a directory was taken for a store");
    for (mode, denied) in [(0o000, [true, true]), (0o400, [true, false])] {
        fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        // The superuser is denied nothing, so there the system's own answer is the measure.
        let superuser = fs::OpenOptions::new().write(true).open(&path).is_ok();
        let expected = denied.map(|denied| (denied && !superuser).then_some(io::ErrorKind::PermissionDenied));
        assert_eq!(kinds(&path), expected, "mode {mode:o}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_writers_lose_nothing_and_a_refused_one_harms_no_other() {
    let (_home, path) = place();
    let store = Arc::new(open(&path));
    let tasks: Vec<_> = (0..40)
        .map(|number| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let name = format!("r{number}");
                let lease = store.create(record(&name, 5), Vec::new(), host("h")).await.unwrap();
                for seq in 1..=25 {
                    let durability = if seq % 10 == 0 { Durability::Machine } else { Durability::Process };
                    let good = store.append(lease.clone(), events(seq, seq), durability);
                    let bad = store.append(lease.clone(), events(seq, seq), durability);
                    let (good, bad) = tokio::join!(good, bad);
                    good.unwrap();
                    assert!(matches!(bad, Err(StoreError::OutOfOrder { .. })), "{bad:?}");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let expected: Vec<Event> = (1..=25).map(|seq| event(seq, format!("{{\"n\":{seq}}}"))).collect();
    for number in 0..40 {
        let found = all_events(&*store, &id(&format!("r{number}")), 10).await.unwrap();
        assert_eq!(found, expected, "record {number}");
    }
}

#[tokio::test]
async fn two_stores_on_one_file_share_its_leases() {
    let (_home, path) = place();
    let (first, second) = (open(&path), open(&path));
    let old = first.create(record("r", 5), events(1, 1), host("h1")).await.unwrap();
    let new = second.lease(id("r"), host("h2")).await.unwrap();
    let late = first.append(old, events(2, 2), Durability::Process).await;
    assert!(matches!(late, Err(StoreError::LeaseLost { ours: 1, current: 2, .. })), "{late:?}");
    second.append(new, events(2, 2), Durability::Process).await.unwrap();
    assert_eq!(all_events(&first, &id("r"), 10).await.unwrap().len(), 2);
}

#[test]
fn many_threads_may_make_one_store_at_once() {
    let (_home, path) = place();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| open(&path));
        }
    });
    SqliteStore::open(&path, Access::ReadOnly).unwrap();
}
