//! What a command line means, before the configuration and the machine are asked: plain values without clap.

use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use acpx_core::acp::Cursor;
use acpx_core::model::{Fallback, PermissionPolicy, ProtocolVersion, SessionName, WakeOptions};

use super::elsewhere::{ServeArgs, TokenVerb};
use super::options::{Format, OutputArgs, PermissionArgs, SessionArgs};
use super::usage::UsageError;
use super::verbs::{HostVerb, NamedArgs, SessionsVerb, Verb, WordArgs};
use crate::commands::{DemoAgentArgs, RemoteAgentArgs, ServeCommand, TourArgs};
use crate::remote::server::Allowance;

/// A command with its options.
#[derive(Debug)]
pub(crate) struct Invocation {
    /// What was said for the command as a whole.
    pub(crate) options: Options,
    /// What to do.
    pub(crate) command: Command,
}

/// What was typed; what was not is `None`, and the configuration or a default says it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Options {
    /// Which agent.
    pub(crate) agent: AgentChoice,
    /// Where.
    pub(crate) cwd: Option<PathBuf>,
    /// Which of the directory's sessions; `None` for the unnamed one.
    pub(crate) session: Option<SessionName>,
    /// How to write.
    pub(crate) output: OutputOptions,
    /// What the agent may do.
    pub(crate) policy: Option<PermissionPolicy>,
    /// How long to wait for the agent.
    pub(crate) timeout: Option<Duration>,
    /// How long the agent may be idle; zero is for ever.
    pub(crate) ttl: Option<Duration>,
    /// The newest version of the protocol that the agent is asked for.
    pub(crate) protocol: Option<ProtocolVersion>,
    /// The model that the session is to work with.
    pub(crate) model: Option<String>,
    /// The file with the MCP servers.
    pub(crate) mcp_config: Option<PathBuf>,
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
pub(crate) enum Command {
    Prompt(PromptCommand),
    Exec(ExecCommand),
    Cancel,
    Set(SetCommand),
    Status,
    Sessions(SessionsCommand),
    Acp,
    Serve(ServeCommand),
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
    /// Its value.
    pub(crate) value: String,
}

/// Whether to stay for the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    ForAnswer,
    JustQueue,
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
enum Shared {
    /// Those of a session, and the session's name.
    Session(Box<SessionArgs>, Option<String>),
    /// Those of the output alone: the verb is about no one session and no one agent.
    Output(OutputArgs),
    /// None.
    Nothing,
}

impl Invocation {
    /// Makes sense of what clap read, together with the agent's name that stood before the verb.
    pub(super) fn new(verb: Verb, agent: Option<String>) -> Result<Self, UsageError> {
        let (command, shared) = read(verb);
        let options = match (shared, agent) {
            (Shared::Session(args, name), agent) => Options::new(*args, agent, name.as_deref())?,
            (Shared::Output(_) | Shared::Nothing, Some(name)) => {
                return Err(UsageError::NoAgentHere { name });
            }
            (Shared::Output(args), None) => Options { output: output(&args)?, ..Options::default() },
            (Shared::Nothing, None) => Options::default(),
        };
        Ok(Self { options, command })
    }
}

fn read(verb: Verb) -> (Command, Shared) {
    let session = |args: SessionArgs, name| Shared::Session(Box::new(args), name);
    match verb {
        Verb::Prompt(args) => {
            let wait = if args.no_wait { Wait::JustQueue } else { Wait::ForAnswer };
            let fallback = if args.no_fallback { Fallback::Refuse } else { Fallback::Fresh };
            let wake = WakeOptions { fallback, carry_history: args.carry_history };
            let prompt = PromptCommand { input: words(args.input), wait, wake };
            (Command::Prompt(prompt), session(args.session, args.name.session))
        }
        Verb::Exec(args) => {
            let exec = ExecCommand { input: words(args.input), options: args.config_option };
            (Command::Exec(exec), session(args.session, None))
        }
        Verb::SetMode(args) => {
            let set = SetCommand { option: None, value: args.mode };
            (Command::Set(set), session(args.session, args.name.session))
        }
        Verb::Set(args) => {
            let set = SetCommand { option: Some(args.key), value: args.value };
            (Command::Set(set), session(args.session, args.name.session))
        }
        Verb::Cancel(args) => (Command::Cancel, session(args.session, args.name.session)),
        Verb::Status(args) => (Command::Status, session(args.session, args.name.session)),
        Verb::Sessions(verb) => {
            let (command, shared) = read_sessions(verb);
            (Command::Sessions(command), shared)
        }
        Verb::Acp(args) => (Command::Acp, session(args.session, None)),
        Verb::Serve(args) => {
            let (serve, args) = serve(args);
            (Command::Serve(serve), session(args, None))
        }
        Verb::Token(verb) => {
            let (command, args) = match verb {
                TokenVerb::New(args) => (TokenCommand::New { name: args.name }, args.output),
                TokenVerb::List(args) => (TokenCommand::List, args.output),
                TokenVerb::Revoke(args) => (TokenCommand::Revoke { id: args.id }, args.output),
            };
            (Command::Token(command), Shared::Output(args))
        }
        Verb::Host(verb) => {
            let (command, args) = match verb {
                HostVerb::Status(args) => (HostCommand::Status, args),
                HostVerb::Stop(args) => (HostCommand::Stop, args),
                HostVerb::Restart(args) => (HostCommand::Restart, args),
                HostVerb::Run(args) => (HostCommand::Run, args),
            };
            (Command::Host(command), Shared::Output(args.output))
        }
        Verb::Tour(args) => (Command::Tour(args), Shared::Nothing),
        Verb::DemoAgent(args) => (Command::DemoAgent(args), Shared::Nothing),
        Verb::RemoteAgent(args) => (Command::RemoteAgent(args), Shared::Nothing),
    }
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
            besides: args.allow_meta,
        },
    };
    (command, args.session)
}

fn read_sessions(verb: SessionsVerb) -> (SessionsCommand, Shared) {
    let session = |args: SessionArgs, name| Shared::Session(Box::new(args), name);
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
        SessionsVerb::Migrate(args) => {
            let migrate = MigrateCommand { directory: args.directory, dry_run: args.dry_run };
            (SessionsCommand::Migrate(migrate), Shared::Output(args.output))
        }
    }
}

impl Options {
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
            policy: policy(&args.permissions),
            timeout: args.timeout,
            ttl: args.ttl,
            protocol: args.protocol,
            model: args.model,
            mcp_config: args.mcp_config,
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

fn policy(args: &PermissionArgs) -> Option<PermissionPolicy> {
    let modes = [
        (args.approve_all, PermissionPolicy::ApproveAll),
        (args.approve_reads, PermissionPolicy::ApproveReads),
        (args.deny_all, PermissionPolicy::DenyAll),
    ];
    modes.into_iter().find_map(|(given, policy)| given.then_some(policy))
}

fn words(args: WordArgs) -> PromptWords {
    PromptWords { words: args.words, file: args.file }
}

fn named(args: NamedArgs) -> Option<String> {
    args.positional.or(args.session_name)
}
