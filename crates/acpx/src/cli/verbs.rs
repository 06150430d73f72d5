//! The verbs with their arguments and help texts, as clap reads them. What they mean is in `invocation`.

use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;
use std::str::FromStr;

use acpx_core::acp::Cursor;
use acpx_core::model::{Seq, TurnId};
use clap::{Args, Subcommand};

use super::answering::{ApproveArgs, DenyArgs, PendingArgs};
use super::elsewhere::{ServeArgs, TokenVerb};
use super::help;
use super::login::AuthArgs;
use super::options::{OutputArgs, SessionArgs, SessionNameArgs};
use crate::commands::{DemoAgentArgs, RemoteAgentArgs, TourArgs};

const USAGE: &str = "\
acpx [AGENT] [FLAGS] [WORDS]...
       acpx [AGENT] [FLAGS] <COMMAND> [FLAGS] [ARGUMENTS]...";

const ABOUT: &str = "tmux for coding agents: sessions of the Agent Client Protocol that last";

const LONG_ABOUT: &str = "\
tmux for coding agents: sessions of the Agent Client Protocol that last

A session belongs to an agent and a directory, and may have a name. It outlives the terminal it was begun in \
and the agent it runs on: a later prompt goes on with it from anywhere below its directory, up to the root of \
the git repository.";

const EXAMPLES: &str = "\
Examples:
  acpx tour                            see all of it in a few seconds, with no account
  acpx claude sessions new             begin a session with claude in this directory
  acpx claude 'fix the tests'          go on with it
  acpx claude -s api 'add a route'     the session named api
  acpx claude --no-wait 'and then…'    queue a prompt behind the one that runs
  acpx pending                         what agents ask and nobody has answered
  acpx claude set-mode plan            have it plan first; it stays so, whatever becomes of the agent
  acpx claude acp                      be claude for an editor, with sessions that last
  acpx claude serve                    the same for programs that reach us over HTTP
  acpx claude auth                     see how to log in with claude
  acpx exec 'what is this?'            one prompt to the default agent, nothing kept
  acpx --agent './mine --acp' status   an agent of your own
  acpx --format json sessions list     every session, for a program

Flags stand before or after the command. After an agent's name the first word that is no command begins the
prompt, and everything after it is text. A prompt to the default agent is quoted, or put behind prompt.

`acpx help COMMAND` has the flags of a command.";

const SUMMARY: &str =
    "`acpx --help` has examples and the agents, `acpx help COMMAND` the flags of a command.";

const SESSIONS_USAGE: &str = "acpx [AGENT] sessions [COMMAND] [FLAGS]";

const SESSIONS_ABOUT: &str =
    "Make, list, show, follow, move, close and delete sessions; without more words, list them";

const SESSIONS_HELP: &str = "\
Without a command the sessions are listed, with those of AGENT alone if one is named:
  acpx claude sessions --format json

`acpx help sessions COMMAND` has the flags of each; those of list may stand without it.";

/// What puts a verb's arguments and texts into its command. Those below it are all put in, or that of the path alone.
type Build = fn(clap::Command, path: &[&str]) -> clap::Command;

const VERBS: [(&str, Build); 19] = [
    ("prompt", |command, _| PromptArgs::augment_args(command)),
    ("exec", |command, _| ExecArgs::augment_args(command)),
    ("cancel", |command, _| CancelArgs::augment_args(command)),
    ("set-mode", |command, _| SetModeArgs::augment_args(command)),
    ("set", |command, _| SetArgs::augment_args(command)),
    ("status", |command, _| StatusArgs::augment_args(command)),
    ("pending", |command, _| PendingArgs::augment_args(command)),
    ("approve", |command, _| ApproveArgs::augment_args(command)),
    ("deny", |command, _| DenyArgs::augment_args(command)),
    ("sessions", sessions),
    ("acp", |command, _| AcpArgs::augment_args(command)),
    ("auth", |command, _| AuthArgs::augment_args(command)),
    ("serve", |command, _| ServeArgs::augment_args(command)),
    ("doctor", |command, _| DoctorArgs::augment_args(command)),
    ("token", |command, _| of_verbs(TokenVerb::augment_subcommands(command))),
    ("host", |command, _| of_verbs(HostVerb::augment_subcommands(command))),
    ("tour", |command, _| TourArgs::augment_args(command)),
    ("demo-agent", |command, _| DemoAgentArgs::augment_args(command)),
    ("remote-agent", |command, _| RemoteAgentArgs::augment_args(command).hide(true)),
];

const SESSIONS_VERBS: [(&str, Build); 11] = [
    ("new", |command, _| NewArgs::augment_args(command)),
    ("ensure", |command, _| EnsureArgs::augment_args(command)),
    ("list", |command, _| ListArgs::augment_args(command)),
    ("show", |command, _| ShowArgs::augment_args(command)),
    ("history", |command, _| HistoryArgs::augment_args(command)),
    ("replay", |command, _| ReplayArgs::augment_args(command)),
    ("watch", |command, _| WatchArgs::augment_args(command)),
    ("close", |command, _| CloseArgs::augment_args(command)),
    ("delete", |command, _| DeleteArgs::augment_args(command)),
    ("move", |command, _| MoveArgs::augment_args(command)),
    ("migrate", |command, _| MigrateArgs::augment_args(command)),
];

/// The grammar as clap reads it: the whole of it, or with a path the verbs on it alone. To build all verbs takes as
/// long as the rest of a command that only reads.
pub(super) fn grammar(path: &[&str]) -> clap::Command {
    let root = clap::Command::new("acpx")
        .version(env!("CARGO_PKG_VERSION"))
        .propagate_version(true)
        .args_override_self(true)
        .about(ABOUT)
        .long_about(LONG_ABOUT)
        .override_usage(USAGE)
        .after_help(SUMMARY)
        .after_long_help(format!("{}\n\n{EXAMPLES}", agents()));
    help::as_used(with_verbs(of_verbs(root), &VERBS, path), path)
}

fn of_verbs(command: clap::Command) -> clap::Command {
    command.subcommand_required(true).arg_required_else_help(true)
}

fn sessions(command: clap::Command, path: &[&str]) -> clap::Command {
    let command = command.about(SESSIONS_ABOUT).override_usage(SESSIONS_USAGE).after_help(SESSIONS_HELP);
    with_verbs(of_verbs(command), &SESSIONS_VERBS, path)
}

fn with_verbs(command: clap::Command, verbs: &[(&'static str, Build)], path: &[&str]) -> clap::Command {
    let below = path.get(1..).unwrap_or_default();
    let meant = verbs.iter().filter(|(verb, _)| path.first().is_none_or(|meant| meant == verb));
    command.subcommands(meant.map(|(verb, build)| build(clap::Command::new(*verb), below)))
}

/// The agents that have names, in lines of a width that fits everywhere.
fn agents() -> String {
    const WIDTH: usize = 96;
    let mut lines = vec![String::from("AGENT is one of")];
    for name in crate::agents::built_in_names() {
        match lines.last_mut() {
            Some(line) if line.len() + name.len() < WIDTH => {
                line.push(' ');
                line.push_str(name);
            }
            _ => lines.push(name.to_owned()),
        }
    }
    let more = "or one from \"agents\" in ACPX_HOME/config.json (default ~/.acpx/config.json).\n\
        Without one the default agent is meant.";
    format!("{}\n{more}", lines.join("\n"))
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    Prompt(PromptArgs),
    Exec(ExecArgs),
    Cancel(CancelArgs),
    SetMode(SetModeArgs),
    Set(SetArgs),
    Status(StatusArgs),
    Pending(PendingArgs),
    Approve(ApproveArgs),
    Deny(DenyArgs),
    #[command(subcommand)]
    Sessions(SessionsVerb),
    Acp(AcpArgs),
    Auth(AuthArgs),
    Serve(ServeArgs),
    Doctor(DoctorArgs),
    #[command(subcommand)]
    Token(TokenVerb),
    #[command(subcommand)]
    Host(HostVerb),
    Tour(TourArgs),
    DemoAgent(DemoAgentArgs),
    #[command(hide = true)]
    RemoteAgent(RemoteAgentArgs),
}

/// The words of a prompt, or the file it is in.
#[derive(Debug, Clone, Args)]
pub(super) struct WordArgs {
    /// The prompt; without words it is read from stdin
    #[arg(value_name = "WORDS")]
    pub(super) words: Vec<String>,
    /// Read the prompt from this file, - for stdin; words are put after it
    #[arg(short, long, value_name = "FILE")]
    pub(super) file: Option<PathBuf>,
    /// Send this image along, to an agent that takes images; may be given several times
    #[arg(long, value_name = "FILE")]
    pub(super) image: Vec<PathBuf>,
    /// Send this sound along, likewise
    #[arg(long, value_name = "FILE")]
    pub(super) audio: Vec<PathBuf>,
    /// Send this file along with its content, likewise
    #[arg(long, value_name = "FILE")]
    pub(super) resource: Vec<PathBuf>,
}

/// Say something in a session, and wait for the answer
#[derive(Debug, Args)]
#[command(after_help = "\
The session must be there: `acpx sessions new` or `acpx sessions ensure` makes it.
Words are text. What comes from stdin or --file and is a JSON array is taken as content blocks of the protocol.
Behind -- everything is words.")]
#[command(override_usage = "acpx [AGENT] prompt [FLAGS] [WORDS]...\n       acpx AGENT [FLAGS] WORDS...")]
pub(super) struct PromptArgs {
    #[command(flatten)]
    pub(super) input: WordArgs,
    #[command(flatten)]
    pub(super) name: SessionNameArgs,
    /// Return as soon as the prompt is queued
    #[arg(long)]
    pub(super) no_wait: bool,
    /// Fail if the agent cannot restore the session, instead of going on in a fresh one
    #[arg(long)]
    pub(super) no_fallback: bool,
    /// Tell a fresh session the conversation so far
    #[arg(long, conflicts_with = "no_fallback")]
    pub(super) carry_history: bool,
    #[command(flatten)]
    pub(super) session: SessionArgs,
}

/// Say one thing to an agent and keep nothing
#[derive(Debug, Args)]
#[command(after_help = "\
Words are text. What comes from stdin or --file and is a JSON array is taken as content blocks of the protocol.
Behind -- everything is words.")]
#[command(override_usage = "acpx [AGENT] exec [FLAGS] [WORDS]...")]
pub(super) struct ExecArgs {
    #[command(flatten)]
    pub(super) input: WordArgs,
    /// Choose an option of the agent before the prompt; may be given several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_and_value)]
    pub(super) config_option: Vec<(String, String)>,
    #[command(flatten)]
    pub(super) session: SessionArgs,
}

/// Stop the turn that runs
#[derive(Debug, Args)]
#[command(override_usage = "acpx [AGENT] cancel [FLAGS]")]
pub(super) struct CancelArgs {
    #[command(flatten)]
    pub(super) name: SessionNameArgs,
    #[command(flatten)]
    pub(super) session: SessionArgs,
}

/// Put a session into a mode of its agent; it stays with the session
#[derive(Debug, Args)]
#[command(override_usage = "acpx [AGENT] set-mode [FLAGS] MODE\n       acpx [AGENT] set-mode [FLAGS] --forget")]
pub(super) struct SetModeArgs {
    /// The mode, by its id
    #[arg(value_name = "MODE", required_unless_present = "forget")]
    pub(super) mode: Option<String>,
    /// Restore no mode any more; the agent keeps the one it has
    #[arg(long, conflicts_with = "mode")]
    pub(super) forget: bool,
    #[command(flatten)]
    pub(super) name: SessionNameArgs,
    #[command(flatten)]
    pub(super) session: SessionArgs,
}

/// Choose an option of a session, such as its model; it stays with the session
#[derive(Debug, Args)]
#[command(after_help = "\
KEY is an option's id, or what it is about: model, mode, thought_level. An option that is on or off is true or
false. What a session offers stands in the hint for what it does not.")]
#[command(override_usage = "acpx [AGENT] set [FLAGS] KEY VALUE\n       acpx [AGENT] set [FLAGS] KEY --forget")]
pub(super) struct SetArgs {
    /// The option
    #[arg(value_name = "KEY")]
    pub(super) key: String,
    /// What it is to be
    #[arg(value_name = "VALUE", required_unless_present = "forget")]
    pub(super) value: Option<String>,
    /// Restore the option no more; the agent keeps the value it has
    #[arg(long, conflicts_with = "value")]
    pub(super) forget: bool,
    #[command(flatten)]
    pub(super) name: SessionNameArgs,
    #[command(flatten)]
    pub(super) session: SessionArgs,
}

/// Reads an option with its value.
fn key_and_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    if key.trim().is_empty() {
        Err("expected KEY=VALUE".to_owned())
    } else {
        Ok((key.to_owned(), value.to_owned()))
    }
}

/// Show how a session stands: its ids, its agent, the turn that runs and those that wait
#[derive(Debug, Args)]
#[command(override_usage = "acpx [AGENT] status [FLAGS]")]
pub(super) struct StatusArgs {
    #[command(flatten)]
    pub(super) name: SessionNameArgs,
    #[command(flatten)]
    pub(super) session: SessionArgs,
}

/// Be an agent for an editor: its sessions last, and every agent can load and resume them
#[derive(Debug, Args)]
#[command(after_help = "\
The editor starts this instead of the agent, and speaks the Agent Client Protocol with it on stdin and stdout.
A session goes on when the editor is closed, and is open in the shell at the same time, by its id: acpx sessions list
has it. What the editor's agent may do, the editor is asked.

Zed, in settings.json:
  \"agent_servers\": {
    \"claude\": { \"type\": \"custom\", \"command\": \"acpx\", \"args\": [\"claude\", \"acp\"] }
  }")]
#[command(override_usage = "acpx [AGENT] acp [FLAGS]")]
pub(super) struct AcpArgs {
    #[command(flatten)]
    pub(super) session: SessionArgs,
}

/// What to do about sessions.
#[derive(Debug, Subcommand)]
pub(super) enum SessionsVerb {
    New(NewArgs),
    Ensure(EnsureArgs),
    List(ListArgs),
    Show(ShowArgs),
    History(HistoryArgs),
    Replay(ReplayArgs),
    Watch(WatchArgs),
    Close(CloseArgs),
    Delete(DeleteArgs),
    Move(MoveArgs),
    Migrate(MigrateArgs),
}

/// The name of a session to make. `--session` says the same, so that one flag works with every verb.
#[derive(Debug, Clone, Args)]
pub(super) struct NewNameArgs {
    /// A name for the session, to have several in one directory
    #[arg(short = 's', long, alias = "session", value_name = "NAME")]
    pub(super) name: Option<String>,
}

/// Begin a session here; one of the same name is closed, and kept
#[derive(Debug, Args)]
#[command(override_usage = "acpx [AGENT] sessions new [FLAGS]")]
pub(super) struct NewArgs {
    #[command(flatten)]
    pub(super) name: NewNameArgs,
    #[command(flatten)]
    pub(super) session: SessionArgs,
}

/// Begin a session here unless there is one, here or further up
#[derive(Debug, Args)]
#[command(override_usage = "acpx [AGENT] sessions ensure [FLAGS]")]
pub(super) struct EnsureArgs {
    #[command(flatten)]
    pub(super) name: NewNameArgs,
    #[command(flatten)]
    pub(super) session: SessionArgs,
}

/// List sessions, last used first
#[derive(Debug, Args)]
#[command(after_help = "\
A row is the id, the name, the directory, the last use, the agent and the title, with tabs between. Behind the id of a
closed session stands [closed]. A session whose name is [by id], such as one that an editor began, is not the
directory's: it is meant by its id alone, as in acpx claude -s ID 'go on'.")]
#[command(override_usage = "acpx [AGENT] sessions list [FLAGS]")]
pub(super) struct ListArgs {
    /// List the sessions kept here; this is the default
    #[arg(long, conflicts_with = "remote")]
    pub(super) local: bool,
    /// Start the agent and ask it for its sessions, those not kept here among them
    #[arg(long)]
    pub(super) remote: bool,
    /// Go on where a list of --remote ended
    #[arg(long, value_name = "CURSOR", requires = "remote", conflicts_with = "local")]
    pub(super) cursor: Option<String>,
    /// Only sessions of this directory
    #[arg(long, value_name = "DIR")]
    pub(super) filter_cwd: Option<PathBuf>,
    #[command(flatten)]
    pub(super) session: SessionArgs,
}

/// The session of a verb that takes its name as an argument. The flag says the same.
#[derive(Debug, Clone, Args)]
pub(super) struct NamedArgs {
    /// The session of this name instead of the directory's unnamed one
    #[arg(value_name = "NAME")]
    pub(super) positional: Option<String>,
    /// The same as NAME
    #[arg(short, long = "session", value_name = "NAME", conflicts_with = "positional")]
    pub(super) session_name: Option<String>,
}

/// Show a session with its ids and the ACP sessions it went through
#[derive(Debug, Args)]
#[command(override_usage = "acpx [AGENT] sessions show [FLAGS] [NAME]")]
pub(super) struct ShowArgs {
    #[command(flatten)]
    pub(super) name: NamedArgs,
    #[command(flatten)]
    pub(super) session: SessionArgs,
}

/// Show what was said last
#[derive(Debug, Args)]
#[command(override_usage = "acpx [AGENT] sessions history [FLAGS] [NAME]")]
pub(super) struct HistoryArgs {
    #[command(flatten)]
    pub(super) name: NamedArgs,
    /// How many entries
    #[arg(long, value_name = "N", default_value = "20", value_parser = count::<NonZeroUsize>)]
    pub(super) limit: NonZeroUsize,
    #[command(flatten)]
    pub(super) session: SessionArgs,
}

/// Show what was said again, from any place
#[derive(Debug, Args)]
#[command(override_usage = "acpx [AGENT] sessions replay [FLAGS] [NAME]")]
pub(super) struct ReplayArgs {
    #[command(flatten)]
    pub(super) name: NamedArgs,
    #[command(flatten)]
    pub(super) place: PlaceArgs,
    /// Only the last so many turns
    #[arg(long, value_name = "N", value_parser = count::<NonZeroU64>)]
    pub(super) last: Option<NonZeroU64>,
    #[command(flatten)]
    pub(super) session: SessionArgs,
}

/// Follow what happens in a session until interrupted; its agent is not started
#[derive(Debug, Args)]
#[command(override_usage = "acpx [AGENT] sessions watch [FLAGS] [NAME]")]
pub(super) struct WatchArgs {
    #[command(flatten)]
    pub(super) name: NamedArgs,
    #[command(flatten)]
    pub(super) place: PlaceArgs,
    #[command(flatten)]
    pub(super) session: SessionArgs,
}

/// Reads how many.
fn count<N: FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| "expected a whole number above 0".to_owned())
}

/// A place in a conversation.
#[derive(Debug, Clone, Args)]
pub(super) struct PlaceArgs {
    /// Where to begin: start, turn:N, message:ID or seq:N
    #[arg(long, value_name = "PLACE", value_parser = place)]
    pub(super) from: Option<Cursor>,
}

/// Reads a place.
fn place(text: &str) -> Result<Cursor, String> {
    let number = |number: &str| number.parse().ok().filter(|number| *number > 0);
    let read = match text.split_once(':') {
        None if text == "start" => Some(Cursor::Start),
        Some(("turn", turn)) => number(turn).map(|turn| Cursor::Turn(TurnId(turn))),
        Some(("seq", seq)) => number(seq).map(|seq| Cursor::Seq(Seq(seq))),
        Some(("message", id)) if !id.is_empty() => Some(Cursor::Message(id.into())),
        _ => None,
    };
    read.ok_or_else(|| "a place is start, turn:N, message:ID or seq:N, counted from 1".to_owned())
}

/// Close a session: its agent is ended, what was said is kept
#[derive(Debug, Args)]
#[command(override_usage = "acpx [AGENT] sessions close [FLAGS] [NAME]")]
pub(super) struct CloseArgs {
    #[command(flatten)]
    pub(super) name: NamedArgs,
    #[command(flatten)]
    pub(super) session: SessionArgs,
}

/// Delete a session for good, also from the agent where the agent can; nothing is asked
#[derive(Debug, Args)]
#[command(after_help = "\
NAME may be a session's id, and that of one that is closed. Without it, the open session of this directory is
deleted. What was said cannot be brought back; `sessions close` keeps it.")]
#[command(override_usage = "acpx [AGENT] sessions delete [FLAGS] [NAME|ID]")]
pub(super) struct DeleteArgs {
    #[command(flatten)]
    pub(super) name: NamedArgs,
    #[command(flatten)]
    pub(super) session: SessionArgs,
}

/// Have a session work in another directory, after its project has moved
#[derive(Debug, Args)]
#[command(after_help = "\
The directory is that of --cwd, or the current one. Without an id, the session is meant whose own directory is gone.
The agent is ended first; the next prompt restores the session in the new directory. An agent that refuses that goes
on in a fresh session, and says so.")]
#[command(override_usage = "acpx [AGENT] sessions move [FLAGS] [NAME|ID]")]
pub(super) struct MoveArgs {
    #[command(flatten)]
    pub(super) name: NamedArgs,
    #[command(flatten)]
    pub(super) session: SessionArgs,
}

/// Take over sessions that npm acpx has kept; its files stay as they are
#[derive(Debug, Args)]
pub(super) struct MigrateArgs {
    /// Where the files are
    #[arg(value_name = "DIR", help = "Where the files are [default: sessions in ACPX_HOME]")]
    pub(super) directory: Option<PathBuf>,
    /// Say what would be taken over, and take nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// Look for what is wrong: with acpx here, with an agent, with a session
#[derive(Debug, Args)]
#[command(after_help = "\
With an agent it is started, asked what it can do and for a session, and ended; it is never prompted. Its session in
this directory, if there is one, is looked at too: that of -s NAME, or of an id.
Every line says ok, warn or fail. It ends with 1 if something failed.")]
#[command(override_usage = "acpx doctor [FLAGS] [AGENT]\n       acpx AGENT doctor [FLAGS]")]
pub(super) struct DoctorArgs {
    /// The agent to look at
    #[arg(value_name = "AGENT")]
    pub(super) named: Option<String>,
    #[command(flatten)]
    pub(super) name: SessionNameArgs,
    #[command(flatten)]
    pub(super) session: SessionArgs,
}

/// See to the background process that holds the sessions
#[derive(Debug, Subcommand)]
pub(super) enum HostVerb {
    /// Show whether a host runs, and what it holds
    Status(HostArgs),
    /// Stop the host and its agents; what was said is kept
    Stop(HostArgs),
    /// Stop the host and start another, after an update for instance
    Restart(HostArgs),
    /// Be the host
    #[command(hide = true)]
    Run(HostArgs),
}

/// What the host's verbs take.
#[derive(Debug, Args)]
pub(super) struct HostArgs {
    #[command(flatten)]
    pub(super) output: OutputArgs,
}
