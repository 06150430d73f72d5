//! What a session waits for in every state.

use super::table::states;
use super::*;

#[test]
fn every_state_in_which_something_is_waited_for_says_what() {
    let said = |machine: &SessionMachine| match machine.wait_condition() {
        None => "-".to_owned(),
        Some(WaitCondition::AgentStart) => "start".to_owned(),
        Some(WaitCondition::LoadTime) => "the time to load".to_owned(),
        Some(WaitCondition::Answer(method)) => method.into_string(),
        Some(WaitCondition::TurnEnd) => "turn's end".to_owned(),
        Some(WaitCondition::PendingRequests { open, .. }) => format!("{open} answer"),
        Some(WaitCondition::AgentExit) => "end".to_owned(),
    };
    let found: Vec<_> = states().iter().map(|(name, machine)| format!("{name}: {}", said(machine))).collect();
    let expected = [
        "parked: -",
        "starting: start",
        "starting, a request waits: start",
        "looking: session/list",
        "waiting to load: the time to load",
        "creating: session/new",
        "adopting: session/load",
        "forking: session/fork",
        "resuming: session/resume",
        "loading: session/load",
        "replaying: session/resume",
        "resuming, the agent works: session/resume",
        "falling back: session/new",
        "settling: session/set_mode",
        "idle: -",
        "idle, a mode wished: -",
        "idle, a request out: session/set_mode",
        "idle, a replay owed: -",
        "prompting, a replay owed: session/prompt",
        "prompting, text held: session/prompt",
        "prompting: session/prompt",
        "prompting, a request out: session/prompt",
        "prompting, the client asked: 1 answer",
        "prompting, asked, to fail unasked: 1 answer",
        "prompting, asked, to wait: 1 answer",
        "prompting, the agent has it: turn's end",
        "prompting, the agent works: turn's end",
        "prompting, idle before its answer: session/prompt",
        "idle, with work in the background: -",
        "a turn of the agent's own: turn's end",
        "prompting, one queued: session/prompt",
        "cancelling: session/cancel",
        "prompting, with limits: session/prompt",
        "prompting, one with limits queued: session/prompt",
        "out of time: session/cancel",
        "prompting, with a limit of cost: session/prompt",
        "waiting to retry, one queued: -",
        "closing: session/close",
        "closing over a turn: session/close",
        "deleting: session/delete",
        "ending to park: end",
        "ending to wake: end",
        "ending to close: end",
        "closed: -",
    ];
    assert_eq!(found, expected);
}
