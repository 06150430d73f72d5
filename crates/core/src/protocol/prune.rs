//! The params and the result of `_acpx/prune`.

use serde::{Deserialize, Serialize};

use crate::model::Timestamp;

/// The params of `_acpx/prune`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PruneParams {
    /// The records to delete.
    pub session_ids: Vec<String>,
    /// Whether to delete open ones too.
    #[serde(default)]
    pub include_open: bool,
    /// A record that was used or closed after this time stays, because it has changed since it was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unchanged_since: Option<Timestamp>,
}

/// The result of `_acpx/prune`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PruneMeta {
    /// The records that were deleted.
    pub pruned: Vec<String>,
    /// The records that stay.
    pub skipped: Vec<PruneSkipMeta>,
}

/// A record that `_acpx/prune` did not delete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PruneSkipMeta {
    /// The record.
    pub session_id: String,
    /// Why it stays.
    pub reason: PruneSkip,
    /// Why its deletion failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Why a record was not deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PruneSkip {
    /// A turn runs or is queued, or a request waits for an answer.
    Busy,
    /// It is open, and only closed ones were meant.
    Open,
    /// It was used or closed since it was chosen.
    Changed,
    /// Its deletion failed.
    Failed,
}
