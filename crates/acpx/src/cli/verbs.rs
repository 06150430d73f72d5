//! The verbs with their arguments and help texts, as clap reads them. What they mean is in `invocation`; those about
//! sessions are in `sessions`.

use std::path::PathBuf;

use acpx_core::model::{Fallback, WakeOptions};
use clap::{Args, Subcommand};

use super::demo_agent::DemoAgentArgs;
use super::help;
use super::login::AuthArgs;
use super::options::{OutputArgs, SessionArgs, SessionNameArgs};
use super::pending::{ApproveArgs, DenyArgs, PendingArgs};
use super::remote::{RemoteAgentArgs, ServeArgs, TokenVerb};
use super::sessions::{SessionsVerb, sessions};
use super::usage::UsageError;

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
  acpx claude sessions watch           follow it, whoever asks; sessions replay shows it again
  acpx pending                         what agents ask and nobody has answered
  acpx claude set-mode plan            have it plan first; it stays so, whatever becomes of the agent
  acpx claude acp                      be claude for an editor, with sessions that last
  acpx claude serve                    the same for programs that reach us over HTTP
  acpx claude auth                     see how to log in with claude
  acpx exec 'what is this?'            one prompt to the default agent, nothing kept
  acpx --agent './mine --acp' status   an agent of your own
  acpx --agent wss://far.example 'hi'  one on another machine; the token for it is ACPX_REMOTE_TOKEN
  acpx --format json sessions list     every session, for a program

Flags stand before or after the command. After an agent's name the first word that is no command begins the
prompt, and everything after it is text. A prompt to the default agent is quoted, or put behind prompt.

`acpx help COMMAND` has the flags of a command.";

const SUMMARY: &str =
    "`acpx --help` has examples and the agents, `acpx help COMMAND` the flags of a command.";

/// What puts a verb's arguments and texts into its command. Those below it are all put in, or that of the path alone.
pub(super) type Build = fn(clap::Command, path: &[&str]) -> clap::Command;

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

pub(super) fn of_verbs(command: clap::Command) -> clap::Command {
    command.subcommand_required(true).arg_required_else_help(true)
}

pub(super) fn with_verbs(
    command: clap::Command,
    verbs: &[(&'static str, Build)],
    path: &[&str],
) -> clap::Command {
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
    /// Send this image along, - for stdin, to an agent that takes images; may be given several times
    #[arg(long, value_name = "FILE")]
    pub(super) image: Vec<PathBuf>,
    /// Send this sound along, likewise
    #[arg(long, value_name = "FILE")]
    pub(super) audio: Vec<PathBuf>,
    /// Send this file along with its content, likewise
    #[arg(long, value_name = "FILE")]
    pub(super) resource: Vec<PathBuf>,
}

/// A value of `--fallback`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum FallbackArg {
    Auto,
    Always,
    Never,
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
    #[arg(long, value_name = "WHEN", value_enum, hide_possible_values = true)]
    #[arg(
        help = "When a fresh session may replace one that the agent does not restore: auto (the agent does not \
                  have it any more, or restores none), always (after any refusal) or never [default: auto]"
    )]
    pub(super) fallback: Option<FallbackArg>,
    /// The same as --fallback never
    #[arg(long, conflicts_with = "fallback")]
    pub(super) no_fallback: bool,
    /// Tell a fresh session the conversation so far
    #[arg(long)]
    pub(super) carry_history: bool,
    #[command(flatten)]
    pub(super) session: SessionArgs,
}

impl PromptArgs {
    /// When a fresh session may replace the one that is prompted, and what it is told.
    pub(super) fn wake(&self) -> Result<WakeOptions, UsageError> {
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
#[command(
    override_usage = "acpx [AGENT] set-mode [FLAGS] MODE\n       acpx [AGENT] set-mode [FLAGS] --forget"
)]
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
#[command(
    override_usage = "acpx [AGENT] set [FLAGS] KEY VALUE\n       acpx [AGENT] set [FLAGS] KEY --forget"
)]
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
    /// Log in by this way in the terminal instead; an editor adds it
    #[arg(long, value_name = "METHOD", hide = true)]
    pub(super) login: Option<String>,
    #[command(flatten)]
    pub(super) session: SessionArgs,
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

/// See a session live, die, come back, get lost and go on, in a few seconds and with no account
#[derive(Debug, Args)]
#[command(long_about = TOUR)]
pub(crate) struct TourArgs {
    /// Keep the tour's files in this directory, which must not exist yet
    #[arg(long, value_name = "DIR")]
    pub(crate) home: Option<PathBuf>,
}

const TOUR: &str = "\
See a session live, die, come back, get lost and go on, in a few seconds and with no account

Makes a session with the built-in agent, prompts it, kills the agent with SIGKILL, prompts again and so \
restores it, replays the conversation from the store, shows the three ids and the lineage, deletes the \
agent's own files so that the session is lost for good, falls back openly, and closes.\n\
Every line that begins with $ is a command you could type. Everything happens in a temporary directory that \
is removed at the end, or kept with --home.";
