//! Two editors and a shell on one session for a thousand turns, while each of them, the host and the agent are killed at
//! moments that chance decides.
//!
//! Chance begins with a seed. One that failed is tried again with `ACPX_SOAK_SEED`; how the processes meet is still up
//! to the machine.

mod chance;
mod conversation;
mod editor;
mod process;
mod verdict;
mod world;

use std::hash::{BuildHasher, RandomState};

use acpx_testkit::Script;
use serde_json::json;

use crate::acpx::Place;
use verdict::Kept;
use world::World;

/// How many prompts are surely asked.
const TURNS: usize = 1000;
/// How often each of those who are killed is.
const KILLS_OF_A_KIND: usize = 14;

#[test]
fn two_editors_and_a_shell_end_with_the_conversation_that_is_kept_whoever_is_killed() {
    let place = Place::new();
    place.scripted(&agent());
    let mut world = World::new(place, seed());
    world.run();
    let kept = Kept::read(&world);
    world.until_told(kept.last_told());
    assert!(kept.turns() >= TURNS, "{} turns", kept.turns());
    assert_eq!(world.kills.values().copied().collect::<Vec<_>>(), [KILLS_OF_A_KIND; 5]);
    verdict::prompts_are_kept(&world, &kept);
    verdict::conversations_are_equal(&mut world, &kept);
}

fn seed() -> u64 {
    match std::env::var("ACPX_SOAK_SEED") {
        Ok(seed) => seed.parse().expect("ACPX_SOAK_SEED is a number"),
        Err(_) => RandomState::new().hash_one("soak"),
    }
}

/// An agent that can be resumed. In every turn it thinks, speaks, uses a tool and speaks again, and all that names the
/// prompt.
fn agent() -> Script {
    let output = json!([{ "type": "content", "content": { "type": "text", "text": "{prompt}/output" } }]);
    let call = "{prompt}/call";
    let turn = Script::new()
        .update(thought("{prompt}/t1 "))
        .update(thought("{prompt}/t2"))
        .say("{prompt}/a1 ")
        .say("{prompt}/a2")
        .delay(1)
        .update(json!({ "sessionUpdate": "tool_call", "toolCallId": call, "title": "Run {prompt}", "status": "pending" }))
        .update(json!({ "sessionUpdate": "tool_call_update", "toolCallId": call, "status": "in_progress" }))
        .delay(1)
        .update(json!({
            "sessionUpdate": "tool_call_update",
            "toolCallId": call,
            "status": "completed",
            "content": output,
        }))
        .say("{prompt}/a3 ")
        .say("{prompt}/a4")
        .end("end_turn");
    let resume = json!({ "sessionCapabilities": { "resume": {} } });
    Script::new().initialize(resume).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        ("session/resume", Script::new().reply(json!({}))),
        ("session/prompt", turn),
    ])
}

fn thought(text: &str) -> serde_json::Value {
    json!({ "sessionUpdate": "agent_thought_chunk", "content": { "type": "text", "text": text } })
}
