//! All flags and which of them take a value, so that a value is not mistaken for the verb.

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
/// compares this with clap's definition, which takes too long to build at every start.
pub(super) const FLAGS: [(&str, bool); 53] = [
    ("--add-dir", true),
    ("--agent", true),
    ("--allow-approve-all", false),
    ("--allow-meta", false),
    ("--allow-origin", true),
    ("--allow-stdio-servers", false),
    ("--approve-all", false),
    ("--approve-reads", false),
    ("--audio", true),
    ("--auth-policy", true),
    ("--carry-history", false),
    ("--config-option", true),
    ("--cursor", true),
    ("--cwd", true),
    ("--deny-all", false),
    ("--dry-run", false),
    ("--fallback", true),
    ("--file", true),
    ("--filter-cwd", true),
    ("--forget", false),
    ("--format", true),
    ("--from", true),
    ("--idle-timeout", true),
    ("--image", true),
    ("--insecure-public", false),
    ("--json-strict", false),
    ("--last", true),
    ("--limit", true),
    ("--listen", true),
    ("--local", false),
    ("--login", true),
    ("--logout", false),
    ("--mcp-config", true),
    ("--model", true),
    ("--name", true),
    ("--no-fallback", false),
    ("--no-wait", false),
    ("--non-interactive-permissions", true),
    ("--option", true),
    ("--permission-policy", true),
    ("--policy", true),
    ("--protocol", true),
    ("--remote", false),
    ("--resource", true),
    ("--session", true),
    ("--timeout", true),
    ("--tls-cert", true),
    ("--tls-key", true),
    ("--to", true),
    ("--ttl", true),
    ("--verbose", false),
    ("-f", true),
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

/// The flag's name with its hyphens, and whether a value is attached to it.
fn split(argument: &str) -> (&str, bool) {
    if argument.starts_with("--") {
        return argument.split_once('=').map_or((argument, false), |(name, _)| (name, true));
    }
    let end = argument.char_indices().nth(2).map_or(argument.len(), |(index, _)| index);
    (argument.get(..end).unwrap_or_default(), end < argument.len())
}
