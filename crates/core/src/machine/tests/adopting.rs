//! Adopting a session of the agent that has no record: restored as it is, or not at all.

use super::*;

fn wake() -> Input {
    Input::Wake(WakeOptions::default())
}

#[test]
fn adopted_replay_becomes_history_and_the_restore_creates_the_record() {
    let mut machine = adopting();
    let effects = feed(&mut machine, [wake(), ready_after(0, ALL)]);
    assert_eq!(effects, [Effect::Call(AgentCall::Load), Effect::Arm(Deadline::Setup)]);
    // Agent messages without a prompt are kept too: there is nothing to compare them with.
    for (kind, text) in
        [(MessageKind::Agent, "welcome"), (MessageKind::User, "two"), (MessageKind::Agent, "2")]
    {
        let effects = feed(&mut machine, [chunk(kind, text)]);
        assert_eq!(effects, [Effect::PersistUpdate(Arc::from(text)), Effect::Arm(Deadline::Setup)]);
    }
    let effects = feed(&mut machine, [Input::SessionRestored { agent_session: None }]);
    let rung = Rung::Load;
    let expected = [
        Effect::SaveLineage(Lineage::adopted(session("theirs"), at(5))),
        Effect::Fact(Fact::Restored { by: "session/load".into(), replay: None }),
        Effect::ReplyWake(Ok(WakeOutcome::Restored { rung, replay: None })),
        Effect::Arm(Deadline::Idle),
    ];
    assert_eq!(effects, expected);
    assert!(machine.progress.is_prompted);
}

#[test]
fn adoption_resumes_without_load_and_sends_nothing_without_both() {
    let mut machine = adopting();
    let effects = feed(&mut machine, [wake(), ready_after(0, RESUME)]);
    assert_eq!(effects, [Effect::Call(AgentCall::Resume), Effect::Arm(Deadline::Setup)]);
    let mut machine = adopting();
    let effects = feed(&mut machine, [wake(), ready_after(0, REPLAY)]);
    assert_eq!(effects, [Effect::Call(AgentCall::Replay), Effect::Arm(Deadline::Setup)]);
    let mut machine = adopting();
    let effects = feed(&mut machine, [wake(), ready_after(0, NONE)]);
    assert!(
        matches!(effects[..], [Effect::Disarm, Effect::ReplyWake(Err(_)), Effect::StopAgent(None)]),
        "{effects:?}"
    );
}

#[test]
fn adoption_of_an_unknown_session_never_creates_a_fresh_one() {
    let mut machine = adopting();
    feed(&mut machine, [wake(), ready_after(0, ALL)]);
    let effects = feed(&mut machine, [refused(ErrorMeaning::Lost)]);
    assert_eq!(effects, [Effect::Call(AgentCall::Resume), Effect::Arm(Deadline::Setup)]);
    let effects = feed(&mut machine, [refused(ErrorMeaning::Lost)]);
    let error = AgentError::NotRestored {
        agent: "a".into(),
        session: session("theirs"),
        reason: "agent-lost".into(),
        cause: Some(Box::new(RestoreError::new(&refusal(ErrorMeaning::Lost), at(1000)))),
    };
    assert_eq!(
        effects,
        [Effect::Disarm, Effect::ReplyWake(Err(WakeError::Agent(error))), Effect::StopAgent(None)]
    );
}
