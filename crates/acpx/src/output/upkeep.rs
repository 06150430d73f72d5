//! The output of `backup` and `verify`.

use std::io;
use std::path::Path;

use acpx_core::model::RecordId;
use acpx_core::store::{StoreProblem, StoreVerification};
use serde::Serialize;

use super::Console;
use super::byte_size::byte_size;
use super::sanitize::on_one_line;

/// A backup that was written.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct StoreBackup<'a> {
    pub(crate) path: &'a Path,
    pub(crate) bytes: u64,
    pub(crate) sessions: u64,
    pub(crate) events: u64,
}

/// Writes that a backup was written.
pub(crate) fn backed_up(backup: &StoreBackup<'_>, console: &mut Console<'_>) -> io::Result<()> {
    let path = on_one_line(&backup.path.display().to_string());
    let counts = counted(backup.sessions, backup.events);
    let text = format!("Backed up {counts} to {path} ({})", byte_size(backup.bytes));
    console.result("store_backed_up", backup, Some(&text), Some(&path))
}

/// A store or a backup that was verified.
#[derive(Debug, Clone, Copy)]
pub(crate) struct VerifiedStore<'a> {
    pub(crate) path: &'a Path,
    pub(crate) bytes: u64,
    pub(crate) verification: &'a StoreVerification,
}

#[derive(Serialize)]
struct VerifiedObject<'a> {
    path: &'a Path,
    ok: bool,
    bytes: u64,
    format: i64,
    sessions: u64,
    deleted: u64,
    events: u64,
    turns: u64,
    problems: Vec<ProblemObject<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ProblemObject<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    acpx_record_id: Option<&'a RecordId>,
    problem: &'a str,
}

impl<'a> ProblemObject<'a> {
    fn of(StoreProblem { record, problem }: &'a StoreProblem) -> Self {
        Self { acpx_record_id: record.as_ref(), problem }
    }
}

/// Writes what a verification found.
pub(crate) fn verified(store: &VerifiedStore<'_>, console: &mut Console<'_>) -> io::Result<()> {
    let VerifiedStore { path, bytes, verification } = *store;
    let StoreVerification { format, records: sessions, deleted, events, turns, problems } = verification;
    let ok = problems.is_empty();
    let lines: Vec<String> = problems.iter().map(|problem| on_one_line(&problem.to_string())).collect();
    let object = VerifiedObject {
        path,
        ok,
        bytes,
        format: *format,
        sessions: *sessions,
        deleted: *deleted,
        events: *events,
        turns: *turns,
        problems: problems.iter().map(ProblemObject::of).collect(),
    };
    let shown = on_one_line(&path.display().to_string());
    let facts = format!("{}, {}, format {format}", counted(*sessions, *events), byte_size(bytes));
    let text = match lines.len() {
        0 => format!("ok: {shown} ({facts})"),
        1 => format!("damaged: {shown} has 1 problem ({facts})\n  {}", lines.join("\n  ")),
        count => format!("damaged: {shown} has {count} problems ({facts})\n  {}", lines.join("\n  ")),
    };
    let quiet = if ok { "ok".to_owned() } else { lines.join("\n") };
    console.result("store_verified", &object, Some(&text), Some(&quiet))
}

fn counted(sessions: u64, events: u64) -> String {
    let count =
        |count: u64, what: &str| if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") };
    format!("{} with {}", count(sessions, "session"), count(events, "event"))
}
