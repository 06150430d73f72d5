//! A command that runs while its test goes on: what it writes can be waited for, and it can be stopped.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::acpx::Done;

/// How long a line may take to come. Only a test that fails waits for so long.
const TIMEOUT: Duration = Duration::from_mins(1);

/// How many lines a command may be ahead of its test; then it waits.
const LINES: usize = 1024;

/// A command at work. Dropped, it is killed.
pub(crate) struct Started {
    child: Child,
    out: Lines,
    err: Lines,
}

/// What it writes, line by line.
struct Lines {
    coming: Receiver<String>,
    /// What was taken so far.
    seen: String,
}

impl Started {
    pub(crate) fn new(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let out = Lines::of(child.stdout.take().unwrap());
        let err = Lines::of(child.stderr.take().unwrap());
        Self { child, out, err }
    }

    /// Waits for a line of stdout with these words in it; the line.
    pub(crate) fn wait_for(&mut self, words: &str) -> String {
        self.out.wait_for(words)
    }

    /// Waits for a line of stderr with these words in it.
    pub(crate) fn wait_for_word(&mut self, words: &str) {
        self.err.wait_for(words);
    }

    /// Whether it listens to signals, and so has begun to wait for something.
    #[cfg(target_os = "linux")]
    pub(crate) fn waits(&self) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
        // The interrupt is signal 2.
        caught & 0b10 != 0
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Waits for its end, and says all that it did.
    pub(crate) fn done(mut self) -> Done {
        // One that writes more than fits waits until it is read.
        let out = self.out.rest();
        let err = self.err.rest();
        Done { out, err, code: self.child.wait().unwrap().code() }
    }
}

impl Lines {
    fn of(from: impl Read + Send + 'static) -> Self {
        let mut from = BufReader::new(from);
        let (sender, coming) = sync_channel(LINES);
        std::thread::spawn(move || {
            let mut line = String::new();
            while from.read_line(&mut line).is_ok_and(|size| size > 0) {
                if sender.send(std::mem::take(&mut line)).is_err() {
                    break;
                }
            }
        });
        Self { coming, seen: String::new() }
    }

    fn wait_for(&mut self, words: &str) -> String {
        loop {
            let line = self.coming.recv_timeout(TIMEOUT);
            let line = line.unwrap_or_else(|error| panic!("{words:?} never came, {error}: {}", self.seen));
            self.seen.push_str(&line);
            if line.contains(words) {
                return line;
            }
        }
    }

    fn rest(&mut self) -> String {
        let mut all = std::mem::take(&mut self.seen);
        all.extend(self.coming.iter());
        all
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // One that has ended cannot be killed, and is only waited for.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
