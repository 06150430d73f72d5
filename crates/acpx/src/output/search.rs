//! The messages that a search found: a block for each on a terminal, a line in a pipe, and JSON. Each names the command
//! that shows the conversation from the message on.

use std::io::{self, Write as _};
use std::path::Path;

use acpx_core::index::{IndexProgress, SearchHit, SessionOrigin};
use acpx_core::model::Timestamp;
use serde::Serialize;

use super::banner::below_home;
use super::elapsed::ago;
use super::index::conversations;
use super::record::in_a_column;
use super::style::{Style, StyledText, StyledWriter};
use super::table::{cut_end, width_of};
use super::{Console, json_line, on_one_line};
use crate::cli::Format;

/// How many lines of a terminal the text around a match takes at most.
const EXCERPT_LINES: usize = 3;
const INDENT: &str = "  ";

/// A message that was found, with what a command line calls its session.
#[derive(Debug, Clone)]
pub(crate) struct FoundMessage {
    pub(crate) hit: SearchHit,
    /// The session's id, as short as it can be typed.
    pub(crate) short_id: String,
    /// The agent, as typed on a command line.
    pub(crate) agent: String,
    /// The agent's name, if it has one.
    pub(crate) agent_name: Option<String>,
}

/// What the text for a person depends on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SearchView<'a> {
    /// The user's home directory, shown as `~`.
    pub(crate) home: Option<&'a Path>,
    pub(crate) now: Timestamp,
}

#[derive(Serialize)]
#[serde(tag = "action", rename = "search", rename_all = "camelCase")]
struct SearchObject<'a> {
    hits: Vec<HitObject<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<MissingObject>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    updating: bool,
}

#[derive(Serialize)]
struct MissingObject {
    sessions: u64,
    bytes: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HitObject<'a> {
    #[serde(flatten)]
    session: HitSessionObject<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<Timestamp>,
    role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<&'a str>,
    event: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_id: Option<&'a str>,
    excerpt: &'a str,
    matches: Vec<MatchObject>,
    command: String,
}

/// The session of a hit.
#[derive(Serialize)]
#[serde(tag = "origin", rename_all = "lowercase", rename_all_fields = "camelCase")]
enum HitSessionObject<'a> {
    Record {
        acpx_record_id: &'a str,
    },
    Transcript {
        native_session_id: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        parent_native_session_id: Option<&'a str>,
    },
}

/// Where a match begins and ends in the excerpt, in bytes.
#[derive(Serialize)]
struct MatchObject {
    start: usize,
    end: usize,
}

impl<'a> HitObject<'a> {
    fn of(found: &'a FoundMessage) -> Self {
        let hit = &found.hit;
        Self {
            session: match hit.origin {
                SessionOrigin::Record => HitSessionObject::Record { acpx_record_id: &hit.session },
                SessionOrigin::Transcript => HitSessionObject::Transcript {
                    native_session_id: &hit.session,
                    parent_native_session_id: hit.parent.as_deref(),
                },
            },
            agent_name: found.agent_name.as_deref(),
            cwd: hit.directory.as_deref(),
            title: hit.title.as_deref(),
            at: hit.at,
            role: hit.role.as_str(),
            tool: tool(hit),
            event: place(hit),
            message_id: hit.message.as_deref(),
            excerpt: &hit.excerpt,
            matches: hit
                .matches
                .iter()
                .map(|(start, end)| MatchObject { start: *start, end: *end })
                .collect(),
            command: command(found, &hit.session),
        }
    }
}

fn tool(hit: &SearchHit) -> Option<&str> {
    hit.tool.as_deref().filter(|tool| !tool.is_empty())
}

fn place(hit: &SearchHit) -> String {
    format!("seq:{}", hit.event)
}

/// The name of an origin in a column.
pub(super) fn origin_word(origin: SessionOrigin) -> &'static str {
    match origin {
        SessionOrigin::Record => "record",
        SessionOrigin::Transcript => "transcript",
    }
}

/// The command that shows the conversation from the message on.
fn command(found: &FoundMessage, id: &str) -> String {
    let id = crate::agents::quote(&on_one_line(id));
    format!("acpx {} sessions replay {id} --from {}", on_one_line(&found.agent), place(&found.hit))
}

/// Writes the messages, and on stderr what the index lacks.
pub(crate) fn search_hits(
    found: &[FoundMessage],
    progress: &IndexProgress,
    view: SearchView<'_>,
    console: &mut Console<'_>,
) -> io::Result<()> {
    match console.mode.format {
        Format::Json => json_line(&object(found, progress), &mut console.out)?,
        Format::Quiet => ids(found, console)?,
        Format::Text if console.mode.is_terminal => {
            let width = super::terminal_size().0.into();
            for (index, found) in found.iter().enumerate() {
                if index > 0 {
                    writeln!(console.out)?;
                }
                block(found, view, width, &mut console.out)?;
            }
        }
        Format::Text => found.iter().try_for_each(|found| line(found, console))?,
    }
    console.flush()?;
    if found.is_empty() {
        console.notice("no matches");
    }
    report_progress(progress, console);
    Ok(())
}

/// Reports on stderr what the index lacks.
pub(crate) fn report_progress(progress: &IndexProgress, console: &mut Console<'_>) {
    if progress.is_busy {
        console.notice("another process is updating the index; the newest messages may be missing");
    } else if progress.missing > 0 {
        let what = conversations(progress.missing, progress.missing_bytes);
        let are = if progress.missing == 1 { "is" } else { "are" };
        console.notice(&format!("{what} {are} not read yet; to read all of it now: acpx index update"));
    }
}

fn object<'a>(found: &'a [FoundMessage], progress: &IndexProgress) -> SearchObject<'a> {
    let IndexProgress { missing, missing_bytes, is_busy, .. } = progress;
    SearchObject {
        hits: found.iter().map(HitObject::of).collect(),
        missing: (*missing > 0).then_some(MissingObject { sessions: *missing, bytes: *missing_bytes }),
        updating: *is_busy,
    }
}

/// The ids of the sessions, each once.
fn ids(found: &[FoundMessage], console: &mut Console<'_>) -> io::Result<()> {
    for (index, message) in found.iter().enumerate() {
        let is_new = found.iter().take(index).all(|before| before.hit.session != message.hit.session);
        if is_new {
            writeln!(console.out, "{}", on_one_line(&message.hit.session))?;
        }
    }
    Ok(())
}

fn line(found: &FoundMessage, console: &mut Console<'_>) -> io::Result<()> {
    let hit = &found.hit;
    let at = hit.at.map_or_else(|| "-".to_owned(), |at| at.to_string());
    let column = |text: Option<&str>| text.map_or_else(|| "-".to_owned(), on_one_line);
    let columns = [
        origin_word(hit.origin).to_owned(),
        on_one_line(&hit.session),
        on_one_line(&hit.agent),
        column(hit.directory.as_deref()),
        at,
        hit.role.as_str().to_owned(),
        place(hit),
        in_a_column(hit.title.as_deref()),
        on_one_line(&hit.excerpt),
    ];
    writeln!(console.out, "{}", columns.join("\t"))
}

/// The block of a message: its session, the text around the matches, and the command that opens it.
fn block(
    found: &FoundMessage,
    view: SearchView<'_>,
    width: usize,
    out: &mut StyledWriter<'_>,
) -> io::Result<()> {
    let hit = &found.hit;
    let directory = hit
        .directory
        .as_deref()
        .map(|directory| below_home(Path::new(directory), view.home).unwrap_or_else(|| directory.to_owned()));
    let parts = [
        (Style::Accent, Some(found.short_id.clone())),
        (Style::Plain, Some(hit.agent.clone())),
        (Style::Plain, directory),
        (Style::Dim, hit.at.map(|at| ago(at, view.now))),
        (Style::Bold, hit.title.clone()),
    ];
    let mut room = width;
    let known = parts.into_iter().filter_map(|(style, text)| Some((style, on_one_line(&text?))));
    for (index, (style, text)) in known.filter(|(_, text)| !text.is_empty()).enumerate() {
        let gap = if index == 0 { "" } else { "  " };
        let text = cut_end(&text, room.saturating_sub(gap.len()));
        if text.is_empty() {
            break;
        }
        room -= gap.len() + width_of(&text);
        out.styled(Style::Plain, gap)?;
        out.styled(style, &text)?;
    }
    writeln!(out)?;
    let words = width.saturating_sub(INDENT.len()).max(1);
    for line in excerpt_lines(hit, words) {
        out.styled(Style::Plain, INDENT)?;
        out.text(&line)?;
        writeln!(out)?;
    }
    // A command is whole, so that it can be copied.
    out.styled(Style::Dim, &format!("{INDENT}{}\n", command(found, &found.short_id)))
}

/// The role, and the text with its matches, in lines of at most this width.
fn excerpt_lines(hit: &SearchHit, width: usize) -> Vec<StyledText> {
    let mut letters: Vec<(Style, char)> = Vec::new();
    let mut add = |style: Style, text: &str| letters.extend(on_one_line(text).chars().map(|it| (style, it)));
    let role = match tool(hit) {
        Some(tool) => format!("{} {tool}: ", hit.role.as_str()),
        None => format!("{}: ", hit.role.as_str()),
    };
    add(Style::Dim, &role);
    let mut from = 0;
    for (start, end) in &hit.matches {
        let (Some(before), Some(matched)) = (hit.excerpt.get(from..*start), hit.excerpt.get(*start..*end))
        else {
            continue;
        };
        add(Style::Plain, before);
        add(Style::Warning, matched);
        from = *end;
    }
    add(Style::Plain, hit.excerpt.get(from..).unwrap_or_default());
    let mut lines = wrapped(&letters, width);
    if lines.len() > EXCERPT_LINES {
        lines.truncate(EXCERPT_LINES);
        if let Some(last) = lines.last_mut() {
            while last.len() + 1 > width {
                last.pop();
            }
            last.push((Style::Plain, '…'));
        }
    }
    lines.iter().map(|line| styled(line)).collect()
}

/// Breaks a text between words; a longer word is broken within.
fn wrapped(letters: &[(Style, char)], width: usize) -> Vec<Vec<(Style, char)>> {
    let columns = |letters: &[(Style, char)]| -> usize {
        let text: String = letters.iter().map(|(_, letter)| letter).collect();
        width_of(&text)
    };
    let mut lines: Vec<Vec<(Style, char)>> = Vec::new();
    let mut line: Vec<(Style, char)> = Vec::new();
    for word in letters.split(|(_, letter)| letter.is_whitespace()).filter(|word| !word.is_empty()) {
        if !line.is_empty() {
            if columns(&line) + 1 + columns(word) <= width {
                line.push((Style::Plain, ' '));
            } else {
                lines.push(std::mem::take(&mut line));
            }
        }
        for letter in word {
            if columns(&line) + columns(&[*letter]) > width && !line.is_empty() {
                lines.push(std::mem::take(&mut line));
            }
            line.push(*letter);
        }
    }
    lines.push(line);
    lines
}

/// Joins letters of one style.
fn styled(letters: &[(Style, char)]) -> StyledText {
    let mut text = StyledText::default();
    for same in letters.chunk_by(|one, next| one.0 == next.0) {
        let style = same.first().map_or(Style::Plain, |(style, _)| *style);
        text = text.with(style, same.iter().map(|(_, letter)| letter).collect::<String>());
    }
    text
}

#[cfg(test)]
mod tests;
