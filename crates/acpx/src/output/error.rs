//! An error in the three formats.

use std::io::{self, Write};

use acpx_core::model::SessionIdentity;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::sanitize::line;
use crate::error::{ErrorReport, Origin};

/// The message, then the hint. Either may contain an agent's words.
pub(crate) fn text(report: &ErrorReport, out: &mut dyn Write) -> io::Result<()> {
    line(out, format_args!("acpx: {}", report.message))?;
    report.hint.iter().try_for_each(|hint| line(out, format_args!("hint: {hint}")))
}

/// One line, even if the message has several.
pub(crate) fn quiet(report: &ErrorReport, out: &mut dyn Write) -> io::Result<()> {
    let ErrorReport { class, code, message, .. } = report;
    line(out, format_args!("[acpx] error: {} [{code}] {message}", class.as_str()))
}

/// A JSON-RPC error that answers no request.
pub(crate) fn json(report: &ErrorReport, out: &mut dyn Write) -> io::Result<()> {
    let line = ErrorObjectEnvelope {
        jsonrpc: "2.0",
        id: (),
        error: ErrorObject {
            code: own_code(report).unwrap_or_else(|| report.class.rpc_code().into()),
            message: &report.message,
            data: ErrorObjectData {
                acpx_code: report.class.as_str(),
                detail_code: report.code.as_str(),
                origin: report.origin,
                retryable: report.retryable,
                hint: report.hint.as_deref(),
                identity: report.identity.as_ref(),
                acp: report.acp.as_deref(),
            },
        },
    };
    super::json_line(&line, out)
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
    error: ErrorObject<'a>,
}

#[derive(Serialize)]
struct ErrorObject<'a> {
    code: i64,
    message: &'a str,
    data: ErrorObjectData<'a>,
}

#[derive(Serialize)]
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
    #[serde(skip_serializing_if = "Option::is_none")]
    acp: Option<&'a RawValue>,
}
