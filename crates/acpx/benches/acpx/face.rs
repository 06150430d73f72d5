//! The face for editors: what an agent says on its way through `acpx acp`, and what is kept told again there.

use acpx_testkit::{Script, ScriptStep};
use serde_json::{Value, json};

use crate::agents::{self, Agents};
use crate::budgets::{self, Budget, Measure};
use crate::programs::Program;
use crate::report::{Report, Row};
use crate::samples::{Samples, alone};
use crate::updates::{UPDATES, chunk};

const ROUNDS: usize = 5;

/// A conversation as agents have them goes in stretches: the agent thinks, it talks, it uses a tool.
const STRETCHES: u32 = 1000;
const THOUGHTS: u32 = 30;
const WORDS: u32 = 60;
/// How often the tool call of a stretch is told between its beginning and its end.
const CHANGES: u32 = UPDATES / STRETCHES - THOUGHTS - WORDS - 2;

/// Times what passes through the face, and what is replayed there.
pub(crate) fn measure(agents: &Agents, report: &mut Report) {
    live(agents, report);
    let turn = (0..STRETCHES).fold(Script::new(), stretch);
    // The prompt, and of each stretch its thoughts, its words and its tool call.
    let lines = 1 + 3 * u64::from(STRETCHES);
    let budgets = [&budgets::FACE_REPLAY, &budgets::FACE_REPLAY_V2];
    replays(&agents.with_turn(turn.end("end_turn")), budgets, lines, report);
    let mut marked = chunk("agent_message_chunk");
    marked["_meta"] = json!({ "mark": 1 });
    let marked = Script::new().step(flood(marked, UPDATES));
    // The prompt, and every update by itself.
    let lines = 1 + u64::from(UPDATES);
    let budgets = [&budgets::FACE_REPLAY_UNJOINED, &budgets::FACE_REPLAY_TRANSLATED];
    replays(&agents.with_turn(marked.end("end_turn")), budgets, lines, report);
}

/// Updates as fast as an agent can send them, counted behind the bridge.
fn live(agents: &Agents, report: &mut Report) {
    let turn = Script::new().step(flood(chunk("agent_message_chunk"), UPDATES)).end("end_turn");
    let program = Program::ours();
    let mut client = program.editor(&agents::line(&agents.with_turn(turn)), 1);
    let session = client.open();
    let samples = alone(ROUNDS, || client.prompt(&session, UPDATES.into()));
    client.end();
    report.add(row(&budgets::FACE_STORED, &samples));
}

/// One turn of an agent, told again to one client after another: of version 1 first, then of version 2. The agent runs,
/// so that only the replay is timed.
fn replays(agent: &[String], budgets: [&'static Budget; 2], lines: u64, report: &mut Report) {
    let program = Program::ours();
    let agent = agents::line(agent);
    let mut first = program.editor(&agent, 1);
    let session = first.open();
    first.prompt(&session, UPDATES.into());
    let from_start = json!({ "replayFrom": { "type": "start" } });
    let requests = [(1, "session/load", json!({})), (2, "session/resume", from_start)];
    for (budget, (protocol, method, more)) in budgets.into_iter().zip(requests) {
        let mut expected = None;
        let samples = alone(ROUNDS, || {
            let mut client = program.editor(&agent, protocol);
            let (time, received) = client.take_up(method, &session, &more);
            client.end();
            // Version 2 also gets the session state, and the beginning of a message that was not joined.
            assert!(
                received >= lines && *expected.get_or_insert(received) == received,
                "every update is received: {received}"
            );
            time
        });
        report.add(row(budget, &samples));
    }
    first.end();
}

fn row(budget: &'static Budget, samples: &Samples) -> Row {
    let rate = f64::from(UPDATES) / samples.least().as_secs_f64();
    Row::new(budget, None, samples.to_string(), vec![(Measure::PerSecond, rate)])
}

/// One more stretch of a conversation.
fn stretch(script: Script, number: u32) -> Script {
    let update = |what: &str, status: &str| {
        let content = json!([{ "type": "content", "content": chunk(what)["content"] }]);
        json!({ "sessionUpdate": what, "toolCallId": format!("call-{number}"), "status": status, "content": content })
    };
    let mut call = update("tool_call", "pending");
    call["title"] = "Run the tests".into();
    script
        .step(flood(chunk("agent_thought_chunk"), THOUGHTS))
        .step(flood(chunk("agent_message_chunk"), WORDS))
        .update(call)
        .step(flood(update("tool_call_update", "in_progress"), CHANGES))
        .update(update("tool_call_update", "completed"))
}

fn flood(update: Value, count: u32) -> ScriptStep {
    ScriptStep::Flood { update, count: Some(count.into()) }
}
