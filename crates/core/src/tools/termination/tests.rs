//! Ending simulated processes.

use std::cell::RefCell;

use tokio::time::Instant;

use super::*;

const GRACE: GracePeriods = GracePeriods { eof: Duration::from_secs(5), term: Duration::from_secs(7) };

/// Ends a process that reacts to each signal as `on` does; returns the signals, the outcome and the duration.
async fn ended(on: impl Fn(Signal, &watch::Sender<Phase>)) -> (Vec<Signal>, TerminationOutcome, Duration) {
    let (phase_sender, mut phase) = watch::channel(Phase::Running);
    let signals = RefCell::new(Vec::new());
    let begun = Instant::now();
    let signal = |signal| {
        signals.borrow_mut().push(signal);
        on(signal, &phase_sender);
    };
    let ended = end(&mut phase, signal, GRACE).await;
    (signals.into_inner(), ended, begun.elapsed())
}

fn exit() -> ProcessExit {
    ProcessExit::from(Ok(ExitStatus::from_raw(9)))
}

#[tokio::test(start_paused = true)]
async fn process_that_survives_kill_is_left_after_bounded_time() {
    let limit = GRACE.eof + GRACE.term * 2 + SLACK;
    assert_eq!(ended(|_, _| ()).await, (vec![Signal::TERM, Signal::KILL], TerminationOutcome::Left, limit));
}

#[tokio::test(start_paused = true)]
async fn process_group_without_an_end_is_left_after_bounded_time() {
    let exits =
        |_, phase_sender: &watch::Sender<Phase>| drop(phase_sender.send_replace(Phase::Exited(exit())));
    let limit = GRACE.eof + (GRACE.term + SLACK) * 2;
    assert_eq!(ended(exits).await, (vec![Signal::TERM], TerminationOutcome::Left, limit));
}

#[tokio::test(start_paused = true)]
async fn termination_ends_when_the_killed_process_is_gone() {
    let on = |signal, phase_sender: &watch::Sender<Phase>| {
        if signal == Signal::KILL {
            phase_sender.send_replace(Phase::Over(exit(), TerminationOutcome::Gone));
        }
    };
    let time = GRACE.eof + GRACE.term;
    assert_eq!(ended(on).await, (vec![Signal::TERM, Signal::KILL], TerminationOutcome::Gone, time));
}

#[test]
fn agent_that_survives_kill_has_its_own_end() {
    assert_eq!(AgentEnd::from(TerminationOutcome::Gone), AgentEnd::Asked);
    assert_eq!(AgentEnd::from(TerminationOutcome::Left).words(), "it survived SIGKILL");
}
