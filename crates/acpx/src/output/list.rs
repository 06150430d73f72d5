//! Lists sessions: stored records, and sessions that only the agent has.

use std::io::{self, Write};

use acpx_core::model::{AcpSessionId, Record, SessionUsage, Timestamp};
use serde::Serialize;

use super::record::{RecordObject, closed_at, in_a_column, shown_directory, shown_name};
use super::sanitize::on_one_line;
use super::session_table::ListedState;
use super::{Console, json_line};
use crate::cli::Format;

/// One session of a list.
#[derive(Debug, Clone)]
pub(crate) enum ListRow<'a> {
    /// A stored record, and what it is doing if the format shows that.
    Kept(&'a Record, Option<ListedState>),
    /// A session that only the agent has.
    Remote(RemoteSessionRow),
}

/// A session in an agent's own list. It has no record, so it has no record id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RemoteSessionRow {
    #[serde(rename = "acpxSessionId")]
    pub(crate) session: AcpSessionId,
    /// Its agent, for people.
    #[serde(skip)]
    pub(crate) agent: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cwd: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) updated_at: Option<Timestamp>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum RowObject<'a> {
    Kept(Box<ListedRecordObject<'a>>),
    Remote(&'a RemoteSessionRow),
}

/// A record as lists have it.
#[derive(Serialize)]
pub(super) struct ListedRecordObject<'a> {
    #[serde(flatten)]
    record: RecordObject<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<ListedState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<&'a SessionUsage>,
}

impl<'a> ListedRecordObject<'a> {
    pub(super) fn of(record: &'a Record, state: Option<ListedState>) -> Self {
        Self { record: record.into(), state, usage: record.info.usage.as_ref() }
    }
}

/// A page of a list, in npm acpx's form.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PageObject<'a> {
    source: &'static str,
    sessions: Vec<RowObject<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<&'a str>,
}

/// Writes the stored records. JSON is one array.
pub(crate) fn list(rows: &[ListRow<'_>], console: &mut Console<'_>) -> io::Result<()> {
    match console.mode.format {
        Format::Json => json_line(&objects(rows), &mut console.out)?,
        Format::Quiet | Format::Text => lines(rows, console)?,
    }
    console.flush()
}

/// Writes a page of the stored records, with the cursor of the next one if there is one.
pub(crate) fn list_page(
    rows: &[ListRow<'_>],
    next_cursor: Option<&str>,
    console: &mut Console<'_>,
) -> io::Result<()> {
    match console.mode.format {
        Format::Json => {
            let page = PageObject { source: "local", sessions: objects(rows), next_cursor };
            json_line(&page, &mut console.out)?;
        }
        Format::Quiet => lines(rows, console)?,
        Format::Text => {
            lines(rows, console)?;
            if let Some(cursor) = next_cursor {
                writeln!(console.out, "Next cursor: {cursor}")?;
            }
        }
    }
    console.flush()
}

/// Writes a page of an agent's own list, with the cursor of the next one if there is one.
pub(crate) fn remote_list(
    rows: &[ListRow<'_>],
    next_cursor: Option<&str>,
    console: &mut Console<'_>,
) -> io::Result<()> {
    if console.mode.format == Format::Json {
        let page = PageObject { source: "agent", sessions: objects(rows), next_cursor };
        json_line(&page, &mut console.out)?;
        return console.flush();
    }
    lines(rows, console)?;
    console.flush()?;
    if let Some(cursor) = next_cursor {
        console.notice(&format!("more: --cursor {}", crate::agents::quote(cursor)));
    }
    Ok(())
}

fn objects<'a>(rows: &'a [ListRow<'a>]) -> Vec<RowObject<'a>> {
    let object = |row: &'a ListRow<'a>| match row {
        ListRow::Kept(record, state) => RowObject::Kept(Box::new(ListedRecordObject::of(record, *state))),
        ListRow::Remote(session) => RowObject::Remote(session),
    };
    rows.iter().map(object).collect()
}

fn lines(rows: &[ListRow<'_>], console: &mut Console<'_>) -> io::Result<()> {
    match console.mode.format {
        Format::Quiet => {
            for row in rows {
                match row {
                    ListRow::Kept(record, _) => writeln!(console.out, "{}", shown_id(record)),
                    ListRow::Remote(session) => {
                        writeln!(console.out, "{}", on_one_line(session.session.as_str()))
                    }
                }?;
            }
        }
        Format::Text | Format::Json => text(rows, &mut console.out)?,
    }
    Ok(())
}

fn text(rows: &[ListRow<'_>], out: &mut dyn Write) -> io::Result<()> {
    if rows.is_empty() {
        return writeln!(out, "No sessions");
    }
    for row in rows {
        match row {
            ListRow::Kept(record, _) => writeln!(out, "{}", record_line(record))?,
            ListRow::Remote(session) => {
                let at = session.updated_at.map_or_else(|| "-".to_owned(), |at| at.to_string());
                let (id, cwd) = (session.session.as_str(), session.cwd.as_deref().unwrap_or("-"));
                let (id, cwd) = (on_one_line(id), on_one_line(cwd));
                let [agent, title] = [Some(&*session.agent), session.title.as_deref()].map(in_a_column);
                writeln!(out, "{id} [remote]\t-\t{cwd}\t{at}\t{agent}\t{title}")?;
            }
        }
    }
    Ok(())
}

/// The columns of a record: id, name, directory, last use, agent and title.
pub(super) fn record_line(record: &Record) -> String {
    let (id, name, cwd) = (shown_id(record), shown_name(record), shown_directory(record));
    let (at, agent) = (record.updated_at, in_a_column(Some(&record.agent.label())));
    let title = in_a_column(record.info.title());
    format!("{id}\t{name}\t{cwd}\t{at}\t{agent}\t{title}")
}

/// The id, with a mark if the session is closed, as npm acpx writes it.
pub(super) fn shown_id(record: &Record) -> String {
    let closed = if closed_at(record).is_some() { " [closed]" } else { "" };
    format!("{}{closed}", record.id)
}
