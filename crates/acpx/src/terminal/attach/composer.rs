//! The composer: a text of several lines with a cursor, a history of earlier prompts, and completion.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Stylize;
use ratatui::text::{Line, Span};
use unicode_segmentation::UnicodeSegmentation;

use crate::output::{clean, width_of};

/// How many earlier prompts are remembered.
const HISTORY: usize = 200;
/// How a tab is shown.
const TAB: &str = "    ";
/// The mark before the first line.
const MARK: &str = "> ";

/// The text that is being written.
#[derive(Debug, Default)]
pub(crate) struct Composer {
    text: String,
    /// The cursor, as a byte index at the boundary of a grapheme.
    cursor: usize,
    /// Earlier prompts, the last one at the end.
    history: Vec<String>,
    /// The position in the history, and the text that was being written before it was entered.
    browsing: Option<(usize, String)>,
    /// The text that was cut last.
    cut: String,
}

/// A word that can be completed: where it begins, and what was typed of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PartialWord {
    /// What kind of word it is.
    pub(crate) kind: WordKind,
    /// The byte index of its mark.
    pub(crate) start: usize,
    /// What follows the mark.
    pub(crate) typed: String,
}

/// A kind of word that can be completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WordKind {
    /// `/name`, at the beginning of the text.
    Command,
    /// `@path`, anywhere.
    File,
}

impl Composer {
    /// The text.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Whether nothing is written.
    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Replaces the text, with the cursor at its end.
    pub(crate) fn set(&mut self, text: impl Into<String>) {
        self.text = clean(&text.into());
        self.cursor = self.text.len();
        self.browsing = None;
    }

    /// Takes the text as a prompt, and remembers it.
    pub(crate) fn take(&mut self) -> String {
        let text = std::mem::take(&mut self.text);
        self.set("");
        self.remember(&text);
        text
    }

    /// Adds an earlier prompt to the history.
    pub(crate) fn remember(&mut self, prompt: &str) {
        if prompt.trim().is_empty() || self.history.last().is_some_and(|last| last == prompt) {
            return;
        }
        if self.history.len() == HISTORY {
            self.history.remove(0);
        }
        self.history.push(prompt.to_owned());
    }

    /// Inserts text at the cursor. Pasted line breaks of other systems become ours.
    pub(crate) fn insert(&mut self, text: &str) {
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let text = clean(&text);
        self.text.insert_str(self.cursor, &text);
        self.cursor += text.len();
        self.browsing = None;
    }

    /// Handles a key; whether it was one of the composer's.
    pub(crate) fn key(&mut self, key: KeyEvent) -> bool {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let alt = key.modifiers.contains(KeyModifiers::ALT);
        match key.code {
            KeyCode::Char('j') if control => self.insert("\n"),
            KeyCode::Enter if alt || key.modifiers.contains(KeyModifiers::SHIFT) => self.insert("\n"),
            KeyCode::Char('a') if control => self.cursor = self.line_start(),
            KeyCode::Char('e') if control => self.cursor = self.line_end(),
            KeyCode::Char('k') if control => self.cut_line(),
            KeyCode::Char('u') if control => self.cut_to(self.line_start()),
            KeyCode::Char('w') if control => self.cut_to(self.word_left()),
            KeyCode::Char('y') if control => {
                let cut = self.cut.clone();
                self.insert(&cut);
            }
            KeyCode::Char('b') if alt => self.cursor = self.word_left(),
            KeyCode::Char('f') if alt => self.cursor = self.word_right(),
            KeyCode::Char('d') if alt => self.cut_to(self.word_right()),
            KeyCode::Char('b') if control => self.cursor = self.previous_boundary(),
            KeyCode::Char('f') if control => self.cursor = self.next_boundary(),
            KeyCode::Char('d') if control && !self.is_empty() => self.delete_to(self.next_boundary()),
            KeyCode::Char('h') if control => self.delete_to(self.previous_boundary()),
            KeyCode::Char(character) if !control && !alt => self.insert(character.encode_utf8(&mut [0; 4])),
            KeyCode::Backspace if alt || control => self.cut_to(self.word_left()),
            KeyCode::Backspace => self.delete_to(self.previous_boundary()),
            KeyCode::Delete => self.delete_to(self.next_boundary()),
            KeyCode::Left if alt || control => self.cursor = self.word_left(),
            KeyCode::Right if alt || control => self.cursor = self.word_right(),
            KeyCode::Left => self.cursor = self.previous_boundary(),
            KeyCode::Right => self.cursor = self.next_boundary(),
            KeyCode::Home => self.cursor = self.line_start(),
            KeyCode::End => self.cursor = self.line_end(),
            KeyCode::Up => self.up(),
            KeyCode::Down => self.down(),
            _ => return false,
        }
        true
    }

    /// The word before the cursor that can be completed.
    pub(crate) fn partial_word(&self) -> Option<PartialWord> {
        let before = &self.text[..self.cursor];
        let start = before.rfind(char::is_whitespace).map_or(0, |at| at + 1);
        // A space may have several bytes.
        let start = (start..=before.len()).find(|at| before.is_char_boundary(*at))?;
        let word = &before[start..];
        let kind = match word.chars().next()? {
            '/' if start == 0 => WordKind::Command,
            '@' => WordKind::File,
            _ => return None,
        };
        Some(PartialWord { kind, start, typed: word[1..].to_owned() })
    }

    /// Completes a word.
    pub(crate) fn complete(&mut self, word: &PartialWord, choice: &str) {
        let mark = match word.kind {
            WordKind::Command => '/',
            WordKind::File => '@',
        };
        self.text.replace_range(word.start..self.cursor, &format!("{mark}{choice} "));
        self.cursor = word.start + choice.len() + 2;
    }

    /// The lines of the text within a width, and the line and column of the cursor. If the text is long, only the lines
    /// around the cursor are shown.
    pub(crate) fn lines(&self, width: usize, most: usize) -> (Vec<Line<'static>>, (usize, usize)) {
        let room = width.saturating_sub(width_of(MARK) + 1).max(1);
        let (mut rows, mut cursor) = (vec![String::new()], (0, 0));
        let mut used = 0;
        for (at, grapheme) in self.text.grapheme_indices(true) {
            if at == self.cursor {
                cursor = (rows.len() - 1, used);
            }
            if grapheme == "\n" {
                rows.push(String::new());
                used = 0;
                continue;
            }
            let grapheme = if grapheme == "\t" { TAB } else { grapheme };
            if used + width_of(grapheme) > room {
                rows.push(String::new());
                used = 0;
                if at == self.cursor {
                    cursor = (rows.len() - 1, 0);
                }
            }
            used += width_of(grapheme);
            rows.last_mut().into_iter().for_each(|row| row.push_str(grapheme));
        }
        if self.cursor == self.text.len() {
            cursor = (rows.len() - 1, used);
        }
        let first = (cursor.0 + 1).saturating_sub(most.max(1));
        let shown = rows.into_iter().enumerate().skip(first).take(most.max(1));
        let line = |(index, row): (usize, String)| {
            let mark = if index == 0 { MARK.bold() } else { Span::raw("  ") };
            Line::from(vec![mark, Span::raw(row)])
        };
        (shown.map(line).collect(), (cursor.0 - first, cursor.1 + width_of(MARK)))
    }

    fn up(&mut self) {
        let start = self.line_start();
        if start > 0 {
            self.cursor =
                self.at_column(self.text[..start - 1].rfind('\n').map_or(0, |at| at + 1), start - 1);
            return;
        }
        let position = self.browsing.as_ref().map_or(self.history.len(), |(position, _)| *position);
        if let Some(earlier) = position.checked_sub(1) {
            let written = self.browsing.take().map_or_else(|| self.text.clone(), |(_, written)| written);
            self.set(self.history[earlier].clone());
            self.browsing = Some((earlier, written));
        }
    }

    fn down(&mut self) {
        let end = self.line_end();
        if end < self.text.len() {
            let next_end = self.text[end + 1..].find('\n').map_or(self.text.len(), |at| end + 1 + at);
            self.cursor = self.at_column(end + 1, next_end);
            return;
        }
        if let Some((position, written)) = self.browsing.take() {
            match self.history.get(position + 1).cloned() {
                Some(later) => {
                    self.set(later);
                    self.browsing = Some((position + 1, written));
                }
                None => self.set(written),
            }
        }
    }

    /// The place in another line that is as far from its beginning as the cursor is from its own.
    fn at_column(&self, start: usize, end: usize) -> usize {
        let column = self.text[self.line_start()..self.cursor].graphemes(true).count();
        let place = self.text[start..end].grapheme_indices(true).nth(column);
        place.map_or(end, |(at, _)| start + at)
    }

    fn line_start(&self) -> usize {
        self.text[..self.cursor].rfind('\n').map_or(0, |at| at + 1)
    }

    fn line_end(&self) -> usize {
        self.text[self.cursor..].find('\n').map_or(self.text.len(), |at| self.cursor + at)
    }

    fn previous_boundary(&self) -> usize {
        self.text[..self.cursor].grapheme_indices(true).next_back().map_or(0, |(at, _)| at)
    }

    fn next_boundary(&self) -> usize {
        let next = self.text[self.cursor..].graphemes(true).next();
        next.map_or(self.cursor, |grapheme| self.cursor + grapheme.len())
    }

    fn word_left(&self) -> usize {
        let before = self.text[..self.cursor].trim_end();
        before
            .rfind(char::is_whitespace)
            .map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8))
    }

    fn word_right(&self) -> usize {
        let after = &self.text[self.cursor..];
        let spaces = after.len() - after.trim_start().len();
        let word = after[spaces..].find(char::is_whitespace).unwrap_or(after.len() - spaces);
        self.cursor + spaces + word
    }

    fn delete_to(&mut self, other: usize) {
        let (start, end) = (self.cursor.min(other), self.cursor.max(other));
        self.text.replace_range(start..end, "");
        self.cursor = start;
        self.browsing = None;
    }

    /// Cuts the rest of the line, or the line break at its end.
    fn cut_line(&mut self) {
        let end = self.line_end();
        self.cut_to(if end == self.cursor { self.next_boundary() } else { end });
    }

    fn cut_to(&mut self, other: usize) {
        let (start, end) = (self.cursor.min(other), self.cursor.max(other));
        if start < end {
            self.cut = self.text[start..end].to_owned();
        }
        self.delete_to(other);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn press(composer: &mut Composer, keys: &str) {
        for word in keys.split(' ') {
            let (modifiers, name) = match word.split_once('-') {
                Some(("C", name)) => (KeyModifiers::CONTROL, name),
                Some(("M", name)) => (KeyModifiers::ALT, name),
                _ => (KeyModifiers::NONE, word),
            };
            let code = match name {
                "Up" => KeyCode::Up,
                "Down" => KeyCode::Down,
                "Left" => KeyCode::Left,
                "Right" => KeyCode::Right,
                "Home" => KeyCode::Home,
                "End" => KeyCode::End,
                "Enter" => KeyCode::Enter,
                "BS" => KeyCode::Backspace,
                "Del" => KeyCode::Delete,
                text => KeyCode::Char(text.chars().next().unwrap()),
            };
            composer.key(KeyEvent::new(code, modifiers));
        }
    }

    fn with_cursor(composer: &Composer) -> String {
        format!("{}|{}", &composer.text[..composer.cursor], &composer.text[composer.cursor..])
    }

    #[test]
    fn pasted_tabs_are_kept_and_shown_as_spaces() {
        let mut composer = Composer::default();
        composer.insert("all:\r\n\tcc a.c\u{1b}");
        assert_eq!(composer.text(), "all:\n\tcc a.c");
        let (lines, cursor) = composer.lines(40, 8);
        let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
        assert_eq!((lines, cursor), (vec!["> all:".to_owned(), "      cc a.c".to_owned()], (1, 12)));
    }

    #[test]
    fn keys_edit_the_text_at_the_cursor() {
        let cases = [
            ("hello world", "C-w", "hello |"),
            ("hello world", "C-a C-k", "|"),
            ("hello world", "Home M-f C-u", "| world"),
            ("hello world", "C-w C-y C-y", "hello worldworld|"),
            ("日本e\u{301}", "BS", "日本|"),
            ("ab", "Left BS Del", "|"),
            ("ab", "M-Enter c C-j", "ab\nc\n|"),
            ("one\ntwo", "Up End Down", "one\ntwo|"),
            ("one\nt", "Up", "o|ne\nt"),
            ("a\nb", "Up C-a C-k C-k", "|b"),
        ];
        for (text, keys, expected) in cases {
            let mut composer = Composer::default();
            composer.set(text);
            press(&mut composer, keys);
            assert_eq!(with_cursor(&composer), expected, "{text:?} {keys}");
        }
    }

    #[test]
    fn history_returns_earlier_prompts_and_then_the_text_in_progress() {
        let mut composer = Composer::default();
        for prompt in ["one", "two", "two", " "] {
            composer.remember(prompt);
        }
        composer.set("new");
        let mut seen = Vec::new();
        for key in ["Up", "Up", "Up", "Down", "Down", "Down"] {
            press(&mut composer, key);
            seen.push(composer.text().to_owned());
        }
        assert_eq!(seen, ["two", "one", "one", "two", "new", "new"]);
        assert_eq!(composer.take(), "new");
        press(&mut composer, "Up");
        assert_eq!(composer.text(), "new");
    }

    #[test]
    fn commands_and_files_are_completed_where_they_are_typed() {
        let mut composer = Composer::default();
        composer.set("/re");
        let word = composer.partial_word().unwrap();
        assert_eq!(word, PartialWord { kind: WordKind::Command, start: 0, typed: "re".to_owned() });
        composer.complete(&word, "review");
        assert_eq!(with_cursor(&composer), "/review |");
        composer.set("look at @src/m");
        let word = composer.partial_word().unwrap();
        assert_eq!(word, PartialWord { kind: WordKind::File, start: 8, typed: "src/m".to_owned() });
        composer.complete(&word, "src/main.rs");
        assert_eq!(with_cursor(&composer), "look at @src/main.rs |");
        for text in ["a /re", "me@x", ""] {
            composer.set(text);
            assert_eq!(composer.partial_word(), None, "{text}");
        }
    }

    #[test]
    fn text_is_wrapped_and_the_cursor_is_in_view() {
        let mut composer = Composer::default();
        composer.set("abcdefgh\nij");
        let (lines, cursor) = composer.lines(8, 5);
        let texts: Vec<String> = lines.iter().map(ToString::to_string).collect();
        assert_eq!((texts, cursor), (vec!["> abcde".into(), "  fgh".into(), "  ij".into()], (2, 4)));
        let (lines, cursor) = composer.lines(8, 2);
        let texts: Vec<String> = lines.iter().map(ToString::to_string).collect();
        assert_eq!((texts, cursor), (vec!["  fgh".into(), "  ij".into()], (1, 4)));
        assert_eq!(Composer::default().lines(8, 5).1, (0, 2));
    }

    proptest! {
        #[test]
        fn any_keys_leave_the_cursor_at_a_character(
            text in "[a-c日\u{301} \n]{0,20}",
            keys in proptest::collection::vec(0usize..18, 0..40),
        ) {
            let names = [
                "Up", "Down", "Left", "Right", "Home", "End", "BS", "Del", "C-w", "C-k", "C-u", "C-y",
                "M-b", "M-f", "M-d", "C-j", "x", "C-d",
            ];
            let mut composer = Composer::default();
            composer.remember("old");
            composer.set(text);
            for key in keys {
                press(&mut composer, names[key]);
                prop_assert!(composer.text.is_char_boundary(composer.cursor));
                let (lines, cursor) = composer.lines(10, 4);
                prop_assert!(cursor.0 < lines.len() && lines.len() <= 4);
            }
        }
    }
}
