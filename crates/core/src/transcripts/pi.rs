//! Pi: `sessions/<directory>/<time>_<session id>.jsonl`. The first line has the directory.

use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, from_slice, from_str, json};

use super::content::{image_block, in_tool_call, output, text_block};
use super::item_queue::ItemQueue;
use super::line_items::{LineItems, LineParser};
use super::tool_call::arguments;
use super::walk::Walk;
use super::written_time::written_time;
use super::{
    ItemContent, TranscriptHome, TranscriptItems, TranscriptProblem, TranscriptReader, TranscriptSource,
};
use crate::model::Timestamp;

const AGENT: &str = "pi";
/// Kinds of lines without an item.
const OTHER_KINDS: &[&str] =
    &["branch_summary", "custom", "custom_message", "label", "model_change", "thinking_level_change"];

/// Reads the transcripts of Pi.
pub(super) struct PiReader {
    sessions: PathBuf,
}

impl PiReader {
    pub(super) fn new(home: &TranscriptHome<'_>) -> Self {
        Self { sessions: home.directory("PI_CODING_AGENT_DIR", ".pi/agent").join("sessions") }
    }
}

impl TranscriptReader for PiReader {
    fn agent(&self) -> &'static str {
        AGENT
    }

    fn locations(&self) -> Vec<PathBuf> {
        vec![self.sessions.clone()]
    }

    fn list(&self, each: &mut dyn FnMut(TranscriptSource)) -> Vec<TranscriptProblem> {
        let mut problems = Vec::new();
        let Some(mut walk) = Walk::new(&self.sessions, &mut problems) else { return problems };
        for directory in walk.directories(&walk.root()) {
            for entry in walk.files(&directory.path) {
                let session = session_id(&entry.name);
                session.and_then(|session| TranscriptSource::of_file(AGENT, &entry, session)).map(&mut *each);
            }
        }
        problems.append(&mut walk.problems);
        problems
    }

    fn open(&self, source: &TranscriptSource, from: u64) -> io::Result<Box<dyn TranscriptItems>> {
        LineItems::open(&self.sessions, &source.path, from, PiParser)
    }

    fn resume_command(&self, session: &str) -> Option<Vec<String>> {
        Some(["pi", "--session", session].map(str::to_owned).into())
    }
}

/// The session id in the name of a file.
fn session_id(name: &str) -> Option<&str> {
    name.strip_suffix(".jsonl")?.rsplit_once('_').map(|(_, id)| id)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PiLine<'a> {
    #[serde(rename = "type")]
    kind: String,
    id: Option<String>,
    #[serde(default, deserialize_with = "written_time")]
    timestamp: Option<Timestamp>,
    cwd: Option<String>,
    name: Option<String>,
    /// The file of the session that this one is a copy of.
    parent_session: Option<String>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PiMessage<'a> {
    role: String,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    tool_call_id: Option<String>,
    is_error: Option<bool>,
    usage: Option<PiUsage>,
    command: Option<String>,
    output: Option<String>,
    exit_code: Option<i64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PiUsage {
    total_tokens: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PiPart {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
    thinking: Option<String>,
    id: Option<String>,
    name: Option<String>,
    #[serde(default, deserialize_with = "arguments")]
    arguments: Value,
    data: Option<String>,
    mime_type: Option<String>,
}

/// Makes items of lines.
struct PiParser;

impl LineParser for PiParser {
    fn read(&mut self, line: &[u8], items: &mut ItemQueue) -> Result<(), serde_json::Error> {
        let line: PiLine<'_> = from_slice(line)?;
        let at = line.timestamp;
        match (line.kind.as_str(), line.message) {
            ("session", _) => {
                items.directory(at, line.cwd.as_deref().unwrap_or_default());
                let original = line.parent_session.as_deref().map(Path::new).and_then(Path::file_name);
                if let Some(original) = original.and_then(|name| session_id(name.to_str()?)) {
                    items.fork_of(at, original);
                }
            }
            ("message", Some(message)) => read_message(at, line.id, from_str(message.get())?, items)?,
            ("compaction", _) => items.push(at, ItemContent::Compaction { id: line.id.unwrap_or_default() }),
            ("session_info", _) => items.title(at, &line.name.unwrap_or_default()),
            (kind, _) if OTHER_KINDS.contains(&kind) => {}
            _ => items.unread.unknown += 1,
        }
        Ok(())
    }
}

fn read_message(
    at: Option<Timestamp>,
    id: Option<String>,
    message: PiMessage<'_>,
    items: &mut ItemQueue,
) -> Result<(), serde_json::Error> {
    let parts = message.content.map_or(Ok(Vec::new()), parts)?;
    match message.role.as_str() {
        "user" => items.prompt(at, id, parts.iter().filter_map(PiPart::block).collect()),
        "assistant" => {
            for part in parts {
                match part.kind.as_str() {
                    "text" => items.reply(at, id.clone(), part.text.unwrap_or_default()),
                    "thinking" => items.thought(at, id.clone(), part.thinking.unwrap_or_default()),
                    "toolCall" => {
                        let (id, name) = (part.id.unwrap_or_default(), part.name.unwrap_or_default());
                        items.tool_call(at, id, name, part.arguments, None);
                    }
                    _ => items.unread.unknown += 1,
                }
            }
            items.tokens(at, message.usage.and_then(|usage| usage.total_tokens).unwrap_or_default());
        }
        "toolResult" => {
            let content = |part: &PiPart| match &part.text {
                Some(text) => output(text),
                None => part.block().map(in_tool_call).into_iter().collect(),
            };
            let content = parts.iter().flat_map(content).collect();
            let call = message.tool_call_id.unwrap_or_default();
            items.tool_result(at, call, message.is_error == Some(true), content);
        }
        // A command that the user has run.
        "bashExecution" => {
            let call = id.unwrap_or_default();
            let command = json!({"command": message.command});
            items.tool_call(at, call.clone(), "bash".into(), command, None);
            let is_error = message.exit_code.is_some_and(|code| code != 0);
            items.tool_result(at, call, is_error, output(message.output.as_deref().unwrap_or_default()));
        }
        "custom" | "branchSummary" | "compactionSummary" | "hookMessage" => {}
        _ => items.unread.unknown += 1,
    }
    Ok(())
}

/// The parts of a message, which is a list of them or a text.
fn parts(message: &RawValue) -> Result<Vec<PiPart>, serde_json::Error> {
    if message.get().starts_with('"') {
        let text: String = from_str(message.get())?;
        return Ok(vec![serde_json::from_value(text_block(&text))?]);
    }
    from_str(message.get())
}

impl PiPart {
    fn block(&self) -> Option<Value> {
        match self {
            Self { text: Some(text), .. } => (!text.is_empty()).then(|| text_block(text)),
            Self { data: Some(data), mime_type, .. } => {
                Some(image_block(mime_type.as_deref().unwrap_or_default(), data))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::transcripts::tests::{
        TestHome, at, command, contents, directory, failure, fork_of, output, prompt, read_from, reply,
        result, thought, title,
    };
    use crate::transcripts::{ItemContent, Unread};

    const FILE: &str = ".pi/agent/sessions/--home-u-p--/2026-11-17T09-31-04-800Z_01a1e8d8.jsonl";
    const FIXTURE: &str = include_str!("fixtures/pi.jsonl");

    #[test]
    fn pi_session_is_read_with_commands_of_the_user() {
        let home = TestHome::with(&[(FILE, FIXTURE)]);
        let (items, unread) = home.read("pi", "01a1e8d8");
        let bash = |command: &str| json!({"command": command});
        let second = "2026-11-17T09:31:06.833Z";
        let expected = vec![
            at("2026-11-17T09:31:04.800Z", directory("/home/u/p")),
            at("2026-11-17T09:31:04.800Z", fork_of("01a1e8d7")),
            at("2026-11-17T09:31:06.624Z", prompt("690ac1a6", "hello one")),
            at(second, thought("d9004eea", "pondering")),
            at(second, reply("d9004eea", "I will use bash.")),
            at(second, command("call_1", "bash", "echo hi", bash("echo hi"))),
            at(second, ItemContent::Tokens(18)),
            at("2026-11-17T09:31:06.947Z", result("call_1", &[output("hi\n")])),
            at("2026-11-17T09:31:07Z", command("b1", "bash", "false", bash("false"))),
            at("2026-11-17T09:31:07Z", failure("b1", &[output("no")])),
            at("2026-11-17T09:31:08Z", ItemContent::Compaction { id: "c1".into() }),
            at("2026-11-17T09:31:09Z", title("My title")),
        ];
        assert_eq!(items, expected);
        assert_eq!(unread, Unread::default());
    }

    #[test]
    fn pi_session_read_on_from_a_position_gives_the_appended_items() {
        let home = TestHome::with(&[(FILE, FIXTURE)]);
        let reader = home.reader("pi");
        let source = reader.find("01a1e8d8").remove(0);
        let (all, ..) = read_from(&*reader, &source, 0);
        for (end, _) in FIXTURE.match_indices('\n') {
            home.write(FILE, &FIXTURE[..=end]);
            let (mut first, position, _) = read_from(&*reader, &source, 0);
            home.write(FILE, FIXTURE);
            first.extend(read_from(&*reader, &source, position.unwrap()).0);
            assert_eq!(first, all);
        }
        home.write(
            FILE,
            "{\"type\":\"novelty\"}\n{\"type\":\"message\",\"message\":{\"role\":7}}\n{\"type\"",
        );
        let (items, unread) = home.read("pi", "01a1e8d8");
        assert_eq!(contents(items), []);
        assert_eq!(unread, Unread { damaged: 1, unknown: 1, too_long: 0, is_torn: true });
    }
}
