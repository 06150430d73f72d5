//! Errors of agents as plain values: the machine decides on them, a turn stores them, and `output` prints them.
//! Every variant names its subject.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{AbsolutePath, AcpSessionId, ErrorCode, RecordId, Timestamp};

/// An agent failed to do what was requested of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// There is no such program.
    #[error("the agent command {program:?} was not found")]
    NotFound {
        /// The program.
        program: String,
    },
    /// The program exists but is not executable.
    #[error("the agent command {program:?} is not executable")]
    NotExecutable {
        /// The program.
        program: String,
    },
    /// The system refused to start it.
    #[error("the agent command {program:?} could not be started: {reason}")]
    NotStarted {
        /// The program.
        program: String,
        /// The system's error message.
        reason: String,
    },
    /// The working directory does not exist.
    #[error("cannot start the agent {agent:?} in {cwd}: the directory is not there")]
    NoDirectory {
        /// The agent.
        agent: String,
        /// The directory.
        cwd: String,
    },
    /// The path of a record's directory no longer leads to the directory the record was created in. Nothing was
    /// started.
    #[error("the session {record} was created in {real_cwd}, {} {now}", path_of(cwd, real_cwd))]
    DirectoryMoved {
        /// The record.
        record: RecordId,
        /// The path as it was given.
        cwd: AbsolutePath,
        /// Where it led when the record was created.
        real_cwd: AbsolutePath,
        /// Where it leads now, as text.
        now: String,
    },
    /// Its working directory or an additional directory cannot be looked up. Nothing was started.
    #[error("cannot start the agent {agent:?} with the directory {directory}: {reason}")]
    SilentDirectory {
        /// The agent.
        agent: String,
        /// The directory.
        directory: String,
        /// Why.
        reason: String,
    },
    /// It did not start in time.
    #[error("the agent {agent:?} {missed} within {} s{}", limit.as_secs_f32(), output_suffix(output))]
    SlowStart {
        /// The agent.
        agent: String,
        /// What it did not do in time.
        missed: MissedDeadline,
        /// The time limit.
        limit: Duration,
        /// Its last lines on stderr, or the garbage it printed on stdout.
        output: Vec<String>,
    },
    /// It ended before it answered `initialize`.
    #[error("the agent {agent:?} ended before it answered initialize ({how}){}", output_suffix(output))]
    ExitedAtOnce {
        /// The agent.
        agent: String,
        /// Its exit code or signal.
        how: String,
        /// Its last lines on stderr, or the garbage it printed on stdout.
        output: Vec<String>,
    },
    /// It does not behave like an ACP agent.
    #[error("the agent {agent:?} does not seem to speak the Agent Client Protocol: {sign}")]
    NotAcp {
        /// The agent.
        agent: String,
        /// The evidence.
        sign: String,
    },
    /// It is on another machine that cannot be reached.
    #[error("the agent {agent:?} on another machine cannot be reached{}", output_suffix(output))]
    NotReached {
        /// The agent.
        agent: String,
        /// The output of the process that connects to it.
        output: Vec<String>,
    },
    /// It speaks a protocol version that we do not.
    #[error("the agent {agent:?} answered protocol version {answered}, and was asked for {requested}")]
    Version {
        /// The agent.
        agent: String,
        /// The requested version, which allows an older answer too.
        requested: u16,
        /// What it answered.
        answered: String,
    },
    /// It does not support the requested protocol version or an older one.
    #[error("the agent {agent:?} does not speak protocol version {requested}, but {supported}")]
    VersionRefused {
        /// The agent.
        agent: String,
        /// The requested version.
        requested: u16,
        /// The versions it supports, as text.
        supported: String,
        /// The error object as received.
        acp: Arc<str>,
    },
    /// It ended while it was needed.
    #[error("the agent {agent:?} died ({how}){}", output_suffix(output))]
    Died {
        /// The agent.
        agent: String,
        /// Its exit code or signal.
        how: String,
        /// Its last lines on stderr.
        output: Vec<String>,
    },
    /// It sends more than the limit.
    #[error("the agent {agent:?} sent more than {limit} bytes {during} and was stopped")]
    Flooded {
        /// The agent.
        agent: String,
        /// How much it may send.
        limit: u64,
        /// What it was doing.
        during: String,
    },
    /// It left a request unanswered.
    #[error("the agent {agent:?} did not answer {method} in time")]
    Unresponsive {
        /// The agent.
        agent: String,
        /// The request.
        method: String,
    },
    /// Its answer is not of the protocol's shape.
    #[error("the agent {agent:?} answered {method} with something else than the protocol says: {problem}")]
    BadAnswer {
        /// The agent.
        agent: String,
        /// The request.
        method: String,
        /// What is wrong with the answer.
        problem: String,
    },
    /// It gave a new session the id of a live session.
    #[error("the agent {agent:?} answered session/new with the id {session} of a session that is live")]
    SessionIdTaken {
        /// The agent.
        agent: String,
        /// The id.
        session: AcpSessionId,
    },
    /// The session to restore is also the session of another live record. Nothing was sent.
    #[error("the session {session} of the agent {agent:?} is in use by the record {record}")]
    SessionInUse {
        /// The agent.
        agent: String,
        /// The session.
        session: AcpSessionId,
        /// The record that is live on it.
        record: RecordId,
    },
    /// It answered with an error.
    #[error("the agent {agent:?} refused {method}: {message} ({code})")]
    Refused {
        /// The agent.
        agent: String,
        /// The request.
        method: String,
        /// The error's code.
        code: i64,
        /// The error's message and its data, in one line.
        message: String,
        /// The parameter that the agent rejects, if it names one.
        field: Option<Box<str>>,
        /// The error object as received.
        acp: Arc<str>,
        /// What the error means for a session.
        meaning: ErrorMeaning,
    },
    /// It is an acpx, possibly on another machine, whose host ended during the turn.
    #[error(
        "the turn was interrupted where the agent {agent:?} is, and may be done there in part: {message}"
    )]
    InterruptedThere {
        /// The agent.
        agent: String,
        /// Its error message.
        message: String,
        /// The error object as received.
        acp: Arc<str>,
    },
    /// It offers logins, no credential is set for any, and the policy is to fail then.
    #[error("the agent {agent:?} offers logins, and there is no credential for any of them: {login_methods}")]
    NoCredential {
        /// The agent.
        agent: String,
        /// The login methods, as text.
        login_methods: String,
    },
    /// It did not restore the session, and a fresh one may not take its place.
    #[error("the agent {agent:?} did not restore the session {session}: {}", cause.as_ref().map_or_else(|| reason.clone(), ToString::to_string))]
    NotRestored {
        /// The agent.
        agent: String,
        /// The session, which the record keeps.
        session: AcpSessionId,
        /// Why not, as the lineage would name it.
        reason: String,
        /// The agent's refusal, if it made one.
        cause: Option<Box<RestoreError>>,
    },
    /// It does not support a given MCP server. Nothing was sent.
    #[error("the agent {agent:?} cannot take the MCP server {server:?}: it does not advertise {capability}")]
    McpUnsupported {
        /// The agent.
        agent: String,
        /// Which server of the list, from 0.
        index: usize,
        /// The server.
        server: String,
        /// The capability it lacks, as its version of the protocol names it.
        capability: std::borrow::Cow<'static, str>,
    },
    /// It supports no directories in addition to the working directory, and some were given. Nothing was sent.
    #[error(
        "the agent {agent:?} takes no additional directories: it does not advertise sessionCapabilities.additionalDirectories"
    )]
    DirectoriesUnsupported {
        /// The agent.
        agent: String,
    },
    /// The requested session has another working directory than the request.
    #[error("the agent {agent:?} says that the session {session} works in {cwd}")]
    WorksElsewhere {
        /// The agent.
        agent: String,
        /// The session.
        session: AcpSessionId,
        /// The session's working directory.
        cwd: String,
    },
    /// It does not offer the method, or not in this session. Nothing was sent.
    #[error("the agent {agent:?} does not offer {method}")]
    NotOffered {
        /// The agent.
        agent: String,
        /// The method.
        method: String,
    },
    /// A request that cannot be sent to any agent. Nothing was sent.
    #[error("the request {method} cannot be sent: {problem}")]
    BadRequest {
        /// Its method.
        method: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A prompt that cannot be sent to any agent. Nothing was sent.
    #[error("the prompt cannot be sent: {problem}")]
    BadPrompt {
        /// What is wrong with it.
        problem: String,
    },
    /// It does not support a given content block. Nothing was sent.
    #[error("the agent {agent:?} cannot take prompt[{index}] ({kind}): it does not advertise {capability}")]
    ContentUnsupported {
        /// The agent.
        agent: String,
        /// Which block, from 0.
        index: usize,
        /// The block's type.
        kind: String,
        /// The capability it lacks, as its version of the protocol names it.
        capability: &'static str,
    },
    /// It requested a permission that no client could answer, and the policy is to fail then.
    #[error("the agent {agent:?} asked for a permission and no client could answer: {what}")]
    NoResponder {
        /// The agent.
        agent: String,
        /// The requested action, in the agent's words or by its kind.
        what: String,
    },
}

/// What an agent's error means for the session it was about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorMeaning {
    /// The agent no longer has the session.
    Lost,
    /// The agent does not have the method; the error means nothing for the session.
    Unsupported,
    /// Another process holds the session. It is not lost.
    BusyElsewhere,
    /// The agent wants a login first. The session is not lost.
    LoginNeeded,
    /// A program that the agent runs the session in has ended. Another process of the agent can restore the session.
    WorkerDied,
    /// Anything else.
    Broken,
}

impl AgentError {
    /// The stable code of this error.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::NotFound { .. } => ErrorCode::AgentNotFound,
            Self::NotExecutable { .. } => ErrorCode::AgentNotExecutable,
            Self::NotStarted { .. } => ErrorCode::AgentNotStarted,
            Self::NoDirectory { .. } => ErrorCode::BadDirectory,
            Self::DirectoryMoved { .. } => ErrorCode::SessionDirectoryMoved,
            Self::SilentDirectory { .. } => ErrorCode::DirectorySilent,
            Self::SlowStart { .. } => ErrorCode::AgentStartTimeout,
            Self::ExitedAtOnce { .. } => ErrorCode::AgentExitedAtStart,
            Self::NotAcp { .. } => ErrorCode::AgentNotAcp,
            Self::NotReached { .. } => ErrorCode::RemoteLost,
            Self::Version { .. } | Self::VersionRefused { .. } => ErrorCode::AgentProtocolVersion,
            Self::Died { .. } => ErrorCode::AgentDied,
            Self::Flooded { .. } => ErrorCode::AgentFlooded,
            Self::Unresponsive { .. } => ErrorCode::AgentUnresponsive,
            Self::BadAnswer { .. } => ErrorCode::AgentBadAnswer,
            Self::SessionIdTaken { .. } => ErrorCode::AgentSessionIdTaken,
            Self::SessionInUse { .. } => ErrorCode::SessionInUse,
            Self::Refused { meaning: ErrorMeaning::BusyElsewhere, .. } => ErrorCode::SessionBusyElsewhere,
            Self::Refused { meaning: ErrorMeaning::LoginNeeded, .. } | Self::NoCredential { .. } => {
                ErrorCode::AuthRequired
            }
            Self::Refused { .. } => ErrorCode::AgentRefused,
            Self::InterruptedThere { .. } => ErrorCode::Interrupted,
            Self::NotRestored { .. } => ErrorCode::SessionNotRestored,
            Self::McpUnsupported { .. } => ErrorCode::McpUnsupported,
            Self::DirectoriesUnsupported { .. } => ErrorCode::DirectoriesUnsupported,
            Self::WorksElsewhere { .. } => ErrorCode::SessionWorksElsewhere,
            Self::NotOffered { .. } => ErrorCode::NotOffered,
            Self::BadRequest { .. } => ErrorCode::BadRequest,
            Self::BadPrompt { .. } => ErrorCode::BadPrompt,
            Self::ContentUnsupported { .. } => ErrorCode::ContentUnsupported,
            Self::NoResponder { .. } => ErrorCode::PermissionPromptUnavailable,
        }
    }

    /// Whether the agent refused the request with an error that may pass: it failed inside, or could not read it.
    pub(crate) fn is_transient(&self) -> bool {
        matches!(self, Self::Refused { code: -32603 | -32700, .. })
    }

    /// The agent's own words of a refusal, or else all of the error.
    pub(crate) fn refusal_message(&self) -> String {
        match self {
            Self::Refused { message, .. } => message.clone(),
            other => other.to_string(),
        }
    }

    /// What the error means for the session it was about.
    pub fn meaning(&self) -> ErrorMeaning {
        match self {
            Self::Refused { meaning, .. } => *meaning,
            Self::NoCredential { .. } => ErrorMeaning::LoginNeeded,
            _ => ErrorMeaning::Broken,
        }
    }

    /// Whether the agent's process no longer has the session, so that only another process can serve it.
    pub(crate) fn has_no_session(&self) -> bool {
        matches!(self.meaning(), ErrorMeaning::Lost | ErrorMeaning::WorkerDied)
    }

    /// The same error with the agent's login methods in its message, if it requires a login.
    #[must_use]
    pub(crate) fn offering(mut self, login_methods: Option<&str>) -> Self {
        if let (Self::Refused { meaning: ErrorMeaning::LoginNeeded, message, .. }, Some(login_methods)) =
            (&mut self, login_methods)
        {
            message.push_str("; it offers ");
            message.push_str(login_methods);
        }
        self
    }

    /// The hint for an agent that requires a login before it lists its login methods.
    pub const LOGIN_FIRST: &str = "log in with the agent's own program, or set the variables it reads: it lists its \
         login methods only after a login";

    /// What the user can do next.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::ExitedAtOnce { output, .. } if output.is_empty() => ErrorCode::AgentNotAcp.hint(),
            Self::Refused { method, meaning: ErrorMeaning::LoginNeeded, .. } if method == "initialize" => {
                Some(Self::LOGIN_FIRST)
            }
            Self::SlowStart { missed, .. } => missed.hint().or_else(|| self.code().hint()),
            _ => self.code().hint(),
        }
    }
}

/// How a message refers to a directory's path next to its real path.
fn path_of(cwd: &AbsolutePath, real_cwd: &AbsolutePath) -> String {
    if cwd == real_cwd { "which".to_owned() } else { format!("and its path {cwd}") }
}

fn output_suffix(output: &[String]) -> String {
    if output.is_empty() { String::new() } else { format!("; it said: {}", output.join(" | ")) }
}

/// A failed restore, with the agent's error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RestoreError {
    /// The request that the agent refused; absent if another error ended the attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The code of the agent's error; absent if there was no such answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i64>,
    /// What happened, in one line.
    pub message: String,
    /// The parameter that the agent rejects, if it names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// When.
    pub at: Timestamp,
}

impl RestoreError {
    /// The failed attempt that ended with this error.
    pub fn new(error: &AgentError, at: Timestamp) -> Self {
        match error {
            AgentError::Refused { method, code, message, field, .. } => Self {
                method: Some(method.clone()),
                code: Some(*code),
                message: message.clone(),
                field: field.as_deref().map(str::to_owned),
                at,
            },
            AgentError::NotRestored { cause: Some(cause), .. } => Self { at, ..(**cause).clone() },
            other => Self { method: None, code: None, message: other.to_string(), field: None, at },
        }
    }
}

/// Part of a sentence: "session/load failed: cwd: /gone is not a directory (-32602)".
impl std::fmt::Display for RestoreError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(method) = &self.method {
            write!(f, "{method} failed: ")?;
        }
        f.write_str(&self.message)?;
        match self.code {
            Some(code) => write!(f, " ({code})"),
            None => Ok(()),
        }
    }
}

/// How to restore a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WakeOptions {
    /// What to do when the agent cannot restore it.
    pub fallback: Fallback,
    /// Whether the first prompt of a fresh session carries the conversation so far.
    pub carry_history: bool,
}

/// When a fresh ACP session may replace one that the agent does not restore. The aliases are names of earlier versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fallback {
    /// If the agent reports the session as not found, or can restore nothing. It is announced.
    #[default]
    #[serde(alias = "fresh")]
    Auto,
    /// Also after any other refusal. It is announced.
    Always,
    /// Never: the command fails and the record keeps its session.
    #[serde(alias = "refuse")]
    Never,
    /// At once, without an attempt to restore: the user requested a fresh session.
    Reset,
}

stable_names! {
    Fallback:
    Auto = "auto",
    Always = "always",
    // Turns that were stored before format 10 of the store have `refuse`.
    Never = "never" | "refuse",
    Reset = "reset",
}

/// What an agent did not do in time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MissedDeadline {
    /// Answer `initialize`.
    #[error("did not answer initialize")]
    Initialize,
    /// Answer another setup request.
    #[error("did not answer {0}")]
    Answer(Box<str>),
    /// Load the session, which it is known to refuse before this time.
    #[error("cannot load the session before {0}, and was to be ready")]
    LoadTime(Timestamp),
    /// Exit, so that it can be started again.
    #[error("had to end before it is started again, and did not")]
    End,
    /// Anything else.
    #[error("was not ready")]
    Ready,
}

impl MissedDeadline {
    /// What the user can do about it, if known.
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Initialize => Some("a first start may download a package; give the agent more time"),
            Self::LoadTime(_) => Some("try again then, or wait for longer"),
            Self::End => Some("try again: its remaining processes are being ended; or give it more time"),
            Self::Answer(_) | Self::Ready => None,
        }
    }
}

#[cfg(test)]
mod missed_tests {
    use super::*;

    #[test]
    fn a_missed_start_deadline_has_a_message_and_a_hint() {
        let said = |missed| {
            let limit = Duration::from_secs(2);
            let error = AgentError::SlowStart { agent: "a".into(), missed, limit, output: Vec::new() };
            (error.to_string(), error.hint().unwrap())
        };
        let time = "give the agent more time";
        let download = "a first start may download a package; give the agent more time";
        let at = Timestamp::from_millis(60_000).unwrap();
        let rows = [
            (MissedDeadline::Initialize, "did not answer initialize within 2 s", download),
            (MissedDeadline::Answer("session/load".into()), "did not answer session/load within 2 s", time),
            (
                MissedDeadline::LoadTime(at),
                "cannot load the session before 1970-01-01T00:01:00.000Z, and was to be ready within 2 s",
                "try again then, or wait for longer",
            ),
            (
                MissedDeadline::End,
                "had to end before it is started again, and did not within 2 s",
                "try again: its remaining processes are being ended; or give it more time",
            ),
            (MissedDeadline::Ready, "was not ready within 2 s", time),
        ];
        for (missed, words, hint) in rows {
            assert_eq!(said(missed), (format!("the agent \"a\" {words}"), hint));
        }
    }
}

#[cfg(test)]
mod wake_tests {
    use super::*;

    #[test]
    fn fallback_names_round_trip_and_refuse_is_never() {
        assert_eq!(Fallback::ALL.map(|fallback| Fallback::parse(fallback.as_str())), Fallback::ALL.map(Some));
        assert_eq!(["refuse", "other"].map(Fallback::parse), [Some(Fallback::Never), None]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ErrorMeaning;

    #[test]
    fn a_restore_error_names_method_code_message_and_field() {
        let at = Timestamp::from_millis(5).unwrap();
        let refused = AgentError::Refused {
            agent: "a".into(),
            method: "session/load".into(),
            code: -32602,
            message: "Invalid params: cwd: /gone is not a directory".into(),
            field: Some("cwd".into()),
            acp: "{}".into(),
            meaning: ErrorMeaning::Broken,
        };
        let error = RestoreError::new(&refused, at);
        let expected = "session/load failed: Invalid params: cwd: /gone is not a directory (-32602)";
        assert_eq!(error.to_string(), expected);
        let json = r#"{"method":"session/load","code":-32602,"message":"Invalid params: cwd: /gone is not a directory","field":"cwd","at":"1970-01-01T00:00:00.005Z"}"#;
        assert_eq!(serde_json::to_string(&error).unwrap(), json);
        assert_eq!(serde_json::from_str::<RestoreError>(json).unwrap(), error);
        let died = AgentError::Died { agent: "a".into(), how: "exit code 1".into(), output: Vec::new() };
        assert_eq!(RestoreError::new(&died, at).to_string(), r#"the agent "a" died (exit code 1)"#);
    }
}
