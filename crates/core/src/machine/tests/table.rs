//! Every state against every input. The table is `docs/internals/session-machine.md`; this test keeps it up to date. To change
//! the machine on purpose, run it with `ACPX_WRITE_TABLE=1` and review the diff.

use std::fmt::Write;
use std::time::Duration;

use super::spending::{one_dollar, usage, within};
use super::*;

pub(super) fn states() -> Vec<(&'static str, SessionMachine)> {
    let wake = || Input::Wake(WakeOptions::default());
    let after = |mut machine: SessionMachine, inputs: Vec<Input>| {
        feed(&mut machine, inputs);
        machine
    };
    let restoring = |advertised| after(kept(1), vec![wake(), ready(advertised)]);
    let listing = Advertised { list: true, ..ALL };
    vec![
        ("parked", kept(1)),
        ("starting", after(kept(1), vec![wake()])),
        ("starting, a request waits", after(kept(1), vec![pass(1)])),
        ("looking", restoring(listing)),
        ("waiting to load", after(kept(1), vec![wake(), ready_with(BY_THE_MINUTE, LOAD)])),
        ("creating", after(SessionMachine::new("a"), vec![wake(), ready(ALL)])),
        ("adopting", after(adopting(), vec![wake(), ready(ALL)])),
        ("forking", after(forking(), vec![wake(), ready(ALL)])),
        ("resuming", restoring(ALL)),
        ("loading", restoring(LOAD)),
        ("replaying", restoring(REPLAY)),
        ("resuming, the agent works", after(restoring(ALL), vec![state(AgentState::Working)])),
        ("falling back", restoring(NONE)),
        (
            "settling",
            after(
                wishing(),
                vec![
                    wake(),
                    ready(ALL),
                    Input::SettingsOffered(offers("ask")),
                    Input::SessionRestored { agent_session: None },
                ],
            ),
        ),
        ("idle", live(ALL)),
        ("idle, a mode wished", in_mode("plan")),
        ("idle, a request out", after(live(ALL), vec![pass(1)])),
        ("idle, a replay owed", early(&[])),
        ("prompting, a replay owed", early(&[prompt("p")])),
        ("prompting, text held", early(&[prompt("p"), chunk(MessageKind::Agent, "fir")])),
        ("prompting", after(live(ALL), vec![prompt("p")])),
        ("prompting, a request out", after(live(ALL), vec![prompt("p"), pass(1)])),
        ("prompting, the client asked", asking(UnattendedPolicy::Deny)),
        ("prompting, asked, to fail unasked", asking(UnattendedPolicy::Fail)),
        ("prompting, asked, to wait", asking(UnattendedPolicy::Wait)),
        ("prompting, the agent has it", after(live(ALL), vec![prompt("p"), Input::PromptInserted])),
        (
            "prompting, the agent works",
            after(live(ALL), vec![prompt("p"), Input::PromptInserted, state(AgentState::Working)]),
        ),
        (
            "prompting, idle before its answer",
            after(live(ALL), vec![prompt("p"), state(AgentState::Working), state(AgentState::Idle(None))]),
        ),
        ("idle, with work in the background", after(live(ALL), vec![beside(AgentState::Idle(None))])),
        ("a turn of the agent's own", after(live(ALL), vec![state(AgentState::Working)])),
        ("prompting, one queued", after(live(ALL), vec![prompt("p"), prompt("q")])),
        ("cancelling", after(live(ALL), vec![prompt("p"), Input::Cancel(None)])),
        ("prompting, with limits", after(live(ALL), vec![limited("p")])),
        ("prompting, one with limits queued", after(live(ALL), vec![prompt("p"), limited("q")])),
        ("out of time", after(live(ALL), vec![limited("p"), Input::Deadline(Deadline::Silence)])),
        ("prompting, with a limit of cost", after(live(ALL), vec![within("p", one_dollar())])),
        ("waiting to retry, one queued", awaiting_retry(vec![prompt("q")])),
        ("closing", after(live(ALL), vec![Input::Close])),
        ("closing over a turn", after(live(ALL), vec![prompt("p"), Input::Close])),
        ("deleting", after(live(ALL), vec![Input::Delete, Input::CloseAnswered])),
        ("ending to park", after(live(ALL), vec![Input::Park])),
        ("ending to wake", after(live(ALL), vec![Input::Park, wake()])),
        ("ending to close", after(live(RESUME), vec![Input::Close])),
        ("closed", after(kept(1), vec![Input::Close])),
    ]
}

/// One of each input, and several of those whose fields matter.
fn inputs() -> Vec<(&'static str, Input)> {
    [request_params(), agent_inputs()].concat()
}

fn request_params() -> Vec<(&'static str, Input)> {
    vec![
        (
            "turns left open",
            Input::Recover(vec![
                left_open(7, TurnState::Queued),
                left_open(6, TurnState::Dispatched { at: at(5) }),
            ]),
        ),
        ("wake", Input::Wake(WakeOptions::default())),
        ("return to the session", Input::Return(session("s1"))),
        ("prompt", prompt("new")),
        ("request", pass(2)),
        ("request withdrawn", Input::ForwardCancelled(ForwardId(1))),
        ("request answered", Input::ForwardAnswered { id: ForwardId(1), answer: Ok(Arc::from("{}")) }),
        ("request failed", Input::ForwardAnswered { id: ForwardId(1), answer: Err(died()) }),
        (
            "request failed: session unknown",
            Input::ForwardAnswered { id: ForwardId(1), answer: Err(refusal(ErrorMeaning::Lost)) },
        ),
        ("mode forgotten", Input::ForgetSetting(SettingName::Mode)),
        ("user title", Input::UserTitleSet),
        ("setup accepted", Input::SetupAccepted(SetupOptions { no_fs: true, ..SetupOptions::default() })),
        ("another mode shown", Input::SettingsOffered(offers("ask"))),
        ("setting done", Input::SettingAnswered(Ok(()))),
        ("setting refused", Input::SettingAnswered(Err(died()))),
        ("cancel", Input::Cancel(None)),
        ("cancel turn 3", Input::Cancel(Some(TurnId(3)))),
        ("close", Input::Close),
        ("delete", Input::Delete),
        ("park", Input::Park),
        ("leave", Input::HostStopping),
    ]
}

/// The inputs that come from the agent or from time.
#[expect(clippy::too_many_lines, reason = "a table with one row for each input")]
fn agent_inputs() -> Vec<(&'static str, Input)> {
    vec![
        ("agent ready", ready(ALL)),
        ("start failed", Input::StartFailed(AgentError::NotFound { program: "a".into() })),
        ("agent gone", Input::AgentExited(died())),
        ("agent ended", Input::AgentStopped),
        ("listed, unchanged", Input::SessionListed(Some(at(100)))),
        ("listed, changed since", Input::SessionListed(Some(at(2101)))),
        ("opened", Input::SessionCreated { session: session("s2"), agent_session: None }),
        ("restored", Input::SessionRestored { agent_session: AgentSessionId::from_agent("other") }),
        ("refused: lost", refused(ErrorMeaning::Lost)),
        ("refused: unsupported", refused(ErrorMeaning::Unsupported)),
        ("refused: broken", refused(ErrorMeaning::Broken)),
        ("refused: busy elsewhere", refused(ErrorMeaning::BusyElsewhere)),
        ("refused: login needed", refused(ErrorMeaning::LoginNeeded)),
        (
            "setup impossible",
            Input::SetupImpossible(AgentError::McpUnsupported {
                agent: "a".into(),
                index: 0,
                server: "m".into(),
                capability: "mcpCapabilities.http".into(),
            }),
        ),
        ("prompt answered", Input::PromptAnswered(Ok(StopReason::new("end_turn").into()))),
        ("prompt inserted", Input::PromptInserted),
        ("prompt failed", Input::PromptAnswered(Err(died()))),
        ("prompt failed: session unknown", Input::PromptAnswered(Err(refusal(ErrorMeaning::Lost)))),
        ("prompt failed: login needed", Input::PromptAnswered(Err(refusal(ErrorMeaning::LoginNeeded)))),
        ("close answered", Input::CloseAnswered),
        ("delete answered", Input::DeleteAnswered),
        ("agent text", chunk(MessageKind::Agent, "text")),
        ("title", Input::Update { update: Update::Title(Some("t".into())), body: Arc::from("title") }),
        ("usage: cost 2 USD", usage(50, Some(2.0))),
        ("agent works", state(AgentState::Working)),
        ("agent idle", state(AgentState::Idle(Some(Ok(StopReason::new("refusal").into()))))),
        ("agent idle, unsaid why", state(AgentState::Idle(None))),
        ("agent idle, with work in the background", beside(AgentState::Idle(None))),
        ("agent idle by an error", state(AgentState::Idle(Some(Err(died()))))),
        ("agent in a state unknown", state(AgentState::Other)),
        ("elicitation", Input::Elicitation { id: request_id() }),
        ("question withdrawn", Input::RequestWithdrawn { id: request_id() }),
        ("permission to read", permission("read")),
        ("permission to change", permission("edit")),
        (
            "permission, no options",
            Input::Permission {
                id: request_id(),
                tool: ToolUse::default(),
                has_options: false,
                can_approve: false,
            },
        ),
        ("a file to read", Input::Tool { id: request_id(), tool: Some(of_kind("read")), granted: false }),
        ("a file to write", Input::Tool { id: request_id(), tool: Some(of_kind("edit")), granted: false }),
        (
            "a write that was granted",
            Input::Tool { id: request_id(), tool: Some(of_kind("edit")), granted: true },
        ),
        ("its own terminal", Input::Tool { id: request_id(), tool: None, granted: false }),
        ("advised to approve", Input::RequestAnswered { id: request_id(), permit: Permit::Approve }),
        ("nobody to ask", Input::RequestUnanswerable { id: request_id(), summary: "edit".into() }),
        ("other request", Input::OtherRequest { id: request_id() }),
        ("setup deadline", Input::Deadline(Deadline::Setup)),
        ("setting deadline", Input::Deadline(Deadline::Setting)),
        ("deadline of request 1", Input::Deadline(Deadline::Forward(ForwardId(1)))),
        ("cancel deadline", Input::Deadline(Deadline::Cancel)),
        ("load deadline", Input::Deadline(Deadline::Load(at(60_000)))),
        ("retry deadline", Input::Deadline(Deadline::Retry(Duration::from_secs(1)))),
        ("close deadline", Input::Deadline(Deadline::Close)),
        ("idle deadline", Input::Deadline(Deadline::Idle)),
        ("deadline of turn 2", Input::Deadline(Deadline::Turn(TurnId(2)))),
        ("deadline of turn 3", Input::Deadline(Deadline::Turn(TurnId(3)))),
        ("deadline of silence", Input::Deadline(Deadline::Silence)),
    ]
}

/// A turn with a pending permission request.
fn asking(unasked: UnattendedPolicy) -> SessionMachine {
    let mut machine = live(ALL);
    let Input::Prompt { request, prompt, options, limits, .. } = prompt("p") else { panic!("a prompt") };
    let policy = PermissionPolicy { unasked, ..PermissionMode::Ask.into() };
    let prompt = Input::Prompt { request, prompt, policy, options, limits };
    feed(&mut machine, [prompt, permission("read")]);
    machine
}

/// A session whose load was answered before its replay was complete, followed by these inputs.
fn early(inputs: &[Input]) -> SessionMachine {
    let mut machine = kept(1);
    let load = [Input::Wake(WakeOptions::default()), ready(LOAD), chunk(MessageKind::User, "one")];
    feed(
        &mut machine,
        load.into_iter()
            .chain([Input::SessionRestored { agent_session: None }])
            .chain(inputs.iter().cloned()),
    );
    machine
}

fn left_open(id: u64, state: TurnState) -> Turn {
    Turn {
        id: TurnId(id),
        request: RequestId::new(format!("left{id}")).unwrap(),
        prompt: Arc::from("[]"),
        policy: PermissionMode::DenyAll.into(),
        wake_options: WakeOptions::default(),
        limits: TurnLimits::default(),
        queued_at: at(4),
        state,
        usage: None,
        cost: None,
        permissions: PermissionCount::default(),
    }
}

/// A new input makes this fail to compile, as a reminder to add its rows.
fn is_in_the_table(input: &Input) -> bool {
    match input {
        Input::Recover(_)
        | Input::Wake(_)
        | Input::Return(_)
        | Input::Prompt { .. }
        | Input::Forward(_)
        | Input::ForwardCancelled(_)
        | Input::ForwardAnswered { .. }
        | Input::ForgetSetting(_)
        | Input::UserTitleSet
        | Input::SetupAccepted(_)
        | Input::SettingsOffered(_)
        | Input::SettingAnswered(_)
        | Input::Cancel(_)
        | Input::Close
        | Input::Delete
        | Input::Park
        | Input::HostStopping
        | Input::AgentReady { .. }
        | Input::StartFailed(_)
        | Input::AgentExited(_)
        | Input::AgentStopped
        | Input::SessionListed(_)
        | Input::SessionCreated { .. }
        | Input::SessionRestored { .. }
        | Input::SetupRefused { .. }
        | Input::SetupImpossible(_)
        | Input::PromptAnswered(_)
        | Input::PromptInserted
        | Input::CloseAnswered
        | Input::DeleteAnswered
        | Input::Update { .. }
        | Input::StateReported { .. }
        | Input::Elicitation { .. }
        | Input::RequestWithdrawn { .. }
        | Input::Permission { .. }
        | Input::Tool { .. }
        | Input::RequestAnswered { .. }
        | Input::RequestUnanswerable { .. }
        | Input::OtherRequest { .. }
        | Input::Deadline(_) => true,
    }
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a switch for whoever changes the machine, not for the library"
)]
fn every_state_and_input_does_what_the_published_table_says() {
    assert!(inputs().iter().all(|(_, input)| is_in_the_table(input)));
    let table = render();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/internals/session-machine.md");
    if std::env::var_os("ACPX_WRITE_TABLE").is_some() {
        std::fs::write(path, &table).unwrap();
    }
    let published = std::fs::read_to_string(path).unwrap();
    let changed: Vec<_> = table.lines().zip(published.lines()).filter(|(now, then)| now != then).collect();
    assert!(
        table == published,
        "the machine no longer does what docs/internals/session-machine.md says: {changed:#?}"
    );
}

fn render() -> String {
    let mut table = String::from(
        "# The session machine\n\n\
         Every state of a session against every input: what it does, and the state it is in afterwards.\n\
         A test generates this page from the machine and fails when the two differ.\n\
         An input that a state does not list changes nothing and does nothing.\n",
    );
    for (name, machine) in states() {
        write!(table, "\n## {name}\n\n| input | effects | then |\n|---|---|---|\n").unwrap();
        for (input_name, input) in inputs() {
            let mut machine = machine.clone();
            let before = machine.clone();
            let effects = machine.handle(at(1000), input);
            if effects.is_empty() && machine == before {
                continue;
            }
            let effects: Vec<_> = effects.iter().map(words).collect();
            let then = if machine.state == before.state { "the same" } else { state_name(&machine.state) };
            writeln!(table, "| {input_name} | {} | {then} |", effects.join(" · ")).unwrap();
        }
    }
    table
}

fn state_name(state: &MachineState) -> &'static str {
    match state {
        MachineState::Parked => "parked",
        MachineState::Starting(phase) => match phase {
            StartPhase::Process => "starting",
            StartPhase::Listing(_) => "looking",
            StartPhase::LoadDelay(_) => "waiting to load",
            StartPhase::Creating(_, None) => "creating",
            StartPhase::Creating(_, Some(_)) => "falling back",
            StartPhase::Restoring(restore) if restore.rung == Rung::Resume => "resuming",
            StartPhase::Restoring(restore) if restore.rung == Rung::Replay => "replaying",
            StartPhase::Restoring(_) => "loading",
            StartPhase::Configuring(_) => "settling",
        },
        MachineState::Idle(_) => "idle",
        MachineState::Prompting(PromptTurn { stopping: Some(_), .. }) => "cancelling",
        MachineState::Prompting(_) => "prompting",
        MachineState::Closing(_, None) => "closing",
        MachineState::Closing(_, Some(_)) => "closing over a turn",
        MachineState::Deleting => "deleting",
        MachineState::Stopping(AfterExit::Park) => "ending to park",
        MachineState::Stopping(AfterExit::Wake) => "ending to wake",
        MachineState::Stopping(AfterExit::Close) => "ending to close",
        MachineState::Closed => "closed",
    }
}

fn words(effect: &Effect) -> String {
    match effect {
        Effect::StartAgent => "start the agent".into(),
        Effect::StopAgent(None) => "end the agent".into(),
        Effect::StopAgent(Some(_)) => "end the agent for its fault".into(),
        Effect::Call(call) => format!("send {}", call_name(call)),
        Effect::AnswerRequest(_, permit) => format!("answer: {permit:?}").to_lowercase(),
        Effect::RouteRequest(_) => "ask the client".into(),
        Effect::RefuseRequest(_) => "answer: no such method".into(),
        Effect::PersistUpdate(_) => "keep it".into(),
        Effect::PersistReplay(_) => "keep it aside".into(),
        Effect::Fact(fact) => format!("note {}", fact_name(fact)),
        Effect::SaveTurn(turn) => format!("save turn {}: {}", turn.id, turn_state(turn)),
        Effect::SaveLineage(lineage) => {
            let row = lineage.current();
            format!("save lineage: {} ({})", row.session, row.reason.as_str())
        }
        Effect::SaveTitle(_) => "save the title".into(),
        Effect::SaveUsage { .. } => "save the usage".into(),
        Effect::SaveCost(turn) => format!("save the cost of turn {}", turn.id),
        Effect::SaveSettings(settings) => {
            let choices: Vec<_> = settings.chosen.iter().map(|wish| wish.value.to_string()).collect();
            let words = if choices.is_empty() { "none".to_owned() } else { choices.join(", ") };
            format!("save settings, wished: {words}")
        }
        Effect::SaveRestoreError(Some(_)) => "save why the restore failed".into(),
        Effect::SaveRestoreError(None) => "save that the restore succeeded".into(),
        Effect::SaveLifecycle(Lifecycle::Open) => "save: open".into(),
        Effect::SaveLifecycle(Lifecycle::Closed { .. }) => "save: closed".into(),
        Effect::SaveLifecycle(Lifecycle::Deleted { .. }) => "save: deleted".into(),
        Effect::Arm(Deadline::Load(_)) => "arm load".into(),
        Effect::Arm(Deadline::Forward(_)) => "arm request".into(),
        Effect::Arm(Deadline::Retry(delay)) => format!("arm retry after {} s", delay.as_secs()),
        Effect::Arm(deadline) => format!("arm {deadline:?}").to_lowercase(),
        Effect::Disarm => "disarm".into(),
        Effect::ReplyWake(Ok(how)) => format!("tell: awake ({})", awakening(*how)),
        Effect::ReplyWake(Err(WakeError::Agent(error))) => format!("tell: not awake ({})", error.code()),
        Effect::ReplyWake(Err(asleep)) => format!("tell: not awake ({asleep:?})").to_lowercase(),
        Effect::TurnAccepted(_, turn) => format!("tell: turn {turn} accepted"),
        Effect::TurnRefused(_, why) => format!("tell: turn refused ({why:?})").to_lowercase(),
        Effect::TurnEnded(turn) => format!("tell: turn {} over", turn.id),
        Effect::ReplyForward(_, Ok(_)) => "tell: request answered".into(),
        Effect::ReplyForward(_, Err(ForwardError::Agent(error))) => {
            format!("tell: request failed ({})", error.code())
        }
        Effect::ReplyForward(_, Err(why)) => format!("tell: request failed ({why:?})").to_lowercase(),
        Effect::ReplyPark(true) => "tell: parked".into(),
        Effect::ReplyPark(false) => "tell: not parked".into(),
        Effect::ReplyClose => "tell: closed".into(),
    }
}

fn call_name(call: &AgentCall) -> &'static str {
    match call {
        AgentCall::New => "session/new",
        AgentCall::Fork => "session/fork",
        AgentCall::Resume => "session/resume",
        AgentCall::Load => "session/load",
        AgentCall::Replay => "session/resume from the start",
        AgentCall::List => "session/list",
        AgentCall::Prompt { .. } => "session/prompt",
        AgentCall::Set(Setting { name: SettingName::Mode, .. }) => "session/set_mode",
        AgentCall::Set(_) => "session/set_config_option",
        AgentCall::Forward(_) => "the request",
        AgentCall::CancelForward(_) => "$/cancel_request",
        AgentCall::Cancel => "session/cancel",
        AgentCall::Close => "session/close",
        AgentCall::Delete => "session/delete",
    }
}

fn fact_name(fact: &Fact) -> &'static str {
    match fact {
        Fact::TurnStarted { .. } => "turn started",
        Fact::LimitNotEnforced { .. } => "limit not enforced",
        Fact::TurnEnded { .. } => "turn ended",
        Fact::Restored { .. } => "restored",
        Fact::ReplayedLate { .. } => "replayed late",
        Fact::LoadDelayed { .. } => "load delayed",
        Fact::Moved { .. } => "moved",
        Fact::SessionReset { announced: true, .. } => "reset, announced",
        Fact::SessionReset { .. } => "reset, in silence",
        Fact::SessionReturned { .. } => "returned",
        Fact::PromptResent { .. } => "prompt resent",
        Fact::McpServersLeftOut { .. } => "servers left out",
        Fact::LinesDropped { .. } => "lines dropped",
        Fact::LinesUnread { .. } => "lines unread",
        Fact::AgentAway {} => "agent away",
        Fact::AgentBack {} => "agent back",
        Fact::PermissionAsked { .. } => "permission asked",
        Fact::SettingNotRestored { .. } => "setting not restored",
        Fact::TerminalStarted { .. } => "terminal started",
        Fact::TerminalOutput { .. } => "terminal output",
        Fact::TerminalEnded { .. } => "terminal ended",
        Fact::AgentEnded { .. } => "agent ended",
        Fact::ProcessesEnded { .. } => "processes ended",
        Fact::Closed {} => "closed",
    }
}

fn turn_state(turn: &Turn) -> String {
    match &turn.state {
        TurnState::Queued => "queued".into(),
        TurnState::Dispatched { .. } => "dispatched".into(),
        TurnState::Ended { outcome: TurnOutcome::Stopped(reason), .. } => reason.as_str().into(),
        TurnState::Ended { outcome: TurnOutcome::Failed(error), .. } => error.code.to_string(),
        TurnState::Interrupted { .. } => "interrupted".into(),
    }
}

fn awakening(how: WakeOutcome) -> String {
    match how {
        WakeOutcome::Live => "live".into(),
        WakeOutcome::Created => "created".into(),
        WakeOutcome::Forked => "forked".into(),
        WakeOutcome::Returned => "returned".into(),
        WakeOutcome::Restored { rung, .. } => rung.method().into(),
        WakeOutcome::Fresh { reason, .. } => format!("fresh: {}", reason.as_str()),
    }
}
