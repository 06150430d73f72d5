//! Keeps an agent from controlling the terminal: control characters other than newline and tab are removed from
//! terminal output. Without its escape character an escape sequence is harmless text. JSON escapes them instead, which
//! preserves its values.
//!
//! It also keeps an agent from imitating acpx: text that may be an agent's enters a line only through `on_one_line`, or
//! through `line`, which writes a whole line. Such text never begins a second line.

use std::fmt;
use std::io::{self, Write};

use crate::cli::Format;

/// Removes control characters from UTF-8 text, or escapes them.
#[derive(Debug)]
pub(crate) struct Clean<W> {
    inner: W,
    format: Format,
    /// Whether the first byte of a two-byte character is held until its second one is written.
    held: bool,
}

/// Where the C1 control characters begin in UTF-8; U+00A0 and above share the byte.
const C1_LEAD: u8 = 0xC2;

impl<W: Write> Clean<W> {
    /// A writer of this format to a terminal.
    pub(crate) fn new(inner: W, format: Format) -> Self {
        Self { inner, format, held: false }
    }

    /// The writer below, for sequences of acpx.
    pub(crate) fn inner(&mut self) -> &mut W {
        &mut self.inner
    }

    /// The replacement of a control character. In valid JSON, DEL and the C1 controls occur only within strings.
    fn escape(&self, code: u8) -> String {
        if self.format == Format::Json { format!("\\u{code:04x}") } else { String::new() }
    }
}

impl<W: Write> Write for Clean<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut clean = Vec::with_capacity(bytes.len());
        for &byte in bytes {
            if std::mem::take(&mut self.held) {
                if (0x80..=0x9F).contains(&byte) {
                    clean.extend(self.escape(byte).bytes());
                    continue;
                }
                clean.push(C1_LEAD);
            }
            match byte {
                C1_LEAD => self.held = true,
                b'\n' | b'\t' => clean.push(byte),
                0x00..=0x1F => {}
                0x7F => clean.extend(self.escape(byte).bytes()),
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

/// The same for a complete text.
pub(crate) fn clean(text: &str) -> String {
    text.chars().filter(|character| matches!(character, '\n' | '\t') || !character.is_control()).collect()
}

/// Text that a terminal shows as it is: no controls, and nothing that disguises it.
pub(super) fn visible(text: &str) -> String {
    let turns = |letter: char| matches!(letter, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    clean(text).chars().map(|letter| if turns(letter) { '\u{fffd}' } else { letter }).collect()
}

/// Characters that some readers take for the end of a line or a column.
const BREAKS: [char; 8] = ['\n', '\r', '\t', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}'];

/// Text that may be an agent's, as a part of one line or column.
pub(crate) fn on_one_line(words: &str) -> String {
    visible(&words.replace(BREAKS, " "))
}

/// Writes one line, which stays one line with any text in it.
pub(super) fn line(out: &mut dyn Write, words: fmt::Arguments<'_>) -> io::Result<()> {
    writeln!(out, "{}", on_one_line(&words.to_string()))
}

/// How much of a title or a name is shown.
pub(super) const WORDS: usize = 400;
/// How much of it is shown on a line that repeats it.
pub(super) const BRIEF: usize = 80;

/// An agent's words within a line of acpx.
pub(super) fn agent_text(words: &str) -> String {
    one_line(words, WORDS)
}

/// Text that may be an agent's, on one line and of bounded length.
pub(super) fn one_line(text: &str, length: usize) -> String {
    shorten(&on_one_line(text), length)
}

/// The first characters of a text, and how many are omitted.
pub(super) fn shorten(text: &str, length: usize) -> String {
    match text.char_indices().nth(length) {
        Some((end, _)) => format!("{}... ({} more characters)", &text[..end], text[end..].chars().count()),
        None => text.to_owned(),
    }
}

/// The first characters of a text, with an ellipsis if it is cut.
pub(crate) fn ellipsize(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_line_stays_one_line_for_any_text() {
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
            let mut writer = Clean::new(&mut written, Format::Text);
            writer.write_all(&text.as_bytes()[..at]).unwrap();
            writer.write_all(&text.as_bytes()[at..]).unwrap();
            assert_eq!(String::from_utf8(written).unwrap(), expected, "split at {at}");
        }
    }

    #[test]
    fn control_characters_in_json_are_escaped_and_its_value_stays() {
        let value = serde_json::json!({ "title": "a\u{1b}b\u{9b}31m\u{7f}c\u{a0}é" });
        let mut written = Vec::new();
        writeln!(Clean::new(&mut written, Format::Json), "{value}").unwrap();
        let text = String::from_utf8(written).unwrap();
        assert_eq!(text, "{\"title\":\"a\\u001bb\\u009b31m\\u007fc\u{a0}é\"}\n");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
