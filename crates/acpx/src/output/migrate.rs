//! What came of taking over the sessions of npm acpx, file by file.

use std::io::{self, Write};

use acpx_core::model::{AcpSessionId, RecordId};
use serde::Serialize;

use super::{Console, json_line};
use crate::cli::Format;

/// What was taken over, and what was not.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MigrateReport {
    /// Records that are new here.
    pub(crate) taken: Vec<MigratedRecord>,
    /// Records that came before and have grown.
    pub(crate) grown: Vec<MigratedRecord>,
    /// How many are as they were when they came.
    pub(crate) unchanged: usize,
    /// Files that were left alone.
    pub(crate) left: Vec<LeftFile>,
    /// Files that are no record.
    pub(crate) damaged: Vec<LeftFile>,
}

/// A record that came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MigratedRecord {
    pub(crate) file: String,
    #[serde(rename = "acpxRecordId")]
    pub(crate) record: RecordId,
    #[serde(rename = "acpxSessionId")]
    pub(crate) session: AcpSessionId,
    pub(crate) turns: u64,
    /// What a person should know of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) notes: Vec<String>,
}

/// A file that did not come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct LeftFile {
    pub(crate) file: String,
    pub(crate) reason: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MigrateObject<'a> {
    action: &'static str,
    dry_run: bool,
    #[serde(flatten)]
    report: &'a MigrateReport,
}

/// Writes the report.
pub(crate) fn migrated(report: &MigrateReport, dry_run: bool, console: &mut Console<'_>) -> io::Result<()> {
    let out = &mut *console.out;
    match console.mode.format {
        Format::Json => {
            let action = "sessions_migrated";
            json_line(&MigrateObject { action, dry_run, report }, out)?;
        }
        Format::Quiet => {
            let came = report.taken.iter().chain(&report.grown);
            came.map(|migrated| &migrated.record).try_for_each(|record| writeln!(out, "{record}"))?;
        }
        Format::Text => text(report, dry_run, out)?,
    }
    console.flush()
}

fn text(report: &MigrateReport, dry_run: bool, out: &mut dyn Write) -> io::Result<()> {
    let (taken, grown) =
        if dry_run { ("would be taken over", "would grow") } else { ("taken over", "grown") };
    for (word, records) in [(taken, &report.taken), (grown, &report.grown)] {
        for migrated in records {
            writeln!(out, "{word}: {} ({} turns)\t{}", migrated.record, migrated.turns, migrated.file)?;
            migrated.notes.iter().try_for_each(|note| writeln!(out, "  note: {note}"))?;
        }
    }
    for (word, files) in [("left alone", &report.left), ("damaged", &report.damaged)] {
        files.iter().try_for_each(|left| writeln!(out, "{word}: {}: {}", left.file, left.reason))?;
    }
    let count = |records: &[MigratedRecord]| records.len();
    let (new, more) = (count(&report.taken), count(&report.grown));
    let (left, damaged) = (report.left.len(), report.damaged.len());
    let unchanged = report.unchanged;
    writeln!(
        out,
        "{new} {taken}, {more} {grown}, {unchanged} unchanged, {left} left alone, {damaged} damaged"
    )
}
