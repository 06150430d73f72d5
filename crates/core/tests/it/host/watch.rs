//! `_acpx/watch`: the raw channel.

use acpx_core::client::HostClient;
use acpx_core::model::{Direction, Event, RecordId, Seq, Timestamp, TurnId};
use acpx_core::protocol::{HostMessage, WatchedEvent};
use acpx_core::store::Store;
use acpx_testkit::Script;
use serde_json::{Value, json};

use super::{Bench, prompt_params};
use crate::engine::{everything, faithful};

/// An event, whole.
type Whole = (Seq, Timestamp, Direction, Option<TurnId>, String);

fn watched(event: &WatchedEvent) -> Whole {
    (event.seq, event.at, event.direction, event.turn, event.message.get().to_owned())
}

fn kept(event: &Event) -> Whole {
    (event.seq, event.at, event.direction, event.turn, event.body.to_string())
}

/// The events of a record from a number on, as the store has them.
async fn kept_from(bench: &Bench, record: &str, from: u64) -> Vec<Whole> {
    let events = bench.store().events(RecordId::new(record).unwrap(), Seq(from), 10_000).await.unwrap();
    events.iter().map(kept).collect()
}

async fn watch(client: &mut HostClient, record: &str, from: Value) -> u64 {
    let params = json!({ "sessionId": record, "from": from });
    let answer: Value = client.call("_acpx/watch", &params).await.unwrap();
    answer["from"].as_u64().unwrap()
}

/// Prompts, and gives what was watched before the answer.
async fn watched_turn(client: &mut HostClient, record: &str) -> (Vec<Whole>, Value) {
    let mut seen = Vec::new();
    let params = prompt_params(record, "say it", json!({ "requestId": "r" }));
    let answer: Value = client
        .call_while("session/prompt", &params, |said| {
            if let HostMessage::Event(event) = said {
                seen.push(watched(&event));
            }
        })
        .await
        .unwrap();
    (seen, answer)
}

/// An agent whose lines are not as we would write them.
fn odd() -> Script {
    let chunk = r#"{"jsonrpc":"2.0" , "method":"session/update","params":{"update":{"sessionUpdate":"agent_message_chunk","content":{"text":"\u0041","type":"text"},"n":1.0e2}, "sessionId":"s1"} }"#;
    Script::new().initialize(json!({})).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        ("session/prompt", Script::new().line(chunk).say("x").line(chunk).end("end_turn")),
    ])
}

#[tokio::test]
async fn watch_gets_every_event_once_in_order_before_the_prompt_response() {
    let bench = Bench::new();
    let mut client = bench.client().await;
    let record = bench.open(&mut client, &bench.agent(&odd())).await;
    assert_eq!(watch(&mut client, &record, json!(1)).await, 1);
    let (seen, answer) = watched_turn(&mut client, &record).await;
    assert_eq!(seen, kept_from(&bench, &record, 1).await);
    let last = seen.last().unwrap();
    assert!(last.4.contains(r#""fact":"turn_ended""#), "{last:?}");
    assert_eq!(answer["_meta"]["acpx"]["seq"], last.0.0);
    assert!(seen.iter().any(|event| event.4.contains(r#""n":1.0e2}, "sessionId":"s1"} }"#)), "{seen:?}");
}

#[tokio::test]
async fn watch_begins_at_its_cursor_or_with_the_next_event() {
    let bench = Bench::new();
    let mut client = bench.client().await;
    let record = bench.open(&mut client, &bench.agent(&odd())).await;
    let next = bench.record(&record).await.last_seq.unwrap().next().0;
    let params = prompt_params(&record, "say it", json!({ "requestId": "r" }));
    // The first of these makes the turn, and the others only wait for it.
    for (from, first) in [(json!(3), 3), (Value::Null, next + 7), (json!(next + 100), next + 100)] {
        let mut other = bench.client().await;
        bench.resume(&mut other, &record).await;
        let mut seen = Vec::new();
        let mut hear = |said| {
            if let HostMessage::Event(event) = said {
                seen.push(watched(&event));
            }
        };
        let watch = json!({ "sessionId": record, "from": from });
        let answer: Value = other.call_while("_acpx/watch", &watch, &mut hear).await.unwrap();
        assert_eq!(answer, json!({ "from": first }));
        let turn: Value = other.call_while("session/prompt", &params, &mut hear).await.unwrap();
        assert_eq!(turn["stopReason"], "end_turn");
        assert_eq!(seen, kept_from(&bench, &record, first).await, "{from}");
    }
}

#[tokio::test]
async fn two_watchers_see_the_same_and_a_second_watch_replaces_the_first() {
    let bench = Bench::new();
    let (mut one, mut two) = (bench.client().await, bench.client().await);
    let record = bench.open(&mut one, &bench.agent(&odd())).await;
    watch(&mut one, &record, json!(1)).await;
    watch(&mut two, &record, json!(1)).await;
    let (first, _) = watched_turn(&mut one, &record).await;
    let end = first.last().unwrap().0;
    let seen_by_two = until_seq(&mut two, end).await;
    assert_eq!(seen_by_two, first);
    watch(&mut two, &record, json!(2)).await;
    assert_eq!(until_seq(&mut two, end).await, first[1..]);
}

async fn until_seq(client: &mut HostClient, last: Seq) -> Vec<Whole> {
    let mut seen: Vec<Whole> = Vec::new();
    while seen.last().is_none_or(|event| event.0 < last) {
        if let HostMessage::Event(event) = client.next().await.expect("the host is there") {
            seen.push(watched(&event));
        }
    }
    seen
}

#[tokio::test]
async fn watch_of_a_parked_record_starts_nothing() {
    let bench = Bench::new();
    let mut client = bench.client().await;
    let argv = bench.agent(&faithful(everything()));
    let record = bench.open(&mut client, &argv).await;
    bench.kill_host().await;
    let mut client = bench.client().await;
    watch(&mut client, &record, json!(1)).await;
    let kept = kept_from(&bench, &record, 1).await;
    assert_eq!(until_seq(&mut client, kept.last().unwrap().0).await, kept);
    let status: Value = client.call("_acpx/host/status", &json!({})).await.unwrap();
    assert_eq!(status["liveSessions"], 0);
}

#[tokio::test]
async fn watch_continues_over_close_and_restore_and_ends_with_deletion() {
    let bench = Bench::new();
    let (mut watcher, mut other) = (bench.client().await, bench.client().await);
    let record = bench.open(&mut other, &bench.agent(&faithful(everything()))).await;
    watch(&mut watcher, &record, json!(1)).await;
    let of_record = json!({ "sessionId": record });
    let mut seen = Vec::new();
    for _ in 0..2 {
        other.call::<Value>("_acpx/close", &of_record).await.unwrap();
        bench.resume(&mut other, &record).await;
        super::prompt(&mut other, &record, "and on").await;
        let last = bench.record(&record).await.last_seq.unwrap();
        seen.extend(until_seq(&mut watcher, last).await);
        assert_eq!(seen, kept_from(&bench, &record, 1).await);
    }
    other.call::<Value>("session/delete", &of_record).await.unwrap();
    let end = loop {
        match watcher.next().await.expect("the host is there") {
            HostMessage::Event(event) => seen.push(watched(&event)),
            HostMessage::WatchEnded { from, error: None } => break from,
            _ => {}
        }
    };
    // What was said is gone, and whoever watched has heard all of it.
    assert_eq!(kept_from(&bench, &record, 1).await, []);
    assert_eq!(seen.iter().map(|event| event.0).collect::<Vec<_>>(), (1..end.0).map(Seq).collect::<Vec<_>>());
    assert_eq!(seen.last().unwrap().4, r#"{"fact":"closed"}"#);
}

/// The numbers of the next report that differs from the last one.
async fn activity(client: &mut HostClient) -> (usize, usize) {
    loop {
        if let HostMessage::Activity { clients, queued } = client.next().await.expect("the host is there") {
            return (clients, queued);
        }
    }
}

#[tokio::test]
async fn watch_with_activity_reports_clients_and_queued_prompts() {
    let bench = Bench::new();
    let (mut watcher, mut user) = (bench.client().await, bench.client().await);
    let agent = Script::new().initialize(json!({})).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        ("session/prompt", Script::new().say("wait").hang()),
    ]);
    let record = bench.open(&mut user, &bench.agent(&agent)).await;
    let params = json!({ "sessionId": record, "activity": true });
    watcher.request("_acpx/watch", &params).await.unwrap();
    assert_eq!(activity(&mut watcher).await, (1, 0));
    for (request, queued) in [("a", None), ("b", Some((1, 1))), ("c", Some((1, 2)))] {
        let params = prompt_params(&record, "wait", json!({ "requestId": request }));
        user.request("session/prompt", &params).await.unwrap();
        if let Some(queued) = queued {
            assert_eq!(activity(&mut watcher).await, queued);
        }
    }
    let mut other = bench.client().await;
    bench.resume(&mut other, &record).await;
    assert_eq!(activity(&mut watcher).await, (2, 2));
    drop(other);
    assert_eq!(activity(&mut watcher).await, (1, 2));
}
