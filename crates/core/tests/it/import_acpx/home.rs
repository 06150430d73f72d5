//! A home of npm acpx with fixtures in it, and a store beside it.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use acpx_core::acp;
use acpx_core::model::{
    Conversation, ConversationMessage, Entry, MessageKind, ProcessIdentity, Record, RecordId,
};
use acpx_core::store::import_acpx::{ImportMode, ImportOptions, ImportReport, NpmSessions, import};
use acpx_core::store::{Access, SqliteStore, Store};
use tempfile::TempDir;

use crate::store_contract::samples::{all_events, host, id};
use crate::workspace;

/// A home with a sessions directory of npm acpx.
pub(super) struct Home {
    home: TempDir,
    pub(super) store: SqliteStore,
}

impl Home {
    /// One with these fixtures. The files are an hour old, so that whatever is written to them later is newer.
    pub(super) fn with(fixtures: &[&str]) -> Self {
        let home = tempfile::tempdir().unwrap();
        for directory in ["sessions", "queues"] {
            fs::create_dir(home.path().join(directory)).unwrap();
        }
        let store = SqliteStore::open(&home.path().join("store.db"), Access::ReadWrite).unwrap();
        let this = Self { home, store };
        let an_hour_ago = SystemTime::now() - Duration::from_hours(1);
        for fixture in fixtures {
            this.put(fixture);
        }
        for file in fs::read_dir(this.sessions()).unwrap() {
            fs::File::open(file.unwrap().path()).unwrap().set_modified(an_hour_ago).unwrap();
        }
        this
    }

    /// Puts the files of a fixture into the sessions directory, over those that are there.
    pub(super) fn put(&self, fixture: &str) {
        for file in fs::read_dir(fixtures().join(fixture)).unwrap() {
            let path = file.unwrap().path();
            fs::copy(&path, self.sessions().join(path.file_name().unwrap())).unwrap();
        }
    }

    pub(super) fn sessions(&self) -> PathBuf {
        self.home.path().join("sessions")
    }

    pub(super) fn queues(&self) -> PathBuf {
        self.home.path().join("queues")
    }

    /// The text of a file in the sessions directory.
    pub(super) fn read(&self, file: &str) -> String {
        fs::read_to_string(self.sessions().join(file)).unwrap()
    }

    /// Writes a file into the sessions directory.
    pub(super) fn write(&self, file: &str, text: impl AsRef<[u8]>) {
        fs::write(self.sessions().join(file), text).unwrap();
    }

    pub(super) async fn import_as(&self, mode: ImportMode) -> ImportReport {
        let name_of = |argv: &[String]| {
            (argv.first().is_some_and(|program| program == "acpx")).then(|| "demo".to_owned())
        };
        let living = ProcessIdentity::living;
        let options =
            ImportOptions { host: &host("h"), name_of: &name_of, living, reserve: &HashSet::new(), mode };
        import(&self.store, &self.sessions(), options).await.unwrap()
    }

    pub(super) async fn import(&self) -> ImportReport {
        self.import_as(ImportMode::Keep).await
    }

    pub(super) async fn look(&self) -> NpmSessions {
        NpmSessions::look(Some(&self.store), &self.sessions(), ProcessIdentity::living).await.unwrap()
    }

    pub(super) async fn has_news(&self) -> bool {
        self.look().await.has_news
    }

    pub(super) async fn record(&self, record: &str) -> Record {
        self.store.record(id(record)).await.unwrap().unwrap()
    }

    /// Everything the files are: bytes, times and modes.
    pub(super) fn files(&self) -> BTreeMap<PathBuf, (Vec<u8>, SystemTime, u32)> {
        let entry = |path: PathBuf| {
            let found = fs::metadata(&path).unwrap();
            (path.clone(), (fs::read(path).unwrap(), found.modified().unwrap(), found.mode()))
        };
        fs::read_dir(self.sessions()).unwrap().map(|file| entry(file.unwrap().path())).collect()
    }
}

fn fixtures() -> PathBuf {
    workspace::root().join("crates/core/tests/fixtures/npm-acpx")
}

/// The conversation of a record, folded from its events.
pub(super) async fn conversation(store: &SqliteStore, record: &RecordId) -> Conversation {
    let mut conversation = Conversation::new(record.clone());
    for event in all_events(store, record, 7).await.unwrap() {
        conversation.apply(&event, acp::content(&event));
    }
    conversation
}

/// What the user and the agent said in a record.
pub(super) async fn said(store: &SqliteStore, record: &str) -> Vec<(MessageKind, String)> {
    let conversation = conversation(store, &id(record)).await;
    let message = |entry: &Entry| match entry {
        Entry::Message(ConversationMessage {
            kind: kind @ (MessageKind::User | MessageKind::Agent),
            text,
            ..
        }) => Some((*kind, text.clone())),
        _ => None,
    };
    conversation.entries().iter().filter_map(message).collect()
}

/// What npm acpx shows as the history of a record: the texts of its own messages.
pub(super) fn shown_by_npm(file: &Path) -> Vec<(MessageKind, String)> {
    let record: serde_json::Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let mut shown = Vec::new();
    for message in record["messages"].as_array().unwrap() {
        for (name, kind) in [("User", MessageKind::User), ("Agent", MessageKind::Agent)] {
            let parts = message[name]["content"].as_array().into_iter().flatten();
            shown.extend(parts.filter_map(|part| Some((kind, part["Text"].as_str()?.to_owned()))));
        }
    }
    shown
}
