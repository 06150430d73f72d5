//! Strays: what an agent has started and what then left its process group, such as daemons. They go with the agent.
//!
//! They are known in three ways. Before the agent is ended, by their parents: whatever descends from it is its own.
//! By the marks in their environment, which they inherit. And if they have shed both, by having come to us: a host
//! takes in what loses its parent, and an orphan that no agent alive today can have started is nobody's. The last
//! works only in a process that looks after orphans, since any other may have children that it wants to keep. Such an
//! orphan may be any agent's, so it is ended and attributed to no record.

use std::sync::Arc;

use crate::model::ProcessIdentity;

use super::children;
use super::ending::GracePeriods;
use super::sweep::SweepReport;
use super::tag::Tag;

/// The strays of one record's agents.
#[derive(Debug, Clone)]
pub struct StrayProcesses {
    /// The tag that its agents carry.
    tag: Option<Tag>,
    record: String,
    /// Programs that the user wants to keep.
    keep: Arc<[String]>,
    /// What descended from an agent when it was last looked at.
    seen: Arc<Vec<ProcessIdentity>>,
}

impl StrayProcesses {
    /// Those of a record whose agents carry this tag, but for these programs and what they have started.
    pub fn of(record: impl Into<String>, tag: Option<Tag>, keep: Arc<[String]>) -> Self {
        Self { tag, record: record.into(), keep, seen: Arc::default() }
    }

    /// Takes note of what descends from an agent as long as that shows. No other agent's strays are among it from then
    /// on. It blocks.
    pub fn look_below(&mut self, agent: &ProcessIdentity) {
        self.seen = children::claim(system::descendants(agent));
    }

    /// Ends them, and returns in bounded time. Those that are known to be this record's name it. It blocks. Only Linux
    /// lets it find anything.
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
    use super::super::hunt::{ProcessSnapshot, end_found};
    use super::super::identity::boot;
    use super::super::marks::Marks;
    use super::super::stat::Stat;
    use super::super::sweep::SweptProcess;
    use super::{GracePeriods, ProcessIdentity, StrayProcesses, SweepReport, children};

    pub(super) fn descendants(agent: &ProcessIdentity) -> Vec<ProcessIdentity> {
        let (Some(boot), scene) = (boot(), ProcessSnapshot::look()) else { return Vec::new() };
        if scene.get(agent.pid).is_none_or(|leader| leader.identity(boot) != *agent) {
            return Vec::new();
        }
        let is_below =
            |stat: &&Stat| stat.pid != agent.pid && scene.line_of(stat.pid).any(|pid| pid == agent.pid);
        scene.processes.iter().filter(is_below).map(|stat| stat.identity(boot)).collect()
    }

    pub(super) fn end(strays: &StrayProcesses, grace: GracePeriods) -> SweepReport {
        let Some(boot) = boot() else { return SweepReport::default() };
        end_found(|| strays.find(boot), grace)
    }

    impl StrayProcesses {
        fn find(&self, boot: &str) -> Vec<SweptProcess> {
            let scene = ProcessSnapshot::look();
            let unclaimed = children::unclaimed(&scene.processes);
            let mut found = Vec::new();
            for stat in scene.candidates() {
                let (identity, marks) = (stat.identity(boot), Marks::of(stat.pid));
                let is_marked = self.tag.is_some()
                    && marks.tag == self.tag
                    && marks.record.as_ref() == Some(&self.record)
                    && !children::is_ours(stat.pid);
                let is_nobodys = marks.tag.is_none() && unclaimed.contains(&stat.pid);
                let is_own = is_marked || self.seen.contains(&identity);
                if (is_own || is_nobodys) && !scene.is_kept(stat, &self.keep) {
                    found.push(SweptProcess::seen(stat, boot, is_own.then(|| self.record.clone())));
                }
            }
            found
        }
    }
}
