//! Strays: descendants of an agent that left its process group, such as daemons. They are ended with the agent.
//!
//! They are recognised in three ways. Before the agent is ended, by their ancestors. By the marks in the environment,
//! which they inherit. And without either, as orphans that came to us: a host adopts orphans, and one that no living
//! agent can have started belongs to none of them. The last works only in a process that adopts orphans, since any
//! other may have children that it wants to keep. Such an orphan may be any agent's, so it is attributed to no record.

use std::sync::Arc;

use crate::model::ProcessIdentity;

use super::children;
use super::sweep::SweepReport;
use super::tag::Tag;
use super::termination::GracePeriods;

/// The strays of one record's agents.
#[derive(Debug, Clone)]
pub struct StrayProcesses {
    /// The tag that its agents carry.
    tag: Option<Tag>,
    record: String,
    /// Programs that the user wants to keep.
    keep: Arc<[String]>,
    /// The descendants of an agent when they were last looked up.
    seen: Arc<Vec<ProcessIdentity>>,
}

impl StrayProcesses {
    /// The strays of a record whose agents carry this tag, except for these programs and their descendants.
    pub fn of(record: impl Into<String>, tag: Option<Tag>, keep: Arc<[String]>) -> Self {
        Self { tag, record: record.into(), keep, seen: Arc::default() }
    }

    /// Stores and claims the agent's descendants while they can be found by their ancestors. No other agent takes them
    /// for its own from then on. Blocking.
    pub fn record_descendants(&mut self, agent: &ProcessIdentity) {
        self.seen = children::claim(system::descendants(agent));
    }

    /// Ends the strays and returns in bounded time. Those known to be this record's name it. Blocking. Finds nothing on
    /// systems other than Linux.
    pub fn end(&self, grace: GracePeriods) -> SweepReport {
        system::end(self, grace)
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use super::{GracePeriods, ProcessIdentity, StrayProcesses, SweepReport};

    pub(super) fn descendants(_: &ProcessIdentity) -> Vec<ProcessIdentity> {
        Vec::new()
    }

    pub(super) fn end(_: &StrayProcesses, _: GracePeriods) -> SweepReport {
        SweepReport::default()
    }
}

#[cfg(target_os = "linux")]
mod system {
    use super::super::identity::boot;
    use super::super::marks::Marks;
    use super::super::stat::Stat;
    use super::super::sweep::SweptProcess;
    use super::{GracePeriods, ProcessIdentity, StrayProcesses, SweepReport, children};
    use crate::tools::process_snapshot::{ProcessSnapshot, end_found};

    pub(super) fn descendants(agent: &ProcessIdentity) -> Vec<ProcessIdentity> {
        let (Some(boot), snapshot) = (boot(), ProcessSnapshot::read()) else { return Vec::new() };
        if snapshot.get(agent.pid).is_none_or(|leader| leader.identity(boot) != *agent) {
            return Vec::new();
        }
        let is_below = |stat: &&Stat| {
            stat.pid != agent.pid && snapshot.ancestry_of(stat.pid).any(|pid| pid == agent.pid)
        };
        snapshot.processes.iter().filter(is_below).map(|stat| stat.identity(boot)).collect()
    }

    pub(super) fn end(strays: &StrayProcesses, grace: GracePeriods) -> SweepReport {
        let Some(boot) = boot() else { return SweepReport::default() };
        end_found(|| strays.find(boot), grace)
    }

    impl StrayProcesses {
        fn find(&self, boot: &str) -> Vec<SweptProcess> {
            let snapshot = ProcessSnapshot::read();
            let unclaimed = children::unclaimed(&snapshot.processes);
            let mut found = Vec::new();
            for stat in snapshot.candidates() {
                let (identity, marks) = (stat.identity(boot), Marks::of(stat.pid));
                let is_marked = self.tag.is_some()
                    && marks.tag == self.tag
                    && marks.record.as_ref() == Some(&self.record)
                    && !children::is_ours(stat.pid);
                let is_unclaimed = marks.tag.is_none() && unclaimed.contains(&stat.pid);
                let is_own = is_marked || self.seen.contains(&identity);
                if (is_own || is_unclaimed) && !snapshot.is_kept(stat, &self.keep) {
                    found.push(SweptProcess::seen(stat, boot, is_own.then(|| self.record.clone())));
                }
            }
            found
        }
    }
}
