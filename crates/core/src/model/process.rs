//! The identity of a process. The kernel reuses pids, so a pid alone proves nothing: it counts only together with the
//! process's start time and the boot of the machine.

use serde::{Deserialize, Serialize};

use super::Timestamp;

/// One process of one boot of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// Its pid, which the kernel reuses.
    pub pid: u32,
    /// Its start time in clock ticks since the boot, from the kernel. A process without it is never signalled.
    #[serde(default)]
    pub started: u64,
    /// The kernel's id for this boot.
    #[serde(default)]
    pub boot: String,
}

/// One process of a record's agent, from its start to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentRun {
    /// Which process.
    pub process: ProcessIdentity,
    /// When it was started.
    pub since: Timestamp,
    /// How it ended, if acpx observed it.
    pub ended: Option<AgentExit>,
}

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentExit {
    /// When it was noticed.
    pub at: Timestamp,
    /// The kind of end.
    pub how: AgentEnd,
}

/// The kind of a process's end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentEnd {
    /// acpx requested it.
    Asked,
    /// Anything else: its exit code, signal or error, as text.
    Otherwise(String),
}

impl AgentEnd {
    /// The text for a requested end.
    const ASKED: &str = "ended";

    /// The text for a process that was ended because it requires a login before it creates a session.
    pub const WANTS_LOGIN: &str = "it wanted a login before it gave the session, and was ended";

    /// The end as text, as it is stored and shown.
    pub fn words(&self) -> &str {
        match self {
            Self::Asked => Self::ASKED,
            Self::Otherwise(words) => words,
        }
    }

    /// The end that a stored text means.
    pub fn from_words(words: &str) -> Self {
        if words == Self::ASKED { Self::Asked } else { Self::Otherwise(words.to_owned()) }
    }
}

impl std::fmt::Display for AgentEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.words())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_end_is_kept_in_words_that_say_it_again() {
        for (end, words) in
            [(AgentEnd::Asked, "ended"), (AgentEnd::Otherwise("signal 9".to_owned()), "signal 9")]
        {
            assert_eq!((end.words(), AgentEnd::from_words(words)), (words, end.clone()));
        }
    }
}
