//! A full or read-only disk: a command that writes says so and names the store, and commands that only read work.
//!
//! A library that is loaded into the program makes the disk fail, because a test may not mount one.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::acpx::{Done, Place, eventually, text};
use crate::started_process::Started;

/// A place whose disk fails while a mark exists.
struct FaultyDisk {
    place: Place,
    library: PathBuf,
    kind: &'static str,
}

impl FaultyDisk {
    fn new(kind: &'static str) -> Self {
        let place = Place::new();
        let library = place.path_of("disk_faults.so");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/cli/disk_faults.c");
        let built =
            Command::new("cc").args(["-shared", "-fPIC", "-o", &text(&library), source, "-ldl"]).output();
        let built = Done::from(built.expect("cc is installed: ./test installs gcc"));
        assert_eq!(built.code, Some(0), "{built:?}");
        Self { place, library, kind }
    }

    fn mark(&self) -> PathBuf {
        self.place.path_of("fault")
    }

    fn fail(&self) {
        fs::write(self.mark(), "").unwrap();
    }

    fn recover(&self) {
        fs::remove_file(self.mark()).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.place.command(arguments);
        command
            .env("LD_PRELOAD", &self.library)
            .env("FAULT_DIRECTORY", self.place.acpx_home().canonicalize().unwrap())
            .env("FAULT_MARK", self.mark())
            .env("FAULT_KIND", self.kind);
        command
    }

    fn acpx(&self, arguments: &[&str]) -> Done {
        Done::of(&mut self.command(arguments))
    }

    /// A host on this disk: one that a command starts has not its environment.
    fn host(&self) -> Started {
        let host = Started::new(self.command(&["host", "run"]));
        eventually("the host listens", || self.acpx(&["host", "status"]).out.contains("running"));
        host
    }

    /// Every command that only reads answers as before.
    fn reads(&self, before: &[Done]) {
        for (line, before) in READING.iter().zip(before) {
            let now = self.acpx(line);
            assert_eq!((&now.out, now.code), (&before.out, Some(0)), "{line:?}: {now:?}");
        }
        let doctor = self.acpx(&["doctor"]);
        assert!(doctor.out.lines().any(|line| line.starts_with("ok    store ")), "{doctor:?}");
    }

    fn answers(&self) -> Vec<Done> {
        READING.iter().map(|line| self.acpx(line)).collect()
    }
}

/// Commands that only read.
const READING: [&[&str]; 6] = [
    &["sessions", "list"],
    &["demo", "sessions", "show", "api"],
    &["demo", "sessions", "history", "api"],
    &["demo", "sessions", "replay", "api"],
    &["--format", "json", "demo", "sessions", "result", "api"],
    &["--format", "quiet", "queue", "list"],
];

#[test]
fn full_disk_fails_what_writes_and_nothing_that_reads() {
    let disk = FaultyDisk::new("full");
    let host = disk.host();
    disk.acpx(&["demo", "sessions", "new", "-s", "api"]);
    assert_eq!(disk.acpx(&["demo", "-s", "api", "before"]).code, Some(0));
    let before = disk.answers();
    disk.fail();
    let lines: [&[&str]; 3] = [
        &["--format", "json", "demo", "-s", "api", "during"],
        &["--format", "json", "demo", "sessions", "new", "-s", "other"],
        &["--format", "json", "demo", "-s", "api", "--no-wait", "queued"],
    ];
    for line in lines {
        let done = disk.acpx(line);
        let (code, hint, exit) = done.failure();
        assert_eq!((code.as_str(), exit), ("STORE_FULL", Some(1)), "{line:?}: {done:?}");
        assert!(hint.contains("df -h") && done.out.contains("acpx.db"), "{done:?}");
    }
    disk.reads(&before);
    disk.recover();
    assert_eq!(disk.acpx(&["demo", "-s", "api", "after"]).code, Some(0));
    let history = disk.acpx(&["--format", "quiet", "demo", "sessions", "history", "api"]).out;
    assert!(
        history.contains("before") && history.contains("after") && !history.contains("during"),
        "{history}"
    );
    assert_eq!(disk.acpx(&["verify"]).code, Some(0));
    drop(disk.acpx(&["host", "stop"]));
    assert_eq!(host.done().code, Some(0));
}

#[test]
fn store_without_a_host_is_read_on_a_full_disk() {
    let disk = FaultyDisk::new("full");
    disk.place.ok(&["demo", "sessions", "new", "-s", "api"]);
    disk.place.ok(&["demo", "-s", "api", "before"]);
    disk.place.ok(&["host", "stop"]);
    let before = disk.answers();
    disk.fail();
    disk.reads(&before);
}

#[test]
fn store_on_a_read_only_disk_is_read_and_not_written() {
    let disk = FaultyDisk::new("read-only");
    disk.place.ok(&["demo", "sessions", "new", "-s", "api"]);
    disk.place.ok(&["demo", "-s", "api", "before"]);
    disk.place.ok(&["host", "stop"]);
    let before = disk.answers();
    disk.fail();
    disk.reads(&before);
    let done = disk.acpx(&["--format", "json", "demo", "-s", "api", "during"]);
    let (code, hint, exit) = done.failure();
    assert_eq!((code.as_str(), exit), ("HOST_DIRECTORY", Some(1)), "{done:?}");
    assert!(done.out.contains("Read-only file system") && done.out.contains("/home"), "{done:?}");
    assert!(!hint.is_empty());
}
