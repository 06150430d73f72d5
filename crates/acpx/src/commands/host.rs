//! `acpx host status|stop|restart|log`, and `acpx host run`, which is the host itself.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use acpx_core::client::{HostClient, READY};
use acpx_core::engine::{EngineSettings, NotificationQueue};
use acpx_core::home::{HostLock, HostPaths};
use acpx_core::host;
use acpx_core::host::{ClientTimeouts, HostSetup};
use acpx_core::model::{McpServer, SpendingLimits, Timestamp};
use acpx_core::protocol::HostError;
use serde::Deserialize;
use serde_json::json;
use tokio::time::timeout;

use super::host_index::BackgroundIndexer;
use super::host_log;
use super::host_notify::{BackgroundNotifier, ConfiguredSinks};
use crate::cli::{HostCommand, OutputArgs};
use crate::config::trust::TrustedFiles;
use crate::config::{Config, McpFile, ProgramSearch, environment};
use crate::error::{CliError, CliExit};
use crate::log::{self, LogFilter};
use crate::output::{self, HostChange, RunningHost};
use crate::session::agent_child::refuse_inside;
use crate::session::host_locator::{HostLocator, block_on, relay};
use crate::session::host_session::{HostSession, HostSessionError};
use crate::session::interrupt::InterruptWatcher;
use crate::session::native;
use crate::session::recall_server::recall_server;
use crate::session::settings;
use crate::session::settings::LazyConfig;
use crate::version::{self, VERSION};

/// How long an idle host stays.
const LINGER: Duration = Duration::from_secs(10);
/// How long the previous host may take to stop: its agents have some seconds each, in parallel.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// Runs a `host` subcommand.
pub(crate) fn run(
    command: HostCommand,
    output: OutputArgs,
    config: &LazyConfig,
) -> Result<ExitCode, CliError> {
    let locator = HostLocator::of_environment()?;
    if command == HostCommand::Run {
        return Ok(be_the_host(&locator.paths));
    }
    if matches!(command, HostCommand::Stop | HostCommand::Restart) {
        refuse_inside(&locator.paths, "stop the host")?;
    }
    let mut console = config.console(output)?;
    if let HostCommand::Log(args) = command {
        host_log::run(args, &locator, &mut console)?;
        return Ok(CliExit::Success.into());
    }
    block_on(async {
        let mut session = HostSession::with_timeout(&mut console, None, &locator)?;
        let done =
            session.retry_on_lost_host(async |session| change(command, &locator, session).await).await?;
        match done {
            HostCommandResult::Seen(running) => {
                output::host_status(locator.paths.home(), running.as_ref(), &mut console)?;
            }
            HostCommandResult::Changed(change) => output::host_changed(change, &mut console)?,
        }
        Ok(CliExit::Success.into())
    })
}

/// How long a host may take to report its connected clients. A host that hangs is stopped anyway.
const STATUS_TIMEOUT: Duration = Duration::from_secs(1);
const RECONNECT_NOTICE: &str =
    "clients were connected to it; those with open sessions, such as editors, start another host at once";

/// The result of a `host` subcommand.
enum HostCommandResult {
    Seen(Option<RunningHost>),
    Changed(HostChange),
}

async fn change(
    command: HostCommand,
    locator: &HostLocator,
    session: &mut HostSession<'_>,
) -> Result<HostCommandResult, HostSessionError> {
    match command {
        HostCommand::Status => Ok(HostCommandResult::Seen(status(locator, session).await?)),
        HostCommand::Stop => {
            let clients = match timeout(STATUS_TIMEOUT, status(locator, session)).await {
                Ok(Ok(Some(running))) => running.clients,
                Ok(Err(stopped @ HostSessionError::Stopped(_))) => return Err(stopped),
                Ok(Ok(None) | Err(_)) | Err(_) => 0,
            };
            let stopped = stop(&locator.paths, session).await?;
            if stopped && clients > 0 {
                session.console.banner(RECONNECT_NOTICE);
            }
            Ok(HostCommandResult::Changed(if stopped { HostChange::Stopped } else { HostChange::NoneToStop }))
        }
        HostCommand::Restart | HostCommand::Log(_) | HostCommand::Run => {
            stop(&locator.paths, session).await?;
            let mut client = session.host(locator).await?;
            let pid = ask(&mut client, session).await?.pid;
            Ok(HostCommandResult::Changed(HostChange::Restarted { pid }))
        }
    }
}

/// The host's reply to a status request.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HostStatus {
    pid: u32,
    version: String,
    started_at: String,
    live_sessions: usize,
    clients: usize,
}

async fn ask(client: &mut HostClient, session: &mut HostSession<'_>) -> Result<HostStatus, HostSessionError> {
    session.call(client, "_acpx/host/status", &json!({})).await
}

/// The host of the home, of any version.
async fn any_version(
    paths: &HostPaths,
    session: &mut HostSession<'_>,
) -> Result<Option<HostClient>, HostSessionError> {
    session.during(async { Ok(acpx_core::client::any_version(paths).await?) }).await
}

async fn status(
    locator: &HostLocator,
    session: &mut HostSession<'_>,
) -> Result<Option<RunningHost>, HostSessionError> {
    let Some(mut client) = any_version(&locator.paths, session).await? else { return Ok(None) };
    let status = ask(&mut client, session).await?;
    let info = acpx_core::home::published(&locator.paths);
    let build = info.as_ref().and_then(|info| info.build.clone());
    let bad = || HostError::BadAnswer { method: "_acpx/host/status".to_owned() };
    Ok(Some(RunningHost {
        pid: status.pid,
        version: status.version,
        build,
        since: Timestamp::parse(&status.started_at).map_err(|_| bad())?,
        socket: info.map(|info| info.socket).ok_or_else(bad)?,
        live_sessions: status.live_sessions,
        // This command is one of the clients, and is not counted.
        clients: status.clients.saturating_sub(1),
    }))
}

/// Stops the host of any version, even one that hangs; returns whether there was one.
async fn stop(paths: &HostPaths, session: &mut HostSession<'_>) -> Result<bool, HostSessionError> {
    session.during(async { Ok(acpx_core::client::stop(paths).await?) }).await
}

/// Runs the home's host until it is idle. Errors before it listens go to the process that started it too.
fn be_the_host(paths: &HostPaths) -> ExitCode {
    // Leave the terminal and the process group of the process that started us. This fails only for a group leader,
    // which has its own group already.
    let _ = rustix::process::setsid();
    let served = match HostLock::contend(paths, STOP_TIMEOUT) {
        // Only the holder of the lock writes the log.
        Ok(Some(lock)) => {
            let filter = LogFilter::parse(&std::env::var(log::VARIABLE).unwrap_or_default());
            let echo: Option<fn(&str)> = output::stderr_is_terminal().then_some(output::log_line);
            let _log = log::to_file(paths.log(), filter, echo);
            serve(paths, lock).inspect_err(|error| {
                tracing::error!(code = error.code().as_str(), error = error.message(), "host failed");
            })
        }
        // Another host was faster.
        Ok(None) => output::print(READY).map_err(CliError::from),
        Err(error) => Err(error.into()),
    };
    match served {
        Ok(()) => CliExit::Success.into(),
        Err(error) => {
            let hint = error.hint();
            let words =
                acpx_core::protocol::startup_error_line(error.code(), &error.message(), hint.as_deref());
            // The process that started us may have exited, or may know already that we listen.
            drop(output::print(&words));
            CliExit::Failure.into()
        }
    }
}

fn serve(paths: &HostPaths, lock: HostLock) -> Result<(), CliError> {
    let config = Config::load(paths.home())?;
    let sinks = ConfiguredSinks::new(config.home.notify.clone());
    let notifications = NotificationQueue::new(sinks.targets());
    let setup = HostSetup {
        paths: paths.clone(),
        version: VERSION.to_owned(),
        build: version::build().map(str::to_owned),
        linger: LINGER,
        client_timeouts: ClientTimeouts::default(),
        settings: EngineSettings {
            idle: Some(settings::DEFAULT_TTL),
            keep_programs: config.home.keep_programs.into(),
            relay: relay(),
            notifications: notifications.clone(),
            ..environment::engine_settings()?
        },
        server_file: {
            let home = paths.home().to_owned();
            Arc::new(move |file, text, around| servers_of(&home, file, text, around))
        },
        own_servers: Arc::new(|cwd| recall_server(cwd).into_iter().collect()),
        usage_limits: usage_limits(paths.home(), config.spending),
        name_of: crate::agents::name_of,
    };
    block_on(async {
        let (mut indexer, mut notifier) = (None, None);
        let ready = |host: &Arc<host::Host>| {
            drop(output::print(READY).and_then(|()| output::close_stdout()));
            tokio::spawn(stop_on_signal(Arc::clone(host)));
            native::remove_abandoned(paths.home());
            indexer = Some(BackgroundIndexer::start(paths.clone()));
            notifier = Some(BackgroundNotifier::start(paths, notifications, sinks));
        };
        let served = host::run(setup, lock, ready).await.map_err(CliError::from);
        if let Some(indexer) = indexer {
            indexer.stop().await;
        }
        if let Some(notifier) = notifier {
            notifier.stop().await;
        }
        served
    })
}

/// The limits of usage in the configuration as it is then, or as it was if it cannot be read.
fn usage_limits(home: &Path, first: SpendingLimits) -> Arc<dyn Fn() -> SpendingLimits + Send + Sync> {
    let home = home.to_owned();
    Arc::new(move || Config::load(&home).map_or_else(|_| first.clone(), |config| config.spending))
}

/// The servers of a file: of `--mcp-config`, or of the configuration, which has the same member. A project's file that has
/// changed since the session began has no servers until it is trusted again.
fn servers_of(
    home: &Path,
    file: &Path,
    text: &str,
    around: host::Around<'_>,
) -> Result<Vec<McpServer>, String> {
    let around = ProgramSearch { cwd: around.cwd, path: around.path };
    let trusted = TrustedFiles::of(home).check(file, text.as_bytes());
    let servers = trusted.and_then(|()| McpFile::parse(file.to_owned(), text)?.servers(around));
    servers.map_err(|error| error.to_string())
}

/// Ends the agents before the host terminates on a signal.
async fn stop_on_signal(host: Arc<host::Host>) {
    if let Ok(mut interrupts) = InterruptWatcher::new(None) {
        interrupts.over().await;
        host.stop();
    }
}
