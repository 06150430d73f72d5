//! Reads stored lines into the model. The only module that reads `session/update` for the conversation.
//!
//! A line is read in the protocol version it was received in. Reading never fails: a line of unknown shape is stored
//! and forwarded, and contributes nothing.

mod notices;
mod plain_text;
mod tool_call;
mod v2;

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::model::{
    AcpSessionId, ChunkContent, Content, Direction, Event, EventKind, Fact, MessageKind, ProtocolVersion,
    Update,
};
use crate::wire::{RpcMessage, json};

pub(crate) use plain_text::carried_words;
pub use plain_text::{block_words, blocks_words, prompt_words};
pub(crate) use tool_call::MAX_MEMBER_BYTES;
pub use tool_call::ToolCallSnapshot;
pub use v2::update_v2;
pub(crate) use v2::{StateUpdate, has_background, idle_meta, state_update};

/// A `session/update` of ours with a title that the user chose.
pub(crate) fn title_line(session: &AcpSessionId, title: &str) -> Arc<str> {
    let update = serde_json::json!({ "sessionUpdate": "session_info_update", "title": title });
    let params = serde_json::json!({ "sessionId": session.as_str(), "update": update });
    serde_json::json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }).to_string().into()
}

/// What an event contributes to its conversation.
pub fn content(event: &Event) -> Content {
    match (event.direction, event.kind) {
        (Direction::Ours, _) => Fact::from_body(&event.body).map_or(Content::Nothing, Content::Fact),
        (Direction::FromAgent, EventKind::Update) => match RpcMessage::parse(event.body.clone()) {
            Ok(message) => {
                let params = message.params().unwrap_or("null");
                match ProtocolVersion::from_number(event.protocol) {
                    Some(ProtocolVersion::V2) => Content::Update(update_v2(params)),
                    // Events without a known version are older than the field, and use version 1.
                    Some(ProtocolVersion::V1) | None => Content::Update(update(params)),
                }
            }
            Err(_) => Content::Nothing,
        },
        (Direction::ToAgent, EventKind::Request) => match RpcMessage::parse(event.body.clone()) {
            Ok(message) if message.method() == Some("session/prompt") => {
                prompt(message.params().unwrap_or("null"))
            }
            _ => Content::Nothing,
        },
        _ => Content::Nothing,
    }
}

/// The params of a `session/update`, with the members of the update that are read.
#[derive(Deserialize)]
pub(in crate::acp) struct UpdateParams<V> {
    pub(in crate::acp) update: V,
}

#[derive(Deserialize)]
struct UpdateViewV1<'a> {
    #[serde(borrow, rename = "sessionUpdate")]
    what: Cow<'a, str>,
    #[serde(borrow, default, rename = "messageId")]
    message_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "toolCallId")]
    tool_call_id: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "crate::model::even_null")]
    title: Option<&'a RawValue>,
}

/// Reads the params of a `session/update` of version 1.
pub fn update(params: &str) -> Update {
    let Ok(UpdateParams::<UpdateViewV1<'_>> { update: view }) = serde_json::from_str(params) else {
        return Update::Unknown;
    };
    let chunk = |kind| match view.content {
        Some(content) => {
            let message_id = view.message_id.as_deref().map(Into::into);
            Update::Chunk { kind, message_id, content: chunk_content(content.get()) }
        }
        None => Update::Unknown,
    };
    match &*view.what {
        "user_message_chunk" => chunk(MessageKind::User),
        "agent_message_chunk" => chunk(MessageKind::Agent),
        "agent_thought_chunk" => chunk(MessageKind::Thought),
        "tool_call" | "tool_call_update" => match &view.tool_call_id {
            Some(call) => Update::Tool { call: (&**call).into(), fields: raw_update(params) },
            None => Update::Unknown,
        },
        "plan" => Update::Plan { fields: raw_update(params) },
        "session_info_update" => title(view.title),
        "usage_update" => notices::usage(params, false),
        "notice" => notices::notice(params),
        "compaction_update" => notices::compaction(params),
        "available_commands_update" | "current_mode_update" | "config_option_update" => Update::State,
        _ => Update::Unknown,
    }
}

#[derive(Deserialize)]
struct SessionOf<'a> {
    #[serde(borrow, rename = "sessionId")]
    session: Cow<'a, str>,
}

/// Whether the params of an update name another session than this one.
pub(super) fn is_foreign(params: &str, session: &AcpSessionId) -> bool {
    // Almost all params begin with our id and need no parsing. A backslash in the id could be part of an escape.
    let id = session.as_str();
    let rest = params.strip_prefix(r#"{"sessionId":""#).and_then(|rest| rest.strip_prefix(id));
    if rest.is_some_and(|rest| rest.starts_with('"')) && !id.contains('\\') {
        return false;
    }
    serde_json::from_str::<SessionOf<'_>>(params).is_ok_and(|named| named.session != session.as_str())
}

fn raw_update(params: &str) -> Box<str> {
    serde_json::from_str::<UpdateParams<&RawValue>>(params)
        .map_or_else(|_| "{}".into(), |raw| raw.update.get().into())
}

/// Absent means unchanged, null means cleared.
fn title(title_json: Option<&RawValue>) -> Update {
    match title_json.map(|title| serde_json::from_str::<Option<Box<str>>>(title.get())) {
        Some(Ok(title)) => Update::Title(title),
        Some(Err(_)) | None => Update::State,
    }
}

#[derive(Deserialize)]
struct ContentBlockView<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow, default, rename = "_meta")]
    meta: Option<&'a RawValue>,
}

/// Marks a content block of ours that carries the conversation into a fresh session.
const CARRIED: &str = r#"{"acpx":{"carriedHistory":true}}"#;

/// A content block with the conversation so far. It is not part of the user's prompt.
pub(crate) fn carried_block(history: &str) -> String {
    format!(r#"{{"type":"text","text":{},"_meta":{CARRIED}}}"#, serde_json::Value::from(history))
}

/// Whether a content block is such a block.
pub(super) fn is_carried(block: &str) -> bool {
    serde_json::from_str::<ContentBlockView<'_>>(block).is_ok_and(|block| block.is_carried())
}

impl ContentBlockView<'_> {
    fn is_carried(&self) -> bool {
        self.meta.is_some_and(|meta| meta.get() == CARRIED)
    }

    /// The text, unless the block carries the conversation.
    fn into_own_text(self) -> Option<Box<str>> {
        if self.is_carried() { None } else { self.into_text() }
    }

    fn into_text(self) -> Option<Box<str>> {
        if self.kind == "text" { self.text.map(|text| text.into_owned().into()) } else { None }
    }
}

/// The text of a content block, or the block itself if it is not text.
pub(super) fn chunk_content(content: &str) -> ChunkContent {
    let text = serde_json::from_str(content).ok().and_then(ContentBlockView::into_text);
    text.map_or_else(|| ChunkContent::Block(content.into()), ChunkContent::Text)
}

fn prompt(params: &str) -> Content {
    let Some(prompt) = json::get(params, &["prompt"]) else { return Content::Nothing };
    let is_text = |block: &&str| {
        serde_json::from_str(block).is_ok_and(|block: ContentBlockView<'_>| block.kind == "text")
    };
    let others = json::items(prompt).unwrap_or_default().into_iter().filter(|block| !is_text(block));
    Content::Prompt { text: prompt_text(prompt), blocks: others.map(Into::into).collect() }
}

/// The text of a prompt's text blocks, joined. Adjacent ones, such as a file and the words after it, are lines.
pub fn prompt_text(blocks: &str) -> String {
    let read = |block: &str| serde_json::from_str(block).ok().and_then(ContentBlockView::into_own_text);
    let mut joined = String::new();
    let mut follows_text = false;
    for block in json::items(blocks).unwrap_or_default().into_iter().map(read) {
        if block.is_some() && follows_text && !joined.ends_with('\n') {
            joined.push('\n');
        }
        follows_text = block.is_some();
        joined.push_str(&block.unwrap_or_default());
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(update_object: &str) -> Update {
        update(&format!(r#"{{"sessionId":"s","update":{update_object}}}"#))
    }

    #[test]
    fn every_kind_of_update_is_read_as_what_it_is() {
        let text = ChunkContent::Text("a\n".into());
        let cases = [
            (
                r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a\n"}}"#,
                Update::Chunk { kind: MessageKind::Agent, message_id: None, content: text.clone() },
            ),
            (
                r#"{"sessionUpdate":"user_message_chunk","messageId":"m","content":{"text":"a\n","type":"text"}}"#,
                Update::Chunk { kind: MessageKind::User, message_id: Some("m".into()), content: text },
            ),
            (
                r#"{"sessionUpdate":"agent_thought_chunk","content":{"type":"image","data":""}}"#,
                Update::Chunk {
                    kind: MessageKind::Thought,
                    message_id: None,
                    content: ChunkContent::Block(r#"{"type":"image","data":""}"#.into()),
                },
            ),
            (
                r#"{"sessionUpdate":"tool_call_update","toolCallId":"t","new":[1, 2]}"#,
                Update::Tool {
                    call: "t".into(),
                    fields: r#"{"sessionUpdate":"tool_call_update","toolCallId":"t","new":[1, 2]}"#.into(),
                },
            ),
            (
                r#"{"sessionUpdate":"tool_call","toolCallId":"t","kind":"read"}"#,
                Update::Tool {
                    call: "t".into(),
                    fields: r#"{"sessionUpdate":"tool_call","toolCallId":"t","kind":"read"}"#.into(),
                },
            ),
            (
                r#"{"sessionUpdate":"tool_call","toolCallId":"t"}"#,
                Update::Tool {
                    call: "t".into(),
                    fields: r#"{"sessionUpdate":"tool_call","toolCallId":"t"}"#.into(),
                },
            ),
            (r#"{"sessionUpdate":"session_info_update","title":"t"}"#, Update::Title(Some("t".into()))),
            (r#"{"sessionUpdate":"session_info_update","title":null}"#, Update::Title(None)),
            (r#"{"sessionUpdate":"session_info_update"}"#, Update::State),
            (r#"{"sessionUpdate":"usage_update","used":"1"}"#, Update::State),
            (r#"{"sessionUpdate":"from_the_future"}"#, Update::Unknown),
            (r#"{"sessionUpdate":"tool_call"}"#, Update::Unknown),
            (r#"{"sessionUpdate":7}"#, Update::Unknown),
            ("[]", Update::Unknown),
        ];
        for (text, expected) in cases {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn the_text_of_a_prompt_is_that_of_its_text_blocks() {
        let blocks =
            r#"[{"type":"text","text":"a"},{"type":"image","data":"x"},7,{"type":"text","text":"b"}]"#;
        assert_eq!(prompt_text(blocks), "ab");
        let adjacent =
            r#"[{"type":"text","text":"a"},{"type":"text","text":"b\n"},{"type":"text","text":"c"}]"#;
        assert_eq!(prompt_text(adjacent), "a\nb\nc");
        assert_eq!(prompt_text("not json"), "");
    }

    #[test]
    fn update_of_another_session_is_foreign_however_its_id_is_escaped() {
        let is_foreign = |params: &str, id: &str| is_foreign(params, &AcpSessionId::new(id).unwrap());
        let rows = [
            (r#"{"sessionId":"s1","update":{}}"#, "s1", false),
            (r#"{"sessionId":"s11","update":{}}"#, "s1", true),
            (r#"{"update":{}, "sessionId" : "s2"}"#, "s1", true),
            (r#"{"update":{},"sessionId":"\u0073\u0031"}"#, "s1", false),
            // The id contains a backslash, and the params contain an escape.
            (r#"{"sessionId":"a\u0041"}"#, r"a\u0041", true),
            (r#"{"sessionId":"a\\u0041"}"#, r"a\u0041", false),
            (r#"{"update":{}}"#, "s1", false),
            ("null", "s1", false),
        ];
        for (params, id, expected) in rows {
            assert_eq!(is_foreign(params, id), expected, "{params} {id}");
        }
    }
}
