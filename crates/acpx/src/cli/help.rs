//! Adapts the help of each verb: shared flags that it ignores are hidden, and those with another meaning are reworded.

use super::options::UNATTENDED_HELP_OF_EXEC;

/// The shared flags, by clap's names, that a verb accepts and ignores: calling programs put the same flags before every
/// verb. Its help does not name them, nor the flags of turns unless the verb has turns.
const UNUSED: &[(&[&str], &[&str])] = &[
    (&["doctor"], &["ttl", "model", "with_recall", "add_dir"]),
    (&["serve"], &["model", "mcp_config", "with_recall", "add_dir"]),
    (&["acp"], &["model", "mcp_config", "with_recall", "add_dir"]),
    (&["exec"], &["ttl"]),
    (&["compare"], &["ttl", "agent"]),
    (&["auth"], &["ttl", "model", "mcp_config", "with_recall", "add_dir", "auth_policy"]),
    (&["cancel"], WITHOUT_AGENT),
    (&["set-mode"], &["model", "mcp_config", "with_recall", "add_dir"]),
    (&["set"], &["model", "mcp_config", "with_recall", "add_dir"]),
    (&["status"], READING),
    (&["usage"], READING),
    (&["sessions", "new"], &[]),
    (&["sessions", "ensure"], &[]),
    (&["sessions", "list"], &["ttl", "protocol", "model", "mcp_config", "with_recall", "add_dir"]),
    (&["sessions", "show"], READING),
    (&["sessions", "history"], READING),
    (&["sessions", "replay"], READING),
    (&["sessions", "watch"], WITHOUT_AGENT),
    (&["sessions", "result"], READING),
    (&["sessions", "wait"], WITHOUT_AGENT),
    (&["sessions", "close"], WITHOUT_AGENT),
    (&["sessions", "delete"], WITHOUT_AGENT),
    (&["sessions", "prune"], WITHOUT_AGENT),
    (&["sessions", "private"], READING),
    (&["sessions", "rename"], WITHOUT_AGENT),
    (&["sessions", "move"], WITHOUT_AGENT),
    (&["config", "init"], OF_FILES),
    (&["trust", "add"], OF_FILES),
    (&["trust", "list"], OF_FILES),
    (&["trust", "revoke"], OF_FILES),
];
/// The flags that a verb ignores if it starts no agent.
const WITHOUT_AGENT: &[&str] =
    &["ttl", "protocol", "model", "mcp_config", "with_recall", "add_dir", "auth_policy"];
/// The flags that a verb ignores if it concerns files alone.
const OF_FILES: &[&str] =
    &["agent", "timeout", "ttl", "protocol", "model", "mcp_config", "with_recall", "add_dir", "auth_policy"];
const READING: &[&str] =
    &["timeout", "ttl", "protocol", "model", "mcp_config", "with_recall", "add_dir", "auth_policy"];

/// The verbs with turns, except `prompt`.
const WITH_TURNS: [&[&str]; 4] = [&["exec"], &["compare"], &["serve"], &["acp"]];

/// The flags of turns.
const OF_A_TURN: [&str; 8] = [
    "approve_all",
    "approve_reads",
    "deny_all",
    "non_interactive_permissions",
    "permission_policy",
    "idle_timeout",
    "max_cost",
    "max_tokens",
];

/// The grammar, or the verbs on a path, with help texts that name only the flags that each verb uses.
pub(super) fn as_used(root: clap::Command, path: &[&str]) -> clap::Command {
    let unused = UNUSED.iter().filter(|(verb, _)| path.starts_with(verb) || verb.starts_with(path));
    unused.fold(root, |root, (verb, flags)| {
        if WITH_TURNS.contains(verb) {
            return at(root, verb, |verb| reworded(without(verb, flags)));
        }
        at(root, verb, |verb| {
            without(verb, &[*flags, &OF_A_TURN[..]].concat())
                .mut_arg("timeout", |flag| flag.help("Give up after this many seconds"))
        })
    })
}

/// Rewords flags for a verb with turns that is not `prompt`.
fn reworded(verb: clap::Command) -> clap::Command {
    match verb.get_name() {
        "exec" | "compare" => verb.mut_arg("model", |flag| flag.help("Use this model")).mut_arg(
            "non_interactive_permissions",
            |flag| {
                flag.help(
                    "What to do about a permission request that no client can answer: deny or fail [default: deny]",
                )
                .long_help(UNATTENDED_HELP_OF_EXEC)
            },
        ),
        _ => verb
            .mut_arg("timeout", |flag| flag.help("Cancel a turn that takes longer than this many seconds"))
            .mut_arg("approve_reads", |flag| {
                flag.help("Approve reads and searches, and ask the client about the rest")
            }),
    }
}

/// Changes the verb at a path.
fn at(
    command: clap::Command,
    path: &[&str],
    change: impl FnOnce(clap::Command) -> clap::Command,
) -> clap::Command {
    match path {
        [] => change(command),
        [verb] => command.mut_subcommand(verb, change),
        [verb, below, ..] => command.mut_subcommand(verb, |command| command.mut_subcommand(below, change)),
    }
}

fn without(command: clap::Command, flags: &[&'static str]) -> clap::Command {
    flags.iter().fold(command, |command, flag| command.mut_arg(flag, |flag| flag.hide(true)))
}
