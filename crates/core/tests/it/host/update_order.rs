//! The order in which one client hears things: no update is lost or told twice, none comes before or after the answer it
//! belongs to, and a question comes after what it is about.

use acpx_testkit::Script;
use serde_json::{Value, json};

use super::editor::Editor;
use super::{Bench, prompt_params};
use crate::engine::{everything, faithful};

/// What an agent said in lines, in order.
fn said(lines: &[Value]) -> Vec<&str> {
    let updates = lines.iter().map(|line| &line["params"]["update"]);
    let chunks = updates.filter(|update| update["sessionUpdate"] == "agent_message_chunk");
    chunks.map(|update| update["content"]["text"].as_str().unwrap()).collect()
}

async fn ask(editor: &mut Editor, record: &str, text: &str) -> u64 {
    editor.ask("session/prompt", prompt_params(record, text, json!({}))).await
}

/// An agent that says and does this in every turn.
fn saying(turn: Script) -> Script {
    Script::new().initialize(everything()).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        ("session/resume", Script::new().reply(json!({}))),
        ("session/prompt", turn.end("end_turn")),
    ])
}

#[tokio::test]
async fn a_load_that_fails_costs_its_client_no_update() {
    const UPDATES: usize = 20_000;
    let bench = Bench::new();
    let argv = bench.agent(&saying(Script::new().flood(Some(UPDATES as u64)).say("over")));
    let mut one = bench.editor(&argv).await;
    let record = one.open(&bench).await;
    let mut two = bench.editor(&argv).await;
    two.call("session/load", bench.load_params(&record)).await.unwrap();
    // More than fits between the two, so that much is still to be told when the second asks.
    let id = ask(&mut one, &record, "x").await;
    one.answer(id).await.0.unwrap();
    let mut nowhere = bench.load_params(&record);
    nowhere["_meta"]["acpx"]["replayFrom"] = json!({ "type": "_acpx/seq", "seq": 99_999_999 });
    let load = two.ask("session/load", nowhere).await;
    let (refused, mut lines) = two.answer(load).await;
    assert_eq!(refused.unwrap_err()["data"]["field"], "_meta.acpx.replayFrom");
    while said(&lines[lines.len().saturating_sub(1)..]) != ["over"] {
        lines.push(two.next().await);
    }
    assert_eq!(said(&lines).len(), UPDATES + 1);
}

#[tokio::test]
async fn v1_updates_of_another_turn_come_after_the_own_response() {
    let bench = Bench::new();
    let argv = bench.agent(&saying(Script::new().say("hello")));
    let mut one = bench.editor(&argv).await;
    let record = one.open(&bench).await;
    let mut two = bench.editor(&argv).await;
    two.call("session/load", bench.load_params(&record)).await.unwrap();
    // The turns of others, as far as they have begun: each is heard whole.
    let others = |lines: &[Value]| {
        let kinds = lines.iter().map(|line| &line["params"]["update"]["sessionUpdate"]);
        kinds.filter(|kind| *kind == "user_message_chunk").count()
    };
    for _ in 0..20 {
        let own = [ask(&mut one, &record, "a").await, ask(&mut one, &record, "b").await];
        let third = ask(&mut two, &record, "c").await;
        two.answer(third).await.0.unwrap();
        for id in own {
            let heard = one.answer(id).await.1;
            assert_eq!(said(&heard).len(), 1 + others(&heard), "{heard:?}");
        }
    }
}

#[tokio::test]
async fn permission_request_comes_after_its_tool_call() {
    for version in [1, 2] {
        let bench = Bench::new();
        let call = json!({ "sessionUpdate": "tool_call", "toolCallId": "t1", "title": "Edit a file" });
        let argv = bench.agent(&saying(Script::new().update(call).ask_permission("t1")));
        let mut editor = bench.speaking(version, 1, &argv).await;
        let record = editor.open(&bench).await;
        for _ in 0..40 {
            let lines = editor.turn(&record, "x").await.lines;
            let place = |wanted: fn(&Value) -> bool| lines.iter().position(wanted).expect("it was told");
            let told = place(|line| line["params"]["update"]["toolCallId"] == "t1");
            let asked = place(|line| line["method"] == "session/request_permission");
            assert!(told < asked, "{lines:?}");
        }
    }
}

#[tokio::test]
async fn after_a_reset_permission_requests_name_the_rendered_tool_call() {
    let bench = Bench::new();
    let call = || json!({ "sessionUpdate": "tool_call", "toolCallId": "t1", "title": "Edit a file" });
    // Before its first session it is asked what it can do.
    let script = Script::new()
        .initialize(json!({}))
        .next_start()
        .initialize(json!({}))
        .session_new("s1")
        .prompt(|turn| turn.update(call()).end("end_turn"))
        .prompt(|turn| turn.exit(1))
        .next_start()
        .initialize(json!({}))
        .session_new("s2")
        .prompt(|turn| turn.update(call()).ask_permission("t1").end("end_turn"));
    let argv = bench.agent(&script);
    let mut editor = bench.editor(&argv).await;
    let record = editor.open(&bench).await;
    editor.turn(&record, "first").await;
    let id = ask(&mut editor, &record, "dies").await;
    editor.answer(id).await.0.unwrap_err();
    let lines = editor.turn(&record, "second").await.lines;
    let told: Vec<&Value> = lines.iter().map(|line| &line["params"]["update"]["toolCallId"]).collect();
    let asked: Vec<&Value> = lines.iter().map(|line| &line["params"]["toolCall"]["toolCallId"]).collect();
    assert_eq!(told.into_iter().filter(|id| !id.is_null()).collect::<Vec<_>>(), ["t1~2"]);
    assert_eq!(asked.into_iter().filter(|id| !id.is_null()).collect::<Vec<_>>(), ["t1~2"]);
}

#[tokio::test]
async fn two_concurrent_replays_come_in_order_each_before_its_response() {
    let bench = Bench::new();
    let argv = bench.agent(&faithful(everything()));
    let mut editor = bench.speaking(2, 1, &argv).await;
    let record = editor.open(&bench).await;
    editor.turn(&record, "once").await;
    let mut params = bench.load_params(&record);
    params["replayFrom"] = json!({ "type": "start" });
    let [first, second] =
        [editor.ask("session/resume", params.clone()).await, editor.ask("session/resume", params).await];
    let prompts = |lines: &[Value]| {
        lines.iter().filter(|line| line["params"]["update"]["sessionUpdate"] == "user_message").count()
    };
    for id in [first, second] {
        let (answer, before) = editor.answer(id).await;
        answer.unwrap();
        assert_eq!(prompts(&before), 1, "{before:?}");
    }
}

#[tokio::test]
async fn state_before_the_response_is_not_older_than_sent_updates() {
    let bench = Bench::new();
    let (comes_back, waited_for) = (bench.home.join("comes back"), bench.home.join("waited for"));
    let back = Script::new().touch(&comes_back).await_file(&waited_for).reply(json!({}));
    let script = Script::new().initialize(everything()).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        ("session/resume", back),
        ("session/prompt", Script::new().when("later", Script::hang).say("hello").end("end_turn")),
    ]);
    let argv = bench.agent(&script);
    let mut editor = bench.speaking(2, 1, &argv).await;
    let record = editor.open(&bench).await;
    editor.turn(&record, "x").await;
    let mut params = bench.load_params(&record);
    params["mcpServers"] = json!([{ "type": "stdio", "name": "other", "command": "/bin/true" }]);
    let resume = editor.ask("session/resume", params).await;
    super::eventually("the agent is restored", || comes_back.exists()).await;
    // Somebody else prompts meanwhile, and its turn stays.
    let mut shell = bench.client().await;
    let mut joins = bench.resume_params(&record);
    joins["_meta"]["acpx"]["later"] = json!(true);
    shell.call::<Value>("session/resume", &joins).await.unwrap();
    let mut prompt = prompt_params(&record, "y", json!({}));
    prompt["later"] = json!(true);
    shell.request("session/prompt", &prompt).await.unwrap();
    super::until(&mut shell, |said| {
        matches!(said, acpx_core::protocol::HostMessage::Accepted { .. }).then_some(())
    })
    .await;
    std::fs::write(&waited_for, "").unwrap();
    let (answer, mut lines) = editor.answer(resume).await;
    let seq = answer.unwrap()["_meta"]["acpx"]["seq"].clone();
    let stands = lines.last().unwrap()["params"].clone();
    assert_eq!(stands["_meta"]["acpx"]["seq"], seq, "{stands}");
    let states = |lines: &[Value]| {
        let updates = lines.iter().map(|line| line["params"]["update"]["state"].clone());
        updates.filter(|state| !state.is_null()).collect::<Vec<_>>()
    };
    while !states(&lines).contains(&json!("running")) {
        lines.push(editor.next().await);
    }
    // Running may be told twice, as an event and as how the session stands; idle only before.
    let told = states(&lines);
    let runs = told.iter().position(|state| state == "running").unwrap();
    assert!(told[runs..].iter().all(|state| state == "running"), "{told:?}");
}
