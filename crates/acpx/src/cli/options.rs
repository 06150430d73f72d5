//! The flags that every session command takes, as clap reads them.

use std::path::PathBuf;
use std::time::Duration;

use acpx_core::model::{LoginPolicy, ProtocolVersion, UnattendedPolicy};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

/// The longest time limit, in seconds: what a 32-bit count of milliseconds holds.
const LONGEST: f64 = 2_147_483.647;

const EVERYWHERE: &str = "For many commands";

/// How output is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Format {
    /// For people
    #[default]
    Text,
    /// One JSON value a line, for programs
    Json,
    /// The answer and nothing else
    Quiet,
}

impl Format {
    /// The format's name, as it is typed.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        <Self as ValueEnum>::from_str(name, false).ok()
    }
}

/// Where output goes and how much of it there is.
#[derive(Debug, Clone, Args)]
pub(crate) struct OutputArgs {
    /// How to write the output [default: text, or what the configuration says]
    #[arg(long, value_name = "FORMAT", hide_possible_values = true, help_heading = EVERYWHERE)]
    #[arg(long_help = FORMAT_HELP)]
    pub(super) format: Option<Format>,
    /// Promise that stderr stays empty; needs --format json
    #[arg(long, help_heading = EVERYWHERE)]
    pub(super) json_strict: bool,
    /// Say what is being done: on stderr, and in text with every request
    #[arg(long, help_heading = EVERYWHERE)]
    pub(super) verbose: bool,
}

const FORMAT_HELP: &str = "\
How to write the output [default: text, or what the configuration says]

text   for people
json   one JSON value a line, for programs
quiet  the answer and nothing else";

/// What an agent may do unasked. At most one is given.
#[derive(Debug, Clone, Args)]
#[group(multiple = false)]
pub(crate) struct PermissionArgs {
    /// Let the agent do everything
    #[arg(long, help_heading = EVERYWHERE)]
    pub(super) approve_all: bool,
    /// Let the agent read and search, and be asked about the rest; this is the default
    #[arg(long, help_heading = EVERYWHERE)]
    pub(super) approve_reads: bool,
    /// Let the agent do nothing that needs a permission
    #[arg(long, help_heading = EVERYWHERE)]
    pub(super) deny_all: bool,
}

/// What becomes of what the modes do not settle.
#[derive(Debug, Clone, Args)]
pub(crate) struct PolicyArgs {
    /// What to do about a permission when nobody can be asked: deny, fail or wait [default: wait on a terminal, else deny]
    #[arg(long, value_name = "RULE", value_parser = unasked, help_heading = EVERYWHERE)]
    #[arg(long_help = UNASKED_HELP)]
    pub(super) non_interactive_permissions: Option<UnattendedPolicy>,
    /// Rules for single tools, a file or JSON, which come before the modes
    #[arg(long, value_name = "FILE|JSON", help_heading = EVERYWHERE, long_help = POLICY_HELP)]
    pub(super) permission_policy: Option<String>,
    /// The same as --permission-policy
    #[arg(long, value_name = "FILE|JSON", hide = true)]
    pub(super) policy: Option<String>,
}

/// The same for a command that nobody reaches from elsewhere.
pub(super) const UNASKED_HELP_OF_EXEC: &str = "\
What to do about a permission when nobody can be asked [default: deny]

deny  the answer is no
fail  the turn fails, with exit code 5";

const UNASKED_HELP: &str = "\
What to do about a permission when nobody can be asked [default: wait on a terminal, else deny]

deny  the answer is no
fail  the turn fails, with exit code 5
wait  the request stays pending: acpx pending lists it, acpx approve and acpx deny answer it

A run on a terminal, and an editor, leave a request pending when they go away. A run is non-interactive if none of
stdin, stdout and stderr is a terminal: then it is denied.";

const POLICY_HELP: &str = "\
Rules for single tools, a file or JSON, which come before the modes

  --permission-policy '{\"autoApprove\":[\"edit\"],\"autoDeny\":[\"bash\"],\"escalate\":[\"fetch\"],\"defaultAction\":\"deny\"}'

A rule is a tool's kind, its title, the first word of that, its name, or *. What is denied comes first, then what is
approved, then what is to be asked; defaultAction (approve, deny or escalate) is for all others. Every part may be
left out.";

const AGENT_HELP: &str = "\
Start this command line as the agent, or go to the one at this URL, instead of one known by name

A URL of an agent on another machine, where acpx serve runs for instance, begins with wss:// or ws:// (a WebSocket),
https:// or http://. The token for it is ACPX_REMOTE_TOKEN in the environment. Without TLS only this machine is gone
to, unless --insecure stands behind the URL: --agent 'ws://10.0.0.7:7000/acp --insecure'.";

/// What every session command takes, whether it makes use of all of it or not: programs that call us put the
/// same flags before every verb.
#[derive(Debug, Clone, Args)]
pub(crate) struct SessionArgs {
    /// Start this command line as the agent, or go to the one at this URL, instead of one known by name
    #[arg(long, value_name = "COMMAND|URL", help_heading = EVERYWHERE, long_help = AGENT_HELP)]
    pub(super) agent: Option<String>,
    /// Work in this directory instead of the current one
    #[arg(long, value_name = "DIR", help_heading = EVERYWHERE)]
    pub(super) cwd: Option<PathBuf>,
    #[command(flatten)]
    pub(super) output: OutputArgs,
    #[command(flatten)]
    pub(super) permissions: PermissionArgs,
    #[command(flatten)]
    pub(super) policy: PolicyArgs,
    /// Without a credential for any login that the agent offers: skip, go on, or fail [default: skip]
    #[arg(long, value_name = "POLICY", value_parser = login_policy, help_heading = EVERYWHERE)]
    pub(super) auth_policy: Option<LoginPolicy>,
    /// Give up after so many seconds, the wait for other turns included; a turn that runs is cancelled
    #[arg(long, value_name = "SECONDS", value_parser = time_limit, allow_negative_numbers = true, help_heading = EVERYWHERE)]
    pub(super) timeout: Option<Duration>,
    /// Cancel the turn when the agent has said nothing for so many seconds and waits for nobody
    #[arg(long, value_name = "SECONDS", value_parser = time_limit, allow_negative_numbers = true, help_heading = EVERYWHERE)]
    pub(super) idle_timeout: Option<Duration>,
    /// Keep the agent running for so many idle seconds; 0 is for ever [default: 300, or for ever if it can restore no session]
    #[arg(long, value_name = "SECONDS", value_parser = idle_time, allow_negative_numbers = true, help_heading = EVERYWHERE)]
    pub(super) ttl: Option<Duration>,
    /// Speak this version of the protocol with the agent, 1 or 2, if it can [default: 1]
    #[arg(long, value_name = "VERSION", value_parser = protocol, help_heading = EVERYWHERE)]
    pub(super) protocol: Option<ProtocolVersion>,
    /// Work with this model; a session that is kept stays with it
    #[arg(long, value_name = "MODEL", help_heading = EVERYWHERE)]
    pub(super) model: Option<String>,
    /// Give the agent the MCP servers of this file instead of those in the configuration
    #[arg(long, value_name = "FILE", help_heading = EVERYWHERE)]
    pub(super) mcp_config: Option<PathBuf>,
    /// Let the session have the files of this directory too, if the agent takes more than one; may be repeated
    #[arg(long, value_name = "DIR", help_heading = EVERYWHERE)]
    pub(super) add_dir: Vec<PathBuf>,
}

/// Which of a directory's sessions.
#[derive(Debug, Clone, Args)]
pub(crate) struct SessionNameArgs {
    /// The session of this name instead of the directory's unnamed one
    #[arg(short, long, value_name = "NAME")]
    pub(super) session: Option<String>,
}

/// A number of seconds that something may take.
pub(crate) fn seconds_to_limit(seconds: f64) -> Option<Duration> {
    (seconds > 0.0 && seconds <= LONGEST).then(|| Duration::from_secs_f64(seconds))
}

/// A number of seconds that something may be idle; none at all means for ever.
pub(crate) fn seconds_to_idle_time(seconds: f64) -> Option<Duration> {
    (0.0..=LONGEST).contains(&seconds).then(|| Duration::from_secs_f64(seconds))
}

fn protocol(text: &str) -> Result<ProtocolVersion, String> {
    let version = text.parse().ok().and_then(ProtocolVersion::from_number);
    version.ok_or_else(|| "expected 1 or 2".to_owned())
}

fn login_policy(text: &str) -> Result<LoginPolicy, String> {
    LoginPolicy::parse(text).ok_or_else(|| "expected skip or fail".to_owned())
}

fn unasked(text: &str) -> Result<UnattendedPolicy, String> {
    UnattendedPolicy::parse(text).ok_or_else(|| "expected deny, fail or wait".to_owned())
}

fn time_limit(text: &str) -> Result<Duration, String> {
    let limit = text.parse().ok().and_then(seconds_to_limit);
    limit.ok_or_else(|| format!("expected a number of seconds above 0 and up to {LONGEST}"))
}

fn idle_time(text: &str) -> Result<Duration, String> {
    let idle = text.parse().ok().and_then(seconds_to_idle_time);
    idle.ok_or_else(|| format!("expected a number of seconds from 0 to {LONGEST}"))
}
