//! Files that only their owner can read, and that are complete or absent: each is written under a temporary name in its
//! directory, synced, and then renamed.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use acpx_core::store::sync_entry;
use acpx_core::wire::new_uuid;
use tempfile::{NamedTempFile, TempPath};

/// A private file without its name. It is removed unless it gets one.
#[derive(Debug)]
pub(crate) struct PrivateFile(NamedTempFile);

/// What happens to a file that has the name already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExistingFile {
    Replace,
    /// It stays, and the new file is not written.
    Keep,
}

impl PrivateFile {
    /// A new file in the directory of this path. Its temporary name begins with the prefix.
    pub(crate) fn next_to(path: &Path, prefix: &str) -> io::Result<Self> {
        let directory =
            path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // Errors of `tempfile` have the temporary path, which means nothing to the user.
        let path = directory.join(format!("{prefix}{}", new_uuid()));
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(Self(NamedTempFile::from_parts(file, TempPath::try_from_path(path)?)))
    }

    /// Its temporary path.
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Syncs it and gives it its name.
    pub(crate) fn persist(self, path: &Path, existing: ExistingFile) -> io::Result<()> {
        self.0.as_file().sync_all()?;
        match existing {
            ExistingFile::Replace => self.0.persist(path)?,
            ExistingFile::Keep => self.0.persist_noclobber(path)?,
        };
        sync_entry(path)
    }
}

// Through the file itself: `NamedTempFile` adds its path to errors too.
impl Write for PrivateFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.as_file_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.as_file_mut().flush()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::ErrorKind;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn error_of_a_private_file_does_not_have_its_temporary_path() {
        let home = tempfile::tempdir().unwrap();
        let error = PrivateFile::next_to(&home.path().join("missing/file"), ".part-").unwrap_err();
        assert_eq!((error.kind(), error.raw_os_error().is_some()), (ErrorKind::NotFound, true));
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let path = TempPath::try_from_path(home.path().join("file")).unwrap();
        let error = PrivateFile(NamedTempFile::from_parts(full, path)).write(b"words").unwrap_err();
        assert_eq!((error.kind(), error.raw_os_error().is_some()), (ErrorKind::StorageFull, true));
    }

    #[test]
    fn private_file_gets_its_name_only_when_it_is_complete() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("file");
        let names = || fs::read_dir(home.path()).unwrap().count();
        let written = |text: &str| {
            let mut file = PrivateFile::next_to(&path, ".part-").unwrap();
            file.write_all(text.as_bytes()).unwrap();
            file
        };
        drop(written("dropped"));
        assert_eq!(names(), 0);
        written("first").persist(&path, ExistingFile::Keep).unwrap();
        let kept = written("second").persist(&path, ExistingFile::Keep).unwrap_err();
        assert_eq!(kept.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).unwrap(), "first");
        written("third").persist(&path, ExistingFile::Replace).unwrap();
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), names()), ("third", 1));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
