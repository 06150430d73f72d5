//! Commands with many records in the store, against the same with one.

use std::cell::Cell;
use std::fs;
use std::sync::Arc;

use acpx_core::model::{AbsolutePath, HostId, Record, RecordId};
use acpx_core::store::{Access, RecordFilter, SqliteStore, Store};
use serde_json::Value;
use tokio::task::JoinSet;

use crate::agents::{self, Agents};
use crate::budgets::{self, Measure};
use crate::programs::Program;
use crate::report::{Report, Row};
use crate::samples::{Race, Work};

const RECORDS: usize = 50_000;
/// How many are written at a time.
const GROUP: usize = 256;
const ROUNDS: usize = 10;

/// Fills the stores of programs that have one session, and times `status` against `one`, whose store stays as it
/// is.
pub(crate) fn measure(
    one: &Program,
    many: &Program,
    npm: Option<&Program>,
    agents: &Agents,
    report: &mut Report,
) {
    let agent = agents::line(&agents.quick);
    for program in [Some(one), Some(many), npm].into_iter().flatten() {
        program.run(&["--agent", &agent, "sessions", "new"]);
        program.stop();
    }
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(fill_ours(many));
    if let Some(npm) = npm {
        fill_npm(npm);
    }
    let status: &[&str] = &["--agent", &agent, "status"];
    let mut theirs = npm.map(|npm| move || npm.run(status));
    let race = Race::run(
        ROUNDS,
        &mut || one.run(status),
        &mut || many.run(status),
        theirs.as_mut().map(|work| -> Work<'_> { work }),
    );
    let found =
        [(Measure::OverOneRecord, Some(race.ours.over(&race.floor))), (Measure::Faster, race.faster())];
    report.add(Row::of_race(&budgets::MANY_RECORDS, &race, &found));
    let list: &[&str] = &["sessions", "list", "--local", "--limit", "50"];
    let race = Race::run(ROUNDS, &mut || one.run(list), &mut || many.run(list), None);
    let found = [(Measure::OverOneRecord, Some(race.ours.over(&race.floor)))];
    report.add(Row::of_race(&budgets::MANY_LISTED, &race, &found));
    // The directory has a session without a name, so each name is a new one, with an agent and ACP session of its own.
    let number = Cell::new(0);
    let create = |program: &Program| {
        number.set(number.get() + 1);
        let name = format!("new-{}", number.get());
        let agent = agents::line(&agents.quick_with(&name));
        program.run(&["--agent", &agent, "prompt", "--create", "-s", &name, "hi"])
    };
    // The host starts before it is timed.
    create(one);
    create(many);
    let race = Race::run(ROUNDS, &mut || create(one), &mut || create(many), None);
    let found = [(Measure::OverOneRecord, Some(race.ours.over(&race.floor)))];
    report.add(Row::of_race(&budgets::MANY_CREATED, &race, &found));
}

/// Copies the one record, each copy with an id and a directory of its own.
async fn fill_ours(program: &Program) {
    let path = program.files().join("acpx.db");
    let store = Arc::new(SqliteStore::open(&path, Access::ReadWrite).expect("the store opens"));
    let records = store.records(RecordFilter::default(), None, 1).await.expect("the store can be read");
    let record = records.into_iter().next().expect("there is one record");
    let host = HostId::new("bench").expect("the name is not empty");
    let mut writes = JoinSet::new();
    for number in 1..RECORDS {
        if writes.len() == GROUP {
            writes.join_next().await;
        }
        let (store, copy, host) = (Arc::clone(&store), copy(&record, number), host.clone());
        writes.spawn(async move { store.create(copy, Vec::new(), host).await.expect("the store takes it") });
    }
    writes.join_all().await;
}

fn copy(record: &Record, number: usize) -> Record {
    let directory = AbsolutePath::new(format!("{}/{number}", record.real_cwd)).expect("it is below another");
    Record {
        id: RecordId::new(uuid::Uuid::now_v7().to_string()).expect("a UUID is not empty"),
        cwd: directory.clone(),
        real_cwd: directory,
        agent_run: None,
        settings: acpx_core::model::RecordSettings::default(),
        memory: acpx_core::model::AgentMemory::default(),
        restore_error: None,
        last_seq: None,
        last_turn: None,
        answered_turns: 0,
        ..record.clone()
    }
}

/// The same for npm acpx: a file for each.
fn fill_npm(program: &Program) {
    let directory = program.files().join("sessions");
    let files = fs::read_dir(&directory).expect("npm acpx has made its directory");
    let mut paths = files.filter_map(|entry| Some(entry.ok()?.path()));
    let path =
        paths.find(|path| path.extension().is_some_and(|is| is == "json")).expect("there is one record");
    let text = fs::read_to_string(path).expect("the record can be read");
    let record: Value = serde_json::from_str(&text).expect("the record is JSON");
    for number in 1..RECORDS {
        let mut copy = record.clone();
        let id = format!("copy-{number}");
        copy["cwd"] = format!("{}/{number}", record["cwd"].as_str().unwrap_or_default()).into();
        copy["acp_session_id"] = id.clone().into();
        copy["acpx_record_id"] = id.clone().into();
        let text = serde_json::to_string_pretty(&copy).expect("a record is plain data");
        fs::write(directory.join(format!("{id}.json")), text).expect("a record can be written");
    }
}
