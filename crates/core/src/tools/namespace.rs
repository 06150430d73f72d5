//! Which processes are numbered as we are.
//!
//! A pid means a process only within its pid namespace: what runs in a container has numbers of its own, and the
//! boot is the same on both sides. So a number that somebody else has written down is looked up only if it was
//! written in our namespace, and only what is in our namespace is ever signalled. Where the namespace cannot be
//! read, nothing is known and nothing is done.
#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::MetadataExt;

/// The namespace of this process; none if `/proc` is that of another one, so that its numbers are not ours.
pub(super) fn ours() -> Option<u64> {
    let number: u32 = fs::read_link("/proc/self").ok()?.to_str()?.parse().ok()?;
    (number == std::process::id()).then(|| number_of("/proc/self/ns/pid"))?
}

/// The namespace a process is in; none if it may not be looked at.
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
