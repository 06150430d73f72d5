//! Sessions of npm acpx come along: fixtures that npm acpx wrote are imported into a store, and the store is
//! compared with what they say. `tests/fixtures/npm-acpx/README.md` says how each fixture came to be.
#![cfg(test)]

mod conflicts;
mod home;
mod journals;

use acpx_core::model::{
    AcpSessionId, AgentSessionId, AgentSpec, Lifecycle, Lineage, LineageReason, LineageRow, RecordId, Scope,
    SessionName, Timestamp,
};
use acpx_core::store::import_acpx::{
    Damage, ImportMode, ImportNote, ImportProblem, ImportReport, ImportedRecord, SkipReason, SkippedFile,
};
use acpx_core::store::{Access, Change, Durability, RecordFilter, SqliteStore, Store};

use self::home::{Home, said};
use crate::store_contract::samples::{host, id, session};

const FULL: &str = "01a1e157-b125-71a1-8167-53a010cdabdb";
const TURNS: &str = "01a1e15a-0ea5-74d4-bd63-354b704a25e3";
const KILLED: &str = "01a1e15a-6ce1-707d-98c8-b6aacf1ba4fc";
const FALLBACK: &str = "01a1e169-2c0f-77a5-a98f-0ec39a5c9ec9";
const UNSENT: &str = "01a1e15a-e6ef-7079-9e56-226fc46fd1d5";

#[tokio::test]
async fn legacy_record_is_normalised() {
    let home = Home::with(&["legacy"]);
    let report = home.import().await;
    let taken = ImportedRecord {
        file: "7f1c.json".into(),
        record: id("7f1c"),
        session: session("acp-41"),
        agent_session: AgentSessionId::from_agent("inner-41"),
        turns: 2,
        events: 9,
        notes: vec![ImportNote::FromMessages],
    };
    assert_eq!(report, ImportReport { imported: vec![taken], ..ImportReport::default() });
    let record = home.record("7f1c").await;
    let agent = AgentSpec::new("npx", ["-y", "my agent", "--acp"]);
    let created = Timestamp::parse("2026-02-20T08:00:00Z").unwrap();
    let lineage = Lineage::imported(
        AcpSessionId::new("acp-41").unwrap(),
        AgentSessionId::from_agent("inner-41"),
        created,
    );
    let scope = Scope { agent: agent.key(), name: Some(SessionName::new("backend").unwrap()) };
    assert_eq!(
        (record.id, record.agent, record.cwd.as_str(), record.real_cwd.as_str(), record.scope),
        (RecordId::new("7f1c").unwrap(), agent, "/home/ada/project", "/home/ada/project", Some(scope))
    );
    assert_eq!((record.lineage, record.lifecycle, record.created_at), (lineage, Lifecycle::Open, created));
    assert_eq!(record.updated_at, Timestamp::parse("2026-02-21T09:30:00Z").unwrap());
    assert_eq!((record.answered_turns, record.info.title), (1, None));
}

#[tokio::test]
async fn canonical_names_are_written() {
    let home = Home::with(&["legacy"]);
    home.import().await;
    let record = home.record("7f1c").await;
    let identity = serde_json::to_string(&record.identity()).unwrap();
    assert_eq!(identity, r#"{"acpxRecordId":"7f1c","acpxSessionId":"acp-41","agentSessionId":"inner-41"}"#);
    let lineage = r#"[{"acpxSessionId":"acp-41","agentSessionId":"inner-41","from":"2026-02-20T08:00:00.000Z","reason":"imported"}]"#;
    assert_eq!(serde_json::to_string(&record.lineage).unwrap(), lineage);
    // Nothing of the old names is left in the store: what follows from them is all there is.
    let path = home.store.path().to_owned();
    drop(home.store);
    let bytes = std::fs::read(path).unwrap();
    for old in ["runtimeSessionId", "agentCommand", "lastUsedAt"] {
        assert!(!bytes.windows(old.len()).any(|window| window == old.as_bytes()), "{old}");
    }
}

#[tokio::test]
async fn npm_acpx_record_is_imported_with_its_ids_and_agent_name() {
    let home = Home::with(&["full"]);
    let report = home.import().await;
    let taken = ImportedRecord {
        file: format!("{FULL}.json"),
        record: id(FULL),
        session: session("01a1e157-b524-7683-b8fb-2712436ab25d"),
        agent_session: AgentSessionId::from_agent("inner-01a1e157-b524-7683-b8fb-2712436ab25d"),
        turns: 2,
        events: 28,
        notes: Vec::new(),
    };
    assert_eq!(report, ImportReport { imported: vec![taken], ..ImportReport::default() });
    let record = home.record(FULL).await;
    let inner = AgentSessionId::from_agent("inner-01a1e157-b524-7683-b8fb-2712436ab25d");
    assert_eq!(record.identity().agent_session, inner);
    let args = ["demo-agent", "--agent-session-id", "--http"];
    assert_eq!(record.agent, AgentSpec::new("acpx", args).named("demo"));
    assert_eq!(record.lineage.rows().len(), 1);
    assert_eq!(record.answered_turns, 2);
}
