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
    /// What became of it.
    pub how: AgentEnd,
}

/// What became of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentEnd {
    /// We had asked it to go, and it went.
    Asked,
    /// Anything else: its exit code, its signal or the error it went with, in words.
    Otherwise(String),
}

impl AgentEnd {
    /// The word for a process that we had asked to go.
    const ASKED: &str = "ended";

    /// The words for one that was ended because it gives no session without a login.
    pub const WANTS_LOGIN: &str = "it wanted a login before it gave the session, and was ended";

    /// The end in words, as it is kept and shown.
    pub fn words(&self) -> &str {
        match self {
            Self::Asked => Self::ASKED,
            Self::Otherwise(words) => words,
        }
    }

    /// The end that these words are kept for.
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
