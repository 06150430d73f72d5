//! The stable codes of all errors, of the library and of the program, in one table: the text of each code, its class,
//! whether a retry may succeed, and the usual hint. `docs/reference/errors.md` describes them, and a test compares it
//! with [`ErrorCode::ALL`].

use std::fmt;

use serde::{Deserialize, Serialize};

use super::RecordId;

/// The class of an error, which decides the exit code of a command. The names are those of npm acpx.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorClass {
    /// The session or the pending request does not exist.
    NoSession,
    /// A time limit passed.
    Timeout,
    /// Every permission that the agent requested was denied.
    PermissionDenied,
    /// A permission was requested, and no client could answer.
    PromptUnavailable,
    /// The configuration forbids `exec`.
    ExecDisabled,
    /// Any other failure.
    Runtime,
    /// A signal ended the command.
    Interrupted,
    /// The command line is invalid.
    Usage,
}

impl ErrorClass {
    /// The class's name, `acpxCode` in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoSession => "NO_SESSION",
            Self::Timeout => "TIMEOUT",
            Self::PermissionDenied => "PERMISSION_DENIED",
            Self::PromptUnavailable => "PERMISSION_PROMPT_UNAVAILABLE",
            Self::ExecDisabled => "EXEC_DISABLED",
            Self::Runtime | Self::Interrupted => "RUNTIME",
            Self::Usage => "USAGE",
        }
    }

    /// The class's JSON-RPC error code.
    pub fn rpc_code(self) -> i32 {
        match self {
            Self::NoSession => -32002,
            Self::Timeout => -32070,
            Self::PermissionDenied => -32071,
            Self::PromptUnavailable => -32072,
            Self::ExecDisabled | Self::Runtime | Self::Interrupted => -32603,
            Self::Usage => -32602,
        }
    }
}

/// Defines [`ErrorCode`] from rows of `Variant "TEXT" Class`, then `retry` if the same request may succeed later without
/// any change, then `=> "hint"` if the code alone determines what the user can do next. A second hint is for the command
/// line, if it names flags that other clients do not have.
macro_rules! error_codes {
    ($($name:ident $text:literal $class:ident $($retry:ident)? $(=> $hint:expr $(, $cli:expr)?)?;)*) => {
        /// The stable code of an error. Codes are never renamed and never reused for another error.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(from = "String", into = "String")]
        pub enum ErrorCode {
            $(#[doc = concat!("`", $text, "`")] $name,)*
            /// A code of another version of acpx, or of npm acpx, in stored or received data.
            Other(Box<str>),
        }

        impl ErrorCode {
            /// Every code of this version.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The code as text.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$name => $text,)*
                    Self::Other(text) => text,
                }
            }

            /// The class of the error.
            pub fn class(&self) -> ErrorClass {
                match self {
                    $(Self::$name => ErrorClass::$class,)*
                    Self::Other(_) => ErrorClass::Runtime,
                }
            }

            /// Whether the same request may succeed later without any change.
            pub fn is_retryable(&self) -> bool {
                match self {
                    $(Self::$name => error_codes!(@retry $($retry)?),)*
                    Self::Other(_) => false,
                }
            }

            /// What the user can do next, if the code alone determines it.
            pub fn hint(&self) -> Option<&'static str> {
                match self {
                    $(Self::$name => error_codes!(@hint $($hint)?),)*
                    Self::Other(_) => None,
                }
            }

            /// The same as typed on the command line, if it differs.
            pub fn cli_hint(&self) -> Option<&'static str> {
                match self {
                    $(Self::$name => error_codes!(@hint $($($cli)?)?),)*
                    Self::Other(_) => None,
                }
            }
        }

        impl From<&str> for ErrorCode {
            fn from(text: &str) -> Self {
                match text {
                    $($text => Self::$name,)*
                    other => Self::Other(other.into()),
                }
            }
        }
    };
    (@retry retry) => { true };
    (@retry) => { false };
    (@hint $hint:expr) => { Some($hint) };
    (@hint) => { None };
}

const REPORT_TO_AGENT: &str = "report it to the agent's developers; the stored conversation is unchanged";
const RESTORED_BY_PROMPT: &str = "the conversation is kept; the next prompt restores it";
const WRITABLE_HOME: &str = "check that you may write there, or set ACPX_HOME to another directory";
const OWN_RUNTIME_DIRECTORY: &str = "set XDG_RUNTIME_DIR to a directory that is yours alone; if no host runs, remove \
     host.lock in the home of acpx";
const RESTART_HOST: &str = "`acpx host restart` starts another host; stored sessions stay";
const AFTER_TURN: &str = "wait for the running turn, or cancel it";

error_codes! {
    // Agents.
    AgentNotFound "AGENT_NOT_FOUND" Runtime
        => "install the agent or give its full path; it is searched for in the PATH that the agent gets";
    AgentNotExecutable "AGENT_NOT_EXECUTABLE" Runtime
        => "make it executable (chmod +x), or name the program that runs it";
    AgentNotStarted "AGENT_NOT_STARTED" Runtime => "fix what the system reports, then try again";
    AgentStartTimeout "AGENT_START_TIMEOUT" Timeout retry
        => "give the agent more time";
    AgentExitedAtStart "AGENT_EXITED_AT_START" Runtime
        => "do what its last output asks for; if there is none, run its command by hand";
    AgentNotAcp "AGENT_NOT_ACP" Runtime
        => "check its command: many programs speak ACP only with an argument such as acp or --acp";
    AgentProtocolVersion "AGENT_PROTOCOL_VERSION" Runtime
        => "request another version, or use a version of the agent that supports this one",
           "request another version with --protocol, or use a version of the agent that supports this one";
    AgentDied "AGENT_DIED" Runtime retry => RESTORED_BY_PROMPT;
    AgentFlooded "AGENT_FLOODED" Runtime => REPORT_TO_AGENT;
    AgentUnresponsive "AGENT_UNRESPONSIVE" Timeout retry => RESTORED_BY_PROMPT;
    AgentBadAnswer "AGENT_BAD_ANSWER" Runtime => REPORT_TO_AGENT;
    AgentSessionIdTaken "AGENT_SESSION_ID_TAKEN" Runtime => REPORT_TO_AGENT;
    AgentRefused "AGENT_REFUSED" Runtime
        => "this is the agent's own message; do what it asks for, then try again";
    AgentUnknown "AGENT_UNKNOWN" Runtime
        => "put it under \"agents\" in config.json of ACPX_HOME, or use one that is built in; acpx --help names them";
    AuthRequired "AUTH_REQUIRED" Runtime
        => "log in by one of the agent's methods or with its own program, then try again";
    ContentUnsupported "CONTENT_UNSUPPORTED" Usage => "leave it out, and write in the prompt where it is";
    DirectoriesUnsupported "DIRECTORIES_UNSUPPORTED" Runtime
        => "leave the additional directories out, or start in one that contains them all";
    DirectorySilent "DIRECTORY_SILENT" Runtime retry
        => "check its disk, or leave the directory out; the next prompt tries again";
    ListUnsupported "LIST_UNSUPPORTED" Runtime => "acpx sessions list shows the sessions that are stored here";
    LoginFailed "LOGIN_FAILED" Runtime => "acpx auth lists the agent's other login methods, if there are any";
    McpCommandNotFound "MCP_COMMAND_NOT_FOUND" Runtime => "install it, or give its full path";
    McpUnsupported "MCP_UNSUPPORTED" Runtime => "leave the server out, or use a stdio one";
    NotOffered "NOT_OFFERED" Runtime;
    PermissionDenied "PERMISSION_DENIED" PermissionDenied;
    PermissionPromptUnavailable "PERMISSION_PROMPT_UNAVAILABLE" PromptUnavailable
        => "allow it by the turn's policy, or stay connected to answer it",
           "allow it with --approve-all or --permission-policy, prompt from a terminal, or let it wait with \
            --non-interactive-permissions wait";
    RemoteLost "REMOTE_LOST" Runtime
        => "do what the message says; the other machine must be running and accept the connection";

    // Sessions and turns.
    BadDirectory "BAD_DIRECTORY" Runtime => "create the directory again; the session belongs to it";
    BadPrompt "BAD_PROMPT" Usage;
    CostLimit "COST_LIMIT" Runtime
        => "raise the limit, or start a new session",
           "raise the limit that is reached: --max-cost 10 for a turn, --max-cost 10/session for its session, or maxCost in \
            config.json";
    IdleTimeout "IDLE_TIMEOUT" Timeout
        => "check whether the agent or its model is stalled, or allow a longer silence; the next prompt continues",
           "check whether the agent or its model is stalled, or allow a longer silence with --idle-timeout";
    Interrupted "INTERRUPTED" Runtime => "the output until then is kept; prompt again to continue";
    NoPrompt "NO_PROMPT" NoSession
        => "list the queued prompts; one that has ended is not there",
           "acpx queue list shows the queued prompts; one that has ended is not there";
    NoSession "NO_SESSION" NoSession => "acpx sessions list shows the sessions there are";
    NotInLineage "NOT_IN_LINEAGE" Runtime
        => "acpx sessions show ID lists the ACP sessions that the record has had";
    QueueFull "QUEUE_FULL" Runtime retry => AFTER_TURN;
    QueueOwnerOverloaded "QUEUE_OWNER_OVERLOADED" Runtime retry
        => AFTER_TURN,
           "acpx queue list shows what waits, and acpx cancel stops the running turn; queueMaxDepth in config.json allows more";
    QueueRequestTooLarge "QUEUE_REQUEST_TOO_LARGE" Runtime
        => "send a shorter prompt, or raise ACPX_QUEUE_MAX_REQUEST_BYTES";
    QueueTimeout "QUEUE_TIMEOUT" Timeout retry
        => "cancel a turn that came before it, or give the prompt more time",
           "acpx status -s ID shows what it waited for, and acpx cancel -s ID stops a turn that came before it; or give \
            it more time with --timeout";
    RequestExists "REQUEST_EXISTS" Runtime => "give each prompt a request id of its own";
    SessionBusy "SESSION_BUSY" Runtime retry => AFTER_TURN;
    SessionBusyElsewhere "SESSION_BUSY_ELSEWHERE" Runtime retry
        => "close the session where it is open, then try again";
    SessionClosing "SESSION_CLOSING" Runtime retry;
    SessionDirectoryMoved "SESSION_DIRECTORY_MOVED" Runtime
        => "put the directory back, or move the session to where its project is now: acpx sessions move ID --cwd DIR";
    SessionInUse "SESSION_IN_USE" Runtime => "close the other record first, by its id: acpx sessions close ID";
    SessionNotRestored "SESSION_NOT_RESTORED" Runtime retry
        => "try again: the session is kept; to continue in a fresh session, run: acpx sessions reset ID",
           "try again: the session is kept; to continue in a fresh session, add --fallback always (and \
            --carry-history to pass on the conversation), or run: acpx sessions reset ID";
    SessionTooLong "SESSION_TOO_LONG" Runtime => "start a new session";
    SessionWorksElsewhere "SESSION_WORKS_ELSEWHERE" Runtime => "open the session in its own directory";
    SettingBadValue "SETTING_BAD_VALUE" Runtime;
    SettingNotOffered "SETTING_NOT_OFFERED" Runtime;
    ShutDown "SHUT_DOWN" Runtime retry;
    Timeout "TIMEOUT" Timeout => "give the turn more time", "give it more time with --timeout";
    TokenLimit "TOKEN_LIMIT" Runtime
        => "raise the limit, or start a new session",
           "raise the limit that is reached: --max-tokens 1M for a turn, --max-tokens 1M/session for its session, or \
            maxTokens in config.json";

    // The store and the import.
    HeldByNpmAcpx "HELD_BY_NPM_ACPX" Runtime retry;
    AgentMismatch "AGENT_MISMATCH" Usage
        => "choose the agent, as in acpx AGENT sessions import FILE; a file cannot name a command to run";
    ArchiveNotRead "ARCHIVE_NOT_READ" Usage => "check the path; an archive is a regular file that you can read";
    ExportNotWritten "EXPORT_NOT_WRITTEN" Runtime
        => "choose another file, in a directory that you may write to and whose disk has room",
           "choose another file with --output, in a directory that you may write to and whose disk has room";
    InvalidArchive "INVALID_ARCHIVE" Usage
        => "export the session again, with sessions export of acpx or npm acpx; nothing was imported";
    SessionProviderExists "SESSION_PROVIDER_EXISTS" Usage
        => "continue that session; to replace it by the archive, delete it first with acpx sessions delete ID";
    SessionScopeExists "SESSION_SCOPE_EXISTS" Usage
        => "import it under another name, or for another directory",
           "import it under another name with --name, or for another directory with --cwd";
    UnsupportedFormatVersion "UNSUPPORTED_FORMAT_VERSION" Usage
        => "use the program that wrote it, or a newer acpx; nothing was imported";
    ImportDirectory "IMPORT_DIRECTORY" Runtime
        => "name the sessions directory of npm acpx, usually ~/.acpx/sessions";
    IndexFailed "INDEX_FAILED" Runtime
        => "make room on its disk, or create the index again: acpx index rebuild; no conversation is affected";
    NoSink "NO_SINK" Usage => "acpx notify status names the sinks that config.json has under notify";
    NotificationFailed "NOTIFICATION_FAILED" Runtime
        => "check the sink's entry under notify in config.json, and that its receiver is there";
    TranscriptNotRead "TRANSCRIPT_NOT_READ" Runtime
        => "check that the file exists and is yours; acpx doctor names the transcripts that cannot be read";
    LeaseLost "LEASE_LOST" Runtime => "the other host continues the session";
    LineageRewritten "LINEAGE_REWRITTEN" Runtime;
    RecordExists "RECORD_EXISTS" Runtime;
    ScopeTaken "SCOPE_TAKEN" Runtime => "close that session first, or choose another name";
    StoreClosed "STORE_CLOSED" Runtime;
    StoreCorrupt "STORE_CORRUPT" Runtime
        => "the file was left as it is; check whether the disk reports errors, then restore a copy, or move it away \
            with its -wal and -shm files to begin a new store";
    StoreFailed "STORE_FAILED" Runtime => "fix the cause, then try again; what was acknowledged is safe";
    StoreFull "STORE_FULL" Runtime
        => "make room on its disk, which df -h shows, or set ACPX_HOME to another; what was acknowledged is safe";
    StoreGone "STORE_GONE" Runtime
        => "put it back, then run the command again: another host starts with what is there";
    StoreLocked "STORE_LOCKED" Runtime retry => "end the other process, then try again";
    StoreNewer "STORE_NEWER" Runtime
        => "use the newer acpx; this one reads only what it knows and writes nothing";
    StoreNotOpened "STORE_NOT_OPENED" Runtime => "check that the directory exists and is yours, and that its disk is not read-only";
    StoreOlder "STORE_OLDER" Runtime => "open it once for writing, which brings it up to date";
    StoreOnNetwork "STORE_ON_NETWORK" Runtime => "set ACPX_HOME to a directory on a local disk";
    StoreOutOfOrder "STORE_OUT_OF_ORDER" Runtime;
    StoreReadOnly "STORE_READ_ONLY" Runtime;

    // The host and its clients.
    BadRequest "BAD_REQUEST" Runtime;
    HostBadAnswer "HOST_BAD_ANSWER" Runtime => RESTART_HOST;
    HostDirectory "HOST_DIRECTORY" Runtime => WRITABLE_HOME;
    HostDirectoryUnsafe "HOST_DIRECTORY_UNSAFE" Runtime => OWN_RUNTIME_DIRECTORY;
    HostLock "HOST_LOCK" Runtime => WRITABLE_HOME;
    HostLost "HOST_LOST" Runtime retry => "try again: a new host is started, and everything stored is there";
    HostNewer "HOST_NEWER" Runtime => "use that version of acpx, or `acpx host stop` with it first";
    HostNotStarted "HOST_NOT_STARTED" Runtime;
    HostOlder "HOST_OLDER" Runtime => "`acpx host restart` replaces it; running turns are interrupted";
    HostRefused "HOST_REFUSED" Runtime;
    HostSilent "HOST_SILENT" Runtime retry => RESTART_HOST;
    HostSocket "HOST_SOCKET" Runtime;
    HostStranger "HOST_STRANGER" Runtime => OWN_RUNTIME_DIRECTORY;
    NoOption "NO_OPTION" Usage
        => "choose one of the listed options, by a word that only it has",
           "acpx pending lists the options; choose one with --option, or fill in a form with acpx approve on a terminal";
    NoQuestion "NO_QUESTION" NoSession
        => "choose one of the listed ones; one that was answered or withdrawn is closed",
           "acpx pending lists the open ones; one that was answered or withdrawn is closed";
    NoTurn "NO_TURN" NoSession => "acpx sessions history shows the turns that the session has had";
    NotAllowed "NOT_ALLOWED" Runtime => "do it from outside the agent";
    SessionNotLoaded "SESSION_NOT_LOADED" Runtime
        => "resume it first, with session/resume, or with session/load in version 1";
    TooManySessions "TOO_MANY_SESSIONS" Runtime => "close a session, or wait until one is parked";

    // The command line and remote access.
    BadHome "BAD_HOME" Runtime;
    BadPath "BAD_PATH" Runtime => "use another path: agents get absolute paths as UTF-8 text";
    BadUrl "BAD_URL" Usage;
    ConfigInvalid "CONFIG_INVALID" Runtime => "correct the file, or move it away";
    ConfigUnreadable "CONFIG_UNREADABLE" Runtime => "check that it is a file, and yours";
    ConfigUntrusted "CONFIG_UNTRUSTED" Runtime => "acpx trust shows what the file sets, and allows it";
    ExecDisabled "EXEC_DISABLED" ExecDisabled => "use a session, or set disableExec to false in the file";
    FlowInNpmAcpx "FLOW_IN_NPM_ACPX" Usage;
    NoProjectFile "NO_PROJECT_FILE" Usage
        => "go to the project's directory",
           "go to the project's directory, or name it with --cwd";
    NoToken "NO_TOKEN" Runtime;
    OutputFailed "OUTPUT_FAILED" Runtime;
    PublicAddress "PUBLIC_ADDRESS" Usage;
    Runtime "RUNTIME" Runtime;
    Signalled "SIGNALLED" Interrupted;
    PrivateUnusable "PRIVATE_UNUSABLE" Runtime
        => "correct private.json in the home; until then acpx mcp shows no session";
    System "SYSTEM" Runtime;
    TlsUnusable "TLS_UNUSABLE" Runtime => "give a certificate chain and its key in PEM";
    TokensUnusable "TOKENS_UNUSABLE" Runtime;
    TooManyTokens "TOO_MANY_TOKENS" Runtime
        => "remove tokens.json from the home when none of its tokens is needed any more";
    TrustUnusable "TRUST_UNUSABLE" Runtime => "correct trusted.json in the home, or remove it; then no file is trusted";
    Usage "USAGE" Usage;
}

impl ErrorCode {
    /// The hint with the record's id in place of `ID`, for the codes whose hint has a command for the record.
    pub fn fill_record(&self, hint: &str, record: &RecordId) -> String {
        let has_record =
            matches!(self, Self::SessionDirectoryMoved | Self::SessionNotRestored | Self::QueueTimeout);
        if has_record { hint.replace(" ID", &format!(" {record}")) } else { hint.to_owned() }
    }

    /// What the user can do next where nothing is stored, so a prompt cannot restore it; `None` if the usual hint
    /// applies.
    pub fn hint_without_record(&self) -> Option<&'static str> {
        match self {
            Self::AgentDied | Self::AgentUnresponsive | Self::Interrupted => Some(
                "nothing was stored; try again, or run the agent's command by hand to see what is wrong with it",
            ),
            Self::SessionNotRestored => {
                Some("no session was opened; do what the agent's message asks for, then try again")
            }
            Self::DirectorySilent => {
                Some("no session was opened; check the directory's disk, or name another directory")
            }
            _ => None,
        }
    }
}

impl From<String> for ErrorCode {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl From<ErrorCode> for String {
    fn from(code: ErrorCode) -> Self {
        code.as_str().to_owned()
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_code_is_read_back_from_its_text() {
        for code in ErrorCode::ALL {
            assert_eq!(ErrorCode::from(code.as_str()), *code);
        }
    }

    #[test]
    fn flags_are_only_in_hints_for_the_command_line() {
        for code in ErrorCode::ALL {
            // These have a whole command, or an agent's own flag.
            let is_exempt = matches!(
                code,
                ErrorCode::SessionDirectoryMoved | ErrorCode::AgentUnknown | ErrorCode::AgentNotAcp
            );
            let hint = code.hint().unwrap_or_default();
            assert!(is_exempt || !hint.contains("--"), "{code}: {hint}");
        }
    }

    #[test]
    fn an_unknown_error_code_keeps_its_text_and_is_a_runtime_error() {
        let code: ErrorCode = serde_json::from_str(r#""SOMETHING_NEW""#).unwrap();
        assert_eq!(serde_json::to_string(&code).unwrap(), r#""SOMETHING_NEW""#);
        assert_eq!((code.class(), code.is_retryable(), code.hint()), (ErrorClass::Runtime, false, None));
    }
}
