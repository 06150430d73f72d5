//! The restore ladder against a real process: each rung, and each way down.

use acpx_core::machine::Rung;
use acpx_core::model::{Fact, HistoryExtent, LineageReason, ReplayVerdict};

use super::*;

/// An agent that answers one prompt, is killed, and on its second start answers `restoring`.
async fn after_a_kill(
    bench: &Bench,
    capabilities: Value,
    restoring: impl FnOnce(Script) -> Script,
) -> (Session, Vec<String>) {
    let first = Script::new()
        .initialize(capabilities.clone())
        .session_new("s1")
        .prompt(|turn| turn.say("first").end("end_turn"));
    let script = restoring(first.next_start().initialize(capabilities));
    let (session, command) = bench.open(&script).await;
    prompt(&session, "one").await;
    kill_agent(&session).await;
    (session, command)
}

fn resume_only() -> Value {
    json!({"sessionCapabilities": {"resume": {}, "load": null}})
}

fn load_only() -> Value {
    json!({"loadSession": true, "sessionCapabilities": {"resume": null}})
}

fn lost() -> Value {
    json!({"code": -32002, "message": "Resource not found", "data": {"sessionId": "s1"}})
}

#[tokio::test]
async fn a_live_session_is_attached_to_as_it_is() {
    let bench = Bench::new();
    let (session, command) = bench.open(&faithful(everything())).await;
    let (same, how) = bench.engine.restore(session.record_id(), restore()).await.unwrap();
    assert_eq!((how, same.identity()), (WakeOutcome::Live, session.identity()));
    assert_eq!(methods(&command), ["initialize", "session/new"]);
}

#[tokio::test]
async fn resume_brings_the_session_back() {
    let bench = Bench::new();
    let (session, command) = after_a_kill(&bench, resume_only(), Script::session_resume).await;
    let how = session.wake(restore()).await.unwrap();
    assert_eq!(how, WakeOutcome::Restored { rung: Rung::Resume, replay: None });
    assert_eq!(methods(&command)[3..], ["initialize", "session/resume"]);
}

#[tokio::test]
async fn load_restores_without_resume_and_its_replay_is_not_stored_again() {
    let bench = Bench::new();
    let replay = |script: Script| script.session_load(|replay| replay.user_said("one").say("first"));
    let (session, command) = after_a_kill(&bench, load_only(), replay).await;
    let how = session.wake(restore()).await.unwrap();
    assert_eq!(how, WakeOutcome::Restored { rung: Rung::Load, replay: Some(ReplayVerdict::Same) });
    assert_eq!(methods(&command)[3..], ["initialize", "session/load"]);
    let story = bench.story(session.record_id()).await;
    assert_eq!(
        story[9..],
        ["# agent_ended", "> initialize", "< result", "> session/load", "< result", "# restored"]
    );
}

#[tokio::test]
async fn load_is_tried_after_a_failed_resume() {
    let bench = Bench::new();
    let both = |script: Script| {
        script
            .refuse("session/resume", json!({"code": -32603, "message": "Internal error"}))
            .session_load(|replay| replay)
    };
    let (session, command) = after_a_kill(&bench, everything(), both).await;
    let how = session.wake(restore()).await.unwrap();
    assert_eq!(how, WakeOutcome::Restored { rung: Rung::Load, replay: None });
    assert_eq!(methods(&command)[3..], ["initialize", "session/resume", "session/load"]);
}

#[tokio::test]
async fn load_comes_first_when_the_agents_list_shows_a_later_change() {
    let bench = Bench::new();
    let capabilities = json!({"loadSession": true, "sessionCapabilities": {"resume": {}, "list": {}}});
    let elsewhere = |script: Script| {
        let page = json!({"sessions": [{"sessionId": "other", "cwd": "/"}], "nextCursor": "2"});
        let row = json!({"sessionId": "s1", "cwd": "/", "updatedAt": "2999-01-01T00:00:00Z"});
        script
            .expect("session/list")
            .reply(page)
            .expect("session/list")
            .reply(json!({"sessions": [row]}))
            .session_load(|replay| replay.user_said("one").say("first").user_said("elsewhere").say("second"))
    };
    let (session, _) = after_a_kill(&bench, capabilities, elsewhere).await;
    let how = session.wake(restore()).await.unwrap();
    assert_eq!(how, WakeOutcome::Restored { rung: Rung::Load, replay: Some(ReplayVerdict::Longer) });
    assert_eq!(bench.said(&session).await, ["> one", "< first", "> elsewhere", "< second"]);
}

#[tokio::test]
async fn a_lost_session_falls_back_to_a_fresh_one_openly() {
    let bench = Bench::new();
    let gone = |script: Script| script.refuse("session/load", lost()).session_new("s2");
    let (session, _) = after_a_kill(&bench, load_only(), gone).await;
    let how = session.wake(restore()).await.unwrap();
    assert_eq!(how, WakeOutcome::Fresh { reason: LineageReason::AgentLost, announced: true });
    assert_eq!(bench.story(session.record_id()).await.last().unwrap(), "# session_reset");
}

#[tokio::test]
async fn agent_without_load_and_resume_gets_a_fresh_session() {
    let bench = Bench::new();
    let (session, command) = after_a_kill(&bench, json!({}), |script| script.session_new("s2")).await;
    let how = session.wake(restore()).await.unwrap();
    assert_eq!(how, WakeOutcome::Fresh { reason: LineageReason::CannotRestore, announced: true });
    assert_eq!(methods(&command)[3..], ["initialize", "session/new"]);
}

#[tokio::test]
async fn session_without_a_prompt_is_recreated_silently() {
    let bench = Bench::new();
    let no_rollout =
        json!({"code": -32603, "message": "Internal error", "data": {"details": "no rollout found"}});
    let script = Script::new()
        .initialize(load_only())
        .session_new("s1")
        .next_start()
        .initialize(load_only())
        .refuse("session/load", no_rollout)
        .session_new("s2");
    let (session, _) = bench.open(&script).await;
    kill_agent(&session).await;
    let how = session.wake(restore()).await.unwrap();
    assert_eq!(how, WakeOutcome::Fresh { reason: LineageReason::NotMaterialised, announced: false });
}

#[tokio::test]
async fn lost_session_without_fallback_is_an_error_and_keeps_the_record() {
    let bench = Bench::new();
    let (session, _) =
        after_a_kill(&bench, load_only(), |script| script.refuse("session/load", lost())).await;
    let error = session.wake(restore_or_refuse()).await.unwrap_err();
    let text = r#"the agent "scripted" did not restore the session s1: session/load failed: Resource not found (-32002)"#;
    assert_eq!((error.code().as_str(), error.to_string().as_str()), ("SESSION_NOT_RESTORED", text));
    let record = bench.engine.record(session.record_id()).await.unwrap().unwrap();
    assert_eq!(record.lineage.rows().len(), 1);
}

#[tokio::test]
async fn session_busy_and_login_needed_are_not_session_lost() {
    let busy =
        json!({"code": -32600, "message": "Invalid request", "data": {"reason": "thread_active_writer"}});
    let login = json!({"code": -32000, "message": "Authentication required"});
    for (refusal, code) in [(busy, "SESSION_BUSY_ELSEWHERE"), (login, "AUTH_REQUIRED")] {
        let bench = Bench::new();
        let refused = |script: Script| {
            script.refuse("session/resume", refusal).next_start().initialize(everything()).session_resume()
        };
        let (session, command) = after_a_kill(&bench, everything(), refused).await;
        assert_eq!(session.wake(restore()).await.unwrap_err().code().as_str(), code);
        assert_eq!(methods(&command)[3..], ["initialize", "session/resume"]);
        // It was not lost: later it can be had again.
        let how = session.wake(restore()).await.unwrap();
        assert_eq!(how, WakeOutcome::Restored { rung: Rung::Resume, replay: None });
    }
}

#[tokio::test]
async fn agent_crash_while_restoring_is_an_error_and_loses_nothing() {
    let bench = Bench::new();
    let dies = |script: Script| {
        let again = script.expect("session/load").stderr("corrupt file").exit(3).next_start();
        again.initialize(load_only()).session_load(|replay| replay)
    };
    let (session, _) = after_a_kill(&bench, load_only(), dies).await;
    let error = session.wake(restore()).await.unwrap_err();
    let text = r#"the agent "scripted" died (exit code 3); it said: corrupt file"#;
    assert_eq!((error.code().as_str(), error.to_string().as_str()), ("AGENT_DIED", text));
    let how = session.wake(restore()).await.unwrap();
    assert_eq!(how, WakeOutcome::Restored { rung: Rung::Load, replay: None });
}

#[tokio::test]
async fn an_agent_that_hangs_while_it_restores_is_ended_and_loses_nothing() {
    let bench = Bench::new();
    let script = Script::new()
        .initialize(load_only())
        .session_new("s1")
        .prompt(|turn| turn.end("end_turn"))
        .next_start()
        .initialize(load_only())
        .expect("session/load")
        .hang()
        .next_start()
        .initialize(load_only())
        .session_load(|replay| replay);
    let (agent, _) = bench.agent(&script);
    let agent = agent.with_start_timeout(Duration::from_millis(700));
    let session = bench.engine.open(bench.new_session(agent, Vec::new())).await.unwrap();
    prompt(&session, "one").await;
    kill_agent(&session).await;
    let error = session.wake(restore()).await.unwrap_err();
    let text = r#"the agent "scripted" did not answer session/load in time"#;
    assert_eq!((error.code().as_str(), error.to_string().as_str()), ("AGENT_UNRESPONSIVE", text));
    let how = session.wake(restore()).await.unwrap();
    assert_eq!(how, WakeOutcome::Restored { rung: Rung::Load, replay: None });
}

#[tokio::test]
async fn a_reset_on_purpose_begins_afresh_without_trying() {
    let bench = Bench::new();
    let (session, command) = after_a_kill(&bench, everything(), |script| script.session_new("s2")).await;
    let reset = RestoreSession {
        options: WakeOptions { fallback: Fallback::Reset, carry_history: false },
        ..restore()
    };
    let how = session.wake(reset).await.unwrap();
    assert_eq!(how, WakeOutcome::Fresh { reason: LineageReason::Reset, announced: true });
    assert_eq!(methods(&command)[3..], ["initialize", "session/new"]);
}

#[tokio::test]
async fn conversation_is_carried_into_a_fresh_session_on_request() {
    let bench = Bench::new();
    let fresh = |script: Script| {
        script.session_new("s2").prompt(|turn| turn.end("end_turn")).prompt(|turn| turn.end("end_turn"))
    };
    let (session, command) = after_a_kill(&bench, json!({}), fresh).await;
    let carry = RestoreSession {
        options: WakeOptions { fallback: Fallback::Auto, carry_history: true },
        ..restore()
    };
    session.wake(carry).await.unwrap();
    prompt(&session, "two").await;
    prompt(&session, "three").await;
    let prompts: Vec<_> =
        received(&command).into_iter().filter(|(method, _)| method == "session/prompt").collect();
    let texts = |index: usize| -> Vec<String> {
        let blocks = prompts[index].1["prompt"].as_array().unwrap();
        blocks.iter().map(|block| block["text"].as_str().unwrap().to_owned()).collect()
    };
    assert!(texts(1)[0].contains("User: one\n\nYou: first\n\n"), "{:?}", texts(1));
    assert_eq!((texts(1)[1].as_str(), texts(2)), ("two", vec!["three".to_owned()]));
    assert_eq!(bench.said(&session).await, ["> one", "< first", "> two", "> three"]);
    let facts = bench.events(session.record_id()).await;
    let carried = facts.iter().find_map(|event| match Fact::from_body(&event.body)? {
        Fact::SessionReset { carried, .. } => Some(carried),
        _ => None,
    });
    assert_eq!(carried, Some(Some(HistoryExtent::Whole)));
}

#[tokio::test]
async fn late_replay_is_not_shown_as_new() {
    let bench = Bench::new();
    let late = |script: Script| {
        script
            .expect("session/load")
            .user_said("one")
            .reply(json!({}))
            .say("fir")
            .say("st")
            .prompt(|turn| turn.say("second").end("end_turn"))
    };
    let (session, _) = after_a_kill(&bench, load_only(), late).await;
    prompt(&session, "two").await;
    assert_eq!(bench.said(&session).await, ["> one", "< first", "> two", "< second"]);
}

#[tokio::test]
async fn answer_that_repeats_an_interrupted_one_is_shown_whole() {
    let bench = Bench::new();
    let script = Script::new()
        .initialize(load_only())
        .session_new("s1")
        .prompt(|turn| turn.say("tick ").hang())
        .next_start()
        .initialize(load_only())
        .session_load(|replay| replay.user_said("go"))
        .prompt(|turn| turn.say("tick ").say("tock").end("end_turn"));
    let (session, _) = bench.open(&script).await;
    let ticket = session.prompt(Prompt::text("go").unwrap()).await.unwrap();
    let mut events = session.follow(Seq::FIRST);
    while !events.next().await.unwrap().unwrap().body.contains("tick") {}
    kill_agent(&session).await;
    assert_eq!(failure(&ticket.finished().await.unwrap()).0, "AGENT_DIED");
    prompt(&session, "go").await;
    assert_eq!(bench.said(&session).await, ["> go", "< tick ", "> go", "< tick tock"]);
}
