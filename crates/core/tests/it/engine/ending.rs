//! How sessions and processes end: asked nicely, then not, and nothing is left.

use acpx_core::model::Lifecycle;
use acpx_testkit::{Step, children_of};

use super::*;

/// Whether a process runs. A zombie that nobody reaps does not.
pub(super) fn is_alive(pid: u32) -> bool {
    let state =
        std::process::Command::new("ps").args(["-o", "stat=", "-p", &pid.to_string()]).output().unwrap();
    let state = String::from_utf8(state.stdout).unwrap();
    !state.trim().is_empty() && !state.trim_start().starts_with('Z')
}

#[tokio::test]
async fn close_is_sent_where_it_is_advertised_and_an_unknown_session_counts_as_closed() {
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
        assert_eq!(session.prompt(Prompt::text("more").unwrap()).await.err().unwrap().code(), "SHUT_DOWN");
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
    assert_eq!(stop_reason(&ticket.over().await.unwrap()), "cancelled");
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
async fn a_parked_session_has_no_agent_and_comes_back_with_the_next_prompt() {
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
    let child = Step::Child { seconds: 600, holds_stdout: true, own_group: false };
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
async fn what_a_dead_agent_leaves_in_its_group_is_ended() {
    let bench = Bench::new();
    let child = Step::Child { seconds: 600, holds_stdout: false, own_group: false };
    let script =
        Script::new().initialize(json!({})).session_new("s1").step(child).prompt(|turn| turn.exit(1));
    let (session, command) = bench.open(&script).await;
    assert_eq!(failure(&prompt(&session, "die").await).0, "AGENT_DIED");
    bench.engine.shutdown().await;
    let children = children_of(&command);
    assert_eq!(children.len(), 1);
    assert!(!is_alive(children[0]));
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
async fn shutdown_leaves_no_process_and_the_record_can_be_restored() {
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
