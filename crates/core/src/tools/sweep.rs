//! The sweep: ends what a holder that was killed could not end itself.
//!
//! What it may signal is proven each time: the process carries a tag of this home whose holder is dead, or is in the
//! group of an agent that such a holder had recorded. It is never this process, never one of its ancestors, and
//! never held by a process that lives. Numbers mean something only among those who share them, so a holder or a
//! process in another pid namespace is left alone, and so is whatever cannot be read. A pid that went to somebody
//! else is never signalled: the process is taken hold of first, and its identity is compared after that.

use crate::model::ProcessIdentity;

use super::ending::GracePeriods;

/// What a sweep met.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SweepReport {
    /// What is gone now.
    pub ended: Vec<SweptProcess>,
    /// What was killed and is there all the same, such as a process that waits for a dead disk.
    pub left: Vec<SweptProcess>,
}

/// A process that was found and ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SweptProcess {
    /// Which process it was.
    pub identity: ProcessIdentity,
    /// Its short name, as it had chosen it itself.
    pub name: String,
    /// Its process group.
    pub group: u32,
    /// The record whose agent had started it, if that is known.
    pub record: Option<String>,
}

#[cfg(target_os = "linux")]
impl SweptProcess {
    pub(super) fn seen(stat: &super::stat::Stat, boot: &str, record: Option<String>) -> Self {
        let (identity, name, group) = (stat.identity(boot), stat.name.clone(), stat.group);
        Self { identity, name, group, record }
    }
}

/// Ends what dead holders of this home left: everything that carries their tag, and the process groups of the agents
/// they had recorded, which are `runs`; but not these programs, nor those that its own holder kept, nor what they have
/// started. It is TERM first and KILL after [`GracePeriods::term`], and returns in bounded time. It blocks. Only Linux lets it
/// find anything.
pub fn sweep(home: &str, runs: &[ProcessIdentity], keep: &[String], grace: GracePeriods) -> SweepReport {
    system::sweep(home, None, runs, keep, grace)
}

/// The same for these holders of the home alone, as far as they are dead. What others have left stays for whoever
/// looks after it.
pub fn sweep_after(
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

    /// Without start times and boots no pid can be believed, so nobody is signalled.
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
