use proptest::prelude::*;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde_json::json;

use crate::transcripts::tests::{
    TestHome, at, command, contents, directory, failure, fork_of, output, prompt, read_from, reply, result,
    text, thought,
};
use crate::transcripts::{ItemContent, TranscriptSource, Unread};

const PAGINATED: &str = include_str!("../fixtures/codex_paginated.jsonl");
const LEGACY: &str = include_str!("../fixtures/codex_legacy.jsonl");
const FIRST: &str = "01a1e8d7-25a3-7cc1-b001-973a896f7aff";
const OTHER: &str = "01a1e8d9-cc03-7a32-906e-0ae38779920c";

fn file(id: &str) -> String {
    format!(".codex/sessions/2026/11/17/rollout-2026-11-17T09-29-36-{id}.jsonl")
}

fn patch_call(id: &str, patch: &str, file: &str) -> ItemContent {
    ItemContent::ToolCall {
        id: id.into(),
        name: "apply_patch".into(),
        title: format!("Edit {file}"),
        kind: "edit",
        input: json!({"patch": patch}),
        paths: vec![file.into()],
    }
}

#[test]
fn codex_paginated_rollout_has_each_message_once_and_real_output() {
    let home = TestHome::with(&[(&file(FIRST), PAGINATED)]);
    let (items, unread) = home.read("codex", FIRST);
    let image = json!({"type": "image", "mimeType": "image/png", "data": "QQ=="});
    let link = json!({"type": "resource_link", "uri": "file:///home/u/p/a.png", "name": "a.png"});
    let patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-old\n+new\n*** End Patch";
    let diffs = [
        json!({"type": "diff", "path": "/home/u/p/a.txt", "oldText": "old", "newText": "new"}),
        json!({"type": "diff", "path": "/home/u/p/b.txt", "oldText": null, "newText": "b\n"}),
    ];
    let search = ItemContent::ToolCall {
        id: "ws_1".into(),
        name: "web_search".into(),
        title: "\"rust\"".into(),
        kind: "fetch",
        input: json!({"query": "rust"}),
        paths: vec![],
    };
    let plan = json!({"content": "one", "priority": "medium", "status": "completed"});
    let run = ItemContent::Prompt { id: Some("item-1".into()), blocks: vec![text("SAFE run"), image, link] };
    let expected = vec![
        at("2026-11-17T09:29:36.500Z", directory("/home/u/p")),
        at("2026-11-17T09:46:31.238Z", run),
        at("2026-11-17T09:46:31.300Z", thought("rs_1", "pondering\n\nmore")),
        at("2026-11-17T09:46:31.337Z", reply("msg_1", "I will use exec_command.")),
        at(
            "2026-11-17T09:46:31.356Z",
            command("call_1", "exec_command", "echo hi-from-safe", json!({"cmd": "echo hi-from-safe"})),
        ),
        at("2026-11-17T09:46:31.861Z", result("call_1", &[output("hi-from-safe\n")])),
        at("2026-11-17T09:46:31.900Z", ItemContent::Tokens(100)),
        at(
            "2026-11-17T09:46:32.000Z",
            command("call_2", "exec_command", "rm -r /", json!({"cmd": "rm -r /"})),
        ),
        at("2026-11-17T09:46:32.001Z", result("call_2", &[output("exec_command failed: rejected by user")])),
        at("2026-11-17T09:46:32.002Z", ItemContent::Plan(vec![plan])),
        at("2026-11-17T09:46:32.004Z", patch_call("call_4", patch, "a.txt")),
        at("2026-11-17T09:46:32.005Z", result("call_4", &diffs)),
        at("2026-11-17T09:46:32.300Z", search),
        at("2026-11-17T09:46:32.300Z", result("ws_1", &[])),
        at("2026-11-17T09:46:32.423Z", ItemContent::Compaction { id: "compact-1".into() }),
        at("2026-11-17T09:46:32.500Z", ItemContent::Tokens(50)),
    ];
    assert_eq!(items, expected);
    assert_eq!(unread, Unread::default());
}

fn legacy_items() -> Vec<ItemContent> {
    let patch = "*** Begin Patch\n*** Add File: a\n+x\n*** End Patch";
    let added = json!({"type": "diff", "path": "/home/u/p/a", "oldText": null, "newText": "x\n"});
    vec![
        directory("/home/u/p"),
        prompt(None, "hello one"),
        thought(None, "pondering"),
        reply(None, "ECHO: hello one"),
        command("call_1", "exec_command", "false", json!({"cmd": "false"})),
        failure("call_1", &[output("no\n")]),
        command("call_2", "shell", "ls", json!({"command": ["bash", "-lc", "ls"]})),
        result("call_2", &[output("a\n")]),
        patch_call("call_3", patch, "a"),
        result("call_3", &[added]),
        ItemContent::Compaction { id: "2026-11-17T09:32:30.831Z".into() },
        directory("/home/u/q"),
    ]
}

#[test]
fn codex_legacy_rollout_is_read_from_its_events() {
    let home = TestHome::with(&[(&file(OTHER), LEGACY)]);
    let (items, unread) = home.read("codex", OTHER);
    assert_eq!((contents(items), unread), (legacy_items(), Unread::default()));
}

#[test]
fn codex_compressed_rollout_is_read_without_a_position() {
    let home = TestHome::new();
    let path = format!("{}.zst", file(OTHER));
    home.write(&path, compress_to_vec(LEGACY.as_bytes(), CompressionLevel::Fastest));
    let reader = home.reader("codex");
    let (items, position, unread) = read_from(&*reader, &reader.find(OTHER)[0], 0);
    assert_eq!((contents(items), position, unread), (legacy_items(), None, Unread::default()));
}

#[test]
fn codex_rollout_read_on_from_a_position_gives_the_appended_items() {
    for (id, fixture) in [(FIRST, PAGINATED), (OTHER, LEGACY)] {
        let home = TestHome::with(&[(&file(id), fixture)]);
        let reader = home.reader("codex");
        let source = reader.find(id).remove(0);
        let (all, position, _) = read_from(&*reader, &source, 0);
        assert_eq!(position, Some(fixture.len() as u64));
        for (end, _) in fixture.match_indices('\n') {
            home.write(&file(id), &fixture[..=end]);
            let (mut first, position, _) = read_from(&*reader, &source, 0);
            home.write(&file(id), fixture);
            first.extend(read_from(&*reader, &source, position.unwrap()).0);
            assert_eq!(first, all);
        }
    }
}

#[test]
fn codex_fork_continues_its_base_even_if_that_is_archived() {
    let ends: Vec<usize> = PAGINATED.match_indices('\n').map(|(end, _)| end + 1).collect();
    let offset = ends[7];
    let meta = format!(
        r#"{{"timestamp":"2026-11-17T10:00:00Z","ordinal":8,"type":"session_meta","payload":{{"id":"{OTHER}","forked_from_id":"{FIRST}","cwd":"/home/u/p","source":"vscode","history_mode":"paginated","history_base":{{"thread_id":"{FIRST}","end_ordinal_exclusive":8,"end_byte_offset":{offset}}}}}}}"#
    );
    let own = r#"{"timestamp":"2026-11-17T10:00:01Z","type":"event_msg","payload":{"type":"item_completed","item":{"type":"UserMessage","id":"i2","content":[{"type":"text","text":"go on"}]}}}"#;
    let archived = format!(".codex/archived_sessions/rollout-2026-11-17T09-29-36-{FIRST}.jsonl");
    let fork = format!("{meta}\n{own}\n");
    let home = TestHome::with(&[(&archived, PAGINATED), (&file(OTHER), &fork)]);
    let all = home.contents("codex", FIRST);
    let read = home.contents("codex", OTHER);
    assert_eq!(read, [&[fork_of(FIRST)], &all[..4], &[prompt("i2", "go on")]].concat());
    let (sources, _) = home.list("codex");
    let archived: Vec<_> =
        sources.iter().map(|source| (source.session.as_str(), source.is_archived)).collect();
    assert_eq!(archived, [(FIRST, true), (OTHER, false)]);
    let reader = home.reader("codex");
    let (_, position, _) = read_from(&*reader, &sources[1], 0);
    assert_eq!(position, Some(fork.len() as u64));
    // Without its base it has its own turns.
    let alone = TestHome::with(&[(&file(OTHER), &fork)]);
    assert_eq!(
        alone.contents("codex", OTHER),
        [fork_of(FIRST), directory("/home/u/p"), prompt("i2", "go on")]
    );
}

#[test]
fn codex_directory_that_is_a_link_is_read() {
    let home = TestHome::with(&[(&file(OTHER).replace(".codex/sessions", "disk/sessions"), LEGACY)]);
    std::fs::create_dir_all(home.path().join(".codex")).unwrap();
    std::os::unix::fs::symlink(home.path().join("disk/sessions"), home.path().join(".codex/sessions"))
        .unwrap();
    assert_eq!(home.contents("codex", OTHER), legacy_items());
}

#[test]
fn codex_subagents_have_a_parent_or_are_left_out() {
    let ids: Vec<String> = (0..5).map(|n| format!("01a1e8d7-25a3-7cc1-b001-00000000000{n}")).collect();
    let members = [
        String::new(),
        format!(r#","session_id":"{}","source":{{"subagent":{{"other":"guardian"}}}}"#, ids[0]),
        format!(r#","parent_thread_id":"{}","source":{{"subagent":"review"}}"#, ids[0]),
        format!(r#","source":{{"subagent":{{"thread_spawn":{{"parent_thread_id":"{}"}}}}}}"#, ids[0]),
        r#","source":{"subagent":"review"}"#.to_owned(),
    ];
    let home = TestHome::new();
    for (id, members) in ids.iter().zip(members) {
        home.write(
            &file(id),
            format!(r#"{{"type":"session_meta","payload":{{"id":"{id}"{members}}}}}"#) + "\n",
        );
    }
    home.write(".codex/sessions/2026/11/17/notes.jsonl", "{}\n");
    home.write(".codex/sessions/2026/11/17/rollout-ä.jsonl", "{}\n");
    let (sources, problems) = home.list("codex");
    let parents: Vec<_> = sources
        .iter()
        .map(|source| (source.session.to_string(), source.parent.as_ref().map(ToString::to_string)))
        .collect();
    let parent = Some(ids[0].clone());
    let expected = [(0, None), (1, parent.clone()), (2, parent.clone()), (3, parent)];
    assert_eq!(parents, expected.map(|(index, parent): (usize, _)| (ids[index].clone(), parent)));
    assert_eq!(problems, []);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn damaged_compressed_rollouts_end(edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let mut packed = compress_to_vec(LEGACY.as_bytes(), CompressionLevel::Fastest);
        for (index, byte) in edits {
            let index = index.index(packed.len());
            packed[index] = byte;
        }
        let home = TestHome::new();
        home.write(&format!("{}.zst", file(OTHER)), packed);
        let reader = home.reader("codex");
        for source in reader.find(OTHER) {
            if let Ok(mut items) = reader.open(&source, 0) {
                while let Ok(Some(_)) = items.next() {}
            }
        }
    }
}

#[test]
fn codex_rollout_without_content_is_found_and_not_listed() {
    let home = TestHome::with(&[(&file(FIRST), "")]);
    assert_eq!(home.list("codex").0, []);
    let found = home.reader("codex").find(FIRST);
    assert_eq!(found.iter().map(TranscriptSource::is_empty).collect::<Vec<_>>(), [true]);
}
