//! A parsed command line as plain values, before the configuration is read.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use acpx_core::model::{
    LoginPolicy, PermissionMode, ProtocolVersion, SessionName, UnattendedPolicy, WakeOptions,
};
use clap::{ArgMatches, FromArgMatches};

use super::demo_agent::DemoAgentArgs;
use super::login::AuthCommand;
use super::options::{Format, OutputArgs, PermissionArgs, PolicyArgs, SessionArgs};
use super::pending::{ApproveArgs, DenyArgs};
use super::remote::{RemoteAgentArgs, ServeArgs, TokenCommand};
use super::sessions::SessionsCommand;
use super::usage::UsageError;
use super::verbs::{AcpArgs, HostCommand, TourArgs, Verb, WordArgs};
use crate::http::server::Allowance;

/// A command with its options.
#[derive(Debug)]
pub(crate) struct Invocation {
    /// The flags that commands share.
    pub(crate) options: CliOptions,
    /// The command.
    pub(crate) command: CliCommand,
}

/// The shared flags. `None` leaves the value to the configuration or the default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct CliOptions {
    pub(crate) agent: AgentChoice,
    /// The working directory.
    pub(crate) cwd: Option<PathBuf>,
    /// The session's name or id; `None` for the directory's unnamed one.
    pub(crate) session: Option<SessionName>,
    pub(crate) output: OutputOptions,
    pub(crate) mode: Option<PermissionMode>,
    /// What happens to a permission request that no client can answer.
    pub(crate) unasked: Option<UnattendedPolicy>,
    /// Rules for single tools, as JSON or a file.
    pub(crate) tool_policy: Option<String>,
    /// How long to wait for the agent.
    pub(crate) timeout: Option<Duration>,
    /// How long the agent may be silent in a turn.
    pub(crate) idle_timeout: Option<Duration>,
    /// How long the agent may be idle; zero is forever.
    pub(crate) ttl: Option<Duration>,
    /// The newest protocol version to offer the agent.
    pub(crate) protocol: Option<ProtocolVersion>,
    /// The model of the session.
    pub(crate) model: Option<String>,
    /// What to do if the agent offers logins and there is no credential.
    pub(crate) login: Option<LoginPolicy>,
    /// The file with the MCP servers.
    pub(crate) mcp_config: Option<PathBuf>,
    /// Additional directories.
    pub(crate) add_dirs: Vec<PathBuf>,
}

/// The agent as typed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum AgentChoice {
    /// The default agent.
    #[default]
    Default,
    /// A built-in or configured agent.
    Named(String),
    /// A command line or URL.
    Line(String),
}

/// The output flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct OutputOptions {
    pub(crate) format: Option<Format>,
    /// Whether stderr must stay empty.
    pub(crate) strict: bool,
    /// Whether to report progress.
    pub(crate) verbose: bool,
}

/// A command.
#[derive(Debug)]
pub(crate) enum CliCommand {
    Prompt(PromptCommand),
    Exec(ExecCommand),
    Cancel,
    Set(SetCommand),
    Status,
    Pending,
    Answer(AnswerCommand),
    Sessions(SessionsCommand),
    Acp,
    Auth(AuthCommand),
    Serve(ServeCommand),
    Doctor,
    Token(TokenCommand),
    Host(HostCommand),
    Tour(TourArgs),
    DemoAgent(DemoAgentArgs),
    RemoteAgent(RemoteAgentArgs),
}

/// Where a prompt comes from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct PromptWords {
    pub(crate) words: Vec<String>,
    /// A file to read before the words; `-` is stdin.
    pub(crate) file: Option<PathBuf>,
    /// Attached files.
    pub(crate) attachments: Vec<PromptAttachment>,
}

/// A prompt to a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PromptCommand {
    pub(crate) input: PromptWords,
    pub(crate) wait: Wait,
    /// How to restore the session.
    pub(crate) wake: WakeOptions,
}

/// One prompt without a stored session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ExecCommand {
    pub(crate) input: PromptWords,
    /// The options to set before it, with their values.
    pub(crate) options: Vec<(String, String)>,
}

/// A setting to change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SetCommand {
    /// The option; the mode without one.
    pub(crate) option: Option<String>,
    /// Its value; `None` stops restoring it.
    pub(crate) value: Option<String>,
}

/// Whether to wait for the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    ForAnswer,
    JustQueue,
}

/// An answer to a pending request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AnswerCommand {
    /// The request's id.
    pub(crate) question: String,
    pub(crate) approve: bool,
    /// The option to choose.
    pub(crate) option: Option<String>,
}

/// The shared flags that a command accepts.
pub(super) enum SharedFlags {
    /// All, and the session's name.
    Session(Box<SessionArgs>, Option<String>),
    /// Those of the output: the command concerns no single session or agent.
    Output(OutputArgs),
    /// None.
    Nothing,
}

impl SharedFlags {
    /// Reads the flags of the last subcommand that clap matched.
    pub(super) fn new(matches: &ArgMatches) -> Result<Self, clap::Error> {
        if let Some((_, below)) = matches.subcommand() {
            return Self::new(below);
        }
        // A flag without a value has a default, so it is there if the command defines it.
        let defines = |flag: &str| matches.ids().any(|id| id == flag);
        if defines("approve_all") {
            // A session's name is an argument or a flag, by the command.
            let names = ["positional", "session_name", "session", "name"];
            let name = names.iter().find_map(|id| matches.try_get_one::<String>(id).ok()?.cloned());
            return Ok(Self::Session(Box::new(SessionArgs::from_arg_matches(matches)?), name));
        }
        if defines("json_strict") {
            return Ok(Self::Output(OutputArgs::from_arg_matches(matches)?));
        }
        Ok(Self::Nothing)
    }
}

impl Invocation {
    /// Converts what clap parsed, with the agent's name before the command.
    pub(super) fn new(verb: Verb, flags: SharedFlags, mut agent: Option<String>) -> Result<Self, UsageError> {
        let has_agent_flag = matches!(&flags, SharedFlags::Session(args, _) if args.agent.is_some());
        let command = read(verb, &mut agent, has_agent_flag)?;
        let options = match (flags, agent) {
            (SharedFlags::Session(args, name), agent) => CliOptions::new(*args, agent, name.as_deref())?,
            (SharedFlags::Output(_) | SharedFlags::Nothing, Some(name)) => {
                return Err(UsageError::NoAgentHere { name });
            }
            (SharedFlags::Output(args), None) => {
                CliOptions { output: output(&args)?, ..CliOptions::default() }
            }
            (SharedFlags::Nothing, None) => CliOptions::default(),
        };
        Ok(Self { options, command })
    }
}

/// The command. It may name the agent itself, unless `--agent` does.
fn read(verb: Verb, agent: &mut Option<String>, has_agent_flag: bool) -> Result<CliCommand, UsageError> {
    Ok(match verb {
        Verb::Prompt(args) => {
            let wait = if args.no_wait { Wait::JustQueue } else { Wait::ForAnswer };
            let wake = args.wake()?;
            CliCommand::Prompt(PromptCommand { input: words(args.input), wait, wake })
        }
        Verb::Exec(args) => {
            CliCommand::Exec(ExecCommand { input: words(args.input), options: args.config_option })
        }
        Verb::SetMode(args) => CliCommand::Set(SetCommand { option: None, value: args.mode }),
        Verb::Set(args) => CliCommand::Set(SetCommand { option: Some(args.key), value: args.value }),
        Verb::Cancel => CliCommand::Cancel,
        Verb::Status => CliCommand::Status,
        Verb::Pending => CliCommand::Pending,
        Verb::Approve(ApproveArgs { question, option }) => {
            CliCommand::Answer(AnswerCommand { question, approve: true, option })
        }
        Verb::Deny(DenyArgs { question, option }) => {
            CliCommand::Answer(AnswerCommand { question, approve: false, option })
        }
        Verb::Sessions(command) => CliCommand::Sessions(command),
        Verb::Auth(args) => CliCommand::Auth(args.read(agent, has_agent_flag)?),
        Verb::Acp(AcpArgs { login: Some(method) }) => CliCommand::Auth(AuthCommand::LogIn { method }),
        Verb::Acp(_) => CliCommand::Acp,
        Verb::Serve(args) => CliCommand::Serve(serve(args)),
        Verb::Doctor(args) => {
            *agent = named_once("doctor", agent.take(), args.named)?;
            CliCommand::Doctor
        }
        Verb::Token(command) => CliCommand::Token(command),
        Verb::Host(command) => CliCommand::Host(command),
        Verb::Tour(args) => CliCommand::Tour(args),
        Verb::DemoAgent(args) => CliCommand::DemoAgent(args),
        Verb::RemoteAgent(args) => CliCommand::RemoteAgent(args),
    })
}

/// The agent, named before the command or after it, but not both.
fn named_once(
    verb: &str,
    before: Option<String>,
    behind: Option<String>,
) -> Result<Option<String>, UsageError> {
    match (before, behind) {
        (Some(_), Some(word)) => {
            Err(UsageError::UnknownSubverb { verb: verb.to_owned(), word, suggestion: None })
        }
        (before, behind) => Ok(before.or(behind)),
    }
}

/// An attached file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PromptAttachment {
    /// As an image.
    Image(PathBuf),
    /// As audio.
    Audio(PathBuf),
    /// As a resource with its content.
    Resource(PathBuf),
}

/// The arguments of `serve`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServeCommand {
    pub(crate) listen: SocketAddr,
    /// The certificate and its key, for TLS.
    pub(crate) tls: Option<(PathBuf, PathBuf)>,
    /// Whether to serve other machines without protection.
    pub(crate) insecure_public: bool,
    /// The origins of allowed web pages.
    pub(crate) origins: Vec<String>,
    /// What clients may do beyond the default.
    pub(crate) allowance: Allowance,
}

fn serve(args: ServeArgs) -> ServeCommand {
    ServeCommand {
        listen: args.listen,
        tls: args.tls_cert.zip(args.tls_key),
        insecure_public: args.insecure_public,
        origins: args.allow_origin,
        allowance: Allowance {
            approve_all: args.allow_approve_all,
            stdio_servers: args.allow_stdio_servers,
            agent_fields: args.allow_meta,
        },
    }
}

impl CliOptions {
    fn new(args: SessionArgs, agent: Option<String>, name: Option<&str>) -> Result<Self, UsageError> {
        let agent = match (args.agent, agent) {
            (Some(_), Some(name)) => return Err(UsageError::TwoAgents { name }),
            (Some(line), None) => AgentChoice::Line(line),
            (None, Some(name)) => AgentChoice::Named(name),
            (None, None) => AgentChoice::Default,
        };
        let session = name.map(SessionName::new).transpose().map_err(UsageError::Name)?;
        Ok(Self {
            agent,
            cwd: args.cwd,
            session,
            output: output(&args.output)?,
            mode: mode(&args.permissions),
            unasked: args.policy.non_interactive_permissions,
            tool_policy: tool_policy(args.policy)?,
            timeout: args.timeout,
            idle_timeout: args.idle_timeout,
            ttl: args.ttl,
            protocol: args.protocol,
            model: args.model,
            login: args.auth_policy,
            mcp_config: args.mcp_config,
            add_dirs: args.add_dir,
        })
    }
}

/// Checks the output flags; whether the format is JSON is known only with the configuration.
fn output(args: &OutputArgs) -> Result<OutputOptions, UsageError> {
    if args.json_strict && args.verbose {
        return Err(UsageError::StrictAndVerbose);
    }
    Ok(OutputOptions { format: args.format, strict: args.json_strict, verbose: args.verbose })
}

/// Merges two flags for the same value.
fn tool_policy(args: PolicyArgs) -> Result<Option<String>, UsageError> {
    match (args.permission_policy, args.policy) {
        (Some(one), Some(other)) if one != other => Err(UsageError::TwoPolicies),
        (one, other) => Ok(one.or(other)),
    }
}

fn mode(args: &PermissionArgs) -> Option<PermissionMode> {
    let modes = [
        (args.approve_all, PermissionMode::ApproveAll),
        (args.approve_reads, PermissionMode::ApproveReads),
        (args.deny_all, PermissionMode::DenyAll),
    ];
    modes.into_iter().find_map(|(given, mode)| given.then_some(mode))
}

fn words(args: WordArgs) -> PromptWords {
    let images = args.image.into_iter().map(PromptAttachment::Image);
    let sounds = args.audio.into_iter().map(PromptAttachment::Audio);
    let resources = args.resource.into_iter().map(PromptAttachment::Resource);
    let attachments = images.chain(sounds).chain(resources).collect();
    PromptWords { words: args.words, file: args.file, attachments }
}
