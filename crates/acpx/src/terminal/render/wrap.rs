//! Breaks styled text into lines that fit a width, at spaces where that is possible.

use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_segmentation::UnicodeSegmentation;

use crate::output::width_of;

/// A line never gets narrower than this, even if its prefix leaves less room.
const LEAST_WIDTH: usize = 8;

/// What begins a line: a list's bullet, the bar of a quotation.
#[derive(Debug, Clone, Default)]
pub(crate) struct Prefix {
    /// For the first line.
    pub(crate) first: Vec<Span<'static>>,
    /// For all others.
    pub(crate) rest: Vec<Span<'static>>,
}

/// The columns that spans take.
pub(crate) fn width_of_spans(spans: &[Span<'_>]) -> usize {
    spans.iter().map(|span| width_of(&span.content)).sum()
}

/// Wraps one paragraph. A word that is too long for a line is cut.
pub(crate) fn wrap(spans: &[Span<'_>], prefix: &Prefix, width: usize) -> Vec<Line<'static>> {
    let mut text = Wrapper::new(prefix, width);
    let mut words = Words::new(spans);
    while let Some((space, word)) = words.next_word() {
        let line = &mut text.line;
        if !line.is_empty() && line.used + space.len() + width_of_spans(&word) > line.width {
            text.break_line();
        } else if !line.is_empty() || text.lines.is_empty() {
            line.push(&space.text, space.style);
        }
        for span in &word {
            text.push(span);
        }
    }
    text.finish()
}

/// Cuts lines of code at the width; nothing of them moves to another column.
pub(crate) fn wrap_code(spans: &[Span<'_>], prefix: &Prefix, width: usize) -> Vec<Line<'static>> {
    let mut text = Wrapper::new(prefix, width);
    for span in spans {
        text.push(span);
    }
    text.finish()
}

/// The lines so far, and the one that is being filled.
struct Wrapper<'a> {
    lines: Vec<Line<'static>>,
    line: LineBuilder,
    prefix: &'a Prefix,
    width: usize,
}

impl<'a> Wrapper<'a> {
    fn new(prefix: &'a Prefix, width: usize) -> Self {
        Self { lines: Vec::new(), line: LineBuilder::new(&prefix.first, width), prefix, width }
    }

    fn break_line(&mut self) {
        let full = std::mem::replace(&mut self.line, LineBuilder::new(&self.prefix.rest, self.width));
        self.lines.push(full.finish());
    }

    /// Adds text, and begins a new line wherever one is full.
    fn push(&mut self, span: &Span<'_>) {
        for grapheme in span.content.graphemes(true) {
            if self.line.used + width_of(grapheme) > self.line.width && !self.line.is_empty() {
                self.break_line();
            }
            self.line.push(grapheme, span.style);
        }
    }

    fn finish(mut self) -> Vec<Line<'static>> {
        self.lines.push(self.line.finish());
        self.lines
    }
}

struct LineBuilder {
    spans: Vec<Span<'static>>,
    prefix: usize,
    used: usize,
    width: usize,
}

impl LineBuilder {
    fn new(prefix: &[Span<'static>], width: usize) -> Self {
        let taken = width_of_spans(prefix);
        let width = width.saturating_sub(taken).max(LEAST_WIDTH);
        Self { spans: prefix.to_vec(), prefix: prefix.len(), used: 0, width }
    }

    fn is_empty(&self) -> bool {
        self.spans.len() == self.prefix
    }

    fn push(&mut self, text: &str, style: Style) {
        if text.is_empty() {
            return;
        }
        self.used += width_of(text);
        let last = if self.is_empty() { None } else { self.spans.last_mut() };
        match last {
            Some(last) if last.style == style => last.content.to_mut().push_str(text),
            _ => self.spans.push(Span::styled(text.to_owned(), style)),
        }
    }

    fn finish(self) -> Line<'static> {
        Line::from(self.spans)
    }
}

/// Spaces before a word.
struct Space {
    text: String,
    style: Style,
}

impl Space {
    fn len(&self) -> usize {
        width_of(&self.text)
    }
}

/// Splits spans at spaces. A word may have several styles.
struct Words<'a> {
    pieces: std::iter::Peekable<std::vec::IntoIter<(&'a str, Style)>>,
}

impl<'a> Words<'a> {
    fn new(spans: &'a [Span<'_>]) -> Self {
        let pieces: Vec<(&str, Style)> = spans
            .iter()
            .flat_map(|span| {
                let style = span.style;
                span.content.split_inclusive(' ').flat_map(move |piece| {
                    let word = piece.trim_end_matches(' ');
                    [(word, style), (&piece[word.len()..], style)]
                })
            })
            .filter(|(text, _)| !text.is_empty())
            .collect();
        Self { pieces: pieces.into_iter().peekable() }
    }

    fn next_word(&mut self) -> Option<(Space, Vec<Span<'a>>)> {
        let mut space = Space { text: String::new(), style: Style::default() };
        while let Some((text, style)) = self.pieces.next_if(|(text, _)| text.starts_with(' ')) {
            space.text.push_str(text);
            space.style = style;
        }
        let mut word = Vec::new();
        while let Some((text, style)) = self.pieces.next_if(|(text, _)| !text.starts_with(' ')) {
            word.push(Span::styled(text, style));
        }
        (!word.is_empty()).then_some((space, word))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use ratatui::style::Stylize;

    use super::*;

    fn texts(lines: &[Line<'_>]) -> Vec<String> {
        lines.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn paragraph_is_wrapped_at_spaces_with_its_prefix() {
        let prefix = Prefix { first: vec!["- ".into()], rest: vec!["  ".into()] };
        let spans = ["one two ".into(), "three".bold(), " four".into()];
        let lines = wrap(&spans, &prefix, 12);
        assert_eq!(texts(&lines), ["- one two", "  three four"]);
        assert_eq!(lines[1].spans[1], "three".bold());
    }

    #[test]
    fn long_word_is_cut_and_wide_characters_take_two_columns() {
        assert_eq!(texts(&wrap(&["abcdefghijkl".into()], &Prefix::default(), 8)), ["abcdefgh", "ijkl"]);
        assert_eq!(texts(&wrap(&["日本語日本語".into()], &Prefix::default(), 8)), ["日本語日", "本語"]);
        assert_eq!(texts(&wrap(&[], &Prefix::default(), 8)), [""]);
    }

    #[test]
    fn code_keeps_its_spaces() {
        let lines = wrap_code(&["    if x {  y }".into()], &Prefix::default(), 10);
        assert_eq!(texts(&lines), ["    if x {", "  y }"]);
    }

    proptest! {
        #[test]
        fn wrapped_lines_fit_and_have_every_word(text in "[a-zé日 ]{0,200}", width in 8usize..40) {
            let lines = wrap(&[Span::raw(text.clone())], &Prefix::default(), width);
            for line in &lines {
                prop_assert!(line.width() <= width, "{line:?}");
            }
            let joined: String = texts(&lines).concat().split_whitespace().collect();
            prop_assert_eq!(joined, text.split_whitespace().collect::<String>());
        }
    }
}
