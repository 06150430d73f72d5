//! Turns that reach a limit, and agents that do not stop as they should.

use super::cases::{calls, ended};
use super::*;

fn overdue(turn: u64) -> Input {
    Input::Deadline(Deadline::Turn(TurnId(turn)))
}

fn failed(code: &str, message: &str) -> TurnOutcome {
    TurnOutcome::Failed(TurnError { code: code.into(), message: message.into(), acp: None })
}

fn answered(reason: &str) -> Input {
    Input::PromptAnswered(Ok(StopReason::new(reason).into()))
}

#[test]
fn turn_at_its_limit_is_cancelled_and_fails_with_any_answer() {
    let limits = [
        (
            overdue(2),
            failed("TIMEOUT", "the turn with the agent \"a\" took longer than 1 s and was cancelled"),
        ),
        (
            Input::Deadline(Deadline::Silence),
            failed("IDLE_TIMEOUT", "the agent \"a\" said nothing for 0.5 s and the turn was cancelled"),
        ),
    ];
    for (limit, outcome) in limits {
        let ways = [
            answered("cancelled"),
            answered("end_turn"),
            Input::PromptAnswered(Err(died())),
            Input::AgentExited(died()),
        ];
        for way in ways.into_iter().chain([Input::Deadline(Deadline::Cancel)]) {
            let mut machine = live(ALL);
            let stopped = feed(&mut machine, [limited("p"), limit.clone()]);
            assert_eq!(stopped, [Effect::Call(AgentCall::Cancel), Effect::Arm(Deadline::Cancel)]);
            // A second limit or a cancel by the client changes nothing.
            assert_eq!(feed(&mut machine, [overdue(2), Input::Cancel(None)]), []);
            let effects = feed(&mut machine, [way]);
            assert_eq!(ended(&effects), [(2, &outcome)]);
        }
    }
}

#[test]
fn queued_prompt_over_its_time_limit_is_never_sent() {
    let behind = "the prompt waited behind turn 2 until its time was over, and was not sent";
    let unready =
        "the prompt waited for the agent \"a\" to be ready until its time was over, and was not sent";
    for (mut machine, message) in [(live(ALL), behind), (kept(1), unready)] {
        let outcome = failed("QUEUE_TIMEOUT", message);
        feed(&mut machine, [prompt("p"), limited("q")]);
        let effects = feed(&mut machine, [overdue(3)]);
        assert_eq!((ended(&effects), calls(&effects)), (vec![(3, &outcome)], vec![]));
        assert_eq!(machine.next_queued().map(|turn| turn.id), (!machine.is_live()).then_some(TurnId(2)));
    }
}

#[test]
fn only_a_turn_with_a_limit_can_come_to_one() {
    let mut machine = live(ALL);
    feed(&mut machine, [prompt("p"), limited("q")]);
    let limited: Vec<_> = machine.limited_turns().map(|turn| turn.id).collect();
    assert_eq!(limited, [TurnId(3)]);
    assert_eq!(feed(&mut machine, [overdue(2), Input::Deadline(Deadline::Silence), overdue(4)]), []);
}

#[test]
fn cancelled_turn_ends_cancelled_before_the_next_prompt_is_sent() {
    for reason in ["cancelled", "end_turn", "refusal"] {
        let mut machine = live(ALL);
        let effects = feed(&mut machine, [prompt("p"), prompt("q"), Input::Cancel(None)]);
        assert_eq!(calls(&effects), [&AgentCall::Cancel]);
        // Further output of the agent causes no further calls.
        let said = feed(&mut machine, [chunk(MessageKind::Agent, "on and on"), state(AgentState::Working)]);
        assert_eq!(calls(&said), Vec::<&AgentCall>::new());
        let effects = feed(&mut machine, [answered(reason)]);
        assert_eq!(ended(&effects), [(2, &TurnOutcome::Stopped(StopReason::cancelled()))]);
        assert!(matches!(calls(&effects)[..], [AgentCall::Prompt { turn: TurnId(3), .. }]), "{effects:?}");
    }
}

#[test]
fn agent_that_ignores_cancel_is_stopped_and_restarted_for_the_queue() {
    let mut machine = live(ALL);
    feed(&mut machine, [prompt("p"), prompt("q"), Input::Cancel(None)]);
    let effects = feed(&mut machine, [Input::Deadline(Deadline::Cancel)]);
    assert_eq!(ended(&effects), [(2, &TurnOutcome::Stopped(StopReason::cancelled()))]);
    let how = "it did not answer session/cancel and was ended";
    assert!(effects.contains(&Effect::Fact(Fact::AgentEnded { how: how.to_owned() })));
    assert!(effects.contains(&Effect::StopAgent(Some(how))) && calls(&effects).is_empty(), "{effects:?}");
    assert_eq!(feed(&mut machine, [Input::AgentStopped]), [Effect::ReplyPark(true), Effect::StartAgent]);
}

#[test]
fn agent_that_needs_login_is_stopped_and_restarted_for_the_queue() {
    let wants_login = || Input::PromptAnswered(Err(refusal(ErrorMeaning::LoginNeeded)));
    let mut machine = live(ALL);
    feed(&mut machine, [prompt("p")]);
    let effects = feed(&mut machine, [wants_login()]);
    assert_eq!(effects[effects.len() - 2..], [Effect::Disarm, Effect::StopAgent(None)]);
    feed(&mut machine, [Input::AgentStopped]);
    assert!(feed(&mut machine, [prompt("q")]).contains(&Effect::StartAgent));

    let mut queued = live(ALL);
    feed(&mut queued, [prompt("p"), prompt("q")]);
    let effects = feed(&mut queued, [wants_login()]);
    assert!(effects.contains(&Effect::StopAgent(None)));
    assert_eq!(calls(&effects), [] as [&AgentCall; 0]);
    assert!(feed(&mut queued, [Input::AgentStopped]).contains(&Effect::StartAgent));
}
