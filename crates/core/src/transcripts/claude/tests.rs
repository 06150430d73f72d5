use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::Instant;

use serde_json::json;

use crate::transcripts::Unread;
use crate::transcripts::tests::{
    TestHome, at, command, contents, directory, failure, fork_of, output, prompt, read_from, reply, result,
    text, thought, title,
};
use crate::transcripts::{ItemContent, TranscriptItem, TranscriptSource};

const FIXTURE: &str = include_str!("../fixtures/claude.jsonl");
const FILE: &str = ".claude/projects/-home-u-a-b/aaaa.jsonl";

fn file_call(id: &str, name: &str, kind: &'static str, input: serde_json::Value) -> ItemContent {
    let path = input["file_path"].as_str().unwrap().to_owned();
    let title = format!("{name} {path}");
    ItemContent::ToolCall { id: id.into(), name: name.into(), title, kind, input, paths: vec![path] }
}

fn diff(path: &str, old: Option<&str>, new: &str) -> serde_json::Value {
    json!({"type": "diff", "path": path, "oldText": old, "newText": new})
}

#[test]
fn claude_transcript_is_read_with_real_diffs_and_without_bookkeeping() {
    let home = TestHome::with(&[(FILE, FIXTURE)]);
    let (items, unread) = home.read("claude", "aaaa");
    let bash = json!({"command": "echo hi &&\n  cat out.txt", "description": "fake shell call"});
    let edit = json!({"file_path": "/home/u/a-b/README", "old_string": "old", "new_string": "new"});
    let write = json!({"file_path": "/home/u/a-b/new", "content": "text"});
    let read = json!({"file_path": "/home/u/a-b/none"});
    let plan = json!({"content": "build", "priority": "medium", "status": "in_progress"});
    let image = json!({"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="});
    let look = vec![text("look"), image, text("[@README](file:///home/u/README)")];
    let expected = vec![
        at("2026-11-17T09:29:32.857Z", directory("/home/u/a-b")),
        at("2026-11-17T09:29:32.857Z", prompt("u1", "hello one")),
        at("2026-11-17T09:29:33.109Z", thought("u3", "pondering")),
        at("2026-11-17T09:29:33.109Z", ItemContent::Tokens(16)),
        at("2026-11-17T09:29:33.110Z", reply("u4", "I will run it.")),
        at("2026-11-17T09:29:33.243Z", command("toolu_1", "Bash", "echo hi && cat out.txt", bash)),
        at("2026-11-17T09:29:33.243Z", ItemContent::Tokens(4)),
        at("2026-11-17T09:29:33.734Z", result("toolu_1", &[output("hi\nwarning")])),
        at("2026-11-17T09:29:34Z", file_call("toolu_2", "Edit", "edit", edit)),
        at(
            "2026-11-17T09:29:35Z",
            result("toolu_2", &[diff("/home/u/a-b/README", Some("first\nold"), "first\nnew")]),
        ),
        at("2026-11-17T09:29:36Z", file_call("toolu_3", "Write", "edit", write)),
        at("2026-11-17T09:29:36Z", ItemContent::Plan(vec![plan])),
        at("2026-11-17T09:29:37Z", result("toolu_3", &[diff("/home/u/a-b/new", None, "text")])),
        at("2026-11-17T09:29:39Z", file_call("toolu_5", "Read", "read", read)),
        at("2026-11-17T09:29:40Z", failure("toolu_5", &[output("File does not exist.")])),
        TranscriptItem { at: None, content: title("Run a command") },
        at("2026-11-17T09:32:17.993Z", ItemContent::Compaction { id: "u14".into() }),
        at("2026-11-17T09:33:00Z", directory("/home/u/a/b")),
        at("2026-11-17T09:33:00Z", ItemContent::Prompt { id: Some("u19".into()), blocks: look }),
        at("2026-11-17T09:33:01Z", prompt("u21", "and hurry")),
        TranscriptItem { at: None, content: title("My title") },
        at("2026-11-17T09:33:02Z", reply("u23", "Done.")),
    ];
    assert_eq!(items, expected);
    assert_eq!(unread, Unread::default());
}

#[test]
fn claude_transcript_read_on_from_a_position_gives_the_appended_items() {
    let home = TestHome::new();
    let ends: Vec<usize> = FIXTURE.match_indices('\n').map(|(end, _)| end + 1).collect();
    let path = home.write(FILE, FIXTURE);
    let reader = home.reader("claude");
    let source = reader.find("aaaa").remove(0);
    let (all, position, _) = read_from(&*reader, &source, 0);
    assert_eq!(position, Some(FIXTURE.len() as u64));
    for end in ends {
        fs::write(&path, &FIXTURE[..end]).unwrap();
        let (mut first, position, unread) = read_from(&*reader, &source, 0);
        assert_eq!((position, unread), (Some(end as u64), Unread::default()));
        OpenOptions::new().append(true).open(&path).unwrap().write_all(&FIXTURE.as_bytes()[end..]).unwrap();
        let (rest, ..) = read_from(&*reader, &source, position.unwrap());
        first.extend(rest);
        assert_eq!(first, all);
    }
    fs::write(&path, "{}\n").unwrap();
    let shorter = reader.open(&source, 100).map(|_| ()).map_err(|error| error.to_string());
    assert_eq!(shorter, Err("the file is shorter than it was".to_owned()));
}

#[test]
fn claude_items_of_one_line_are_all_given_before_the_position() {
    let line = r#"{"type":"user","uuid":"u1","cwd":"/p","message":{"content":"hello"}}"#;
    let home = TestHome::with(&[(FILE, &format!("{line}\n"))]);
    let reader = home.reader("claude");
    let mut items = reader.open(&reader.find("aaaa").remove(0), 0).unwrap();
    let mut seen = vec![items.is_at_position()];
    while items.next().unwrap().is_some() {
        seen.push(items.is_at_position());
    }
    // The line has the directory and the prompt.
    assert_eq!(seen, [true, false, true]);
}

#[test]
fn claude_request_lines_of_megabytes_are_passed_over() {
    let long = "x".repeat(40 * 1024 * 1024);
    let blob = format!(
        r#"{{"type":"api-request-blob","sessionId":"aaaa","message":{{"role":"user","content":"{long}"}}}}"#
    );
    let prompt_line = r#"{"type":"user","uuid":"u1","message":{"role":"user","content":"hi"}}"#;
    let home = TestHome::with(&[(FILE, &format!("{blob}\n{prompt_line}\n"))]);
    let (items, unread) = home.read("claude", "aaaa");
    assert_eq!((contents(items), unread), (vec![prompt("u1", "hi")], Unread::default()));
}

#[test]
fn claude_line_of_200_megabytes_is_counted_and_the_next_one_read() {
    let first = r#"{"type":"user","uuid":"u1","message":{"role":"user","content":"hi"}}"#;
    let home = TestHome::with(&[(FILE, &format!("{first}\n"))]);
    let mut file = OpenOptions::new().append(true).open(home.path().join(FILE)).unwrap();
    // A hole in the file takes no space on the disk.
    file.set_len(200 * 1024 * 1024).unwrap();
    writeln!(file, "\n{}", first.replace("u1", "u2")).unwrap();
    let (items, unread) = home.read("claude", "aaaa");
    assert_eq!(contents(items), [prompt("u1", "hi"), prompt("u2", "hi")]);
    assert_eq!(unread, Unread { too_long: 1, ..Unread::default() });
}

#[test]
fn claude_unknown_damaged_and_torn_lines_are_counted() {
    let lines = [
        r#"{"type":"novelty"}"#,
        r#"{"type":"user","uuid":7}"#,
        "no JSON",
        r#"{"type":"assistant","uuid":"u1","message":{"content":[{"type":"hologram"},{"type":7},{"type":"text","text":"ok"}]}}"#,
        r#"{"type":"user","uuid":"u2","message":{"role":"user","content":"not whole"#,
    ];
    let home = TestHome::with(&[(FILE, &lines.join("\n"))]);
    let (items, unread) = home.read("claude", "aaaa");
    assert_eq!(contents(items), [reply("u1", "ok")]);
    assert_eq!(unread, Unread { damaged: 3, too_long: 0, unknown: 2, is_torn: true });
}

#[test]
fn claude_slash_command_is_a_prompt_unless_it_is_local() {
    let texts = [
        "<command-message>review is running</command-message>\n<command-name>/review</command-name>\n<command-args>123 axolotl</command-args>",
        "<command-name>/init</command-name>\n            <command-message>init</command-message>\n            <command-args></command-args>",
        "<command-message>pdf</command-message>\n<command-name>pdf</command-name>",
        "<command-name>/compact</command-name>\n<command-args>keep the names</command-args>",
        "<command-name>/model</command-name>",
        "<command-message>no name</command-message>",
        "<command-name></command-name>",
    ];
    let lines: String = texts
        .iter()
        .map(|text| json!({"type": "user", "uuid": "u", "message": {"content": text}}).to_string() + "\n")
        .collect();
    let home = TestHome::with(&[(FILE, &lines)]);
    let expected = ["/review 123 axolotl", "/init", "/pdf"].map(|text| prompt("u", text));
    assert_eq!(home.contents("claude", "aaaa"), expected);
}

#[test]
fn claude_fork_is_announced_before_the_copied_lines() {
    let line = |uuid: &str, words: &str, fork: &str| {
        format!(r#"{{"type":"user","uuid":"{uuid}","message":{{"content":"{words}"}}{fork}}}"#) + "\n"
    };
    let fork = r#","forkedFrom":{"sessionId":"bbbb","messageUuid":"m"}"#;
    let copied = line("u1", "one", fork) + &line("u2", "two", fork);
    let own = copied.clone()
        + r#"{"type":"custom-title","customTitle":"one (fork)"}"#
        + "\n"
        + &line("u3", "three", "");
    let home = TestHome::with(&[(FILE, &own)]);
    assert_eq!(
        home.contents("claude", "aaaa"),
        [
            fork_of("bbbb"),
            prompt("u1", "one"),
            prompt("u2", "two"),
            title("one (fork)"),
            prompt("u3", "three")
        ]
    );
    home.write(FILE, copied);
    assert_eq!(home.contents("claude", "aaaa"), [fork_of("bbbb"), prompt("u1", "one"), prompt("u2", "two")]);
}

#[test]
fn claude_summary_is_a_title_only_if_the_file_has_its_message() {
    let lines = [
        r#"{"type":"summary","summary":"another session","leafUuid":"x"}"#,
        r#"{"type":"summary","summary":"before","leafUuid":"u1"}"#,
        r#"{"type":"user","uuid":"u1","message":{"content":"hi"}}"#,
        r#"{"type":"summary","summary":"after","leafUuid":"u1"}"#,
    ];
    let home = TestHome::with(&[(FILE, &(lines.join("\n") + "\n"))]);
    assert_eq!(home.contents("claude", "aaaa"), [prompt("u1", "hi"), title("before"), title("after")]);
}

#[test]
fn claude_directories_with_the_same_key_differ_by_their_lines() {
    let line = |cwd: &str| {
        format!(r#"{{"type":"user","uuid":"u","cwd":"{cwd}","message":{{"content":"hi"}}}}"#) + "\n"
    };
    let home = TestHome::with(&[(FILE, &line("/home/u/a-b"))]);
    home.write(".claude/projects/-home-u-a-b/bbbb.jsonl", line("/home/u/a/b"));
    assert_eq!(home.contents("claude", "aaaa"), [directory("/home/u/a-b"), prompt("u", "hi")]);
    assert_eq!(home.contents("claude", "bbbb"), [directory("/home/u/a/b"), prompt("u", "hi")]);
}

/// The session, the parent and the path below the home of a source.
fn parts(home: &TestHome, source: &TranscriptSource) -> (String, Option<String>, String) {
    let path = source.path.strip_prefix(home.path()).unwrap().to_str().unwrap().to_owned();
    (source.session.to_string(), source.parent.as_ref().map(ToString::to_string), path)
}

#[test]
fn claude_subagents_of_both_layouts_have_a_parent() {
    let line = r#"{"isSidechain":true,"agentId":"a1","type":"user","uuid":"u1","sessionId":"aaaa","message":{"content":"sub"}}"#;
    let project = ".claude/projects/-p";
    let home = TestHome::with(&[
        (&format!("{project}/aaaa.jsonl"), "{}\n"),
        (&format!("{project}/aaaa/subagents/agent-a1.jsonl"), line),
        (&format!("{project}/aaaa/subagents/agent-a1.meta.json"), "{}"),
        (&format!("{project}/agent-a2.jsonl"), line),
        (&format!("{project}/agent-a3.jsonl"), ""),
        (&format!("{project}/empty.jsonl"), ""),
        (&format!("{project}/notes.txt"), "x"),
    ]);
    let (sources, problems) = home.list("claude");
    let expected = [
        ("aaaa".to_owned(), None, format!("{project}/aaaa.jsonl")),
        ("agent-a1".to_owned(), Some("aaaa".to_owned()), format!("{project}/aaaa/subagents/agent-a1.jsonl")),
        ("agent-a2".to_owned(), Some("aaaa".to_owned()), format!("{project}/agent-a2.jsonl")),
    ];
    assert_eq!(sources.iter().map(|source| parts(&home, source)).collect::<Vec<_>>(), expected);
    assert_eq!(problems, []);
    assert_eq!(home.contents("claude", "agent-a1"), [prompt("u1", "sub")]);
    assert_eq!(home.contents("claude", "agent-a2"), [prompt("u1", "sub")]);
}

#[test]
fn claude_pipes_links_and_unreadable_files_are_problems_and_block_nothing() {
    let project = ".claude/projects/-p";
    let home = TestHome::with(&[(&format!("{project}/aaaa.jsonl"), "{}\n"), ("outside.jsonl", "{}\n")]);
    let below = |name: &str| home.path().join(project).join(name);
    symlink(home.path().join("outside.jsonl"), below("out.jsonl")).unwrap();
    let locked = home.write(&format!("{project}/locked.jsonl"), "{}\n");
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o000)).unwrap();
    let made = std::process::Command::new("mkfifo").arg(below("pipe.jsonl")).status().unwrap();
    assert!(made.success());
    let (sources, problems) = home.list("claude");
    assert_eq!(sources.iter().map(|source| parts(&home, source).0).collect::<Vec<_>>(), ["aaaa"]);
    let expected = [
        ("locked.jsonl", "you may not read it"),
        ("out.jsonl", "it is a link that leads out of the agent's directory"),
        ("pipe.jsonl", "it is not a regular file"),
    ];
    assert_eq!(problems, expected.map(|(name, reason)| (format!("{project}/{name}"), reason.to_owned())));
    // A file that was listed may have been replaced since then.
    let reader = home.reader("claude");
    for (name, reason) in [
        ("out.jsonl", "it is a link that leads out of the agent's directory"),
        ("pipe.jsonl", "it is not a regular file"),
    ] {
        let source = TranscriptSource { path: below(name), ..sources[0].clone() };
        assert_eq!(
            reader.open(&source, 0).map(|_| ()).map_err(|error| error.to_string()),
            Err(reason.to_owned())
        );
    }
}

#[test]
fn claude_session_with_a_path_as_its_id_is_not_found() {
    let home = TestHome::with(&[(FILE, "{}\n"), (".claude/secret.jsonl", "{}\n")]);
    let reader = home.reader("claude");
    for session in ["../../secret", "..", "", "a\0", "/etc/passwd"] {
        assert_eq!(reader.find(session), [], "{session:?}");
    }
    assert_eq!(reader.resume_command("aaaa"), Some(vec!["claude".into(), "--resume".into(), "aaaa".into()]));
}

#[test]
fn transcript_of_two_gigabytes_is_read_until_the_deadline_only() {
    let home = TestHome::with(&[(FILE, FIXTURE)]);
    let path = home.path().join(FILE);
    // The rest of the file is one line without an end.
    fs::File::options().write(true).open(path).unwrap().set_len(2 << 30).unwrap();
    let reader = home.reader("claude");
    let mut items = reader.open(&reader.find("aaaa")[0], 0).unwrap();
    items.stop_at(Instant::now());
    let first = items.next().unwrap().unwrap();
    assert_eq!(first, at("2026-11-17T09:29:32.857Z", directory("/home/u/a-b")));
    let error = loop {
        match items.next() {
            Ok(item) => assert!(item.is_some()),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::TimedOut);
}
