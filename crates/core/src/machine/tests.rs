//! Tests of the machine: every state against every input as a published table, and the hard cases one by one. No I/O,
//! no async.

use std::sync::Arc;

use super::*;
use crate::model::{
    AcpSessionId, Advertised, AgentRequestId, AgentSessionId, AgentSpec, AgentState, Choices, ChunkContent,
    ErrorCode, ErrorMeaning, Exchange, Fact, ForwardId, HistoryExtent, LineageReason, LoadWait, MessageKind,
    OfferedSetting, OfferedSettings, PermissionCount, PermissionMode, PermissionPolicy, Permit, RecordId,
    RecordSettings, ReplayVerdict, RestoreError, RestoreProfile, Setting, SettingName, SettingValue,
    SetupOptions, StopReason, ToolUse, TurnError, TurnLimits, TurnOutcome, TurnState, Update,
};

mod adopting;
mod cases;
mod deleting;
mod forking;
mod limits;
mod permissions;
mod restore_profile;
mod retry;
mod settings;
mod spending;
mod table;
mod unknown_session;
mod version_2;
mod wait_condition;
mod wake_options;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis).unwrap()
}

fn session(id: &str) -> AcpSessionId {
    AcpSessionId::new(id).unwrap()
}

fn died() -> AgentError {
    AgentError::Died { agent: "a".into(), how: "exit code 1".into(), output: Vec::new() }
}

fn refused(meaning: ErrorMeaning) -> Input {
    Input::SetupRefused(refusal(meaning))
}

fn refusal(meaning: ErrorMeaning) -> AgentError {
    AgentError::Refused {
        agent: "a".into(),
        method: "m".into(),
        code: -1,
        message: "no".into(),
        field: None,
        acp: Arc::from("{}"),
        meaning,
    }
}

fn prompt(request: &str) -> Input {
    Input::Prompt {
        request: RequestId::new(request).unwrap(),
        prompt: Arc::from(r#"[{"type":"text","text":"two"}]"#),
        policy: PermissionMode::ApproveReads.into(),
        options: WakeOptions::default(),
        limits: TurnLimits::default(),
    }
}

/// A prompt whose turn may take a second, and whose agent may be silent for half a second.
fn limited(request: &str) -> Input {
    let Input::Prompt { request, prompt, policy, options, .. } = prompt(request) else { panic!("a prompt") };
    let millis = std::time::Duration::from_millis;
    let limits =
        TurnLimits { whole: Some(millis(1000)), silence: Some(millis(500)), ..TurnLimits::default() };
    Input::Prompt { request, prompt, policy, options, limits }
}

/// A prompt that is sent again this many times.
fn retried(request: &str, retries: u32) -> Input {
    let Input::Prompt { request, prompt, policy, options, .. } = prompt(request) else { panic!("a prompt") };
    let limits = TurnLimits { retries, ..TurnLimits::default() };
    Input::Prompt { request, prompt, policy, options, limits }
}

/// An internal error of the agent as the answer to a prompt.
fn internal_error() -> Input {
    let AgentError::Refused { agent, method, message, field, acp, meaning, .. } =
        refusal(ErrorMeaning::Broken)
    else {
        panic!("a refusal")
    };
    Input::PromptAnswered(Err(AgentError::Refused {
        agent,
        method,
        code: -32603,
        message,
        field,
        acp,
        meaning,
    }))
}

/// A live session whose prompt waits to be sent again, with these inputs before its refusal.
fn awaiting_retry(inputs: Vec<Input>) -> SessionMachine {
    let mut machine = live(ALL);
    feed(&mut machine, [retried("p", 1)].into_iter().chain(inputs).chain([internal_error()]));
    machine
}

fn chunk(kind: MessageKind, text: &str) -> Input {
    let update = Update::Chunk { kind, message_id: None, content: ChunkContent::Text(text.into()) };
    Input::Update { update, body: Arc::from(text) }
}

/// A forwarded request of a client.
fn pass(id: u64) -> Input {
    let (method, params) = ("session/set_mode".into(), Arc::from("{}"));
    Input::Forward(ForwardedRequest {
        id: ForwardId(id),
        method,
        params,
        setting: None,
        options: WakeOptions::default(),
        is_resent: false,
    })
}

/// A client's request to set a mode.
fn pass_mode(id: u64, mode: &str) -> Input {
    let Input::Forward(pass) = pass(id) else { panic!("a request") };
    Input::Forward(ForwardedRequest { setting: Some(wish(SettingName::Mode, mode)), ..pass })
}

fn wish(name: SettingName, value: &str) -> Setting {
    Setting { name, value: SettingValue::Id(value.into()) }
}

/// The offer of an agent with two modes, one of them active.
fn offers(mode: &str) -> OfferedSettings {
    let name = SettingName::Mode;
    let value = Some(SettingValue::Id(mode.into()));
    let choices = Choices::Of(vec!["ask".into(), "plan".into()]);
    OfferedSettings(vec![OfferedSetting { name, category: None, value, choices }])
}

/// A stored record with a chosen mode.
fn wishing() -> SessionMachine {
    let mut machine = kept(1);
    machine.config.settings.chosen = vec![wish(SettingName::Mode, "plan")];
    machine
}

/// A live session in which a client chose a mode.
fn in_mode(mode: &str) -> SessionMachine {
    let mut machine = live(ALL);
    let answered = Input::ForwardAnswered { id: ForwardId(9), answer: Ok(Arc::from("{}")) };
    feed(&mut machine, [pass_mode(9, mode), Input::SettingsOffered(offers(mode)), answered]);
    machine
}

/// A state report of a version 2 agent.
fn state(state: AgentState) -> Input {
    let own_turn = RequestId::new("own").unwrap();
    Input::StateReported { state, background: false, body: Some(Arc::from("state")), own_turn }
}

/// A state report of an agent with background work.
fn beside(state: AgentState) -> Input {
    let own_turn = RequestId::new("own").unwrap();
    Input::StateReported { state, background: true, body: Some(Arc::from("state")), own_turn }
}

fn request_id() -> AgentRequestId {
    AgentRequestId("7".into())
}

/// A permission request for a tool use of this kind.
fn permission(kind: &str) -> Input {
    Input::Permission { id: request_id(), tool: of_kind(kind), has_options: true, can_approve: true }
}

fn of_kind(kind: &str) -> ToolUse {
    ToolUse { protocol_kind: Some(kind.into()), ..ToolUse::default() }
}

const ALL: Advertised =
    Advertised { load: true, replay: false, resume: true, list: false, close: true, delete: true };
const NONE: Advertised =
    Advertised { load: false, replay: false, resume: false, list: false, close: false, delete: false };
const LOAD: Advertised = Advertised { load: true, ..NONE };
const REPLAY: Advertised = Advertised { replay: true, ..NONE };
const RESUME: Advertised = Advertised { resume: true, ..NONE };

/// The profile of an agent that names a session's file by the minute.
const BY_THE_MINUTE: RestoreProfile = RestoreProfile {
    needs_prompt_before_load: false,
    wait_before_load: LoadWait::NextMinute,
    replays_on_resume: false,
    notes: Vec::new(),
};

fn ready(advertised: Advertised) -> Input {
    ready_after(1, advertised)
}

/// A started agent, and a conversation of this many answered prompts.
fn ready_after(answered: u64, advertised: Advertised) -> Input {
    let exchange =
        |_| Exchange { prompt: "one".into(), answered: true, reply: "first".into(), ..Exchange::default() };
    let exchanges = (0..answered).map(exchange).collect();
    Input::AgentReady {
        advertised,
        profile: RestoreProfile::default(),
        exchanges,
        last_message_at: Some(at(100)),
        carried_history: None,
        on_resume: OnResume::Nothing,
    }
}

/// A started agent with this profile, in a conversation of one answered prompt.
fn ready_with(profile: RestoreProfile, advertised: Advertised) -> Input {
    match ready(advertised) {
        Input::AgentReady { exchanges, last_message_at, carried_history, on_resume, .. } => {
            Input::AgentReady { advertised, profile, exchanges, last_message_at, carried_history, on_resume }
        }
        other => other,
    }
}

/// A stored record whose agent answered `answered` prompts.
fn kept(answered: u64) -> SessionMachine {
    let record = Record {
        id: RecordId::new("r").unwrap(),
        agent: AgentSpec::new("a", [""; 0]),
        cwd: crate::model::AbsolutePath::new("/w").unwrap(),
        real_cwd: crate::model::AbsolutePath::new("/w").unwrap(),
        additional_directories: Vec::new(),
        scope: None,
        mcp_servers: Vec::new(),
        info: crate::model::SessionInfo::default(),
        lifecycle: Lifecycle::Open,
        lineage: Lineage::begin(session("s1"), AgentSessionId::from_agent("inner"), at(1)),
        agent_run: None,
        settings: crate::model::RecordSettings::default(),
        memory: crate::model::AgentMemory::default(),
        restore_error: None,
        created_at: at(1),
        updated_at: at(100),
        last_seq: None,
        last_turn: (answered > 0).then_some(TurnId(answered)),
        answered_turns: answered,
    };
    SessionMachine::of_record(&record)
}

/// Feeds inputs and returns the effects of the last.
fn feed(machine: &mut SessionMachine, inputs: impl IntoIterator<Item = Input>) -> Vec<Effect> {
    let mut effects = Vec::new();
    for input in inputs {
        effects = machine.handle(at(1000), input);
    }
    effects
}

/// A session that is being adopted.
fn adopting() -> SessionMachine {
    SessionMachine::adopting("a", session("theirs"), at(5))
}

/// A session that the agent is to fork from a stored record's session.
fn forking() -> SessionMachine {
    SessionMachine { target: RestoreTarget::Forked, ..kept(1) }
}

/// A stored record, live again by resume.
fn live(advertised: Advertised) -> SessionMachine {
    let mut machine = kept(1);
    let answer = Input::SessionRestored { agent_session: None };
    feed(&mut machine, [Input::Wake(WakeOptions::default()), ready(advertised), answer]);
    assert!(machine.is_live(), "{:?}", machine.state);
    machine
}
