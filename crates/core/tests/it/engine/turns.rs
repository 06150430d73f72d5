//! Turns: order, permissions, cancel, crashes of host and agent.

use acpx_core::model::{PermissionMode, RequestId};

use super::*;

async fn prompt_with(session: &Session, policy: PermissionMode) -> Turn {
    let prompt = Prompt::text("edit").unwrap().with_policy(policy);
    session.prompt(prompt).await.unwrap().finished().await.unwrap()
}

#[tokio::test]
async fn permissions_are_answered_by_the_turns_own_policy() {
    let script = Script::new().initialize(everything()).session_new("s1").repeat(4, |turns| {
        turns.prompt(|turn| {
            let option = |id: &str, kind: &str| json!({"optionId": id, "name": id, "kind": kind});
            let options = json!([option("yes", "allow_once"), option("no", "reject_once")]);
            let read = json!({"sessionId": "s1", "toolCall": {"toolCallId": "r", "kind": "read"}, "options": options});
            turn.ask_permission("e").request("session/request_permission", read).end("end_turn")
        })
    });
    let bench = Bench::new();
    let (session, command) = bench.open(&script).await;
    for policy in [PermissionMode::ApproveAll, PermissionMode::ApproveReads, PermissionMode::DenyAll] {
        prompt_with(&session, policy).await;
    }
    let answers: Vec<_> = received(&command).into_iter().filter(|(method, _)| method == "answer").collect();
    let chosen: Vec<_> =
        answers.iter().map(|(_, result)| result["outcome"]["optionId"].as_str().unwrap()).collect();
    assert_eq!(chosen, ["yes", "yes", "no", "yes", "no", "no"]);
    let story = bench.story(session.record_id()).await;
    assert_eq!(story.iter().filter(|line| *line == "< session/request_permission").count(), 6);
}

#[tokio::test]
async fn after_cancel_permission_is_cancelled_and_the_agent_ends_the_turn() {
    let bench = Bench::new();
    let script = Script::new()
        .initialize(everything())
        .session_new("s1")
        .expect_as("session/prompt", "turn")
        .say("working")
        .expect("session/cancel")
        .ask_permission("t")
        .reply_to("turn", json!({"stopReason": "cancelled"}));
    let (session, command) = bench.open(&script).await;
    let ticket = session.prompt(Prompt::text("go").unwrap()).await.unwrap();
    let mut follower = session.follow(Seq::FIRST);
    while !follower.next().await.unwrap().unwrap().body.contains("working") {}
    session.cancel(None).await.unwrap();
    assert_eq!(stop_reason(&ticket.finished().await.unwrap()), "cancelled");
    let (_, answer) = received(&command).into_iter().rfind(|(method, _)| method == "answer").unwrap();
    assert_eq!(answer, json!({"outcome": {"outcome": "cancelled"}}));
}

#[tokio::test]
async fn agent_that_ignores_cancel_is_ended_and_the_next_prompt_restores() {
    let bench = Bench::new();
    let script = Script::new()
        .initialize(everything())
        .session_new("s1")
        .prompt(|turn| turn.end("end_turn"))
        .prompt(|turn| turn.say("deaf").hang())
        .next_start()
        .initialize(everything())
        .session_resume()
        .prompt(|turn| turn.end("end_turn"));
    let (session, _) = bench.open(&script).await;
    prompt(&session, "one").await;
    let ticket = session.prompt(Prompt::text("two").unwrap()).await.unwrap();
    let turn = ticket.turn;
    session.cancel(Some(turn)).await.unwrap();
    assert_eq!(stop_reason(&ticket.finished().await.unwrap()), "cancelled");
    assert_eq!(stop_reason(&prompt(&session, "three").await), "end_turn");
}

#[tokio::test]
async fn a_queued_turn_can_be_cancelled_while_another_runs() {
    let bench = Bench::new();
    let go = bench.home.join("go");
    let script = Script::new()
        .initialize(everything())
        .session_new("s1")
        .prompt(|turn| turn.await_file(&go).end("end_turn"))
        .prompt(|turn| turn.end("end_turn"));
    let (session, command) = bench.open(&script).await;
    let submit = async |text: &str| session.prompt(Prompt::text(text).unwrap()).await.unwrap();
    let (one, two, three) = (submit("one").await, submit("two").await, submit("three").await);
    session.cancel(Some(two.turn)).await.unwrap();
    assert_eq!(stop_reason(&two.finished().await.unwrap()), "cancelled");
    std::fs::write(&go, "").unwrap();
    assert_eq!(stop_reason(&one.finished().await.unwrap()), "end_turn");
    assert_eq!(stop_reason(&three.finished().await.unwrap()), "end_turn");
    let sent: Vec<_> =
        received(&command).into_iter().filter(|(method, _)| method == "session/prompt").collect();
    let texts: Vec<_> =
        sent.iter().map(|(_, params)| params["prompt"][0]["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["one", "three"]);
}

#[tokio::test]
async fn request_id_is_accepted_once() {
    let bench = Bench::new();
    let (session, _) = bench.open(&faithful(everything())).await;
    let named = || Prompt::text("hi").unwrap().with_request(RequestId::new("mine").unwrap());
    session.prompt(named()).await.unwrap().finished().await.unwrap();
    let error = session.prompt(named()).await.err().unwrap();
    assert_eq!(error.code().as_str(), "REQUEST_EXISTS");
    assert_eq!(stop_reason(&prompt(&session, "the session goes on").await), "end_turn");
}

#[tokio::test]
async fn agent_error_ends_the_turn_with_its_message_and_the_session_continues() {
    let bench = Bench::new();
    let error = json!({"code": 400, "message": "bad model", "data": {"errorKind": "x"}});
    let script = Script::new()
        .initialize(everything())
        .session_new("s1")
        .prompt(|turn| turn.reply_error(error))
        .prompt(|turn| turn.end("refusal"));
    let (session, _) = bench.open(&script).await;
    let turn = prompt(&session, "one").await;
    let text = r#"the agent "scripted" refused session/prompt: bad model (400)"#;
    assert_eq!(failure(&turn), ("AGENT_REFUSED", text));
    assert_eq!(stop_reason(&prompt(&session, "two").await), "refusal");
}

#[tokio::test]
async fn after_a_host_crash_sent_turns_are_interrupted_and_queued_ones_run() {
    let bench = Bench::new();
    let script = Script::new()
        .initialize(everything())
        .session_new("s1")
        .prompt(|turn| turn.end("end_turn"))
        .prompt(|turn| turn.say("half").hang())
        .next_start()
        .initialize(everything())
        .session_resume()
        .prompt(|turn| turn.say("third").end("end_turn"));
    let (session, command) = bench.open(&script).await;
    prompt(&session, "one").await;
    let two = session.prompt(Prompt::text("two").unwrap()).await.unwrap();
    let three = session.prompt(Prompt::text("three").unwrap()).await.unwrap();
    let mut follower = session.follow(Seq::FIRST);
    while !follower.next().await.unwrap().unwrap().body.contains("half") {}

    // Another host takes the lease, as after a crash; the first can write no more.
    let next = bench.next_host();
    let (restored, _) = next.restore(session.record_id(), restore()).await.unwrap();
    let mut follower = restored.follow(Seq::FIRST);
    while !follower.next().await.unwrap().unwrap().body.contains(r#""turn_ended","turn":3"#) {}
    let story = bench.story(session.record_id()).await;
    let sent = story.iter().filter(|line| *line == "> session/prompt").count();
    assert_eq!(sent, 3, "{story:#?}");
    let interrupted =
        bench.events(session.record_id()).await.into_iter().find(|event| event.body.contains("INTERRUPTED"));
    assert_eq!(interrupted.and_then(|event| event.turn), Some(two.turn));
    let texts: Vec<_> = received(&command)
        .into_iter()
        .filter(|(method, _)| method == "session/prompt")
        .map(|(_, params)| params["prompt"][0]["text"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(texts, ["one", "two", "three"]);
    drop(three);
    bench.engine.shutdown().await;
    next.shutdown().await;
}

#[tokio::test]
async fn queued_prompt_without_fallback_is_not_sent_to_a_fresh_session() {
    let bench = Bench::new();
    let script = Script::new()
        .initialize(everything())
        .session_new("s1")
        .prompt(|turn| turn.end("end_turn"))
        .prompt(|turn| turn.say("half").hang())
        .next_start()
        .initialize(json!({"loadSession": false}));
    let (session, _) = bench.open(&script).await;
    prompt(&session, "one").await;
    session.prompt(Prompt::text("two").unwrap()).await.unwrap();
    let careful = WakeOptions { fallback: Fallback::Never, carry_history: false };
    let waiting = session
        .prompt(Prompt::text("three").unwrap().with_restore(RestoreSession { options: careful, ..restore() }))
        .await
        .unwrap();
    let mut follower = session.follow(Seq::FIRST);
    while !follower.next().await.unwrap().unwrap().body.contains("half") {}

    let next = bench.next_host();
    // Whoever restores it would put up with a fresh session.
    let error = next.restore(session.record_id(), restore()).await.err().unwrap();
    assert_eq!(error.code().as_str(), "SESSION_NOT_RESTORED");
    let turn = bench.store.turn_numbered(session.record_id().clone(), waiting.turn).await.unwrap().unwrap();
    assert_eq!((turn.wake_options, failure(&turn).0), (careful, "SESSION_NOT_RESTORED"));
    bench.engine.shutdown().await;
    next.shutdown().await;
}

#[tokio::test]
async fn host_that_lost_its_lease_reports_it_and_stops_writing() {
    let bench = Bench::new();
    let (session, _) = bench.open(&faithful(everything())).await;
    prompt(&session, "one").await;
    let next = bench.next_host();
    let (other, _) = next.restore(session.record_id(), restore()).await.unwrap();
    let before = bench.events(session.record_id()).await.len();
    let error = session.prompt(Prompt::text("two").unwrap()).await.err().unwrap();
    assert_eq!(error.code().as_str(), "LEASE_LOST");
    assert_eq!(bench.events(session.record_id()).await.len(), before);
    assert_eq!(stop_reason(&prompt(&other, "three").await), "end_turn");
    next.shutdown().await;
}
