//! When agents and hosts go, and that nobody minds.

use std::os::unix::fs::FileTypeExt;
use std::time::Duration;

use acpx_core::client::HostClient;
use acpx_core::home::{HostLock, published};
use acpx_core::model::{AgentEnd, Lifecycle, ProcessIdentity};
use acpx_core::protocol::{HostError, HostMessage};
use acpx_testkit::{Script, starts_of};
use serde_json::{Value, json};

use super::{Bench, Manner, NEVER_IDLE, eventually, prompt, prompt_params, until};
use crate::engine::{everything, faithful, methods};

const SHORT: Duration = Duration::from_millis(30);

impl Bench {
    /// Has a session parked so long after nobody has it in use any more.
    pub(super) async fn shorten_idle_time(&self, client: &mut HostClient, record: &str) {
        let mut params = self.resume_params(record);
        params["_meta"]["acpx"]["idleMs"] = json!(SHORT.as_millis());
        let answer: Value = client.call("session/resume", &params).await.unwrap();
        assert_eq!(answer["_meta"]["acpx"]["awakening"], json!({ "by": "live" }));
    }

    /// The process of a record's agent, which runs.
    pub(super) async fn agent_of(&self, record: &str) -> ProcessIdentity {
        let run = self.record(record).await.agent_run.expect("an agent was started");
        assert!(run.process.is_alive() && run.ended.is_none(), "{run:?}");
        run.process
    }
}

#[tokio::test]
async fn idle_agent_is_parked_and_the_next_prompt_restores_it() {
    let bench = Bench::new();
    let argv = bench.agent(&faithful(everything()));
    let mut client = bench.client().await;
    let record = bench.open(&mut client, &argv).await;
    prompt(&mut client, &record, "one").await;
    let agent = bench.agent_of(&record).await;
    bench.shorten_idle_time(&mut client, &record).await;
    client.close().await;
    eventually("the agent is parked", || !agent.is_alive()).await;

    let mut client = bench.client().await;
    bench.resume(&mut client, &record).await;
    prompt(&mut client, &record, "two").await;
    assert_eq!(starts_of(&argv), 2);
    let restored = methods(&argv);
    assert_eq!(restored[restored.len() - 3..], ["initialize", "session/resume", "session/prompt"]);
}

#[tokio::test]
async fn attached_session_is_not_parked_and_a_watched_one_is() {
    let bench = Bench::new();
    let (mut editor, mut watcher) = (bench.client().await, bench.client().await);
    let record = bench.open(&mut editor, &bench.agent(&faithful(everything()))).await;
    let agent = bench.agent_of(&record).await;
    bench.shorten_idle_time(&mut editor, &record).await;
    let watch = json!({ "sessionId": record, "from": 1 });
    watcher.call::<Value>("_acpx/watch", &watch).await.unwrap();
    // Another session of nobody's lives through many idle times, one after the other.
    for _ in 0..3 {
        let mut client = bench.client().await;
        let record = bench.open(&mut client, &bench.agent(&faithful(everything()))).await;
        let agent = bench.agent_of(&record).await;
        bench.shorten_idle_time(&mut client, &record).await;
        client.close().await;
        eventually("the other one is parked", || !agent.is_alive()).await;
    }
    assert!(agent.is_alive());
    editor.close().await;
    eventually("the agent is parked", || !agent.is_alive()).await;
}

#[tokio::test]
async fn detached_client_keeps_neither_agent_nor_streams() {
    let bench = Bench::new();
    let mut client = bench.client().await;
    let record = bench.open(&mut client, &bench.agent(&faithful(everything()))).await;
    prompt(&mut client, &record, "one").await;
    let agent = bench.agent_of(&record).await;
    bench.shorten_idle_time(&mut client, &record).await;
    let session = json!({ "sessionId": record });
    for was_attached in [true, false] {
        let detached: Value = client.call("_acpx/detach", &session).await.unwrap();
        assert_eq!(detached, json!({ "detached": was_attached }));
    }
    eventually("the agent is parked", || !agent.is_alive()).await;
    bench.resume(&mut client, &record).await;
    prompt(&mut client, &record, "two").await;
}

#[tokio::test]
async fn the_last_client_that_closes_a_session_frees_its_agent() {
    let bench = Bench::new();
    let argv = bench.agent(&faithful(everything()));
    let (mut one, mut two) = (bench.client().await, bench.client().await);
    let record = bench.open(&mut one, &argv).await;
    bench.resume(&mut two, &record).await;
    let agent = bench.agent_of(&record).await;
    let close = json!({ "sessionId": record });
    one.call::<Value>("session/close", &close).await.unwrap();
    assert!(agent.is_alive());
    two.call::<Value>("session/close", &close).await.unwrap();
    assert!(!agent.is_alive());
    let exit = bench.record(&record).await.agent_run.unwrap().ended.unwrap();
    assert_eq!(exit.how, AgentEnd::Asked);
}

#[tokio::test]
async fn stopped_host_ends_everything_and_answers_open_requests() {
    let bench = Bench::new();
    let began = bench.home.join("began");
    let script = Script::new()
        .initialize(everything())
        .session_new("s1")
        .prompt(|turn| turn.say("on it").touch(&began).hang());
    let argv = bench.agent(&script);
    let (mut one, mut two, mut three) = (bench.client().await, bench.client().await, bench.client().await);
    let record = bench.open(&mut one, &argv).await;
    bench.resume(&mut two, &record).await;
    let running = one.request("session/prompt", &prompt_params(&record, "hang", json!({}))).await.unwrap();
    eventually("the turn began", || began.exists()).await;
    let queued = prompt_params(&record, "later", json!({ "requestId": "later" }));
    two.request("session/prompt", &queued).await.unwrap();
    until(&mut two, |said| matches!(said, HostMessage::Accepted { .. }).then_some(())).await;
    let (host, agent, socket) =
        (bench.host_process(), bench.agent_of(&record).await, published(&bench.paths).unwrap().socket);
    assert!(socket.symlink_metadata().unwrap().file_type().is_socket());

    let stopping: Value = three.call("_acpx/host/stop", &json!({})).await.unwrap();
    assert_eq!(stopping, json!({ "stopping": true }));
    let answer = until(&mut one, |said| match said {
        HostMessage::Answer { id, result } if id == running => Some(result),
        _ => None,
    });
    let interrupted = answer.await.unwrap_err();
    assert_eq!((interrupted.code().as_str(), interrupted.turn().unwrap().turn), ("INTERRUPTED", 1));
    assert!(one.next().await.is_none());
    // What waits goes on waiting, in the store: its client finds the host gone, and asks the next one.
    while let Some(said) = two.next().await {
        // That its prompt waits, and what was said before.
        assert!(matches!(said, HostMessage::Other), "{said:?}");
    }
    assert!(three.next().await.is_none());
    eventually("the host is gone", || !host.is_alive()).await;
    assert!(!agent.is_alive() && !socket.exists() && published(&bench.paths).is_none());
    let exit = bench.record(&record).await.agent_run.unwrap().ended.unwrap();
    assert_eq!(exit.how, AgentEnd::Asked);
}

#[tokio::test]
async fn host_without_clients_and_sessions_exits_and_leaves_only_its_store() {
    let bench = Bench::with(Manner { linger: SHORT, idle: Duration::from_millis(200) });
    let argv = bench.agent(&faithful(everything()));
    let mut client = bench.client().await;
    let record = bench.open(&mut client, &argv).await;
    let (host, agent) = (bench.host_process(), bench.agent_of(&record).await);
    let socket = published(&bench.paths).unwrap().socket;
    client.close().await;
    eventually("the host is gone", || !host.is_alive()).await;
    assert!(!agent.is_alive() && !socket.exists() && published(&bench.paths).is_none());
    assert!(HostLock::try_take(&bench.paths).unwrap().is_some());

    // Whoever comes is served by another.
    let mut client = bench.client().await;
    bench.resume(&mut client, &record).await;
    assert_eq!(prompt(&mut client, &record, "hello").await["stopReason"], "end_turn");
    assert_ne!(bench.host_process(), host);
}

#[tokio::test]
async fn client_of_a_stopping_host_is_served_by_the_next() {
    let bench = Bench::new();
    let stubborn = faithful(everything()).ignoring_eof().ignoring_terminate();
    let mut client = bench.client().await;
    let record = bench.open(&mut client, &bench.agent(&stubborn)).await;
    let (host, agent) = (bench.host_process(), bench.agent_of(&record).await);
    client.call::<Value>("_acpx/host/stop", &json!({})).await.unwrap();
    // It takes its time, since its agent does not go when it is told to.
    let mut client = bench.client().await;
    assert!(!host.is_alive() && !agent.is_alive());
    let status: Value = client.call("_acpx/host/status", &json!({})).await.unwrap();
    assert_eq!(status["pid"], bench.host_process().pid);
}

#[tokio::test]
async fn client_that_connects_as_the_host_exits_is_served() {
    let bench = Bench::with(Manner { linger: Duration::from_millis(1), ..NEVER_IDLE });
    for round in 0..20 {
        let mut client = bench.client().await;
        let status: Value = client.call("_acpx/host/status", &json!({})).await.unwrap();
        assert_eq!(status["clients"], 1);
        client.close().await;
        for _ in 0..round * 10 {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn closed_record_stays_closed_until_an_attached_client_prompts() {
    let bench = Bench::new();
    let argv = bench.agent(&faithful(everything()));
    let (mut one, mut two) = (bench.client().await, bench.client().await);
    let record = bench.open(&mut one, &argv).await;
    let agent = bench.agent_of(&record).await;
    let closed: Value = two.call("_acpx/close", &json!({ "sessionId": record })).await.unwrap();
    let ids = json!({ "acpxRecordId": record, "acpxSessionId": "s1" });
    assert_eq!(closed, ids);
    assert!(!agent.is_alive());
    assert!(matches!(bench.record(&record).await.lifecycle, Lifecycle::Closed { .. }));
    assert_eq!(prompt(&mut one, &record, "hello").await["stopReason"], "end_turn");
    assert_eq!((bench.record(&record).await.lifecycle, starts_of(&argv)), (Lifecycle::Open, 2));
}

#[tokio::test]
async fn a_record_can_be_closed_while_it_is_parked() {
    let bench = Bench::new();
    let mut client = bench.client().await;
    let record = bench.open(&mut client, &bench.agent(&faithful(everything()))).await;
    let ids = json!({ "acpxRecordId": record, "acpxSessionId": "s1" });
    bench.kill_host().await;
    let mut client = bench.client().await;
    let closed: Value = client.call("_acpx/close", &json!({ "sessionId": record })).await.unwrap();
    assert_eq!(closed, ids);
}

#[tokio::test]
async fn host_that_loses_its_socket_listens_again() {
    let bench = Bench::new();
    let mut client = bench.client().await;
    let record = bench.open(&mut client, &bench.agent(&faithful(everything()))).await;
    let (host, socket) = (bench.host_process(), published(&bench.paths).unwrap().socket);
    // The directory goes, as with the last login of its user; and a file of another comes, as nobody should do.
    std::fs::remove_dir_all(bench.sockets()).unwrap();
    let mut found = bench.client().await;
    bench.resume(&mut found, &record).await;
    assert_eq!(prompt(&mut found, &record, "there?").await["stopReason"], "end_turn");
    std::fs::remove_file(&socket).unwrap();
    std::fs::write(&socket, "").unwrap();
    let mut found = bench.client().await;
    let status: Value = found.call("_acpx/host/status", &json!({})).await.unwrap();
    assert_eq!((&status["pid"], &status["clients"]), (&json!(host.pid), &json!(3)));
    assert_eq!(published(&bench.paths).unwrap().socket, socket);
    // Whoever was there before never noticed.
    assert_eq!(prompt(&mut client, &record, "there?").await["stopReason"], "end_turn");
    assert!(acpx_core::client::stop(&bench.paths).await.unwrap());
    assert!(!host.is_alive() && !socket.exists());
    assert!(!acpx_core::client::stop(&bench.paths).await.unwrap());
}

#[tokio::test]
async fn stop_if_idle_respects_live_sessions_and_other_clients() {
    let bench = Bench::new();
    let mut client = bench.client().await;
    let host = bench.host_process();
    let stop = async |client: &mut HostClient| {
        let answer: Value = client.call("_acpx/host/stop", &json!({ "ifIdle": true })).await.unwrap();
        answer["stopping"].as_bool().unwrap()
    };
    let other = bench.client().await;
    assert!(!stop(&mut client).await);
    other.close().await;
    let record = bench.open(&mut client, &bench.agent(&faithful(everything()))).await;
    assert!(!stop(&mut client).await);
    assert_eq!(prompt(&mut client, &record, "still there?").await["stopReason"], "end_turn");
    client.call::<Value>("session/close", &json!({ "sessionId": record })).await.unwrap();
    // The other one may be on its way out still.
    while !stop(&mut client).await {
        tokio::task::yield_now().await;
    }
    assert!(client.next().await.is_none());
    eventually("the host is gone", || !host.is_alive()).await;
}

#[tokio::test]
async fn host_whose_store_was_removed_acknowledges_no_prompt_and_exits() {
    type Loss = fn(&Bench);
    let store = |bench: &Bench| bench.paths.store();
    let log = |bench: &Bench| bench.paths.home().join("acpx.db-wal");
    let losses: [(&str, Loss); 4] = [
        ("removed", |bench| std::fs::remove_file(bench.paths.store()).unwrap()),
        ("replaced", |bench| {
            let copy = bench.home.join("copy");
            std::fs::copy(bench.paths.store(), &copy).unwrap();
            std::fs::rename(copy, bench.paths.store()).unwrap();
        }),
        ("home moved", |bench| std::fs::rename(bench.paths.home(), bench.home.join("moved")).unwrap()),
        ("log removed", |bench| std::fs::remove_file(bench.paths.home().join("acpx.db-wal")).unwrap()),
    ];
    for (name, lose) in losses {
        let bench = Bench::new();
        let mut client = bench.client().await;
        let record = bench.open(&mut client, &bench.agent(&faithful(everything()))).await;
        assert_eq!(prompt(&mut client, &record, "kept").await["stopReason"], "end_turn");
        assert!(store(&bench).exists() && log(&bench).exists(), "{name}");
        let (host, agent) = (bench.host_process(), bench.agent_of(&record).await);
        lose(&bench);
        let params = prompt_params(&record, "lost", json!({}));
        match client.call::<Value>("session/prompt", &params).await {
            Err(HostError::Refused(refusal)) => assert_eq!(refusal.code().as_str(), "STORE_GONE", "{name}"),
            // It may have gone before it was asked.
            Err(HostError::Lost) => {}
            other => panic!("{name}: {other:?}"),
        }
        eventually("the host and its agent are gone", || !host.is_alive() && !agent.is_alive()).await;
    }
}
