//! Restore profiles: the delay before a load, and sessions that are not written yet.

use super::*;

fn wake() -> Input {
    Input::Wake(WakeOptions::default())
}

const UNWRITTEN: RestoreProfile = RestoreProfile {
    needs_prompt_before_load: true,
    wait_before_load: LoadWait::None,
    replays_on_resume: false,
    notes: Vec::new(),
};

/// A started agent with this profile, in a conversation without a prompt.
fn ready_before_any_prompt(profile: RestoreProfile) -> Input {
    let (exchanges, last_message_at, carried_history, on_resume) =
        (Vec::new(), None, None, OnResume::Nothing);
    Input::AgentReady { advertised: ALL, profile, exchanges, last_message_at, carried_history, on_resume }
}

#[test]
fn load_waits_for_the_next_minute_if_the_profile_says_so() {
    let mut machine = kept(1);
    let effects = feed(&mut machine, [wake(), ready_with(BY_THE_MINUTE, LOAD)]);
    let until = at(60_000);
    let waits = [Effect::Fact(Fact::LoadDelayed { until }), Effect::Arm(Deadline::Load(until))];
    assert_eq!(effects, waits);
    // A timer that fires early is armed again, and the delay is recorded only once.
    let effects = machine.handle(at(59_999), Input::Deadline(Deadline::Load(until)));
    assert_eq!(effects, [Effect::Arm(Deadline::Load(until))]);
    let effects = machine.handle(until, Input::Deadline(Deadline::Load(until)));
    assert_eq!(effects, [Effect::Call(AgentCall::Load), Effect::Arm(Deadline::Setup)]);

    let mut later = kept(1);
    later.handle(until, wake());
    let effects = later.handle(until, ready_with(BY_THE_MINUTE, LOAD));
    assert_eq!(effects, [Effect::Call(AgentCall::Load), Effect::Arm(Deadline::Setup)]);
}

#[test]
fn inputs_during_a_load_delay_act_as_during_a_restore() {
    let waiting = || {
        let mut machine = kept(1);
        feed(&mut machine, [wake(), ready_with(BY_THE_MINUTE, LOAD)]);
        machine
    };
    let effects = feed(&mut waiting(), [Input::Close]);
    let expected = [Effect::ReplyWake(Err(WakeError::Closing)), Effect::Disarm, Effect::StopAgent(None)];
    assert_eq!(effects, expected);
    let mut machine = waiting();
    feed(&mut machine, [prompt("p")]);
    let effects = feed(&mut machine, [Input::Cancel(None)]);
    assert!(
        matches!(effects[..], [Effect::SaveTurn(_), Effect::Fact(_), Effect::TurnEnded(_)]),
        "{effects:?}"
    );
    let effects = feed(&mut waiting(), [Input::AgentExited(died())]);
    let [Effect::Disarm, Effect::Fact(_), Effect::SaveRestoreError(Some(_)), Effect::ReplyWake(Err(_))] =
        &effects[..]
    else {
        panic!("{effects:?}")
    };
}

#[test]
fn unprompted_session_is_not_restored_if_the_agent_has_not_written_it() {
    let effects = feed(&mut kept(0), [wake(), ready_before_any_prompt(UNWRITTEN)]);
    assert_eq!(effects, [Effect::Call(AgentCall::New), Effect::Arm(Deadline::Setup)]);
    let effects = feed(&mut kept(0), [wake(), ready_before_any_prompt(RestoreProfile::default())]);
    assert_eq!(effects, [Effect::Call(AgentCall::Resume), Effect::Arm(Deadline::Setup)]);
    // With a prompt the session is written, even if the prompt was never answered; an adopted session was written
    // before.
    let effects = feed(&mut kept(1), [wake(), ready_with(UNWRITTEN, ALL)]);
    assert_eq!(effects, [Effect::Call(AgentCall::Resume), Effect::Arm(Deadline::Setup)]);
    let effects = feed(&mut adopting(), [wake(), ready_before_any_prompt(UNWRITTEN)]);
    assert_eq!(effects, [Effect::Call(AgentCall::Load), Effect::Arm(Deadline::Setup)]);
}

#[test]
fn late_replay_after_resume_is_recognised_only_by_the_profile() {
    let replaying = RestoreProfile { replays_on_resume: true, ..RestoreProfile::default() };
    let late = |profile| {
        let mut machine = kept(1);
        let inputs = [wake(), ready_with(profile, RESUME), Input::SessionRestored { agent_session: None }];
        feed(&mut machine, inputs);
        let user = feed(&mut machine, [chunk(MessageKind::User, "one")]);
        let agent = feed(&mut machine, [chunk(MessageKind::Agent, "first")]);
        [user, agent].concat()
    };
    let lines = ["one", "first"].map(Arc::from);
    let told = Effect::Fact(Fact::ReplayedLate { replay: ReplayVerdict::Same });
    let aside: Vec<_> = lines.clone().map(Effect::PersistReplay).into_iter().chain([told]).collect();
    assert_eq!(late(replaying), aside);
    assert_eq!(late(RestoreProfile::default()), lines.map(Effect::PersistUpdate));
}
