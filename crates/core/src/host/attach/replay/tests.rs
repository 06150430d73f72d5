//! The session's state is the same whether its last turn was read or skipped.

use super::*;
use crate::model::{
    AbsolutePath, AcpSessionId, AgentMemory, AgentSpec, HostId, Lifecycle, Lineage, LineageIndex, Record,
    RecordSettings, Timestamp,
};
use crate::store::{Change, Durability, MemoryStore};

/// A turn longer than the pages that are searched for its end.
const LONG: usize = PAGE + 40;

/// The events of a record, with the running turn.
#[derive(Default)]
struct Log {
    events: Vec<Event>,
    turn: Option<TurnId>,
    protocol: u16,
}

impl Log {
    fn push(&mut self, direction: Direction, kind: EventKind, body: &str) {
        let seq = Seq(self.events.len() as u64 + 1);
        let (turn, lineage, protocol, body) = (self.turn, LineageIndex::FIRST, self.protocol, body.into());
        self.events.push(Event { seq, at: at(1), turn, lineage, protocol, direction, kind, body });
    }

    fn begin(&mut self, turn: u64) {
        self.turn = Some(TurnId(turn));
        let fact = Fact::TurnStarted { turn, request_id: format!("q{turn}"), client: None };
        self.push(Direction::Ours, EventKind::Fact, &fact.to_body());
        let prompt = format!(r#"{{"id":{turn},"method":"session/prompt","params":{{"prompt":[]}}}}"#);
        self.push(Direction::ToAgent, EventKind::Request, &prompt);
        for _ in 0..LONG {
            let said = r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"x"}}"#;
            self.update(said);
        }
    }

    fn update(&mut self, update: &str) {
        let line = format!(r#"{{"method":"session/update","params":{{"sessionId":"s","update":{update}}}}}"#);
        self.push(Direction::FromAgent, EventKind::Update, &line);
    }

    fn answer(&mut self, turn: u64) {
        let answer =
            format!(r#"{{"id":{turn},"result":{{"stopReason":"end_turn","usage":{{"turn":{turn}}}}}}}"#);
        self.push(Direction::FromAgent, EventKind::Response, &answer);
        self.end(turn);
        self.turn = None;
    }

    fn end(&mut self, turn: u64) {
        let fact = Fact::TurnEnded { turn, stop_reason: Some("end_turn".to_owned()), error: None };
        self.push(Direction::Ours, EventKind::Fact, &fact.to_body());
    }
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis).unwrap()
}

async fn store_with(events: Vec<Event>) -> (Arc<dyn Store>, RecordId) {
    let id = RecordId::new("r").unwrap();
    let cwd = AbsolutePath::new("/w").unwrap();
    let record = Record {
        id: id.clone(),
        agent: AgentSpec::new("a", [""; 0]),
        real_cwd: cwd.clone(),
        cwd,
        additional_directories: Vec::new(),
        scope: None,
        mcp_servers: Vec::new(),
        info: crate::model::SessionInfo::default(),
        lifecycle: Lifecycle::Open,
        lineage: Lineage::begin(AcpSessionId::new("s").unwrap(), None, at(1)),
        agent_run: None,
        settings: RecordSettings::default(),
        memory: AgentMemory::default(),
        restore_error: None,
        created_at: at(1),
        updated_at: at(1),
        last_seq: None,
        last_turn: None,
        answered_turns: 0,
    };
    let store = MemoryStore::new();
    let lease = store.create(record, Vec::new(), HostId::new("h").unwrap()).await.unwrap();
    let changes = events.into_iter().map(Change::Event).collect();
    store.append(lease, changes, Durability::Process).await.unwrap();
    (Arc::new(store), id)
}

/// Checks the state after every event near a fact.
async fn is_told_as_if_all_was_read(log: Log) {
    let events = log.events.clone();
    let (store, record) = store_with(log.events).await;
    let (client, mut whole) = (ClientFacts::default(), SessionState::default());
    for event in &events {
        whole.take(event);
        let is_near_a_fact =
            |near: &Event| near.kind == EventKind::Fact && near.seq.0.abs_diff(event.seq.0) < 4;
        if !events.iter().any(is_near_a_fact) {
            continue;
        }
        for missed in
            [None, Some(Seq::FIRST), Some(event.seq), Some(Seq(event.seq.0.saturating_sub(1).max(1)))]
        {
            let brief = state_before(&store, &record, &client, event.seq.next(), missed).await.unwrap();
            let [told, expected] = [&brief, &whole].map(|state| state.standing_line(&record, missed));
            assert_eq!(told, expected, "after event {} for {missed:?}", event.seq);
        }
    }
}

#[tokio::test]
async fn session_state_is_the_same_with_or_without_reading_the_last_turn() {
    let mut log = Log { protocol: 1, ..Log::default() };
    log.begin(1);
    log.answer(1);
    log.begin(2);
    // One queued turn is cancelled before it starts, and one after the other turn ended.
    log.end(3);
    let ask = r#"{"id":"p","method":"session/request_permission","params":{}}"#;
    log.push(Direction::FromAgent, EventKind::Request, ask);
    log.push(Direction::ToAgent, EventKind::Response, r#"{"id":"p","result":{}}"#);
    log.answer(2);
    log.end(4);
    log.push(Direction::Ours, EventKind::Fact, &Fact::AgentEnded { how: "closed".to_owned() }.to_body());
    is_told_as_if_all_was_read(log).await;
}

#[tokio::test]
async fn work_of_a_version_2_agent_outside_turns_is_in_the_state() {
    let mut log = Log { protocol: 2, ..Log::default() };
    log.begin(1);
    log.update(r#"{"sessionUpdate":"state_update","state":"running","background":[{"id":"b"}]}"#);
    log.answer(1);
    is_told_as_if_all_was_read(log).await;
}

#[tokio::test]
async fn a_cursor_to_a_turn_that_never_started_is_an_error() {
    let mut log = Log { protocol: 1, ..Log::default() };
    log.begin(1);
    log.end(2);
    log.answer(1);
    log.begin(3);
    let third = log.events.iter().filter_map(|event| started(event).map(|_| event.seq)).next_back();
    let (until, (store, record)) = (log.events.last().map(|event| event.seq), store_with(log.events).await);
    let kept = RecordEvents::new(store, record.clone(), until);
    let by_id = |turn| Cursor::Message(format!("{record}:turn:{turn}").into());
    for (turn, place) in [(1, Some(Seq::FIRST)), (2, None), (3, third), (4, None)] {
        for cursor in [Cursor::Turn(TurnId(turn)), by_id(turn)] {
            assert_eq!(kept.find(&cursor).await.ok(), place, "{cursor:?}");
        }
    }
}

#[tokio::test]
async fn user_messages_outside_turns_count_as_replay_turns() {
    let mut log = Log { protocol: 1, ..Log::default() };
    let chunk = |kind: &str, more: &str| {
        format!(r#"{{"sessionUpdate":"{kind}_message_chunk","content":{{"type":"text","text":"x"}}{more}}}"#)
    };
    let (user, agent) = (|more: &str| chunk("user", more), || chunk("agent", ""));
    let mut begins = Vec::new();
    let mut begin = |log: &Log| begins.push(Seq(log.events.len() as u64 + 1));
    // Adopted messages: in chunks with another update between them, longer than a page, and two with ids.
    begin(&log);
    log.update(&user(""));
    log.update(r#"{"sessionUpdate":"available_commands_update","availableCommands":[]}"#);
    log.update(&user(""));
    log.update(&agent());
    begin(&log);
    for _ in 0..LONG {
        log.update(&user(""));
    }
    log.update(&agent());
    for id in ["m1", "m2"] {
        begin(&log);
        log.update(&user(&format!(r#","messageId":"{id}""#)));
    }
    log.update(&agent());
    // Our turns; the agent's echo of a prompt is not another exchange.
    begin(&log);
    log.begin(1);
    log.update(&user(""));
    log.answer(1);
    // Sent by another client of the agent.
    begin(&log);
    log.update(&user(""));
    log.update(&agent());
    let (until, (store, record)) = (log.events.last().map(|event| event.seq), store_with(log.events).await);
    let kept = RecordEvents::new(store, record, until);
    assert_eq!(kept.last_turns(0).await.unwrap(), kept.end());
    for (count, expected) in (1..).zip(begins.iter().rev()) {
        assert_eq!(kept.last_turns(count).await.unwrap(), *expected, "the last {count}");
    }
    assert_eq!(kept.last_turns(7).await.unwrap(), Seq::FIRST);
}
