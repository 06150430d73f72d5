//! A tool call with the fields of all its updates, to be told once.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::line::inside_quotes;
use crate::model::{ProtocolVersion, TurnId};
use crate::wire::encode::json_string;

/// Members that say what an update is; everything else is told of the call.
const NAMES: [&str; 2] = ["sessionUpdate", "toolCallId"];
/// The member that grows piece by piece.
const CONTENT: &str = "content";
/// Members that are a tool's output.
const OUTPUT: [&str; 2] = [CONTENT, "rawOutput"];
/// How many bytes of content that came piece by piece are joined at most, whatever a client wants: a call is one
/// line, and no agent makes a line of ours longer than a line may be.
const MOST_JOINED: usize = 16 << 20;

/// A tool call as told so far: every field by its name, the last telling of each, as it was written.
#[derive(Debug, Default)]
pub(super) struct Tool {
    /// The turn it began in.
    pub(super) turn: Option<TurnId>,
    fields: Vec<(Box<str>, Box<RawValue>)>,
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
pub(super) struct Telling {
    /// Nothing more will come of it: if it has no end, it was cancelled.
    pub(super) is_over: bool,
    /// Whether the client's version has a word for that.
    pub(super) has_cancelled: bool,
}

impl Tool {
    /// A call of which nothing is told yet. Output that is longer than this is left out.
    pub(super) fn new(turn: Option<TurnId>, output_bytes: Option<usize>) -> Self {
        Self { turn, output_bytes, ..Self::default() }
    }

    /// Takes another update. In version 1 null means that nothing is said of a field; in version 2, that it has no
    /// value any more.
    pub(super) fn take(&mut self, update: &str, protocol: ProtocolVersion) {
        let Ok(Fields(told)) = serde_json::from_str(update) else { return };
        for (name, value) in told {
            if NAMES.contains(&&*name) || (protocol == ProtocolVersion::V1 && value.get() == "null") {
                continue;
            }
            self.set(name, value);
        }
    }

    /// Takes more content, behind what there is.
    pub(super) fn take_content(&mut self, content: &RawValue) {
        let told = self.field(CONTENT).map_or(0, str::len);
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
        let told = self.field(CONTENT).and_then(|list| list.trim().strip_prefix('[')?.strip_suffix(']'));
        let list = match told.map(str::trim) {
            None | Some("") => format!("[{}]", more.trim_start_matches(',')),
            Some(items) => format!("[{items}{more}]"),
        };
        self.set_json(CONTENT, &list);
    }

    /// Takes out output that is too long; what that was.
    fn leave_out(&mut self) -> Vec<String> {
        let (most, is_too_long) = (self.output_bytes.unwrap_or(usize::MAX), self.is_too_long);
        let is_long = |(name, value): &mut (Box<str>, Box<RawValue>)| {
            OUTPUT.contains(&&**name) && (value.get().len() > most || is_too_long && **name == *CONTENT)
        };
        let mut left_out: Vec<String> =
            self.fields.extract_if(.., is_long).map(|(name, _)| json_string(&name)).collect();
        let content = json_string(CONTENT);
        if is_too_long && !left_out.contains(&content) {
            left_out.push(content);
        }
        left_out
    }

    /// The update object that tells all of it. `id` is JSON.
    pub(super) fn update(mut self, id: &str, protocol: ProtocolVersion, telling: Telling) -> String {
        let mut ours = Vec::new();
        self.join_content();
        let left_out = self.leave_out();
        if !left_out.is_empty() {
            ours.push(format!(r#""leftOut":[{}]"#, left_out.join(",")));
        }
        if telling.is_over && !self.has_ended() {
            if telling.has_cancelled {
                self.set_json("status", r#""cancelled""#);
            } else {
                self.set_json("status", r#""failed""#);
                ours.push(r#""status":"cancelled""#.to_owned());
            }
        }
        if !ours.is_empty() {
            self.say(&ours.join(","));
        }
        // Version 1 begins a call with its title; one that was never told it can only be changed.
        let begins = protocol == ProtocolVersion::V1 && self.field("title").is_some();
        let what = if begins { "tool_call" } else { "tool_call_update" };
        let mut update = format!(r#"{{"sessionUpdate":"{what}","toolCallId":{id}"#);
        for (name, value) in &self.fields {
            update.push(',');
            update.push_str(&json_string(name));
            update.push(':');
            update.push_str(value.get());
        }
        update.push('}');
        update
    }

    fn has_ended(&self) -> bool {
        let status = self.field("status").and_then(inside_quotes);
        matches!(status, Some("completed" | "failed" | "cancelled"))
    }

    /// Says something of ours under `_meta.acpx`, beside what the agent says there.
    fn say(&mut self, members: &str) {
        let theirs = self.field("_meta").and_then(|meta| meta.trim().strip_prefix('{')?.strip_suffix('}'));
        let rest = match theirs.map(str::trim) {
            None | Some("") => String::new(),
            Some(theirs) => format!(",{theirs}"),
        };
        self.set_json("_meta", &format!(r#"{{"acpx":{{{members}}}{rest}}}"#));
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| &**known == name).map(|(_, value)| value.get())
    }

    fn set_json(&mut self, name: &str, json: &str) {
        if let Ok(value) = RawValue::from_string(json.to_owned()) {
            self.set(name.into(), value);
        }
    }

    fn set(&mut self, name: Box<str>, value: Box<RawValue>) {
        if *name == *CONTENT {
            // It is told whole, whatever it was before.
            (self.more, self.is_too_long) = (String::new(), false);
        }
        match self.fields.iter_mut().find(|(known, _)| *known == name) {
            Some((_, told)) => *told = value,
            None => self.fields.push((name, value)),
        }
    }
}

/// The members of an object, in their order.
struct Fields(Vec<(Box<str>, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Fields;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        source.deserialize_map(Members)
    }
}
