//! What a command line means, before the configuration and the machine are asked: plain values without clap.

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
    /// What was said for the command as a whole.
    pub(crate) options: CliOptions,
    /// What to do.
    pub(crate) command: CliCommand,
}

/// What was typed; what was not is `None`, and the configuration or a default says it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct CliOptions {
    /// Which agent.
    pub(crate) agent: AgentChoice,
    /// Where.
    pub(crate) cwd: Option<PathBuf>,
    /// Which of the directory's sessions; `None` for the unnamed one.
    pub(crate) session: Option<SessionName>,
    /// How to write.
    pub(crate) output: OutputOptions,
    /// What the agent may do.
    pub(crate) mode: Option<PermissionMode>,
    /// What becomes of a permission that nobody can be asked.
    pub(crate) unasked: Option<UnattendedPolicy>,
    /// Rules for single tools: JSON, or the file they are in.
    pub(crate) tool_policy: Option<String>,
    /// How long to wait for the agent.
    pub(crate) timeout: Option<Duration>,
    /// How long the agent may say nothing in a turn.
    pub(crate) idle_timeout: Option<Duration>,
    /// How long the agent may be idle; zero is for ever.
    pub(crate) ttl: Option<Duration>,
    /// The newest version of the protocol that the agent is asked for.
    pub(crate) protocol: Option<ProtocolVersion>,
    /// The model that the session is to work with.
    pub(crate) model: Option<String>,
    /// What to do where the agent offers logins and no credential is known.
    pub(crate) login: Option<LoginPolicy>,
    /// The file with the MCP servers.
    pub(crate) mcp_config: Option<PathBuf>,
    /// Directories beside the one to work in.
    pub(crate) add_dirs: Vec<PathBuf>,
}

/// Which agent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum AgentChoice {
    /// The default one.
    #[default]
    Default,
    /// One that is known by this name.
    Named(String),
    /// This command line.
    Line(String),
}

/// How to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct OutputOptions {
    /// In which form.
    pub(crate) format: Option<Format>,
    /// Whether nothing but JSON may be written.
    pub(crate) strict: bool,
    /// Whether to say what is done.
    pub(crate) verbose: bool,
}

/// What to do.
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
    /// The words, as typed.
    pub(crate) words: Vec<String>,
    /// A file to read first; `-` is stdin.
    pub(crate) file: Option<PathBuf>,
    /// Files that go along.
    pub(crate) attachments: Vec<PromptAttachment>,
}

/// A prompt to a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PromptCommand {
    /// Where it comes from.
    pub(crate) input: PromptWords,
    /// Whether to stay for the answer.
    pub(crate) wait: Wait,
    /// How to bring the session back.
    pub(crate) wake: WakeOptions,
}

/// One prompt, with nothing kept.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ExecCommand {
    /// Where it comes from.
    pub(crate) input: PromptWords,
    /// The options to choose before it, with their values.
    pub(crate) options: Vec<(String, String)>,
}

/// A setting to choose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SetCommand {
    /// The option; the mode without one.
    pub(crate) option: Option<String>,
    /// Its value; without one nothing is wished for it any more.
    pub(crate) value: Option<String>,
}

/// Whether to stay for the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    ForAnswer,
    JustQueue,
}

/// An answer to what an agent asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AnswerCommand {
    /// The question's id.
    pub(crate) question: String,
    /// Whether the agent may.
    pub(crate) approve: bool,
    /// Which of its options says so.
    pub(crate) option: Option<String>,
}

/// What to do about sessions.
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

/// What to show again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReplayCommand {
    /// Where to begin.
    pub(crate) from: Option<Cursor>,
    /// Only so many turns, the last ones.
    pub(crate) last: Option<NonZeroU64>,
}

/// Which sessions to list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ListCommand {
    /// Whether to ask the agent.
    pub(crate) remote: bool,
    /// Where to go on in the agent's list.
    pub(crate) cursor: Option<String>,
    /// Only those of this directory.
    pub(crate) filter_cwd: Option<PathBuf>,
}

/// What to take over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MigrateCommand {
    /// Where the files are.
    pub(crate) directory: Option<PathBuf>,
    /// Whether only to say it.
    pub(crate) dry_run: bool,
}

/// What to do about the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostCommand {
    Status,
    Stop,
    Restart,
    Run,
}

/// What to do about tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TokenCommand {
    New { name: Option<String> },
    List,
    Revoke { id: String },
}

/// The flags that a verb shares with others.
enum SharedFlags {
    /// Those of a session, and the session's name.
    Session(Box<SessionArgs>, Option<String>),
    /// Those of the output alone: the verb is about no one session and no one agent.
    Output(OutputArgs),
    /// None.
    Nothing,
}

impl Invocation {
    /// Makes sense of what clap read, together with the agent's name that stood before the verb.
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

/// What is to be done, and with which flags. A verb may name the agent itself.
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

/// The agent that a verb is about, named before the verb or behind it.
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

/// A file to be sent along.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PromptAttachment {
    /// As an image.
    Image(PathBuf),
    /// As a sound.
    Audio(PathBuf),
    /// With its content, whatever that is.
    Resource(PathBuf),
}

/// How to serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServeCommand {
    /// Where to listen.
    pub(crate) listen: SocketAddr,
    /// The certificate and its key, for TLS.
    pub(crate) tls: Option<(PathBuf, PathBuf)>,
    /// Whether everybody may come in from everywhere.
    pub(crate) insecure_public: bool,
    /// Web pages that may come in.
    pub(crate) origins: Vec<String>,
    /// What clients may do beyond the ordinary.
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
            let replay = ReplayCommand { from: args.place.from, last: args.last };
            (SessionsCommand::Replay(replay), session(args.session, named(args.name)))
        }
        SessionsVerb::Watch(args) => {
            (SessionsCommand::Watch { from: args.place.from }, session(args.session, named(args.name)))
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

/// Whether the format is JSON is known once the configuration is; the rest is judged here.
fn output(args: &OutputArgs) -> Result<OutputOptions, UsageError> {
    if args.json_strict && args.verbose {
        return Err(UsageError::StrictAndVerbose);
    }
    Ok(OutputOptions { format: args.format, strict: args.json_strict, verbose: args.verbose })
}

/// The two flags for it say the same, or one of them is a mistake.
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
