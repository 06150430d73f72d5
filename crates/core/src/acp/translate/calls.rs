//! Tracks the tool calls of a version 2 agent for a version 1 client: which were sent, their current content, and the
//! terminals they refer to.

use super::recent::RecentMap;
use super::terminals::TerminalSnapshot;
use super::tool_content::{FIELDS, Item, item_of_v1, item_to_v1, status_to_v1, text_item};
use crate::wire::json::{RawObject, array, items, string};

/// How many tool calls are remembered with their content.
const MAX_CALLS: usize = 128;

/// How many tool call ids are remembered as sent.
const MAX_ANNOUNCED: usize = 4096;

/// How many terminals are remembered.
const MAX_TERMINALS: usize = 64;

/// How many bytes of a call's content are remembered: its end.
const MAX_CONTENT_BYTES: usize = 64 << 10;

/// A call with a longer id is not sent again when one of its terminals changes.
const MAX_ID_BYTES: usize = 1 << 10;

/// The tool calls and terminals of a session.
#[derive(Debug, Default)]
pub(super) struct ToolCallTracker {
    recent: RecentMap<TrackedToolCall, MAX_CALLS>,
    announced: RecentMap<(), MAX_ANNOUNCED>,
    terminals: Terminals,
}

type Terminals = RecentMap<TerminalSnapshot, MAX_TERMINALS>;

/// The remembered state of a tool call.
#[derive(Debug, Default)]
struct TrackedToolCall {
    /// The id, for sending the call again.
    id: Option<Box<str>>,
    content: Vec<Item>,
    /// The bytes of the content.
    size: usize,
    is_cut: bool,
    /// Whether the content has changed since it was last sent. Version 1 always sends the whole content, so sending
    /// after each small chunk would repeat it many times.
    is_pending: bool,
}

impl ToolCallTracker {
    /// A `tool_call_update`; the first one of an id creates the call. It includes the call's pending content. Pending
    /// content of other calls is sent before it, because one of them may be evicted for this call.
    pub(super) fn update(&mut self, mut update: RawObject<'_>) -> Option<Vec<String>> {
        let id = update.text("toolCallId")?;
        let mut updates = self.settle_but(Some(&id));
        let is_new = self.is_new(&id, &update);
        call_to_v1(&mut update, is_new);
        let call = self.call(&id, is_new);
        let content = update.get("content").and_then(items);
        let is_pending = std::mem::take(&mut call.is_pending);
        if let Some(content) = content {
            call.content.clear();
            (call.size, call.is_cut) = (0, false);
            call.append(content.into_iter().flat_map(item_to_v1));
        } else if !is_pending {
            updates.push(update.to_string());
            return Some(updates);
        }
        let Self { recent, terminals, .. } = self;
        let call = recent.entry(&id);
        update.set("content", call.shown(terminals));
        call.trim();
        updates.push(update.to_string());
        Some(updates)
    }

    /// A content chunk of a call. It is pending until another update is sent, unless it creates the call. If another
    /// call may be evicted for this one, pending content is sent first.
    pub(super) fn content_chunk(&mut self, mut chunk: RawObject<'_>) -> Option<Vec<String>> {
        let id = chunk.text("toolCallId")?;
        let pieces = item_to_v1(chunk.get("content")?);
        let mut updates = if self.recent.contains(&id) { Vec::new() } else { self.settle() };
        let is_new = self.is_new(&id, &chunk);
        let call = self.call(&id, is_new);
        call.append(pieces);
        if !is_new {
            call.is_pending = true;
            call.trim();
            return Some(updates);
        }
        let Self { recent, terminals, .. } = self;
        let call = recent.entry(&id);
        chunk.set("content", call.shown(terminals));
        call.trim();
        call_to_v1(&mut chunk, is_new);
        updates.push(chunk.to_string());
        Some(updates)
    }

    /// A version 1 tool call, or an update of one, with the output of its terminals and its pending content. `None` if
    /// it has no terminals and needs no change.
    pub(super) fn with_terminals(&mut self, mut update: RawObject<'_>) -> Option<String> {
        let id = update.text("toolCallId")?;
        match update.get_non_null("content").and_then(items) {
            Some(content) => {
                let content: Vec<Item> = content.into_iter().map(item_of_v1).collect();
                if !content.iter().any(|item| matches!(item, Item::Terminal(_))) {
                    self.recent.remove(&id);
                    return None;
                }
                let call = self.call(&id, true);
                (call.content, call.size, call.is_cut) = (Vec::new(), 0, false);
                call.append(content);
            }
            None if !self.recent.get(&id).is_some_and(|call| call.is_pending) => return None,
            None => {}
        }
        let Self { recent, terminals, .. } = self;
        let call = recent.entry(&id);
        call.is_pending = false;
        update.set("content", call.shown(terminals));
        call.trim();
        Some(update.to_string())
    }

    pub(super) fn terminal_update(&mut self, update: &RawObject<'_>) -> Option<()> {
        let id = update.text("terminalId")?;
        self.terminals.entry(&id).update(update);
        self.mark_pending(&id);
        Some(())
    }

    pub(super) fn terminal_output(&mut self, chunk: &RawObject<'_>) -> Option<()> {
        let id = chunk.text("terminalId")?;
        self.terminals.entry(&id).append(&chunk.text("data")?);
        self.mark_pending(&id);
        Some(())
    }

    /// Whether content has changed since it was sent.
    pub(super) fn has_pending(&self) -> bool {
        self.recent.values().any(|call| call.is_pending)
    }

    /// The updates with the pending content.
    pub(super) fn settle(&mut self) -> Vec<String> {
        self.settle_but(None)
    }

    /// The updates with the pending content of all calls except one.
    fn settle_but(&mut self, one: Option<&str>) -> Vec<String> {
        let Self { recent, terminals, .. } = self;
        let is_other =
            |call: &TrackedToolCall| one.is_none() || call.id.as_deref().is_some_and(|id| Some(id) != one);
        let pending = recent.values().filter(|call| call.is_pending && is_other(call));
        let updates = pending.filter_map(|call| {
            let mut update = RawObject::new();
            update.set_text("sessionUpdate", "tool_call_update");
            update.set_text("toolCallId", call.id.as_deref()?);
            update.set("content", call.shown(terminals));
            Some(update.to_string())
        });
        let updates = updates.collect();
        for call in recent.values_mut().filter(|call| is_other(call)) {
            call.is_pending = false;
        }
        updates
    }

    /// Whether an update is the first of its call. A call begins with its title, so an update without a title is not
    /// treated as new once ids have been evicted.
    fn is_new(&self, id: &str, update: &RawObject<'_>) -> bool {
        let may_be_known = self.announced.has_forgotten() && update.text("title").is_none();
        !self.announced.contains(id) && !may_be_known
    }

    /// The entry of a call, created if needed.
    fn call(&mut self, id: &str, is_new: bool) -> &mut TrackedToolCall {
        self.announced.entry(id);
        let is_forgotten = !is_new && !self.recent.contains(id);
        let call = self.recent.entry(id);
        call.is_cut |= is_forgotten;
        call.id = (id.len() <= MAX_ID_BYTES).then(|| id.into());
        call
    }

    /// Marks the content of all calls that refer to a terminal as changed.
    fn mark_pending(&mut self, terminal: &str) {
        let refers = |item: &Item| matches!(item, Item::Terminal(id) if **id == *terminal);
        for call in self.recent.values_mut() {
            call.is_pending |= call.content.iter().any(refers);
        }
    }
}

impl TrackedToolCall {
    fn shown(&self, terminals: &Terminals) -> String {
        let cut = self.is_cut.then(|| text_item("[earlier content is left out]").to_string());
        let item = |item: &Item| match item {
            Item::Json(json) => String::from(json.clone()),
            Item::Terminal(id) => {
                let text = terminals.get(id).map(TerminalSnapshot::text);
                text_item(&text.unwrap_or_else(|| format!("[terminal {id}]"))).to_string()
            }
        };
        array(cut.into_iter().chain(self.content.iter().map(item)))
    }

    fn append(&mut self, items: impl IntoIterator<Item = Item>) {
        for item in items {
            self.size += size(&item);
            self.content.push(item);
        }
    }

    /// Drops content from the beginning until it fits.
    fn trim(&mut self) {
        let mut forgotten = 0;
        for item in &self.content {
            if self.size <= MAX_CONTENT_BYTES {
                break;
            }
            self.size -= size(item);
            forgotten += 1;
        }
        self.content.drain(..forgotten);
        self.is_cut |= forgotten > 0;
    }
}

fn size(item: &Item) -> usize {
    match item {
        Item::Json(text) | Item::Terminal(text) => text.len(),
    }
}

/// Translates the members of a tool call to version 1. Version 1 cannot clear a field with `null`, so a cleared field
/// gets its empty value.
fn call_to_v1(call: &mut RawObject<'_>, is_new: bool) {
    call.set_text("sessionUpdate", if is_new { "tool_call" } else { "tool_call_update" });
    patch_to_v1(call, is_new);
    if is_new && call.text("title").is_none() {
        let title = call.text("name").unwrap_or_default();
        call.set_text("title", &title);
    }
}

/// The same for the tool call of a permission request. Its terminals are only named.
pub(super) fn described(call: &mut RawObject<'_>) {
    patch_to_v1(call, false);
    if let Some(content) = call.get("content").and_then(items) {
        let content = content.into_iter().flat_map(item_to_v1).collect();
        let content = TrackedToolCall { content, ..TrackedToolCall::default() }.shown(&Terminals::default());
        call.set("content", content);
    }
}

fn patch_to_v1(call: &mut RawObject<'_>, is_new: bool) {
    call.remove("capabilities");
    if !is_new {
        let nothing = [
            ("title", r#""""#),
            ("kind", r#""other""#),
            ("status", r#""pending""#),
            ("content", "[]"),
            ("locations", "[]"),
        ];
        for (name, value) in nothing {
            if call.get(name) == Some("null") {
                call.set(name, value);
            }
        }
    }
    call.remove_nulls(&FIELDS);
    let Some(status) = call.get("status").map(str::to_owned) else { return };
    let known = string(&status).as_deref().and_then(status_to_v1);
    match known {
        Some(known) => call.set_text("status", known),
        None => {
            call.remove("status");
        }
    }
    if call.text("status").as_deref() != string(&status).as_deref() {
        call.set_path(&["_meta", "acpx", "status"], &status);
    }
}
