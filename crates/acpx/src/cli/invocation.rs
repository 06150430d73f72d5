//! A parsed command line as plain values, before the configuration is read.

use std::net::SocketAddr;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use acpx_core::acp::Cursor;
use acpx_core::model::{
    LoginPolicy, PermissionMode, ProtocolVersion, SessionName, UnattendedPolicy, WakeOptions,
};

use super::demo_agent::DemoAgentArgs;
use super::login::AuthCommand;
use super::options::{Format, OutputArgs, PermissionArgs, PolicyArgs, SessionArgs};
use super::remote::{RemoteAgentArgs, ServeArgs, TokenVerb};
use super::sessions::{NamedArgs, SessionsVerb};
use super::usage::UsageError;
use super::verbs::{AcpArgs, HostVerb, TourArgs, Verb, WordArgs};
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

/// A command below `sessions`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SessionsCommand {
    New,
    Ensure,
    List(ListCommand),
    Show,
    History { limit: NonZeroUsize },
    Replay(ReplayCommand),
    Watch { from: Option<Cursor> },
    Close,
    Delete,
    Move,
    Reset { carry_history: bool },
    Restore { to: String },
    Migrate(MigrateCommand),
}

/// What to replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReplayCommand {
    pub(crate) from: Option<Cursor>,
    /// Only this many turns, the last ones.
    pub(crate) last: Option<NonZeroU64>,
}

/// Which sessions to list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ListCommand {
    /// Whether to list the agent's own sessions.
    pub(crate) remote: bool,
    /// Where to continue the agent's list.
    pub(crate) cursor: Option<String>,
    /// Only those of this directory.
    pub(crate) filter_cwd: Option<PathBuf>,
}

/// What to import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MigrateCommand {
    /// Where the files are.
    pub(crate) directory: Option<PathBuf>,
    /// Whether to report only.
    pub(crate) dry_run: bool,
}

/// A command below `host`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostCommand {
    Status,
    Stop,
    Restart,
    Run,
}

/// A command below `token`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TokenCommand {
    New { name: Option<String> },
    List,
    Revoke { id: String },
}

/// The shared flags that a command accepts.
enum SharedFlags {
    /// All, and the session's name.
    Session(Box<SessionArgs>, Option<String>),
    /// Those of the output: the command concerns no single session or agent.
    Output(OutputArgs),
    /// None.
    Nothing,
}

impl Invocation {
    /// Converts what clap parsed, with the agent's name before the command.
    pub(super) fn new(verb: Verb, mut agent: Option<String>) -> Result<Self, UsageError> {
        let (command, shared) = read(verb, &mut agent)?;
        let options = match (shared, agent) {
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

/// The command and its shared flags. A command may name the agent itself.
fn read(verb: Verb, agent: &mut Option<String>) -> Result<(CliCommand, SharedFlags), UsageError> {
    let session = |args: SessionArgs, name| SharedFlags::Session(Box::new(args), name);
    Ok(match verb {
        Verb::Prompt(args) => {
            let wait = if args.no_wait { Wait::JustQueue } else { Wait::ForAnswer };
            let wake = args.wake()?;
            let prompt = PromptCommand { input: words(args.input), wait, wake };
            (CliCommand::Prompt(prompt), session(args.session, args.name.session))
        }
        Verb::Exec(args) => {
            let exec = ExecCommand { input: words(args.input), options: args.config_option };
            (CliCommand::Exec(exec), session(args.session, None))
        }
        Verb::SetMode(args) => {
            let set = SetCommand { option: None, value: args.mode };
            (CliCommand::Set(set), session(args.session, args.name.session))
        }
        Verb::Set(args) => {
            let set = SetCommand { option: Some(args.key), value: args.value };
            (CliCommand::Set(set), session(args.session, args.name.session))
        }
        Verb::Cancel(args) => (CliCommand::Cancel, session(args.session, args.name.session)),
        Verb::Status(args) => (CliCommand::Status, session(args.session, args.name.session)),
        Verb::Pending(args) => (CliCommand::Pending, SharedFlags::Output(args.output)),
        Verb::Approve(args) => {
            let answer = AnswerCommand { question: args.question, approve: true, option: args.option };
            (CliCommand::Answer(answer), SharedFlags::Output(args.output))
        }
        Verb::Deny(args) => {
            let answer = AnswerCommand { question: args.question, approve: false, option: args.option };
            (CliCommand::Answer(answer), SharedFlags::Output(args.output))
        }
        Verb::Sessions(verb) => {
            let (command, shared) = read_sessions(verb);
            (CliCommand::Sessions(command), shared)
        }
        Verb::Auth(args) => {
            let read = args.read(agent.take())?;
            *agent = read.agent;
            (CliCommand::Auth(read.command), session(read.session, None))
        }
        Verb::Acp(AcpArgs { login: Some(method), session: args }) => {
            (CliCommand::Auth(AuthCommand::LogIn { method }), session(args, None))
        }
        Verb::Acp(args) => (CliCommand::Acp, session(args.session, None)),
        Verb::Serve(args) => {
            let (serve, args) = serve(args);
            (CliCommand::Serve(serve), session(args, None))
        }
        Verb::Doctor(args) => {
            *agent = named_once("doctor", agent.take(), args.named)?;
            (CliCommand::Doctor, session(args.session, args.name.session))
        }
        Verb::Token(verb) => {
            let (command, args) = token(verb);
            (CliCommand::Token(command), SharedFlags::Output(args))
        }
        Verb::Host(verb) => {
            let (command, args) = match verb {
                HostVerb::Status(args) => (HostCommand::Status, args),
                HostVerb::Stop(args) => (HostCommand::Stop, args),
                HostVerb::Restart(args) => (HostCommand::Restart, args),
                HostVerb::Run(args) => (HostCommand::Run, args),
            };
            (CliCommand::Host(command), SharedFlags::Output(args.output))
        }
        Verb::Tour(args) => (CliCommand::Tour(args), SharedFlags::Nothing),
        Verb::DemoAgent(args) => (CliCommand::DemoAgent(args), SharedFlags::Nothing),
        Verb::RemoteAgent(args) => (CliCommand::RemoteAgent(args), SharedFlags::Nothing),
    })
}

fn token(verb: TokenVerb) -> (TokenCommand, OutputArgs) {
    match verb {
        TokenVerb::New(args) => (TokenCommand::New { name: args.name }, args.output),
        TokenVerb::List(args) => (TokenCommand::List, args.output),
        TokenVerb::Revoke(args) => (TokenCommand::Revoke { id: args.id }, args.output),
    }
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

fn serve(args: ServeArgs) -> (ServeCommand, SessionArgs) {
    let command = ServeCommand {
        listen: args.listen,
        tls: args.tls_cert.zip(args.tls_key),
        insecure_public: args.insecure_public,
        origins: args.allow_origin,
        allowance: Allowance {
            approve_all: args.allow_approve_all,
            stdio_servers: args.allow_stdio_servers,
            agent_fields: args.allow_meta,
        },
    };
    (command, args.session)
}

fn read_sessions(verb: SessionsVerb) -> (SessionsCommand, SharedFlags) {
    let session = |args: SessionArgs, name| SharedFlags::Session(Box::new(args), name);
    match verb {
        SessionsVerb::New(args) => (SessionsCommand::New, session(args.session, args.name.name)),
        SessionsVerb::Ensure(args) => (SessionsCommand::Ensure, session(args.session, args.name.name)),
        SessionsVerb::List(args) => {
            let (remote, cursor, filter_cwd) = (args.remote, args.cursor, args.filter_cwd);
            (SessionsCommand::List(ListCommand { remote, cursor, filter_cwd }), session(args.session, None))
        }
        SessionsVerb::Show(args) => (SessionsCommand::Show, session(args.session, named(args.name))),
        SessionsVerb::History(args) => {
            (SessionsCommand::History { limit: args.limit }, session(args.session, named(args.name)))
        }
        SessionsVerb::Replay(args) => {
            let replay = ReplayCommand { from: args.start.from, last: args.last };
            (SessionsCommand::Replay(replay), session(args.session, named(args.name)))
        }
        SessionsVerb::Watch(args) => {
            (SessionsCommand::Watch { from: args.start.from }, session(args.session, named(args.name)))
        }
        SessionsVerb::Close(args) => (SessionsCommand::Close, session(args.session, named(args.name))),
        SessionsVerb::Delete(args) => (SessionsCommand::Delete, session(args.session, named(args.name))),
        SessionsVerb::Move(args) => (SessionsCommand::Move, session(args.session, named(args.name))),
        SessionsVerb::Reset(args) => {
            let carry_history = args.carry_history;
            (SessionsCommand::Reset { carry_history }, session(args.session, named(args.name)))
        }
        SessionsVerb::Restore(args) => {
            (SessionsCommand::Restore { to: args.to }, session(args.session, named(args.name)))
        }
        SessionsVerb::Migrate(args) => {
            let migrate = MigrateCommand { directory: args.directory, dry_run: args.dry_run };
            (SessionsCommand::Migrate(migrate), SharedFlags::Output(args.output))
        }
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

fn named(args: NamedArgs) -> Option<String> {
    args.positional.or(args.session_name)
}
