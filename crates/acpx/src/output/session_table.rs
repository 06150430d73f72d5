//! The list of sessions on a terminal: a table with one line for each session.

use std::io::{self, Write as _};
use std::path::Path;

use acpx_core::model::{Record, Timestamp};
use serde::Serialize;

use super::Console;
use super::banner::below_home;
use super::elapsed::ago;
use super::record::{in_a_column, name, shown_directory};
use super::style::Style;
use super::table::{Align, Cell, Column, Fit, Table};
use super::turn::cost;

/// What a session is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ListedState {
    /// A turn runs.
    Working,
    /// A turn runs, and a request of its agent waits for an answer.
    Waiting,
    /// Prompts wait, and no turn runs.
    Queued,
    /// Its agent runs and waits for a prompt.
    Idle,
    /// No agent runs; the next prompt starts one.
    Parked,
    /// It is closed.
    Closed,
}

impl ListedState {
    /// Its name.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::Waiting => "waiting",
            Self::Queued => "queued",
            Self::Idle => "idle",
            Self::Parked => "parked",
            Self::Closed => "closed",
        }
    }

    pub(super) fn style(self) -> Style {
        match self {
            Self::Working => Style::Good,
            Self::Waiting => Style::Warning,
            Self::Queued => Style::Accent,
            Self::Idle => Style::Plain,
            Self::Parked | Self::Closed => Style::Dim,
        }
    }
}

/// A session of a table.
#[derive(Debug, Clone)]
pub(crate) struct SessionRow {
    pub(crate) record: Record,
    pub(crate) state: ListedState,
    /// Its id, as short as it can be typed.
    pub(crate) short_id: String,
}

/// What the cells of a table depend on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TableView<'a> {
    /// The current directory, with links resolved. It is shown as a dot.
    pub(crate) here: &'a Path,
    /// The user's home directory, shown as `~`.
    pub(crate) home: Option<&'a Path>,
    pub(crate) now: Timestamp,
}

/// The columns of a list of sessions.
pub(crate) const SESSION_COLUMNS: usize = 7;

/// The table of these sessions.
pub(crate) fn session_table(rows: &[SessionRow], view: TableView<'_>) -> Table<SESSION_COLUMNS> {
    Table { columns: session_columns(), rows: rows.iter().map(|row| cells(row, view)).collect() }
}

pub(super) fn session_columns() -> [Column; SESSION_COLUMNS] {
    let column = |title, fit, rank| Column { title, fit, align: Align::Left, rank };
    [
        column("STATE", Fit::Whole, 1),
        column("AGENT", Fit::CutEnd(8), 2),
        column("SESSION", Fit::CutEnd(16), 0),
        column("DIRECTORY", Fit::CutMiddle(12), 4),
        column("USED", Fit::Whole, 3),
        column("COST", Fit::Whole, 5),
        column("ID", Fit::Whole, 0),
    ]
}

pub(super) fn cells(row: &SessionRow, view: TableView<'_>) -> [Cell; SESSION_COLUMNS] {
    let SessionRow { record, state, short_id } = row;
    let is_here = record.real_cwd.as_path() == view.here;
    let named = name(record).map_or_else(|| in_a_column(record.info.title()), ToString::to_string);
    let usage = record.info.usage.as_ref().and_then(|usage| usage.cost.as_ref());
    let cell = |style, text: String| Cell { text, style };
    let faded = if *state == ListedState::Closed { Style::Dim } else { Style::Plain };
    [
        cell(state.style(), state.word().to_owned()),
        cell(faded, in_a_column(Some(&record.agent.label()))),
        cell(if is_here && faded == Style::Plain { Style::Bold } else { faded }, named),
        cell(faded, directory(record, is_here, view.home)),
        cell(faded, ago(record.updated_at, view.now)),
        cell(faded, usage.map(cost).unwrap_or_default()),
        cell(Style::Dim, short_id.clone()),
    ]
}

/// The directory: a dot for the current one, `~` for the home.
pub(super) fn directory(record: &Record, is_here: bool, home: Option<&Path>) -> String {
    if is_here {
        return ".".to_owned();
    }
    let below = below_home(record.cwd.as_path(), home).map(|path| super::on_one_line(&path));
    below.unwrap_or_else(|| shown_directory(record))
}

/// Writes the table of these sessions, with a line how to see the others if there are more. Without sessions it says how
/// to start one with this agent, as typed on a command line.
pub(crate) fn sessions_on_terminal(
    rows: &[SessionRow],
    view: TableView<'_>,
    has_more: bool,
    agent: &str,
    console: &mut Console<'_>,
) -> io::Result<()> {
    if rows.is_empty() {
        writeln!(console.out, "No sessions. Start one: acpx {agent} 'your prompt'")?;
        return console.flush();
    }
    let width = super::terminal_size().0.into();
    session_table(rows, view).write(width, &mut console.out)?;
    if has_more {
        let words = format!("Only {} are shown: --limit N shows more", rows.len());
        console.out.styled(Style::Dim, &format!("{}\n", super::table::cut_end(&words, width)))?;
    }
    console.flush()
}

#[cfg(test)]
pub(crate) mod tests {
    use acpx_core::model::{AbsolutePath, Cost, SessionInfo, SessionUsage};

    use super::super::style::StyledWriter;
    use super::super::tests::samples::{at, bare_record, record};
    use super::*;
    use crate::cli::Format;

    pub(crate) fn rows() -> Vec<SessionRow> {
        let row = |record: Record, state, short_id: &str| SessionRow {
            record,
            state,
            short_id: short_id.to_owned(),
        };
        let within = |cwd: &str, record: Record| {
            let cwd = AbsolutePath::new(cwd).unwrap();
            Record { cwd: cwd.clone(), real_cwd: cwd, ..record }
        };
        let titled = |title: &str, amount: Option<f64>| {
            let cost = |amount| Cost {
                amount: serde_json::Number::from_f64(amount).unwrap(),
                currency: "USD".to_owned(),
            };
            let usage = amount.map(|amount| SessionUsage { used: 1, size: 2, cost: Some(cost(amount)) });
            let info = SessionInfo { title: Some(title.to_owned()), user_title: None, usage };
            Record { info, ..bare_record() }
        };
        vec![
            row(record(), ListedState::Waiting, "019a5f3c"),
            row(
                within("/home/ada/src/very/deep/inside/module", titled("Mend the roof\nnow", Some(1.234))),
                ListedState::Working,
                "019a5f3d-7",
            ),
            row(
                within("/home/ada", titled("屋根を直す 屋根を直す 屋根を直す", None)),
                ListedState::Parked,
                "019a5f3d-8",
            ),
            row(within("/srv/\u{1b}[2Jx", bare_record()), ListedState::Closed, "ses_1234"),
        ]
    }

    pub(crate) fn view() -> TableView<'static> {
        TableView { here: Path::new("/w"), home: Some(Path::new("/home/ada")), now: at(60 + 130) }
    }

    fn shown(width: usize) -> String {
        let view = view();
        let mut bytes = Vec::new();
        let mut out = StyledWriter::new(&mut bytes, Format::Text, true, false);
        session_table(&rows(), view).write(width, &mut out).unwrap();
        drop(out);
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn session_table_fits_wide_usual_narrow_and_tiny_terminals() {
        insta::assert_snapshot!(shown(120), @r"
        STATE    AGENT         SESSION                           DIRECTORY                      USED       COST   ID
        waiting  claude        api                               .                              2 min ago         019a5f3c
        working  ./mine --acp  Mend the roof now                 ~/src/very/deep/inside/module  2 min ago  $1.23  019a5f3d-7
        parked   ./mine --acp  屋根を直す 屋根を直す 屋根を直す  ~                              2 min ago         019a5f3d-8
        closed   ./mine --acp  -                                 /srv/[2Jx                      2 min ago         ses_1234
        ");
        insta::assert_snapshot!(shown(80), @r"
        STATE    AGENT      SESSION           DIRECTORY     USED       COST   ID
        waiting  claude     api               .             2 min ago         019a5f3c
        working  ./mine -…  Mend the roof n…  ~/s…e/module  2 min ago  $1.23  019a5f3d-7
        parked   ./mine -…  屋根を直す 屋根…  ~             2 min ago         019a5f3d-8
        closed   ./mine -…  -                 /srv/[2Jx     2 min ago         ses_1234
        ");
        insta::assert_snapshot!(shown(40), @r"
        STATE    SESSION              ID
        waiting  api                  019a5f3c
        working  Mend the roof now    019a5f3d-7
        parked   屋根を直す 屋根を…   019a5f3d-8
        closed   -                    ses_1234
        ");
        insta::assert_snapshot!(shown(20), @r"
        SESSION   ID
        api       019a5f3c
        Mend th…  019a5f3d-7
        屋根を…   019a5f3d-8
        -         ses_1234
        ");
    }

    #[test]
    fn session_table_names_the_next_command_if_empty_or_cut() {
        let view = TableView { here: Path::new("/w"), home: None, now: at(60) };
        let written = |rows: &[SessionRow], has_more| {
            let mut bytes = Vec::new();
            let mode = super::super::OutputMode { is_terminal: true, ..Default::default() };
            let mut console = Console::over(mode, &mut bytes, std::io::sink());
            sessions_on_terminal(rows, view, has_more, "claude", &mut console).unwrap();
            drop(console);
            String::from_utf8(bytes).unwrap()
        };
        assert_eq!(written(&[], false), "No sessions. Start one: acpx claude 'your prompt'\n");
        assert!(written(&rows(), true).ends_with("\nOnly 4 are shown: --limit N shows more\n"));
        assert_eq!(written(&rows(), false).lines().count(), 5);
    }
}
