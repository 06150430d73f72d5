//! Group commits: what one contains, what it survives, and how a failing request affects the others.

use std::sync::atomic::{AtomicUsize, Ordering};

use rusqlite::StatementStatus;

use super::super::tests::{event, host, id, place, record};
use super::super::{Access, SqliteOptions};
use super::*;
use crate::model::Seq;
use crate::store::Change;

fn writer(path: &Path, size_limit: Option<u64>) -> WriteConnection {
    let options = SqliteOptions { size_limit, ..SqliteOptions::new(Access::ReadWrite) };
    WriteConnection::open(&StoreOpener::new(path, &options)).unwrap()
}

fn create(name: &str) -> WriteOperation {
    WriteOperation::Create { record: Box::new(record(name)), changes: Vec::new(), host: host() }
}

fn append(name: &str, changes: Vec<Change>, durability: Durability) -> WriteOperation {
    WriteOperation::Append { lease: Lease { record: id(name), generation: 1 }, changes, durability }
}

/// Three records, one for each of the following appends.
fn made(path: &Path, size_limit: Option<u64>) -> WriteConnection {
    let mut writer = writer(path, size_limit);
    let created = writer.commit(&["a", "b", "c"].map(create));
    assert!(created.iter().all(Result::is_ok), "{created:?}");
    writer
}

fn result_codes(answers: Vec<WriteResult>) -> Vec<String> {
    let result_codes =
        |answer: WriteResult| answer.map_or_else(|error| error.code().to_string(), |_| "kept".to_owned());
    answers.into_iter().map(result_codes).collect()
}

fn last_seq(writer: &WriteConnection, name: &str) -> Option<Seq> {
    super::super::read::record(&writer.connection, &id(name)).unwrap().unwrap().last_seq
}

#[test]
fn commit_is_synced_if_any_request_needs_it() {
    use Durability::{Machine, Process};
    let (_home, path) = place();
    let mut writer = writer(&path, None);
    let full = 2;
    let normal = 1;
    let mut level_after = |group: &[WriteOperation]| {
        let answers = result_codes(writer.commit(group));
        assert!(answers.iter().all(|answer| answer == "kept"), "{answers:?}");
        // It cannot be changed within a transaction, so the commit had the current level.
        writer.connection.pragma_query_value(None, "synchronous", |row| row.get::<_, i64>(0)).unwrap()
    };
    assert_eq!(level_after(&[create("a")]), full);
    assert_eq!(level_after(&[append("a", vec![event(1, "")], Process)]), normal);
    assert_eq!(level_after(&[append("a", vec![event(2, "")], Machine)]), full);
    assert_eq!(level_after(&[append("a", vec![event(3, "")], Machine)]), full);
    let both = [append("a", vec![event(4, "")], Process), append("a", vec![event(5, "")], Machine)];
    assert_eq!(level_after(&both), full);
    assert_eq!(level_after(&[append("a", vec![event(6, "")], Process), create("b")]), full);
    assert_eq!(level_after(&[WriteOperation::Lease { record: id("b"), host: host() }]), normal);
}

#[test]
fn an_append_that_does_not_fit_spoils_no_other_of_its_group() {
    let (_home, path) = place();
    let mut writer = made(&path, Some(512 * 1024));
    let small = |name| append(name, vec![event(1, "small")], Durability::Process);
    let large = append("b", vec![event(1, &"x".repeat(5_000_000))], Durability::Process);
    let group = [small("a"), large, small("c"), append("c", vec![event(9, "")], Durability::Process)];
    assert_eq!(result_codes(writer.commit(&group)), ["kept", "STORE_FULL", "kept", "STORE_OUT_OF_ORDER"]);
    let kept = ["a", "b", "c"].map(|name| last_seq(&writer, name));
    assert_eq!(kept, [Some(Seq(1)), None, Some(Seq(1))]);
}

#[test]
fn write_group_waits_for_a_lock_only_once() {
    static WAITS: AtomicUsize = AtomicUsize::new(0);
    let (_home, path) = place();
    let mut writer = made(&path, None);
    writer
        .connection
        .busy_handler(Some(|_| {
            WAITS.fetch_add(1, Ordering::Relaxed);
            false
        }))
        .unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let group = ["a", "b", "c"].map(|name| append(name, vec![event(1, "")], Durability::Process));
    assert_eq!(result_codes(writer.commit(&group)), ["STORE_LOCKED"; 3]);
    assert_eq!(WAITS.load(Ordering::Relaxed), 1);
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(result_codes(writer.commit(&group)), ["kept"; 3]);
}

#[test]
fn no_statement_of_an_append_is_parsed_again_with_other_values() {
    let (_home, path) = place();
    let mut writer = made(&path, None);
    for seq in 1..=3 {
        for name in ["a", "b"] {
            writer.clear_heads();
            let answers = writer.commit(&[append(name, vec![event(seq, "x")], Durability::Process)]);
            assert_eq!(result_codes(answers), ["kept"]);
        }
    }
    let statements = super::super::write::hot_statements();
    let parsed = statements.map(|statement| {
        let statement = writer.connection.prepare_cached(statement).unwrap();
        (statement.get_status(StatementStatus::Run) >= 6, statement.get_status(StatementStatus::RePrepare))
    });
    assert_eq!(parsed, [(true, 0); 2]);
}
