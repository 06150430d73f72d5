//! What a session does when the store does not keep what it must.

use acpx_core::store::{Access, SqliteOptions, SqliteStore};

use super::*;

fn over(store: SqliteStore) -> Bench {
    let store: Arc<dyn Store> = Arc::new(store);
    let engine = Engine::new(store.clone(), HostId::new("host").unwrap(), quick());
    Bench { home: TempHome::new(), store, engine }
}

#[tokio::test]
async fn full_disk_ends_the_session_with_an_error_and_keeps_acknowledged_events() {
    let home = TempHome::new();
    let path = home.join("acpx.db");
    let options = SqliteOptions { size_limit: Some(200 * 1024), ..SqliteOptions::new(Access::ReadWrite) };
    let bench = over(SqliteStore::open_with(&path, &options).unwrap());
    let script = Script::new()
        .initialize(everything())
        .session_new("s1")
        .prompt(|turn| turn.say("kept").end("end_turn"))
        .prompt(|turn| turn.flood(Some(10_000)).end("end_turn"));
    let (session, _) = bench.open(&script).await;
    let pid = session.status().agent_pid.unwrap();
    assert_eq!(stop_reason(&prompt(&session, "one").await), "end_turn");
    let ticket = session.prompt(Prompt::text("two").unwrap()).await.unwrap();
    let error = ticket.finished().await.err().unwrap();
    assert_eq!(error.code().as_str(), "STORE_FULL");
    assert!(error.hint().is_some());
    assert_eq!(
        session.prompt(Prompt::text("three").unwrap()).await.err().unwrap().code().as_str(),
        "STORE_FULL"
    );

    let record = session.record_id().clone();
    bench.engine.shutdown().await;
    assert!(!super::shutdown::is_alive(pid));
    drop(bench);
    drop(session);
    let roomy = over(SqliteStore::open(&path, Access::ReadWrite).unwrap());
    let events = roomy.events(&record).await;
    assert!(events.iter().map(|event| event.seq.0).eq(1..=events.len() as u64));
    assert!(events.iter().any(|event| event.body.contains("kept")));
}

#[tokio::test]
async fn read_only_store_opens_no_session_and_leaves_no_agent() {
    let home = TempHome::new();
    let path = home.join("acpx.db");
    drop(SqliteStore::open(&path, Access::ReadWrite).unwrap());
    let bench = over(SqliteStore::open(&path, Access::ReadOnly).unwrap());
    let (agent, command) = bench.agent(&faithful(everything()));
    let error = bench.engine.open(bench.new_session(agent, Vec::new())).await.err().unwrap();
    assert_eq!(error.code().as_str(), "STORE_READ_ONLY");
    assert_eq!(methods(&command), ["initialize", "session/new"]);
    assert_eq!(agents_of(&command), Vec::<String>::new());
}

/// The processes that were started with this command and still run.
fn agents_of(command: &[String]) -> Vec<String> {
    let list = std::process::Command::new("ps").args(["-eo", "stat=,args="]).output().unwrap();
    let list = String::from_utf8(list.stdout).unwrap();
    let script = command.last().unwrap();
    list.lines().filter(|line| line.contains(script) && !line.starts_with('Z')).map(str::to_owned).collect()
}
