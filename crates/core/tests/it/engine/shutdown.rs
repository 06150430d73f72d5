//! How sessions and processes end: asked nicely, then not, and nothing is left.

use acpx_core::model::{Lifecycle, Scope};
use acpx_core::store::RecordFilter;
use acpx_testkit::{ScriptStep, children_of};

use super::*;

/// Whether a process runs. A zombie that nobody reaps does not.
pub(super) fn is_alive(pid: u32) -> bool {
    let state =
        std::process::Command::new("ps").args(["-o", "stat=", "-p", &pid.to_string()]).output().unwrap();
    let state = String::from_utf8(state.stdout).unwrap();
    !state.trim().is_empty() && !state.trim_start().starts_with('Z')
}

#[tokio::test]
async fn session_close_is_sent_where_advertised_and_unknown_session_counts_as_closed() {
    for answer in
        [Script::new().reply(json!({})), Script::new().reply_error(json!({"code": -32002, "message": "x"}))]
    {
        let bench = Bench::new();
        let script =
            Script::new().initialize(everything()).session_new("s1").serve([("session/close", answer)]);
        let (session, command) = bench.open(&script).await;
        let pid = session.status().agent_pid.unwrap();
        session.close().await.unwrap();
        assert_eq!(methods(&command)[2..], ["session/close"]);
        let record = bench.engine.record(session.record_id()).await.unwrap().unwrap();
        assert!(matches!(record.lifecycle, Lifecycle::Closed { .. }), "{record:?}");
        assert!(!is_alive(pid));
        assert_eq!(
            session.prompt(Prompt::text("more").unwrap()).await.err().unwrap().code().as_str(),
            "SHUT_DOWN"
        );
    }
}

#[tokio::test]
async fn close_without_the_capability_cancels_a_running_turn_and_ends_the_process() {
    let bench = Bench::new();
    let script = Script::new()
        .initialize(json!({}))
        .session_new("s1")
        .prompt(|turn| turn.say("busy").expect("session/cancel").hang());
    let (session, command) = bench.open(&script).await;
    let ticket = session.prompt(Prompt::text("go").unwrap()).await.unwrap();
    let mut follower = session.follow(Seq::FIRST);
    while !follower.next().await.unwrap().unwrap().body.contains("busy") {}
    session.close().await.unwrap();
    assert_eq!(stop_reason(&ticket.finished().await.unwrap()), "cancelled");
    assert_eq!(methods(&command)[2..], ["session/prompt", "session/cancel"]);
}

#[tokio::test]
async fn a_closed_record_can_be_restored_by_its_id() {
    let bench = Bench::new();
    let (session, _) = bench.open(&faithful(everything())).await;
    prompt(&session, "one").await;
    session.close().await.unwrap();
    let (session, _) = bench.engine.restore(session.record_id(), restore()).await.unwrap();
    assert_eq!(stop_reason(&prompt(&session, "two").await), "end_turn");
    let record = bench.engine.record(session.record_id()).await.unwrap().unwrap();
    assert_eq!(record.lifecycle, Lifecycle::Open);
}

#[tokio::test]
async fn parked_session_has_no_agent_and_the_next_prompt_restores_it() {
    let bench = Bench::new();
    let (session, command) = bench.open(&faithful(everything())).await;
    prompt(&session, "one").await;
    let pid = session.status().agent_pid.unwrap();
    session.park().await.unwrap();
    assert!(!is_alive(pid) && session.status().agent_pid.is_none());
    assert_eq!(stop_reason(&prompt(&session, "two").await), "end_turn");
    assert_eq!(methods(&command)[3..], ["initialize", "session/resume", "session/prompt"]);
}

#[tokio::test]
async fn an_agent_that_ignores_eof_and_terminate_is_killed_with_its_children() {
    let bench = Bench::new();
    let child = ScriptStep::Child { seconds: 600, holds_stdout: true, own_group: false };
    let script =
        Script::new().ignoring_eof().ignoring_terminate().step(child).initialize(json!({})).session_new("s1");
    let (session, command) = bench.open(&script).await;
    let pid = session.status().agent_pid.unwrap();
    let children = children_of(&command);
    assert!(is_alive(pid) && children.iter().all(|child| is_alive(*child)), "{children:?}");
    session.close().await.unwrap();
    assert!(!is_alive(pid) && !children.iter().any(|child| is_alive(*child)), "{children:?}");
}

#[tokio::test]
async fn process_group_of_a_dead_agent_is_ended() {
    let bench = Bench::new();
    let child = ScriptStep::Child { seconds: 600, holds_stdout: false, own_group: false };
    let script =
        Script::new().initialize(json!({})).session_new("s1").step(child).prompt(|turn| turn.exit(1));
    let (session, command) = bench.open(&script).await;
    assert_eq!(failure(&prompt(&session, "die").await).0, "AGENT_DIED");
    bench.engine.shutdown().await;
    let children = children_of(&command);
    assert_eq!(children.len(), 1);
    assert!(!is_alive(children[0]));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_agent_carries_the_tag_of_its_engine() {
    let bench = Bench::with(EngineSettings { tag: Some("c0ffee".to_owned()), ..quick() });
    let (session, _) = bench.open(&faithful(everything())).await;
    let environment =
        std::fs::read_to_string(format!("/proc/{}/environ", session.status().agent_pid.unwrap())).unwrap();
    let tag = acpx_core::tools::Tag::of_this_process("c0ffee").unwrap();
    let tags: Vec<_> = environment.split('\0').filter(|entry| entry.starts_with("ACPX_TAG=")).collect();
    assert_eq!(tags, [format!("ACPX_TAG={tag}")]);
    bench.engine.shutdown().await;
}

#[tokio::test]
async fn an_agent_that_talks_on_stderr_without_end_is_not_blocked() {
    let bench = Bench::new();
    let noise = "x".repeat(10_000);
    let script = Script::new()
        .initialize(json!({}))
        .session_new("s1")
        .prompt(|turn| turn.repeat(300, |loud| loud.stderr(&noise)).end("end_turn"));
    let (session, _) = bench.open(&script).await;
    assert_eq!(stop_reason(&prompt(&session, "hi").await), "end_turn");
}

#[tokio::test]
async fn shutdown_leaves_no_process_and_a_restorable_record() {
    let bench = Bench::new();
    let (session, _) = bench.open(&faithful(everything())).await;
    prompt(&session, "one").await;
    let pid = session.status().agent_pid.unwrap();
    bench.engine.shutdown().await;
    assert!(!is_alive(pid));
    let next = bench.next_host();
    let (session, _) = next.restore(session.record_id(), restore()).await.unwrap();
    assert_eq!(stop_reason(&prompt(&session, "two").await), "end_turn");
    next.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_can_be_restored_the_moment_it_is_closed() {
    let bench = Bench::new();
    let (session, _) = bench.open(&faithful(everything())).await;
    prompt(&session, "one").await;
    let record = session.record_id().clone();
    let mut session = session;
    for _ in 0..10 {
        session.close().await.unwrap();
        (session, _) = bench.engine.restore(&record, restore()).await.unwrap();
    }
    assert_eq!(stop_reason(&prompt(&session, "two").await), "end_turn");
    bench.engine.shutdown().await;
}

#[tokio::test]
async fn a_session_that_is_being_opened_does_not_outlive_a_shutdown() {
    let bench = Bench::new();
    let asked = bench.home.join("asked");
    let script = Script::new().expect("initialize").touch(&asked).hang();
    let (agent, _) = bench.agent(&script);
    let opening = tokio::spawn({
        let (engine, new) = (bench.engine.clone(), bench.new_session(agent.clone(), Vec::new()));
        async move { engine.open(new).await.map(|session| session.record_id().clone()) }
    });
    while !asked.exists() {
        tokio::task::yield_now().await;
    }
    bench.engine.shutdown().await;
    assert_eq!(opening.await.unwrap().unwrap_err().code().as_str(), "SHUT_DOWN");
    let error = bench.engine.open(bench.new_session(agent, Vec::new())).await.err().unwrap();
    assert_eq!(error.code().as_str(), "SHUT_DOWN");
}

#[tokio::test]
async fn shutdown_waits_for_leftovers_of_a_dead_agent_while_another_starts() {
    let bench = Bench::new();
    let child = ScriptStep::Child { seconds: 600, holds_stdout: false, own_group: false };
    let script = Script::new()
        .ignoring_terminate()
        .initialize(everything())
        .session_new("s1")
        .step(child)
        .prompt(|turn| turn.exit(1));
    let (session, command) = bench.open(&script).await;
    assert_eq!(failure(&prompt(&session, "die").await).0, "AGENT_DIED");
    let children = children_of(&command);
    drop(session.prompt(Prompt::text("again").unwrap()).await.unwrap());
    bench.engine.shutdown().await;
    assert!(!children.iter().any(|child| is_alive(*child)), "{children:?}");
}

#[tokio::test]
async fn shutdown_interrupts_the_turn_and_the_next_host_does_not_resend_it() {
    let bench = Bench::new();
    let script =
        Script::new().initialize(everything()).session_new("s1").prompt(|turn| turn.say("busy").hang());
    let (session, command) = bench.open(&script).await;
    let ticket = session.prompt(Prompt::text("go").unwrap()).await.unwrap();
    let mut follower = session.follow(Seq::FIRST);
    while !follower.next().await.unwrap().unwrap().body.contains("busy") {}
    bench.engine.shutdown().await;
    assert!(matches!(ticket.finished().await.unwrap().state, TurnState::Interrupted { .. }));
    let last = bench.events(session.record_id()).await.pop().unwrap();
    assert!(last.body.contains("INTERRUPTED") && last.body.contains("stopped"), "{}", last.body);
    let sent = methods(&command).into_iter().filter(|method| method == "session/prompt").count();
    assert_eq!(sent, 1);
}

#[tokio::test]
async fn updates_of_an_agent_that_is_being_ended_are_stored() {
    let bench = Bench::new();
    let script = Script::new()
        .initialize(json!({}))
        .session_new("s1")
        .prompt(|turn| turn.say("busy").expect("session/cancel").say("last words").end("cancelled"));
    let (session, _) = bench.open(&script).await;
    drop(session.prompt(Prompt::text("go").unwrap()).await.unwrap());
    let mut follower = session.follow(Seq::FIRST);
    while !follower.next().await.unwrap().unwrap().body.contains("busy") {}
    session.close().await.unwrap();
    assert!(bench.events(session.record_id()).await.iter().any(|event| event.body.contains("last words")));
}

#[tokio::test]
async fn session_new_without_waiting_callers_ends_its_agent_and_leaves_no_record() {
    let bench = Bench::new();
    let (asked, never) = (bench.home.join("asked"), bench.home.join("never"));
    let script =
        Script::new().initialize(everything()).expect("session/new").touch(&asked).await_file(&never);
    let (agent, command) = bench.agent(&script);
    let mut live = bench.engine.live();
    let opening = bench.engine.open(bench.new_session(agent, Vec::new()));
    let reached = async {
        while !asked.exists() {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        _ = opening => panic!("the agent does not answer"),
        () = reached => {}
    }
    live.wait_for(|live| *live == 0).await.unwrap();
    let records = bench.store.records(RecordFilter::default(), None, 10).await.unwrap();
    assert_eq!((records, methods(&command)), (vec![], vec!["initialize".into(), "session/new".into()]));
}

#[tokio::test]
async fn unclaimed_session_is_deleted_here_and_at_its_agent() {
    for is_awaited in [true, false] {
        let bench = Bench::new();
        let can_delete = json!({ "sessionCapabilities": { "close": {}, "delete": {} } });
        let script = Script::new().initialize(can_delete).serve([
            ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
            ("session/close", Script::new().reply(json!({}))),
            ("session/delete", Script::new().reply(json!({}))),
        ]);
        let (agent, command) = bench.agent(&script);
        let new = bench.new_session(agent, Vec::new());
        let (session, unclaimed) = bench.engine.open_unless(new, std::future::pending()).await.unwrap();
        let mut live = bench.engine.live();
        if is_awaited {
            unclaimed.take_back().await;
        } else {
            drop(unclaimed);
        }
        live.wait_for(|live| *live == 0).await.unwrap();
        let gone = bench.engine.attach(session.record_id(), &restore()).await.err().unwrap();
        assert!(matches!(gone, SessionError::NoRecord(_)), "{gone:?}");
        assert_eq!(bench.store.records(RecordFilter::default(), None, 10).await.unwrap(), []);
        assert_eq!(methods(&command), ["initialize", "session/new", "session/close", "session/delete"]);
    }
}

#[tokio::test]
async fn an_unclaimed_session_that_another_client_has_prompted_stays() {
    let bench = Bench::new();
    let (agent, _) = bench.agent(&faithful(everything()));
    let new = bench.new_session(agent, Vec::new());
    let (session, unclaimed) = bench.engine.open_unless(new, std::future::pending()).await.unwrap();
    prompt(&session, "one").await;
    unclaimed.take_back().await;
    assert_eq!(stop_reason(&prompt(&session, "two").await), "end_turn");
    let record = bench.engine.record(session.record_id()).await.unwrap().unwrap();
    assert_eq!((record.lifecycle, record.answered_turns), (Lifecycle::Open, 2));
}

#[tokio::test]
async fn closing_session_passes_its_scope_to_its_successor_or_keeps_it() {
    let bench = Bench::new();
    let (agent, _) = bench.agent(&faithful(everything()));
    let scope = Scope { agent: agent.key(), name: None };
    let (other_agent, _) = bench.agent(&faithful(everything()));
    let mut new = bench.new_session(agent, Vec::new());
    new.scope = Some(scope.clone());
    let old = bench.engine.open(new).await.unwrap();
    let new = bench.engine.open(bench.new_session(other_agent, Vec::new())).await.unwrap();
    let kept = async |session: &Session| bench.engine.record(session.record_id()).await.unwrap().unwrap();

    // Somebody else has taken the new one over, so it cannot be given anything.
    bench.next_host().attach(new.record_id(), &restore()).await.unwrap();
    let refused = bench.engine.hand_over(old.record_id(), &new, scope.clone()).await.unwrap_err();
    assert_eq!(refused.code().as_str(), "LEASE_LOST");
    let record = kept(&old).await;
    assert_eq!((record.lifecycle, record.scope), (Lifecycle::Open, Some(scope.clone())));
    assert_eq!(kept(&new).await.scope, None);

    let (agent, _) = bench.agent(&faithful(everything()));
    let new = bench.engine.open(bench.new_session(agent, Vec::new())).await.unwrap();
    bench.engine.hand_over(old.record_id(), &new, scope.clone()).await.unwrap();
    assert!(matches!(kept(&old).await.lifecycle, Lifecycle::Closed { .. }));
    assert_eq!(kept(&new).await.scope, Some(scope));
}
