//! A session that the agent forks from another one.

use super::*;

fn wake() -> Input {
    Input::Wake(WakeOptions::default())
}

#[test]
fn a_fork_continues_the_lineage_and_turns_of_its_original() {
    let mut machine = forking();
    let effects = feed(&mut machine, [wake(), ready_after(0, ALL)]);
    assert_eq!(effects, [Effect::Call(AgentCall::Fork), Effect::Arm(Deadline::Setup)]);
    let mut lineage = machine.lineage().unwrap().clone();
    let from = lineage.current().session.to_string();
    let effects =
        feed(&mut machine, [Input::SessionCreated { session: session("fork"), agent_session: None }]);
    lineage.replace(session("fork"), None, LineageReason::Forked, at(1000));
    let fact = Fact::SessionReset {
        reason: "forked".into(),
        from_acpx_session_id: from,
        acpx_session_id: "fork".into(),
        agent_session_id: None,
        announced: false,
        carried: None,
        error: None,
    };
    let expected = [
        Effect::SaveLineage(lineage),
        Effect::Fact(fact),
        Effect::ReplyWake(Ok(WakeOutcome::Forked)),
        Effect::Arm(Deadline::Idle),
    ];
    assert_eq!(effects, expected);
    // Its loss would be announced.
    assert!(machine.progress.is_prompted);
}

#[test]
fn a_fork_that_the_agent_refuses_is_no_session() {
    let mut machine = forking();
    feed(&mut machine, [wake(), ready_after(0, ALL)]);
    let effects = feed(&mut machine, [refused(ErrorMeaning::Lost)]);
    assert!(
        matches!(effects[..], [Effect::Disarm, Effect::ReplyWake(Err(_)), Effect::StopAgent(None)]),
        "{effects:?}"
    );
}
