//! Merges all updates of a tool call, so that it is rendered once.

use super::line::inside_quotes;
use crate::model::{ProtocolVersion, TurnId};
use crate::wire::encode::json_string;
use crate::wire::json::{self, RawObject};

/// The id member.
const ID: &str = "toolCallId";
/// The member with the kind of an update.
pub(super) const KIND: &str = "sessionUpdate";
/// The member that content chunks extend.
const CONTENT: &str = "content";
/// The members that hold a tool's output.
pub(super) const OUTPUT: [&str; 2] = [CONTENT, "rawOutput"];
/// How many bytes of content chunks are joined at most, regardless of the client's bound: a call is one line, and
/// lines have a maximum length.
const MOST_JOINED: usize = 16 << 20;

/// A tool call so far: the last value of each field, as received.
#[derive(Debug, Default)]
pub(super) struct MergedToolCall {
    /// The turn it began in.
    pub(super) turn: Option<TurnId>,
    fields: RawObject<'static>,
    /// The content chunks that follow the content field, each after a comma. One string keeps many small chunks
    /// cheap.
    more: String,
    /// Whether the content exceeded the bound and was dropped.
    is_too_long: bool,
    /// Longer output is left out.
    output_bytes: Option<usize>,
}

/// How to render the call.
#[derive(Debug, Clone, Copy)]
pub(super) struct ToolRenderSpec {
    /// No update follows: an unfinished call was cancelled.
    pub(super) is_over: bool,
    /// Whether the client's version has the status `cancelled`.
    pub(super) has_cancelled: bool,
}

impl MergedToolCall {
    /// A call without updates. Output longer than `output_bytes` is left out.
    pub(super) fn new(turn: Option<TurnId>, output_bytes: Option<usize>) -> Self {
        Self { turn, output_bytes, ..Self::default() }
    }

    /// Merges another update. In version 1 `null` leaves a field unchanged; in version 2 it clears the field.
    pub(super) fn take(&mut self, update: &str, protocol: ProtocolVersion) {
        let Some(mut known) = RawObject::parse(update) else { return };
        known.remove(ID);
        known.remove(KIND);
        if protocol == ProtocolVersion::V1 {
            known.remove_all_nulls();
        }
        if known.get(CONTENT).is_some() {
            // The update replaces the whole content.
            (self.more, self.is_too_long) = (String::new(), false);
        }
        self.fields.merge(&known);
    }

    /// Appends a content chunk.
    pub(super) fn take_content(&mut self, content: &str) {
        let known = self.fields.get(CONTENT).map_or(0, str::len);
        let most = self.output_bytes.unwrap_or(usize::MAX).min(MOST_JOINED);
        if self.is_too_long || known + self.more.len() + content.len() > most {
            self.is_too_long = true;
            self.more = String::new();
            return;
        }
        self.more.push(',');
        self.more.push_str(content);
    }

    /// Appends the content chunks to the content field.
    fn join_content(&mut self) {
        let more = std::mem::take(&mut self.more);
        if more.is_empty() {
            return;
        }
        let known = self.fields.get(CONTENT);
        let known = known.and_then(|list| list.trim().strip_prefix('[')?.strip_suffix(']'));
        let list = match known.map(str::trim) {
            None | Some("") => format!("[{}]", more.trim_start_matches(',')),
            Some(items) => format!("[{items}{more}]"),
        };
        self.fields.set(CONTENT, list);
    }

    /// Removes long output, and lists it as left out.
    fn leave_out(&mut self) {
        let most = self.output_bytes.unwrap_or(usize::MAX);
        let is_too_long = |name: &&str| {
            let is_long = self.fields.get(name).is_some_and(|value| value.len() > most);
            is_long || self.is_too_long && *name == CONTENT
        };
        let long: Vec<&str> = OUTPUT.into_iter().filter(is_too_long).collect();
        if !long.is_empty() {
            leave_out(&mut self.fields, &long);
        }
    }

    /// The update object with all fields. `id` is JSON.
    pub(super) fn update(mut self, id: &str, protocol: ProtocolVersion, telling: ToolRenderSpec) -> String {
        self.join_content();
        self.leave_out();
        if telling.is_over && self.is_open() {
            if telling.has_cancelled {
                self.fields.set("status", r#""cancelled""#);
            } else {
                self.fields.set("status", r#""failed""#);
                self.fields.set_path(&["_meta", "acpx", "status"], r#""cancelled""#);
            }
        }
        // A version 1 `tool_call` needs a title. Without one the call can only be sent as an update.
        let begins = protocol == ProtocolVersion::V1 && self.fields.get("title").is_some();
        let what = if begins { "tool_call" } else { "tool_call_update" };
        let mut update = format!(r#"{{"sessionUpdate":"{what}","toolCallId":{id}"#);
        self.fields.write_members(&mut update);
        update.push('}');
        update
    }

    /// Whether it is known to be unfinished. An unknown status is left as it is.
    fn is_open(&self) -> bool {
        let status = self.fields.get("status").map(|status| inside_quotes(status).unwrap_or(status));
        matches!(status, None | Some("null" | "pending" | "in_progress"))
    }
}

/// Removes these members, and adds them to the list of omitted members in `_meta.acpx.leftOut`.
pub(super) fn leave_out(fields: &mut RawObject<'_>, names: &[&str]) {
    let listed = fields.get("_meta").and_then(|meta| json::get(meta, &["acpx", "leftOut"]));
    let listed = listed.and_then(|list| serde_json::from_str::<Vec<String>>(list).ok());
    let mut all = listed.unwrap_or_default();
    for name in names {
        fields.remove(name);
        all.push((*name).to_owned());
    }
    all.sort();
    all.dedup();
    let all = json::array(all.iter().map(|name| json_string(name)));
    fields.set_path(&["_meta", "acpx", "leftOut"], &all);
}
