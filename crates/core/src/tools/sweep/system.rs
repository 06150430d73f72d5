//! The sweep on Linux: finds the processes that it ends.

use std::collections::HashSet;

use super::{GracePeriods, ProcessIdentity, SweepReport, SweptProcess};
use crate::tools::identity::boot;
use crate::tools::marks::Marks;
use crate::tools::process_snapshot::{ProcessSnapshot, end_found};
use crate::tools::stat;
use crate::tools::stat::Stat;
use crate::tools::tag::Tag;

pub(super) fn sweep(
    home: &str,
    holders: Option<&[ProcessIdentity]>,
    runs: &[ProcessIdentity],
    keep: &[String],
    grace: GracePeriods,
) -> SweepReport {
    let (Some(boot), Some(namespace)) = (boot(), stat::ours()) else { return SweepReport::default() };
    let sweep = Sweep { home, holders, runs, keep, boot, namespace };
    end_found(|| sweep.find(), grace)
}

struct Sweep<'a> {
    home: &'a str,
    /// The holders whose processes are swept; `None` for all.
    holders: Option<&'a [ProcessIdentity]>,
    runs: &'a [ProcessIdentity],
    keep: &'a [String],
    boot: &'a str,
    namespace: u64,
}

/// What a process's tag shows about its holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HolderStatus {
    /// It has no tag.
    Untagged,
    /// The holder is of this home and dead.
    DeadHolder,
    /// The holder is alive, not included, of another home, or in another pid namespace.
    OtherHolder,
}

impl Sweep<'_> {
    /// All processes to be swept.
    fn find(&self) -> Vec<SweptProcess> {
        let snapshot = ProcessSnapshot::read();
        let candidates: Vec<(&Stat, Marks)> =
            snapshot.candidates().map(|stat| (stat, Marks::of(stat.pid))).collect();
        let held: Vec<(&Stat, HolderStatus)> =
            candidates.iter().map(|(stat, marks)| (*stat, self.held(marks.tag.as_ref()))).collect();
        let groups = self.recorded_groups(&snapshot.processes, &held);
        let mut found = Vec::new();
        for ((stat, marks), (_, held)) in candidates.into_iter().zip(held) {
            let is_target = match held {
                HolderStatus::DeadHolder => true,
                HolderStatus::Untagged => groups.contains(&stat.group),
                HolderStatus::OtherHolder => false,
            };
            if is_target && !snapshot.is_kept(stat, self.keep) && !snapshot.is_kept(stat, &marks.keep) {
                found.push(SweptProcess::seen(stat, self.boot, marks.record));
            }
        }
        found
    }

    /// The groups of recorded agents that are still theirs: the leader is the recorded process, or the leader has
    /// exited and a member with the tag proves whose group it was. A reused pid proves nothing.
    fn recorded_groups(&self, processes: &[Stat], candidates: &[(&Stat, HolderStatus)]) -> HashSet<u32> {
        let is_shown = |group: u32| {
            candidates.iter().any(|(stat, held)| stat.group == group && *held == HolderStatus::DeadHolder)
        };
        let is_theirs = |run: &&ProcessIdentity| match processes.iter().find(|stat| stat.pid == run.pid) {
            Some(leader) => leader.identity(self.boot) == **run,
            None => run.boot == self.boot && is_shown(run.pid),
        };
        self.runs.iter().filter(is_theirs).map(|run| run.pid).collect()
    }

    /// The status of a process in our namespace, from its tag.
    fn held(&self, tag: Option<&Tag>) -> HolderStatus {
        match tag {
            None => HolderStatus::Untagged,
            // The holder is looked up by its pid, which must be of our namespace.
            Some(tag) if tag.namespace != self.namespace => HolderStatus::OtherHolder,
            Some(tag) if self.holders.is_some_and(|meant| !meant.contains(&tag.holder)) => {
                HolderStatus::OtherHolder
            }
            Some(tag) if tag.home == self.home && !tag.holder.is_alive() => HolderStatus::DeadHolder,
            Some(_) => HolderStatus::OtherHolder,
        }
    }
}

#[cfg(test)]
mod tests;
