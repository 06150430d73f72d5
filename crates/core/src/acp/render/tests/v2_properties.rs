//! Property: live updates of a version 2 agent up to any event, plus a replay from the next, give clients of both
//! versions the same conversation.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Log, record, updates};
use crate::acp::agent::ClientFacts;
use crate::acp::render::RecordRenderer;
use crate::model::ProtocolVersion;

/// One step of a version 2 agent.
#[derive(Debug, Clone)]
enum Step {
    /// A turn, with the order of its prompt, its reply and its first updates.
    Turn(Opening),
    Chunk(&'static str, u8, String),
    Whole(&'static str, u8, Option<String>),
    Plan(u8, u8),
    Tool(u8, bool),
    Says(&'static str),
}

#[derive(Debug, Clone, Copy)]
enum Opening {
    Answer,
    EchoThenAnswer,
    WorkThenAnswer,
    EchoAndWorkThenAnswer,
}

fn step() -> impl Strategy<Value = Step> {
    let opening = prop_oneof![
        Just(Opening::Answer),
        Just(Opening::EchoThenAnswer),
        Just(Opening::WorkThenAnswer),
        Just(Opening::EchoAndWorkThenAnswer),
    ];
    let who = || prop_oneof![Just("agent_message"), Just("agent_thought")];
    prop_oneof![
        1 => opening.prop_map(Step::Turn),
        5 => (who(), 0..2u8, "[a-c]{1,2}").prop_map(|(who, id, text)| Step::Chunk(who, id, text)),
        3 => (who(), 0..2u8, prop::option::of("[a-c]{1,3}")).prop_map(|(who, id, text)| Step::Whole(who, id, text)),
        2 => (0..2u8, any::<u8>()).prop_map(|(id, n)| Step::Plan(id, n)),
        1 => (0..2u8, any::<bool>()).prop_map(|(id, ends)| Step::Tool(id, ends)),
        1 => prop_oneof![Just("running"), Just("idle")].prop_map(Step::Says),
    ]
}

fn log(steps: &[Step]) -> Log {
    let (mut log, mut turn) = (Log { protocol: 2, ..Log::new() }, 0);
    for step in steps {
        match step {
            Step::Turn(opening) => {
                if turn > 0 {
                    log.end(turn);
                }
                turn += 1;
                open(&mut log, turn, *opening);
            }
            Step::Chunk(who, id, text) => log.update(
                &json!({
                    "sessionUpdate": format!("{who}_chunk"), "messageId": format!("{turn}.{id}"),
                    "content": { "type": "text", "text": text },
                })
                .to_string(),
            ),
            Step::Whole(who, id, text) => {
                let mut message = json!({ "sessionUpdate": who, "messageId": format!("{turn}.{id}") });
                match text {
                    Some(text) => message["content"] = json!([{ "type": "text", "text": text }]),
                    None => message["_meta"] = json!({ "agent": true }),
                }
                log.update(&message.to_string());
            }
            Step::Plan(id, n) => {
                let entry = json!({ "content": format!("{n}"), "priority": "low", "status": "pending" });
                let plan = json!({ "type": "items", "planId": format!("{turn}.{id}"), "entries": [entry] });
                log.update(&json!({ "sessionUpdate": "plan_update", "plan": plan }).to_string());
            }
            Step::Tool(id, ends) => {
                let status = if *ends { "completed" } else { "in_progress" };
                let call = json!({
                    "sessionUpdate": "tool_call_update", "toolCallId": format!("{turn}.{id}"), "title": "t",
                    "status": status,
                });
                log.update(&call.to_string());
            }
            Step::Says(state) => {
                log.update(&json!({ "sessionUpdate": "state_update", "state": state }).to_string());
            }
        }
    }
    log
}

fn open(log: &mut Log, turn: u64, opening: Opening) {
    log.begin(turn, &format!("prompt {turn}"));
    let content = json!([{ "type": "text", "text": format!("prompt {turn}") }]);
    let echo =
        json!({ "sessionUpdate": "user_message", "messageId": format!("u{turn}"), "content": content });
    let works = r#"{"sessionUpdate":"state_update","state":"running"}"#;
    let (echoes, is_early) = match opening {
        Opening::Answer => (false, false),
        Opening::EchoThenAnswer => (true, false),
        Opening::WorkThenAnswer => (false, true),
        Opening::EchoAndWorkThenAnswer => (true, true),
    };
    if echoes {
        log.update(&echo.to_string());
    }
    if is_early {
        log.update(works);
    }
    log.answer(turn, &format!(r#""result":{{"messageId":"u{turn}"}}"#));
}

/// The conversation as a client sees it.
#[derive(Debug, Clone, Default, PartialEq)]
struct Seen {
    /// The text of each message id; messages without an id are the user's.
    said: BTreeMap<String, String>,
    plans: BTreeMap<String, Value>,
}

impl Seen {
    fn of<'a>(lines: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut seen = Self::default();
        for line in lines {
            seen.hear(&line["params"]["update"]);
        }
        seen
    }

    fn hear(&mut self, update: &Value) {
        let what = update["sessionUpdate"].as_str().unwrap();
        let id = format!("{} {}", what.trim_end_matches("_chunk"), update["messageId"]);
        match what {
            "user_message_chunk" | "agent_message_chunk" | "agent_thought_chunk" => {
                self.said.entry(id).or_default().push_str(update["content"]["text"].as_str().unwrap());
            }
            "user_message" | "agent_message" | "agent_thought" => {
                let said = self.said.entry(id).or_default();
                if let Some(blocks) = update["content"].as_array() {
                    *said = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
                }
            }
            "plan" => drop(self.plans.insert(String::new(), update["entries"].clone())),
            "plan_update" => {
                self.plans.insert(update["plan"]["planId"].to_string(), update["plan"].clone());
            }
            _ => {}
        }
    }
}

fn clients() -> [Arc<ClientFacts>; 2] {
    [ProtocolVersion::V1, ProtocolVersion::V2]
        .map(|protocol| Arc::new(ClientFacts { protocol, ..ClientFacts::default() }))
}

fn followed(log: &Log, client: &Arc<ClientFacts>, cut: usize) -> Vec<Value> {
    let mut rendering = RecordRenderer::new(&record(), Arc::clone(client)).with_seq(true);
    let told = log.events[..cut].iter().flat_map(|event| rendering.render(event, &|_| false));
    told.map(|line| serde_json::from_str(&line).unwrap()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn v2_replay_from_any_event_continues_the_live_stream(
        steps in prop::collection::vec(step(), 0..24),
    ) {
        let log = log(&steps);
        for client in clients() {
            let all = Seen::of(&followed(&log, &client, log.events.len()));
            for cut in 0..=log.events.len() {
                let mut lines = followed(&log, &client, cut);
                lines.extend(log.replay_to(Arc::clone(&client), cut as u64 + 1));
                prop_assert_eq!(&Seen::of(&lines), &all, "after {} in {:?}", cut, client.protocol);
            }
        }
    }

    #[test]
    fn replay_lines_have_times_and_the_last_per_event_a_seq(
        steps in prop::collection::vec(step(), 0..24),
    ) {
        let log = log(&steps);
        for client in clients() {
            let lines = log.replay_to(Arc::clone(&client), 1);
            let acpx = |line: &Value| line["params"]["_meta"]["acpx"].clone();
            prop_assert!(lines.iter().all(|line| acpx(line)["at"].is_string()), "{:?}", lines);
            for pair in lines.windows(2) {
                let is_numbered = acpx(&pair[0])["seq"].is_u64();
                prop_assert!(is_numbered || acpx(&pair[0])["at"] == acpx(&pair[1])["at"], "{:?}", pair);
            }
            let numbered: Vec<Value> = lines.into_iter().filter(|line| acpx(line)["seq"].is_u64()).collect();
            let seqs: Vec<u64> = updates(&numbered).iter().map(|(seq, _)| *seq).collect();
            prop_assert!(seqs.is_sorted(), "{:?}", seqs);
        }
    }
}
