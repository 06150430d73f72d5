//! A process as it can be told from every other one. The kernel gives a pid out again, so a pid alone proves
//! nothing: it is believed only together with when the process began and in which boot of the machine.

use super::Timestamp;

/// One process of one boot of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ProcessIdentity {
    /// Its number, which the kernel gives out again once it is free.
    pub pid: u32,
    /// When it began, in clock ticks since the boot, as the kernel says.
    pub started: u64,
    /// The kernel's id for this boot.
    pub boot: String,
}

/// One process of a record's agent, from its start to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentRun {
    /// Which process.
    pub process: ProcessIdentity,
    /// When it was started.
    pub since: Timestamp,
    /// How it ended, if anyone of us saw that.
    pub ended: Option<AgentExit>,
}

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentExit {
    /// When it was noticed.
    pub at: Timestamp,
    /// The exit code or the signal, in words; [`AgentExit::ASKED`] if we had asked it to go.
    pub how: String,
}

impl AgentExit {
    /// How a process ends that we asked to go.
    pub const ASKED: &str = "ended";

    /// Whether we had asked it to go.
    pub fn was_asked(&self) -> bool {
        self.how == Self::ASKED
    }
}
