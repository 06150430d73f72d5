//! The commands below `sessions` with their arguments and help texts, as clap reads them.

use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;

use acpx_core::acp::Cursor;
use acpx_core::model::{AcpSessionId, RequestId, Seq, TurnId};
use clap::{Args, Subcommand, ValueEnum};

use super::options::{SessionNameArgs, count};
use super::prune::PruneArgs;
use super::verbs::{Build, of_verbs, output, request_id, session, with_verbs};

const SESSIONS_USAGE: &str = "acpx [AGENT] sessions [COMMAND] [FLAGS]";

const SESSIONS_ABOUT: &str = "Create, list, show, follow, export, move, reset, close and delete sessions; without a command, list them";

const SESSIONS_HELP: &str = "\
Without a command the sessions are listed, only those of AGENT if you name one:
  acpx claude sessions --format json

`acpx help sessions COMMAND` shows the flags of each; those of list work without it.";

const SESSIONS_VERBS: &[(&str, Build)] = &[
    ("new", |command, _| {
        session::<NewNameArgs, NewArgs>(command)
            .about("Start a session here; an open one of the same name is closed and kept")
            .override_usage("acpx [AGENT] sessions new [FLAGS]")
            .after_help(NEW_HELP)
    }),
    ("ensure", |command, _| {
        session::<NewNameArgs, NewArgs>(command)
            .about("Start a session here unless there is one, here or in a parent directory")
            .override_usage("acpx [AGENT] sessions ensure [FLAGS]")
            .after_help(ENSURE_HELP)
    }),
    ("list", |command, _| session::<ListArgs, ()>(command)),
    ("show", |command, _| {
        session::<NamedArgs, ()>(command)
            .about("Show a session with its ids and its lineage of ACP sessions")
            .override_usage("acpx [AGENT] sessions show [FLAGS] [NAME]")
    }),
    ("history", |command, _| session::<NamedArgs, HistoryArgs>(command)),
    ("read", |command, _| session::<NamedArgs, ReadArgs>(command)),
    ("replay", |command, _| session::<NamedArgs, ReplayArgs>(command)),
    ("watch", |command, _| session::<WatchNameArgs, WatchArgs>(command)),
    ("result", |command, _| session::<NamedArgs, ResultArgs>(command)),
    ("wait", |command, _| session::<WaitArgs, SessionNameArgs>(command)),
    ("close", |command, _| {
        session::<NamedArgs, ()>(command)
            .about("Close a session: its agent is ended, the conversation is kept")
            .override_usage("acpx [AGENT] sessions close [FLAGS] [NAME]")
    }),
    ("delete", |command, _| {
        session::<NamedArgs, DeleteArgs>(command)
            .about("Delete a session for good, and in the agent too if it can; asks first on a terminal")
            .override_usage("acpx [AGENT] sessions delete [FLAGS] [NAME|ID]")
            .after_help(DELETE_HELP)
    }),
    ("prune", |command, _| session::<PruneArgs, ()>(command)),
    ("private", |command, _| session::<PrivateArgs, ()>(command)),
    ("rename", |command, _| {
        session::<NamedArgs, RenameArgs>(command)
            .allow_missing_positional(true)
            .about("Give a session another name, or a title if it has no name")
            .override_usage("acpx [AGENT] sessions rename [FLAGS] [NAME|ID] NEW")
            .after_help(RENAME_HELP)
    }),
    ("move", |command, _| {
        session::<NamedArgs, ()>(command)
            .about("Move a session to another directory, after its project has moved")
            .override_usage("acpx [AGENT] sessions move [FLAGS] [NAME|ID]")
            .after_help(MOVE_HELP)
    }),
    ("reset", |command, _| session::<NamedArgs, ResetArgs>(command)),
    ("restore", |command, _| session::<NamedArgs, RestoreArgs>(command)),
    ("export", |command, _| session::<NamedArgs, ExportArgs>(command)),
    ("import", |command, _| session::<ImportArgs, NewNameArgs>(command)),
    ("migrate", |command, _| output::<MigrateArgs>(command)),
];

const NEW_HELP: &str = "\
With --resume-session the agent restores the conversation, and acpx stores what the agent replays of it. A session that
acpx has already keeps its id and its history, and gets the name. If the agent does not have it, nothing changes and the
exit code is 4.

Examples:
  acpx claude sessions new -s api                        a session named api
  acpx claude sessions new --resume-session 0198c1f2…    continue what claude's own program began";

const ENSURE_HELP: &str = "\
An existing session gets the --model, --mcp-config, --add-dir, --protocol and options such as --system-prompt that you
give, and its agent is started for that; without these flags nothing is started. --resume-session applies only if there
is no session yet.

Examples:
  acpx claude sessions ensure                  for a script: afterwards there is a session
  acpx claude sessions ensure -s api           the same for the session named api
  acpx claude --model opus sessions ensure     and set its model";

const DELETE_HELP: &str = "\
NAME may be a session's id, also of a closed one. Without it, the open session of this directory is deleted.
The conversation cannot be recovered; `sessions close` keeps it.";

const RENAME_HELP: &str = "\
Where a session has a name, the name changes. Where it has none, the title does: yours replaces the agent's.

Examples:
  acpx claude sessions rename 'Mend the roof'    the session of this directory
  acpx sessions rename 019a5f3c api              one by its id";

const MOVE_HELP: &str = "\
The directory is that of --cwd, or the current one. Without an id, it moves the session whose own directory is gone.
The agent is ended first; the next prompt restores the session in the new directory.";

/// Adds the commands below `sessions`.
pub(super) fn sessions(command: clap::Command, path: &[&str]) -> clap::Command {
    let command = command.about(SESSIONS_ABOUT).override_usage(SESSIONS_USAGE).after_help(SESSIONS_HELP);
    with_verbs(of_verbs(command), SESSIONS_VERBS, path)
}

/// A command below `sessions`.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    New(NewArgs),
    Ensure(NewArgs),
    List(ListArgs),
    Show,
    History(HistoryArgs),
    Read(ReadArgs),
    Replay(ReplayArgs),
    Watch(WatchArgs),
    Result(ResultArgs),
    Wait(WaitArgs),
    Close,
    Delete(DeleteArgs),
    Prune(PruneArgs),
    Private(PrivateArgs),
    Rename(RenameArgs),
    Move,
    Reset(ResetArgs),
    Restore(RestoreArgs),
    Export(ExportArgs),
    Import(ImportArgs),
    Migrate(MigrateArgs),
}

// The name of a session to create. `--session` is an alias, so that one flag works with every command.
#[derive(Debug, Clone, Args)]
pub(super) struct NewNameArgs {
    /// A name for the session, for several in one directory
    #[arg(short = 's', long, alias = "session", value_name = "NAME")]
    pub(super) name: Option<String>,
}

// The session of the agent that a new session continues.
#[derive(Debug, Clone, Args)]
pub(crate) struct NewArgs {
    /// Continue this session of the agent instead of a fresh one; `sessions list --remote` lists them
    #[arg(long, value_name = "ID", value_parser = session_id)]
    pub(crate) resume_session: Option<AcpSessionId>,
}

/// List sessions, last used first
#[derive(Debug, Args)]
#[command(after_help = "\
On a terminal it is a table: sessions of this directory first, marked with a dot. Use the short ids anywhere, as in
acpx -s ID 'continue'.

In a pipe a row has the id, the name, the directory, the last use, the agent and the title, separated by tabs. The id of
a closed session is followed by [closed]. A session with the name [by id], such as one that an editor created, has no
name. With --all two columns follow, the turns and the tokens, and an id of an agent's own transcript is followed by
[native]; a prompt to such an id continues the session.")]
#[command(override_usage = "acpx [AGENT] sessions list [FLAGS]")]
pub(crate) struct ListArgs {
    /// List the sessions stored here; this is the default
    #[arg(long, conflicts_with = "remote")]
    pub(crate) local: bool,
    /// Start the agent and list its own sessions, including those not stored here
    #[arg(long)]
    pub(crate) remote: bool,
    /// Include the sessions of the agents' own transcripts, each conversation once; nothing is started
    #[arg(long, conflicts_with_all = ["remote", "local", "cursor"])]
    pub(crate) all: bool,
    /// List page by page: start, or the cursor that the page before printed
    #[arg(long, value_name = "CURSOR", conflicts_with = "local")]
    pub(crate) cursor: Option<String>,
    /// Only sessions of this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) filter_cwd: Option<PathBuf>,
    /// Maximum number of stored sessions; without it, 50 on a terminal and on a page of --cursor
    #[arg(long, value_name = "N", value_parser = count::<NonZeroUsize>, conflicts_with = "remote")]
    pub(crate) limit: Option<NonZeroUsize>,
}

// The session of a command that accepts its name as an argument or as a flag.
#[derive(Debug, Clone, Args)]
pub(super) struct NamedArgs {
    /// The session of this name, or id, instead of the directory's unnamed one
    #[arg(value_name = "NAME")]
    pub(super) positional: Option<String>,
    /// The same as NAME
    #[arg(short, long = "session", value_name = "NAME", conflicts_with = "positional")]
    pub(super) session_name: Option<String>,
}

// The session to watch. `--name` is npm acpx's flag.
#[derive(Debug, Clone, Args)]
pub(super) struct WatchNameArgs {
    /// The session of this name, or id, instead of the directory's unnamed one
    #[arg(value_name = "NAME")]
    pub(super) positional: Option<String>,
    /// The same as NAME
    #[arg(short, long = "session", alias = "name", value_name = "NAME", conflicts_with = "positional")]
    pub(super) session_name: Option<String>,
}

// How a session is deleted.
#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,
}

/// Mark a session as private, so that acpx mcp never shows it; without arguments, list the private ones
#[derive(Debug, Args)]
#[command(after_help = "\
A mark covers all ACP sessions of the session, their transcripts, and those of sub-agents. ID may be a name, an id or a
beginning of one, also of a session that only the agent keeps.

Examples:
  acpx sessions private 019a5f3c on
  acpx sessions private 019a5f3c off
  acpx sessions private                the private sessions")]
#[command(
    override_usage = "acpx sessions private [FLAGS]\n       acpx [AGENT] sessions private [FLAGS] ID on|off"
)]
pub(crate) struct PrivateArgs {
    /// The session, by its name or id
    #[arg(value_name = "ID", requires = "state")]
    pub(crate) positional: Option<String>,
    /// Whether it is private
    #[arg(value_name = "on|off", value_enum, hide_possible_values = true)]
    pub(crate) state: Option<PrivateState>,
}

/// Whether a session is private.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PrivateState {
    On,
    Off,
}

// What a session is called from now on.
#[derive(Debug, Args)]
pub(crate) struct RenameArgs {
    /// The new name or title
    #[arg(value_name = "NEW")]
    pub(crate) new: String,
}

/// Show the last messages
#[derive(Debug, Args)]
#[command(override_usage = "acpx [AGENT] sessions history [FLAGS] [NAME]")]
pub(crate) struct HistoryArgs {
    /// Maximum number of entries
    #[arg(long, value_name = "N", default_value = "20", value_parser = count::<NonZeroUsize>)]
    pub(crate) limit: NonZeroUsize,
}

/// Print the whole conversation, each entry on one line
#[derive(Debug, Args)]
#[command(after_help = "\
It reads the store and starts nothing. NAME may be a session's id. `sessions history` cuts long entries;
`sessions export --as markdown` keeps the layout.")]
#[command(override_usage = "acpx [AGENT] sessions read [FLAGS] [NAME]")]
pub(crate) struct ReadArgs {
    /// Only the last N entries
    #[arg(long, value_name = "N", value_parser = count::<NonZeroUsize>)]
    pub(crate) tail: Option<NonZeroUsize>,
}

/// Replay the conversation from any position
#[derive(Debug, Args)]
#[command(after_help = "\
It reads the store and starts nothing. NAME may be a session's id.

Examples:
  acpx claude sessions replay --last 2           the last two turns
  acpx claude sessions replay api --from turn:3  the session named api, from its third turn on
  acpx claude sessions replay --format json      every event, for a program")]
#[command(override_usage = "acpx [AGENT] sessions replay [FLAGS] [NAME]")]
pub(crate) struct ReplayArgs {
    #[command(flatten)]
    pub(crate) start: StartArgs,
    /// Only this many turns, the last ones
    #[arg(long, value_name = "N", value_parser = count::<NonZeroU64>)]
    pub(crate) last: Option<NonZeroU64>,
}

/// Follow a session live until interrupted; its agent is not started
#[derive(Debug, Args)]
#[command(after_help = "\
Without --from it begins with the next event. It ends with Ctrl-C, or when the session is deleted; a close or a
deletion is reported on stderr. NAME may be a session's id.

Examples:
  acpx claude sessions watch                 what happens from now on
  acpx claude sessions watch --from start    the whole conversation first
  acpx claude sessions watch --format json   every event live, for a program")]
#[command(override_usage = "acpx [AGENT] sessions watch [FLAGS] [NAME]")]
pub(crate) struct WatchArgs {
    #[command(flatten)]
    pub(crate) start: StartArgs,
    /// Continue after an event: its cursor in the JSON output
    #[arg(long, value_name = "CURSOR", value_parser = event_cursor, conflicts_with = "from")]
    pub(crate) cursor: Option<Cursor>,
}

/// Print the recorded result of a turn, the last one unless you choose another
#[derive(Debug, Args)]
#[command(after_help = "\
It reads the store and starts nothing. Text is the agent's answer; JSON is the prompt_result of the prompt. The exit
code is the one that the prompt had. It is an error if the turn is not over: `acpx sessions wait` waits for that.

Examples:
  acpx claude sessions result                          the last answer
  acpx claude sessions result api --turn 3             the third turn of the session named api
  acpx --format json sessions result --request-id job-7   what became of a prompt with this id")]
#[command(override_usage = "acpx [AGENT] sessions result [FLAGS] [NAME|ID]")]
pub(crate) struct ResultArgs {
    /// The turn of the prompt with this request id
    #[arg(long, value_name = "ID", value_parser = request_id)]
    pub(crate) request_id: Option<RequestId>,
    /// The turn with this number
    #[arg(long, value_name = "N", value_parser = count::<NonZeroU64>, conflicts_with = "request_id")]
    pub(crate) turn: Option<NonZeroU64>,
}

/// Wait until sessions have nothing to do, or need an answer
#[derive(Debug, Args)]
#[command(after_help = "\
A session is waited for until no turn runs or is queued, or until a permission request or form waits for an answer.
The exit code is 0 if all are idle or closed, 6 if one needs you, 3 after --timeout.

Examples:
  acpx claude sessions wait --timeout 600      the session of this directory, for at most ten minutes
  acpx sessions wait --any @1 @2               until one of the two is done")]
#[command(override_usage = "acpx [AGENT] sessions wait [FLAGS] [NAME|ID]...")]
pub(crate) struct WaitArgs {
    /// The sessions, by name or id, instead of the directory's unnamed one
    #[arg(value_name = "NAME", conflicts_with = "session")]
    pub(crate) sessions: Vec<String>,
    /// Return when one of them is done
    #[arg(long)]
    pub(crate) any: bool,
}

/// Parses the id of an agent's session.
fn session_id(text: &str) -> Result<AcpSessionId, String> {
    AcpSessionId::new(text.trim()).map_err(|_| "expected the id of a session of the agent".to_owned())
}

// A position in a conversation.
#[derive(Debug, Clone, Args)]
pub(crate) struct StartArgs {
    /// Where to begin: start, turn:N, message:ID or seq:N; the output numbers turns, and JSON has seq
    #[arg(long, value_name = "POSITION", value_parser = cursor)]
    pub(crate) from: Option<Cursor>,
}

/// Parses a position.
fn cursor(text: &str) -> Result<Cursor, String> {
    let number = |number: &str| number.parse().ok().filter(|number| *number > 0);
    let read = match text.split_once(':') {
        None if text == "start" => Some(Cursor::Start),
        Some(("turn", turn)) => number(turn).map(|turn| Cursor::Turn(TurnId(turn))),
        Some(("seq", seq)) => number(seq).map(|seq| Cursor::Seq(Seq(seq))),
        Some(("message", id)) if !id.is_empty() => Some(Cursor::Message(id.into())),
        _ => None,
    };
    read.ok_or_else(|| "a position is start, turn:N, message:ID or seq:N, counted from 1".to_owned())
}

/// Parses the cursor of an event.
fn event_cursor(text: &str) -> Result<Cursor, String> {
    match cursor(text) {
        Ok(seq @ Cursor::Seq(_)) => Ok(seq),
        _ => {
            Err("a cursor is the `cursor` of an event that `sessions watch --format json` printed, such as \
                  seq:12; cursors of npm acpx are of its own files"
                .to_owned())
        }
    }
}

/// Continue a session in a fresh ACP session; the agent forgets it, acpx keeps it
#[derive(Debug, Args)]
#[command(after_help = "\
Use it if the agent keeps failing to restore the session. The session keeps its id, its name and its history; the agent
starts without memory of it. `sessions restore` returns to the earlier ACP session.

Examples:
  acpx claude sessions reset                    the session of this directory
  acpx claude sessions reset --carry-history    and send the agent the conversation with the next prompt")]
#[command(override_usage = "acpx [AGENT] sessions reset [FLAGS] [NAME|ID]")]
pub(crate) struct ResetArgs {
    /// Send the conversation so far with the first prompt
    #[arg(long)]
    pub(crate) carry_history: bool,
}

/// Return to an earlier ACP session of a session, if the agent still has it
#[derive(Debug, Args)]
#[command(after_help = "\
`acpx sessions show ID` lists the ACP sessions that a session has had. No turn may run or wait. If the agent does not restore the earlier one, nothing changes.

Example:
  acpx claude sessions restore ID --to ACP_SESSION_ID")]
#[command(override_usage = "acpx [AGENT] sessions restore [FLAGS] [NAME|ID] --to ACP_SESSION_ID")]
pub(crate) struct RestoreArgs {
    /// The ACP session to return to
    #[arg(long, value_name = "ACP_SESSION_ID")]
    pub(crate) to: String,
}

/// How a session is exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum ExportFormat {
    /// Everything, for sessions import of acpx and npm acpx
    #[default]
    Archive,
    /// For people
    Markdown,
    /// For people, as one page without scripts
    Html,
    /// For programs, as one JSON object
    Json,
}

/// Write a session to stdout or a file, to keep, read or import it elsewhere
#[derive(Debug, Args)]
#[command(after_help = "\
It reads the store and starts nothing. NAME may be a session's id. Secrets are masked as in the store. A file is
readable by you alone, and there completely or not at all.

Examples:
  acpx claude sessions export api --output api.json                  an archive, for sessions import
  acpx claude sessions export --as html --output session.html        a page to read and to share
  acpx claude sessions export --as markdown | less                   the same as Markdown")]
#[command(override_usage = "acpx [AGENT] sessions export [FLAGS] [NAME]")]
pub(crate) struct ExportArgs {
    /// What to write
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    pub(crate) r#as: ExportFormat,
    /// Write to this file instead of stdout, which is also -
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Import a session from an archive of acpx or npm acpx
#[derive(Debug, Args)]
#[command(after_help = "\
The session gets a new id and keeps its ACP session, so the next prompt continues it if the agent still has it. It is
imported completely or not at all. A file cannot choose a command: the agent is the one of your configuration with the
name or the command line of the archived one, or the one that you name.

Examples:
  acpx sessions import api.json                    under its own name, in its own directory
  acpx claude sessions import api.json --name old  under another name
  acpx sessions import api.json --cwd ~/project    for another directory")]
#[command(override_usage = "acpx [AGENT] sessions import [FLAGS] ARCHIVE")]
pub(crate) struct ImportArgs {
    /// The archive
    #[arg(value_name = "ARCHIVE")]
    pub(crate) archive: PathBuf,
}

/// Import sessions of npm acpx; its files are not changed
#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    /// Where the files are
    #[arg(value_name = "DIR", help = "Where the files are [default: sessions in ACPX_HOME]")]
    pub(crate) directory: Option<PathBuf>,
    /// Show what would be imported, and import nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}
