//! A process that is heard together with others: what each of them writes comes through one channel, so that a test
//! waits for whichever speaks first. A line that was cut off by a kill was never said.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Instant;

/// How many lines the processes may be ahead of their test; then they wait.
const LINES: usize = 4096;

/// Which process said something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Speaker(usize);

/// What a process said. Nothing more comes after `None`.
pub(super) struct Heard {
    pub(super) who: Speaker,
    pub(super) line: Option<String>,
}

/// The ear that all processes speak to.
pub(super) struct Ear {
    speaking: SyncSender<Heard>,
    coming: Receiver<Heard>,
    started: usize,
}

/// A process at work. Dropped, it is killed.
pub(super) struct Process {
    pub(super) who: Speaker,
    child: Child,
    stdin: Option<ChildStdin>,
}

impl Ear {
    pub(super) fn new() -> Self {
        let (speaking, coming) = sync_channel(LINES);
        Self { speaking, coming, started: 0 }
    }

    /// Starts a process that is heard here.
    pub(super) fn start(&mut self, mut command: Command) -> Process {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        self.started += 1;
        let (who, speaking) = (Speaker(self.started), self.speaking.clone());
        std::thread::spawn(move || {
            let mut line = String::new();
            while stdout.read_line(&mut line).is_ok_and(|_| line.ends_with('\n')) {
                let line = Some(std::mem::take(&mut line));
                if speaking.send(Heard { who, line }).is_err() {
                    return;
                }
            }
            // A test that is over does not hear the end.
            speaking.send(Heard { who, line: None }).ok();
        });
        Process { who, stdin: child.stdin.take(), child }
    }

    /// What is said next, if it is said in time.
    pub(super) fn hear(&self, deadline: Instant) -> Option<Heard> {
        let left = deadline.saturating_duration_since(Instant::now());
        match self.coming.recv_timeout(left) {
            Ok(heard) => Some(heard),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => panic!("the ear speaks to itself"),
        }
    }
}

impl Process {
    /// Says a line to it.
    pub(super) fn say(&mut self, line: &str) {
        self.stdin.as_mut().unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// Kills it without warning. What it wrote before is still heard.
    pub(super) fn kill(&mut self) {
        self.child.kill().unwrap();
    }

    /// How it ended, once nothing more comes from it.
    pub(super) fn ended(mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // One that has ended cannot be killed, and is only waited for.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
