//! The list of all sessions: records, and native transcripts that no record continues.

use std::io::{self, Write};
use std::path::Path;

use acpx_core::index::IndexedSession;
use acpx_core::model::Timestamp;
use serde::Serialize;

use super::banner::below_home;
use super::elapsed::ago;
use super::list::{ListedRecordObject, record_line, shown_id};
use super::record::in_a_column;
use super::session_table::{SESSION_COLUMNS, SessionRow, TableView, cells, session_columns};
use super::style::Style;
use super::table::{Align, Cell, Column, Fit, Table, cut_end};
use super::usage::compact;
use super::{Console, json_line, on_one_line};
use crate::cli::Format;

/// A session of a merged list.
#[derive(Debug, Clone)]
pub(crate) enum AnySession {
    /// A record.
    Record {
        row: Box<SessionRow>,
        /// How many prompts its conversation has.
        turns: u64,
        /// How many tokens its turns used, if the agent reported that.
        tokens: Option<u64>,
    },
    /// A session that only its agent has.
    Native(Box<NativeRow>),
}

/// A session that only its agent has.
#[derive(Debug, Clone)]
pub(crate) struct NativeRow {
    pub(crate) session: IndexedSession,
    /// Its id, as short as it can be typed.
    pub(crate) short_id: String,
}

impl AnySession {
    /// When it was used last.
    pub(crate) fn used_at(&self) -> Option<Timestamp> {
        match self {
            Self::Record { row, .. } => Some(row.record.updated_at),
            Self::Native(row) => row.session.updated_at,
        }
    }

    /// Whether it is a session of this directory.
    pub(crate) fn is_in(&self, real_directory: &Path) -> bool {
        match self {
            Self::Record { row, .. } => row.record.real_cwd.as_path() == real_directory,
            Self::Native(row) => row.session.real_directory.as_deref() == Some(real_directory),
        }
    }
}

#[derive(Serialize)]
#[serde(tag = "origin", rename_all = "lowercase")]
enum SessionObject<'a> {
    Record(Box<AnyRecordObject<'a>>),
    Transcript(NativeSessionObject<'a>),
}

#[derive(Serialize)]
struct AnyRecordObject<'a> {
    #[serde(flatten)]
    listed: ListedRecordObject<'a>,
    turns: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<u64>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NativeSessionObject<'a> {
    native_session_id: &'a str,
    agent_name: &'a str,
    path: &'a Path,
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    created_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_used_at: Option<Timestamp>,
    /// Unknown until the transcript is read.
    #[serde(skip_serializing_if = "Option::is_none")]
    turns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<u64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    archived: bool,
}

impl<'a> SessionObject<'a> {
    fn of(listed: &'a AnySession) -> Self {
        match listed {
            AnySession::Record { row, turns, tokens } => Self::Record(Box::new(AnyRecordObject {
                listed: ListedRecordObject::of(&row.record, Some(row.state)),
                turns: *turns,
                tokens: *tokens,
            })),
            AnySession::Native(row) => {
                let session = &row.session;
                Self::Transcript(NativeSessionObject {
                    native_session_id: &session.session,
                    agent_name: &session.agent,
                    path: &session.path,
                    cwd: session.directory.as_deref(),
                    title: session.title.as_deref(),
                    created_at: session.created_at,
                    last_used_at: session.updated_at,
                    turns: session.is_read.then_some(session.prompts),
                    tokens: session.tokens,
                    archived: session.is_archived,
                })
            }
        }
    }
}

/// Writes the sessions: a table on a terminal, with a line how to see the others if there are more; otherwise lines, ids
/// or one JSON array.
pub(crate) fn all_sessions(
    rows: &[AnySession],
    view: TableView<'_>,
    has_more: bool,
    console: &mut Console<'_>,
) -> io::Result<()> {
    match console.mode.format {
        Format::Json => {
            let objects: Vec<SessionObject<'_>> = rows.iter().map(SessionObject::of).collect();
            json_line(&objects, &mut console.out)?;
        }
        Format::Quiet => rows.iter().try_for_each(|row| writeln!(console.out, "{}", id(row)))?,
        Format::Text if rows.is_empty() => writeln!(console.out, "No sessions")?,
        Format::Text if console.mode.is_terminal => {
            let width = super::terminal_size().0.into();
            table(rows, view).write(width, &mut console.out)?;
            if has_more {
                let words = format!("Only {} are shown: --limit N shows more", rows.len());
                console.out.styled(Style::Dim, &format!("{}\n", cut_end(&words, width)))?;
            }
        }
        Format::Text => rows.iter().try_for_each(|row| line(row, &mut console.out))?,
    }
    console.flush()
}

fn id(row: &AnySession) -> String {
    match row {
        AnySession::Record { row, .. } => shown_id(&row.record),
        AnySession::Native(row) => {
            let archived = if row.session.is_archived { " [archived]" } else { "" };
            format!("{} [native]{archived}", on_one_line(&row.session.session))
        }
    }
}

/// The columns of `sessions list`, then the turns and the tokens.
fn line(row: &AnySession, out: &mut dyn Write) -> io::Result<()> {
    let count = |count: Option<u64>| count.map_or_else(|| "-".to_owned(), |count| count.to_string());
    let (columns, turns, tokens) = match row {
        AnySession::Record { row, turns, tokens } => (record_line(&row.record), Some(*turns), *tokens),
        AnySession::Native(native) => {
            let session = &native.session;
            let at = session.updated_at.map_or_else(|| "-".to_owned(), |at| at.to_string());
            let cwd = session.directory.as_deref().map_or_else(|| "-".to_owned(), on_one_line);
            let [agent, title] = [Some(&*session.agent), session.title.as_deref()].map(in_a_column);
            let columns = format!("{}\t-\t{cwd}\t{at}\t{agent}\t{title}", id(row));
            (columns, session.is_read.then_some(session.prompts), session.tokens)
        }
    };
    writeln!(out, "{columns}\t{}\t{}", count(turns), count(tokens))
}

/// The columns of the merged list.
const COLUMNS: usize = SESSION_COLUMNS + 1;

/// The table of the merged list: turns and tokens are in the place of the cost.
fn table(rows: &[AnySession], view: TableView<'_>) -> Table<COLUMNS> {
    let [state, agent, session, directory, used, _cost, id] = session_columns();
    let number = |title, rank| Column { title, fit: Fit::Whole, align: Align::Right, rank };
    let row = |listed: &AnySession| {
        let [state, agent, session, directory, used, _cost, id] = any_cells(listed, view);
        let (turns, tokens) = match listed {
            AnySession::Record { turns, tokens, .. } => (Some(*turns), *tokens),
            AnySession::Native(row) => {
                (row.session.is_read.then_some(row.session.prompts), row.session.tokens)
            }
        };
        let style = used.style;
        let count = |count: Option<u64>| Cell { text: count.map(compact).unwrap_or_default(), style };
        [state, agent, session, directory, used, count(turns), count(tokens), id]
    };
    Table {
        columns: [state, agent, session, directory, used, number("TURNS", 6), number("TOKENS", 5), id],
        rows: rows.iter().map(row).collect(),
    }
}

/// The table of the session picker.
pub(crate) fn any_session_table(rows: &[AnySession], view: TableView<'_>) -> Table<SESSION_COLUMNS> {
    Table { columns: session_columns(), rows: rows.iter().map(|row| any_cells(row, view)).collect() }
}

fn any_cells(row: &AnySession, view: TableView<'_>) -> [Cell; SESSION_COLUMNS] {
    let NativeRow { session, short_id } = match row {
        AnySession::Record { row, .. } => return cells(row, view),
        AnySession::Native(row) => &**row,
    };
    let is_here = row.is_in(view.here);
    let directory = match session.directory.as_deref() {
        _ if is_here => ".".to_owned(),
        Some(directory) => {
            on_one_line(&below_home(Path::new(directory), view.home).unwrap_or_else(|| directory.to_owned()))
        }
        None => "-".to_owned(),
    };
    let cell = |style, text: String| Cell { text, style };
    [
        cell(Style::Accent, if session.is_archived { "archived" } else { "native" }.to_owned()),
        cell(Style::Plain, in_a_column(Some(&session.agent))),
        cell(if is_here { Style::Bold } else { Style::Plain }, in_a_column(session.title.as_deref())),
        cell(Style::Plain, directory),
        cell(Style::Plain, session.updated_at.map(|at| ago(at, view.now)).unwrap_or_default()),
        Cell::default(),
        cell(Style::Dim, short_id.clone()),
    ]
}

#[cfg(test)]
mod tests {
    use acpx_core::index::SessionOrigin;

    use super::super::OutputMode;
    use super::super::session_table::tests::{rows as records, view};
    use super::super::tests::samples::at;
    use super::*;

    fn native(title: Option<&str>, is_read: bool) -> AnySession {
        let session = IndexedSession {
            origin: SessionOrigin::Transcript,
            agent: "claude".to_owned(),
            session: "3f2a9c1e-bbbb".to_owned(),
            path: "/home/ada/.claude/projects/-w/3f2a9c1e-bbbb.jsonl".into(),
            directory: is_read.then(|| "/home/ada/src\u{1b}[2J/shop".to_owned()),
            real_directory: is_read.then(|| "/home/ada/src/shop".into()),
            title: title.map(str::to_owned),
            created_at: None,
            updated_at: Some(at(60)),
            prompts: 3,
            tokens: is_read.then_some(12_345),
            is_archived: false,
            is_read,
            unread: 0,
        };
        AnySession::Native(Box::new(NativeRow { session, short_id: "3f2a9c1e".to_owned() }))
    }

    fn rows() -> Vec<AnySession> {
        let mut records = records().into_iter();
        let first =
            AnySession::Record { row: Box::new(records.next().unwrap()), turns: 3, tokens: Some(950) };
        vec![first, native(Some("Fix the\ttests"), true), native(None, false)]
    }

    fn written(format: Format, is_terminal: bool) -> String {
        let mut bytes = Vec::new();
        let mode = OutputMode { format, is_terminal, ..OutputMode::default() };
        let mut console = Console::over(mode, &mut bytes, io::sink());
        all_sessions(&rows(), view(), true, &mut console).unwrap();
        drop(console);
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn archived_native_session_is_marked_in_every_list() {
        let AnySession::Native(mut row) = native(None, true) else { panic!("it is a native session") };
        row.session.is_archived = true;
        let row = AnySession::Native(row);
        assert_eq!(id(&row), "3f2a9c1e-bbbb [native] [archived]");
        assert_eq!(any_cells(&row, view())[0].text, "archived");
    }

    #[test]
    fn all_sessions_are_a_table_on_a_terminal_with_native_ones_marked() {
        insta::assert_snapshot!(written(Format::Text, true), @r"
        STATE    AGENT   SESSION        DIRECTORY     USED       TURNS  TOKENS  ID
        waiting  claude  api            .             2 min ago      3     950  019a5f3c
        native   claude  Fix the tests  ~/s…[2J/shop  2 min ago      3     12k  3f2a9c1e
        native   claude  -              -             2 min ago                 3f2a9c1e
        Only 3 are shown: --limit N shows more
        ");
    }

    #[test]
    fn all_sessions_in_a_pipe_have_turns_tokens_and_their_origin() {
        insta::assert_snapshot!(written(Format::Text, false).replace('\t', "|"), @r"
        r1|api|/w|2023-11-14T22:14:20.000Z|claude|A title|3|950
        3f2a9c1e-bbbb [native]|-|/home/ada/src[2J/shop|2023-11-14T22:14:20.000Z|claude|Fix the tests|3|12345
        3f2a9c1e-bbbb [native]|-|-|2023-11-14T22:14:20.000Z|claude|-|-|-
        ");
        insta::assert_snapshot!(written(Format::Quiet, false), @r"
        r1
        3f2a9c1e-bbbb [native]
        3f2a9c1e-bbbb [native]
        ");
        insta::assert_snapshot!(written(Format::Json, false), @r#"[{"origin":"record","acpxRecordId":"r1","acpxSessionId":"s2","agentName":"claude","agentCommand":"npx -y 'an agent'","agentArgv":["npx","-y","an agent"],"cwd":"/w","name":"api","title":"A\ntitle","createdAt":"2023-11-14T22:13:20.000Z","lastUsedAt":"2023-11-14T22:14:20.000Z","lastSeq":9,"closed":false,"state":"waiting","turns":3,"tokens":950},{"origin":"transcript","nativeSessionId":"3f2a9c1e-bbbb","agentName":"claude","path":"/home/ada/.claude/projects/-w/3f2a9c1e-bbbb.jsonl","cwd":"/home/ada/src\u001b[2J/shop","title":"Fix the\ttests","lastUsedAt":"2023-11-14T22:14:20.000Z","turns":3,"tokens":12345},{"origin":"transcript","nativeSessionId":"3f2a9c1e-bbbb","agentName":"claude","path":"/home/ada/.claude/projects/-w/3f2a9c1e-bbbb.jsonl","lastUsedAt":"2023-11-14T22:14:20.000Z"}]"#);
    }
}
