//! The commands with their arguments and help texts, as clap reads them. `invocation` turns them into values; those
//! below `sessions` are in `sessions`.

use std::path::PathBuf;

use acpx_core::model::{Fallback, RequestId, WakeOptions};
use clap::{Args, Subcommand};

use super::backup::{BackupArgs, VerifyArgs};
use super::compare::CompareArgs;
use super::configuration::{ConfigCommand, TrustCommand};
use super::demo_agent::DemoAgentArgs;
use super::help;
use super::login::AuthArgs;
use super::mcp::McpArgs;
use super::notify::NotifyCommand;
use super::options::{OutputArgs, SessionArgs, SessionNameArgs};
use super::pending::{APPROVE_HELP, AnswerArgs, DENY_HELP, PENDING_HELP};
use super::queue::QueueCommand;
use super::remote::{RemoteAgentArgs, ServeArgs, TokenCommand};
use super::search::{IndexCommand, SearchArgs};
use super::sessions::{NamedArgs, SessionsCommand, StartArgs, sessions};
use super::shell::{CompleteArgs, CompletionsArgs, MAN_HELP};
use super::usage::UsageError;
use super::usage_report::UsageArgs;
use super::web::WebCommand;

pub(super) const USAGE: &str = "\
acpx [AGENT] [FLAGS] [WORDS]...
       acpx [AGENT] [FLAGS] <COMMAND> [FLAGS] [ARGUMENTS]...";

const ABOUT: &str = "tmux for coding agents: sessions of the Agent Client Protocol that last";

pub(super) const LONG_ABOUT: &str = "\
tmux for coding agents: sessions of the Agent Client Protocol that last

A session belongs to an agent and a directory, and may have a name. It outlives the terminal it was started in \
and the agent it runs on: a later prompt continues it from its directory or any directory below.";

pub(super) const EXAMPLES: &str = "\
Examples:
  acpx tour                            see all of it in a few seconds, with no account
  acpx claude                          open the session of this directory with claude
  acpx claude 'fix the tests'          prompt it; on a terminal it is created if there is none
  acpx claude sessions new -s api      start a session named api
  acpx claude -s api 'add a route'     prompt it by its name
  acpx claude --no-wait 'and then…'    queue a prompt behind the one that runs
  acpx claude sessions watch           follow it live; sessions replay shows it again
  acpx search 'parse error'            find a message in every conversation on this machine
  acpx pending                         list permission requests that wait for an answer
  acpx claude set-mode plan            choose a mode; it is restored when the agent restarts
  acpx claude acp                      run claude in an editor, with sessions that last
  acpx claude serve                    the same for clients over HTTP and WebSocket
  acpx web                             see, steer and approve sessions in a browser
  acpx claude auth                     show how to log in to claude
  acpx exec 'what is this?'            one prompt to the default agent, nothing stored
  acpx --agent './mine --acp' status   an agent of your own
  acpx --agent wss://far.example 'hi'  an agent on another machine, with its token in ACPX_REMOTE_TOKEN
  acpx --format json sessions list     all sessions, as JSON

Flags go anywhere before --; everything after -- is text. After an agent's name, the first word that is no
command starts the prompt. Quote a prompt to the default agent, or put prompt before it.

`acpx help COMMAND` shows the flags of a command.";

const SUMMARY: &str =
    "`acpx --help` shows examples and the agents, `acpx help COMMAND` the flags of a command.";

const FLOW_ABOUT: &str = "Show how to run a flow, which is a JavaScript module, with npm acpx";

/// Adds a command's arguments and help texts; of its subcommands, all or the one on the path.
pub(super) type Build = fn(clap::Command, path: &[&str]) -> clap::Command;

pub(super) const VERBS: &[(&str, Build)] = &[
    ("prompt", |command, _| session::<PromptArgs, ()>(command)),
    ("attach", |command, _| {
        session::<NamedArgs, StartArgs>(command)
            .about("Open a session in the interactive client")
            .after_help(ATTACH_HELP)
            .override_usage("acpx [AGENT] attach [FLAGS] [SESSION]")
    }),
    ("exec", |command, _| session::<ExecArgs, ()>(command)),
    ("cancel", |command, _| {
        session::<CancelArgs, SessionNameArgs>(command)
            .about("Stop the turn that runs, or a prompt by its id")
            .override_usage("acpx [AGENT] cancel [FLAGS]\n       acpx cancel [FLAGS] ID")
            .after_help(CANCEL_HELP)
    }),
    ("set-mode", |command, _| session::<SetModeArgs, SessionNameArgs>(command)),
    ("set", |command, _| session::<SetArgs, SessionNameArgs>(command)),
    ("status", |command, _| {
        session::<NamedArgs, ()>(command)
            .about("Show a session: its ids, its agent, the running turn and the queued prompts")
            .override_usage("acpx [AGENT] status [FLAGS] [SESSION]")
    }),
    ("pending", |command, _| {
        output::<()>(command)
            .about("List the pending permission requests of all sessions")
            .override_usage("acpx pending [FLAGS]")
            .after_help(PENDING_HELP)
    }),
    ("approve", |command, _| {
        output::<AnswerArgs>(command)
            .about("Approve a pending permission request")
            .override_usage("acpx approve [FLAGS] [ID]")
            .after_help(APPROVE_HELP)
    }),
    ("deny", |command, _| {
        output::<AnswerArgs>(command)
            .about("Deny a pending permission request")
            .override_usage("acpx deny [FLAGS] [ID]")
            .after_help(DENY_HELP)
    }),
    ("queue", |command, _| {
        of_verbs(QueueCommand::augment_subcommands(command)).mut_subcommands(output::<()>)
    }),
    ("sessions", sessions),
    ("usage", |command, _| session::<UsageArgs, ()>(command)),
    ("search", |command, _| output::<SearchArgs>(command)),
    ("index", |command, _| {
        of_verbs(IndexCommand::augment_subcommands(command)).mut_subcommands(output::<()>)
    }),
    ("notify", |command, _| {
        of_verbs(NotifyCommand::augment_subcommands(command)).mut_subcommands(output::<()>)
    }),
    ("acp", |command, _| session::<AcpArgs, ()>(command)),
    ("auth", |command, _| session::<AuthArgs, ()>(command)),
    ("serve", |command, _| session::<ServeArgs, ()>(command)),
    ("web", |command, _| of_verbs(WebCommand::augment_subcommands(command)).mut_subcommands(output::<()>)),
    ("doctor", |command, _| session::<DoctorArgs, SessionNameArgs>(command)),
    ("token", |command, _| {
        of_verbs(TokenCommand::augment_subcommands(command)).mut_subcommands(output::<()>)
    }),
    ("host", |command, _| of_verbs(HostCommand::augment_subcommands(command)).mut_subcommands(output::<()>)),
    ("compare", |command, _| session::<CompareArgs, ()>(command)),
    ("flow", |command, _| command.about(FLOW_ABOUT).override_usage("acpx flow [ARGUMENTS]...")),
    ("config", |command, _| {
        of_verbs(ConfigCommand::augment_subcommands(command)).mut_subcommands(session::<(), ()>)
    }),
    ("trust", |command, _| {
        of_verbs(TrustCommand::augment_subcommands(command)).mut_subcommands(session::<(), ()>)
    }),
    ("backup", |command, _| output::<BackupArgs>(command)),
    ("verify", |command, _| output::<VerifyArgs>(command)),
    ("schema", |command, _| output::<SchemaArgs>(command)),
    ("completions", |command, _| CompletionsArgs::augment_args(command)),
    ("complete", |command, _| CompleteArgs::augment_args(command).hide(true)),
    ("man", |command, _| {
        command.about("Print the manual page").override_usage("acpx man").after_help(MAN_HELP)
    }),
    ("mcp", |command, _| McpArgs::augment_args(command)),
    ("tour", |command, _| TourArgs::augment_args(command)),
    ("demo-agent", |command, _| DemoAgentArgs::augment_args(command)),
    ("remote-agent", |command, _| RemoteAgentArgs::augment_args(command).hide(true)),
];

/// Adds a session command's own arguments in two parts, and the flags that all session commands share.
pub(super) fn session<First: Args, Second: Args>(command: clap::Command) -> clap::Command {
    SessionArgs::augment_args(Second::augment_args(First::augment_args(command)))
}

/// The same for a command that concerns no single session or agent.
pub(super) fn output<Own: Args>(command: clap::Command) -> clap::Command {
    OutputArgs::augment_args(Own::augment_args(command))
}

/// The grammar as clap reads it: all of it, or only the commands on a path. Building all commands takes as long as the
/// rest of a command that only reads.
pub(super) fn grammar(path: &[&str]) -> clap::Command {
    let root = clap::Command::new("acpx")
        .version(env!("CARGO_PKG_VERSION"))
        .propagate_version(true)
        .args_override_self(true)
        .about(ABOUT)
        .override_usage(USAGE)
        .after_help(SUMMARY);
    help::as_used(with_verbs(of_verbs(root), VERBS, path), path)
}

pub(super) fn of_verbs(command: clap::Command) -> clap::Command {
    command.subcommand_required(true).arg_required_else_help(true)
}

pub(super) fn with_verbs(
    command: clap::Command,
    verbs: &'static [(&'static str, Build)],
    path: &[&str],
) -> clap::Command {
    let below = path.get(1..).unwrap_or_default();
    let meant = verbs.iter().filter(|(verb, _)| path.first().is_none_or(|meant| meant == verb));
    command.subcommands(meant.map(|(verb, build)| build(clap::Command::new(*verb), below)))
}

/// The names of the built-in agents, in lines of at most 96 columns.
pub(super) fn built_in_agents() -> String {
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
        The default agent is used if you name none.";
    format!("{}\n{more}", lines.join("\n"))
}

/// A command.
#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    Prompt(PromptArgs),
    Attach(StartArgs),
    Exec(ExecArgs),
    Cancel(CancelArgs),
    SetMode(SetModeArgs),
    Set(SetArgs),
    Status,
    Pending,
    Approve(AnswerArgs),
    Deny(AnswerArgs),
    #[command(subcommand)]
    Queue(QueueCommand),
    #[command(subcommand)]
    Sessions(SessionsCommand),
    Usage(UsageArgs),
    Search(SearchArgs),
    #[command(subcommand)]
    Index(IndexCommand),
    #[command(subcommand)]
    Notify(NotifyCommand),
    Acp(AcpArgs),
    Auth(AuthArgs),
    Serve(ServeArgs),
    #[command(subcommand)]
    Web(WebCommand),
    Doctor(DoctorArgs),
    #[command(subcommand)]
    Token(TokenCommand),
    #[command(subcommand)]
    Host(HostCommand),
    Compare(CompareArgs),
    #[command(subcommand)]
    Config(ConfigCommand),
    #[command(subcommand)]
    Trust(TrustCommand),
    Backup(BackupArgs),
    Verify(VerifyArgs),
    Schema(SchemaArgs),
    Completions(CompletionsArgs),
    #[command(hide = true)]
    Complete(CompleteArgs),
    Man,
    Mcp(McpArgs),
    Tour(TourArgs),
    DemoAgent(DemoAgentArgs),
    #[command(hide = true)]
    RemoteAgent(RemoteAgentArgs),
}

/// The text of a prompt, or the file it is in.
#[derive(Debug, Clone, Args)]
pub(super) struct WordArgs {
    /// The prompt; without words it is read from stdin
    #[arg(value_name = "WORDS")]
    pub(super) words: Vec<String>,
    /// Read the prompt from this file, - for stdin; words are put after it
    #[arg(short, long, value_name = "FILE")]
    pub(super) file: Option<PathBuf>,
    /// Attach this image, - for stdin, if the agent supports images; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(super) image: Vec<PathBuf>,
    /// Attach this audio file, if the agent supports audio; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(super) audio: Vec<PathBuf>,
    /// Attach this file with its content, if the agent supports it; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(super) resource: Vec<PathBuf>,
}

// The exit code of a turn.
#[derive(Debug, Clone, Copy, Args)]
pub(super) struct ExitArgs {
    #[arg(
        long,
        help = "Exit with 10 for max_tokens, 11 for max_turn_requests, 12 for refusal, 13 for cancelled"
    )]
    pub(super) exit_by_stop_reason: bool,
}

/// Parses the client's name of a prompt.
pub(super) fn request_id(text: &str) -> Result<RequestId, String> {
    let is_valid = (1..=128).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
    let expected = || "expected 1 to 128 visible ASCII characters".to_owned();
    RequestId::new(text).ok().filter(|_| is_valid).ok_or_else(expected)
}

/// A value of `--fallback`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum FallbackArg {
    Auto,
    Always,
    Never,
}

/// Prompt a session and wait for the answer
#[derive(Debug, Args)]
#[command(after_help = "\
On a terminal, a prompt creates the unnamed session of this directory if there is none. In a pipe, with
--format json and for a name of -s, the session must exist, or you add --create.
Words are text. A stdin that is a pipe or a file is appended to them, except with --format json. Without words, a
JSON array from stdin or --file is read as content blocks of the protocol. After --, everything is text.")]
#[command(override_usage = "acpx [AGENT] prompt [FLAGS] [WORDS]...\n       acpx AGENT [FLAGS] WORDS...")]
pub(super) struct PromptArgs {
    #[command(flatten)]
    pub(super) input: WordArgs,
    #[command(flatten)]
    pub(super) name: SessionNameArgs,
    /// Return as soon as the prompt is queued
    #[arg(long)]
    pub(super) no_wait: bool,
    /// Name the prompt: repeated with the same id, it is not run again, and the recorded result is shown
    #[arg(long, value_name = "ID", value_parser = request_id)]
    pub(super) request_id: Option<RequestId>,
    #[command(flatten)]
    pub(super) exit: ExitArgs,
    /// Create the session if there is none
    #[arg(long)]
    pub(super) create: bool,
    #[command(flatten)]
    pub(super) wake: WakeArgs,
}

// How to restore the prompted session.
#[derive(Debug, Args)]
pub(super) struct WakeArgs {
    #[arg(long, value_name = "WHEN", value_enum, hide_possible_values = true)]
    #[arg(
        help = "When a fresh session may replace one that the agent does not restore: auto (the agent does not \
                  have it any more, or restores none), always (after any refusal) or never [default: auto]"
    )]
    fallback: Option<FallbackArg>,
    /// The same as --fallback never
    #[arg(long, conflicts_with = "fallback")]
    no_fallback: bool,
    /// Send the conversation so far to a fresh session
    #[arg(long)]
    carry_history: bool,
}

impl WakeArgs {
    /// When a fresh session may replace the prompted one, and whether it gets the conversation.
    pub(super) fn options(&self) -> Result<WakeOptions, UsageError> {
        let fallback = match self.fallback {
            _ if self.no_fallback => Fallback::Never,
            None | Some(FallbackArg::Auto) => Fallback::Auto,
            Some(FallbackArg::Always) => Fallback::Always,
            Some(FallbackArg::Never) => Fallback::Never,
        };
        if self.carry_history && fallback == Fallback::Never {
            return Err(UsageError::CarryWithoutFallback);
        }
        Ok(WakeOptions { fallback, carry_history: self.carry_history })
    }
}

/// Send one prompt to an agent and store nothing
#[derive(Debug, Args)]
#[command(after_help = "\
Words are text. A stdin that is a pipe or a file is appended to them, except with --format json. Without words, a
JSON array from stdin or --file is read as content blocks of the protocol. After --, everything is text.")]
#[command(override_usage = "acpx [AGENT] exec [FLAGS] [WORDS]...")]
pub(super) struct ExecArgs {
    #[command(flatten)]
    pub(super) input: WordArgs,
    /// Set an option of the agent before the prompt; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_and_value)]
    pub(super) config_option: Vec<(String, String)>,
    #[command(flatten)]
    pub(super) exit: ExitArgs,
}

/// Set the mode of a session; acpx restores it when the agent restarts
#[derive(Debug, Args)]
#[command(
    override_usage = "acpx [AGENT] set-mode [FLAGS] [MODE]\n       acpx [AGENT] set-mode [FLAGS] --forget"
)]
pub(super) struct SetModeArgs {
    /// The mode, by its id; without it, the modes are listed
    #[arg(value_name = "MODE")]
    pub(super) mode: Option<String>,
    /// Stop restoring the mode; the agent keeps the current one
    #[arg(long, conflicts_with = "mode")]
    pub(super) forget: bool,
}

/// Set an option of a session, such as its model; acpx restores it when the agent restarts
#[derive(Debug, Args)]
#[command(after_help = "\
KEY is an option's id or its category: model, mode, thought_level. A boolean option is true or false. If the session
does not have the option, the hint lists those it has.")]
#[command(
    override_usage = "acpx [AGENT] set [FLAGS] KEY [VALUE]\n       acpx [AGENT] set [FLAGS] KEY --forget"
)]
pub(super) struct SetArgs {
    /// The option
    #[arg(value_name = "KEY")]
    pub(super) key: String,
    /// Its new value; without it, the possible values are listed
    #[arg(value_name = "VALUE")]
    pub(super) value: Option<String>,
    /// Stop restoring the option; the agent keeps the current value
    #[arg(long, conflicts_with = "value")]
    pub(super) forget: bool,
}

const CANCEL_HELP: &str = "\
Without an id, the running turn of the session is stopped, or else its first queued prompt. The id of a prompt, or a
unique beginning of at least six characters, finds it in any session, running or queued; --no-wait and acpx queue list
print it.";

// The prompt of `cancel`.
#[derive(Debug, Args)]
pub(crate) struct CancelArgs {
    /// The prompt to stop, by its id
    #[arg(value_name = "ID")]
    pub(crate) request: Option<String>,
}

const ATTACH_HELP: &str = "\
Shows the last turns, or those since --from, and then the conversation live. Type a prompt and press Enter; during a turn it is queued.
Ctrl-C cancels the turn, Ctrl-D detaches and leaves the session working, ? shows all keys.";

/// Parses an option with its value.
fn key_and_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    if key.trim().is_empty() {
        Err("expected KEY=VALUE".to_owned())
    } else {
        Ok((key.to_owned(), value.to_owned()))
    }
}

/// Serve an editor as an agent whose sessions last and can be loaded and resumed
#[derive(Debug, Args)]
#[command(after_help = "\
The editor starts this instead of the agent, and speaks the Agent Client Protocol with it on stdin and stdout.
A session continues when the editor is closed. The shell can use it at the same time by its id, which
acpx sessions list shows. The editor answers the agent's permission requests.

Zed, in settings.json:
  \"agent_servers\": {
    \"claude\": { \"type\": \"custom\", \"command\": \"acpx\", \"args\": [\"claude\", \"acp\"] }
  }")]
#[command(override_usage = "acpx [AGENT] acp [FLAGS]")]
pub(super) struct AcpArgs {
    /// Log in by this method in the terminal instead; an editor adds this flag
    #[arg(long, value_name = "METHOD", hide = true)]
    pub(super) login: Option<String>,
}

/// Check acpx, an agent and a session for problems
#[derive(Debug, Args)]
#[command(after_help = "\
With an agent, doctor starts it, reads its capabilities, creates a session and ends it; it never sends a prompt. It
also checks the agent's session in this directory, or the one of -s NAME or -s ID.
Every line begins with ok, warn or fail. The exit code is 1 if a check failed.")]
#[command(override_usage = "acpx doctor [FLAGS] [AGENT]\n       acpx AGENT doctor [FLAGS]")]
pub(super) struct DoctorArgs {
    /// The agent to check
    #[arg(value_name = "AGENT")]
    pub(super) named: Option<String>,
}

/// Manage the background process that runs the sessions
#[derive(Debug, Clone, Copy, PartialEq, Eq, Subcommand)]
pub(crate) enum HostCommand {
    /// Show whether a host runs, and its sessions
    Status,
    /// Stop the host and its agents; conversations are kept
    Stop,
    /// Stop the host and start another, after an update for instance
    Restart,
    /// Print the last lines of the host's log
    Log(HostLogArgs),
    /// Run the host
    #[command(hide = true)]
    Run,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Args)]
#[command(after_help = "\
The log has no messages and no secrets. ACPX_LOG=debug, set when the host starts, makes it longer; acpx host restart
applies it.")]
pub(crate) struct HostLogArgs {
    /// Print new lines as they are written, until Ctrl-C
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// How many lines to print first
    #[arg(short = 'n', long, value_name = "N", default_value = "50", value_parser = line_count)]
    pub(crate) lines: usize,
}

fn line_count(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "expected a whole number".to_owned())
}

/// Print the JSON Schemas of what acpx prints with --format json
#[derive(Debug, Args)]
#[command(after_help = "\
NAME is an action, such as prompt_result, or record, history, agent_sessions, error, error_object. Without it, the
schema is the one of any line. Objects may get new members later, which the schemas allow.

Examples:
  acpx schema prompt_result
  acpx --format json schema > acpx.schema.json")]
#[command(override_usage = "acpx schema [FLAGS] [NAME]")]
pub(crate) struct SchemaArgs {
    /// The object
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
}

/// Watch a session run, crash, restore, get lost and continue, in a few seconds and without an account
#[derive(Debug, Args)]
#[command(long_about = TOUR)]
pub(crate) struct TourArgs {
    /// Keep the tour's files in this directory, which must not exist yet
    #[arg(long, value_name = "DIR")]
    pub(crate) home: Option<PathBuf>,
}

const TOUR: &str = "\
Watch a session run, crash, restore, get lost and continue, in a few seconds and without an account

Creates a session with the built-in agent, prompts it, kills the agent with SIGKILL and restores it with the \
next prompt, replays the conversation from the store, shows the three ids and the lineage, deletes the agent's \
own files so that the session is lost, continues in a fresh one, and closes it.\n\
Every line that begins with $ is a command you could type. On a terminal, Enter shows the next step and q ends the \
tour. Everything happens in a temporary directory that is removed at the end, or kept with --home.";
