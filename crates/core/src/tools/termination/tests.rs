//! Ending simulated processes.

use std::cell::RefCell;

use tokio::time::Instant;

use super::*;

const GRACE: GracePeriods = GracePeriods { eof: Duration::from_secs(5), term: Duration::from_secs(7) };

/// Ends a process that reacts to each signal as `on` does; returns the signals, the outcome and the duration.
async fn ended(on: impl Fn(Signal, &watch::Sender<Phase>)) -> (Vec<Signal>, TerminationOutcome, Duration) {
    let (told, mut phase) = watch::channel(Phase::Running);
    let signals = RefCell::new(Vec::new());
    let begun = Instant::now();
    let signal = |signal| {
        signals.borrow_mut().push(signal);
        on(signal, &told);
    };
    let ended = end(&mut phase, signal, GRACE).await;
    (signals.into_inner(), ended, begun.elapsed())
}

fn exit() -> ProcessExit {
    ProcessExit::from(Ok(ExitStatus::from_raw(9)))
}

#[tokio::test(start_paused = true)]
async fn a_process_that_not_even_kill_ends_is_waited_for_in_bounded_time_and_told_to_be_left() {
    let limit = GRACE.eof + GRACE.term * 2 + SLACK;
    assert_eq!(ended(|_, _| ()).await, (vec![Signal::TERM, Signal::KILL], TerminationOutcome::Left, limit));
}

#[tokio::test(start_paused = true)]
async fn a_group_that_is_never_heard_of_again_is_waited_for_in_bounded_time_and_told_to_be_left() {
    let exits = |_, told: &watch::Sender<Phase>| drop(told.send_replace(Phase::Exited(exit())));
    let limit = GRACE.eof + (GRACE.term + SLACK) * 2;
    assert_eq!(ended(exits).await, (vec![Signal::TERM], TerminationOutcome::Left, limit));
}

#[tokio::test(start_paused = true)]
async fn what_goes_when_it_is_killed_is_gone_and_nobody_waits_longer() {
    let on = |signal, told: &watch::Sender<Phase>| {
        if signal == Signal::KILL {
            told.send_replace(Phase::Over(exit(), TerminationOutcome::Gone));
        }
    };
    let time = GRACE.eof + GRACE.term;
    assert_eq!(ended(on).await, (vec![Signal::TERM, Signal::KILL], TerminationOutcome::Gone, time));
}

#[test]
fn an_agent_that_would_not_go_is_kept_as_such_and_not_as_one_that_was_asked() {
    assert_eq!(AgentEnd::from(TerminationOutcome::Gone), AgentEnd::Asked);
    assert_eq!(AgentEnd::from(TerminationOutcome::Left).words(), "it was killed and would not go");
}
