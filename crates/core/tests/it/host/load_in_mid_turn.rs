//! A session that is loaded during a turn: replay and live updates make one conversation.

use acpx_testkit::Script;
use agent_client_protocol::v1::schema::{LoadSessionRequest, SessionId};
use serde_json::json;

use super::sdk::{Answering, as_client};
use super::{Bench, eventually, prompt_params};
use crate::engine::everything;

#[tokio::test]
async fn load_in_mid_turn_replays_and_then_follows_without_repeats() {
    let bench = Bench::new();
    let (began, go) = (bench.home.join("began"), bench.home.join("go"));
    let script = Script::new()
        .initialize(everything())
        .session_new("s1")
        .prompt(|turn| turn.say("one").say("two").end("end_turn"))
        .prompt(|turn| turn.say("three").touch(&began).await_file(&go).say("four").end("end_turn"));
    let mut client = bench.client().await;
    let record = bench.open(&mut client, &bench.agent(&script)).await;
    super::prompt(&mut client, &record, "first").await;
    client.request("session/prompt", &prompt_params(&record, "second", json!({}))).await.unwrap();
    eventually("the turn began", || began.exists()).await;
    let watched = || async {
        use acpx_core::store::Store;
        let record = acpx_core::model::RecordId::new(record.as_str()).unwrap();
        bench.store().events(record, acpx_core::model::Seq::FIRST, 1000).await.unwrap()
    };
    while !watched().await.iter().any(|event| event.body.contains("three")) {
        tokio::task::yield_now().await;
    }

    as_client(&bench, Answering::Never, async |mut reader| {
        let session = SessionId::new(record.as_str());
        let load = LoadSessionRequest::new(session.clone(), bench.home.path());
        let so_far = ["user: first", "agent: onetwo", "user: second", "agent: three"];
        // A second load replays again; the rest still comes once.
        for _ in 0..2 {
            reader.connection.send_request(load.clone()).block_task().await?;
            assert_eq!(reader.received.take(&session), so_far);
        }
        while reader.news.try_recv().is_ok() {}
        std::fs::write(&go, "").unwrap();
        reader.news.recv().await;
        assert_eq!(reader.received.take(&session), ["agent: four"]);
        Ok(())
    })
    .await;
}
