//! Plans of an agent of version 2, for a client of version 1. Version 1 has one plan, so several are told as one:
//! their entries in the order in which the plans first came.

use super::members::{ObjectMembers, items, list, text};
use super::recent::RecentMap;

/// How many plans are remembered.
const MAX_PLANS: usize = 16;

/// How much of all of them is, in bytes. A plan that is larger is told, and then forgotten.
const MAX_PLAN_BYTES: usize = 16 << 10;

/// The plans of a session, by their ids.
#[derive(Debug)]
pub(super) struct Plans(RecentMap<Vec<String>>);

impl Plans {
    pub(super) fn new() -> Self {
        Self(RecentMap::new(MAX_PLANS))
    }

    /// A `plan_update`; `None` for a plan that is no list of entries.
    pub(super) fn update(&mut self, mut update: ObjectMembers<'_>) -> Option<String> {
        let plan = update.take("plan")?;
        let mut plan = ObjectMembers::parse(&plan)?;
        let id = plan.text("planId")?;
        if plan.get("type") != Some(r#""items""#) {
            return None;
        }
        let entries: Vec<String> = items(plan.get("entries")?)?.into_iter().filter_map(entry_to_v1).collect();
        let size: usize = entries.iter().map(String::len).sum();
        *self.0.entry(&id) = entries;
        if update.get("_meta").is_none()
            && let Some(meta) = plan.take("_meta")
        {
            update.set("_meta", meta.into_owned());
        }
        let told = self.told(update);
        if size > MAX_PLAN_BYTES {
            self.0.remove(&id);
        }
        Some(told)
    }

    /// A `plan_removed`.
    pub(super) fn removed(&mut self, mut update: ObjectMembers<'_>) -> Option<String> {
        self.0.remove(&text(&update.take("planId")?)?);
        Some(self.told(update))
    }

    fn told(&self, mut update: ObjectMembers<'_>) -> String {
        update.set_text("sessionUpdate", "plan");
        update.set("entries", list(self.0.values().flatten()));
        update.to_string()
    }
}

/// An entry in version 1's words, with what it said beside it where version 1 has none.
fn entry_to_v1(entry: &str) -> Option<String> {
    let mut entry = ObjectMembers::parse(entry)?;
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
    for (name, told, known) in [
        ("status", &told_status, status(&told_status)),
        ("priority", &told_priority, priority(&told_priority)),
    ] {
        if **told != *known {
            entry.set_text(name, known);
            entry.note(name, &crate::wire::encode::json_string(told));
        }
    }
    Some(entry.to_string())
}
