//! Hints that depend on more than the error's code. All others are in the table of [`ErrorCode`].

use std::borrow::Cow;
use std::io;

use acpx_core::model::ErrorCode;
use tokio_rustls::rustls;

use super::CliError;
use crate::agents;
use crate::agents::UnknownAgent;
use crate::http::client::RelayError;
use crate::http::tls::TlsError;

/// How to log in with an agent, as typed on a command line.
pub(crate) fn login_hint(agent: &str) -> String {
    format!("acpx {agent} auth shows how to log in, and acpx {agent} auth METHOD does it; then try again")
}

/// The hint as typed on a command line: with the flags that the library's hint does not have.
pub(crate) fn cli_hint(code: &ErrorCode, hint: Option<impl Into<String>>) -> Option<String> {
    let hint = hint.map(Into::into);
    match code {
        ErrorCode::AgentStartTimeout => {
            hint.map(|hint| hint + ", with --timeout or startTimeoutSeconds in its profile")
        }
        _ => code.cli_hint().map(str::to_owned).or(hint),
    }
}

const DAMAGED_STORE: &str =
    "acpx verify lists all damage; acpx sessions delete with a session's whole id removes a damaged session";

impl CliError {
    /// What the user can do next.
    pub(crate) fn hint(&self) -> Option<Cow<'static, str>> {
        match self {
            Self::Usage(error) => Some(error.hint()),
            Self::Config(error) => error.hint().map(Into::into),
            Self::Agent(UnknownAgent { name, untrusted_file: Some(file), .. }) => {
                Some(agents::trust_hint(name, file).into())
            }
            Self::Input(error) => Some(error.hint()),
            Self::Token(error) => error.hint(),
            Self::Tls(TlsError::NoRoots) => Some("set SSL_CERT_FILE to a file of certificates in PEM".into()),
            Self::PublicAddress { token, tls, .. } => Some(protect(*token, *tls).into()),
            Self::NoPublicUrl { .. } => Some(
                "add --public-url with the URL that browsers use, such as https://HOST:PORT, or listen on one address"
                    .into(),
            ),
            Self::WebServerRuns { .. } => {
                Some("to change how it listens, end it with acpx web stop, and try again".into())
            }
            Self::WebServerStays { pid } => Some(format!("end it: kill -9 {pid}").into()),
            Self::OpenToPages => {
                Some("create a token with acpx token new, or name the origins one by one".into())
            }
            Self::Unshown { fate, .. } => Some((*fate).into()),
            Self::Address(error) => Some(error.hint().into()),
            Self::Relay(error) if lacks_tls(error) => Some(
                "the server does not use TLS: use ws:// or http://, and add --insecure if it is another machine"
                    .into(),
            ),
            Self::Relay(error) => error.hint().map(Into::into),
            Self::NoneLost { name, there, .. } if name.is_none() || !there.is_empty() => {
                Some("name the one to move by its id; acpx sessions list shows the sessions there are".into())
            }
            Self::SeveralLost { .. } => Some("name one of them by its id: acpx sessions move ID".into()),
            Self::AmbiguousId { .. } => Some("type more characters of the id".into()),
            Self::NoSuchPosition(_) => {
                Some("sessions replay --format json shows the number of every event, and of its turn".into())
            }
            Self::ArchiveName { .. } => Some("choose another name, with --name NAME; nothing was imported".into()),
            Self::ArchiveDirectory { .. } => Some(
                "choose the session's directory, with --cwd DIR: its agent may use the files there; nothing was imported"
                    .into(),
            ),
            Self::DamagedStore { .. } => Some(DAMAGED_STORE.into()),
            Self::Unverifiable { code, .. } => Some(unverifiable_hint(code).into()),
            Self::NoHome => Some("set ACPX_HOME or HOME".into()),
            Self::RelativeHome(_) => {
                Some("set ACPX_HOME (or HOME) to an absolute path, as in /home/me/.acpx".into())
            }
            Self::Directory { flag, .. } => Some(format!("name a directory that exists with {flag}").into()),
            Self::HeldByNpm { pid, .. } => Some(wait_for_npm(*pid).into()),
            Self::NoId { hint, .. } => Some(hint.clone().into()),
            Self::OtherAgent { own, typed, .. } => {
                Some(format!("type acpx {own} in place of acpx {typed}, or leave the agent out").into())
            }
            Self::NoSession { agent, name, remedy, .. } => Some(remedy.hint(agent, name.as_deref()).into()),
            Self::Listen { source, .. } => listen_hint(source.kind()).map(Into::into),
            Self::System { source, .. } => system_hint(source.kind()).map(Into::into),
            Self::Store(error) => cli_hint(&error.code(), error.hint()).map(Into::into),
            Self::Session(error) => cli_hint(&error.code(), error.hint()).map(Into::into),
            Self::NoLogin { known, .. } if known.is_empty() => Some("it offers none".into()),
            Self::NoLogin { known, .. } => Some(format!("it offers {}", known.join(", ")).into()),
            Self::PromptSent { id } => Some(format!("acpx cancel {id} stops it").into()),
            Self::Remote(error) => error.hint.clone().map(Into::into),
            Self::About { error, identity } => {
                error.hint().map(|hint| error.code().fill_record(&hint, &identity.record).into())
            }
            Self::Output(error) => output_hint(error.kind()).map(Into::into),
            _ => cli_hint(&self.code(), self.code().hint()).map(Into::into),
        }
    }
}

/// The hint for a session that npm acpx holds. Ending npm acpx would cancel a running turn.
fn wait_for_npm(pid: i32) -> String {
    format!(
        "wait until npm acpx has finished, and try again: it exits some minutes after its last prompt; if no turn runs \
         there, end it now: kill {pid}"
    )
}

/// What a file that cannot be verified may be.
fn unverifiable_hint(code: &ErrorCode) -> &'static str {
    match code {
        ErrorCode::StoreCorrupt => "if acpx backup wrote this file, it is damaged: use another backup",
        _ => "name a backup that acpx backup wrote; without a file, acpx verify reads your stored sessions",
    }
}

/// How to add what a public address lacks.
fn protect(token: bool, tls: bool) -> &'static str {
    match (token, tls) {
        (false, false) => "create a token with acpx token new, and give --tls-cert and --tls-key",
        (false, true) => "create a token with acpx token new",
        (true, _) => "give --tls-cert and --tls-key; behind a proxy with TLS, listen on 127.0.0.1",
    }
}

/// Whether the server replied to TLS with something else, usually because it has no TLS.
fn lacks_tls(error: &RelayError) -> bool {
    match error {
        RelayError::Unreachable { source, .. } => {
            let reason = source.get_ref().and_then(|reason| reason.downcast_ref::<rustls::Error>());
            matches!(reason, Some(rustls::Error::InvalidMessage(_)))
        }
        RelayError::GivenUp { why, .. } => lacks_tls(why),
        _ => false,
    }
}

fn listen_hint(kind: io::ErrorKind) -> Option<&'static str> {
    match kind {
        io::ErrorKind::AddrInUse => Some(
            "another program listens there; choose another port with --listen, or port 0 for any free one",
        ),
        io::ErrorKind::AddrNotAvailable => Some(
            "this machine does not have that address; 127.0.0.1 listens locally only, and 0.0.0.0 on all addresses",
        ),
        io::ErrorKind::PermissionDenied => Some("give a port above 1023 with --listen"),
        _ => None,
    }
}

fn system_hint(kind: io::ErrorKind) -> Option<&'static str> {
    match kind {
        io::ErrorKind::AlreadyExists => Some("name a directory that does not exist yet"),
        io::ErrorKind::NotFound => Some("create its parent directory first"),
        io::ErrorKind::NotADirectory | io::ErrorKind::PermissionDenied => {
            Some("choose another path; ACPX_HOME sets the home")
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Some("make room on its disk, which df -h shows, or choose another path")
        }
        _ => None,
    }
}

fn output_hint(kind: io::ErrorKind) -> Option<&'static str> {
    match kind {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Some("free space where stdout goes, or redirect it")
        }
        _ => None,
    }
}
