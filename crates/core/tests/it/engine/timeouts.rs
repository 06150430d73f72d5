//! Cancel and time: a turn ends when somebody wants it to, or when a limit that somebody set is reached, and never
//! by a clock of ours. What the agent then does changes nothing.

use acpx_core::engine::TurnHandle;
use acpx_core::model::{AgentEnd, PermissionMode, Timestamp, TurnLimits};
use acpx_core::wire;
use acpx_testkit::starts_of;

use super::*;

fn limits(whole: Option<u64>, silence: Option<u64>) -> TurnLimits {
    let limit = |millis: Option<u64>| millis.map(Duration::from_millis);
    TurnLimits { whole: limit(whole), silence: limit(silence), ..TurnLimits::default() }
}

/// Prompts under limits and waits for the turn to end.
async fn prompt_within(session: &Session, limits: TurnLimits) -> Turn {
    let prompt = Prompt::text("go").unwrap().with_limits(limits);
    session.prompt(prompt).await.unwrap().finished().await.unwrap()
}

/// Follows a session until the agent has said this.
async fn until_said(session: &Session, words: &str) {
    let mut follower = session.follow(Seq::FIRST);
    while !follower.next().await.unwrap().unwrap().body.contains(words) {}
}

#[tokio::test]
async fn turn_without_limits_never_times_out() {
    let bench = Bench::new();
    let (go, later) = (bench.home.join("go"), bench.home.join("later"));
    let script = Script::new().initialize(json!({})).session_new("s1").prompt(|turn| {
        turn.say("begun")
            .await_file(&go)
            .say("still there")
            .ask_permission("t")
            .await_file(&later)
            .end("end_turn")
    });
    let (session, _) = bench.open(&script).await;
    let ticket = session.prompt(Prompt::text("take your time").unwrap()).await.unwrap();
    until_said(&session, "begun").await;
    // From here on every timer that is set fires as soon as nothing else is to be done.
    tokio::time::pause();
    tokio::time::advance(Duration::from_hours(24 * 365)).await;
    std::fs::write(&go, "").unwrap();
    until_said(&session, "still there").await;
    tokio::time::advance(Duration::from_hours(24 * 365)).await;
    std::fs::write(&later, "").unwrap();
    assert_eq!(stop_reason(&ticket.finished().await.unwrap()), "end_turn");
    tokio::time::resume();
}

#[tokio::test]
async fn turn_over_its_timeout_is_cancelled_though_its_agent_streams() {
    let bench = Bench::new();
    let script = Script::new()
        .initialize(json!({}))
        .session_new("s1")
        .prompt(|turn| turn.repeat(10_000, |on| on.say("on and on").delay(1)).hang())
        .next_start()
        .initialize(json!({}))
        .session_new("s2")
        .prompt(|turn| turn.end("end_turn"));
    let (session, _) = bench.open(&script).await;
    let turn = prompt_within(&session, limits(Some(300), Some(200))).await;
    assert_eq!(
        failure(&turn),
        ("TIMEOUT", r#"the turn with the agent "scripted" took longer than 0.3 s and was cancelled"#)
    );
    // It did not stop, so it was ended, and its run says why.
    let run = bench.engine.record(session.record_id()).await.unwrap().unwrap().agent_run.unwrap();
    session.wait_for(|status| status.agent_pid.is_none()).await;
    assert_eq!(stop_reason(&prompt(&session, "again").await), "end_turn");
    assert!(!run.process.is_alive());
    let story = bench.story(session.record_id()).await;
    assert!(story.contains(&"> session/cancel".to_owned()) && story.contains(&"# agent_ended".to_owned()));
}

#[tokio::test]
async fn time_before_the_prompt_counts_and_the_timeout_is_reported_as_given() {
    let bench = Bench::new();
    let script = Script::new()
        .initialize(json!({}))
        .session_new("s1")
        .prompt(|turn| turn.say("busy").expect("session/cancel").end("cancelled"));
    let (session, _) = bench.open(&script).await;
    let limits = limits(Some(3_600_000), None);
    let prompt =
        Prompt::text("go").unwrap().with_limits(limits.clone()).after(Duration::from_millis(3_599_800));
    let turn = session.prompt(prompt).await.unwrap().finished().await.unwrap();
    let message = r#"the turn with the agent "scripted" took longer than 3600 s and was cancelled"#;
    assert_eq!((failure(&turn), &turn.limits), (("TIMEOUT", message), &limits));
}

#[tokio::test]
async fn agent_that_ignores_cancel_has_its_exit_reason_recorded() {
    let bench = Bench::new();
    let script = Script::new()
        .initialize(json!({}))
        .session_new("s1")
        .prompt(|turn| turn.say("busy").hang())
        .next_start()
        .exit(1);
    let (session, command) = bench.open(&script).await;
    let ticket = session.prompt(Prompt::text("go").unwrap()).await.unwrap();
    until_said(&session, "busy").await;
    session.cancel(None).await.unwrap();
    assert_eq!(stop_reason(&ticket.finished().await.unwrap()), "cancelled");
    session.park().await.unwrap();
    let run = bench.engine.record(session.record_id()).await.unwrap().unwrap().agent_run.unwrap();
    let how = AgentEnd::Otherwise("it did not answer session/cancel and was ended".to_owned());
    assert_eq!((run.ended.unwrap().how, starts_of(&command)), (how, 1));
}

#[tokio::test]
async fn cancelled_turn_that_the_agent_ends_normally_counts_as_cancelled() {
    let bench = Bench::new();
    let script = Script::new()
        .initialize(json!({}))
        .session_new("s1")
        .prompt(|turn| turn.say("busy").expect("session/cancel").say("the rest").end("end_turn"))
        .prompt(|turn| turn.end("end_turn"));
    let (session, command) = bench.open(&script).await;
    let ticket = session.prompt(Prompt::text("go").unwrap()).await.unwrap();
    until_said(&session, "busy").await;
    // A prompt that comes meanwhile waits for the answer: agents lose a second one.
    let next = session.prompt(Prompt::text("next").unwrap()).await.unwrap();
    session.cancel(Some(ticket.turn)).await.unwrap();
    assert_eq!(stop_reason(&ticket.finished().await.unwrap()), "cancelled");
    assert_eq!(stop_reason(&next.finished().await.unwrap()), "end_turn");
    let sent = ["initialize", "session/new", "session/prompt", "session/cancel", "session/prompt"];
    assert_eq!(methods(&command), sent);
    let kept = bench.events(session.record_id()).await;
    let said: Vec<_> = kept.iter().filter(|event| event.body.contains("stopReason\":\"")).collect();
    let words = |event: &Event| (event.direction, serde_json::from_str::<Value>(&event.body).unwrap());
    let (agents, fact) = (words(said[0]), words(said[1]));
    assert_eq!((agents.0, &agents.1["result"]["stopReason"]), (Direction::FromAgent, &json!("end_turn")));
    assert_eq!((fact.0, &fact.1["stopReason"]), (Direction::Ours, &json!("cancelled")));
}

#[tokio::test]
async fn pending_permission_request_stops_the_silence_timeout_and_an_answer_restarts_it() {
    let bench = Bench::new();
    let script = Script::new()
        .initialize(json!({}))
        .session_new("s1")
        .prompt(|turn| turn.ask_permission("t").say("thanks").expect("session/cancel").end("cancelled"));
    let (session, _) = bench.open(&script).await;
    let (advisor, mut questions) = tokio::sync::mpsc::channel(1);
    let prompt = Prompt::text("go").unwrap().with_limits(limits(None, Some(200)));
    let prompt = prompt.with_policy(acpx_core::model::PermissionMode::Ask);
    let ticket = session.prompt_with_responder(prompt, advisor).await.unwrap();
    let question = questions.recv().await.unwrap();
    tokio::time::pause();
    tokio::time::advance(Duration::from_hours(1)).await;
    assert!(session.status().has_work, "the turn was ended while its client was asked");
    tokio::time::resume();
    question.answer(acpx_core::engine::ClientDecision::Choose("yes".into()));
    let turn = ticket.finished().await.unwrap();
    let message = r#"the agent "scripted" said nothing for 0.2 s and the turn was cancelled"#;
    assert_eq!((failure(&turn), turn.permissions.approved), (("IDLE_TIMEOUT", message), 1));
}

#[tokio::test]
async fn output_of_a_background_terminal_does_not_reset_the_silence_timeout() {
    let bench = Bench::new();
    let endless = json!({ "sessionId": "{sessionId}", "command": "while echo on; do sleep 0.05; done" });
    let script = Script::new()
        .initialize(json!({}))
        .session_new("s1")
        .prompt(|turn| turn.request("terminal/create", endless).expect("session/cancel").end("cancelled"));
    let (session, _) = bench.open(&script).await;
    let prompt = Prompt::text("go").unwrap().with_limits(limits(None, Some(1000)));
    let prompt = prompt.with_policy(PermissionMode::ApproveAll);
    let turn = session.prompt(prompt).await.unwrap().finished().await.unwrap();
    let message = r#"the agent "scripted" said nothing for 1 s and the turn was cancelled"#;
    assert_eq!(failure(&turn), ("IDLE_TIMEOUT", message));
}

/// A session with room for a single line to its agent, which in its turn asks for two files, each larger than a pipe,
/// and reads neither before there is a file `go`. Both have been read for it.
async fn with_unread_answers(bench: &Bench) -> (Session, Vec<String>, TurnHandle) {
    let (large, go) = (bench.home.join("large"), bench.home.join("go"));
    std::fs::write(&large, "x".repeat(300_000)).unwrap();
    let read = |id: u64| {
        let params = json!({ "sessionId": "s1", "path": large });
        json!({ "jsonrpc": "2.0", "id": id, "method": "fs/read_text_file", "params": params }).to_string()
    };
    let script = Script::new().initialize(json!({})).session_new("s1").prompt(|turn| {
        let asked = turn.line(&read(1)).line(&read(2)).say("asked");
        let speaking = asked.await_file(&bench.home.join("speak")).say("still there").await_file(&go);
        speaking.request("fs/read_text_file", json!({ "sessionId": "s1", "path": go })).end("end_turn")
    });
    let (session, command) = bench.open(&script).await;
    let ticket = session.prompt(Prompt::text("go").unwrap()).await.unwrap();
    let mut follower = session.follow(Seq::FIRST);
    for _ in 0..2 {
        while !follower.next().await.unwrap().unwrap().body.contains("xxx") {}
    }
    (session, command, ticket)
}

fn narrow() -> EngineSettings {
    EngineSettings { wire: wire::WireLimits { queue_bytes: 1000, ..wire::WireLimits::default() }, ..quick() }
}

#[tokio::test]
async fn agent_that_reads_slowly_is_still_received_and_never_timed_out() {
    let bench = Bench::with(narrow());
    let (session, command, ticket) = with_unread_answers(&bench).await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_hours(24 * 365)).await;
    tokio::time::resume();
    std::fs::write(bench.home.join("speak"), "").unwrap();
    until_said(&session, "still there").await;
    std::fs::write(bench.home.join("go"), "").unwrap();
    assert_eq!(stop_reason(&ticket.finished().await.unwrap()), "end_turn");
    let answers = received(&command).into_iter().filter(|(method, _)| method == "answer");
    let lengths: Vec<_> = answers.map(|(_, answer)| answer["content"].as_str().unwrap().len()).collect();
    assert_eq!(lengths, [300_000, 300_000, 0]);
}

#[tokio::test]
async fn session_whose_agent_reads_nothing_is_cancelled_and_parked_in_time() {
    let bench = Bench::with(narrow());
    let (session, _, ticket) = with_unread_answers(&bench).await;
    session.cancel(None).await.unwrap();
    assert_eq!(stop_reason(&ticket.finished().await.unwrap()), "cancelled");
    session.park().await.unwrap();
    assert_eq!(session.status().agent_pid, None);
}

#[tokio::test]
async fn send_queue_of_an_agent_that_reads_nothing_is_bounded() {
    let bench = Bench::new();
    let script =
        Script::new().initialize(json!({})).session_new("s1").prompt(|turn| turn.say("begun").hang());
    let (session, _) = bench.open(&script).await;
    let ticket = session.prompt(Prompt::text("go").unwrap()).await.unwrap();
    until_said(&session, "begun").await;
    let params = json!({ "large": "x".repeat(8 << 20) }).to_string();
    let mut taken = 0;
    let refused = loop {
        // What is asked after it is answered after it was taken; then it is dropped, and so withdrawn.
        tokio::select! {
            biased;
            answer = session.request("_x/large", &params, restore()) => break answer.unwrap_err(),
            waiting = session.waiting() => drop(waiting.unwrap()),
        }
        taken += 1;
    };
    // 64 MiB, and what the pipe and the line to it take.
    assert_eq!((refused.code().as_str(), (8..12).contains(&taken)), ("QUEUE_FULL", true), "{taken}");
    assert!(session.waiting().await.unwrap().unwrap().is_unread);
    session.cancel(None).await.unwrap();
    assert_eq!(stop_reason(&ticket.finished().await.unwrap()), "cancelled");
}

#[tokio::test]
async fn queued_prompt_that_outlives_its_host_keeps_its_timeouts() {
    let bench = Bench::new();
    let script = Script::new()
        .initialize(everything())
        .session_new("s1")
        .prompt(|turn| turn.say("busy").hang())
        .next_start()
        .initialize(everything())
        .session_resume()
        .prompt(|turn| turn.end("end_turn"));
    let (session, command) = bench.open(&script).await;
    drop(session.prompt(Prompt::text("busy").unwrap()).await.unwrap());
    until_said(&session, "busy").await;
    let queue = async |text: &str, limits| {
        let prompt = Prompt::text(text).unwrap().with_limits(limits);
        session.prompt(prompt).await.unwrap().request
    };
    let hasty = queue("hasty", limits(Some(60_000), None)).await;
    let patient = queue("patient", limits(Some(86_400_000), Some(60_000))).await;
    bench.engine.shutdown().await;
    let next = Engine::new(
        bench.store.clone(),
        HostId::new("next").unwrap(),
        EngineSettings { clock: an_hour_later, ..quick() },
    );
    let (session, _) = next.restore(session.record_id(), restore()).await.unwrap();
    session.wait_for(|status| !status.has_work).await;
    let hasty = session.join(&hasty, None).await.unwrap().unwrap();
    let unsent =
        r#"the prompt waited for the agent "scripted" to be ready until its time was over, and was not sent"#;
    assert_eq!(failure(&hasty), ("QUEUE_TIMEOUT", unsent));
    let patient = session.join(&patient, None).await.unwrap().unwrap();
    let limits = limits(Some(86_400_000), Some(60_000));
    assert_eq!((stop_reason(&patient), &patient.limits), ("end_turn", &limits));
    let sent = received(&command).into_iter().filter(|(method, _)| method == "session/prompt");
    let texts: Vec<_> = sent.map(|(_, params)| params["prompt"][0]["text"].clone()).collect();
    assert_eq!(texts, ["busy", "patient"]);
    next.shutdown().await;
}

fn an_hour_later() -> Timestamp {
    let now = EngineSettings::default();
    Timestamp::from_millis((now.clock)().as_millis() + 3_600_000).unwrap()
}
