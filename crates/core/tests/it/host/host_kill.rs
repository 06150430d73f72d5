//! The host killed with -9 in mid-turn: what the next one finds, ends and goes on with.

use acpx_core::model::{ProcessIdentity, RecordId, RequestId, Turn, TurnState};
use acpx_core::protocol::HostMessage;
use acpx_core::store::Store;
use acpx_testkit::{Script, ScriptStep, children_of, starts_of};
use serde_json::{Value, json};

use super::{Bench, eventually, prompt_params, until};
use crate::engine::{everything, received};

impl Bench {
    async fn turn(&self, record: &str, request: &str) -> Turn {
        let (record, request) = (RecordId::new(record).unwrap(), RequestId::new(request).unwrap());
        self.store().turn(record, request).await.unwrap().expect("the turn is kept")
    }
}

/// An agent that starts children inside and outside of its group and then works for ever; from its second
/// start on it answers at once.
fn busy(bench: &Bench) -> Script {
    let child = |own_group| ScriptStep::Child { seconds: 600, holds_stdout: false, own_group };
    Script::new()
        .initialize(everything())
        .session_new("s1")
        .expect("session/prompt")
        .step(child(false))
        .step(child(true))
        .say("half")
        .touch(&bench.home.join("began"))
        .hang()
        .next_start()
        .initialize(everything())
        .serve([
            ("session/resume", Script::new().reply(json!({}))),
            ("session/prompt", Script::new().say("whole").end("end_turn")),
        ])
}

fn prompts_of(argv: &[String]) -> Vec<Value> {
    let prompts = received(argv).into_iter().filter(|(method, _)| method == "session/prompt");
    prompts.map(|(_, params)| params["prompt"][0]["text"].clone()).collect()
}

/// A host in mid-turn, with a prompt that waits; the record, its agent and its agent's children.
async fn in_mid_turn(bench: &Bench, argv: &[String]) -> (String, Vec<ProcessIdentity>) {
    let (mut one, mut two) = (bench.client().await, bench.client().await);
    let record = bench.open(&mut one, argv).await;
    bench.resume(&mut two, &record).await;
    for (client, name) in [(&mut one, "running"), (&mut two, "waiting")] {
        let params = prompt_params(&record, name, json!({ "requestId": name }));
        client.request("session/prompt", &params).await.unwrap();
        until(client, |said| matches!(said, HostMessage::Accepted { .. }).then_some(())).await;
    }
    eventually("the turn began", || bench.home.join("began").exists()).await;
    let agent = bench.record(&record).await.agent_run.unwrap().process;
    let children = children_of(argv).into_iter().map(|pid| ProcessIdentity::of(pid).unwrap());
    let processes: Vec<_> = children.chain([agent]).collect();
    assert!(processes.len() == 3 && processes.iter().all(ProcessIdentity::is_alive));
    (record, processes)
}

#[tokio::test]
async fn next_host_ends_processes_of_a_killed_one_and_records_exits() {
    let bench = Bench::new();
    let argv = bench.agent(&busy(&bench));
    let (record, processes) = in_mid_turn(&bench, &argv).await;
    bench.kill_host().await;
    assert!(bench.record(&record).await.agent_run.unwrap().ended.is_none());

    let _client = bench.client().await;
    assert!(processes.iter().all(|process| !process.is_alive()), "{processes:?}");
    let run = bench.record(&record).await.agent_run.unwrap();
    assert_eq!(run.process, processes[2]);
    assert_eq!(run.ended.unwrap().how.words(), "its host went away");
}

#[tokio::test]
async fn after_a_kill_sent_turns_are_interrupted_and_queued_ones_run() {
    let bench = Bench::new();
    let argv = bench.agent(&busy(&bench));
    let (record, _) = in_mid_turn(&bench, &argv).await;
    bench.kill_host().await;

    // Somebody comes who only looks.
    let mut client = bench.client().await;
    let watch = json!({ "sessionId": record, "from": 1 });
    client.call::<Value>("_acpx/watch", &watch).await.unwrap();
    let interrupted = until(&mut client, |said| match said {
        HostMessage::Event(event) if event.message.get().contains("turn_ended") => Some(event),
        _ => None,
    });
    let interrupted: Value = serde_json::from_str(interrupted.await.message.get()).unwrap();
    assert_eq!(interrupted["error"]["code"], "INTERRUPTED");
    assert!(matches!(bench.turn(&record, "running").await.state, TurnState::Interrupted { .. }));
    assert_eq!(bench.turn(&record, "waiting").await.state, TurnState::Queued);
    let status: Value = client.call("_acpx/host/status", &json!({})).await.unwrap();
    assert_eq!((&status["liveSessions"], starts_of(&argv)), (&json!(0), 1));

    bench.resume(&mut client, &record).await;
    until(&mut client, |said| match said {
        HostMessage::Event(event) if event.message.get().contains(r#""stopReason":"end_turn"}"#) => Some(()),
        _ => None,
    })
    .await;
    assert_eq!(prompts_of(&argv), ["running", "waiting"]);
}

#[tokio::test]
async fn repeated_request_after_a_kill_runs_or_reports_interrupted() {
    let bench = Bench::new();
    let argv = bench.agent(&busy(&bench));
    let (record, _) = in_mid_turn(&bench, &argv).await;
    bench.kill_host().await;
    let mut client = bench.client().await;
    // A command that prompts need not have the agent started beforehand.
    let mut params = bench.resume_params(&record);
    params["_meta"]["acpx"]["later"] = json!(true);
    let resumed: Value = client.call("session/resume", &params).await.unwrap();
    let ids = json!({ "acpxRecordId": record, "acpxSessionId": "s1", "created": false, "seq": 9 });
    assert_eq!((&resumed["_meta"]["acpx"], starts_of(&argv)), (&ids, 1));
    let running = prompt_params(&record, "running", json!({ "requestId": "running" }));
    let refused = super::refusal(&mut client, "session/prompt", &running).await;
    assert_eq!((refused.code().as_str(), refused.turn().unwrap().turn), ("INTERRUPTED", 1));
    let waiting = prompt_params(&record, "waiting", json!({ "requestId": "waiting" }));
    let answer: Value = client.call("session/prompt", &waiting).await.unwrap();
    assert_eq!((&answer["stopReason"], starts_of(&argv)), (&json!("end_turn"), 2));
    assert_eq!(prompts_of(&argv), ["running", "waiting"]);
}
