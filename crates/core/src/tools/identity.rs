//! Telling one process from another that has its number.
//!
//! A pid is believed only together with the start time and the boot id. Where the system does not tell these,
//! which is everywhere but on Linux, an identity has a start of 0 and no boot, and is alive if anyone has its pid.

use crate::model::ProcessIdentity;

#[cfg(target_os = "linux")]
impl ProcessIdentity {
    /// The process that has this pid now, dead or alive; none if there is no such process.
    pub fn of(pid: u32) -> Option<Self> {
        Some(super::stat::Stat::of(pid)?.identity(boot()?))
    }

    /// Whether this very process still runs. One that has exited does not, even if nobody has reaped it.
    pub fn is_alive(&self) -> bool {
        super::stat::Stat::of(self.pid)
            .is_some_and(|stat| !stat.is_dead && boot().is_some_and(|boot| stat.identity(boot) == *self))
    }
}

#[cfg(target_os = "linux")]
impl super::stat::Stat {
    /// Which process this is, in this boot.
    pub(super) fn identity(&self, boot: &str) -> ProcessIdentity {
        ProcessIdentity { pid: self.pid, started: self.started, boot: boot.to_owned() }
    }
}

/// The system's name for this life of the machine, read once.
#[cfg(target_os = "linux")]
pub(super) fn boot() -> Option<&'static str> {
    static BOOT: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    if BOOT.get().is_none() {
        let read = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        // Another thread may have been faster; it has read the same.
        drop(BOOT.set(read.trim().to_owned()));
    }
    BOOT.get().map(String::as_str)
}

#[cfg(not(target_os = "linux"))]
impl ProcessIdentity {
    /// The process that has this pid now; none if there is no such process.
    pub fn of(pid: u32) -> Option<Self> {
        let found = Self::unknown(pid);
        found.is_alive().then_some(found)
    }

    /// Whether any process has this pid; which one, the system does not tell.
    pub fn is_alive(&self) -> bool {
        let pid = i32::try_from(self.pid).ok().and_then(rustix::process::Pid::from_raw);
        // A process that may not be signalled is one too.
        pid.is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
    }
}

impl ProcessIdentity {
    /// The process that has this pid now, if it runs.
    pub fn living(pid: u32) -> Option<Self> {
        Self::of(pid).filter(Self::is_alive)
    }

    /// This process, as well as the system tells.
    pub fn of_this_process() -> Self {
        let pid = std::process::id();
        Self::of(pid).unwrap_or_else(|| Self::unknown(pid))
    }

    /// A process of which nothing but its pid is known.
    pub(super) fn unknown(pid: u32) -> Self {
        Self { pid, started: 0, boot: String::new() }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
