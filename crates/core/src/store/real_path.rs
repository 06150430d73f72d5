//! Real paths of directories, by which records are looked up.

use std::io;

use crate::model::AbsolutePath;

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

#[cfg(test)]
mod tests {
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
