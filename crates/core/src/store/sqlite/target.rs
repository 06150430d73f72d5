//! Applies changes to a record's rows and tracks its state.

use std::ops::ControlFlow;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, OptionalExtension, params, params_from_iter};

use super::cells::{self, Cells};
use super::fault::SqliteFault;
use super::rows::{
    self, DISPATCHED_AT, EVENT, LINEAGE, RECORD, RecordKey, RecordRow, RecordRowState, STANDING,
    StateColumns, TURN,
};
use super::{body, notifications, scope, write};
use crate::model::{
    AbsolutePath, AgentSessionId, Event, Lifecycle, Lineage, RecordId, Scope, Timestamp, Turn, TurnState,
};
use crate::store::progress::RecordProgress;
use crate::store::{Change, ChangeSource, StoreError};

/// A record that is being written.
pub(super) struct RecordWriter<'a> {
    pub(super) connection: &'a Connection,
    pub(super) id: &'a RecordId,
    pub(super) standing: RecordRowState,
}

impl RecordWriter<'_> {
    /// Writes changes in order. The resulting state is written at the end, with [`Self::write_standing`].
    pub(super) fn write_all(&mut self, changes: &[Change]) -> Result<(), SqliteFault> {
        let mut insert_event = self.connection.prepare_cached(
            "INSERT INTO events (key, at, turn, lineage, protocol, direction, kind, body, blob, checksum) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )?;
        for change in changes {
            match change {
                Change::Event(event) => self.write_event(&mut insert_event, event)?,
                Change::Turn(turn) => self.write_turn(turn)?,
                Change::Lineage(lineage) => self.write_lineage(lineage)?,
                Change::Title(title) => self.replace(&[("title", title.as_deref().into())])?,
                Change::UserTitle(title) => self.replace(&[("user_title", title.as_deref().into())])?,
                Change::Usage(usage) => {
                    self.replace(&[("usage", rows::usage_text(usage.as_ref()).as_deref().into())])?;
                }
                Change::McpServers(servers) => {
                    self.replace(&[("mcp_servers", rows::servers_text(servers).as_str().into())])?;
                }
                Change::AdditionalDirectories(directories) => {
                    let text = rows::directories_text(directories);
                    self.replace(&[("additional_directories", text.as_deref().into())])?;
                }
                Change::Lifecycle(lifecycle) => self.write_lifecycle(*lifecycle)?,
                Change::Scope(scope) => self.write_scope(scope.as_ref())?,
                Change::WorkingDirectory { cwd, real_cwd } => self.write_place(cwd, real_cwd)?,
                Change::AgentRun(run) => self.replace(&rows::run_values(Some(run))?)?,
                Change::LastActivity(at) => self.standing.progress.spoken(*at),
                Change::Settings(settings) => {
                    let settings = rows::settings_text(settings);
                    self.replace(&[("settings", settings.as_deref().into())])?;
                }
                Change::Memory(memory) => {
                    self.replace(&[("memory", rows::memory_text(*memory).as_deref().into())])?;
                }
                Change::Exchanges(checkpoint) => {
                    rows::write_exchanges(self.connection, self.standing.key, checkpoint)?;
                }
                Change::Notification(notification) => {
                    notifications::queue(self.connection, self.standing.key, self.id, notification)?;
                }
                Change::RequestSettled => {
                    notifications::remove_waiting(self.connection, self.standing.key, None)?;
                }
                Change::RestoreError(error) => {
                    let error = rows::restore_error_text(error.as_ref());
                    self.replace(&[("restore_error", error.as_deref().into())])?;
                }
                Change::AgentCommand { program, args, protocol } => {
                    let args = rows::list(args);
                    self.replace(&[
                        ("program", program.as_str().into()),
                        ("args", args.as_str().into()),
                        ("protocol", rows::protocol_value(*protocol)),
                    ])?;
                }
            }
        }
        Ok(())
    }

    /// Writes the changes of a source, one batch in memory at a time.
    pub(super) fn write_from(&mut self, source: &dyn ChangeSource) -> Result<(), SqliteFault> {
        let mut written = Ok(());
        source.for_each(&mut |changes| {
            written = self.write_all(changes);
            if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        written
    }

    /// Replaces values of the record's own columns.
    fn replace(&self, others: &[(&'static str, ValueRef<'_>)]) -> Result<(), SqliteFault> {
        let checksum = self.read_row(|cells| Ok(cells.checksum_with(others)))?;
        let columns: Vec<&str> = others.iter().map(|(column, _)| *column).collect();
        let mut update = self.connection.prepare_cached(&format!(
            "UPDATE records SET {} = ?, checksum = ? WHERE key = ?",
            columns.join(" = ?, ")
        ))?;
        let last = [ValueRef::Integer(checksum), ValueRef::Integer(self.standing.key.0)];
        let values = others.iter().map(|(_, value)| *value).chain(last);
        update.execute(params_from_iter(values.map(ToSqlOutput::Borrowed)))?;
        Ok(())
    }

    /// Reads the record's own columns.
    fn read_row<T>(
        &self,
        read: impl FnOnce(&RecordRow<'_>) -> Result<T, SqliteFault>,
    ) -> Result<T, SqliteFault> {
        let mut select =
            self.connection.prepare_cached(&format!("SELECT {} FROM records WHERE key = ?1", RECORD.list))?;
        let mut found = select.query([self.standing.key.0])?;
        match found.next()? {
            Some(row) => read(&Cells::read(row, 0, &RECORD)?),
            None => Err(StoreError::NoRecord(self.id.clone()).into()),
        }
    }

    fn write_lifecycle(&mut self, lifecycle: Lifecycle) -> Result<(), SqliteFault> {
        if lifecycle == Lifecycle::Open {
            let place = self.read_row(rows::place)?;
            scope::refuse_taken(self.connection, self.id, place.scope.as_ref(), &place.real_cwd)?;
        }
        self.standing.progress.lifecycle(lifecycle);
        if lifecycle.is_deleted() {
            write::erase(self.connection, self.standing.key)?;
            self.standing.open_turns = 0;
            let servers = rows::servers_text(&[]);
            self.replace(&[
                ("title", ValueRef::Null),
                ("mcp_servers", servers.as_str().into()),
                ("settings", ValueRef::Null),
                ("memory", ValueRef::Null),
                ("restore_error", ValueRef::Null),
                ("user_title", ValueRef::Null),
                ("usage", ValueRef::Null),
            ])?;
        }
        self.replace(&rows::lifecycle_values(lifecycle))
    }

    fn write_scope(&self, scope: Option<&Scope>) -> Result<(), SqliteFault> {
        let place = self.read_row(rows::place)?;
        if place.lifecycle == Lifecycle::Open {
            scope::refuse_taken(self.connection, self.id, scope, &place.real_cwd)?;
        }
        self.replace(&rows::scope_values(scope))
    }

    fn write_place(&self, cwd: &AbsolutePath, real_cwd: &AbsolutePath) -> Result<(), SqliteFault> {
        let place = self.read_row(rows::place)?;
        if place.lifecycle == Lifecycle::Open {
            scope::refuse_taken(self.connection, self.id, place.scope.as_ref(), real_cwd)?;
        }
        self.replace(&[("cwd", cwd.as_str().into()), ("real_cwd", real_cwd.as_str().into())])
    }

    fn write_event(&mut self, insert: &mut CachedStatement<'_>, event: &Event) -> Result<(), SqliteFault> {
        self.standing.progress.event(self.id, event)?;
        let key = self.standing.key.event(event.seq).ok_or_else(rows::no_key_left)?;
        let body = body::keep(self.connection, &event.body)?;
        let values = [
            ValueRef::Integer(key),
            ValueRef::Integer(event.at.as_millis()),
            cells::optional_number(event.turn.map(|turn| turn.0))?,
            cells::number(event.lineage.0)?,
            ValueRef::Integer(event.protocol.into()),
            ValueRef::Integer(rows::direction_number(event.direction)),
            ValueRef::Integer(rows::kind_number(event.kind)),
            body.text(),
            body.blob(),
        ];
        Ok(cells::write(insert, &EVENT, values)?)
    }

    fn write_turn(&mut self, turn: &Turn) -> Result<(), SqliteFault> {
        self.refuse_taken(turn)?;
        let before = self.turn_before(turn)?;
        let dispatched_before = before.as_ref().and_then(|(_, dispatched_at)| *dispatched_at);
        // Only states are counted, so the other fields may be those of the new turn.
        let before = before.map(|(state, _)| Turn { state, ..turn.clone() });
        self.standing.progress.turn(before.as_ref(), turn);
        self.count_open(before.is_some_and(|before| before.is_open()), turn.is_open());
        let prompt = body::keep(self.connection, &turn.prompt)?;
        let state = StateColumns::of(&turn.state);
        let [fallback, carry_history] = rows::wake_values(turn.wake_options);
        let tool_policy = rows::tool_policy(&turn.policy);
        let [limit, silence] = rows::limit_values(&turn.limits);
        let [cost, currency] = rows::cost_values(turn.cost.as_ref())?;
        let max_usage = rows::max_usage(&turn.limits.spending);
        let values = [
            ValueRef::Integer(self.standing.key.0),
            cells::number(turn.id.0)?,
            turn.request.as_str().into(),
            state.state.into(),
            turn.policy.mode.as_str().into(),
            ValueRef::Integer(turn.queued_at.as_millis()),
            // The dispatch time stays in the row of a turn that has progressed; the model no longer has it.
            cells::optional_integer(state.dispatched_at.or(dispatched_before)),
            cells::optional_integer(state.ended_at),
            state.stop_reason.into(),
            state.error_code.into(),
            state.error_message.into(),
            state.error_acp.into(),
            prompt.text(),
            prompt.blob(),
            turn.usage.as_deref().into(),
            rows::number_unless_none(turn.permissions.approved),
            rows::number_unless_none(turn.permissions.rejected),
            fallback,
            carry_history,
            tool_policy.as_deref().into(),
            rows::unasked(&turn.policy),
            limit,
            silence,
            cost,
            currency,
            max_usage.as_deref().into(),
        ];
        let mut upsert = self.connection.prepare_cached(UPSERT_TURN)?;
        Ok(cells::write(&mut upsert, &TURN, values)?)
    }

    fn refuse_taken(&self, turn: &Turn) -> Result<(), SqliteFault> {
        let holder: Option<i64> = self
            .connection
            .prepare_cached("SELECT turn FROM turns WHERE record = ?1 AND request = ?2")?
            .query_row(params![self.standing.key.0, turn.request.as_str()], |row| row.get(0))
            .optional()?;
        if holder.is_none_or(|holder| u64::try_from(holder) == Ok(turn.id.0)) {
            return Ok(());
        }
        let (record, request) = (self.id.clone(), turn.request.clone());
        Err(StoreError::RequestExists { record, request }.into())
    }

    /// The previous state of a turn and its dispatch time. A prompt in a blob is not read for this.
    fn turn_before(&self, turn: &Turn) -> Result<Option<(TurnState, Option<i64>)>, SqliteFault> {
        let mut statement = self
            .connection
            .prepare_cached(&format!("SELECT {} FROM turns WHERE record = ?1 AND turn = ?2", TURN.list))?;
        let mut found = statement.query(params![self.standing.key.0, i64::try_from(turn.id.0)?])?;
        let Some(row) = found.next()? else { return Ok(None) };
        let cells = Cells::read(row, 0, &TURN)?;
        Ok(Some((rows::turn_state(&cells)?, cells.optional_integer(DISPATCHED_AT)?)))
    }

    fn count_open(&mut self, before: bool, now: bool) {
        let others = self.standing.open_turns.saturating_sub(before.into());
        self.standing.open_turns = others + u64::from(now);
    }

    fn write_lineage(&mut self, lineage: &Lineage) -> Result<(), SqliteFault> {
        let before = rows::lineage(self.connection, &self.standing)?;
        self.standing.progress.lineage(self.id, &before, lineage)?;
        self.standing.lineage_rows = lineage.rows().len() as u64;
        write_lineage(self.connection, self.standing.key, Some(&before), lineage)
    }

    /// Writes the record's state.
    pub(super) fn write_standing(&self) -> Result<(), SqliteFault> {
        let RecordRowState { key, progress, lineage_rows, open_turns } = self.standing;
        let RecordProgress { last_seq, last_turn, answered_turns, updated_at, .. } = progress;
        let values = [
            ValueRef::Integer(key.0),
            ValueRef::Integer(updated_at.as_millis()),
            cells::optional_number(last_seq.map(|seq| seq.0))?,
            cells::optional_number(last_turn.map(|turn| turn.0))?,
            cells::number(answered_turns)?,
            cells::number(lineage_rows)?,
            cells::number(open_turns)?,
        ];
        let mut update = self.connection.prepare_cached(
            "UPDATE records SET updated_at = ?2, last_seq = ?3, last_turn = ?4, answered_turns = ?5, \
             lineage_rows = ?6, open_turns = ?7, standing_checksum = ?8 WHERE key = ?1",
        )?;
        Ok(cells::write(&mut update, &STANDING, values)?)
    }
}

const UPSERT_TURN: &str = "INSERT INTO turns (record, turn, request, state, policy, queued_at, dispatched_at, \
     ended_at, stop_reason, error_code, error_message, error_acp, prompt, prompt_blob, usage, approved, \
     rejected, fallback, carry_history, tool_policy, unasked, limit_ms, silence_ms, cost, currency, max_usage, \
     checksum) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, \
     ?21, ?22, ?23, ?24, ?25, ?26, ?27) \
     ON CONFLICT (record, turn) DO UPDATE SET request = excluded.request, state = excluded.state, \
     policy = excluded.policy, queued_at = excluded.queued_at, dispatched_at = excluded.dispatched_at, \
     ended_at = excluded.ended_at, stop_reason = excluded.stop_reason, error_code = excluded.error_code, \
     error_message = excluded.error_message, error_acp = excluded.error_acp, prompt = excluded.prompt, \
     prompt_blob = excluded.prompt_blob, usage = excluded.usage, approved = excluded.approved, \
     rejected = excluded.rejected, fallback = excluded.fallback, carry_history = excluded.carry_history, \
     tool_policy = excluded.tool_policy, unasked = excluded.unasked, limit_ms = excluded.limit_ms, \
     silence_ms = excluded.silence_ms, cost = excluded.cost, currency = excluded.currency, \
     max_usage = excluded.max_usage, checksum = excluded.checksum";

/// Writes the rows that are new or have been completed.
pub(super) fn write_lineage(
    connection: &Connection,
    record: RecordKey,
    before: Option<&Lineage>,
    now: &Lineage,
) -> Result<(), SqliteFault> {
    let mut upsert = connection.prepare_cached(
        "INSERT INTO lineage (record, row, session, agent_session, began_at, replaced_at, reason, error, \
         checksum) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT (record, row) DO UPDATE SET \
         agent_session = excluded.agent_session, replaced_at = excluded.replaced_at, \
         checksum = excluded.checksum",
    )?;
    let before = before.map(Lineage::rows).unwrap_or_default();
    for (index, row) in now.rows().iter().enumerate() {
        if before.get(index) != Some(row) {
            let error = rows::restore_error_text(row.error.as_ref());
            let values = [
                ValueRef::Integer(record.0),
                cells::number(index as u64 + 1)?,
                row.session.as_str().into(),
                row.agent_session.as_ref().map(AgentSessionId::as_str).into(),
                ValueRef::Integer(row.from.as_millis()),
                cells::optional_integer(row.to.map(Timestamp::as_millis)),
                row.reason.as_str().into(),
                error.as_deref().into(),
            ];
            cells::write(&mut upsert, &LINEAGE, values)?;
        }
    }
    Ok(())
}
