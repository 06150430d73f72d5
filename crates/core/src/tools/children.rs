//! Register of the children that this process started, so that the orphan reaper does not reap them.
//!
//! A process that adopts orphans has two kinds of children, which the kernel does not distinguish. A child of ours must
//! be reaped by the thread that waits for its exit status. So every start is registered before its fork and its child
//! after it, and only the other children are treated as orphans. The lock is not held during a start, because a fork or
//! exec can hang on an unresponsive disk. Children belong to the process, hence one register for all of it.

use std::collections::BTreeSet;
use std::io;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Weak};

use crate::model::ProcessIdentity;
use crate::sync::Lock;

static REGISTER: Lock<Register> =
    Lock::new(Register { ours: BTreeSet::new(), starting: BTreeSet::new(), claims: Vec::new() });

/// The register. It is locked briefly, and never while a child is being forked.
struct Register {
    /// Pids of our children that are not reaped yet.
    ours: BTreeSet<u32>,
    /// Threads that are about to start a child, by their unique names.
    starting: BTreeSet<String>,
    /// Descendants of agents that are being ended. Each belongs to its agent even after its parent has exited.
    claims: Vec<Weak<Vec<ProcessIdentity>>>,
}

/// Claims these descendants of an agent until the value is dropped.
pub(super) fn claim(descendants: Vec<ProcessIdentity>) -> Arc<Vec<ProcessIdentity>> {
    let claim = Arc::new(descendants);
    let mut register = REGISTER.lock();
    register.claims.retain(|claim| claim.strong_count() > 0);
    register.claims.push(Arc::downgrade(&claim));
    claim
}

/// Starts a child of ours. The thread must have a unique name: the child carries it until exec.
pub(super) fn start(command: &mut Command) -> io::Result<Child> {
    let starting = StartGuard::begin();
    let child = command.spawn();
    if let Ok(child) = &child {
        REGISTER.lock().ours.insert(child.id());
    }
    drop(starting);
    child
}

/// Reaps a child of ours that has exited. Blocks other users of the register, so the child must not be running.
pub(super) fn reap(child: &mut Child) -> io::Result<ExitStatus> {
    // Reaping frees the pid, and an orphan may get it at once. So both steps happen under the lock.
    let mut register = REGISTER.lock();
    let status = child.wait();
    register.ours.remove(&child.id());
    status
}

/// RAII guard of a registered start.
struct StartGuard(String);

impl StartGuard {
    fn begin() -> Self {
        let name = std::thread::current().name().unwrap_or_default().to_owned();
        REGISTER.lock().starting.insert(name.clone());
        Self(name)
    }
}

impl Drop for StartGuard {
    fn drop(&mut self) {
        REGISTER.lock().starting.remove(&self.0);
    }
}

#[cfg(target_os = "linux")]
pub(super) use adopted::{is_ours, reap_orphans, set_adopts_orphans, unclaimed};

#[cfg(target_os = "linux")]
mod adopted {
    use std::sync::Weak;
    use std::sync::atomic::{AtomicBool, Ordering};

    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

    use super::super::stat::Stat;
    use super::{REGISTER, Register};
    use crate::model::ProcessIdentity;

    /// Reaps every dead child that is not ours. Returns false if one of them might be ours at this moment; the caller
    /// retries.
    pub(in super::super) fn reap_orphans() -> bool {
        let register = REGISTER.lock();
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        if !matches!(waitid(WaitId::All, look | WaitIdOptions::NOWAIT), Ok(Some(_))) {
            return true;
        }
        // `waitid` only reports that some child is dead, and would report a child of ours repeatedly until its own
        // thread reaps it. So the dead children are looked up in `/proc`.
        let parent = std::process::id();
        let mut children = Stat::all().unwrap_or_default();
        children.retain(|child| child.parent == parent);
        let Some(orphans) = register.orphans_among(&children) else { return false };
        for orphan in orphans {
            if let Some(pid) = i32::try_from(orphan).ok().and_then(Pid::from_raw) {
                // It fails if other code has waited for all children of this process.
                let _ = waitid(WaitId::Pid(pid), look);
            }
        }
        true
    }

    /// Whether every child that this process did not start is an orphan.
    static LOOKS_AFTER_ORPHANS: AtomicBool = AtomicBool::new(false);

    /// Sets whether children that we did not start are orphans.
    pub(in super::super) fn set_adopts_orphans(looks: bool) {
        LOOKS_AFTER_ORPHANS.store(looks, Ordering::Relaxed);
    }

    /// Whether a process is a child that this process has started itself and not reaped yet.
    pub(in super::super) fn is_ours(pid: u32) -> bool {
        REGISTER.lock().ours.contains(&pid)
    }

    /// Orphans that no living child of ours can have started, because all of those started later, and that no agent
    /// being ended has claimed. Empty while a start is in progress, because its child cannot be recognised yet.
    pub(in super::super) fn unclaimed(processes: &[Stat]) -> Vec<u32> {
        if !LOOKS_AFTER_ORPHANS.load(Ordering::Relaxed) {
            return Vec::new();
        }
        REGISTER.lock().unclaimed_among(processes, std::process::id())
    }

    impl Register {
        pub(super) fn unclaimed_among(&self, processes: &[Stat], this: u32) -> Vec<u32> {
            if !self.starting.is_empty() {
                return Vec::new();
            }
            let is_ours = |stat: &&Stat| self.ours.contains(&stat.pid);
            let oldest =
                processes.iter().filter(is_ours).filter(|stat| !stat.is_dead).map(|stat| stat.started).min();
            let claims: Vec<_> = self.claims.iter().filter_map(Weak::upgrade).collect();
            let is_claimed = |stat: &Stat| {
                let is_it =
                    |claimed: &ProcessIdentity| (claimed.pid, claimed.started) == (stat.pid, stat.started);
                claims.iter().any(|claim| claim.iter().any(is_it))
            };
            let is_unclaimed = |stat: &&Stat| {
                stat.parent == this
                    && !stat.is_dead
                    && !self.ours.contains(&stat.pid)
                    && oldest.is_none_or(|oldest| stat.started < oldest)
                    && !is_claimed(stat)
            };
            processes.iter().filter(is_unclaimed).map(|stat| stat.pid).collect()
        }

        /// The dead orphans; `None` if they cannot be determined at the moment.
        ///
        /// A child before exec, because its start hangs or failed, has its thread's name. If a start has no such child,
        /// the child does not exist yet, or it has just called exec and is not registered yet: then any dead child
        /// might be it.
        pub(super) fn orphans_among(&self, children: &[Stat]) -> Option<Vec<u32>> {
            let strangers = || children.iter().filter(|child| !self.ours.contains(&child.pid));
            let is_known = |name: &String| strangers().any(|child| child.name == *name);
            let dead = strangers().filter(|child| child.is_dead && !self.starting.contains(&child.name));
            let dead: Vec<u32> = dead.map(|child| child.pid).collect();
            (dead.is_empty() || self.starting.iter().all(is_known)).then_some(dead)
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::super::stat::Stat;
    use super::*;

    fn child(pid: u32, name: &str, is_dead: bool) -> Stat {
        Stat { pid, name: name.to_owned(), is_dead, parent: 1, group: pid, started: 0 }
    }

    fn register_of(ours: &[u32], starting: &[&str]) -> Register {
        let starting = starting.iter().map(|name| (*name).to_owned()).collect();
        Register { ours: ours.iter().copied().collect(), starting, claims: Vec::new() }
    }

    #[test]
    fn the_dead_are_orphans_if_they_are_not_ours() {
        let children = [child(10, "agent", true), child(11, "sh", true), child(12, "sh", false)];
        assert_eq!(register_of(&[10], &[]).orphans_among(&children), Some(vec![11]));
    }

    #[test]
    fn orphan_is_unclaimed_only_without_an_older_living_child() {
        let at = |pid, parent, started| Stat { parent, started, ..child(pid, "x", false) };
        let processes = [at(10, 1, 50), at(20, 1, 40), at(21, 1, 60), at(30, 20, 40), at(40, 9, 40)];
        assert_eq!(register_of(&[10], &[]).unclaimed_among(&processes, 1), [20]);
        assert_eq!(register_of(&[], &[]).unclaimed_among(&processes, 1), [10, 20, 21]);
        // A child that is being forked looks like an orphan.
        assert_eq!(register_of(&[10], &["agents-0"]).unclaimed_among(&processes, 1), [0; 0]);
    }

    #[test]
    fn an_orphan_that_an_ending_agent_has_claimed_is_that_agents_alone() {
        let at = |pid, started| Stat { started, ..child(pid, "x", false) };
        let processes = [at(20, 40), at(21, 60)];
        let identity = |pid, started| ProcessIdentity { pid, started, boot: "boot".to_owned() };
        let claim = Arc::new(vec![identity(20, 40), identity(21, 59)]);
        let register = Register { claims: vec![Arc::downgrade(&claim)], ..register_of(&[], &[]) };
        // The second claim has the pid of a process that has exited.
        assert_eq!(register.unclaimed_among(&processes, 1), [21]);
        drop(claim);
        assert_eq!(register.unclaimed_among(&processes, 1), [20, 21]);
    }

    #[test]
    fn hanging_or_failed_start_does_not_block_reaping_orphans() {
        for has_failed in [false, true] {
            let children = [child(10, "agents-0", has_failed), child(11, "sh", true)];
            assert_eq!(register_of(&[], &["agents-0"]).orphans_among(&children), Some(vec![11]));
        }
    }

    #[test]
    fn no_child_is_reaped_while_a_starting_child_is_unidentified() {
        let children = [child(10, "agents-0", false), child(11, "sh", true)];
        assert_eq!(register_of(&[], &["agents-0", "agents-1"]).orphans_among(&children), None);
        // A registered child is not the one that is being started.
        assert_eq!(register_of(&[10], &["agents-0"]).orphans_among(&children), None);
        // Without dead children there is nothing to wait for.
        assert_eq!(register_of(&[11], &["agents-1"]).orphans_among(&children), Some(Vec::new()));
    }
}
