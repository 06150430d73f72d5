//! The tool call of a pending request, for clients that did not see it: everything the agent sent about the call, in
//! the request and before it, in version 1 form.
//!
//! It is assembled on first use and cached while the request is pending. Each member and each reply is bounded in size;
//! a member that is too long is left out and named, so that a partial view is recognisable.

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

/// The members of a tool call that describe what it does.
const MEMBERS: [&str; 7] = ["toolCallId", "title", "name", "kind", "locations", "rawInput", "content"];
/// The maximum length of one member as JSON.
const MEMBER_BYTES: usize = 256 << 10;
/// The maximum length of all tool calls in one reply, well below the limit of a line.
const ANSWER_BYTES: usize = 16 << 20;

/// The tool call that a pending request is about.
#[derive(Debug)]
pub(crate) struct RequestedCall {
    /// The call as described in the request itself.
    in_request: ToolCallSnapshot,
    /// The agent's own id for it; `seq` and `lineage` locate the request.
    id: Option<String>,
    seq: Seq,
    lineage: LineageIndex,
    whole: OnceCell<ToolCallSnapshot>,
}

/// A tool call, and the names of members that are too long.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ToolCallSnapshot {
    pub(crate) call: Map<String, Value>,
    pub(crate) left_out: Vec<String>,
}

/// The bytes left for tool calls in one reply.
#[derive(Debug)]
pub(crate) struct AnswerBytes(usize);

impl AnswerBytes {
    /// Takes this many bytes for one request, if they fit.
    pub(crate) fn reserve(&mut self, bytes: usize) -> bool {
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

impl RequestedCall {
    /// The call of a request; `params` is the version 1 form.
    pub(crate) fn new(request: &ResponderRequest, params: &str) -> Self {
        let own: Value = serde_json::from_str(request.params()).unwrap_or_default();
        let id = own.pointer("/toolCall/toolCallId").or_else(|| own.pointer("/subject/toolCall/toolCallId"));
        let sent: Value = serde_json::from_str(params).unwrap_or_default();
        let call = sent.get("toolCall").and_then(Value::as_object);
        Self {
            in_request: call.map(ToolCallSnapshot::of).unwrap_or_default(),
            id: id.and_then(Value::as_str).map(str::to_owned),
            seq: request.seq(),
            lineage: request.lineage(),
            whole: OnceCell::new(),
        }
    }

    /// All known members, as far as they fit.
    pub(crate) async fn snapshot(
        &self,
        store: &Arc<dyn Store>,
        record: &RecordId,
        left: &mut AnswerBytes,
    ) -> ToolCallSnapshot {
        let whole = self.whole.get_or_try_init(|| self.with_earlier(store, record)).await;
        // If the earlier events cannot be read, the request's own members remain.
        whole.unwrap_or(&self.in_request).within(left)
    }

    async fn with_earlier(
        &self,
        store: &Arc<dyn Store>,
        record: &RecordId,
    ) -> Result<ToolCallSnapshot, StoreError> {
        let mut call = match &self.id {
            Some(id) => {
                let events = RecordEvents::new(Arc::clone(store), record.clone(), Some(self.seq));
                let mut earlier = EarlierUpdates::new(id, self.lineage);
                events.visit_last_turn(|event| earlier.on_event(event)).await?;
                earlier.call
            }
            None => Map::new(),
        };
        // An earlier value must not replace a member that the request has but that is too long.
        call.retain(|name, _| !self.in_request.left_out.contains(name));
        // In version 1 null means absent.
        let own = self.in_request.call.iter().filter(|(_, value)| !value.is_null());
        call.extend(own.map(|(name, value)| (name.clone(), value.clone())));
        let mut whole = ToolCallSnapshot::of(&call);
        whole.left_out.extend(self.in_request.left_out.iter().cloned());
        Ok(whole)
    }
}

impl ToolCallSnapshot {
    /// The descriptive members that are not too long.
    fn of(call: &Map<String, Value>) -> Self {
        Self::fitting(call, |length| length <= MEMBER_BYTES)
    }

    /// The members that fit into the reply.
    fn within(&self, left: &mut AnswerBytes) -> Self {
        let mut snapshot = Self::fitting(&self.call, |length| {
            let fits = length <= left.0;
            left.0 -= if fits { length } else { 0 };
            fits
        });
        snapshot.left_out.extend(self.left_out.iter().cloned());
        snapshot
    }

    fn fitting(call: &Map<String, Value>, mut fits: impl FnMut(usize) -> bool) -> Self {
        let mut snapshot = Self::default();
        for name in MEMBERS {
            let Some(value) = call.get(name) else { continue };
            if fits(value.to_string().len()) {
                snapshot.call.insert(name.to_owned(), value.clone());
            } else {
                snapshot.left_out.push(name.to_owned());
            }
        }
        snapshot
    }
}

/// Collects what the agent sent about a call before the request.
struct EarlierUpdates<'a> {
    id: &'a str,
    lineage: LineageIndex,
    translation: UpdatesToV1,
    call: Map<String, Value>,
}

impl<'a> EarlierUpdates<'a> {
    fn new(id: &'a str, lineage: LineageIndex) -> Self {
        Self { id, lineage, translation: UpdatesToV1::new(), call: Map::new() }
    }

    fn on_event(&mut self, event: &Event) {
        // Cheap filter: parse only lines that may be about a tool call. JSON may escape the name.
        let may_be = event.kind == EventKind::Update
            && event.lineage == self.lineage
            && (event.body.contains("toolCallId") || event.body.contains("\\u"));
        if !may_be {
            return;
        }
        let updates = if event.protocol == ProtocolVersion::V2.number() {
            self.translate(&event.body)
        } else {
            match content(event) {
                Content::Update(update) => vec![update],
                _ => Vec::new(),
            }
        };
        for update in updates {
            if let Update::Tool { call, fields } = update
                && *call == *self.id
                && let Ok(Value::Object(fields)) = serde_json::from_str(&fields)
            {
                // An id may be reused. Policies decide by the newest call, so that one is shown.
                if fields.get("sessionUpdate").is_some_and(|kind| kind == "tool_call") {
                    self.call.clear();
                }
                self.call.extend(fields.into_iter().filter(|(_, value)| !value.is_null()));
            }
        }
    }

    /// The updates of a version 2 line, in version 1.
    fn translate(&mut self, line: &str) -> Vec<Update> {
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
        updates.iter().map(|line| update(&format!(r#"{{"update":{line}}}"#))).collect()
    }
}

#[cfg(test)]
mod tests;
