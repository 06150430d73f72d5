//! Errors of commands, each with a class and exit code, a stable code and a hint. `output` renders them; no other
//! module decides how an error looks.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use acpx_core::engine::{PromptProblem, SessionError};
use acpx_core::host::{CursorError, RunError};
use acpx_core::model::{AgentError, AgentSpec, ErrorClass, ErrorCode, PathProblem, SessionIdentity};
use acpx_core::protocol::HostError;
use acpx_core::store::StoreError;
use acpx_core::store::archive::ImportArchiveError;
use acpx_core::store::import_acpx::ImportError;

use crate::agents;
use crate::agents::UnknownAgent;
use crate::cli::UsageError;
use crate::config::ConfigError;
use crate::config::private::PrivateError;
use crate::http::address::AddressError;
use crate::http::client::RelayError;
use crate::http::tls::TlsError;
use crate::http::tokens::TokenError;
use crate::prompt_input::InputError;

mod exit;
mod hint;
mod remedy;

pub(crate) use self::exit::CliExit;
pub(crate) use self::hint::{cli_hint, login_hint};
pub(crate) use self::remedy::{
    Alternatives, Intent, LostSession, NativeAlternative, NoSessionHelp, SessionMatch, SimilarSession,
};
use self::remedy::{ambiguous, none_lost, with_places};
pub(crate) use exit::{ErrorReport, InterruptReason, Origin};

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// The command line is invalid.
    #[error(transparent)]
    Usage(#[from] UsageError),
    /// The configuration is unusable.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The agent is unknown.
    #[error(transparent)]
    Agent(#[from] UnknownAgent),
    /// There is no usable prompt.
    #[error(transparent)]
    Input(InputError),
    /// Neither `ACPX_HOME` nor `HOME` is set.
    #[error("cannot tell where acpx keeps its files")]
    NoHome,
    /// The home must not depend on the current directory.
    #[error("the home {} is not an absolute path", .0.display())]
    RelativeHome(PathBuf),
    /// The working directory is unusable.
    #[error("cannot work in {}: {reason}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The reason.
        reason: String,
        /// The flag that sets it.
        flag: &'static str,
    },
    /// The agent's own transcript of a session cannot be read.
    #[error("cannot read the transcript {} of the session {session}: {reason}", path.display())]
    Transcript {
        /// Its file.
        path: PathBuf,
        /// The session.
        session: String,
        /// The reason.
        reason: String,
    },
    /// The marks of private sessions cannot be read or written.
    #[error(transparent)]
    Private(#[from] PrivateError),
    /// The search index cannot be used.
    #[error(transparent)]
    Index(#[from] acpx_core::index::IndexError),
    /// No session has this id.
    #[error("there is no session {}{id}", if id.starts_with('@') { "" } else { "with the id " })]
    NoId {
        /// The id.
        id: String,
        /// What to do next.
        hint: String,
    },
    /// Several sessions have ids that begin with this text.
    #[error("{}", ambiguous(.prefix, .matches, *.is_cut))]
    AmbiguousId {
        /// The beginning of an id.
        prefix: String,
        /// These sessions, or the first of them.
        matches: Vec<SessionMatch>,
        /// Whether there are more.
        is_cut: bool,
    },
    /// A running npm acpx holds the session.
    #[error("npm acpx (pid {pid}) still holds the session {record}")]
    HeldByNpm {
        /// The session.
        record: String,
        /// The process of npm acpx.
        pid: i32,
    },
    /// The session with this id belongs to another agent than the one on the command line.
    #[error("the session {id} is with {own}, and not with {typed}")]
    OtherAgent {
        /// The id.
        id: String,
        /// The session's agent, as typed on a command line.
        own: String,
        /// The agent on the command line.
        typed: String,
    },
    /// No session with this name exists here or in a parent directory.
    #[error("there is no session {}of {agent} in {}{}", named(.name.as_deref()), cwd.display(), further_up(.cwd, .searched.as_deref()))]
    NoSession {
        /// The agent, as typed on a command line.
        agent: String,
        /// The session's name.
        name: Option<String>,
        /// Where the lookup began.
        cwd: PathBuf,
        /// The root of the git repository, where the lookup ended; without one, only `cwd` was searched.
        searched: Option<PathBuf>,
        /// What to do next.
        remedy: Box<NoSessionHelp>,
    },
    /// The prompt is longer than the environment allows.
    #[error("the prompt has {bytes} bytes, and ACPX_QUEUE_MAX_REQUEST_BYTES allows {limit}")]
    PromptTooLarge {
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        limit: usize,
    },
    /// No session has lost its directory.
    #[error("{}", none_lost(.agent, .name.as_deref(), .there))]
    NoneLost {
        /// The agent, as typed on a command line.
        agent: String,
        /// The session's name.
        name: Option<String>,
        /// Sessions with this name whose directories exist.
        there: Vec<LostSession>,
    },
    /// More than one session has lost its directory.
    #[error("more than one session has lost its directory: {}", with_places(.lost))]
    SeveralLost {
        /// These sessions.
        lost: Vec<LostSession>,
    },
    /// The conversation has no such position.
    #[error("{0}")]
    NoSuchPosition(String),
    /// The agent does not list its sessions.
    #[error(
        "the agent of {agent} does not list its sessions: it does not advertise sessionCapabilities.list"
    )]
    NoRemoteList {
        /// The agent, as typed on a command line.
        agent: String,
    },
    /// The agent does not offer this login method.
    #[error("{agent} offers no login {method:?}")]
    NoLogin {
        /// The agent, as typed on a command line.
        agent: String,
        /// The requested method.
        method: String,
        /// The methods it offers.
        known: Vec<String>,
    },
    /// A login in a terminal failed.
    #[error("the login {method:?} failed: {how}")]
    LoginFailed {
        /// The login method.
        method: String,
        /// What happened.
        how: String,
    },
    /// Sessions of npm acpx cannot be imported.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// An archive was not imported.
    #[error(transparent)]
    Archive(#[from] ImportArchiveError),
    /// The archive is of an agent that is unknown here, or not the one on the command line.
    #[error("the archive is of the agent {archived:?}, {problem}")]
    ArchiveAgent {
        /// The agent's command line in the archive.
        archived: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The archived session's name cannot be that of a session here.
    #[error("the session in the archive {} cannot keep its name: {problem}", path.display())]
    ArchiveName {
        /// The archive.
        path: PathBuf,
        /// What is wrong with the name.
        problem: String,
    },
    /// An archive chooses a directory that only the user may choose.
    #[error("the archive {} names the directory {directory:?}, which is not below your home", path.display())]
    ArchiveDirectory {
        /// The archive.
        path: PathBuf,
        /// The directory in it.
        directory: String,
    },
    /// The exported file cannot be written.
    #[error("cannot write {}: {reason}", path.display())]
    ExportFile {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The store has damage, so its copy is no backup.
    #[error("the store {} is damaged, so it was not backed up: {problem}", path.display())]
    DamagedStore {
        /// The store.
        path: PathBuf,
        /// The first damage.
        problem: String,
    },
    /// The file that `verify` was given cannot be opened as a store.
    #[error("cannot verify {}: {reason}", path.display())]
    Unverifiable {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
        /// The code of the store's error.
        code: ErrorCode,
    },
    /// The configuration forbids `exec`.
    #[error("exec is disabled by {}", file.display())]
    ExecDisabled {
        /// The configuration file.
        file: PathBuf,
    },
    /// A token operation failed.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// There is no such sink of notifications, or none at all.
    #[error("{}", match name {
        Some(name) => format!("there is no sink {name:?}"),
        None => "no sink is configured".to_owned(),
    })]
    NoSink {
        /// Its name, if one was given.
        name: Option<String>,
    },
    /// Sinks did not take a notification.
    #[error("{}", untaken(failures))]
    NotificationFailed {
        /// Their names with the reasons.
        failures: Vec<(String, String)>,
    },
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The server would be reachable from other machines without protection.
    #[error("{address} is reached from other machines, and there is no {}", missing(*.token, *.tls))]
    PublicAddress {
        /// The address.
        address: SocketAddr,
        /// Whether the home has a token.
        token: bool,
        /// Whether TLS is configured.
        tls: bool,
    },
    /// The page's server would listen on every address, and browsers could open none of its links.
    #[error("no browser can open a link to {address}")]
    NoPublicUrl {
        /// The address.
        address: SocketAddr,
    },
    /// The page's server runs, and cannot listen as requested.
    #[error("the page's server runs already, at {url}")]
    WebServerRuns {
        /// Where browsers reach it.
        url: String,
    },
    /// The page's server did not stop.
    #[error("the page's server (pid {pid}) does not stop")]
    WebServerStays {
        /// Its process.
        pid: u32,
    },
    /// Any web page in the user's browser could connect.
    #[error("any web page could connect, and there is no token")]
    OpenToPages,
    /// A program started by an agent attempted an action that is reserved for the user.
    #[error("a program that an agent started may not {what}")]
    ReservedForUser {
        /// The action.
        what: &'static str,
    },
    /// The URL of an agent is rejected.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// A remote agent cannot be used.
    #[error(transparent)]
    Relay(#[from] RelayError),
    /// The async runtime cannot be started.
    #[error("cannot start")]
    Runtime(#[source] io::Error),
    /// An operation on a file or process of the command itself failed.
    #[error("cannot {doing}")]
    System {
        /// The attempted operation.
        doing: String,
        /// The I/O error.
        #[source]
        source: io::Error,
    },
    /// The server cannot listen on this address.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: std::net::SocketAddr,
        /// The I/O error.
        #[source]
        source: io::Error,
    },
    /// Writing to stdout failed.
    #[error("cannot write to stdout")]
    Output(#[from] io::Error),
    /// The command succeeded, but its result could not be printed.
    #[error("cannot write to stdout")]
    Unshown {
        /// The I/O error.
        #[source]
        source: io::Error,
        /// What happened to the result, as a hint.
        fate: &'static str,
    },
    /// An operation of the engine failed.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The store is unusable.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A path is unusable.
    #[error(transparent)]
    Path(#[from] PathProblem),
    /// The time limit passed.
    #[error("{doing} took longer than {} s", limit.as_secs_f32())]
    TimedOut {
        /// What the command was doing, in words.
        doing: Box<str>,
        /// The limit.
        limit: Duration,
    },
    /// A signal ended the command.
    #[error("interrupted")]
    Signalled,
    /// No request is pending, or none with this id.
    #[error("{}", not_pending(.id.as_deref()))]
    NoQuestion {
        /// The typed id.
        id: Option<String>,
    },
    /// No open prompt has this id.
    #[error("no prompt {id:?} is running or queued")]
    NoPrompt {
        /// The typed id.
        id: String,
    },
    /// The prompt is not queued any more.
    #[error("the agent already has the prompt {id:?}")]
    PromptSent {
        /// Its id.
        id: String,
    },
    /// An error that the host reported.
    #[error("{}", .0.message)]
    Remote(RemoteError),
    /// One of the above, for a session whose ids are known.
    #[error("{error}")]
    About {
        /// The error.
        error: Box<CliError>,
        /// The session.
        identity: Box<SessionIdentity>,
    },
}

/// An error that another process reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RemoteError {
    /// The stable code.
    pub(crate) code: ErrorCode,
    /// What failed, and on what.
    pub(crate) message: String,
    /// What the user can do next.
    pub(crate) hint: Option<String>,
    /// The component that detected it.
    pub(crate) origin: Origin,
    /// The agent's own error object, if there is one.
    pub(crate) acp: Option<std::sync::Arc<str>>,
}

/// Which sinks did not take a notification, and why.
fn untaken(failures: &[(String, String)]) -> String {
    let each: Vec<_> = failures.iter().map(|(sink, reason)| format!("{sink}: {reason}")).collect();
    format!("not delivered to {}", each.join("; "))
}

/// What a public address lacks.
fn missing(token: bool, tls: bool) -> &'static str {
    match (token, tls) {
        (false, false) => "token and no TLS",
        (false, true) => "token",
        (true, _) => "TLS",
    }
}

impl From<PromptProblem> for CliError {
    fn from(problem: PromptProblem) -> Self {
        Self::Session(problem.into())
    }
}

impl From<HostError> for CliError {
    fn from(error: HostError) -> Self {
        let acp = match &error {
            HostError::Refused(refusal) => refusal.acp().map(Into::into),
            _ => None,
        };
        let origin = match (&error, &acp) {
            (_, Some(_)) => Origin::Acp,
            (HostError::Refused(refusal), None)
                if [ErrorCode::QueueFull, ErrorCode::QueueOwnerOverloaded].contains(refusal.code()) =>
            {
                Origin::Queue
            }
            (HostError::Refused(_) | HostError::GaveUp { .. } | HostError::Killed, None) => Origin::Runtime,
            _ => Origin::Cli,
        };
        let code = error.code();
        let hint = cli_hint(&code, error.hint());
        Self::Remote(RemoteError { code, message: with_causes(&error), hint, origin, acp })
    }
}

impl From<RunError> for CliError {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Host(error) => error.into(),
            RunError::Store(error) => error.into(),
            other => Self::System { doing: "be the host".to_owned(), source: io::Error::other(other) },
        }
    }
}

impl From<CursorError> for CliError {
    fn from(error: CursorError) -> Self {
        match error {
            CursorError::Store(error) => error.into(),
            missing => Self::NoSuchPosition(missing.to_string()),
        }
    }
}

impl From<InputError> for CliError {
    fn from(error: InputError) -> Self {
        match error {
            InputError::NoThread(source) => Self::Runtime(source),
            InputError::TimedOut(limit) => Self::TimedOut { doing: "reading the prompt".into(), limit },
            other => Self::Input(other),
        }
    }
}

impl From<InterruptReason> for CliError {
    fn from(stop: InterruptReason) -> Self {
        stop.while_doing("it")
    }
}

impl CliError {
    /// Attaches the ids of the session concerned.
    pub(crate) fn about(self, identity: SessionIdentity) -> Self {
        Self::About { error: Box::new(self), identity: Box::new(identity) }
    }

    /// Replaces hints that assume a stored record, for a command that leaves none.
    pub(crate) fn without_record(self) -> Self {
        match self {
            Self::Remote(error) => {
                let hint = error.code.hint_without_record().map(str::to_owned).or(error.hint);
                Self::Remote(RemoteError { hint, ..error })
            }
            other => other,
        }
    }

    /// Adds how to install this agent, or how to log in with it, if that is what the error asks for.
    pub(crate) fn with_help_of(self, agent: &AgentSpec) -> Self {
        match agents::install_hint(&agent.program) {
            Some(hint) if self.code() == ErrorCode::AgentNotFound && !matches!(self, Self::About { .. }) => {
                self.with_hint(format!("{hint}; then try again"))
            }
            _ => self.with_login_of(&agents::typed(agent)),
        }
    }

    fn with_login_of(self, agent: &str) -> Self {
        if self.code() != ErrorCode::AuthRequired || matches!(self, Self::About { .. }) {
            return self;
        }
        if self.hint().as_deref() == Some(AgentError::LOGIN_FIRST) {
            return self;
        }
        self.with_hint(login_hint(agent))
    }

    /// Adds to the hint that the prompt was not sent, and so is not in the history.
    pub(crate) fn with_unsent_prompt(self) -> Self {
        const UNSENT: &str = "the prompt was not sent";
        let hint = self.hint().map_or_else(|| UNSENT.to_owned(), |hint| format!("{UNSENT}; {hint}"));
        self.with_hint(hint)
    }

    /// Replaces the hint with a more specific one.
    pub(crate) fn with_hint(self, hint: String) -> Self {
        let (message, origin, acp) = (self.message(), self.origin(), self.acp().map(Into::into));
        Self::Remote(RemoteError { code: self.code(), message, hint: Some(hint), origin, acp })
    }

    /// Whether the reader of stdout closed it, which is not reported.
    pub(crate) fn is_broken_pipe(&self) -> bool {
        match self {
            Self::Output(error) => error.kind() == io::ErrorKind::BrokenPipe,
            Self::About { error, .. } => error.is_broken_pipe(),
            _ => false,
        }
    }

    /// The error and its causes, in one line.
    pub(crate) fn message(&self) -> String {
        if let Self::About { error, .. } = self {
            return error.message();
        }
        with_causes(self)
    }

    /// The stable code of this error. Errors of the library bring their own.
    pub(crate) fn code(&self) -> ErrorCode {
        match self {
            Self::Remote(error) => error.code.clone(),
            Self::DamagedStore { .. } => ErrorCode::StoreCorrupt,
            Self::Unverifiable { code, .. } => code.clone(),
            Self::About { error, .. } => error.code(),
            Self::Session(error) => error.code(),
            Self::Store(error) => error.code(),
            Self::Import(error) => error.code(),
            Self::Archive(error) => error.code(),
            Self::ArchiveAgent { .. } => ErrorCode::AgentMismatch,
            Self::ArchiveName { .. } | Self::ArchiveDirectory { .. } => ErrorCode::InvalidArchive,
            Self::ExportFile { .. } => ErrorCode::ExportNotWritten,
            Self::Config(error) => error.code(),
            Self::Token(error) => error.code(),
            Self::NoSink { .. } => ErrorCode::NoSink,
            Self::NotificationFailed { .. } => ErrorCode::NotificationFailed,
            Self::Tls(_) => ErrorCode::TlsUnusable,
            Self::PublicAddress { .. } | Self::OpenToPages => ErrorCode::PublicAddress,
            Self::ReservedForUser { .. } => ErrorCode::NotAllowed,
            Self::Address(_) => ErrorCode::BadUrl,
            Self::Relay(_) => ErrorCode::RemoteLost,
            Self::Usage(UsageError::FlowOfNpm { .. }) => ErrorCode::FlowInNpmAcpx,
            Self::Usage(_)
            | Self::NoPublicUrl { .. }
            | Self::WebServerRuns { .. }
            | Self::NoSuchPosition(_)
            | Self::NoLogin { .. }
            | Self::SeveralLost { .. }
            | Self::AmbiguousId { .. } => ErrorCode::Usage,
            Self::LoginFailed { .. } => ErrorCode::LoginFailed,
            Self::Agent(_) => ErrorCode::AgentUnknown,
            Self::Input(_) => ErrorCode::BadPrompt,
            Self::NoHome | Self::RelativeHome(_) => ErrorCode::BadHome,
            Self::Directory { .. } => ErrorCode::BadDirectory,
            Self::Transcript { .. } => ErrorCode::TranscriptNotRead,
            Self::Private(_) => ErrorCode::PrivateUnusable,
            Self::Index(error) => error.code(),
            Self::NoId { .. } | Self::OtherAgent { .. } | Self::NoSession { .. } | Self::NoneLost { .. } => {
                ErrorCode::NoSession
            }
            Self::HeldByNpm { .. } => ErrorCode::HeldByNpmAcpx,
            Self::NoQuestion { .. } => ErrorCode::NoQuestion,
            Self::NoPrompt { .. } | Self::PromptSent { .. } => ErrorCode::NoPrompt,
            Self::ExecDisabled { .. } => ErrorCode::ExecDisabled,
            Self::PromptTooLarge { .. } => ErrorCode::QueueRequestTooLarge,
            Self::NoRemoteList { .. } => ErrorCode::ListUnsupported,
            Self::TimedOut { .. } => ErrorCode::Timeout,
            Self::Signalled => ErrorCode::Signalled,
            Self::Output(_) | Self::Unshown { .. } => ErrorCode::OutputFailed,
            Self::Path(_) => ErrorCode::BadPath,
            Self::Runtime(_) | Self::System { .. } | Self::Listen { .. } | Self::WebServerStays { .. } => {
                ErrorCode::System
            }
        }
    }

    /// The error's class, which decides the exit code.
    pub(crate) fn class(&self) -> ErrorClass {
        match self {
            // A wrong value on the command line is a usage error; the same value in a stored session or a file is not.
            Self::Directory { .. }
            | Self::Config(ConfigError::NoFile { .. })
            | Self::Agent(UnknownAgent { chosen_in: None, .. }) => ErrorClass::Usage,
            other => other.code().class(),
        }
    }

    /// The session concerned, if its ids are known.
    pub(crate) fn identity(&self) -> Option<&SessionIdentity> {
        match self {
            Self::About { identity, .. } => Some(identity),
            _ => None,
        }
    }

    /// The component that detected the error.
    pub(crate) fn origin(&self) -> Origin {
        match self {
            Self::Session(SessionError::Agent(AgentError::Refused { .. })) => Origin::Acp,
            Self::PromptTooLarge { .. }
            | Self::Session(
                SessionError::QueueFull(_)
                | SessionError::PromptQueueFull { .. }
                | SessionError::RequestExists { .. },
            ) => Origin::Queue,
            Self::Session(_) | Self::Store(_) => Origin::Runtime,
            Self::Remote(error) => error.origin,
            Self::About { error, .. } => error.origin(),
            _ => Origin::Cli,
        }
    }

    /// The agent's own error object, unchanged, if there is one.
    pub(crate) fn acp(&self) -> Option<&str> {
        match self {
            Self::Session(SessionError::Agent(AgentError::Refused { acp, .. })) => Some(acp),
            Self::Remote(error) => error.acp.as_deref(),
            Self::About { error, .. } => error.acp(),
            _ => None,
        }
    }
}

/// An error and its causes, in one line.
pub(crate) fn with_causes(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    causes.map(in_words).collect::<Vec<_>>().join(": ")
}

fn in_words(error: &(dyn Error + 'static)) -> String {
    error.downcast_ref::<io::Error>().map_or_else(|| error.to_string(), system_words)
}

/// The operating system's message without the error number.
pub(crate) fn system_words(error: &io::Error) -> String {
    let words = error.to_string();
    let number = error.raw_os_error().map(|number| format!(" (os error {number})"));
    number.and_then(|number| words.strip_suffix(&number).map(str::to_owned)).unwrap_or(words)
}

fn not_pending(id: Option<&str>) -> String {
    id.map_or_else(|| "no request is pending".to_owned(), |id| format!("no request {id:?} is pending"))
}

fn named(name: Option<&str>) -> String {
    name.map_or_else(String::new, |name| format!("named {name:?} "))
}

fn further_up(cwd: &Path, searched: Option<&Path>) -> String {
    match searched {
        None => "; nothing above it was searched, as it is in no git repository".to_owned(),
        Some(root) if root == cwd => String::new(),
        Some(root) => format!(" or above, up to {}", root.display()),
    }
}

#[cfg(test)]
mod tests;
