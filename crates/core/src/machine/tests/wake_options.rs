//! State of a single turn: its restore options, its pending requests and its permission counts. And when an idle agent
//! is parked.

use super::cases::{awakenings, calls, ended};
use super::*;

/// A prompt with a policy and restore options.
fn wishing(request: &str, policy: PermissionMode, fallback: Fallback) -> Input {
    let Input::Prompt { request, prompt, limits, .. } = prompt(request) else { panic!("a prompt") };
    let options = WakeOptions { fallback, carry_history: false };
    Input::Prompt { request, prompt, policy: policy.into(), options, limits }
}

fn asking(request: &str) -> Input {
    wishing(request, PermissionMode::Ask, Fallback::Auto)
}

fn permission(ask: &str) -> Input {
    Input::Permission {
        id: AgentRequestId(ask.into()),
        tool: ToolUse::default(),
        has_options: true,
        can_approve: true,
    }
}

fn advised(ask: &str, permit: Permit) -> Input {
    Input::RequestAnswered { id: AgentRequestId(ask.into()), permit }
}

fn chosen(option: &str, approves: bool) -> Permit {
    Permit::Choose { option: option.into(), approves, result: None }
}

fn answered(ask: &str, permit: Permit) -> Effect {
    Effect::AnswerRequest(AgentRequestId(ask.into()), permit)
}

fn end_turn() -> Input {
    Input::PromptAnswered(Ok(StopReason::new("end_turn").into()))
}

/// The permission counts of the ended turns.
fn counts(effects: &[Effect]) -> Vec<(u64, PermissionCount)> {
    let count = |effect: &Effect| match effect {
        Effect::TurnEnded(turn) => Some((turn.id.0, turn.permissions)),
        _ => None,
    };
    effects.iter().filter_map(count).collect()
}

#[test]
fn fallback_never_of_a_queued_prompt_survives_the_agents_exit() {
    let mut machine = live(LOAD);
    let careful = wishing("q", PermissionMode::DenyAll, Fallback::Never);
    feed(&mut machine, [prompt("p"), careful, Input::AgentExited(died())]);
    let effects = feed(&mut machine, [ready(LOAD), refused(ErrorMeaning::Lost)]);
    assert_eq!(awakenings(&effects), [Err("SESSION_NOT_RESTORED")]);
    let [(3, TurnOutcome::Failed(error))] = ended(&effects)[..] else { panic!("{effects:?}") };
    assert_eq!(error.code.as_str(), "SESSION_NOT_RESTORED");
    // The options do not apply to a later start.
    feed(&mut machine, [Input::AgentStopped, prompt("r")]);
    let effects = feed(&mut machine, [ready(LOAD), refused(ErrorMeaning::Lost)]);
    assert_eq!(calls(&effects), [&AgentCall::New]);
}

#[test]
fn wake_options_of_a_queued_prompt_apply_under_the_next_host() {
    let mut machine = live(LOAD);
    let Input::Prompt { request, prompt: blocks, policy, limits, .. } = prompt("q") else {
        panic!("a prompt")
    };
    let options = WakeOptions { fallback: Fallback::Never, carry_history: true };
    feed(&mut machine, [prompt("p")]);
    let effects = feed(&mut machine, [Input::Prompt { request, prompt: blocks, policy, options, limits }]);
    let Some(Effect::SaveTurn(waiting)) = effects.first() else { panic!("{effects:?}") };
    assert_eq!(waiting.wake_options, options);

    // The next wake has default options and does not inherit these.
    let mut machine = kept(1);
    feed(&mut machine, [Input::Recover(vec![waiting.clone()]), Input::Wake(WakeOptions::default())]);
    assert!(machine.carries_history());
    let effects = feed(&mut machine, [ready(LOAD), refused(ErrorMeaning::Lost)]);
    assert_eq!(awakenings(&effects), [Err("SESSION_NOT_RESTORED")]);
    let [(3, TurnOutcome::Failed(error))] = ended(&effects)[..] else { panic!("{effects:?}") };
    assert_eq!(error.code.as_str(), "SESSION_NOT_RESTORED");
}

#[test]
fn wake_options_of_a_cancelled_prompt_do_not_apply() {
    let mut machine = live(LOAD);
    let careful = wishing("q", PermissionMode::DenyAll, Fallback::Never);
    feed(&mut machine, [prompt("p"), careful, prompt("r"), Input::Cancel(Some(TurnId(3)))]);
    let effects = feed(&mut machine, [Input::AgentExited(died()), ready(LOAD), refused(ErrorMeaning::Lost)]);
    assert_eq!(calls(&effects), [&AgentCall::New]);
}

#[test]
fn idle_deadline_parks_the_agent_except_during_a_turn() {
    let mut machine = live(ALL);
    let idle = || Input::Deadline(Deadline::Idle);
    assert_eq!(feed(&mut machine, [prompt("p"), idle()]), []);
    let effects = feed(&mut machine, [end_turn()]);
    assert_eq!(effects.last(), Some(&Effect::Arm(Deadline::Idle)));
    assert_eq!(feed(&mut machine, [idle()]), [Effect::Disarm, Effect::StopAgent(None)]);
    assert_eq!(feed(&mut machine, [Input::AgentStopped]), [Effect::ReplyPark(true)]);
    assert_eq!(feed(&mut machine, [prompt("q")]).last(), Some(&Effect::StartAgent));
}

#[test]
fn no_idle_time_runs_while_something_waits_or_is_under_way() {
    let mut machine = kept(1);
    let mut armed = Vec::new();
    let inputs =
        [prompt("p"), prompt("q"), ready(RESUME), Input::SessionRestored { agent_session: None }, end_turn()];
    for input in inputs {
        armed.extend(feed(&mut machine, [input]));
    }
    assert!(!armed.contains(&Effect::Arm(Deadline::Idle)), "{armed:?}");
    assert!(feed(&mut machine, [end_turn()]).contains(&Effect::Arm(Deadline::Idle)));
}

#[test]
fn permission_request_is_routed_to_the_client_and_answered_once() {
    let mut machine = live(ALL);
    feed(&mut machine, [asking("p")]);
    assert_eq!(feed(&mut machine, [permission("a")]), [Effect::RouteRequest(AgentRequestId("a".into()))]);
    let yes = || advised("a", chosen("yes", true));
    assert_eq!(feed(&mut machine, [yes()]), [answered("a", chosen("yes", true))]);
    assert_eq!(feed(&mut machine, [yes()]), []);
    assert_eq!(feed(&mut machine, [advised("b", Permit::Approve)]), []);
}

#[test]
fn permission_answer_after_cancel_or_turn_end_grants_nothing() {
    let mut machine = live(ALL);
    let effects = feed(&mut machine, [asking("p"), permission("a"), Input::Cancel(None)]);
    let taken_back = answered("a", Permit::Cancelled);
    assert_eq!(effects, [Effect::Call(AgentCall::Cancel), taken_back.clone(), Effect::Arm(Deadline::Cancel)]);
    assert_eq!(feed(&mut machine, [advised("a", Permit::Approve)]), []);
    assert_eq!(feed(&mut machine, [permission("b")]), [answered("b", Permit::Cancelled)]);

    let mut machine = live(ALL);
    let effects = feed(&mut machine, [asking("p"), permission("a"), end_turn()]);
    assert_eq!(effects.first(), Some(&taken_back));
    assert_eq!(feed(&mut machine, [advised("a", Permit::Approve)]), []);
    // Not even if the next turn's request has the same id.
    feed(&mut machine, [asking("q")]);
    assert_eq!(feed(&mut machine, [advised("a", Permit::Approve)]), []);

    let mut machine = live(ALL);
    let effects = feed(&mut machine, [asking("p"), permission("a"), Input::Close]);
    assert_eq!(effects.first(), Some(&taken_back));
    assert_eq!(feed(&mut machine, [advised("a", Permit::Approve)]), []);
}

#[test]
fn permissions_are_counted_for_the_turn_they_were_given_in() {
    let mut machine = live(ALL);
    let inputs = [
        asking("p"),
        permission("a"),
        permission("b"),
        permission("c"),
        advised("a", chosen("yes", true)),
        advised("b", chosen("no", false)),
        advised("c", Permit::Reject),
        permission("d"),
        end_turn(),
    ];
    let effects = feed(&mut machine, inputs);
    // The last request had no answer, so it counts as neither.
    assert_eq!(counts(&effects), [(2, PermissionCount { approved: 1, rejected: 2 })]);
    let all = wishing("q", PermissionMode::ApproveAll, Fallback::Auto);
    let effects = feed(&mut machine, [all, permission("e"), end_turn()]);
    assert_eq!(counts(&effects), [(3, PermissionCount { approved: 1, rejected: 0 })]);
    // Outside a turn no client is asked, and nothing is counted.
    assert_eq!(feed(&mut machine, [permission("f")]), [answered("f", Permit::Reject)]);
    let effects = feed(&mut machine, [prompt("r"), end_turn()]);
    assert_eq!(counts(&effects), [(4, PermissionCount::default())]);
}
