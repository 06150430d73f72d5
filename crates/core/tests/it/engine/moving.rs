//! A record whose project has moved.

use acpx_core::machine::Rung;
use acpx_core::model::{Fact, LineageReason, Scope};

use super::*;

/// A directory of the bench, with its real path.
fn directory(bench: &Bench, name: &str) -> (AbsolutePath, AbsolutePath) {
    let path = bench.home.path().join(name);
    std::fs::create_dir_all(&path).unwrap();
    let real = AbsolutePath::from_path(&path.canonicalize().unwrap()).unwrap();
    (AbsolutePath::from_path(&path).unwrap(), real)
}

fn load_only() -> Value {
    json!({"loadSession": true})
}

#[tokio::test]
async fn a_moved_record_is_restored_in_its_new_directory() {
    let bench = Bench::new();
    let (session, command) = bench.open(&faithful(load_only())).await;
    prompt(&session, "one").await;
    let (cwd, real) = directory(&bench, "new");
    let before = bench.cwd();
    session.move_to(cwd.clone(), real.clone()).await.unwrap();
    assert_eq!(session.status().agent_pid, None);
    let kept = bench.store.record(session.record_id().clone()).await.unwrap().unwrap();
    assert_eq!((kept.cwd, kept.real_cwd), (cwd.clone(), real));
    let how = session.wake(restore()).await.unwrap();
    assert_eq!(how, Awakening::Restored { rung: Rung::Load, replay: None });
    let (_, params) = received(&command).into_iter().find(|(method, _)| method == "session/load").unwrap();
    assert_eq!(params["cwd"], cwd.as_str());
    let facts = bench.events(session.record_id()).await;
    let moved = facts
        .iter()
        .filter_map(|event| Fact::from_body(&event.body))
        .find(|fact| matches!(fact, Fact::Moved { .. }));
    assert_eq!(moved, Some(Fact::Moved { from: before.to_string(), to: cwd.to_string() }));
}

#[tokio::test]
async fn additional_directories_inside_the_project_move_with_it_and_the_others_are_told() {
    let bench = Bench::new();
    let elsewhere = TempHome::new();
    let (inside, outside) =
        (directory(&bench, "inside").0, AbsolutePath::from_path(elsewhere.path()).unwrap());
    let capabilities = json!({"loadSession": true, "sessionCapabilities": {"additionalDirectories": {}}});
    let (agent, command) = bench.agent(&faithful(capabilities));
    let additional_directories = vec![inside, outside.clone()];
    let new = NewSession { additional_directories, ..bench.new_session(agent, Vec::new()) };
    let session = bench.engine.open(new).await.unwrap();
    prompt(&session, "one").await;
    let (cwd, real) = directory(&bench, "new");
    assert_eq!(session.move_to(cwd.clone(), real).await.unwrap(), std::slice::from_ref(&outside));
    let moved = AbsolutePath::from_path(&cwd.as_path().join("inside")).unwrap();
    let kept = bench.store.record(session.record_id().clone()).await.unwrap().unwrap();
    assert_eq!(kept.additional_directories, [moved.clone(), outside.clone()]);
    session.wake(restore()).await.unwrap();
    let (_, params) = received(&command).into_iter().find(|(method, _)| method == "session/load").unwrap();
    assert_eq!(params["additionalDirectories"], json!([moved, outside]));
}

#[tokio::test]
async fn an_agent_that_refuses_another_directory_keeps_the_session() {
    // The last one calls the session unknown there, as if it had lost it.
    let refusals = [
        ("claude-code", -32603, None),
        ("qwen", -32602, None),
        ("fast-agent", -32002, Some(LineageReason::AgentLost)),
    ];
    for (name, code, fresh) in refusals {
        let bench = Bench::new();
        let refusal = json!({"code": code, "message": "wrong directory"});
        let refuses = Script::new()
            .initialize(load_only())
            .session_new("s1")
            .prompt(|turn| turn.say("first").end("end_turn"))
            .next_start()
            .initialize(load_only())
            .refuse("session/load", refusal)
            .session_new("s2");
        let (agent, _) = bench.agent(&refuses);
        let new = bench.new_session(agent.named(name), Vec::new());
        let session = bench.engine.open(new).await.unwrap();
        prompt(&session, "one").await;
        let (cwd, real) = directory(&bench, "new");
        session.move_to(cwd, real).await.unwrap();
        let woken = session.wake(restore()).await;
        match fresh {
            Some(reason) => {
                assert_eq!(woken.unwrap(), Awakening::Fresh { reason, announced: true }, "{name}")
            }
            None => assert_eq!(woken.unwrap_err().code(), "SESSION_NOT_RESTORED", "{name}"),
        }
    }
}

#[tokio::test]
async fn a_record_with_a_running_turn_stays_where_it_is() {
    let bench = Bench::new();
    let script = Script::new().initialize(json!({})).session_new("s1").prompt(Script::hang);
    let (session, _) = bench.open(&script).await;
    let _turn = session.prompt(Prompt::text("one").unwrap()).await.unwrap();
    let (cwd, real) = directory(&bench, "new");
    let refused = session.move_to(cwd, real).await;
    assert!(
        matches!(&refused, Err(SessionError::Busy(record)) if record == session.record_id()),
        "{refused:?}"
    );
    let kept = bench.store.record(session.record_id().clone()).await.unwrap().unwrap();
    assert_eq!(kept.cwd, bench.cwd());
}

#[tokio::test]
async fn a_directory_where_another_has_the_scope_is_refused_and_the_record_stays_whole() {
    let bench = Bench::new();
    let (cwd, real) = directory(&bench, "new");
    let (agent, _) = bench.agent(&faithful(load_only()));
    let scope = Some(Scope { agent: agent.key(), name: None });
    let there =
        NewSession { scope: scope.clone(), ..NewSession::new(agent.clone(), cwd.clone(), environment()) };
    let holder = bench.engine.open(there).await.unwrap();
    // The same agent gives every session the same id, so only one of them is live at a time.
    holder.park().await.unwrap();
    let here = NewSession { scope, ..bench.new_session(agent, Vec::new()) };
    let session = bench.engine.open(here).await.unwrap();
    let refused = session.move_to(cwd, real).await.unwrap_err();
    assert_eq!(refused.code(), "SCOPE_TAKEN", "{refused:?}");
    let kept = bench.store.record(session.record_id().clone()).await.unwrap().unwrap();
    assert_eq!(kept.cwd, bench.cwd());
    assert_eq!(stop_reason(&prompt(&session, "one").await), "end_turn");
}
