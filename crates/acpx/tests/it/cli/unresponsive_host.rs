//! A host that is there and does not answer. Whether a command waits for it is seen where Linux shows which signals
//! a process listens to.

use rustix::process::{Pid, Signal, kill_process};

use crate::acpx::{Place, eventually, text};

/// Stops a process where it is, until this is dropped.
struct Frozen(Pid);

impl Frozen {
    fn new(pid: u32) -> Self {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).unwrap();
        kill_process(pid, Signal::STOP).unwrap();
        Self(pid)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        kill_process(self.0, Signal::CONT).unwrap();
    }
}

#[test]
fn unresponsive_host_blocks_no_command() {
    let place = Place::new();
    place.ok(&["demo", "sessions", "new"]);
    place.ok(&["demo", "hello"]);
    std::fs::create_dir(place.path_of("old")).unwrap();
    let old = text(place.path_of("old"));
    let frozen = Frozen::new(place.host_pid());
    let lines: [&[&str]; 5] = [
        &["demo", "hello"],
        &["demo", "--no-wait", "hello"],
        &["demo", "sessions", "new"],
        &["demo", "sessions", "close"],
        &["demo", "cancel"],
    ];
    for line in lines {
        let done = place.acpx(&[&["--format", "json", "--timeout", "0.1"], line].concat());
        let (code, _, exit) = done.failure();
        assert_eq!((code.as_str(), exit), ("TIMEOUT", Some(3)), "{line:?}");
    }
    let told = [&["host", "status"][..], &["host", "stop"], &["sessions", "migrate", &old]];
    for line in lines.into_iter().chain(told) {
        let running = place.start(line);
        eventually("the command waits for the host", || running.waits());
        running.signal(Signal::INT);
        assert_eq!(running.done().code, Some(130), "{line:?}");
    }
    drop(frozen);
    assert_eq!(place.json(&["demo", "status"])["status"], "alive", "nothing was done meanwhile");
}
