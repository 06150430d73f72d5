//! Checks acpx on this machine: the directory, its home and store, its host, its cleanup of processes, and the
//! configuration.

use std::path::Path;
use std::time::Duration;

use acpx_core::home::HostPaths;
use acpx_core::store::{FileSystem, StoreCheck};
use rustix::fs::{Access, access};

use super::{DoctorReport, configuration, path, session};
use crate::config::Config;
use crate::error::CliError;
use crate::output::Finding;
use crate::session::host_locator::{HostLocator, own_program};
use crate::session::lookup::RecordLookup;
use crate::session::settings;
use crate::version::{VERSION, build, with_build};

/// How long to scan the store.
const LOOK: Duration = Duration::from_secs(10);
/// How long a host may take to answer.
const HOST_TIMEOUT: Duration = Duration::from_secs(5);

/// Runs all of these checks.
pub(super) async fn look(
    cwd: Option<&Path>,
    config: Result<&Config, CliError>,
    report: &mut DoctorReport,
) -> Result<(), CliError> {
    report.say(&Finding::ok("acpx", format!("version {}", with_build(VERSION, build()))))?;
    if let Ok(own) = own_program() {
        report.say(&path::first_on(std::env::var_os("PATH").as_deref(), &own))?;
    }
    match settings::directory(cwd) {
        Ok(cwd) => report.say(&Finding::ok("directory", cwd.to_string()))?,
        Err(error) => report.fail("directory", &error)?,
    }
    match HostLocator::of_environment() {
        Ok(locator) => {
            home(locator.paths.home(), report)?;
            store(&locator, report).await?;
            if let Ok(lookup) = RecordLookup::open() {
                session::lost(&lookup, None, report).await?;
            }
            runtime(&locator.paths, report)?;
            running(&locator.paths, report).await?;
        }
        Err(error) => report.fail("home", &error)?,
    }
    cleanup(report)?;
    approvals(report)?;
    let nothing = Config::default();
    match &config {
        Ok(config) => configuration::look(config, report)?,
        Err(error) => report.fail("config", error)?,
    }
    configuration::agents(config.as_ref().map_or(&nothing, |config| *config), report)
}

fn home(home: &Path, report: &mut DoctorReport) -> Result<(), CliError> {
    let shown = home.display();
    let lies_on = match FileSystem::of(home) {
        Some(FileSystem::Shared(kind)) => {
            let hint = "set ACPX_HOME to a directory on a disk of this machine".to_owned();
            return report.say(&Finding::fail(
                "home",
                format!("{shown} is on {kind}, a network file system"),
                Some(hint),
            ));
        }
        Some(FileSystem::Local { number }) => system_name(number).unwrap_or("a local file system"),
        None => "an unknown file system",
    };
    if !home.exists() {
        let above = home.ancestors().skip(1).find(|above| above.exists()).unwrap_or(home);
        // Only an attempt shows whether it can be created there.
        if tempfile::tempdir_in(above).is_err() {
            let hint = "set ACPX_HOME to a directory that you can write to".to_owned();
            let words = format!("{shown} is not there, and no directory can be made in {}", above.display());
            return report.say(&Finding::fail("home", words, Some(hint)));
        }
        return report
            .say(&Finding::ok("home", format!("{shown} is not there yet; the first session makes it")));
    }
    if access(home, Access::WRITE_OK | Access::EXEC_OK).is_err() {
        let hint = "make it yours (chown, chmod u+rwx), or set ACPX_HOME to another directory".to_owned();
        return report.say(&Finding::fail("home", format!("{shown} cannot be written to"), Some(hint)));
    }
    report.say(&Finding::ok("home", format!("{shown}, on {lies_on}")))
}

/// The usual file systems by the number Linux gives them.
fn system_name(number: u32) -> Option<&'static str> {
    const KNOWN: [(u32, &str); 8] = [
        (0xEF53, "ext2, ext3 or ext4"),
        (0x9123_683E, "btrfs"),
        (0x5846_5342, "xfs"),
        (0x0102_1994, "tmpfs, which forgets all at the next boot"),
        (0x794C_7630, "overlay, which may go with its container"),
        (0x6573_5546, "FUSE"),
        (0x0102_1997, "9p"),
        (0x2FC1_2FC1, "zfs"),
    ];
    KNOWN.iter().find(|(known, _)| *known == number).map(|(_, name)| *name)
}

async fn store(locator: &HostLocator, report: &mut DoctorReport) -> Result<(), CliError> {
    let path = locator.paths.store();
    let store = match locator.open_store() {
        Ok(Some(store)) => store,
        Ok(None) => {
            return report.say(&Finding::ok("store", "there is none yet; the first session makes it"));
        }
        Err(error) => return report.fail("store", &error),
    };
    let checked = match store.check(LOOK).await {
        Ok(checked) => checked,
        Err(error) => return report.fail("store", &error.into()),
    };
    let StoreCheck { format, problems, is_whole } = checked;
    // Includes its write-ahead log.
    let size = |path: &Path| path.metadata().map_or(0, |facts| facts.len());
    let log = path.with_extension("db-wal");
    let facts = format!("{}, format {format}, {}", path.display(), bytes(size(&path) + size(&log)));
    if !problems.is_empty() {
        let hint = "keep a copy of the file; what can still be read is shown by sessions list and history"
            .to_owned();
        return report.say(&Finding::fail("store", format!("{facts}: {}", problems.join("; ")), Some(hint)));
    }
    let looked = if is_whole { "pages whole" } else { "pages whole as far as could be seen in 10 s" };
    report.say(&Finding::ok("store", format!("{facts}, {looked}")))
}

fn bytes(count: u64) -> String {
    match count {
        0..1024 => format!("{count} bytes"),
        1024..1_048_576 => format!("{} KiB", count / 1024),
        _ => format!("{} MiB", count / 1_048_576),
    }
}

fn runtime(paths: &HostPaths, report: &mut DoctorReport) -> Result<(), CliError> {
    match paths.socket_directory() {
        Ok(directory) => report.say(&Finding::ok("socket", format!("in {}", directory.display()))),
        Err(error) => report.fail("socket", &error.into()),
    }
}

async fn running(paths: &HostPaths, report: &mut DoctorReport) -> Result<(), CliError> {
    let finding = match tokio::time::timeout(HOST_TIMEOUT, acpx_core::client::any_version(paths)).await {
        Ok(Ok(None)) => Finding::ok("host", "none runs; a command that needs one starts it"),
        Ok(Ok(Some(_))) => {
            let info = acpx_core::home::published(paths);
            let pid = info.as_ref().map_or_else(String::new, |info| format!("pid {}", info.process.pid));
            let (version, of) = info.map(|info| (info.version, info.build)).unwrap_or_default();
            let shown = with_build(&version, of.as_deref());
            if version == VERSION && of.as_deref() == build() {
                Finding::ok("host", format!("runs, version {shown}, {pid}"))
            } else {
                let own = with_build(VERSION, build());
                Finding::warn(
                    "host",
                    format!("runs, version {shown}, {pid}; this program is {own}"),
                    "acpx host restart replaces it when its sessions can be interrupted",
                )
            }
        }
        Ok(Err(error)) => return report.fail("host", &error.into()),
        Err(_) => {
            let hint = "acpx host restart ends it and starts another; what was said is kept".to_owned();
            Finding::fail("host", "one runs and does not answer within 5 s", Some(hint))
        }
    };
    report.say(&finding)
}

/// Reports which leftover processes of agents can be ended.
fn cleanup(report: &mut DoctorReport) -> Result<(), CliError> {
    if !cfg!(target_os = "linux") {
        return report.say(&Finding::warn(
            "cleanup",
            "best effort: an agent's process group is ended, and what leaves the group is not found",
            "look for what agents have started by themselves with ps, should something be left",
        ));
    }
    if Path::new("/proc/self/stat").exists() {
        let words = "process groups, orphans by the child subreaper, and what a killed host left by its tag in /proc; \
                     one kind stays: a daemon that has cleared its environment, if its host is killed";
        return report.say(&Finding::ok("cleanup", words));
    }
    report.say(&Finding::warn(
        "cleanup",
        "best effort: /proc cannot be read, so what a killed host left is not found",
        "mount /proc in this container",
    ))
}

/// Reports whether a program started by an agent can be recognised, so that it cannot approve anything.
fn approvals(report: &mut DoctorReport) -> Result<(), CliError> {
    if !cfg!(target_os = "linux") {
        return report.say(&Finding::warn(
            "approvals",
            "this system does not tell what an agent has started: a program of an agent is taken for its user",
            "use --deny-all or rules where an agent could run acpx to approve what it asks for itself",
        ));
    }
    if Path::new("/proc/self/stat").exists() {
        let words = "what an agent has started is known by its ancestors and its tag, and approves nothing; \
                     one kind is not known: what a service manager or the server of a terminal multiplexer starts for it";
        return report.say(&Finding::ok("approvals", words));
    }
    report.say(&Finding::warn(
        "approvals",
        "/proc cannot be read, so every program may be one that an agent has started, and approves nothing",
        "mount /proc in this container",
    ))
}
