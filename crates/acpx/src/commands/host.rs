//! `acpx host status|stop|restart`, and `acpx host run`, which is the host itself.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use acpx_core::engine::Settings as EngineSettings;
use acpx_core::host::{self, HostClient, HostError, HostLock, HostPlace, HostSetup, READY};
use acpx_core::model::{McpServer, ProcessIdentity, Timestamp};
use serde::Deserialize;
use serde_json::json;

use crate::cli::{HostCommand, OutputOptions};
use crate::config::{McpFile, Surroundings};
use crate::error::{CliError, Exit};
use crate::output::{self, Console, HostChange, RunningHost};
use crate::reach::{Reach, block_on};
use crate::settings::{self, LazyConfig};

/// How long a host stays with nothing to do.
const LINGER: Duration = Duration::from_secs(10);
/// How long a host that was asked to go may take: its agents have some seconds each, all at once.
const FAREWELL: Duration = Duration::from_secs(30);
/// How often a new host looks whether the one before it has gone.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Does something about the host.
pub(crate) fn run(
    command: HostCommand,
    output: OutputOptions,
    config: &LazyConfig,
) -> Result<ExitCode, CliError> {
    let reach = Reach::of_environment()?;
    if command == HostCommand::Run {
        return Ok(be_the_host(&reach.place));
    }
    let mut console = Console::of_program(settings::mode(output, config.get()?)?);
    block_on(async {
        match command {
            HostCommand::Status => status(&reach, &mut console).await?,
            HostCommand::Stop => {
                let change =
                    if stop(&reach.place).await? { HostChange::Stopped } else { HostChange::NoneToStop };
                output::host_changed(change, &mut console)?;
            }
            HostCommand::Restart | HostCommand::Run => {
                stop(&reach.place).await?;
                let mut client = reach.host(&mut console).await?;
                let pid = ask(&mut client).await?.pid;
                output::host_changed(HostChange::Restarted { pid }, &mut console)?;
            }
        }
        Ok(Exit::Success.into())
    })
}

/// What a host says of itself.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    pid: u32,
    version: String,
    started_at: String,
    live_sessions: usize,
    clients: usize,
}

async fn ask(client: &mut HostClient) -> Result<Status, HostError> {
    client.call("_acpx/host/status", &json!({})).await
}

async fn status(reach: &Reach, console: &mut Console<'_>) -> Result<(), CliError> {
    let home = reach.place.home();
    let Some(mut client) = host::any_version(&reach.place).await? else {
        return Ok(output::host_status(home, None, console)?);
    };
    let status = ask(&mut client).await?;
    let info = host::published(&reach.place);
    let bad = || HostError::BadAnswer { method: "_acpx/host/status".to_owned() };
    let running = RunningHost {
        pid: status.pid,
        version: &status.version,
        since: Timestamp::parse(&status.started_at).map_err(|_| bad())?,
        socket: info.as_ref().map(|info| &*info.socket).ok_or_else(bad)?,
        live_sessions: status.live_sessions,
        // This command is one of them, and not one that anybody means.
        clients: status.clients.saturating_sub(1),
    };
    Ok(output::host_status(home, Some(&running), console)?)
}

/// Stops the host, whatever its version, and waits until it is gone; whether there was one.
async fn stop(place: &HostPlace) -> Result<bool, CliError> {
    let Some(mut client) = host::any_version(place).await? else { return Ok(false) };
    let asked = async {
        let pid = ask(&mut client).await?.pid;
        client.call::<serde_json::Value>("_acpx/host/stop", &json!({})).await?;
        Ok::<_, HostError>(pid)
    };
    let pid = match asked.await {
        Ok(pid) => pid,
        // It was leaving already.
        Err(HostError::Lost) => return Ok(true),
        Err(error) => return Err(error.into()),
    };
    let process = ProcessIdentity::of(pid);
    // A host waits a moment for those who are still connected.
    drop(client);
    let deadline = Instant::now() + FAREWELL;
    // Its lock may be somebody else's by now, so it is the process that is waited for.
    while process.as_ref().is_some_and(ProcessIdentity::is_alive) {
        if Instant::now() >= deadline {
            return Err(HostError::Silent { home: place.home().to_owned() }.into());
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    Ok(true)
}

/// Whether a host listens. It is not talked to.
pub(super) fn listens(place: &HostPlace) -> bool {
    host::published(place).is_some_and(|info| UnixStream::connect(info.socket).is_ok())
}

/// Is the home's host until nobody needs it. What it has to say before it listens goes to whoever started it,
/// and the rest to its log.
fn be_the_host(place: &HostPlace) -> ExitCode {
    // Whoever started us may be in a terminal or an agent's group; we are in neither.
    // It fails only for the leader of a group, who is in neither already.
    let _ = rustix::process::setsid();
    let served = match HostLock::contend(place, FAREWELL) {
        Ok(Some(lock)) => serve(place, lock),
        // Somebody else was faster.
        Ok(None) => output::print(READY).map_err(CliError::from),
        Err(error) => Err(error.into()),
    };
    match served {
        Ok(()) => Exit::Success.into(),
        Err(error) => {
            let hint = error.hint();
            let words = host::last_words(&error.code(), &error.message(), hint.as_deref());
            // Whoever started us may have gone since.
            drop(output::print(&words));
            Exit::Failure.into()
        }
    }
}

fn serve(place: &HostPlace, lock: HostLock) -> Result<(), CliError> {
    let setup = HostSetup {
        place: place.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        linger: LINGER,
        settings: EngineSettings { idle: Some(settings::DEFAULT_TTL), ..EngineSettings::default() },
        server_file: Arc::new(servers_of),
        name_of: crate::agents::name_of,
    };
    block_on(async {
        let ready = |host: &Arc<host::Host>, swept: &acpx_core::tools::Swept| {
            for process in swept.ended.iter().chain(&swept.left) {
                output::log(&format!(
                    "ended {} ({}), left by a host that was killed",
                    process.identity.pid, process.name
                ));
            }
            drop(output::print(READY).and_then(|()| output::close_stdout()));
            tokio::spawn(stop_on_signal(Arc::clone(host)));
        };
        host::run(setup, lock, ready).await.map_err(CliError::from)
    })
}

/// The servers of a file: one of `--mcp-config`, or the configuration, which has the same member.
fn servers_of(file: &Path, around: host::Around<'_>) -> Result<Vec<McpServer>, String> {
    let around = Surroundings { cwd: around.cwd, path: around.path };
    let servers = McpFile::load(file.to_owned()).and_then(|file| file.servers(around));
    servers.map_err(|error| error.to_string())
}

/// A host that is told to terminate ends its agents first.
async fn stop_on_signal(host: Arc<host::Host>) {
    if let Ok(mut patience) = crate::patience::Patience::new(None) {
        patience.over().await;
        host.stop();
    }
}
