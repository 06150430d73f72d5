//! A tool call with the fields of all its updates, to be told once.

use serde_json::value::RawValue;

use super::fields::Fields;
use super::line::inside_quotes;
use crate::model::{ProtocolVersion, TurnId};

/// The member that says whose update it is.
const ID: &str = "toolCallId";
/// The member that grows piece by piece.
const CONTENT: &str = "content";
/// Members that are a tool's output.
pub(super) const OUTPUT: [&str; 2] = [CONTENT, "rawOutput"];
/// How many bytes of content that came piece by piece are joined at most, whatever a client wants: a call is one
/// line, and no agent makes a line of ours longer than a line may be.
const MOST_JOINED: usize = 16 << 20;

/// A tool call as told so far: every field by its name, the last telling of each, as it was written.
#[derive(Debug, Default)]
pub(super) struct MergedToolCall {
    /// The turn it began in.
    pub(super) turn: Option<TurnId>,
    fields: Fields,
    /// The items of content that came one by one behind the field, each after a comma, so that many of them cost no
    /// more than their bytes.
    more: String,
    /// Whether that was too much, and none of the content is kept.
    is_too_long: bool,
    /// Output that is longer is left out.
    output_bytes: Option<usize>,
}

/// How the call is told.
#[derive(Debug, Clone, Copy)]
pub(super) struct ToolRenderSpec {
    /// Nothing more will come of it: if it has no end, it was cancelled.
    pub(super) is_over: bool,
    /// Whether the client's version has a word for that.
    pub(super) has_cancelled: bool,
}

impl MergedToolCall {
    /// A call of which nothing is told yet. Output that is longer than this is left out.
    pub(super) fn new(turn: Option<TurnId>, output_bytes: Option<usize>) -> Self {
        Self { turn, output_bytes, ..Self::default() }
    }

    /// Takes another update. In version 1 null means that nothing is said of a field; in version 2, that it has no
    /// value any more.
    pub(super) fn take(&mut self, update: &str, protocol: ProtocolVersion) {
        let Some(mut told) = Fields::read(update) else { return };
        told.retain(|name, value| name != ID && !(protocol == ProtocolVersion::V1 && value.get() == "null"));
        if told.get(CONTENT).is_some() {
            // It is told whole, whatever it was before.
            (self.more, self.is_too_long) = (String::new(), false);
        }
        self.fields.take(told);
    }

    /// Takes more content, behind what there is.
    pub(super) fn take_content(&mut self, content: &RawValue) {
        let told = self.fields.get(CONTENT).map_or(0, str::len);
        let most = self.output_bytes.unwrap_or(usize::MAX).min(MOST_JOINED);
        if self.is_too_long || told + self.more.len() + content.get().len() > most {
            self.is_too_long = true;
            self.more = String::new();
            return;
        }
        self.more.push(',');
        self.more.push_str(content.get());
    }

    /// Puts the content that came one by one behind that which was told whole.
    fn join_content(&mut self) {
        let more = std::mem::take(&mut self.more);
        if more.is_empty() {
            return;
        }
        let told = self.fields.get(CONTENT);
        let told = told.and_then(|list| list.trim().strip_prefix('[')?.strip_suffix(']'));
        let list = match told.map(str::trim) {
            None | Some("") => format!("[{}]", more.trim_start_matches(',')),
            Some(items) => format!("[{items}{more}]"),
        };
        self.fields.set_json(CONTENT, &list);
    }

    /// Takes out output that is too long, and names it.
    fn leave_out(&mut self) {
        let most = self.output_bytes.unwrap_or(usize::MAX);
        let is_too_long = |name: &&str| {
            let is_long = self.fields.get(name).is_some_and(|value| value.len() > most);
            is_long || self.is_too_long && *name == CONTENT
        };
        let long: Vec<&str> = OUTPUT.into_iter().filter(is_too_long).collect();
        if !long.is_empty() {
            self.fields.leave_out(&long);
        }
    }

    /// The update object that tells all of it. `id` is JSON.
    pub(super) fn update(mut self, id: &str, protocol: ProtocolVersion, telling: ToolRenderSpec) -> String {
        self.join_content();
        self.leave_out();
        if telling.is_over && self.is_open() {
            if telling.has_cancelled {
                self.fields.set_json("status", r#""cancelled""#);
            } else {
                self.fields.set_json("status", r#""failed""#);
                self.fields.note("status", r#""cancelled""#);
            }
        }
        // Version 1 begins a call with its title; one that was never told it can only be changed.
        let begins = protocol == ProtocolVersion::V1 && self.fields.get("title").is_some();
        let what = if begins { "tool_call" } else { "tool_call_update" };
        let mut update = format!(r#"{{"sessionUpdate":"{what}","toolCallId":{id}"#);
        self.fields.write_behind(&mut update);
        update.push('}');
        update
    }

    /// Whether it is known to have no end. What a status means that we do not know, its agent knows.
    fn is_open(&self) -> bool {
        let status = self.fields.get("status").map(|status| inside_quotes(status).unwrap_or(status));
        matches!(status, None | Some("null" | "pending" | "in_progress"))
    }
}
