use std::fs;

use proptest::prelude::*;
use rusqlite::{Connection, params};
use serde_json::{Value, json};

use crate::transcripts::tests::{
    TestHome, at, command, contents, directory, failure, output, prompt, reply, result, text, thought, title,
};
use crate::transcripts::{ItemContent, SourceStamp, TranscriptItem, Unread};

const SCHEMA: &str = "
    PRAGMA journal_mode = WAL;
    CREATE TABLE session (
        id text PRIMARY KEY, project_id text NOT NULL, parent_id text, slug text NOT NULL, directory text NOT NULL,
        title text NOT NULL, version text NOT NULL, time_created integer NOT NULL, time_updated integer NOT NULL,
        time_archived integer);
    CREATE TABLE message (
        id text PRIMARY KEY, session_id text NOT NULL, time_created integer NOT NULL,
        time_updated integer NOT NULL, data text NOT NULL);
    CREATE TABLE part (
        id text PRIMARY KEY, message_id text NOT NULL, session_id text NOT NULL, time_created integer NOT NULL,
        time_updated integer NOT NULL, data text NOT NULL);
    INSERT INTO session VALUES
        ('ses_1', 'global', NULL, 's', '/home/u/p', 'ECHO: hello', '1.18.33', 1794907808057, 1794907815021, NULL),
        ('ses_2', 'global', 'ses_1', 's', '/home/u/p', 'sub work', '1.18.33', 1794907808057, 1794907815021, NULL),
        ('ses_3', 'global', NULL, 's', '/home/u/p', 'New session - 2026', '1.18.33', 1794907808057, 5, 6);";

/// The database of opencode or Kilo in a home. It stays open, so that all of its content is in its log.
fn database(home: &TestHome, program: &str) -> Connection {
    let path = home.write(&format!(".local/share/{program}/{program}.db"), "");
    let database = Connection::open(path).unwrap();
    database.execute_batch(SCHEMA).unwrap();
    database
}

fn add(database: &Connection, message: &str, time: i64, data: &Value, parts: &[Value]) {
    let data = data.to_string();
    database
        .execute("INSERT INTO message VALUES (?1, 'ses_1', ?2, ?2, ?3)", params![message, time, data])
        .unwrap();
    for (index, part) in parts.iter().enumerate() {
        let id = format!("prt_{message}_{index:02}");
        database
            .execute(
                "INSERT INTO part VALUES (?1, ?2, 'ses_1', ?3, ?3, ?4)",
                params![id, message, time, part.to_string()],
            )
            .unwrap();
    }
}

fn fill(database: &Connection) {
    let tool = |name: &str, call: &str, state: Value| json!({"type": "tool", "tool": name, "callID": call, "state": state});
    let bash = json!({"status": "completed", "input": {"command": "echo hi"}, "output": "hi\n", "metadata": {"exit": 0},
                      "title": "echo hi", "time": {"start": 1_794_907_811_493_i64, "end": 1_794_907_812_675_i64}});
    let change = json!({"file": "/home/u/p/a", "before": "old\n", "after": "new\n"});
    let edit = json!({"status": "completed", "input": {"filePath": "/home/u/p/a", "oldString": "old", "newString": "new"},
                      "output": "ok", "metadata": {"filediff": change}, "title": "a"});
    let write =
        json!({"status": "completed", "input": {"filePath": "/home/u/p/b", "content": "b"}, "output": "ok"});
    let failed = json!({"status": "error", "input": {"command": "rm"}, "error": "refused"});
    let running = json!({"status": "running", "input": {"command": "sleep 9"}});
    let todo = json!({"status": "completed", "input": {"todos": [{"content": "a", "status": "pending", "priority": "high"}]}, "output": "[]"});
    let tokens =
        json!({"total": 18, "input": 11, "output": 7, "reasoning": 0, "cache": {"write": 0, "read": 0}});
    let image = json!({"type": "file", "mime": "image/png", "url": "data:image/png;base64,QQ==", "filename": "a.png"});
    add(
        database,
        "msg_2",
        1_794_907_808_100,
        &json!({"role": "assistant", "path": {"cwd": "/home/u/q"}, "tokens": tokens}),
        &[
            json!({"type": "step-start"}),
            json!({"type": "reasoning", "text": "pondering", "time": {"start": 1_794_907_810_917_i64}}),
            json!({"type": "text", "text": "I will use bash."}),
            tool("bash", "call_1", bash),
            tool("edit", "call_2", edit),
            tool("write", "call_3", write),
            tool("bash", "call_4", failed),
            tool("bash", "call_5", running),
            tool("todowrite", "call_6", todo),
            json!({"type": "step-finish", "tokens": tokens}),
            json!({"type": "hologram"}),
            json!({"type": 7}),
        ],
    );
    add(
        database,
        "msg_1",
        1_794_907_808_057,
        &json!({"role": "user", "time": {"created": 1}}),
        &[
            json!({"type": "text", "text": "hello"}),
            json!({"type": "text", "text": "expanded", "synthetic": true}),
            image,
        ],
    );
    add(
        database,
        "msg_3",
        1_794_907_808_200,
        &json!({"role": "user"}),
        &[json!({"type": "compaction", "auto": true})],
    );
    add(
        database,
        "msg_4",
        1_794_907_808_300,
        &json!({"role": "assistant", "summary": true}),
        &[json!({"type": "text", "text": "a summary"})],
    );
}

fn expected() -> Vec<TranscriptItem> {
    let image = json!({"type": "image", "mimeType": "image/png", "data": "QQ=="});
    let hello = ItemContent::Prompt { id: Some("msg_1".into()), blocks: vec![text("hello"), image] };
    let second = "2026-11-17T09:30:08.100Z";
    let file = |id: &str, name: &str, title: &str, input: Value| {
        let paths = vec![input["filePath"].as_str().unwrap().to_owned()];
        ItemContent::ToolCall {
            id: id.into(),
            name: name.into(),
            title: title.into(),
            kind: "edit",
            input,
            paths,
        }
    };
    let edit = json!({"filePath": "/home/u/p/a", "oldString": "old", "newString": "new"});
    let write = json!({"filePath": "/home/u/p/b", "content": "b"});
    let edited = json!({"type": "diff", "path": "/home/u/p/a", "oldText": "old\n", "newText": "new\n"});
    let written = json!({"type": "diff", "path": "/home/u/p/b", "oldText": null, "newText": "b"});
    let plan = json!({"content": "a", "priority": "high", "status": "pending"});
    vec![
        TranscriptItem { at: None, content: directory("/home/u/p") },
        TranscriptItem { at: None, content: title("ECHO: hello") },
        at("2026-11-17T09:30:08.057Z", hello),
        at(second, directory("/home/u/q")),
        at("2026-11-17T09:30:10.917Z", thought("prt_msg_2_01", "pondering")),
        at(second, reply("prt_msg_2_02", "I will use bash.")),
        at("2026-11-17T09:30:11.493Z", command("call_1", "bash", "echo hi", json!({"command": "echo hi"}))),
        at("2026-11-17T09:30:12.675Z", result("call_1", &[output("hi\n")])),
        at(second, file("call_2", "edit", "a", edit)),
        at(second, result("call_2", &[edited])),
        at(second, file("call_3", "write", "Write /home/u/p/b", write)),
        at(second, result("call_3", &[written])),
        at(second, command("call_4", "bash", "rm", json!({"command": "rm"}))),
        at(second, failure("call_4", &[output("refused")])),
        at(second, command("call_5", "bash", "sleep 9", json!({"command": "sleep 9"}))),
        at(second, ItemContent::Plan(vec![plan])),
        at(second, ItemContent::Tokens(18)),
        at("2026-11-17T09:30:08.200Z", ItemContent::Compaction { id: "prt_msg_3_00".into() }),
    ]
}

#[test]
fn opencode_and_kilo_sessions_are_read_while_all_is_in_the_log() {
    for (agent, program) in [("opencode", "opencode"), ("kilocode", "kilo")] {
        let home = TestHome::new();
        let database = database(&home, program);
        fill(&database);
        let (items, unread) = home.read(agent, "ses_1");
        assert_eq!(items, expected());
        assert_eq!(unread, Unread { damaged: 1, unknown: 1, ..Unread::default() });
        let (sources, problems) = home.list(agent);
        let listed: Vec<_> = sources
            .iter()
            .map(|source| {
                let parent = source.parent.as_ref().map(ToString::to_string);
                (source.session.as_str(), parent, source.is_archived, source.stamp)
            })
            .collect();
        let stamp = |size, modified| SourceStamp { size, modified, inode: 0 };
        assert_eq!(
            listed,
            [
                ("ses_1", None, false, stamp(4, 1_794_907_815_021_000_000)),
                ("ses_2", Some("ses_1".to_owned()), false, stamp(0, 1_794_907_815_021_000_000)),
                ("ses_3", None, true, stamp(0, 5_000_000)),
            ]
        );
        assert_eq!(problems, []);
        assert_eq!(home.contents(agent, "ses_3"), [directory("/home/u/p")]);
        assert_eq!(
            home.reader(agent).resume_command("ses_1"),
            Some(vec![program.into(), "--session".into(), "ses_1".into()])
        );
    }
}

#[test]
fn reading_an_opencode_database_does_not_change_it() {
    let home = TestHome::new();
    let opened = database(&home, "opencode");
    fill(&opened);
    drop(opened);
    let path = home.path().join(".local/share/opencode/opencode.db");
    let (before, modified) = (fs::read(&path).unwrap(), fs::metadata(&path).unwrap().modified().unwrap());
    assert_eq!(home.contents("opencode", "ses_1").len(), contents(expected()).len());
    let entries = fs::read_dir(path.parent().unwrap()).unwrap();
    let names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["opencode.db"]);
    assert_eq!(fs::read(&path).unwrap(), before);
    assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), modified);
    let written = Connection::open(&path).unwrap().execute("DELETE FROM message WHERE id = 'msg_1'", []);
    assert_eq!(written, Ok(1));
    assert!(!home.contents("opencode", "ses_1").contains(&prompt("msg_1", "hello")));
}

#[test]
fn damaged_foreign_and_missing_opencode_databases_are_problems() {
    let file = ".local/share/opencode/opencode.db";
    let home = TestHome::new();
    drop(database(&home, "opencode"));
    let source = home.reader("opencode").find("ses_1").remove(0);
    fs::remove_file(home.path().join(file)).unwrap();
    assert_eq!(home.list("opencode"), (vec![], vec![]));
    assert!(home.reader("opencode").open(&source, 0).is_err());
    home.write(file, "not a database, but long enough to be taken for one. ".repeat(100));
    let problem = |reason: &str| (vec![], vec![(file.to_owned(), reason.to_owned())]);
    assert_eq!(home.list("opencode"), problem("file is not a database"));
    let path = home.write(file, "");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE session (id, time_updated)").unwrap();
    let (sources, problems) = home.list("opencode");
    assert_eq!(sources, []);
    assert!(problems[0].1.starts_with("no such table: message"), "{problems:?}");
}

#[test]
fn locked_opencode_database_is_a_problem_after_a_short_time() {
    let home = TestHome::new();
    let path = home.write(".local/share/opencode/opencode.db", "");
    let locked = Connection::open(path).unwrap();
    locked.execute_batch("CREATE TABLE session (id); BEGIN EXCLUSIVE;").unwrap();
    let problem = (".local/share/opencode/opencode.db".to_owned(), "database is locked".to_owned());
    assert_eq!(home.list("opencode"), (vec![], vec![problem]));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn damaged_opencode_database_never_makes_the_reader_panic(
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..30),
        length in any::<prop::sample::Index>(),
    ) {
        let home = TestHome::new();
        let opened = database(&home, "opencode");
        fill(&opened);
        opened.execute_batch("PRAGMA journal_mode = DELETE").unwrap();
        drop(opened);
        let path = home.path().join(".local/share/opencode/opencode.db");
        let mut bytes = fs::read(&path).unwrap();
        for (index, byte) in &edits {
            let index = index.index(bytes.len());
            bytes[index] = *byte;
        }
        if edits.len() % 4 == 0 {
            bytes.truncate(length.index(bytes.len()));
        }
        fs::write(&path, bytes).unwrap();
        let reader = home.reader("opencode");
        reader.list(&mut |source| {
            if let Ok(mut items) = reader.open(&source, 0) {
                while let Ok(Some(_)) = items.next() {}
            }
        });
    }
}

#[test]
fn recorded_opencode_session_is_read_whole() {
    let home = TestHome::new();
    let path = home.write(".local/share/opencode/opencode.db", "");
    Connection::open(path).unwrap().execute_batch(include_str!("../fixtures/opencode.sql")).unwrap();
    let session = "ses_e0994dd0affeR5KuS4wxZnbRni";
    let asked =
        |id: &str, words: &str| ItemContent::Prompt { id: Some(id.into()), blocks: vec![text(words)] };
    let input = json!({"command": "echo hi-from-safe"});
    let expected = [
        directory("/home/ada/work"),
        title("ECHO: \"hello THINK\""),
        asked("msg_1f66b252100148xVv97XFJxbBt", "\"hello THINK\""),
        thought("prt_1f66b48760010TRkb8pSNs4YhR", "pondering the echo"),
        reply("prt_1f66b48bf0016JCybQLu8sf9t7", "ECHO: \"hello THINK\""),
        ItemContent::Tokens(18),
        asked("msg_1f66b73df001VlL97FiC5SUXQC", "\"please SAFE\""),
        reply("prt_1f66b9e00001NaRTSvcr6tvKrh", "I will use bash."),
        command("call_fake0003", "bash", "echo hi-from-safe", input),
        result("call_fake0003", &[output("hi-from-safe\n")]),
        ItemContent::Tokens(18),
        reply("prt_1f66ba9360014xmyQKPIE8eQMF", "TOOLDONE: hi-from-safe"),
        ItemContent::Tokens(18),
    ];
    assert_eq!(home.contents("opencode", session), expected);
    assert_eq!(home.read("opencode", session).1, Unread::default());
}
