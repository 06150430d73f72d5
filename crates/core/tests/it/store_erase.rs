//! What is left in the file of a record that was deleted: nothing of what was said in it, also not beside what stays.
#![cfg(test)]

use std::error::Error;
use std::fs;
use std::path::Path;

use acpx_core::model::{Lifecycle, Turn, TurnState};
use acpx_core::store::{Access, Change, Durability, SqliteStore, Store};

use crate::store_contract::samples::{all_events, at, dispatched, event, host, id, record, stopped, turn};

/// A word that nothing else in the file says.
const SECRET: &[u8] = b"Geheimnis";

/// The files of a store in which the word stands, with how often.
fn found(directory: &Path) -> Vec<(String, usize)> {
    let mut found: Vec<(String, usize)> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let bytes = fs::read(entry.path()).unwrap();
            let times = bytes.windows(SECRET.len()).filter(|window| *window == SECRET).count();
            (entry.file_name().into_string().unwrap(), times)
        })
        .filter(|(_, times)| *times > 0)
        .collect();
    found.sort();
    found
}

/// What is said in a record about one of its turns, in words of any length.
fn spoken(word: &str, number: u64, state: TurnState) -> Vec<Change> {
    let length = [3, 40, 500, 9_000][usize::try_from(number % 4).unwrap()];
    let text = format!("{word} {number} ").repeat(length);
    let turn = Turn { prompt: text.clone().into(), ..turn(number, &format!("q{number}"), state) };
    vec![Change::Event(event(number, text)), Change::Turn(turn)]
}

#[tokio::test]
async fn text_of_a_deleted_record_is_in_no_store_file() {
    let home = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&home.path().join("store.db"), Access::ReadWrite).unwrap();
    let mut leases = Vec::new();
    for (name, word) in [("before", "Wort"), ("gone", "Geheimnis"), ("after", "Wort")] {
        leases.push((store.create(record(name, 5), Vec::new(), host("h")).await.unwrap(), word));
    }
    // They grow side by side, and every turn is written more than once.
    for number in 1..=200 {
        for (lease, word) in &leases {
            let queued = spoken(word, number, TurnState::Queued);
            store.append(lease.clone(), queued, Durability::Process).await.unwrap();
            for state in [dispatched(), stopped("end_turn")] {
                let again = spoken(word, number, state).split_off(1);
                store.append(lease.clone(), again, Durability::Process).await.unwrap();
            }
            let title = Change::Title(Some(format!("{word} {number}")));
            store.append(lease.clone(), vec![title], Durability::Process).await.unwrap();
        }
    }
    assert!(!found(home.path()).is_empty());
    let deletion = vec![Change::Lifecycle(Lifecycle::Deleted { at: at(9000) })];
    store.append(leases[1].0.clone(), deletion, Durability::Machine).await.unwrap();
    assert_eq!(found(home.path()), []);
    for name in ["before", "after"] {
        assert_eq!(all_events(&store, &id(name), 1000).await.unwrap().len(), 200);
    }
    drop(store);
    assert_eq!(found(home.path()), []);
}

#[test]
fn store_path_too_long_for_sqlite_is_reported() {
    let home = tempfile::tempdir().unwrap();
    let long = (0..5).fold(home.path().to_owned(), |path, _| path.join("x".repeat(120)));
    let refused = SqliteStore::open(&long.join("store.db"), Access::ReadWrite).unwrap_err();
    let reason = refused.source().unwrap().to_string();
    assert_eq!(refused.code().as_str(), "STORE_NOT_OPENED");
    assert_eq!(reason, "its path is longer than 500 bytes, which is the longest that SQLite opens");
}
