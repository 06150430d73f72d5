//! The sweep: ends the processes that a killed holder left behind.
//!
//! Each signal needs proof: the process carries a tag of this home whose holder is dead, or it is in the group of an
//! agent that such a holder had recorded. Never signalled: this process, its ancestors, processes of a living holder,
//! processes or holders in another pid namespace, and anything that cannot be read. A reused pid is never signalled: a
//! pidfd is opened first, and the identity is compared after that.

use crate::model::ProcessIdentity;

use super::termination::GracePeriods;

/// The result of a sweep.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SweepReport {
    /// Processes that were ended.
    pub ended: Vec<SweptProcess>,
    /// Processes that survived KILL, such as one that waits for an unresponsive disk.
    pub left: Vec<SweptProcess>,
}

/// A process that was found and ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SweptProcess {
    /// The process's identity.
    pub identity: ProcessIdentity,
    /// Its short name, which the process can choose itself.
    pub name: String,
    /// Its process group.
    pub group: u32,
    /// The record whose agent started it, if known.
    pub record: Option<String>,
}

#[cfg(target_os = "linux")]
impl SweptProcess {
    pub(super) fn seen(stat: &super::stat::Stat, boot: &str, record: Option<String>) -> Self {
        let (identity, name, group) = (stat.identity(boot), stat.name.clone(), stat.group);
        Self { identity, name, group, record }
    }
}

/// Ends what dead holders of this home left: everything with their tag, and the process groups of the agents they had
/// recorded (`runs`). Excludes the programs in `keep`, those that the holder kept, and their descendants. Sends TERM,
/// then KILL after [`GracePeriods::term`], and returns in bounded time. Blocking. Finds nothing on systems other than
/// Linux.
pub fn sweep(home: &str, runs: &[ProcessIdentity], keep: &[String], grace: GracePeriods) -> SweepReport {
    system::sweep(home, None, runs, keep, grace)
}

/// The same for only these holders of the home, if they are dead.
pub(crate) fn sweep_after(
    holders: &[ProcessIdentity],
    home: &str,
    keep: &[String],
    grace: GracePeriods,
) -> SweepReport {
    system::sweep(home, Some(holders), &[], keep, grace)
}

#[cfg(not(target_os = "linux"))]
mod system {
    use super::{GracePeriods, ProcessIdentity, SweepReport};

    /// Without start times and boot ids no pid can be trusted, so nothing is signalled.
    pub(super) fn sweep(
        _: &str,
        _: Option<&[ProcessIdentity]>,
        _: &[ProcessIdentity],
        _: &[String],
        _: GracePeriods,
    ) -> SweepReport {
        SweepReport::default()
    }
}

#[cfg(target_os = "linux")]
mod system;
