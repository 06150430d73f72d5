//! The usage of a session as a column: a JSON object, or null where the agent has reported none.

use serde::{Deserialize, Serialize};
use serde_json::Number;

use crate::model::{Cost, SessionUsage};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct UsageColumn {
    used: u64,
    size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cost: Option<CostColumn>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CostColumn {
    amount: Number,
    currency: String,
}

/// A usage as a column value.
pub(in crate::store) fn usage_text(usage: Option<&SessionUsage>) -> Option<String> {
    let SessionUsage { used, size, cost } = usage?.clone();
    let cost = cost.map(|Cost { amount, currency }| CostColumn { amount, currency });
    Some(serde_json::to_string(&UsageColumn { used, size, cost }).expect("numbers and texts can be written"))
}

/// The usage in a column.
pub(in crate::store) fn usage(text: &str) -> Option<SessionUsage> {
    let UsageColumn { used, size, cost } = serde_json::from_str(text).ok()?;
    let cost = cost.map(|CostColumn { amount, currency }| Cost { amount, currency });
    Some(SessionUsage { used, size, cost })
}
