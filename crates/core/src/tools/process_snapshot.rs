//! Ends processes that are found by a search: TERM, then KILL, and a new search after each, because a process that is
//! being ended may start others. Returns in bounded time.
//!
//! Each search must prove that a process belongs to it. Never included: this process and its ancestors, another host
//! and its agents, programs that the user keeps with their descendants, and processes of another user or pid namespace.
#![cfg(target_os = "linux")]

use std::collections::{HashMap, HashSet};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use rustix::process::{Signal, geteuid};

use super::identity::boot;
use super::marks::Marks;
use super::stat;
use super::stat::Stat;
use super::sweep::{SweepReport, SweptProcess};
use super::termination::{GracePeriods, POLL_INTERVAL, signal_process};

/// Ends the processes that `find` returns, and what they start. A process that was found once stays in the set.
pub(super) fn end_found(mut find: impl FnMut() -> Vec<SweptProcess>, grace: GracePeriods) -> SweepReport {
    let mut seen = Vec::new();
    if !signal_until_exited(&mut find, &mut seen, Signal::TERM, grace.term) {
        signal_until_exited(&mut find, &mut seen, Signal::KILL, grace.term);
    }
    let (left, ended) = seen.into_iter().partition(|process: &SweptProcess| process.identity.is_alive());
    SweepReport { ended, left }
}

/// Signals everything that is found until nothing is left or the time is up.
fn signal_until_exited(
    find: &mut impl FnMut() -> Vec<SweptProcess>,
    seen: &mut Vec<SweptProcess>,
    signal: Signal,
    limit: Duration,
) -> bool {
    let deadline = Instant::now() + limit;
    loop {
        for process in find() {
            if !seen.iter().any(|known| known.identity == process.identity) {
                seen.push(process);
            }
        }
        let living: Vec<_> = seen.iter().map(|seen| &seen.identity).filter(|seen| seen.is_alive()).collect();
        if living.is_empty() {
            return true;
        }
        for process in &living {
            signal_process(process, signal);
        }
        while living.iter().any(|process| process.is_alive()) {
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

/// All processes at one moment.
pub(super) struct ProcessSnapshot {
    pub(super) processes: Vec<Stat>,
    by_pid: HashMap<u32, usize>,
    /// This process and its ancestors.
    spared: HashSet<u32>,
    uid: u32,
    namespace: Option<u64>,
}

impl ProcessSnapshot {
    pub(super) fn read() -> Self {
        Self::of(Stat::all().unwrap_or_default())
    }

    pub(super) fn of(processes: Vec<Stat>) -> Self {
        let by_pid = processes.iter().enumerate().map(|(index, stat)| (stat.pid, index)).collect();
        let (uid, namespace) = (geteuid().as_raw(), stat::ours());
        let mut snapshot = Self { processes, by_pid, spared: HashSet::new(), uid, namespace };
        snapshot.spared = snapshot.ancestry_of(std::process::id()).collect();
        snapshot
    }

    /// The process with this pid, if it exists.
    pub(super) fn get(&self, pid: u32) -> Option<&Stat> {
        self.by_pid.get(&pid).and_then(|index| self.processes.get(*index))
    }

    /// A process and its ancestors. The snapshot is not atomic, so it may even contain a cycle.
    pub(super) fn ancestry_of(&self, pid: u32) -> impl Iterator<Item = u32> {
        let mut seen = HashSet::new();
        std::iter::successors(Some(pid), |pid| self.get(*pid).map(|stat| stat.parent))
            .take_while(move |pid| seen.insert(*pid))
    }

    /// The processes that may be ended at all.
    pub(super) fn candidates(&self) -> impl Iterator<Item = &Stat> {
        self.processes.iter().filter(|stat| {
            !stat.is_dead
                && !self.spared.contains(&stat.pid)
                && owner(stat.pid) == Some(self.uid)
                && self.namespace.is_some()
                && stat::of(stat.pid) == self.namespace
        })
    }

    /// Whether a process is, or descends from, another host or a program that the user keeps. Our own ancestors do not
    /// count: acpx may run inside such a program.
    pub(super) fn is_kept(&self, stat: &Stat, keep: &[String]) -> bool {
        self.ancestry_of(stat.pid)
            .take_while(|pid| !self.spared.contains(pid))
            .filter_map(|pid| self.get(pid))
            .any(|stat| is_program_of(stat, keep) || is_host(stat))
    }
}

/// Whether a process is a host.
fn is_host(stat: &Stat) -> bool {
    boot().is_some_and(|boot| Marks::of(stat.pid).is_host(&stat.identity(boot)))
}

/// Whether a process runs one of these programs, by its process name or its executable's file name.
fn is_program_of(stat: &Stat, names: &[String]) -> bool {
    if names.is_empty() {
        return false;
    }
    let file = std::fs::read_link(format!("/proc/{}/exe", stat.pid)).ok();
    let file = file.as_ref().and_then(|file| file.file_name()?.to_str());
    names.iter().any(|name| *name == stat.name || file == Some(name))
}

fn owner(pid: u32) -> Option<u32> {
    std::fs::metadata(format!("/proc/{pid}")).ok().map(|facts| facts.uid())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(pid: u32, parent: u32) -> Stat {
        Stat { pid, name: String::new(), is_dead: false, parent, group: pid, started: 0 }
    }

    #[test]
    fn this_process_and_its_ancestors_are_spared_despite_a_cycle() {
        let this = std::process::id();
        let (parent, first, stranger) = (this + 1, this + 2, this + 3);
        let line = vec![stat(this, parent), stat(parent, first), stat(first, 0), stat(stranger, first)];
        assert_eq!(ProcessSnapshot::of(line).spared, HashSet::from([this, parent, first, 0]));
        let circle = vec![stat(this, parent), stat(parent, this)];
        assert_eq!(ProcessSnapshot::of(circle).spared, HashSet::from([this, parent]));
    }

    #[test]
    fn kept_program_protects_its_descendants_but_not_its_ancestors() {
        let this = std::process::id();
        let named = |pid, parent, name: &str| Stat { name: name.to_owned(), ..stat(pid, parent) };
        let far = u32::MAX - 10;
        let (agent, server, shell, other) = (far, far + 1, far + 2, far + 3);
        let snapshot = ProcessSnapshot::of(vec![
            named(this, 1, "tmux: server"),
            named(agent, this, "agent"),
            named(server, agent, "tmux: server"),
            named(shell, server, "sh"),
            named(other, agent, "sh"),
        ]);
        let kept = |pid| snapshot.is_kept(snapshot.get(pid).unwrap(), &["tmux: server".to_owned()]);
        assert_eq!([agent, server, shell, other].map(kept), [false, true, true, false]);
    }
}
