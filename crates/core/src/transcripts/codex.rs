//! Codex: `sessions/<year>/<month>/<day>/rollout-<time>-<thread id>.jsonl`, and `archived_sessions/` for what the user
//! has deleted or archived. A file that was not used for long is compressed to `.jsonl.zst`.
//!
//! Codex writes the same message up to three times: for the model (`response_item`), for its screen (`event_msg`), and
//! since the paginated mode as an item of the turn (`item_completed`). Messages are taken from the screen's events or
//! from the items, as the mode has them, and tool calls from the model's side, because only these have all of them.
//! A fork has only its own turns; what came before is read from the thread that it was made of.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use ruzstd::decoding::StreamingDecoder;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, from_slice, from_str, json};

use super::content::{diff, file_block, in_tool_call, output, text_block, unified_diffs, url_block};
use super::item_queue::{CopiedLines, ItemQueue, RecentIds};
use super::line_items::{LineItems, LineParser, first_line_of};
use super::lines::{LineReader, kind_of};
use super::tool_call::{arguments, limited_value};
use super::walk::{Walk, WalkEntry, open_within};
use super::written_time::written_time;
use super::{
    ItemContent, SourceStamp, TranscriptHome, TranscriptItems, TranscriptProblem, TranscriptReader,
    TranscriptSource,
};
use crate::model::{AcpSessionId, Timestamp};

const AGENT: &str = "codex";
/// How many characters a thread id has.
const ID_LENGTH: usize = 36;
/// How many threads a fork of a fork is read from.
const MOST_BASES: usize = 16;
/// Texts that begin like this were not written by the user.
const WRAPPERS: &[&str] = &["<environment_context>", "<user_instructions>", "# AGENTS.md instructions for "];
/// Lines that have no item.
const OTHER_LINES: &[&str] =
    &["world_state", "token_usage_record", "inter_agent_communication", "ghost_snapshot"];
/// Events that have no item, because another line has it, or because it is not part of the conversation.
const OTHER_EVENTS: &[&str] = &[
    "agent_reasoning_raw_content",
    "context_compacted",
    "entered_review_mode",
    "error",
    "exited_review_mode",
    "guardian_assessment",
    "image_generation_end",
    "mcp_tool_call_end",
    "sub_agent_activity",
    "task_complete",
    "task_started",
    "thread_goal_updated",
    "thread_rolled_back",
    "thread_settings_applied",
    "turn_aborted",
    "turn_complete",
    "turn_started",
    "view_image_tool_call",
    "warning",
];
/// Items of turns that have no item here, because the model's side of the call has it.
const OTHER_ITEMS: &[&str] = &[
    "CollabAgentToolCall",
    "DynamicToolCall",
    "HookPrompt",
    "ImageGeneration",
    "ImageView",
    "McpToolCall",
    "Sleep",
    "SubAgentActivity",
];
/// What the model was given or has given, but not tool calls.
const OTHER_RESPONSES: &[&str] = &[
    "additional_tools",
    "agent_message",
    "compaction",
    "compaction_summary",
    "context_compaction",
    "ghost_snapshot",
    "image_generation_call",
    "message",
    "other",
    "reasoning",
    "tool_search_call",
    "tool_search_output",
    "web_search_call",
];

/// Reads the transcripts of Codex.
pub(super) struct CodexReader {
    home: PathBuf,
}

impl CodexReader {
    pub(super) fn new(home: &TranscriptHome<'_>) -> Self {
        Self { home: home.directory("CODEX_HOME", ".codex") }
    }

    /// Calls `each` with every rollout, also with empty ones, its thread id, and whether it is archived.
    fn rollouts(&self, each: &mut dyn FnMut(&mut Walk, &WalkEntry, &str, bool)) -> Vec<TranscriptProblem> {
        let mut problems = Vec::new();
        for (name, levels, is_archived) in [("sessions", 3, false), ("archived_sessions", 0, true)] {
            let Some(mut walk) = Walk::new(&self.home.join(name), &mut problems) else { continue };
            let mut directories = vec![(walk.root(), levels)];
            while let Some((directory, levels)) = directories.pop() {
                for entry in walk.all(&directory) {
                    if entry.is_directory {
                        directories.extend((levels > 0).then(|| (entry.path.clone(), levels - 1)));
                    } else if let Some(id) = thread_id(&entry.name) {
                        each(&mut walk, &entry, id, is_archived);
                    }
                }
            }
            problems.append(&mut walk.problems);
        }
        problems
    }

    /// The directory that a rollout was listed in. Each of them can be a link of the user's own.
    fn directory_of(&self, path: &Path) -> PathBuf {
        let archived = self.home.join("archived_sessions");
        let is_archived = archived.canonicalize().is_ok_and(|archived| path.starts_with(archived));
        if is_archived { archived } else { self.home.join("sessions") }
    }

    /// Opens a rollout, and decompresses it if it is compressed.
    fn open_file(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        decompressed(open_within(&self.directory_of(path), path)?, path)
    }

    /// The beginnings of other rollouts that a fork continues, in the order of the conversation.
    fn bases(&self, meta: &CodexMeta) -> VecDeque<LineReader> {
        let mut bases = VecDeque::new();
        let mut next = meta.history_base.clone();
        while let Some(base) = next.take().filter(|_| bases.len() < MOST_BASES) {
            let Some(source) = self.find(&base.thread_id).into_iter().next() else { break };
            let Ok(file) = self.open_file(&source.path) else { break };
            bases.push_front(LineReader::new(Box::new(file.take(base.end_byte_offset)), 0));
            let meta = self.open_file(&source.path).and_then(first_meta);
            next = meta.ok().flatten().and_then(|meta| meta.history_base);
        }
        bases
    }
}

impl TranscriptReader for CodexReader {
    fn agent(&self) -> &'static str {
        AGENT
    }

    fn locations(&self) -> Vec<PathBuf> {
        vec![self.home.join("sessions"), self.home.join("archived_sessions")]
    }

    fn list(&self, each: &mut dyn FnMut(TranscriptSource)) -> Vec<TranscriptProblem> {
        self.list_changed(&|_, _| None, each)
    }

    fn list_changed(
        &self,
        known: &dyn Fn(&Path, SourceStamp) -> Option<TranscriptSource>,
        each: &mut dyn FnMut(TranscriptSource),
    ) -> Vec<TranscriptProblem> {
        self.rollouts(&mut |walk, entry, id, is_archived| {
            if entry.has_content() {
                let source = match known(&entry.path, entry.stamp) {
                    Some(known) => Some(TranscriptSource { is_archived, ..known }),
                    None => source(walk, entry, id, is_archived),
                };
                source.map(&mut *each);
            }
        })
    }

    fn find_each(&self, session: &str, each: &mut dyn FnMut(TranscriptSource)) -> Vec<TranscriptProblem> {
        self.rollouts(&mut |walk, entry, id, is_archived| {
            if id == session {
                source(walk, entry, id, is_archived).map(&mut *each);
            }
        })
    }

    fn open(&self, source: &TranscriptSource, from: u64) -> io::Result<Box<dyn TranscriptItems>> {
        let meta = first_meta(self.open_file(&source.path)?)?.unwrap_or_default();
        let parser = CodexParser { is_paginated: meta.is_paginated(), ..CodexParser::default() };
        if from > 0 {
            let parser = CodexParser { reads_on: true, ..parser };
            return LineItems::open(&self.directory_of(&source.path), &source.path, from, parser);
        }
        let lines = LineReader::new(self.open_file(&source.path)?, 0);
        let bases = self.bases(&meta);
        let parser = CodexParser { bases: bases.len(), fork_of: meta.forked_from_id, ..parser };
        Ok(LineItems::of_readers(bases, lines, !is_compressed(&source.path), parser))
    }

    fn resume_command(&self, session: &str) -> Option<Vec<String>> {
        Some(["codex", "resume", session].map(str::to_owned).into())
    }
}

/// The transcript of a thread; `None` if it is a part of another one that is not known.
fn source(walk: &mut Walk, entry: &WalkEntry, id: &str, is_archived: bool) -> Option<TranscriptSource> {
    let opened = walk.open(&entry.path).and_then(|file| decompressed(file, &entry.path));
    let meta = match opened.and_then(first_meta) {
        Ok(meta) => meta.unwrap_or_default(),
        Err(error) => {
            walk.note(&entry.path, error.to_string());
            return None;
        }
    };
    let parent = match meta.parent() {
        CodexParent::None => None,
        CodexParent::Thread(parent) => Some(AcpSessionId::new(parent).ok()?),
        CodexParent::Unknown => return None,
    };
    Some(TranscriptSource { parent, is_archived, ..TranscriptSource::of_file(AGENT, entry, id)? })
}

/// What the first line of a rollout says about its thread.
fn first_meta(rollout: impl Read + Send + 'static) -> io::Result<Option<CodexMeta>> {
    let Some(line) = first_line_of(rollout)? else { return Ok(None) };
    let Ok(CodexLine { kind, payload: Some(payload), .. }) = from_slice::<CodexLine<'_>>(&line) else {
        return Ok(None);
    };
    Ok(if kind == "session_meta" { from_str(payload.get()).ok() } else { None })
}

/// The content of a rollout.
fn decompressed(file: File, path: &Path) -> io::Result<Box<dyn Read + Send>> {
    if !is_compressed(path) {
        return Ok(Box::new(file));
    }
    Ok(Box::new(StreamingDecoder::new(file).map_err(io::Error::other)?))
}

/// The thread id in the name of a rollout.
fn thread_id(name: &str) -> Option<&str> {
    let name = name.strip_suffix(".zst").unwrap_or(name);
    let stem = name.strip_prefix("rollout-")?.strip_suffix(".jsonl")?;
    let (_, id) = stem.split_at_checked(stem.len().checked_sub(ID_LENGTH)?)?;
    Some(id)
}

fn is_compressed(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "zst")
}

#[derive(Deserialize)]
struct CodexLine<'a> {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default, deserialize_with = "written_time")]
    timestamp: Option<Timestamp>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
}

/// What a rollout says about its thread.
#[derive(Deserialize, Default)]
struct CodexMeta {
    id: Option<String>,
    session_id: Option<String>,
    parent_thread_id: Option<String>,
    forked_from_id: Option<String>,
    cwd: Option<String>,
    history_mode: Option<String>,
    history_base: Option<CodexBase>,
    #[serde(default, deserialize_with = "arguments")]
    source: Value,
}

/// The thread that a fork continues, and how much of it.
#[derive(Deserialize, Clone)]
struct CodexBase {
    thread_id: String,
    end_byte_offset: u64,
}

/// Which thread has started a thread for itself.
enum CodexParent<'a> {
    /// The user has started it.
    None,
    Thread(&'a str),
    /// Another thread has, but the rollout does not say which.
    Unknown,
}

impl CodexMeta {
    fn is_paginated(&self) -> bool {
        self.history_mode.as_deref() == Some("paginated")
    }

    fn parent(&self) -> CodexParent<'_> {
        let subagent = self.source.get("subagent");
        let spawn =
            subagent.and_then(|subagent| subagent.get("thread_spawn")?.get("parent_thread_id")?.as_str());
        let root = self.session_id.as_deref().filter(|session| self.id.as_deref() != Some(*session));
        match (self.parent_thread_id.as_deref().or(spawn), subagent) {
            (Some(parent), _) => CodexParent::Thread(parent),
            (None, None) => CodexParent::None,
            (None, Some(_)) => root.map_or(CodexParent::Unknown, CodexParent::Thread),
        }
    }
}

#[derive(Deserialize)]
struct CodexEvent<'a> {
    #[serde(rename = "type")]
    kind: String,
    message: Option<String>,
    text: Option<String>,
    images: Option<Vec<String>>,
    local_images: Option<Vec<String>>,
    call_id: Option<String>,
    query: Option<String>,
    success: Option<bool>,
    #[serde(borrow)]
    changes: Option<&'a RawValue>,
    aggregated_output: Option<String>,
    exit_code: Option<i64>,
    thread_name: Option<String>,
    #[serde(borrow)]
    item: Option<&'a RawValue>,
    #[serde(borrow)]
    info: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct CodexItem<'a> {
    #[serde(rename = "type")]
    kind: String,
    id: Option<String>,
    content: Option<Vec<CodexInput>>,
    text: Option<String>,
    summary_text: Option<Vec<String>>,
    raw_content: Option<Vec<String>>,
    command: Option<Vec<String>>,
    aggregated_output: Option<String>,
    exit_code: Option<i64>,
    status: Option<String>,
    #[serde(borrow)]
    changes: Option<&'a RawValue>,
    query: Option<String>,
}

/// A part of a message.
#[derive(Deserialize)]
struct CodexInput {
    text: Option<String>,
    image_url: Option<String>,
    path: Option<String>,
}

#[derive(Deserialize)]
struct CodexResponse<'a> {
    #[serde(rename = "type")]
    kind: String,
    name: Option<String>,
    call_id: Option<String>,
    arguments: Option<String>,
    input: Option<String>,
    #[serde(default, deserialize_with = "arguments")]
    action: Value,
    #[serde(borrow)]
    output: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
struct CodexTokenInfo {
    total_token_usage: Option<CodexTokens>,
    last_token_usage: Option<CodexTokens>,
}

#[derive(Deserialize)]
struct CodexTokens {
    total_tokens: u64,
}

/// Makes items of the lines of Codex.
#[derive(Default)]
struct CodexParser {
    is_paginated: bool,
    /// The thread that this one is a copy of.
    fork_of: Option<String>,
    copied: CopiedLines,
    /// How many files of other threads come first.
    bases: usize,
    /// Whether earlier lines were read by another parser.
    reads_on: bool,
    has_meta: bool,
    /// All tokens of the thread so far.
    tokens: Option<u64>,
    /// Calls whose result was better than the one for the model, which follows.
    ended: RecentIds,
}

impl LineParser for CodexParser {
    fn is_wanted(prefix: &[u8]) -> bool {
        kind_of(prefix).is_none_or(|kind| !OTHER_LINES.iter().any(|other| other.as_bytes() == kind))
    }

    fn begin(&mut self, items: &mut ItemQueue) {
        self.copied.note(self.fork_of.as_deref(), items);
    }

    fn begin_next_file(&mut self) {
        self.bases = self.bases.saturating_sub(1);
    }

    fn read(&mut self, line: &[u8], items: &mut ItemQueue) -> Result<(), serde_json::Error> {
        let line: CodexLine<'_> = from_slice(line)?;
        let at = line.timestamp;
        let payload = line.payload.map_or("{}", RawValue::get);
        match line.kind.as_str() {
            "session_meta" => self.read_meta(at, &from_str(payload)?, items),
            "turn_context" => {
                let context: CodexMeta = from_str(payload)?;
                items.directory(at, context.cwd.as_deref().unwrap_or_default());
            }
            "event_msg" => self.read_event(at, from_str(payload)?, items)?,
            "response_item" => self.read_response(at, from_str(payload)?, items),
            "compacted" if !self.is_paginated => compaction(at, None, items),
            "compacted" => {}
            kind if OTHER_LINES.contains(&kind) => {}
            _ => items.unread.unknown += 1,
        }
        Ok(())
    }
}

impl CodexParser {
    /// A copy of another thread begins with the line of that thread, so only the first one of its own counts.
    fn read_meta(&mut self, at: Option<Timestamp>, meta: &CodexMeta, items: &mut ItemQueue) {
        if self.bases == 0 && !self.has_meta {
            self.has_meta = true;
            self.copied.note(meta.forked_from_id.as_deref(), items);
            items.directory(at, meta.cwd.as_deref().unwrap_or_default());
        }
    }

    fn read_event(
        &mut self,
        at: Option<Timestamp>,
        event: CodexEvent<'_>,
        items: &mut ItemQueue,
    ) -> Result<(), serde_json::Error> {
        match event.kind.as_str() {
            "item_completed" => {
                if let Some(item) = event.item {
                    self.read_item(at, from_str(item.get())?, items);
                }
            }
            "token_count" => self.read_tokens(at, event.info, items),
            "thread_name_updated" => items.title(at, &event.thread_name.unwrap_or_default()),
            // The paginated mode has items for the rest.
            _ if self.is_paginated => {}
            "user_message" => {
                let mut blocks = prompt_blocks(event.message.as_deref().unwrap_or_default());
                blocks.extend(event.images.iter().flatten().map(|url| url_block(url, None)));
                blocks.extend(event.local_images.iter().flatten().map(|path| file_block(path)));
                items.prompt(at, None, blocks);
            }
            "agent_message" => items.reply(at, None, event.message.unwrap_or_default()),
            "agent_reasoning" => items.thought(at, None, event.text.unwrap_or_default()),
            "patch_apply_end" => {
                let content = change_diffs(&changes(event.changes));
                self.result(at, event.call_id, event.success == Some(false), content, items);
            }
            "exec_command_end" => {
                let content = output(event.aggregated_output.as_deref().unwrap_or_default());
                self.result(at, event.call_id, event.exit_code.is_some_and(|code| code != 0), content, items);
            }
            "web_search_end" => web_search(at, event.call_id, event.query.as_deref(), items),
            kind if OTHER_EVENTS.contains(&kind) => {}
            _ => items.unread.unknown += 1,
        }
        Ok(())
    }

    fn read_item(&mut self, at: Option<Timestamp>, item: CodexItem<'_>, items: &mut ItemQueue) {
        let CodexItem { id, content, .. } = item;
        let content = content.unwrap_or_default();
        match item.kind.as_str() {
            "UserMessage" => items.prompt(at, id, content.iter().flat_map(input_blocks).collect()),
            "AgentMessage" => {
                items.reply(at, id, content.into_iter().filter_map(|part| part.text).collect());
            }
            "Plan" => items.reply(at, id, item.text.unwrap_or_default()),
            "Reasoning" => {
                let summary = item.summary_text.filter(|summary| !summary.is_empty());
                let text = summary.or(item.raw_content).unwrap_or_default();
                items.thought(at, id, text.join("\n\n"));
            }
            "CommandExecution" => {
                if let Some(id) = id.as_ref().filter(|id| !items.has_call(id)) {
                    let input = json!({"command": item.command});
                    items.tool_call(at, id.clone(), "shell".into(), input, None);
                }
                let is_error =
                    item.exit_code.map_or(item.status.as_deref() == Some("failed"), |code| code != 0);
                let content = output(item.aggregated_output.as_deref().unwrap_or_default());
                self.result(at, id, is_error, content, items);
            }
            "FileChange" => {
                let changes = changes(item.changes);
                let content = change_diffs(&changes);
                if let Some(id) = id.as_ref().filter(|id| !items.has_call(id)) {
                    let paths: Vec<&String> = changes.keys().collect();
                    items.tool_call(at, id.clone(), "apply_patch".into(), json!({"paths": paths}), None);
                }
                let is_error = matches!(item.status.as_deref(), Some("failed" | "declined"));
                self.result(at, id, is_error, content, items);
            }
            "WebSearch" => web_search(at, id, item.query.as_deref(), items),
            "ContextCompaction" => compaction(at, id, items),
            kind if OTHER_ITEMS.contains(&kind) => {}
            _ => items.unread.unknown += 1,
        }
    }

    /// Adds a result that is better than the one for the model.
    fn result(
        &mut self,
        at: Option<Timestamp>,
        id: Option<String>,
        is_error: bool,
        content: Vec<Value>,
        items: &mut ItemQueue,
    ) {
        let Some(id) = id else { return };
        self.ended.add(&id);
        items.tool_result(at, id, is_error, content);
    }

    fn read_response(&mut self, at: Option<Timestamp>, response: CodexResponse<'_>, items: &mut ItemQueue) {
        let id = response.call_id.unwrap_or_default();
        match response.kind.as_str() {
            "function_call" => {
                let arguments = response.arguments.unwrap_or_default();
                let input = from_str(&arguments).unwrap_or(Value::String(arguments));
                items.tool_call(at, id, response.name.unwrap_or_default(), input, None);
            }
            "custom_tool_call" => {
                let name = response.name.unwrap_or_default();
                let argument = if name == "apply_patch" { "patch" } else { "input" };
                items.tool_call(at, id, name, json!({argument: response.input}), None);
            }
            "local_shell_call" => {
                items.tool_call(at, id, "shell".into(), response.action, None);
            }
            "function_call_output" | "custom_tool_call_output" => {
                if !self.ended.has(&id) {
                    let (is_error, content) = model_output(response.output);
                    items.tool_result(at, id, is_error, content);
                }
            }
            kind if OTHER_RESPONSES.contains(&kind) => {}
            _ => items.unread.unknown += 1,
        }
    }

    /// The counts are of the whole thread, and come again when only a rate limit has changed.
    fn read_tokens(&mut self, at: Option<Timestamp>, info: Option<&RawValue>, items: &mut ItemQueue) {
        let info: CodexTokenInfo = info.and_then(|info| from_str(info.get()).ok()).unwrap_or_default();
        let Some(total) = info.total_token_usage.map(|usage| usage.total_tokens) else { return };
        let last = info.last_token_usage.map_or(0, |usage| usage.total_tokens);
        let new = match self.tokens.replace(total) {
            Some(known) if known <= total => total - known,
            None if self.reads_on => last,
            // A fork may begin to count again.
            _ => total,
        };
        // The tokens of the thread that a fork continues are not its own.
        if self.bases == 0 {
            items.tokens(at, new);
        }
    }
}

/// In the legacy mode a compaction has no id, but a time.
fn compaction(at: Option<Timestamp>, id: Option<String>, items: &mut ItemQueue) {
    let id = id.or_else(|| at.map(|at| at.to_string())).unwrap_or_default();
    items.push(at, ItemContent::Compaction { id });
}

fn web_search(at: Option<Timestamp>, id: Option<String>, query: Option<&str>, items: &mut ItemQueue) {
    let Some(id) = id else { return };
    items.tool_call(at, id.clone(), "web_search".into(), json!({"query": query}), None);
    items.tool_result(at, id, false, Vec::new());
}

fn prompt_blocks(text: &str) -> Vec<Value> {
    let begin = text.trim_start();
    let is_wrapper = WRAPPERS.iter().any(|wrapper| begin.starts_with(wrapper));
    if is_wrapper || begin.is_empty() { Vec::new() } else { vec![text_block(text)] }
}

fn input_blocks(input: &CodexInput) -> Vec<Value> {
    match input {
        CodexInput { text: Some(text), .. } => prompt_blocks(text),
        CodexInput { image_url: Some(url), .. } => vec![url_block(url, None)],
        CodexInput { path: Some(path), .. } => vec![file_block(path)],
        _ => Vec::new(),
    }
}

/// The changes of files by their paths.
fn changes(changes: Option<&RawValue>) -> BTreeMap<String, Value> {
    changes.and_then(|changes| serde_json::from_value(limited_value(changes)).ok()).unwrap_or_default()
}

/// The diffs of changes. The kind of a change is a member of it, or in older versions the name of its only
/// member.
fn change_diffs(changes: &BTreeMap<String, Value>) -> Vec<Value> {
    let of_file = |(path, change): (&String, &Value)| {
        let older = ["add", "delete", "update"].iter().find_map(|kind| Some((*kind, change.get(kind)?)));
        let (kind, change) =
            older.unwrap_or_else(|| (change.get("type").and_then(Value::as_str).unwrap_or_default(), change));
        let text = |name| change.get(name).and_then(Value::as_str).unwrap_or_default();
        match kind {
            "add" => vec![diff(path, None, text("content"))],
            "delete" => vec![diff(path, Some(text("content")), "")],
            _ => unified_diffs(path, text("unified_diff")),
        }
    };
    changes.iter().flat_map(of_file).collect()
}

/// What the model was given as the result of a call: a text, a list of parts, or JSON in a text.
fn model_output(given: Option<&RawValue>) -> (bool, Vec<Value>) {
    #[derive(Deserialize)]
    struct InText {
        output: String,
        metadata: Option<InTextMetadata>,
    }
    #[derive(Deserialize)]
    struct InTextMetadata {
        exit_code: Option<i64>,
    }
    let Some(given) = given else { return (false, Vec::new()) };
    if let Ok(parts) = from_str::<Vec<CodexInput>>(given.get()) {
        let block = |part: &CodexInput| match part {
            CodexInput { text: Some(text), .. } => output(text),
            CodexInput { image_url: Some(url), .. } => vec![in_tool_call(url_block(url, None))],
            _ => Vec::new(),
        };
        return (false, parts.iter().flat_map(block).collect());
    }
    let Ok(text) = from_str::<String>(given.get()) else { return (false, Vec::new()) };
    if let Ok(InText { output: text, metadata }) = from_str::<InText>(&text) {
        let code = metadata.and_then(|metadata| metadata.exit_code);
        return (code.is_some_and(|code| code != 0), output(&text));
    }
    match text.split_once("\nOutput:\n").filter(|_| text.starts_with("Chunk ID: ")) {
        Some((head, text)) => {
            let code = head.lines().find_map(|line| line.strip_prefix("Process exited with code "));
            (code.is_some_and(|code| code != "0"), output(text))
        }
        None => (false, output(&text)),
    }
}

#[cfg(test)]
mod tests;
