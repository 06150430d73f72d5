//! A parsed command line as plain values, before the configuration is read.

use std::path::PathBuf;

use acpx_core::model::{RequestId, SessionName, WakeOptions};
use clap::{ArgMatches, FromArgMatches};

use super::backup::{BackupArgs, VerifyArgs};
use super::compare::CompareArgs;
use super::configuration::{ConfigCommand, TrustCommand};
use super::demo_agent::DemoAgentArgs;
use super::login::AuthCommand;
use super::mcp::McpArgs;
use super::notify::NotifyCommand;
use super::options::{Format, OutputArgs, SessionArgs};
use super::pending::AnswerArgs;
use super::queue::QueueCommand;
use super::remote::{RemoteAgentArgs, ServeArgs, TokenCommand};
use super::search::{IndexCommand, SearchArgs};
use super::sessions::{SessionsCommand, StartArgs};
use super::shell::{CompleteArgs, CompletionsArgs};
use super::usage::UsageError;
use super::usage_report::UsageArgs;
use super::verbs::{AcpArgs, CancelArgs, HostCommand, SchemaArgs, TourArgs, Verb, WordArgs};
use super::web::WebCommand;

/// A command with its options.
#[derive(Debug)]
pub(crate) struct Invocation {
    /// The flags that commands share.
    pub(crate) options: CliOptions,
    /// The command.
    pub(crate) command: CliCommand,
}

/// The shared flags, with the agent and the session that they or the command name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct CliOptions {
    pub(crate) agent: AgentChoice,
    /// The session's name or id; `None` for the directory's unnamed one.
    pub(crate) session: Option<SessionName>,
    pub(crate) flags: SessionArgs,
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

/// A command.
#[derive(Debug)]
pub(crate) enum CliCommand {
    Prompt(PromptCommand),
    Exec(ExecCommand),
    /// `cancel`, of a prompt or of the running turn.
    Cancel(CancelArgs),
    Set(SetCommand),
    Usage(UsageArgs),
    Search(SearchArgs),
    Index(IndexCommand),
    Notify(NotifyCommand),
    Status,
    /// `attach`, from a position on.
    Attach(StartArgs),
    Pending,
    Approve(AnswerArgs),
    Deny(AnswerArgs),
    Queue(QueueCommand),
    Sessions(SessionsCommand),
    Acp,
    Auth(AuthCommand),
    Serve(ServeArgs),
    Web(WebCommand),
    Doctor,
    Token(TokenCommand),
    Host(HostCommand),
    Compare(CompareCommand),
    Config(ConfigCommand),
    Trust(TrustCommand),
    Backup(BackupArgs),
    Verify(VerifyArgs),
    Schema(SchemaArgs),
    Completions(CompletionsArgs),
    Complete(CompleteArgs),
    Man,
    Mcp(McpArgs),
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
    /// Whether to create a missing session.
    pub(crate) create: bool,
    /// The client's name of the prompt, which runs once.
    pub(crate) request_id: Option<RequestId>,
    pub(crate) exit_by_stop_reason: bool,
    /// How to restore the session.
    pub(crate) wake: WakeOptions,
}

impl PromptCommand {
    /// Whether nothing was typed to send, and the answer is awaited: a person at a terminal wants to type it there.
    pub(crate) fn is_empty(&self) -> bool {
        let PromptWords { words, file, attachments } = &self.input;
        words.is_empty() && file.is_none() && attachments.is_empty() && self.wait == Wait::ForAnswer
    }
}

/// One prompt without a stored session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ExecCommand {
    pub(crate) input: PromptWords,
    /// The options to set before it, with their values.
    pub(crate) options: Vec<(String, String)>,
    pub(crate) exit_by_stop_reason: bool,
}

/// One prompt for several agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CompareCommand {
    /// The agents by name.
    pub(crate) agents: Vec<String>,
    pub(crate) input: PromptWords,
    /// Whether the prompt is the last of the words after the verb, with nothing but its place to tell it from an agent.
    pub(crate) is_prompt_unmarked: bool,
}

/// A setting to change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SetCommand {
    /// The option; the mode without one.
    pub(crate) option: Option<String>,
    /// What to do with it.
    pub(crate) change: SetAction,
}

/// What `set` does with a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SetAction {
    /// Set this value.
    Set(String),
    /// Stop restoring it.
    Forget,
    /// List the values that it can have.
    List,
}

impl SetAction {
    fn read(value: Option<String>, forget: bool) -> Self {
        match value {
            Some(value) => Self::Set(value),
            None if forget => Self::Forget,
            None => Self::List,
        }
    }
}

/// Whether to wait for the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    ForAnswer,
    JustQueue,
}

/// The shared flags of a command, before the agent is known.
pub(super) struct SharedFlags {
    args: SessionArgs,
    /// The session's name.
    name: Option<String>,
    /// Whether the command concerns a session or an agent.
    of_session: bool,
}

impl SharedFlags {
    /// Reads the flags of the last subcommand that clap matched. It may define all, those of the output, or none.
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
            return Ok(Self { args: SessionArgs::from_arg_matches(matches)?, name, of_session: true });
        }
        let mut args = SessionArgs::default();
        if defines("json_strict") {
            args.output = OutputArgs::from_arg_matches(matches)?;
        }
        Ok(Self { args, name: None, of_session: false })
    }
}

impl Invocation {
    /// Converts what clap parsed, with the agent's name before the command.
    pub(super) fn new(verb: Verb, flags: SharedFlags, mut agent: Option<String>) -> Result<Self, UsageError> {
        let SharedFlags { args: mut flags, name, of_session } = flags;
        if matches!(&verb, Verb::Compare(args) if args.json) {
            flags.output.format = Some(Format::Json);
        }
        let command = read(verb, &mut agent, flags.agent.is_some())?;
        let agent = match (&flags.agent, agent) {
            (_, Some(name)) if !of_session => return Err(UsageError::NoAgentHere { name }),
            (Some(_), Some(name)) => return Err(UsageError::TwoAgents { name }),
            (Some(line), None) => AgentChoice::Line(line.clone()),
            (None, Some(name)) => AgentChoice::Named(name),
            (None, None) => AgentChoice::Default,
        };
        let session = name.as_deref().map(SessionName::new).transpose().map_err(UsageError::Name)?;
        flags.check()?;
        Ok(Self { options: CliOptions { agent, session, flags }, command })
    }
}

/// The command. It may name the agent itself, unless `--agent` does.
fn read(verb: Verb, agent: &mut Option<String>, has_agent_flag: bool) -> Result<CliCommand, UsageError> {
    Ok(match verb {
        Verb::Prompt(args) => {
            let wait = if args.no_wait { Wait::JustQueue } else { Wait::ForAnswer };
            let wake = args.wake.options()?;
            CliCommand::Prompt(PromptCommand {
                input: words(args.input),
                wait,
                create: args.create,
                request_id: args.request_id,
                exit_by_stop_reason: args.exit.exit_by_stop_reason,
                wake,
            })
        }
        Verb::Exec(args) => {
            let exit_by_stop_reason = args.exit.exit_by_stop_reason;
            CliCommand::Exec(ExecCommand {
                input: words(args.input),
                options: args.config_option,
                exit_by_stop_reason,
            })
        }
        Verb::SetMode(args) => {
            let change = SetAction::read(args.mode, args.forget);
            CliCommand::Set(SetCommand { option: None, change })
        }
        Verb::Set(args) => {
            let change = SetAction::read(args.value, args.forget);
            CliCommand::Set(SetCommand { option: Some(args.key), change })
        }
        Verb::Usage(args) => CliCommand::Usage(args),
        Verb::Search(args) => CliCommand::Search(args),
        Verb::Index(command) => CliCommand::Index(command),
        Verb::Notify(command) => CliCommand::Notify(command),
        Verb::Cancel(args) => CliCommand::Cancel(args),
        Verb::Status => CliCommand::Status,
        Verb::Attach(start) => CliCommand::Attach(start),
        Verb::Pending => CliCommand::Pending,
        Verb::Approve(args) => CliCommand::Approve(args),
        Verb::Deny(args) => CliCommand::Deny(args),
        Verb::Queue(command) => CliCommand::Queue(command),
        Verb::Sessions(command) => CliCommand::Sessions(command),
        Verb::Auth(args) => CliCommand::Auth(args.read(agent, has_agent_flag)?),
        Verb::Acp(AcpArgs { login: Some(method) }) => CliCommand::Auth(AuthCommand::LogIn { method }),
        Verb::Acp(_) => CliCommand::Acp,
        Verb::Serve(args) => CliCommand::Serve(args),
        Verb::Web(command) => CliCommand::Web(command),
        Verb::Doctor(args) => {
            *agent = named_once("doctor", agent.take(), args.named)?;
            CliCommand::Doctor
        }
        Verb::Token(command) => CliCommand::Token(command),
        Verb::Host(command) => CliCommand::Host(command),
        Verb::Compare(args) => CliCommand::Compare(compared(args)?),
        Verb::Config(command) => CliCommand::Config(command),
        Verb::Trust(command) => CliCommand::Trust(command),
        Verb::Backup(args) => CliCommand::Backup(args),
        Verb::Verify(args) => CliCommand::Verify(args),
        Verb::Schema(args) => CliCommand::Schema(args),
        Verb::Completions(args) => CliCommand::Completions(args),
        Verb::Complete(args) => CliCommand::Complete(args),
        Verb::Man => CliCommand::Man,
        Verb::Mcp(args) => CliCommand::Mcp(args),
        Verb::Tour(args) => CliCommand::Tour(args),
        Verb::DemoAgent(args) => CliCommand::DemoAgent(args),
        Verb::RemoteAgent(args) => CliCommand::RemoteAgent(args),
    })
}

/// The agents and the prompt, which is the last argument unless it comes from a file or after `--`.
fn compared(args: CompareArgs) -> Result<CompareCommand, UsageError> {
    let CompareArgs { arguments: mut agents, mut words, file, prompt_file, json: _ } = args;
    let file = file.or(prompt_file);
    let is_prompt_unmarked = file.is_none() && words.is_empty();
    if is_prompt_unmarked {
        words.extend(agents.pop());
    }
    if agents.is_empty() {
        return Err(UsageError::CompareWords);
    }
    let input = PromptWords { words, file, attachments: Vec::new() };
    Ok(CompareCommand { agents, input, is_prompt_unmarked })
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

fn words(args: WordArgs) -> PromptWords {
    let images = args.image.into_iter().map(PromptAttachment::Image);
    let sounds = args.audio.into_iter().map(PromptAttachment::Audio);
    let resources = args.resource.into_iter().map(PromptAttachment::Resource);
    let attachments = images.chain(sounds).chain(resources).collect();
    PromptWords { words: args.words, file: args.file, attachments }
}
