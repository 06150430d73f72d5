//! A record of ours in the member `acpx` of an archive, written and read. `docs/reference/archive.md` has the members.
//!
//! What an untrusted file must not decide is written for people and not read: the agent's command, additional
//! directories, and the files that MCP servers come from.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::scanner::{on_one_line, without_position};
use crate::model::{
    AcpSessionId, AgentSessionId, Direction, ErrorCode, Event, EventKind, Lifecycle, Lineage, LineageIndex,
    LineageReason, LineageRow, McpServerRef, Money, PermissionCount, PermissionPolicy, Record,
    RecordSettings, RequestId, RestoreError, Seq, SessionInfo, SessionUsage, SetupOptions, StopReason,
    Timestamp, Turn, TurnError, TurnId, TurnLimits, TurnOutcome, TurnState, WakeOptions,
};
use crate::store::sqlite::stored_text;

/// The members of a record.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ArchivedRecord {
    created_at: Timestamp,
    updated_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    closed_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user_title: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    mcp_servers: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    additional_directories: Vec<String>,
    lineage: Vec<ArchivedLineageRow>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    settings: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    usage: Option<Box<RawValue>>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ArchivedLineageRow {
    acpx_session_id: AcpSessionId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    agent_session_id: Option<AgentSessionId>,
    from: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    to: Option<Timestamp>,
    reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<RestoreError>,
}

/// A turn.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ArchivedTurn {
    turn: u64,
    request_id: RequestId,
    prompt: Box<RawValue>,
    queued_at: Timestamp,
    /// Absent while it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ended_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stop_reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<ArchivedTurnError>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    usage: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cost: Option<ArchivedCost>,
    #[serde(default, skip_serializing_if = "is_zero")]
    approved: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    rejected: u32,
}

/// What a turn cost, in billionths of the currency.
#[derive(Serialize, Deserialize)]
struct ArchivedCost {
    nanos: u64,
    currency: String,
}

/// The highest cost of a turn that is believed, a million, so that sums of costs stay numbers.
const MAX_COST: u64 = 1_000_000_000_000_000;

#[derive(Serialize, Deserialize)]
struct ArchivedTurnError {
    code: ErrorCode,
    message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    acp: Option<Box<RawValue>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// JSON that was stored, unchanged; `None` if it is none.
fn raw(text: &str) -> Option<Box<RawValue>> {
    RawValue::from_string(text.to_owned()).ok()
}

/// A record as JSON.
pub fn record_object(record: &Record) -> String {
    let row = |row: &LineageRow| ArchivedLineageRow {
        acpx_session_id: row.session.clone(),
        agent_session_id: row.agent_session.clone(),
        from: row.from,
        to: row.to,
        reason: row.reason.as_str().to_owned(),
        error: row.error.clone(),
    };
    let object = ArchivedRecord {
        created_at: record.created_at,
        updated_at: record.updated_at,
        closed_at: match record.lifecycle {
            Lifecycle::Open => None,
            Lifecycle::Closed { at } | Lifecycle::Deleted { at } => Some(at),
        },
        title: record.info.title.clone(),
        user_title: record.info.user_title.clone(),
        mcp_servers: record.mcp_servers.iter().map(|server| server.name.clone()).collect(),
        additional_directories: record.additional_directories.iter().map(ToString::to_string).collect(),
        lineage: record.lineage.rows().iter().map(row).collect(),
        settings: stored_text::settings_text(&record.settings).as_deref().and_then(raw),
        usage: stored_text::usage_text(record.info.usage.as_ref()).as_deref().and_then(raw),
    };
    serde_json::to_string(&object).expect("a record has only text, times and JSON")
}

/// A turn as JSON.
pub fn turn_object(turn: &Turn) -> String {
    let (mut ended_at, mut stop_reason, mut error) = (None, None, None);
    match &turn.state {
        TurnState::Queued | TurnState::Dispatched { .. } => {}
        TurnState::Interrupted { at } => ended_at = Some(*at),
        TurnState::Ended { at, outcome } => {
            ended_at = Some(*at);
            match outcome {
                TurnOutcome::Stopped(reason) => stop_reason = Some(reason.as_str().to_owned()),
                TurnOutcome::Failed(failed) => {
                    error = Some(ArchivedTurnError {
                        code: failed.code.clone(),
                        message: failed.message.to_string(),
                        acp: failed.acp.as_deref().and_then(raw),
                    });
                }
            }
        }
    }
    let object = ArchivedTurn {
        turn: turn.id.0,
        request_id: turn.request.clone(),
        prompt: raw(&turn.prompt).unwrap_or_else(|| RawValue::NULL.to_owned()),
        queued_at: turn.queued_at,
        ended_at,
        stop_reason,
        error,
        usage: turn.usage.as_deref().and_then(raw),
        cost: turn
            .cost
            .as_ref()
            .map(|cost| ArchivedCost { nanos: cost.nanos, currency: cost.currency.to_string() }),
        approved: turn.permissions.approved,
        rejected: turn.permissions.rejected,
    };
    serde_json::to_string(&object).expect("a turn has only text, times and JSON")
}

/// An event as a row: time, turn, row of the lineage, protocol version, direction, kind, and the body of a fact. The
/// body of any other event is a line of the history.
pub fn event_row(event: &Event) -> String {
    let turn = event.turn.map_or_else(|| "null".to_owned(), |turn| turn.0.to_string());
    let (at, lineage, protocol) = (event.at.as_millis(), event.lineage.0, event.protocol);
    let (direction, kind) = (event.direction.as_str(), event.kind.as_str());
    let body = if event.kind == EventKind::Fact { format!(",{}", event.body) } else { String::new() };
    format!(r#"[{at},{turn},{lineage},{protocol},"{direction}","{kind}"{body}]"#)
}

/// A record that was read.
#[derive(Debug)]
pub(super) struct OwnRecord {
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
    pub(super) info: SessionInfo,
    pub(super) mcp_servers: Vec<McpServerRef>,
    /// How many additional directories it had, which are not restored.
    pub(super) left_directories: usize,
    pub(super) lineage: Lineage,
    pub(super) settings: RecordSettings,
    /// Whether it had options of the setup, such as a system prompt or allowed tools, which are not restored.
    pub(super) has_setup: bool,
}

impl OwnRecord {
    /// Reads a record; the first row of its lineage becomes one of an import.
    pub(super) fn read(json: &RawValue) -> Result<Self, String> {
        let object: ArchivedRecord =
            serde_json::from_str(json.get()).map_err(|error| without_position(&error))?;
        let mut rows =
            object.lineage.into_iter().map(ArchivedLineageRow::read).collect::<Result<Vec<_>, _>>()?;
        if let Some(first) = rows.first_mut() {
            // Programs on another machine may have prompted the session, so acpx does not know every prompt of it.
            first.reason = LineageReason::Imported;
        }
        let settings = match object.settings {
            None => RecordSettings::default(),
            Some(settings) => stored_text::settings(settings.get()).ok_or("the settings cannot be read")?,
        };
        let usage: Option<SessionUsage> = match object.usage {
            None => None,
            Some(usage) => Some(stored_text::usage(usage.get()).ok_or("the usage cannot be read")?),
        };
        Ok(Self {
            created_at: object.created_at,
            updated_at: object.updated_at.max(object.created_at),
            info: SessionInfo { title: object.title, user_title: object.user_title, usage },
            mcp_servers: object
                .mcp_servers
                .into_iter()
                .map(|name| McpServerRef { name, source: None })
                .collect(),
            left_directories: object.additional_directories.len(),
            lineage: Lineage::from_rows(rows).ok_or("the lineage is empty")?,
            has_setup: !settings.setup.is_empty(),
            settings: RecordSettings { unmet: Vec::new(), setup: SetupOptions::default(), ..settings },
        })
    }
}

impl ArchivedLineageRow {
    fn read(self) -> Result<LineageRow, String> {
        let reason = LineageReason::parse(&self.reason)
            .ok_or_else(|| format!("{:?} is no reason of a lineage", self.reason))?;
        Ok(LineageRow {
            session: self.acpx_session_id,
            agent_session: self.agent_session_id,
            from: self.from,
            to: self.to,
            reason,
            error: self.error,
        })
    }
}

/// Reads a turn. One that had not ended is interrupted: no prompt of an archive is ever sent.
pub(super) fn turn(json: &RawValue) -> Result<Turn, String> {
    let object: ArchivedTurn = serde_json::from_str(json.get()).map_err(|error| without_position(&error))?;
    let state = match (object.ended_at, object.stop_reason, object.error) {
        (None, None, None) => TurnState::Interrupted { at: object.queued_at },
        (Some(at), None, None) => TurnState::Interrupted { at },
        (Some(at), Some(reason), None) => {
            TurnState::Ended { at, outcome: TurnOutcome::Stopped(StopReason::new(reason)) }
        }
        (Some(at), None, Some(ArchivedTurnError { code, message, acp })) => {
            let acp = acp.map(|acp| line_of(acp.get()));
            TurnState::Ended {
                at,
                outcome: TurnOutcome::Failed(TurnError { code, message: message.into(), acp }),
            }
        }
        _ => return Err("a turn has either stopReason or error, with endedAt".to_owned()),
    };
    let cost = match object.cost {
        Some(ArchivedCost { nanos, .. }) if nanos > MAX_COST => {
            return Err("the cost of a turn is too high".to_owned());
        }
        cost => cost.map(|ArchivedCost { nanos, currency }| Money { nanos, currency: currency.into() }),
    };
    if !object.prompt.get().starts_with('[') {
        return Err("the prompt of a turn is an array".to_owned());
    }
    Ok(Turn {
        id: TurnId(object.turn),
        request: object.request_id,
        prompt: line_of(object.prompt.get()),
        // What a turn that is over was allowed has no effect any more.
        policy: PermissionPolicy::default(),
        wake_options: WakeOptions::default(),
        limits: TurnLimits::default(),
        queued_at: object.queued_at,
        state,
        usage: object.usage.map(|usage| line_of(usage.get())),
        cost,
        permissions: PermissionCount { approved: object.approved, rejected: object.rejected },
    })
}

/// JSON on one line.
fn line_of(json: &str) -> Arc<str> {
    let mut bytes = json.as_bytes().to_vec();
    on_one_line(&mut bytes);
    String::from_utf8(bytes).expect("only ASCII was removed").into()
}

/// A row of an event: all of it but its number, and the body of one that is no fact.
#[derive(Debug)]
pub(super) struct EventRow {
    at: Timestamp,
    turn: Option<TurnId>,
    lineage: LineageIndex,
    protocol: u16,
    direction: Direction,
    kind: EventKind,
    fact: Option<Arc<str>>,
}

impl EventRow {
    pub(super) fn read(json: &RawValue, lineage_rows: u64) -> Result<Self, String> {
        let mut cells: Vec<&RawValue> =
            serde_json::from_str(json.get()).map_err(|error| without_position(&error))?;
        let fact: Option<Arc<str>> =
            if cells.len() == 7 { cells.pop().map(|body| line_of(body.get())) } else { None };
        let [at, turn, lineage, protocol, direction, kind] = cells[..] else {
            return Err("an event has six or seven values".to_owned());
        };
        let number = |cell: &RawValue| cell.get().parse::<u64>().map_err(|_| format!("{cell} is no number"));
        let word = |cell: &RawValue| cell.get().trim_matches('"').to_owned();
        let at = at.get().parse().ok().and_then(|millis| Timestamp::from_millis(millis).ok());
        let row = Self {
            at: at.ok_or("an event has no time")?,
            turn: if turn.get() == "null" { None } else { Some(TurnId(number(turn)?)) },
            lineage: LineageIndex(number(lineage)?),
            protocol: u16::try_from(number(protocol)?).map_err(|_| "the protocol version is too large")?,
            direction: Direction::parse(&word(direction)).ok_or("the direction of an event is unknown")?,
            kind: EventKind::parse(&word(kind)).ok_or("the kind of an event is unknown")?,
            fact,
        };
        let is_fact = row.kind == EventKind::Fact;
        if (is_fact && row.direction != Direction::Ours) || is_fact != row.fact.is_some() {
            return Err(
                "a fact has a body and the direction \"ours\", and no other event has a body".to_owned()
            );
        }
        if row.fact.as_deref().is_some_and(|body| !body.starts_with('{')) {
            return Err("the body of a fact is an object".to_owned());
        }
        if !(1..=lineage_rows).contains(&row.lineage.0) {
            return Err(format!("the lineage has no row {}", row.lineage.0));
        }
        Ok(row)
    }

    /// The turn it belongs to, if any.
    pub(super) fn turn(&self) -> Option<TurnId> {
        self.turn
    }

    /// Whether its body is the next line of the history.
    pub(super) fn has_line(&self) -> bool {
        self.fact.is_none()
    }

    /// The event with its number, and with this line unless it is a fact.
    pub(super) fn event(self, seq: Seq, line: &str) -> Event {
        let Self { at, turn, lineage, protocol, direction, kind, fact } = self;
        let body = fact.unwrap_or_else(|| line.into());
        Event { seq, at, turn, lineage, protocol, direction, kind, body }
    }
}
