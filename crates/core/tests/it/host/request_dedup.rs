//! A prompt that is asked again under its request id is not sent again.

use acpx_core::client::HostClient;
use acpx_core::model::TurnId;
use acpx_core::protocol::HostMessage;
use acpx_testkit::Script;
use serde_json::{Value, json};

use super::{Bench, eventually, prompt_params, until};
use crate::engine::{everything, received};

/// An agent whose turns go on until `go` is there, or until they are cancelled.
fn waiting(bench: &Bench) -> Script {
    let turn = Script::new().say("on it").touch(&bench.home.join("began")).await_file(&bench.home.join("go"));
    Script::new().initialize(everything()).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        ("session/resume", Script::new().reply(json!({}))),
        ("session/prompt", turn.end("end_turn")),
    ])
}

fn go(bench: &Bench) {
    std::fs::write(bench.home.join("go"), "").unwrap();
}

fn named(record: &str) -> Value {
    prompt_params(record, "do it", json!({ "requestId": "again" }))
}

/// Prompts, and waits until the host has the prompt.
async fn ask(client: &mut HostClient, record: &str) -> (acpx_core::wire::RpcId, TurnId) {
    let id = client.request("session/prompt", &named(record)).await.unwrap();
    let turn = until(client, |said| match said {
        HostMessage::Accepted { turn, request } if request == "again" => Some(turn),
        _ => None,
    });
    let turn = turn.await;
    (id, turn)
}

async fn answer(client: &mut HostClient, asked: &acpx_core::wire::RpcId) -> Value {
    let result = until(client, |said| match said {
        HostMessage::Answer { id, result } if id == *asked => Some(result),
        _ => None,
    });
    serde_json::from_str(&result.await.expect("an answer")).unwrap()
}

fn prompts_of(argv: &[String]) -> usize {
    received(argv).iter().filter(|(method, _)| method == "session/prompt").count()
}

#[tokio::test]
async fn two_prompts_with_one_request_id_are_one_turn() {
    let bench = Bench::new();
    let argv = bench.agent(&waiting(&bench));
    let (mut one, mut two) = (bench.client().await, bench.client().await);
    let record = bench.open(&mut one, &argv).await;
    bench.resume(&mut two, &record).await;
    let (first, turn) = ask(&mut one, &record).await;
    let (second, again) = ask(&mut two, &record).await;
    assert_eq!(turn, again);
    go(&bench);
    let answers = [answer(&mut one, &first).await, answer(&mut two, &second).await];
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0]["stopReason"], "end_turn");

    // Asked once more when it is long over, by somebody who was not there.
    let mut three = bench.client().await;
    bench.resume(&mut three, &record).await;
    let late: Value = three.call("session/prompt", &named(&record)).await.unwrap();
    assert_eq!((&late["stopReason"], &late["_meta"]["acpx"]["turn"]), (&json!("end_turn"), &json!(turn.0)));
    // Another prompt must not get its answer.
    let other = prompt_params(&record, "do that", json!({ "requestId": "again" }));
    let refused = super::refusal(&mut three, "session/prompt", &other).await;
    assert_eq!((refused.code().as_str(), prompts_of(&argv)), ("REQUEST_EXISTS", 1));
}

#[tokio::test]
async fn refused_prompt_takes_no_permission_request_from_the_turn_with_its_id() {
    let bench = Bench::new();
    let (began, go) = (bench.home.join("began"), bench.home.join("go"));
    let turn = Script::new().touch(&began).await_file(&go).ask_permission("t1").end("end_turn");
    let script = Script::new().initialize(everything()).session_new("s1").serve([("session/prompt", turn)]);
    let argv = bench.agent(&script);
    let (mut owner, mut other) = (bench.client().await, bench.client().await);
    let record = bench.open(&mut owner, &argv).await;
    bench.resume(&mut other, &record).await;
    let (asked, _) = ask(&mut owner, &record).await;
    eventually("the turn began", || began.exists()).await;
    let params = prompt_params(&record, "do that", json!({ "requestId": "again" }));
    let refused = super::refusal(&mut other, "session/prompt", &params).await;
    assert_eq!(refused.code().as_str(), "REQUEST_EXISTS");
    std::fs::write(&go, "").unwrap();
    let question = until(&mut owner, |said| match said {
        HostMessage::Question { id, .. } => Some(id),
        _ => None,
    });
    let yes = json!({ "outcome": { "outcome": "selected", "optionId": "yes" } });
    let id = question.await;
    owner.answer(&id, &yes).await.unwrap();
    assert_eq!(answer(&mut owner, &asked).await["stopReason"], "end_turn");
}

#[tokio::test]
async fn outcome_of_a_prompt_is_available_under_its_request_id_later() {
    let bench = Bench::new();
    let argv = bench.agent(&waiting(&bench));
    let mut gone = bench.client().await;
    let record = bench.open(&mut gone, &argv).await;
    ask(&mut gone, &record).await;
    gone.close().await;

    let mut client = bench.client().await;
    bench.resume(&mut client, &record).await;
    let (asked, _) = ask(&mut client, &record).await;
    go(&bench);
    assert_eq!(answer(&mut client, &asked).await["stopReason"], "end_turn");
    assert_eq!(prompts_of(&argv), 1);
}

#[tokio::test]
async fn repeated_prompt_can_cancel_its_turn() {
    let bench = Bench::new();
    let argv = bench.agent(&waiting(&bench));
    let mut gone = bench.client().await;
    let record = bench.open(&mut gone, &argv).await;
    ask(&mut gone, &record).await;
    eventually("the turn began", || bench.home.join("began").exists()).await;
    gone.close().await;

    let mut client = bench.client().await;
    bench.resume(&mut client, &record).await;
    let (asked, _) = ask(&mut client, &record).await;
    // The agent does not listen, so its process is ended.
    client.notify("session/cancel", &json!({ "sessionId": record })).await.unwrap();
    assert_eq!(answer(&mut client, &asked).await["stopReason"], "cancelled");
    assert_eq!(prompts_of(&argv), 1);
}

#[tokio::test]
async fn repeated_prompt_receives_the_turns_permission_requests() {
    let bench = Bench::new();
    let (began, go) = (bench.home.join("began"), bench.home.join("go"));
    let turn = Script::new().touch(&began).await_file(&go).ask_permission("t1").end("end_turn");
    let script = Script::new().initialize(everything()).session_new("s1").serve([("session/prompt", turn)]);
    let argv = bench.agent(&script);
    let mut gone = bench.client().await;
    let record = bench.open(&mut gone, &argv).await;
    ask(&mut gone, &record).await;
    eventually("the turn began", || began.exists()).await;
    gone.close().await;

    let mut client = bench.client().await;
    bench.resume(&mut client, &record).await;
    let (asked, _) = ask(&mut client, &record).await;
    std::fs::write(&go, "").unwrap();
    let question = until(&mut client, |said| match said {
        HostMessage::Question { id, params } => Some((id, params)),
        _ => None,
    });
    let (id, params) = question.await;
    let params: Value = serde_json::from_str(&params).unwrap();
    assert_eq!((&params["sessionId"], &params["toolCall"]["toolCallId"]), (&json!(record), &json!("t1")));
    let yes = json!({ "outcome": { "outcome": "selected", "optionId": "yes" } });
    client.answer(&id, &yes).await.unwrap();
    let answer = answer(&mut client, &asked).await;
    let meta = &answer["_meta"]["acpx"];
    assert_eq!((&meta["approved"], &meta["rejected"]), (&json!(1), &json!(0)));
    assert_eq!(prompts_of(&argv), 1);
}
