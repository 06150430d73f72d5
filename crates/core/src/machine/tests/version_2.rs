//! Version 2 agents, and forwarded requests: cases that a table of single inputs does not cover.

use super::*;
use crate::machine::forward::MAX_FORWARDS;

fn idle(reason: &str) -> Input {
    state(AgentState::Idle(Some(Ok(StopReason::new(reason).into()))))
}

fn over(effects: &[Effect]) -> Vec<(u64, String)> {
    let over = |effect: &Effect| match effect {
        Effect::TurnEnded(Turn { id, state: TurnState::Ended { outcome, .. }, .. }) => Some((
            id.0,
            match outcome {
                TurnOutcome::Stopped(reason) => reason.as_str().to_owned(),
                TurnOutcome::Failed(error) => error.code.to_string(),
            },
        )),
        _ => None,
    };
    effects.iter().filter_map(over).collect()
}

#[test]
fn work_that_goes_on_after_an_idle_takes_the_idle_back() {
    let mut machine = live(ALL);
    let worked = [prompt("p"), state(AgentState::Working), idle("end_turn"), state(AgentState::Working)];
    assert_eq!(over(&feed(&mut machine, worked.into_iter().chain([Input::PromptInserted]))), []);
    assert_eq!(over(&feed(&mut machine, [idle("refusal")])), [(2, "refusal".to_owned())]);
}

#[test]
fn cancelled_turn_ends_as_cancelled_with_any_idle_report() {
    for last in [state(AgentState::Idle(None)), state(AgentState::Idle(Some(Err(died())))), idle("cancelled")]
    {
        let mut machine = live(ALL);
        let effects = feed(&mut machine, [prompt("p"), Input::PromptInserted, Input::Cancel(None), last]);
        assert_eq!(over(&effects), [(2, "cancelled".to_owned())]);
    }
}

#[test]
fn agents_own_turn_is_saved_before_its_line_and_queues_prompts() {
    let mut machine = live(ALL);
    let effects = feed(&mut machine, [state(AgentState::Working)]);
    assert!(
        matches!(&effects[..], [
        Effect::Disarm,
        Effect::SaveTurn(turn),
        Effect::Fact(Fact::TurnStarted { turn: 2, .. }),
        Effect::PersistUpdate(_),
    ] if turn.policy == PermissionMode::Ask.into() && turn.request.as_str() == "own"),
        "{effects:?}"
    );
    let effects = feed(&mut machine, [prompt("p")]);
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::Call(_))), "{effects:?}");
    let effects = feed(&mut machine, [state(AgentState::Idle(None))]);
    assert_eq!(over(&effects), [(2, "end_turn".to_owned())]);
    assert!(
        matches!(effects.last(), Some(Effect::Call(AgentCall::Prompt { turn: TurnId(3), .. }))),
        "{effects:?}"
    );
}

#[test]
fn agent_idle_before_the_session_is_live_gets_no_turn() {
    let mut machine = kept(1);
    let resumed = [Input::Wake(WakeOptions::default()), ready(REPLAY), state(AgentState::Working)];
    feed(&mut machine, resumed);
    feed(&mut machine, [state(AgentState::Idle(None)), Input::SessionRestored { agent_session: None }]);
    assert_eq!((machine.current_turn(), machine.is_live()), (None, true));
}

#[test]
fn background_work_delays_parking_until_it_ends() {
    let mut machine = live(ALL);
    let idle = || Input::Deadline(Deadline::Idle);
    let worked = [prompt("p"), Input::PromptInserted, state(AgentState::Working)];
    feed(&mut machine, worked);
    let effects =
        feed(&mut machine, [beside(AgentState::Idle(None)), idle(), beside(AgentState::Idle(None)), idle()]);
    assert!(!effects.contains(&Effect::StopAgent(None)) && machine.is_live(), "{effects:?}");
    assert_eq!(feed(&mut machine, [Input::Park]), [Effect::ReplyPark(false)]);
    let effects = feed(&mut machine, [state(AgentState::Idle(None))]);
    assert!(matches!(&effects[..], [Effect::Arm(Deadline::Idle), Effect::PersistUpdate(_)]), "{effects:?}");
    let effects = feed(&mut machine, [idle()]);
    assert!(effects.contains(&Effect::StopAgent(None)), "{effects:?}");
}

#[test]
fn requests_that_wait_for_the_session_are_so_long_together_at_most() {
    let mut machine = kept(1);
    let Input::Forward(long) = pass(0) else { panic!("a request") };
    let long = Input::Forward(ForwardedRequest { params: " ".repeat(64 << 20).into(), ..long });
    assert_eq!(feed(&mut machine, [long]), [Effect::StartAgent]);
    assert_eq!(
        feed(&mut machine, [pass(1)]),
        [Effect::ReplyForward(ForwardId(1), Err(ForwardError::TooMany))]
    );
    assert_eq!(feed(&mut machine, [Input::ForwardCancelled(ForwardId(0)), pass(2)]), []);
}

#[test]
fn requests_are_answered_once_and_so_many_at_most() {
    let mut machine = kept(1);
    let most = u64::try_from(MAX_FORWARDS).unwrap();
    for id in 0..most {
        let effects = feed(&mut machine, [pass(id)]);
        assert!(!effects.iter().any(|effect| matches!(effect, Effect::ReplyForward(..))), "{effects:?}");
    }
    assert_eq!(
        feed(&mut machine, [pass(most)]),
        [Effect::ReplyForward(ForwardId(most), Err(ForwardError::TooMany))]
    );
    let sent = feed(&mut machine, [ready(ALL), Input::SessionRestored { agent_session: None }]);
    assert_eq!(
        sent.iter().filter(|effect| matches!(effect, Effect::Call(AgentCall::Forward(_)))).count(),
        MAX_FORWARDS
    );
    let answer = |id| Input::ForwardAnswered { id: ForwardId(id), answer: Ok(Arc::from("{}")) };
    assert!(
        feed(&mut machine, [answer(0)]).contains(&Effect::ReplyForward(ForwardId(0), Ok(Arc::from("{}"))))
    );
    assert_eq!(feed(&mut machine, [answer(0)]), []);
    let gone = feed(&mut machine, [Input::AgentExited(died())]);
    assert_eq!(
        gone.iter().filter(|effect| matches!(effect, Effect::ReplyForward(_, Err(_)))).count(),
        MAX_FORWARDS - 1
    );
}

#[test]
fn forwarded_protocol_request_expires_and_an_abandoned_one_allows_parking() {
    let unanswered = |id| {
        let (agent, method) = ("a".to_owned(), "session/set_mode".to_owned());
        let error = AgentError::Unresponsive { agent, method };
        Effect::ReplyForward(ForwardId(id), Err(ForwardError::Agent(error)))
    };
    let idle = || Effect::Arm(Deadline::Idle);
    let withdraw = |id| Effect::Call(AgentCall::CancelForward(ForwardId(id)));
    let mut machine = live(ALL);
    assert!(feed(&mut machine, [pass(1)]).contains(&Effect::Arm(Deadline::Forward(ForwardId(1)))));
    assert_eq!(
        (machine.is_idle(), feed(&mut machine, [Input::Park])),
        (false, vec![Effect::ReplyPark(false)])
    );
    let overdue = feed(&mut machine, [Input::Deadline(Deadline::Forward(ForwardId(1)))]);
    assert_eq!(overdue, [withdraw(1), unanswered(1), idle()]);
    assert!(machine.is_idle());
    // A late response is ignored.
    let late = Input::ForwardAnswered { id: ForwardId(1), answer: Ok(Arc::from("{}")) };
    assert_eq!(feed(&mut machine, [late]), []);

    assert_eq!(feed(&mut machine, [pass(2), Input::ForwardCancelled(ForwardId(2))]), [withdraw(2), idle()]);
    assert_eq!((machine.is_idle(), machine.wait_condition()), (true, None));
    assert!(feed(&mut machine, [Input::Park]).contains(&Effect::StopAgent(None)));

    // Only the authors of an extension's method know how long it may take.
    let Input::Forward(other) = pass(3) else { panic!("a request") };
    let other = Input::Forward(ForwardedRequest { method: "_other/ask".into(), ..other });
    let effects = feed(&mut live(ALL), [other]);
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::Arm(Deadline::Forward(_)))), "{effects:?}");
}
