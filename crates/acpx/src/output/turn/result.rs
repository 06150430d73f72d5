//! How a turn ended, for programs: the last line of JSON output, and the exit code.

use std::fmt::Write as _;
use std::time::Duration;

use acpx_core::model::{
    AcpSessionId, AgentSessionId, ErrorCode, PermissionCount, RecordId, RequestId, SessionIdentity,
    SessionUsage, StopReason, ToolUse, Turn, TurnError, TurnOutcome, TurnState,
};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::cli::Format;
use crate::error::{CliExit, ErrorReport, Origin, cli_hint};
use crate::output::Console;
use crate::output::sanitize::{BRIEF, agent_text, one_line};

/// How a turn ended.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "action", rename = "prompt_result", rename_all = "camelCase")]
pub(crate) struct PromptResult {
    /// The known ids.
    #[serde(flatten)]
    pub(crate) ids: ResultIds,
    /// The client's request id of the prompt.
    #[serde(rename = "requestId")]
    pub(crate) request: RequestId,
    pub(crate) status: TurnStatus,
    /// Why the agent stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stop_reason: Option<String>,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<ResultError>,
    /// What it used, as the agent reported it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) usage: Option<Box<RawValue>>,
    /// From the prompt's acceptance to the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) duration_ms: Option<u64>,
    /// How many permissions were approved and rejected, if the agent requested any.
    #[serde(skip_serializing_if = "is_zero", serialize_with = "write_count")]
    pub(crate) permissions: PermissionCount,
}

/// The ids of a turn's session. `exec` keeps no record, and an agent that fails early gives no session.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ResultIds {
    #[serde(rename = "acpxRecordId", skip_serializing_if = "Option::is_none")]
    pub(crate) record: Option<RecordId>,
    #[serde(rename = "acpxSessionId", skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<AcpSessionId>,
    #[serde(rename = "agentSessionId", skip_serializing_if = "Option::is_none")]
    pub(crate) agent_session: Option<AgentSessionId>,
}

impl From<SessionIdentity> for ResultIds {
    fn from(identity: SessionIdentity) -> Self {
        let SessionIdentity { record, session, agent_session } = identity;
        Self { record: Some(record), session: Some(session), agent_session }
    }
}

/// A turn's status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TurnStatus {
    /// The agent answered.
    Completed,
    /// It was cancelled.
    Cancelled,
    /// Something went wrong.
    Failed,
    /// Its host died or stopped.
    Interrupted,
}

/// A turn's error, with the members of an error line.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ResultError {
    /// The stable code.
    pub(crate) code: ErrorCode,
    /// Its class.
    acpx_code: &'static str,
    /// What happened, to what.
    pub(crate) message: String,
    /// What a person can do next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hint: Option<String>,
    /// Whether the same prompt may succeed later.
    retryable: bool,
    /// The agent's own error object.
    #[serde(skip_serializing_if = "Option::is_none")]
    acp: Option<Box<RawValue>>,
}

impl ResultError {
    /// An error with the usual hint of its code.
    pub(crate) fn new(code: ErrorCode, message: String, acp: Option<&str>) -> Self {
        Self {
            acpx_code: code.class().as_str(),
            message,
            hint: cli_hint(&code, code.hint()),
            retryable: code.is_retryable(),
            code,
            acp: acp.and_then(|json| serde_json::from_str(json).ok()),
        }
    }

    /// The turn with this agent timed out.
    pub(crate) fn timed_out(agent: &str, limit: Duration) -> Self {
        let TurnError { code, message, .. } = TurnError::took_too_long(agent, limit);
        Self::new(code, message.into(), None)
    }

    fn interrupted(turn: &Turn) -> Self {
        let message = format!("turn {} was interrupted: its host went away", turn.id);
        Self::new(ErrorCode::Interrupted, message, None)
    }

    /// The caller that has seen the turn adds what was denied, and what would have allowed it.
    fn denied() -> Self {
        let message = "every permission that the agent asked for was denied".to_owned();
        Self::new(ErrorCode::PermissionDenied, message, None)
    }

    /// Names what was denied: the first tool use, and how many followed.
    pub(crate) fn name_denied(&mut self, tool: &ToolUse, more: usize) {
        let named = one_line(tool.title.as_deref().unwrap_or_else(|| tool.kind_name()), BRIEF);
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        self.message = format!("{}: {named}{more}", self.message);
    }
}

impl From<&TurnError> for ResultError {
    fn from(error: &TurnError) -> Self {
        Self::new(error.code.clone(), error.message.to_string(), error.acp.as_deref())
    }
}

impl PromptResult {
    /// A result of which only this is known.
    pub(crate) fn new(ids: ResultIds, request: RequestId, status: TurnStatus) -> Self {
        Self {
            ids,
            request,
            status,
            stop_reason: None,
            error: None,
            usage: None,
            duration_ms: None,
            permissions: PermissionCount::default(),
        }
    }

    /// The result of a stored turn.
    pub(crate) fn of_turn(ids: ResultIds, turn: &Turn, duration_ms: Option<u64>) -> Self {
        let (status, stop_reason, error) = match &turn.state {
            TurnState::Ended { outcome: TurnOutcome::Stopped(reason), .. } => {
                let cancelled = *reason == StopReason::cancelled();
                let status = if cancelled { TurnStatus::Cancelled } else { TurnStatus::Completed };
                (status, Some(reason.as_str().to_owned()), None)
            }
            TurnState::Ended { outcome: TurnOutcome::Failed(error), .. } => {
                (TurnStatus::Failed, None, Some(ResultError::from(error)))
            }
            // A turn that ended here and is open in the store has lost its host.
            TurnState::Interrupted { .. } | TurnState::Queued | TurnState::Dispatched { .. } => {
                (TurnStatus::Interrupted, None, Some(ResultError::interrupted(turn)))
            }
        };
        let usage = turn.usage.as_deref().and_then(|json| serde_json::from_str(json).ok());
        let permissions = turn.permissions;
        let known = Self::new(ids, turn.request.clone(), status);
        Self { stop_reason, error, usage, duration_ms, permissions, ..known }
    }

    /// Adds the error of an answered turn whose agent was denied every permission it requested, which has its own exit
    /// code. Only this turn's permissions count. Some agents stop as if cancelled when a permission is rejected.
    pub(crate) fn with_denial(mut self) -> Self {
        let PermissionCount { approved, rejected } = self.permissions;
        let is_answered = matches!(self.status, TurnStatus::Completed | TurnStatus::Cancelled);
        if is_answered && self.error.is_none() && rejected > 0 && approved == 0 {
            self.error = Some(ResultError::denied());
        }
        self
    }

    /// The error as an error line. A turn that was denied every permission has none.
    pub(super) fn report(&self) -> Option<ErrorReport> {
        let error = self.error.as_ref().filter(|error| error.code != ErrorCode::PermissionDenied)?;
        let ResultIds { record, session, agent_session } = self.ids.clone();
        let identity =
            record.zip(session).map(|(record, session)| SessionIdentity { record, session, agent_session });
        Some(ErrorReport {
            class: error.code.class(),
            code: error.code.clone(),
            message: error.message.clone(),
            hint: error.hint.clone(),
            origin: if error.acp.is_some() { Origin::Acp } else { Origin::Runtime },
            retryable: error.retryable,
            identity,
            acp: error.acp.clone(),
        })
    }

    /// The exit code of the command.
    pub(crate) fn exit(&self) -> CliExit {
        match (self.status, &self.error) {
            (TurnStatus::Cancelled | TurnStatus::Completed, None) => CliExit::Success,
            (TurnStatus::Failed | TurnStatus::Interrupted, None) => CliExit::Failure,
            (_, Some(error)) => error.code.class().into(),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape that a serializer's predicate has")]
fn is_zero(count: &PermissionCount) -> bool {
    *count == PermissionCount::default()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape that a serializer's function has")]
fn write_count<S: Serializer>(count: &PermissionCount, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Count {
        approved: u32,
        rejected: u32,
    }
    Count { approved: count.approved, rejected: count.rejected }.serialize(serializer)
}

/// The usage that the agent reported in the turn.
#[derive(Debug, Default)]
pub(super) struct UsageTracker(Option<SessionUsage>);

impl UsageTracker {
    /// Takes the session's usage so far.
    pub(super) fn update(&mut self, usage: SessionUsage, cost_stands: bool) {
        let before = self.0.take().and_then(|before| before.cost).filter(|_| cost_stands);
        self.0 = Some(SessionUsage { cost: usage.cost.or(before), ..usage });
    }

    /// Prints the usage. Quiet output prints only what npm acpx prints.
    pub(super) fn print(&self, result: &PromptResult, console: &mut Console<'_>) {
        if console.mode.format == Format::Json {
            return;
        }
        result.usage.as_deref().and_then(tokens).iter().for_each(|tokens| console.notice(tokens));
        let Some(SessionUsage { used, size, cost }) = &self.0 else { return };
        console.banner(&format!("context: {used} of {size} tokens"));
        if let Some(cost) = cost {
            console.notice(&format!("cost: {} {}", cost.amount, agent_text(&cost.currency)));
        }
    }
}

/// The printed counts, by their names in the protocol.
const COUNTS: [(&str, &str); 5] = [
    ("inputTokens", "input"),
    ("outputTokens", "output"),
    ("totalTokens", "total"),
    ("cachedReadTokens", "cache_read"),
    ("cachedWriteTokens", "cache_write"),
];

/// The line about tokens, if the agent reported any.
fn tokens(usage: &RawValue) -> Option<String> {
    let usage: serde_json::Value = serde_json::from_str(usage.get()).ok()?;
    let mut line = String::from("tokens:");
    for (key, name) in COUNTS {
        if let Some(count) = usage.get(key).and_then(serde_json::Value::as_u64) {
            // Writing to a string cannot fail.
            let _ = write!(line, " {name}={count}");
        }
    }
    line.contains('=').then_some(line)
}
