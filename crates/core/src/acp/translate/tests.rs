//! Translations by example, as properties, and the published table.

use serde_json::Value;

use super::*;

mod agent_requests;
mod properties;
mod requests;
mod sessions;
mod table;
mod updates;
mod values;

/// Parses JSON.
fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// Parses updates.
fn values(updates: &[Box<str>]) -> Vec<Value> {
    updates.iter().map(|update| value(update)).collect()
}
