//! How a session is to be brought back. A prompt's own wishes are stored with its turn, so they hold after a crash.

/// How a session is to be brought back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WakeOptions {
    /// What to do when the agent cannot restore it.
    pub fallback: Fallback,
    /// Whether a fresh session is told the conversation so far with its first prompt.
    pub carry_history: bool,
}

/// What to do when the agent cannot restore a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fallback {
    /// Go on in a fresh ACP session, and say so.
    #[default]
    Fresh,
    /// Fail; the record stays as it is.
    Refuse,
    /// Do not even try to restore: begin afresh on purpose.
    Reset,
}

impl Fallback {
    const ALL: [Self; 3] = [Self::Fresh, Self::Refuse, Self::Reset];

    /// The fallback's stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fresh => "fresh",
            Self::Refuse => "refuse",
            Self::Reset => "reset",
        }
    }

    /// Reads a stable name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fallback| fallback.as_str() == name)
    }
}
