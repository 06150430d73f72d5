//! Permission requests that no client can answer, by the policy of their turn.

use super::super::state::PromptTurn;
use super::cases::ended;
use super::*;
use crate::model::ToolPolicy;

/// A turn with this policy whose agent requested permission to edit.
fn asked(policy: PermissionPolicy) -> (SessionMachine, Vec<Effect>) {
    let mut machine = live(ALL);
    let Input::Prompt { request, prompt, options, limits, .. } = prompt("p") else { panic!("a prompt") };
    feed(&mut machine, [Input::Prompt { request, prompt, policy, options, limits }]);
    let effects = feed(&mut machine, [permission("edit")]);
    (machine, effects)
}

fn unasked(unasked: UnattendedPolicy) -> PermissionPolicy {
    PermissionPolicy { unasked, ..PermissionPolicy::default() }
}

fn no_responder() -> TurnOutcome {
    TurnOutcome::Failed(TurnError::from(&AgentError::NoResponder { agent: "a".into(), what: "edit".into() }))
}

fn answer(permit: Permit) -> Effect {
    Effect::AnswerRequest(request_id(), permit)
}

fn end_turn() -> Input {
    Input::PromptAnswered(Ok(StopReason::new("end_turn").into()))
}

/// Ends the turn and returns its permission counts.
fn counted_at_the_end(machine: &mut SessionMachine) -> Option<PermissionCount> {
    feed(machine, [end_turn()]).iter().find_map(|effect| match effect {
        Effect::TurnEnded(turn) => Some(turn.permissions),
        _ => None,
    })
}

#[test]
fn unanswerable_permission_is_denied_fails_the_turn_or_stays_pending() {
    let (mut machine, effects) = asked(unasked(UnattendedPolicy::Deny));
    assert_eq!(effects, [Effect::RouteRequest(request_id())]);
    let nobody = || Input::RequestUnanswerable { id: request_id(), summary: "edit".into() };
    assert_eq!(feed(&mut machine, [nobody()]), [answer(Permit::Reject)]);

    let (mut machine, _) = asked(unasked(UnattendedPolicy::Fail));
    let cancel = Effect::Call(AgentCall::Cancel);
    let arm = Effect::Arm(Deadline::Cancel);
    assert_eq!(feed(&mut machine, [nobody()]), [cancel, answer(Permit::Cancelled), arm]);
    // The turn has failed regardless of the agent's response, and nothing more is granted in it.
    let more = feed(&mut machine, [permission("edit")]);
    assert_eq!(more, [answer(Permit::Cancelled)]);
    let over = feed(&mut machine, [end_turn()]);
    assert_eq!(ended(&over), [(2, &no_responder())]);

    let (mut machine, _) = asked(unasked(UnattendedPolicy::Wait));
    assert_eq!(feed(&mut machine, [nobody()]), []);
    let advised = Input::RequestAnswered { id: request_id(), permit: Permit::Approve };
    assert_eq!(feed(&mut machine, [advised]), [answer(Permit::Approve)]);
}

#[test]
fn unanswerable_elicitation_is_declined_unless_the_policy_waits() {
    let elicited = |policy| {
        let (mut machine, _) = asked(policy);
        feed(&mut machine, [Input::RequestAnswered { id: request_id(), permit: Permit::Approve }]);
        assert_eq!(
            feed(&mut machine, [Input::Elicitation { id: request_id() }]),
            [Effect::RouteRequest(request_id())]
        );
        feed(&mut machine, [Input::RequestUnanswerable { id: request_id(), summary: String::new() }])
    };
    for rule in [UnattendedPolicy::Deny, UnattendedPolicy::Fail] {
        assert_eq!(elicited(unasked(rule)), [answer(Permit::Declined)]);
    }
    assert_eq!(elicited(unasked(UnattendedPolicy::Wait)), []);
}

#[test]
fn turn_without_a_permission_answer_fails_with_any_stop_reason() {
    for end in [Input::AgentExited(died()), Input::Deadline(Deadline::Cancel)] {
        let (mut machine, _) = asked(unasked(UnattendedPolicy::Fail));
        feed(&mut machine, [Input::RequestUnanswerable { id: request_id(), summary: "edit".into() }]);
        let over = feed(&mut machine, [end.clone()]);
        assert_eq!(ended(&over), [(2, &no_responder())], "{end:?}");
    }
}

#[test]
fn unanswerable_escalated_permission_is_rejected_with_its_rule() {
    let tools = ToolPolicy::parse(r#"{"escalate":["edit"]}"#).unwrap();
    for mode in [PermissionMode::ApproveAll, PermissionMode::DenyAll] {
        let policy =
            PermissionPolicy { mode, tools: Some(Arc::new(tools.clone())), unasked: UnattendedPolicy::Fail };
        let (mut machine, effects) = asked(policy);
        assert_eq!(effects, [Effect::RouteRequest(request_id())]);
        let effects =
            feed(&mut machine, [Input::RequestUnanswerable { id: request_id(), summary: "edit".into() }]);
        assert_eq!(effects, [answer(Permit::Escalated("edit".into()))]);
        assert_eq!(counted_at_the_end(&mut machine), Some(PermissionCount { approved: 0, rejected: 1 }));
    }
}

#[test]
fn a_permission_without_options_is_cancelled_and_counts_as_nothing() {
    let mut machine = live(ALL);
    feed(&mut machine, [prompt("p")]);
    let bare = Input::Permission {
        id: request_id(),
        tool: ToolUse::default(),
        has_options: false,
        can_approve: false,
    };
    assert_eq!(feed(&mut machine, [bare]), [answer(Permit::Cancelled)]);
}

#[test]
fn approved_permission_without_an_approving_option_counts_as_rejected() {
    let mut machine = live(ALL);
    let Input::Prompt { request, prompt, options, limits, .. } = prompt("p") else { panic!("a prompt") };
    let policy = PermissionMode::ApproveAll.into();
    feed(&mut machine, [Input::Prompt { request, prompt, policy, options, limits }]);
    let unsure = Input::Permission {
        id: request_id(),
        tool: ToolUse::default(),
        has_options: true,
        can_approve: false,
    };
    assert_eq!(feed(&mut machine, [unsure]), [answer(Permit::Reject)]);
    assert_eq!(counted_at_the_end(&mut machine), Some(PermissionCount { approved: 0, rejected: 1 }));
}

#[test]
fn unanswerable_read_permission_needs_an_approving_option() {
    for (can_approve, permit, approved, rejected) in
        [(true, Permit::Approve, 1, 0), (false, Permit::Reject, 0, 1)]
    {
        let mut machine = live(ALL);
        let Input::Prompt { request, prompt, options, limits, .. } = prompt("p") else { panic!("a prompt") };
        let policy = PermissionMode::Ask.into();
        feed(&mut machine, [Input::Prompt { request, prompt, policy, options, limits }]);
        let read =
            Input::Permission { id: request_id(), tool: of_kind("read"), has_options: true, can_approve };
        assert_eq!(feed(&mut machine, [read]), [Effect::RouteRequest(request_id())]);
        assert_eq!(
            feed(&mut machine, [Input::RequestUnanswerable { id: request_id(), summary: "read".into() }]),
            [answer(permit)]
        );
        assert_eq!(counted_at_the_end(&mut machine), Some(PermissionCount { approved, rejected }));
    }
}

#[test]
fn an_answer_that_comes_after_its_turn_grants_nothing() {
    let (mut machine, _) = asked(unasked(UnattendedPolicy::Wait));
    feed(&mut machine, [end_turn()]);
    for late in [
        Input::RequestAnswered { id: request_id(), permit: Permit::Approve },
        Input::RequestUnanswerable { id: request_id(), summary: "edit".into() },
    ] {
        assert_eq!(feed(&mut machine, [late]), []);
    }
}

#[test]
fn permission_requests_beyond_the_bound_of_open_ones_are_rejected_at_once() {
    let (mut machine, _) = asked(unasked(UnattendedPolicy::Wait));
    let tool = |n: usize| {
        let Input::Permission { tool, has_options, can_approve, .. } = permission("edit") else { panic!() };
        Input::Permission { id: AgentRequestId(format!("{n}").into()), tool, has_options, can_approve }
    };
    for n in 1..PromptTurn::MAX_PENDING {
        feed(&mut machine, [tool(n)]);
    }
    assert!(
        matches!(machine.wait_condition(), Some(WaitCondition::PendingRequests { first, open: PromptTurn::MAX_PENDING }) if first == request_id())
    );
    let over = AgentRequestId("over".into());
    let Input::Permission { tool, has_options, can_approve, .. } = tool(0) else { panic!() };
    let more = Input::Permission { id: over.clone(), tool, has_options, can_approve };
    assert_eq!(feed(&mut machine, [more]), [Effect::AnswerRequest(over.clone(), Permit::Reject)]);
    let form = Input::Elicitation { id: over.clone() };
    assert_eq!(feed(&mut machine, [form]), [Effect::AnswerRequest(over, Permit::Declined)]);
}
