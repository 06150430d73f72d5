//! What a question is about, for whoever was not there when its tool call was told: all that the agent has said of the
//! call, in the request and before it, as version 1 has it.
//!
//! It is put together when somebody first wants to know, and kept for as long as the question is open. What one question
//! has, and what all of an answer have, is bounded; a member that is too long is left out and named, so that nobody takes
//! what is shown for the whole.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::sync::OnceCell;

use crate::acp::translate::UpdatesToV1;
use crate::acp::{content, update};
use crate::engine::ResponderRequest;
use crate::model::{Content, Event, EventKind, LineageIndex, ProtocolVersion, RecordId, Seq, Update};
use crate::store::{Store, StoreError};

use crate::host::attach::replay::RecordEvents;

/// The members of a tool call that say what it does.
const MEMBERS: [&str; 7] = ["toolCallId", "title", "name", "kind", "locations", "rawInput", "content"];
/// How long one of them may be, as JSON.
const MEMBER_BYTES: usize = 256 << 10;
/// How long all that one answer tells of calls may be. It is well below what a line may be.
const ANSWER_BYTES: usize = 16 << 20;

/// The tool call that a question is about.
#[derive(Debug)]
pub(crate) struct AskedCall {
    /// What the request itself says of it.
    told: ToolCallSnapshot,
    /// The agent's own id for it, and where it was told.
    id: Option<String>,
    seq: Seq,
    lineage: LineageIndex,
    whole: OnceCell<ToolCallSnapshot>,
}

/// A call as it is told, and the members that are too long for that.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ToolCallSnapshot {
    pub(crate) call: Map<String, Value>,
    pub(crate) left_out: Vec<String>,
}

/// How much an answer may still tell of calls, in bytes.
#[derive(Debug)]
pub(crate) struct AnswerBytes(usize);

impl AnswerBytes {
    /// Takes room for so many bytes of one question, if there is room.
    pub(crate) fn take(&mut self, bytes: usize) -> bool {
        let fits = bytes <= MEMBER_BYTES.min(self.0);
        self.0 -= if fits { bytes } else { 0 };
        fits
    }
}

impl Default for AnswerBytes {
    fn default() -> Self {
        Self(ANSWER_BYTES)
    }
}

impl AskedCall {
    /// The call of a question; `params` is what clients of version 1 are asked.
    pub(crate) fn new(question: &ResponderRequest, params: &str) -> Self {
        let own: Value = serde_json::from_str(question.params()).unwrap_or_default();
        let id = own.pointer("/toolCall/toolCallId").or_else(|| own.pointer("/subject/toolCall/toolCallId"));
        let told: Value = serde_json::from_str(params).unwrap_or_default();
        let told = told.get("toolCall").and_then(Value::as_object);
        Self {
            told: told.map(ToolCallSnapshot::of).unwrap_or_default(),
            id: id.and_then(Value::as_str).map(str::to_owned),
            seq: question.seq(),
            lineage: question.lineage(),
            whole: OnceCell::new(),
        }
    }

    /// All that is known of it, as far as there is room.
    pub(crate) async fn told(
        &self,
        store: &Arc<dyn Store>,
        record: &RecordId,
        left: &mut AnswerBytes,
    ) -> ToolCallSnapshot {
        let whole = self.whole.get_or_try_init(|| self.with_earlier(store, record)).await;
        // Where what came before cannot be read, there is still what the request says.
        whole.unwrap_or(&self.told).within(left)
    }

    async fn with_earlier(
        &self,
        store: &Arc<dyn Store>,
        record: &RecordId,
    ) -> Result<ToolCallSnapshot, StoreError> {
        let mut call = match &self.id {
            Some(id) => {
                let kept = RecordEvents::new(Arc::clone(store), record.clone(), Some(self.seq));
                let mut earlier = Earlier::new(id, self.lineage);
                kept.of_last_turn(|event| earlier.take(event)).await?;
                earlier.call
            }
            None => Map::new(),
        };
        // What was said of it before is not what the request says, though that is too long.
        call.retain(|name, _| !self.told.left_out.contains(name));
        // In version 1 null says nothing.
        let said = self.told.call.iter().filter(|(_, value)| !value.is_null());
        call.extend(said.map(|(name, value)| (name.clone(), value.clone())));
        let mut whole = ToolCallSnapshot::of(&call);
        whole.left_out.extend(self.told.left_out.iter().cloned());
        Ok(whole)
    }
}

impl ToolCallSnapshot {
    /// The members that say what a call does, but those that are too long.
    fn of(call: &Map<String, Value>) -> Self {
        Self::fitting(call, |length| length <= MEMBER_BYTES)
    }

    /// As much of it as there is room for.
    fn within(&self, left: &mut AnswerBytes) -> Self {
        let mut told = Self::fitting(&self.call, |length| {
            let fits = length <= left.0;
            left.0 -= if fits { length } else { 0 };
            fits
        });
        told.left_out.extend(self.left_out.iter().cloned());
        told
    }

    fn fitting(call: &Map<String, Value>, mut fits: impl FnMut(usize) -> bool) -> Self {
        let mut told = Self::default();
        for name in MEMBERS {
            let Some(value) = call.get(name) else { continue };
            if fits(value.to_string().len()) {
                told.call.insert(name.to_owned(), value.clone());
            } else {
                told.left_out.push(name.to_owned());
            }
        }
        told
    }
}

/// What was told of a call before it was asked about.
struct Earlier<'a> {
    id: &'a str,
    lineage: LineageIndex,
    translation: UpdatesToV1,
    call: Map<String, Value>,
}

impl<'a> Earlier<'a> {
    fn new(id: &'a str, lineage: LineageIndex) -> Self {
        Self { id, lineage, translation: UpdatesToV1::new(), call: Map::new() }
    }

    fn take(&mut self, event: &Event) {
        // Few lines are about a tool call, and only those are read. A name may be written in more than one way.
        let may_be = event.kind == EventKind::Update
            && event.lineage == self.lineage
            && (event.body.contains("toolCallId") || event.body.contains("\\u"));
        if !may_be {
            return;
        }
        let updates = if event.protocol == ProtocolVersion::V2.number() {
            self.translated(&event.body)
        } else {
            match content(event) {
                Content::Update(update) => vec![update],
                _ => Vec::new(),
            }
        };
        for told in updates {
            if let Update::Tool { call, fields } = told
                && *call == *self.id
                && let Ok(Value::Object(fields)) = serde_json::from_str(&fields)
            {
                // A policy decides by the call that was begun last under an id, and that is shown.
                if fields.get("sessionUpdate").is_some_and(|what| what == "tool_call") {
                    self.call.clear();
                }
                self.call.extend(fields.into_iter().filter(|(_, value)| !value.is_null()));
            }
        }
    }

    /// What a line of version 2 says, in version 1.
    fn translated(&mut self, line: &str) -> Vec<Update> {
        #[derive(Deserialize)]
        struct Line<'a> {
            #[serde(borrow)]
            params: Params<'a>,
        }
        #[derive(Deserialize)]
        struct Params<'a> {
            #[serde(borrow)]
            update: &'a RawValue,
        }
        let Ok(Line { params }) = serde_json::from_str(line) else { return Vec::new() };
        let updates = self.translation.update(params.update.get());
        updates.iter().map(|told| update(&format!(r#"{{"update":{told}}}"#))).collect()
    }
}

#[cfg(test)]
mod tests;
