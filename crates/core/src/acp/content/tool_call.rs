//! Merges what an agent sends about a tool call, in version 1 form, into its latest state.

use serde_json::{Map, Value};

/// The maximum length of one member as JSON.
pub(crate) const MAX_MEMBER_BYTES: usize = 256 << 10;

/// The latest members of a tool call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolCallSnapshot {
    /// The members that are not too long.
    pub members: Map<String, Value>,
    /// The names of the others, so that an old value is not mistaken for the current one.
    pub left_out: Vec<&'static str>,
}

impl ToolCallSnapshot {
    /// Applies an update of the call: its members with these names. An id may be reused, and policies decide by the
    /// newest call, so a `tool_call` discards the earlier members.
    pub fn apply(&mut self, update: &str, names: &[&'static str]) {
        let update: Map<String, Value> = serde_json::from_str(update).unwrap_or_default();
        if update.get("sessionUpdate").is_some_and(|kind| kind == "tool_call") {
            *self = Self::default();
        }
        self.merge(update, names);
    }

    /// Sets the members with these names. Null means unchanged.
    pub(crate) fn merge(&mut self, mut call: Map<String, Value>, names: &[&'static str]) {
        for name in names {
            let Some(value) = call.remove(*name).filter(|value| !value.is_null()) else { continue };
            if value.to_string().len() <= MAX_MEMBER_BYTES {
                self.left_out.retain(|left_out| left_out != name);
                self.members.insert((*name).to_owned(), value);
            } else {
                self.leave_out(name);
            }
        }
    }

    /// Removes a member whose value is too long, and names it.
    pub(crate) fn leave_out(&mut self, name: &'static str) {
        self.members.remove(name);
        if !self.left_out.contains(&name) {
            self.left_out.push(name);
        }
    }
}
