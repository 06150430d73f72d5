//! Refusals for a program that an agent of this home started: it acts for its agent, not for the user.
//!
//! The host checks this for its clients. These checks cover what a command does without the host, or before connecting.

use acpx_core::home::{HostPaths, published};
use acpx_core::model::{PermissionMode, ProcessIdentity};
use acpx_core::tools::{is_below, is_inside};

use crate::error::CliError;

/// Fails if an agent of the home started this process: it descends from the home's host, or from a process tagged with
/// the home.
pub(crate) fn refuse_inside(paths: &HostPaths, what: &'static str) -> Result<(), CliError> {
    // A home that is not there has no agents.
    let Ok(home) = paths.name() else { return Ok(()) };
    let this = std::process::id();
    let host = || published(paths).map(|host| host.process).filter(ProcessIdentity::is_alive);
    let is_the_hosts = || host().is_some_and(|host| is_below(this, host.pid));
    if is_inside(this, &home) || is_the_hosts() { Err(CliError::ReservedForUser { what }) } else { Ok(()) }
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
