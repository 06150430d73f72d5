//! Columns of later formats: damage in them is detected too, and no lookup scans all records.

use std::sync::Arc;

use super::*;
use crate::model::{
    AgentEnd, AgentExit, AgentKey, AgentMemory, AgentRun, Budget, Choices, Cost, Fallback, Money,
    OfferedSetting, OfferedSettings, ProcessIdentity, ProtocolVersion, RecordSettings, RestoreError, Scope,
    SessionInfo, SessionName, SessionUsage, Setting, SettingName, SettingValue, SetupOptions, SpendingLimits,
    ToolPolicy, UnattendedPolicy, UnmetSetting,
};

/// A record with a value in every column, and a turn.
pub(super) fn full() -> (Record, Change) {
    let Change::Turn(mut ended) = turn(1, TurnState::Interrupted { at: at(8) }) else { unreachable!() };
    ended.usage = Some("{}".into());
    ended.permissions = PermissionCount { approved: 2, rejected: 1 };
    ended.policy.tools = Some(Arc::new(ToolPolicy::parse(r#"{"autoDeny":["edit"]}"#).unwrap()));
    ended.policy.unasked = UnattendedPolicy::Wait;
    ended.wake_options = WakeOptions { fallback: Fallback::Never, carry_history: true };
    let millis = std::time::Duration::from_millis;
    let spending = SpendingLimits {
        turn: Budget { cost: Money::of(0.5, "USD"), tokens: None },
        session: Budget { cost: None, tokens: Some(9) },
    };
    ended.limits = TurnLimits {
        whole: Some(millis(90_000)),
        silence: Some(millis(1500)),
        spending,
        ..TurnLimits::default()
    };
    ended.cost = Money::of(0.25, "USD");
    let source = Some(AbsolutePath::new("/etc/servers.json").unwrap());
    let full = Record {
        scope: Some(Scope { agent: AgentKey::new("claude"), name: SessionName::new("name").ok() }),
        mcp_servers: vec![McpServerRef { name: "files".to_owned(), source }],
        agent_run: Some(AgentRun {
            process: ProcessIdentity { pid: 77, started: 5, boot: "boot".to_owned() },
            since: at(5),
            ended: Some(AgentExit { at: at(6), how: AgentEnd::Otherwise("exit status: 1".to_owned()) }),
        }),
        agent: record("r").agent.with_protocol(ProtocolVersion::V2),
        settings: settings(),
        additional_directories: vec![AbsolutePath::new("/more").unwrap()],
        memory: AgentMemory::Since { from: Seq(3), reason: Some(LineageReason::AgentLost) },
        restore_error: Some(RestoreError {
            method: Some("session/load".to_owned()),
            code: Some(-32602),
            message: "Invalid params".to_owned(),
            field: Some("cwd".to_owned()),
            at: at(6),
        }),
        info: SessionInfo {
            title: None,
            user_title: Some("mine".to_owned()),
            usage: Some(SessionUsage {
                used: 7,
                size: 200_000,
                cost: Some(Cost { amount: 2.into(), currency: "USD".to_owned() }),
            }),
        },
        ..record("r")
    };
    (full, Change::Turn(ended))
}

/// Settings of every kind.
fn settings() -> RecordSettings {
    let mode = || SettingName::Mode;
    let id = |text: &str| SettingValue::Id(text.into());
    let option = |id: &str| SettingName::Option(id.into());
    let shown = |name, category: Option<&str>, value, choices| OfferedSetting {
        name,
        category: category.map(Into::into),
        value,
        choices,
    };
    RecordSettings {
        chosen: vec![
            Setting { name: mode(), value: id("plan") },
            Setting { name: option("web"), value: SettingValue::Flag(true) },
        ],
        reported: OfferedSettings(vec![
            shown(mode(), None, Some(id("ask")), Choices::Unknown),
            shown(option("model"), Some("model"), Some(id("m1")), Choices::Of(vec!["m1".into()])),
            shown(option("web"), None, None, Choices::Flag),
        ]),
        unmet: vec![UnmetSetting { name: mode(), reason: "no".into() }],
        setup: SetupOptions::default(),
    }
}

fn query(agent: &str, name: &str) -> ScopeQuery {
    ScopeQuery {
        agent: AgentKey::new(agent),
        directories: vec![AbsolutePath::new("/work").unwrap()],
        name: SessionName::new(name).ok(),
        closed: true,
    }
}

async fn problem_with(change: &str, checksums_agree: bool) -> String {
    problem_with_one(Lifecycle::Open, change, checksums_agree).await
}

async fn problem_with_one(lifecycle: Lifecycle, change: &str, checksums_agree: bool) -> String {
    let (_home, path) = place();
    let store = open(&path, Access::ReadWrite, Migrations::OURS).unwrap();
    let (full, ended) = full();
    let full = Record { lifecycle, ..full };
    store.create(full.clone(), vec![ended.clone()], host()).await.unwrap();
    let Change::Turn(ended) = ended else { unreachable!() };
    let kept = Record { last_turn: Some(TurnId(1)), ..full };
    assert_eq!(store.record(id("r")).await.unwrap(), Some(kept));
    assert_eq!(store.turn_numbered(id("r"), TurnId(1)).await.unwrap(), Some(ended));
    drop(store);
    let file = Connection::open(&path).unwrap();
    file.execute_batch(change).unwrap();
    if checksums_agree {
        agree(&file, &rows::RECORD);
        agree(&file, &rows::TURN);
    }
    drop(file);
    let store = open(&path, Access::ReadOnly, Migrations::OURS).unwrap();
    let read = async {
        store.running().await?;
        store.record(id("r")).await?;
        store.turn_numbered(id("r"), TurnId(1)).await
    };
    match read.await.unwrap_err() {
        StoreError::Corrupt { problem, .. } => problem,
        other => panic!("{change}: {other:?}"),
    }
}

#[tokio::test]
async fn explicit_start_timeout_differs_from_an_absent_one() {
    let (_home, path) = place();
    let store = open(&path, Access::ReadWrite, Migrations::OURS).unwrap();
    let millis = std::time::Duration::from_millis;
    let rows = [
        ("none", None, None),
        ("none at all", Some(millis(0)), Some(millis(0))),
        ("the usual", Some(AgentSpec::DEFAULT_START_TIMEOUT), Some(millis(120_001))),
        ("another", Some(millis(300_000)), Some(millis(300_000))),
    ];
    for (name, said, kept) in rows {
        let agent = AgentSpec { start_timeout: said, ..record(name).agent };
        store.create(Record { agent, ..record(name) }, Vec::new(), host()).await.unwrap();
        let read = store.record(id(name)).await.unwrap().unwrap();
        assert_eq!(read.agent.start_timeout, kept, "{name}");
    }
}

#[tokio::test]
async fn a_changed_or_lost_value_of_a_later_column_is_damage() {
    let changes = [
        "UPDATE records SET scope_agent = 'codex'",
        "UPDATE records SET scope_name = ''",
        "UPDATE records SET scope_agent = NULL, scope_name = NULL",
        "UPDATE records SET run_pid = 78",
        "UPDATE records SET run_ended_at = NULL, run_ended_how = NULL",
        "UPDATE records SET run_pid = NULL, run_started = NULL, run_boot = NULL, run_since = NULL, \
         run_ended_at = NULL, run_ended_how = NULL",
        "UPDATE records SET mcp_servers = '[\"files\"]'",
        "UPDATE records SET deleted_at = 9",
        "UPDATE records SET protocol = NULL",
        "UPDATE records SET settings = NULL",
        "UPDATE records SET settings = '{}'",
        "UPDATE records SET additional_directories = NULL",
        "UPDATE records SET additional_directories = '[\"/other\"]'",
        "UPDATE records SET memory = NULL",
        "UPDATE records SET memory = '{\"how\":\"compacted\"}'",
        "UPDATE records SET restore_error = NULL",
        "UPDATE records SET restore_error = '{\"message\":\"other\",\"at\":6}'",
        "UPDATE records SET user_title = 'other'",
        "UPDATE records SET usage = NULL",
        "UPDATE turns SET usage = NULL",
        "UPDATE turns SET approved = 3",
        "UPDATE turns SET rejected = NULL",
        "UPDATE turns SET fallback = 'reset'",
        "UPDATE turns SET fallback = NULL",
        "UPDATE turns SET carry_history = NULL",
        "UPDATE turns SET tool_policy = NULL",
        "UPDATE turns SET unasked = 'fail'",
        "UPDATE turns SET limit_ms = 90001",
        "UPDATE turns SET silence_ms = NULL",
        "UPDATE turns SET usage = NULL, approved = NULL, rejected = NULL, fallback = NULL, \
         carry_history = NULL, tool_policy = NULL, unasked = NULL, limit_ms = NULL, silence_ms = NULL",
    ];
    for change in changes {
        let problem = problem_with(change, false).await;
        assert!(problem.ends_with("is not what was written"), "{change}: {problem}");
    }
}

#[tokio::test]
async fn invalid_later_column_is_damage_despite_a_valid_checksum() {
    let changes = [
        ("UPDATE records SET scope_agent = NULL", "records.scope_name"),
        ("UPDATE records SET scope_name = NULL", "records.scope_name"),
        ("UPDATE records SET scope_name = ' name'", "records.scope_name"),
        ("UPDATE records SET scope_name = char(27)", "records.scope_name"),
        ("UPDATE records SET run_pid = NULL", "records.run_started"),
        ("UPDATE records SET run_pid = -1", "records.run_pid"),
        ("UPDATE records SET run_pid = 4294967296", "records.run_pid"),
        ("UPDATE records SET run_boot = NULL", "records.run_boot"),
        ("UPDATE records SET run_since = NULL", "records.run_since"),
        ("UPDATE records SET run_ended_at = NULL", "records.run_ended_how"),
        ("UPDATE records SET run_ended_how = NULL", "records.run_ended_how"),
        ("UPDATE records SET mcp_servers = '[1]'", "records.mcp_servers"),
        ("UPDATE records SET mcp_servers = '[{\"name\":\"files\"}]'", "records.mcp_servers"),
        ("UPDATE records SET mcp_servers = '[{\"name\":\"a\",\"source\":\"b\"}]'", "records.mcp_servers"),
        ("UPDATE records SET deleted_at = 9223372036854775807", "records.deleted_at"),
        ("UPDATE records SET deleted_at = 9, closed_at = 9", "records.deleted_at"),
        ("UPDATE records SET protocol = 1", "records.protocol"),
        ("UPDATE records SET protocol = 3", "records.protocol"),
        ("UPDATE records SET settings = ''", "records.settings"),
        ("UPDATE records SET settings = '{}'", "records.settings"),
        ("UPDATE records SET settings = '{\"wished\":[{}]}'", "records.settings"),
        ("UPDATE records SET settings = '{\"wanted\":[]}'", "records.settings"),
        ("UPDATE records SET settings = '{\"shown\":[{\"choices\":[],\"flag\":true}]}'", "records.settings"),
        ("UPDATE records SET additional_directories = '[]'", "records.additional_directories"),
        ("UPDATE records SET additional_directories = '[\"more\"]'", "records.additional_directories"),
        ("UPDATE records SET additional_directories = '\"/more\"'", "records.additional_directories"),
        ("UPDATE records SET memory = '{}'", "records.memory"),
        ("UPDATE records SET memory = '\"compacted\"'", "records.memory"),
        ("UPDATE records SET memory = '{\"how\":\"fresh\"}'", "records.memory"),
        ("UPDATE records SET memory = '{\"how\":\"fresh\",\"from\":3,\"reason\":\"no\"}'", "records.memory"),
        ("UPDATE records SET restore_error = '{}'", "records.restore_error"),
        ("UPDATE records SET restore_error = '{\"message\":\"m\"}'", "records.restore_error"),
        ("UPDATE records SET usage = '{}'", "records.usage"),
        ("UPDATE records SET usage = '{\"used\":-1,\"size\":1}'", "records.usage"),
        ("UPDATE turns SET approved = -1", "turns.approved"),
        ("UPDATE turns SET rejected = 4294967296", "turns.rejected"),
        ("UPDATE turns SET fallback = 'fresh'", "turns.fallback"),
        ("UPDATE turns SET fallback = 'Refuse'", "turns.fallback"),
        ("UPDATE turns SET carry_history = 0", "turns.carry_history"),
        ("UPDATE turns SET tool_policy = '[]'", "turns.tool_policy"),
        ("UPDATE turns SET unasked = 'deny'", "turns.unasked"),
        ("UPDATE turns SET unasked = 'Wait'", "turns.unasked"),
    ];
    for (change, column) in changes {
        let expected = format!("{column} holds what no version of ours writes");
        assert_eq!(problem_with(change, true).await, expected, "{change}");
    }
}

#[tokio::test]
async fn a_deleted_record_does_not_come_back_by_damage() {
    let changes = [
        "UPDATE records SET deleted_at = NULL",
        "UPDATE records SET deleted_at = NULL, closed_at = 7",
        "UPDATE records SET deleted_at = 8",
    ];
    for change in changes {
        let problem = problem_with_one(Lifecycle::Deleted { at: at(7) }, change, false).await;
        assert_eq!(problem, "a row of records (key 1) is not what was written", "{change}");
    }
}

#[tokio::test]
async fn an_index_that_leads_to_another_record_than_it_says_is_damage() {
    let changes = [
        ("scope_name = 'other'", "a row of records (key 1) is not what was written"),
        ("closed_at = 9", MISLED),
        ("deleted_at = 9", MISLED),
    ];
    for (change, problem) in changes {
        let (_home, path) = place();
        let store = open(&path, Access::ReadWrite, Migrations::OURS).unwrap();
        let lease = store.create(full().0, Vec::new(), host()).await.unwrap();
        drop(store);
        change_unseen_by(&path, "records_in_scope", change);
        let store = open(&path, Access::ReadWrite, Migrations::OURS).unwrap();
        let named = Record { id: id("s"), ..full().0 };
        let refused = [
            store.find(query("claude", "name")).await.unwrap_err(),
            store.create(named, Vec::new(), host()).await.unwrap_err(),
        ];
        let said = format!("the store {} is damaged: {problem}", path.display());
        assert_eq!(refused.map(|error| error.to_string()), [&*said; 2], "{change}");
        store.append(lease, vec![event(1, "one")], Durability::Process).await.unwrap();
    }
}

const MISLED: &str = "an index and the record r do not agree whether it is open, closed or deleted";

#[tokio::test]
async fn a_deleted_record_in_the_index_of_listed_ones_is_damage() {
    let (_home, path) = place();
    let store = open(&path, Access::ReadWrite, Migrations::OURS).unwrap();
    store.create(full().0, Vec::new(), host()).await.unwrap();
    drop(store);
    change_unseen_by(&path, "records_by_update", "deleted_at = 9");
    let store = open(&path, Access::ReadWrite, Migrations::OURS).unwrap();
    let refused = store.records(RecordFilter::default(), None, 10).await.unwrap_err();
    assert_eq!(refused.to_string(), format!("the store {} is damaged: {MISLED}", path.display()));
}

/// Changes all records with their checksums, while an index is hidden from SQLite.
fn change_unseen_by(path: &Path, index: &str, change: &str) {
    let file = Connection::open(path).unwrap();
    let entry = "SELECT rootpage, sql FROM sqlite_schema WHERE name = ?1";
    let (page, made): (i64, String) =
        file.query_row(entry, [index], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let hide = format!("PRAGMA writable_schema = ON; DELETE FROM sqlite_schema WHERE name = '{index}'");
    file.execute_batch(&hide).unwrap();
    drop(file);
    sql(path, &format!("UPDATE records SET {change}"));
    let file = Connection::open(path).unwrap();
    agree(&file, &rows::RECORD);
    file.execute_batch("PRAGMA writable_schema = ON").unwrap();
    let show = "INSERT INTO sqlite_schema VALUES ('index', ?1, 'records', ?2, ?3)";
    file.execute(show, (index, page, made)).unwrap();
}

#[test]
fn no_lookup_goes_through_all_records() {
    let (_home, path) = place();
    drop(open(&path, Access::ReadWrite, Migrations::OURS).unwrap());
    let file = Connection::open(&path).unwrap();
    let plan = |statement: &str| {
        let mut explain = file.prepare(&format!("EXPLAIN QUERY PLAN {statement}")).unwrap();
        let parameters = explain.parameter_count();
        let rows = explain.query_map(rusqlite::params_from_iter(vec![""; parameters]), |row| row.get(3));
        rows.unwrap().map(Result::unwrap).collect::<Vec<String>>()
    };
    let equal = "scope_agent=? AND real_cwd=? AND scope_name=?";
    assert_eq!(
        plan(&scope::select_in_scope(scope::OPEN)),
        [format!("SEARCH records USING INDEX records_in_scope ({equal})")]
    );
    assert_eq!(
        plan(&scope::select_in_scope(scope::CLOSED_LAST)),
        [format!("SEARCH records USING INDEX records_once_in_scope ({equal} AND closed_at>?)")]
    );
    assert_eq!(
        plan(&read::select_running()),
        ["SEARCH records USING INDEX records_running (run_pid>?)", "USE TEMP B-TREE FOR ORDER BY"]
    );
    // A list is read in index order, from the end of the previous page, and contains no deleted record.
    assert_eq!(
        plan(&read::select_page(&[read::NOT_DELETED])),
        ["SCAN records USING INDEX records_by_update"]
    );
    assert_eq!(
        plan(&read::select_page(&[read::NOT_DELETED, read::AFTER])),
        ["SEARCH records USING INDEX records_by_update ((updated_at,id)<(?,?))"]
    );
    assert_eq!(
        plan(&read::select_page(&[read::NOT_DELETED, read::IN_DIRECTORY])),
        ["SEARCH records USING INDEX records_in_directory (real_cwd=?)"]
    );
    assert_eq!(
        plan(&read::select_named()),
        ["SEARCH records USING INDEX records_named (scope_agent=? AND scope_name=?)"]
    );
    assert_eq!(plan(&read::select_page_by_making(&[read::NOT_DELETED])), ["SCAN records"]);
    assert_eq!(
        plan(&read::select_page_by_making(&[read::NOT_DELETED, read::MADE_BEFORE])),
        ["SEARCH records USING INTEGER PRIMARY KEY (rowid<?)"]
    );
    assert_eq!(
        plan(read::WITH_OPEN_TURNS)[..2],
        ["SCAN turns USING INDEX turns_open", "SEARCH records USING INTEGER PRIMARY KEY (rowid=?)"]
    );
    let by_id = "USING INDEX sqlite_autoindex_records_1";
    assert_eq!(
        plan(&read::select_by_id(&[read::WITH_PREFIX])),
        [format!("SEARCH records {by_id} (id>? AND id<?)")]
    );
    assert_eq!(plan(read::ID_BEFORE), [format!("SEARCH records {by_id} (id<?)")]);
    assert_eq!(plan(read::ID_AFTER), [format!("SEARCH records {by_id} (id>?)")]);
    let passes_all_by = |statement| plan(statement).into_iter().any(|step| step.starts_with("SCAN"));
    assert_eq!([write::BLOBS, write::DELETE_BLOB].map(passes_all_by), [false; 2]);
}
