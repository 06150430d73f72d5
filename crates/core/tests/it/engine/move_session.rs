//! A record whose project has moved.

use acpx_core::machine::Rung;
use acpx_core::model::{Fact, Lineage, LineageReason, Record, Scope};

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
    assert_eq!(how, WakeOutcome::Restored { rung: Rung::Load, replay: None });
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
async fn additional_directories_inside_the_project_move_and_others_are_reported() {
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
async fn agent_that_refuses_another_directory_keeps_the_session() {
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
                assert_eq!(woken.unwrap(), WakeOutcome::Fresh { reason, announced: true }, "{name}");
            }
            None => assert_eq!(woken.unwrap_err().code().as_str(), "SESSION_NOT_RESTORED", "{name}"),
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
async fn directory_with_a_taken_scope_is_refused_and_the_record_stays() {
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
    assert_eq!(refused.code().as_str(), "SCOPE_TAKEN", "{refused:?}");
    let kept = bench.store.record(session.record_id().clone()).await.unwrap().unwrap();
    assert_eq!(kept.cwd, bench.cwd());
    assert_eq!(stop_reason(&prompt(&session, "one").await), "end_turn");
}

/// A project at `one`, reached by the link `link`, and the neighbour `two`.
struct Linked {
    bench: Bench,
    link: AbsolutePath,
    one: AbsolutePath,
    two: AbsolutePath,
}

impl Linked {
    fn new() -> Self {
        let bench = Bench::new();
        let ((_, one), (_, two)) = (directory(&bench, "one"), directory(&bench, "two"));
        let link = AbsolutePath::from_path(&bench.home.join("link")).unwrap();
        std::os::unix::fs::symlink(one.as_path(), link.as_path()).unwrap();
        Self { bench, link, one, two }
    }

    fn point_to(&self, target: &AbsolutePath) {
        std::fs::remove_file(self.link.as_path()).unwrap();
        std::os::unix::fs::symlink(target.as_path(), self.link.as_path()).unwrap();
    }

    /// A session that was created by the link, with one answered turn and no agent.
    async fn parked(&self) -> (Session, Vec<String>) {
        let (agent, command) = self.bench.agent(&faithful(load_only()));
        let new = NewSession::new(agent, self.link.clone(), environment());
        let session = self.bench.engine.open(new).await.unwrap();
        prompt(&session, "one").await;
        session.park().await.unwrap();
        (session, command)
    }

    async fn place_of(&self, session: &Session) -> (AbsolutePath, AbsolutePath) {
        let kept = self.bench.store.record(session.record_id().clone()).await.unwrap().unwrap();
        (kept.cwd, kept.real_cwd)
    }

    async fn moves(&self, session: &Session) -> Vec<Fact> {
        let events = self.bench.events(session.record_id()).await;
        let facts = events.iter().filter_map(|event| Fact::from_body(&event.body));
        facts.filter(|fact| matches!(fact, Fact::Moved { .. })).collect()
    }
}

fn asked_by(path: &AbsolutePath) -> RestoreSession {
    RestoreSession { cwd: Some(path.clone()), ..restore() }
}

/// The `cwd` of every `session/load` an agent has had.
fn loaded_in(command: &[String]) -> Vec<String> {
    let loads = received(command).into_iter().filter(|(method, _)| method == "session/load");
    loads.map(|(_, params)| params["cwd"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_cwd_that_leads_to_another_directory_starts_no_agent() {
    let linked = Linked::new();
    let (session, command) = linked.parked().await;
    linked.point_to(&linked.two);
    let Linked { link, one, two, .. } = &linked;
    let record = session.record_id();
    let text = format!("the session {record} was created in {one}, and its path {link} leads to {two} now");
    let hint = "put the directory back, or move the session to where its project is now: acpx sessions move";
    for given in [restore(), asked_by(link), asked_by(two)] {
        let error = session.wake(given).await.unwrap_err();
        assert_eq!((error.code().as_str(), error.to_string()), ("SESSION_DIRECTORY_MOVED", text.clone()));
        assert_eq!(error.hint().unwrap(), format!("{hint} {record} --cwd DIR"));
    }
    // A prompt that nobody waits for fails in the same way, and is not sent.
    let turn = prompt(&session, "two").await;
    assert_eq!(failure(&turn), ("SESSION_DIRECTORY_MOVED", text.as_str()));
    assert_eq!(methods(&command), ["initialize", "session/new", "session/prompt"]);
    assert_eq!(linked.place_of(&session).await, (link.clone(), one.clone()));

    // Put back, it goes out byte for byte as it was given.
    linked.point_to(one);
    session.wake(restore()).await.unwrap();
    assert_eq!((loaded_in(&command), linked.moves(&session).await), (vec![link.to_string()], Vec::new()));
}

#[tokio::test]
async fn session_requested_by_real_directory_gets_the_real_path_as_cwd() {
    let linked = Linked::new();
    let (session, command) = linked.parked().await;
    let Linked { link, one, .. } = &linked;
    // While the path is good, it is kept, by whatever path the session is asked for.
    session.wake(asked_by(one)).await.unwrap();
    session.park().await.unwrap();
    assert_eq!(linked.place_of(&session).await, (link.clone(), one.clone()));

    linked.point_to(&linked.two);
    let other = AbsolutePath::from_path(&linked.bench.home.join("other-link")).unwrap();
    std::os::unix::fs::symlink(one.as_path(), other.as_path()).unwrap();
    session.wake(asked_by(&other)).await.unwrap();
    assert_eq!(linked.place_of(&session).await, (one.clone(), one.clone()));
    assert_eq!(loaded_in(&command), [link.to_string(), one.to_string()]);
    assert_eq!(linked.moves(&session).await, [Fact::Moved { from: link.to_string(), to: one.to_string() }]);

    // From now on that is its path, for every client.
    session.park().await.unwrap();
    assert_eq!(stop_reason(&prompt(&session, "two").await), "end_turn");
    assert_eq!(loaded_in(&command).last(), Some(&one.to_string()));
}

#[tokio::test]
async fn an_imported_record_learns_its_real_directory_at_its_first_start() {
    let linked = Linked::new();
    let (session, command) = linked.parked().await;
    let Linked { bench, link, one, two } = &linked;
    let kept = bench.store.record(session.record_id().clone()).await.unwrap().unwrap();
    let scope = Scope { agent: kept.agent.key(), name: None };
    session.set_scope(scope.clone()).await.unwrap();
    // As it is imported while its directory is gone: by the path as it is written.
    let imported = Record {
        id: RecordId::new("imported").unwrap(),
        real_cwd: link.clone(),
        scope: Some(scope.clone()),
        lineage: Lineage::imported(kept.lineage.current().session.clone(), None, kept.created_at),
        agent_run: None,
        last_seq: None,
        last_turn: None,
        ..kept
    };
    let id = imported.id.clone();
    bench.store.create(imported, Vec::new(), HostId::new("npm").unwrap()).await.unwrap();
    let (session, _) = bench.engine.restore(&id, restore()).await.unwrap();
    assert_eq!(linked.place_of(&session).await, (link.clone(), one.clone()));
    assert_eq!(linked.moves(&session).await, []);
    assert_eq!(loaded_in(&command), [link.to_string()]);
    // The other record is there already, and keeps the scope.
    assert_eq!(bench.store.record(id).await.unwrap().unwrap().scope, None);

    session.park().await.unwrap();
    linked.point_to(two);
    assert_eq!(session.wake(restore()).await.unwrap_err().code().as_str(), "SESSION_DIRECTORY_MOVED");
}
