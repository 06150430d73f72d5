use std::fs;

use proptest::prelude::*;
use rusqlite::{Connection, params};
use serde_json::{Value, json};

use crate::transcripts::tests::{
    TestHome, at, command, directory, failure, output, prompt, reply, result, thought, title,
};
use crate::transcripts::{ItemContent, SourceStamp, TranscriptItem, Unread};

const FILE: &str = ".local/share/goose/sessions/sessions.db";
const SCHEMA: &str = "
    PRAGMA journal_mode = WAL;
    CREATE TABLE schema_version (version INTEGER PRIMARY KEY);
    INSERT INTO schema_version VALUES (13);
    CREATE TABLE sessions (
        id TEXT PRIMARY KEY, name TEXT NOT NULL DEFAULT '', description TEXT NOT NULL DEFAULT '',
        session_type TEXT NOT NULL DEFAULT 'user', working_dir TEXT NOT NULL,
        created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
        accumulated_total_tokens INTEGER, archived_at TIMESTAMP);
    CREATE TABLE messages (
        id INTEGER PRIMARY KEY AUTOINCREMENT, message_id TEXT, session_id TEXT NOT NULL, role TEXT NOT NULL,
        content_json TEXT NOT NULL, created_timestamp INTEGER NOT NULL, metadata_json TEXT);
    INSERT INTO sessions VALUES
        ('20261117_1', 'ECHO', '', 'acp', '/home/u/p', '2026-11-17 09:30:15', '2026-11-17 09:30:16', 42, NULL),
        ('20261117_2', '', 'old title', 'user', '/home/u/p', '2026-11-17 09:30:15', '2026-11-17 09:30:16', NULL, '2026-11-18'),
        ('20261117_3', 'sub', '', 'sub_agent', '/home/u/p', '2026-11-17 09:30:15', '2026-11-17 09:30:16', NULL, NULL);";

fn database(home: &TestHome) -> Connection {
    let database = Connection::open(home.write(FILE, "")).unwrap();
    database.execute_batch(SCHEMA).unwrap();
    database
}

fn add(database: &Connection, role: &str, content: &Value, metadata: &Value) {
    database
        .execute(
            "INSERT INTO messages (message_id, session_id, role, content_json, created_timestamp, metadata_json)
             VALUES ((SELECT 'm' || count(*) FROM messages), '20261117_1', ?1, ?2, 1794907815, ?3)",
            params![role, content.to_string(), metadata.to_string()],
        )
        .unwrap();
}

fn fill(database: &Connection) {
    let shown = json!({"userVisible": true, "agentVisible": true});
    let call = json!({"status": "success", "value": {"name": "developer__shell", "arguments": {"command": "echo hi"}}});
    let result = json!({"status": "success", "value": {"content": [{"type": "text", "text": "hi"}, {"type": "image", "data": "QQ==", "mimeType": "image/png"}], "isError": false}});
    let older = json!({"status": "success", "value": [{"type": "text", "text": "older"}]});
    add(database, "user", &json!([{"type": "text", "text": "hello"}]), &shown);
    add(
        database,
        "assistant",
        &json!([{"type": "thinking", "thinking": "pondering", "signature": ""}, {"type": "text", "text": "ECHO"}]),
        &shown,
    );
    add(database, "assistant", &json!([{"type": "toolRequest", "id": "call_1", "toolCall": call}]), &shown);
    add(database, "user", &json!([{"type": "toolResponse", "id": "call_1", "toolResult": result}]), &shown);
    add(database, "user", &json!([{"type": "toolResponse", "id": "call_2", "toolResult": older}]), &shown);
    add(
        database,
        "user",
        &json!([{"type": "toolResponse", "id": "call_3", "toolResult": {"status": "error", "error": "refused"}}]),
        &shown,
    );
    add(
        database,
        "user",
        &json!([{"type": "text", "text": "a summary"}]),
        &json!({"userVisible": false, "agentVisible": true}),
    );
    add(
        database,
        "assistant",
        &json!([{"type": "conversationCompacted", "msg": "x"}, {"type": "hologram"}, 7]),
        &json!(null),
    );
    add(database, "assistant", &json!({"no": "list"}), &shown);
}

#[test]
fn goose_session_is_read_from_the_log_of_its_database() {
    let home = TestHome::new();
    let database = database(&home);
    fill(&database);
    let (items, unread) = home.read("goose", "20261117_1");
    let image =
        json!({"type": "content", "content": {"type": "image", "mimeType": "image/png", "data": "QQ=="}});
    let time = "2026-11-17T09:30:15Z";
    let expected = vec![
        TranscriptItem { at: None, content: directory("/home/u/p") },
        TranscriptItem { at: None, content: title("ECHO") },
        TranscriptItem { at: None, content: ItemContent::Tokens(42) },
        at(time, prompt("m0", "hello")),
        at(time, thought("m1", "pondering")),
        at(time, reply("m1", "ECHO")),
        at(time, command("call_1", "developer__shell", "echo hi", json!({"command": "echo hi"}))),
        at(time, result("call_1", &[output("hi"), image])),
        at(time, result("call_2", &[output("older")])),
        at(time, failure("call_3", &[output("refused")])),
        at(time, ItemContent::Compaction { id: "m7".into() }),
    ];
    assert_eq!(items, expected);
    assert_eq!(unread, Unread { damaged: 2, unknown: 1, ..Unread::default() });
}

#[test]
fn goose_list_has_no_sessions_of_its_subagents() {
    let home = TestHome::new();
    fill(&database(&home));
    let (sources, problems) = home.list("goose");
    let stamp = |size| SourceStamp { size, modified: 1_794_907_816_000_000_000, inode: 0 };
    let listed: Vec<_> =
        sources.iter().map(|source| (source.session.as_str(), source.is_archived, source.stamp)).collect();
    assert_eq!(listed, [("20261117_1", false, stamp(9)), ("20261117_2", true, stamp(0))]);
    assert_eq!(problems, []);
    assert_eq!(home.contents("goose", "20261117_2"), [directory("/home/u/p"), title("old title")]);
}

#[test]
fn goose_database_of_an_older_schema_is_read_without_its_missing_columns() {
    let home = TestHome::new();
    let database = database(&home);
    add(&database, "user", &json!([{"type": "text", "text": "hello"}]), &json!(null));
    database
        .execute_batch(
            "ALTER TABLE sessions DROP COLUMN archived_at; ALTER TABLE sessions DROP COLUMN session_type;
             ALTER TABLE sessions DROP COLUMN name; ALTER TABLE sessions DROP COLUMN accumulated_total_tokens;
             ALTER TABLE messages DROP COLUMN message_id; ALTER TABLE messages DROP COLUMN metadata_json;",
        )
        .unwrap();
    assert_eq!(home.contents("goose", "20261117_1"), [directory("/home/u/p"), prompt("1", "hello")]);
    assert_eq!(home.list("goose").0.len(), 3);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn damaged_goose_database_never_makes_the_reader_panic(
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..30),
        length in any::<prop::sample::Index>(),
    ) {
        let home = TestHome::new();
        let opened = database(&home);
        fill(&opened);
        opened.execute_batch("PRAGMA journal_mode = DELETE").unwrap();
        drop(opened);
        let path = home.path().join(FILE);
        let mut bytes = fs::read(&path).unwrap();
        for (index, byte) in &edits {
            let index = index.index(bytes.len());
            bytes[index] = *byte;
        }
        if edits.len() % 4 == 0 {
            bytes.truncate(length.index(bytes.len()));
        }
        fs::write(&path, bytes).unwrap();
        let reader = home.reader("goose");
        reader.list(&mut |source| {
            if let Ok(mut items) = reader.open(&source, 0) {
                while let Ok(Some(_)) = items.next() {}
            }
        });
    }
}

#[test]
fn recorded_goose_session_is_read_whole() {
    let home = TestHome::new();
    let recorded = include_str!("../fixtures/goose.sql");
    Connection::open(home.write(FILE, "")).unwrap().execute_batch(recorded).unwrap();
    let input = json!({"command": "echo hi-from-safe"});
    let expected = [
        directory("/home/ada/work"),
        title("ECHO: hello there"),
        ItemContent::Tokens(54),
        prompt("msg_20261120_1_ba316d1f-3569-45ef-abe7-9145481864cc", "hello there"),
        reply("chatcmpl-fake6", "ECHO: hello there"),
        prompt("msg_20261120_1_6481a8ab-0356-4f48-a3d9-e4b5e106cc1f", "please SAFE"),
        reply("chatcmpl-fake8", "I will use shell."),
        command("call_fake0008", "shell", "echo hi-from-safe", input),
        result("call_fake0008", &[output("hi-from-safe")]),
        reply("chatcmpl-fake9", "TOOLDONE: hi-from-safe"),
    ];
    assert_eq!(home.contents("goose", "20261120_1"), expected);
    assert_eq!(home.read("goose", "20261120_1").1, Unread::default());
}
