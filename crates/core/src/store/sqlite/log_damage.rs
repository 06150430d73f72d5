//! Damage to the write-ahead log, found before SQLite reads it.
//!
//! SQLite reads a log up to the first invalid frame, because a crash leaves such a log, and silently drops the rest.
//! But a killed process leaves every frame that it wrote, and the index of the log, `-shm`, has the number of
//! committed frames. So a log that ends earlier is damaged, unless the machine has rebooted since: then unsynced data
//! may be lost. If the index is missing, a commit after the first bad frame shows the same.
//!
//! A store that another process has open is not checked: SQLite then relies on the index.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::process::{Flock, FlockOffsetType, FlockType, fcntl_getlk};

use super::fault::SqliteFault;
use super::file::companion;
use super::schema::PAGE_SIZE;
use crate::sync::Lock;

/// The byte of the index that every process with an open store has locked.
const OPEN_LOCK: u64 = 128;
/// The version of the index, unchanged since SQLite introduced logs.
const INDEX_VERSION: u32 = 3_007_000;
/// The length of a log's header, and of a frame's.
const LOG_HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
const PAGE: usize = 4096;
const _: () = assert!(PAGE as u64 == PAGE_SIZE);

/// The stores that this process has open, by path. When a process closes any descriptor of an index, the kernel drops
/// all its locks on it, so an index is read only while no connection of this process has it open.
static OPEN: Lock<Option<HashMap<PathBuf, usize>>> = Lock::new(None);

/// RAII guard: counts a store as open in this process.
#[derive(Debug)]
pub(super) struct OpenStore(PathBuf);

impl OpenStore {
    /// Counts a store that is about to be opened. Fails if its log is damaged.
    pub(super) fn new(path: &Path) -> Result<Self, SqliteFault> {
        let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let mut open = OPEN.lock();
        let count = open.get_or_insert_default().entry(real.clone()).or_insert(0);
        *count += 1;
        let guard = Self(real);
        if *count == 1 {
            // Dropping the guard takes the lock, so a failure must release the lock first.
            let looked = refuse_damaged_log(&guard.0);
            drop(open);
            looked?;
        }
        Ok(guard)
    }
}

impl Drop for OpenStore {
    fn drop(&mut self) {
        if let Some(open) = &mut *OPEN.lock()
            && let Some(count) = open.get_mut(&self.0)
        {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.0);
            }
        }
    }
}

/// The content of a log's index.
#[derive(Debug, PartialEq, Eq)]
struct Index {
    /// Identifies its log.
    salts: [u8; 8],
    /// How many frames are committed, and how many of them are checkpointed.
    committed: u32,
    copied: u32,
}

/// The readable part of a log.
#[derive(Debug, Default)]
struct Log {
    salts: [u8; 8],
    /// The last frame that ends a commit, before the first bad one.
    committed: u32,
    /// Whether a frame after that ends a commit.
    goes_on: bool,
}

fn refuse_damaged_log(path: &Path) -> Result<(), SqliteFault> {
    let (log_path, index_path) = (companion(path, "-wal"), companion(path, "-shm"));
    let (index, written) = match File::open(&index_path) {
        Ok(file) if is_open_elsewhere(&file) => return Ok(()),
        Ok(file) => (Index::read(&file), modified(&index_path)),
        Err(_) => (None, modified(&log_path)),
    };
    let log = match &index {
        // Everything is checkpointed, or the log is empty.
        None if !log_path.exists() => return Ok(()),
        Some(index) if index.committed == 0 => return Ok(()),
        _ => Log::read(&log_path).unwrap_or_default(),
    };
    let is_short = match &index {
        Some(index) if log.salts == index.salts && log.committed > 0 => log.committed < index.committed,
        Some(index) => index.copied < index.committed,
        None => log.goes_on,
    };
    if !is_short || !written.is_some_and(is_since_boot) {
        return Ok(());
    }
    // Another process may have opened it since.
    let again = File::open(&index_path).ok();
    let is_same = again.as_ref().and_then(Index::read) == index;
    if !is_same || again.as_ref().is_some_and(is_open_elsewhere) {
        return Ok(());
    }
    let readable = log.committed;
    let of = index.map(|index| format!(" of {}", index.committed)).unwrap_or_default();
    Err(SqliteFault::Damaged(format!(
        "only {readable}{of} pages of its log, the -wal file, can be read; \
         without its -wal and -shm files it is as it was before the log"
    )))
}

fn is_open_elsewhere(index: &File) -> bool {
    let lock = Flock {
        start: OPEN_LOCK,
        length: 1,
        pid: None,
        typ: FlockType::WriteLock,
        offset_type: FlockOffsetType::Set,
    };
    // If the system does not answer, SQLite decides.
    !matches!(fcntl_getlk(index, &lock), Ok(None))
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).ok()?.modified().ok()
}

/// Whether a file was written since the machine booted; false if that is unknown.
fn is_since_boot(written: SystemTime) -> bool {
    let uptime = fs::read_to_string("/proc/uptime").ok();
    let seconds = uptime.as_deref().and_then(|text| text.split('.').next()?.parse().ok());
    let boot = seconds.and_then(|seconds| SystemTime::now().checked_sub(Duration::from_secs(seconds)));
    boot.is_some_and(|boot| boot <= written)
}

impl Index {
    /// Reads an index; `None` if it is incomplete or being written.
    fn read(mut file: &File) -> Option<Self> {
        let mut bytes = [0; 100];
        file.read_exact(&mut bytes).ok()?;
        let (first, rest) = bytes.split_at(48);
        let number = |at: usize| u32::from_ne_bytes(*first[at..].first_chunk().expect("48 bytes are enough"));
        let is_whole = rest.starts_with(first) && number(0) == INDEX_VERSION && first[12] == 1;
        is_whole.then(|| Self {
            salts: *first[32..].first_chunk().expect("48 bytes are enough"),
            committed: number(16),
            copied: u32::from_ne_bytes(*rest[48..].first_chunk().expect("100 bytes are enough")),
        })
    }
}

impl Log {
    fn read(path: &Path) -> io::Result<Self> {
        let mut file = BufReader::with_capacity(1 << 18, File::open(path)?);
        let mut header = [0; LOG_HEADER];
        file.read_exact(&mut header)?;
        let sum = CheckSum { is_big_endian: header[3] & 1 == 1 };
        let head = sum.of([0, 0], &header[..FRAME_HEADER]);
        let mut log = Self::default();
        // SQLite ignores a log whose header checksum is wrong.
        let mut is_whole = head == stored(&header[FRAME_HEADER..]);
        if is_whole {
            log.salts = *header[16..].first_chunk().expect("the header is long enough");
        }
        let (mut before, mut number) = (head, 0);
        let mut frame = [0; FRAME_HEADER + PAGE];
        while file.read_exact(&mut frame).is_ok() {
            number += 1;
            let ends_commit = frame[4..8] != [0; 4];
            let added = sum.of(sum.of(before, &frame[..8]), &frame[FRAME_HEADER..]);
            let expected = stored(&frame[16..]);
            let is_of_log = !is_whole || frame[8..16] == log.salts;
            let adds_up = added == expected && is_of_log;
            if is_whole && !adds_up {
                is_whole = false;
            } else if adds_up && ends_commit {
                if is_whole {
                    log.committed = number;
                } else {
                    log.goes_on |= frame[8..16] == header[16..24];
                }
            }
            // The frames after a bad one continue from its stored checksum.
            before = expected;
        }
        Ok(log)
    }
}

/// SQLite's checksum of a log.
struct CheckSum {
    is_big_endian: bool,
}

impl CheckSum {
    fn of(&self, [mut one, mut two]: [u32; 2], bytes: &[u8]) -> [u32; 2] {
        let word = |bytes: &[u8]| {
            let bytes = *bytes.first_chunk().expect("a word has 4 bytes");
            if self.is_big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
        };
        for pair in bytes.chunks_exact(8) {
            one = one.wrapping_add(word(pair)).wrapping_add(two);
            two = two.wrapping_add(word(&pair[4..])).wrapping_add(one);
        }
        [one, two]
    }
}

/// The checksum stored here.
fn stored(bytes: &[u8]) -> [u32; 2] {
    let number = |at: usize| u32::from_be_bytes(*bytes[at..].first_chunk().expect("a sum has 8 bytes"));
    [number(0), number(4)]
}

#[cfg(test)]
mod tests;
