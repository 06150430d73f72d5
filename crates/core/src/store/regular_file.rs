//! Opens and reads files that other programs write. A file's type is checked after opening, so that it cannot be
//! replaced in between, and opening does not block: a pipe with the name of a record would otherwise block an import
//! forever.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

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
