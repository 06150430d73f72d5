//! A terminal's screen: the end of its output as text, within a byte limit.
//!
//! Invalid bytes become the replacement character, and the text is cut between characters. Each piece of output is also
//! returned once as a delta: the deltas together are the output, up to the screen's byte limit, and the screen reports
//! whether that was all. While more may come, a delta consists of whole lines, because a secret that is split in two
//! could not be recognised and masked.

use std::str;

/// A terminal's screen.
#[derive(Debug)]
pub(super) struct Screen {
    text: String,
    /// The beginning of an incomplete character.
    rest: Vec<u8>,
    limit: usize,
    is_cut: bool,
    /// Output that is in no delta yet.
    news: String,
    /// How many bytes may still go into deltas.
    room: usize,
    /// Whether some output did not fit into the deltas.
    is_full: bool,
}

impl Screen {
    /// A screen with this byte limit.
    pub(super) fn new(limit: usize) -> Self {
        let (text, rest, news) = (String::new(), Vec::new(), String::new());
        Self { text, rest, limit, is_cut: false, news, room: limit, is_full: false }
    }

    /// Appends output.
    pub(super) fn write(&mut self, bytes: &[u8]) {
        let bytes = match std::mem::take(&mut self.rest) {
            rest if rest.is_empty() => bytes.to_vec(),
            mut rest => {
                rest.extend_from_slice(bytes);
                rest
            }
        };
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            self.show(chunk.valid());
            let invalid = chunk.invalid();
            // Only the end of the bytes so far can be an incomplete character.
            let is_part = matches!(str::from_utf8(invalid), Err(error) if error.error_len().is_none());
            if is_part && chunks.peek().is_none() {
                self.rest = invalid.to_vec();
            } else if !invalid.is_empty() {
                self.show("\u{fffd}");
            }
        }
    }

    /// The output has ended: an incomplete character stays incomplete.
    pub(super) fn finish(&mut self) {
        if !std::mem::take(&mut self.rest).is_empty() {
            self.show("\u{fffd}");
        }
    }

    fn show(&mut self, text: &str) {
        if !self.is_full {
            let end = text.floor_char_boundary(self.room);
            self.news.push_str(text.get(..end).unwrap_or_default());
            self.room -= end;
            self.is_full = end < text.len();
        }
        self.text.push_str(text);
        // Cutting moves the remaining text, so it is not done for every write.
        if self.text.len() > 2 * self.limit {
            let over = self.over();
            self.text.drain(..over);
            self.is_cut = true;
        }
    }

    /// How many bytes at the beginning exceed the limit.
    fn over(&self) -> usize {
        self.text.ceil_char_boundary(self.text.len().saturating_sub(self.limit))
    }

    /// The current text.
    pub(super) fn text(&self) -> &str {
        self.text.get(self.over()..).unwrap_or_default()
    }

    /// Whether earlier output was cut off.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut || self.over() > 0
    }

    /// The output since the last call, in whole lines; with `all`, including an incomplete line.
    pub(super) fn take_new_output(&mut self, all: bool) -> String {
        let end = if all { self.news.len() } else { self.news.rfind(['\n', '\r']).map_or(0, |end| end + 1) };
        let rest = self.news.split_off(end);
        std::mem::replace(&mut self.news, rest)
    }

    /// Whether some output is in no delta.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_end_is_kept_and_cut_between_characters() {
        let mut screen = Screen::new(5);
        screen.write("aöö".as_bytes());
        assert_eq!((screen.text(), screen.is_cut()), ("aöö", false));
        screen.write("b".as_bytes());
        assert_eq!((screen.text(), screen.is_cut()), ("ööb", true));
        screen.write("c".as_bytes());
        assert_eq!((screen.text(), screen.is_cut()), ("öbc", true));
        let mut nothing = Screen::new(0);
        nothing.write(b"a");
        assert_eq!((nothing.text(), nothing.is_cut()), ("", true));
        assert_eq!(nothing.take_new_output(true), "");
    }

    #[test]
    fn news_are_whole_lines_and_no_more_than_the_screen_has() {
        let mut screen = Screen::new(8);
        screen.write(b"ab\ncd");
        assert_eq!(screen.take_new_output(false), "ab\n");
        screen.write(b"\nefgh\n");
        assert_eq!(screen.take_new_output(false), "cd\n");
        assert_eq!((screen.take_new_output(true).as_str(), screen.is_full()), ("ef", true));
        screen.write(b"more");
        assert_eq!(screen.take_new_output(true), "");
        assert_eq!(screen.text(), "fgh\nmore");
    }

    #[test]
    fn a_line_is_not_torn_however_long_it_is() {
        let mut screen = Screen::new(1 << 20);
        screen.write(&vec![b'x'; 100_000]);
        assert_eq!(screen.take_new_output(false), "");
        screen.write(b"\r50%\r");
        assert_eq!(screen.take_new_output(false).len(), 100_005);
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_pieces_are_the_end_of_the_same_text(
            bytes in prop::collection::vec(any::<u8>(), 0..300),
            cuts in prop::collection::vec(0..300_usize, 0..6),
            limit in 0..64_usize,
        ) {
            let mut screen = Screen::new(limit);
            let mut cuts: Vec<usize> = cuts.into_iter().filter(|cut| *cut < bytes.len()).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            for piece in cuts.windows(2) {
                screen.write(&bytes[piece[0]..piece[1]]);
            }
            screen.finish();
            let whole = String::from_utf8_lossy(&bytes);
            prop_assert!(whole.ends_with(screen.text()) && screen.text().len() <= limit);
            prop_assert_eq!(screen.is_cut(), screen.text().len() < whole.len());
            let news = screen.take_new_output(true);
            prop_assert!(whole.starts_with(&news) && screen.is_full() == (news.len() < whole.len()));
        }
    }
}
