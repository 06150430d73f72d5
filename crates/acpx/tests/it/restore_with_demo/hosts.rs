//! Hosts that end or die: the next one finds everything in the store.

use tokio::runtime::Runtime;

use super::*;

fn request(name: &str) -> RequestId {
    RequestId::new(name).unwrap()
}

fn prompt(text: &str) -> Prompt {
    Prompt::text(text).unwrap().with_request(request(text))
}

#[tokio::test]
async fn sessions_of_a_stopped_host_are_restored_by_the_next() {
    let bench = Bench::new("");
    let session = bench.open().await;
    say(&session, "one").await;
    bench.engine.shutdown().await;
    let next = Bench { engine: host("two", &bench.home, quick()), home: bench.home };
    let (session, how) = next.engine.restore(session.record_id(), next.restore()).await.unwrap();
    assert_eq!(how, RESUMED);
    assert_eq!(next.recalled(&session).await, "agent: You said before:\n1. one");
}

#[tokio::test]
async fn a_closed_record_is_restored_by_its_id() {
    let bench = Bench::new("");
    let session = bench.open().await;
    say(&session, "one").await;
    session.close().await.unwrap();
    let (session, how) = bench.engine.restore(session.record_id(), bench.restore()).await.unwrap();
    assert_eq!(how, RESUMED);
    assert_eq!(bench.recalled(&session).await, "agent: You said before:\n1. one");
}

/// The host's runtime goes with everything in it, in mid-turn and without a word.
#[test]
fn after_a_host_crash_what_ran_is_interrupted_and_what_waited_runs() {
    let doomed = Runtime::new().unwrap();
    let (bench, session) = doomed.block_on(async {
        let bench = Bench::new("");
        let session = bench.open().await;
        say(&session, "one").await;
        session.prompt(prompt("wait")).await.unwrap();
        session.prompt(prompt("recall")).await.unwrap();
        heard(&session, "Waiting until cancelled.").await;
        (bench, session)
    });
    doomed.shutdown_timeout(Duration::from_secs(10));

    Runtime::new().unwrap().block_on(async {
        let record = session.record_id().clone();
        let next = Bench { engine: host("two", &bench.home, quick()), home: bench.home };
        let (session, how) = next.engine.restore(&record, next.restore()).await.unwrap();
        assert_eq!(how, RESUMED);
        heard(&session, r#""fact":"turn_ended","turn":3"#).await;
        let said = next.said(&session).await;
        let waited = ["user: wait".to_owned(), "agent: Waiting until cancelled.\n".to_owned()];
        let recalled = ["user: recall".to_owned(), "agent: You said before:\n1. one\n2. wait".to_owned()];
        assert_eq!(said, [exchange("one"), waited, recalled].concat());

        let store = SqliteStore::open(&next.home.join("acpx.db"), Access::ReadOnly).unwrap();
        let interrupted = store.turn(record.clone(), request("wait")).await.unwrap().unwrap();
        assert!(matches!(interrupted.state, TurnState::Interrupted { .. }), "{interrupted:?}");
        let ran = store.turn(record, request("recall")).await.unwrap().unwrap();
        assert_eq!(stop_reason(&ran), "end_turn");
        next.engine.shutdown().await;
    });
}
