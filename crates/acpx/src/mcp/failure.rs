//! Why an MCP server cannot be used, in one line for the user.
//!
//! A failure may quote a server's text, so it is masked and truncated before it is shown. It contains host and port but
//! not the rest of a URL, which may carry tokens.

use std::error::Error;
use std::time::Duration;

use acpx_core::model::Secrets;
use rmcp::ErrorData;
use rmcp::service::ServiceError;
use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::StreamableHttpError;

use super::http::HttpError;

/// Maximum length of a quoted text.
const MAX_WORDS: usize = 300;
/// Marks a truncated text.
pub(super) const CUT: char = '…';

/// Why a server cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum McpFailure {
    #[error("{0}")]
    NotStarted(String),
    #[error("it ended ({exit}){}", .last_words.as_ref().map(|words| format!(": {words}")).unwrap_or_default())]
    Exited {
        exit: String,
        /// The last line of its stderr.
        last_words: Option<String>,
    },
    #[error("it closed the connection")]
    Closed,
    #[error("it did not answer within {}", seconds(*.0))]
    Silent(Duration),
    #[error("the call was cancelled")]
    Cancelled,
    #[error("it answered with an error: {0}")]
    Refused(String),
    #[error("it does not speak MCP: {0}")]
    Unreadable(String),
    #[error("its answer has {0} bytes, and more than 4 MiB are not taken")]
    TooLong(usize),
    #[error("it asks for input from a person, which this client does not give")]
    AsksForInput,
    #[error("{0}")]
    Url(&'static str),
    #[error("its header {0} cannot be sent")]
    Header(String),
    #[error("its transport {0} is not supported")]
    Transport(String),
    #[error("{0}")]
    Unreachable(String),
    #[error("it answered HTTP {status}{}", if .words.is_empty() { String::new() } else { format!(": {words}") })]
    Http { status: u16, words: String },
}

impl McpFailure {
    /// The same failure with secrets masked, in one short line.
    pub(super) fn masked(self, secrets: &Secrets) -> Self {
        // Mask before truncating: a truncated secret would not match.
        let masked = |words: String| one_line(&secrets.redact_text(&words));
        match self {
            Self::NotStarted(words) => Self::NotStarted(masked(words)),
            Self::Exited { exit, last_words } => Self::Exited { exit, last_words: last_words.map(masked) },
            Self::Refused(words) => Self::Refused(masked(words)),
            Self::Unreadable(words) => Self::Unreadable(masked(words)),
            Self::Unreachable(words) => Self::Unreachable(masked(words)),
            Self::Http { status, words } => {
                // A long body was truncated on receipt, maybe within a secret.
                let whole =
                    words.strip_suffix(CUT).map(|cut| format!("{}{CUT}", &cut[..secrets.settled(cut)]));
                Self::Http { status, words: masked(whole.unwrap_or(words)) }
            }
            other => other,
        }
    }

    /// What the user can do about a configured server.
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Self::NotStarted(_) => "correct the command in",
            Self::Exited { .. } | Self::Closed | Self::Unreadable(_) => {
                "run the server's command by hand to see what it prints, then correct its entry in"
            }
            Self::Silent(_) => {
                "run the server by hand to see why it is slow; --timeout SECONDS gives it more time; its entry is in"
            }
            Self::Http { status: 401 | 403, .. } => "correct the headers that log you in, in",
            Self::Unreachable(_) => {
                "check that the server runs and that its port is reachable; its URL is in"
            }
            Self::Url(_) | Self::Http { .. } => "correct the URL in",
            Self::Header(_) => "correct the headers in",
            Self::Transport(_) => "use a server of the type stdio or http in",
            Self::Refused(_) | Self::TooLong(_) | Self::AsksForInput | Self::Cancelled => {
                "see what the server wants; its entry is in"
            }
        }
    }
}

impl From<&ServiceError> for McpFailure {
    fn from(error: &ServiceError) -> Self {
        match error {
            ServiceError::McpError(data) => Self::Refused(rpc_words(data)),
            ServiceError::TransportClosed => Self::Closed,
            ServiceError::TransportSend(error) => transport(error),
            ServiceError::Timeout { timeout } => Self::Silent(*timeout),
            other => Self::Unreadable(other.to_string()),
        }
    }
}

/// A server's JSON-RPC error, in words.
pub(super) fn rpc_words(error: &ErrorData) -> String {
    format!("{} ({})", error.message, error.code.0)
}

/// Converts a transport error.
pub(super) fn transport(error: &DynamicTransportError) -> McpFailure {
    let mut source: Option<&(dyn Error + 'static)> = Some(error.error.as_ref());
    while let Some(found) = source {
        if let Some(http) = found.downcast_ref::<StreamableHttpError<HttpError>>() {
            return match http {
                StreamableHttpError::Client(HttpError::Unreachable(words)) => {
                    McpFailure::Unreachable(words.clone())
                }
                StreamableHttpError::Client(HttpError::Refused { status, words }) => {
                    McpFailure::Http { status: *status, words: words.clone() }
                }
                StreamableHttpError::SessionExpired => McpFailure::Http { status: 404, words: String::new() },
                other => McpFailure::Unreadable(other.to_string()),
            };
        }
        source = found.source();
    }
    McpFailure::Closed
}

/// Joins a text into one line of bounded length without control characters.
pub(super) fn one_line(words: &str) -> String {
    let plain = words.split(|sign: char| sign.is_control()).filter(|part| !part.is_empty());
    let line = plain.collect::<Vec<_>>().join(" ");
    if line.chars().count() <= MAX_WORDS {
        return line;
    }
    line.chars().take(MAX_WORDS).chain([CUT]).collect()
}

fn seconds(time: Duration) -> String {
    if time.subsec_millis() == 0 {
        format!("{} s", time.as_secs())
    } else {
        format!("{} ms", time.as_millis())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_one_short_line_without_secrets_even_at_its_cut() {
        let secret = "s3cret-value-of-a-header";
        let secrets = Secrets::new([secret]);
        let words = format!("{}\n\u{1b}[31m{secret}", "x".repeat(MAX_WORDS - 10));
        let shown = McpFailure::Refused(words).masked(&secrets).to_string();
        assert!(!shown.contains("s3cret") && !shown.contains(['\n', '\u{1b}']), "{shown}");
        assert!(shown.chars().count() < MAX_WORDS + 40, "{shown}");
        let refusal = format!("{secret} is wrong: {}{CUT}", &secret[..9]);
        let shown = McpFailure::Http { status: 401, words: refusal }.masked(&secrets).to_string();
        assert_eq!(shown, "it answered HTTP 401: [secret] is wrong: …");
        let shown = McpFailure::Exited { exit: "exit code 3".into(), last_words: Some(secret.into()) };
        let shown = shown.masked(&secrets).to_string();
        assert!(shown.starts_with("it ended (exit code 3): ") && !shown.contains(secret), "{shown}");
    }

    #[test]
    fn times_are_given_in_seconds_where_they_are_whole() {
        let silent = |millis| McpFailure::Silent(Duration::from_millis(millis)).to_string();
        assert_eq!(silent(10_000), "it did not answer within 10 s");
        assert_eq!(silent(250), "it did not answer within 250 ms");
    }
}
