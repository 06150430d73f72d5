//! What the writer writes. Everything follows from a record's number and an event's, so whoever reads the store
//! can tell what must be there.

use acpx_core::model::{
    AbsolutePath, AcpSessionId, AgentSpec, Direction, Event, EventKind, Lifecycle, Lineage, LineageIndex,
    PermissionCount, PermissionMode, Record, RecordId, RequestId, Seq, StopReason, Timestamp, Turn, TurnId,
    TurnLimits, TurnOutcome, TurnState, WakeOptions,
};

/// The records that are written to.
pub(crate) const NAMES: [&str; 3] = ["r0", "r1", "r2"];
/// Events of one turn.
pub(crate) const TURN: u64 = 7;
/// Events of the largest append.
pub(crate) const APPEND: u64 = 40;

/// A record as it is created.
pub(crate) fn record(number: usize) -> Record {
    let directory = AbsolutePath::new("/work").expect("absolute");
    let session = AcpSessionId::new("s").expect("not empty");
    Record {
        id: RecordId::new(NAMES[number]).expect("not empty"),
        agent: AgentSpec::new("agent", ["--quiet"]),
        cwd: directory.clone(),
        real_cwd: directory,
        additional_directories: Vec::new(),
        scope: None,
        mcp_servers: Vec::new(),
        info: acpx_core::model::SessionInfo::default(),
        lifecycle: Lifecycle::Open,
        lineage: Lineage::begin(session, None, at(0)),
        agent_run: None,
        settings: acpx_core::model::RecordSettings::default(),
        memory: acpx_core::model::AgentMemory::default(),
        restore_error: None,
        created_at: at(0),
        updated_at: at(0),
        last_seq: None,
        last_turn: None,
        answered_turns: 0,
    }
}

/// An event.
pub(crate) fn event(number: usize, seq: u64) -> Event {
    // Now and then one that goes into a blob.
    let length = if seq.is_multiple_of(397) { 70_000 } else { (seq * 13) % 600 };
    let filling: String = (0..length).map(|place| if place % 7 == 0 { 'a' } else { 'b' }).collect();
    Event {
        seq: Seq(seq),
        at: at(seq),
        turn: Some(turn_of(seq)),
        lineage: LineageIndex::FIRST,
        protocol: 1,
        direction: Direction::FromAgent,
        kind: EventKind::Update,
        body: format!("{number}:{seq}:{filling}").into(),
    }
}

/// The turn an event belongs to.
pub(crate) fn turn_of(seq: u64) -> TurnId {
    TurnId((seq - 1) / TURN + 1)
}

/// The turn of an event while it runs.
pub(crate) fn running_turn(seq: u64) -> Turn {
    let id = turn_of(seq);
    Turn {
        id,
        request: RequestId::new(format!("q{id}")).expect("not empty"),
        prompt: format!("[{{\"type\":\"text\",\"text\":\"prompt {id}\"}}]").into(),
        policy: PermissionMode::ApproveReads.into(),
        wake_options: WakeOptions::default(),
        limits: TurnLimits::default(),
        queued_at: at(0),
        state: TurnState::Dispatched { at: at(1) },
        usage: None,
        cost: None,
        permissions: PermissionCount::default(),
    }
}

/// The same when it has ended.
pub(crate) fn ended_turn(seq: u64) -> Turn {
    let outcome = TurnOutcome::Stopped(StopReason::new("end_turn"));
    Turn { state: TurnState::Ended { at: at(2), outcome }, ..running_turn(seq) }
}

fn at(millis: u64) -> Timestamp {
    let millis = i64::try_from(millis).ok().and_then(|millis| Timestamp::from_millis(millis).ok());
    millis.expect("a time not long after 1970")
}
