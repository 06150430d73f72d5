//! An inline screen: finished lines go into the terminal's scrollback once, and a live area below them is redrawn.
//!
//! It never asks the terminal where the cursor is, because not every terminal answers. It knows how many rows it drew,
//! and moves up by that many.

use std::borrow::Cow;
use std::io::{self, Write};

use crossterm::cursor::{Hide, MoveToColumn, MoveUp, Show};
use crossterm::queue;
use crossterm::style::{PrintStyledContent, StyledContent};
use crossterm::terminal::{BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate};
use ratatui::backend::IntoCrossterm;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::output::width_of;

/// The live area, and where its cursor is.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct LiveArea {
    /// Its lines. What is wider than the screen is cut.
    pub(crate) lines: Vec<Line<'static>>,
    /// The cursor's line and column in it; `None` hides the cursor.
    pub(crate) cursor: Option<(usize, usize)>,
}

/// The screen.
pub(crate) struct InlineScreen<W> {
    out: W,
    columns: usize,
    rows: usize,
    /// The widths of the lines that the live area has on the screen.
    drawn: Vec<usize>,
    /// The line of the live area where the cursor is.
    cursor_line: usize,
    /// The live area that is on the screen.
    last: Option<LiveArea>,
    /// Whether colour is used.
    has_color: bool,
}

impl<W: Write> InlineScreen<W> {
    /// A screen that begins at the cursor, which must be at the beginning of a line.
    pub(crate) fn new(out: W, size: (u16, u16), has_color: bool) -> Self {
        let mut screen =
            Self { out, columns: 1, rows: 1, drawn: Vec::new(), cursor_line: 0, last: None, has_color };
        screen.set_size(size);
        screen
    }

    /// The screen's width in columns.
    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    /// How many lines a live area may have: one row stays for what was printed before it.
    pub(crate) fn live_rows(&self) -> usize {
        self.rows.saturating_sub(1).max(1)
    }

    /// The terminal has another size now. Lines that became too wide were wrapped by the terminal.
    pub(crate) fn set_size(&mut self, (columns, rows): (u16, u16)) {
        let size = (usize::from(columns).max(1), usize::from(rows).max(1));
        if size != (self.columns, self.rows) {
            (self.columns, self.rows) = size;
            self.last = None;
        }
    }

    /// Prints finished lines above the live area, and draws the live area if it has changed.
    pub(crate) fn draw(&mut self, finished: &[Line<'_>], live: LiveArea) -> io::Result<()> {
        if finished.is_empty() && self.last.as_ref() == Some(&live) {
            return Ok(());
        }
        queue!(self.out, BeginSynchronizedUpdate, Hide)?;
        self.go_to_top()?;
        for line in finished {
            write_line(&mut self.out, line, usize::MAX, self.has_color)?;
            self.out.write_all(b"\r\n")?;
        }
        // The end of a live area that is too high is what matters: the composer and its cursor.
        let skipped = live.lines.len().saturating_sub(self.live_rows());
        let shown = live.lines.get(skipped..).unwrap_or_default();
        self.drawn = shown.iter().map(|line| line.width().min(self.columns)).collect();
        for (index, line) in shown.iter().enumerate() {
            if index > 0 {
                self.out.write_all(b"\r\n")?;
            }
            write_line(&mut self.out, line, self.columns, self.has_color)?;
        }
        self.cursor_line = shown.len().saturating_sub(1);
        if let Some((cursor_line, column)) = live.cursor {
            let at = cursor_line.saturating_sub(skipped).min(self.cursor_line);
            self.move_up(self.cursor_line - at)?;
            self.cursor_line = at;
            let column = column.min(self.columns.saturating_sub(1));
            queue!(self.out, MoveToColumn(u16::try_from(column).unwrap_or(u16::MAX)), Show)?;
        }
        queue!(self.out, EndSynchronizedUpdate)?;
        self.last = Some(live);
        self.out.flush()
    }

    /// Removes the live area, and leaves the cursor at the beginning of a line.
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        self.go_to_top()?;
        (self.drawn, self.cursor_line, self.last) = (Vec::new(), 0, None);
        queue!(self.out, Show)?;
        self.out.flush()
    }

    /// Moves to the beginning of the live area, and clears from there.
    fn go_to_top(&mut self) -> io::Result<()> {
        // A line that is wider than the screen after a resize takes several rows.
        let rows = |width: &usize| width.div_ceil(self.columns).max(1);
        let above: usize = self.drawn.iter().take(self.cursor_line).map(rows).sum();
        self.move_up(above)?;
        queue!(self.out, MoveToColumn(0), Clear(ClearType::FromCursorDown))
    }

    fn move_up(&mut self, rows: usize) -> io::Result<()> {
        // A count of zero means one to a terminal.
        match u16::try_from(rows) {
            Ok(0) => Ok(()),
            rows => queue!(self.out, MoveUp(rows.unwrap_or(u16::MAX))),
        }
    }
}

/// Writes a line without its end; what is wider is cut.
pub(super) fn write_line(
    out: &mut impl Write,
    line: &Line<'_>,
    columns: usize,
    has_color: bool,
) -> io::Result<()> {
    let mut left = columns;
    for span in &line.spans {
        let style = line.style.patch(span.style);
        let text = cut(span, left);
        left -= width_of(text).min(left);
        // A text may be an agent's, the name of a file, or a stored prompt. None of them controls the terminal.
        let text: Cow<'_, str> = if text.contains(char::is_control) {
            text.chars().filter(|character| !character.is_control()).collect()
        } else {
            text.into()
        };
        if has_color && style != Style::default() {
            queue!(out, PrintStyledContent(StyledContent::new(style.into_crossterm(), text)))?;
        } else {
            out.write_all(text.as_bytes())?;
        }
    }
    Ok(())
}

/// The beginning of a span that fits.
fn cut<'a>(span: &'a Span<'_>, columns: usize) -> &'a str {
    if width_of(&span.content) <= columns {
        return &span.content;
    }
    let mut used = 0;
    let end = span.content.char_indices().find(|(_, character)| {
        used += width_of(character.encode_utf8(&mut [0; 4]));
        used > columns
    });
    end.map_or(&*span.content, |(at, _)| &span.content[..at])
}

#[cfg(test)]
mod tests {
    use ratatui::style::Stylize;

    use super::*;

    /// Draws on an emulated terminal.
    struct Emulator {
        screen: InlineScreen<Vec<u8>>,
        terminal: vt100::Parser,
    }

    fn terminal(columns: u16, rows: u16) -> vt100::Parser {
        vt100::Parser::new(rows.try_into().unwrap(), columns.try_into().unwrap(), 100)
    }

    impl Emulator {
        fn new(columns: u16, rows: u16) -> Self {
            let screen = InlineScreen::new(Vec::new(), (columns, rows), true);
            Self { screen, terminal: terminal(columns, rows) }
        }

        fn draw(&mut self, finished: &[&str], live: &[&str], cursor: Option<(usize, usize)>) {
            let to_line = |text: &&str| Line::from((*text).to_owned());
            let finished: Vec<Line<'_>> = finished.iter().map(to_line).collect();
            let live = LiveArea { lines: live.iter().map(to_line).collect(), cursor };
            self.screen.draw(&finished, live).unwrap();
            self.show();
        }

        fn show(&mut self) {
            self.terminal.process(&std::mem::take(&mut self.screen.out));
        }

        fn rows(&self) -> Vec<String> {
            let screen = self.terminal.screen();
            let rows = screen.rows(0, screen.size().1.get()).map(|row| row.trim_end().to_owned());
            let rows: Vec<String> = rows.collect();
            let end = rows.iter().rposition(|row| !row.is_empty()).map_or(0, |last| last + 1);
            rows[..end].to_vec()
        }
    }

    #[test]
    fn finished_lines_stay_above_the_redrawn_live_area() {
        let mut on = Emulator::new(20, 8);
        on.draw(&["one"], &["working", "> h"], Some((1, 3)));
        assert_eq!(on.rows(), ["one", "working", "> h"]);
        on.draw(&["two", "three"], &["> hi"], Some((0, 4)));
        assert_eq!(on.rows(), ["one", "two", "three", "> hi"]);
        assert_eq!(on.terminal.screen().cursor_position(), (3, 4));
        on.screen.clear().unwrap();
        on.show();
        assert_eq!(on.rows(), ["one", "two", "three"]);
        assert_eq!(on.terminal.screen().cursor_position(), (3, 0));
    }

    #[test]
    fn lines_that_scroll_off_are_printed_once() {
        let mut on = Emulator::new(20, 4);
        for number in 0..10 {
            let line = format!("line {number}");
            on.draw(&[&line], &["live", "> "], Some((1, 2)));
        }
        assert_eq!(on.rows(), ["line 8", "line 9", "live", ">"]);
        on.terminal.screen_mut().set_scrollback(8);
        assert_eq!(on.rows(), ["line 0", "line 1", "line 2", "line 3"]);
    }

    #[test]
    fn a_live_area_higher_than_the_screen_shows_its_end() {
        let mut on = Emulator::new(10, 4);
        on.draw(&["before"], &["a", "b", "c", "d", "> e"], Some((4, 3)));
        assert_eq!(on.rows(), ["before", "c", "d", "> e"]);
        on.draw(&["done"], &["> "], Some((0, 2)));
        assert_eq!(on.rows(), ["before", "done", ">"]);
    }

    #[test]
    fn long_live_lines_are_cut_and_styles_are_reset() {
        let mut on = Emulator::new(8, 3);
        let live =
            LiveArea { lines: vec![Line::from(vec!["日本".bold(), "語語語語".into()])], cursor: None };
        on.screen.draw(&[], live).unwrap();
        on.show();
        assert_eq!(on.rows(), ["日本語語"]);
        let cell = |column| on.terminal.screen().cell(0, column).unwrap().bold();
        assert_eq!((cell(0), cell(4)), (true, false));
        assert!(on.terminal.screen().hide_cursor());
    }

    #[test]
    fn control_characters_of_a_text_reach_no_terminal() {
        let mut on = Emulator::new(40, 3);
        on.draw(&["a\u{1b}]0;title\u{7}b"], &["\u{9b}31mc\r\nd"], None);
        assert_eq!(on.rows(), ["a]0;titleb", "31mcd"]);
    }

    #[test]
    fn after_the_terminal_narrowed_the_wrapped_live_area_is_replaced() {
        let mut on = Emulator::new(20, 8);
        on.draw(&["one"], &["a live line of 20 co", "> "], Some((1, 2)));
        // A terminal that reflows shows the first live line in two rows now.
        on.terminal = terminal(10, 8);
        on.terminal.process(b"one\r\na live lin\r\ne of 20 co\r\n> ");
        on.screen.set_size((10, 8));
        on.draw(&["two"], &["> x"], Some((0, 3)));
        assert_eq!(on.rows(), ["one", "two", "> x"]);
    }
}
