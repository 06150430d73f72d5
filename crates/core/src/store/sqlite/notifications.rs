//! The queue of notifications, one row for each notification and sink, and what became of those that left it.
//!
//! A queue is bounded for each sink, so a sink that fails for long displaces none of another's notifications.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, params};

use super::cells::{self, Cells, Columns, columns};
use super::fault::SqliteFault;
use super::rows::RecordKey;
use crate::model::{
    DeliveryOutcome, Notification, NotificationKind, QueuedNotification, RecordId, SinkStatus, Timestamp,
};
use crate::store::MAX_NOTIFICATIONS;

/// The columns of a queued notification.
pub(super) const NOTIFICATION: Columns<7> = columns!["notifications":
    "id", "sink", "record", "at", "event", "attempts", "next_attempt_at"; "checksum"];

/// The columns of a sink's status.
pub(super) const SINK: Columns<7> = columns!["notification_sinks":
    "sink", "delivered", "given_up", "dropped", "delivered_at", "error", "error_at"; "checksum"];

/// A row of the queue, with the key of its record instead of the id.
struct NotificationRow {
    queued: QueuedNotification,
    record: RecordKey,
}

/// Queues a notification for each of its sinks, unless it is queued there.
pub(super) fn queue(
    connection: &Connection,
    key: RecordKey,
    record: &RecordId,
    notification: &Notification,
) -> Result<(), SqliteFault> {
    let Notification { at, event, sinks, due_at } = notification;
    for sink in sinks {
        let queued = QueuedNotification {
            id: event.id(record),
            sink: sink.clone(),
            record: record.clone(),
            at: *at,
            event: event.clone(),
            attempts: 0,
            next_attempt_at: *due_at,
        };
        if event.kind() == NotificationKind::Waiting {
            remove_waiting(connection, key, Some((sink, &queued.id)))?;
        }
        write(connection, "OR IGNORE", &NotificationRow { queued, record: key })?;
        drop_oldest(connection, sink)?;
    }
    Ok(())
}

/// Removes the notifications of a record's pending requests; with a sink, only there, and all but this one.
pub(super) fn remove_waiting(
    connection: &Connection,
    key: RecordKey,
    but: Option<(&str, &str)>,
) -> Result<(), SqliteFault> {
    let (sink, id) = but.unzip();
    connection
        .prepare_cached(
            "DELETE FROM notifications WHERE record = ?1 AND event LIKE '{\"event\":\"waiting\"%' \
             AND (?2 IS NULL OR (sink = ?2 AND id <> ?3))",
        )?
        .execute(params![key.0, sink, id])?;
    Ok(())
}

/// Drops what is too much in the queue of a sink, and counts it.
fn drop_oldest(connection: &Connection, sink: &str) -> Result<(), SqliteFault> {
    let count = queued(connection, sink)?;
    let excess = count.saturating_sub(MAX_NOTIFICATIONS as u64);
    if excess == 0 {
        return Ok(());
    }
    connection
        .prepare_cached(
            "DELETE FROM notifications WHERE sink = ?1 AND id IN \
             (SELECT id FROM notifications WHERE sink = ?1 ORDER BY at, id LIMIT ?2)",
        )?
        .execute(params![sink, i64::try_from(excess)?])?;
    let mut status = status_of(connection, sink)?;
    status.dropped += excess;
    write_status(connection, &status)
}

/// The notifications that wait for a sink, the next due first.
pub(super) fn of_sink(
    connection: &Connection,
    sink: &str,
    limit: usize,
) -> Result<Vec<QueuedNotification>, SqliteFault> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut select = connection.prepare_cached(&format!(
        "SELECT {} FROM notifications WHERE sink = ?1 ORDER BY next_attempt_at, at, id LIMIT ?2",
        NOTIFICATION.list
    ))?;
    let mut found = select.query(params![sink, limit])?;
    let mut waiting = Vec::new();
    while let Some(row) = found.next()? {
        waiting.push(notification(connection, &Cells::read(row, 0, &NOTIFICATION)?)?.queued);
    }
    Ok(waiting)
}

fn notification(connection: &Connection, cells: &Cells<'_, 7>) -> Result<NotificationRow, SqliteFault> {
    let record = RecordKey(cells.integer(2)?);
    let id: String = connection
        .prepare_cached("SELECT id FROM records WHERE key = ?1")?
        .query_row([record.0], |row| row.get(0))
        .map_err(|_| cells.unknown(2))?;
    let queued = QueuedNotification {
        id: cells.text(0)?.to_owned(),
        sink: cells.text(1)?.to_owned(),
        record: RecordId::new(id).map_err(|_| cells.unknown(2))?,
        at: cells.time(3)?,
        event: cells.parsed(4, |text| serde_json::from_str(text).ok())?,
        attempts: cells.number(5)?,
        next_attempt_at: cells.time(6)?,
    };
    Ok(NotificationRow { queued, record })
}

/// Reads every row of the queue.
pub(super) fn verify(connection: &Connection) -> Result<(), SqliteFault> {
    let mut select = connection.prepare(&format!("SELECT {} FROM notifications", NOTIFICATION.list))?;
    let mut found = select.query([])?;
    while let Some(row) = found.next()? {
        notification(connection, &Cells::read(row, 0, &NOTIFICATION)?)?;
    }
    Ok(())
}

/// Stores the outcome of an attempt.
pub(super) fn settle(
    connection: &Connection,
    id: &str,
    sink: &str,
    outcome: &DeliveryOutcome,
) -> Result<(), SqliteFault> {
    let mut select = connection.prepare_cached(&format!(
        "SELECT {} FROM notifications WHERE id = ?1 AND sink = ?2",
        NOTIFICATION.list
    ))?;
    let mut found = select.query([id, sink])?;
    let Some(row) = found.next()? else { return Ok(()) };
    let mut row = notification(connection, &Cells::read(row, 0, &NOTIFICATION)?)?;
    if let DeliveryOutcome::Failed { next_attempt_at, .. } = outcome {
        row.queued.attempts += 1;
        row.queued.next_attempt_at = *next_attempt_at;
        write(connection, "OR REPLACE", &row)?;
    } else {
        connection
            .prepare_cached("DELETE FROM notifications WHERE id = ?1 AND sink = ?2")?
            .execute([id, sink])?;
    }
    let mut status = status_of(connection, sink)?;
    status.count(outcome);
    write_status(connection, &status)
}

fn write(connection: &Connection, conflict: &str, row: &NotificationRow) -> Result<(), SqliteFault> {
    let QueuedNotification { id, sink, at, event, attempts, next_attempt_at, .. } = &row.queued;
    let event = serde_json::to_string(event).expect("an event has only strings and numbers");
    let values = [
        id.as_str().into(),
        sink.as_str().into(),
        ValueRef::Integer(row.record.0),
        ValueRef::Integer(at.as_millis()),
        event.as_str().into(),
        cells::number(*attempts)?,
        ValueRef::Integer(next_attempt_at.as_millis()),
    ];
    let mut insert = connection.prepare_cached(&format!(
        "INSERT {conflict} INTO notifications (id, sink, record, at, event, attempts, next_attempt_at, \
         checksum) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"
    ))?;
    Ok(cells::write(&mut insert, &NOTIFICATION, values)?)
}

/// The state of every sink that has a notification or has had one.
pub(super) fn sinks(connection: &Connection) -> Result<Vec<SinkStatus>, SqliteFault> {
    let mut select = connection.prepare_cached(
        "SELECT sink FROM notification_sinks UNION SELECT sink FROM notifications ORDER BY sink",
    )?;
    let names = select.query_map([], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
    names.iter().map(|sink| status_of(connection, sink)).collect()
}

fn queued(connection: &Connection, sink: &str) -> Result<u64, SqliteFault> {
    let mut select = connection.prepare_cached("SELECT count(*) FROM notifications WHERE sink = ?1")?;
    Ok(u64::try_from(select.query_row([sink], |row| row.get::<_, i64>(0))?)?)
}

fn status_of(connection: &Connection, sink: &str) -> Result<SinkStatus, SqliteFault> {
    let mut status =
        SinkStatus { sink: sink.to_owned(), queued: queued(connection, sink)?, ..SinkStatus::default() };
    let mut select = connection
        .prepare_cached(&format!("SELECT {} FROM notification_sinks WHERE sink = ?1", SINK.list))?;
    let mut found = select.query([sink])?;
    if let Some(row) = found.next()? {
        let cells = Cells::read(row, 0, &SINK)?;
        status.delivered = cells.number(1)?;
        status.given_up = cells.number(2)?;
        status.dropped = cells.number(3)?;
        status.delivered_at = cells.optional_time(4)?;
        status.error = cells.optional_time(6)?.zip(cells.optional_text(5)?.map(str::to_owned));
    }
    Ok(status)
}

fn write_status(connection: &Connection, status: &SinkStatus) -> Result<(), SqliteFault> {
    let error_at = status.error.as_ref().map(|(at, _)| at.as_millis());
    let values = [
        status.sink.as_str().into(),
        cells::number(status.delivered)?,
        cells::number(status.given_up)?,
        cells::number(status.dropped)?,
        cells::optional_integer(status.delivered_at.map(Timestamp::as_millis)),
        status.error.as_ref().map(|(_, error)| error.as_str()).into(),
        cells::optional_integer(error_at),
    ];
    let mut upsert = connection.prepare_cached(
        "INSERT OR REPLACE INTO notification_sinks (sink, delivered, given_up, dropped, delivered_at, error, \
         error_at, checksum) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?;
    Ok(cells::write(&mut upsert, &SINK, values)?)
}

/// Erases the notifications about a record.
pub(super) fn erase(connection: &Connection, key: RecordKey) -> Result<(), SqliteFault> {
    connection.prepare_cached("DELETE FROM notifications WHERE record = ?1")?.execute([key.0])?;
    Ok(())
}
