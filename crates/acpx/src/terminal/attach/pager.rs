//! The whole conversation on the alternate screen.

use std::io::{self, Write};

use crossterm::cursor::MoveTo;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use crossterm::queue;
use crossterm::terminal::{Clear, ClearType};
use ratatui::style::Stylize;
use ratatui::text::Line;

use super::screen::write_line;

/// Lines that can be scrolled.
pub(crate) struct Pager {
    lines: Vec<Line<'static>>,
    /// The first line on the screen.
    top: usize,
    rows: usize,
}

impl Pager {
    /// Shows the end of these lines.
    pub(crate) fn new(lines: Vec<Line<'static>>, rows: u16) -> Self {
        let mut pager = Self { lines, top: usize::MAX, rows: 1 };
        pager.resize(rows);
        pager
    }

    /// The same text for another width: the same part of it stays in view.
    pub(crate) fn set_lines(&mut self, lines: Vec<Line<'static>>) {
        self.top = self.top * lines.len() / self.lines.len().max(1);
        self.lines = lines;
    }

    /// The screen has another height now.
    pub(crate) fn resize(&mut self, rows: u16) {
        self.rows = usize::from(rows).saturating_sub(1).max(1);
        self.top = self.top.min(self.lines.len().saturating_sub(self.rows));
    }

    /// Handles a key; `false` closes the pager.
    pub(crate) fn key(&mut self, key: KeyEvent) -> bool {
        let last = self.lines.len().saturating_sub(self.rows);
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        self.top = match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return false,
            KeyCode::Char('t' | 'c' | 'd') if is_control => return false,
            KeyCode::Up | KeyCode::Char('k') => self.top.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => (self.top + 1).min(last),
            KeyCode::PageUp | KeyCode::Char('b') => self.top.saturating_sub(self.rows),
            KeyCode::PageDown | KeyCode::Char(' ' | 'f') => (self.top + self.rows).min(last),
            KeyCode::Home | KeyCode::Char('g') => 0,
            KeyCode::End | KeyCode::Char('G') => last,
            _ => self.top,
        };
        true
    }

    /// Draws the screen.
    pub(crate) fn draw(&self, out: &mut impl Write, columns: u16, has_color: bool) -> io::Result<()> {
        let columns = usize::from(columns);
        queue!(out, MoveTo(0, 0), Clear(ClearType::All))?;
        for line in self.lines.iter().skip(self.top).take(self.rows) {
            write_line(out, line, columns, has_color)?;
            out.write_all(b"\r\n")?;
        }
        queue!(out, MoveTo(0, u16::try_from(self.rows).unwrap_or(u16::MAX)))?;
        let end = (self.top + self.rows).min(self.lines.len());
        let status = format!(
            "lines {}–{end} of {} · q closes · arrows, PgUp, PgDn, g, G",
            self.top + 1,
            self.lines.len()
        );
        write_line(out, &Line::from(status.dim()), columns, has_color)?;
        out.flush()
    }
}

/// Draws how much of the conversation is read.
pub(crate) fn draw_progress(out: &mut impl Write, percent: u64) -> io::Result<()> {
    queue!(out, MoveTo(0, 0), Clear(ClearType::All))?;
    write!(out, "reading the conversation: {percent} % · any key stops")?;
    out.flush()
}
