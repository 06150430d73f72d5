//! Kimi Code: `sessions/<project>/<session id>/agents/<agent>/wire.jsonl`, with the directory in `state.json`. The agent
//! `main` is the session, and the others are its sub-agents.
//!
//! The file has everything twice: as changes of the model's context, and as messages for the screen. The turns of the
//! user and the events of the agent's loop are read.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, from_slice, from_str};

use super::content::{in_tool_call, output, text_block, url_block};
use super::item_queue::ItemQueue;
use super::line_items::{LineItems, LineParser};
use super::tool_call::arguments;
use super::walk::{Walk, WalkEntry, open_within};
use super::written_time::written_time;
use super::{TranscriptHome, TranscriptItems, TranscriptProblem, TranscriptReader, TranscriptSource};
use crate::model::{AcpSessionId, Timestamp};

const AGENT: &str = "kimi";
/// The most bytes of `state.json` that are read.
const STATE_LIMIT: u64 = 1024 * 1024;
/// Groups of lines, whose other ones have no item.
const GROUPS: &[&str] = &[
    "agent",
    "config",
    "context",
    "interaction",
    "llm",
    "metadata",
    "model",
    "permission",
    "session",
    "tools",
    "turn",
    "usage",
];

/// Reads the transcripts of Kimi Code.
pub(super) struct KimiReader {
    sessions: PathBuf,
}

impl KimiReader {
    pub(super) fn new(home: &TranscriptHome<'_>) -> Self {
        Self { sessions: home.directory("KIMI_CODE_HOME", ".kimi-code").join("sessions") }
    }

    fn source(walk: &mut Walk, session: &WalkEntry, agent: &WalkEntry) -> Option<TranscriptSource> {
        let wire = walk.named_file(&agent.path, "wire.jsonl")?;
        if agent.name == "main" {
            return TranscriptSource::of_file(AGENT, &wire, &session.name);
        }
        let parent = Some(AcpSessionId::new(session.name.as_str()).ok()?);
        let id = format!("{}/{}", session.name, agent.name);
        Some(TranscriptSource { parent, ..TranscriptSource::of_file(AGENT, &wire, &id)? })
    }

    fn state(&self, wire: &Path) -> Option<KimiState> {
        let path = wire.ancestors().nth(3)?.join("state.json");
        let mut bytes = Vec::new();
        open_within(&self.sessions, &path).ok()?.take(STATE_LIMIT).read_to_end(&mut bytes).ok()?;
        from_slice(&bytes).ok()
    }
}

impl TranscriptReader for KimiReader {
    fn agent(&self) -> &'static str {
        AGENT
    }

    fn locations(&self) -> Vec<PathBuf> {
        vec![self.sessions.clone()]
    }

    fn list(&self, each: &mut dyn FnMut(TranscriptSource)) -> Vec<TranscriptProblem> {
        let mut problems = Vec::new();
        let Some(mut walk) = Walk::new(&self.sessions, &mut problems) else { return problems };
        for project in walk.directories(&walk.root()) {
            for session in walk.directories(&project.path) {
                for agent in walk.directories(&session.path.join("agents")) {
                    Self::source(&mut walk, &session, &agent).map(&mut *each);
                }
            }
        }
        problems.append(&mut walk.problems);
        problems
    }

    fn open(&self, source: &TranscriptSource, from: u64) -> io::Result<Box<dyn TranscriptItems>> {
        let state = self.state(&source.path).unwrap_or_default();
        LineItems::open(&self.sessions, &source.path, from, KimiParser { state })
    }

    fn resume_command(&self, _session: &str) -> Option<Vec<String>> {
        None
    }
}

#[derive(Deserialize, Default)]
struct KimiState {
    cwd: Option<String>,
    title: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct KimiLine<'a> {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default, deserialize_with = "written_time")]
    time: Option<Timestamp>,
    prompt_id: Option<String>,
    origin: Option<KimiOrigin>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    #[serde(borrow)]
    event: Option<&'a RawValue>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct KimiOrigin {
    kind: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct KimiEvent<'a> {
    #[serde(rename = "type")]
    kind: String,
    uuid: Option<String>,
    part: Option<KimiPart>,
    tool_call_id: Option<String>,
    name: Option<String>,
    #[serde(default, deserialize_with = "arguments")]
    args: Value,
    #[serde(borrow)]
    result: Option<KimiResult<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct KimiPart {
    text: Option<String>,
    think: Option<String>,
    #[serde(alias = "image_url")]
    image_url: Option<KimiUrl>,
}

#[derive(Deserialize)]
struct KimiUrl {
    url: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct KimiResult<'a> {
    #[serde(borrow)]
    output: Option<&'a RawValue>,
    is_error: Option<bool>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct KimiUsage {
    input_other: u64,
    output: u64,
    input_cache_read: u64,
    input_cache_creation: u64,
}

/// Makes items of lines.
struct KimiParser {
    state: KimiState,
}

impl LineParser for KimiParser {
    fn begin(&mut self, items: &mut ItemQueue) {
        items.directory(None, self.state.cwd.as_deref().unwrap_or_default());
        items.title(None, self.state.title.as_deref().unwrap_or_default());
    }

    fn read(&mut self, line: &[u8], items: &mut ItemQueue) -> Result<(), serde_json::Error> {
        let line: KimiLine<'_> = from_slice(line)?;
        let is_user = line.origin.and_then(|origin| origin.kind).is_none_or(|kind| kind == "user");
        match (line.kind.as_str(), line.input, line.event, line.usage) {
            ("turn.prompt" | "turn.steer", Some(input), ..) if is_user => {
                let parts = parts(input)?;
                items.prompt(line.time, line.prompt_id, parts.iter().filter_map(KimiPart::block).collect());
            }
            ("context.append_loop_event", _, Some(event), _) => {
                read_event(line.time, from_str(event.get())?, items)?;
            }
            ("usage.record", .., Some(usage)) => {
                let usage: KimiUsage = from_str(usage.get()).unwrap_or_default();
                let parts =
                    [usage.input_other, usage.output, usage.input_cache_read, usage.input_cache_creation];
                items.tokens(line.time, parts.into_iter().fold(0, u64::saturating_add));
            }
            (kind, ..) if GROUPS.contains(&kind.split('.').next().unwrap_or_default()) => {}
            _ => items.unread.unknown += 1,
        }
        Ok(())
    }
}

fn read_event(
    at: Option<Timestamp>,
    event: KimiEvent<'_>,
    items: &mut ItemQueue,
) -> Result<(), serde_json::Error> {
    let call = event.tool_call_id.unwrap_or_default();
    match (event.kind.as_str(), event.part, event.result) {
        ("content.part", Some(KimiPart { text: Some(text), .. }), _) => items.reply(at, event.uuid, text),
        ("content.part", Some(KimiPart { think: Some(text), .. }), _) => items.thought(at, event.uuid, text),
        ("tool.call", ..) => items.tool_call(at, call, event.name.unwrap_or_default(), event.args, None),
        ("tool.result", _, Some(result)) => {
            let parts = result.output.map_or(Ok(Vec::new()), parts)?;
            let content = |part: &KimiPart| match &part.text {
                Some(text) => output(text),
                None => part.block().map(in_tool_call).into_iter().collect(),
            };
            let content = parts.iter().flat_map(content).collect();
            items.tool_result(at, call, result.is_error == Some(true), content);
        }
        _ => {}
    }
    Ok(())
}

/// The parts of a message, which is a list of them or a text.
fn parts(message: &RawValue) -> Result<Vec<KimiPart>, serde_json::Error> {
    if message.get().starts_with('"') {
        return Ok(vec![KimiPart { text: Some(from_str(message.get())?), think: None, image_url: None }]);
    }
    from_str(message.get())
}

impl KimiPart {
    fn block(&self) -> Option<Value> {
        match self {
            Self { text: Some(text), .. } => Some(text_block(text)),
            Self { image_url: Some(image), .. } => Some(url_block(&image.url, None)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::transcripts::tests::{
        TestHome, at, command, contents, directory, output, prompt, reply, result, thought, title,
    };
    use crate::transcripts::{ItemContent, TranscriptItem, Unread};

    #[test]
    fn kimi_turns_and_loop_events_are_read_once() {
        let session = ".kimi-code/sessions/wd_p_0123456789ab/session_a";
        let home = TestHome::with(&[
            (&format!("{session}/agents/main/wire.jsonl"), include_str!("fixtures/kimi.jsonl")),
            (&format!("{session}/agents/sub-1/wire.jsonl"), "{\"type\":\"novelty\"}\n{\"type\""),
            (&format!("{session}/state.json"), r#"{"cwd":"/home/u/p","title":"Say hello"}"#),
        ]);
        let (items, unread) = home.read("kimi", "session_a");
        let time = |millis: i64| {
            crate::model::Timestamp::from_millis(1_794_907_856_000 + millis).unwrap().to_string()
        };
        let bash = json!({"command": "echo hi", "description": "fake shell call"});
        let expected = vec![
            TranscriptItem { at: None, content: directory("/home/u/p") },
            TranscriptItem { at: None, content: title("Say hello") },
            at(&time(440), prompt("msg_1", "hello one")),
            at(&time(500), thought("p1", "pondering")),
            at(&time(504), reply("p2", "ECHO: hello one")),
            at(&time(600), command("call_1", "Bash", "echo hi", bash)),
            at(&time(874), result("call_1", &[output("hi\n")])),
            at(&time(900), ItemContent::Tokens(10)),
        ];
        assert_eq!(items, expected);
        assert_eq!(unread, Unread::default());
        let (sources, _) = home.list("kimi");
        assert_eq!(sources[1].parent, Some(sources[0].session.clone()));
        let (items, unread) = home.read("kimi", "session_a/sub-1");
        assert_eq!(contents(items), [directory("/home/u/p"), title("Say hello")]);
        assert_eq!(unread, Unread { unknown: 1, is_torn: true, ..Unread::default() });
    }
}
