//! The children this process has started itself, so that nobody else reaps them.
//!
//! A process that adopts orphans has two kinds of children, and the kernel does not tell them apart. One that is
//! ours must be reaped by the one who waits for its exit status. So every fork happens under a lock and is written
//! down before the lock is let go, and orphans are looked for under the same lock. Children belong to the process,
//! hence the one list for all of it.

use std::collections::BTreeSet;
use std::io;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Held while a child is between its fork and its entry in the list.
static FORKING: Mutex<()> = Mutex::new(());
/// The children that are ours and not reaped yet.
static OURS: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// Starts a child that is ours.
pub(super) fn start(command: &mut Command) -> io::Result<Child> {
    // A child whose exec fails is reaped by `spawn` itself, so the lock is held until it is back.
    let _forking = lock(&FORKING);
    let child = command.spawn()?;
    lock(&OURS).insert(child.id());
    Ok(child)
}

/// Reaps a child that is ours. Only for one that has exited: others wait for it meanwhile.
pub(super) fn reap(child: &mut Child) -> io::Result<ExitStatus> {
    // The number is free once the child is reaped and may be an orphan's at once, so both happen together.
    let mut ours = lock(&OURS);
    let status = child.wait();
    ours.remove(&child.id());
    status
}

/// Reaps every dead child that is not ours.
#[cfg(target_os = "linux")]
pub(super) fn reap_orphans() {
    use super::stat::Stat;
    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

    let _forking = lock(&FORKING);
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
    if !matches!(waitid(WaitId::All, look | WaitIdOptions::NOWAIT), Ok(Some(_))) {
        return;
    }
    // The look says only that somebody is dead, and would show one of ours again and again while it waits for its
    // own reaper. So the dead are looked up by name.
    let parent = std::process::id();
    for dead in
        Stat::all().unwrap_or_default().into_iter().filter(|stat| stat.is_dead && stat.parent == parent)
    {
        if lock(&OURS).contains(&dead.pid) {
            continue;
        }
        if let Some(pid) = i32::try_from(dead.pid).ok().and_then(Pid::from_raw) {
            // If it is gone, its own reaper was faster.
            let _ = waitid(WaitId::Pid(pid), look);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
