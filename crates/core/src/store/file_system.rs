//! File system access: private directories, resolved paths, and files that other programs write. Such a file's type is checked after opening, so that it cannot be
//! replaced in between, and opening does not block: a pipe with the name of a record would otherwise block an import
//! forever.

use std::fs::{DirBuilder, File};
use std::io;
use std::io::Read;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use crate::model::AbsolutePath;

/// Opens a regular file for reading, and refuses anything else.
pub fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a regular file")) }
}

/// Reads a regular file; `None` if it has more than `limit` bytes.
pub(crate) fn read(path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    open(path)?.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= limit).then_some(bytes))
}

/// A path with all links resolved. It must exist.
pub fn real_path(path: &AbsolutePath) -> io::Result<AbsolutePath> {
    let real = path.as_path().canonicalize()?;
    AbsolutePath::from_path(&real).map_err(|problem| io::Error::new(io::ErrorKind::InvalidData, problem))
}

/// A path with all links resolved, or as written if it does not exist: records of a missing directory are looked up
/// by the written path.
pub fn real_path_or_written(path: AbsolutePath) -> AbsolutePath {
    real_path(&path).unwrap_or(path)
}

/// Creates a directory and its missing parents, readable by their owner only, and syncs their entries. Existing
/// directories stay unchanged.
pub fn make_private_directory(directory: &Path) -> io::Result<()> {
    let missing = missing(directory);
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    missing.into_iter().try_for_each(sync_entry)
}

/// Syncs the directory entry of a file or directory.
pub fn sync_entry(path: &Path) -> io::Result<()> {
    let Some(parent) = path.parent() else { return Ok(()) };
    // A path of one component is in the current directory.
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    match File::open(parent) {
        // We may create entries there but not read the directory. Syncing the new file is the best we can do, and
        // sufficient on most file systems.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => File::open(path)?.sync_all(),
        opened => opened?.sync_all(),
    }
}

/// The missing part of a path, the directory itself first.
fn missing(directory: &Path) -> Vec<&Path> {
    let named = directory.ancestors().take_while(|place| !place.as_os_str().is_empty());
    named.take_while(|place| !place.exists()).collect()
}

#[cfg(test)]
mod private_directory_tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn missing_directories_are_private_and_existing_ones_unchanged() {
        let home = tempfile::tempdir().unwrap();
        let (outer, inner) = (home.path().join("a"), home.path().join("a/b/c"));
        fs::create_dir(&outer).unwrap();
        fs::set_permissions(&outer, PermissionsExt::from_mode(0o750)).unwrap();
        assert_eq!(missing(&inner), [&*inner, &home.path().join("a/b")]);
        for _ in 0..2 {
            make_private_directory(&inner).unwrap();
            let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!(
                [&outer, &home.path().join("a/b"), &inner].map(|path| mode(path)),
                [0o750, 0o700, 0o700]
            );
            assert_eq!(missing(&inner), [""; 0].map(Path::new));
        }
        fs::write(inner.join("file"), "").unwrap();
        assert_eq!(
            make_private_directory(&inner.join("file/d")).unwrap_err().kind(),
            io::ErrorKind::NotADirectory
        );
    }

    #[test]
    fn every_entry_can_be_synced_however_its_path_is_written() {
        assert_eq!(missing(Path::new("not-here/nor-here")), ["not-here/nor-here", "not-here"].map(Path::new));
        for path in ["not-here", "/", "/tmp", "src/lib.rs", "./src"] {
            sync_entry(Path::new(path)).unwrap();
        }
    }
}

#[cfg(test)]
mod real_path_tests {
    use super::*;

    #[test]
    fn links_are_resolved_and_missing_paths_stay_as_written() {
        let home = tempfile::tempdir().unwrap();
        let here = home.path().canonicalize().unwrap();
        let path = |name: &str| AbsolutePath::from_path(&here.join(name)).unwrap();
        std::fs::create_dir(here.join("real")).unwrap();
        std::os::unix::fs::symlink("real", here.join("link")).unwrap();
        assert_eq!(real_path(&path("link/../link")).unwrap(), path("real"));
        assert_eq!(real_path_or_written(path("link/.")), path("real"));
        assert_eq!(real_path(&path("gone")).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(real_path_or_written(path("link/../gone")), path("link/../gone"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_of_bounded_size_are_read() {
        let home = tempfile::tempdir().unwrap();
        let path = |name: &str| home.path().join(name);
        std::fs::write(path("file"), "1234").unwrap();
        std::os::unix::fs::symlink("file", path("link")).unwrap();
        for name in ["file", "link"] {
            assert_eq!(read(&path(name), 4).unwrap(), Some(b"1234".to_vec()));
            assert_eq!(read(&path(name), 3).unwrap(), None);
        }
        let pipe = path("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for odd in [&*pipe, home.path(), Path::new("/dev/null")] {
            assert_eq!(
                read(odd, 4).unwrap_err().to_string(),
                "it is not a regular file",
                "{}",
                odd.display()
            );
        }
        assert_eq!(read(&path("gone"), 4).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
