//! Whether a process was started by an agent. Such a process acts for its agent, not for the user.
//!
//! There are two proofs. The process's ancestors include the holder: descendants of an agent stay below its holder,
//! because the holder adopts orphans, even if they clear their environment or create a session. Or an ancestor carries
//! a tag of the home, which identifies the children of a killed holder; only an exec with a cleared environment removes
//! it.
//!
//! A process that an agent starts through a service manager or a terminal multiplexer's server is not recognised: it
//! has another ancestor and another environment.

use std::path::PathBuf;

/// What is known of the agent that started a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentAncestor {
    /// The record that it was started for.
    pub record: Option<String>,
    /// The directory that it works in now.
    pub cwd: Option<PathBuf>,
}

/// Whether a process descends from an agent of this process, or from one that carries a tag of this home.
///
/// A process that cannot be inspected counts as one: it has exited, or it hides. Always false on systems other than
/// Linux.
#[cfg(target_os = "linux")]
pub fn is_inside(pid: u32, home: &str) -> bool {
    let is_tagged = |pid| super::marks::Marks::of(pid).tag.is_some_and(|tag| tag.home == home);
    descends(pid, std::process::id(), super::stat::Stat::of, is_tagged)
}

/// Whether a process descends from this holder of agents. Always false on systems other than Linux.
#[cfg(target_os = "linux")]
pub fn is_below(pid: u32, holder: u32) -> bool {
    descends(pid, holder, super::stat::Stat::of, |_| false)
}

/// The agent that started a process: the outermost ancestor that carries a tag of the home, or that this holder of
/// agents started. `None` if there is none. Always `None` on systems other than Linux.
#[cfg(target_os = "linux")]
pub fn agent_above(pid: u32, home: &str, holder: Option<u32>) -> Option<AgentAncestor> {
    use super::marks::Marks;
    let (mut process, mut agent) = (super::stat::Stat::of(pid)?, None);
    for _ in 0..STEPS {
        let is_held = holder == Some(process.parent);
        if is_held || Marks::of(process.pid).tag.is_some_and(|tag| tag.home == home) {
            agent = Some(process.pid);
        }
        match super::stat::Stat::of(process.parent) {
            Some(parent) if !is_held && parent.started <= process.started => process = parent,
            _ => break,
        }
    }
    agent.map(|pid| AgentAncestor {
        record: Marks::of(pid).record,
        cwd: std::fs::read_link(format!("/proc/{pid}/cwd")).ok(),
    })
}

/// Follows the ancestors of a process until one proves descent or there are no more.
#[cfg(target_os = "linux")]
fn descends(
    pid: u32,
    holder: u32,
    look: impl Fn(u32) -> Option<super::stat::Stat>,
    is_tagged: impl Fn(u32) -> bool,
) -> bool {
    let Some(mut process) = look(pid) else { return true };
    // A process that keeps changing its parents reaches this limit and counts as a descendant.
    for _ in 0..STEPS {
        if process.parent == holder || is_tagged(process.pid) {
            return true;
        }
        if process.parent == 0 {
            return false;
        }
        match look(process.parent) {
            // A parent starts before its child; a later start means that the parent's pid was reused.
            Some(parent) if parent.started <= process.started => process = parent,
            _ => match look(process.pid) {
                // It has lost its parent since and was given another one.
                Some(again) if again.parent != process.parent => process = again,
                // The parent exists but is hidden: some systems hide the processes of other users, and agents run as
                // our user.
                Some(_) => return false,
                None => return true,
            },
        }
    }
    true
}

/// How many ancestors are followed.
#[cfg(target_os = "linux")]
const STEPS: usize = 1024;

/// Always false: this system does not report descent.
#[cfg(not(target_os = "linux"))]
pub fn is_inside(_: u32, _: &str) -> bool {
    false
}

/// Always none: this system does not report descent.
#[cfg(not(target_os = "linux"))]
pub fn agent_above(_: u32, _: &str, _: Option<u32>) -> Option<AgentAncestor> {
    None
}

/// Always false: this system does not report descent.
#[cfg(not(target_os = "linux"))]
pub fn is_below(_: u32, _: u32) -> bool {
    false
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
