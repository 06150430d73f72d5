//! Process identities.

use std::process::{Command, Stdio};

use super::super::stat::Stat;
use super::*;

#[test]
fn reused_pid_is_another_process() {
    let stat = |started| Stat { pid: 7, name: "sh".to_owned(), is_dead: false, parent: 1, group: 7, started };
    let first = stat(100).identity("boot");
    assert_eq!(first, ProcessIdentity { pid: 7, started: 100, boot: "boot".to_owned() });
    assert_ne!(first, stat(101).identity("boot"));
    assert_ne!(first, stat(100).identity("another boot"));
}

#[test]
fn only_the_very_process_is_alive() {
    let this = ProcessIdentity::of(std::process::id()).unwrap();
    assert!(this.is_alive());
    assert!(!ProcessIdentity { started: this.started + 1, ..this.clone() }.is_alive());
    assert!(!ProcessIdentity { boot: "another".to_owned(), ..this }.is_alive());
    assert!(!ProcessIdentity::unknown(std::process::id()).is_alive());
    assert_eq!(ProcessIdentity::of(u32::MAX), None);
}

#[test]
fn zombie_process_is_not_alive() {
    let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let identity = ProcessIdentity::of(child.id()).unwrap();
    assert!(identity.is_alive());
    child.kill().unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    let look = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
    rustix::process::waitid(rustix::process::WaitId::Pid(pid), look).unwrap();
    assert_eq!((identity.is_alive(), ProcessIdentity::of(child.id())), (false, Some(identity.clone())));
    child.wait().unwrap();
    assert!(!identity.is_alive());
}
