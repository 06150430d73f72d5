//! What editors are told of their agent's own memory, when that is less than what is kept.

use acpx_testkit::Script;
use serde_json::{Value, json};

use super::{Bench, prompt_params};
use crate::engine::everything;

/// What an answer says of how the session came to be live, and of what the agent remembers.
fn told(answer: &Value) -> [Value; 2] {
    ["awakening", "memory"].map(|member| answer["_meta"]["acpx"].get(member).cloned().unwrap_or_default())
}

#[tokio::test]
async fn every_response_reports_an_agent_that_forgot_after_a_fresh_session() {
    for version in [1, 2] {
        let bench = Bench::new();
        // Before its first session it is asked what it can do.
        let script = Script::new()
            .initialize(json!({}))
            .next_start()
            .initialize(json!({}))
            .session_new("s1")
            .prompt(|turn| turn.say("one").end("end_turn"))
            .prompt(|turn| turn.exit(1))
            .next_start()
            .initialize(json!({}))
            .session_new("s2")
            .prompt(|turn| turn.say("three").end("end_turn"))
            .prompt(|turn| turn.say("four").end("end_turn"));
        let argv = bench.agent(&script);
        let mut editor = bench.speaking(version, 1, &argv).await;
        let record = editor.open(&bench).await;
        let mut answers = Vec::new();
        for text in ["one", "dies", "three", "four"] {
            let id = editor.ask("session/prompt", prompt_params(&record, text, json!({}))).await;
            let answer = editor.answer(id).await.0;
            answers.push(answer.map_or(json!("failed"), |answer| json!(told(&answer))));
            if version == 2 {
                editor.until_idle().await;
            }
        }
        let awakening = json!({ "by": "fresh", "reason": "cannot-restore", "announced": true });
        let from = answers[2][1]["from"].clone();
        let memory = json!({ "how": "fresh", "from": from, "reason": "cannot-restore" });
        assert!(from.is_u64(), "{answers:?}");
        // In version 2 a prompt is answered before its agent dies.
        let dies = if version == 1 { json!("failed") } else { json!([null, null]) };
        assert_eq!(answers, [json!([null, null]), dies, json!([awakening, memory]), json!([null, memory])]);
        let mut other = bench.editor(&argv).await;
        let loaded = other.call("session/load", bench.load_params(&record)).await.unwrap();
        assert_eq!(told(&loaded), [json!({ "by": "live" }), memory]);
    }
}

#[tokio::test]
async fn agent_with_a_shorter_replay_is_reported_as_partial_memory() {
    let bench = Bench::new();
    let can_load = || json!({ "loadSession": true });
    let script = Script::new()
        .initialize(can_load())
        .next_start()
        .initialize(can_load())
        .session_new("s1")
        .prompt(|turn| turn.say("1").end("end_turn"))
        .prompt(|turn| turn.say("2").end("end_turn"))
        .next_start()
        .initialize(can_load())
        .session_load(|replay| replay.user_said("one").say("1"));
    let argv = bench.agent(&script);
    let mut editor = bench.editor(&argv).await;
    let record = editor.open(&bench).await;
    for text in ["one", "two"] {
        editor.turn(&record, text).await;
    }
    bench.kill_host().await;
    let mut editor = bench.editor(&argv).await;
    let memory = json!({ "how": "shorter" });
    let awakening = json!({ "by": "session/load", "replay": "shorter" });
    for awakening in [awakening, json!({ "by": "live" })] {
        let answer = editor.call("session/load", bench.load_params(&record)).await.unwrap();
        assert_eq!(told(&answer), [awakening, memory.clone()]);
    }
}

#[tokio::test]
async fn compacted_agent_is_reported_as_partial_memory_after_a_restart() {
    let bench = Bench::new();
    let can_resume = || json!({ "sessionCapabilities": { "resume": {} } });
    let compacted =
        json!({ "sessionUpdate": "compaction_update", "compactionId": "c", "status": "completed" });
    let script = Script::new()
        .initialize(can_resume())
        .next_start()
        .initialize(can_resume())
        .session_new("s1")
        .prompt(|turn| turn.say("1").end("end_turn"))
        .prompt(|turn| turn.update(compacted).say("2").end("end_turn"))
        .next_start()
        .initialize(can_resume())
        .session_resume();
    let argv = bench.agent(&script);
    let mut editor = bench.editor(&argv).await;
    let record = editor.open(&bench).await;
    let mut answers = Vec::new();
    for text in ["one", "two"] {
        let answer = editor.call("session/prompt", prompt_params(&record, text, json!({}))).await.unwrap();
        answers.push(told(&answer)[1].clone());
    }
    let memory = json!({ "how": "compacted" });
    assert_eq!(answers, [Value::Null, memory.clone()]);
    bench.kill_host().await;
    let mut editor = bench.editor(&argv).await;
    let answer = editor.call("session/load", bench.load_params(&record)).await.unwrap();
    assert_eq!(told(&answer), [json!({ "by": "session/resume" }), memory]);
}

#[tokio::test]
async fn inner_session_id_is_in_every_setup_response() {
    for inner in [Some("inner"), None] {
        let bench = Bench::new();
        let mut made = json!({ "sessionId": "s1" });
        if let Some(inner) = inner {
            made["_meta"] = json!({ "agentSessionId": inner });
        }
        let script = Script::new().initialize(everything()).serve([
            ("session/new", Script::new().reply(made)),
            ("session/load", Script::new().reply(json!({}))),
            ("session/resume", Script::new().reply(json!({}))),
            ("session/prompt", Script::new().end("end_turn")),
        ]);
        let argv = bench.agent(&script);
        let mut editor = bench.editor(&argv).await;
        let new = json!({ "cwd": bench.home.path(), "mcpServers": [] });
        let made = editor.call("session/new", new).await.unwrap();
        let record = made["sessionId"].as_str().unwrap().to_owned();
        editor.turn(&record, "x").await;
        let mut answers = vec![made];
        for method in ["session/load", "session/resume"] {
            answers.push(editor.call(method, bench.load_params(&record)).await.unwrap());
            bench.kill_host().await;
            editor = bench.editor(&argv).await;
            answers.push(editor.call(method, bench.load_params(&record)).await.unwrap());
        }
        for answer in answers {
            assert_eq!(
                answer["_meta"].get("agentSessionId"),
                inner.map(|inner| json!(inner)).as_ref(),
                "{answer}"
            );
        }
    }
}
