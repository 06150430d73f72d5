//! Tool calls of an agent of version 2, for a client of version 1: which were told, what their content is by now,
//! and the terminals they refer to.

use super::members::{Members, items, list, text};
use super::recent::Recent;
use super::terminals::Terminal;
use super::tool_content::{FIELDS, Item, item_to_v1, status_to_v1, text_item};

/// How many tool calls are remembered.
const MAX_CALLS: usize = 128;

/// How many terminals are.
const MAX_TERMINALS: usize = 64;

/// How much of a call's content is, in bytes: its end.
const MAX_CONTENT_BYTES: usize = 64 << 10;

/// Calls with a longer id are not told again when a terminal of theirs changes.
const MAX_ID_BYTES: usize = 1 << 10;

/// The tool calls and terminals of a session.
#[derive(Debug)]
pub(super) struct Calls {
    calls: Recent<ToolCall>,
    terminals: Recent<Terminal>,
}

/// What is remembered of a tool call.
#[derive(Debug, Default)]
struct ToolCall {
    /// Its id, for telling of it again.
    id: Option<Box<str>>,
    content: Vec<Item>,
    is_cut: bool,
}

impl Calls {
    pub(super) fn new() -> Self {
        Self { calls: Recent::new(MAX_CALLS), terminals: Recent::new(MAX_TERMINALS) }
    }

    /// A `tool_call_update`: the first of a call makes it.
    pub(super) fn update(&mut self, mut update: Members<'_>) -> Option<String> {
        let id = update.text("toolCallId")?;
        let is_new = !self.calls.contains(&id);
        call_to_v1(&mut update, is_new);
        let call = self.calls.entry(&id);
        call.id = (id.len() <= MAX_ID_BYTES).then_some(id);
        if let Some(content) = update.get("content").and_then(items) {
            call.content = content.into_iter().flat_map(item_to_v1).collect();
            call.is_cut = false;
            let shown = call.shown(&self.terminals);
            call.trim();
            update.set("content", shown);
        }
        Some(update.to_string())
    }

    /// A piece of content for a call: it is told with all that the call has.
    pub(super) fn content_chunk(&mut self, mut chunk: Members<'_>) -> Option<String> {
        let id = chunk.text("toolCallId")?;
        let pieces = item_to_v1(chunk.get("content")?);
        let is_new = !self.calls.contains(&id);
        let call = self.calls.entry(&id);
        call.id = (id.len() <= MAX_ID_BYTES).then_some(id);
        call.content.extend(pieces);
        chunk.set("content", call.shown(&self.terminals));
        call.trim();
        call_to_v1(&mut chunk, is_new);
        Some(chunk.to_string())
    }

    pub(super) fn terminal_update(&mut self, update: &Members<'_>) -> Option<Vec<String>> {
        let id = update.text("terminalId")?;
        self.terminals.entry(&id).update(update);
        Some(self.show_again(&id))
    }

    pub(super) fn terminal_output(&mut self, chunk: &Members<'_>) -> Option<Vec<String>> {
        let id = chunk.text("terminalId")?;
        self.terminals.entry(&id).append(&chunk.text("data")?);
        Some(self.show_again(&id))
    }

    /// Tells the content of the calls that a terminal is part of.
    fn show_again(&self, terminal: &str) -> Vec<String> {
        let refers = |item: &Item| matches!(item, Item::Terminal(id) if **id == *terminal);
        let calls = self.calls.values().filter(|call| call.content.iter().any(refers));
        let told = calls.filter_map(|call| {
            let mut update = Members::new();
            update.set_text("sessionUpdate", "tool_call_update");
            update.set_text("toolCallId", call.id.as_deref()?);
            update.set("content", call.shown(&self.terminals));
            Some(update.to_string())
        });
        told.collect()
    }
}

impl ToolCall {
    fn shown(&self, terminals: &Recent<Terminal>) -> String {
        let cut = self.is_cut.then(|| text_item("[earlier content is left out]").to_string());
        let item = |item: &Item| match item {
            Item::Json(json) => String::from(json.clone()),
            Item::Terminal(id) => {
                let text = terminals.get(id).map(Terminal::text);
                text_item(&text.unwrap_or_else(|| format!("[terminal {id}]"))).to_string()
            }
        };
        list(cut.into_iter().chain(self.content.iter().map(item)))
    }

    /// Forgets what is too much, from the beginning.
    fn trim(&mut self) {
        let size = |item: &Item| match item {
            Item::Json(text) | Item::Terminal(text) => text.len(),
        };
        let mut total: usize = self.content.iter().map(size).sum();
        let mut forgotten = 0;
        for item in &self.content {
            if total <= MAX_CONTENT_BYTES {
                break;
            }
            total -= size(item);
            forgotten += 1;
        }
        self.content.drain(..forgotten);
        self.is_cut |= forgotten > 0;
    }
}

/// The members of a tool call in version 1's words. It clears nothing with `null`, so what is cleared gets the
/// value that stands for nothing.
fn call_to_v1(call: &mut Members<'_>, is_new: bool) {
    call.set_text("sessionUpdate", if is_new { "tool_call" } else { "tool_call_update" });
    patch_to_v1(call, is_new);
    if is_new && call.text("title").is_none() {
        let title = call.text("name").unwrap_or_default();
        call.set_text("title", &title);
    }
}

/// The same of a tool call that a permission is asked for. Its terminals are named.
pub(super) fn described(call: &mut Members<'_>) {
    patch_to_v1(call, false);
    if let Some(content) = call.get("content").and_then(items) {
        let content = content.into_iter().flat_map(item_to_v1).collect();
        let content = ToolCall { content, ..ToolCall::default() }.shown(&Recent::new(0));
        call.set("content", content);
    }
}

fn patch_to_v1(call: &mut Members<'_>, is_new: bool) {
    call.take("capabilities");
    if !is_new {
        let nothing = [
            ("title", r#""""#),
            ("kind", r#""other""#),
            ("status", r#""pending""#),
            ("content", "[]"),
            ("locations", "[]"),
        ];
        for (name, value) in nothing {
            if call.is_null(name) {
                call.set(name, value);
            }
        }
    }
    call.forget_nulls(&FIELDS);
    let Some(status) = call.get("status").map(str::to_owned) else { return };
    let known = text(&status).as_deref().and_then(status_to_v1);
    match known {
        Some(known) => call.set_text("status", known),
        None => {
            call.take("status");
        }
    }
    if call.text("status").as_deref() != text(&status).as_deref() {
        call.note("status", &status);
    }
}
