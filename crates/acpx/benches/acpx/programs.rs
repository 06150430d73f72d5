//! The two programs that are compared, each with a home of its own. Whatever they leave running is ended when they
//! go out of scope, by the process ids that they themselves wrote down.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use acpx_testkit::{TempHome, built_program};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::client::Client;

/// How long a process may take to go.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// How often it is looked whether it has gone.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// A program in a home of its own.
pub(crate) struct Program {
    kind: Kind,
    command: Vec<PathBuf>,
    home: TempHome,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Ours,
    Npm,
}

impl Program {
    /// Ours, as it was built.
    pub(crate) fn ours() -> Self {
        Self::new(Kind::Ours, vec![built_program("acpx")])
    }

    /// npm acpx with its node, as they were installed in a directory.
    pub(crate) fn npm(installed: &Path) -> Self {
        let modules = installed.join("node_modules");
        Self::new(Kind::Npm, vec![modules.join(".bin/node"), modules.join("acpx/dist/cli.js")])
    }

    fn new(kind: Kind, command: Vec<PathBuf>) -> Self {
        let home = TempHome::new();
        for directory in ["work", "run"] {
            fs::create_dir(home.join(directory)).expect("a new home can be written");
        }
        Self { kind, command, home }
    }

    /// The home of its user.
    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    /// Where it keeps its files.
    pub(crate) fn files(&self) -> PathBuf {
        self.home.join(".acpx")
    }

    /// Runs it to its end. What it takes is the time from its start until it has gone.
    pub(crate) fn run(&self, arguments: &[&str]) -> Duration {
        self.output(arguments).0
    }

    /// Runs it to its end: the time, and what it wrote.
    pub(crate) fn output(&self, arguments: &[&str]) -> (Duration, String) {
        let mut command = self.command(arguments);
        let started = Instant::now();
        let output = command.output().expect("the program starts");
        let time = started.elapsed();
        let [stdout, stderr] =
            [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        assert!(output.status.success(), "{command:?}: {}\n{stdout}{stderr}", output.status);
        (time, stdout)
    }

    /// The command line in its home, without a stdin.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.command[0]);
        command
            .args(&self.command[1..])
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.home.path())
            .env("TMPDIR", self.home.path())
            .env("XDG_RUNTIME_DIR", self.home.join("run"))
            .current_dir(self.home.join("work"))
            .stdin(Stdio::null());
        command
    }

    /// An editor's way to an agent, in this version of the protocol.
    pub(crate) fn editor(&self, agent: &str, protocol: u8) -> Client {
        Client::start(&mut self.command(&["--agent", agent, "acp"]), protocol)
    }

    /// Ends what runs in the background, so that the next prompt has to start it.
    pub(crate) fn stop(&self) {
        match self.kind {
            Kind::Ours => drop(self.run(&["host", "stop"])),
            Kind::Npm => self.background().into_iter().for_each(end),
        }
    }

    /// What it runs in the background: our host, or the owners of npm acpx's sessions.
    pub(crate) fn background(&self) -> Vec<u32> {
        match self.kind {
            Kind::Ours => {
                let (_, stdout) = self.output(&["--format", "json", "host", "status"]);
                pid(&stdout).into_iter().collect()
            }
            Kind::Npm => {
                let Ok(entries) = fs::read_dir(self.files().join("queues")) else { return Vec::new() };
                let leases = entries.filter_map(|entry| fs::read_to_string(entry.ok()?.path()).ok());
                leases.filter_map(|lease| pid(&lease)).filter(|pid| is_owner(*pid)).collect()
            }
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        match self.kind {
            // A benchmark that failed says why; that this failed too would hide it.
            Kind::Ours => drop(self.command(&["host", "stop"]).output()),
            Kind::Npm => self.stop(),
        }
    }
}

fn pid(json: &str) -> Option<u32> {
    let value: Value = serde_json::from_str(json).ok()?;
    value["pid"].as_u64().and_then(|pid| pid.try_into().ok())
}

/// A lease may be older than the process that now has its number.
fn is_owner(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains("__queue-owner"))
}

/// Asks an owner to go, and makes it.
fn end(owner: u32) {
    let Some(process) = i32::try_from(owner).ok().and_then(Pid::from_raw) else { return };
    for signal in [Signal::TERM, Signal::KILL] {
        // One that has gone meanwhile needs no signal.
        kill_process(process, signal).ok();
        let started = Instant::now();
        while started.elapsed() < STOP_TIMEOUT {
            if !is_owner(owner) {
                return;
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}
