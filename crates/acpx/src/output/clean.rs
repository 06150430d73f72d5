//! Keeps an agent from driving the terminal: of what is written to one, control characters other than newline
//! and tab are left out. Without its escape character an escape sequence is a few harmless letters.
//!
//! And from writing as we do: words that may be an agent's become part of a line of ours by `on_one_line` alone, or by
//! `line`, which writes a whole one. Whatever they are, no second line begins within them.

use std::fmt;
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

/// Writes JSON in which a terminal finds no control characters: DEL, the C1 controls, the marks that turn the direction
/// of text and the separators of lines are escaped, which changes no value. They stand in strings alone, and whoever
/// writes JSON writes whole characters.
pub(super) struct Escaping<'a>(pub(super) &'a mut dyn Write);

impl Write for Escaping<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let is_escaped = |letter: char| {
            matches!(letter, '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}') || turns_text(letter)
        };
        match std::str::from_utf8(bytes) {
            Ok(text) if text.contains(is_escaped) => {
                for letter in text.chars() {
                    if is_escaped(letter) {
                        write!(self.0, "\\u{:04x}", u32::from(letter))?;
                    } else {
                        write!(self.0, "{letter}")?;
                    }
                }
            }
            _ => self.0.write_all(bytes)?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Whether a letter is a mark that turns the direction of text.
fn turns_text(letter: char) -> bool {
    matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The same for a text that is whole.
pub(crate) fn clean(text: &str) -> String {
    text.chars().filter(|character| matches!(character, '\n' | '\t') || !character.is_control()).collect()
}

/// What a terminal shows as it is: no controls, and nothing that makes text look like other text.
pub(super) fn visible(text: &str) -> String {
    clean(text).chars().map(|letter| if turns_text(letter) { '\u{fffd}' } else { letter }).collect()
}

/// What some reader takes for the end of a line or of a column.
const BREAKS: [char; 8] = ['\n', '\r', '\t', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}'];

/// Words that may be an agent's, as a part of one line or one column of ours.
pub(super) fn on_one_line(words: &str) -> String {
    visible(&words.replace(BREAKS, " "))
}

/// Writes one line of ours, which stays one whatever words are in it.
pub(super) fn line(out: &mut dyn Write, words: fmt::Arguments<'_>) -> io::Result<()> {
    writeln!(out, "{}", on_one_line(&words.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_no_control_characters_and_means_the_same() {
        let text = "a\u{7f}\u{9b}31m\u{a0}\u{202e}\u{2028}\n\u{1b}ü€";
        let raw: Box<serde_json::value::RawValue> =
            serde_json::from_str(&format!(r#"{{"raw":"x{}y"}}"#, "\u{9b}\u{7f}")).unwrap();
        let mut out = Vec::new();
        serde_json::to_writer(Escaping(&mut out), &(text, &raw)).unwrap();
        let written = String::from_utf8(out).unwrap();
        assert!(!written.chars().any(|letter| letter.is_control() || turns_text(letter)), "{written:?}");
        let read: serde_json::Value = serde_json::from_str(&written).unwrap();
        assert_eq!(read, serde_json::json!([text, { "raw": "x\u{9b}\u{7f}y" }]));
        assert!(written.contains("\u{a0}") && written.contains("ü€"), "{written:?}");
    }

    #[test]
    fn whatever_is_in_a_line_of_ours_it_is_one_line_and_looks_like_what_it_is() {
        let mut out = Vec::new();
        let words = "a\nb\r\tc\u{b}d\u{c}e\u{85}f\u{2028}g\u{2029}h\u{1b}[31m\u{202e}i";
        line(&mut out, format_args!("mode: {words}")).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "mode: a b  c d e f g h[31m\u{fffd}i\n");
    }

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
