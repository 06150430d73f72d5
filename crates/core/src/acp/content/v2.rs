//! Converts version 2 updates to the model. Updates with the same form in both versions use the version 1 code; this
//! module handles what only version 2 has: whole messages, content chunks of tool calls, plans with ids, and session
//! state.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{UpdateParams, chunk_content, notices, raw_update, update};
use crate::model::{ChunkContent, MessageKind, Update};
use crate::wire::json;

#[derive(Deserialize)]
struct UpdateViewV2<'a> {
    #[serde(borrow, rename = "sessionUpdate")]
    what: Cow<'a, str>,
    #[serde(borrow, default, rename = "messageId")]
    message_id: Option<Cow<'a, str>>,
    #[serde(borrow, default, rename = "toolCallId")]
    tool_call_id: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "crate::model::even_null")]
    content: Option<&'a RawValue>,
}

/// Reads the params of a `session/update` of version 2.
pub fn update_v2(params: &str) -> Update {
    let Ok(UpdateParams::<UpdateViewV2<'_>> { update: view }) = serde_json::from_str(params) else {
        return Update::Unknown;
    };
    match &*view.what {
        "user_message" => whole(MessageKind::User, &view),
        "agent_message" => whole(MessageKind::Agent, &view),
        "agent_thought" => whole(MessageKind::Thought, &view),
        "tool_call_update" => match &view.tool_call_id {
            Some(call) => Update::Tool { call: (&**call).into(), fields: raw_update(params) },
            None => Update::Unknown,
        },
        "tool_call_content_chunk" => match (&view.tool_call_id, view.content) {
            (Some(call), Some(item)) => {
                Update::ToolContent { call: (&**call).into(), item: item.get().into() }
            }
            _ => Update::Unknown,
        },
        "plan_update" => Update::Plan { fields: raw_update(params) },
        "usage_update" => notices::usage(params, true),
        "state_update" | "terminal_update" | "terminal_output_chunk" => Update::State,
        // Version 2 does not have these, even though version 1 does.
        "tool_call" | "plan" | "current_mode_update" => Update::Unknown,
        _ => update(params),
    }
}

/// Reads a whole message. Absent content is unchanged; `null` and an empty list clear it.
fn whole(kind: MessageKind, view: &UpdateViewV2<'_>) -> Update {
    let Some(id) = &view.message_id else { return Update::Unknown };
    let pieces = |content: &RawValue| -> Option<Vec<ChunkContent>> {
        let blocks = if content.get() == "null" { Vec::new() } else { json::items(content.get())? };
        Some(blocks.into_iter().map(chunk_content).collect())
    };
    Update::Message { kind, message_id: (&**id).into(), content: view.content.and_then(pieces) }
}

/// The session state that a version 2 agent reports.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) enum StateUpdate {
    /// The session is working.
    Running,
    /// The session is idle.
    Idle {
        /// Why it stopped, if reported.
        stop_reason: Option<Box<str>>,
        /// The error it stopped with: a JSON-RPC error object, as received.
        error: Option<Box<str>>,
        /// The tokens it used: JSON as received.
        usage: Option<Box<str>>,
    },
    /// The session waits for its user.
    RequiresAction,
    /// An unknown state. It must never be treated as idle.
    Other,
}

#[derive(Deserialize)]
struct StateView<'a> {
    #[serde(borrow, rename = "sessionUpdate")]
    what: Cow<'a, str>,
    #[serde(borrow)]
    state: Cow<'a, str>,
    #[serde(borrow, default, rename = "stopReason")]
    stop_reason: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
}

/// The `_meta` object of a version 2 `session/update` line that reports the state idle.
pub(crate) fn idle_meta(line: &str) -> Option<Arc<str>> {
    let update = json::get(line, &["params", "update"])?;
    let member = |name| json::get(update, &[name]);
    let meta = member("_meta").filter(|meta| meta.starts_with('{'))?;
    (member("state") == Some(r#""idle""#)).then(|| meta.into())
}

/// Reads the params of a version 2 `session/update` that reports the session's state; `None` for any other.
pub(crate) fn state_update(params: &str) -> Option<StateUpdate> {
    let UpdateParams::<StateView<'_>> { update: view } = serde_json::from_str(params).ok()?;
    if view.what != "state_update" {
        return None;
    }
    Some(match &*view.state {
        "running" => StateUpdate::Running,
        "requires_action" => StateUpdate::RequiresAction,
        "idle" => {
            let reason =
                view.stop_reason.and_then(|reason| serde_json::from_str::<Box<str>>(reason.get()).ok());
            let error = view.error.filter(|_| reason.as_deref() == Some("error"));
            StateUpdate::Idle {
                error: error.map(|error| error.get().into()),
                usage: view.usage.map(|usage| usage.get().into()),
                stop_reason: reason,
            }
        }
        _ => StateUpdate::Other,
    })
}

#[derive(Deserialize)]
struct BackgroundView<'a> {
    #[serde(borrow, default)]
    background: Option<Vec<&'a RawValue>>,
}

/// Whether a `state_update` lists work that continues outside of the agent's turns. An agent that reports such work
/// lists all of it in every state; other agents have no list.
pub(crate) fn has_background(params: &str) -> bool {
    let read = serde_json::from_str::<UpdateParams<BackgroundView<'_>>>(params);
    read.is_ok_and(|params| params.update.background.is_some_and(|list| !list.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(update: &str) -> String {
        format!(r#"{{"sessionId":"s","update":{update}}}"#)
    }

    #[test]
    fn version_2_updates_are_parsed() {
        let tool = r#"{"sessionUpdate":"tool_call_update","toolCallId":"t","kind":"search","title":null}"#;
        let plan = r#"{"sessionUpdate":"plan_update","plan":{"type":"items","planId":"p","entries":[]}}"#;
        let message = |content| Update::Message { kind: MessageKind::Agent, message_id: "m".into(), content };
        let text = || ChunkContent::Text("a".into());
        let cases = [
            (
                r#"{"sessionUpdate":"agent_message","messageId":"m","content":[{"type":"text","text":"a"},{"type":"_x"}]}"#,
                message(Some(vec![text(), ChunkContent::Block(r#"{"type":"_x"}"#.into())])),
            ),
            (r#"{"sessionUpdate":"agent_message","messageId":"m"}"#, message(None)),
            (r#"{"sessionUpdate":"agent_message","messageId":"m","content":null}"#, message(Some(vec![]))),
            (r#"{"sessionUpdate":"agent_message","content":[]}"#, Update::Unknown),
            (
                r#"{"sessionUpdate":"user_message_chunk","messageId":"m","content":{"type":"text","text":"a"}}"#,
                Update::Chunk { kind: MessageKind::User, message_id: Some("m".into()), content: text() },
            ),
            (tool, Update::Tool { call: "t".into(), fields: tool.into() }),
            (
                r#"{"sessionUpdate":"tool_call_content_chunk","toolCallId":"t","content":{"type":"terminal"}}"#,
                Update::ToolContent { call: "t".into(), item: r#"{"type":"terminal"}"#.into() },
            ),
            (plan, Update::Plan { fields: plan.into() }),
            (r#"{"sessionUpdate":"state_update","state":"idle"}"#, Update::State),
            (r#"{"sessionUpdate":"session_info_update","title":"t"}"#, Update::Title(Some("t".into()))),
            (r#"{"sessionUpdate":"tool_call","toolCallId":"t"}"#, Update::Unknown),
            (r#"{"sessionUpdate":"_ours"}"#, Update::Unknown),
        ];
        for (text, expected) in cases {
            assert_eq!(update_v2(&params(text)), expected, "{text}");
        }
    }

    #[test]
    fn unknown_state_update_is_never_idle() {
        let idle = |reason: Option<&str>, error: Option<&str>| StateUpdate::Idle {
            stop_reason: reason.map(Into::into),
            error: error.map(Into::into),
            usage: None,
        };
        let cases = [
            (r#""state":"running""#, StateUpdate::Running),
            (r#""state":"requires_action""#, StateUpdate::RequiresAction),
            (r#""state":"idle""#, idle(None, None)),
            (r#""state":"idle","stopReason":"end_turn","error":{}"#, idle(Some("end_turn"), None)),
            (
                r#""state":"idle","stopReason":"error","error":{"code":1}"#,
                idle(Some("error"), Some(r#"{"code":1}"#)),
            ),
            (r#""state":"idle","stopReason":7"#, idle(None, None)),
            (r#""state":"unknown""#, StateUpdate::Other),
        ];
        for (members, expected) in cases {
            let update = format!(r#"{{"sessionUpdate":"state_update",{members}}}"#);
            assert_eq!(state_update(&params(&update)), Some(expected), "{members}");
        }
        assert_eq!(state_update(&params(r#"{"sessionUpdate":"notice","state":"idle"}"#)), None);
        assert_eq!(state_update("[]"), None);
    }

    #[test]
    fn only_a_list_with_something_in_it_is_work_in_the_background() {
        let cases = [
            (r#""background":[{"type":"terminal","terminalId":"t"}]"#, true),
            (r#""background":[{"type":"_what_comes_next"}]"#, true),
            (r#""background":[]"#, false),
            (r#""background":null"#, false),
            (r#""background":"x""#, false),
            (r#""stopReason":"end_turn""#, false),
        ];
        for (member, expected) in cases {
            let update = format!(r#"{{"sessionUpdate":"state_update","state":"idle",{member}}}"#);
            assert_eq!(has_background(&params(&update)), expected, "{member}");
        }
        assert!(!has_background("null"));
    }

    #[test]
    fn meta_of_an_idle_state_is_read_unchanged() {
        let line =
            |update: &str| format!(r#"{{"method":"session/update","params":{{"update":{{{update}}}}}}}"#);
        let read = |update: &str| idle_meta(&line(update));
        assert_eq!(read(r#""state":"idle","_meta":{"z": 1.0}"#).as_deref(), Some(r#"{"z": 1.0}"#));
        assert_eq!(read(r#""state":"idle","_meta":null"#), None);
        assert_eq!(read(r#""state":"running","_meta":{"z":1}"#), None);
        assert_eq!(read(r#""state":"idle""#), None);
    }
}
