//! The ledger of imports: which files of npm acpx were examined, with their time and size, and the outcome of each.
//! An unchanged file need not be examined again.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rusqlite::Connection;
use rusqlite::types::ValueRef;

use super::cells::{self, Cells, Columns, columns};
use super::fault::SqliteFault;
use crate::model::RecordId;

/// One examined file of npm acpx.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedFile {
    /// Its name within the directory.
    pub file: String,
    /// When it was last changed, in nanoseconds since 1970.
    pub modified_ns: i64,
    /// Its size in bytes.
    pub size: u64,
    /// The record it was imported as, if any.
    pub record: Option<RecordId>,
    /// The outcome, as text.
    pub outcome: String,
}

pub(super) const IMPORT: Columns<6> = columns!["imports":
    "directory", "file", "modified_ns", "size", "record", "outcome"; "checksum"];

/// The entries of a directory, by file name.
pub(super) fn read(connection: &Connection, directory: &Path) -> Result<Vec<ImportedFile>, SqliteFault> {
    let mut statement = connection
        .prepare_cached(&format!("SELECT {} FROM imports WHERE directory = ?1 ORDER BY file", IMPORT.list))?;
    let mut found = statement.query([directory.as_os_str().as_bytes()])?;
    let mut files = Vec::new();
    while let Some(row) = found.next()? {
        files.push(imported_file(&Cells::read(row, 0, &IMPORT)?)?);
    }
    Ok(files)
}

fn imported_file(cells: &Cells<'_, 6>) -> Result<ImportedFile, SqliteFault> {
    let record = cells.optional_text(4)?;
    Ok(ImportedFile {
        file: cells.text(1)?.to_owned(),
        modified_ns: cells.integer(2)?,
        size: cells.number(3)?,
        record: record.map(|text| RecordId::new(text).map_err(|_| cells.unknown(4))).transpose()?,
        outcome: cells.text(5)?.to_owned(),
    })
}

/// Stores entries for files of a directory, each replacing the previous one.
pub(super) fn note(
    connection: &Connection,
    directory: &Path,
    files: &[ImportedFile],
) -> Result<(), SqliteFault> {
    let mut upsert = connection.prepare_cached(
        "INSERT INTO imports (directory, file, modified_ns, size, record, outcome, checksum) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (directory, file) DO UPDATE SET \
         modified_ns = excluded.modified_ns, size = excluded.size, record = excluded.record, \
         outcome = excluded.outcome, checksum = excluded.checksum",
    )?;
    for file in files {
        let values = [
            ValueRef::Blob(directory.as_os_str().as_bytes()),
            file.file.as_str().into(),
            ValueRef::Integer(file.modified_ns),
            cells::number(file.size)?,
            file.record.as_ref().map(RecordId::as_str).into(),
            file.outcome.as_str().into(),
        ];
        cells::write(&mut upsert, &IMPORT, values)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::path::PathBuf;

    use super::super::tests::{id, place};
    use super::super::{Access, SqliteStore};
    use super::*;

    fn file(name: &str, size: u64, record: Option<&str>) -> ImportedFile {
        ImportedFile {
            file: name.to_owned(),
            modified_ns: 1_763_000_000_123_456_789,
            size,
            record: record.map(id),
            outcome: "imported".to_owned(),
        }
    }

    #[tokio::test]
    async fn ledger_keeps_the_last_entry_per_directory_and_file() {
        let (_home, path) = place();
        let store = SqliteStore::open(&path, Access::ReadWrite).unwrap();
        let directory = || PathBuf::from(OsStr::from_bytes(b"/not \xff unicode"));
        let first = vec![file("b.json", 7, Some("r")), file("a.json", 0, None)];
        store.note_imports(directory(), first.clone()).await.unwrap();
        assert_eq!(store.imports(directory()).await.unwrap(), [first[1].clone(), first[0].clone()]);
        assert_eq!(store.imports(PathBuf::from("/other")).await.unwrap(), []);
        let mut again = file("a.json", 9, Some("s"));
        again.outcome = "grown".to_owned();
        store.note_imports(directory(), vec![again.clone()]).await.unwrap();
        drop(store);
        let store = SqliteStore::open(&path, Access::ReadOnly).unwrap();
        assert_eq!(store.imports(directory()).await.unwrap(), [again, first[0].clone()]);
        let refused = store.note_imports(directory(), Vec::new()).await.unwrap_err();
        assert_eq!(refused.code().as_str(), "STORE_READ_ONLY");
    }

    #[tokio::test]
    async fn a_note_that_is_not_what_was_written_is_damage() {
        for change in ["UPDATE imports SET size = 8", "UPDATE imports SET record = ''"] {
            let (_home, path) = place();
            let store = SqliteStore::open(&path, Access::ReadWrite).unwrap();
            store.note_imports("/old".into(), vec![file("a.json", 7, Some("r"))]).await.unwrap();
            Connection::open(&path).unwrap().execute_batch(change).unwrap();
            assert_eq!(
                store.imports("/old".into()).await.unwrap_err().code().as_str(),
                "STORE_CORRUPT",
                "{change}"
            );
        }
    }
}
