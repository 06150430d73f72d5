//! A command that runs while its test goes on: what it writes can be waited for, and it can be stopped.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::acpx::Done;

/// How long a line may take to come. Only a test that fails waits for so long.
const PATIENCE: Duration = Duration::from_mins(1);

/// How many lines a command may be ahead of its test; then it waits.
const LINES: usize = 1024;

/// A command at work. Dropped, it is killed.
pub(crate) struct Started {
    child: Child,
    lines: Receiver<String>,
    /// What was taken from the lines so far.
    seen: String,
    err: Option<JoinHandle<String>>,
}

impl Started {
    pub(crate) fn new(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut err = child.stderr.take().unwrap();
        let (sender, lines) = sync_channel(LINES);
        std::thread::spawn(move || {
            let mut line = String::new();
            while out.read_line(&mut line).is_ok_and(|size| size > 0) {
                if sender.send(std::mem::take(&mut line)).is_err() {
                    break;
                }
            }
        });
        let err = std::thread::spawn(move || {
            let mut text = String::new();
            err.read_to_string(&mut text).unwrap();
            text
        });
        Self { child, lines, seen: String::new(), err: Some(err) }
    }

    /// Waits for a line of stdout with these words in it.
    pub(crate) fn wait_for(&mut self, words: &str) {
        loop {
            let line = self.lines.recv_timeout(PATIENCE);
            let line = line.unwrap_or_else(|error| panic!("{words:?} never came, {error}: {}", self.seen));
            self.seen.push_str(&line);
            if line.contains(words) {
                return;
            }
        }
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
        let code = self.child.wait().unwrap().code();
        let mut out = std::mem::take(&mut self.seen);
        out.extend(self.lines.iter());
        Done { out, err: self.err.take().unwrap().join().unwrap(), code }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // One that has ended cannot be killed, and is only waited for.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
