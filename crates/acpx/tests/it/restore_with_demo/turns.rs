//! Turns that are allowed, cancelled or cut short, and what the session remembers of them.

use super::*;

#[tokio::test]
async fn permissions_are_answered_by_the_turns_own_policy() {
    let bench = Bench::new("");
    let session = bench.open().await;
    let table = [
        (PermissionMode::ApproveAll, "agent: The edit was made.\nYou said: permission"),
        (PermissionMode::ApproveReads, "agent: The edit was rejected.\nYou said: permission"),
        (PermissionMode::DenyAll, "agent: The edit was rejected.\nYou said: permission"),
    ];
    for (policy, answer) in table {
        let prompt = Prompt::text("permission").unwrap().with_policy(policy);
        let turn = session.prompt(prompt).await.unwrap().finished().await.unwrap();
        assert_eq!(stop_reason(&turn), "end_turn");
        assert_eq!(bench.said(&session).await.last().unwrap(), answer, "{policy:?}");
    }
}

#[tokio::test]
async fn waiting_turn_ends_when_cancelled_and_the_agent_stays() {
    let bench = Bench::new("");
    let session = bench.open().await;
    let pid = session.status().agent_pid;
    let waiting = session.prompt(Prompt::text("wait").unwrap()).await.unwrap();
    heard(&session, "Waiting until cancelled.").await;
    session.cancel(None).await.unwrap();
    assert_eq!(stop_reason(&waiting.finished().await.unwrap()), "cancelled");
    assert_eq!(bench.recalled(&session).await, "agent: You said before:\n1. wait");
    assert_eq!(session.status().agent_pid, pid);
}

#[tokio::test]
async fn a_cancelled_turn_is_remembered_and_a_load_finds_nothing_new() {
    let bench = Bench::new("--no-resume");
    let session = bench.open().await;
    say(&session, "one").await;
    let waiting = session.prompt(Prompt::text("wait").unwrap()).await.unwrap();
    heard(&session, "Waiting until cancelled.").await;
    session.cancel(None).await.unwrap();
    waiting.finished().await.unwrap();
    let said = bench.said(&session).await;
    kill(&session).await;
    assert_eq!(bench.wake(&session).await, loaded(ReplayVerdict::Same));
    assert_eq!(bench.said(&session).await, said);
}

#[tokio::test]
async fn agent_crash_in_mid_turn_is_reported_stored_and_restored_by_prompt() {
    for (flags, by) in [("", "session/resume"), ("--no-resume", "session/load")] {
        let bench = Bench::new(flags);
        let session = bench.open().await;
        say(&session, "one").await;
        let turn = say(&session, "crash").await;
        let TurnState::Ended { outcome: TurnOutcome::Failed(error), .. } = &turn.state else {
            panic!("the crash was not told: {turn:?}")
        };
        let text =
            r#"the agent "demo" died (exit code 70); it said: acpx demo-agent: the prompt asked for a crash"#;
        assert_eq!((error.code.as_str(), &*error.message), ("AGENT_DIED", text));
        // The demo agent keeps the prompt it died of, and not its answer. Ours has both.
        assert_eq!(bench.recalled(&session).await, "agent: You said before:\n1. one\n2. crash");
        let recall = ["user: recall".to_owned(), "agent: You said before:\n1. one\n2. crash".to_owned()];
        assert_eq!(bench.said(&session).await, [exchange("one"), exchange("crash"), recall].concat());
        let replay = (by == "session/load").then_some(ReplayVerdict::Same);
        assert!(bench.facts(&session).await.contains(&Fact::Restored { by: by.into(), replay }), "{flags}");
    }
}
