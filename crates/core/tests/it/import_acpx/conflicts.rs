//! An import is careful: it does nothing twice, touches no file, lets no damaged file stop the others, and keeps
//! its hands off what is in use.

use std::collections::HashSet;
use std::process::{Command, Stdio};

use acpx_core::model::{
    Direction, Event, EventKind, HostId, LineageIndex, ProcessIdentity, Seq, TurnId, TurnState,
};
use acpx_core::store::import_acpx::{ImportOptions, NpmSessions, import};
use sha2::{Digest, Sha256};

use super::*;
use crate::store_contract::samples::{all_events, stopped, turn};

#[tokio::test]
async fn a_second_import_changes_nothing_and_writes_nothing() {
    let home = Home::with(&["full", "turns", "legacy"]);
    let files = home.files();
    assert!(home.has_news().await);
    assert_eq!(home.import().await.imported.len(), 3);
    assert!(!home.has_news().await);
    let records = home.store.records(RecordFilter::default(), None, 10).await.unwrap();
    let noted = home.store.imports(home.sessions().canonicalize().unwrap()).await.unwrap();
    assert_eq!(home.import().await, ImportReport { unchanged: 3, ..ImportReport::default() });
    // A store that is only read would refuse any write.
    let reader = SqliteStore::open(home.store.path(), Access::ReadOnly).unwrap();
    let sessions = home.sessions();
    let (host_of_reader, none) = (host("r"), HashSet::new());
    let again = import(&reader, &sessions, keeping(&host_of_reader, &none));
    assert_eq!(again.await.unwrap(), ImportReport { unchanged: 3, ..ImportReport::default() });
    assert_eq!(home.store.records(RecordFilter::default(), None, 10).await.unwrap(), records);
    assert_eq!(home.store.imports(home.sessions().canonicalize().unwrap()).await.unwrap(), noted);
    assert_eq!(home.files(), files);
}

#[tokio::test]
async fn dry_run_lists_the_import_and_writes_nothing() {
    let home = Home::with(&["full", "killed"]);
    let dry = home.import_as(ImportMode::DryRun).await;
    assert_eq!(home.store.records(RecordFilter::default(), None, 10).await.unwrap(), []);
    assert!(home.has_news().await);
    assert_eq!(home.import().await, dry);
    home.put("grown");
    let dry = home.import_as(ImportMode::DryRun).await;
    assert_eq!(dry.grown.len(), 1);
    assert_eq!(home.import().await, dry);
}

#[tokio::test]
async fn a_damaged_file_is_named_with_its_reason_while_the_others_come() {
    let home = Home::with(&["full", "legacy"]);
    let cases = [
        ("a-not-json.json", "{", Damage::NotJson { line: 1, column: 1 }),
        ("b-list.json", "[]", Damage::NotAnObject),
        (
            "c-schema.json",
            r#"{"schema":"acpx.session.v9"}"#,
            Damage::UnknownSchema { found: r#""acpx.session.v9""#.into() },
        ),
        ("d-empty.json", "", Damage::NotJson { line: 1, column: 0 }),
        (
            "e-relative.json",
            r#"{"id":"e","sessionId":"s","cwd":"project","agentCommand":"a"}"#,
            Damage::RelativeCwd { cwd: "project".into() },
        ),
        (
            "f-quote.json",
            r#"{"id":"f","sessionId":"s","cwd":"/","agentCommand":"a 'b"}"#,
            Damage::UnterminatedQuote { command: "a 'b".into() },
        ),
    ];
    for (file, text, _) in &cases {
        home.write(file, text);
    }
    std::os::unix::fs::symlink("/nowhere", home.sessions().join("g-link.json")).unwrap();
    let pipe = home.sessions().join("h-pipe.json");
    assert!(Command::new("mkfifo").arg(pipe).status().unwrap().success());
    std::fs::create_dir(home.sessions().join("directory.json")).unwrap();
    home.write("index.json", "an index of another version");
    let report = home.import().await;
    assert_eq!(report.imported.len(), 2);
    let problem = |file: &str, damage| ImportProblem { file: file.to_owned(), damage };
    let mut expected: Vec<ImportProblem> =
        cases.into_iter().map(|(file, _, damage)| problem(file, damage)).collect();
    let gone = Damage::Unreadable { why: "No such file or directory (os error 2)".into() };
    expected.push(problem("g-link.json", gone));
    let odd = Damage::Unreadable { why: "it is not a regular file".into() };
    expected.push(problem("h-pipe.json", odd));
    let mut damaged = report.damaged.clone();
    damaged.sort_by(|a, b| a.file.cmp(&b.file));
    assert_eq!(damaged, expected);
    let shown = format!("{}: {}", damaged[4], damaged[4].damage);
    assert_eq!(shown, r#"cannot import e-relative.json: its cwd "project" is not an absolute path"#);

    // They are no news, and are named again to whoever asks.
    assert!(!home.has_news().await);
    let again = home.import().await;
    assert_eq!((again.unchanged, again.imported.len(), again.damaged), (2, 0, report.damaged));
    home.write(
        "e-relative.json",
        r#"{"id":"e-relative","sessionId":"s","cwd":"/project","agentCommand":"a"}"#,
    );
    assert!(home.has_news().await);
    assert_eq!(home.import().await.imported.len(), 1);
}

#[tokio::test]
async fn record_with_a_living_owner_is_left_alone_until_it_exits() {
    let home = Home::with(&["killed", "full"]);
    let mut owner = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let pid = i32::try_from(owner.id()).unwrap();
    let hash = Sha256::digest(KILLED.as_bytes());
    let name: String = hash.iter().take(12).map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
    let lease = home.queues().join(format!("{name}.lock"));
    let claim = |ticks: Option<&str>| {
        let identity = ticks.map(|ticks| format!(r#","processIdentity":{{"startTicks":"{ticks}"}}"#));
        format!(r#"{{"pid":{pid},"sessionId":"{KILLED}"{}}}"#, identity.unwrap_or_default())
    };
    // When it began, where the system tells it.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok();
    let ticks = stat.as_deref().and_then(|stat| stat.rsplit_once(')')?.1.split_whitespace().nth(19));

    std::fs::write(&lease, claim(ticks)).unwrap();
    let report = home.import().await;
    assert_eq!(report.imported.len(), 1);
    let alive = SkippedFile { file: format!("{KILLED}.json"), reason: SkipReason::OwnerAlive { pid } };
    assert_eq!(report.skipped, [alive]);
    // Nothing can be done about it now, so it is no news.
    let NpmSessions { has_news, held } = home.look().await;
    let held: Vec<_> = held.iter().map(|held| (held.pid, held.record.as_str())).collect();
    assert_eq!((has_news, held), (false, vec![(pid, KILLED)]));
    if ticks.is_some() {
        // Another process has the number by now.
        std::fs::write(&lease, claim(Some("1"))).unwrap();
        assert!(home.has_news().await);
    }
    std::fs::write(&lease, claim(ticks)).unwrap();
    drop(owner.stdin.take());
    owner.wait().unwrap();
    assert!(home.has_news().await);
    assert_eq!(home.import().await.imported.len(), 1);
}

/// An event that acpx itself appends to the imported record.
async fn own_event(home: &Home, turn: Option<TurnId>) -> Event {
    let record = home.record(KILLED).await;
    Event {
        seq: record.last_seq.map_or(Seq::FIRST, Seq::next),
        at: record.updated_at,
        turn,
        lineage: LineageIndex::FIRST,
        protocol: 1,
        direction: Direction::ToAgent,
        kind: EventKind::Request,
        body: r#"{"id":0,"method":"initialize"}"#.into(),
    }
}

#[tokio::test]
async fn imported_record_with_own_turns_stays_and_its_growth_is_reported_once() {
    let home = Home::with(&["killed"]);
    home.import().await;
    let lease = home.store.lease(id(KILLED), host("ours")).await.unwrap();
    let own = vec![
        Change::Turn(turn(3, "ours", stopped("end_turn"))),
        Change::Event(own_event(&home, Some(TurnId(3))).await),
    ];
    home.store.append(lease.clone(), own, Durability::Process).await.unwrap();
    let events = all_events(&home.store, &id(KILLED), 100).await.unwrap();
    home.put("killed");
    let unchanged = ImportReport { unchanged: 1, ..ImportReport::default() };
    assert_eq!(home.import().await, unchanged, "npm acpx has written its file again, and no turn");
    home.put("grown");
    let reason = SkipReason::Diverged { record: id(KILLED) };
    let left = vec![SkippedFile { file: format!("{KILLED}.json"), reason: reason.clone() }];
    let continued = vec![reason];
    assert_eq!(
        home.import().await,
        ImportReport { skipped: left.clone(), continued, ..ImportReport::default() }
    );
    assert_eq!(all_events(&home.store, &id(KILLED), 100).await.unwrap(), events);
    // The lease is still ours, it is no news, and it is said again to whoever asks.
    home.store.append(lease, vec![Change::Title(None)], Durability::Process).await.unwrap();
    assert!(!home.has_news().await);
    assert_eq!(home.import().await, ImportReport { skipped: left, ..ImportReport::default() });
}

#[tokio::test]
async fn new_npm_turns_are_imported_after_own_events_without_a_turn() {
    let home = Home::with(&["killed"]);
    home.import().await;
    let lease = home.store.lease(id(KILLED), host("ours")).await.unwrap();
    let own = own_event(&home, None).await;
    home.store.append(lease, vec![Change::Event(own.clone())], Durability::Process).await.unwrap();
    home.put("grown");
    let report = home.import().await;
    let grown: Vec<_> = report.grown.iter().map(|grown| (grown.turns, grown.events)).collect();
    assert_eq!((grown, report.skipped), (vec![(1, 9)], Vec::new()));
    let other = Home::with(&["grown"]);
    other.import().await;
    assert_eq!(said(&home.store, KILLED).await, said(&other.store, KILLED).await);
    let events = all_events(&home.store, &id(KILLED), 100).await.unwrap();
    assert_eq!((events.len(), &events[15]), (25, &own));
    assert_eq!(home.record(KILLED).await.answered_turns, 2);
    // What was imported after our own events is found again.
    home.put("grown");
    assert_eq!(home.import().await, ImportReport { unchanged: 1, ..ImportReport::default() });
}

#[tokio::test]
async fn import_leaves_a_record_with_a_queued_prompt_alone() {
    let home = Home::with(&["killed"]);
    home.import().await;
    let lease = home.store.lease(id(KILLED), host("ours")).await.unwrap();
    let queued = turn(3, "ours", TurnState::Queued);
    let own = vec![Change::Turn(queued.clone()), Change::Event(own_event(&home, None).await)];
    home.store.append(lease, own, Durability::Process).await.unwrap();
    home.put("grown");
    let report = home.import().await;
    assert_eq!(
        (report.grown, report.continued),
        (Vec::new(), vec![SkipReason::InUse { record: id(KILLED) }])
    );
    assert_eq!(home.store.open_turns(id(KILLED)).await.unwrap(), [queued]);
}

#[tokio::test]
async fn npm_turns_of_a_replaced_acp_session_are_not_imported() {
    let home = Home::with(&["killed"]);
    home.import().await;
    let lease = home.store.lease(id(KILLED), host("ours")).await.unwrap();
    let record = home.record(KILLED).await;
    let mut lineage = record.lineage;
    lineage.replace(session("fresh"), None, LineageReason::LoadFailed, record.updated_at);
    let own = vec![Change::Lineage(lineage), Change::Event(own_event(&home, None).await)];
    home.store.append(lease, own, Durability::Process).await.unwrap();
    home.put("grown");
    let report = home.import().await;
    assert_eq!(
        (report.grown, report.continued),
        (Vec::new(), vec![SkipReason::Diverged { record: id(KILLED) }])
    );
}

#[tokio::test]
async fn id_of_another_record_is_reported_and_skipped() {
    let home = Home::with(&["legacy"]);
    let ours = crate::store_contract::samples::record("7f1c", 5);
    home.store.create(ours, Vec::new(), host("h")).await.unwrap();
    let before = home.record("7f1c").await;
    let left = SkippedFile { file: "7f1c.json".into(), reason: SkipReason::IdTaken { record: id("7f1c") } };
    assert_eq!(home.import().await, ImportReport { skipped: vec![left], ..ImportReport::default() });
    assert_eq!(home.record("7f1c").await, before);
}

#[tokio::test]
async fn taken_scope_stays_with_its_record() {
    let home = Home::with(&["legacy"]);
    let text = home.read("7f1c.json");
    home.write("newer.json", text.replace("\"7f1c\"", "\"newer\""));
    home.write(
        "closed.json",
        text.replace("\"7f1c\"", "\"closed\"").replace("\"cwd\"", "\"closed\": true, \"cwd\""),
    );
    let dry = home.import_as(ImportMode::DryRun).await;
    let report = home.import().await;
    assert_eq!(report, dry);
    // The one that was used last is the one a shell finds.
    let notes =
        |name: &str| report.imported.iter().find(|taken| taken.record == id(name)).unwrap().notes.clone();
    assert_eq!(notes("newer"), [ImportNote::FromMessages]);
    assert_eq!(notes("7f1c"), [ImportNote::ScopeTaken { by: id("newer") }, ImportNote::FromMessages]);
    let scopes = [home.record("newer").await.scope, home.record("closed").await.scope];
    assert!(scopes.iter().all(Option::is_some), "{scopes:?}");
    assert_eq!(home.record("7f1c").await.scope, None);
}

#[tokio::test]
async fn copy_under_another_file_name_does_not_replace_the_record() {
    let home = Home::with(&["turns"]);
    home.write("a copy.json", home.read(&format!("{TURNS}.json")));
    let report = home.import().await;
    assert_eq!(report.imported.len(), 1);
    assert_eq!((&*report.imported[0].file, report.imported[0].notes.len()), (&*format!("{TURNS}.json"), 0));
    let left = SkippedFile { file: "a copy.json".into(), reason: SkipReason::Diverged { record: id(TURNS) } };
    assert_eq!(report.skipped, [left]);
}

#[tokio::test]
async fn records_with_other_file_names_come_last_and_duplicates_once() {
    let home = Home::with(&["legacy"]);
    let text = home.read("7f1c.json");
    std::fs::remove_file(home.sessions().join("7f1c.json")).unwrap();
    for name in ["one.json", "other.json"] {
        home.write(name, &text);
    }
    home.write("own.json", text.replace("\"7f1c\"", "\"own\""));
    let report = home.import().await;
    let imported: Vec<_> =
        report.imported.iter().map(|taken| (taken.record.as_str(), &*taken.notes)).collect();
    let renamed = [ImportNote::FileName, ImportNote::ScopeTaken { by: id("own") }, ImportNote::FromMessages];
    assert_eq!(imported, [("own", &[ImportNote::FromMessages][..]), ("7f1c", &renamed[..])]);
    // The other one says what is kept already.
    assert_eq!((report.unchanged, report.skipped.len(), report.damaged.len()), (1, 0, 0));
}

#[tokio::test]
async fn an_import_that_was_broken_off_is_finished_by_the_next() {
    let whole = Home::with(&["turns"]);
    whole.import().await;
    let expected = all_events(&whole.store, &id(TURNS), 100).await.unwrap();
    // The record was made, some of its events were kept, and the process ended before the files were noted.
    let home = Home::with(&["turns"]);
    let record = whole.record(TURNS).await;
    let some = expected[..9].iter().cloned().map(Change::Event).collect();
    home.store.create(record.clone(), some, host("dead")).await.unwrap();
    assert_eq!(home.import().await.grown.len(), 1);
    assert_eq!(all_events(&home.store, &id(TURNS), 100).await.unwrap(), expected);
    assert_eq!(home.record(TURNS).await, record);
}

#[tokio::test]
async fn missing_npm_directory_is_no_news_and_an_import_reports_it() {
    let home = Home::with(&[]);
    assert!(!home.has_news().await);
    std::fs::remove_dir(home.sessions()).unwrap();
    assert!(!home.has_news().await);
    let sessions = home.sessions();
    let (host, none) = (host("h"), HashSet::new());
    let nothing = import(&home.store, &sessions, keeping(&host, &none));
    assert_eq!(nothing.await.unwrap_err().code().as_str(), "IMPORT_DIRECTORY");
}

fn keeping<'a>(host: &'a HostId, in_use: &'a HashSet<RecordId>) -> ImportOptions<'a> {
    let living = ProcessIdentity::living;
    ImportOptions { host, name_of: &|_| None, living, reserve: in_use, mode: ImportMode::Keep }
}

#[tokio::test]
async fn record_in_use_here_is_not_imported_until_released() {
    let home = Home::with(&["full"]);
    let (host, in_use) = (host("h"), HashSet::from([id(FULL)]));
    let report = import(&home.store, &home.sessions(), keeping(&host, &in_use)).await.unwrap();
    let reason = SkipReason::InUse { record: id(FULL) };
    let left = vec![SkippedFile { file: format!("{FULL}.json"), reason: reason.clone() }];
    assert_eq!(report, ImportReport { skipped: left, continued: vec![reason], ..ImportReport::default() });
    assert_eq!(home.import().await.imported.len(), 1);
}

#[tokio::test]
async fn a_record_that_was_deleted_here_does_not_come_back() {
    let home = Home::with(&["turns", "killed"]);
    home.import().await;
    let lease = home.store.lease(id(KILLED), host("h")).await.unwrap();
    let deleted = Lifecycle::Deleted { at: Timestamp::parse("2026-08-01T00:00:00Z").unwrap() };
    home.store.append(lease, vec![Change::Lifecycle(deleted)], Durability::Process).await.unwrap();
    let kept = home.record(KILLED).await;
    assert_eq!(home.import().await, ImportReport { unchanged: 2, ..ImportReport::default() });
    // Not even when npm acpx has gone on with it.
    home.put("grown");
    let left =
        SkippedFile { file: format!("{KILLED}.json"), reason: SkipReason::IdTaken { record: id(KILLED) } };
    for _ in 0..2 {
        let report = home.import().await;
        assert_eq!(
            report,
            ImportReport { unchanged: 1, skipped: vec![left.clone()], ..ImportReport::default() }
        );
        assert!(!home.has_news().await);
    }
    assert_eq!(home.record(KILLED).await, kept);
    let listed = home.store.records(RecordFilter::default(), None, 10).await.unwrap();
    assert_eq!(listed.into_iter().map(|record| record.id).collect::<Vec<_>>(), [id(TURNS)]);
}
