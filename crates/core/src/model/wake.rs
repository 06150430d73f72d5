//! How to restore a session. A prompt's own options are stored with its turn, so they hold after a crash.

use serde::{Deserialize, Serialize};

/// How to restore a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WakeOptions {
    /// What to do when the agent cannot restore it.
    pub fallback: Fallback,
    /// Whether the first prompt of a fresh session carries the conversation so far.
    pub carry_history: bool,
}

/// When a fresh ACP session may replace one that the agent does not restore. The aliases are names of earlier versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fallback {
    /// If the agent reports the session as not found, or can restore nothing. It is announced.
    #[default]
    #[serde(alias = "fresh")]
    Auto,
    /// Also after any other refusal. It is announced.
    Always,
    /// Never: the command fails and the record keeps its session.
    #[serde(alias = "refuse")]
    Never,
    /// At once, without an attempt to restore: the user requested a fresh session.
    Reset,
}

stable_names! {
    Fallback:
    Auto = "auto",
    Always = "always",
    // Turns that were stored before format 10 of the store have `refuse`.
    Never = "never" | "refuse",
    Reset = "reset",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fallback_names_round_trip_and_refuse_is_never() {
        assert_eq!(Fallback::ALL.map(|fallback| Fallback::parse(fallback.as_str())), Fallback::ALL.map(Some));
        assert_eq!(["refuse", "other"].map(Fallback::parse), [Some(Fallback::Never), None]);
    }
}
