//! GitHub Copilot CLI: `session-state/<session id>/events.jsonl`, with the directory in `workspace.yaml`. Older versions
//! wrote `session-state/<session id>.jsonl`.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, from_slice, from_str};

use super::content::{output, text_block};
use super::item_queue::ItemQueue;
use super::line_items::{LineItems, LineParser};
use super::tool_call::arguments;
use super::walk::{Walk, open_within};
use super::written_time::written_time;
use super::{
    ItemContent, TranscriptHome, TranscriptItems, TranscriptProblem, TranscriptReader, TranscriptSource,
};
use crate::model::Timestamp;

const AGENT: &str = "copilot";
/// Groups of events, whose other ones have no item.
const GROUPS: &[&str] = &[
    "abort",
    "assistant",
    "hook",
    "model",
    "permission",
    "session",
    "skill",
    "subagent",
    "system",
    "tool",
    "user",
];

/// Reads the transcripts of Copilot.
pub(super) struct CopilotReader {
    sessions: PathBuf,
}

impl CopilotReader {
    pub(super) fn new(home: &TranscriptHome<'_>) -> Self {
        Self { sessions: home.directory("COPILOT_HOME", ".copilot").join("session-state") }
    }

    /// The directory that `workspace.yaml` names.
    fn directory(&self, events: &Path) -> Option<String> {
        if events.file_name()? != "events.jsonl" {
            return None;
        }
        let mut text = String::new();
        let file = open_within(&self.sessions, &events.with_file_name("workspace.yaml")).ok()?;
        file.take(64 * 1024).read_to_string(&mut text).ok()?;
        let value = text.lines().find_map(|line| line.strip_prefix("cwd:"))?.trim();
        Some(match value.as_bytes() {
            [b'"', ..] => from_str(value).ok()?,
            [b'\'', .., b'\''] if value.len() > 1 => value[1..value.len() - 1].replace("''", "'"),
            _ => value.to_owned(),
        })
    }
}

impl TranscriptReader for CopilotReader {
    fn agent(&self) -> &'static str {
        AGENT
    }

    fn locations(&self) -> Vec<PathBuf> {
        vec![self.sessions.clone()]
    }

    fn list(&self, each: &mut dyn FnMut(TranscriptSource)) -> Vec<TranscriptProblem> {
        let mut problems = Vec::new();
        let Some(mut walk) = Walk::new(&self.sessions, &mut problems) else { return problems };
        for entry in walk.all(&walk.root()) {
            if entry.is_directory {
                let events = walk.named_file(&entry.path, "events.jsonl");
                events
                    .and_then(|events| TranscriptSource::of_file(AGENT, &events, &entry.name))
                    .map(&mut *each);
            } else if let Some(session) = entry.name.strip_suffix(".jsonl")
                && entry.has_content()
            {
                TranscriptSource::of_file(AGENT, &entry, session).map(&mut *each);
            }
        }
        problems.append(&mut walk.problems);
        problems
    }

    fn open(&self, source: &TranscriptSource, from: u64) -> io::Result<Box<dyn TranscriptItems>> {
        let parser = CopilotParser { directory: self.directory(&source.path).unwrap_or_default() };
        LineItems::open(&self.sessions, &source.path, from, parser)
    }

    fn resume_command(&self, session: &str) -> Option<Vec<String>> {
        Some(vec!["copilot".into(), format!("--resume={session}")])
    }
}

#[derive(Deserialize)]
struct CopilotEvent<'a> {
    #[serde(rename = "type")]
    kind: String,
    id: Option<String>,
    #[serde(default, deserialize_with = "written_time")]
    timestamp: Option<Timestamp>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct CopilotData {
    content: Option<String>,
    reasoning_text: Option<String>,
    /// The call that has started the sub-agent whose event it is.
    parent_tool_call_id: Option<String>,
    tool_call_id: Option<String>,
    tool_name: Option<String>,
    #[serde(default, deserialize_with = "arguments")]
    arguments: Value,
    success: Option<bool>,
    result: Option<CopilotResult>,
    error: Option<CopilotError>,
    title: Option<String>,
}

#[derive(Deserialize)]
struct CopilotResult {
    content: Option<String>,
}

#[derive(Deserialize)]
struct CopilotError {
    message: Option<String>,
}

/// Makes items of events.
struct CopilotParser {
    directory: String,
}

impl LineParser for CopilotParser {
    fn begin(&mut self, items: &mut ItemQueue) {
        items.directory(None, &self.directory);
    }

    fn read(&mut self, line: &[u8], items: &mut ItemQueue) -> Result<(), serde_json::Error> {
        let event: CopilotEvent<'_> = from_slice(line)?;
        let is_read = matches!(
            event.kind.as_str(),
            "user.message"
                | "assistant.message"
                | "tool.execution_start"
                | "tool.execution_complete"
                | "session.compaction_complete"
                | "session.title_changed"
        );
        if is_read {
            let data: CopilotData = from_str(event.data.map_or("{}", RawValue::get))?;
            if data.parent_tool_call_id.is_none() {
                read_event(event, data, items);
            }
        } else if !GROUPS.contains(&event.kind.split('.').next().unwrap_or_default()) {
            items.unread.unknown += 1;
        }
        Ok(())
    }
}

fn read_event(event: CopilotEvent<'_>, data: CopilotData, items: &mut ItemQueue) {
    let (at, id) = (event.timestamp, event.id);
    let call = data.tool_call_id.unwrap_or_default();
    match event.kind.as_str() {
        "user.message" => {
            let text = data.content.filter(|text| !text.is_empty());
            items.prompt(at, id, text.as_deref().map(text_block).into_iter().collect());
        }
        "assistant.message" => {
            items.thought(at, id.clone(), data.reasoning_text.unwrap_or_default());
            items.reply(at, id, data.content.unwrap_or_default());
        }
        "tool.execution_start" => {
            items.tool_call(at, call, data.tool_name.unwrap_or_default(), data.arguments, None);
        }
        "tool.execution_complete" => {
            let text = data.result.and_then(|result| result.content);
            let text = text.or_else(|| data.error.and_then(|error| error.message)).unwrap_or_default();
            items.tool_result(at, call, data.success == Some(false), output(&text));
        }
        "session.title_changed" => items.title(at, &data.title.unwrap_or_default()),
        _ => items.push(at, ItemContent::Compaction { id: id.unwrap_or_default() }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::transcripts::Unread;
    use crate::transcripts::tests::{
        TestHome, at, command, contents, directory, failure, output, prompt, read_from, reply, result,
        thought, title,
    };
    use crate::transcripts::{ItemContent, TranscriptItem};

    const FILE: &str = ".copilot/session-state/aaaa/events.jsonl";
    const FIXTURE: &str = include_str!("fixtures/copilot.jsonl");

    #[test]
    fn copilot_events_are_read_without_those_of_subagents() {
        let home = TestHome::with(&[(FILE, FIXTURE)]);
        home.write(
            ".copilot/session-state/aaaa/workspace.yaml",
            "id: aaaa\ncwd: '/home/u/it''s'\nbranch: x\n",
        );
        home.write(".copilot/session-state/bbbb.jsonl", "{\"type\":\"novelty\"}\n{");
        let (items, unread) = home.read("copilot", "aaaa");
        let bash = json!({"command": "echo hi", "description": "fake shell call", "mode": "sync"});
        let expected = vec![
            TranscriptItem { at: None, content: directory("/home/u/it's") },
            at("2026-11-17T09:31:02.700Z", prompt("e1", "hello one")),
            at("2026-11-17T09:31:02.896Z", thought("e2", "pondering")),
            at("2026-11-17T09:31:02.896Z", reply("e2", "I will use bash.")),
            at("2026-11-17T09:31:02.955Z", command("call_1", "bash", "echo hi", bash)),
            at(
                "2026-11-17T09:31:03Z",
                result("call_1", &[output("hi\n<shellId: 0 completed with exit code 0>")]),
            ),
            at("2026-11-17T09:31:04Z", failure("call_2", &[output("refused")])),
            at("2026-11-17T09:31:06Z", title("Say hello")),
            at("2026-11-17T09:31:07Z", ItemContent::Compaction { id: "e9".into() }),
        ];
        assert_eq!(items, expected);
        assert_eq!(unread, Unread::default());
        let (items, unread) = home.read("copilot", "bbbb");
        assert_eq!(
            (contents(items), unread),
            (vec![], Unread { unknown: 1, is_torn: true, ..Unread::default() })
        );
    }

    #[test]
    fn copilot_events_read_on_from_a_position_are_the_appended_ones() {
        let home =
            TestHome::with(&[(FILE, FIXTURE), (".copilot/session-state/aaaa/workspace.yaml", "cwd: /p\n")]);
        let reader = home.reader("copilot");
        let source = reader.find("aaaa").remove(0);
        let (all, ..) = read_from(&*reader, &source, 0);
        let end = FIXTURE.find('\n').unwrap() + 1;
        home.write(FILE, &FIXTURE[..end]);
        let (mut first, position, _) = read_from(&*reader, &source, 0);
        home.write(FILE, FIXTURE);
        first.extend(read_from(&*reader, &source, position.unwrap()).0);
        assert_eq!(first, all);
    }
}
