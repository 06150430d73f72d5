//! What can go wrong with a command, and what it means to whoever called us: a class with its exit code, a
//! stable code, a hint. `output` prints it; nothing else decides how an error looks.

use std::borrow::Cow;
use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use acpx_core::engine::{PromptProblem, SessionError};
use acpx_core::host::{CursorError, RunError};
use acpx_core::model::{AgentError, PathProblem, SessionIdentity};
use acpx_core::protocol::HostError;
use acpx_core::store::StoreError;
use acpx_core::store::import_acpx::ImportError;

use crate::agents::UnknownAgent;
use crate::cli::UsageError;
use crate::config::ConfigError;
use crate::http::address::AddressError;
use crate::http::client::RelayError;
use crate::http::tls::TlsError;
use crate::http::tokens::TokenError;
use crate::prompt_input::InputError;

mod class;
mod hint;
mod remedy;
mod report;
mod stop;

pub(crate) use self::class::{CliExit, ErrorClass, is_retryable};
pub(crate) use self::hint::{MORE_TIME, hint_here, hint_without_record, login_hint};
pub(crate) use self::remedy::{Alternatives, Intent, LostSession, NoSessionHelp};
use self::remedy::{none_lost, with_places};
pub(crate) use self::report::{ErrorReport, Origin};
pub(crate) use self::stop::InterruptReason;

/// Why a command could not be done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// The command line means nothing.
    #[error(transparent)]
    Usage(#[from] UsageError),
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// There is no such agent.
    #[error(transparent)]
    Agent(#[from] UnknownAgent),
    /// There is no prompt to send.
    #[error(transparent)]
    Input(InputError),
    /// Neither `ACPX_HOME` nor `HOME` is set.
    #[error("cannot tell where acpx keeps its files")]
    NoHome,
    /// A home that depends on where the program is started is none.
    #[error("the home {} is not an absolute path", .0.display())]
    RelativeHome(PathBuf),
    /// The directory to work in cannot be used.
    #[error("cannot work in {}: {reason}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why not.
        reason: String,
        /// What names it on the command line.
        flag: &'static str,
    },
    /// No session has this id.
    #[error("there is no session with the id {id}")]
    NoId {
        /// The id.
        id: String,
        /// What to do about it.
        hint: String,
    },
    /// A running npm acpx holds the session.
    #[error("npm acpx (pid {pid}) still holds the session {record}")]
    HeldByNpm {
        /// The session.
        record: String,
        /// The process of npm acpx.
        pid: i32,
    },
    /// The session of this id is with another agent than the one that was typed.
    #[error("the session {id} is with {own}, and not with {typed}")]
    OtherAgent {
        /// The id.
        id: String,
        /// The agent that it is with, as it is named on the command line.
        own: String,
        /// The agent that was typed.
        typed: String,
    },
    /// Nothing is kept under this name here or further up.
    #[error("there is no session {}of {agent} in {}{}", named(.name.as_deref()), cwd.display(), further_up(.cwd, .searched.as_deref()))]
    NoSession {
        /// The agent, as it is named on the command line.
        agent: String,
        /// The session's name.
        name: Option<String>,
        /// Where the search began.
        cwd: PathBuf,
        /// The root of the git repository, where it ended; without one it went nowhere else.
        searched: Option<PathBuf>,
        /// What to do about it.
        remedy: Box<NoSessionHelp>,
    },
    /// No session has lost its directory.
    #[error("{}", none_lost(.agent, .name.as_deref(), .there))]
    NoneLost {
        /// The agent, as it is named on the command line.
        agent: String,
        /// The session's name.
        name: Option<String>,
        /// Those of this name that are where they were.
        there: Vec<LostSession>,
    },
    /// More than one has.
    #[error("more than one session has lost its directory: {}", with_places(.lost))]
    SeveralLost {
        /// Which.
        lost: Vec<LostSession>,
    },
    /// The conversation has no such place.
    #[error("{0}")]
    NoPlace(String),
    /// The agent has no list of its sessions.
    #[error(
        "the agent of {agent} does not list its sessions: it does not advertise sessionCapabilities.list"
    )]
    NoRemoteList {
        /// The agent, as it is named on the command line.
        agent: String,
    },
    /// The agent does not offer this way to log in.
    #[error("{agent} offers no login {method:?}")]
    NoLogin {
        /// The agent as it is named on the command line.
        agent: String,
        /// What was asked for.
        method: String,
        /// What it offers.
        known: Vec<String>,
    },
    /// A login in a terminal came to nothing.
    #[error("the login {method:?} failed: {how}")]
    LoginFailed {
        /// The way to log in.
        method: String,
        /// What happened.
        how: String,
    },
    /// Sessions of npm acpx cannot be taken over.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// The configuration forbids `exec`.
    #[error("exec is disabled by {}", file.display())]
    ExecDisabled {
        /// The configuration file.
        file: PathBuf,
    },
    /// Tokens cannot be used.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// There is no TLS.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Other machines would be served without protection.
    #[error("{address} is reached from other machines, and there is no {}", missing(*.token, *.tls))]
    PublicAddress {
        /// The address.
        address: SocketAddr,
        /// Whether there is a token.
        token: bool,
        /// Whether there is TLS.
        tls: bool,
    },
    /// Every web page that the user looks at could come in.
    #[error("every web page would be let in, and there is no token")]
    OpenToPages,
    /// A program that an agent started wants what only its user may do.
    #[error("a program that an agent started may not {what}")]
    Inside {
        /// What it wants to do.
        what: &'static str,
    },
    /// The URL of an agent cannot be used.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// An agent on another machine cannot be talked to.
    #[error(transparent)]
    Relay(#[from] RelayError),
    /// The async runtime cannot be started.
    #[error("cannot start")]
    Runtime(#[source] io::Error),
    /// A file or process of the command's own is in the way.
    #[error("cannot {doing}")]
    System {
        /// What was tried.
        doing: String,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// Nobody can be served there.
    #[error("cannot listen on {address}")]
    Listen {
        /// Where.
        address: std::net::SocketAddr,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// Whoever read our output has gone.
    #[error("cannot write to stdout")]
    Output(#[from] io::Error),
    /// Something was done and could not be shown.
    #[error("cannot write to stdout")]
    Unshown {
        /// Why not.
        #[source]
        source: io::Error,
        /// What has become of it.
        fate: &'static str,
    },
    /// The session did something else.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A path cannot be used.
    #[error(transparent)]
    Path(#[from] PathProblem),
    /// It took longer than it may.
    #[error("{doing} took longer than {} s", limit.as_secs_f32())]
    TimedOut {
        /// What was done meanwhile, in words.
        doing: Box<str>,
        /// How long it may take.
        limit: Duration,
    },
    /// A signal ended it.
    #[error("interrupted")]
    Signalled,
    /// There is no host that could have such a question.
    #[error("there is no open question {id:?}")]
    NoQuestion {
        /// The question's id.
        id: String,
    },
    /// What the host answered instead.
    #[error("{}", .0.message)]
    Told(RemoteError),
    /// One of these, about a session whose ids are known.
    #[error("{error}")]
    About {
        /// The error.
        error: Box<CliError>,
        /// The session.
        identity: Box<SessionIdentity>,
    },
}

/// An error as another process tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RemoteError {
    /// The stable code.
    pub(crate) code: String,
    /// What happened, to what.
    pub(crate) message: String,
    /// What a person can do next.
    pub(crate) hint: Option<String>,
    /// Who found it.
    pub(crate) origin: Origin,
    /// The agent's own error object, where there was one.
    pub(crate) acp: Option<std::sync::Arc<str>>,
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
            (HostError::Refused(refusal), None) if refusal.code() == "QUEUE_FULL" => Origin::Queue,
            (HostError::Refused(_) | HostError::GaveUp { .. }, None) => Origin::Runtime,
            _ => Origin::Cli,
        };
        let (code, hint) = (
            error.code().to_owned(),
            hint_here(error.code(), error.hint().map(Cow::from)).map(Cow::into_owned),
        );
        Self::Told(RemoteError { code, message: with_causes(&error), hint, origin, acp })
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
            missing => Self::NoPlace(missing.to_string()),
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
    /// The same error about a session whose ids are known.
    pub(crate) fn about(self, identity: SessionIdentity) -> Self {
        Self::About { error: Box::new(self), identity: Box::new(identity) }
    }

    /// The same error of a command that leaves no record: a hint that what was said is kept would be wrong.
    pub(crate) fn with_nothing_kept(self) -> Self {
        match self {
            Self::Told(error) => {
                let hint = hint_without_record(&error.code).map(str::to_owned).or(error.hint);
                Self::Told(RemoteError { hint, ..error })
            }
            other => other,
        }
    }

    /// The same error of a command that is about this agent, as it stands on a command line: one that wants a login
    /// says how to come by it.
    pub(crate) fn with_login_of(self, agent: &str) -> Self {
        if self.code() != "AUTH_REQUIRED" || matches!(self, Self::About { .. }) {
            return self;
        }
        if self.hint().as_deref() == Some(AgentError::LOGIN_FIRST) {
            return self;
        }
        self.with_hint(login_hint(agent))
    }

    /// The same error of a command whose prompt nobody has accepted: it is not kept, and no history will have it.
    pub(crate) fn with_unsent_prompt(self) -> Self {
        const UNSENT: &str = "the prompt was not sent";
        let hint = self.hint().map_or_else(|| UNSENT.to_owned(), |hint| format!("{UNSENT}; {hint}"));
        self.with_hint(hint)
    }

    /// The same error with another hint, where the command knows a better one.
    pub(crate) fn with_hint(self, hint: String) -> Self {
        let (message, origin, acp) = (self.message(), self.origin(), self.acp().map(Into::into));
        let (code, hint) = (self.code().into_owned(), Some(hint));
        Self::Told(RemoteError { code, message, hint, origin, acp })
    }

    /// Whether the reader of our output has gone, which is nothing to tell anybody.
    pub(crate) fn is_broken_pipe(&self) -> bool {
        match self {
            Self::Output(error) => error.kind() == io::ErrorKind::BrokenPipe,
            Self::About { error, .. } => error.is_broken_pipe(),
            _ => false,
        }
    }

    /// The error with its causes, in one line.
    pub(crate) fn message(&self) -> String {
        if let Self::About { error, .. } = self {
            return error.message();
        }
        with_causes(self)
    }

    /// The stable code of this error. Those of the library are its own.
    pub(crate) fn code(&self) -> Cow<'static, str> {
        let code = match self {
            Self::Told(error) => return error.code.clone().into(),
            Self::About { error, .. } => return error.code(),
            Self::Session(error) => error.code(),
            Self::Store(error) => error.code(),
            Self::Import(error) => error.code(),
            Self::Config(error) => error.code(),
            Self::Token(error) => error.code(),
            Self::Tls(_) => "TLS_UNUSABLE",
            Self::PublicAddress { .. } | Self::OpenToPages => "PUBLIC_ADDRESS",
            Self::Inside { .. } => "NOT_ALLOWED",
            Self::Address(_) => "BAD_URL",
            Self::Relay(_) => "REMOTE_LOST",
            Self::Usage(_) | Self::NoPlace(_) | Self::NoLogin { .. } | Self::SeveralLost { .. } => "USAGE",
            Self::LoginFailed { .. } => "LOGIN_FAILED",
            Self::Agent(_) => "AGENT_UNKNOWN",
            Self::Input(_) => "BAD_PROMPT",
            Self::NoHome | Self::RelativeHome(_) => "BAD_HOME",
            Self::Directory { .. } => "BAD_DIRECTORY",
            Self::NoId { .. } | Self::OtherAgent { .. } | Self::NoSession { .. } | Self::NoneLost { .. } => {
                "NO_SESSION"
            }
            Self::HeldByNpm { .. } => "HELD_BY_NPM_ACPX",
            Self::NoQuestion { .. } => "NO_QUESTION",
            Self::ExecDisabled { .. } => "EXEC_DISABLED",
            Self::NoRemoteList { .. } => "LIST_UNSUPPORTED",
            Self::TimedOut { .. } => "TIMEOUT",
            Self::Signalled => "SIGNALLED",
            Self::Output(_) | Self::Unshown { .. } => "OUTPUT_FAILED",
            Self::Path(_) => "BAD_PATH",
            Self::Runtime(_) | Self::System { .. } | Self::Listen { .. } => "SYSTEM",
        };
        code.into()
    }

    /// What sort of error it is to whoever called us.
    pub(crate) fn class(&self) -> ErrorClass {
        match self {
            // What was typed is wrong; the same of a session that is there is not.
            Self::Directory { .. } | Self::Agent(UnknownAgent { chosen_in: None, .. }) => ErrorClass::Usage,
            other => ErrorClass::of(&other.code()),
        }
    }

    /// The session it is about, where its ids are known.
    pub(crate) fn identity(&self) -> Option<&SessionIdentity> {
        match self {
            Self::About { identity, .. } => Some(identity),
            _ => None,
        }
    }

    /// Who found it.
    pub(crate) fn origin(&self) -> Origin {
        match self {
            Self::Session(SessionError::Agent(AgentError::Refused { .. })) => Origin::Acp,
            Self::Session(SessionError::QueueFull(_) | SessionError::RequestExists { .. }) => Origin::Queue,
            Self::Session(_) | Self::Store(_) => Origin::Runtime,
            Self::Told(error) => error.origin,
            Self::About { error, .. } => error.origin(),
            _ => Origin::Cli,
        }
    }

    /// The agent's own error object, unchanged, where there was one.
    pub(crate) fn acp(&self) -> Option<&str> {
        match self {
            Self::Session(SessionError::Agent(AgentError::Refused { acp, .. })) => Some(acp),
            Self::Told(error) => error.acp.as_deref(),
            Self::About { error, .. } => error.acp(),
            _ => None,
        }
    }
}

/// An error with its causes, in one line.
pub(crate) fn with_causes(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    causes.map(in_words).collect::<Vec<_>>().join(": ")
}

fn in_words(error: &(dyn Error + 'static)) -> String {
    error.downcast_ref::<io::Error>().map_or_else(|| error.to_string(), system_words)
}

/// What the system says, without the number it has for it.
pub(crate) fn system_words(error: &io::Error) -> String {
    let words = error.to_string();
    let number = error.raw_os_error().map(|number| format!(" (os error {number})"));
    number.and_then(|number| words.strip_suffix(&number).map(str::to_owned)).unwrap_or(words)
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
