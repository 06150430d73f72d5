//! Reads `/proc/<pid>/stat` on Linux.
//!
//! A process chooses its own name, including brackets, spaces and newlines, so the name is the text between the first
//! and the last bracket. Nothing is cached.
#![cfg(target_os = "linux")]

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;

/// A line has a short name and 51 numbers of at most 20 digits.
const LONGEST_LINE: usize = 2_048;

/// One process at the time of reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) pid: u32,
    pub(super) name: String,
    /// Whether it has exited. Its pid is in use until it is reaped.
    pub(super) is_dead: bool,
    pub(super) parent: u32,
    pub(super) group: u32,
    /// In ticks since the boot.
    pub(super) started: u64,
}

impl Stat {
    /// A process, dead or alive.
    pub(super) fn of(pid: u32) -> Option<Self> {
        let mut line = [0; LONGEST_LINE];
        // The kernel gives the whole line at once.
        let length = File::open(format!("/proc/{pid}/stat")).ok()?.read(&mut line).ok()?;
        Self::parse(line.get(..length)?)
    }

    /// All processes. One that exists during the whole call is not missed.
    pub(super) fn all() -> io::Result<Vec<Self>> {
        let pid_of = |entry: io::Result<fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
        Ok(fs::read_dir("/proc")?.filter_map(pid_of).filter_map(Self::of).collect())
    }

    fn parse(line: &[u8]) -> Option<Self> {
        let open = line.iter().position(|byte| *byte == b'(')?;
        let close = line.iter().rposition(|byte| *byte == b')')?;
        let pid = std::str::from_utf8(line.get(..open)?).ok()?.trim_end().parse().ok()?;
        let name = String::from_utf8_lossy(line.get(open + 1..close)?).into_owned();
        let mut facts = std::str::from_utf8(line.get(close + 1..)?).ok()?.split_ascii_whitespace();
        let is_dead = matches!(facts.next()?, "Z" | "X" | "x");
        let (parent, group) = (facts.next()?.parse().ok()?, facts.next()?.parse().ok()?);
        // The start time is the 22nd field of the line, and the group the fifth.
        let started = facts.nth(16)?.parse().ok()?;
        Some(Self { pid, name, is_dead, parent, group, started })
    }
}

/// The namespace of this process; `None` if `/proc` belongs to another one, so that its pids are not ours.
pub(super) fn ours() -> Option<u64> {
    let number: u32 = fs::read_link("/proc/self").ok()?.to_str()?.parse().ok()?;
    (number == std::process::id()).then(|| number_of("/proc/self/ns/pid"))?
}

/// The namespace of a process; `None` if it cannot be read.
pub(super) fn of(pid: u32) -> Option<u64> {
    number_of(&format!("/proc/{pid}/ns/pid"))
}

fn number_of(path: &str) -> Option<u64> {
    fs::metadata(path).ok().map(|facts| facts.ino())
}

#[cfg(test)]
mod namespace_tests {
    use super::*;

    #[test]
    fn namespace_of_this_process_is_ours_and_of_an_unknown_one_absent() {
        assert!(ours().is_some());
        assert_eq!((of(std::process::id()), of(u32::MAX)), (ours(), None));
    }
}

#[cfg(test)]
mod tests;
