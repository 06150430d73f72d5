//! The index over a reader of lines made for these tests, and over records of a store.

use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::pin::pin;
use std::sync::{Arc, Barrier, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use serde_json::json;

use super::*;
use crate::model::{AcpSessionId, Secrets, Timestamp};
use crate::store::Store;
use crate::transcripts::{
    ItemContent, SourceStamp, TranscriptHome, TranscriptItem, TranscriptItems, TranscriptProblem,
    TranscriptReader, TranscriptSource, Unread, transcript_reader,
};

/// A directory of files, one for each session. A line is `user WORDS`, `agent WORDS`, `tool NAME WORDS` or `cwd PATH`,
/// after `@MILLIS` if it has a time of its own.
/// A line `result WORDS` ends the call of a tool, and `torn` is an incomplete last line. A file `problem` makes the
/// directory one that cannot be listed, and one that begins with `late` is read from the beginning, until a deadline.
struct TestReader {
    directory: PathBuf,
}

struct TestItems {
    lines: Vec<String>,
    next: usize,
    position: u64,
    at: i64,
    /// The second item of a line.
    pending: Option<TranscriptItem>,
    is_late: bool,
    until: Option<Instant>,
}

impl TranscriptReader for TestReader {
    fn agent(&self) -> &'static str {
        "test"
    }

    fn locations(&self) -> Vec<PathBuf> {
        vec![self.directory.clone()]
    }

    fn list(&self, each: &mut dyn FnMut(TranscriptSource)) -> Vec<TranscriptProblem> {
        if self.directory.join("problem").exists() {
            return vec![TranscriptProblem { path: self.directory.clone(), reason: "locked".to_owned() }];
        }
        let real = self.directory.canonicalize().unwrap();
        for entry in fs::read_dir(real).unwrap() {
            let entry = entry.unwrap();
            let metadata = entry.metadata().unwrap();
            let modified = metadata.mtime() * 1_000_000_000 + metadata.mtime_nsec();
            let stamp = SourceStamp { size: metadata.len(), modified, inode: metadata.ino() };
            let name = entry.file_name().into_string().unwrap();
            let (session, parent) = match name.split_once('@') {
                Some((session, parent)) => (session.to_owned(), Some(AcpSessionId::new(parent).unwrap())),
                None => (name, None),
            };
            each(TranscriptSource {
                agent: "test",
                session: AcpSessionId::new(session).unwrap(),
                path: entry.path(),
                stamp,
                parent,
                is_archived: false,
            });
        }
        Vec::new()
    }

    fn open(&self, source: &TranscriptSource, from: u64) -> io::Result<Box<dyn TranscriptItems>> {
        let mut file = fs::File::open(&source.path)?;
        file.seek(SeekFrom::Start(from))?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let lines = text.lines().map(str::to_owned).collect();
        let (at, is_late) = (from.cast_signed(), source.session.as_str().starts_with("late"));
        Ok(Box::new(TestItems { lines, next: 0, position: from, at, pending: None, is_late, until: None }))
    }

    fn resume_command(&self, _: &str) -> Option<Vec<String>> {
        None
    }
}

/// A file with the same lines for each of several sessions.
struct TestDatabase {
    path: PathBuf,
    sessions: Mutex<Vec<&'static str>>,
}

impl TranscriptReader for Arc<TestDatabase> {
    fn agent(&self) -> &'static str {
        "test"
    }

    fn locations(&self) -> Vec<PathBuf> {
        vec![self.path.clone()]
    }

    fn list(&self, each: &mut dyn FnMut(TranscriptSource)) -> Vec<TranscriptProblem> {
        for session in self.sessions.lock().unwrap().iter() {
            each(TranscriptSource {
                agent: "test",
                session: AcpSessionId::new(*session).unwrap(),
                path: self.path.canonicalize().unwrap(),
                stamp: SourceStamp { size: 1, modified: 1, inode: 0 },
                parent: None,
                is_archived: false,
            });
        }
        Vec::new()
    }

    fn open(&self, source: &TranscriptSource, from: u64) -> io::Result<Box<dyn TranscriptItems>> {
        TestReader { directory: self.path.clone() }.open(source, from)
    }

    fn resume_command(&self, _: &str) -> Option<Vec<String>> {
        None
    }
}

impl TranscriptItems for TestItems {
    fn next(&mut self) -> io::Result<Option<TranscriptItem>> {
        if let Some(item) = self.pending.take() {
            return Ok(Some(item));
        }
        let Some(line) = self.lines.get(self.next).filter(|line| *line != "torn") else { return Ok(None) };
        if self.is_late && self.until.is_some() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.next += 1;
        self.position += line.len() as u64 + 1;
        self.at += 1;
        let (time, line) = match line.strip_prefix('@').and_then(|line| line.split_once(' ')) {
            Some((time, line)) => (time.parse().unwrap(), line),
            None => (self.at, line.as_str()),
        };
        let (kind, words) = line.split_once(' ').unwrap_or((line, ""));
        let content = match kind {
            "user" => {
                ItemContent::Prompt { id: None, blocks: vec![json!({ "type": "text", "text": words })] }
            }
            "tool" => ItemContent::ToolCall {
                id: "t".to_owned(),
                name: words.split(' ').next().unwrap_or_default().to_owned(),
                title: words.to_owned(),
                kind: "execute",
                input: json!({ "command": words }),
                paths: Vec::new(),
            },
            "result" => {
                let content = json!({ "type": "content", "content": { "type": "text", "text": words } });
                ItemContent::ToolResult { id: "t".to_owned(), is_error: false, content: vec![content] }
            }
            "cwd" => ItemContent::Directory(words.to_owned()),
            "both" => {
                let (directory, words) = words.split_once(' ').unwrap();
                let blocks = vec![json!({ "type": "text", "text": words })];
                let content = ItemContent::Prompt { id: None, blocks };
                self.pending = Some(TranscriptItem { at: None, content });
                ItemContent::Directory(directory.to_owned())
            }
            _ => ItemContent::Reply { id: None, text: words.to_owned() },
        };
        Ok(Some(TranscriptItem { at: Timestamp::from_millis(time).ok(), content }))
    }

    fn position(&self) -> Option<u64> {
        (!self.is_late).then_some(self.position)
    }

    fn is_at_position(&self) -> bool {
        self.pending.is_none()
    }

    fn unread(&self) -> Unread {
        Unread { is_torn: self.lines.last().is_some_and(|line| line == "torn"), ..Unread::default() }
    }

    fn stop_at(&mut self, until: Instant) {
        self.until = Some(until);
    }
}

/// The output of a future that never waits.
fn finished<T>(future: impl Future<Output = T>) -> T {
    let Poll::Ready(output) = pin!(future).poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("the future waits")
    };
    output
}

/// A home with transcripts and an index.
struct Place {
    home: tempfile::TempDir,
    readers: Vec<Box<dyn TranscriptReader>>,
    exclusions: IndexExclusions,
    index: SearchIndex,
}

impl Place {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("transcripts");
        fs::create_dir(&directory).unwrap();
        let index = SearchIndex::open(&home.path().join("private/index.db")).unwrap();
        let readers: Vec<Box<dyn TranscriptReader>> = vec![Box::new(TestReader { directory })];
        Self { home, readers, exclusions: IndexExclusions::default(), index }
    }

    fn write(&self, session: &str, lines: &[&str]) {
        let text = lines.join("\n") + "\n";
        fs::write(self.home.path().join("transcripts").join(session), text).unwrap();
    }

    fn append(&self, session: &str, line: &str) {
        use std::io::Write;
        let path = self.home.path().join("transcripts").join(session);
        let mut file = fs::File::options().append(true).open(path).unwrap();
        writeln!(file, "{line}").unwrap();
    }

    fn update(&mut self, until: Option<Instant>) -> IndexProgress {
        let scan = self.index.scan(&self.readers, &self.exclusions);
        self.update_from(None, &scan, until)
    }

    fn update_from(
        &mut self,
        store: Option<&dyn Store>,
        scan: &TranscriptScan,
        until: Option<Instant>,
    ) -> IndexProgress {
        let secrets = Secrets::new(["hunter2-secret"]);
        let Self { readers, exclusions, index, .. } = self;
        finished(index.update_transcripts(store, readers, scan, exclusions, &secrets, until)).unwrap()
    }

    /// The sessions, events and excerpts that a query finds, with the matches in brackets.
    fn found(&self, words: &str, scope: SearchScope) -> Vec<String> {
        let query = SearchQuery { words: words.to_owned(), scope, limit: 10 };
        let hits = self.index.search(&query).unwrap();
        hits.iter()
            .map(|hit| {
                let (mut text, mut from) = (String::new(), 0);
                for (begin, end) in &hit.matches {
                    text += &hit.excerpt[from..*begin];
                    text += "[";
                    text += &hit.excerpt[*begin..*end];
                    text += "]";
                    from = *end;
                }
                format!("{} {}: {text}{}", hit.session, hit.event, &hit.excerpt[from..])
            })
            .collect()
    }

    fn all(&self, words: &str) -> Vec<String> {
        self.found(words, SearchScope::default())
    }
}

#[test]
fn index_finds_words_phrases_prefixes_identifiers_and_cjk() {
    let mut place = Place::new();
    place.write(
        "one",
        &[
            "user fix the parseUserName function",
            "agent done, see snake_case_name",
            "user 全文搜索引擎",
            "agent 引擎rust写",
        ],
    );
    assert_eq!(place.update(None), IndexProgress { read: 1, ..IndexProgress::default() });
    let cases = [
        ("function", vec!["one 1: fix the parseUserName [function]"]),
        ("FIX function", vec!["one 1: [fix] the parseUserName [function]"]),
        ("\"the parseUserName\"", vec!["one 1: fix [the parseUserName] function"]),
        ("\"the function\"", vec![]),
        ("func*", vec!["one 1: fix the parseUserName [function]"]),
        ("username", vec![]),
        ("userName", vec!["one 1: fix the parse[UserName] function"]),
        ("snake_case", vec!["one 2: done, see [snake_case]_name"]),
        ("case", vec!["one 2: done, see snake_[case]_name"]),
        ("全文搜索", vec!["one 3: [全文搜索]引擎"]),
        ("文", vec!["one 3: 全[文]搜索引擎"]),
        ("搜索引擎", vec!["one 3: 全文[搜索引擎]"]),
        ("索引擎", vec!["one 3: 全文搜[索引擎]"]),
        ("写", vec!["one 4: 引擎rust[写]"]),
        ("擎rust", vec!["one 4: 引[擎rust]写"]),
        ("rust写", vec!["one 4: 引擎[rust写]"]),
        ("missing\0function", vec![]),
        ("搜引", vec![]),
        ("\"", vec![]),
        ("missing", vec![]),
    ];
    for (query, expected) in cases {
        assert_eq!(place.all(query), expected, "{query}");
    }
}

#[test]
fn grown_transcript_is_read_from_where_it_ended() {
    let mut place = Place::new();
    place.write("one", &["user alpha", "agent beta"]);
    place.update(None);
    place.append("one", "agent gamma");
    assert_eq!(place.update(None).read, 1);
    assert_eq!(place.update(None), IndexProgress::default());
    assert_eq!(place.all("gamma"), ["one 3: [gamma]"]);
    assert_eq!(place.all("alpha"), ["one 1: [alpha]"]);
    assert_eq!(place.index.status().unwrap().messages, 3);
    // A file that was replaced is read again.
    fs::remove_file(place.home.path().join("transcripts/one")).unwrap();
    place.write("one", &["user delta", "agent epsilon", "agent zeta", "agent eta"]);
    place.update(None);
    assert_eq!((place.all("alpha"), place.all("zeta")), (vec![], vec!["one 3: [zeta]".to_owned()]));
    fs::remove_file(place.home.path().join("transcripts/one")).unwrap();
    place.update(None);
    assert_eq!(
        place.index.status().unwrap(),
        IndexStatus { bytes: place.index.status().unwrap().bytes, ..IndexStatus::default() }
    );
}

#[test]
fn transcripts_stay_indexed_while_their_directory_cannot_be_listed() {
    let mut place = Place::new();
    place.write("one", &["user alpha"]);
    place.update(None);
    place.write("problem", &["user alpha"]);
    place.update(None);
    assert_eq!(place.all("alpha"), ["one 1: [alpha]"]);
    for file in ["problem", "one"] {
        fs::remove_file(place.home.path().join("transcripts").join(file)).unwrap();
    }
    place.update(None);
    assert_eq!(place.all("alpha"), [""; 0]);
}

#[test]
fn session_that_left_an_agent_database_behind_a_link_leaves_the_index() {
    let mut place = Place::new();
    let real = place.home.path().join("transcripts");
    let link = place.home.path().join("link");
    std::os::unix::fs::symlink(&real, &link).unwrap();
    // Of two sessions in one file, as in a database, one is deleted.
    let database = TestDatabase { path: link.join("db"), sessions: Mutex::new(vec!["one", "two"]) };
    let database = Arc::new(database);
    place.write("db", &["user alpha"]);
    place.readers = vec![Box::new(Arc::clone(&database))];
    place.update(None);
    assert_eq!(place.index.status().unwrap().transcripts, 2);
    database.sessions.lock().unwrap().pop();
    place.update(None);
    assert_eq!(place.all("alpha"), ["one 1: [alpha]"]);
}

#[test]
fn update_stops_at_its_deadline_and_reports_what_is_missing() {
    let mut place = Place::new();
    place.write("one", &["user alpha"]);
    place.write("two", &["user beta"]);
    let progress = place.update(Some(Instant::now()));
    assert_eq!((progress.read, progress.missing, progress.missing_bytes), (0, 2, 11 + 10));
    let listed = place.index.transcripts(&TranscriptFilter::default(), 10).unwrap();
    assert_eq!(listed.iter().map(|row| row.is_read).collect::<Vec<_>>(), [false, false]);
    assert_eq!(place.index.status().unwrap().pending, 2);
    assert_eq!(place.update(None).read, 2);
    assert_eq!(place.all("alpha").len() + place.all("beta").len(), 2);
}

#[test]
fn transcript_that_needs_more_time_is_skipped_and_reported_missing() {
    let mut place = Place::new();
    place.write("one", &["user alpha"]);
    place.write("late", &["user beta"]);
    let until = Some(Instant::now() + Duration::from_hours(1));
    let missing = IndexProgress { missing: 1, missing_bytes: 10, ..IndexProgress::default() };
    assert_eq!(place.update(until), IndexProgress { read: 1, ..missing.clone() });
    // It is not opened again: it would fail.
    fs::remove_file(place.home.path().join("transcripts/late")).unwrap();
    place.write("late", &["user beta"]);
    let scan = place.index.scan(&place.readers, &place.exclusions);
    fs::rename(place.home.path().join("transcripts/late"), place.home.path().join("late")).unwrap();
    assert_eq!(place.update_from(None, &scan, until), missing);
    fs::rename(place.home.path().join("late"), place.home.path().join("transcripts/late")).unwrap();
    assert_eq!(place.update(None).read, 1);
    assert_eq!(place.all("beta"), ["late 1: [beta]"]);
}

#[test]
fn torn_last_line_is_counted_once_in_the_index() {
    let mut place = Place::new();
    place.write("one", &["user alpha", "torn"]);
    place.update(None);
    place.append("one", "torn");
    place.update(None);
    assert_eq!(place.index.status().unwrap().agents, [("test".to_owned(), 1, 1)]);
    place.append("one", "agent beta");
    place.update(None);
    assert_eq!(place.index.status().unwrap().agents, [("test".to_owned(), 1, 0)]);
}

#[test]
fn scan_opens_only_transcripts_that_have_changed() {
    let mut place = Place::new();
    let home = place.home.path().to_owned();
    let name = "rollout-2026-11-17T09-29-36-01a1e8d7-25a3-7cc1-b001-973a896f7aff.jsonl";
    let file = home.join(".codex/archived_sessions").join(name);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let agent = TranscriptHome { home: &home, variable: &|_| None };
    place.readers = vec![transcript_reader("codex", &agent).unwrap()];
    let write = |parent: &str| {
        let meta = json!({ "id": "a", "parent_thread_id": parent });
        fs::write(&file, json!({ "type": "session_meta", "payload": meta }).to_string() + "\n").unwrap();
    };
    let parent = |place: &Place| {
        let scan = place.index.scan(&place.readers, &place.exclusions);
        scan.sources[0].parent.as_ref().unwrap().to_string()
    };
    write("one");
    let written = fs::metadata(&file).unwrap().modified().unwrap();
    assert_eq!(parent(&place), "one");
    assert_eq!(place.update(None).read, 1);
    // The same inode, size and time: it is not opened.
    write("two");
    fs::File::options().write(true).open(&file).unwrap().set_modified(written).unwrap();
    assert_eq!(parent(&place), "one");
    write("three");
    assert_eq!(parent(&place), "three");
}

#[test]
fn result_that_is_read_after_its_call_has_the_tool() {
    let mut place = Place::new();
    place.write("one", &["user alpha", "tool Bash beta"]);
    place.update(None);
    place.append("one", "result gamma");
    place.update(None);
    let scope = SearchScope { tool: Some("bash".to_owned()), ..SearchScope::default() };
    assert_eq!(place.found("gamma", scope), ["one 3: [gamma]"]);
}

#[test]
fn update_that_stops_at_any_item_loses_no_message() {
    let mut place = Place::new();
    // Each line of this reader that begins with `both` has two items.
    place.write("one", &["both /work alpha", "both /work beta", "both /work gamma"]);
    let mut rounds = 0;
    while place.update(Some(Instant::now() + std::time::Duration::from_nanos(rounds))).missing > 0 {
        rounds += 200;
    }
    for word in ["alpha", "beta", "gamma"] {
        assert_eq!(place.all(word).len(), 1, "{word}");
    }
}

#[test]
fn messages_from_before_1970_are_found() {
    let mut place = Place::new();
    place.write("one", &["@-5 user alpha"]);
    place.update(None);
    assert_eq!(place.all("alpha"), ["one 1: [alpha]"]);
}

#[test]
fn search_scope_selects_by_project_role_tool_time_and_session() {
    let mut place = Place::new();
    place.write("one", &["cwd /code/a", "user needle", "agent needle", "tool Bash needle"]);
    place.write("two", &["cwd /code/ab", "user needle"]);
    place.write("sub@one", &["cwd /code/a/b", "agent needle"]);
    place.update(None);
    let scope = SearchScope::default;
    let count = |scope: SearchScope| place.found("needle", scope).len();
    assert_eq!(count(scope()), 5);
    assert_eq!(count(SearchScope { project: Some("/code/a".into()), ..scope() }), 4);
    assert_eq!(count(SearchScope { roles: vec![MessageRole::User], ..scope() }), 2);
    assert_eq!(count(SearchScope { tool: Some("bash".into()), ..scope() }), 1);
    assert_eq!(count(SearchScope { tool: Some("execute".into()), ..scope() }), 1);
    assert_eq!(count(SearchScope { tool: Some("bas".into()), ..scope() }), 0);
    assert_eq!(count(SearchScope { session: Some("one".into()), ..scope() }), 4);
    assert_eq!(count(SearchScope { excluded: ["one".to_owned()].into(), ..scope() }), 1);
    assert_eq!(count(SearchScope { since: Timestamp::from_millis(4).ok(), ..scope() }), 1);
    assert_eq!(count(SearchScope { agent: Some("other".into()), ..scope() }), 0);
    let listed = place.index.transcripts(&TranscriptFilter::default(), 10).unwrap();
    let mut listed: Vec<_> =
        listed.iter().map(|row| (&*row.session, row.title.as_deref(), row.prompts)).collect();
    listed.sort_unstable();
    assert_eq!(listed, [("one", Some("needle"), 1), ("two", Some("needle"), 1)]);
}

#[test]
fn list_has_a_transcript_with_answers_only_and_none_without_messages() {
    let mut place = Place::new();
    place.write("answers", &["agent needle"]);
    place.write("nothing", &["cwd /code/a"]);
    place.update(None);
    let listed = place.index.transcripts(&TranscriptFilter::default(), 10).unwrap();
    let listed: Vec<_> = listed.iter().map(|row| (&*row.session, row.prompts)).collect();
    assert_eq!(listed, [("answers", 0)]);
}

#[test]
fn secrets_and_excluded_places_are_not_in_the_index() {
    let mut place = Place::new();
    place.write("one", &["user the key is hunter2-secret here"]);
    place.write("two", &["cwd /code/private/x", "user needle"]);
    place.exclusions.paths.push("/code/private".into());
    place.update(None);
    assert_eq!(place.all("key"), ["one 1: the [key] is [secret] here"]);
    assert_eq!((place.all("hunter2"), place.all("needle")), (vec![], vec![]));
    let bytes = fs::read(place.home.path().join("private/index.db-wal")).unwrap_or_default();
    assert!(memchr::memmem::find(&bytes, b"hunter2").is_none());
    place.exclusions.agents.insert("test".to_owned());
    place.update(None);
    assert_eq!(place.index.status().unwrap().transcripts, 0);
}

#[test]
fn changed_exclusions_remove_and_restore_sessions_of_the_index() {
    let mut place = Place::new();
    place.write("one", &["user alpha"]);
    place.write("two", &["cwd /code/private/x", "user alpha"]);
    let mut sessions_with = |paths: &[&str]| {
        place.exclusions.paths = paths.iter().map(PathBuf::from).collect();
        place.update(None);
        let listed = place.index.transcripts(&TranscriptFilter::default(), 10).unwrap();
        (place.all("alpha").len(), listed.len())
    };
    assert_eq!(sessions_with(&[]), (2, 2));
    assert_eq!(sessions_with(&["/code/private"]), (1, 1));
    assert_eq!(sessions_with(&["/code/other"]), (2, 2));
}

#[test]
fn short_ids_of_the_index_are_unique_beginnings() {
    let mut place = Place::new();
    for session in ["0123456789ab", "01234567ffff", "short", "aaaaaaaaaaaa"] {
        place.write(session, &["user alpha"]);
    }
    place.update(None);
    let short = place.index.short_ids(&["0123456789ab", "01234567ffff", "short", "aaaaaaaaaaaa"]).unwrap();
    assert_eq!(short, ["012345678", "01234567f", "short", "aaaaaaaa"]);
}

#[test]
fn damaged_or_foreign_index_is_created_again_with_private_files() {
    let place = Place::new();
    let path = place.index.path().to_owned();
    drop(place.index);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    for content in ["not a database at all, but long enough to look like one".repeat(100), String::new()] {
        fs::write(&path, content).unwrap();
        assert_eq!(SearchIndex::open(&path).unwrap().status().unwrap().messages, 0);
    }
    let newer = Connection::open(&path).unwrap();
    newer.pragma_update(None, "user_version", 99).unwrap();
    drop(newer);
    assert_eq!(SearchIndex::open(&path).unwrap().status().unwrap().messages, 0);
}

#[test]
fn index_with_damaged_pages_is_deleted_once_and_created_again() {
    let mut place = Place::new();
    place.write("one", &["user alpha"]);
    place.update(None);
    let path = place.index.path().to_owned();
    drop(place.index);
    overwrite_pages(&path);
    let (damaged, other) = (SearchIndex::open(&path).unwrap(), SearchIndex::open(&path).unwrap());
    assert!(damaged.status().unwrap_err().is_damage());
    place.index = SearchIndex::open(&path).unwrap();
    place.update(None);
    // Another process that has the damaged file still open leaves the new one alone.
    assert!(other.status().unwrap_err().is_damage());
    drop((damaged, other));
    assert_eq!(place.all("alpha"), ["one 1: [alpha]"]);
    assert_eq!(SearchIndex::open(&path).unwrap().status().unwrap().messages, 1);
}

/// Overwrites everything behind the first page.
fn overwrite_pages(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    bytes[4096..].fill(0x5a);
    fs::write(path, bytes).unwrap();
}

#[test]
fn processes_that_create_the_index_at_the_same_time_share_it() {
    let home = tempfile::tempdir().unwrap();
    // A file of another format, or none.
    for round in 0..20 {
        let path = home.path().join(format!("{round}/index.db"));
        if round % 2 == 1 {
            fs::create_dir(path.parent().unwrap()).unwrap();
            Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
        }
        let begin = Barrier::new(8);
        std::thread::scope(|scope| {
            let open = || {
                begin.wait();
                let index = SearchIndex::open(&path).unwrap();
                index.run(|connection| connection.execute("INSERT INTO complete_scan VALUES (1)", []))
            };
            let openers: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
            for opener in openers {
                assert_eq!(opener.join().unwrap().unwrap(), 1);
            }
        });
        let index = SearchIndex::open(&path).unwrap();
        let count = |connection: &Connection| {
            connection.query_row("SELECT count(*) FROM complete_scan", [], |row| row.get::<_, i64>(0))
        };
        assert_eq!(index.run(count).unwrap(), 8);
    }
}

#[test]
fn index_that_cannot_be_written_is_searched_as_it_is() {
    let mut place = Place::new();
    let path = place.index.path().to_owned();
    let hits = |path: &Path| {
        let index = SearchIndex::open_unchanged(path).unwrap();
        let query = SearchQuery { words: "hello".to_owned(), limit: 10, ..SearchQuery::default() };
        index.search(&query).unwrap().len()
    };
    assert_eq!(hits(&path.with_file_name("missing.db")), 0);
    assert!(!path.with_file_name("missing.db").exists());
    place.write("s1", &["user hello"]);
    place.update(None);
    assert_eq!(hits(&path), 1);
    let unchanged = SearchIndex::open_unchanged(&path).unwrap();
    let written = unchanged.run(|connection| connection.execute("DELETE FROM sessions", []));
    assert!(written.unwrap_err().is_unwritable());
}

#[test]
fn second_process_does_not_update_at_the_same_time() {
    let mut place = Place::new();
    place.write("one", &["user alpha"]);
    let other = SearchIndex::open(place.index.path()).unwrap();
    let lock = other.lock().unwrap();
    assert!(place.update(None).is_busy);
    drop(lock);
    assert_eq!(place.update(None).read, 1);
}

mod records {
    use super::*;
    use crate::model::{
        AbsolutePath, AgentMemory, AgentSpec, Direction, Event, EventKind, HostId, Lifecycle, Lineage,
        LineageIndex, Record, RecordId, RecordSettings, Seq, SessionInfo,
    };
    use crate::store::{Change, Durability, Lease, MemoryStore};

    fn record() -> Record {
        let (at, cwd) = (Timestamp::from_millis(1).unwrap(), AbsolutePath::new("/").unwrap());
        Record {
            id: RecordId::new("r").unwrap(),
            agent: AgentSpec::new("agent", [""; 0]).named("test"),
            cwd: cwd.clone(),
            real_cwd: cwd,
            additional_directories: Vec::new(),
            mcp_servers: Vec::new(),
            scope: None,
            info: SessionInfo::default(),
            lifecycle: Lifecycle::Open,
            lineage: Lineage::adopted(AcpSessionId::new("s").unwrap(), at),
            agent_run: None,
            settings: RecordSettings::default(),
            memory: AgentMemory::default(),
            restore_error: None,
            created_at: at,
            updated_at: at,
            last_seq: None,
            last_turn: None,
            answered_turns: 0,
        }
    }

    fn update(seq: u64, text: &str, kind: &str) -> Change {
        let update = json!({ "sessionUpdate": kind, "content": { "type": "text", "text": text } });
        let params = json!({ "sessionId": "s", "update": update });
        let body = json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }).to_string();
        Change::Event(Event {
            seq: Seq(seq),
            at: Timestamp::from_millis(seq.cast_signed()).unwrap(),
            turn: None,
            lineage: LineageIndex::FIRST,
            protocol: 1,
            direction: Direction::FromAgent,
            kind: EventKind::Update,
            body: body.into(),
        })
    }

    #[tokio::test]
    async fn records_are_found_and_leave_the_index_when_deleted() {
        let mut place = Place::new();
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let record = record();
        let changes = vec![update(1, "alpha", "user_message_chunk"), update(2, "be", "agent_message_chunk")];
        let lease = store.create(record, changes, HostId::new("h").unwrap()).await.unwrap();
        let none = IndexExclusions::default();
        place.index.update_records(&*store, &none, None, true).await.unwrap();
        place.write("s", &["user alpha"]);
        place.update(None);
        let changes = vec![update(3, "ta", "agent_message_chunk"), update(4, "gamma", "user_message_chunk")];
        store.append(lease.clone(), changes, Durability::Process).await.unwrap();
        let progress = place.index.update_records(&*store, &none, None, false).await.unwrap();
        assert_eq!(progress.read, 1);
        // The transcript of the record's own ACP session is not found a second time.
        assert_eq!(place.all("alpha"), ["r 1: [alpha]"]);
        assert_eq!(
            (place.all("beta"), place.all("gamma")),
            (vec!["r 2: [beta]".to_owned()], vec!["r 4: [gamma]".to_owned()])
        );
        assert_eq!(place.index.transcripts(&TranscriptFilter::default(), 10).unwrap(), []);
        // What the user adds in the agent's own program is later than the record, and found at its end.
        place.append("s", "@3 user delta");
        place.append("s", "@5 user delta");
        place.update(None);
        assert_eq!(place.all("delta"), ["r 4: [delta]"]);
        place.index.forget(&["r"]).unwrap();
        assert_eq!((place.all("gamma"), place.all("delta")), (vec![], vec![]));
    }

    #[tokio::test]
    async fn records_that_a_deadline_left_are_missing_until_they_are_read() {
        let mut place = Place::new();
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        for number in 0..130 {
            let at = Timestamp::from_millis(number).unwrap();
            let id = RecordId::new(format!("r{number}")).unwrap();
            let lineage = Lineage::adopted(AcpSessionId::new(format!("s{number}")).unwrap(), at);
            let record = Record { id, lineage, updated_at: at, ..record() };
            store.create(record, Vec::new(), HostId::new("h").unwrap()).await.unwrap();
        }
        let none = IndexExclusions::default();
        let (mut read, mut micros) = (0, 0);
        while read < 130 {
            let until = Instant::now() + Duration::from_micros(micros);
            let progress = place.index.update_records(&*store, &none, Some(until), false).await.unwrap();
            read += progress.read;
            assert_eq!(progress.missing, 130 - read);
            micros += 100;
        }
    }

    #[tokio::test]
    async fn tool_calls_of_a_record_have_their_time_in_the_index() {
        let mut place = Place::new();
        let store = MemoryStore::default();
        let call = json!({ "sessionUpdate": "tool_call", "toolCallId": "t", "title": "alpha" });
        let params = json!({ "sessionId": "s", "update": call });
        let body = json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }).to_string();
        let Change::Event(event) = update(1, "", "agent_message_chunk") else { unreachable!() };
        let at = Timestamp::from_millis(7).unwrap();
        let changes = vec![Change::Event(Event { at, body: body.into(), ..event })];
        store.create(record(), changes, HostId::new("h").unwrap()).await.unwrap();
        place.index.update_records(&store, &IndexExclusions::default(), None, true).await.unwrap();
        let since =
            |millis| SearchScope { since: Timestamp::from_millis(millis).ok(), ..SearchScope::default() };
        assert_eq!(place.found("alpha", since(7)).len(), 1);
        assert_eq!(place.found("alpha", since(8)).len(), 0);
    }

    fn delete(store: &dyn Store, lease: &Lease) {
        let deleted = vec![Change::Lifecycle(Lifecycle::Deleted { at: Timestamp::from_millis(9).unwrap() })];
        finished(store.append(lease.clone(), deleted, Durability::Process)).unwrap();
    }

    #[tokio::test]
    async fn long_record_is_read_in_parts_that_each_end_at_the_deadline() {
        let mut place = Place::new();
        let store = MemoryStore::default();
        // Each prompt has more events than are read at a time.
        let text = |seq: u64| match seq % 3000 {
            1 => ("alpha", "user_message_chunk"),
            rest => (if rest == 0 { " omega" } else { " x" }, "agent_message_chunk"),
        };
        let changes = (1..=9000).map(|seq| update(seq, text(seq).0, text(seq).1)).collect();
        store.create(record(), changes, HostId::new("h").unwrap()).await.unwrap();
        let none = IndexExclusions::default();
        let (mut limit, mut parts) = (Duration::ZERO, 0);
        loop {
            let until = Some(Instant::now() + limit);
            let progress = place.index.update_records(&store, &none, until, false).await.unwrap();
            if progress.read == 1 {
                break;
            }
            assert_eq!(progress.missing, 1);
            parts += u64::from(place.index.status().unwrap().messages > 0);
            limit += limit / 8 + Duration::from_micros(100);
        }
        assert!(parts > 0);
        assert_eq!(place.all("alpha"), ["r 6001: [alpha]", "r 3001: [alpha]", "r 1: [alpha]"]);
        assert_eq!(place.all("omega").len(), 3);
        assert_eq!(place.index.status().unwrap().messages, 6);
        let done = place.index.update_records(&store, &none, None, false).await.unwrap();
        assert_eq!(done, IndexProgress::default());
    }

    /// Deletes a record, as a host does it, when its transcript is about to be read.
    struct DeletingReader {
        inner: Box<dyn TranscriptReader>,
        store: Arc<dyn Store>,
        lease: Lease,
        index: PathBuf,
    }

    impl TranscriptReader for DeletingReader {
        fn agent(&self) -> &'static str {
            self.inner.agent()
        }

        fn locations(&self) -> Vec<PathBuf> {
            self.inner.locations()
        }

        fn list(&self, each: &mut dyn FnMut(TranscriptSource)) -> Vec<TranscriptProblem> {
            self.inner.list(each)
        }

        fn open(&self, source: &TranscriptSource, from: u64) -> io::Result<Box<dyn TranscriptItems>> {
            delete(&*self.store, &self.lease);
            SearchIndex::open(&self.index).unwrap().forget(&["r", "s"]).unwrap();
            self.inner.open(source, from)
        }

        fn resume_command(&self, session: &str) -> Option<Vec<String>> {
            self.inner.resume_command(session)
        }
    }

    #[test]
    fn deletion_during_an_index_update_leaves_no_transcript() {
        let mut place = Place::new();
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let lease = finished(store.create(record(), Vec::new(), HostId::new("h").unwrap())).unwrap();
        place.write("s", &["user alpha"]);
        let inner = place.readers.pop().unwrap();
        let index = place.index.path().to_owned();
        place.readers.push(Box::new(DeletingReader { inner, store: Arc::clone(&store), lease, index }));
        let scan = place.index.scan(&place.readers, &place.exclusions);
        assert_eq!(place.update_from(Some(&*store), &scan, None).read, 1);
        assert_eq!(place.index.status().unwrap().transcripts, 0);
        assert_eq!(place.update_from(Some(&*store), &scan, None), IndexProgress::default());
        assert_eq!(place.index.status().unwrap().transcripts, 0);
    }

    #[test]
    fn transcript_that_a_deletion_left_is_removed_by_an_unchanged_scan() {
        let mut place = Place::new();
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let lease = finished(store.create(record(), Vec::new(), HostId::new("h").unwrap())).unwrap();
        place.write("s", &["user alpha"]);
        place.write("sub@s", &["user alpha"]);
        place.write("other", &["user alpha"]);
        let scan = place.index.scan(&place.readers, &place.exclusions);
        assert_eq!(place.update_from(Some(&*store), &scan, None).read, 3);
        delete(&*store, &lease);
        assert_eq!(place.update_from(Some(&*store), &scan, None).read, 0);
        assert_eq!(place.all("alpha"), ["other 1: [alpha]"]);
    }
}

#[test]
fn search_ranks_prompts_first_and_of_common_words_finds_the_newest() {
    let mut place = Place::new();
    // More replies than are looked up at a time score a little better than the prompt before its weight.
    let mut lines: Vec<String> = (0..300).map(|number| format!("agent needle {number}")).collect();
    lines.insert(0, "user needle and hay".to_owned());
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    place.write("one", &lines);
    place.update(None);
    assert_eq!(place.all("needle")[0], "one 1: [needle] and hay");

    let lines: Vec<String> = (0..5001).map(|number| format!("user common {number}")).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    place.write("two", &lines);
    place.update(None);
    assert_eq!(place.all("common")[..2], ["two 5001: [common] 5000", "two 5000: [common] 4999"]);
    let other = SearchScope { session: Some("one".to_owned()), ..SearchScope::default() };
    assert_eq!(place.found("common", other), [""; 0]);

    // The time of a message counts, and not when it was read.
    place.write(
        "three",
        &["@8000000 agent common", "@9000000 user common and much more", "@7000 user common"],
    );
    place.update(None);
    assert_eq!(
        place.all("common")[..3],
        ["three 2: [common] and much more", "three 1: [common]", "three 3: [common]"]
    );
    // Few matches in scope are ranked, however many there are elsewhere.
    let within = SearchScope { session: Some("three".to_owned()), ..SearchScope::default() };
    let ranked = ["three 3: [common]", "three 1: [common]", "three 2: [common] and much more"];
    assert_eq!(place.found("common", within), ranked);
    let late = SearchScope { since: Timestamp::from_millis(8_500_000).ok(), ..SearchScope::default() };
    assert_eq!(place.found("common", late), ranked[2..]);
}
