//! Process identity that survives pid reuse.
//!
//! A pid counts only together with the start time and the boot id. Only Linux provides these; on other systems an
//! identity has a start time of 0 and no boot id, and is alive if any process has its pid.

use crate::model::ProcessIdentity;

#[cfg(target_os = "linux")]
impl ProcessIdentity {
    /// The process that has this pid now, dead or alive; `None` if it does not exist.
    pub fn of(pid: u32) -> Option<Self> {
        Some(super::stat::Stat::of(pid)?.identity(boot()?))
    }

    /// Whether exactly this process is still running. A zombie is not.
    pub fn is_alive(&self) -> bool {
        super::stat::Stat::of(self.pid)
            .is_some_and(|stat| !stat.is_dead && boot().is_some_and(|boot| stat.identity(boot) == *self))
    }
}

#[cfg(target_os = "linux")]
impl super::stat::Stat {
    /// The process's identity in this boot.
    pub(super) fn identity(&self, boot: &str) -> ProcessIdentity {
        ProcessIdentity { pid: self.pid, started: self.started, boot: boot.to_owned() }
    }
}

/// The kernel's boot id, read once.
#[cfg(target_os = "linux")]
pub(super) fn boot() -> Option<&'static str> {
    static BOOT: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    if BOOT.get().is_none() {
        let read = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        // If another thread was faster, it has stored the same value.
        drop(BOOT.set(read.trim().to_owned()));
    }
    BOOT.get().map(String::as_str)
}

#[cfg(not(target_os = "linux"))]
impl ProcessIdentity {
    /// The process that has this pid now; `None` if it does not exist.
    pub fn of(pid: u32) -> Option<Self> {
        let found = Self::unknown(pid);
        found.is_alive().then_some(found)
    }

    /// Whether any process has this pid; this system cannot distinguish them.
    pub(crate) fn is_alive(&self) -> bool {
        let pid = i32::try_from(self.pid).ok().and_then(rustix::process::Pid::from_raw);
        // A process that we may not signal also exists.
        pid.is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
    }
}

impl ProcessIdentity {
    /// The process that has this pid now, if it is running.
    pub fn living(pid: u32) -> Option<Self> {
        Self::of(pid).filter(Self::is_alive)
    }

    /// This process, as precisely as the system can identify it.
    pub fn of_this_process() -> Self {
        let pid = std::process::id();
        Self::of(pid).unwrap_or_else(|| Self::unknown(pid))
    }

    /// A process of which only the pid is known.
    pub(super) fn unknown(pid: u32) -> Self {
        Self { pid, started: 0, boot: String::new() }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
