//! Who is asked what an agent asks, when many have one record in use.

use std::time::Duration;

use acpx_core::protocol::HostMessage;
use acpx_testkit::Script;
use serde_json::{Value, json};

use super::editor::Editor;
use super::{Bench, environment, eventually, in_time, prompt_params};
use crate::engine::{everything, received};

/// An agent that asks for an edit in every turn.
fn asking() -> Script {
    Script::new().initialize(everything()).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        ("session/resume", Script::new().reply(json!({}))),
        ("session/prompt", Script::new().ask_permission("t1").say("done").end("end_turn")),
    ])
}

/// The answers that an agent got.
fn answers(argv: &[String]) -> Vec<Value> {
    let answers = received(argv).into_iter().filter(|(method, _)| method == "answer");
    answers.map(|(_, result)| result["outcome"]["optionId"].clone()).collect()
}

/// An editor with a session, and another that has it in use too.
async fn two_editors(bench: &Bench, argv: &[String]) -> (Editor, Editor, String) {
    let mut one = bench.editor(argv).await;
    let new = json!({ "cwd": bench.home.path(), "mcpServers": [] });
    let record = one.call("session/new", new).await.unwrap()["sessionId"].as_str().unwrap().to_owned();
    let mut other = bench.editor(argv).await;
    other.call("session/resume", bench.load_params(&record)).await.unwrap();
    (one, other, record)
}

/// The pending requests, once one is pending and no client is asked.
async fn pending_unasked(editor: &mut Editor) -> Value {
    let pending = async {
        loop {
            let open = editor.call("_acpx/pending", json!({})).await.unwrap();
            if open["questions"][0]["asked"] == json!([]) {
                return open;
            }
        }
    };
    in_time("a request is pending and no client is asked", pending).await
}

#[tokio::test]
async fn permission_goes_to_the_turns_client_then_others_and_first_answer_wins() {
    let bench = Bench::new();
    let argv = bench.agent(&asking());
    let (mut one, mut two, record) = two_editors(&bench, &argv).await;
    let mut silent = bench.client().await;
    let mut params = bench.resume_params(&record);
    params["_meta"]["acpx"]["withoutUpdates"] = json!(true);
    silent.call::<Value>("session/resume", &params).await.unwrap();

    one.ask("session/prompt", prompt_params(&record, "edit", json!({}))).await;
    let question = one.question().await;
    assert!(two.was_not_asked().await);
    drop((one, question));

    let asked = two.question().await;
    // Whoever comes now finds the question open.
    let mut three = bench.editor(&argv).await;
    three.ask("session/resume", bench.load_params(&record)).await;
    let asked_later = three.question().await;
    two.choose(&asked, "yes").await;
    let withdrawn = three.until(|line| line["method"] == "$/cancel_request").await;
    assert_eq!(withdrawn["params"]["requestId"], asked_later);
    three.until(|line| line["params"]["update"]["content"]["text"] == "done").await;
    // Too late, and about nothing any more.
    three.choose(&asked_later, "no").await;
    assert!(three.was_not_asked().await);
    assert_eq!(answers(&argv), ["yes"]);
    // One that leaves updates to others leaves questions to them too.
    let meanwhile = |said| assert!(!matches!(said, HostMessage::Question { .. }), "{said:?}");
    silent.call_while::<Value>("_acpx/host/status", &json!({}), meanwhile).await.unwrap();
}

#[tokio::test]
async fn present_turn_client_is_the_only_responder_and_its_policy_precedes() {
    let bench = Bench::new();
    let argv = bench.agent(&asking());
    let (mut one, mut two, record) = two_editors(&bench, &argv).await;
    let id = one.ask("session/prompt", prompt_params(&record, "edit", json!({}))).await;
    let question = one.question().await;
    one.choose(&question, "no").await;
    assert_eq!(one.answer(id).await.0.unwrap()["stopReason"], "end_turn");
    // What a turn's policy decides, nobody else can allow.
    let denied = prompt_params(&record, "edit", json!({ "policy": "deny-all" }));
    assert_eq!(one.call("session/prompt", denied).await.unwrap()["stopReason"], "end_turn");
    assert!(two.was_not_asked().await);
    assert_eq!(answers(&argv), ["no", "no"]);
}

#[tokio::test]
async fn client_with_a_policy_gets_other_requests_only_if_it_can_answer() {
    let bench = Bench::new();
    let argv = bench.agent(&asking());
    let (mut one, mut two, record) = two_editors(&bench, &argv).await;
    let reads = json!({ "policy": "approve-reads" });
    let id = one.ask("session/prompt", prompt_params(&record, "edit", reads)).await;
    let question = two.question().await;
    let open = two.call("_acpx/pending", json!({ "sessionId": record })).await.unwrap();
    assert_eq!(open["questions"][0]["asked"], json!([{ "isTurns": false }]));
    two.choose(&question, "yes").await;
    assert_eq!(one.answer(id).await.0.unwrap()["stopReason"], "end_turn");
    let interactive = json!({ "policy": "approve-reads", "interactive": true });
    one.ask("session/prompt", prompt_params(&record, "edit", interactive)).await;
    let question = one.question().await;
    assert!(two.was_not_asked().await);
    one.choose(&question, "no").await;
    eventually("the agent has its answer", || answers(&argv) == ["yes", "no"]).await;
}

#[tokio::test]
async fn pending_permission_request_goes_to_the_next_client_that_attaches() {
    let bench = Bench::new();
    let argv = bench.agent(&asking());
    let mut one = bench.client().await;
    let record = bench.open(&mut one, &argv).await;
    let waits = prompt_params(&record, "edit", json!({ "policy": "approve-reads", "unasked": "wait" }));
    one.request("session/prompt", &waits).await.unwrap();
    let mut two = bench.editor(&argv).await;
    pending_unasked(&mut two).await;
    two.ask("session/resume", bench.load_params(&record)).await;
    let question = two.question().await;
    two.choose(&question, "yes").await;
    eventually("the agent has its answer", || answers(&argv) == ["yes"]).await;
    assert_eq!(two.call("_acpx/pending", json!({})).await.unwrap(), json!({ "questions": [] }));
}

#[tokio::test]
async fn client_that_closes_and_loads_again_gets_pending_requests_again() {
    let bench = Bench::new();
    let argv = bench.agent(&asking());
    let mut one = bench.client().await;
    let record = bench.open(&mut one, &argv).await;
    let mut two = bench.editor(&argv).await;
    two.call("session/resume", bench.load_params(&record)).await.unwrap();
    let waits = prompt_params(&record, "edit", json!({ "policy": "approve-reads", "unasked": "wait" }));
    one.request("session/prompt", &waits).await.unwrap();
    two.question().await;
    two.call("session/close", json!({ "sessionId": record })).await.unwrap();
    pending_unasked(&mut two).await;
    two.ask("session/resume", bench.load_params(&record)).await;
    let question = two.question().await;
    two.choose(&question, "yes").await;
    eventually("the agent has its answer", || answers(&argv) == ["yes"]).await;
}

#[tokio::test]
async fn permission_request_is_withdrawn_from_all_clients_when_its_turn_ends() {
    let bench = Bench::new();
    let argv = bench.agent(&asking());
    let (mut one, mut two, record) = two_editors(&bench, &argv).await;
    one.ask("session/prompt", prompt_params(&record, "edit", json!({}))).await;
    one.question().await;
    drop(one);
    let question = two.question().await;
    let cancelled = two.call("_acpx/cancel", json!({ "sessionId": record })).await.unwrap();
    assert_eq!(cancelled, json!({ "cancelled": true }));
    let withdrawn = two.until(|line| line["method"] == "$/cancel_request").await;
    assert_eq!(withdrawn["params"]["requestId"], question);
    // An outcome of `cancelled` has no option.
    eventually("the agent has its answer", || answers(&argv) == [Value::Null]).await;
}

#[tokio::test]
async fn a_permission_request_stays_pending_when_its_editor_disconnects() {
    let bench = Bench::new();
    let argv = bench.agent(&asking());
    let (mut one, mut two, record) = two_editors(&bench, &argv).await;
    two.call("session/close", json!({ "sessionId": record })).await.unwrap();
    one.ask("session/prompt", prompt_params(&record, "edit", json!({}))).await;
    one.question().await;
    bench.shorten_idle_time(&mut bench.client().await, &record).await;
    drop(one);
    pending_unasked(&mut two).await;
    assert!(two.was_not_asked().await);
    // An agent without work is parked meanwhile, and this one is not.
    let mut idle = bench.client().await;
    let other = bench.open(&mut idle, &bench.agent(&asking())).await;
    let parked = bench.agent_of(&other).await;
    bench.shorten_idle_time(&mut idle, &other).await;
    idle.close().await;
    eventually("the other agent is parked", || !parked.is_alive()).await;
    two.ask("session/load", bench.load_params(&record)).await;
    let question = two.question().await;
    two.choose(&question, "yes").await;
    eventually("the agent has its answer", || answers(&argv) == ["yes"]).await;
}

#[tokio::test]
async fn permission_request_is_denied_when_its_editors_policy_says_so() {
    let bench = Bench::new();
    let argv = bench.agent(&asking());
    let mut one = bench.editor(&argv).await;
    let record = one.open(&bench).await;
    one.ask("session/prompt", prompt_params(&record, "edit", json!({ "unasked": "deny" }))).await;
    one.question().await;
    drop(one);
    eventually("the agent has its answer", || answers(&argv) == ["no"]).await;
}

#[tokio::test]
async fn an_elicitation_stays_pending_when_its_editor_disconnects() {
    let form = json!({
        "sessionId": "{sessionId}", "mode": "form", "message": "Who?",
        "requestedSchema": { "type": "object", "properties": { "name": { "type": "string" } } },
    });
    let turn = Script::new().request("elicitation/create", form.clone()).say("done").end("end_turn");
    let script = Script::new().initialize(everything()).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        ("session/resume", Script::new().reply(json!({}))),
        ("session/prompt", turn),
    ]);
    let answer = |argv: &[String]| {
        let answers = received(argv).into_iter().filter(|(method, _)| method == "answer");
        answers.map(|(_, result)| result).collect::<Vec<_>>()
    };
    let accepted = json!({ "action": "accept", "content": { "name": "Ada" } });
    for version in [1, 2] {
        let bench = Bench::new();
        let argv = bench.agent(&script);
        let mut one = bench.speaking(version, 1, &argv).await;
        let record = one.open(&bench).await;
        one.ask("session/prompt", prompt_params(&record, "x", json!({}))).await;
        one.until(|line| line["method"] == "elicitation/create").await;
        drop(one);
        // Another editor that comes is asked.
        let mut two = bench.speaking(version, 1, &argv).await;
        two.ask("session/resume", bench.load_params(&record)).await;
        let asked = two.until(|line| line["method"] == "elicitation/create").await;
        assert_eq!(asked["params"]["message"], "Who?", "version {version}");
        drop(two);
        // And anybody answers it by its id.
        let mut other = bench.speaking(version, 1, &argv).await;
        let open = pending_unasked(&mut other).await;
        let question = &open["questions"][0];
        let expected =
            json!({ "mode": "form", "message": "Who?", "requestedSchema": form["requestedSchema"] });
        assert_eq!((&question["kind"], &question["elicitation"]), (&json!("form"), &expected));
        let filled = json!({
            "questionId": question["questionId"], "approve": true, "content": { "name": "Ada" },
        });
        other.call("_acpx/answer", filled).await.unwrap();
        eventually("the agent has its answer", || answer(&argv) == [accepted.clone()]).await;
    }
}

#[tokio::test]
async fn elicitation_is_declined_when_the_turns_editor_supports_none() {
    let bench = Bench::new();
    let form = json!({
        "sessionId": "{sessionId}", "mode": "form", "message": "Who?", "requestedSchema": { "type": "object" },
    });
    let turn = Script::new().request("elicitation/create", form).end("end_turn");
    let script = Script::new().initialize(everything()).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        ("session/prompt", turn),
    ]);
    let argv = bench.agent(&script);
    let mut one = bench.joined(1).await;
    let client = json!({ "agent": { "name": "scripted", "argv": argv }, "environment": environment() });
    let meta = json!({ "acpx": { "client": client } });
    one.call("initialize", json!({ "protocolVersion": 1, "_meta": meta })).await.unwrap();
    let record = one.open(&bench).await;
    assert_eq!(one.turn(&record, "x").await.stop_reason, "end_turn");
    let answer = received(&argv).into_iter().find(|(method, _)| method == "answer").unwrap();
    assert_eq!(answer.1, json!({ "action": "decline" }));
}

#[tokio::test]
async fn prompt_that_outlived_its_host_asks_the_client_that_restores_it() {
    let bench = Bench::new();
    let hold = bench.home.join("hold");
    // Before its first session it is asked what it can do.
    let script = Script::new()
        .initialize(everything())
        .next_start()
        .initialize(everything())
        .session_new("s1")
        .prompt(|turn| turn.touch(&hold).hang())
        .next_start()
        .initialize(everything())
        .session_resume()
        .prompt(|turn| turn.ask_permission("t1").end("end_turn"));
    let argv = bench.agent(&script);
    let (mut one, mut two, record) = two_editors(&bench, &argv).await;
    one.ask("session/prompt", prompt_params(&record, "runs", json!({}))).await;
    eventually("the first runs", || hold.exists()).await;
    two.ask("session/prompt", prompt_params(&record, "waits", json!({}))).await;
    two.until(|line| line["method"] == "_acpx/accepted").await;
    bench.kill_host().await;

    let mut two = bench.editor(&argv).await;
    two.ask("session/resume", bench.load_params(&record)).await;
    let question = two.question().await;
    two.choose(&question, "yes").await;
    eventually("the agent has its answer", || answers(&argv) == ["yes"]).await;
}

#[tokio::test]
async fn permission_request_for_another_session_or_malformed_is_refused_unasked() {
    let bench = Bench::new();
    let permission = "session/request_permission";
    let turn = |turn: Script| {
        turn.request(
            permission,
            json!({ "sessionId": "another", "toolCall": { "toolCallId": "t" }, "options": [] }),
        )
        .request("elicitation/create", json!({ "sessionId": "another", "mode": "form", "message": "?" }))
        .request(permission, json!({ "toolCall": { "toolCallId": "t" }, "options": [] }))
        .request(permission, json!({ "sessionId": "{sessionId}", "toolCall": { "toolCallId": "t" } }))
        .request("elicitation/create", json!([]))
        .end("end_turn")
    };
    // Before its first session it is asked what it can do.
    let script = Script::new().initialize(everything()).next_start();
    let script = script.initialize(everything()).session_new("s1").prompt(turn);
    let argv = bench.agent(&script);
    let mut editor = bench.editor(&argv).await;
    let record = editor.open(&bench).await;
    let lived = editor.turn(&record, "x").await;
    assert!(lived.lines.iter().all(|line| line.get("id").is_none()), "{:?}", lived.lines);
    let answers = received(&argv).into_iter().filter(|(method, _)| method == "answer");
    let codes: Vec<Value> = answers.map(|(_, error)| error["code"].clone()).collect();
    assert_eq!(codes, [-32002, -32002, -32602, -32602, -32602]);
}

#[tokio::test]
async fn url_elicitation_completion_goes_only_to_the_client_that_got_it() {
    let address = json!({
        "sessionId": "{sessionId}", "mode": "url", "message": "Log in", "url": "https://x.example",
        "elicitationId": "e1",
    });
    let complete =
        json!({ "jsonrpc": "2.0", "method": "elicitation/complete", "params": { "elicitationId": "e1" } });
    let script = Script::new().initialize(everything()).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        ("session/resume", Script::new().reply(json!({}))),
        (
            "session/prompt",
            Script::new()
                .request("elicitation/create", address)
                .line(&complete.to_string())
                .say("done")
                .end("end_turn"),
        ),
    ]);
    for version in [1, 2] {
        let bench = Bench::new();
        let argv = bench.agent(&script);
        let mut one = bench.speaking(version, 1, &argv).await;
        let record = one.open(&bench).await;
        let mut two = bench.editor(&argv).await;
        two.call("session/resume", bench.load_params(&record)).await.unwrap();
        one.ask("session/prompt", prompt_params(&record, "x", json!({}))).await;
        let asked = one.until(|line| line["method"] == "elicitation/create").await;
        one.respond(&asked["id"], json!({ "action": "accept" })).await;
        assert_eq!(one.until(|line| line["method"] == "elicitation/complete").await, complete);
        let first = two.until(|line| {
            line["method"] == "elicitation/complete" || line["params"]["update"]["content"]["text"] == "done"
        });
        assert_eq!(first.await["method"], "session/update");
    }
}

#[tokio::test]
async fn turn_client_without_permissions_does_not_block_other_responders() {
    let bench = Bench::with_client_timeouts(Duration::from_millis(200), Duration::from_mins(10));
    // More than fits between host and client.
    let turn = Script::new().flood(Some(20_000)).ask_permission("t1").say("done").end("end_turn");
    let script = Script::new().initialize(everything()).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        ("session/resume", Script::new().reply(json!({}))),
        ("session/prompt", turn),
    ]);
    let argv = bench.agent(&script);
    let (mut stopped, mut other, record) = two_editors(&bench, &argv).await;
    stopped.ask("session/prompt", prompt_params(&record, "edit", json!({}))).await;
    let question = other.question().await;
    let open = other.call("_acpx/pending", json!({ "sessionId": record })).await.unwrap();
    let mut asked: Vec<_> = open["questions"][0]["asked"].as_array().unwrap().clone();
    asked.sort_by_key(|client| client["isTurns"] == true);
    let editor = |is_turns: bool| json!({ "isTurns": is_turns });
    assert_eq!(asked, [editor(false), editor(true)]);
    other.choose(&question, "yes").await;
    other.until(|line| line["params"]["update"]["content"]["text"] == "done").await;
    assert_eq!(answers(&argv), ["yes"]);
    // It has its turn whole when it reads again.
    stopped.until(|line| line["params"]["update"]["content"]["text"] == "done").await;
}
