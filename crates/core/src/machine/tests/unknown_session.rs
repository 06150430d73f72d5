//! An agent that runs but has lost the session: it is restarted, the session restored, and the request sent once more.
//! And a record that returns to an earlier session.

use super::cases::{awakenings, calls, ended};
use super::*;

fn unknown() -> Input {
    Input::PromptAnswered(Err(refusal(ErrorMeaning::Lost)))
}

fn restored() -> Input {
    Input::SessionRestored { agent_session: None }
}

/// A live session whose agent refused a prompt because it had lost the session.
fn refused_prompt() -> (SessionMachine, Vec<Effect>) {
    let mut machine = live(ALL);
    feed(&mut machine, [prompt("p")]);
    let effects = feed(&mut machine, [unknown()]);
    (machine, effects)
}

#[test]
fn a_prompt_for_an_unknown_session_is_resent_after_a_restore() {
    let (mut machine, effects) = refused_prompt();
    let how = "it no longer had the session and was ended";
    let expected =
        [Effect::Fact(Fact::AgentEnded { how: how.into() }), Effect::Disarm, Effect::StopAgent(Some(how))];
    assert_eq!(effects, expected);
    let effects = feed(&mut machine, [Input::AgentStopped]);
    assert_eq!(effects, [Effect::ReplyPark(true), Effect::StartAgent]);
    let effects = feed(&mut machine, [ready(ALL), restored()]);
    let sent = effects
        .iter()
        .position(|effect| matches!(effect, Effect::Call(AgentCall::Prompt { turn, .. }) if turn.0 == 2));
    let resent = effects
        .iter()
        .position(|effect| *effect == Effect::Fact(Fact::PromptResent { turn: 2, retry: None }));
    assert!(resent < sent && resent.is_some(), "{effects:#?}");
    // It is one turn: saved as dispatched once, and started once.
    let is_again =
        |effect: &Effect| matches!(effect, Effect::SaveTurn(_) | Effect::Fact(Fact::TurnStarted { .. }));
    assert!(!effects.iter().any(is_again), "{effects:#?}");
    let effects = feed(&mut machine, [Input::PromptAnswered(Ok(StopReason::new("end_turn").into()))]);
    assert_eq!(ended(&effects), [(2, &TurnOutcome::Stopped(StopReason::new("end_turn")))]);
}

#[test]
fn a_prompt_is_resent_after_the_death_of_the_agents_worker() {
    let died = Input::PromptAnswered(Err(refusal(ErrorMeaning::WorkerDied)));
    let mut machine = live(LOAD);
    feed(&mut machine, [prompt("p"), died, Input::AgentStopped]);
    let effects = feed(&mut machine, [ready(LOAD), restored()]);
    assert!(effects.contains(&Effect::Fact(Fact::PromptResent { turn: 2, retry: None })), "{effects:#?}");

    // A worker that dies during the restore proves no loss: the record keeps its session.
    feed(&mut machine, [unknown(), Input::AgentStopped, prompt("q")]);
    let effects = feed(&mut machine, [ready(LOAD), refused(ErrorMeaning::WorkerDied)]);
    assert!(
        matches!(ended(&effects)[..], [(3, TurnOutcome::Failed(error))] if error.code.as_str() == "SESSION_NOT_RESTORED"),
        "{effects:#?}"
    );
}

#[test]
fn an_agent_that_cannot_restore_keeps_its_session_after_its_worker_died() {
    let mut machine = kept(1);
    let fresh = Input::SessionCreated { session: session("s2"), agent_session: None };
    feed(&mut machine, [Input::Wake(WakeOptions::default()), ready(NONE), fresh]);
    let died = Input::PromptAnswered(Err(refusal(ErrorMeaning::WorkerDied)));
    let effects = feed(&mut machine, [prompt("p"), died]);
    assert!(matches!(ended(&effects)[..], [(2, TurnOutcome::Failed(_))]), "{effects:#?}");
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::StopAgent(_))), "{effects:#?}");
}

#[test]
fn a_prompt_is_resent_only_once() {
    let (mut machine, _) = refused_prompt();
    feed(&mut machine, [Input::AgentStopped, ready(ALL), restored()]);
    let effects = feed(&mut machine, [unknown()]);
    assert!(matches!(ended(&effects)[..], [(2, TurnOutcome::Failed(_))]), "{effects:#?}");
    assert!(effects.contains(&Effect::StopAgent(Some("it no longer had the session and was ended"))));
    // The next prompt has an attempt of its own.
    let effects = feed(&mut machine, [Input::AgentStopped, prompt("q"), ready(ALL), restored(), unknown()]);
    assert_eq!(ended(&effects), []);
}

#[test]
fn a_prompt_is_not_resent_once_anything_of_its_turn_arrived() {
    for arrived in [
        chunk(MessageKind::Agent, "text"),
        chunk(MessageKind::User, "two"),
        permission("edit"),
        Input::OtherRequest { id: request_id() },
        Input::Update { update: Update::Unknown, body: Arc::from("{}") },
        state(AgentState::Working),
    ] {
        let mut machine = live(ALL);
        let effects = feed(&mut machine, [prompt("p"), arrived.clone(), unknown()]);
        assert!(matches!(ended(&effects)[..], [(2, TurnOutcome::Failed(_))]), "{arrived:?}: {effects:#?}");
        // The process does not have the session, so the next prompt restores it.
        let effects = feed(&mut machine, [Input::AgentStopped, prompt("q")]);
        assert!(effects.contains(&Effect::StartAgent), "{effects:#?}");
    }
    let mut cancelled = live(ALL);
    let effects = feed(&mut cancelled, [prompt("p"), Input::Cancel(None), unknown()]);
    assert_eq!(ended(&effects), [(2, &TurnOutcome::Stopped(StopReason::cancelled()))]);
}

#[test]
fn a_resent_prompt_can_be_cancelled_and_fails_if_the_restore_does() {
    let (mut machine, _) = refused_prompt();
    let effects = feed(&mut machine, [Input::Cancel(None)]);
    assert_eq!(ended(&effects), [(2, &TurnOutcome::Stopped(StopReason::cancelled()))]);
    let (mut machine, _) = refused_prompt();
    let effects = feed(&mut machine, [Input::AgentStopped, ready(LOAD), refused(ErrorMeaning::Broken)]);
    assert!(
        matches!(ended(&effects)[..], [(2, TurnOutcome::Failed(error))] if error.code.as_str() == "SESSION_NOT_RESTORED"),
        "{effects:#?}"
    );
}

#[test]
fn a_setting_for_an_unknown_session_is_resent_once_after_a_restore() {
    let unknown = || Input::ForwardAnswered { id: ForwardId(1), answer: Err(refusal(ErrorMeaning::Lost)) };
    let mut machine = live(ALL);
    feed(&mut machine, [pass_mode(1, "plan"), unknown()]);
    let effects = feed(&mut machine, [Input::AgentStopped, ready(ALL), restored()]);
    assert!(
        matches!(
            calls(&effects)[..],
            [AgentCall::Forward(ForwardedRequest { id: ForwardId(1), is_resent: true, .. })]
        ),
        "{effects:#?}"
    );
    let effects = feed(&mut machine, [unknown()]);
    assert!(
        matches!(effects[0], Effect::ReplyForward(ForwardId(1), Err(ForwardError::Agent(_)))),
        "{effects:#?}"
    );
}

#[test]
fn a_failed_restore_is_stored_until_a_restore_succeeds() {
    let mut machine = kept(1);
    let effects =
        feed(&mut machine, [Input::Wake(WakeOptions::default()), ready(LOAD), refused(ErrorMeaning::Broken)]);
    let error = RestoreError::new(&refusal(ErrorMeaning::Broken), at(1000));
    assert!(effects.contains(&Effect::SaveRestoreError(Some(error))), "{effects:#?}");
    let again = [Input::AgentStopped, Input::Wake(WakeOptions::default()), ready(LOAD), restored()];
    let effects = feed(&mut machine, again);
    assert!(effects.contains(&Effect::SaveRestoreError(None)), "{effects:#?}");
}

#[test]
fn a_fallback_copies_the_failed_restore_into_lineage_and_fact() {
    let mut machine = kept(1);
    let opened = Input::SessionCreated { session: session("s2"), agent_session: None };
    let effects = feed(
        &mut machine,
        [Input::Wake(WakeOptions::default()), ready(LOAD), refused(ErrorMeaning::Lost), opened],
    );
    let error = Some(RestoreError::new(&refusal(ErrorMeaning::Lost), at(1000)));
    assert_eq!(machine.lineage().unwrap().current().error, error);
    let is_reset = |effect: &Effect| matches!(effect, Effect::Fact(Fact::SessionReset { error: told, .. }) if *told == error);
    assert!(effects.iter().any(is_reset), "{effects:#?}");
}

#[test]
fn only_a_session_created_here_without_a_prompt_is_replaced_silently() {
    let announced = |machine: &mut SessionMachine, exchanges: u64| {
        let opened = Input::SessionCreated { session: session("s2"), agent_session: None };
        let effects =
            feed(machine, [Input::Wake(WakeOptions::default()), ready_after(exchanges, NONE), opened]);
        match awakenings(&effects)[..] {
            [Ok(WakeOutcome::Fresh { announced, .. })] => announced,
            ref other => panic!("no fresh session: {other:?}"),
        }
    };
    assert!(!announced(&mut kept(0), 0));
    assert!(announced(&mut kept(1), 1));
    let first = |lineage| SessionMachine { lineage: Some(lineage), ..kept(0) };
    assert!(announced(&mut first(Lineage::imported(session("s1"), None, at(1))), 0));
    assert!(announced(&mut first(Lineage::adopted(session("s1"), at(1))), 0));
    // Neither is a session that npm acpx began after the one that was imported.
    let mut lineage = Lineage::imported(session("s0"), None, at(1));
    lineage.replace(session("s1"), None, LineageReason::NotMaterialised, at(2));
    assert!(announced(&mut first(lineage), 0));
}

/// A stored record that has lost its first session.
fn with_two_sessions() -> SessionMachine {
    let mut machine = kept(1);
    let lineage = machine.lineage.as_mut().unwrap();
    lineage.replace(session("s2"), None, LineageReason::LoadFailed, at(7));
    machine
}

#[test]
fn a_record_returns_to_an_earlier_session_once_it_is_restored() {
    let mut machine = with_two_sessions();
    let effects = feed(&mut machine, [Input::Return(session("s1"))]);
    assert_eq!(effects, [Effect::StartAgent]);
    assert_eq!(machine.target_session(), Some(&session("s1")));
    let effects = feed(&mut machine, [ready(LOAD), restored()]);
    let rows: Vec<_> =
        machine.lineage().unwrap().rows().iter().map(|row| (row.session.as_str(), row.reason)).collect();
    let expected =
        [("s1", LineageReason::Created), ("s2", LineageReason::LoadFailed), ("s1", LineageReason::Returned)];
    assert_eq!(rows, expected);
    assert_eq!(machine.lineage().unwrap().current().agent_session, AgentSessionId::from_agent("inner"));
    assert_eq!(awakenings(&effects), [Ok(WakeOutcome::Returned)]);
    let returned = Fact::SessionReturned {
        from_acpx_session_id: "s2".into(),
        acpx_session_id: "s1".into(),
        agent_session_id: Some("inner".into()),
    };
    assert!(effects.contains(&Effect::Fact(returned)), "{effects:#?}");
}

#[test]
fn failed_return_leaves_the_record_unchanged() {
    let mut machine = with_two_sessions();
    let before = machine.lineage().cloned();
    let effects =
        feed(&mut machine, [Input::Return(session("s1")), ready(LOAD), refused(ErrorMeaning::Lost)]);
    assert_eq!(awakenings(&effects), [Err("SESSION_NOT_RESTORED")]);
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::SaveRestoreError(_))), "{effects:#?}");
    assert_eq!(machine.lineage().cloned(), before);
    assert_eq!(machine.target_session(), Some(&session("s2")));
}

#[test]
fn return_is_refused_during_a_turn_and_for_foreign_sessions() {
    let mut busy = live(ALL);
    feed(&mut busy, [prompt("p")]);
    assert_eq!(busy.return_refusal(&session("s1")), Some(WakeError::Busy));
    assert_eq!(feed(&mut busy, [Input::Return(session("s1"))]), []);
    let foreign = session("other");
    assert_eq!(kept(1).return_refusal(&foreign), Some(WakeError::UnknownSession(foreign.clone())));
    assert_eq!(kept(1).return_refusal(&session("s1")), None);
    // The current session is restored as by a wake.
    let effects = feed(&mut kept(1), [Input::Return(session("s1")), ready(LOAD), restored()]);
    assert_eq!(awakenings(&effects), [Ok(WakeOutcome::Restored { rung: Rung::Load, replay: None })]);
}

#[test]
fn an_update_after_the_refusal_keeps_a_prompt_from_being_resent() {
    let (mut machine, _) = refused_prompt();
    let effects = feed(&mut machine, [chunk(MessageKind::Agent, "late")]);
    assert!(matches!(ended(&effects)[..], [(2, TurnOutcome::Failed(_))]), "{effects:#?}");
    let effects = feed(&mut machine, [Input::AgentStopped, ready(ALL), restored()]);
    assert!(calls(&effects).is_empty(), "{effects:#?}");
}

/// A prompt with its own fallback.
fn prompt_with(request: &str, fallback: Fallback) -> Input {
    let Input::Prompt { request, prompt, policy, limits, .. } = prompt(request) else { panic!("a prompt") };
    let options = WakeOptions { fallback, carry_history: false };
    Input::Prompt { request, prompt, policy, options, limits }
}

#[test]
fn the_fallback_of_a_resent_request_holds_for_its_restore() {
    for (fallback, is_fresh) in [(Fallback::Always, true), (Fallback::Auto, false), (Fallback::Never, false)]
    {
        let mut machine = live(ALL);
        feed(&mut machine, [prompt_with("p", fallback), unknown(), Input::AgentStopped, ready(LOAD)]);
        let effects = feed(&mut machine, [refused(ErrorMeaning::Broken)]);
        assert_eq!(calls(&effects) == [&AgentCall::New], is_fresh, "{fallback:?}: {effects:#?}");
    }
    let Input::Forward(pass) = pass_mode(1, "plan") else { panic!("a request") };
    let options = WakeOptions { fallback: Fallback::Never, carry_history: false };
    let mut machine = live(ALL);
    let unknown = Input::ForwardAnswered { id: ForwardId(1), answer: Err(refusal(ErrorMeaning::Lost)) };
    feed(
        &mut machine,
        [Input::Forward(ForwardedRequest { options, ..pass }), unknown, Input::AgentStopped, ready(LOAD)],
    );
    let effects = feed(&mut machine, [refused(ErrorMeaning::Lost)]);
    assert!(calls(&effects).is_empty(), "{effects:#?}");
}

#[test]
fn any_request_that_does_not_find_the_session_ends_the_process() {
    let mut machine = live(ALL);
    let Input::Forward(pass) = pass(1) else { panic!("a request") };
    let unknown = Input::ForwardAnswered { id: ForwardId(1), answer: Err(refusal(ErrorMeaning::Lost)) };
    let effects =
        feed(&mut machine, [Input::Forward(ForwardedRequest { method: "_x/y".into(), ..pass }), unknown]);
    assert!(
        matches!(effects[0], Effect::ReplyForward(ForwardId(1), Err(ForwardError::Agent(_)))),
        "{effects:#?}"
    );
    assert!(!machine.is_live());
    // The next load restores the session.
    let effects = feed(&mut machine, [Input::AgentStopped, Input::Wake(WakeOptions::default())]);
    assert_eq!(effects, [Effect::StartAgent]);
}

#[test]
fn a_reset_waits_for_no_start_that_is_under_way() {
    let reset = || Input::Wake(WakeOptions { fallback: Fallback::Reset, carry_history: false });
    let mut starting = kept(1);
    feed(&mut starting, [Input::Wake(WakeOptions::default())]);
    assert_eq!(starting.reset_refusal(), Some(WakeError::Busy));
    assert_eq!(kept(1).reset_refusal(), None);
    // A reset in progress stays a reset, regardless of other clients' options.
    let never = WakeOptions { fallback: Fallback::Never, carry_history: false };
    let effects = feed(&mut kept(1), [reset(), Input::Wake(never), ready(ALL)]);
    assert_eq!(calls(&effects), [&AgentCall::New]);
}

#[test]
fn prompt_queued_during_a_failed_return_goes_to_the_current_session() {
    let mut machine = with_two_sessions();
    let back = [Input::Return(session("s1")), prompt("p"), ready(LOAD), refused(ErrorMeaning::Lost)];
    let effects = feed(&mut machine, back);
    assert_eq!(awakenings(&effects), [Err("SESSION_NOT_RESTORED")]);
    assert_eq!(ended(&effects), []);
    let effects = feed(&mut machine, [Input::AgentStopped, ready(LOAD), restored()]);
    assert!(matches!(calls(&effects)[..], [AgentCall::Prompt { turn: TurnId(2), .. }]), "{effects:#?}");
    assert_eq!(machine.target_session(), Some(&session("s2")));
}

#[test]
fn reset_during_a_return_makes_the_fresh_session_current() {
    let mut machine = with_two_sessions();
    let mut reset = prompt("p");
    if let Input::Prompt { options, .. } = &mut reset {
        options.fallback = Fallback::Reset;
    }
    let fresh = Input::SessionCreated { session: session("s3"), agent_session: None };
    feed(&mut machine, [Input::Return(session("s1")), reset, ready(ALL), fresh]);
    assert_eq!(machine.target_session(), Some(&session("s3")));
}

#[test]
fn a_host_that_stops_interrupts_a_prompt_that_waits_to_be_resent() {
    let (mut machine, _) = refused_prompt();
    let effects = feed(&mut machine, [Input::HostStopping]);
    let is_interrupted = |effect: &Effect| matches!(effect, Effect::TurnEnded(turn) if matches!(turn.state, TurnState::Interrupted { .. }));
    assert!(effects.iter().any(is_interrupted), "{effects:#?}");
}
