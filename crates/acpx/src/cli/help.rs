//! What the help of a verb says of the flags that it shares with others: those it makes no use of are not named, and
//! those that mean something else to it are worded for it.

use super::options::UNASKED_HELP_OF_EXEC;

/// The flags of a prompt, by clap's names for them, that a verb takes and makes no use of: programs that call us
/// put the same flags before every verb. Its help does not name them. Those of a turn are of no use either, except
/// to the verbs that have turns.
const UNUSED: [(&[&str], &[&str]); 19] = [
    (&["doctor"], &["ttl", "model", "add_dir"]),
    (&["serve"], &["model", "mcp_config", "add_dir"]),
    (&["acp"], &["model", "mcp_config", "add_dir"]),
    (&["exec"], &["ttl"]),
    (&["auth"], &["ttl", "model", "mcp_config", "add_dir", "auth_policy"]),
    (&["cancel"], WITHOUT_AGENT),
    (&["set-mode"], &["model", "mcp_config", "add_dir"]),
    (&["set"], &["model", "mcp_config", "add_dir"]),
    (&["status"], READING),
    (&["sessions", "new"], &[]),
    (&["sessions", "ensure"], &[]),
    (&["sessions", "list"], &["ttl", "protocol", "model", "mcp_config", "add_dir"]),
    (&["sessions", "show"], READING),
    (&["sessions", "history"], READING),
    (&["sessions", "replay"], READING),
    (&["sessions", "watch"], WITHOUT_AGENT),
    (&["sessions", "close"], WITHOUT_AGENT),
    (&["sessions", "delete"], WITHOUT_AGENT),
    (&["sessions", "move"], WITHOUT_AGENT),
];
/// What is of no use to a verb that starts no agent.
const WITHOUT_AGENT: &[&str] = &["ttl", "protocol", "model", "mcp_config", "add_dir", "auth_policy"];
const READING: &[&str] = &["timeout", "ttl", "protocol", "model", "mcp_config", "add_dir", "auth_policy"];

/// The verbs with turns, beside `prompt`.
const WITH_TURNS: [&[&str]; 3] = [&["exec"], &["serve"], &["acp"]];

/// What only a turn has.
const OF_A_TURN: [&str; 6] = [
    "approve_all",
    "approve_reads",
    "deny_all",
    "non_interactive_permissions",
    "permission_policy",
    "idle_timeout",
];

/// The grammar, or the verbs on a path of it, with help texts that name what each verb makes use of.
pub(super) fn as_used(root: clap::Command, path: &[&str]) -> clap::Command {
    let unused = UNUSED.into_iter().filter(|(verb, _)| path.starts_with(verb) || verb.starts_with(path));
    unused.fold(root, |root, (verb, flags)| {
        if WITH_TURNS.contains(&verb) {
            return at(root, verb, |verb| reworded(without(verb, flags)));
        }
        at(root, verb, |verb| {
            without(verb, &[flags, &OF_A_TURN[..]].concat())
                .mut_arg("timeout", |flag| flag.help("Give up after so many seconds"))
        })
    })
}

/// What some flags mean to a verb with turns that is not `prompt`.
fn reworded(verb: clap::Command) -> clap::Command {
    match verb.get_name() {
        "exec" => verb.mut_arg("model", |flag| flag.help("Work with this model")).mut_arg(
            "non_interactive_permissions",
            |flag| {
                flag.help(
                    "What to do about a permission when nobody can be asked: deny or fail [default: deny]",
                )
                .long_help(UNASKED_HELP_OF_EXEC)
            },
        ),
        _ => verb
            .mut_arg("timeout", |flag| flag.help("Cancel a turn that takes longer than so many seconds"))
            .mut_arg("approve_reads", |flag| {
                flag.help("Let the agent read and search, and have the client asked about the rest")
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
