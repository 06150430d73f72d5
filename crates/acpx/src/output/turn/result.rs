//! How a turn ended, for programs: the last line of JSON output, and the exit code.

use std::fmt::Write as _;
use std::io;

use acpx_core::model::{
    AcpSessionId, AgentSessionId, Cost, ErrorCode, Money, PermissionCount, RecordId, RequestId,
    SessionIdentity, SessionUsage, StopReason, Timestamp, ToolUse, Turn, TurnError, TurnOutcome, TurnState,
};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::answer::Answer;
use crate::cli::Format;
use crate::error::{CliExit, ErrorReport};
use crate::output::sanitize::{BRIEF, agent_text, one_line};
use crate::output::{Console, error};

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
    /// The agent's answer.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) text: String,
    /// Whether the answer is longer than `text`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) text_truncated: bool,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<ErrorReport>,
    /// What it used, as the agent reported it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) usage: Option<Box<RawValue>>,
    /// What it cost, if the turn is stored and that is known.
    #[serde(skip)]
    pub(crate) cost: Option<Money>,
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

impl ErrorReport {
    /// Names what was denied: the first tool use, and how many followed.
    pub(crate) fn name_denied(&mut self, tool: &ToolUse, more: usize) {
        let named = one_line(tool.title.as_deref().unwrap_or_else(|| tool.kind_name()), BRIEF);
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        self.message = format!("{}: {named}{more}", self.message);
    }
}

/// The error of an interrupted turn.
fn interrupted(turn: &Turn) -> ErrorReport {
    let message = format!("turn {} was interrupted: its host went away", turn.id);
    ErrorReport::of_turn(ErrorCode::Interrupted, message, None)
}

/// The caller that has seen the turn adds what was denied, and what would have allowed it.
fn denied() -> ErrorReport {
    let message = "every permission that the agent asked for was denied".to_owned();
    ErrorReport::of_turn(ErrorCode::PermissionDenied, message, None)
}

impl PromptResult {
    /// A result of which only this is known.
    pub(crate) fn new(ids: ResultIds, request: RequestId, status: TurnStatus) -> Self {
        Self {
            ids,
            request,
            status,
            stop_reason: None,
            text: String::new(),
            text_truncated: false,
            error: None,
            usage: None,
            cost: None,
            duration_ms: None,
            permissions: PermissionCount::default(),
        }
    }

    /// The result of a stored turn.
    pub(crate) fn of_turn(ids: ResultIds, turn: &Turn) -> Self {
        let (status, stop_reason, error) = match &turn.state {
            TurnState::Ended { outcome: TurnOutcome::Stopped(reason), .. } => {
                let cancelled = *reason == StopReason::cancelled();
                let status = if cancelled { TurnStatus::Cancelled } else { TurnStatus::Completed };
                (status, Some(reason.as_str().to_owned()), None)
            }
            TurnState::Ended { outcome: TurnOutcome::Failed(error), .. } => {
                let TurnError { code, message, acp } = error;
                let error = ErrorReport::of_turn(code.clone(), message.to_string(), acp.as_deref());
                (TurnStatus::Failed, None, Some(error))
            }
            // A turn that ended here and is open in the store has lost its host.
            TurnState::Interrupted { .. } | TurnState::Queued | TurnState::Dispatched { .. } => {
                (TurnStatus::Interrupted, None, Some(interrupted(turn)))
            }
        };
        let usage = turn.usage.as_deref().and_then(|json| serde_json::from_str(json).ok());
        let (cost, permissions) = (turn.cost.clone(), turn.permissions);
        let ended = match turn.state {
            TurnState::Ended { at, .. } | TurnState::Interrupted { at } => Some(at),
            TurnState::Queued | TurnState::Dispatched { .. } => None,
        };
        let spent = |at: Timestamp| u64::try_from(at.since(turn.queued_at).as_millis()).unwrap_or(u64::MAX);
        let duration_ms = ended.map(spent);
        let known = Self::new(ids, turn.request.clone(), status);
        Self { stop_reason, error, usage, cost, duration_ms, permissions, ..known }
    }

    /// Adds the agent's answer, and the ids to the error.
    pub(crate) fn with_answer(mut self, answer: Answer) -> Self {
        if let Some(error) = &mut self.error {
            let ResultIds { record, session, agent_session } = self.ids.clone();
            let ids = record.zip(session);
            error.identity = ids.map(|(record, session)| SessionIdentity { record, session, agent_session });
        }
        self.text_truncated |= answer.is_truncated;
        Self { text: answer.text, ..self }
    }

    /// Adds the error of an answered turn whose agent was denied every permission it requested, which has its own exit
    /// code. Only this turn's permissions count. Some agents stop as if cancelled when a permission is rejected.
    pub(crate) fn with_denial(mut self) -> Self {
        let PermissionCount { approved, rejected } = self.permissions;
        let is_answered = matches!(self.status, TurnStatus::Completed | TurnStatus::Cancelled);
        if is_answered && self.error.is_none() && rejected > 0 && approved == 0 {
            self.error = Some(denied());
        }
        self
    }

    /// The error of the error line that comes before the result. A turn that was denied every permission has none.
    pub(super) fn error_line(&self) -> Option<&ErrorReport> {
        self.error.as_ref().filter(|error| error.code != ErrorCode::PermissionDenied)
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

impl Console<'_> {
    /// Writes the error of a turn to stderr of a terminal. What the person there denied is no error.
    pub(super) fn turn_error(&mut self, result: &PromptResult) -> io::Result<()> {
        self.flush()?;
        let is_own = |error: &&ErrorReport| error.code == ErrorCode::PermissionDenied && error.hint.is_none();
        match result.error.as_ref().filter(|error| !is_own(error)) {
            Some(error) => error::terminal(&error.message, error.hint.as_deref(), &mut self.err),
            None => Ok(()),
        }
    }
}

/// The usage that the agent reported in the turn.
#[derive(Debug, Default)]
pub(super) struct UsageTracker {
    last: Option<SessionUsage>,
    before: CostBefore,
}

/// What a session had cost before a turn.
#[derive(Debug, Default)]
enum CostBefore {
    #[default]
    Unknown,
    /// This, or nothing.
    Known(Option<Money>),
}

impl UsageTracker {
    /// Takes what the session had cost before the turn, or that it had cost nothing.
    pub(super) fn begin_with(&mut self, cost: Option<&Cost>) {
        self.before = CostBefore::Known(cost.and_then(Cost::money));
    }

    /// Takes the session's usage so far.
    pub(super) fn update(&mut self, usage: SessionUsage, cost_stands: bool) {
        self.last = Some(usage.after(self.last.as_ref(), cost_stands));
    }

    /// The usage reported last.
    pub(super) fn last(&self) -> Option<&SessionUsage> {
        self.last.as_ref()
    }

    /// What the turn cost, if that is known: as stored, or else by how much the session's cost has grown. A cost that
    /// has fallen was reset, and counts from zero again.
    pub(super) fn turn_cost(&self, result: &PromptResult) -> Option<Money> {
        let grown = || {
            let now = self.last.as_ref()?.cost.as_ref()?.money()?;
            match &self.before {
                CostBefore::Known(None) => Some(now),
                CostBefore::Known(Some(before)) if before.currency == now.currency => {
                    let nanos = now.nanos.checked_sub(before.nanos).unwrap_or(now.nanos);
                    Some(Money { nanos, ..now })
                }
                CostBefore::Known(Some(_)) | CostBefore::Unknown => None,
            }
        };
        result.cost.clone().or_else(grown)
    }

    /// Prints what the turn used. Quiet output prints only what npm acpx prints.
    pub(super) fn print(&self, result: &PromptResult, console: &mut Console<'_>) {
        if console.mode.format == Format::Json {
            return;
        }
        result.usage.as_deref().and_then(tokens).iter().for_each(|tokens| console.notice(tokens));
        if let Some(cost) = self.turn_cost(result) {
            console.notice(&format!("cost: {}", agent_text(&cost.to_string())));
        }
        let Some(SessionUsage { used, size, cost }) = &self.last else { return };
        console.banner(&format!("context: {used} of {size} tokens"));
        if let Some(cost) = cost.as_ref().and_then(Cost::money) {
            console.banner(&format!("session cost: {}", agent_text(&cost.to_string())));
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

/// A cost with two significant decimals.
pub(crate) fn cost(cost: &Cost) -> String {
    cost_words(cost.amount.as_f64().unwrap_or_default(), &cost.currency)
}

/// An amount with two significant decimals.
pub(crate) fn money(money: &Money) -> String {
    cost_words(money.amount(), &money.currency)
}

fn cost_words(amount: f64, currency: &str) -> String {
    let decimals =
        (2..8).find(|decimals| amount == 0.0 || amount.abs() * 10f64.powi(*decimals) >= 10.0).unwrap_or(8);
    let decimals = usize::try_from(decimals).unwrap_or(2);
    match currency {
        "USD" => format!("${amount:.decimals$}"),
        other => format!("{amount:.decimals$} {}", agent_text(other)),
    }
}

#[cfg(test)]
mod cost_tests {
    use serde_json::Number;

    use super::*;

    #[test]
    fn cost_has_two_significant_decimals() {
        let shown = |amount: f64, currency: &str| {
            cost(&Cost { amount: Number::from_f64(amount).unwrap(), currency: currency.to_owned() })
        };
        let cases = [
            (0.003_496_000_000_000_000_4, "USD", "$0.0035"),
            (1.234, "USD", "$1.23"),
            (0.0, "USD", "$0.00"),
            (12.5, "EUR", "12.50 EUR"),
            (0.12, "USD", "$0.12"),
        ];
        for (amount, currency, expected) in cases {
            assert_eq!(shown(amount, currency), expected);
        }
    }
}
