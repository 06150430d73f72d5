//! Opens files of other formats and on other file systems. Also has the values that tests of this module write.

mod format_1;
mod format_10;
mod format_11;
mod format_12;
mod format_9;
mod later_columns;
mod usage;

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::types::ToSqlOutput;
use tempfile::TempDir;

use super::cells::Columns;
use super::schema::Migrations;
use super::*;
use crate::model::{
    AbsolutePath, AcpSessionId, AgentSpec, Direction, EventKind, Lifecycle, Lineage, LineageIndex,
    LineageReason, McpServerRef, PermissionCount, PermissionMode, TurnId, TurnLimits, TurnState, WakeOptions,
};
use crate::store::PAGE_BYTES;

pub(super) fn id(name: &str) -> RecordId {
    RecordId::new(name).unwrap()
}

pub(super) fn host() -> HostId {
    HostId::new("h").unwrap()
}

pub(super) fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis).unwrap()
}

pub(super) fn record(name: &str) -> Record {
    Record {
        id: id(name),
        agent: AgentSpec::new("agent", ["--quiet"]),
        cwd: AbsolutePath::new("/work").unwrap(),
        real_cwd: AbsolutePath::new("/work").unwrap(),
        additional_directories: Vec::new(),
        scope: None,
        mcp_servers: vec![McpServerRef { name: "files".to_owned(), source: None }],
        info: crate::model::SessionInfo::default(),
        lifecycle: Lifecycle::Open,
        lineage: Lineage::begin(AcpSessionId::new("s").unwrap(), None, at(5)),
        agent_run: None,
        settings: crate::model::RecordSettings::default(),
        memory: crate::model::AgentMemory::default(),
        restore_error: None,
        created_at: at(5),
        updated_at: at(5),
        last_seq: None,
        last_turn: None,
        answered_turns: 0,
    }
}

pub(super) fn event(seq: u64, body: &str) -> Change {
    Change::Event(Event {
        seq: Seq(seq),
        at: at(10),
        turn: None,
        lineage: LineageIndex::FIRST,
        protocol: 1,
        direction: Direction::FromAgent,
        kind: EventKind::Update,
        body: body.into(),
    })
}

pub(super) fn request(turn: u64) -> RequestId {
    RequestId::new(format!("q{turn}")).unwrap()
}

pub(super) fn turn(number: u64, state: TurnState) -> Change {
    Change::Turn(Turn {
        id: TurnId(number),
        request: request(number),
        prompt: "[]".into(),
        policy: PermissionMode::DenyAll.into(),
        wake_options: WakeOptions::default(),
        limits: TurnLimits::default(),
        queued_at: at(7),
        state,
        usage: None,
        cost: None,
        permissions: PermissionCount::default(),
    })
}

pub(super) fn place() -> (TempDir, PathBuf) {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("store.db");
    (home, path)
}

/// Our format, and one that a later program might have.
const WITH_MOODS: Migrations = Migrations(&ours_and(
    "ALTER TABLE records ADD COLUMN mood TEXT; CREATE TABLE moods (mood TEXT NOT NULL) STRICT;",
));

const FORMATS: usize = Migrations::OURS.0.len();

const fn ours_and(next: &'static str) -> [&'static str; FORMATS + 1] {
    let mut all = [next; FORMATS + 1];
    let mut format = 0;
    while format < FORMATS {
        all[format] = Migrations::OURS.0[format];
        format += 1;
    }
    all
}

/// The number of our format, and of the next one.
fn formats() -> (i64, i64) {
    (Migrations::OURS.known(), WITH_MOODS.known())
}

fn open(path: &Path, access: Access, migrations: Migrations) -> Result<SqliteStore, StoreError> {
    let options = SqliteOptions { busy_timeout: Duration::from_millis(50), ..SqliteOptions::new(access) };
    SqliteStore::open_as(&StoreOpener { migrations, ..StoreOpener::new(path, &options) })
}

async fn fill(path: &Path, migrations: Migrations) -> Record {
    let store = open(path, Access::ReadWrite, migrations).unwrap();
    store.create(record("r"), vec![event(1, "one"), turn(1, TurnState::Queued)], host()).await.unwrap();
    store.record(id("r")).await.unwrap().unwrap()
}

fn sql(path: &Path, statements: &str) {
    Connection::open(path).unwrap().execute_batch(statements).unwrap();
}

fn format(path: &Path) -> i64 {
    schema::format(&Connection::open(path).unwrap()).unwrap()
}

#[tokio::test]
async fn writer_migrates_an_older_format_without_losing_data() {
    let (_home, path) = place();
    let before = fill(&path, Migrations::OURS).await;
    assert_eq!(format(&path), formats().0);
    let store = open(&path, Access::ReadWrite, WITH_MOODS).unwrap();
    assert_eq!(store.record(id("r")).await.unwrap(), Some(before));
    let lease = store.lease(id("r"), host()).await.unwrap();
    store.append(lease, vec![event(2, "two")], Durability::Machine).await.unwrap();
    drop(store);
    sql(&path, "INSERT INTO moods VALUES ('good')");
    assert_eq!(format(&path), formats().1);
    // After the migration it reads like any other, and a new file gets all formats at once.
    assert_eq!(
        open(&path, Access::ReadOnly, WITH_MOODS).unwrap().events(id("r"), Seq(1), 9).await.unwrap().len(),
        2
    );
    let (_home, new) = place();
    fill(&new, WITH_MOODS).await;
    assert_eq!(format(&new), formats().1);
}

#[tokio::test]
async fn read_only_access_refuses_an_older_format_with_a_hint() {
    let (_home, path) = place();
    fill(&path, Migrations::OURS).await;
    let before = fs::read(&path).unwrap();
    let refused = open(&path, Access::ReadOnly, WITH_MOODS).unwrap_err();
    let (ours, next) = formats();
    let said = format!(
        "the store {} was written by an older acpx (format {ours}, this one reads {next})",
        path.display()
    );
    assert_eq!(refused.to_string(), said);
    assert_eq!(refused.hint(), Some("open it once for writing, which brings it up to date"));
    assert!(fs::read(&path).unwrap() == before, "the file has changed");
}

#[tokio::test]
async fn a_migration_that_fails_leaves_the_file_as_it_was() {
    const HALF: Migrations =
        Migrations(&ours_and("CREATE TABLE moods (mood TEXT) STRICT; DELETE FROM nowhere;"));
    let (_home, path) = place();
    let before = fill(&path, Migrations::OURS).await;
    open(&path, Access::ReadWrite, HALF).unwrap_err();
    assert_eq!(format(&path), formats().0);
    let store = open(&path, Access::ReadWrite, Migrations::OURS).unwrap();
    assert_eq!(store.record(id("r")).await.unwrap(), Some(before));
    drop(store);
    sql(&path, "CREATE TABLE moods (mood TEXT)");
}

#[test]
fn a_format_that_no_version_has_is_damage() {
    let (_home, path) = place();
    drop(open(&path, Access::ReadWrite, Migrations::OURS).unwrap());
    sql(&path, "PRAGMA user_version = -3");
    for access in [Access::ReadWrite, Access::ReadOnly] {
        let refused = open(&path, access, Migrations::OURS).unwrap_err();
        assert_eq!(refused.to_string(), format!("the store {} is damaged: its format is -3", path.display()));
    }
    // A file with tables is not new, even if its format is 0.
    sql(&path, "PRAGMA user_version = 0");
    for access in [Access::ReadWrite, Access::ReadOnly] {
        assert_eq!(open(&path, access, Migrations::OURS).unwrap_err().code().as_str(), "STORE_CORRUPT");
    }
}

#[tokio::test]
async fn unknown_content_of_a_newer_format_is_not_damage() {
    let changes = [
        "UPDATE events SET kind = 6",
        "UPDATE lineage SET reason = 'moved'",
        "UPDATE turns SET state = 'paused'",
        "ALTER TABLE records RENAME COLUMN title TO name",
        "ALTER TABLE records DROP COLUMN title",
        "DROP TABLE turns",
        "UPDATE events SET body = NULL, blob = x'00'",
    ];
    let (ours, next) = formats();
    for change in changes {
        let (_home, path) = place();
        fill(&path, Migrations::OURS).await;
        // The change may come before the file is opened, or after.
        let early = open(&path, Access::ReadOnly, Migrations::OURS).unwrap();
        sql(&path, &format!("BEGIN; {change}; PRAGMA user_version = {next}; COMMIT"));
        let late = open(&path, Access::ReadOnly, Migrations::OURS).unwrap();
        for store in [early, late] {
            let read = async {
                store.record(id("r")).await?;
                store.events(id("r"), Seq(1), 10).await?;
                store.turn(id("r"), request(1)).await.map(drop)
            };
            let refused = read.await.unwrap_err();
            let said = format!(
                "the store {} was written by a newer acpx (format {next}, this one writes {ours})",
                path.display()
            );
            assert_eq!(refused.to_string(), said, "{change}");
        }
    }
}

#[tokio::test]
async fn an_old_writer_stops_when_a_newer_program_has_migrated_the_file() {
    let (_home, path) = place();
    let old = open(&path, Access::ReadWrite, Migrations::OURS).unwrap();
    let lease = old.create(record("r"), vec![event(1, "one")], host()).await.unwrap();
    let new = open(&path, Access::ReadWrite, WITH_MOODS).unwrap();
    let refused = [
        old.append(lease, vec![event(2, "two")], Durability::Process).await.unwrap_err(),
        old.lease(id("r"), host()).await.unwrap_err(),
        old.create(record("s"), Vec::new(), host()).await.unwrap_err(),
    ];
    let (ours, next) = formats();
    let said = format!(
        "the store {} was written by a newer acpx (format {next}, this one writes {ours})",
        path.display()
    );
    assert_eq!(refused.map(|error| error.to_string()), [&*said; 3]);
    // The older one still reads, and the newer one writes.
    assert_eq!(old.events(id("r"), Seq(1), 10).await.unwrap().len(), 1);
    let lease = new.lease(id("r"), host()).await.unwrap();
    assert_eq!(lease.generation(), 2);
    new.append(lease, vec![event(2, "two")], Durability::Process).await.unwrap();
}

#[test]
fn network_file_system_is_refused_before_anything_is_created() {
    let (home, path) = place();
    let made = home.path().join("made.db");
    drop(open(&made, Access::ReadWrite, Migrations::OURS).unwrap());
    for (path, access) in [(&path, Access::ReadWrite), (&made, Access::ReadWrite), (&made, Access::ReadOnly)]
    {
        let options = SqliteOptions::new(access);
        let network_kind: fn(&Path) -> _ = |_| Some("nfs");
        let refused = SqliteStore::open_as(&StoreOpener { network_kind, ..StoreOpener::new(path, &options) });
        let said = format!(
            "the store {} is on a network file system (nfs), where its locks cannot be trusted",
            path.display()
        );
        assert_eq!(refused.unwrap_err().to_string(), said);
    }
    let files: Vec<_> = fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(files, ["made.db"]);
}

#[tokio::test]
async fn triggers_and_views_that_someone_put_into_a_file_are_not_run() {
    let (_home, path) = place();
    fill(&path, Migrations::OURS).await;
    sql(
        &path,
        "CREATE TRIGGER gone AFTER INSERT ON events BEGIN DELETE FROM events WHERE key = NEW.key; END;
         CREATE TRIGGER moved AFTER UPDATE ON records BEGIN UPDATE records SET cwd = '/tmp'; END;",
    );
    let store = open(&path, Access::ReadWrite, Migrations::OURS).unwrap();
    let lease = store.lease(id("r"), host()).await.unwrap();
    store.append(lease, vec![event(2, "two")], Durability::Machine).await.unwrap();
    assert_eq!(store.events(id("r"), Seq(1), 10).await.unwrap().len(), 2);
    assert_eq!(store.record(id("r")).await.unwrap().unwrap().cwd, record("r").cwd);
    drop(store);
    sql(
        &path,
        "ALTER TABLE turns RENAME TO hidden; CREATE VIEW turns AS SELECT * FROM hidden WHERE turn = 7",
    );
    let store = open(&path, Access::ReadOnly, Migrations::OURS).unwrap();
    assert_eq!(store.turn(id("r"), request(1)).await.unwrap_err().code().as_str(), "STORE_CORRUPT");
}

/// Recomputes the checksums of a table.
fn agree<const N: usize>(file: &Connection, columns: &'static Columns<N>) {
    let Columns { table, names, list, .. } = columns;
    let checksum = list.rsplit(", ").next().unwrap();
    let mut select = file.prepare(&format!("SELECT {list} FROM {table}")).unwrap();
    let mut found = select.query([]).unwrap();
    let update =
        format!("UPDATE {table} SET {checksum} = ?3 WHERE {} IS ?1 AND {} IS ?2", names[0], names[1]);
    while let Some(row) = found.next().unwrap() {
        let values: [_; N] = std::array::from_fn(|index| row.get_ref(index).unwrap());
        let sum = columns.checksum(&values);
        let [first, second] = [values[0], values[1]].map(ToSqlOutput::Borrowed);
        assert_eq!(file.execute(&update, (first, second, sum)), Ok(1), "{table}");
    }
}

#[tokio::test]
async fn impossible_row_is_damage_even_if_its_checksum_matches() {
    let changes = [
        ("UPDATE events SET kind = 9", "events.kind"),
        ("UPDATE events SET direction = 0", "events.direction"),
        ("UPDATE events SET protocol = 65536", "events.protocol"),
        ("UPDATE events SET turn = -1", "events.turn"),
        ("UPDATE events SET at = 9223372036854775807", "events.at"),
        ("UPDATE lineage SET reason = 'because'", "lineage.reason"),
        ("UPDATE lineage SET agent_session = ' '", "lineage.agent_session"),
        ("UPDATE lineage SET session = ''", "lineage.session"),
        ("UPDATE lineage SET row = 2", "lineage.row"),
        ("UPDATE records SET args = 'not json'", "records.args"),
        ("UPDATE records SET cwd = 'relative'", "records.cwd"),
        ("UPDATE records SET answered_turns = -1", "records.answered_turns"),
        ("UPDATE records SET closed_at = -9223372036854775808", "records.closed_at"),
        ("UPDATE turns SET state = 'dispatched'", "turns.dispatched_at"),
        ("UPDATE turns SET policy = 'perhaps'", "turns.policy"),
        ("UPDATE turns SET state = 'asleep'", "turns.state"),
        ("UPDATE turns SET state = 'ended', ended_at = 5", "turns.stop_reason"),
    ];
    for (change, column) in changes {
        assert_eq!(problem_after(change).await, format!("{column} holds what no version of ours writes"));
    }
    let changes = [
        ("UPDATE events SET blob = zeroblob(32)", "a body is neither in its row nor in a blob"),
        ("UPDATE events SET blob = zeroblob(32), body = NULL", "a blob is missing"),
        ("DELETE FROM events", "event 1 is missing"),
        ("UPDATE events SET key = key + 1", "event 1 is missing"),
        ("UPDATE records SET last_seq = 2", "event 2 is missing"),
        ("DELETE FROM lineage", "rows of a lineage are missing"),
        ("UPDATE records SET lineage_rows = 2", "rows of a lineage are missing"),
        ("DELETE FROM turns", "an open turn is missing"),
    ];
    for (change, problem) in changes {
        assert_eq!(problem_after(change).await, problem, "{change}");
    }
}

/// The damage reported after a change with recomputed checksums.
async fn problem_after(change: &str) -> String {
    let (_home, path) = place();
    fill(&path, Migrations::OURS).await;
    let file = Connection::open(&path).unwrap();
    file.execute_batch(change).unwrap();
    agree(&file, &rows::RECORD);
    agree(&file, &rows::STANDING);
    agree(&file, &rows::LINEAGE);
    agree(&file, &rows::EVENT);
    agree(&file, &rows::TURN);
    drop(file);
    let store = open(&path, Access::ReadOnly, Migrations::OURS).unwrap();
    let read = async {
        store.record(id("r")).await?;
        store.events(id("r"), Seq(1), 10).await?;
        store.turn(id("r"), request(1)).await?;
        store.open_turns(id("r")).await
    };
    match read.await.unwrap_err() {
        StoreError::Corrupt { path: found, problem } if found == path => problem,
        other => panic!("{change}: {other:?}"),
    }
}

#[tokio::test]
async fn damaged_record_accepts_no_changes() {
    let changes = [
        "UPDATE records SET last_seq = 7",
        "UPDATE records SET last_seq = NULL",
        "UPDATE leases SET generation = 1, host = 'other'",
        "DELETE FROM leases",
        "UPDATE lineage SET session = 't'",
        "UPDATE turns SET state = 'interrupted', ended_at = 5",
        "UPDATE records SET title = 'other'",
        "INSERT INTO events SELECT key + 1, at, turn, lineage, protocol, direction, kind, checksum, body, blob FROM events",
    ];
    for change in changes {
        let (_home, path) = place();
        let before = fill(&path, Migrations::OURS).await;
        sql(&path, change);
        let store = open(&path, Access::ReadWrite, Migrations::OURS).unwrap();
        let lease = Lease { record: id("r"), generation: 1 };
        let mut lineage = before.lineage.clone();
        lineage.replace(AcpSessionId::new("s2").unwrap(), None, LineageReason::Reset, at(9));
        let changes = vec![
            event(2, "two"),
            turn(1, TurnState::Dispatched { at: at(8) }),
            Change::Lineage(lineage),
            Change::Lifecycle(Lifecycle::Closed { at: at(9) }),
        ];
        let refused = store.append(lease, changes, Durability::Process).await.unwrap_err();
        assert_eq!(refused.code().as_str(), "STORE_CORRUPT", "{change}: {refused:?}");
    }
}

#[tokio::test]
async fn bodies_beyond_the_page_and_unrequested_prompts_are_not_read() {
    let (_home, path) = place();
    let store = open(&path, Access::ReadWrite, Migrations::OURS).unwrap();
    let long = "x".repeat(PAGE_BYTES);
    let Change::Turn(short) = turn(1, TurnState::Queued) else { unreachable!() };
    let first = Change::Turn(Turn { prompt: "y".repeat(100_000).into(), ..short.clone() });
    let lease =
        store.create(record("r"), vec![event(1, "one"), event(2, &long), first], host()).await.unwrap();
    // Every reader of a blob now finds it damaged.
    sql(&path, "UPDATE blobs SET bytes = zeroblob(length(bytes))");
    let page = store.events(id("r"), Seq(1), 10).await.unwrap();
    assert_eq!(page.iter().map(|event| event.seq).collect::<Vec<_>>(), [Seq(1)]);
    assert_eq!(store.events(id("r"), Seq(2), 10).await.unwrap_err().code().as_str(), "STORE_CORRUPT");
    store.append(lease, vec![Change::Turn(short.clone())], Durability::Process).await.unwrap();
    assert_eq!(store.open_turns(id("r")).await.unwrap(), [short]);
}
