//! Keeps an agent from driving the terminal: of what is written to one, control characters other than newline
//! and tab are left out. Without its escape character an escape sequence is a few harmless letters.

use std::io::{self, Write};

/// Leaves control characters out of UTF-8 text.
#[derive(Debug)]
pub(crate) struct Clean<W> {
    inner: W,
    /// The first byte of a two-byte character whose second one was not yet written.
    held: bool,
}

/// Where the C1 control characters begin in UTF-8; U+00A0 and above share the byte.
const C1_LEAD: u8 = 0xC2;

impl<W: Write> Clean<W> {
    pub(crate) fn new(inner: W) -> Self {
        Self { inner, held: false }
    }
}

impl<W: Write> Write for Clean<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut clean = Vec::with_capacity(bytes.len());
        for &byte in bytes {
            if std::mem::take(&mut self.held) {
                if (0x80..=0x9F).contains(&byte) {
                    continue;
                }
                clean.push(C1_LEAD);
            }
            match byte {
                C1_LEAD => self.held = true,
                b'\n' | b'\t' => clean.push(byte),
                0x00..=0x1F | 0x7F => {}
                _ => clean.push(byte),
            }
        }
        self.inner.write_all(&clean)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// The same for a text that is whole.
pub(crate) fn clean(text: &str) -> String {
    text.chars().filter(|character| matches!(character, '\n' | '\t') || !character.is_control()).collect()
}

/// Words that may be the agent's and have several lines: none of them begins as a line of ours does.
pub(super) fn hanging(words: &str) -> String {
    words.replace('\n', "\n  ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_left_out_and_every_other_character_stays() {
        let text = "a\u{1b}[2Jb\u{9b}31mc\u{7f}\r\n\té\u{a0}\u{c2}漢\u{0}";
        let expected = "a[2Jb31mc\n\té\u{a0}\u{c2}漢";
        assert_eq!(clean(text), expected);
        for at in 0..text.len() {
            let mut written = Vec::new();
            let mut writer = Clean::new(&mut written);
            writer.write_all(&text.as_bytes()[..at]).unwrap();
            writer.write_all(&text.as_bytes()[at..]).unwrap();
            assert_eq!(String::from_utf8(written).unwrap(), expected, "split at {at}");
        }
    }
}
