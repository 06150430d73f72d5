//! A turn as a row. Its state is spread over several columns; those that do not apply are null.

use std::time::Duration;

use rusqlite::Connection;
use rusqlite::types::ValueRef;

use super::super::body;
use super::super::cells::{self, Cells, Columns, columns};
use super::super::fault::SqliteFault;
use crate::model::{
    Fallback, Money, PermissionCount, PermissionMode, PermissionPolicy, RequestId, SpendingLimits,
    StopReason, ToolPolicy, Turn, TurnError, TurnId, TurnLimits, TurnOutcome, TurnState, UnattendedPolicy,
    WakeOptions,
};

/// The columns of a turn.
pub(in super::super) const TURN: Columns<COLUMNS> = columns!["turns":
    "record", "turn", "request", "state", "policy", "queued_at", "dispatched_at", "ended_at", "stop_reason",
    "error_code", "error_message", "error_acp", "prompt", "prompt_blob";
    added "usage", "approved", "rejected", "fallback", "carry_history", "tool_policy", "unasked", "limit_ms",
    "silence_ms", "cost", "currency", "max_usage"; "checksum"];

const COLUMNS: usize = 26;

/// The index of the dispatch time in [`TURN`].
pub(in super::super) const DISPATCHED_AT: usize = 6;

/// A turn.
pub(in super::super) fn turn(
    connection: &Connection,
    cells: &Cells<'_, COLUMNS>,
) -> Result<Turn, SqliteFault> {
    Ok(Turn {
        id: TurnId(cells.number(1)?),
        request: cells.parsed(2, |text| RequestId::new(text).ok())?,
        prompt: body::read(connection, cells.value(12), cells.value(13))?,
        policy: policy(cells)?,
        wake_options: wake_options(cells)?,
        limits: limits(cells)?,
        queued_at: cells.time(5)?,
        state: turn_state(cells)?,
        usage: cells.optional_text(14)?.map(Into::into),
        cost: cost(cells)?,
        permissions: PermissionCount { approved: count(cells, 15)?, rejected: count(cells, 16)? },
    })
}

/// The indexes of the cost in [`TURN`].
const COST: usize = 23;
const CURRENCY: usize = 24;

/// A cost; two null columns mean that it is unknown.
fn cost(cells: &Cells<'_, COLUMNS>) -> Result<Option<Money>, SqliteFault> {
    match (cells.optional_number(COST)?, cells.optional_text(CURRENCY)?) {
        (Some(nanos), Some(currency)) => Ok(Some(Money { nanos, currency: currency.into() })),
        (None, None) => Ok(None),
        (Some(_), None) | (None, Some(_)) => Err(cells.unknown(COST)),
    }
}

/// A cost as two column values.
pub(in super::super) fn cost_values(cost: Option<&Money>) -> Result<[ValueRef<'_>; 2], SqliteFault> {
    let nanos = cells::optional_number(cost.map(|cost| cost.nanos))?;
    Ok([nanos, cost.map(|cost| &*cost.currency).into()])
}

/// The indexes of the policy's other columns in [`TURN`].
const TOOL_POLICY: usize = 19;
const UNASKED: usize = 20;

/// A policy; null columns mean the default.
fn policy(cells: &Cells<'_, COLUMNS>) -> Result<PermissionPolicy, SqliteFault> {
    let tools = match cells.optional_text(TOOL_POLICY)? {
        None => None,
        Some(text) => Some(ToolPolicy::parse(text).map_err(|_| cells.unknown(TOOL_POLICY))?.into()),
    };
    let unasked = match cells.optional_text(UNASKED)?.map(UnattendedPolicy::parse) {
        None => UnattendedPolicy::Deny,
        Some(Some(unasked)) if unasked != UnattendedPolicy::Deny => unasked,
        Some(_) => return Err(cells.unknown(UNASKED)),
    };
    Ok(PermissionPolicy { mode: cells.parsed(4, PermissionMode::parse)?, tools, unasked })
}

/// The rules for single tools as a column value.
pub(in super::super) fn tool_policy(policy: &PermissionPolicy) -> Option<String> {
    policy.tools.as_ref().map(|tools| tools.to_value().to_string())
}

/// The unattended policy as a column value; null for the default.
pub(in super::super) fn unasked<'a>(policy: &PermissionPolicy) -> ValueRef<'a> {
    (policy.unasked != UnattendedPolicy::Deny).then(|| policy.unasked.as_str()).into()
}

/// The indexes of the wake options in [`TURN`].
const FALLBACK: usize = 17;
const CARRY_HISTORY: usize = 18;

/// Wake options; null columns mean the default.
fn wake_options(cells: &Cells<'_, COLUMNS>) -> Result<WakeOptions, SqliteFault> {
    let fallback = match cells.optional_text(FALLBACK)?.map(Fallback::parse) {
        None => Fallback::Auto,
        Some(Some(fallback)) if fallback != Fallback::Auto => fallback,
        Some(_) => return Err(cells.unknown(FALLBACK)),
    };
    let carry_history = match cells.optional_number(CARRY_HISTORY)? {
        None => false,
        Some(1) => true,
        Some(_) => return Err(cells.unknown(CARRY_HISTORY)),
    };
    Ok(WakeOptions { fallback, carry_history })
}

/// Wake options as two column values.
pub(in super::super) fn wake_values<'a>(wake_options: WakeOptions) -> [ValueRef<'a>; 2] {
    let fallback = (wake_options.fallback != Fallback::Auto).then(|| wake_options.fallback.as_str());
    [fallback.into(), cells::optional_integer(wake_options.carry_history.then_some(1))]
}

/// The indexes of the limits in [`TURN`].
const LIMIT: usize = 21;
const SILENCE: usize = 22;
const MAX_USAGE: usize = 25;

/// Limits; null columns mean no limit.
fn limits(cells: &Cells<'_, COLUMNS>) -> Result<TurnLimits, SqliteFault> {
    let limit = |index| Ok::<_, SqliteFault>(cells.optional_number(index)?.map(Duration::from_millis));
    let spending = match cells.optional_text(MAX_USAGE)? {
        None => SpendingLimits::default(),
        Some(text) => serde_json::from_str(text).map_err(|_| cells.unknown(MAX_USAGE))?,
    };
    Ok(TurnLimits { whole: limit(LIMIT)?, silence: limit(SILENCE)?, spending, ..TurnLimits::default() })
}

/// Time limits as two column values; one that is too large becomes the largest possible.
pub(in super::super) fn limit_values<'a>(limits: &TurnLimits) -> [ValueRef<'a>; 2] {
    let millis = |limit: Duration| i64::try_from(limit.as_millis()).unwrap_or(i64::MAX);
    [limits.whole, limits.silence].map(|limit| cells::optional_integer(limit.map(millis)))
}

/// Limits of cost and tokens as a column value; null for none.
pub(in super::super) fn max_usage(limits: &SpendingLimits) -> Option<String> {
    (!limits.is_empty()).then(|| serde_json::to_string(limits).expect("numbers and texts can be written"))
}

/// A count; null means zero.
fn count(cells: &Cells<'_, COLUMNS>, index: usize) -> Result<u32, SqliteFault> {
    let count = cells.optional_number(index)?.unwrap_or(0);
    u32::try_from(count).map_err(|_| cells.unknown(index))
}

/// A count as a column value; null for zero.
pub(in super::super) fn number_unless_none<'a>(count: u32) -> ValueRef<'a> {
    cells::optional_integer((count > 0).then_some(count.into()))
}

/// The state of a turn.
pub(in super::super) fn turn_state(cells: &Cells<'_, COLUMNS>) -> Result<TurnState, SqliteFault> {
    match cells.text(3)? {
        QUEUED => Ok(TurnState::Queued),
        DISPATCHED => Ok(TurnState::Dispatched { at: cells.time(DISPATCHED_AT)? }),
        ENDED => Ok(TurnState::Ended { at: cells.time(7)?, outcome: turn_outcome(cells)? }),
        INTERRUPTED => Ok(TurnState::Interrupted { at: cells.time(7)? }),
        _ => Err(cells.unknown(3)),
    }
}

fn turn_outcome(cells: &Cells<'_, COLUMNS>) -> Result<TurnOutcome, SqliteFault> {
    match (cells.optional_text(8)?, cells.optional_text(9)?) {
        (Some(reason), None) => Ok(TurnOutcome::Stopped(StopReason::new(reason))),
        (None, Some(code)) => {
            let (message, acp) = (cells.text(10)?.into(), cells.optional_text(11)?.map(Into::into));
            Ok(TurnOutcome::Failed(TurnError { code: code.into(), message, acp }))
        }
        (Some(_), Some(_)) | (None, None) => Err(cells.unknown(8)),
    }
}

const QUEUED: &str = "queued";
const DISPATCHED: &str = "dispatched";
const ENDED: &str = "ended";
const INTERRUPTED: &str = "interrupted";

/// The columns of a turn's state; those that do not apply are null.
#[derive(Default)]
pub(in super::super) struct StateColumns<'a> {
    pub(in super::super) state: &'static str,
    pub(in super::super) dispatched_at: Option<i64>,
    pub(in super::super) ended_at: Option<i64>,
    pub(in super::super) stop_reason: Option<&'a str>,
    pub(in super::super) error_code: Option<&'a str>,
    pub(in super::super) error_message: Option<&'a str>,
    pub(in super::super) error_acp: Option<&'a str>,
}

impl<'a> StateColumns<'a> {
    pub(in super::super) fn of(state: &'a TurnState) -> Self {
        match state {
            TurnState::Queued => Self { state: QUEUED, ..Self::default() },
            TurnState::Dispatched { at } => {
                Self { state: DISPATCHED, dispatched_at: Some(at.as_millis()), ..Self::default() }
            }
            TurnState::Interrupted { at } => {
                Self { state: INTERRUPTED, ended_at: Some(at.as_millis()), ..Self::default() }
            }
            TurnState::Ended { at, outcome: TurnOutcome::Stopped(reason) } => Self {
                state: ENDED,
                ended_at: Some(at.as_millis()),
                stop_reason: Some(reason.as_str()),
                ..Self::default()
            },
            TurnState::Ended { at, outcome: TurnOutcome::Failed(error) } => Self {
                state: ENDED,
                ended_at: Some(at.as_millis()),
                error_code: Some(error.code.as_str()),
                error_message: Some(&error.message),
                error_acp: error.acp.as_deref(),
                ..Self::default()
            },
        }
    }
}
