//! What `session/close` and `session/cancel` end: the caller's own turns, and those whose client has disconnected.

use acpx_core::model::{RecordId, RequestId, TurnOutcome, TurnState};
use acpx_core::protocol::HostMessage;
use acpx_core::store::Store;
use acpx_testkit::Script;
use serde_json::{Value, json};

use super::editor::{Editor, last_state};
use super::{Bench, eventually, in_time, prompt_params, until};
use crate::engine::{everything, received};

/// An agent whose first turn runs until it is cancelled. Every other is answered at once.
fn endless(of_agent: u16, began: &std::path::Path) -> Script {
    let initialize = |script: Script| match of_agent {
        1 => script.initialize(everything()),
        _ => script.initialize_v2(json!({})),
    };
    let turn = match of_agent {
        1 => Script::new().touch(began).expect("session/cancel").say("last words").end("cancelled"),
        _ => Script::new()
            .insert("one")
            .state("running")
            .touch(began)
            .expect("session/cancel")
            .say_in("m", "last words")
            .idle("cancelled"),
    };
    // Its first start is to ask it what it offers.
    initialize(initialize(Script::new()).next_start()).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        ("session/resume", Script::new().reply(json!({}))),
        ("session/prompt", turn),
    ])
}

/// An editor that has prompted and quits while its turn runs; the record.
async fn orphaned(
    bench: &Bench,
    version: u16,
    of_agent: u16,
    argv: &[String],
    began: &std::path::Path,
) -> String {
    let mut editor = bench.speaking(version, of_agent, argv).await;
    let record = editor.open(bench).await;
    editor.ask("session/prompt", prompt_params(&record, "runs on", json!({ "requestId": "orphan" }))).await;
    eventually("the turn runs", || began.exists()).await;
    disconnect(bench, editor, 0).await;
    record
}

/// Disconnects an editor, and waits until the host has handled all that it sent and so many other clients are left.
async fn disconnect(bench: &Bench, editor: Editor, others: u64) {
    drop(editor);
    let mut client = bench.client().await;
    let left = async {
        while client.call::<Value>("_acpx/host/status", &json!({})).await.unwrap()["clients"] != others + 1 {}
    };
    in_time("the client has left", left).await;
    client.close().await;
}

/// Has an editor come to a session.
async fn comes(bench: &Bench, version: u16, of_agent: u16, argv: &[String], record: &str) -> Editor {
    let mut editor = bench.speaking(version, of_agent, argv).await;
    editor.call("session/resume", bench.load_params(record)).await.unwrap();
    editor
}

async fn outcome(bench: &Bench, record: &str, request: &str) -> Option<String> {
    let (record, request) = (RecordId::new(record).unwrap(), RequestId::new(request).unwrap());
    match bench.store().turn(record, request).await.unwrap()?.state {
        TurnState::Ended { outcome: TurnOutcome::Stopped(reason), .. } => Some(reason.as_str().to_owned()),
        _ => None,
    }
}

fn count(argv: &[String], method: &str) -> usize {
    received(argv).iter().filter(|(said, _)| said == method).count()
}

/// Queues a prompt and disconnects, as `--no-wait` does.
async fn queue(bench: &Bench, record: &str, request: &str) {
    let mut client = bench.client().await;
    bench.resume(&mut client, record).await;
    let params = prompt_params(record, request, json!({ "requestId": request }));
    client.request("session/prompt", &params).await.unwrap();
    until(&mut client, |said| matches!(said, HostMessage::Accepted { .. }).then_some(())).await;
    client.close().await;
}

#[tokio::test]
async fn session_close_cancels_orphaned_turns_reports_their_end_and_frees_the_agent() {
    for (version, of_agent) in [(1, 1), (1, 2), (2, 1), (2, 2)] {
        let bench = Bench::new();
        let began = bench.home.join("began");
        let argv = bench.agent(&endless(of_agent, &began));
        let record = orphaned(&bench, version, of_agent, &argv, &began).await;
        let mut two = comes(&bench, version, of_agent, &argv, &record).await;
        queue(&bench, &record, "waits").await;
        let agent = bench.agent_of(&record).await;
        // Watching holds nothing.
        let mut watcher = bench.client().await;
        watcher.call::<Value>("_acpx/watch", &json!({ "sessionId": record })).await.unwrap();

        let close = two.ask("session/close", json!({ "sessionId": record })).await;
        let (answer, before) = two.answer(close).await;
        assert_eq!(answer, Ok(json!({})));
        let case = format!("client {version}, agent {of_agent}");
        let said = |line: &Value| line.to_string().contains("last words");
        assert!(before.iter().any(said), "{case}: {before:?}");
        if version == 2 {
            let idle = json!({ "sessionUpdate": "state_update", "state": "idle", "stopReason": "cancelled" });
            assert_eq!(last_state(&before), &idle, "{case}");
        }
        assert_eq!(outcome(&bench, &record, "orphan").await, Some("cancelled".to_owned()), "{case}");
        assert_eq!(outcome(&bench, &record, "waits").await, Some("cancelled".to_owned()), "{case}");
        // The one that waited was never sent.
        assert_eq!((count(&argv, "session/prompt"), count(&argv, "session/cancel")), (1, 1), "{case}");
        assert!(!agent.is_alive(), "{case}");
    }
}

#[tokio::test]
async fn session_close_without_a_load_cancels_an_orphaned_turn_too() {
    let bench = Bench::new();
    let began = bench.home.join("began");
    let argv = bench.agent(&endless(1, &began));
    let record = orphaned(&bench, 1, 1, &argv, &began).await;
    let mut two = bench.editor(&argv).await;
    assert_eq!(two.call("session/close", json!({ "sessionId": record })).await, Ok(json!({})));
    assert_eq!(outcome(&bench, &record, "orphan").await, Some("cancelled".to_owned()));
}

#[tokio::test]
async fn session_close_only_detaches_while_another_connected_client_has_turns() {
    let bench = Bench::new();
    let (began, go) = (bench.home.join("began"), bench.home.join("go"));
    let script = Script::new()
        .initialize(everything())
        .next_start()
        .initialize(everything())
        .session_new("s1")
        .prompt(|turn| turn.touch(&began).await_file(&go).say("whole").end("end_turn"));
    let argv = bench.agent(&script);
    let mut one = bench.editor(&argv).await;
    let record = one.open(&bench).await;
    let running = one.ask("session/prompt", prompt_params(&record, "mine", json!({}))).await;
    eventually("the turn runs", || began.exists()).await;
    queue(&bench, &record, "orphan").await;
    let mut two = comes(&bench, 1, 1, &argv, &record).await;
    two.ask("session/prompt", prompt_params(&record, "own", json!({ "requestId": "own" }))).await;
    two.until(|line| line["method"] == "_acpx/accepted").await;
    assert_eq!(two.call("session/close", json!({ "sessionId": record })).await, Ok(json!({})));
    for request in ["orphan", "own"] {
        assert_eq!(outcome(&bench, &record, request).await, Some("cancelled".to_owned()), "{request}");
    }
    std::fs::write(&go, "").unwrap();
    assert_eq!(one.answer(running).await.0.unwrap()["stopReason"], "end_turn");
    assert_eq!((count(&argv, "session/prompt"), count(&argv, "session/cancel")), (1, 0));
    assert!(bench.agent_of(&record).await.is_alive());
}

#[tokio::test]
async fn session_cancel_ends_the_own_queued_prompt_and_the_orphaned_running_turn() {
    for version in [1, 2] {
        let bench = Bench::new();
        let began = bench.home.join("began");
        let argv = bench.agent(&endless(1, &began));
        let record = orphaned(&bench, version, 1, &argv, &began).await;
        queue(&bench, &record, "other job").await;
        let mut two = comes(&bench, version, 1, &argv, &record).await;
        let next = prompt_params(&record, "next", json!({ "requestId": "next" }));
        let prompt = two.ask("session/prompt", next).await;
        two.until(|line| line["method"] == "_acpx/accepted").await;
        if version == 1 {
            assert_eq!(
                notice(&two.next().await),
                Some("waits for an earlier turn whose client has disconnected")
            );
        }
        two.notify("session/cancel", json!({ "sessionId": record })).await;
        let answer = two.answer(prompt).await.0;
        match version {
            1 => assert_eq!(answer.unwrap()["stopReason"], "cancelled"),
            _ => assert_eq!(answer.unwrap_err()["code"], -32800),
        }
        // A prompt that waits for nobody is not the running one: it is next.
        eventually("the next one is sent", || count(&argv, "session/prompt") == 2).await;
        for request in ["orphan", "next"] {
            assert_eq!(
                outcome(&bench, &record, request).await,
                Some("cancelled".to_owned()),
                "version {version}: {request}"
            );
        }
        let texts: Vec<Value> = received(&argv)
            .into_iter()
            .filter(|(method, _)| method == "session/prompt")
            .map(|(_, params)| params["prompt"][0]["text"].clone())
            .collect();
        assert_eq!(texts, ["runs on", "other job"]);
    }
}

/// An agent whose first turn ends when a file is there. Every other is answered at once.
fn until_file(began: &std::path::Path, go: &std::path::Path) -> Script {
    Script::new().initialize(everything()).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        ("session/prompt", Script::new().touch(began).await_file(go).end("end_turn")),
    ])
}

/// Lets the turn of such an agent end, and asserts that the agent was sent no cancel.
async fn ends_uncancelled(
    editor: &mut Editor,
    argv: &[String],
    record: &str,
    prompt: u64,
    go: &std::path::Path,
) {
    // The session has taken every command that was sent to it before this.
    editor.call("_acpx/waiting", json!({ "sessionId": record })).await.unwrap();
    std::fs::write(go, "").unwrap();
    assert_eq!(editor.answer(prompt).await.0.unwrap()["stopReason"], "end_turn");
    // The agent has read every line that was sent to it before this.
    editor.turn(record, "next").await;
    assert_eq!(count(argv, "session/cancel"), 0);
}

#[tokio::test]
async fn session_cancel_leaves_the_turn_of_another_connected_client() {
    for named in [json!({}), json!({ "requestId": "mine" })] {
        let bench = Bench::new();
        let (began, go) = (bench.home.join("began"), bench.home.join("go"));
        let argv = bench.agent(&until_file(&began, &go));
        let mut one = bench.editor(&argv).await;
        let record = one.open(&bench).await;
        let mine = prompt_params(&record, "mine", json!({ "requestId": "mine" }));
        let running = one.ask("session/prompt", mine).await;
        eventually("the turn runs", || began.exists()).await;
        let mut two = comes(&bench, 1, 1, &argv, &record).await;
        two.notify("session/cancel", json!({ "sessionId": record, "_meta": { "acpx": named } })).await;
        disconnect(&bench, two, 1).await;
        ends_uncancelled(&mut one, &argv, &record, running, &go).await;
    }
}

/// What a line tells of a prompt that waits.
fn notice(line: &Value) -> Option<&str> {
    let update = &line["params"]["update"];
    assert_eq!(update["sessionUpdate"], "agent_thought_chunk", "{line}");
    assert_eq!(update["_meta"], json!({ "acpx": { "notice": "waiting" } }), "{line}");
    let text = update["content"]["text"].as_str()?.strip_prefix("[acpx] This prompt ")?;
    Some(text.split_once('.')?.0)
}

#[tokio::test]
async fn v1_prompt_behind_another_turn_gets_a_notice_that_is_not_stored() {
    let bench = Bench::new();
    let (began, go) = (bench.home.join("began"), bench.home.join("go"));
    let argv = bench.agent(&until_file(&began, &go));
    let mut one = bench.editor(&argv).await;
    let record = one.open(&bench).await;
    let running = one.ask("session/prompt", prompt_params(&record, "first", json!({}))).await;
    eventually("the turn runs", || began.exists()).await;
    // Its own turn is no news to a client.
    let own = one.ask("session/prompt", prompt_params(&record, "second", json!({}))).await;
    one.until(|line| line["method"] == "_acpx/accepted").await;
    let mut two = bench.editor(&argv).await;
    let load = two.ask("session/load", bench.load_params(&record)).await;
    two.answer(load).await.0.unwrap();
    let third = two.ask("session/prompt", prompt_params(&record, "third", json!({}))).await;
    two.until(|line| line["method"] == "_acpx/accepted").await;
    assert_eq!(notice(&two.next().await), Some("waits for the turn of another client"));
    std::fs::write(&go, "").unwrap();
    for prompt in [running, own] {
        let (answer, before) = one.answer(prompt).await;
        assert_eq!(answer.unwrap()["stopReason"], "end_turn");
        assert!(before.iter().all(|line| !line.to_string().contains("notice")), "{before:?}");
    }
    two.answer(third).await.0.unwrap();
    let load = one.ask("session/load", bench.load_params(&record)).await;
    let (_, replayed) = one.answer(load).await;
    assert!(replayed.len() > 2 && !json!(replayed).to_string().contains("notice"), "{replayed:?}");
}

#[tokio::test]
async fn session_cancel_that_names_one_own_prompt_leaves_the_others() {
    let bench = Bench::new();
    let (began, go) = (bench.home.join("began"), bench.home.join("go"));
    let argv = bench.agent(&until_file(&began, &go));
    let mut editor = bench.editor(&argv).await;
    let record = editor.open(&bench).await;
    let named = |name: &str| prompt_params(&record, name, json!({ "requestId": name }));
    let running = editor.ask("session/prompt", named("runs")).await;
    eventually("the turn runs", || began.exists()).await;
    let waiting = editor.ask("session/prompt", named("waits")).await;
    editor.until(|line| line["params"]["requestId"] == "waits").await;
    let cancel = json!({ "sessionId": record, "_meta": { "acpx": { "requestId": "waits" } } });
    editor.notify("session/cancel", cancel).await;
    assert_eq!(editor.answer(waiting).await.0.unwrap()["stopReason"], "cancelled");
    ends_uncancelled(&mut editor, &argv, &record, running, &go).await;
}

#[tokio::test]
async fn session_cancel_that_names_a_request_ends_no_other_turn() {
    let bench = Bench::new();
    let began = bench.home.join("began");
    let argv = bench.agent(&endless(1, &began));
    let record = orphaned(&bench, 1, 1, &argv, &began).await;
    let mut two = comes(&bench, 1, 1, &argv, &record).await;
    let prompt = two.ask("session/prompt", prompt_params(&record, "next", json!({ "requestId": "n" }))).await;
    two.until(|line| line["method"] == "_acpx/accepted").await;
    let named = json!({ "sessionId": record, "_meta": { "acpx": { "requestId": "n" } } });
    two.notify("session/cancel", named).await;
    assert_eq!(two.answer(prompt).await.0.unwrap()["stopReason"], "cancelled");
    assert_eq!(
        two.call("_acpx/waiting", json!({ "sessionId": record })).await.unwrap()["waitingFor"]["what"],
        "answer"
    );
    assert_eq!((outcome(&bench, &record, "orphan").await, count(&argv, "session/cancel")), (None, 0));
}

#[tokio::test]
async fn repeated_prompt_on_a_new_connection_belongs_to_it() {
    let bench = Bench::new();
    let (began, go) = (bench.home.join("began"), bench.home.join("go"));
    let argv = bench.agent(&until_file(&began, &go));
    let record = orphaned(&bench, 1, 1, &argv, &began).await;
    // As a bridge does whose host went away.
    let mut again = comes(&bench, 1, 1, &argv, &record).await;
    let same = prompt_params(&record, "runs on", json!({ "requestId": "orphan" }));
    let asked = again.ask("session/prompt", same).await;
    again.until(|line| line["method"] == "_acpx/accepted").await;
    let mut other = comes(&bench, 1, 1, &argv, &record).await;
    other.notify("session/cancel", json!({ "sessionId": record })).await;
    disconnect(&bench, other, 1).await;
    ends_uncancelled(&mut again, &argv, &record, asked, &go).await;
}
