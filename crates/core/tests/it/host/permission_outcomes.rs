//! What a client answers to an agent's question reaches the agent as it was said; and nothing that nobody has said.

use acpx_testkit::Script;
use serde_json::{Value, json};

use super::editor::Editor;
use super::{Bench, prompt_params};
use crate::engine::received;

/// An agent of a version that asks this in every turn, with answers of these kinds.
fn asking(version: u16, kinds: &[(&str, &str)]) -> Script {
    let option = |(id, kind): &(&str, &str)| json!({ "optionId": id, "name": id, "kind": kind });
    let options: Vec<Value> = kinds.iter().map(option).collect();
    let call = json!({ "toolCallId": "t", "title": "Edit", "kind": "edit" });
    let new = Script::new().reply(json!({ "sessionId": "s1" }));
    if version == 1 {
        let params = json!({ "sessionId": "s1", "toolCall": call, "options": options });
        let turn = Script::new().request("session/request_permission", params).end("end_turn");
        return Script::new().initialize(json!({})).serve([("session/new", new), ("session/prompt", turn)]);
    }
    let subject = json!({ "type": "tool_call", "toolCall": call });
    let params = json!({ "sessionId": "s1", "title": "Edit", "subject": subject, "options": options });
    let turn = Script::new().insert("x").request("session/request_permission", params).idle("end_turn");
    Script::new().initialize_v2(json!({})).serve([("session/new", new), ("session/prompt", turn)])
}

/// What an agent was answered last.
fn answered(argv: &[String]) -> Value {
    let mut answers = received(argv).into_iter().filter(|(method, _)| method == "answer");
    answers.next_back().expect("the agent was answered").1
}

/// Prompts, has the editor answer what it is asked with this, and waits for the turn's end.
async fn turn_answering(editor: &mut Editor, record: &str, result: &Value) {
    let id = editor.ask("session/prompt", prompt_params(record, "x", json!({}))).await;
    let question = editor.question().await;
    editor.respond(&question, result.clone()).await;
    end_of(editor, id).await;
}

async fn end_of(editor: &mut Editor, prompt: u64) {
    let version = editor.version;
    let is_end = |line: &Value| match version {
        1 => line["id"] == prompt && line.get("method").is_none(),
        _ => line["params"]["update"]["state"] == "idle",
    };
    editor.until(is_end).await;
}

#[tokio::test]
async fn unknown_permission_outcome_is_forwarded_in_v2_and_selects_nothing_in_v1() {
    let later = json!({ "outcome": { "outcome": "_later", "until": 5 }, "_meta": { "k": 1 } });
    let dismissed = json!({ "outcome": { "outcome": "cancelled", "why": "x" }, "_meta": { "k": 1 } });
    let chosen = json!({ "outcome": { "outcome": "selected", "optionId": "n" }, "_meta": { "k": 1 } });
    let cancelled = json!({ "outcome": { "outcome": "cancelled" } });
    for (client, agent) in [(1, 1), (2, 2), (1, 2), (2, 1)] {
        let bench = Bench::new();
        let argv = bench.agent(&asking(agent, &[("y", "allow_once"), ("n", "reject_always")]));
        let mut editor = bench.speaking(client, agent, &argv).await;
        let record = editor.open(&bench).await;
        let of_later = if (client, agent) == (2, 2) { &later } else { &cancelled };
        for (said, expected) in [(&later, of_later), (&dismissed, &dismissed), (&chosen, &chosen)] {
            turn_answering(&mut editor, &record, said).await;
            assert_eq!(answered(&argv), *expected, "{client} over {agent}: {said}");
        }
    }
}

#[tokio::test]
async fn v2_request_without_a_v1_answer_is_cancelled_and_unoffered_options_rejected() {
    let bench = Bench::new();
    let cancelled = json!({ "outcome": { "outcome": "cancelled" } });
    let argv = bench.agent(&asking(2, &[("o", "_perhaps"), ("w", "reject_all_week")]));
    let mut editor = bench.speaking(1, 2, &argv).await;
    let record = editor.open(&bench).await;
    let id = editor.ask("session/prompt", prompt_params(&record, "x", json!({}))).await;
    let (_, before) = editor.answer(id).await;
    assert!(before.iter().all(|line| line["method"] != "session/request_permission"), "{before:?}");
    assert_eq!(answered(&argv), cancelled);
    // One who has the words is asked in its place.
    let mut other = bench.speaking(2, 2, &argv).await;
    other.call("session/resume", bench.load_params(&record)).await.unwrap();
    let id = editor.ask("session/prompt", prompt_params(&record, "x", json!({}))).await;
    let question = other.question().await;
    other.choose(&question, "o").await;
    end_of(&mut editor, id).await;
    assert_eq!(answered(&argv)["outcome"]["optionId"], "o");

    let bench = Bench::new();
    let argv = bench.agent(&asking(2, &[("o", "_perhaps"), ("n", "reject_once")]));
    let mut editor = bench.speaking(1, 2, &argv).await;
    let record = editor.open(&bench).await;
    let said = json!({ "outcome": { "outcome": "selected", "optionId": "o" } });
    turn_answering(&mut editor, &record, &said).await;
    assert_eq!(answered(&argv)["outcome"]["optionId"], "n");
}

#[tokio::test]
async fn completed_form_is_never_counted_as_a_rejection() {
    let params = json!({
        "sessionId": "s1", "mode": "form", "message": "Which?",
        "requestedSchema": { "type": "object", "properties": {} },
    });
    let said =
        json!({ "action": "accept", "content": { "a": "x", "n": { "deep": 1 }, "b": [1, 2], "c": null } });
    for (client, agent) in [(1, 1), (2, 2), (1, 2), (2, 1)] {
        let bench = Bench::new();
        let ask = |begun: Script| begun.request("elicitation/create", params.clone());
        let new = Script::new().reply(json!({ "sessionId": "s1" }));
        let script = match agent {
            1 => Script::new()
                .initialize(json!({}))
                .serve([("session/new", new), ("session/prompt", ask(Script::new()).end("end_turn"))]),
            _ => Script::new().initialize_v2(json!({})).serve([
                ("session/new", new),
                ("session/prompt", ask(Script::new().insert("x")).idle("end_turn")),
            ]),
        };
        let argv = bench.agent(&script);
        let mut editor = bench.speaking(client, agent, &argv).await;
        let record = editor.open(&bench).await;
        let id = editor.ask("session/prompt", prompt_params(&record, "x", json!({}))).await;
        let question = editor.until(|line| line["method"] == "elicitation/create").await["id"].clone();
        editor.respond(&question, said.clone()).await;
        end_of(&mut editor, id).await;
        let fits = json!({ "action": "accept", "content": { "a": "x" } });
        let expected = if (client, agent) == (2, 1) { &fits } else { &said };
        assert_eq!(answered(&argv), *expected, "{client} over {agent}");
    }
}
