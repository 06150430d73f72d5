//! Whether an npm acpx holds a session right now. Its background process leaves a lease file, and whoever runs
//! a turn a lock; both name a process, which is believed only if it still is the one that wrote the file.

use std::fs;
use std::path::Path;

use serde::Deserialize;
use sha2::{Digest, Sha256};

/// A lease or a lock is a few hundred bytes; what is larger is neither.
const LARGEST: u64 = 64 * 1024;

#[derive(Deserialize)]
struct Claim {
    pid: i32,
    #[serde(default, rename = "processIdentity")]
    identity: Option<Identity>,
}

#[derive(Deserialize)]
struct Identity {
    #[serde(default, rename = "bootId")]
    boot: Option<String>,
    #[serde(default, rename = "startTicks")]
    started: Option<String>,
}

/// The process that holds a session, if there is one. `stem` is the name of the record's files.
pub(super) fn living_owner(directory: &Path, stem: &str, id: &str) -> Option<i32> {
    let lease = directory.parent().map(|home| home.join("queues").join(lease_name(id)));
    let lock = directory.join(format!("{stem}.stream.lock"));
    lease.into_iter().chain([lock]).find_map(|path| living_process(&path))
}

/// The record id that a file's name stands for.
pub(super) fn id_of(stem: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(stem.len());
    let mut rest = stem.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

fn lease_name(id: &str) -> String {
    let hash = Sha256::digest(id.as_bytes());
    let digit = |digit: u8| char::from_digit(digit.into(), 16).unwrap_or('0');
    let hex: String = hash.iter().take(12).flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect();
    format!("{hex}.lock")
}

fn living_process(path: &Path) -> Option<i32> {
    let found = fs::metadata(path).ok()?;
    if !found.is_file() || found.len() > LARGEST {
        return None;
    }
    let claim: Claim = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    (is_alive(claim.pid) && claim.identity.is_none_or(|identity| identity.fits(claim.pid)))
        .then_some(claim.pid)
}

fn is_alive(pid: i32) -> bool {
    let Some(pid) = rustix::process::Pid::from_raw(pid).filter(|_| pid > 0) else { return false };
    // A process that may not be signalled is there all the same.
    !matches!(rustix::process::test_kill_process(pid), Err(rustix::io::Errno::SRCH))
}

impl Identity {
    /// Whether a living process can be the one that is meant. What the system does not tell proves nothing.
    fn fits(&self, pid: i32) -> bool {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
        let same_boot = self.boot.as_deref().zip(boot.as_deref()).is_none_or(|(a, b)| a == b.trim());
        let started = fs::read_to_string(format!("/proc/{pid}/stat")).ok();
        let started = started.as_deref().and_then(start_ticks);
        same_boot && self.started.as_deref().zip(started).is_none_or(|(a, b)| a == b)
    }
}

/// The 22nd field of a process's line; the second one is a name in brackets that may have blanks and brackets.
fn start_ticks(stat: &str) -> Option<&str> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_npm_acpx_are_found_from_an_id_and_back() {
        // Both were seen in a home of npm acpx 0.19.1.
        assert_eq!(lease_name("01a1e157-b125-71a1-8167-53a010cdabdb"), "d57025a408c838993c262e0c.lock");
        assert_eq!(id_of("01a1e157-b125").as_deref(), Some("01a1e157-b125"));
        assert_eq!(id_of("a%2Fb%20%C3%A9").as_deref(), Some("a/b é"));
        for broken in ["%", "%2", "%zz", "%FF"] {
            assert_eq!(id_of(broken), None, "{broken}");
        }
    }

    #[test]
    fn a_process_is_told_by_when_it_began() {
        assert_eq!(
            start_ticks("7 (a) b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 777 20"),
            Some("777")
        );
        assert_eq!(start_ticks("7 (a"), None);
    }
}
