//! Remembers an agent's last tool calls, for permission requests on a terminal that do not repeat the call's members.
//!
//! They match what `pending` shows and what a policy decides by: only updates of this conversation, in version 1 form,
//! and nothing from before a call was restarted. The number of calls is bounded. A member that is too long is omitted
//! and named, so that its old value is not mistaken for the current one.

use acpx_core::acp::ToolCallSnapshot;
use acpx_core::acp::translate::RecentMap;
use acpx_core::model::Update;
use acpx_core::wire::RpcMessage;

use super::UpdateReader;
use crate::output::WatchedEvent;

/// How many calls are remembered.
const CALLS: usize = 64;
/// The members of a call that are shown.
const MEMBERS: [&str; 4] = ["title", "kind", "rawInput", "content"];

/// The last tool calls, most recently updated last.
#[derive(Debug, Default)]
pub(crate) struct RecentToolCalls {
    updates: UpdateReader,
    calls: RecentMap<ToolCallSnapshot, CALLS>,
}

impl RecentToolCalls {
    /// Reads the next event of any kind.
    pub(crate) fn on_event(&mut self, event: &WatchedEvent) {
        // Few lines concern a tool call. The name of a member may contain escapes.
        let line = event.message.get();
        if !line.contains("toolCallId") && !line.contains("\\u") {
            return;
        }
        let Ok(message) = RpcMessage::parse(line) else { return };
        for update in self.updates.read(event, &message) {
            if let Update::Tool { call, fields } = update {
                self.calls.touch(&call).apply(&fields, &MEMBERS);
            }
        }
    }

    /// The known members of this call.
    pub(crate) fn get(&self, call: &str) -> Option<&ToolCallSnapshot> {
        self.calls.get(call)
    }
}

#[cfg(test)]
mod tests {
    use acpx_core::model::{Direction, ProtocolVersion, Seq};
    use serde_json::value::to_raw_value;
    use serde_json::{Value, json};

    use super::*;
    use crate::output::tests::samples::at;

    fn event(update: &Value) -> WatchedEvent {
        let params = json!({ "sessionId": "s", "update": update });
        let line = json!({ "jsonrpc": "2.0", "method": "session/update", "params": params });
        WatchedEvent {
            seq: Seq::FIRST,
            at: at(0),
            direction: Direction::FromAgent,
            turn: None,
            version: ProtocolVersion::V1,
            is_outside_conversation: false,
            message: to_raw_value(&line).unwrap(),
        }
    }

    fn call(what: &str, command: &str) -> Value {
        let input = json!({ "command": command });
        json!({ "sessionUpdate": what, "toolCallId": "t", "title": "Run", "rawInput": input })
    }

    fn snapshot(events: impl IntoIterator<Item = WatchedEvent>) -> ToolCallSnapshot {
        let mut calls = RecentToolCalls::default();
        for event in events {
            calls.on_event(&event);
        }
        calls.get("t").cloned().unwrap()
    }

    fn runs(command: &str) -> ToolCallSnapshot {
        let members = json!({ "title": "Run", "rawInput": { "command": command } });
        ToolCallSnapshot { members: members.as_object().cloned().unwrap(), left_out: Vec::new() }
    }

    #[test]
    fn update_of_another_session_does_not_change_a_tool_call() {
        let aside = WatchedEvent { is_outside_conversation: true, ..event(&call("tool_call", "ls")) };
        assert_eq!(snapshot([event(&call("tool_call", "rm")), aside]), runs("rm"));
    }

    #[test]
    fn too_long_tool_call_member_is_named_and_replaces_the_old_value() {
        let long = event(&call("tool_call", &"x".repeat(5 << 20)));
        let title = json!({ "title": "Run" }).as_object().cloned().unwrap();
        let expected = ToolCallSnapshot { members: title, left_out: vec!["rawInput"] };
        assert_eq!(snapshot([event(&call("tool_call", "ls")), long.clone()]), expected);
        let more =
            event(&json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t", "rawInput": null }));
        assert_eq!(snapshot([long.clone(), more]), expected);
        assert_eq!(snapshot([long, event(&call("tool_call_update", "ls"))]), runs("ls"));
    }

    #[test]
    fn tool_calls_of_version_2_and_with_escaped_names_are_read() {
        let of_version_2 = |command: &str| WatchedEvent {
            version: ProtocolVersion::V2,
            ..event(&call("tool_call_update", command))
        };
        assert_eq!(snapshot([of_version_2("ls"), of_version_2("rm")]), runs("rm"));
        let line = event(&call("tool_call", "rm")).message.get().replace("toolCallId", "tool\\u0043allId");
        let message = serde_json::value::RawValue::from_string(line).unwrap();
        let written_otherwise = WatchedEvent { message, ..event(&json!({})) };
        assert_eq!(snapshot([event(&call("tool_call", "ls")), written_otherwise]), runs("rm"));
    }
}
