//! Reads a log for its user: the last lines, across its older parts, then new ones as they are written.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::{OLDER_PARTS, PART_BYTES, part};

/// How much of a part is read at most, from its end. A part is longer only if something else wrote to it.
const READ_BYTES: u64 = 2 * PART_BYTES;

/// A log that is read to its end, and what was read of it.
pub(crate) struct LogReader {
    path: PathBuf,
    /// The part that was read last, if there is a log.
    current: Option<File>,
    /// The beginning of a line whose end is not written yet.
    rest: Vec<u8>,
}

impl LogReader {
    /// Reads the last lines, oldest first. Without a log there are none.
    pub(crate) fn open(path: &Path, count: usize) -> io::Result<(Vec<String>, Self)> {
        let mut reader = Self { path: path.to_owned(), current: None, rest: Vec::new() };
        let mut lines = Vec::new();
        if let Some(file) = open(path)? {
            lines = reader.read_from(file)?;
        }
        for n in 1..=OLDER_PARTS {
            let missing = count.saturating_sub(lines.len());
            let Some(mut file) = open(&part(path, n))?.filter(|_| missing > 0) else { break };
            let mut older = split(&read(&mut file)?).0;
            older.extend(lines);
            lines = older;
        }
        lines.drain(..lines.len().saturating_sub(count));
        Ok((lines, reader))
    }

    /// Whether there is a log.
    pub(crate) fn has_file(&self) -> bool {
        self.current.is_some()
    }

    /// The beginning of a last line that has no end.
    pub(crate) fn rest(&self) -> Option<String> {
        Some(String::from_utf8_lossy(&self.rest).into_owned()).filter(|rest| !rest.is_empty())
    }

    /// The lines that were written since, through any rotations in between.
    pub(crate) fn next(&mut self) -> io::Result<Vec<String>> {
        let mut lines = Vec::new();
        if let Some(mut file) = self.current.take() {
            let bytes = read(&mut file)?;
            lines = self.take(&bytes);
            let known = file.metadata()?.ino();
            // Later parts than the one that was read, oldest first.
            let is_known =
                |n: &usize| part(&self.path, *n).metadata().is_ok_and(|facts| facts.ino() == known);
            match (0..=OLDER_PARTS).find(is_known) {
                Some(0) => {
                    self.current = Some(file);
                    return Ok(lines);
                }
                moved => {
                    for n in (1..moved.unwrap_or(1)).rev() {
                        if let Some(file) = open(&part(&self.path, n))? {
                            lines.extend(self.read_from(file)?);
                        }
                    }
                }
            }
        }
        if let Some(file) = open(&self.path)? {
            lines.extend(self.read_from(file)?);
        }
        Ok(lines)
    }

    /// Reads a part from its beginning, and continues there.
    fn read_from(&mut self, mut file: File) -> io::Result<Vec<String>> {
        let bytes = read(&mut file)?;
        self.current = Some(file);
        Ok(self.take(&bytes))
    }

    fn take(&mut self, bytes: &[u8]) -> Vec<String> {
        self.rest.extend_from_slice(bytes);
        let (lines, rest) = split(&self.rest);
        self.rest = rest;
        lines
    }
}

fn open(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        // A device or a pipe has no end.
        Ok(file) => Ok(Some(file).filter(|file| file.metadata().is_ok_and(|facts| facts.is_file()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads from the current position to the end.
fn read(file: &mut File) -> io::Result<Vec<u8>> {
    let (position, length) = (file.stream_position()?, file.metadata()?.len());
    // A file that was emptied is read again from its beginning.
    let position = if position > length { 0 } else { position.max(length.saturating_sub(READ_BYTES)) };
    file.seek(SeekFrom::Start(position))?;
    let mut bytes = Vec::new();
    file.take(READ_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The whole lines of a text, and the rest after the last one.
fn split(bytes: &[u8]) -> (Vec<String>, Vec<u8>) {
    let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let lines = String::from_utf8_lossy(&bytes[..end]).lines().map(str::to_owned).collect();
    (lines, bytes[end..].to_vec())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write;

    use super::*;

    fn append(path: &Path, text: &str) {
        let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn rotate(path: &Path) {
        for n in (0..OLDER_PARTS).rev() {
            drop(fs::rename(part(path, n), part(path, n + 1)));
        }
    }

    #[test]
    fn last_lines_of_a_log_are_read_across_its_parts() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("host.log");
        let (lines, reader) = LogReader::open(&path, 5).unwrap();
        assert_eq!((lines, reader.has_file()), (Vec::<String>::new(), false));
        append(&path, "1\n2\n");
        rotate(&path);
        append(&path, "3\n4\n");
        rotate(&path);
        append(&path, "5\nhalf");
        let last = |count| LogReader::open(&path, count).unwrap();
        assert_eq!(last(4).0, ["2", "3", "4", "5"]);
        assert_eq!(last(1).0, ["5"]);
        assert_eq!(last(0).0, Vec::<String>::new());
        assert_eq!(last(9).0, ["1", "2", "3", "4", "5"]);
        assert_eq!(last(1).1.rest(), Some("half".to_owned()));
    }

    #[test]
    fn followed_log_loses_no_line_when_it_is_rotated() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("host.log");
        let mut reader = LogReader::open(&path, 5).unwrap().1;
        assert_eq!(reader.next().unwrap(), Vec::<String>::new());
        append(&path, "1\n2");
        assert_eq!(reader.next().unwrap(), ["1"]);
        append(&path, "\n3\n");
        rotate(&path);
        append(&path, "4\n");
        assert_eq!(reader.next().unwrap(), ["2", "3", "4"]);
        append(&path, "5\n");
        rotate(&path);
        append(&path, "6\n");
        rotate(&path);
        assert_eq!(reader.next().unwrap(), ["5", "6"]);
        append(&path, "7\n");
        assert_eq!(reader.next().unwrap(), ["7"]);
        fs::remove_file(&path).unwrap();
        append(&path, "8\n");
        assert_eq!(reader.next().unwrap(), ["8"]);
    }
}
