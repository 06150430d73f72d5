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

/// What is done how often.
#[derive(Debug, Clone, Copy)]
struct Soak {
    seed: u64,
    /// The version of the protocol that the agent speaks.
    agent: u64,
    /// How many prompts are surely asked.
    turns: usize,
    /// How often each of those who are killed is.
    kills_of_a_kind: usize,
}

#[test]
fn two_editors_and_a_shell_agree_with_the_record_after_random_kills() {
    let place = Place::new();
    place.scripted(&agent());
    soak(place, Soak { seed: seed(), agent: 1, turns: 1000, kills_of_a_kind: 14 });
}

#[test]
fn it_is_the_same_with_an_agent_of_version_2() {
    let place = Place::new();
    let argv = place.scripted(&agent_of_version_2());
    place.configure(&json!({ "agents": { "scripted": { "argv": argv, "protocol": 2 } } }).to_string());
    soak(place, Soak { seed: seed(), agent: 2, turns: 250, kills_of_a_kind: 5 });
}

fn soak(place: Place, soak: Soak) {
    let mut world = World::new(place, soak);
    world.run();
    let kept = Kept::read(&world);
    world.until_received(kept.last_update());
    assert!(kept.turns() >= soak.turns, "{} turns", kept.turns());
    assert_eq!(world.kills.values().copied().collect::<Vec<_>>(), [soak.kills_of_a_kind; 5]);
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

/// The same in version 2: it takes the prompt in first, and names its messages.
fn agent_of_version_2() -> Script {
    let output = json!([{ "type": "content", "content": { "type": "text", "text": "{prompt}/output" } }]);
    let tool = |status: &str| json!({ "sessionUpdate": "tool_call_update", "toolCallId": "{prompt}/call", "status": status });
    let (mut begun, mut done) = (tool("pending"), tool("completed"));
    begun["title"] = json!("Run {prompt}");
    done["content"] = output;
    let thought = |text: &str| {
        let mut thought = thought(text);
        thought["messageId"] = json!("{prompt}/thought");
        thought
    };
    let turn = Script::new()
        .insert("{prompt}")
        .update(thought("{prompt}/t1 "))
        .update(thought("{prompt}/t2"))
        .say_in("{prompt}/first", "{prompt}/a1 ")
        .say_in("{prompt}/first", "{prompt}/a2")
        .delay(1)
        .update(begun)
        .update(tool("in_progress"))
        .delay(1)
        .update(done)
        .say_in("{prompt}/second", "{prompt}/a3 ")
        .say_in("{prompt}/second", "{prompt}/a4")
        .idle("end_turn");
    Script::new().initialize_v2(json!({})).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        ("session/resume", Script::new().state("idle").reply(json!({}))),
        ("session/prompt", turn),
    ])
}

fn thought(text: &str) -> serde_json::Value {
    json!({ "sessionUpdate": "agent_thought_chunk", "content": { "type": "text", "text": text } })
}
