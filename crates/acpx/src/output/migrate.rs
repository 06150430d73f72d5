//! The result of importing npm acpx sessions, file by file.

use std::io::{self, Write};

use acpx_core::protocol::{ImportMeta, ImportedRecordMeta};
use serde::Serialize;

use super::{Console, json_line};
use crate::cli::Format;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MigrateObject<'a> {
    action: &'static str,
    dry_run: bool,
    #[serde(flatten)]
    report: &'a ImportMeta,
}

/// Writes the report.
pub(crate) fn migrated(report: &ImportMeta, dry_run: bool, console: &mut Console<'_>) -> io::Result<()> {
    let out = &mut console.out;
    match console.mode.format {
        Format::Json => {
            let action = "sessions_migrated";
            json_line(&MigrateObject { action, dry_run, report }, out)?;
        }
        Format::Quiet => {
            let came = report.taken.iter().chain(&report.grown);
            came.map(|migrated| &migrated.acpx_record_id).try_for_each(|record| writeln!(out, "{record}"))?;
        }
        Format::Text => text(report, dry_run, out)?,
    }
    console.flush()
}

fn text(report: &ImportMeta, dry_run: bool, out: &mut dyn Write) -> io::Result<()> {
    let (taken, grown) =
        if dry_run { ("would be taken over", "would grow") } else { ("taken over", "grown") };
    for (word, records) in [(taken, &report.taken), (grown, &report.grown)] {
        for migrated in records {
            writeln!(
                out,
                "{word}: {} ({} turns)\t{}",
                migrated.acpx_record_id, migrated.turns, migrated.file
            )?;
            migrated.notes.iter().try_for_each(|note| writeln!(out, "  note: {note}"))?;
        }
    }
    for (word, files) in [("left alone", &report.left), ("damaged", &report.damaged)] {
        files.iter().try_for_each(|left| writeln!(out, "{word}: {}: {}", left.file, left.reason))?;
    }
    let count = |records: &[ImportedRecordMeta]| records.len();
    let (new, more) = (count(&report.taken), count(&report.grown));
    let (left, damaged) = (report.left.len(), report.damaged.len());
    let unchanged = report.unchanged;
    writeln!(
        out,
        "{new} {taken}, {more} {grown}, {unchanged} unchanged, {left} left alone, {damaged} damaged"
    )
}
