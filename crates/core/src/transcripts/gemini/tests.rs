use serde_json::json;

use crate::transcripts::tests::{
    TestHome, at, command, contents, directory, failure, output, prompt, read_from, reply, result, text,
    thought, title,
};
use crate::transcripts::{ItemContent, TranscriptItem, Unread};

const ID: &str = "5eb29938-d1c0-492a-80e5-405980bf94b0";
const FILE: &str = ".gemini/tmp/p/chats/session-2026-11-17T09-29-5eb29938.jsonl";
const FIXTURE: &str = include_str!("../fixtures/gemini.jsonl");

#[test]
fn gemini_log_gives_the_last_form_of_each_message() {
    let home = TestHome::with(&[(FILE, FIXTURE), (".gemini/tmp/p/.project_root", "/home/u/p\n")]);
    let (items, unread) = home.read("gemini", ID);
    let image = json!({"type": "image", "mimeType": "image/png", "data": "QQ=="});
    let hello = ItemContent::Prompt { id: Some("m1".into()), blocks: vec![text("hello one"), image] };
    let shell = json!({"command": "echo hi", "description": "fake shell call"});
    let file = |id: &str, name: &str, title: &str, kind, input: serde_json::Value| {
        let paths = vec![input["file_path"].as_str().unwrap().to_owned()];
        ItemContent::ToolCall { id: id.into(), name: name.into(), title: title.into(), kind, input, paths }
    };
    let replace = json!({"file_path": "/home/u/p/a", "old_string": "old", "new_string": "new"});
    let replaced = json!({"type": "diff", "path": "/home/u/p/a", "oldText": "old\n", "newText": "new\n"});
    let third = "2026-11-17T09:29:54.576Z";
    let expected = vec![
        TranscriptItem { at: None, content: directory("/home/u/p") },
        TranscriptItem { at: None, content: title("Say hello") },
        at("2026-11-17T09:29:53.724Z", prompt("d1", "an old prompt ä")),
        at("2026-11-17T09:29:53.770Z", hello),
        at("2026-11-17T09:29:53.964Z", thought("m2", "**Pondering**\nthe echo")),
        at("2026-11-17T09:29:53.964Z", reply("m2", "ECHO: hello one")),
        at("2026-11-17T09:29:53.964Z", ItemContent::Tokens(18)),
        at("2026-11-17T09:29:54.577Z", command("call_1", "run_shell_command", "echo hi", shell)),
        at("2026-11-17T09:29:54.577Z", result("call_1", &[output("Output: hi")])),
        at(third, file("call_2", "replace", "Edit /home/u/p/a", "edit", replace)),
        at(third, result("call_2", &[replaced])),
        at(third, file("call_3", "read_file", "Read /none", "read", json!({"file_path": "/none"}))),
        at(third, failure("call_3", &[output("File not found")])),
        at("2026-11-17T09:29:59Z", prompt("m8", "again")),
    ];
    assert_eq!(items, expected);
    assert_eq!(unread, Unread::default());
    let reader = home.reader("gemini");
    let source = reader.find(ID).remove(0);
    assert_eq!(read_from(&*reader, &source, 0).1, None);
    assert!(reader.open(&source, 10).is_err());
}

#[test]
fn gemini_damaged_lines_are_counted_and_the_torn_end_is_left_out() {
    let lines = [
        &format!(r#"{{"sessionId":"{ID}","projectHash":"x"}}"#),
        "no JSON",
        r#"{"novelty":1}"#,
        r#"{"id":"a","type":"hologram"}"#,
        r#"{"id":"b","type":"user","content":7}"#,
        r#"{"$set":{"messages":[{"id":"c","type":"user","content":"kept"},7]}}"#,
        r#"{"id":"d","type":"user","content":"not wh"#,
    ];
    let home = TestHome::with(&[(FILE, &lines.join("\n"))]);
    let (items, unread) = home.read("gemini", ID);
    assert_eq!(contents(items), [prompt("c", "kept")]);
    assert_eq!(unread, Unread { damaged: 2, unknown: 1, too_long: 0, is_torn: true });
}

#[test]
fn gemini_subagents_have_a_parent_and_files_without_a_session_are_problems() {
    let sub = format!(".gemini/tmp/p/chats/{ID}/sub.jsonl");
    let home = TestHome::with(&[
        (FILE, FIXTURE),
        (&sub, r#"{"sessionId":"sub","projectHash":"x","kind":"subagent"}"#),
        (".gemini/tmp/p/chats/session-2026-11-17T09-30-00000000.jsonl", "{}\n"),
        (".gemini/tmp/p/chats/session-2026-11-17T09-30-11111111.json", "{}\n"),
        (".gemini/tmp/p/.project_root", "/home/u/p"),
        (".gemini/tmp/bin/rg", "x"),
    ]);
    let (sources, problems) = home.list("gemini");
    let listed: Vec<_> = sources
        .iter()
        .map(|source| (source.session.as_str(), source.parent.as_ref().map(ToString::to_string)))
        .collect();
    assert_eq!(listed, [(ID, None), ("sub", Some(ID.to_owned()))]);
    let mut problems = problems;
    problems.sort();
    let path = |end: &str| format!(".gemini/tmp/p/chats/session-2026-11-17T09-30-{end}");
    let expected = [
        (path("00000000.jsonl"), "its first line names no session".to_owned()),
        (path("11111111.json"), "its beginning names no session".to_owned()),
    ];
    assert_eq!(problems, expected);
    assert_eq!(home.contents("gemini", "sub"), [directory("/home/u/p")]);
}

#[test]
fn gemini_document_of_an_older_version_is_read() {
    let document = json!({
        "sessionId": "old", "projectHash": "x", "startTime": "2025-09-01T10:00:00.000Z", "messages": [
            {"id": "m1", "timestamp": "2025-09-01T10:00:00.000Z", "type": "user", "content": "hello"},
            {"id": "m2", "timestamp": "2025-09-01T10:00:01.000Z", "type": "gemini", "content": "hi", "thoughts": []},
        ],
    });
    let text = serde_json::to_string_pretty(&document).unwrap();
    let file = ".gemini/tmp/p/chats/session-2025-09-01T10-00-01234567.json";
    let home = TestHome::with(&[(file, &text), (".gemini/tmp/p/.project_root", "/home/u/p")]);
    let expected = [directory("/home/u/p"), prompt("m1", "hello"), reply("m2", "hi")];
    assert_eq!(home.contents("gemini", "old"), expected);
    home.write(file, &text[..text.len() / 2]);
    let (items, unread) = home.read("gemini", "old");
    assert_eq!(contents(items), [directory("/home/u/p")]);
    assert_eq!(unread, Unread { damaged: 1, ..Unread::default() });
}

#[test]
fn gemini_log_is_read_until_the_deadline_only() {
    let header = format!(r#"{{"sessionId":"{ID}","projectHash":"x"}}"#);
    let message = r#"{"id":"a","type":"user","content":"hi"}"#;
    // More than is read between two looks at the time.
    let text = format!("{header}\n") + &format!("{message}\n").repeat(2 * 1024 * 1024 / message.len());
    let home = TestHome::with(&[(FILE, &text)]);
    let reader = home.reader("gemini");
    let mut items = reader.open(&reader.find(ID).remove(0), 0).unwrap();
    items.stop_at(std::time::Instant::now());
    assert_eq!(items.next().unwrap_err().kind(), std::io::ErrorKind::TimedOut);
}
