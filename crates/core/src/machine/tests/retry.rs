//! A prompt that its user lets acpx send again after an internal error of the agent.

use std::time::Duration;

use super::cases::{calls, ended};
use super::*;
use crate::model::PromptRetry;

/// The prompts that are sent.
fn sent(effects: &[Effect]) -> Vec<u64> {
    let prompts = calls(effects).into_iter().filter_map(|call| match call {
        AgentCall::Prompt { turn, .. } => Some(turn.0),
        _ => None,
    });
    prompts.collect()
}

fn due(seconds: u64) -> Input {
    Input::Deadline(Deadline::Retry(Duration::from_secs(seconds)))
}

#[test]
fn a_prompt_is_retried_after_growing_delays_and_then_fails() {
    let mut machine = live(ALL);
    feed(&mut machine, [retried("p", 6)]);
    for (attempt, seconds) in [(1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (6, 10)] {
        let effects = feed(&mut machine, [internal_error()]);
        let retry = PromptRetry { attempt, of: 6, delay_ms: seconds * 1000, reason: "no".to_owned() };
        let expected = [
            Effect::Fact(Fact::PromptResent { turn: 2, retry: Some(retry) }),
            Effect::Arm(Deadline::Retry(Duration::from_secs(seconds))),
        ];
        assert_eq!(effects, expected);
        // It is one turn: dispatched and started once.
        let effects = feed(&mut machine, [due(seconds)]);
        assert!(
            matches!(effects[..], [Effect::Disarm, Effect::Call(AgentCall::Prompt { .. })]),
            "{effects:#?}"
        );
    }
    let effects = feed(&mut machine, [internal_error()]);
    assert!(matches!(ended(&effects)[..], [(2, TurnOutcome::Failed(_))]), "{effects:#?}");
}

#[test]
fn the_deadline_of_a_retry_outlives_requests_of_other_clients() {
    let mut machine = live(ALL);
    feed(&mut machine, [retried("p", 1), internal_error()]);
    let answered = Input::ForwardAnswered { id: ForwardId(1), answer: Ok(Arc::from("{}")) };
    let effects = feed(&mut machine, [pass(1), answered]);
    assert!(!effects.contains(&Effect::Arm(Deadline::Idle)), "{effects:#?}");
    assert_eq!(feed(&mut machine, [Input::Deadline(Deadline::Idle)]), []);
    assert_eq!(sent(&feed(&mut machine, [due(1)])), [2]);
}

#[test]
fn a_prompt_is_retried_only_untouched_and_after_an_internal_error() {
    let other = Input::PromptAnswered(Err(refusal(ErrorMeaning::Broken)));
    let heard = chunk(MessageKind::Agent, "first");
    let cases = [
        vec![retried("p", 1), other],
        vec![prompt("p"), internal_error()],
        vec![retried("p", 1), heard, internal_error()],
        vec![retried("p", 1), Input::PromptInserted, internal_error()],
        vec![retried("p", 1), Input::Cancel(None), internal_error()],
    ];
    for inputs in cases {
        let mut machine = live(ALL);
        let effects = feed(&mut machine, inputs.clone());
        assert_eq!((ended(&effects).len(), sent(&effects)), (1, vec![]), "{inputs:?}");
        assert_eq!(feed(&mut machine, [due(1)]), [], "{inputs:?}");
    }
}

#[test]
fn a_prompt_that_waits_for_its_retry_holds_the_queue() {
    let waiting = || awaiting_retry(vec![prompt("q")]);
    // A later prompt waits behind it, and the agent is not parked.
    let mut machine = waiting();
    assert_eq!(sent(&feed(&mut machine, [prompt("r")])), [0; 0]);
    assert_eq!(feed(&mut machine, [Input::Park]), [Effect::ReplyPark(false)]);
    assert_eq!(sent(&feed(&mut machine, [due(1)])), [2]);
    let cancelled = TurnOutcome::Stopped(StopReason::cancelled());
    let mut machine = waiting();
    let effects = feed(&mut machine, [Input::Cancel(None)]);
    assert_eq!((ended(&effects), sent(&effects)), (vec![(2, &cancelled)], vec![3]));
    for input in [chunk(MessageKind::Agent, "late"), state(AgentState::Working)] {
        let effects = feed(&mut waiting(), [input.clone()]);
        assert!(matches!(ended(&effects)[..], [(2, TurnOutcome::Failed(_))]), "{input:?} {effects:#?}");
    }
    let mut machine = waiting();
    let effects = feed(&mut machine, [Input::AgentExited(died())]);
    assert!(matches!(ended(&effects)[..], [(2, TurnOutcome::Failed(_))]), "{effects:#?}");
    assert!(effects.contains(&Effect::StartAgent), "{effects:#?}");
    let effects = feed(&mut waiting(), [Input::HostStopping]);
    assert!(
        sent(&effects).is_empty()
            && effects.iter().any(|effect| matches!(effect, Effect::TurnEnded(turn) if turn.id.0 == 2))
    );
}

#[test]
fn a_prompt_beyond_its_queue_depth_is_refused() {
    let deep = |request: &str, depth: usize| {
        let Input::Prompt { request, prompt, policy, options, .. } = prompt(request) else {
            panic!("a prompt")
        };
        let limits = TurnLimits { queue_depth: Some(depth), ..TurnLimits::default() };
        Input::Prompt { request, prompt, policy, options, limits }
    };
    for mut machine in [live(ALL), kept(1)] {
        for request in ["p", "q"] {
            let effects = feed(&mut machine, [deep(request, 1)]);
            assert!(effects.iter().any(|effect| matches!(effect, Effect::TurnAccepted(..))), "{effects:#?}");
        }
        let refused =
            Effect::TurnRefused(RequestId::new("r").unwrap(), PromptRefusal::QueueFull { limit: 1 });
        assert_eq!(feed(&mut machine, [deep("r", 1)]), [refused]);
    }
}
