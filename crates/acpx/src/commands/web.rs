//! `acpx web`: opens the page, and `acpx web run`, which is the page's server itself.

use std::ffi::OsString;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use acpx_core::client::{Launcher, READY};
use acpx_core::model::ProcessIdentity;
use acpx_core::protocol::meta::{AccessScope, AgentMeta, PageMeta, RemoteClientMeta};
use tokio::net::TcpListener;

use crate::agents;
use crate::cli::{CliOptions, WebCommand, WebListenArgs, WebOpenArgs};
use crate::config::{Config, McpFile, ProgramSearch, find_program};
use crate::error::{CliError, CliExit, with_causes};
use crate::http::guard::{Guard, is_loopback};
use crate::http::listener::{self, listen};
use crate::http::server::{Allowance, Hosts, HttpServer};
use crate::http::tls;
use crate::output::{self, Console, WebLink};
use crate::session::agent_child::refuse_inside;
use crate::session::host_locator::{HostLocator, block_on, for_agents, own_program};
use crate::session::interrupt::InterruptWatcher;
use crate::session::lookup;
use crate::session::settings::{DEFAULT_TTL, LazyConfig};
use crate::version::{self, VERSION};
use crate::web::codes::{self, OneTimeCodes};
use crate::web::origin::OwnOrigins;
use crate::web::registration::{self, WebRegistration, WebServerInfo};
use crate::web::router::router;
use crate::web::server::WebServer;

/// How long a server may take to stop: its clients get two seconds to read what was sent.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a server that another command started may take to publish where it listens.
const PUBLISH_TIMEOUT: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Runs a `web` subcommand.
pub(super) fn run(
    command: WebCommand,
    options: &CliOptions,
    config: &LazyConfig,
) -> Result<ExitCode, CliError> {
    let locator = HostLocator::of_environment()?;
    let command = match command {
        WebCommand::Run(args) => return Ok(run_server(&args, locator, options, config)),
        other => other,
    };
    let (home, mut console) = (locator.paths.home(), config.console(options.flags.output)?);
    match command {
        WebCommand::Status => {
            output::web_status(
                registration::running(home).map_err(registration_error)?.as_ref(),
                &mut console,
            )?;
        }
        WebCommand::Stop => {
            refuse_inside(&locator.paths, "stop the page's server")?;
            let server = registration::running(home).map_err(registration_error)?;
            server.as_ref().map_or(Ok(()), stop)?;
            output::web_stopped(server.is_some(), &mut console)?;
        }
        WebCommand::Open(args) => {
            locator.paths.make_home()?;
            refuse_inside(&locator.paths, "open the page")?;
            let link = link(&args, &locator, &mut console)?;
            output::web_link(&link, args.no_open, &mut console)?;
            if !args.no_open && !open(&link.link) {
                console.banner("no browser could be opened; open the link yourself");
            }
        }
        WebCommand::Run(_) => {}
    }
    Ok(CliExit::Success.into())
}

fn registration_error(source: io::Error) -> CliError {
    CliError::System { doing: "use web.json in the home".to_owned(), source }
}

fn stop(server: &WebServerInfo) -> Result<(), CliError> {
    let is_stopped = registration::stop(server, STOP_TIMEOUT).map_err(registration_error)?;
    if is_stopped { Ok(()) } else { Err(CliError::WebServerStays { pid: server.process.pid }) }
}

/// A link to the home's server, which is replaced if it has another version. If there is none, it is started as the last
/// one was, unless the user says how.
fn link(args: &WebOpenArgs, locator: &HostLocator, console: &mut Console<'_>) -> Result<WebLink, CliError> {
    let home = locator.paths.home();
    let server = match registration::running(home).map_err(registration_error)? {
        Some(server) if args.server != WebListenArgs::default() => {
            return Err(CliError::WebServerRuns { url: server.url });
        }
        Some(server) if server.version == VERSION => server,
        Some(server) => restart(server, locator, console)?,
        None => {
            let last = registration::last(home).filter(|_| args.server == WebListenArgs::default());
            let arguments = match last.and_then(|last| last.arguments) {
                Some(last) => last.into_iter().map(OsString::from).collect(),
                None => arguments(&args.server)?,
            };
            start(arguments, locator)?
        }
    };
    let scope = AccessScope::from(args.scope);
    let made = OneTimeCodes::of(home).make(scope);
    let code =
        made.map_err(|source| CliError::System { doing: "write the code to the home".to_owned(), source })?;
    let link = format!("{}#{code}", server.url);
    Ok(WebLink { link, scope: scope.as_str(), valid_seconds: codes::VALID_FOR.as_secs() })
}

/// Opens a link in the user's browser; false if that is not possible.
fn open(link: &str) -> bool {
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut command = Command::new(opener);
    command.arg(link).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Replaces a server of another version by one of this version that listens at the same address.
fn restart(
    server: WebServerInfo,
    locator: &HostLocator,
    console: &mut Console<'_>,
) -> Result<WebServerInfo, CliError> {
    let WebServerInfo { version, arguments, .. } = &server;
    let Some(arguments) = arguments else {
        console.banner(&format!(
            "the page's server has version {version}; stop it with `acpx web stop` and start it again"
        ));
        return Ok(server);
    };
    console.banner(&format!("restarting the page's server, which has version {version}"));
    stop(&server)?;
    start(arguments.iter().map(OsString::from).collect(), locator)
}

/// Starts a server in the background, and returns it once it listens.
fn start(arguments: Vec<OsString>, locator: &HostLocator) -> Result<WebServerInfo, CliError> {
    let home = locator.paths.home();
    let own = [("ACPX_HOME".into(), home.as_os_str().to_owned())];
    let inherited = for_agents().into_iter().filter(|(name, _)| name != "ACPX_HOME");
    let launcher =
        Launcher { program: own_program()?, args: arguments, environment: inherited.chain(own).collect() };
    block_on(async { Ok(launcher.start(&locator.paths, &home.join("web.log")).await?) })?;
    // A server that another command started at the same time may not be ready yet.
    let deadline = Instant::now() + PUBLISH_TIMEOUT;
    loop {
        match registration::running(home) {
            Ok(Some(server)) => return Ok(server),
            Ok(None) if Instant::now() < deadline => std::thread::sleep(POLL_INTERVAL),
            Ok(None) => {
                let source = io::ErrorKind::TimedOut.into();
                return Err(CliError::System { doing: "start the page's server".to_owned(), source });
            }
            Err(source) => return Err(registration_error(source)),
        }
    }
}

/// The arguments of a server in the background, which works in another directory.
fn arguments(args: &WebListenArgs) -> Result<Vec<OsString>, CliError> {
    let WebListenArgs { listen, tls_cert, tls_key, public_url } = args;
    let mut words: Vec<OsString> = vec!["web".into(), "run".into()];
    let mut add = |flag: &str, value: Option<OsString>| {
        words.extend(value.into_iter().flat_map(|value| [flag.into(), value]));
    };
    add("--listen", listen.map(|address| address.to_string().into()));
    add("--tls-cert", absolute(tls_cert.as_deref())?);
    add("--tls-key", absolute(tls_key.as_deref())?);
    add("--public-url", public_url.as_ref().map(|public| public.url().into()));
    Ok(words)
}

/// The arguments that start a server again at the same address; `None` if a path in them is not UTF-8.
fn restart_arguments(args: &WebListenArgs, address: SocketAddr) -> Result<Option<Vec<String>>, CliError> {
    let args = WebListenArgs { listen: args.listen.map(|_| address), ..args.clone() };
    Ok(arguments(&args)?.into_iter().map(|word| word.into_string().ok()).collect())
}

fn absolute(path: Option<&Path>) -> Result<Option<OsString>, CliError> {
    let doing = || "find the working directory".to_owned();
    let path = path.map(std::path::absolute).transpose();
    let path = path.map_err(|source| CliError::System { doing: doing(), source })?;
    Ok(path.map(PathBuf::into_os_string))
}

/// Runs the home's server until it is stopped. Errors before it listens go to the process that started it.
fn run_server(
    args: &WebListenArgs,
    locator: HostLocator,
    options: &CliOptions,
    config: &LazyConfig,
) -> ExitCode {
    // Leave the terminal and the process group of the process that started us. This fails only for a group leader,
    // which has its own group already.
    let _ = rustix::process::setsid();
    let Err(error) = serve(args, locator, options, config) else { return CliExit::Success.into() };
    let hint = error.hint();
    let words = acpx_core::protocol::startup_error_line(error.code(), &error.message(), hint.as_deref());
    drop(output::print(&words));
    CliExit::Failure.into()
}

fn serve(
    args: &WebListenArgs,
    locator: HostLocator,
    options: &CliOptions,
    config: &LazyConfig,
) -> Result<(), CliError> {
    let WebListenArgs { listen: wanted, tls_cert, tls_key, public_url } = args.clone();
    let home = locator.paths.home().to_owned();
    locator.paths.make_home()?;
    refuse_inside(&locator.paths, "open the page")?;
    let Some(registration) = WebRegistration::try_take(&home).map_err(registration_error)? else {
        // Another server was faster.
        return Ok(output::print(READY)?);
    };
    let tls = tls_cert.zip(tls_key);
    if let Some(address) = wanted.filter(|address| tls.is_none() && !is_loopback(*address)) {
        return Err(CliError::PublicAddress { address, token: true, tls: false });
    }
    if let Some(address) = wanted.filter(|address| public_url.is_none() && address.ip().is_unspecified()) {
        return Err(CliError::NoPublicUrl { address });
    }
    let acceptor = tls.map(|(certificate, key)| tls::acceptor(&certificate, &key)).transpose()?;
    let origins = OwnOrigins { public: public_url, is_secure: acceptor.is_some() };
    let mut settings = config.of_any_agent(options)?;
    settings.ttl.get_or_insert(DEFAULT_TTL);
    let mut client = settings.client();
    // The page uses the sessions of all agents.
    (client.agent, client.cwd) = (None, None);
    let name = locator.paths.name()?;
    block_on(async {
        let mut interrupts = InterruptWatcher::new(None)?;
        let (listener, address) = listen_at(wanted, &home).await?;
        let url = origins.url(address);
        let hosts = Hosts {
            directory: home.clone(),
            bridge: {
                let home = home.clone();
                Box::new(move |client| {
                    let page = Some(page_meta(&home));
                    locator.bridge_for_remote_client(&RemoteClientMeta { page, ..client.clone() })
                })
            },
            no_host: |error| output::log(&format!("no host for the page: {}", with_causes(error))),
        };
        let guard = Guard { is_loopback: is_loopback(address), insecure_public: false, origins: Vec::new() };
        let http = HttpServer::new(hosts, name, client, guard, Allowance::default());
        let version = version::with_build(VERSION, version::build());
        let codes = OneTimeCodes::of(&home);
        let server = WebServer::new(http, origins, codes, address.port(), version);
        let process = ProcessIdentity::of_this_process();
        let arguments = restart_arguments(args, address)?;
        let info = WebServerInfo { process, address, url, version: VERSION.to_owned(), arguments };
        registration.publish(info).map_err(registration_error)?;
        drop(output::print(READY).and_then(|()| output::close_stdout()));
        let stop = async {
            interrupts.over().await;
        };
        listener::serve(&server.http, router(&server), listener, acceptor, stop).await;
        Ok(())
    })
}

/// Listens at the wanted address, or on loopback: on the port of the home's last server if it is free.
async fn listen_at(wanted: Option<SocketAddr>, home: &Path) -> Result<(TcpListener, SocketAddr), CliError> {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let last = registration::last(home).map(|last| last.address);
    let last = last.filter(|last| wanted.is_none() && is_loopback(*last));
    if let Some(last) = last
        && let Ok(listening) = listen(last).await
    {
        return Ok(listening);
    }
    let address = wanted.unwrap_or(any);
    listen(address).await.map_err(|source| CliError::Listen { address, source })
}

/// What sessions of the page may have, by the configuration as it is now.
fn page_meta(home: &Path) -> PageMeta {
    let config = Config::load(home).unwrap_or_default();
    let servers = McpFile::of(&config);
    let source = servers.names().next().is_some().then_some(servers.source.as_path());
    PageMeta {
        agents: startable_agents(&config),
        mcp_source: source.and_then(Path::to_str).map(str::to_owned),
    }
}

/// The agents that can be started: the configured ones, and the built-in ones whose program is installed.
fn startable_agents(config: &Config) -> Vec<AgentMeta> {
    let mut names: Vec<String> = config.agent_names();
    names.extend(agents::built_in_names().map(str::to_owned));
    names.sort();
    names.dedup();
    let path = std::env::var_os("PATH");
    let search = ProgramSearch { cwd: Path::new("/"), path: path.as_deref() };
    let startable = |name: String| {
        let agent = lookup::resolve(&name, config).ok()?;
        let is_there = agent.url().is_some() || find_program(&agent.program, search).is_some();
        let protocol = config.protocol(&name).unwrap_or_default();
        let agent = agent.with_protocol(protocol).with_profile(config.profile(&name));
        is_there.then(|| AgentMeta::from(&agent))
    };
    names.into_iter().filter_map(startable).collect()
}
