//! Remembers an agent's last tool calls, for permission requests on a terminal that do not repeat the call's members.
//!
//! They match what `pending` shows and what a policy decides by: only updates of this conversation, in version 1 form,
//! and nothing from before a call was restarted. The number of calls is bounded. A member that is too long is omitted
//! and named, so that its old value is not mistaken for the current one.

use std::collections::VecDeque;

use acpx_core::model::Update;
use acpx_core::wire::RpcMessage;
use serde_json::{Map, Value};

use super::UpdateReader;
use crate::output::WatchedEvent;

/// How many calls are remembered.
const CALLS: usize = 64;
/// The members of a call that are shown.
const MEMBERS: [&str; 4] = ["title", "kind", "rawInput", "content"];
/// How long one of them may be, as JSON.
const MEMBER_BYTES: usize = 256 << 10;

/// The last tool calls, most recently updated last.
#[derive(Debug, Default)]
pub(crate) struct RecentToolCalls {
    updates: UpdateReader,
    calls: VecDeque<(Box<str>, RecentToolCall)>,
}

/// The known members of a call.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct RecentToolCall {
    /// Its members.
    pub(crate) members: Map<String, Value>,
    /// The members that are too long to be remembered.
    pub(crate) left_out: Vec<&'static str>,
}

impl RecentToolCalls {
    /// Takes the next event of any kind.
    pub(crate) fn take(&mut self, event: &WatchedEvent) {
        // Few lines concern a tool call. The name of a member may contain escapes.
        let line = event.message.get();
        if !line.contains("toolCallId") && !line.contains("\\u") {
            return;
        }
        let Ok(message) = RpcMessage::parse(line) else { return };
        for update in self.updates.read(event, &message) {
            if let Update::Tool { call, fields } = update
                && let Ok(Value::Object(fields)) = serde_json::from_str(&fields)
            {
                self.told(&call, fields);
            }
        }
    }

    /// The known members of this call.
    pub(crate) fn get(&self, call: &str) -> Option<&RecentToolCall> {
        self.calls.iter().find(|(id, _)| &**id == call).map(|(_, told)| told)
    }

    fn told(&mut self, call: &str, fields: Map<String, Value>) {
        let known = self.calls.iter().position(|(known, _)| &**known == call);
        let known = known.and_then(|index| self.calls.remove(index)).map(|(_, told)| told);
        // A policy decides by the latest call under an id, so that is the one shown.
        let is_new = fields.get("sessionUpdate").is_some_and(|what| what == "tool_call");
        let mut told = known.filter(|_| !is_new).unwrap_or_default();
        told.take(fields);
        self.calls.push_back((call.into(), told));
        if self.calls.len() > CALLS {
            self.calls.pop_front();
        }
    }
}

impl RecentToolCall {
    /// Merges an update of the call. A null member is unchanged.
    fn take(&mut self, mut fields: Map<String, Value>) {
        for name in MEMBERS {
            let Some(value) = fields.remove(name).filter(|value| !value.is_null()) else { continue };
            self.left_out.retain(|left_out| *left_out != name);
            if value.to_string().len() <= MEMBER_BYTES {
                self.members.insert(name.to_owned(), value);
            } else {
                self.members.remove(name);
                self.left_out.push(name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use acpx_core::model::{Direction, ProtocolVersion, Seq};
    use serde_json::json;
    use serde_json::value::to_raw_value;

    use super::*;
    use crate::output::samples::at;

    fn event(update: &Value) -> WatchedEvent {
        let params = json!({ "sessionId": "s", "update": update });
        let line = json!({ "jsonrpc": "2.0", "method": "session/update", "params": params });
        WatchedEvent {
            seq: Seq::FIRST,
            at: at(0),
            direction: Direction::FromAgent,
            turn: None,
            version: ProtocolVersion::V1,
            is_aside: false,
            message: to_raw_value(&line).unwrap(),
        }
    }

    fn call(what: &str, command: &str) -> Value {
        let input = json!({ "command": command });
        json!({ "sessionUpdate": what, "toolCallId": "t", "title": "Run", "rawInput": input })
    }

    fn told(events: impl IntoIterator<Item = WatchedEvent>) -> RecentToolCall {
        let mut calls = RecentToolCalls::default();
        for event in events {
            calls.take(&event);
        }
        calls.get("t").cloned().unwrap()
    }

    fn runs(command: &str) -> RecentToolCall {
        let members = json!({ "title": "Run", "rawInput": { "command": command } });
        RecentToolCall { members: members.as_object().cloned().unwrap(), left_out: Vec::new() }
    }

    #[test]
    fn update_of_another_session_does_not_change_a_tool_call() {
        let aside = WatchedEvent { is_aside: true, ..event(&call("tool_call", "ls")) };
        assert_eq!(told([event(&call("tool_call", "rm")), aside]), runs("rm"));
    }

    #[test]
    fn too_long_tool_call_member_is_named_and_replaces_the_old_value() {
        let long = event(&call("tool_call", &"x".repeat(5 << 20)));
        let title = json!({ "title": "Run" }).as_object().cloned().unwrap();
        let expected = RecentToolCall { members: title, left_out: vec!["rawInput"] };
        assert_eq!(told([event(&call("tool_call", "ls")), long.clone()]), expected);
        let more =
            event(&json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t", "rawInput": null }));
        assert_eq!(told([long.clone(), more]), expected);
        assert_eq!(told([long, event(&call("tool_call_update", "ls"))]), runs("ls"));
    }

    #[test]
    fn tool_calls_of_version_2_and_with_escaped_names_are_read() {
        let of_version_2 = |command: &str| WatchedEvent {
            version: ProtocolVersion::V2,
            ..event(&call("tool_call_update", command))
        };
        assert_eq!(told([of_version_2("ls"), of_version_2("rm")]), runs("rm"));
        let line = event(&call("tool_call", "rm")).message.get().replace("toolCallId", "tool\\u0043allId");
        let message = serde_json::value::RawValue::from_string(line).unwrap();
        let written_otherwise = WatchedEvent { message, ..event(&json!({})) };
        assert_eq!(told([event(&call("tool_call", "ls")), written_otherwise]), runs("rm"));
    }
}
