//! The way to the home's host: what the environment says about it is read here, and nowhere below.

use std::env;
use std::ffi::OsString;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::thread;
use std::time::Duration;

use acpx_core::client::{Bridge, HostClient, Launcher, running, stop_if_idle};
use acpx_core::home::{HostLock, HostPlace, published};
use acpx_core::model::AgentSpec;
use acpx_core::protocol::HostError;
use acpx_core::protocol::meta::{ClientMeta, RemoteClientMeta};
use acpx_core::store::{Access, ReadThread, SqliteOptions, SqliteStore, StoreError};
use acpx_core::tools::{HOST_VARIABLE, KEEP_VARIABLE, RECORD_VARIABLE, Tag};

use super::home::{acpx_home, user_home};
use crate::error::CliError;
use crate::output::Console;

/// What a host needs of its environment. Agents do not get it: theirs comes from the client that needs them.
const FOR_THE_HOST: [&str; 5] = ["HOME", "PATH", "LANG", "XDG_RUNTIME_DIR", "TMPDIR"];

/// How long a host that was asked to stop may take.
const HOST_STOPS_WITHIN: Duration = Duration::from_secs(30);

/// A home and how its host is started.
pub(crate) struct HostLocator {
    pub(crate) place: HostPlace,
    launcher: Launcher,
}

impl HostLocator {
    /// The way to the host of the home that the environment names.
    pub(crate) fn of_environment() -> Result<Self, CliError> {
        Self::of_home(acpx_home()?)
    }

    /// The way to the host of a home.
    pub(crate) fn of_home(home: PathBuf) -> Result<Self, CliError> {
        let program = own_program()?;
        let inherited =
            with_home(env::vars_os()).filter(|(name, _)| FOR_THE_HOST.iter().any(|kept| name == kept));
        let environment = inherited.chain([("ACPX_HOME".into(), home.clone().into())]).collect();
        let runtime = env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty()).map(PathBuf::from);
        let place = HostPlace::new(home, runtime, &env::temp_dir());
        let launcher = Launcher { program, args: vec!["host".into(), "run".into()], environment };
        Ok(Self { place, launcher })
    }

    /// The name of the home for the tag of agents that a command holds itself. A home that cannot be made has none:
    /// no host will ever look for what they leave.
    pub(crate) fn tag(&self) -> Option<String> {
        self.place.make_home().and_then(|()| self.place.name()).ok()
    }

    /// The host, started if it has to be.
    pub(crate) async fn host(&self, console: &mut Console<'_>) -> Result<HostClient, CliError> {
        match running(&self.place).await {
            Ok(Some(client)) => {
                console.detail(&format!("using the host{}", self.pid()));
                return Ok(client);
            }
            // One that is older goes if it has nothing to do.
            Ok(None) | Err(HostError::Older { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        console.detail("starting a host");
        let client = self.launcher.reach(&self.place).await?;
        console.detail(&format!("the host is there{}", self.pid()));
        Ok(client)
    }

    /// A bridge to the host for a client of its own.
    pub(crate) fn bridge(&self, client: &ClientMeta) -> Bridge {
        Bridge::new(self.launcher.clone(), self.place.clone(), client)
    }

    /// A bridge to the host for a client from elsewhere.
    pub(crate) fn bridge_from_elsewhere(&self, client: &RemoteClientMeta) -> Bridge {
        Bridge::from_elsewhere(self.launcher.clone(), self.place.clone(), client)
    }

    fn pid(&self) -> String {
        published(&self.place).map_or_else(String::new, |host| format!(" (pid {})", host.process.pid))
    }

    /// The store, opened to be read, if there is one. One that is just being made has nothing in it yet. A store of
    /// an older format is migrated once the older host that writes it has stopped.
    pub(crate) fn kept(&self) -> Result<Option<SqliteStore>, CliError> {
        let path = self.place.store();
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

    /// The host's lock, if no host holds it. A host that holds it and is idle is asked to stop; an older one that has
    /// work is an error.
    fn lock_without_older_host(&self) -> Result<Option<HostLock>, CliError> {
        if let Some(lock) = HostLock::try_take(&self.place)? {
            return Ok(Some(lock));
        }
        let version = published(&self.place).map_or_else(String::new, |host| host.version);
        let asking = || block_on(async { Ok(stop_if_idle(&self.place).await?) });
        // Some callers are in a runtime already, and a runtime cannot be started inside another one.
        let stops = thread::scope(|scope| scope.spawn(asking).join()).unwrap_or(Ok(false))?;
        if !stops {
            return Err(HostError::Older { version }.into());
        }
        Ok(HostLock::contend(&self.place, HOST_STOPS_WITHIN)?)
    }

    /// The host, if one runs.
    pub(crate) async fn running(&self) -> Result<Option<HostClient>, CliError> {
        Ok(running(&self.place).await?)
    }
}

/// The program itself, to be started again as a host or as the demo agent.
pub(crate) fn own_program() -> Result<PathBuf, CliError> {
    env::current_exe()
        .map_err(|source| CliError::System { doing: "find the program itself".to_owned(), source })
}

/// What is started for agents on other machines: this program.
pub(crate) fn relay() -> Option<AgentSpec> {
    Some(AgentSpec::new(own_program().ok()?.into_os_string().into_string().ok()?, ["remote-agent"]))
}

/// The environment for an agent that this command makes start: its own, but for the marks of an agent it may have
/// been started by itself.
pub(crate) fn for_agents() -> Vec<(OsString, OsString)> {
    let ours = [Tag::VARIABLE, RECORD_VARIABLE, KEEP_VARIABLE, HOST_VARIABLE];
    with_home(env::vars_os()).filter(|(name, _)| !ours.iter().any(|ours| name == ours)).collect()
}

/// Variables with `HOME` among them, if the user has a home at all.
fn with_home(
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> impl Iterator<Item = (OsString, OsString)> {
    let home = user_home().map(|home| ("HOME".into(), home.into()));
    variables.filter(|(name, _)| name != "HOME").chain(home)
}

/// Runs what a command does to its end.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(CliError::Runtime)?;
    // By its address: the runtime is built once for all commands, and not once with each of them in it.
    let work: Pin<&mut dyn Future<Output = _>> = pin!(work);
    let done = runtime.block_on(work);
    // A thread that waits for a dead disk is not waited for.
    runtime.shutdown_background();
    done
}
