//! Refusals for a program that an agent of this home started: it acts for its agent, not for the user.
//!
//! The host checks this for its clients. These checks cover what a command does without the host, or before connecting.

use acpx_core::home::{HostPaths, published};
use acpx_core::model::{PermissionMode, ProcessIdentity, RecordId};
use acpx_core::store::Store;
use acpx_core::tools::{Tag, agent_above, is_below, is_inside};

use super::project_scope::ProjectScope;
use crate::error::CliError;

/// Fails if an agent of the home started this process: it descends from the home's host, or from a process tagged with
/// the home.
pub(crate) fn refuse_inside(paths: &HostPaths, what: &'static str) -> Result<(), CliError> {
    // A home that is not there has no agents.
    let Ok(home) = paths.name() else { return Ok(()) };
    let this = std::process::id();
    let is_the_hosts = || host_pid(paths).is_some_and(|host| is_below(this, host));
    if is_inside(this, &home) || is_the_hosts() { Err(CliError::ReservedForUser { what }) } else { Ok(()) }
}

/// Whether the home's host itself started this process, and not as an agent that has become this program.
pub(crate) fn is_child_of_host(paths: &HostPaths) -> bool {
    let is_child = host_pid(paths).is_some_and(|host| host == std::os::unix::process::parent_id());
    is_child && std::env::var_os(Tag::VARIABLE).is_none()
}

/// Fails if an agent started this process and the scope has sessions that are not of the agent's project. The project
/// is that of the agent's record or, for an agent without one, that of the directory it works in.
pub(crate) async fn refuse_other_projects(
    paths: &HostPaths,
    store: Option<&dyn Store>,
    scope: &ProjectScope,
) -> Result<(), CliError> {
    let what = "read sessions of other projects";
    let Err(refused) = refuse_inside(paths, what) else { return Ok(()) };
    let Some(root) = scope.root() else { return Err(refused) };
    let home = paths.name().unwrap_or_default();
    let Some(agent) = agent_above(std::process::id(), &home, host_pid(paths)) else { return Err(refused) };
    let id = agent.record.and_then(|id| RecordId::new(id).ok());
    let record = match (store, id) {
        (Some(store), Some(id)) => store.record(id).await?,
        _ => None,
    };
    let directory = record.map(|record| record.real_cwd.as_path().to_owned()).or(agent.cwd);
    let own = directory.and_then(|directory| ProjectScope::of(&directory).ok());
    if own.is_some_and(|own| own.contains(root)) { Ok(()) } else { Err(refused) }
}

/// The pid of the home's host, if one runs.
fn host_pid(paths: &HostPaths) -> Option<u32> {
    published(paths).map(|host| host.process).filter(ProcessIdentity::is_alive).map(|host| host.pid)
}

/// The same for a command that sets its own agent's permissions, if it allows everything or has rules.
pub(crate) fn refuse_own_terms(
    paths: &HostPaths,
    mode: Option<PermissionMode>,
    has_rules: bool,
) -> Result<(), CliError> {
    if mode == Some(PermissionMode::ApproveAll) {
        return refuse_inside(paths, "approve everything");
    }
    if has_rules { refuse_inside(paths, "make rules for tools") } else { Ok(()) }
}
