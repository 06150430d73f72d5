//! The hard cases, one by one.

use super::*;
use crate::machine::turn::MAX_QUEUED;

pub(super) fn calls(effects: &[Effect]) -> Vec<&AgentCall> {
    effects
        .iter()
        .filter_map(|effect| if let Effect::Call(call) = effect { Some(call) } else { None })
        .collect()
}

pub(super) fn awakenings(effects: &[Effect]) -> Vec<Result<WakeOutcome, &'static str>> {
    let text = |code| ErrorCode::ALL.iter().find(|known| **known == code).unwrap().as_str();
    let awakening = |effect: &Effect| match effect {
        Effect::ReplyWake(Ok(how)) => Some(Ok(*how)),
        Effect::ReplyWake(Err(WakeError::Agent(error))) => Some(Err(text(error.code()))),
        Effect::ReplyWake(Err(WakeError::Closing)) => Some(Err("closing")),
        Effect::ReplyWake(Err(WakeError::Busy)) => Some(Err("busy")),
        Effect::ReplyWake(Err(WakeError::UnknownSession(_))) => Some(Err("unknown session")),
        _ => None,
    };
    effects.iter().filter_map(awakening).collect()
}

fn stored_lines(effects: &[Effect]) -> Vec<&str> {
    effects
        .iter()
        .filter_map(|effect| if let Effect::PersistUpdate(body) = effect { Some(&**body) } else { None })
        .collect()
}

pub(super) fn ended(effects: &[Effect]) -> Vec<(u64, &TurnOutcome)> {
    let mut list = Vec::new();
    for effect in effects {
        if let Effect::TurnEnded(Turn { id, state: TurnState::Ended { outcome, .. }, .. }) = effect {
            list.push((id.0, outcome));
        }
    }
    list
}

fn wake(fallback: Fallback) -> Input {
    Input::Wake(WakeOptions { fallback, carry_history: false })
}

/// One descent of the restore ladder: the capabilities, the responses, the calls in order, and the result.
struct Descent {
    name: &'static str,
    answered: u64,
    fallback: Fallback,
    advertised: Advertised,
    answers: Vec<Input>,
    sent: Vec<AgentCall>,
    end: Result<WakeOutcome, &'static str>,
}

#[test]
fn every_rung_of_the_ladder_and_every_way_down_it() {
    for descent in descents() {
        let mut machine = kept(descent.answered);
        let mut sent = Vec::new();
        let mut found = Vec::new();
        let inputs = [wake(descent.fallback), ready_after(descent.answered, descent.advertised)];
        for input in inputs.into_iter().chain(descent.answers) {
            let effects = machine.handle(at(1000), input);
            sent.extend(calls(&effects).into_iter().cloned());
            found.extend(awakenings(&effects));
        }
        assert_eq!(sent, descent.sent, "{}", descent.name);
        assert_eq!(found, [descent.end], "{}", descent.name);
        assert_eq!(machine.is_live(), descent.end.is_ok(), "{}", descent.name);
    }
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn descents() -> Vec<Descent> {
    let restored = || Input::SessionRestored { agent_session: None };
    let opened = || Input::SessionCreated { session: session("s2"), agent_session: None };
    let by = |rung| Ok(WakeOutcome::Restored { rung, replay: None });
    let fresh = |reason, announced| Ok(WakeOutcome::Fresh { reason, announced });
    let base = || Descent {
        name: "",
        answered: 1,
        fallback: Fallback::Auto,
        advertised: ALL,
        answers: Vec::new(),
        sent: Vec::new(),
        end: Ok(WakeOutcome::Live),
    };
    vec![
        Descent {
            name: "resume",
            answers: vec![restored()],
            sent: vec![AgentCall::Resume],
            end: by(Rung::Resume),
            ..base()
        },
        Descent {
            name: "load, where resume is not advertised",
            advertised: LOAD,
            answers: vec![restored()],
            sent: vec![AgentCall::Load],
            end: by(Rung::Load),
            ..base()
        },
        Descent {
            name: "load after a failed resume",
            answers: vec![refused(ErrorMeaning::Broken), restored()],
            sent: vec![AgentCall::Resume, AgentCall::Load],
            end: by(Rung::Load),
            ..base()
        },
        Descent {
            name: "load first, when the list shows a later change",
            advertised: Advertised { list: true, ..ALL },
            answers: vec![Input::SessionListed(Some(at(2101))), restored()],
            sent: vec![AgentCall::List, AgentCall::Load],
            end: by(Rung::Load),
            ..base()
        },
        Descent {
            name: "resume after that load failed",
            advertised: Advertised { list: true, ..ALL },
            answers: vec![Input::SessionListed(Some(at(2101))), refused(ErrorMeaning::Broken), restored()],
            sent: vec![AgentCall::List, AgentCall::Load, AgentCall::Resume],
            end: by(Rung::Resume),
            ..base()
        },
        Descent {
            name: "resume, when the list does not know better",
            advertised: Advertised { list: true, ..ALL },
            answers: vec![Input::SessionListed(None), restored()],
            sent: vec![AgentCall::List, AgentCall::Resume],
            end: by(Rung::Resume),
            ..base()
        },
        Descent {
            name: "fresh, both lost",
            answers: vec![refused(ErrorMeaning::Lost), refused(ErrorMeaning::Lost), opened()],
            sent: vec![AgentCall::Resume, AgentCall::Load, AgentCall::New],
            end: fresh(LineageReason::AgentLost, true),
            ..base()
        },
        Descent {
            name: "fresh, load reports the session as not found after a broken resume",
            answers: vec![refused(ErrorMeaning::Broken), refused(ErrorMeaning::Lost), opened()],
            sent: vec![AgentCall::Resume, AgentCall::Load, AgentCall::New],
            end: fresh(LineageReason::AgentLost, true),
            ..base()
        },
        Descent {
            name: "kept, both broken",
            answers: vec![refused(ErrorMeaning::Broken), refused(ErrorMeaning::Broken)],
            sent: vec![AgentCall::Resume, AgentCall::Load],
            end: Err("SESSION_NOT_RESTORED"),
            ..base()
        },
        Descent {
            name: "kept, load fails after resume did not find the session",
            answers: vec![refused(ErrorMeaning::Lost), refused(ErrorMeaning::Broken)],
            sent: vec![AgentCall::Resume, AgentCall::Load],
            end: Err("SESSION_NOT_RESTORED"),
            ..base()
        },
        Descent {
            name: "kept, one method unsupported and the other broken",
            answers: vec![refused(ErrorMeaning::Unsupported), refused(ErrorMeaning::Broken)],
            sent: vec![AgentCall::Resume, AgentCall::Load],
            end: Err("SESSION_NOT_RESTORED"),
            ..base()
        },
        Descent {
            name: "fresh, no advertised method exists",
            answers: vec![refused(ErrorMeaning::Unsupported), refused(ErrorMeaning::Unsupported), opened()],
            sent: vec![AgentCall::Resume, AgentCall::Load, AgentCall::New],
            end: fresh(LineageReason::CannotRestore, true),
            ..base()
        },
        Descent {
            name: "fresh, both broken and a fallback always wanted",
            fallback: Fallback::Always,
            answers: vec![refused(ErrorMeaning::Broken), refused(ErrorMeaning::Broken), opened()],
            sent: vec![AgentCall::Resume, AgentCall::Load, AgentCall::New],
            end: fresh(LineageReason::LoadFailed, true),
            ..base()
        },
        Descent {
            name: "fresh, busy and a fallback always wanted",
            fallback: Fallback::Always,
            advertised: LOAD,
            answers: vec![refused(ErrorMeaning::BusyElsewhere), opened()],
            sent: vec![AgentCall::Load, AgentCall::New],
            end: fresh(LineageReason::LoadFailed, true),
            ..base()
        },
        Descent {
            name: "fresh, where nothing is advertised",
            advertised: NONE,
            answers: vec![opened()],
            sent: vec![AgentCall::New],
            end: fresh(LineageReason::CannotRestore, true),
            ..base()
        },
        Descent {
            name: "fresh in silence, nothing was ever answered",
            answered: 0,
            advertised: RESUME,
            answers: vec![refused(ErrorMeaning::Broken), opened()],
            sent: vec![AgentCall::Resume, AgentCall::New],
            end: fresh(LineageReason::NotMaterialised, false),
            ..base()
        },
        Descent {
            name: "no fallback wanted, and nothing was ever prompted",
            answered: 0,
            fallback: Fallback::Never,
            advertised: NONE,
            end: Err("SESSION_NOT_RESTORED"),
            ..base()
        },
        Descent {
            name: "no fallback wanted",
            fallback: Fallback::Never,
            advertised: LOAD,
            answers: vec![refused(ErrorMeaning::Lost)],
            sent: vec![AgentCall::Load],
            end: Err("SESSION_NOT_RESTORED"),
            ..base()
        },
        Descent {
            name: "a reset on purpose",
            fallback: Fallback::Reset,
            answers: vec![opened()],
            sent: vec![AgentCall::New],
            end: fresh(LineageReason::Reset, true),
            ..base()
        },
        Descent {
            name: "busy elsewhere is not lost",
            answers: vec![refused(ErrorMeaning::BusyElsewhere)],
            sent: vec![AgentCall::Resume],
            end: Err("SESSION_BUSY_ELSEWHERE"),
            ..base()
        },
        Descent {
            name: "login needed is not lost",
            answers: vec![refused(ErrorMeaning::Lost), refused(ErrorMeaning::LoginNeeded)],
            sent: vec![AgentCall::Resume, AgentCall::Load],
            end: Err("AUTH_REQUIRED"),
            ..base()
        },
        Descent {
            name: "the agent dies on the way",
            answers: vec![Input::AgentExited(died())],
            sent: vec![AgentCall::Resume],
            end: Err("AGENT_DIED"),
            ..base()
        },
        Descent {
            name: "the agent does not answer",
            answers: vec![Input::Deadline(Deadline::Setup)],
            sent: vec![AgentCall::Resume],
            end: Err("AGENT_UNRESPONSIVE"),
            ..base()
        },
        Descent {
            name: "even the fresh session is refused",
            advertised: NONE,
            answers: vec![refused(ErrorMeaning::LoginNeeded)],
            sent: vec![AgentCall::New],
            end: Err("AUTH_REQUIRED"),
            ..base()
        },
    ]
}

#[test]
fn fallback_keeps_the_lineage_and_its_inner_ids_apart() {
    let mut machine = kept(1);
    let opened = Input::SessionCreated { session: session("s2"), agent_session: None };
    feed(&mut machine, [wake(Fallback::Auto), ready(NONE), opened]);
    let rows: Vec<_> =
        machine.lineage().unwrap().rows().iter().map(|row| (&row.session, &row.agent_session)).collect();
    let inner = AgentSessionId::from_agent("inner");
    assert_eq!(rows, [(&session("s1"), &inner), (&session("s2"), &None)]);
}

#[test]
fn loss_of_an_unprompted_fresh_session_is_not_announced_again() {
    let mut machine = kept(1);
    let opened = |id| Input::SessionCreated { session: session(id), agent_session: None };
    feed(&mut machine, [wake(Fallback::Auto), ready(NONE), opened("s2"), Input::AgentExited(died())]);
    let effects = feed(&mut machine, [wake(Fallback::Auto), ready_after(0, NONE), opened("s3")]);
    let silent = WakeOutcome::Fresh { reason: LineageReason::NotMaterialised, announced: false };
    assert_eq!(awakenings(&effects), [Ok(silent)]);
}

#[test]
fn only_the_first_prompt_after_a_fallback_carries_the_history() {
    let mut machine = kept(1);
    let options = WakeOptions { fallback: Fallback::Auto, carry_history: true };
    let opened = Input::SessionCreated { session: session("s2"), agent_session: None };
    feed(&mut machine, [Input::Wake(options)]);
    assert!(machine.carries_history());
    let Input::AgentReady { advertised, profile, exchanges, last_message_at, .. } = ready(NONE) else {
        panic!("a started agent")
    };
    let found = Some(HistoryExtent::LastPart);
    let on_resume = OnResume::Nothing;
    let ready = Input::AgentReady {
        advertised,
        profile,
        exchanges,
        last_message_at,
        carried_history: found,
        on_resume,
    };
    let effects = feed(&mut machine, [ready, opened]);
    let is_told = |effect: &Effect| matches!(effect, Effect::Fact(Fact::SessionReset { carried, .. }) if *carried == found);
    assert!(effects.iter().any(is_told), "{effects:?}");
    let carried = |effects: &[Effect]| match calls(effects)[..] {
        [AgentCall::Prompt { carry_history, .. }] => *carry_history,
        ref other => panic!("not one prompt: {other:?}"),
    };
    assert!(carried(&feed(&mut machine, [prompt("p")])));
    feed(&mut machine, [Input::PromptAnswered(Ok(StopReason::new("end_turn").into()))]);
    assert!(!carried(&feed(&mut machine, [prompt("q")])));
}

#[test]
fn prompts_run_one_at_a_time_in_the_order_they_were_accepted() {
    let mut machine = live(ALL);
    let first = feed(&mut machine, [prompt("p")]);
    let second = feed(&mut machine, [prompt("q")]);
    assert_eq!((calls(&first).len(), calls(&second).len()), (1, 0));
    let effects = feed(&mut machine, [Input::PromptAnswered(Ok(StopReason::new("end_turn").into()))]);
    assert_eq!(ended(&effects), [(2, &TurnOutcome::Stopped(StopReason::new("end_turn")))]);
    assert!(matches!(calls(&effects)[..], [AgentCall::Prompt { turn: TurnId(3), .. }]), "{effects:?}");
}

#[test]
fn a_turn_is_saved_as_dispatched_before_it_is_sent() {
    let effects = feed(&mut live(ALL), [prompt("p")]);
    let saved = |wanted: fn(&TurnState) -> bool| {
        effects.iter().position(|effect| matches!(effect, Effect::SaveTurn(turn) if wanted(&turn.state)))
    };
    let sent = effects.iter().position(|effect| matches!(effect, Effect::Call(AgentCall::Prompt { .. })));
    let order = [
        saved(|state| *state == TurnState::Queued),
        saved(|state| matches!(state, TurnState::Dispatched { .. })),
        sent,
    ];
    assert!(order.iter().all(Option::is_some) && order.is_sorted(), "{effects:#?}");
}

#[test]
fn a_full_queue_refuses_the_next_prompt() {
    let mut machine = live(ALL);
    for number in 0..=MAX_QUEUED {
        let effects = feed(&mut machine, [prompt(&format!("p{number}"))]);
        assert!(effects.iter().any(|effect| matches!(effect, Effect::TurnAccepted(..))), "{number}");
    }
    let request = RequestId::new("more").unwrap();
    assert_eq!(
        feed(&mut machine, [prompt("more")]),
        [Effect::TurnRefused(request, PromptRefusal::QueueFull { limit: MAX_QUEUED })]
    );
}

#[test]
fn after_a_crash_only_undispatched_prompts_are_sent() {
    let mut machine = kept(1);
    let turn = |id, state| Turn {
        id: TurnId(id),
        request: RequestId::new(format!("p{id}")).unwrap(),
        prompt: Arc::from("[]"),
        policy: PermissionMode::DenyAll.into(),
        wake_options: WakeOptions::default(),
        limits: TurnLimits::default(),
        queued_at: at(5),
        state,
        usage: None,
        cost: None,
        permissions: PermissionCount::default(),
    };
    let turns = vec![turn(2, TurnState::Dispatched { at: at(6) }), turn(3, TurnState::Queued)];
    let effects = feed(&mut machine, [Input::Recover(turns)]);
    assert_eq!(effects[0], Effect::SaveTurn(turn(2, TurnState::Interrupted { at: at(1000) })));
    let effects = feed(
        &mut machine,
        [wake(Fallback::Auto), ready(RESUME), Input::SessionRestored { agent_session: None }],
    );
    assert!(matches!(calls(&effects)[..], [AgentCall::Prompt { turn: TurnId(3), .. }]), "{effects:?}");
}

#[test]
fn cancel_during_replay_ends_the_waiting_turn_and_the_restore_goes_on() {
    let mut machine = kept(1);
    feed(&mut machine, [prompt("p"), ready(LOAD), chunk(MessageKind::User, "one")]);
    let effects = feed(&mut machine, [Input::Cancel(Some(TurnId(2)))]);
    assert_eq!(ended(&effects), [(2, &TurnOutcome::Stopped(StopReason::cancelled()))]);
    let effects = feed(&mut machine, [Input::SessionRestored { agent_session: None }]);
    assert!(machine.is_live() && calls(&effects).is_empty(), "{effects:?}");
}

#[test]
fn agent_exit_fails_the_turn_and_the_next_restores_the_session() {
    let mut machine = live(ALL);
    feed(&mut machine, [prompt("p"), prompt("q")]);
    let effects = feed(&mut machine, [Input::AgentExited(died())]);
    assert_eq!(ended(&effects), [(2, &TurnOutcome::Failed((&died()).into()))]);
    assert_eq!(effects.last(), Some(&Effect::StartAgent));
    let effects = feed(&mut machine, [ready(RESUME), Input::SessionRestored { agent_session: None }]);
    assert!(matches!(calls(&effects)[..], [AgentCall::Prompt { turn: TurnId(3), .. }]), "{effects:?}");
}

#[test]
fn an_agent_that_cannot_start_fails_every_prompt_that_waits() {
    let mut machine = kept(1);
    feed(&mut machine, [prompt("p"), prompt("q")]);
    let error = AgentError::NotFound { program: "a".into() };
    let effects = feed(&mut machine, [Input::StartFailed(error.clone())]);
    let failed = TurnOutcome::Failed((&error).into());
    assert_eq!(ended(&effects), [(2, &failed), (3, &failed)]);
    assert!(machine.is_idle());
}

#[test]
fn after_cancel_permissions_are_answered_cancelled_and_an_error_counts_as_cancelled() {
    let mut machine = live(ALL);
    feed(&mut machine, [prompt("p")]);
    let permission = || permission("read");
    assert_eq!(feed(&mut machine, [permission()]), [Effect::AnswerRequest(request_id(), Permit::Approve)]);
    let effects = feed(&mut machine, [Input::Cancel(None)]);
    assert_eq!(effects, [Effect::Call(AgentCall::Cancel), Effect::Arm(Deadline::Cancel)]);
    assert_eq!(feed(&mut machine, [Input::Cancel(None)]), []);
    assert_eq!(feed(&mut machine, [permission()]), [Effect::AnswerRequest(request_id(), Permit::Cancelled)]);
    let effects = feed(&mut machine, [Input::PromptAnswered(Err(died()))]);
    assert_eq!(ended(&effects), [(2, &TurnOutcome::Stopped(StopReason::cancelled()))]);
}

#[test]
fn close_without_the_capability_cancels_the_turn_then_stops_the_agent() {
    let mut machine = live(RESUME);
    feed(&mut machine, [prompt("p")]);
    let effects = feed(&mut machine, [Input::Close]);
    assert_eq!(effects, [Effect::Call(AgentCall::Cancel), Effect::Arm(Deadline::Close)]);
    let stopped = Ok(StopReason::cancelled().into());
    let effects = feed(&mut machine, [Input::PromptAnswered(stopped)]);
    assert_eq!(ended(&effects), [(2, &TurnOutcome::Stopped(StopReason::cancelled()))]);
    assert!(effects.contains(&Effect::StopAgent(None)));
    let effects = feed(&mut machine, [Input::AgentStopped]);
    assert_eq!(effects.last(), Some(&Effect::ReplyClose));
}

#[test]
fn a_closed_record_opens_again_when_it_is_restored() {
    let mut machine = kept(1);
    machine.lifecycle = Lifecycle::Closed { at: at(50) };
    let effects = feed(
        &mut machine,
        [wake(Fallback::Auto), ready(RESUME), Input::SessionRestored { agent_session: None }],
    );
    assert!(effects.contains(&Effect::SaveLifecycle(Lifecycle::Open)), "{effects:?}");
}

#[test]
fn a_replay_is_never_shown_and_only_what_is_new_is_kept() {
    let mut machine = kept(1);
    feed(&mut machine, [wake(Fallback::Auto), ready(LOAD)]);
    let shown: Vec<_> = [
        chunk(MessageKind::User, "one"),
        chunk(MessageKind::Agent, "first"),
        chunk(MessageKind::User, "elsewhere"),
        chunk(MessageKind::Agent, "second"),
        Input::Update { update: Update::State, body: Arc::from("state") },
    ]
    .into_iter()
    .flat_map(|input| feed(&mut machine, [input]))
    .filter(|effect| matches!(effect, Effect::PersistUpdate(_)))
    .collect();
    assert_eq!(stored_lines(&shown), ["elsewhere", "second", "state"]);
    let effects = feed(&mut machine, [Input::SessionRestored { agent_session: None }]);
    let restored = WakeOutcome::Restored { rung: Rung::Load, replay: Some(ReplayVerdict::Longer) };
    assert_eq!(awakenings(&effects), [Ok(restored)]);
}

#[test]
fn missed_events_of_a_remote_host_are_persisted_without_a_list() {
    let mut machine = kept(1);
    let Input::AgentReady { profile, exchanges, last_message_at, carried_history, .. } = ready(ALL) else {
        panic!("a started agent")
    };
    let (advertised, on_resume) = (Advertised { list: true, ..ALL }, OnResume::Missed);
    let ready =
        Input::AgentReady { advertised, profile, exchanges, last_message_at, carried_history, on_resume };
    assert_eq!(calls(&feed(&mut machine, [wake(Fallback::Auto), ready])), [&AgentCall::Resume]);
    let missed = [
        chunk(MessageKind::Agent, "first"),
        chunk(MessageKind::User, "one"),
        chunk(MessageKind::Agent, "more"),
    ];
    let found: Vec<_> = missed.into_iter().flat_map(|input| feed(&mut machine, [input])).collect();
    assert_eq!(stored_lines(&found), ["first", "one", "more"]);
    let effects = feed(&mut machine, [Input::SessionRestored { agent_session: None }]);
    // Nothing was compared, so there is no verdict on what the agent remembers.
    let restored = WakeOutcome::Restored { rung: Rung::Resume, replay: None };
    assert_eq!(awakenings(&effects), [Ok(restored)]);
}

/// A session whose load was answered before the replay of its one exchange.
fn answered_early() -> SessionMachine {
    let mut machine = kept(1);
    let user = chunk(MessageKind::User, "one");
    feed(
        &mut machine,
        [wake(Fallback::Auto), ready(LOAD), user, Input::SessionRestored { agent_session: None }],
    );
    machine
}

#[test]
fn a_late_replay_is_not_shown_outside_a_turn() {
    let mut machine = answered_early();
    let aside = Effect::PersistReplay(Arc::from("first"));
    assert_eq!(feed(&mut machine, [chunk(MessageKind::Agent, "first")]), [aside]);
    assert_eq!(stored_lines(&feed(&mut machine, [chunk(MessageKind::Agent, "more")])), ["more"]);
}

#[test]
fn complete_late_replay_within_a_turn_is_persisted_outside_the_conversation() {
    let mut machine = answered_early();
    feed(&mut machine, [prompt("p")]);
    assert_eq!(feed(&mut machine, [chunk(MessageKind::Agent, "fir")]), []);
    assert_eq!(feed(&mut machine, [chunk(MessageKind::Agent, "st")]), []);
    let aside = |text: &str| Effect::PersistReplay(Arc::from(text));
    let expected = [aside("fir"), aside("st"), Effect::PersistUpdate(Arc::from("new"))];
    assert_eq!(feed(&mut machine, [chunk(MessageKind::Agent, "new")]), expected);
}

/// A session whose load was answered after one of its two exchanges was replayed.
fn answered_half() -> SessionMachine {
    let mut machine = kept(2);
    let half = [chunk(MessageKind::User, "one"), chunk(MessageKind::Agent, "first")];
    feed(&mut machine, [wake(Fallback::Auto), ready_after(2, LOAD)].into_iter().chain(half));
    let restored = feed(&mut machine, [Input::SessionRestored { agent_session: None }]);
    let shorter = Fact::Restored { by: "session/load".into(), replay: Some(ReplayVerdict::Shorter) };
    assert!(restored.contains(&Effect::Fact(shorter)), "{restored:?}");
    machine
}

#[test]
fn complete_late_replay_corrects_its_verdict() {
    let aside = |text: &str| Effect::PersistReplay(Arc::from(text));
    let corrected = || Effect::Fact(Fact::ReplayedLate { replay: ReplayVerdict::Same });
    let mut machine = answered_half();
    assert_eq!(feed(&mut machine, [chunk(MessageKind::User, "one")]), [aside("one")]);
    assert_eq!(feed(&mut machine, [chunk(MessageKind::Agent, "first")]), [aside("first"), corrected()]);

    let mut machine = answered_half();
    let held = [prompt("p"), chunk(MessageKind::User, "one"), chunk(MessageKind::Agent, "first")];
    assert_eq!(feed(&mut machine, held), []);
    let expected = [aside("one"), aside("first"), corrected(), Effect::PersistUpdate(Arc::from("new"))];
    assert_eq!(feed(&mut machine, [chunk(MessageKind::Agent, "new")]), expected);

    // An update that does not continue the replay corrects nothing.
    let mut machine = answered_half();
    feed(&mut machine, [chunk(MessageKind::User, "one")]);
    assert_eq!(
        feed(&mut machine, [chunk(MessageKind::Agent, "other")]),
        [Effect::PersistUpdate(Arc::from("other"))]
    );
}

#[test]
fn buffered_late_replay_is_bounded() {
    let mut machine = answered_early();
    feed(&mut machine, [prompt("p")]);
    let long = "x".repeat(100);
    let mut shown = 0;
    for _ in 0..5000 {
        let update = Update::Chunk {
            kind: MessageKind::User,
            message_id: None,
            content: ChunkContent::Text(" ".into()),
        };
        let effects = feed(&mut machine, [Input::Update { update, body: Arc::from(&*long) }]);
        shown += stored_lines(&effects).len();
    }
    assert_eq!(shown, 5000);
}

#[test]
fn thoughts_and_tool_calls_of_a_turn_are_never_held_back() {
    let mut machine = answered_early();
    feed(&mut machine, [prompt("p")]);
    let tool = Update::Tool { call: "t".into(), fields: "{}".into() };
    let effects = feed(&mut machine, [Input::Update { update: tool, body: Arc::from("tool") }]);
    assert_eq!(stored_lines(&effects), ["tool"]);

    let mut machine = answered_early();
    feed(&mut machine, [prompt("p"), chunk(MessageKind::Agent, "first")]);
    assert_eq!(stored_lines(&feed(&mut machine, [chunk(MessageKind::Thought, "hm")])), ["first", "hm"]);
}

#[test]
fn a_reset_is_for_one_start_and_not_for_the_next() {
    let mut machine = kept(1);
    let opened = Input::SessionCreated { session: session("s2"), agent_session: None };
    feed(&mut machine, [wake(Fallback::Reset), ready(ALL), opened, Input::AgentExited(died())]);
    let effects = feed(&mut machine, [prompt("p"), ready(RESUME)]);
    assert_eq!(calls(&effects), [&AgentCall::Resume]);
}

#[test]
fn a_live_session_can_be_reset_when_no_turn_runs() {
    let mut machine = live(ALL);
    assert!(feed(&mut machine, [wake(Fallback::Reset)]).contains(&Effect::StopAgent(None)));
    let effects = feed(&mut machine, [Input::AgentStopped, ready(ALL)]);
    assert_eq!(calls(&effects), [&AgentCall::New]);

    let mut machine = live(ALL);
    let effects = feed(&mut machine, [prompt("p"), wake(Fallback::Reset)]);
    assert_eq!(awakenings(&effects), [Err("busy")]);
}

#[test]
fn of_two_who_wake_the_one_who_wants_nothing_lost_is_heard() {
    for (first, second) in [(Fallback::Never, Fallback::Auto), (Fallback::Auto, Fallback::Never)] {
        let mut machine = kept(1);
        let effects =
            feed(&mut machine, [wake(first), wake(second), ready(LOAD), refused(ErrorMeaning::Lost)]);
        assert_eq!(awakenings(&effects), [Err("SESSION_NOT_RESTORED")]);
    }
}

#[test]
fn failed_restore_attempt_does_not_hide_later_foreign_updates() {
    let listing = Advertised { list: true, ..ALL };
    let mut machine = kept(1);
    let busy =
        [Input::SessionListed(Some(at(2101))), refused(ErrorMeaning::BusyElsewhere), Input::AgentStopped];
    feed(&mut machine, [wake(Fallback::Auto), ready(listing)].into_iter().chain(busy));
    let effects =
        feed(&mut machine, [wake(Fallback::Auto), ready(listing), Input::SessionListed(Some(at(2101)))]);
    assert_eq!(calls(&effects), [&AgentCall::Load]);
}

#[test]
fn park_is_answered_even_if_a_prompt_arrives() {
    let mut machine = live(ALL);
    feed(&mut machine, [Input::Park, prompt("p")]);
    assert_eq!(feed(&mut machine, [Input::Park]), []);
    assert_eq!(feed(&mut machine, [Input::AgentStopped]), [Effect::ReplyPark(true), Effect::StartAgent]);
}

#[test]
fn cancel_reaches_a_turn_that_waits_for_its_agent() {
    let mut machine = kept(1);
    feed(&mut machine, [prompt("p")]);
    let effects = feed(&mut machine, [Input::Cancel(None)]);
    assert_eq!(ended(&effects), [(2, &TurnOutcome::Stopped(StopReason::cancelled()))]);
}

#[test]
fn a_host_that_stops_interrupts_what_runs_and_leaves_what_waits() {
    let mut machine = live(ALL);
    feed(&mut machine, [prompt("p"), prompt("q")]);
    let effects = feed(&mut machine, [Input::HostStopping]);
    let saved: Vec<_> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::SaveTurn(turn) => Some((turn.id, &turn.state)),
            _ => None,
        })
        .collect();
    assert_eq!(saved, [(TurnId(2), &TurnState::Interrupted { at: at(1000) })]);
}

#[test]
fn an_answer_that_only_begins_like_an_old_one_is_not_lost() {
    let mut machine = answered_early();
    feed(&mut machine, [prompt("p"), chunk(MessageKind::Agent, "fir")]);
    assert_eq!(stored_lines(&feed(&mut machine, [chunk(MessageKind::Agent, "ework")])), ["fir", "ework"]);

    let mut machine = answered_early();
    feed(&mut machine, [prompt("p"), chunk(MessageKind::Agent, "first")]);
    let effects = feed(&mut machine, [Input::PromptAnswered(Ok(StopReason::new("end_turn").into()))]);
    assert_eq!(stored_lines(&effects), ["first"]);
}
