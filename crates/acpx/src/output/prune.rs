//! The output of `sessions prune`: what would go, what went, and what stays.

use std::io::{self, Write as _};

use acpx_core::model::{Record, Timestamp};
use serde::Serialize;

use super::Console;
use super::byte_size::byte_size;
use super::elapsed::ago;
use super::record::{closed_at, in_a_column, name};
use super::session_table::{SessionRow, TableView, directory};
use super::style::Style;
use super::table::{Align, Cell, Column, Fit, Table};

/// How many sessions a terminal lists before the question.
const LISTED: usize = 40;

/// A session to delete.
#[derive(Debug, Clone)]
pub(crate) struct PrunedSession {
    pub(crate) row: SessionRow,
    /// The bytes of its conversation.
    pub(crate) size: u64,
}

/// What `sessions prune` did, or would do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PruneReport<'a> {
    /// The sessions that went, or would go.
    pub(crate) pruned: &'a [&'a Record],
    /// The sessions that match and stay, because they have work.
    pub(crate) skipped: &'a [String],
    /// The sessions that match and could not be deleted.
    pub(crate) failed: &'a [FailedDeletion],
    pub(crate) outcome: PruneOutcome,
}

/// A session that could not be deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FailedDeletion {
    /// Its record.
    pub(crate) acpx_record_id: String,
    /// Why.
    pub(crate) message: String,
}

/// What became of the sessions. The two sizes are different measures: a file has free pages, and an index.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PruneOutcome {
    /// Nothing; this is the size of their conversations.
    DryRun { content_bytes: u64 },
    /// They were deleted, and the store's files shrank by this much.
    Deleted { bytes_freed: u64 },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PruneObject<'a> {
    dry_run: bool,
    count: usize,
    bytes_freed: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_bytes: Option<u64>,
    pruned: Vec<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    skipped: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    failed: &'a [FailedDeletion],
}

/// When a session was closed, or else last used: what its age counts from.
pub(crate) fn age_from(record: &Record) -> Timestamp {
    closed_at(record).unwrap_or(record.updated_at)
}

/// Writes what went.
pub(crate) fn pruned(report: PruneReport<'_>, console: &mut Console<'_>) -> io::Result<()> {
    let PruneReport { pruned, skipped, failed, outcome } = report;
    let (action, content_bytes, bytes_freed) = match outcome {
        PruneOutcome::DryRun { content_bytes } => ("sessions_prune_dry_run", Some(content_bytes), 0),
        PruneOutcome::Deleted { bytes_freed } => ("sessions_pruned", None, bytes_freed),
    };
    let ids: Vec<&str> = pruned.iter().map(|record| record.id.as_str()).collect();
    let quiet = (!ids.is_empty()).then(|| ids.join("\n"));
    let (dry_run, count) = (content_bytes.is_some(), ids.len());
    let object = PruneObject { dry_run, count, bytes_freed, content_bytes, pruned: ids, skipped, failed };
    let lines = |record: &&Record| {
        let name = name(record).map_or_else(String::new, |name| format!(" ({name})"));
        format!("\n  {}{name}\t{}", record.id, age_from(record))
    };
    let mut text = summary(report);
    // On a terminal the table has shown them.
    if !console.mode.is_terminal {
        text.extend(pruned.iter().map(lines));
    }
    console.result(action, &object, Some(&text), quiet.as_deref())?;
    if !skipped.is_empty() {
        let (sessions, have) =
            if skipped.len() == 1 { ("session stays", "it has") } else { ("sessions stay", "they have") };
        let ids = skipped.join(", ");
        console.banner(&format!(
            "{} {sessions}, because {have} a turn or a pending request: {ids}",
            skipped.len()
        ));
    }
    for FailedDeletion { acpx_record_id, message } in failed {
        console.banner(&format!("the session {acpx_record_id} could not be deleted: {message}"));
    }
    Ok(())
}

fn summary(report: PruneReport<'_>) -> String {
    let sessions = sessions(report.pruned.len());
    match (report.outcome, report.pruned.is_empty()) {
        (PruneOutcome::DryRun { .. }, true) => "[DRY RUN] No sessions to prune".to_owned(),
        (PruneOutcome::DryRun { .. }, false) => format!("[DRY RUN] Would prune {sessions}"),
        (PruneOutcome::Deleted { .. }, true) => "No sessions pruned".to_owned(),
        (PruneOutcome::Deleted { bytes_freed }, false) => {
            format!("Pruned {sessions}, freed {}", byte_size(bytes_freed))
        }
    }
}

fn sessions(count: usize) -> String {
    if count == 1 { "1 session".to_owned() } else { format!("{count} sessions") }
}

/// Asks whether to delete these sessions.
pub(crate) fn prune_question(sessions: &[PrunedSession]) -> String {
    let size = byte_size(sessions.iter().map(|session| session.size).sum());
    let words = self::sessions(sessions.len());
    format!("Delete {words} with {size} of conversation, for good? (y/N) ")
}

/// Writes a table of the sessions to delete, the first ones if there are many.
pub(crate) fn prune_table(
    sessions: &[PrunedSession],
    view: TableView<'_>,
    console: &mut Console<'_>,
) -> io::Result<()> {
    let column = |title, fit, rank| Column { title, fit, align: Align::Left, rank };
    let shown = sessions.iter().take(LISTED);
    let table = Table {
        columns: [
            column("STATE", Fit::Whole, 2),
            column("AGENT", Fit::CutEnd(8), 3),
            column("SESSION", Fit::CutEnd(16), 0),
            column("DIRECTORY", Fit::CutMiddle(12), 4),
            column("CLOSED OR USED", Fit::Whole, 1),
            column("SIZE", Fit::Whole, 0),
            column("ID", Fit::Whole, 0),
        ],
        rows: shown.map(|session| cells(session, view)).collect(),
    };
    table.write(super::terminal_size().0.into(), &mut console.out)?;
    if let Some(more) = sessions.len().checked_sub(LISTED).filter(|more| *more > 0) {
        writeln!(console.out, "and {more} more")?;
    }
    console.flush()
}

fn cells(session: &PrunedSession, view: TableView<'_>) -> [Cell; 7] {
    let PrunedSession { row: SessionRow { record, state, short_id }, size } = session;
    let is_here = record.real_cwd.as_path() == view.here;
    let named = name(record).map_or_else(|| in_a_column(record.info.title()), ToString::to_string);
    let cell = |style, text: String| Cell { text, style };
    [
        cell(state.style(), state.word().to_owned()),
        cell(Style::Plain, in_a_column(Some(&record.agent.label()))),
        cell(Style::Plain, named),
        cell(Style::Plain, directory(record, is_here, view.home)),
        cell(Style::Plain, ago(age_from(record), view.now)),
        cell(Style::Plain, byte_size(*size)),
        cell(Style::Dim, short_id.clone()),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::session_table::tests::{rows, view};
    use super::super::{Format, OutputMode};
    use super::*;

    fn written(is_terminal: bool, format: Format, write: impl FnOnce(&mut Console<'_>)) -> String {
        let mut bytes = Vec::new();
        let mode = OutputMode { format, is_terminal, ..Default::default() };
        let mut console = Console::over(mode, &mut bytes, io::sink());
        write(&mut console);
        drop(console);
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn prune_table_shows_size_age_and_id_of_each_session() {
        let sessions: Vec<PrunedSession> = rows()
            .into_iter()
            .zip([0, 2048, 5 << 20, 7])
            .map(|(row, size)| PrunedSession { row, size })
            .collect();
        let table = written(true, Format::Text, |console| prune_table(&sessions, view(), console).unwrap());
        insta::assert_snapshot!(table, @r"
        STATE    AGENT        SESSION                 CLOSED OR USED  SIZE    ID
        waiting  claude       api                     2 min ago       0 B     019a5f3c
        working  ./mine --a…  Mend the roof now       2 min ago       2.0 KB  019a5f3d-7
        parked   ./mine --a…  屋根を直す 屋根を直す…  2 min ago       5.0 MB  019a5f3d-8
        closed   ./mine --a…  -                       2 min ago       7 B     ses_1234
        ");
        assert_eq!(
            prune_question(&sessions),
            "Delete 4 sessions with 5.0 MB of conversation, for good? (y/N) "
        );
    }

    #[test]
    fn pruned_sessions_are_written_as_npm_acpx_does() {
        let rows = rows();
        let records: Vec<&Record> = rows.iter().map(|row| &row.record).take(2).collect();
        let report = |is_dry_run, pruned| PruneReport {
            pruned,
            skipped: &[],
            failed: &[],
            outcome: if is_dry_run {
                PruneOutcome::DryRun { content_bytes: 9000 }
            } else {
                PruneOutcome::Deleted { bytes_freed: 12_186 }
            },
        };
        let text = |report| written(false, Format::Text, |console| pruned(report, console).unwrap());
        let listed = "  r1 (api)\t2023-11-14T22:14:20.000Z\n";
        let second = "  r1\t2023-11-14T22:14:30.000Z\n";
        assert_eq!(
            text(report(false, &records)),
            format!("Pruned 2 sessions, freed 11.9 KB\n{listed}{second}")
        );
        assert_eq!(text(report(true, &records[..1])), format!("[DRY RUN] Would prune 1 session\n{listed}"));
        assert_eq!(text(report(false, &[])), "No sessions pruned\n");
        assert_eq!(text(report(true, &[])), "[DRY RUN] No sessions to prune\n");
        let json =
            written(false, Format::Json, |console| pruned(report(false, &records[..1]), console).unwrap());
        let object =
            r#"{"action":"sessions_pruned","dryRun":false,"count":1,"bytesFreed":12186,"pruned":["r1"]}"#;
        assert_eq!(json, format!("{object}\n"));
    }
}
