//! Detects whether an npm acpx holds a session. Its background process leaves a lease file, and a running turn a lock
//! file. Both name a process, which counts only if it is still the one that wrote the file.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use serde::Deserialize;

use super::directory::{LOCK_SUFFIX, RecordFile};
use super::run::LivingProcess;
use crate::model::{ProcessIdentity, sha256_hex};
use crate::store::file_system;

/// A lease or a lock has a few hundred bytes; a larger file is neither.
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

/// The lease files of npm acpx. There are usually none, so that no record's lease or lock has to be read.
#[derive(Debug, Default)]
pub(super) struct LeaseFiles(HashSet<OsString>);

impl LeaseFiles {
    /// The lease files next to a sessions directory.
    pub(super) fn beside(directory: &Path) -> Self {
        let queues = directory.parent().and_then(|home| home.join("queues").read_dir().ok());
        Self(queues.into_iter().flatten().filter_map(|entry| Some(entry.ok()?.file_name())).collect())
    }

    /// The process that holds the session of these files, if any.
    pub(super) fn owner_of(
        &self,
        files: &RecordFile,
        directory: &Path,
        living: LivingProcess,
    ) -> Option<i32> {
        if self.0.is_empty() && !files.has_lock {
            return None;
        }
        let id = id_of(files.stem())?;
        if !files.has_lock && !self.0.contains(OsStr::new(&lease_name(&id))) {
            return None;
        }
        living_owner(directory, files.stem(), &id, living)
    }
}

/// The process that holds a session, if any. `stem` is the name of the record's files.
pub(super) fn living_owner(directory: &Path, stem: &str, id: &str, living: LivingProcess) -> Option<i32> {
    let lease = directory.parent().map(|home| home.join("queues").join(lease_name(id)));
    let lock = directory.join(format!("{stem}{LOCK_SUFFIX}"));
    lease.into_iter().chain([lock]).find_map(|path| living_process(&path, living))
}

/// The record id that a file's name encodes.
fn id_of(stem: &str) -> Option<String> {
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

/// How many digits of the digest are in the name of a lease.
const LEASE_DIGITS: usize = 24;

fn lease_name(id: &str) -> String {
    let digits: String = sha256_hex(id.as_bytes()).chars().take(LEASE_DIGITS).collect();
    format!("{digits}.lock")
}

fn living_process(path: &Path, living: LivingProcess) -> Option<i32> {
    let bytes = file_system::read(path, LARGEST).ok()??;
    let claim: Claim = serde_json::from_slice(&bytes).ok()?;
    let process = living(u32::try_from(claim.pid).ok()?)?;
    claim.identity.is_none_or(|identity| identity.fits(&process)).then_some(claim.pid)
}

impl Identity {
    /// Whether a running process can be the one in the claim. Values that are missing on either side are not
    /// compared.
    fn fits(&self, process: &ProcessIdentity) -> bool {
        let ProcessIdentity { started, boot, .. } = process;
        let same_boot = self.boot.as_ref().is_none_or(|recorded| recorded == boot);
        let same_start = self.started.as_ref().is_none_or(|recorded| *recorded == started.to_string());
        boot.is_empty() || (same_boot && same_start)
    }
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
    fn a_claim_holds_while_the_process_that_made_it_runs() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("lease");
        let owner = |claim: &str| {
            std::fs::write(&path, claim).unwrap();
            living_process(&path, |pid| match pid {
                7 => Some(ProcessIdentity { pid, started: 777, boot: "this boot".into() }),
                // A process of which the system reports only the pid.
                8 => Some(ProcessIdentity { pid, started: 0, boot: String::new() }),
                _ => None,
            })
        };
        let claim = |pid: i32, ticks: &str, boot: &str| {
            format!(r#"{{"pid":{pid},"processIdentity":{{"startTicks":"{ticks}","bootId":"{boot}"}}}}"#)
        };
        let holds = [
            (r#"{"pid":7}"#.to_owned(), Some(7)),
            (r#"{"pid":7,"processIdentity":{}}"#.to_owned(), Some(7)),
            (claim(7, "777", "this boot"), Some(7)),
            (claim(7, "778", "this boot"), None),
            (claim(7, "0777", "this boot"), None),
            (claim(7, "777", "another"), None),
            (claim(8, "777", "another"), Some(8)),
            (claim(9, "777", "this boot"), None),
            (r#"{"pid":-7}"#.to_owned(), None),
            ("{".to_owned(), None),
            (" ".repeat(70_000) + r#"{"pid":7}"#, None),
        ];
        for (claim, holder) in holds {
            assert_eq!(owner(&claim), holder, "{}", claim.trim());
        }
    }
}
