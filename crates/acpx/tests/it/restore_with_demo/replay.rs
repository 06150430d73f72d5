//! What an agent replays: compared with ours, never shown as new, and kept only where it goes beyond.

use super::*;

#[tokio::test]
async fn record_stays_the_same_for_every_replay_of_the_agent() {
    let table = [
        ("--no-resume --replay full", loaded(ReplayVerdict::Same)),
        ("--no-resume --replay partial", loaded(ReplayVerdict::Shorter)),
        ("--no-resume --replay none", WakeOutcome::Restored { rung: Rung::Load, replay: None }),
        (
            "--replay-on-resume",
            WakeOutcome::Restored { rung: Rung::Resume, replay: Some(ReplayVerdict::Same) },
        ),
    ];
    for (flags, how) in table {
        let bench = Bench::new(flags);
        let session = bench.killed().await;
        assert_eq!(bench.wake(&session).await, how, "{flags}");
        assert_eq!(bench.said(&session).await, [exchange("one"), exchange("two")].concat(), "{flags}");
        assert_eq!(bench.recalled(&session).await, "agent: You said before:\n1. one\n2. two", "{flags}");
    }
}

#[tokio::test]
async fn turn_with_all_kinds_of_content_is_restored_unchanged() {
    let bench = Bench::new("--no-resume");
    let session = bench.open().await;
    say(&session, "think plan tool permission mode code").await;
    let before = bench.engine.conversation(session.record_id()).await.unwrap().entries().to_vec();
    kill(&session).await;
    assert_eq!(bench.wake(&session).await, loaded(ReplayVerdict::Same));
    assert_eq!(bench.engine.conversation(session.record_id()).await.unwrap().entries(), before);
}

#[tokio::test]
async fn late_replay_is_not_shown_as_new() {
    let bench = Bench::new("--no-resume --replay late");
    let session = bench.killed().await;
    assert_eq!(bench.wake(&session).await, loaded(ReplayVerdict::Shorter));
    // The rest is on its way before the answer to this prompt is.
    say(&session, "three").await;
    say(&session, "three").await;
    let said = [exchange("one"), exchange("two"), exchange("three"), exchange("three")].concat();
    assert_eq!(bench.said(&session).await, said);
    // All of it has come, and so the agent remembers all of it.
    assert_eq!(session.status().memory, AgentMemory::Whole);
    let told = Fact::ReplayedLate { replay: ReplayVerdict::Same };
    assert!(bench.facts(&session).await.contains(&told));
}

#[tokio::test]
async fn agent_with_another_conversation_is_reported_and_ours_stays() {
    let bench = Bench::new("--no-resume");
    let session = bench.killed().await;
    let memory = fs::read_to_string(bench.memory(&session)).unwrap();
    fs::write(bench.memory(&session), memory.replace("two", "zwei")).unwrap();
    assert_eq!(bench.wake(&session).await, loaded(ReplayVerdict::Different));
    assert_eq!(bench.said(&session).await, [exchange("one"), exchange("two")].concat());
    let told = Fact::Restored { by: "session/load".into(), replay: Some(ReplayVerdict::Different) };
    assert!(bench.facts(&session).await.contains(&told));
}

/// Continues a session without acpx.
async fn prompt_without_acpx(bench: &Bench, session: &Session, text: &str) {
    let mut client = RawClient::start(&bench.home, &[]).await;
    let session = session_id(session);
    let params = json!({ "sessionId": session, "cwd": bench.cwd(), "mcpServers": [] });
    client.exchange("session/load", params).await;
    client.prompt(&session, text).await;
    assert!(client.leave().success());
}

/// A clock so slow that whatever an agent does is later than anything of ours.
fn an_hour_ago() -> Timestamp {
    let now = (EngineSettings::default().clock)();
    Timestamp::from_millis(now.as_millis() - 3_600_000).unwrap()
}

#[tokio::test]
async fn changes_made_outside_are_found_by_the_agents_list_and_stored() {
    let bench = Bench::with("", EngineSettings { clock: an_hour_ago, ..quick() });
    let session = bench.killed().await;
    prompt_without_acpx(&bench, &session, "elsewhere").await;
    assert_eq!(bench.wake(&session).await, loaded(ReplayVerdict::Longer));
    let said = [exchange("one"), exchange("two"), exchange("elsewhere")].concat();
    assert_eq!(bench.said(&session).await, said);
    // From now on it is ours.
    kill(&session).await;
    assert_eq!(bench.wake(&session).await, loaded(ReplayVerdict::Same));
    assert_eq!(bench.said(&session).await, said);
    assert_eq!(bench.recalled(&session).await, "agent: You said before:\n1. one\n2. two\n3. elsewhere");
}

#[tokio::test]
async fn changes_made_outside_are_stored_where_only_load_exists() {
    let bench = Bench::new("--no-resume");
    let session = bench.killed().await;
    prompt_without_acpx(&bench, &session, "think elsewhere").await;
    assert_eq!(bench.wake(&session).await, loaded(ReplayVerdict::Longer));
    let delta = [
        "user: think elsewhere".to_owned(),
        "thought: Thinking about: think elsewhere".to_owned(),
        "agent: You said: think elsewhere".to_owned(),
    ];
    assert_eq!(bench.said(&session).await, [&exchange("one")[..], &exchange("two"), &delta].concat());
}

#[tokio::test]
async fn an_inner_id_stays_across_restores_and_belongs_to_its_session() {
    let bench = Bench::new("--agent-session-id");
    let session = bench.killed().await;
    let ids = session.identity().unwrap();
    assert_eq!(ids.agent_session.as_ref().unwrap().as_str(), format!("inner-{}", ids.session));
    for flags in ["--agent-session-id", "", "--no-resume"] {
        bench.set_flags(flags);
        bench.wake(&session).await;
        assert_eq!(session.identity().as_ref(), Some(&ids), "{flags}");
        kill(&session).await;
    }
    bench.set_flags("--resume-fails not-found --load-fails not-found");
    bench.wake(&session).await;
    let fresh = session.identity().unwrap();
    assert_eq!((&fresh.record, &fresh.agent_session), (&ids.record, &None));
    assert_ne!(fresh.session, ids.session);
    let record = bench.engine.record(session.record_id()).await.unwrap().unwrap();
    assert_eq!(record.lineage.rows()[0].agent_session, ids.agent_session);
}
