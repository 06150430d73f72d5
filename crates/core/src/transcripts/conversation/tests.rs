use serde_json::json;

use super::*;
use crate::model::AbsolutePath;
use crate::transcripts::archive_file;
use crate::transcripts::tests::{
    TestHome, at, command, directory, failure, fork_of, output, prompt, reply, result, thought, title,
};

const FILE: &str = ".claude/projects/-p/aaaa.jsonl";

#[test]
fn items_become_updates_of_the_protocol() {
    let plan = json!({"content": "a", "priority": "medium", "status": "pending"});
    let untitled = |content| TranscriptItem { at: None, content }.updates();
    let text = |text: &str| json!({"type": "text", "text": text});
    let two = ItemContent::Prompt { id: Some("u1".into()), blocks: vec![text("a"), text("b")] };
    for (content, updates) in [
        (
            two,
            vec![
                json!({"sessionUpdate": "user_message_chunk", "messageId": "u1", "content": text("a")}),
                json!({"sessionUpdate": "user_message_chunk", "messageId": "u1", "content": text("b")}),
            ],
        ),
        (reply(None, "hi"), vec![json!({"sessionUpdate": "agent_message_chunk", "content": text("hi")})]),
        (
            thought("u2", "hm"),
            vec![json!({"sessionUpdate": "agent_thought_chunk", "messageId": "u2", "content": text("hm")})],
        ),
        (
            command("c1", "Bash", "ls", json!({"command": "ls"})),
            vec![json!({
                "sessionUpdate": "tool_call", "toolCallId": "c1", "title": "ls", "kind": "execute", "status": "pending",
                "rawInput": {"command": "ls"}, "locations": [], "_meta": {"toolName": "Bash"},
            })],
        ),
        (
            result("c1", &[output("a")]),
            vec![json!({
                "sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "completed", "content": [output("a")],
            })],
        ),
        (
            failure("c1", &[]),
            vec![json!({
                "sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "failed", "content": [],
            })],
        ),
        (ItemContent::Plan(vec![plan.clone()]), vec![json!({"sessionUpdate": "plan", "entries": [plan]})]),
        (
            ItemContent::Compaction { id: "x".into() },
            vec![json!({"sessionUpdate": "compaction_update", "compactionId": "x", "status": "completed"})],
        ),
        (title("T"), vec![json!({"sessionUpdate": "session_info_update", "title": "T"})]),
        (directory("/p"), vec![]),
        (ItemContent::Tokens(7), vec![]),
        (fork_of("bbbb"), vec![]),
    ] {
        assert_eq!(untitled(content), updates);
    }
}

#[test]
fn transcript_events_without_a_time_have_that_of_the_one_before() {
    let lines = [
        r#"{"type":"user","uuid":"u1","timestamp":"2026-11-17T09:00:00Z","cwd":"/p","message":{"content":"my open-sesame-1234"}}"#,
        r#"{"type":"custom-title","customTitle":"T"}"#,
        r#"{"type":"assistant","uuid":"u2","timestamp":"2026-11-17T08:00:00Z","message":{"id":"m","content":[{"type":"text","text":"hi"}],"usage":{"output_tokens":5}}}"#,
        "no JSON",
    ];
    let home = TestHome::with(&[(FILE, &(lines.join("\n") + "\n"))]);
    let reader = home.reader("claude");
    let source = reader.find("aaaa").remove(0);
    let secrets = Arc::new(Secrets::new(["open-sesame-1234".to_owned()]));
    let mut events = TranscriptEvents::open(&*reader, &source, secrets).unwrap();
    let batch = events.next_batch().unwrap().unwrap();
    assert_eq!(events.next_batch().unwrap(), None);
    let time = |time: &str| Timestamp::parse(time).unwrap();
    let read: Vec<(Seq, Timestamp, Value)> =
        batch.iter().map(|event| (event.seq, event.at, serde_json::from_str(&event.body).unwrap())).collect();
    let line = |update: Value| {
        let meta = json!({"acpx": {"madeFrom": "transcript"}});
        json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "aaaa", "update": update, "_meta": meta}})
    };
    let chunk = |kind: &str, id: &str, text: &str| {
        line(json!({"sessionUpdate": kind, "messageId": id, "content": {"type": "text", "text": text}}))
    };
    let masked = read[0].2["params"]["update"]["content"]["text"].as_str().unwrap().to_owned();
    assert!(!masked.contains("sesame"), "{masked}");
    assert_eq!(
        read,
        [
            (Seq(1), time("2026-11-17T09:00:00Z"), chunk("user_message_chunk", "u1", &masked)),
            (
                Seq(2),
                time("2026-11-17T09:00:00Z"),
                line(json!({"sessionUpdate": "session_info_update", "title": "T"}))
            ),
            (Seq(3), time("2026-11-17T08:00:00Z"), chunk("agent_message_chunk", "u2", "hi")),
        ]
    );
    assert!(batch.iter().all(|event| {
        (event.turn, event.direction, event.kind) == (None, Direction::FromAgent, EventKind::Update)
    }));
    assert_eq!(
        events.summary(),
        &TranscriptSummary {
            title: Some("T".into()),
            first_prompt: Some("my open-sesame-1234".into()),
            directory: Some("/p".into()),
            created_at: Some(time("2026-11-17T08:00:00Z")),
            updated_at: Some(time("2026-11-17T09:00:00Z")),
            prompts: 1,
            tokens: Some(5),
            fork_of: None,
        }
    );
    assert_eq!(events.unread(), Unread { damaged: 1, ..Unread::default() });
}

#[test]
fn transcript_summary_has_the_first_prompt_and_the_last_directory() {
    let mut summary = TranscriptSummary::default();
    let long = "ä".repeat(1000);
    for item in [
        at("2026-11-17T09:00:00Z", directory("/p")),
        at("2026-11-17T09:00:01Z", prompt(None, &long)),
        at("2026-11-17T09:00:02Z", prompt(None, "second")),
        at("2026-11-17T09:00:03Z", directory("/q")),
        at("2026-11-17T09:00:03Z", fork_of("bbbb")),
        at("2026-11-17T09:00:04Z", ItemContent::Tokens(u64::MAX)),
        at("2026-11-17T09:00:04Z", ItemContent::Tokens(1)),
    ] {
        summary.add(&item);
    }
    let expected = TranscriptSummary {
        title: None,
        first_prompt: Some("ä".repeat(512)),
        directory: Some("/q".into()),
        created_at: Some(Timestamp::parse("2026-11-17T09:00:00Z").unwrap()),
        updated_at: Some(Timestamp::parse("2026-11-17T09:00:04Z").unwrap()),
        prompts: 2,
        tokens: Some(u64::MAX),
        fork_of: Some(AcpSessionId::new("bbbb").unwrap()),
    };
    assert_eq!(summary, expected);
}

#[test]
fn transcript_is_written_as_an_archive_of_an_adopted_session() {
    let lines = [
        r#"{"type":"user","uuid":"u1","timestamp":"2026-11-17T09:00:00Z","cwd":"/p","message":{"content":"hello"}}"#,
        r#"{"type":"custom-title","customTitle":"T"}"#,
    ];
    let home = TestHome::with(&[(FILE, &(lines.join("\n") + "\n"))]);
    let reader = home.reader("claude");
    let source = reader.find("aaaa").remove(0);
    let open = || TranscriptEvents::open(&*reader, &source, Arc::new(Secrets::new([""; 0]))).unwrap();
    let bodies: Vec<Value> = open()
        .next_batch()
        .unwrap()
        .unwrap()
        .iter()
        .map(|event| serde_json::from_str(&event.body).unwrap())
        .collect();
    let (cwd, secrets) = (AbsolutePath::new("/elsewhere").unwrap(), Arc::new(Secrets::new([""; 0])));
    let directory = tempfile::tempdir().unwrap();
    let archive = archive_file(&*reader, &source, secrets, &cwd, directory.path()).unwrap();
    assert_eq!(archive.cwd.as_str(), "/p");
    let archive = std::fs::read(archive.file.path()).unwrap();
    let time = "2026-11-17T09:00:00.000Z";
    let millis = Timestamp::parse(time).unwrap().as_millis();
    let row = json!([millis, null, 1, 1, "from_agent", "update"]);
    let session = json!({
        "agent": "claude", "agent_name": "claude", "cwd_original": "/p", "cwd_relative": "/p", "state": {},
    });
    let lineage = json!([{ "acpxSessionId": "aaaa", "from": time, "reason": "adopted" }]);
    let record = json!({ "createdAt": time, "updatedAt": time, "title": "T", "lineage": lineage });
    let expected = json!({
        "format_version": 1, "exported_by": "acpx", "history": bodies, "session": session,
        "acpx": { "version": 1, "record": record, "turns": [], "events": [row, row] },
    });
    assert_eq!(serde_json::from_slice::<Value>(&archive).unwrap(), expected);
}
