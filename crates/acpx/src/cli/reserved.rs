//! What npm acpx understands and this program does not: verbs and flags that are kept free.
//!
//! A script that was written for npm acpx and says one of them is told that it is not here. Taken as words, a
//! verb would be said to a model, which may do anything about it, and the script would go on as if all were well.

/// Verbs, alone or behind an agent's name.
const VERBS: [&str; 3] = ["config", "compare", "flow"];
/// Verbs behind `sessions`.
const SESSIONS_VERBS: [&str; 4] = ["read", "export", "import", "prune"];
/// Flags of any verb.
const FLAGS: [&str; 9] = [
    "--suppress-reads",
    "--allowed-tools",
    "--max-turns",
    "--system-prompt",
    "--append-system-prompt",
    "--prompt-retries",
    "--no-fs",
    "--no-terminal",
    "--resume-session",
];

/// Whether a word is a verb of npm acpx that is not here.
pub(super) fn is_verb(word: &str) -> bool {
    VERBS.contains(&word)
}

/// Whether a word is a verb of npm acpx's `sessions` that is not here.
pub(super) fn is_sessions_verb(word: &str) -> bool {
    SESSIONS_VERBS.contains(&word)
}

/// The flag's name, if an argument is one of npm acpx's that are not here.
pub(super) fn flag(argument: &str) -> Option<&'static str> {
    let name = argument.split_once('=').map_or(argument, |(name, _)| name);
    FLAGS.into_iter().find(|flag| *flag == name)
}
