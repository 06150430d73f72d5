//! Creates private directories durably: a synced file is only as durable as the directory entries that lead to it.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// Creates a directory and its missing parents, readable by their owner only, and syncs their entries. Existing
/// directories stay unchanged.
pub fn make_private_directory(directory: &Path) -> io::Result<()> {
    let missing = missing(directory);
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    missing.into_iter().try_for_each(sync_entry)
}

/// Syncs the directory entry of a file or directory.
pub(super) fn sync_entry(path: &Path) -> io::Result<()> {
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
mod tests {
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
