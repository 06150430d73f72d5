use serde_json::json;

use crate::transcripts::tests::{
    TestHome, at, command, contents, directory, fork_of, output, prompt, read_from, reply, result, thought,
    title,
};
use crate::transcripts::{ItemContent, Unread};

const FILE: &str = ".qwen/projects/-home-u-p/chats/aaaa.jsonl";
const FIXTURE: &str = include_str!("../fixtures/qwen.jsonl");

#[test]
fn qwen_transcript_is_read_without_messages_that_are_not_of_the_user() {
    let home = TestHome::with(&[(FILE, FIXTURE)]);
    let (items, unread) = home.read("qwen", "aaaa");
    let edit = ItemContent::ToolCall {
        id: "call_2".into(),
        name: "edit".into(),
        title: "Edit /home/u/p/a".into(),
        kind: "edit",
        input: json!({"file_path": "/home/u/p/a", "old_string": "old", "new_string": "new"}),
        paths: vec!["/home/u/p/a".into()],
    };
    let shell = json!({"command": "echo hi", "description": "fake shell call"});
    let plan = json!({"content": "a", "priority": "medium", "status": "completed"});
    let third = "2026-11-17T09:30:40.977Z";
    let expected = vec![
        at("2026-11-17T09:30:34.326Z", directory("/home/u/p")),
        at("2026-11-17T09:30:34.326Z", prompt("u1", "hello one")),
        at(third, thought("u3", "pondering")),
        at(third, reply("u3", "I will use run_shell_command.")),
        at(third, command("call_1", "run_shell_command", "echo hi", shell)),
        at(third, ItemContent::Tokens(18)),
        at("2026-11-17T09:30:41.881Z", result("call_1", &[output("Command: echo hi\nOutput: hi")])),
        at("2026-11-17T09:30:42Z", edit),
        at("2026-11-17T09:30:42Z", ItemContent::Plan(vec![plan])),
        at(
            "2026-11-17T09:30:43Z",
            result("call_2", &[json!({"type": "diff", "path": "a", "oldText": null, "newText": "new\n"})]),
        ),
        at("2026-11-17T09:30:45Z", directory("/home/u/q")),
        at("2026-11-17T09:30:45Z", ItemContent::Compaction { id: "u8".into() }),
        at("2026-11-17T09:30:47Z", title("My title")),
    ];
    assert_eq!(items, expected);
    assert_eq!(unread, Unread::default());
}

#[test]
fn qwen_transcript_read_on_from_a_position_gives_the_appended_items() {
    let home = TestHome::with(&[(FILE, FIXTURE)]);
    let reader = home.reader("qwen");
    let source = reader.find("aaaa").remove(0);
    let (all, ..) = read_from(&*reader, &source, 0);
    for (end, _) in FIXTURE.match_indices('\n') {
        home.write(FILE, &FIXTURE[..=end]);
        let (mut first, position, _) = read_from(&*reader, &source, 0);
        home.write(FILE, FIXTURE);
        first.extend(read_from(&*reader, &source, position.unwrap()).0);
        assert_eq!(first, all);
    }
}

#[test]
fn qwen_fork_unknown_kinds_and_torn_lines() {
    let lines = [
        r#"{"type":"user","uuid":"u1","forkedFrom":{"sessionId":"bbbb","messageUuid":"u1"},"message":{"parts":[{"text":"one"}]}}"#,
        r#"{"type":"user","uuid":"u2","message":{"parts":[{"text":"two"}]}}"#,
        r#"{"type":"novelty","uuid":"u3"}"#,
        r#"{"type":7}"#,
        r#"{"type":"user","uu"#,
    ];
    let home = TestHome::with(&[(FILE, &lines.join("\n"))]);
    let (items, unread) = home.read("qwen", "aaaa");
    assert_eq!(contents(items), [fork_of("bbbb"), prompt("u1", "one"), prompt("u2", "two")]);
    assert_eq!(unread, Unread { damaged: 1, unknown: 1, too_long: 0, is_torn: true });
    assert_eq!(home.reader("qwen").find("../chats/aaaa"), []);
}
