//! Folds events into messages and tool calls.

use std::sync::Arc;

use super::*;
use crate::model::{Direction, EventKind};

struct Fold {
    conversation: Conversation,
    seq: u64,
    turn: Option<TurnId>,
    lineage: LineageIndex,
}

impl Fold {
    fn new() -> Self {
        Self {
            conversation: Conversation::new(RecordId::new("r").unwrap()),
            seq: 0,
            turn: Some(TurnId(1)),
            lineage: LineageIndex(1),
        }
    }

    fn apply(&mut self, content: Content) {
        self.seq += 1;
        let event = Event {
            seq: Seq(self.seq),
            at: Timestamp::from_millis(0).unwrap(),
            turn: self.turn,
            lineage: self.lineage,
            protocol: 1,
            direction: Direction::FromAgent,
            kind: EventKind::Update,
            body: Arc::from(""),
        };
        self.conversation.apply(&event, content);
    }

    fn chunk(&mut self, kind: MessageKind, id: Option<&str>, text: &str) {
        let content = ChunkContent::Text(text.into());
        self.apply(Content::Update(Update::Chunk { kind, message_id: id.map(Into::into), content }));
    }

    fn tool(&mut self, call: &str, fields: &str) {
        self.apply(Content::Update(Update::Tool { call: call.into(), fields: fields.into() }));
    }

    fn messages(&self) -> Vec<(&str, MessageKind, &str)> {
        self.conversation
            .entries()
            .iter()
            .filter_map(|entry| match entry {
                Entry::Message(message) => Some((&*message.id, message.kind, &*message.text)),
                _ => None,
            })
            .collect()
    }
}

#[test]
fn a_run_of_chunks_of_one_kind_is_one_message() {
    let mut fold = Fold::new();
    fold.chunk(MessageKind::Thought, None, "hm");
    fold.chunk(MessageKind::Agent, None, "a");
    fold.apply(Content::Update(Update::State));
    fold.chunk(MessageKind::Agent, None, "b");
    fold.tool("t", "{}");
    fold.chunk(MessageKind::Agent, None, "c");
    fold.turn = Some(TurnId(2));
    fold.chunk(MessageKind::Agent, None, "d");
    let expected = [
        ("r:1", MessageKind::Thought, "hm"),
        ("r:2", MessageKind::Agent, "ab"),
        ("r:6", MessageKind::Agent, "c"),
        ("r:7", MessageKind::Agent, "d"),
    ];
    assert_eq!(fold.messages(), expected);
}

#[test]
fn chunks_with_one_message_id_join_except_across_a_reset() {
    let mut fold = Fold::new();
    fold.chunk(MessageKind::Agent, Some("m"), "a");
    fold.tool("t", "{}");
    fold.chunk(MessageKind::Agent, Some("m"), "b");
    fold.lineage = LineageIndex(2);
    fold.chunk(MessageKind::Agent, Some("m"), "c");
    assert_eq!(fold.messages(), [("m", MessageKind::Agent, "ab"), ("m", MessageKind::Agent, "c")]);
}

#[test]
fn a_tool_call_stands_once_with_the_last_telling_of_each_field() {
    let mut fold = Fold::new();
    fold.tool("t", r#"{"toolCallId":"t","title":"read","status":"pending"}"#);
    fold.tool("t", r#"{"toolCallId":"t","status":"completed","new":1}"#);
    let expected = serde_json::json!({"toolCallId":"t","title":"read","status":"completed","new":1});
    let Entry::Tool(tool) = &fold.conversation.entries()[0] else { panic!("not a tool call") };
    assert_eq!(fold.conversation.entries().len(), 1);
    assert_eq!(
        (serde_json::Value::Object(tool.fields.clone()), tool.first, tool.last),
        (expected, Seq(1), Seq(2))
    );
}

#[test]
fn reused_tool_call_id_in_a_later_turn_is_another_call() {
    let mut fold = Fold::new();
    fold.tool("t", r#"{"sessionUpdate":"tool_call","title":"one","status":"pending"}"#);
    fold.tool("t", r#"{"sessionUpdate":"tool_call","status":"completed"}"#);
    fold.turn = Some(TurnId(2));
    fold.tool("t", r#"{"sessionUpdate":"tool_call_update","late":1}"#);
    fold.tool("t", r#"{"sessionUpdate":"tool_call","title":"two"}"#);
    fold.tool("t", r#"{"sessionUpdate":"tool_call_update","status":"failed"}"#);
    let told = fold.conversation.entries().iter().map(|entry| match entry {
        Entry::Tool(ToolCall { turn, fields, .. }) => (*turn, serde_json::Value::from(fields.clone())),
        other => panic!("{other:?}"),
    });
    let expected = [
        (
            Some(TurnId(1)),
            serde_json::json!({"sessionUpdate": "tool_call_update", "title": "one", "status": "completed", "late": 1}),
        ),
        (
            Some(TurnId(2)),
            serde_json::json!({"sessionUpdate": "tool_call_update", "title": "two", "status": "failed"}),
        ),
    ];
    assert_eq!(told.collect::<Vec<_>>(), expected);
}

#[test]
fn prompt_echo_within_its_turn_is_not_repeated() {
    let mut fold = Fold::new();
    fold.apply(Content::Prompt { text: "hi".into(), blocks: Vec::new() });
    fold.chunk(MessageKind::User, None, "hi");
    fold.chunk(MessageKind::Agent, None, "hello");
    let expected = [("r:turn:1", MessageKind::User, "hi"), ("r:3", MessageKind::Agent, "hello")];
    assert_eq!(fold.messages(), expected);
}

#[test]
fn whole_message_replaces_its_chunks_in_their_position() {
    let mut fold = Fold::new();
    let whole = |fold: &mut Fold, content: Option<&str>| {
        let content = content.map(|text| vec![ChunkContent::Text(text.into())]);
        let (kind, message_id) = (MessageKind::Agent, "m".into());
        fold.apply(Content::Update(Update::Message { kind, message_id, content }));
    };
    fold.chunk(MessageKind::Agent, Some("m"), "ol");
    fold.chunk(MessageKind::Agent, Some("n"), "next");
    whole(&mut fold, Some("new"));
    whole(&mut fold, None);
    fold.chunk(MessageKind::Agent, Some("m"), "er");
    let expected = [("m", MessageKind::Agent, "newer"), ("n", MessageKind::Agent, "next")];
    assert_eq!(fold.messages(), expected);
}

#[test]
fn a_piece_of_a_tool_calls_content_comes_after_what_it_has() {
    let mut fold = Fold::new();
    let piece = |fold: &mut Fold, item: &str| {
        fold.apply(Content::Update(Update::ToolContent { call: "t".into(), item: item.into() }));
    };
    piece(&mut fold, "0");
    fold.tool("t", r#"{"content":null}"#);
    piece(&mut fold, "1");
    piece(&mut fold, "2");
    let Some(Entry::Tool(tool)) = fold.conversation.entries().first() else { panic!("a tool call") };
    assert_eq!(serde_json::Value::from(tool.fields.clone()), serde_json::json!({"content": [1, 2]}));
    assert_eq!((tool.first, tool.last), (Seq(2), Seq(4)));
}
