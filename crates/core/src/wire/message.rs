//! Parses a line as a JSON-RPC message: its kind, and where its parts are.
//!
//! Only the envelope is parsed. The parts stay raw text inside the line, so numbers, escapes, unknown members and the
//! order of keys are as the peer wrote them.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use serde::de::IgnoredAny;

use super::RpcId;
use super::json::{self, range_in};

/// The members of an envelope.
const MEMBERS: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];
/// How many unknown members an envelope may have. A message has none or a few.
const UNKNOWN_MEMBERS: usize = 32;

/// A line that is a request, a notification or a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RpcMessage {
    line: Arc<str>,
    id: Option<Range<usize>>,
    body: Body,
}

/// The kind of a message. The ranges are byte ranges of its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// A request.
    Request {
        /// Its id, to be repeated in the response.
        id: RpcId,
        /// Its method.
        method: Box<str>,
        /// The range of the params.
        params: Option<Range<usize>>,
    },
    /// A notification.
    Notification {
        /// Its method.
        method: Box<str>,
        /// The range of the params.
        params: Option<Range<usize>>,
    },
    /// A response.
    Response {
        /// The id of the request; `null` when the peer could not read it.
        id: RpcId,
        /// The result or error.
        outcome: RpcOutcome,
    },
}

/// The outcome of a response, as a byte range of the message's line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RpcOutcome {
    /// The range of the result; `null` is a result.
    Result(Range<usize>),
    /// The range of the error.
    Error(Range<usize>),
}

/// Why a line is not a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// The bytes are not UTF-8.
    #[error("not UTF-8")]
    NotUtf8,
    /// The text is not one JSON value.
    #[error("not JSON")]
    NotJson,
    /// An array: batches are not part of the protocol.
    #[error("a batch")]
    Batch,
    /// JSON, but not an object.
    #[error("not an object")]
    NotAnObject,
    /// A member occurs twice, so it is ambiguous.
    #[error("a duplicate member")]
    DuplicateMember,
    /// More unknown members than a genuine message has.
    #[error("too many unknown members")]
    TooManyMembers,
    /// The method of a notification is not a string.
    #[error("a method that is not a string")]
    BadMethod,
    /// A request whose method is not a string.
    #[error("a request whose method is not a string")]
    BadRequestMethod,
    /// A request whose id is `null`, which identifies no request.
    #[error("a request whose id is null")]
    NullId,
    /// A request whose id is neither a number nor a string.
    #[error("a request whose id is neither a number nor a string")]
    BadRequestId,
    /// The id of a response is neither a number nor a string, nor `null` in an error.
    #[error("an id that is neither a number nor a string")]
    BadId,
    /// A response without an id.
    #[error("a response without an id")]
    MissingId,
    /// Neither a method nor a result nor an error.
    #[error("neither a request nor a response")]
    NeitherRequestNorResponse,
    /// The line is longer than any message may be.
    #[error("a line of more than {limit} bytes")]
    TooLong {
        /// How long a line may be.
        limit: usize,
    },
}

/// A line that is not a message, but whose peer [expects a response](Malformed::wants_an_answer).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnreadableLine {
    /// Why it is not a message.
    pub problem: Malformed,
    /// The id for the response: that of the request if it was recognisable, otherwise `null`.
    pub id: RpcId,
}

impl Malformed {
    /// Whether the peer expects a response anyway: the line is JSON and looks like a malformed request.
    pub(crate) fn wants_an_answer(self) -> bool {
        matches!(
            self,
            Self::Batch | Self::NullId | Self::BadRequestId | Self::BadRequestMethod | Self::TooLong { .. }
        )
    }
}

impl UnreadableLine {
    /// A line that is not a message for this reason.
    pub(super) fn new(problem: Malformed, line: &[u8]) -> Self {
        let envelope = std::str::from_utf8(line).ok().and_then(|line| json::scan(line, &["id"]));
        let id = envelope.and_then(|envelope| RpcId::from_valid(envelope.values[0]?));
        Self { problem, id: id.unwrap_or_else(RpcId::null) }
    }
}

impl RpcMessage {
    /// Parses one line, without its line end.
    pub fn parse(line: impl Into<Arc<str>>) -> Result<Self, Malformed> {
        let line = line.into();
        let (id, body) = read(&line)?;
        Ok(Self { line, id, body })
    }

    /// The line as received.
    pub fn line(&self) -> &Arc<str> {
        &self.line
    }

    /// Its kind.
    pub fn body(&self) -> &Body {
        &self.body
    }

    /// The id of a request or a response.
    pub fn id(&self) -> Option<&RpcId> {
        match &self.body {
            Body::Request { id, .. } | Body::Response { id, .. } => Some(id),
            Body::Notification { .. } => None,
        }
    }

    /// The range of the id in the line.
    pub fn id_range(&self) -> Option<Range<usize>> {
        self.id.clone()
    }

    /// The method of a request or a notification.
    pub fn method(&self) -> Option<&str> {
        match &self.body {
            Body::Request { method, .. } | Body::Notification { method, .. } => Some(method),
            Body::Response { .. } => None,
        }
    }

    /// The range of the params in the line.
    pub(crate) fn params_range(&self) -> Option<Range<usize>> {
        match &self.body {
            Body::Request { params, .. } | Body::Notification { params, .. } => params.clone(),
            Body::Response { .. } => None,
        }
    }

    /// The params as raw JSON.
    pub fn params(&self) -> Option<&str> {
        self.params_range().and_then(|range| self.line.get(range))
    }

    /// The result as raw JSON.
    pub fn result(&self) -> Option<&str> {
        match &self.body {
            Body::Response { outcome: RpcOutcome::Result(range), .. } => self.line.get(range.clone()),
            _ => None,
        }
    }

    /// The error as raw JSON; [`RpcError::read`](super::RpcError::read) parses it.
    pub fn error(&self) -> Option<&str> {
        match &self.body {
            Body::Response { outcome: RpcOutcome::Error(range), .. } => self.line.get(range.clone()),
            _ => None,
        }
    }
}

fn read(line: &str) -> Result<(Option<Range<usize>>, Body), Malformed> {
    let envelope = json::scan(line, &MEMBERS).ok_or_else(|| why_not_an_envelope(line))?;
    if envelope.repeated.contains(&true) {
        return Err(Malformed::DuplicateMember);
    }
    if envelope.has_others {
        check_unknown_members(line)?;
    }
    let [_, id, method, params, result, error] = envelope.values;
    let range = |json: &str| range_in(line, json);
    let id_range = id.map(range);
    let params = params.map(range);
    let body = match (method, id) {
        (Some(method), Some(id)) => Body::Request {
            id: match id {
                "null" => return Err(Malformed::NullId),
                id => RpcId::from_valid(id).ok_or(Malformed::BadRequestId)?,
            },
            method: json::string(method).map(Into::into).ok_or(Malformed::BadRequestMethod)?,
            params,
        },
        (Some(method), None) => Body::Notification {
            method: json::string(method).map(Into::into).ok_or(Malformed::BadMethod)?,
            params,
        },
        (None, id) => {
            // Some peers write both members, with `null` for the one that does not apply. An error that is not `null`
            // always counts: losing it would leave a request without its response.
            let outcome = match (result, error) {
                (Some(result), None | Some("null")) => RpcOutcome::Result(range(result)),
                (_, Some(error)) => RpcOutcome::Error(range(error)),
                (None, None) => return Err(Malformed::NeitherRequestNorResponse),
            };
            let raw = id.ok_or(Malformed::MissingId)?;
            let id = match (&outcome, raw) {
                (RpcOutcome::Error(_), "null") => RpcId::null(),
                _ => RpcId::from_valid(raw).ok_or(Malformed::BadId)?,
            };
            Body::Response { id, outcome }
        }
    };
    Ok((id_range, body))
}

fn why_not_an_envelope(line: &str) -> Malformed {
    if serde_json::from_str::<IgnoredAny>(line).is_err() {
        return Malformed::NotJson;
    }
    if line.trim_ascii_start().starts_with('[') { Malformed::Batch } else { Malformed::NotAnObject }
}

/// Checks the members that the envelope has besides its own. A repeated member could mean either value.
fn check_unknown_members(line: &str) -> Result<(), Malformed> {
    let mut unknown: Vec<Cow<'_, str>> = Vec::new();
    let mut checked = Ok(());
    json::for_each_member(line, |name, _| {
        // A name with an unpaired surrogate is no text, and stays as written.
        let name = json::string(name).unwrap_or(Cow::Borrowed(name));
        if MEMBERS.contains(&&*name) {
            return;
        }
        if unknown.len() == UNKNOWN_MEMBERS {
            checked = Err(Malformed::TooManyMembers);
        } else if unknown.contains(&name) {
            checked = Err(Malformed::DuplicateMember);
        } else {
            unknown.push(name);
        }
    });
    checked
}

#[cfg(test)]
mod tests;
