//! The processes of agents as they are kept, and when an agent with nothing to do is parked.

use acpx_core::model::{AgentEnd, AgentMemory, AgentRun, LineageReason, ProcessIdentity, Scope, SessionName};
use acpx_core::tools::Environment;
use acpx_testkit::ScriptStep;

use super::*;

impl Bench {
    async fn run(&self, session: &Session) -> AgentRun {
        let record = self.engine.record(session.record_id()).await.unwrap().unwrap();
        record.agent_run.expect("an agent was started")
    }

    /// How the last agent of a record ended.
    async fn end(&self, session: &Session) -> AgentEnd {
        self.run(session).await.ended.expect("it has ended").how
    }
}

#[tokio::test]
async fn agent_process_is_recorded_from_the_response_to_session_new() {
    let bench = Bench::new();
    let (session, _) = bench.open(&faithful(everything())).await;
    let pid = session.status().agent_pid.unwrap();
    let run = bench.run(&session).await;
    assert_eq!((Some(run.process), run.ended), (ProcessIdentity::of(pid), None));
    let running = bench.store.running().await.unwrap();
    assert_eq!(running.iter().map(|(record, _)| record).collect::<Vec<_>>(), [session.record_id()]);
}

#[tokio::test]
async fn requested_agent_exit_is_recorded_as_such_and_others_with_reason() {
    let bench = Bench::new();
    let (session, _) = bench.open(&faithful(everything())).await;
    session.park().await.unwrap();
    assert_eq!(bench.end(&session).await, AgentEnd::Asked);
    prompt(&session, "again").await;
    assert_eq!(bench.run(&session).await.ended, None);
    kill_agent(&session).await;
    assert_eq!(bench.end(&session).await.words(), "the agent \"scripted\" died (signal 9)");
    prompt(&session, "again").await;
    session.close().await.unwrap();
    assert_eq!(bench.end(&session).await, AgentEnd::Asked);
    assert_eq!(bench.store.running().await.unwrap(), []);
}

#[tokio::test]
async fn shutdown_leaves_no_agent_run_without_an_end() {
    let bench = Bench::new();
    let (session, _) = bench.open(&faithful(everything())).await;
    let (busy, _) = bench.open(&Script::new().initialize(json!({})).session_new("s2").hang()).await;
    let _ticket = busy.prompt(Prompt::text("hang").unwrap()).await.unwrap();
    bench.engine.shutdown().await;
    assert_eq!(bench.store.running().await.unwrap(), []);
    assert_eq!([bench.end(&session).await, bench.end(&busy).await], [AgentEnd::Asked, AgentEnd::Asked]);
}

#[tokio::test]
async fn idle_agent_is_parked_unless_a_client_holds_its_session() {
    let bench = Bench::new();
    let (session, command) = bench.open(&faithful(everything())).await;
    let hold = session.hold();
    session.set_idle_time(Some(Duration::ZERO)).await.unwrap();
    // Whatever waits for its time has had it by the end of a turn, and the session is live still.
    for _ in 0..3 {
        prompt(&session, "more").await;
    }
    assert_eq!(methods(&command).iter().filter(|method| *method == "initialize").count(), 1);
    drop(hold);
    session.wait_for(|status| status.agent_pid.is_none()).await;
    prompt(&session, "back").await;
    session.wait_for(|status| status.agent_pid.is_none()).await;
    assert_eq!(methods(&command).iter().filter(|method| *method == "initialize").count(), 2);

    session.set_idle_time(None).await.unwrap();
    prompt(&session, "stay").await;
    assert_eq!(stop_reason(&prompt(&session, "stay").await), "end_turn");
    assert_eq!(methods(&command).iter().filter(|method| *method == "initialize").count(), 3);
}

#[tokio::test]
async fn agent_with_the_only_memory_is_parked_only_on_request() {
    let bench = Bench::with(EngineSettings { idle: Some(Duration::ZERO), ..quick() });
    let (session, command) = bench.open(&faithful(json!({}))).await;
    // Nothing has been said that it could remember.
    session.wait_for(|status| status.agent_pid.is_none()).await;
    for _ in 0..3 {
        prompt(&session, "more").await;
    }
    assert_eq!(methods(&command).iter().filter(|method| *method == "initialize").count(), 2);
    session.set_idle_time(Some(Duration::ZERO)).await.unwrap();
    session.wait_for(|status| status.agent_pid.is_none()).await;
    prompt(&session, "back").await;
    let AgentMemory::Since { reason, .. } = session.status().memory else { panic!("a fresh session") };
    assert_eq!(reason, Some(LineageReason::CannotRestore));
}

#[tokio::test]
async fn agent_that_restores_sessions_is_parked_after_the_default_idle_time() {
    let bench = Bench::with(EngineSettings { idle: Some(Duration::ZERO), ..quick() });
    let (session, command) = bench.open(&faithful(everything())).await;
    prompt(&session, "one").await;
    session.wait_for(|status| status.agent_pid.is_none()).await;
    prompt(&session, "two").await;
    assert!(methods(&command).contains(&"session/resume".to_owned()));
}

#[tokio::test]
async fn a_session_has_its_ids_from_the_moment_it_is_attached() {
    let bench = Bench::new();
    let (session, _) = bench.open(&faithful(everything())).await;
    let ids = session.identity();
    bench.engine.shutdown().await;
    let again = bench.next_host().attach(session.record_id(), &restore()).await.unwrap();
    assert_eq!((again.identity(), again.status().agent_pid), (ids, None));
}

#[tokio::test]
async fn existing_session_can_be_given_a_scope_and_keeps_it() {
    let bench = Bench::new();
    let (agent, _) = bench.agent(&faithful(everything()));
    let scope = Scope { agent: agent.key(), name: Some(SessionName::new("work").unwrap()) };
    let session = bench.engine.open(bench.new_session(agent, Vec::new())).await.unwrap();
    session.set_scope(scope.clone()).await.unwrap();
    let record = bench.engine.record(session.record_id()).await.unwrap().unwrap();
    assert_eq!(record.scope, Some(scope.clone()));

    // Another one is refused it, and goes on as it was.
    let (other, _) = bench
        .open(&Script::new().initialize(json!({})).session_new("s2").prompt(|turn| turn.end("end_turn")))
        .await;
    assert_eq!(other.set_scope(scope).await.unwrap_err().code().as_str(), "SCOPE_TAKEN");
    assert_eq!(stop_reason(&prompt(&other, "still there?").await), "end_turn");
}

#[tokio::test]
async fn reserved_record_opens_no_session_until_released() {
    let bench = Bench::new();
    let (one, _) = bench.open(&faithful(everything())).await;
    let (two, _) = bench.open(&Script::new().initialize(everything()).session_new("s2")).await;
    let (one, two) = (one.record_id().clone(), two.record_id().clone());
    let next = bench.next_host();
    bench.engine.shutdown().await;
    let reserved = next.reserve(&one).await.expect("it has no session");
    assert!(next.reserve(&one).await.is_none());
    let with = RestoreSession::new(Environment::default());
    let mut attaching = Box::pin(next.attach(&one, &with));
    tokio::select! {
        biased;
        _ = &mut attaching => panic!("it is reserved"),
        other = next.attach(&two, &with) => drop(other.unwrap()),
    }
    drop(reserved);
    assert_eq!(attaching.await.unwrap().record_id(), &one);
    assert!(next.reserve(&one).await.is_none() && next.reserve(&two).await.is_none());
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn agent_starts_for_the_first_waiting_client_after_a_crash() {
    let bench = Bench::new();
    let script = Script::new().initialize(json!({})).session_new("s1").hang().next_start();
    let script = script.initialize(json!({})).session_new("s2").prompt(|turn| turn.end("end_turn")).hang();
    let (session, _) = bench.open(&script).await;
    let given_by = |name: &str| RestoreSession::new([("GIVEN_BY".into(), name.into())].into_iter().collect());
    let dies = session.prompt(Prompt::text("one").unwrap().with_restore(given_by("one"))).await.unwrap();
    let waits = session.prompt(Prompt::text("two").unwrap().with_restore(given_by("two"))).await.unwrap();
    let last = session.prompt(Prompt::text("three").unwrap().with_restore(given_by("three"))).await.unwrap();
    kill_agent(&session).await;
    dies.finished().await.unwrap();
    assert_eq!(stop_reason(&waits.finished().await.unwrap()), "end_turn");
    let pid = session.status().agent_pid.unwrap();
    let environment = std::fs::read_to_string(format!("/proc/{pid}/environ")).unwrap();
    let given: Vec<&str> =
        environment.split('\0').filter(|variable| variable.starts_with("GIVEN_BY")).collect();
    assert_eq!(given, ["GIVEN_BY=two"]);
    drop(last);
}

#[tokio::test]
async fn unused_parked_session_is_freed_and_the_next_prompt_restores_it() {
    let bench = Bench::new();
    let (session, _) = bench.open(&faithful(everything())).await;
    let record = session.record_id().clone();
    let is_known = async || bench.engine.running(&record).await.unwrap().is_some();
    assert_eq!(stop_reason(&prompt(&session, "one").await), "end_turn");
    bench.engine.free_unused(0);
    assert!(is_known().await, "its agent runs");
    session.park().await.unwrap();
    session.wait_for(|status| !status.has_agent).await;
    bench.engine.free_unused(0);
    assert!(is_known().await, "somebody has it");
    let hold = session.hold();
    drop(session);
    bench.engine.free_unused(0);
    assert!(is_known().await, "somebody holds it");
    drop(hold);
    bench.engine.free_unused(1);
    assert!(is_known().await, "one is kept");
    bench.engine.free_unused(0);
    assert!(!is_known().await);
    let (session, how) = bench.engine.restore(&record, restore()).await.unwrap();
    assert_eq!(how, WakeOutcome::Restored { rung: acpx_core::machine::Rung::Resume, replay: None });
    assert_eq!(stop_reason(&prompt(&session, "two").await), "end_turn");
}

#[tokio::test]
async fn an_idle_session_is_ended_and_its_record_can_be_reserved() {
    let bench = Bench::new();
    let (session, _) = bench.open(&faithful(everything())).await;
    let record = session.record_id().clone();
    assert_eq!(stop_reason(&prompt(&session, "one").await), "end_turn");
    let hold = session.hold();
    drop(session);
    bench.engine.end_idle(&record).await;
    assert!(bench.engine.reserve(&record).await.is_none(), "a client holds it");
    drop(hold);
    bench.engine.end_idle(&record).await;
    assert!(bench.engine.reserve(&record).await.is_some());
}

#[tokio::test]
async fn a_session_with_a_leftover_process_is_not_freed_before_that_ends() {
    let grace = GracePeriods { eof: Duration::from_millis(500), term: Duration::from_secs(2) };
    let bench = Bench::with(EngineSettings { process: grace, ..quick() });
    let child = ScriptStep::Child { seconds: 600, holds_stdout: false, own_group: false };
    let script = Script::new().ignoring_terminate().initialize(everything()).session_new("s1");
    let (session, _) = bench.open(&script.step(child).prompt(|turn| turn.exit(1))).await;
    let record = session.record_id().clone();
    assert_eq!(failure(&prompt(&session, "die").await).0, "AGENT_DIED");
    session.wait_for(|status| !status.has_agent && !status.has_work).await;
    drop(session);
    bench.engine.free_unused(0);
    let session = bench.engine.running(&record).await.unwrap().expect("a leftover process runs");
    session.wait_for(|status| !status.has_leftover).await;
    drop(session);
    bench.engine.free_unused(0);
    assert!(bench.engine.running(&record).await.unwrap().is_none());
    assert!(bench.engine.reserve(&record).await.is_none(), "its task has not ended yet");
    let again = bench.engine.attach(&record, &restore()).await.unwrap();
    assert_eq!(again.record_id(), &record);
}
