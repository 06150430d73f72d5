//! Locates and starts the home's host. The layers below get what this module reads from the environment as values.

use std::ffi::{OsStr, OsString};
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::time::Duration;
use std::{env, io, thread};

use acpx_core::client::{Bridge, HostClient, Launcher, running, stop_if_idle};
use acpx_core::home::{HostLock, HostPaths, published};
use acpx_core::model::AgentSpec;
use acpx_core::protocol::HostError;
use acpx_core::protocol::meta::{ClientMeta, RemoteClientMeta};
use acpx_core::store::{Access, ReadThread, SqliteOptions, SqliteStore, StoreError, make_private_directory};
use acpx_core::tools::{HOST_VARIABLE, KEEP_VARIABLE, RECORD_VARIABLE, Tag};

use crate::config::environment;
use crate::config::notify::SECRET_VARIABLES;
use crate::error::CliError;
use crate::log;
use crate::output::Console;

/// Environment variables the host keeps. Agents get their environment from the client that starts them, not from here.
const FOR_THE_HOST: [&str; 8] = [
    "HOME",
    "PATH",
    "LANG",
    "XDG_RUNTIME_DIR",
    "TMPDIR",
    log::VARIABLE,
    environment::MESSAGE_BYTES,
    environment::TERMINAL_BYTES,
];

/// Whether a variable may be the secret of a sink of notifications.
fn is_for_sinks(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(SECRET_VARIABLES.as_bytes())
}

/// How long a host may take to stop.
const HOST_STOPS_WITHIN: Duration = Duration::from_secs(30);

/// A home, and how to start its host.
pub(crate) struct HostLocator {
    pub(crate) paths: HostPaths,
    launcher: Launcher,
}

impl HostLocator {
    /// Locates the host of the home that the environment names.
    pub(crate) fn of_environment() -> Result<Self, CliError> {
        Self::of_home(acpx_home()?)
    }

    /// Locates the host of a home.
    pub(crate) fn of_home(home: PathBuf) -> Result<Self, CliError> {
        let program = own_program()?;
        let inherited = with_home(env::vars_os())
            .filter(|(name, _)| FOR_THE_HOST.iter().any(|inherited| name == inherited) || is_for_sinks(name));
        let environment = inherited.chain([("ACPX_HOME".into(), home.clone().into())]).collect();
        let runtime = env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty()).map(PathBuf::from);
        let paths = HostPaths::new(home, runtime, &env::temp_dir());
        let launcher = Launcher { program, args: vec!["host".into(), "run".into()], environment };
        Ok(Self { paths, launcher })
    }

    /// The home's name, as the tag of agents that a command holds itself. `None` if the home cannot be created: no host
    /// will clean up there.
    pub(crate) fn tag(&self) -> Option<String> {
        self.paths.make_home().and_then(|()| self.paths.name()).ok()
    }

    /// Connects to the host, starting it if necessary.
    pub(crate) async fn host(&self, console: &mut Console<'_>) -> Result<HostClient, CliError> {
        match running(&self.paths).await {
            Ok(Some(client)) => {
                console.detail(&format!("using the host{}", self.pid()));
                return Ok(client);
            }
            // An older host stops if it is idle.
            Ok(None) | Err(HostError::Older { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        console.detail("starting a host");
        let client = self.launcher.reach(&self.paths).await?;
        console.detail(&format!("the host is there{}", self.pid()));
        Ok(client)
    }

    /// A bridge to the host for a local client.
    pub(crate) fn bridge(&self, client: &ClientMeta) -> Bridge {
        Bridge::new(self.launcher.clone(), self.paths.clone(), client)
    }

    /// A bridge to the host for a remote client.
    pub(crate) fn bridge_for_remote_client(&self, client: &RemoteClientMeta) -> Bridge {
        Bridge::for_remote_client(self.launcher.clone(), self.paths.clone(), client)
    }

    fn pid(&self) -> String {
        published(&self.paths).map_or_else(String::new, |host| format!(" (pid {})", host.process.pid))
    }

    /// Opens the store read-only; `None` if there is none, or it is just being created. A store of an older format is
    /// migrated once the older host that writes it has stopped.
    pub(crate) fn open_store(&self) -> Result<Option<SqliteStore>, CliError> {
        let path = self.paths.store();
        let options =
            SqliteOptions { reads: ReadThread::OnCallersThread, ..SqliteOptions::new(Access::ReadOnly) };
        match SqliteStore::open_with(&path, &options) {
            Ok(store) => Ok(Some(store)),
            Err(StoreError::Open { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(StoreError::Older { .. }) => {
                // A newer host that took the lock first has migrated the store.
                if let Some(_lock) = self.lock_without_older_host()? {
                    drop(SqliteStore::open(&path, Access::ReadWrite)?);
                }
                Ok(Some(SqliteStore::open_with(&path, &options)?))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Takes the host's lock, after asking an idle older host that holds it to stop; `None` if another host takes it
    /// first. An older host that has work is an error.
    fn lock_without_older_host(&self) -> Result<Option<HostLock>, CliError> {
        if let Some(lock) = HostLock::try_take(&self.paths)? {
            return Ok(Some(lock));
        }
        let version = published(&self.paths).map_or_else(String::new, |host| host.version);
        let asking = || block_on(async { Ok(stop_if_idle(&self.paths).await?) });
        // Some callers are inside a runtime, and runtimes cannot be nested.
        let stops = thread::scope(|scope| scope.spawn(asking).join()).unwrap_or(Ok(false))?;
        if !stops {
            return Err(HostError::Older { version }.into());
        }
        Ok(HostLock::contend(&self.paths, HOST_STOPS_WITHIN)?)
    }

    /// Connects to the host if one is running.
    pub(crate) async fn running(&self) -> Result<Option<HostClient>, CliError> {
        Ok(running(&self.paths).await?)
    }
}

/// The path of this program, to start it again as a host or as the demo agent.
pub(crate) fn own_program() -> Result<PathBuf, CliError> {
    env::current_exe()
        .map_err(|source| CliError::System { doing: "find the program itself".to_owned(), source })
}

/// The program that connects to remote agents: this one.
pub(crate) fn relay() -> Option<AgentSpec> {
    Some(AgentSpec::new(own_program().ok()?.into_os_string().into_string().ok()?, ["remote-agent"]))
}

/// The environment for an agent that this command starts: its own, without the markers of an agent that started this
/// command.
pub(crate) fn for_agents() -> Vec<(OsString, OsString)> {
    let ours = [Tag::VARIABLE, RECORD_VARIABLE, KEEP_VARIABLE, HOST_VARIABLE];
    with_home(env::vars_os()).filter(|(name, _)| !ours.iter().any(|ours| name == ours)).collect()
}

/// Adds `HOME` to the variables, if the user has a home.
fn with_home(
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> impl Iterator<Item = (OsString, OsString)> {
    let home = user_home().map(|home| ("HOME".into(), home.into()));
    variables.filter(|(name, _)| name != "HOME").chain(home)
}

/// Runs a command's future to completion.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(CliError::Runtime)?;
    // A trait object, so that the runtime is compiled once and not once per command.
    let work: Pin<&mut dyn Future<Output = _>> = pin!(work);
    let done = runtime.block_on(work);
    // Do not wait for a thread that is blocked on a dead disk.
    runtime.shutdown_background();
    done
}

/// `ACPX_HOME`, or `.acpx` in the user's home.
pub(crate) fn acpx_home() -> Result<PathBuf, CliError> {
    let set = env::var_os("ACPX_HOME").filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = set.or_else(|| Some(user_home()?.join(".acpx"))).ok_or(CliError::NoHome)?;
    if home.is_absolute() { Ok(home) } else { Err(CliError::RelativeHome(home)) }
}

/// `HOME`, or the user's home in the password database: some editors start their agents without `HOME`.
pub(crate) fn user_home() -> Option<PathBuf> {
    env::home_dir().filter(|home| !home.as_os_str().is_empty())
}

/// Creates a directory that only its owner can read, with missing parents.
pub(crate) fn make_private(directory: &Path) -> Result<(), CliError> {
    make_private_directory(directory)
        .map_err(|source| CliError::System { doing: format!("make {}", directory.display()), source })
}
