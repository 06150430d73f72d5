//! The flags that every session command accepts, as clap reads them.

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use acpx_core::model::{
    Budget, LoginPolicy, Money, PermissionMode, ProtocolVersion, SetupOptions, SpendingLimits, SystemPrompt,
    UnattendedPolicy,
};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use super::usage::UsageError;

/// Maximum time limit in seconds: a 32-bit count of milliseconds.
const LONGEST: f64 = 2_147_483.647;

/// The length of a currency's code, as in ISO 4217.
pub(crate) const CURRENCY_LETTERS: usize = 3;
/// The currency of a limit that names none.
pub(crate) const DEFAULT_CURRENCY: &str = "USD";

pub(super) const SHARED: &str = "Shared flags";

/// An output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Format {
    /// For people
    #[default]
    Text,
    /// One JSON value a line, for programs
    Json,
    /// Only the answer
    Quiet,
}

/// When to use colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum ColorMode {
    /// On a terminal, unless the environment asks otherwise
    #[default]
    Auto,
    /// Always, except in JSON
    Always,
    /// Never
    Never,
}

impl ColorMode {
    /// Parses the mode's name.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        <Self as ValueEnum>::from_str(name, false).ok()
    }
}

impl Format {
    /// Parses the format's name.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        <Self as ValueEnum>::from_str(name, false).ok()
    }
}

// These structs have no doc comments: clap would show them as the description of the command.

// The flags for the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Args)]
pub(crate) struct OutputArgs {
    /// How to write the output [default: text, or the one of the configuration]
    #[arg(long, value_name = "FORMAT", hide_possible_values = true, help_heading = SHARED)]
    #[arg(long_help = FORMAT_HELP)]
    pub(crate) format: Option<Format>,
    /// Write nothing to stderr; needs --format json
    #[arg(long, help_heading = SHARED)]
    pub(crate) json_strict: bool,
    /// Report progress on stderr, and in text every request
    #[arg(long, help_heading = SHARED)]
    pub(crate) verbose: bool,
    /// Leave what the agent read out of the output
    #[arg(long, help_heading = SHARED)]
    pub(crate) suppress_reads: bool,
    /// When to use colour: auto, always or never [default: auto]
    #[arg(long, value_name = "WHEN", value_enum, default_value_t, hide_default_value = true)]
    #[arg(hide_possible_values = true, help_heading = SHARED, long_help = COLOR_HELP)]
    pub(crate) color: ColorMode,
}

const COLOR_HELP: &str = "\
When to use colour [default: auto]

auto    on a terminal, unless NO_COLOR is set, CLICOLOR is 0 or TERM is dumb; CLICOLOR_FORCE=1 uses it in a pipe too
always  in a pipe too
never   nowhere

JSON has no colour.";

const FORMAT_HELP: &str = "\
How to write the output [default: text, or the one of the configuration]

text   for people
json   one JSON value a line, for programs
quiet  only the answer";

// The permission mode; at most one is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Args)]
#[group(multiple = false)]
pub(crate) struct PermissionArgs {
    /// Approve every permission request
    #[arg(long, help_heading = SHARED)]
    pub(crate) approve_all: bool,
    /// Approve reads and searches, and ask about the rest; this is the default
    #[arg(long, help_heading = SHARED)]
    pub(crate) approve_reads: bool,
    /// Deny every permission request
    #[arg(long, help_heading = SHARED)]
    pub(crate) deny_all: bool,
}

// What happens to permission requests that the modes leave open.
#[derive(Debug, Clone, PartialEq, Eq, Default, Args)]
pub(crate) struct PolicyArgs {
    /// What to do about a permission request that no client can answer: deny, fail or wait [default: wait on a terminal, else deny]
    #[arg(long, value_name = "RULE", value_parser = unattended, help_heading = SHARED)]
    #[arg(long_help = UNATTENDED_HELP)]
    pub(crate) non_interactive_permissions: Option<UnattendedPolicy>,
    /// Rules for single tools, as a file or JSON; they take precedence over the modes
    #[arg(long, value_name = "FILE|JSON", help_heading = SHARED, long_help = POLICY_HELP)]
    pub(crate) permission_policy: Option<String>,
    /// The same as --permission-policy
    #[arg(long, value_name = "FILE|JSON", hide = true)]
    pub(crate) policy: Option<String>,
}

/// The same for `exec`, whose requests no other client can answer.
pub(super) const UNATTENDED_HELP_OF_EXEC: &str = "\
What to do about a permission request that no client can answer [default: deny]

deny  deny it
fail  the turn fails, with exit code 5";

const UNATTENDED_HELP: &str = "\
What to do about a permission request that no client can answer [default: wait on a terminal, else deny]

deny  deny it
fail  the turn fails, with exit code 5
wait  the request stays pending: acpx pending lists it, acpx approve and acpx deny answer it

A request stays pending when its terminal or editor disconnects. Without a terminal on stdin, stdout or stderr, it
is denied.";

const POLICY_HELP: &str = "\
Rules for single tools, as a file or JSON; they take precedence over the modes

  --permission-policy '{\"autoApprove\":[\"edit\"],\"autoDeny\":[\"bash\"],\"escalate\":[\"fetch\"],\"defaultAction\":\"deny\"}'

A rule matches a tool's kind, its title, the first word of the title, its name, or with * every tool. autoDeny comes
first, then autoApprove, then escalate, which asks; defaultAction (approve, deny or escalate) applies to all others.
Every member is optional.";

const AGENT_HELP: &str = "\
Start this command line as the agent, or connect to the agent at this URL

The URL of an agent on another machine, such as one that runs acpx serve, begins with wss:// or ws:// (WebSocket),
https:// or http://. Set its token as ACPX_REMOTE_TOKEN. Unencrypted URLs work only for localhost unless you add
--insecure: --agent 'ws://10.0.0.7:7000/acp --insecure'.";

/// Names of tools, separated by commas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToolNames(pub(crate) Vec<String>);

// What the user fixes about the agent of a session.
#[derive(Debug, Clone, PartialEq, Eq, Default, Args)]
pub(crate) struct SetupArgs {
    /// Replace the agent's system prompt, if it reads one from _meta as claude does; the session keeps it
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, help_heading = SHARED)]
    #[arg(conflicts_with = "append_system_prompt", long_help = SYSTEM_PROMPT_HELP)]
    pub(crate) system_prompt: Option<String>,
    /// Add this text to the agent's system prompt, in the same way
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, help_heading = SHARED)]
    pub(crate) append_system_prompt: Option<String>,
    /// Let the agent use only these tools, if it reads that from _meta as claude does; "" is none
    #[arg(long, value_name = "NAMES", value_parser = tool_names, help_heading = SHARED)]
    pub(crate) allowed_tools: Option<ToolNames>,
    /// Let one prompt take this many turns of the model, if the agent reads that from _meta as claude does
    #[arg(long, value_name = "N", value_parser = max_turns, allow_negative_numbers = true, help_heading = SHARED)]
    pub(crate) max_turns: Option<NonZeroU64>,
    /// Give the agent no files through acpx; the session keeps that
    #[arg(long, help_heading = SHARED)]
    pub(crate) no_fs: bool,
    /// Run no commands for the agent; the session keeps that
    #[arg(long, help_heading = SHARED)]
    pub(crate) no_terminal: bool,
}

impl SetupArgs {
    /// The options as the host gets them.
    pub(crate) fn options(&self) -> SetupOptions {
        let Self { system_prompt, append_system_prompt, allowed_tools, max_turns, no_fs, no_terminal } =
            self.clone();
        let append = append_system_prompt.map(|append| SystemPrompt::Append { append });
        SetupOptions {
            system_prompt: system_prompt.map(SystemPrompt::Replace).or(append),
            allowed_tools: allowed_tools.map(|ToolNames(names)| names),
            max_turns,
            no_fs,
            no_terminal,
        }
    }

    /// The flags that were typed.
    pub(crate) fn typed(&self) -> Vec<&'static str> {
        let flags = [
            (self.system_prompt.is_some(), "--system-prompt"),
            (self.append_system_prompt.is_some(), "--append-system-prompt"),
            (self.allowed_tools.is_some(), "--allowed-tools"),
            (self.max_turns.is_some(), "--max-turns"),
            (self.no_fs, "--no-fs"),
            (self.no_terminal, "--no-terminal"),
        ];
        flags.into_iter().filter(|(is_typed, _)| *is_typed).map(|(_, flag)| flag).collect()
    }
}

const SYSTEM_PROMPT_HELP: &str = "\
Replace the agent's system prompt, if it reads one from _meta as claude does; the session keeps it

It is sent as _meta.systemPrompt with every session/new, session/load and session/resume of the session. So are
--append-system-prompt, as _meta.systemPrompt.append, and --allowed-tools and --max-turns, as members of
_meta.claudeCode.options. An agent that reads none of them works as without these flags.";

// The flags that every session command accepts, even if it does not use all of them: calling programs put the same
// flags before every command.
#[derive(Debug, Clone, PartialEq, Eq, Default, Args)]
pub(crate) struct SessionArgs {
    /// Start this command line as the agent, or connect to the agent at this URL
    #[arg(long, value_name = "COMMAND|URL", help_heading = SHARED, long_help = AGENT_HELP)]
    pub(crate) agent: Option<String>,
    /// Work in this directory instead of the current one
    #[arg(long, value_name = "DIR", help_heading = SHARED)]
    pub(crate) cwd: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) permissions: PermissionArgs,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// If there is no credential for any of the agent's login methods: skip the login, or fail [default: skip]
    #[arg(long, value_name = "POLICY", value_parser = login_policy, help_heading = SHARED)]
    pub(crate) auth_policy: Option<LoginPolicy>,
    /// Give up after this many seconds, including the wait for earlier turns; a running turn is cancelled
    #[arg(long, value_name = "SECONDS", value_parser = time_limit, allow_negative_numbers = true, help_heading = SHARED)]
    pub(crate) timeout: Option<Duration>,
    /// Cancel the turn after this many seconds without output, unless the agent waits for an answer
    #[arg(long, value_name = "SECONDS", value_parser = time_limit, allow_negative_numbers = true, help_heading = SHARED)]
    pub(crate) idle_timeout: Option<Duration>,
    /// Cancel a turn that costs more, and refuse one once its session has: 0.50, 5/session, 0.5EUR,5EUR/session
    #[arg(long, value_name = "LIMIT", value_parser = cost_limits, help_heading = SHARED, long_help = MAX_COST_HELP)]
    pub(crate) max_cost: Option<SpendingLimits>,
    /// Cancel a turn that uses more tokens, and refuse one once its session has: 200k, 5M/session
    #[arg(long, value_name = "LIMIT", value_parser = token_limits, help_heading = SHARED, long_help = MAX_TOKENS_HELP)]
    pub(crate) max_tokens: Option<SpendingLimits>,
    /// Keep an idle agent running for this many seconds; 0 is forever [default: 300, or forever if it cannot restore sessions]
    #[arg(long, value_name = "SECONDS", value_parser = idle_time, allow_negative_numbers = true, help_heading = SHARED)]
    pub(crate) ttl: Option<Duration>,
    /// Use this protocol version, 1 or 2, if the agent supports it [default: 1]
    #[arg(long, value_name = "VERSION", value_parser = protocol, help_heading = SHARED)]
    pub(crate) protocol: Option<ProtocolVersion>,
    /// Use this model; a stored session keeps it
    #[arg(long, value_name = "MODEL", help_heading = SHARED)]
    pub(crate) model: Option<String>,
    /// Give the agent the MCP servers of this file instead of those in the configuration
    #[arg(long, value_name = "FILE", help_heading = SHARED)]
    pub(crate) mcp_config: Option<PathBuf>,
    /// Give a new session past sessions of its project, through the MCP server of acpx mcp
    #[arg(long, help_heading = SHARED)]
    pub(crate) with_recall: bool,
    /// Give the session this additional directory, if the agent supports it; may be repeated
    #[arg(long, value_name = "DIR", help_heading = SHARED)]
    pub(crate) add_dir: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) setup: SetupArgs,
    /// Send the prompt again, this many times at most, if the agent fails before it does anything [default: 0]
    #[arg(long, value_name = "N", value_parser = retries, allow_negative_numbers = true, help_heading = SHARED)]
    #[arg(long_help = RETRIES_HELP)]
    pub(crate) prompt_retries: Option<u32>,
}

const MAX_COST_HELP: &str = "\
Cancel a turn that costs more than this, and refuse a prompt once its session has cost it

  --max-cost 0.50           for the turn
  --max-cost 5/session      for all turns of the session
  --max-cost 0.5,5/session  both
  --max-cost 4EUR           in another currency than USD

The cost is what the agent reports. A limit that cannot be enforced, because the agent reports no cost or another
currency, is reported once in a session.";

const MAX_TOKENS_HELP: &str = "\
Cancel a turn that uses more tokens than this, and refuse a prompt once its session has used them

  --max-tokens 200k           for the turn
  --max-tokens 5M/session     for all turns of the session
  --max-tokens 200k,5M/session

Agents report the tokens of a turn at its end. While it runs, acpx knows the size of the context: a turn uses at least
that many.";

const RETRIES_HELP: &str = "\
Send the prompt again, this many times at most, if the agent fails before it does anything [default: 0]

Only an internal error (-32603 or -32700) of a running agent counts, and only if the turn has had no output, no tool and
no request. The first retry comes after a second, each later one after twice the time, up to ten seconds.";

impl SessionArgs {
    /// Refuses flags that exclude each other. Whether the format is JSON is known only with the configuration.
    pub(super) fn check(&self) -> Result<(), UsageError> {
        if self.output.json_strict && self.output.verbose {
            return Err(UsageError::StrictAndVerbose);
        }
        match (&self.policy.permission_policy, &self.policy.policy) {
            (Some(one), Some(other)) if one != other => Err(UsageError::TwoPolicies),
            _ => Ok(()),
        }
    }

    /// The rules for single tools, as JSON or a file.
    pub(crate) fn tool_policy(&self) -> Option<&str> {
        self.policy.permission_policy.as_deref().or(self.policy.policy.as_deref())
    }

    /// The limits of cost and tokens.
    pub(crate) fn spending(&self) -> SpendingLimits {
        let cost = self.max_cost.clone().unwrap_or_default();
        self.max_tokens.as_ref().map_or(cost.clone(), |tokens| cost.or(tokens))
    }

    /// What happens to a permission request that no client can answer.
    pub(crate) fn unattended(&self) -> Option<UnattendedPolicy> {
        self.policy.non_interactive_permissions
    }

    /// The permission mode.
    pub(crate) fn mode(&self) -> Option<PermissionMode> {
        let PermissionArgs { approve_all, approve_reads, deny_all } = self.permissions;
        let modes = [
            (approve_all, PermissionMode::ApproveAll),
            (approve_reads, PermissionMode::ApproveReads),
            (deny_all, PermissionMode::DenyAll),
        ];
        modes.into_iter().find_map(|(is_set, mode)| is_set.then_some(mode))
    }
}

// The session's name.
#[derive(Debug, Clone, Args)]
pub(crate) struct SessionNameArgs {
    /// The session of this name, or id, instead of the directory's unnamed one
    #[arg(short, long, value_name = "NAME")]
    pub(super) session: Option<String>,
}

/// A time limit in seconds.
pub(crate) fn seconds_to_limit(seconds: f64) -> Option<Duration> {
    (seconds > 0.0 && seconds <= LONGEST).then(|| Duration::from_secs_f64(seconds))
}

/// An idle time in seconds; 0 means forever.
pub(crate) fn seconds_to_idle_time(seconds: f64) -> Option<Duration> {
    (0.0..=LONGEST).contains(&seconds).then(|| Duration::from_secs_f64(seconds))
}

/// Limits as typed: one for the turn, one for the session, or both.
fn limits<T>(text: &str, read: impl Fn(&str) -> Option<T>) -> Option<[Option<T>; 2]> {
    let mut limits = [None, None];
    for part in text.split(',') {
        let (amount, scope) = part.split_once('/').unwrap_or((part, "turn"));
        let index = match scope {
            "turn" => 0,
            "session" => 1,
            _ => return None,
        };
        if limits[index].replace(read(amount)?).is_some() {
            return None;
        }
    }
    Some(limits)
}

fn cost_limits(text: &str) -> Result<SpendingLimits, String> {
    let money = |text: &str| {
        let (amount, currency) =
            text.split_at(text.trim_end_matches(|c: char| c.is_ascii_alphabetic()).len());
        let currency = match currency.len() {
            0 => DEFAULT_CURRENCY.to_owned(),
            CURRENCY_LETTERS => currency.to_uppercase(),
            _ => return None,
        };
        Money::of(amount.parse().ok()?, currency).filter(|money| money.nanos > 0)
    };
    let [turn, session] = limits(text, money)
        .ok_or("expected an amount above 0, such as 0.50, 5/session, 4EUR or 0.5,5/session")?
        .map(|cost| Budget { cost, tokens: None });
    Ok(SpendingLimits { turn, session })
}

fn token_limits(text: &str) -> Result<SpendingLimits, String> {
    let count = |text: &str| {
        let (number, unit) = text.split_at(text.trim_end_matches(['k', 'K', 'M']).len());
        let unit = match unit {
            "" => 1,
            "k" | "K" => 1000,
            "M" => 1_000_000,
            _ => return None,
        };
        number.parse::<u64>().ok()?.checked_mul(unit).filter(|count| *count > 0)
    };
    let [turn, session] = limits(text, count)
        .ok_or("expected a number of tokens above 0, such as 200k, 5M/session or 200k,5M/session")?
        .map(|tokens| Budget { cost: None, tokens });
    Ok(SpendingLimits { turn, session })
}

fn protocol(text: &str) -> Result<ProtocolVersion, String> {
    let version = text.parse().ok().and_then(ProtocolVersion::from_number);
    version.ok_or_else(|| "expected 1 or 2".to_owned())
}

fn tool_names(text: &str) -> Result<ToolNames, String> {
    let names: Vec<String> = match text.trim() {
        "" => Vec::new(),
        text => text.split(',').map(|name| name.trim().to_owned()).collect(),
    };
    if names.iter().any(String::is_empty) {
        return Err(r#"expected names separated by commas, or "" for no tools"#.to_owned());
    }
    Ok(ToolNames(names))
}

fn retries(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| "expected a whole number from 0".to_owned())
}

fn max_turns(text: &str) -> Result<NonZeroU64, String> {
    text.parse().map_err(|_| "expected a whole number above 0".to_owned())
}

fn login_policy(text: &str) -> Result<LoginPolicy, String> {
    LoginPolicy::parse(text).ok_or_else(|| "expected skip or fail".to_owned())
}

fn unattended(text: &str) -> Result<UnattendedPolicy, String> {
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

/// Parses a count.
pub(super) fn count<N: FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| "expected a whole number above 0".to_owned())
}
