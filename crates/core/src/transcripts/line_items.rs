//! Reads the items of a file with one JSON value on each line, also from a position on.
//!
//! A parser depends on earlier lines: on the directory, the title and the calls that are known. Before it reads on from a
//! position, it is given the lines before that position, and their items are dropped. So it continues as if it had not
//! stopped, unless such a line is too far back; then an item may say again what is known.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::time::Instant;

use super::item_queue::ItemQueue;
use super::lines::{Line, LineReader};
use super::walk::open_within;
use super::{TranscriptItem, TranscriptItems, Unread};

/// The longest first line that a list reads.
const FIRST_LINE_LIMIT: u64 = 1024 * 1024;
/// How much before a position is read again.
const LOOK_BACK: u64 = 256 * 1024;

/// Makes items of the lines of one format.
pub(super) trait LineParser: Send {
    /// Whether a line with these first bytes can have an item.
    fn is_wanted(prefix: &[u8]) -> bool {
        let _ = prefix;
        true
    }

    /// Adds what is known before the first line.
    fn begin(&mut self, items: &mut ItemQueue) {
        let _ = items;
    }

    /// Adds the items of a line. An error is a line that is damaged.
    fn read(&mut self, line: &[u8], items: &mut ItemQueue) -> Result<(), serde_json::Error>;

    /// The lines of another file that come first have ended.
    fn begin_next_file(&mut self) {}
}

/// The items of a file with one JSON value on each line.
pub(super) struct LineItems<P> {
    /// Other files whose items come first.
    before: VecDeque<LineReader>,
    lines: LineReader,
    parser: P,
    queue: ItemQueue,
    has_position: bool,
}

impl<P: LineParser + 'static> LineItems<P> {
    /// Opens a file below the agent's directory at a position.
    pub(super) fn open(
        directory: &Path,
        path: &Path,
        from: u64,
        mut parser: P,
    ) -> io::Result<Box<dyn TranscriptItems>> {
        let mut file = open_within(directory, path)?;
        let mut queue = ItemQueue::default();
        parser.begin(&mut queue);
        if from > 0 {
            look_back(&mut file, from, &mut parser, &mut queue)?;
        }
        let lines = LineReader::new(Box::new(file), from);
        Ok(Box::new(Self { before: VecDeque::new(), lines, parser, queue, has_position: true }))
    }

    /// Reads a text that cannot be read from a position on, or only after other ones.
    pub(super) fn of_readers(
        before: VecDeque<LineReader>,
        lines: LineReader,
        has_position: bool,
        mut parser: P,
    ) -> Box<dyn TranscriptItems> {
        let mut queue = ItemQueue::default();
        parser.begin(&mut queue);
        Box::new(Self { before, lines, parser, queue, has_position })
    }
}

impl<P: LineParser> TranscriptItems for LineItems<P> {
    fn next(&mut self) -> io::Result<Option<TranscriptItem>> {
        loop {
            if let Some(item) = self.queue.pop() {
                return Ok(Some(item));
            }
            let lines = self.before.front_mut().unwrap_or(&mut self.lines);
            match lines.next(P::is_wanted)? {
                Some(Line::Whole(line)) => {
                    if self.parser.read(line, &mut self.queue).is_err() {
                        self.queue.unread.damaged += 1;
                    }
                    continue;
                }
                Some(Line::TooLong) => {
                    self.queue.unread.too_long += 1;
                    continue;
                }
                None => {}
            }
            if self.before.pop_front().is_none() {
                return Ok(None);
            }
            self.parser.begin_next_file();
        }
    }

    fn position(&self) -> Option<u64> {
        self.has_position.then(|| self.lines.position())
    }

    fn is_at_position(&self) -> bool {
        self.queue.is_empty()
    }

    fn unread(&self) -> Unread {
        Unread { is_torn: self.lines.is_torn(), ..self.queue.unread }
    }

    fn stop_at(&mut self, until: Instant) {
        self.before.iter_mut().chain([&mut self.lines]).for_each(|lines| lines.stop_at(until));
    }
}

/// Gives a parser the lines before a position, and leaves the file at the position.
fn look_back(
    file: &mut File,
    from: u64,
    parser: &mut impl LineParser,
    queue: &mut ItemQueue,
) -> io::Result<()> {
    if file.metadata()?.len() < from {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the file is shorter than it was"));
    }
    let begin = from.saturating_sub(LOOK_BACK);
    file.seek(SeekFrom::Start(begin))?;
    let mut lines = LineReader::new(Box::new(file.try_clone()?.take(from - begin)), begin);
    read_all(&mut lines, parser, queue)?;
    queue.clear();
    file.seek(SeekFrom::Start(from))?;
    Ok(())
}

fn read_all<P: LineParser>(lines: &mut LineReader, parser: &mut P, queue: &mut ItemQueue) -> io::Result<()> {
    while let Some(line) = lines.next(P::is_wanted)? {
        if let Line::Whole(line) = line {
            // The first line is cut off. Damaged lines were counted when they were read first.
            drop(parser.read(line, queue));
            queue.clear();
        }
    }
    Ok(())
}

/// The first line of a file, for what a list needs of it; `None` if it is too long for that.
pub(super) fn first_line(directory: &Path, path: &Path) -> io::Result<Option<Vec<u8>>> {
    first_line_of(open_within(directory, path)?)
}

/// The first line of a text.
pub(super) fn first_line_of(text: impl Read + Send + 'static) -> io::Result<Option<Vec<u8>>> {
    let mut lines = LineReader::new(Box::new(text.take(FIRST_LINE_LIMIT)), 0);
    Ok(match lines.next(|_| true)? {
        Some(Line::Whole(line)) => Some(line.to_vec()),
        Some(Line::TooLong) | None => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_line_without_an_end_is_read_up_to_its_limit() {
        let whole = io::Cursor::new(b"\n{}\n").chain(io::repeat(b'x'));
        assert_eq!(first_line_of(whole).unwrap(), Some(b"{}".to_vec()));
        let beyond_limit = UnreadableText.take(1);
        let endless = io::repeat(b'x').take(FIRST_LINE_LIMIT).chain(beyond_limit);
        assert_eq!(first_line_of(endless).unwrap(), None);
    }

    /// A text that must not be read.
    struct UnreadableText;

    impl Read for UnreadableText {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::Other.into())
        }
    }
}
