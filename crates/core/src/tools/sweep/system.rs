//! The sweep on Linux: who is meant, and how they are told.

use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use rustix::process::{Signal, geteuid};

use super::{Grace, ProcessIdentity, Swept, SweptProcess};
use crate::tools::ending::LOOK_AGAIN;
use crate::tools::identity::boot;
use crate::tools::namespace;
use crate::tools::stat::Stat;
use crate::tools::tag::Tag;
use crate::tools::telling::tell;

/// How much of an environment is read. The kernel lets a program start with less.
const ENVIRONMENT_BYTES: u64 = 8 << 20;

pub(super) fn sweep(home: &str, runs: &[ProcessIdentity], grace: Grace) -> Swept {
    let (Some(boot), Some(namespace)) = (boot(), namespace::ours()) else { return Swept::default() };
    let mut sweep = Sweep { home, runs, boot, namespace, met: Vec::new() };
    if !sweep.signal_until_gone(Signal::TERM, grace.term) {
        sweep.signal_until_gone(Signal::KILL, grace.term);
    }
    let (left, ended) = sweep.met.into_iter().partition(|process| process.identity.is_alive());
    Swept { ended, left }
}

struct Sweep<'a> {
    home: &'a str,
    runs: &'a [ProcessIdentity],
    boot: &'a str,
    namespace: u64,
    /// Everything that was found so far. What was meant once stays meant, whatever it becomes.
    met: Vec<SweptProcess>,
}

/// What is known about the one who holds a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    /// There is no tag.
    Untold,
    /// By a holder of this home that is dead.
    ByTheDead,
    /// By one that lives, or for another home, or where pids may name other processes than here.
    ByOthers,
}

impl Sweep<'_> {
    /// Signals everything that is meant, and what it still starts, until nothing is left or the time is over.
    fn signal_until_gone(&mut self, signal: Signal, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        loop {
            self.look();
            let living: Vec<_> =
                self.met.iter().map(|met| &met.identity).filter(|met| met.is_alive()).collect();
            if living.is_empty() {
                return true;
            }
            for process in &living {
                tell(process, signal);
            }
            while living.iter().any(|process| process.is_alive()) {
                if Instant::now() >= deadline {
                    return false;
                }
                std::thread::sleep(LOOK_AGAIN);
            }
        }
    }

    /// Adds everything that is meant to what was met.
    fn look(&mut self) {
        let processes = Stat::all().unwrap_or_default();
        let spared = this_process_and_its_ancestors(&processes);
        let uid = geteuid().as_raw();
        let candidates: Vec<(&Stat, Held)> = processes
            .iter()
            .filter(|stat| !stat.is_dead && !spared.contains(&stat.pid) && owner(stat.pid) == Some(uid))
            .map(|stat| (stat, self.held(namespace::of(stat.pid), tag_of(stat.pid).as_ref())))
            .collect();
        let groups = self.recorded_groups(&processes, &candidates);
        for (stat, held) in candidates {
            let is_meant = match held {
                Held::ByTheDead => true,
                Held::Untold => groups.contains(&stat.group),
                Held::ByOthers => false,
            };
            let process = SweptProcess { identity: stat.identity(self.boot), name: stat.name.clone() };
            if is_meant && !self.met.iter().any(|met| met.identity == process.identity) {
                self.met.push(process);
            }
        }
    }

    /// The groups of recorded agents that are still theirs: the leader is the recorded process, or it is gone and
    /// a member with the tag shows whose group it was. A number that another process has now proves nothing.
    fn recorded_groups(&self, processes: &[Stat], candidates: &[(&Stat, Held)]) -> HashSet<u32> {
        let is_shown = |group: u32| {
            candidates.iter().any(|(stat, held)| stat.group == group && *held == Held::ByTheDead)
        };
        let is_theirs = |run: &&ProcessIdentity| match processes.iter().find(|stat| stat.pid == run.pid) {
            Some(leader) => leader.identity(self.boot) == **run,
            None => run.boot == self.boot && is_shown(run.pid),
        };
        self.runs.iter().filter(is_theirs).map(|run| run.pid).collect()
    }

    /// What the namespace of a process and its tag say.
    fn held(&self, namespace: Option<u64>, tag: Option<&Tag>) -> Held {
        if namespace != Some(self.namespace) {
            return Held::ByOthers;
        }
        match tag {
            None => Held::Untold,
            // The holder is looked for by its number, which has to be one of ours.
            Some(tag) if tag.namespace != self.namespace => Held::ByOthers,
            Some(tag) if tag.home == self.home && !tag.holder.is_alive() => Held::ByTheDead,
            Some(_) => Held::ByOthers,
        }
    }
}

fn this_process_and_its_ancestors(processes: &[Stat]) -> HashSet<u32> {
    let mut spared = HashSet::new();
    let mut next = Some(std::process::id());
    // The list was not read in one moment, so it could even show a circle.
    while let Some(pid) = next.filter(|pid| spared.insert(*pid)) {
        next = processes.iter().find(|stat| stat.pid == pid).map(|stat| stat.parent);
    }
    spared
}

fn owner(pid: u32) -> Option<u32> {
    std::fs::metadata(format!("/proc/{pid}")).ok().map(|facts| facts.uid())
}

/// The tag a process was started with. A process that may not be looked at shows none.
pub(in crate::tools) fn tag_of(pid: u32) -> Option<Tag> {
    let mut environment = Vec::new();
    File::open(format!("/proc/{pid}/environ"))
        .and_then(|file| file.take(ENVIRONMENT_BYTES).read_to_end(&mut environment))
        .ok()?;
    tag_in(&environment)
}

fn tag_in(environment: &[u8]) -> Option<Tag> {
    let value = |entry: &[u8]| {
        let value = entry.strip_prefix(Tag::VARIABLE.as_bytes())?.strip_prefix(b"=")?;
        std::str::from_utf8(value).ok()?.parse().ok()
    };
    environment.split(|byte| *byte == 0).find_map(value)
}

#[cfg(test)]
mod tests;
