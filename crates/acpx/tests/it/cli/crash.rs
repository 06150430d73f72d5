//! Hosts, agents and clients that are killed without warning, in the middle of their work.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use acpx_core::model::{RecordId, TurnId, TurnOutcome, TurnState};
use acpx_core::store::{Access, SqliteStore, Store};
use rustix::process::Signal;
use serde_json::json;

use crate::acpx::{Done, Place, eventually, kill_hard};

const KILLS: u64 = 50;

/// How the turns of a record stand, in one word each and in order.
fn turns(place: &Place, record: &str) -> Vec<&'static str> {
    let store = SqliteStore::open(&place.acpx_home().join("acpx.db"), Access::ReadOnly).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let record = RecordId::new(record).unwrap();
    let mut words = Vec::new();
    while let Some(turn) =
        runtime.block_on(store.turn_numbered(record.clone(), TurnId(words.len() as u64 + 1))).unwrap()
    {
        words.push(match turn.state {
            TurnState::Queued => "queued",
            TurnState::Dispatched { .. } => "dispatched",
            TurnState::Interrupted { .. } => "interrupted",
            TurnState::Ended { outcome: TurnOutcome::Stopped(_), .. } => "ended",
            TurnState::Ended { outcome: TurnOutcome::Failed(_), .. } => "failed",
        });
    }
    words
}

/// A place with a session of `demo`, and its record.
fn begun() -> (Place, String) {
    let place = Place::new();
    let record = place.json(&["demo", "sessions", "new"])["acpxRecordId"].as_str().unwrap().to_owned();
    (place, record)
}

#[test]
fn prompt_queued_at_a_host_crash_is_reported_and_survives_its_cancel() {
    let (place, _) = begun();
    let mut running = place.start(&["demo", "wait"]);
    running.wait_for("Waiting until cancelled.");
    place.ok(&["demo", "--no-wait", "later"]);
    // Whoever asked would ask the next host.
    running.signal(Signal::KILL);
    running.done();
    kill_hard(place.host_pid());
    let status = place.until("the agent is dead", |status| status.get("pid").is_none());
    let summary =
        "the turn that ran was interrupted; the next prompt restores the session and runs what waits first";
    assert_eq!((&status["summary"], &status["queued"]), (&json!(summary), &json!(1)));
    let text = place.ok(&["demo", "status"]);
    assert!(text.contains("; the next prompt runs what waits first\n"), "{text}");
    let cut = "wait\nWaiting until cancelled. [interrupted]\n";
    assert_eq!(place.ok(&["--format", "quiet", "demo", "sessions", "history"]), cut);
    assert_eq!(place.ok(&["demo", "cancel"]), "cancel requested\n");
    place.until("nothing waits", |status| status["queued"] == 0);
    let history = place.ok(&["--format", "quiet", "demo", "sessions", "history"]);
    assert_eq!(history, format!("{cut}[not sent] later\n"));
    let replay = place.ok(&["demo", "sessions", "replay"]);
    assert!(replay.ends_with("\n[user, turn 2] later\n\n[done] cancelled\n"), "{replay}");
}

#[test]
fn turn_of_a_killed_host_is_reported_as_interrupted_and_blocks_nothing() {
    let (place, _) = begun();
    let mut running = place.start(&["demo", "wait"]);
    running.wait_for("Waiting until cancelled.");
    running.signal(Signal::KILL);
    running.done();
    kill_hard(place.host_pid());
    let left = place.until("the agent is dead", |status| status.get("pid").is_none());
    let members = |status: &serde_json::Value| {
        (
            status["interruptedTurn"]["number"].clone(),
            status.get("waitingFor").cloned(),
            status.get("turn").cloned(),
        )
    };
    assert_eq!(members(&left), (json!(1), None, None));
    // The next host has looked at it, and nothing has run since.
    place.ok(&["demo", "cancel"]);
    assert_eq!(members(&place.json(&["demo", "status"])), (json!(1), None, None));
    let text = place.ok(&["demo", "status"]);
    assert!(text.contains("\ninterrupted: 1 ("), "{text}");
    let history = place.ok(&["--format", "quiet", "demo", "sessions", "history"]);
    assert_eq!(history, "wait\nWaiting until cancelled. [interrupted]\n");
    place.ok(&["demo", "go on"]);
    assert_eq!(members(&place.json(&["demo", "status"])).0, json!(null));
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "processes are found by what Linux shows of them")]
fn repeated_kills_in_mid_turn_lose_no_acknowledged_turn_and_no_process() {
    let (place, record) = begun();
    let mut expected = Vec::new();
    for round in 0..KILLS {
        let words = format!("round {round}");
        assert_eq!(place.ok(&["--format", "quiet", "demo", &words]), format!("You said: {words}\n"));
        expected.push("ended");
        let mut running = place.start(&["demo", &format!("{words} wait")]);
        running.wait_for("Waiting until cancelled.");
        place.ok(&["demo", "--no-wait", &format!("{words} later")]);
        let processes = place.processes();
        assert!(processes.len() >= 3, "a client, a host and an agent: {processes:?}");
        // The host goes first: one that lives to see its agent die makes another story of it.
        kill_hard(place.host_pid());
        processes.into_iter().for_each(kill_hard);
        running.done();
        eventually("all are gone", || place.processes().is_empty());
        let after = [&expected[..], &["dispatched", "queued"]].concat();
        assert_eq!(turns(&place, &record), after, "after kill {round}");
        // A process has lost its environment a moment before it is dead.
        let status = place.until("the agent is dead", |status| status.get("pid").is_none());
        assert_eq!(status["queued"], 1, "{status}");
        expected.extend(["interrupted", "ended"]);
    }
    assert_eq!(place.ok(&["--format", "quiet", "demo", "the end"]), "You said: the end\n");
    expected.push("ended");
    assert_eq!(turns(&place, &record), expected);
    let history = place.ok(&["--format", "quiet", "demo", "sessions", "history", "--limit", "1000"]);
    for round in 0..KILLS {
        for said in [format!("You said: round {round}\n"), format!("You said: round {round} later\n")] {
            assert_eq!(history.matches(&said).count(), 1, "{said}");
        }
    }
    let shown = place.json(&["demo", "sessions", "show"]);
    assert_eq!(shown["acpxRecordId"], json!(record));
    assert_eq!(shown["lineage"].as_array().unwrap().len(), 1, "{shown}");
}

#[test]
fn host_killed_in_mid_turn_interrupts_it_and_the_queue_continues() {
    let (place, record) = begun();
    place.ok(&["demo", "one"]);
    let mut running = place.start(&["--format", "json", "demo", "two wait"]);
    running.wait_for("Waiting until cancelled.");
    place.ok(&["demo", "--no-wait", "three"]);
    place.ok(&["demo", "--no-wait", "four"]);
    kill_hard(place.host_pid());
    let lost = running.done();
    let result = lost.lines().pop().unwrap();
    let seen = (&result["status"], &result["error"]["data"]["detailCode"], lost.code);
    assert_eq!(seen, (&json!("interrupted"), &json!("INTERRUPTED"), Some(1)), "{lost:?}");
    assert!(result["error"]["data"]["hint"].is_string(), "{result}");
    // Whoever asked has come to the next host, which has said in the store what became of the turn.
    let status = place.json(&["demo", "status"]);
    assert_eq!((&status["queued"], &status["interruptedTurn"]["number"]), (&json!(2), &json!(2)), "{status}");
    let text = place.ok(&["demo", "status"]);
    assert!(text.contains("\ninterrupted: 2 (") && text.contains("\nqueued: 2, "), "{text}");
    let recalled = place.ok(&["demo", "recall"]);
    assert!(recalled.ends_with("1. one\n2. two wait\n3. three\n4. four\n\n[done] end_turn\n"), "{recalled}");
    assert_eq!(turns(&place, &record), ["ended", "interrupted", "ended", "ended", "ended"]);
}

#[test]
fn prompt_running_on_the_next_host_is_followed_to_its_end() {
    let (place, record) = begun();
    let mut running = place.start(&["demo", "first wait"]);
    running.wait_for("Waiting until cancelled.");
    let mut second = place.start(&["--format", "json", "demo", "second wait"]);
    place.until("one waits", |status| status["queued"] == 1);
    // It does not see that its host is gone before somebody else has come to the next one.
    second.signal(Signal::STOP);
    kill_hard(place.host_pid());
    assert_eq!(running.done().code, Some(1));
    let third = place.start(&["--format", "quiet", "demo", "third"]);
    eventually("the second is at work", || turns(&place, &record).get(1) == Some(&"dispatched"));
    second.signal(Signal::CONT);
    second.wait_for("Waiting until cancelled.");
    place.ok(&["demo", "cancel"]);
    let heard = second.done().lines().pop().unwrap();
    assert_eq!(heard["stopReason"], "cancelled", "{heard}");
    assert_eq!(third.done().out, "You said: third\n");
    assert_eq!(turns(&place, &record), ["interrupted", "ended", "ended"]);
}

#[test]
fn client_of_a_queued_prompt_gets_its_answer_despite_host_kill() {
    let (place, record) = begun();
    let mut running = place.start(&["demo", "first wait"]);
    running.wait_for("Waiting until cancelled.");
    let second = place.start(&["--format", "quiet", "demo", "second"]);
    place.until("one waits", |status| status["queued"] == 1);
    let third = place.start(&["--format", "quiet", "demo", "third"]);
    place.until("two wait", |status| status["queued"] == 2);
    kill_hard(place.host_pid());
    assert_eq!(running.done().code, Some(1));
    for (started, words) in [(second, "second"), (third, "third")] {
        let done = started.done().without_tokens();
        assert_eq!((done.out, done.err, done.code), (format!("You said: {words}\n"), String::new(), Some(0)));
    }
    assert_eq!(turns(&place, &record), ["interrupted", "ended", "ended"]);
}

#[test]
fn a_queued_prompt_of_a_dead_host_can_be_cancelled() {
    let (place, record) = begun();
    let mut running = place.start(&["demo", "one wait"]);
    running.wait_for("Waiting until cancelled.");
    place.ok(&["demo", "--no-wait", "two"]);
    kill_hard(place.host_pid());
    running.done();
    assert_eq!(place.ok(&["demo", "cancel"]), "cancel requested\n");
    place.until("nothing waits", |status| status["queued"] == 0);
    assert!(!place.ok(&["demo", "recall"]).contains("two"));
    assert_eq!(turns(&place, &record), ["interrupted", "ended", "ended"]);
}

#[test]
fn an_agent_killed_between_two_prompts_is_brought_back_and_remembers() {
    let (place, _) = begun();
    place.ok(&["demo", "My name is Ada."]);
    for _ in 0..3 {
        let status = place.json(&["demo", "status"]);
        kill_hard(u32::try_from(status["pid"].as_u64().unwrap()).unwrap());
        let said = place.ok(&["demo", "recall"]);
        assert!(said.contains("1. My name is Ada."), "{said}");
    }
}

#[test]
fn prompt_that_meets_a_stopping_host_is_sent_again_silently() {
    let (place, record) = begun();
    let answered = AtomicUsize::new(0);
    let done: Vec<Done> = thread::scope(|scope| {
        let prompters = [0, 1, 2].map(|prompter| {
            let (place, answered) = (&place, &answered);
            scope.spawn(move || {
                let prompt = |round: usize| {
                    let words = format!("round {round} of {prompter}");
                    let done = place.acpx(&["--format", "json", "demo", &words]);
                    answered.fetch_add(1, Ordering::Relaxed);
                    done
                };
                (0..20).map(prompt).collect::<Vec<_>>()
            })
        });
        // As soon as one prompt is answered, the host is told to go, whatever the others are at.
        let mut seen = 0;
        while prompters.iter().any(|prompter| !prompter.is_finished()) {
            if answered.load(Ordering::Relaxed) > seen {
                seen = answered.load(Ordering::Relaxed);
                place.acpx(&["host", "stop"]);
            }
            thread::yield_now();
        }
        prompters.into_iter().flat_map(|prompter| prompter.join().unwrap()).collect()
    });
    let mut words: Vec<&str> = done
        .iter()
        .map(|done| match done.lines().last().unwrap()["status"].as_str() {
            Some("completed") => "ended",
            // Only a turn that the agent had been told of may be lost with its host.
            Some("interrupted") => "interrupted",
            _ => panic!("{done:?}"),
        })
        .collect();
    let mut kept = turns(&place, &record);
    words.sort_unstable();
    kept.sort_unstable();
    assert_eq!(kept, words);
    assert!(words.contains(&"ended"), "no prompt came through");
}

#[test]
fn a_prompt_that_meets_a_session_being_parked_is_answered() {
    let (place, record) = begun();
    for round in 0..30 {
        let words = format!("round {round}");
        let said = place.ok(&["--ttl", "0.001", "--format", "quiet", "demo", &words]);
        assert_eq!(said, format!("You said: {words}\n"));
    }
    assert_eq!(turns(&place, &record), ["ended"; 30]);
}

#[test]
fn idle_host_exits_by_itself() {
    let (place, _) = begun();
    place.ok(&["--ttl", "0.001", "demo", "one"]);
    // Asking it would keep it: its lock says when it has left.
    let lock = place.acpx_home().join("host.lock");
    eventually("the host has left", || std::fs::read(&lock).unwrap().is_empty());
    eventually("its process is gone", || place.processes().is_empty());
    assert!(place.ok(&["demo", "recall"]).contains("1. one"));
}

#[test]
fn killed_client_leaves_its_turn_running_in_the_record() {
    let (place, record) = begun();
    let mut running = place.start(&["demo", "one wait"]);
    running.wait_for("Waiting until cancelled.");
    drop(running);
    let status = place.json(&["demo", "status"]);
    assert_eq!((&status["status"], &status["turn"]["number"]), (&json!("alive"), &json!(1)), "{status}");
    assert_eq!(place.ok(&["demo", "cancel"]), "cancel requested\n");
    assert!(place.ok(&["demo", "recall"]).contains("1. one wait"));
    assert_eq!(turns(&place, &record), ["ended", "ended"]);
}

#[test]
fn killed_exec_leaves_no_agent_process() {
    let place = Place::new();
    let mut running = place.start(&["demo", "exec", "wait"]);
    running.wait_for("Waiting until cancelled.");
    drop(running);
    eventually("its agent is gone", || place.processes().is_empty());
}

#[test]
fn status_is_dead_only_while_the_agents_program_cannot_be_started() {
    let place = Place::new();
    let program = place.path_of("agent");
    let link = || std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_acpx"), &program).unwrap();
    link();
    let argv = json!({ "argv": [program.to_str().unwrap(), "demo-agent"] });
    place.configure(&json!({ "agents": { "mine": argv } }).to_string());
    let status = || place.json(&["mine", "status"])["status"].clone();
    place.ok(&["mine", "sessions", "new"]);
    place.acpx(&["mine", "crash"]);
    assert_eq!(status(), "idle", "an agent that ended is started again");
    std::fs::remove_file(&program).unwrap();
    assert_eq!(status(), "dead");
    assert_eq!(place.acpx(&["mine", "hello"]).code, Some(1));
    link();
    assert_eq!(status(), "idle");
    place.ok(&["mine", "hello"]);
    assert_eq!(status(), "alive");
}
