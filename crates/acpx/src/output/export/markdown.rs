//! Markdown with a heading for each turn. Tool calls and thoughts are folded.
//!
//! Text of agents is Markdown too and stays readable as such: its HTML is escaped, its images are links, and a fence that
//! it leaves open is closed, so that nothing of it reaches beyond its place, and a reader loads nothing.

use std::io::{self, Write};

use acpx_core::acp;
use acpx_core::model::{MessageKind, Record};
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag};
use serde_json::Value;

use super::section::{ConversationSection, SectionItem};
use super::tool::{ToolPart, ToolView, terminal};
use super::{SectionWriter, end_words, head_rows, heading, time, title, usage_words};
use crate::output::sanitize::{clean, on_one_line};

/// Writes Markdown.
#[derive(Debug)]
pub(super) struct Markdown;

impl SectionWriter for Markdown {
    fn begin(&mut self, record: &Record, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "# {}\n", inline(&title(record)))?;
        for (name, value) in head_rows(record) {
            writeln!(out, "- {name}: {}", code_span(&value))?;
        }
        writeln!(out)
    }

    fn section(&mut self, section: &ConversationSection, out: &mut dyn Write) -> io::Result<()> {
        let at = section.begun_at.map(|at| format!(" · {}", time(at))).unwrap_or_default();
        writeln!(out, "## {}{at}\n", heading(section))?;
        section.items.iter().try_for_each(|item| self::item(item, out))?;
        match end_words(section) {
            Some(words) => writeln!(out, "*{}*\n", inline(&words)),
            None => Ok(()),
        }
    }

    fn end(&mut self, record: &Record, out: &mut dyn Write) -> io::Result<()> {
        match usage_words(record) {
            Some(words) => writeln!(out, "---\n\nUsage: {}", inline(&words)),
            None => Ok(()),
        }
    }
}

fn item(item: &SectionItem, out: &mut dyn Write) -> io::Result<()> {
    match item {
        SectionItem::Message { kind, text, blocks, .. } => message(*kind, text, blocks, out),
        SectionItem::Unsent { text, .. } => {
            writeln!(out, "**You**, not sent\n\n{}", quoted(&contained(text)))
        }
        SectionItem::Tool { fields, terminals, .. } => tool(&ToolView::new(fields, terminals), out),
        SectionItem::Plan { entries } => {
            writeln!(out, "**Plan**\n")?;
            for entry in entries {
                let mark = match entry.status.as_str() {
                    "completed" => "x",
                    _ => " ",
                };
                writeln!(out, "- [{mark}] {}", inline(&entry.text))?;
            }
            writeln!(out)
        }
        SectionItem::Permission { title, outcome, .. } => {
            writeln!(out, "**Permission** {}: {}\n", inline(title), inline(outcome))
        }
        SectionItem::Request { words, terminal: run, .. } => match run {
            None => writeln!(out, "*{}*\n", inline(words)),
            Some(run) => {
                begin_details(&run.command, out)?;
                part(&terminal(run), out)?;
                writeln!(out, "</details>\n")
            }
        },
        SectionItem::Reset { words, at } => writeln!(out, "> **{}** ({})\n", inline(words), time(*at)),
        SectionItem::Note { words, .. } => writeln!(out, "*{}*\n", inline(words)),
    }
}

fn message(kind: MessageKind, text: &str, blocks: &[Box<str>], out: &mut dyn Write) -> io::Result<()> {
    let text = contained(text);
    match kind {
        MessageKind::User => writeln!(out, "**You**\n\n{}", quoted(&text))?,
        MessageKind::Agent => writeln!(out, "**Agent**\n\n{}", quoted(&text))?,
        MessageKind::Thought => {
            begin_details("Thought", out)?;
            writeln!(out, "{}</details>\n", quoted(&text))?;
        }
    }
    for block in blocks {
        let block: Value = serde_json::from_str(block).unwrap_or_default();
        writeln!(out, "*{}*\n", inline(&acp::block_words(&block)))?;
    }
    Ok(())
}

fn tool(view: &ToolView, out: &mut dyn Write) -> io::Result<()> {
    let words = [view.kind.as_deref(), view.status.as_deref()];
    let words: Vec<&str> = words.into_iter().flatten().collect();
    let words = if words.is_empty() { String::new() } else { format!(" ({})", words.join(", ")) };
    begin_details(&format!("{}{words}", view.title), out)?;
    view.parts.iter().try_for_each(|shown| part(shown, out))?;
    writeln!(out, "</details>\n")
}

fn begin_details(summary: &str, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "<details>\n<summary>{}</summary>\n", escape(&on_one_line(&clean(summary))))
}

fn part(part: &ToolPart, out: &mut dyn Write) -> io::Result<()> {
    match part {
        ToolPart::Code { label, language, text } => {
            let label = if *language == "diff" { String::new() } else { format!("{label}:\n\n") };
            writeln!(out, "{label}{}", fenced(language, text))
        }
        ToolPart::Text(text) => writeln!(out, "{}", quoted(&contained(text))),
        ToolPart::Image(_) => writeln!(out, "*\\[image\\]*\n"),
    }
}

/// A code block whose fence is longer than any in the text.
fn fenced(language: &str, text: &str) -> String {
    let text = clean(text);
    let fence = "`".repeat(longest_run(&text, '`').max(2) + 1);
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    format!("{fence}{language}\n{text}{end}{fence}\n")
}

/// A text as inline code.
fn code_span(text: &str) -> String {
    let text = on_one_line(&clean(text));
    let ticks = "`".repeat(longest_run(&text, '`') + 1);
    if ticks.len() == 1 { format!("`{text}`") } else { format!("{ticks} {text} {ticks}") }
}

fn longest_run(text: &str, wanted: char) -> usize {
    let mut longest = 0;
    let mut run = 0;
    for letter in text.chars() {
        run = if letter == wanted { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}

/// A text on one line that means itself in Markdown.
fn inline(text: &str) -> String {
    let mut escaped = String::new();
    for letter in on_one_line(&clean(text)).chars() {
        match letter {
            '<' => escaped.push_str("&lt;"),
            '&' => escaped.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '#' | '|' | '~' | '!' => escaped.extend(['\\', letter]),
            other => escaped.push(other),
        }
    }
    escaped
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Every line of a text in a block quote.
fn quoted(text: &str) -> String {
    let mut quote = String::new();
    for line in text.lines() {
        quote.push_str(if line.is_empty() { ">" } else { "> " });
        quote.push_str(line);
        quote.push('\n');
    }
    quote.push('\n');
    quote
}

/// Markdown that ends where it ends and loads nothing: its HTML is escaped, its images are links, and its last fence is
/// closed.
pub(super) fn contained(text: &str) -> String {
    // A carriage return ends a line in Markdown, and a tab has another width in a quote of ours.
    let text = text.replace("\r\n", "\n").replace('\r', "\n").replace('\t', "    ");
    let mut text = clean(&text);
    // What follows an escape may be read differently, and be HTML or an image then.
    for _ in 0..ESCAPES {
        match harmless(&text) {
            Some(escaped) => text = escaped,
            None => break,
        }
    }
    if harmless(&text).is_some() {
        text = text.replace('<', "&lt;").replace("![", "!\\[");
    }
    let text = text.trim_end_matches('\n');
    match open_fence(text) {
        Some(fence) => format!("{text}\n{fence}"),
        None => text.to_owned(),
    }
}

/// How often HTML and images are looked for, before every `<` and `![` is escaped.
const ESCAPES: usize = 4;

/// The text with its HTML escaped, and its images as links behind an exclamation mark; `None` if it has neither.
fn harmless(text: &str) -> Option<String> {
    let (mut escaped, mut next) = (String::new(), 0);
    for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
        let (end, replacement) = match event {
            Event::Html(_) | Event::InlineHtml(_) => {
                (range.end, text.get(range.clone())?.replace('<', "&lt;"))
            }
            // Its text may have HTML, and other images.
            Event::Start(Tag::Image { .. }) => (range.start + 1, "\\!".to_owned()),
            _ => continue,
        };
        escaped.push_str(text.get(next..range.start)?);
        escaped.push_str(&replacement);
        next = end;
    }
    (next > 0).then(|| escaped + text.get(next..).unwrap_or_default())
}

/// The fence that closes a code block of the document itself which reaches to the end of the text.
fn open_fence(text: &str) -> Option<String> {
    let (mut depth, mut fence) = (0_usize, None);
    for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
        match event {
            Event::Start(tag) => {
                if let (0, Tag::CodeBlock(CodeBlockKind::Fenced(_))) = (depth, &tag) {
                    fence = open_end(text, range);
                }
                depth += 1;
            }
            Event::End(_) => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    fence
}

/// The fence that would close a code block which reaches to the end of the text without one.
fn open_end(text: &str, block: std::ops::Range<usize>) -> Option<String> {
    let block_text = text.get(block.clone())?;
    let begin = block_text.trim_start();
    let mark = begin.chars().next()?;
    let fence: String = begin.chars().take_while(|letter| *letter == mark).collect();
    let last = block_text.lines().skip(1).last().unwrap_or_default().trim();
    let is_closed = last.chars().count() >= fence.len() && last.chars().all(|letter| letter == mark);
    (!is_closed && text.get(block.end..)?.trim().is_empty()).then_some(fence)
}
