//! All flags and which of them take a value, so that a value is not mistaken for the verb.

use super::usage::nearest;

/// Whether a flag takes a value from the next argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flag {
    /// It has no value, or an attached one.
    Whole,
    /// Its value is the next argument.
    TakesNext,
    /// The flag for help.
    Help,
    /// The flag for the version.
    Version,
    /// There is no such flag.
    Unknown,
}

/// The flags of all session commands, and whether each takes a value. A flag means the same in every command. A test
/// compares this with clap's definition, which takes too long to build at every start. One exception: `-f` of `host log`
/// takes no value, as that of `tail`.
pub(super) const FLAGS: &[(&str, bool)] = &[
    ("--add-dir", true),
    ("--agent", true),
    ("--all", false),
    ("--allow-approve-all", false),
    ("--allow-meta", false),
    ("--allow-origin", true),
    ("--allow-stdio-servers", false),
    ("--allowed-tools", true),
    ("--any", false),
    ("--append-system-prompt", true),
    ("--approve-all", false),
    ("--approve-reads", false),
    ("--as", true),
    ("--audio", true),
    ("--auth-policy", true),
    ("--before", true),
    ("--by", true),
    ("--carry-history", false),
    ("--color", true),
    ("--config-option", true),
    ("--create", false),
    ("--cursor", true),
    ("--cwd", true),
    ("--deny-all", false),
    ("--dry-run", false),
    ("--exit-by-stop-reason", false),
    ("--fallback", true),
    ("--file", true),
    ("--filter-cwd", true),
    ("--follow", false),
    ("--force", false),
    ("--forget", false),
    ("--format", true),
    ("--from", true),
    ("--idle-timeout", true),
    ("--image", true),
    ("--include-history", false),
    ("--include-open", false),
    ("--insecure-public", false),
    ("--json-strict", false),
    ("--larger-than", true),
    ("--last", true),
    ("--limit", true),
    ("--lines", true),
    ("--listen", true),
    ("--local", false),
    ("--login", true),
    ("--logout", false),
    ("--max-cost", true),
    ("--max-tokens", true),
    ("--max-turns", true),
    ("--mcp-config", true),
    ("--model", true),
    ("--name", true),
    ("--no-fallback", false),
    ("--no-fs", false),
    ("--no-open", false),
    ("--no-terminal", false),
    ("--no-wait", false),
    ("--non-interactive-permissions", true),
    ("--older-than", true),
    ("--option", true),
    ("--output", true),
    ("--permission-policy", true),
    ("--policy", true),
    ("--project", true),
    ("--prompt-retries", true),
    ("--protocol", true),
    ("--public-url", true),
    ("--remote", false),
    ("--request-id", true),
    ("--resource", true),
    ("--resume-session", true),
    ("--role", true),
    ("--scope", true),
    ("--session", true),
    ("--since", true),
    ("--suppress-reads", false),
    ("--system-prompt", true),
    ("--tail", true),
    ("--timeout", true),
    ("--tls-cert", true),
    ("--tls-key", true),
    ("--to", true),
    ("--tool", true),
    ("--ttl", true),
    ("--turn", true),
    ("--until", true),
    ("--verbose", false),
    ("--with-recall", false),
    ("--yes", false),
    ("-f", true),
    ("-n", true),
    ("-s", true),
];

impl Flag {
    /// Classifies an argument that begins with a hyphen.
    pub(super) fn of(argument: &str) -> Self {
        let (name, attached) = split(argument);
        let takes_value = FLAGS.iter().find(|(flag, _)| *flag == name).map(|(_, takes_value)| *takes_value);
        match (name, takes_value) {
            ("--help" | "-h", _) if !attached => Self::Help,
            ("--version" | "-V", _) if !attached => Self::Version,
            (_, Some(true)) if !attached => Self::TakesNext,
            (_, Some(true)) => Self::Whole,
            (_, Some(false)) if !attached => Self::Whole,
            _ => Self::Unknown,
        }
    }
}

/// The long flag that an argument with two hyphens is nearly, by its name without a value. One with a value that it
/// does not take is nearest to itself.
pub(super) fn nearest_flag(argument: &str) -> Option<String> {
    let (name, _) = split(argument);
    let typed = name.strip_prefix("--")?;
    let known = FLAGS.iter().filter_map(|(flag, _)| flag.strip_prefix("--")).chain(["help", "version"]);
    nearest(typed, known).map(|near| format!("--{near}"))
}

/// The flag's name with its hyphens, and whether a value is attached to it.
fn split(argument: &str) -> (&str, bool) {
    if argument.starts_with("--") {
        return argument.split_once('=').map_or((argument, false), |(name, _)| (name, true));
    }
    let end = argument.char_indices().nth(2).map_or(argument.len(), |(index, _)| index);
    (argument.get(..end).unwrap_or_default(), end < argument.len())
}
