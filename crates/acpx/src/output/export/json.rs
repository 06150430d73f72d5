//! One JSON object with the turns and what was said and done in each.

use std::io::{self, Write};

use acpx_core::model::{MessageKind, Record, SessionUsage, TerminalText, Timestamp};
use serde::Serialize;
use serde_json::{Map, Value};

use super::SectionWriter;
use super::section::{ConversationSection, PlanEntry, SectionItem};
use crate::output::error::ErrorObject;
use crate::output::record::RecordObject;

/// Writes JSON.
#[derive(Debug, Default)]
pub(super) struct Json {
    has_sections: bool,
}

#[derive(Serialize)]
struct HeadObject<'a> {
    action: &'static str,
    #[serde(flatten)]
    record: RecordObject<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<&'a SessionUsage>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SectionObject<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    turn: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorObject<'a>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    interrupted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<&'a Value>,
    entries: Vec<EntryObject<'a>>,
}

/// One entry: `type` says which of the members it has.
#[derive(Serialize, Default)]
#[serde(rename_all = "camelCase")]
struct EntryObject<'a> {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    blocks: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call: Option<&'a Map<String, Value>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    terminals: Vec<TerminalObject<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    plan: Vec<PlanObject<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'a str>,
}

#[derive(Serialize)]
struct TerminalObject<'a> {
    command: &'a str,
    output: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit: Option<&'a str>,
}

#[derive(Serialize)]
struct PlanObject<'a> {
    text: &'a str,
    status: &'a str,
}

impl SectionWriter for Json {
    fn begin(&mut self, record: &Record, out: &mut dyn Write) -> io::Result<()> {
        let head =
            HeadObject { action: "session_export", record: record.into(), usage: record.info.usage.as_ref() };
        let head = serde_json::to_string(&head)?;
        write!(out, "{},\"turns\":[", head.strip_suffix('}').unwrap_or(&head))
    }

    fn section(&mut self, section: &ConversationSection, out: &mut dyn Write) -> io::Result<()> {
        if std::mem::replace(&mut self.has_sections, true) {
            write!(out, ",")?;
        }
        let end = section.end.as_ref();
        let error = end.and_then(|end| end.error.as_ref());
        let object = SectionObject {
            turn: section.turn.map(|turn| turn.0),
            request_id: section.request_id.as_deref(),
            started_at: section.begun_at,
            ended_at: end.map(|end| end.at),
            stop_reason: end.and_then(|end| end.stop_reason.as_deref()),
            error: error.map(ErrorObject::from),
            interrupted: end.is_some_and(|end| end.is_interrupted),
            usage: section.usage.as_ref(),
            entries: section.items.iter().map(entry).collect(),
        };
        Ok(serde_json::to_writer(&mut *out, &object)?)
    }

    fn end(&mut self, _: &Record, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "]}}")
    }
}

fn entry(item: &SectionItem) -> EntryObject<'_> {
    let text =
        |r#type, at, text| EntryObject { r#type, at: Some(at), text: Some(text), ..EntryObject::default() };
    match item {
        SectionItem::Message { kind, at, text: words, blocks } => {
            let r#type = match kind {
                MessageKind::User => "prompt",
                MessageKind::Agent => "message",
                MessageKind::Thought => "thought",
            };
            let blocks = blocks.iter().filter_map(|block| serde_json::from_str(block).ok()).collect();
            EntryObject { blocks, ..text(r#type, *at, words) }
        }
        SectionItem::Unsent { at, text: words } => text("unsent", *at, words),
        SectionItem::Tool { at, fields, terminals } => EntryObject {
            r#type: "tool",
            at: *at,
            tool_call: Some(fields),
            terminals: terminals.iter().map(terminal).collect(),
            ..EntryObject::default()
        },
        SectionItem::Plan { entries } => {
            let plan = entries.iter().map(|PlanEntry { text, status }| PlanObject { text, status });
            EntryObject { r#type: "plan", plan: plan.collect(), ..EntryObject::default() }
        }
        SectionItem::Permission { at, title, outcome } => {
            EntryObject { outcome: Some(outcome), ..text("permission", *at, title) }
        }
        SectionItem::Request { at, words, terminal: run } => {
            EntryObject { terminals: run.iter().map(terminal).collect(), ..text("request", *at, words) }
        }
        SectionItem::Reset { at, words } => text("reset", *at, words),
        SectionItem::Note { at, words } => text("note", *at, words),
    }
}

fn terminal(terminal: &TerminalText) -> TerminalObject<'_> {
    TerminalObject { command: &terminal.command, output: &terminal.output, exit: terminal.exit.as_deref() }
}
