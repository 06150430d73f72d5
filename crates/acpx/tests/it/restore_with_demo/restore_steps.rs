//! Down the ladder: live, resume, load, fresh, and the errors that are no loss.

use super::*;

#[tokio::test]
async fn a_live_session_is_attached_to_as_it_is() {
    let bench = Bench::new("");
    let session = bench.open().await;
    let pid = session.status().agent_pid;
    let (same, how) = bench.engine.restore(session.record_id(), bench.restore()).await.unwrap();
    assert_eq!((how, same.status().agent_pid), (WakeOutcome::Live, pid));
}

#[tokio::test]
async fn resume_restores_a_killed_agent_and_the_conversation_continues() {
    let bench = Bench::new("");
    let session = bench.killed().await;
    let ids = session.identity();
    assert_eq!(bench.wake(&session).await, RESUMED);
    assert_eq!(bench.recalled(&session).await, "agent: You said before:\n1. one\n2. two");
    assert_eq!(session.identity(), ids);
    assert_eq!(bench.lineage(&session).await, [(session_id(&session), LineageReason::Created)]);
}

#[tokio::test]
async fn the_next_prompt_brings_it_back_by_itself() {
    let bench = Bench::new("");
    let session = bench.killed().await;
    assert_eq!(bench.recalled(&session).await, "agent: You said before:\n1. one\n2. two");
    let restored = Fact::Restored { by: "session/resume".into(), replay: None };
    assert!(bench.facts(&session).await.contains(&restored));
}

#[tokio::test]
async fn load_restores_without_resume_and_its_replay_is_not_stored_again() {
    let bench = Bench::new("--no-resume --late-commands");
    let session = bench.killed().await;
    assert_eq!(bench.wake(&session).await, loaded(ReplayVerdict::Same));
    assert_eq!(bench.said(&session).await, [exchange("one"), exchange("two")].concat());
    assert_eq!(bench.recalled(&session).await, "agent: You said before:\n1. one\n2. two");
}

/// What a failure of load or resume means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Means {
    /// The agent no longer has the session.
    Lost,
    /// It does not say why.
    Unclear,
    /// The session is not lost: this is told instead.
    Error(&'static str),
}

const FAILURES: [(&str, Means); 11] = [
    ("not-found", Means::Lost),
    ("not-found-plain", Means::Lost),
    ("not-found-internal", Means::Lost),
    ("no-rollout", Means::Lost),
    ("service-failure", Means::Unclear),
    ("invalid-params", Means::Unclear),
    ("internal", Means::Unclear),
    ("busy-active-writer", Means::Error("SESSION_BUSY_ELSEWHERE")),
    ("busy-open", Means::Error("SESSION_BUSY_ELSEWHERE")),
    ("busy-active", Means::Error("SESSION_BUSY_ELSEWHERE")),
    ("auth", Means::Error("AUTH_REQUIRED")),
];

/// What becomes of a restore by an agent with these flags, and of the conversation afterwards.
async fn assert_end(flags: &str, end: Result<WakeOutcome, &'static str>) {
    let bench = Bench::new("");
    let session = bench.killed().await;
    let (record, before) = (session.record_id().clone(), session_id(&session));
    bench.set_flags(flags);
    let how = session.wake(bench.restore()).await.map_err(|error| error.code());
    let end = end.map_err(acpx_core::model::ErrorCode::from);
    assert_eq!(how, end, "{flags}");
    // What an agent could not do today it may do tomorrow.
    bench.set_flags("");
    let created = (before.clone(), LineageReason::Created);
    if let Ok(WakeOutcome::Fresh { reason, .. }) = how {
        assert_eq!(bench.recalled(&session).await, "agent: You said nothing before.", "{flags}");
        assert_ne!(session_id(&session), before, "{flags}");
        assert_eq!(bench.lineage(&session).await, [created, (session_id(&session), reason)], "{flags}");
        // Why the restore failed is said with it, unless no restore was tried.
        let is_reset = |fact: &Fact| match fact {
            Fact::SessionReset { reason: told, from_acpx_session_id, announced: true, error, .. } => {
                *told == reason.as_str()
                    && *from_acpx_session_id == before
                    && error.is_some() == (reason != LineageReason::CannotRestore)
            }
            _ => false,
        };
        assert!(bench.facts(&session).await.iter().any(is_reset), "{flags}");
    } else {
        assert_eq!(bench.recalled(&session).await, "agent: You said before:\n1. one\n2. two", "{flags}");
        assert_eq!(bench.lineage(&session).await, [created], "{flags}");
    }
    assert_eq!(session.record_id(), &record);
}

#[tokio::test]
async fn load_is_tried_after_a_failed_resume_unless_the_session_exists() {
    for (kind, means) in FAILURES {
        let end = match means {
            Means::Lost | Means::Unclear => Ok(loaded(ReplayVerdict::Same)),
            Means::Error(code) => Err(code),
        };
        assert_end(&format!("--resume-fails {kind}"), end).await;
    }
}

#[tokio::test]
async fn only_a_load_that_finds_no_session_creates_a_fresh_one() {
    for (kind, means) in FAILURES {
        let end = match means {
            Means::Lost => Ok(fresh(LineageReason::AgentLost)),
            Means::Unclear => Err("SESSION_NOT_RESTORED"),
            Means::Error(code) => Err(code),
        };
        assert_end(&format!("--no-resume --load-fails {kind}"), end).await;
    }
}

#[tokio::test]
async fn when_resume_and_load_fail_the_later_answer_decides() {
    let table = [
        ("internal", "internal", Err("SESSION_NOT_RESTORED")),
        ("internal", "no-rollout", Ok(fresh(LineageReason::AgentLost))),
        ("not-found", "service-failure", Err("SESSION_NOT_RESTORED")),
        ("not-found", "busy-open", Err("SESSION_BUSY_ELSEWHERE")),
        ("invalid-params", "auth", Err("AUTH_REQUIRED")),
    ];
    for (resume, load, end) in table {
        assert_end(&format!("--resume-fails {resume} --load-fails {load}"), end).await;
    }
}

#[tokio::test]
async fn agent_without_load_and_resume_gets_an_announced_fresh_session() {
    assert_end("--no-resume --no-load", Ok(fresh(LineageReason::CannotRestore))).await;
}

#[tokio::test]
async fn session_without_a_prompt_is_recreated_silently_for_every_error() {
    let kinds = FAILURES.iter().filter(|(_, means)| !matches!(means, Means::Error(_)));
    let flags = kinds.map(|(kind, _)| format!("--resume-fails {kind} --load-fails {kind}"));
    let silent = WakeOutcome::Fresh { reason: LineageReason::NotMaterialised, announced: false };
    for flags in flags.chain([String::new(), "--no-resume --no-load".into()]) {
        let bench = Bench::new(&flags);
        let session = bench.open().await;
        let first = (session_id(&session), LineageReason::Created);
        kill(&session).await;
        let refused = session.wake(bench.restore_or_refuse()).await.unwrap_err();
        assert_eq!(refused.code().as_str(), "SESSION_NOT_RESTORED", "{flags}");
        let how = session.wake(bench.restore()).await.unwrap();
        assert_eq!(how, silent, "{flags}");
        let second = (session_id(&session), LineageReason::NotMaterialised);
        assert_eq!(bench.lineage(&session).await, [first, second], "{flags}");
        say(&session, "one").await;
        assert_eq!(bench.said(&session).await, exchange("one"), "{flags}");
    }
}

#[tokio::test]
async fn agent_that_stores_a_session_at_once_restores_it() {
    let table = [
        ("--materialise-early", RESUMED),
        ("--materialise-early --no-resume", WakeOutcome::Restored { rung: Rung::Load, replay: None }),
    ];
    for (flags, how) in table {
        let bench = Bench::new(flags);
        let session = bench.open().await;
        kill(&session).await;
        assert_eq!(bench.wake(&session).await, how, "{flags}");
        assert_eq!(bench.lineage(&session).await.len(), 1, "{flags}");
    }
}

#[tokio::test]
async fn lost_session_continues_afresh_under_the_same_record() {
    for flags in ["", "--no-resume", "--no-load"] {
        let bench = Bench::new(flags);
        let session = bench.killed().await;
        let before = session_id(&session);
        fs::remove_file(bench.memory(&session)).unwrap();
        assert_eq!(bench.wake(&session).await, fresh(LineageReason::AgentLost), "{flags}");
        say(&session, "three").await;
        let reset = ["reset: agent-lost".to_owned()];
        let said = [&exchange("one")[..], &exchange("two"), &reset, &exchange("three")].concat();
        assert_eq!(bench.said(&session).await, said, "{flags}");
        let rows = [(before, LineageReason::Created), (session_id(&session), LineageReason::AgentLost)];
        assert_eq!(bench.lineage(&session).await, rows, "{flags}");
        // The fresh session is one like any other.
        kill(&session).await;
        assert_eq!(bench.recalled(&session).await, "agent: You said before:\n1. three", "{flags}");
    }
}

#[tokio::test]
async fn lost_session_without_fallback_is_an_error_until_the_agent_has_it() {
    let bench = Bench::new("");
    let session = bench.killed().await;
    let (memory, hidden) = (bench.memory(&session), bench.home.join("hidden"));
    fs::rename(&memory, &hidden).unwrap();
    let error = session.wake(bench.restore_or_refuse()).await.unwrap_err();
    assert_eq!(error.code().as_str(), "SESSION_NOT_RESTORED");
    assert_eq!(bench.lineage(&session).await, [(session_id(&session), LineageReason::Created)]);
    fs::rename(&hidden, &memory).unwrap();
    assert_eq!(session.wake(bench.restore_or_refuse()).await.unwrap(), RESUMED);
    assert_eq!(bench.recalled(&session).await, "agent: You said before:\n1. one\n2. two");
}

#[tokio::test]
async fn fresh_session_gets_the_conversation_on_request() {
    let bench = Bench::new("");
    let session = bench.killed().await;
    fs::remove_file(bench.memory(&session)).unwrap();
    let options = WakeOptions { fallback: Fallback::Auto, carry_history: true };
    session.wake(RestoreSession { options, ..bench.restore() }).await.unwrap();
    say(&session, "three").await;
    let recalled = bench.recalled(&session).await;
    assert!(recalled.contains("User: one\n\nYou: You said: one\n\nUser: two"), "{recalled}");
}
