//! Replay and following: complete, in order, without gap or repeat.

use super::*;

#[tokio::test]
async fn follower_gets_every_event_once_from_any_cursor_while_streaming() {
    let bench = Bench::new();
    let script = Script::new()
        .initialize(everything())
        .session_new("s1")
        .repeat(3, |turns| turns.prompt(|turn| turn.flood(Some(5_000)).end("end_turn")));
    let (session, _) = bench.open(&script).await;
    let followers: Vec<_> = [1, 7, 5_000]
        .into_iter()
        .map(|from| {
            let mut follower = session.follow(Seq(from));
            tokio::spawn(async move {
                let mut seen = Vec::new();
                while let Some(event) = follower.next().await.unwrap() {
                    seen.push(event.seq.0);
                    if event.body.contains(r#""turn_ended","turn":3"#) {
                        return (from, seen);
                    }
                }
                (from, seen)
            })
        })
        .collect();
    for text in ["one", "two", "three"] {
        prompt(&session, text).await;
    }
    let last = bench.events(session.record_id()).await.last().unwrap().seq.0;
    assert!(last > 15_000);
    for follower in followers {
        let (from, seen) = follower.await.unwrap();
        assert!(seen.iter().copied().eq(from..=last), "from {from}: {} events", seen.len());
    }
}

#[tokio::test]
async fn a_follower_ends_when_the_session_closes() {
    let bench = Bench::new();
    let (session, _) = bench.open(&faithful(everything())).await;
    let mut follower = session.follow(Seq::FIRST);
    session.close().await.unwrap();
    let mut last = String::new();
    while let Some(event) = follower.next().await.unwrap() {
        last = brief(&event);
    }
    assert_eq!(last, "# closed");
}

#[tokio::test]
async fn a_replay_ends_where_the_record_ends() {
    let bench = Bench::new();
    let (session, _) = bench.open(&faithful(everything())).await;
    let all = bench.events(session.record_id()).await;
    let mut replay = bench.engine.replay(session.record_id(), Seq(3));
    assert_eq!(replay.page().await.unwrap(), all[2..]);
    assert_eq!(replay.page().await.unwrap(), []);
}
