//! Property: a replay of any conversation, from any event, shows the same conversation.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Map, Value};

use super::{Log, updates};
use crate::acp::content;
use crate::acp::render::{Bounds, RecordRenderer};
use crate::model::{Conversation, Entry, MessageKind};

/// One step of a conversation.
#[derive(Debug, Clone)]
enum Step {
    Turn,
    Chunk(bool, String),
    Odd(String),
    Tool(u8, bool, String),
    Plan(u8),
    Usage(u8),
    Echo,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => Just(Step::Turn),
        6 => (any::<bool>(), "[a-c\"\\\\\n]{0,3}").prop_map(|(thought, text)| Step::Chunk(thought, text)),
        1 => "[x-z]{1,2}".prop_map(Step::Odd),
        3 => (0..3u8, any::<bool>(), "[a-z]").prop_map(|(id, ends, text)| Step::Tool(id, ends, text)),
        1 => any::<u8>().prop_map(Step::Plan),
        1 => any::<u8>().prop_map(Step::Usage),
        1 => Just(Step::Echo),
    ]
}

fn log(steps: &[Step], is_over: bool) -> Log {
    let (mut log, mut turn, mut echoed) = (Log::new(), 0, 0);
    for step in steps {
        match step {
            Step::Turn => {
                if turn > 0 {
                    log.end(turn);
                }
                turn += 1;
                log.begin(turn, &format!("prompt {turn}"));
            }
            Step::Chunk(thought, text) => {
                log.chunk(if *thought { "agent_thought_chunk" } else { "agent_message_chunk" }, text);
            }
            Step::Odd(text) => log.update(&format!(
                r#"{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"{text}"}},"odd":1}}"#
            )),
            Step::Tool(id, ends, text) => {
                let status = if *ends { "completed" } else { "pending" };
                // Each turn uses other call ids, as agents do.
                log.update(&format!(
                    r#"{{"sessionUpdate":"tool_call_update","toolCallId":"{turn}.{id}","title":"t","status":"{status}","{text}":1}}"#
                ));
            }
            Step::Plan(n) => log.update(&format!(r#"{{"sessionUpdate":"plan","entries":[{n}]}}"#)),
            Step::Usage(n) => log.update(&format!(r#"{{"sessionUpdate":"usage_update","used":{n}}}"#)),
            // A user message that repeats the prompt is an echo, and no client receives it.
            Step::Echo if turn > 0 => {
                let rest = if echoed == turn { String::new() } else { format!("prompt {turn}") };
                echoed = turn;
                log.chunk("user_message_chunk", &rest);
            }
            Step::Echo => log.chunk("user_message_chunk", "made elsewhere"),
        }
    }
    if is_over && turn > 0 {
        log.end(turn);
    }
    log
}

/// A conversation as a client sees it: the messages in order, the tool calls by id, and the last of each other
/// update.
#[derive(Debug, Clone, Default, PartialEq)]
struct Seen {
    words: Vec<(String, String)>,
    tools: BTreeMap<String, Map<String, Value>>,
    last: BTreeMap<String, Value>,
}

impl Seen {
    fn hear(&mut self, update: &Value) {
        let what = update["sessionUpdate"].as_str().unwrap();
        match what {
            "user_message_chunk" | "agent_message_chunk" | "agent_thought_chunk" => {
                self.say(what, update["content"]["text"].as_str().unwrap());
            }
            "tool_call" | "tool_call_update" => {
                let mut fields = update.as_object().unwrap().clone();
                let id = fields.remove("toolCallId").unwrap();
                // Another test covers the status of calls that never ended.
                for name in ["sessionUpdate", "status", "_meta"] {
                    fields.remove(name);
                }
                self.tools.entry(id.to_string()).or_default().extend(fields);
            }
            _ => drop(self.last.insert(what.to_owned(), update.clone())),
        }
    }

    fn say(&mut self, what: &str, text: &str) {
        match self.words.last_mut() {
            _ if text.is_empty() => {}
            Some((kind, said)) if kind == what => said.push_str(text),
            _ => self.words.push((what.to_owned(), text.to_owned())),
        }
    }

    fn of(lines: &[Value]) -> Self {
        let mut seen = Self::default();
        for line in lines {
            seen.hear(&line["params"]["update"]);
        }
        seen
    }
}

/// The conversation that a client should see, computed by the model.
fn folded(log: &Log) -> Seen {
    let mut conversation = Conversation::new(super::record());
    for event in &log.events {
        conversation.apply(event, content(event));
    }
    let mut seen = Seen::default();
    for entry in conversation.entries() {
        match entry {
            Entry::Message(message) => {
                let kind = match message.kind {
                    MessageKind::User => "user_message_chunk",
                    MessageKind::Agent => "agent_message_chunk",
                    MessageKind::Thought => "agent_thought_chunk",
                };
                seen.say(kind, &message.text);
            }
            Entry::Tool(tool) => seen.hear(&Value::Object(tool.fields.clone())),
            Entry::Plan { fields, .. } => seen.hear(&serde_json::from_str(fields).unwrap()),
            Entry::TurnEnd { .. } | Entry::Reset { .. } => {}
        }
    }
    seen
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_replay_says_what_the_conversation_is(
        steps in prop::collection::vec(step(), 0..40), is_over in any::<bool>(),
    ) {
        let log = log(&steps, is_over);
        let mut told = Seen::of(&log.replay());
        // The model's conversation does not contain usage.
        told.last.remove("usage_update");
        prop_assert_eq!(told, folded(&log));
    }

    #[test]
    fn replay_continues_with_the_next_event_from_any_cursor(
        steps in prop::collection::vec(step(), 0..30), is_over in any::<bool>(),
    ) {
        let log = log(&steps, is_over);
        let whole = log.replay();
        let seqs: Vec<u64> = updates(&whole).iter().map(|(seq, _)| *seq).collect();
        prop_assert!(seqs.is_sorted_by(|one, next| one < next), "{:?}", seqs);
        for (index, seq) in seqs.iter().enumerate() {
            let rest = log.replay_from(seq + 1, Bounds::default());
            prop_assert_eq!(&whole[index + 1..], &rest[..], "after {}", seq);
        }
    }

    #[test]
    fn replay_from_any_event_continues_the_live_stream(
        steps in prop::collection::vec(step(), 0..30), is_over in any::<bool>(),
    ) {
        let log = log(&steps, is_over);
        let whole = Seen::of(&log.replay());
        for cut in 0..=log.events.len() {
            let mut rendering = RecordRenderer::new(&super::record(), Arc::default()).with_seq(true);
            let head = log.events[..cut].iter().flat_map(|event| rendering.render(event, &|_| false));
            let mut lines: Vec<Value> = head.map(|line| serde_json::from_str(&line).unwrap()).collect();
            lines.extend(log.replay_from(cut as u64 + 1, Bounds::default()));
            prop_assert_eq!(&Seen::of(&lines), &whole, "after {}", cut);
        }
    }
}
