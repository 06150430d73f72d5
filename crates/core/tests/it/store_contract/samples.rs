//! Values to keep. Each is whole and plain; a test changes what it is about.

use std::num::NonZeroU64;
use std::sync::Arc;

use acpx_core::model::{
    AbsolutePath, AcpSessionId, AgentMemory, AgentSessionId, AgentSpec, Choices, Direction, Event, EventKind,
    HostId, Lifecycle, Lineage, LineageIndex, McpServerRef, OfferedSetting, OfferedSettings, PermissionCount,
    PermissionMode, Record, RecordId, RecordSettings, RequestId, Seq, Setting, SettingName, SettingValue,
    SetupOptions, StopReason, SystemPrompt, Timestamp, Turn, TurnError, TurnId, TurnLimits, TurnOutcome,
    TurnState, UnmetSetting, WakeOptions,
};
use acpx_core::store::{Change, Store, StoreError};

pub(crate) fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis).unwrap()
}

pub(crate) fn id(text: &str) -> RecordId {
    RecordId::new(text).unwrap()
}

pub(crate) fn request(text: &str) -> RequestId {
    RequestId::new(text).unwrap()
}

pub(crate) fn host(text: &str) -> HostId {
    HostId::new(text).unwrap()
}

pub(crate) fn session(text: &str) -> AcpSessionId {
    AcpSessionId::new(text).unwrap()
}

/// A server as it is kept.
pub(crate) fn server(name: &str, source: Option<&str>) -> McpServerRef {
    let source = source.map(|source| AbsolutePath::new(source).unwrap());
    McpServerRef { name: name.to_owned(), source }
}

/// A record as it is before its first change, begun at `millis`.
pub(crate) fn record(name: &str, millis: i64) -> Record {
    Record {
        id: id(name),
        agent: AgentSpec::new("claude-agent-acp", ["--quiet", "ein \"Wort\"\n"]).named("claude"),
        cwd: AbsolutePath::new("/home/me//project/").unwrap(),
        real_cwd: AbsolutePath::new("/srv/project").unwrap(),
        additional_directories: Vec::new(),
        scope: None,
        mcp_servers: vec![server("files", None)],
        info: acpx_core::model::SessionInfo::default(),
        lifecycle: Lifecycle::Open,
        lineage: Lineage::begin(session("s1"), AgentSessionId::from_agent("inner"), at(millis)),
        agent_run: None,
        settings: RecordSettings::default(),
        memory: AgentMemory::default(),
        restore_error: None,
        created_at: at(millis),
        updated_at: at(millis),
        last_seq: None,
        last_turn: None,
        answered_turns: 0,
    }
}

/// Event number `seq`, kept `seq` milliseconds after the moment 1000, of a kind that always moves the record's time.
pub(crate) fn event(seq: u64, body: impl Into<Arc<str>>) -> Event {
    Event {
        seq: Seq(seq),
        at: at(1000 + i64::try_from(seq).unwrap()),
        turn: None,
        lineage: LineageIndex::FIRST,
        protocol: 1,
        direction: Direction::FromAgent,
        kind: EventKind::Notification,
        body: body.into(),
    }
}

/// Events `first..=last` as changes.
pub(crate) fn events(first: u64, last: u64) -> Vec<Change> {
    (first..=last).map(|seq| Change::Event(event(seq, format!("{{\"n\":{seq}}}")))).collect()
}

pub(crate) fn turn(number: u64, name: &str, state: TurnState) -> Turn {
    Turn {
        id: TurnId(number),
        request: request(name),
        prompt: format!("[{{\"type\":\"text\",\"text\":\"prompt {number}\"}}]").into(),
        policy: PermissionMode::ApproveReads.into(),
        wake_options: WakeOptions::default(),
        limits: TurnLimits::default(),
        queued_at: at(10),
        state,
        usage: None,
        cost: None,
        permissions: PermissionCount::default(),
    }
}

pub(crate) fn dispatched() -> TurnState {
    TurnState::Dispatched { at: at(20) }
}

pub(crate) fn stopped(reason: &str) -> TurnState {
    TurnState::Ended { at: at(30), outcome: TurnOutcome::Stopped(StopReason::new(reason)) }
}

pub(crate) fn failed() -> TurnState {
    let acp: Option<Arc<str>> = Some("{\"code\":-32603,\"message\":\"Internal error\"}".into());
    let error = TurnError { code: "RUNTIME".into(), message: "the agent failed".into(), acp };
    TurnState::Ended { at: at(30), outcome: TurnOutcome::Failed(error) }
}

/// All events of a record, read in pages of `limit`.
pub(crate) async fn all_events(
    store: &dyn Store,
    record: &RecordId,
    limit: usize,
) -> Result<Vec<Event>, StoreError> {
    let mut all: Vec<Event> = Vec::new();
    loop {
        let from = all.last().map_or(Seq::FIRST, |event| event.seq.next());
        let page = store.events(record.clone(), from, limit).await?;
        if page.is_empty() {
            return Ok(all);
        }
        all.extend(page);
    }
}

/// Settings of every kind, of which the mode is this.
pub(super) fn settings_of(mode: &str) -> RecordSettings {
    let value = SettingValue::Id(mode.into());
    let web = SettingName::Option("web".into());
    let shown = |name: &SettingName, choices| OfferedSetting {
        name: name.clone(),
        category: Some("model".into()),
        value: Some(value.clone()),
        choices,
    };
    RecordSettings {
        chosen: vec![
            Setting { name: SettingName::Mode, value: value.clone() },
            Setting { name: web.clone(), value: SettingValue::Flag(true) },
        ],
        reported: OfferedSettings(vec![
            shown(&SettingName::Mode, Choices::Unknown),
            shown(&web, Choices::Of(vec![mode.into()])),
            shown(&web, Choices::Flag),
        ]),
        unmet: vec![UnmetSetting { name: web, reason: mode.into() }],
        setup: SetupOptions {
            system_prompt: Some(SystemPrompt::Append { append: mode.to_owned() }),
            allowed_tools: Some(Vec::new()),
            max_turns: NonZeroU64::new(7),
            no_fs: true,
            no_terminal: false,
        },
    }
}
