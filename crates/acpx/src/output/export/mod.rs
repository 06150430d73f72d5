//! Exports a session: as an archive for acpx and npm acpx, as Markdown and HTML for people, as JSON for programs.
//!
//! The text of agents is data here: in HTML every byte of it is escaped and nothing is loaded, and in Markdown no fence,
//! tag or heading of it ends what it is in.

mod archive;
mod html;
mod image;
mod json;
mod markdown;
mod npm_messages;
mod section;
mod tool;

use std::io::{self, Write};

use acpx_core::model::{MessageKind, Record, Timestamp, TurnId};

pub(crate) use self::archive::ArchiveWriter;
use self::html::Html;
use self::json::Json;
use self::markdown::Markdown;
use self::section::SectionItem;
pub(crate) use self::section::{ConversationSection, Sections};
use super::turn::{cost, percent, stop_words, thousands};

/// Writes a conversation section by section.
pub(crate) trait SectionWriter {
    /// Writes what comes before the sections.
    fn begin(&mut self, record: &Record, out: &mut dyn Write) -> io::Result<()>;
    /// Writes a section.
    fn section(&mut self, section: &ConversationSection, out: &mut dyn Write) -> io::Result<()>;
    /// Writes what comes after them.
    fn end(&mut self, record: &Record, out: &mut dyn Write) -> io::Result<()>;
}

/// A document for people or programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DocumentKind {
    Markdown,
    Html,
    Json,
}

/// The writer of a document.
pub(crate) fn document(kind: DocumentKind) -> Box<dyn SectionWriter> {
    match kind {
        DocumentKind::Markdown => Box::new(Markdown),
        DocumentKind::Html => Box::new(Html),
        DocumentKind::Json => Box::new(Json::default()),
    }
}

/// The title of a document.
fn title(record: &Record) -> String {
    let name = record.scope.as_ref().and_then(|scope| scope.name.as_ref()).map(ToString::to_string);
    record.info.title().map(str::to_owned).or(name).unwrap_or_else(|| format!("Session {}", record.id))
}

/// The facts about a session that a document begins with.
fn head_rows(record: &Record) -> Vec<(&'static str, String)> {
    let mut rows = vec![
        ("Agent", record.agent.label().into_owned()),
        ("Directory", record.cwd.to_string()),
        ("Session", record.id.to_string()),
        ("Begun", time(record.created_at)),
        ("Last used", time(record.updated_at)),
    ];
    let name = record.scope.as_ref().and_then(|scope| scope.name.as_ref());
    rows.extend(name.map(|name| ("Name", name.to_string())));
    rows
}

/// The usage of a whole session, in words.
fn usage_words(record: &Record) -> Option<String> {
    let usage = record.info.usage.as_ref()?;
    let (used, size) = (thousands(usage.used), thousands(usage.size));
    let mut words = format!("{used} of {size} tokens in the context ({} %)", percent(usage));
    if let Some(spent) = &usage.cost {
        words.extend([", ", &cost(spent)]);
    }
    Some(words)
}

/// A time for people, in UTC.
fn time(at: Timestamp) -> String {
    let text = at.to_string();
    match text.split_once('T') {
        Some((day, rest)) => format!("{day} {} UTC", rest.split(['.', 'Z']).next().unwrap_or_default()),
        None => text,
    }
}

/// The heading of a section. A prompt outside turns was not sent by acpx.
fn heading(section: &ConversationSection) -> String {
    match section.turn {
        Some(TurnId(turn)) => format!("Turn {turn}"),
        None if section.items.iter().any(is_prompt) => "Prompt".to_owned(),
        None => "Between turns".to_owned(),
    }
}

fn is_prompt(item: &SectionItem) -> bool {
    matches!(item, SectionItem::Message { kind: MessageKind::User, .. })
}

/// How a turn ended, unless it just ended.
fn end_words(section: &ConversationSection) -> Option<String> {
    let end = section.end.as_ref()?;
    match (&end.error, &end.stop_reason) {
        (Some(error), _) => Some(format!("Failed: {} ({})", error.message, error.code)),
        (None, Some(reason)) if reason == "end_turn" => None,
        (None, Some(reason)) => Some(format!("Ended: {}", stop_words(Some(reason)))),
        (None, None) if end.is_interrupted => Some("Interrupted".to_owned()),
        (None, None) => Some("Failed".to_owned()),
    }
}

#[cfg(test)]
mod tests;
