//! A failed restore as a column of a record or a lineage row: a JSON object, or null where there is none.

use serde::{Deserialize, Serialize};

use super::super::cells::Cells;
use super::super::fault::SqliteFault;
use crate::model::{RestoreError, Timestamp};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RestoreErrorColumn {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    method: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    code: Option<i64>,
    message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    field: Option<String>,
    /// Milliseconds.
    at: i64,
}

/// A failed restore as a column value.
pub(in super::super) fn restore_error_text(error: Option<&RestoreError>) -> Option<String> {
    let RestoreError { method, code, message, field, at } = error?.clone();
    let stored = RestoreErrorColumn { method, code, message, field, at: at.as_millis() };
    Some(serde_json::to_string(&stored).expect("numbers and texts can be written"))
}

/// The failed restore in a column, if there is one.
pub(super) fn optional<const N: usize>(
    cells: &Cells<'_, N>,
    index: usize,
) -> Result<Option<RestoreError>, SqliteFault> {
    match cells.optional_text(index)? {
        None => Ok(None),
        Some(_) => cells.parsed(index, read).map(Some),
    }
}

fn read(text: &str) -> Option<RestoreError> {
    let RestoreErrorColumn { method, code, message, field, at } = serde_json::from_str(text).ok()?;
    Some(RestoreError { method, code, message, field, at: Timestamp::from_millis(at).ok()? })
}
