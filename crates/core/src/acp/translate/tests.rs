//! Translations by example, as properties, and the published table.

use serde_json::Value;

use super::*;

mod properties;
mod questions;
mod requests;
mod sessions;
mod table;
mod updates;
mod values;

/// What a text of JSON says.
fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// What updates say.
fn values(updates: &[Box<str>]) -> Vec<Value> {
    updates.iter().map(|update| value(update)).collect()
}
