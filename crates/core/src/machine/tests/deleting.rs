//! Deleting closes the session first, in every state.

use super::*;

fn deleted() -> Effect {
    Effect::SaveLifecycle(Lifecycle::Deleted { at: at(1000) })
}

#[test]
fn session_delete_follows_close_and_the_agents_exit_deletes_the_record() {
    let mut machine = live(ALL);
    let effects = feed(&mut machine, [Input::Delete]);
    assert_eq!(effects, [Effect::Call(AgentCall::Close), Effect::Arm(Deadline::Close)]);
    let effects = feed(&mut machine, [Input::CloseAnswered]);
    assert_eq!(effects, [Effect::Call(AgentCall::Delete), Effect::Arm(Deadline::Close)]);
    assert_eq!(feed(&mut machine, [Input::CloseAnswered]), []);
    assert_eq!(feed(&mut machine, [Input::DeleteAnswered]), [Effect::Disarm, Effect::StopAgent(None)]);
    assert!(!machine.is_deleted());
    let effects = feed(&mut machine, [Input::AgentStopped]);
    assert_eq!(effects, [Effect::Fact(Fact::Closed {}), deleted(), Effect::ReplyClose]);
    assert!(machine.is_deleted());
}

#[test]
fn a_delete_that_meets_a_close_or_an_end_still_deletes() {
    let wake = || Input::Wake(WakeOptions::default());
    let under_way = [
        ("closing", vec![Input::Close, Input::Delete, Input::CloseAnswered, Input::DeleteAnswered]),
        ("closing, unanswered", vec![Input::Close, Input::Delete, Input::Deadline(Deadline::Close)]),
        ("deleting, unanswered", vec![Input::Delete, Input::CloseAnswered, Input::Deadline(Deadline::Close)]),
        ("parking", vec![Input::Park, Input::Delete]),
        ("waking again", vec![Input::Park, wake(), Input::Delete]),
        ("closed meanwhile", vec![Input::Delete, Input::Close, Input::CloseAnswered, Input::DeleteAnswered]),
    ];
    for (name, inputs) in under_way {
        let mut machine = live(ALL);
        feed(&mut machine, inputs);
        let effects = feed(&mut machine, [Input::AgentStopped]);
        assert_eq!(effects.get(1), Some(&deleted()), "{name}: {effects:?}");
    }
    for inputs in [vec![Input::Delete], vec![Input::Delete, Input::CloseAnswered]] {
        let mut machine = live(ALL);
        feed(&mut machine, inputs);
        let effects = feed(&mut machine, [Input::AgentExited(died())]);
        assert_eq!(effects.get(1), Some(&deleted()), "{effects:?}");
    }
}

#[test]
fn a_close_deletes_nothing() {
    let mut machine = live(ALL);
    feed(&mut machine, [Input::Close, Input::CloseAnswered]);
    let closed = Effect::SaveLifecycle(Lifecycle::Closed { at: at(1000) });
    assert_eq!(feed(&mut machine, [Input::AgentStopped]).get(1), Some(&closed));
}
