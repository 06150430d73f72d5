//! The program in a home of its own, for tests of its commands.
//!
//! A place tidies up after itself: at its end the host is told to stop, and then nothing that was started in it
//! may be left. A process that outlives its test fails it.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use acpx_testkit::{Script, TempHome, scripted_agent_command};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::started_process::Started;

/// How often a condition is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// How long a condition may take to come. Only a test that fails waits for so long.
const TIMEOUT: Duration = Duration::from_mins(1);

/// A home and a directory to work in.
pub(crate) struct Place {
    pub(crate) home: TempHome,
}

/// What a command did.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) code: Option<i32>,
}

/// Waits for a condition, and fails if it never comes.
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !condition() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// Kills a process without warning.
pub(crate) fn kill_hard(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // One that has just gone by itself is as dead.
        kill_process(pid, Signal::KILL).ok();
    }
}

impl Place {
    pub(crate) fn new() -> Self {
        let home = TempHome::new();
        for directory in ["home", "work", "run", "user"] {
            std::fs::create_dir_all(home.join(directory)).unwrap();
        }
        Self { home }
    }

    /// The directory that commands work in, every link followed.
    pub(crate) fn work(&self) -> PathBuf {
        self.home.join("work").canonicalize().unwrap()
    }

    /// `ACPX_HOME`.
    pub(crate) fn acpx_home(&self) -> PathBuf {
        self.home.join("home")
    }

    /// The user's home directory, where agents keep their transcripts.
    pub(crate) fn user_home(&self) -> PathBuf {
        self.home.join("user").canonicalize().unwrap()
    }

    /// A path next to the home and the working directory.
    pub(crate) fn path_of(&self, name: &str) -> PathBuf {
        self.home.join(name)
    }

    /// Writes the configuration.
    pub(crate) fn configure(&self, text: &str) {
        std::fs::write(self.acpx_home().join("config.json"), text).unwrap();
    }

    /// Configures `demo` as the built-in agent with these flags.
    pub(crate) fn demo_with(&self, flags: &[&str]) {
        let argv = [&[env!("CARGO_BIN_EXE_acpx"), "demo-agent"], flags].concat();
        self.configure(&json!({ "agents": { "demo": { "argv": argv } } }).to_string());
    }

    /// Configures an agent named `scripted` that plays this script; its command line.
    pub(crate) fn scripted(&self, script: &Script) -> Vec<String> {
        self.scripted_as("scripted", script)
    }

    /// Configures an agent of this name that plays this script; its command line.
    pub(crate) fn scripted_as(&self, name: &str, script: &Script) -> Vec<String> {
        let argv = scripted_agent_command(script, &self.home);
        self.configure(&json!({ "agents": { name: { "argv": argv } } }).to_string());
        argv
    }

    /// A command that nobody has started yet.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_acpx"));
        command
            .args(arguments)
            .current_dir(self.work())
            .env("ACPX_HOME", self.acpx_home())
            .env("XDG_RUNTIME_DIR", self.home.join("run"))
            .env("HOME", self.user_home())
            .env_remove("CLAUDE_CONFIG_DIR")
            .env("NO_COLOR", "1")
            .env_remove("ACPX_TAG")
            .stdin(Stdio::null());
        command
    }

    /// Another program that starts this command: it is told it behind its own arguments, and has its environment.
    pub(crate) fn by(&self, mut program: Command, arguments: &[&str]) -> Command {
        let acpx = self.command(arguments);
        program.arg(acpx.get_program()).args(acpx.get_args()).current_dir(self.work());
        for (name, value) in acpx.get_envs() {
            match value {
                Some(value) => program.env(name, value),
                None => program.env_remove(name),
            };
        }
        program
    }

    /// Runs a command with nothing on its stdin.
    pub(crate) fn acpx(&self, arguments: &[&str]) -> Done {
        Done::of(&mut self.command(arguments))
    }

    /// Runs a command in another directory.
    pub(crate) fn acpx_in(&self, directory: &Path, arguments: &[&str]) -> Done {
        Done::of(self.command(arguments).current_dir(directory))
    }

    /// Runs a command with this text on its stdin.
    pub(crate) fn acpx_with_stdin(&self, stdin: &str, arguments: &[&str]) -> Done {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
        child.wait_with_output().unwrap().into()
    }

    /// Runs a command that succeeds, and says what it wrote.
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let done = self.acpx(arguments);
        assert_eq!(done.code, Some(0), "{arguments:?}: {done:?}");
        done.out
    }

    /// Runs a command with JSON output that succeeds; every line of it.
    pub(crate) fn json_lines(&self, arguments: &[&str]) -> Vec<Value> {
        let done = self.acpx(&[&["--format", "json"], arguments].concat());
        assert_eq!(done.code, Some(0), "{arguments:?}: {done:?}");
        done.lines()
    }

    /// Runs a command with JSON output that succeeds; the last line of it.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        self.json_lines(arguments).pop().unwrap()
    }

    /// Starts a command and goes on.
    pub(crate) fn start(&self, arguments: &[&str]) -> Started {
        Started::new(self.command(arguments))
    }

    /// The pid of the host that runs, as its lock says.
    pub(crate) fn host_pid(&self) -> u32 {
        let lock = std::fs::read(self.acpx_home().join("host.lock")).unwrap();
        let host: Value = serde_json::from_slice(&lock).unwrap();
        u32::try_from(host["pid"].as_u64().unwrap()).unwrap()
    }

    /// Waits until the session of `demo` here stands as it should, and says how.
    pub(crate) fn until(&self, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
        let mut status = Value::Null;
        eventually(what, || {
            status = self.json(&["demo", "status"]);
            condition(&status)
        });
        status
    }

    /// Every process that was started in this home: hosts, agents, commands, and what agents started.
    #[cfg(target_os = "linux")]
    pub(crate) fn processes(&self) -> Vec<u32> {
        let mark = [b"ACPX_HOME=", self.acpx_home().as_os_str().as_encoded_bytes(), b"\0"].concat();
        let carries = |pid: &u32| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.windows(mark.len()).any(|bytes| bytes == mark)
        };
        let entries = std::fs::read_dir("/proc").unwrap();
        let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        pids.filter(carries).collect()
    }

    /// Elsewhere processes do not show their environment.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn processes(&self) -> Vec<u32> {
        Vec::new()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.acpx_home().join("host.lock").exists() {
            // Whatever is wrong with it is seen by what it leaves.
            drop(self.acpx(&["host", "stop"]));
        }
        let left = self.processes();
        let shown: Vec<String> = left.iter().map(|pid| command_line(*pid)).collect();
        left.iter().copied().for_each(kill_hard);
        if !std::thread::panicking() {
            assert_eq!(shown, [""; 0], "processes outlived their test");
        }
    }
}

fn command_line(pid: u32) -> String {
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    format!("{pid}: {}", String::from_utf8_lossy(&words).replace('\0', " "))
}

impl Done {
    /// Runs a command to its end.
    pub(crate) fn of(command: &mut Command) -> Self {
        command.output().unwrap().into()
    }

    /// The same without the tokens that an agent reports, for tests of something else.
    pub(crate) fn without_tokens(mut self) -> Self {
        let other = self.err.split_inclusive('\n').filter(|line| !line.starts_with("[acpx] tokens: "));
        self.err = other.collect();
        self
    }

    /// The one line of stdout, as JSON.
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.out.lines().count(), 1, "{self:?}");
        self.lines().remove(0)
    }

    /// Every line of stdout, as JSON. Objects of ours keep the identity contract.
    pub(crate) fn lines(&self) -> Vec<Value> {
        let read =
            |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line:?}: {error}"));
        let lines: Vec<Value> = self.out.lines().map(read).collect();
        lines.iter().for_each(crate::contract::check);
        lines
    }

    /// The stable code, the hint and the exit code of a command that failed in JSON. The error is its last line.
    pub(crate) fn failure(&self) -> (String, String, Option<i32>) {
        let last = self.lines().pop().unwrap_or_else(|| panic!("{self:?}"));
        let data = &last["error"]["data"];
        let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{self:?}")).to_owned();
        (text(&data["detailCode"]), text(&data["hint"]), self.code)
    }
}

impl From<std::process::Output> for Done {
    fn from(output: std::process::Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Self { out: text(output.stdout), err: text(output.stderr), code: output.status.code() }
    }
}

/// The path as text.
pub(crate) fn text(path: impl AsRef<OsStr>) -> String {
    path.as_ref().to_str().unwrap().to_owned()
}
