//! The tool call of a pending request, for clients that did not see it: everything the agent sent about the call, in
//! the request and before it, in version 1 form.
//!
//! It is assembled on first use and cached while the request is pending. Each member and each reply is bounded in size;
//! a member that is too long is left out and named, so that a partial view is recognisable.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::OnceCell;

use crate::acp::translate::UpdatesToV1;
use crate::acp::{MAX_MEMBER_BYTES, ToolCallSnapshot, content, update};
use crate::engine::ResponderRequest;
use crate::host::attach::replay::RecordEvents;
use crate::model::{Content, Event, EventKind, LineageIndex, ProtocolVersion, RecordId, Seq, Update};
use crate::store::{Store, StoreError};
use crate::wire::json;

/// The members of a tool call that describe what it does.
const MEMBERS: [&str; 7] = ["toolCallId", "title", "name", "kind", "locations", "rawInput", "content"];
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
    with_earlier: OnceCell<ToolCallSnapshot>,
}

/// The bytes left for tool calls in one reply.
#[derive(Debug)]
pub(crate) struct AnswerBytes(usize);

impl RequestedCall {
    /// The call of a request; `params` is the version 1 form.
    pub(crate) fn new(request: &ResponderRequest, params: &str) -> Self {
        let own: Value = serde_json::from_str(request.params()).unwrap_or_default();
        let id = own.pointer("/toolCall/toolCallId").or_else(|| own.pointer("/subject/toolCall/toolCallId"));
        let sent: Value = serde_json::from_str(params).unwrap_or_default();
        let mut in_request = ToolCallSnapshot::default();
        if let Some(call) = sent.get("toolCall").and_then(Value::as_object) {
            in_request.merge(call.clone(), &MEMBERS);
        }
        Self {
            in_request,
            id: id.and_then(Value::as_str).map(str::to_owned),
            seq: request.seq(),
            lineage: request.lineage(),
            with_earlier: OnceCell::new(),
        }
    }

    /// All known members, as far as they fit.
    pub(crate) async fn snapshot(
        &self,
        store: &Arc<dyn Store>,
        record: &RecordId,
        left: &mut AnswerBytes,
    ) -> ToolCallSnapshot {
        let call = self.with_earlier.get_or_try_init(|| self.read_earlier(store, record)).await;
        // If the earlier events cannot be read, the request's own members remain.
        left.fitting(call.unwrap_or(&self.in_request))
    }

    async fn read_earlier(
        &self,
        store: &Arc<dyn Store>,
        record: &RecordId,
    ) -> Result<ToolCallSnapshot, StoreError> {
        let mut call = ToolCallSnapshot::default();
        if let Some(id) = &self.id {
            let events = RecordEvents::new(Arc::clone(store), record.clone(), Some(self.seq));
            let mut earlier = EarlierUpdates::new(id, self.lineage);
            events.visit_last_turn(|event| earlier.on_event(event)).await?;
            call = earlier.call;
        }
        call.merge(self.in_request.members.clone(), &MEMBERS);
        // An earlier value must not replace a member that the request has but that is too long.
        for name in &self.in_request.left_out {
            call.leave_out(name);
        }
        Ok(call)
    }
}

impl AnswerBytes {
    /// Takes this many bytes for one request, if they fit.
    pub(crate) fn reserve(&mut self, bytes: usize) -> bool {
        let fits = bytes <= MAX_MEMBER_BYTES.min(self.0);
        self.0 -= if fits { bytes } else { 0 };
        fits
    }

    /// The members of a call that fit into the reply.
    fn fitting(&mut self, call: &ToolCallSnapshot) -> ToolCallSnapshot {
        let mut fitting = ToolCallSnapshot::default();
        for name in MEMBERS {
            let Some(value) = call.members.get(name) else { continue };
            if self.reserve(value.to_string().len()) {
                fitting.members.insert(name.to_owned(), value.clone());
            } else {
                fitting.leave_out(name);
            }
        }
        fitting.left_out.extend(&call.left_out);
        fitting
    }
}

impl Default for AnswerBytes {
    fn default() -> Self {
        Self(ANSWER_BYTES)
    }
}

/// Collects what the agent sent about a call before the request.
struct EarlierUpdates<'a> {
    id: &'a str,
    lineage: LineageIndex,
    translation: UpdatesToV1,
    call: ToolCallSnapshot,
}

impl<'a> EarlierUpdates<'a> {
    fn new(id: &'a str, lineage: LineageIndex) -> Self {
        Self { id, lineage, translation: UpdatesToV1::new(), call: ToolCallSnapshot::default() }
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
            {
                self.call.apply(&fields, &MEMBERS);
            }
        }
    }

    /// The updates of a version 2 line, in version 1.
    fn translate(&mut self, line: &str) -> Vec<Update> {
        let Some(sent) = json::get(line, &["params", "update"]) else { return Vec::new() };
        let updates = self.translation.update(sent);
        updates.iter().map(|line| update(&format!(r#"{{"update":{line}}}"#))).collect()
    }
}

#[cfg(test)]
mod tests;
