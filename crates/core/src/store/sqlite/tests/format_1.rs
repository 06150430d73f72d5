//! Migrates a file of the first format without loss, and continues to write to it.

use std::collections::BTreeSet;

use super::*;
use crate::model::{AgentKey, AgentSessionId, Scope, StopReason, TurnError, TurnOutcome};

fn old_file(path: &Path) {
    sql(path, include_str!("format_1.sql"));
}

fn old_turn(number: u64, policy: PermissionMode, state: TurnState) -> Turn {
    Turn {
        id: TurnId(number),
        request: request(number),
        prompt: format!("[{{\"type\":\"text\",\"text\":\"prompt {number}\"}}]").into(),
        policy: policy.into(),
        wake_options: WakeOptions::default(),
        limits: TurnLimits::default(),
        queued_at: at(1000 + i64::try_from(number).unwrap()),
        state,
        usage: None,
        cost: None,
        permissions: PermissionCount::default(),
    }
}

fn old_turns() -> [Turn; 5] {
    let stopped = TurnOutcome::Stopped(StopReason::new("end_turn"));
    let acp = Some("{\"code\":-32603}".into());
    let failed = TurnOutcome::Failed(TurnError { code: "AGENT_REFUSED".into(), message: "no".into(), acp });
    [
        old_turn(1, PermissionMode::ApproveAll, TurnState::Ended { at: at(1100), outcome: stopped }),
        old_turn(2, PermissionMode::ApproveReads, TurnState::Ended { at: at(1200), outcome: failed }),
        old_turn(3, PermissionMode::DenyAll, TurnState::Interrupted { at: at(1300) }),
        old_turn(4, PermissionMode::DenyAll, TurnState::Dispatched { at: at(1400) }),
        old_turn(5, PermissionMode::ApproveReads, TurnState::Queued),
    ]
}

fn old_records() -> [Record; 2] {
    let session = |id| AcpSessionId::new(id).unwrap();
    let mut lineage = Lineage::begin(session("s1"), AgentSessionId::from_agent("inner"), at(1000));
    lineage.replace(session("s2"), None, LineageReason::AgentLost, at(1500));
    let server = |name: &str| McpServerRef { name: name.to_owned(), source: None };
    let named = Record {
        agent: AgentSpec::new("claude-agent-acp", ["--quiet", "ein \"Wort\""]).named("claude"),
        cwd: AbsolutePath::new("/home/me//project/").unwrap(),
        real_cwd: AbsolutePath::new("/srv/project").unwrap(),
        additional_directories: Vec::new(),
        mcp_servers: vec![server("files"), server("web")],
        info: crate::model::SessionInfo {
            title: Some("Zwölf Boxkämpfer".to_owned()), ..Default::default()
        },
        lineage,
        created_at: at(1000),
        updated_at: at(2003),
        last_seq: Some(Seq(3)),
        last_turn: Some(TurnId(5)),
        answered_turns: 1,
        ..record("named")
    };
    let plain = Record {
        agent: AgentSpec::new("agent", [""; 0]).with_start_timeout(Duration::from_millis(1500)),
        mcp_servers: Vec::new(),
        lifecycle: Lifecycle::Closed { at: at(900) },
        lineage: Lineage::begin(session("s3"), None, at(800)),
        created_at: at(800),
        updated_at: at(900),
        ..record("plain")
    };
    [named, plain]
}

fn old_events() -> Vec<Event> {
    let event = |seq, direction, kind, body: &str| Event {
        seq: Seq(seq),
        at: at(2000 + i64::try_from(seq).unwrap()),
        turn: Some(TurnId(1)),
        lineage: LineageIndex::FIRST,
        protocol: 1,
        direction,
        kind,
        body: body.into(),
    };
    vec![
        event(1, Direction::ToAgent, EventKind::Request, "{\"id\":1}"),
        event(2, Direction::FromAgent, EventKind::Update, "{\"text\":\"it's\"}"),
        event(3, Direction::Ours, EventKind::Fact, "{\"fact\":\"turn_ended\"}"),
    ]
}

/// Everything in a store of these two records.
async fn contents(store: &SqliteStore) -> (Vec<Record>, Vec<Event>, Vec<Turn>, Vec<Turn>) {
    let records = store.records(RecordFilter::default(), None, 10).await.unwrap();
    let mut turns = Vec::new();
    for number in 1..=6 {
        turns.extend(store.turn_numbered(id("named"), TurnId(number)).await.unwrap());
    }
    let open = store.open_turns(id("named")).await.unwrap();
    (records, store.events(id("named"), Seq(1), 10).await.unwrap(), turns, open)
}

#[tokio::test]
async fn format_1_is_migrated_without_losing_data() {
    let (_home, path) = place();
    old_file(&path);
    assert_eq!(format(&path), 1);
    let refused = SqliteStore::open(&path, Access::ReadOnly).unwrap_err();
    assert_eq!(refused.code().as_str(), "STORE_OLDER");
    let expected = (old_records().to_vec(), old_events(), old_turns().to_vec(), old_turns()[3..].to_vec());
    assert_eq!(contents(&SqliteStore::open(&path, Access::ReadWrite).unwrap()).await, expected);
    assert_eq!(format(&path), formats().0);
    assert_eq!(contents(&SqliteStore::open(&path, Access::ReadOnly).unwrap()).await, expected);
}

#[tokio::test]
async fn record_of_format_1_continues_in_the_current_format() {
    let (_home, path) = place();
    old_file(&path);
    let store = SqliteStore::open(&path, Access::ReadWrite).unwrap();
    let lease = store.lease(id("named"), host()).await.unwrap();
    assert_eq!(lease.generation(), 2);
    let [mut named, _] = old_records();
    let [.., mut waiting] = old_turns();
    waiting.usage = Some("{\"totalTokens\":3}".into());
    named.scope = Some(Scope { agent: AgentKey::new("claude"), name: None });
    let changes = vec![Change::Turn(waiting.clone()), Change::Scope(named.scope.clone()), event(4, "four")];
    store.append(lease, changes, Durability::Machine).await.unwrap();
    (named.updated_at, named.last_seq) = (at(10), Some(Seq(4)));
    assert_eq!(store.record(id("named")).await.unwrap(), Some(named));
    assert_eq!(store.turn_numbered(id("named"), TurnId(5)).await.unwrap(), Some(waiting));
}

#[test]
fn migrated_store_has_the_schema_of_a_new_one() {
    let (home, old) = place();
    old_file(&old);
    let new = home.path().join("new.db");
    let tables = [&old, &new].map(|path| {
        drop(SqliteStore::open(path, Access::ReadWrite).unwrap());
        let file = Connection::open(path).unwrap();
        let mut statement = file.prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL").unwrap();
        let made = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
        made.map(Result::unwrap).collect::<BTreeSet<String>>()
    });
    assert_eq!(tables[0], tables[1]);
}
