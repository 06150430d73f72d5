//! What all readers have in common: a home with transcripts, items in short form, and the property that no bytes make a
//! reader panic or read forever.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// A home of a user.
pub(super) struct TestHome {
    directory: tempfile::TempDir,
}

impl TestHome {
    pub(super) fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    /// A home with these files.
    pub(super) fn with(files: &[(&str, &str)]) -> Self {
        let home = Self::new();
        for (path, content) in files {
            home.write(path, content);
        }
        home
    }

    pub(super) fn path(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap()
    }

    pub(super) fn write(&self, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    pub(super) fn reader(&self, agent: &str) -> Box<dyn TranscriptReader> {
        reader_in(&self.path(), agent)
    }

    /// The sources of an agent by session, and the problems with paths below the home.
    pub(super) fn list(&self, agent: &str) -> (Vec<TranscriptSource>, Vec<(String, String)>) {
        let mut found = Vec::new();
        let problems = self.reader(agent).list(&mut |source| found.push(source));
        found.sort_by(|a, b| (a.session.as_str(), &a.path).cmp(&(b.session.as_str(), &b.path)));
        let below = |path: PathBuf| path.strip_prefix(self.path()).unwrap().to_str().unwrap().to_owned();
        let mut problems: Vec<_> =
            problems.into_iter().map(|problem| (below(problem.path), problem.reason)).collect();
        problems.sort();
        (found, problems)
    }

    /// The items of the only transcript of a session.
    pub(super) fn read(&self, agent: &str, session: &str) -> (Vec<TranscriptItem>, Unread) {
        let reader = self.reader(agent);
        let sources = reader.find(session);
        assert_eq!(sources.len(), 1, "{sources:?}");
        let (items, _, unread) = read_from(&*reader, &sources[0], 0);
        (items, unread)
    }

    /// What the items of the only transcript of a session are.
    pub(super) fn contents(&self, agent: &str, session: &str) -> Vec<ItemContent> {
        contents(self.read(agent, session).0)
    }
}

pub(super) fn reader_in(home: &Path, agent: &str) -> Box<dyn TranscriptReader> {
    let variable = |_: &str| None;
    transcript_reader(agent, &TranscriptHome { home, variable: &variable }).unwrap()
}

/// The items from a position on, the position after them, and what could not be read.
pub(super) fn read_from(
    reader: &dyn TranscriptReader,
    source: &TranscriptSource,
    from: u64,
) -> (Vec<TranscriptItem>, Option<u64>, Unread) {
    let mut items = reader.open(source, from).unwrap();
    let mut found = Vec::new();
    while let Some(item) = items.next().unwrap() {
        found.push(item);
    }
    (found, items.position(), items.unread())
}

pub(super) fn contents(items: Vec<TranscriptItem>) -> Vec<ItemContent> {
    items.into_iter().map(|item| item.content).collect()
}

pub(super) fn at(time: &str, content: ItemContent) -> TranscriptItem {
    TranscriptItem { at: Some(Timestamp::parse(time).unwrap()), content }
}

pub(super) fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

pub(super) fn output(text: &str) -> Value {
    json!({"type": "content", "content": {"type": "text", "text": text}})
}

pub(super) fn prompt(id: impl Into<Option<&'static str>>, words: &str) -> ItemContent {
    ItemContent::Prompt { id: id.into().map(str::to_owned), blocks: vec![text(words)] }
}

pub(super) fn reply(id: impl Into<Option<&'static str>>, text: &str) -> ItemContent {
    ItemContent::Reply { id: id.into().map(str::to_owned), text: text.into() }
}

pub(super) fn thought(id: impl Into<Option<&'static str>>, text: &str) -> ItemContent {
    ItemContent::Thought { id: id.into().map(str::to_owned), text: text.into() }
}

/// A call of a tool that executes a command.
pub(super) fn command(id: &str, name: &str, title: &str, input: Value) -> ItemContent {
    let (id, name, title) = (id.into(), name.into(), title.into());
    ItemContent::ToolCall { id, name, title, kind: "execute", input, paths: Vec::new() }
}

pub(super) fn result(id: &str, content: &[Value]) -> ItemContent {
    ItemContent::ToolResult { id: id.into(), is_error: false, content: content.to_vec() }
}

pub(super) fn failure(id: &str, content: &[Value]) -> ItemContent {
    ItemContent::ToolResult { id: id.into(), is_error: true, content: content.to_vec() }
}

pub(super) fn directory(path: &str) -> ItemContent {
    ItemContent::Directory(path.into())
}

pub(super) fn title(title: &str) -> ItemContent {
    ItemContent::Title(title.into())
}

pub(super) fn fork_of(session: &str) -> ItemContent {
    ItemContent::ForkOf(AcpSessionId::new(session).unwrap())
}

#[test]
fn every_transcript_agent_has_a_reader_of_its_name() {
    let home = TestHome::new();
    for agent in TRANSCRIPT_AGENTS {
        let reader = home.reader(agent);
        assert_eq!(reader.agent(), *agent);
        assert!(!reader.locations().is_empty());
        assert_eq!(home.list(agent), (vec![], vec![]), "{agent}");
        assert_eq!(reader.find("../../x"), vec![], "{agent}");
    }
    let variable = |_: &str| None::<OsString>;
    assert!(transcript_reader("demo", &TranscriptHome { home: &home.path(), variable: &variable }).is_none());
}

#[test]
fn variable_moves_the_directory_of_an_agent_unless_it_is_relative() {
    let reader = |value: &'static str| {
        let variable = move |name: &str| (name == "CLAUDE_CONFIG_DIR").then(|| OsString::from(value));
        transcript_reader("claude", &TranscriptHome { home: Path::new("/home/u"), variable: &variable })
            .unwrap()
    };
    assert_eq!(reader("/elsewhere").locations(), [Path::new("/elsewhere/projects")]);
    assert_eq!(reader("here").locations(), [Path::new("/home/u/.claude/projects")]);
}

/// Reads whatever there is to its end, and opens it again at the position.
fn read_everything(home: &TestHome, agent: &str) {
    let reader = home.reader(agent);
    let mut sources = Vec::new();
    reader.list(&mut |source| sources.push(source));
    for source in sources {
        let Ok(mut items) = reader.open(&source, 0) else { continue };
        // A line has at most as many items as bytes.
        for _ in 0..1_000_000 {
            match items.next() {
                Ok(Some(item)) => drop(item.updates()),
                Ok(None) | Err(_) => break,
            }
        }
        assert!(!matches!(items.next(), Ok(Some(_))), "{agent} does not end");
        if let Some(position) = items.position() {
            assert!(position <= source.stamp.size);
            drop(reader.open(&source, position).and_then(|mut items| items.next()));
        }
    }
}

/// A file that an agent has written, with some of its bytes changed, cut off or repeated.
fn damaged(text: &'static str) -> impl Strategy<Value = Vec<u8>> {
    let edit = (any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..5_u8, any::<u8>());
    prop::collection::vec(edit, 0..6).prop_map(move |edits| {
        let mut bytes = text.as_bytes().to_vec();
        for (one, other, kind, byte) in edits {
            if bytes.is_empty() {
                break;
            }
            let (one, other) = (one.index(bytes.len()), other.index(bytes.len()));
            let (begin, end) = (one.min(other), one.max(other));
            match kind {
                0 => bytes[one] = byte,
                1 => bytes.truncate(end),
                2 => drop(bytes.drain(begin..end)),
                3 => bytes[one] = b"{}[]\"\\,:\n"[usize::from(byte) % 9],
                _ => {
                    let copy = bytes[begin..end].to_vec();
                    bytes.splice(begin..begin, copy);
                }
            }
        }
        bytes
    })
}

/// The files of all agents that can be damaged: agent, path and content.
const FILES: &[(&str, &str, &str)] = &[
    ("claude", ".claude/projects/-p/aaaa.jsonl", include_str!("fixtures/claude.jsonl")),
    ("codex", CODEX_FILE, include_str!("fixtures/codex_paginated.jsonl")),
    ("codex", CODEX_FILE, include_str!("fixtures/codex_legacy.jsonl")),
    (
        "gemini",
        ".gemini/tmp/p/chats/session-2026-11-17T09-29-5eb29938.jsonl",
        include_str!("fixtures/gemini.jsonl"),
    ),
    ("qwen", ".qwen/projects/-p/chats/aaaa.jsonl", include_str!("fixtures/qwen.jsonl")),
    ("copilot", ".copilot/session-state/aaaa/events.jsonl", include_str!("fixtures/copilot.jsonl")),
    (
        "kimi",
        ".kimi-code/sessions/wd_p/session_a/agents/main/wire.jsonl",
        include_str!("fixtures/kimi.jsonl"),
    ),
    ("pi", ".pi/agent/sessions/--p--/2026_01a1e8d8.jsonl", include_str!("fixtures/pi.jsonl")),
    ("cline", ".cline/data/sessions/1_a_cli/1_a_cli.messages.json", include_str!("fixtures/cline.json")),
];
const CODEX_FILE: &str =
    ".codex/sessions/2026/11/17/rollout-2026-11-17T09-29-36-01a1e8d7-25a3-7cc1-b001-973a896f7aff.jsonl";

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn damaged_transcripts_never_make_a_reader_panic(
        (agent, path, content) in prop::sample::select(FILES.to_vec())
            .prop_flat_map(|(agent, path, content)| (Just(agent), Just(path), damaged(content))),
    ) {
        let home = TestHome::new();
        home.write(path, content);
        read_everything(&home, agent);
    }

    #[test]
    fn arbitrary_bytes_never_make_a_reader_panic(
        (agent, path, _) in prop::sample::select(FILES.to_vec()),
        content in prop::collection::vec(any::<u8>(), 0..2000),
    ) {
        let home = TestHome::new();
        home.write(path, content);
        read_everything(&home, agent);
    }
}
