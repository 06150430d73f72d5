//! Cline: `data/sessions/<id>/<id>.messages.json`, one JSON document, with the directory in `<id>.json`.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, from_slice, from_str};

use super::content::{image_block, in_tool_call, output, text_block, url_block};
use super::item_queue::ItemQueue;
use super::line_items::LineParser;
use super::placed_items::{FilePlace, PlacedItems, refuse_position};
use super::tool_call::arguments;
use super::walk::{Walk, open_within};
use super::written_time::written_time;
use super::{TranscriptHome, TranscriptItems, TranscriptProblem, TranscriptReader, TranscriptSource};
use crate::model::Timestamp;

const AGENT: &str = "cline";
/// The most bytes of `<id>.json` that are read.
const STATE_LIMIT: u64 = 1024 * 1024;

/// Reads the transcripts of Cline.
pub(super) struct ClineReader {
    sessions: PathBuf,
}

impl ClineReader {
    pub(super) fn new(home: &TranscriptHome<'_>) -> Self {
        Self { sessions: home.directory("CLINE_DIR", ".cline").join("data/sessions") }
    }

    fn state(&self, messages: &Path, session: &str) -> Option<ClineState> {
        let path = messages.with_file_name(format!("{session}.json"));
        let mut bytes = Vec::new();
        open_within(&self.sessions, &path).ok()?.take(STATE_LIMIT).read_to_end(&mut bytes).ok()?;
        from_slice(&bytes).ok()
    }
}

impl TranscriptReader for ClineReader {
    fn agent(&self) -> &'static str {
        AGENT
    }

    fn locations(&self) -> Vec<PathBuf> {
        vec![self.sessions.clone()]
    }

    fn list(&self, each: &mut dyn FnMut(TranscriptSource)) -> Vec<TranscriptProblem> {
        let mut problems = Vec::new();
        let Some(mut walk) = Walk::new(&self.sessions, &mut problems) else { return problems };
        for session in walk.directories(&walk.root()) {
            let messages = walk.named_file(&session.path, &format!("{}.messages.json", session.name));
            let source = messages.and_then(|entry| TranscriptSource::of_file(AGENT, &entry, &session.name));
            source.map(&mut *each);
        }
        problems.append(&mut walk.problems);
        problems
    }

    fn open(&self, source: &TranscriptSource, from: u64) -> io::Result<Box<dyn TranscriptItems>> {
        refuse_position(from)?;
        let file = open_within(&self.sessions, &source.path)?;
        let mut queue = ItemQueue::default();
        let state = self.state(&source.path, source.session.as_str()).unwrap_or_default();
        queue.directory(None, state.cwd.as_deref().unwrap_or_default());
        queue.title(None, state.title.as_deref().unwrap_or_default());
        let places = FilePlace::of_document(&file, &mut queue)?;
        Ok(Box::new(PlacedItems { file, places: places.into(), parser: ClineParser, queue }))
    }

    fn resume_command(&self, _session: &str) -> Option<Vec<String>> {
        None
    }
}

#[derive(Deserialize, Default)]
struct ClineState {
    cwd: Option<String>,
    title: Option<String>,
}

#[derive(Deserialize)]
struct ClineMessage<'a> {
    id: Option<String>,
    role: String,
    #[serde(default, deserialize_with = "written_time")]
    ts: Option<Timestamp>,
    #[serde(borrow)]
    content: &'a RawValue,
}

#[derive(Deserialize)]
struct ClineBlock<'a> {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
    thinking: Option<String>,
    id: Option<String>,
    name: Option<String>,
    #[serde(default, deserialize_with = "arguments")]
    input: Value,
    tool_use_id: Option<String>,
    is_error: Option<bool>,
    source: Option<ClineMedia>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ClineMedia {
    media_type: Option<String>,
    data: Option<String>,
    url: Option<String>,
}

/// A part of a tool result: the outcome of one of several commands, or a text.
#[derive(Deserialize)]
struct ClineOutcome {
    #[serde(default, deserialize_with = "arguments")]
    result: Value,
    success: Option<bool>,
    error: Option<String>,
    text: Option<String>,
}

/// Makes items of messages.
struct ClineParser;

impl LineParser for ClineParser {
    fn read(&mut self, message: &[u8], items: &mut ItemQueue) -> Result<(), serde_json::Error> {
        let message: ClineMessage<'_> = from_slice(message)?;
        let is_user = match message.role.as_str() {
            "user" => true,
            "assistant" => false,
            _ => {
                items.unread.unknown += 1;
                return Ok(());
            }
        };
        let (at, mut prompt) = (message.ts, Vec::new());
        if message.content.get().starts_with('"') {
            let text: String = from_str(message.content.get())?;
            if is_user {
                items.prompt(at, message.id, user_block(&text).into_iter().collect());
            } else {
                items.reply(at, message.id, text);
            }
            return Ok(());
        }
        for block in from_str::<Vec<&RawValue>>(message.content.get())? {
            match from_str::<ClineBlock<'_>>(block.get()) {
                Ok(block) if is_user && block.kind == "text" => {
                    prompt.extend(user_block(&block.text.unwrap_or_default()));
                }
                Ok(block) if is_user && block.kind == "image" => {
                    prompt.extend(block.source.and_then(ClineMedia::block));
                }
                Ok(block) => read_block(at, message.id.as_ref(), block, items),
                Err(_) => items.unread.damaged += 1,
            }
        }
        items.prompt(at, message.id, prompt);
        Ok(())
    }
}

fn read_block(at: Option<Timestamp>, id: Option<&String>, block: ClineBlock<'_>, items: &mut ItemQueue) {
    match block.kind.as_str() {
        "text" => items.reply(at, id.cloned(), block.text.unwrap_or_default()),
        "thinking" => items.thought(at, id.cloned(), block.thinking.unwrap_or_default()),
        "redacted_thinking" => {}
        "tool_use" => {
            items.tool_call(
                at,
                block.id.unwrap_or_default(),
                block.name.unwrap_or_default(),
                block.input,
                None,
            );
        }
        "tool_result" => {
            let (is_error, content) = outcome(block.content);
            let is_error = is_error || block.is_error == Some(true);
            items.tool_result(at, block.tool_use_id.unwrap_or_default(), is_error, content);
        }
        _ => items.unread.unknown += 1,
    }
}

/// A text of the user without the mark around it.
fn user_block(text: &str) -> Option<Value> {
    let inner = text.strip_prefix("<user_input").and_then(|rest| rest.split_once('>'));
    let inner = inner.and_then(|(_, rest)| rest.trim_end().strip_suffix("</user_input>"));
    let text = inner.unwrap_or(text);
    (!text.is_empty()).then(|| text_block(text))
}

impl ClineMedia {
    fn block(self) -> Option<Value> {
        match (self.media_type, self.data, self.url) {
            (Some(media_type), Some(data), _) => Some(image_block(&media_type, &data)),
            (_, _, Some(url)) => Some(url_block(&url, None)),
            _ => None,
        }
    }
}

/// Whether a tool result is a failure, and its content.
fn outcome(content: Option<&RawValue>) -> (bool, Vec<Value>) {
    let Some(content) = content else { return (false, Vec::new()) };
    if let Ok(text) = from_str::<String>(content.get()) {
        return (false, output(&text));
    }
    let outcomes: Vec<ClineOutcome> = from_str(content.get()).unwrap_or_default();
    let is_error = outcomes.iter().any(|outcome| outcome.success == Some(false));
    let of_one = |outcome: ClineOutcome| {
        let result = match outcome.result {
            Value::Null => None,
            Value::String(text) => Some(text),
            other => Some(other.to_string()),
        };
        let text = outcome.text.or(result).or(outcome.error);
        text.map(|text| in_tool_call(text_block(&super::content::cut(&text))))
    };
    (is_error, outcomes.into_iter().filter_map(of_one).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::transcripts::tests::{
        TestHome, at, command, contents, directory, failure, output, prompt, reply, result, thought,
    };
    use crate::transcripts::{TranscriptItem, Unread};

    #[test]
    fn cline_messages_are_read_from_both_forms_of_the_document() {
        let fixture = include_str!("fixtures/cline.json");
        let directory_of = ".cline/data/sessions/1794907899_a_cli";
        let file = format!("{directory_of}/1794907899_a_cli.messages.json");
        let home =
            TestHome::with(&[(&format!("{directory_of}/1794907899_a_cli.json"), r#"{"cwd":"/home/u/p"}"#)]);
        let time = "2026-11-17T09:31:39.257Z";
        let run = json!({"commands": ["echo hi"]});
        let expected = vec![
            TranscriptItem { at: None, content: directory("/home/u/p") },
            at(time, prompt("m1", "hello one")),
            at(time, thought("m2", "pondering")),
            at(time, reply("m2", "I will use run_commands.")),
            at(time, command("call_1", "run_commands", "echo hi", run)),
            at(time, result("call_1", &[output("hi\n")])),
            at(time, failure("call_2", &[output("refused")])),
        ];
        for document in [fixture.to_owned(), format!("{{\"version\": 1, \"messages\": {fixture}}}")] {
            home.write(&file, document);
            let (items, unread) = home.read("cline", "1794907899_a_cli");
            assert_eq!(items, expected);
            assert_eq!(unread, Unread { damaged: 1, unknown: 1, ..Unread::default() });
        }
        home.write(&file, &fixture[..fixture.len() / 2]);
        let (items, unread) = home.read("cline", "1794907899_a_cli");
        assert_eq!(contents(items), [directory("/home/u/p")]);
        assert_eq!(unread, Unread { damaged: 1, ..Unread::default() });
    }
}
