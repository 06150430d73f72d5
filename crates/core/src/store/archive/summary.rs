//! What reading the conversation of an archive shows.

use crate::model::Lineage;

/// What reading the conversation showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ImportSummary {
    pub(super) lineage: Lineage,
    pub(super) events: u64,
    pub(super) turns: u64,
    pub(super) notes: Vec<String>,
}
