//! Verbs and flags of npm acpx that acpx does not have. They are reserved and cause an error: as words of a prompt they
//! would reach a model, and a script written for npm acpx would not notice.

/// Verbs, alone or after an agent's name.
const VERBS: [&str; 3] = ["config", "compare", "flow"];
/// Verbs below `sessions`.
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

/// Whether a word is a verb of npm acpx that acpx does not have.
pub(super) fn is_verb(word: &str) -> bool {
    VERBS.contains(&word)
}

/// Whether a word is a verb of npm acpx's `sessions` that acpx does not have.
pub(super) fn is_sessions_verb(word: &str) -> bool {
    SESSIONS_VERBS.contains(&word)
}

/// The flag's name, if an argument is a reserved flag.
pub(super) fn flag(argument: &str) -> Option<&'static str> {
    let name = argument.split_once('=').map_or(argument, |(name, _)| name);
    FLAGS.into_iter().find(|flag| *flag == name)
}
