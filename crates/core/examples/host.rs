//! A host as a program starts it, for tests: it may be killed, and there may be several.
//!
//!     host HOME RUNTIME LINGER_MILLIS IDLE_MILLIS [ASK_OTHERS_MILLIS STALL_MILLIS]
//!
//! A configuration file of servers has a line for each: its name and the path of its program.

use std::error::Error;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use acpx_core::client::READY;
use acpx_core::engine::EngineSettings;
use acpx_core::home::{HostLock, HostPaths};
use acpx_core::host;
use acpx_core::host::{Around, ClientTimeouts, HostSetup};
use acpx_core::model::{AbsolutePath, McpServer, McpTransport};
use acpx_core::protocol::startup_error_line;
use acpx_core::tools::GracePeriods;

/// How long the host before may take to go.
const TAKEOVER_TIMEOUT: Duration = Duration::from_secs(20);

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let ([home, runtime, linger, idle] | [home, runtime, linger, idle, _, _]) = &arguments[..] else {
        return Err("host HOME RUNTIME LINGER_MILLIS IDLE_MILLIS [ASK_OTHERS_MILLIS STALL_MILLIS]".into());
    };
    let paths = HostPaths::new(PathBuf::from(home), None, Path::new(runtime));
    match HostLock::contend(&paths, TAKEOVER_TIMEOUT) {
        Ok(Some(lock)) => {
            let millis = Duration::from_millis;
            let client_timeouts = match &arguments[4..] {
                [ask_others, stall] => ClientTimeouts {
                    ask_others: millis(ask_others.parse()?),
                    disconnect: millis(stall.parse()?),
                },
                _ => ClientTimeouts::default(),
            };
            let setup = HostSetup {
                paths,
                version: "example".to_owned(),
                build: None,
                linger: millis(linger.parse()?),
                client_timeouts,
                settings: EngineSettings {
                    idle: Some(millis(idle.parse()?)),
                    cancel_grace: millis(300),
                    process: GracePeriods { eof: millis(500), term: millis(500) },
                    ..EngineSettings::default()
                },
                server_file: Arc::new(servers_of),
                own_servers: Arc::new(|_| Vec::new()),
                usage_limits: Arc::new(acpx_core::model::SpendingLimits::default),
                name_of: |_| None,
            };
            be_the_host(setup, lock)
        }
        Ok(None) => Ok(say(READY)?),
        Err(error) => Ok(say(&startup_error_line(error.code(), &error.to_string(), error.hint()))?),
    }
}

fn be_the_host(setup: HostSetup, lock: HostLock) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ready = |_: &Arc<host::Host>| {
        // Whoever started us may have gone since.
        drop(say(READY));
    };
    match runtime.block_on(host::run(setup, lock, ready)) {
        Ok(()) => Ok(()),
        Err(error) => Ok(say(&startup_error_line(error.code(), &error.to_string(), error.hint()))?),
    }
}

/// Says the last there is to say here, and that it is the last.
fn say(words: &str) -> io::Result<()> {
    let mut out = io::stdout();
    out.write_all(words.as_bytes())?;
    out.flush()?;
    let nowhere = OpenOptions::new().write(true).open("/dev/null")?;
    Ok(rustix::stdio::dup2_stdout(nowhere)?)
}

fn servers_of(_: &Path, text: &str, _: Around<'_>) -> Result<Vec<McpServer>, String> {
    let server = |line: &str| {
        let (name, program) = line.split_once(' ')?;
        let command = AbsolutePath::new(program).ok()?;
        let transport = McpTransport::Stdio { command, args: Vec::new(), env: Vec::new() };
        Some(McpServer::new(name, transport))
    };
    let bad = |number: usize| format!("line {} is no server", number + 1);
    text.lines().enumerate().map(|(number, line)| server(line).ok_or_else(|| bad(number))).collect()
}
