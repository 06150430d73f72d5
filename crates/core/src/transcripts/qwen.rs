//! Qwen Code: `projects/<key>/chats/<session id>.jsonl`, with the lines of Claude Code and the messages of Gemini.

use std::io;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{from_slice, from_str};

use super::gemini_parts::{GeminiPart, parts, shown_diff};
use super::item_queue::{CopiedLines, ItemQueue};
use super::line_items::{LineItems, LineParser};
use super::walk::Walk;
use super::written_time::written_time;
use super::{
    ItemContent, TranscriptHome, TranscriptItems, TranscriptProblem, TranscriptReader, TranscriptSource,
};
use crate::model::Timestamp;

const AGENT: &str = "qwen";

/// Reads the transcripts of Qwen Code.
pub(super) struct QwenReader {
    projects: PathBuf,
}

impl QwenReader {
    pub(super) fn new(home: &TranscriptHome<'_>) -> Self {
        let runtime =
            (home.variable)("QWEN_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
        let directory = runtime.unwrap_or_else(|| home.directory("QWEN_HOME", ".qwen"));
        Self { projects: directory.join("projects") }
    }
}

impl TranscriptReader for QwenReader {
    fn agent(&self) -> &'static str {
        AGENT
    }

    fn locations(&self) -> Vec<PathBuf> {
        vec![self.projects.clone()]
    }

    fn list(&self, each: &mut dyn FnMut(TranscriptSource)) -> Vec<TranscriptProblem> {
        let mut problems = Vec::new();
        let Some(mut walk) = Walk::new(&self.projects, &mut problems) else { return problems };
        for project in walk.directories(&walk.root()) {
            for entry in walk.files(&project.path.join("chats")) {
                let session = entry.name.strip_suffix(".jsonl");
                session.and_then(|session| TranscriptSource::of_file(AGENT, &entry, session)).map(&mut *each);
            }
        }
        problems.append(&mut walk.problems);
        problems
    }

    fn find_each(&self, session: &str, each: &mut dyn FnMut(TranscriptSource)) -> Vec<TranscriptProblem> {
        let mut problems = Vec::new();
        let Some(mut walk) = Walk::new(&self.projects, &mut problems) else { return problems };
        for project in walk.directories(&walk.root()) {
            let entry = walk.named_file_or_empty(&project.path.join("chats"), &format!("{session}.jsonl"));
            entry.and_then(|entry| TranscriptSource::of_file(AGENT, &entry, session)).map(&mut *each);
        }
        problems.append(&mut walk.problems);
        problems
    }

    fn open(&self, source: &TranscriptSource, from: u64) -> io::Result<Box<dyn TranscriptItems>> {
        LineItems::open(&self.projects, &source.path, from, QwenParser::default())
    }

    fn resume_command(&self, session: &str) -> Option<Vec<String>> {
        Some(["qwen", "--resume", session].map(str::to_owned).into())
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct QwenLine<'a> {
    #[serde(rename = "type")]
    kind: String,
    subtype: Option<String>,
    provenance: Option<String>,
    uuid: Option<String>,
    #[serde(default, deserialize_with = "written_time")]
    timestamp: Option<Timestamp>,
    cwd: Option<String>,
    is_sidechain: Option<bool>,
    forked_from: Option<QwenFork>,
    #[serde(borrow)]
    message: Option<QwenMessage<'a>>,
    tool_call_result: Option<QwenToolResult<'a>>,
    #[serde(borrow)]
    usage_metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    system_payload: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct QwenFork {
    session_id: String,
}

#[derive(Deserialize)]
struct QwenMessage<'a> {
    #[serde(borrow)]
    parts: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct QwenToolResult<'a> {
    status: Option<String>,
    #[serde(borrow)]
    result_display: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct QwenUsage {
    total_token_count: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct QwenTitle {
    custom_title: String,
}

/// Makes items of the lines of Qwen Code.
#[derive(Default)]
struct QwenParser {
    copied: CopiedLines,
}

impl LineParser for QwenParser {
    fn read(&mut self, line: &[u8], items: &mut ItemQueue) -> Result<(), serde_json::Error> {
        let line: QwenLine<'_> = from_slice(line)?;
        if line.is_sidechain == Some(true) {
            return Ok(());
        }
        self.copied.note(line.forked_from.as_ref().map(|fork| fork.session_id.as_str()), items);
        let at = line.timestamp;
        items.directory(at, line.cwd.as_deref().unwrap_or_default());
        let message = line.message.as_ref().and_then(|message| message.parts);
        let content = message.map_or(Ok(Vec::new()), parts)?;
        match line.kind.as_str() {
            "user" => {
                let is_user = line.provenance.as_deref().is_none_or(|provenance| provenance == "real_user");
                let is_notice = matches!(line.subtype.as_deref(), Some("notification" | "cron"));
                if is_user && !is_notice {
                    let blocks = content.iter().filter_map(GeminiPart::prompt_block).collect();
                    items.prompt(at, line.uuid, blocks);
                }
            }
            "assistant" => {
                for part in content {
                    read_part(at, line.uuid.as_ref(), part, items);
                }
                let usage: QwenUsage =
                    line.usage_metadata.and_then(|usage| from_str(usage.get()).ok()).unwrap_or_default();
                items.tokens(at, usage.total_token_count.unwrap_or_default());
            }
            "tool_result" => read_result(at, &content, line.tool_call_result.as_ref(), items),
            "system" => read_system(&line, items)?,
            _ => items.unread.unknown += 1,
        }
        Ok(())
    }
}

fn read_part(at: Option<Timestamp>, id: Option<&String>, part: GeminiPart<'_>, items: &mut ItemQueue) {
    match part {
        GeminiPart { function_call: Some(call), .. } => {
            items.tool_call(at, call.id(), call.name, call.args, None);
        }
        GeminiPart { text: Some(text), thought: Some(true), .. } => items.thought(at, id.cloned(), text),
        GeminiPart { text: Some(text), .. } => items.reply(at, id.cloned(), text),
        _ => {}
    }
}

fn read_result(
    at: Option<Timestamp>,
    content: &[GeminiPart<'_>],
    result: Option<&QwenToolResult<'_>>,
    items: &mut ItemQueue,
) {
    let status = result.and_then(|result| result.status.as_deref());
    for response in content.iter().filter_map(|part| part.function_response.as_ref()) {
        let (is_error, content) = response.content();
        let is_error = is_error || matches!(status, Some("error" | "cancelled"));
        let shown = shown_diff(result.and_then(|result| result.result_display)).filter(|_| !is_error);
        let content = shown.map_or(content, |diff| vec![diff]);
        items.tool_result(at, response.id(), is_error, content);
    }
}

fn read_system(line: &QwenLine<'_>, items: &mut ItemQueue) -> Result<(), serde_json::Error> {
    match (line.subtype.as_deref(), line.system_payload) {
        (Some("chat_compression"), _) => {
            let id = line.uuid.clone().unwrap_or_default();
            items.push(line.timestamp, ItemContent::Compaction { id });
        }
        (Some("custom_title"), Some(payload)) => {
            items.title(line.timestamp, &from_str::<QwenTitle>(payload.get())?.custom_title);
        }
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests;
