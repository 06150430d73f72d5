use std::time::Duration;

use tempfile::TempDir;

use super::super::tests::{event, host, id, record};
use super::super::{Access, SqliteOptions, SqliteStore};
use super::*;
use crate::model::{Event, Record, Seq};
use crate::store::{Durability, Store, StoreError};

/// The files of a store after its process was killed: most of the content is in the log.
struct Killed {
    file: Vec<u8>,
    log: Vec<u8>,
    index: Vec<u8>,
    contents: (Option<Record>, Vec<Event>),
}

async fn contents(store: &SqliteStore) -> Result<(Option<Record>, Vec<Event>), StoreError> {
    Ok((store.record(id("r")).await?, store.events(id("r"), Seq::FIRST, 100).await?))
}

impl Killed {
    async fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("s.db");
        let options =
            SqliteOptions { idle: Duration::from_hours(1), ..SqliteOptions::new(Access::ReadWrite) };
        let store = SqliteStore::open_with(&path, &options).unwrap();
        let lease = store.create(record("r"), Vec::new(), host()).await.unwrap();
        for seq in 1..=12 {
            let said = format!(r#"{{"text":"{}"}}"#, "x".repeat(1500));
            store.append(lease.clone(), vec![event(seq, &said)], Durability::Process).await.unwrap();
        }
        let contents = contents(&store).await.unwrap();
        let read = |suffix: &str| fs::read(companion(&path, suffix)).unwrap();
        Self { file: read(""), log: read("-wal"), index: read("-shm"), contents }
    }

    /// Opens a copy with this log and with or without an index, and returns its content.
    async fn opened(
        &self,
        log: Option<&[u8]>,
        has_index: bool,
        access: Access,
    ) -> Result<(Option<Record>, Vec<Event>), StoreError> {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("s.db");
        fs::write(&path, &self.file).unwrap();
        if let Some(log) = log {
            fs::write(companion(&path, "-wal"), log).unwrap();
        }
        if has_index {
            fs::write(companion(&path, "-shm"), &self.index).unwrap();
        }
        contents(&SqliteStore::open(&path, access)?).await
    }

    /// A log like this is reported as damage, or the content is unchanged.
    async fn is_same_or_damaged(&self, log: Option<&[u8]>, has_index: bool, what: &str) {
        for access in [Access::ReadOnly, Access::ReadWrite] {
            match self.opened(log, has_index, access).await {
                Err(StoreError::Corrupt { .. }) => {}
                Ok(found) => assert!(found == self.contents, "{what}, {access:?}: something is missing"),
                Err(other) => panic!("{what}, {access:?}: {other:?}"),
            }
        }
    }

    fn frames(&self) -> usize {
        (self.log.len() - LOG_HEADER) / (FRAME_HEADER + PAGE)
    }

    /// The log with one bit changed.
    fn flipped(&self, at: usize) -> Vec<u8> {
        let mut log = self.log.clone();
        log[at] ^= 1 << (at % 8);
        log
    }
}

#[tokio::test]
async fn a_flipped_bit_in_the_log_is_damage_and_no_older_state() {
    let killed = Killed::new().await;
    assert!(killed.frames() > 12, "{}", killed.frames());
    for frame in 0..killed.frames() {
        let begin = LOG_HEADER + frame * (FRAME_HEADER + PAGE);
        for within in [frame % FRAME_HEADER, FRAME_HEADER + frame * 37 % PAGE] {
            let log = killed.flipped(begin + within);
            killed.is_same_or_damaged(Some(&log), true, &format!("frame {frame}, byte {within}")).await;
        }
    }
    for at in 0..LOG_HEADER {
        killed.is_same_or_damaged(Some(&killed.flipped(at)), true, &format!("header, byte {at}")).await;
    }
}

#[tokio::test]
async fn flipped_bit_in_a_log_without_index_is_damage() {
    let killed = Killed::new().await;
    // The last two commits have no more frames than these.
    for frame in 0..killed.frames() - 12 {
        let at = LOG_HEADER + frame * (FRAME_HEADER + PAGE) + FRAME_HEADER + frame * 37 % PAGE;
        killed.is_same_or_damaged(Some(&killed.flipped(at)), false, &format!("frame {frame}")).await;
    }
}

#[tokio::test]
async fn truncated_or_removed_log_is_damage() {
    let killed = Killed::new().await;
    for length in [0, 1, LOG_HEADER, LOG_HEADER + 100, killed.log.len() / 2, killed.log.len() - 1] {
        killed.is_same_or_damaged(Some(&killed.log[..length]), true, &format!("cut to {length}")).await;
    }
    killed.is_same_or_damaged(None, true, "removed").await;
}

#[tokio::test]
async fn partial_commit_of_a_killed_writer_is_not_damage() {
    let killed = Killed::new().await;
    let salts = &killed.log[16..24];
    // A frame of an unfinished commit, and half of the next.
    let mut log = killed.log.clone();
    log.extend([&[0, 0, 0, 9, 0, 0, 0, 0], salts, &[1; 8][..], &[7; PAGE]].concat());
    log.extend([&[0, 0, 0, 9, 0, 0, 0, 9], salts].concat());
    for has_index in [true, false] {
        for access in [Access::ReadOnly, Access::ReadWrite] {
            for left in [&killed.log, &log] {
                assert_eq!(killed.opened(Some(left), has_index, access).await.unwrap(), killed.contents);
            }
        }
    }
}
