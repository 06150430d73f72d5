//! Merges the plans of a version 2 agent into the one plan of version 1: the entries of all plans, ordered by when
//! each plan first appeared.

use super::recent::RecentMap;
use crate::wire::json::{RawObject, array, items, string};

/// How many plans are remembered.
const MAX_PLANS: usize = 16;

/// How many bytes of a plan are remembered. A larger plan is sent and then dropped.
const MAX_PLAN_BYTES: usize = 16 << 10;

/// The plans of a session, by their ids.
#[derive(Debug, Default)]
pub(super) struct Plans(RecentMap<Vec<String>, MAX_PLANS>);

impl Plans {
    /// A `plan_update`; `None` for a plan that is not a list of entries.
    pub(super) fn update(&mut self, mut update: RawObject<'_>) -> Option<String> {
        let plan = update.remove("plan")?;
        let mut plan = RawObject::parse(&plan)?;
        let id = plan.text("planId")?;
        if plan.get("type") != Some(r#""items""#) {
            return None;
        }
        let entries: Vec<String> = items(plan.get("entries")?)?.into_iter().filter_map(entry_to_v1).collect();
        let size: usize = entries.iter().map(String::len).sum();
        *self.0.entry(&id) = entries;
        if update.get("_meta").is_none()
            && let Some(meta) = plan.remove("_meta")
        {
            update.set("_meta", meta.into_owned());
        }
        let plan = self.plan_update(update);
        if size > MAX_PLAN_BYTES {
            self.0.remove(&id);
        }
        Some(plan)
    }

    /// A `plan_removed`.
    pub(super) fn removed(&mut self, mut update: RawObject<'_>) -> Option<String> {
        self.0.remove(&string(&update.remove("planId")?)?);
        Some(self.plan_update(update))
    }

    fn plan_update(&self, mut update: RawObject<'_>) -> String {
        update.set_text("sessionUpdate", "plan");
        update.set("entries", array(self.0.values().flatten()));
        update.to_string()
    }
}

/// An entry for version 1. Original values that version 1 does not have go into `_meta.acpx`.
fn entry_to_v1(entry: &str) -> Option<String> {
    let mut entry = RawObject::parse(entry)?;
    let status = |status: &str| match status {
        "in_progress" => "in_progress",
        "completed" | "cancelled" => "completed",
        _ => "pending",
    };
    let priority = |priority: &str| match priority {
        "high" => "high",
        "low" => "low",
        _ => "medium",
    };
    let (told_status, told_priority) = (entry.text("status")?, entry.text("priority")?);
    for (name, plan, known) in [
        ("status", &told_status, status(&told_status)),
        ("priority", &told_priority, priority(&told_priority)),
    ] {
        if **plan != *known {
            entry.set_text(name, known);
            entry.set_path(&["_meta", "acpx", name], &crate::wire::encode::json_string(plan));
        }
    }
    Some(entry.to_string())
}
