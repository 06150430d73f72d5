//! Translates the content of a tool call: blocks, diffs and terminals.

use super::blocks::{self, text_block};
use super::patch;
use crate::wire::json::{RawObject, array, items};

/// The members of a tool call that `null` clears in version 2 and leaves unchanged in version 1.
pub(super) const FIELDS: [&str; 9] =
    ["title", "name", "kind", "status", "content", "locations", "rawInput", "rawOutput", "_meta"];

/// Translates a version 1 tool call, or an update of one, to version 2.
///
/// A terminal that the client has received stays a terminal; any other becomes a text that names it.
pub(super) fn call_to_v2(call: &mut RawObject<'_>, is_told: impl Fn(&str) -> bool) {
    call.remove_nulls(&FIELDS);
    if let Some(content) = call.get("content").and_then(items) {
        let content = array(content.into_iter().map(|item| item_to_v2(item, &is_told)));
        call.set("content", content);
    }
}

/// Clears all fields that a reused call id does not set: version 2 would keep the values of the earlier call.
pub(super) fn begin_again(call: &mut RawObject<'_>) {
    for field in FIELDS {
        if call.get(field).is_none() {
            let unsaid = if field == "status" { r#""pending""# } else { "null" };
            call.set(field, unsaid.to_owned());
        }
    }
}

/// Translates one content item to version 2.
fn item_to_v2(item: &str, is_told: &impl Fn(&str) -> bool) -> String {
    let Some(mut members) = RawObject::parse(item) else { return item.to_owned() };
    match members.text("type").as_deref() {
        Some("diff") => diff_to_v2(members),
        Some("terminal") => {
            let id = members.text("terminalId").unwrap_or_default();
            if is_told(&id) {
                return item.to_owned();
            }
            members.remove("terminalId");
            members.set_text("type", "content");
            members.set("content", text_block(&format!("[terminal {id}]")).to_string());
            members.to_string()
        }
        _ => item.to_owned(),
    }
}

/// Translates a diff. In version 1 the file is always text.
fn diff_to_v2(mut diff: RawObject<'_>) -> String {
    let (Some(path), Some(new)) = (diff.text("path"), diff.text("newText")) else { return diff.to_string() };
    let old = diff.text("oldText");
    let mut change = RawObject::new();
    change.set_text("operation", if old.is_some() { "modify" } else { "add" });
    change.set_text("path", &path);
    change.set_text("fileType", "text");
    let mut shown = RawObject::new();
    shown.set_text("format", "git_patch");
    shown.set_text("text", &patch::of_texts(&path, old.as_deref(), &new));
    for member in ["path", "oldText", "newText"] {
        diff.remove(member);
    }
    diff.set("changes", array([change.to_string()]));
    diff.set("patch", shown.to_string());
    diff.to_string()
}

/// A content item of a tool call, for version 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Item {
    /// Version 1 JSON.
    Json(Box<str>),
    /// A terminal id. The terminal's current text takes its place when the call is sent.
    Terminal(Box<str>),
}

/// Translates a version 2 item to version 1. A diff may become several items.
pub(super) fn item_to_v1(item: &str) -> Vec<Item> {
    let Some(mut members) = RawObject::parse(item) else { return Vec::new() };
    match members.text("type").as_deref() {
        Some("content") => {
            if let Some(block) = members.get("content").map(|block| blocks::to_v1(block).into_owned()) {
                members.set("content", block);
            }
            vec![Item::Json(members.to_string().into())]
        }
        Some("diff") => diff_to_v1(members),
        Some("terminal") => members.text("terminalId").map(Item::Terminal).into_iter().collect(),
        Some(kind) => {
            let mut named = text_item(&format!("[content of the kind {kind}]"));
            named.set_path(&["_meta", "acpx", "content"], item);
            vec![Item::Json(named.to_string().into())]
        }
        None => Vec::new(),
    }
}

/// Reads a version 1 item. Only terminals are treated specially.
pub(super) fn item_of_v1(item: &str) -> Item {
    let members =
        RawObject::parse(item).filter(|members| members.text("type").as_deref() == Some("terminal"));
    match members.and_then(|members| members.text("terminalId")) {
        Some(terminal) => Item::Terminal(terminal),
        None => Item::Json(item.into()),
    }
}

/// Text as a content item of a tool call.
pub(super) fn text_item(text: &str) -> RawObject<'static> {
    let mut item = RawObject::new();
    item.set_text("type", "content");
    item.set("content", text_block(text).to_string());
    item
}

/// Each hunk of the patch becomes a diff; a change that the patch does not show becomes a line of text.
fn diff_to_v1(mut diff: RawObject<'_>) -> Vec<Item> {
    let changes = diff.remove("changes").unwrap_or_default();
    let changes: Vec<RawObject<'_>> =
        items(&changes).unwrap_or_default().into_iter().filter_map(RawObject::parse).collect();
    let git_patch = diff.remove("patch").unwrap_or_default();
    let git_patch =
        RawObject::parse(&git_patch).filter(|patch| patch.get("format") == Some(r#""git_patch""#));
    let text = git_patch.and_then(|patch| patch.text("text")).unwrap_or_default();
    let sections = patch::sections(&text);
    let mut shown = Vec::new();
    for (index, change) in changes.iter().enumerate() {
        let Some(path) = change.text("path") else { continue };
        let by_place = sections.get(index).filter(|_| sections.len() == changes.len());
        let section = sections.iter().find(|section| section.is_of(&path)).or(by_place);
        let is_new = change.get("operation") == Some(r#""add""#);
        let hunks = section.map(|section| section.hunks.as_slice()).unwrap_or_default();
        for (old, new) in hunks {
            let mut hunk = diff.clone();
            hunk.set_text("path", &path);
            if !is_new {
                hunk.set_text("oldText", old);
            }
            hunk.set_text("newText", new);
            shown.push(Item::Json(hunk.to_string().into()));
        }
        if hunks.is_empty() {
            shown.push(Item::Json(text_item(&named_change(change, &path)).to_string().into()));
        }
    }
    shown
}

/// Describes a change in text.
fn named_change(change: &RawObject<'_>, path: &str) -> String {
    let old = || change.text("oldPath").unwrap_or_default();
    match change.text("operation").as_deref() {
        Some("add") => format!("added {path}"),
        Some("delete") => format!("deleted {path}"),
        Some("modify") => format!("modified {path}"),
        Some("move") => format!("moved {} to {path}", old()),
        Some("copy") => format!("copied {} to {path}", old()),
        Some(other) => format!("{other} {path}"),
        None => path.to_owned(),
    }
}

/// The version 1 status of a tool call; `None` if version 1 has no equivalent.
pub(super) fn status_to_v1(status: &str) -> Option<&'static str> {
    match status {
        "pending" => Some("pending"),
        "in_progress" | "paused" => Some("in_progress"),
        "completed" => Some("completed"),
        "failed" | "cancelled" => Some("failed"),
        _ => None,
    }
}
