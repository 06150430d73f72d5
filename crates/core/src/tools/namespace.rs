//! The pid namespaces of processes.
//!
//! A pid is valid only within its pid namespace: a container has its own pids but shares the boot id. So a stored pid
//! is looked up only if it was stored in our namespace, and only processes in our namespace are signalled. If the
//! namespace cannot be read, nothing is signalled.
#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::MetadataExt;

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
mod tests {
    use super::*;

    #[test]
    fn this_process_is_in_our_namespace_and_nobody_is_in_none() {
        assert!(ours().is_some());
        assert_eq!((of(std::process::id()), of(u32::MAX)), (ours(), None));
    }
}
