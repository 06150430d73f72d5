//! Hints: what the user can do about an error, with this program's commands and flags. A hint from the library stands
//! unless a more specific one is defined here.

use std::borrow::Cow;
use std::io;

use acpx_core::engine::SessionError;
use tokio_rustls::rustls;

use super::CliError;
use super::remedy::WHERE_SESSIONS_ARE;
use crate::http::client::RelayError;
use crate::http::tls::TlsError;

/// How to log in with an agent, as typed on a command line.
pub(crate) fn login_hint(agent: &str) -> String {
    format!("acpx {agent} auth shows how to log in, and acpx {agent} auth METHOD does it; then try again")
}

/// The hint for a time limit that passed.
pub(crate) const MORE_TIME: &str = "give it more time with --timeout";

const AGENTS_HINT: &str = "put it under \"agents\" in config.json of ACPX_HOME, or use one that is built in";

impl CliError {
    /// What the user can do next.
    pub(crate) fn hint(&self) -> Option<Cow<'static, str>> {
        match self {
            Self::Usage(error) => Some(error.hint()),
            Self::Config(error) => Some(error.hint().into()),
            Self::Agent(_) => Some(format!("{AGENTS_HINT}; acpx --help names them").into()),
            Self::Input(error) => Some(error.hint().into()),
            Self::Token(error) => Some(error.hint()),
            Self::Tls(TlsError::NoRoots) => Some("set SSL_CERT_FILE to a file of certificates in PEM".into()),
            Self::Tls(_) => Some("give a chain and its key in PEM".into()),
            Self::PublicAddress { token, tls, .. } => Some(protect(*token, *tls).into()),
            Self::OpenToPages => {
                Some("make a token with acpx token new, or name the origins one by one".into())
            }
            Self::Unshown { fate, .. } => Some((*fate).into()),
            Self::Inside { .. } => Some("ask from outside of the agent".into()),
            Self::Address(error) => Some(error.hint().into()),
            Self::Relay(error) if speaks_no_tls(error) => Some(
                "nothing speaks TLS there: use ws:// or http://, with --insecure behind the URL if it is another machine"
                    .into(),
            ),
            Self::Relay(error) => error.hint().map(Into::into),
            Self::NoneLost { name: Some(_), there, .. } if there.is_empty() => {
                Some(WHERE_SESSIONS_ARE.into())
            }
            Self::NoneLost { .. } => {
                Some("name the one to move by its id; acpx sessions list has those there are".into())
            }
            Self::SeveralLost { .. } => Some("name one of them by its id: acpx sessions move ID".into()),
            Self::NoPlace(_) => {
                Some("sessions replay --format json tells the number of every event, and of its turn".into())
            }
            Self::NoHome => Some("set ACPX_HOME or HOME".into()),
            Self::RelativeHome(_) => {
                Some("give ACPX_HOME (or HOME) from the root, as in /home/me/.acpx".into())
            }
            Self::Directory { flag, .. } => Some(format!("name a directory that exists with {flag}").into()),
            Self::HeldByNpm { pid, .. } => Some(wait_for_npm(*pid).into()),
            Self::NoId { hint, .. } => Some(hint.clone().into()),
            Self::OtherAgent { own, typed, .. } => {
                Some(format!("type acpx {own} in place of acpx {typed}, or leave the agent out").into())
            }
            Self::Session(SessionError::NoRecord(_)) => Some(WHERE_SESSIONS_ARE.into()),
            Self::NoSession { agent, name, remedy, .. } => Some(remedy.hint(agent, name.as_deref()).into()),
            Self::NoQuestion { .. } => hint_here("NO_QUESTION", None),
            Self::ExecDisabled { .. } => {
                Some("use a session, or set disableExec to false in the file".into())
            }
            Self::Listen { source, .. } => listen_hint(source.kind()).map(Into::into),
            Self::System { source, .. } => system_hint(source.kind()).map(Into::into),
            Self::Session(error) => hint_here(error.code(), error.hint()),
            Self::Store(error) => error.hint().map(Into::into),
            Self::Import(error) => error.hint().map(Into::into),
            Self::NoLogin { known, .. } if known.is_empty() => Some("it offers none".into()),
            Self::NoLogin { known, .. } => Some(format!("it offers {}", known.join(", ")).into()),
            Self::LoginFailed { .. } => Some("acpx auth lists the other ways, if there are any".into()),
            Self::NoRemoteList { .. } => {
                Some("acpx sessions list has what is kept here, whatever the agent can".into())
            }
            Self::TimedOut { .. } => Some(MORE_TIME.into()),
            Self::Told(error) => error.hint.clone().map(Into::into),
            Self::About { error, identity } if error.code() == "SESSION_NOT_RESTORED" => {
                let reset = format!("sessions reset {}", identity.record);
                error.hint().map(|hint| hint.replace("sessions reset ID", &reset).into())
            }
            Self::About { error, .. } => error.hint(),
            Self::Path(_) => Some("name another path: agents are told absolute paths as UTF-8 text".into()),
            Self::Output(error) => output_hint(error.kind()).map(Into::into),
            Self::Runtime(_) | Self::Signalled => None,
        }
    }
}

/// The hint for a session that npm acpx holds. Ending npm acpx would cancel a running turn.
fn wait_for_npm(pid: i32) -> String {
    format!(
        "wait until npm acpx has finished, and try again: it lets go some minutes after its last prompt; if no turn runs \
         there, end it now: kill {pid}"
    )
}

/// Replaces the library's hint with one that names this program's flags, if there is one.
pub(crate) fn hint_here<'a>(code: &str, hint: Option<Cow<'a, str>>) -> Option<Cow<'a, str>> {
    let said = match code {
        "SESSION_NOT_RESTORED" => {
            "run it again: the session is kept; to continue in a fresh session, put --fallback always before the words \
             (and --carry-history to tell it the conversation), or run: acpx sessions reset ID"
        }
        "TIMEOUT" => MORE_TIME,
        "QUEUE_TIMEOUT" => {
            "acpx status shows what it waited for, and acpx cancel stops a turn that came before it; or give it more time with --timeout"
        }
        "IDLE_TIMEOUT" => {
            "see whether the agent or its model is stalled, or let it be silent for longer with --idle-timeout"
        }
        "NO_QUESTION" => "acpx pending lists those that are open; one that was answered or taken back is not",
        "NO_OPTION" => "acpx pending has the options; choose one with --option",
        "PERMISSION_PROMPT_UNAVAILABLE" => {
            "allow it with --approve-all or --permission-policy, ask from a terminal, or let it wait with --non-interactive-permissions wait"
        }
        "AGENT_PROTOCOL_VERSION" => {
            "ask for another version with --protocol, or use a version of the agent that speaks the one asked for"
        }
        "AGENT_START_TIMEOUT" => return hint.map(with_time),
        _ => return hint,
    };
    Some(said.into())
}

/// Appends how to extend an agent's start time to a hint that recommends it.
fn with_time(hint: Cow<'_, str>) -> Cow<'_, str> {
    let how = match &hint {
        hint if hint.ends_with("more time") => ", with --timeout or startTimeoutSeconds in its profile",
        hint if hint.ends_with("wait for longer") => " with --timeout",
        _ => return hint,
    };
    (hint.into_owned() + how).into()
}

/// The hint for an error of a command without a record, if it differs from the usual one.
pub(crate) fn hint_without_record(code: &str) -> Option<&'static str> {
    match code {
        "AGENT_DIED" | "AGENT_UNRESPONSIVE" | "INTERRUPTED" => {
            Some("nothing was kept of it; run the command again, and the agent's own to see what it wants")
        }
        _ => None,
    }
}

/// How to add what a public address lacks.
fn protect(token: bool, tls: bool) -> &'static str {
    match (token, tls) {
        (false, false) => "make a token with acpx token new, and give --tls-cert and --tls-key",
        (false, true) => "make a token with acpx token new",
        (true, _) => "give --tls-cert and --tls-key; behind a proxy that has TLS, listen on 127.0.0.1",
    }
}

/// Whether the server replied to TLS with something else, usually because it has no TLS.
fn speaks_no_tls(error: &RelayError) -> bool {
    match error {
        RelayError::Unreachable { source, .. } => {
            let reason = source.get_ref().and_then(|reason| reason.downcast_ref::<rustls::Error>());
            matches!(reason, Some(rustls::Error::InvalidMessage(_)))
        }
        RelayError::GivenUp { why, .. } => speaks_no_tls(why),
        _ => false,
    }
}

fn listen_hint(kind: io::ErrorKind) -> Option<&'static str> {
    match kind {
        io::ErrorKind::AddrInUse => Some(
            "another program listens there; give another port with --listen, or port 0 for any that is free",
        ),
        io::ErrorKind::AddrNotAvailable => Some(
            "that is no address of this machine; 127.0.0.1 is this machine alone, and 0.0.0.0 all of its addresses",
        ),
        io::ErrorKind::PermissionDenied => Some("give a port above 1023 with --listen"),
        _ => None,
    }
}

fn system_hint(kind: io::ErrorKind) -> Option<&'static str> {
    match kind {
        io::ErrorKind::AlreadyExists => Some("name a directory that does not exist yet"),
        io::ErrorKind::NotFound => Some("make the directory above it first"),
        io::ErrorKind::NotADirectory | io::ErrorKind::PermissionDenied => {
            Some("choose another place; ACPX_HOME names the home")
        }
        _ => None,
    }
}

fn output_hint(kind: io::ErrorKind) -> Option<&'static str> {
    match kind {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Some("make room where stdout goes, or send it elsewhere")
        }
        _ => None,
    }
}
