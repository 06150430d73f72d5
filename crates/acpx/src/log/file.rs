//! The file of a log, continued in a new one when it is full, and the thread that writes it.
//!
//! The disk may be slow, full or gone: lines are then lost and counted, the next line that is written reports how many,
//! and the process never waits. All parts together are bounded.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use tracing::Level;

use super::line::beginning;
use super::{OLDER_PARTS, PART_BYTES, part};

/// How many lines may wait for the disk. More are lost.
const QUEUED_LINES: usize = 1024;
/// About how many bytes are written at once.
const BATCH_BYTES: usize = 64 * 1024;
/// How often a full queue is tried again by a flush.
const FULL_QUEUE: Duration = Duration::from_millis(1);

/// A log file and its older parts.
pub(super) struct LogFile {
    path: PathBuf,
    part_bytes: u64,
    /// Whether stderr goes to the file too, so that a message of the runtime is found there.
    takes_stderr: bool,
    file: Option<File>,
    /// Whether the last write failed and may have left a part of a line.
    is_torn: bool,
}

impl LogFile {
    /// A log at this path, which is opened by the first write.
    pub(super) fn new(path: PathBuf, takes_stderr: bool) -> Self {
        Self { path, part_bytes: PART_BYTES, takes_stderr, file: None, is_torn: false }
    }

    /// Appends whole lines, in a new file if they do not fit.
    fn append(&mut self, lines: &str) -> io::Result<()> {
        let length = self.open_length()?;
        if length > 0 && length + lines.len() as u64 > self.part_bytes {
            self.rotate()?;
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        let repair = if self.is_torn { "\n" } else { "" };
        let written = file.write_all(repair.as_bytes()).and_then(|()| file.write_all(lines.as_bytes()));
        self.is_torn = written.is_err();
        written
    }

    /// How long the file is, opened again if it was removed.
    fn open_length(&mut self) -> io::Result<u64> {
        if let Some(facts) = self.file.as_ref().and_then(|file| file.metadata().ok())
            && facts.nlink() > 0
        {
            return Ok(facts.len());
        }
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&self.path)?;
        if self.takes_stderr {
            rustix::stdio::dup2_stderr(&file)?;
        }
        let length = file.metadata()?.len();
        self.file = Some(file);
        Ok(length)
    }

    /// Moves every part one place on and begins a new file. If that is impossible the file is emptied, to stay bounded.
    fn rotate(&mut self) -> io::Result<()> {
        let moved = (0..OLDER_PARTS).rev().try_for_each(|n| {
            match fs::rename(part(&self.path, n), part(&self.path, n + 1)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                renamed => renamed,
            }
        });
        if moved.is_err()
            && let Some(file) = &self.file
        {
            return file.set_len(0);
        }
        self.file = None;
        self.open_length().map(drop)
    }
}

/// The thread that writes a log.
#[derive(Clone)]
pub(super) struct LogThread {
    queue: SyncSender<LogRequest>,
    /// Lines that were lost since the last report of that.
    lost: Arc<AtomicU64>,
}

enum LogRequest {
    Write(String),
    /// Reply when everything before it is written or lost.
    Flush(SyncSender<()>),
}

impl LogThread {
    pub(super) fn start(file: LogFile) -> Self {
        let (queue, requests) = sync_channel(QUEUED_LINES);
        let lost = Arc::<AtomicU64>::default();
        let counter = Arc::clone(&lost);
        // Without a thread there is no log: every line counts as lost.
        drop(
            thread::Builder::new()
                .name("acpx-log".to_owned())
                .spawn(move || write(file, &requests, &counter)),
        );
        Self { queue, lost }
    }

    /// Queues a line, or loses it if the queue is full.
    pub(super) fn write(&self, line: String) {
        if self.queue.try_send(LogRequest::Write(line)).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until every queued line is written, at most this long.
    pub(super) fn flush(&self, limit: Duration) {
        let deadline = Instant::now() + limit;
        let (done, written) = sync_channel(1);
        let mut request = LogRequest::Flush(done);
        // If the disk hangs, the lines are lost.
        while Instant::now() < deadline {
            request = match self.queue.try_send(request) {
                Ok(()) => {
                    written.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok();
                    return;
                }
                Err(TrySendError::Disconnected(_)) => return,
                Err(TrySendError::Full(request)) => request,
            };
            thread::sleep(FULL_QUEUE);
        }
    }
}

/// Writes what is queued, as much at once as has arrived, until every sender is gone.
fn write(mut file: LogFile, requests: &Receiver<LogRequest>, lost: &AtomicU64) {
    let mut batch = String::new();
    while let Ok(first) = requests.recv() {
        let (mut next, mut lines, mut flushes) = (Some(first), 0, Vec::new());
        let before = lost.swap(0, Ordering::Relaxed);
        if before > 0 {
            batch = format!("{}log lines were lost before this one lost={before}\n", beginning(Level::WARN));
        }
        while let Some(request) = next.take() {
            match request {
                LogRequest::Write(line) => {
                    batch.push_str(&line);
                    lines += 1;
                }
                LogRequest::Flush(done) => flushes.push(done),
            }
            if batch.len() < BATCH_BYTES {
                next = requests.try_recv().ok();
            }
        }
        let is_written = lines > 0 && file.append(&batch).is_ok();
        if !is_written {
            lost.fetch_add(before + lines, Ordering::Relaxed);
        }
        batch.clear();
        for done in flushes {
            // The process may not wait for it any more.
            done.try_send(()).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn text(path: PathBuf) -> String {
        fs::read_to_string(path).unwrap_or_default()
    }

    #[test]
    fn full_log_file_is_rotated_and_its_parts_are_bounded() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("host.log");
        let mut log = LogFile { part_bytes: 20, ..LogFile::new(path.clone(), false) };
        for n in 10..30 {
            log.append(&format!("line {n}\n")).unwrap();
        }
        let parts: Vec<String> = (0..=OLDER_PARTS).map(|n| text(part(&path, n))).collect();
        assert_eq!(
            parts,
            ["line 28\nline 29\n", "line 26\nline 27\n", "line 24\nline 25\n", "line 22\nline 23\n"]
        );
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), OLDER_PARTS + 1);
        let mode = |n| part(&path, n).metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!([mode(0), mode(1)], [0o600; 2]);
    }

    #[test]
    fn log_file_that_cannot_be_renamed_is_emptied() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("host.log");
        let mut log = LogFile { part_bytes: 20, ..LogFile::new(path.clone(), false) };
        log.append("line one of it\n").unwrap();
        // A directory that is not empty stands where the file would be moved.
        fs::create_dir_all(part(&path, 1).join("entry")).unwrap();
        fs::create_dir_all(part(&path, 2).join("entry")).unwrap();
        fs::create_dir_all(part(&path, 3).join("entry")).unwrap();
        log.append("line two of it\n").unwrap();
        assert_eq!(text(path), "line two of it\n");
    }

    #[test]
    fn removed_log_file_is_created_again() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("host.log");
        let mut log = LogFile::new(path.clone(), false);
        log.append("one\n").unwrap();
        fs::remove_file(&path).unwrap();
        log.append("two\n").unwrap();
        assert_eq!(text(path), "two\n");
    }

    #[test]
    fn lines_lost_to_a_broken_disk_are_counted_by_the_next() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("missing");
        let path = directory.join("host.log");
        let log = LogThread::start(LogFile::new(path.clone(), false));
        for line in ["one\n", "two\n"] {
            log.write(line.to_owned());
            log.flush(Duration::from_secs(30));
        }
        fs::create_dir(&directory).unwrap();
        log.write("three\n".to_owned());
        log.flush(Duration::from_secs(30));
        let text = text(path);
        let (report, rest) = text.split_once('\n').unwrap();
        assert!(report.ends_with(" WARN  log lines were lost before this one lost=2"), "{report}");
        assert_eq!(rest, "three\n");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn full_disk_loses_log_lines_and_blocks_no_writer() {
        let log = LogThread::start(LogFile::new("/dev/full".into(), false));
        for _ in 0..10 * QUEUED_LINES {
            log.write("line\n".to_owned());
        }
        log.flush(Duration::from_secs(30));
        assert_eq!(log.lost.load(Ordering::Relaxed), 10 * QUEUED_LINES as u64);
    }
}
