//! The host as a process of its own, on its socket, with real agents: what its clients see, whoever goes away,
//! stalls or is killed.
//!
//! The host is the example `host`. Each test has a home of its own, and what it leaves is ended with it.
#![cfg(all(test, target_os = "linux"))]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use acpx_core::client::{HostClient, Launcher};
use acpx_core::home::{HostPaths, published};
use acpx_core::model::{ProcessIdentity, Record, RecordId};
use acpx_core::protocol::{HostError, HostErrorResponse, HostMessage};
use acpx_core::store::{Access, SqliteStore, Store};
use acpx_core::tools::{GracePeriods, sweep};
use acpx_testkit::{Script, TempHome, scripted_agent_command};
use serde_json::{Value, json};

use crate::examples;

mod abandoned_session_new;
mod abuse;
mod adopt;
mod agent_connection;
mod agent_memory;
mod directories;
mod editor;
mod errors;
mod fork;
mod host_kill;
mod host_versions;
mod hundred_sessions;
mod lifecycle;
mod load_in_mid_turn;
mod login;
mod mcp_servers;
mod models;
mod permission_outcomes;
mod permission_requests;
mod process_cleanup;
mod replay;
mod request_dedup;
mod safety;
mod scopes;
mod sdk;
mod session_list;
mod sessions;
mod settings;
mod setup_updates;
mod shared_sessions;
mod slow_clients;
mod subagents;
mod tools;
mod turn_owners;
mod unknown_members;
mod update_order;
mod usage_limits;
mod version_2;
mod version_combinations;
mod version_translation;
mod wait_reason;
mod watch;

/// A home, and how its host is reached.
struct Bench {
    home: TempHome,
    paths: HostPaths,
    launcher: Launcher,
}

/// How a test's host behaves.
#[derive(Clone, Copy)]
struct Manner {
    linger: Duration,
    idle: Duration,
}

/// A host that stays, and whose agents stay, for longer than any test.
const NEVER_IDLE: Manner = Manner { linger: Duration::from_mins(10), idle: Duration::from_mins(10) };

impl Bench {
    fn new() -> Self {
        Self::with(NEVER_IDLE)
    }

    fn with(manner: Manner) -> Self {
        let home = TempHome::new();
        let runtime = home.join("run");
        let paths = HostPaths::new(home.join("home"), None, &runtime);
        let millis = |time: Duration| time.as_millis().to_string().into();
        let args = [paths.home().to_owned(), runtime].map(PathBuf::into_os_string);
        let args = args.into_iter().chain([millis(manner.linger), millis(manner.idle)]).collect();
        let launcher = Launcher { program: examples::program("host"), args, environment: Vec::new() };
        Self { home, paths, launcher }
    }

    /// One whose host waits so long for clients that take nothing: before it asks others as well, and before they go.
    fn with_client_timeouts(ask_others: Duration, disconnect: Duration) -> Self {
        let mut bench = Self::new();
        let millis = [ask_others, disconnect].map(|time| time.as_millis().to_string());
        bench.launcher.args.extend(millis.map(Into::into));
        bench
    }

    /// The same with a host that may open so many files.
    fn with_files(self, files: usize) -> Self {
        self.with_ulimit(&format!("-n {files}"))
    }

    /// The same with a host that a shell starts after `ulimit` with these arguments.
    fn with_ulimit(mut self, limit: &str) -> Self {
        let shell = ["-c".into(), format!("ulimit {limit}; exec \"$0\" \"$@\"").into()];
        let host = std::mem::replace(&mut self.launcher.program, PathBuf::from("/bin/sh"));
        self.launcher.args.splice(0..0, shell.into_iter().chain([host.into()]));
        self
    }

    /// Where its host has its socket.
    fn sockets(&self) -> PathBuf {
        self.home.join("run").join(format!("acpx-{}", rustix::process::getuid().as_raw()))
    }

    async fn client(&self) -> HostClient {
        self.launcher.reach(&self.paths).await.expect("the host comes up")
    }

    /// The command line of an agent that plays a script.
    fn agent(&self, script: &Script) -> Vec<String> {
        scripted_agent_command(script, &self.home)
    }

    /// The params of `session/new` with this agent.
    fn new_params(&self, argv: &[String]) -> Value {
        let acpx = json!({ "agent": { "name": "scripted", "argv": argv }, "environment": environment() });
        json!({ "cwd": self.home.path(), "mcpServers": [], "_meta": { "acpx": acpx } })
    }

    /// Makes a session with this agent; its record.
    async fn open(&self, client: &mut HostClient, argv: &[String]) -> String {
        let answer: Value = client.call("session/new", &self.new_params(argv)).await.expect("a session");
        answer["sessionId"].as_str().expect("a session id").to_owned()
    }

    /// The params of `session/resume`.
    fn resume_params(&self, record: &str) -> Value {
        let meta = json!({ "acpx": { "environment": environment() } });
        json!({ "sessionId": record, "cwd": self.home.path(), "_meta": meta })
    }

    async fn resume(&self, client: &mut HostClient, record: &str) -> Value {
        client.call("session/resume", &self.resume_params(record)).await.expect("the session comes back")
    }

    /// The store as it is on the disk.
    fn store(&self) -> SqliteStore {
        SqliteStore::open(&self.paths.store(), Access::ReadOnly).expect("the store can be read")
    }

    async fn record(&self, record: &str) -> Record {
        let found = self.store().record(RecordId::new(record).unwrap()).await.unwrap();
        found.expect("the record is kept")
    }

    fn host_process(&self) -> ProcessIdentity {
        published(&self.paths).expect("a host listens").process
    }

    /// Kills the host as the world does, and waits until it is gone.
    async fn kill_host(&self) {
        let host = self.host_process();
        kill(host.pid);
        eventually("the host is gone", || !host.is_alive()).await;
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // A test may have been its own host, and the pid of a host that is gone may be anybody's.
        let host = published(&self.paths).map(|info| info.process);
        if let Some(host) = host.filter(|host| host.pid != std::process::id() && host.is_alive()) {
            kill(host.pid);
        }
        if let Ok(home) = self.paths.name() {
            sweep(&home, &[], &[], GracePeriods { eof: Duration::ZERO, term: Duration::ZERO });
        }
    }
}

fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    // It may have gone by itself.
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
}

/// What agents of these tests get.
fn environment() -> Vec<(String, String)> {
    std::env::vars().collect()
}

/// The answer to a `session/delete` whose agent cannot delete.
fn kept_by_agent() -> Value {
    let why = "the agent \"scripted\" does not offer session/delete";
    json!({ "_meta": { "acpx": { "keptByAgent": why } } })
}

/// The params of `session/prompt`, with what stands under `_meta.acpx`.
fn prompt_params(record: &str, text: &str, acpx: Value) -> Value {
    let prompt = json!([{ "type": "text", "text": text }]);
    let mut params = json!({ "sessionId": record, "prompt": prompt });
    params["_meta"]["acpx"] = acpx;
    params
}

/// Prompts and waits for the answer.
async fn prompt(client: &mut HostClient, record: &str, text: &str) -> Value {
    client.call("session/prompt", &prompt_params(record, text, json!({}))).await.expect("the turn ends")
}

/// A call that the host refuses.
async fn refusal(client: &mut HostClient, method: &str, params: &Value) -> HostErrorResponse {
    match client.call::<Value>(method, params).await {
        Err(HostError::Refused(refusal)) => refusal,
        other => panic!("not refused: {other:?}"),
    }
}

/// Takes what a host says until it is what is looked for.
async fn until<T>(client: &mut HostClient, mut wanted: impl FnMut(HostMessage) -> Option<T>) -> T {
    loop {
        if let Some(found) = wanted(client.next().await.expect("the host is there")) {
            return found;
        }
    }
}

/// How often a condition is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// Waits for a condition, and fails if it never comes.
async fn eventually(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// Waits for something that takes several calls, and fails if it never comes.
async fn in_time<T>(what: &str, wait: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(Duration::from_secs(30), wait).await;
    waited.unwrap_or_else(|_| panic!("never: {what}"))
}
