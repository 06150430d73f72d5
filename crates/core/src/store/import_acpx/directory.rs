//! Lists the files of npm acpx in its sessions directory, with times and sizes. It opens no file, so it is cheap
//! enough for every command.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::store::ImportedFile;

/// The suffix of a turn's lock file, after the name of the record's files.
pub(super) const LOCK_SUFFIX: &str = ".stream.lock";

/// A file's modification time and size, by which a change is detected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Stamp {
    pub(super) modified_ns: i64,
    pub(super) size: u64,
}

/// A record's file and its journals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RecordFile {
    pub(super) name: String,
    pub(super) stamp: Stamp,
    /// Oldest first.
    pub(super) journals: Vec<JournalFile>,
    /// Whether a turn of npm acpx left its lock file.
    pub(super) has_lock: bool,
}

/// One segment of a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct JournalFile {
    pub(super) name: String,
    pub(super) stamp: Stamp,
    /// 0 is the one that is being written; higher numbers are older.
    number: u32,
}

/// The ledger entries of a directory's files, by name.
pub(super) type Ledger = HashMap<String, ImportedFile>;

impl RecordFile {
    /// The name without its ending.
    pub(super) fn stem(&self) -> &str {
        self.name.strip_suffix(".json").unwrap_or(&self.name)
    }

    /// The record's file and its journals, each with its stamp.
    pub(super) fn files(&self) -> impl Iterator<Item = (&str, Stamp)> {
        let journals = self.journals.iter().map(|journal| (&*journal.name, journal.stamp));
        std::iter::once((&*self.name, self.stamp)).chain(journals)
    }

    /// Whether a file of the record has changed since its ledger entry.
    pub(super) fn is_changed(&self, ledger: &Ledger) -> bool {
        self.files().any(|(name, stamp)| {
            let noted = ledger.get(name);
            noted.is_none_or(|noted| stamp != Stamp { modified_ns: noted.modified_ns, size: noted.size })
        })
    }
}

/// Lists the records of a directory, most recently changed first.
///
/// Skips what npm acpx does not recognise: directories, its former index, journals without a record, and names that
/// are not UTF-8.
pub(super) fn list(directory: &Path) -> io::Result<Vec<RecordFile>> {
    let mut records = Vec::new();
    let mut journals: HashMap<String, Vec<JournalFile>> = HashMap::new();
    let mut locked = HashSet::new();
    for entry in fs::read_dir(directory)? {
        let Ok(name) = entry?.file_name().into_string() else { continue };
        if let Some((stem, number)) = journal_name(&name) {
            let stamp = stamp(&directory.join(&name)).unwrap_or_default();
            journals.entry(stem.to_owned()).or_default().push(JournalFile { name, stamp, number });
        } else if let Some(stem) = name.strip_suffix(LOCK_SUFFIX) {
            locked.insert(stem.to_owned());
        } else if is_record_name(&name)
            && let Some(stamp) = stamp(&directory.join(&name))
        {
            records.push(RecordFile { name, stamp, journals: Vec::new(), has_lock: false });
        }
    }
    for record in &mut records {
        record.journals = journals.remove(record.stem()).unwrap_or_default();
        record.has_lock = locked.contains(record.stem());
        record.journals.sort_by_key(|journal| std::cmp::Reverse(journal.number));
    }
    records.sort_by(|a, b| b.stamp.modified_ns.cmp(&a.stamp.modified_ns).then_with(|| a.name.cmp(&b.name)));
    Ok(records)
}

fn is_record_name(name: &str) -> bool {
    name.strip_suffix(".json").is_some_and(|stem| !stem.is_empty() && stem != "index")
}

/// The record of a journal, and the number of the segment.
fn journal_name(name: &str) -> Option<(&str, u32)> {
    let rest = name.strip_suffix(".ndjson")?;
    if let Some(stem) = rest.strip_suffix(".stream") {
        return Some((stem, 0));
    }
    let (stem, number) = rest.rsplit_once(".stream.")?;
    number.parse().ok().map(|number| (stem, number))
}

/// A file's stamp; zero if it is inaccessible, since reading it will report why. `None` for a directory.
fn stamp(path: &Path) -> Option<Stamp> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => None,
        Ok(found) => {
            let modified_ns = found.mtime().saturating_mul(1_000_000_000).saturating_add(found.mtime_nsec());
            Some(Stamp { modified_ns, size: found.len() })
        }
        Err(_) => Some(Stamp::default()),
    }
}
