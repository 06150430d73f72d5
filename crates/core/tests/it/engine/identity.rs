//! The three ids, from new to fallback.

use acpx_core::model::LineageReason;

use super::*;

fn ids(session: &Session) -> Value {
    serde_json::to_value(session.identity().expect("the record exists")).unwrap()
}

fn forgetful() -> Script {
    let lost = json!({"code": -32002, "message": "Resource not found"});
    Script::new()
        .initialize(json!({"loadSession": true}))
        .expect("session/new")
        .reply(json!({"sessionId": "s1", "_meta": {"agentSessionId": "inner-1"}}))
        .prompt(|turn| turn.say("one").end("end_turn"))
        .next_start()
        .initialize(json!({"loadSession": true}))
        .refuse("session/load", lost)
        .session_new("s2")
        .prompt(|turn| turn.say("two").end("end_turn"))
}

#[tokio::test]
async fn fallback_keeps_record_id_and_changes_session_id() {
    let bench = Bench::new();
    let (session, _) = bench.open(&forgetful()).await;
    let record = session.record_id().to_string();
    assert_eq!(
        ids(&session),
        json!({"acpxRecordId": record, "acpxSessionId": "s1", "agentSessionId": "inner-1"})
    );
    prompt(&session, "hi").await;
    kill_agent(&session).await;
    prompt(&session, "again").await;
    // The inner id belongs to the session that is gone.
    assert_eq!(ids(&session), json!({"acpxRecordId": record, "acpxSessionId": "s2"}));
    let kept = bench.engine.record(session.record_id()).await.unwrap().unwrap();
    let rows: Vec<_> = kept.lineage.rows().iter().map(|row| (row.session.as_str(), row.reason)).collect();
    assert_eq!(rows, [("s1", LineageReason::Created), ("s2", LineageReason::AgentLost)]);
    let reset = bench
        .events(session.record_id())
        .await
        .into_iter()
        .find(|event| event.body.contains("session_reset"));
    let mut reset: Value = serde_json::from_str(&reset.unwrap().body).unwrap();
    assert!(reset["error"].as_object_mut().unwrap().remove("at").is_some(), "{reset}");
    let error = json!({"method": "session/load", "code": -32002, "message": "Resource not found"});
    let expected = json!({
        "fact": "session_reset", "reason": "agent-lost", "fromAcpxSessionId": "s1", "acpxSessionId": "s2",
        "announced": true, "error": error,
    });
    assert_eq!(reset, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ids_are_available_as_soon_as_the_session_exists() {
    let bench = Bench::new();
    // Whoever opens waits on a thread of its own, so that it may look before the task has gone on.
    for _ in 0..50 {
        let (session, _) = bench.open(&faithful(everything())).await;
        let status = session.status();
        assert!(status.identity.is_some() && status.agent_pid.is_some(), "{status:?}");
    }
    bench.engine.shutdown().await;
}

#[tokio::test]
async fn everything_works_without_inner_id() {
    let bench = Bench::new();
    let (session, _) = bench.open(&faithful(everything())).await;
    let without = json!({"acpxRecordId": session.record_id().as_str(), "acpxSessionId": "s1"});
    assert_eq!(ids(&session), without);
    prompt(&session, "hi").await;
    kill_agent(&session).await;
    prompt(&session, "again").await;
    assert_eq!(ids(&session), without);
    session.close().await.unwrap();
    let (session, _) = bench.engine.restore(session.record_id(), restore()).await.unwrap();
    assert_eq!(ids(&session), without);
}

#[tokio::test]
async fn inner_id_is_learnt_on_restore_kept_when_absent_and_replaced_visibly() {
    let told = |id: &str| json!({"_meta": {"agentSessionId": id}});
    let start = |script: Script, answer: Value| {
        script
            .initialize(everything())
            .expect("session/resume")
            .reply(answer)
            .prompt(|turn| turn.end("end_turn"))
    };
    let first = Script::new().initialize(everything()).session_new("s1").prompt(|turn| turn.end("end_turn"));
    let script = start(first.next_start(), told("a"));
    let script = start(script.next_start(), json!({}));
    let script = start(script.next_start(), told(" "));
    let script = start(script.next_start(), told("b"));
    let bench = Bench::new();
    let (session, _) = bench.open(&script).await;
    let mut seen = Vec::new();
    for _ in 0..5 {
        prompt(&session, "hi").await;
        seen.push(session.identity().unwrap().agent_session.map(|inner| inner.to_string()));
        kill_agent(&session).await;
    }
    let some = |id: &str| Some(id.to_owned());
    assert_eq!(seen, [None, some("a"), some("a"), some("a"), some("b")]);
    let kept = bench.engine.record(session.record_id()).await.unwrap().unwrap();
    let row = |row: &acpx_core::model::LineageRow| {
        (row.session.to_string(), row.agent_session.as_ref().map(ToString::to_string), row.reason)
    };
    let rows: Vec<_> = kept.lineage.rows().iter().map(row).collect();
    let expected = [
        ("s1".to_owned(), some("a"), LineageReason::Created),
        ("s1".to_owned(), some("b"), LineageReason::AgentSessionChanged),
    ];
    assert_eq!(rows, expected);
}
