//! An error in the three formats.

use std::io::{self, Write};

use acpx_core::model::{ErrorCode, FactError, RestoreError, SessionIdentity, Timestamp};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

use super::sanitize::{line, on_one_line};
use super::style::{Style, StyledWriter};
use super::table::width_of;
use crate::error::{ErrorReport, Origin};

/// What begins the line of an error on a terminal.
const LABEL: &str = "error: ";

/// The message, then the hint, for a terminal.
pub(super) fn terminal(message: &str, hint: Option<&str>, out: &mut StyledWriter<'_>) -> io::Result<()> {
    let labelled = [Some((Style::Bad, LABEL, message)), hint.map(|hint| (Style::Accent, "hint: ", hint))];
    for (style, label, words) in labelled.into_iter().flatten() {
        out.styled(style, label)?;
        writeln!(out, "{}", wrapped(&on_one_line(words), label.len(), super::terminal_size().0.into()))?;
    }
    Ok(())
}

/// A text on lines of this width, broken between words. The lines after the first are indented, so that an agent's
/// words do not look like a line of acpx. A command of acpx is not broken, so that it can be copied.
pub(super) fn wrapped(text: &str, indent: usize, width: usize) -> String {
    let mut wrapped = String::new();
    let mut used = indent;
    for chunk in chunks(text) {
        let chunk_width = width_of(&chunk);
        if !wrapped.is_empty() && used + 1 + chunk_width > width {
            wrapped.push('\n');
            wrapped.push_str(&" ".repeat(indent));
            used = indent;
        } else if !wrapped.is_empty() {
            wrapped.push(' ');
            used += 1;
        }
        wrapped.push_str(&chunk);
        used += chunk_width;
    }
    wrapped
}

/// The words of a text. A command of acpx is one of them: it begins with the program's name, and ends with the text or
/// with a punctuation mark.
fn chunks(text: &str) -> Vec<String> {
    let mut chunks: Vec<String> = Vec::new();
    let mut in_command = false;
    for word in text.split(' ') {
        match chunks.last_mut().filter(|_| in_command) {
            Some(command) => {
                command.push(' ');
                command.push_str(word);
            }
            None => chunks.push(word.to_owned()),
        }
        in_command = (in_command || word == "acpx") && !word.ends_with([',', ';', ':', ')']);
    }
    chunks
}

/// The message, then the hint. Either may contain an agent's words.
pub(crate) fn text(report: &ErrorReport, out: &mut dyn Write) -> io::Result<()> {
    line(out, format_args!("acpx: {}", report.message))?;
    report.hint.iter().try_for_each(|hint| line(out, format_args!("hint: {hint}")))
}

/// One line, even if the message has several.
pub(crate) fn quiet(report: &ErrorReport, out: &mut dyn Write) -> io::Result<()> {
    line(out, format_args!("[acpx] error: {}", quiet_words(report)))
}

/// The class, the code if that says more, and the message.
pub(super) fn quiet_words(report: &ErrorReport) -> String {
    let (class, code) = (report.code.class().as_str(), report.code.as_str());
    let detail = if class == code { String::new() } else { format!(" [{code}]") };
    format!("{class}{detail} {}", report.message)
}

/// A JSON-RPC error that answers no request.
pub(crate) fn json(report: &ErrorReport, out: &mut dyn Write) -> io::Result<()> {
    super::json_line(&ErrorObjectEnvelope { jsonrpc: "2.0", id: (), error: report }, out)
}

/// Writes a failed restore as an error object.
#[expect(clippy::ref_option, reason = "the shape that a serializer's function has")]
pub(super) fn write_restore_error<S: Serializer>(
    error: &Option<RestoreError>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    error.as_ref().map(ErrorObject::from).serialize(serializer)
}

/// The code of the agent's own error, if the error is the agent's.
fn own_code(report: &ErrorReport) -> Option<i64> {
    #[derive(Deserialize)]
    struct Coded {
        code: i64,
    }
    serde_json::from_str::<Coded>(report.acp.as_ref()?.get()).ok().map(|error| error.code)
}

#[derive(Serialize)]
struct ErrorObjectEnvelope<'a> {
    jsonrpc: &'static str,
    /// The protocol's null: the error answers no request.
    id: (),
    error: &'a ErrorReport,
}

/// The one form that an error has in every JSON object.
#[derive(Debug, Serialize)]
pub(super) struct ErrorObject<'a> {
    code: i64,
    message: &'a str,
    data: ErrorObjectData<'a>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ErrorObjectData<'a> {
    acpx_code: &'static str,
    detail_code: &'a str,
    origin: Origin,
    retryable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
    #[serde(flatten)]
    identity: Option<&'a SessionIdentity>,
    #[serde(flatten)]
    restore: Option<RestoreAttempt<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    acp: Option<&'a RawValue>,
}

/// The attempt to restore a session that failed.
#[derive(Debug, Serialize)]
struct RestoreAttempt<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<&'a str>,
    at: Timestamp,
}

impl Serialize for ErrorReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let object = ErrorObject {
            code: own_code(self).unwrap_or_else(|| self.class.rpc_code().into()),
            message: &self.message,
            data: ErrorObjectData {
                acpx_code: self.class.as_str(),
                detail_code: self.code.as_str(),
                origin: self.origin,
                retryable: self.retryable,
                hint: self.hint.as_deref(),
                identity: self.identity.as_ref(),
                restore: None,
                acp: self.acp.as_deref(),
            },
        };
        object.serialize(serializer)
    }
}

impl<'a> ErrorObject<'a> {
    /// An error with this code, of which nothing else is known.
    fn new(code: &'a ErrorCode, origin: Origin, message: &'a str) -> Self {
        let data = ErrorObjectData {
            acpx_code: code.class().as_str(),
            detail_code: code.as_str(),
            origin,
            retryable: code.is_retryable(),
            hint: None,
            identity: None,
            restore: None,
            acp: None,
        };
        Self { code: code.class().rpc_code().into(), message, data }
    }
}

impl<'a> From<&'a FactError> for ErrorObject<'a> {
    fn from(error: &'a FactError) -> Self {
        Self::new(&error.code, Origin::Runtime, &error.message)
    }
}

impl<'a> From<&'a RestoreError> for ErrorObject<'a> {
    fn from(error: &'a RestoreError) -> Self {
        let origin = if error.code.is_some() { Origin::Acp } else { Origin::Runtime };
        let mut object = Self::new(&ErrorCode::SessionNotRestored, origin, &error.message);
        object.code = error.code.unwrap_or(object.code);
        let (method, field) = (error.method.as_deref(), error.field.as_deref());
        object.data.restore = Some(RestoreAttempt { method, field, at: error.at });
        object
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_message_is_broken_between_words_and_never_within_one() {
        let message = "cannot open /home/ada/a/very/long/path: no such file";
        let lines = "cannot open\n       /home/ada/a/very/long/path:\n       no such file";
        assert_eq!(wrapped(message, 7, 20), lines);
        assert_eq!(wrapped(message, 7, 80), message);
        assert_eq!(wrapped(message, 7, 0).lines().count(), 6);
    }

    #[test]
    fn command_in_a_wrapped_hint_is_not_broken() {
        let hint = "to see them: acpx claude sessions list; or name another session of this directory";
        let lines = "to see them:\n      acpx claude sessions list;\n      or name another\n      session of this\n      directory";
        assert_eq!(wrapped(hint, 6, 24), lines);
    }
}
