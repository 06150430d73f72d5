//! The exchanges of a record as rows, and the state that continues them as a JSON object.

use rusqlite::Connection;
use rusqlite::types::ValueRef;

use super::super::cells::{self, Cells, Columns, columns};
use super::super::fault::SqliteFault;
use super::{RecordKey, no_key_left, seq_of};
use crate::model::{Exchange, ExchangeCheckpoint, ExchangeFoldState, Seq, StoredExchange};

/// The columns of an exchange.
pub(in super::super) const EXCHANGE: Columns<8> = columns!["exchanges":
    "key", "first", "branch", "prompt", "prompt_rest", "answered", "reply", "reply_rest"; "checksum"];

/// The columns of the state that continues the exchanges of a record.
pub(in super::super) const EXCHANGE_FOLD: Columns<3> =
    columns!["exchange_folds": "record", "through", "state"; "checksum"];

/// The exchanges of a record and the state that continues them; `None` if there are none yet.
pub(in super::super) fn exchanges(
    connection: &Connection,
    key: RecordKey,
) -> Result<Option<ExchangeCheckpoint>, SqliteFault> {
    let mut select = connection
        .prepare_cached(&format!("SELECT {} FROM exchange_folds WHERE record = ?1", EXCHANGE_FOLD.list))?;
    let mut found = select.query([key.0])?;
    let Some(row) = found.next()? else { return Ok(None) };
    let fold = Cells::read(row, 0, &EXCHANGE_FOLD)?;
    let through = Seq(fold.number(1)?);
    let state: ExchangeFoldState = fold.parsed(2, |text| serde_json::from_str(text).ok())?;
    let mut exchanges = Vec::new();
    let mut select = connection.prepare_cached(&format!(
        "SELECT {} FROM exchanges WHERE key BETWEEN ?1 AND ?2 ORDER BY key",
        EXCHANGE.list
    ))?;
    let mut found = select.query([key.first_event(), key.last_event()])?;
    while let Some(row) = found.next()? {
        let exchange = exchange(&Cells::read(row, 0, &EXCHANGE)?)?;
        if exchange.number != exchanges.len() as u64 + 1 {
            return Err(missing());
        }
        exchanges.push(exchange);
    }
    if exchanges.len() as u64 != state.count {
        return Err(missing());
    }
    Ok(Some(ExchangeCheckpoint { through, exchanges, state }))
}

fn missing() -> SqliteFault {
    SqliteFault::Damaged("exchanges of a record are missing".to_owned())
}

fn exchange(cells: &Cells<'_, 8>) -> Result<StoredExchange, SqliteFault> {
    let bytes = |index| usize::try_from(cells.number(index)?).map_err(|_| cells.unknown(index));
    Ok(StoredExchange {
        number: seq_of(cells.integer(0)?).0,
        first: Seq(cells.number(1)?),
        branch: cells.number(2)?,
        exchange: Exchange {
            prompt: cells.text(3)?.to_owned(),
            unstored_prompt: bytes(4)?,
            answered: match cells.integer(5)? {
                0 => false,
                1 => true,
                _ => return Err(cells.unknown(5)),
            },
            reply: cells.text(6)?.to_owned(),
            unstored: bytes(7)?,
        },
    })
}

/// Writes the exchanges that changed and the state that continues them.
pub(in super::super) fn write_exchanges(
    connection: &Connection,
    key: RecordKey,
    checkpoint: &ExchangeCheckpoint,
) -> Result<(), SqliteFault> {
    let mut upsert = connection.prepare_cached(
        "INSERT OR REPLACE INTO exchanges (key, first, branch, prompt, prompt_rest, answered, reply, reply_rest, \
         checksum) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?;
    for StoredExchange { number, branch, first, exchange } in &checkpoint.exchanges {
        let values = [
            ValueRef::Integer(key.event(Seq(*number)).ok_or_else(no_key_left)?),
            cells::number(first.0)?,
            cells::number(*branch)?,
            exchange.prompt.as_str().into(),
            cells::number(exchange.unstored_prompt as u64)?,
            ValueRef::Integer(exchange.answered.into()),
            exchange.reply.as_str().into(),
            cells::number(exchange.unstored as u64)?,
        ];
        cells::write(&mut upsert, &EXCHANGE, values)?;
    }
    let mut upsert = connection.prepare_cached(
        "INSERT OR REPLACE INTO exchange_folds (record, through, state, checksum) VALUES (?1, ?2, ?3, ?4)",
    )?;
    let state = serde_json::to_string(&checkpoint.state).expect("numbers and texts can be written");
    let values = [ValueRef::Integer(key.0), cells::number(checkpoint.through.0)?, state.as_str().into()];
    Ok(cells::write(&mut upsert, &EXCHANGE_FOLD, values)?)
}

/// Erases the exchanges of a record.
pub(in super::super) fn erase_exchanges(connection: &Connection, key: RecordKey) -> Result<(), SqliteFault> {
    let range = [key.first_event(), key.last_event()];
    connection.prepare_cached("DELETE FROM exchanges WHERE key BETWEEN ?1 AND ?2")?.execute(range)?;
    connection.prepare_cached("DELETE FROM exchange_folds WHERE record = ?1")?.execute([key.0])?;
    Ok(())
}
