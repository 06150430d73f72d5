//! The session picker: a table of sessions, a filter that is typed, and a row for a new session. It does no I/O.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use nucleo_matcher::pattern::{CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};

use super::attach::screen::LiveArea;
use crate::output::{AnySession, Cell, OutputStyle, SESSION_COLUMNS, Table, on_one_line, width_of};

/// How many sessions are shown at most.
const SHOWN: usize = 15;
/// The lines around the sessions: the filter, the header, the row for a new session and the keys.
const FRAME: usize = 4;
/// What marks the selected row.
const MARK: &str = "› ";
const KEYS: &str = "Enter opens · Esc leaves · ↑↓ choose · type to filter · Ctrl-N new · acpx --help";
const NO_MATCH_KEYS: &str = "nothing matches · Ctrl-U clears the filter · Ctrl-N new · Esc leaves";

/// What the user chose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PickerChoice {
    /// Open the session with this index.
    Open(usize),
    /// Begin a new session.
    New,
    Leave,
}

/// The picker.
pub(crate) struct SessionPicker {
    table: Table<SESSION_COLUMNS>,
    /// What is searched in each session.
    searched: Vec<String>,
    filter: String,
    /// The sessions that match, best first.
    found: Vec<usize>,
    /// The selected row; the one after all sessions is for a new session.
    selected: usize,
    /// What a new session would be.
    new_session: String,
    /// The short id of the open session that a new one closes.
    replaced: Option<String>,
    /// Whether the next Enter closes that session.
    is_closing: bool,
    /// Whether older sessions were not read.
    is_cut: bool,
}

impl SessionPicker {
    /// A picker of these sessions and of a new one with this agent, which closes another if a short id is given.
    pub(crate) fn new(
        rows: &[AnySession],
        table: Table<SESSION_COLUMNS>,
        agent: &str,
        replaced: Option<String>,
        is_cut: bool,
    ) -> Self {
        let closes = replaced.as_ref().map(|id| format!(" (closes {id})")).unwrap_or_default();
        Self {
            table,
            searched: rows.iter().map(searched_text).collect(),
            filter: String::new(),
            found: (0..rows.len()).collect(),
            selected: 0,
            new_session: format!("+ new session with {} in this directory{closes}", on_one_line(agent)),
            replaced,
            is_closing: false,
            is_cut,
        }
    }

    /// Handles a key.
    pub(crate) fn key(&mut self, key: KeyEvent) -> Option<PickerChoice> {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        let was_closing = std::mem::take(&mut self.is_closing);
        match key.code {
            KeyCode::Enter if was_closing => return Some(PickerChoice::New),
            KeyCode::Esc if was_closing => {}
            KeyCode::Esc => return Some(PickerChoice::Leave),
            KeyCode::Char('c' | 'd') if is_control => return Some(PickerChoice::Leave),
            KeyCode::Char('n') if is_control => return self.begin(),
            // A typing error begins no session.
            KeyCode::Enter if self.has_no_match() => {}
            KeyCode::Enter => match self.found.get(self.selected) {
                Some(index) => return Some(PickerChoice::Open(*index)),
                None => return self.begin(),
            },
            KeyCode::Up => self.selected = self.selected.checked_sub(1).unwrap_or(self.found.len()),
            KeyCode::Down => self.selected = (self.selected + 1) % (self.found.len() + 1),
            KeyCode::PageUp => self.selected = self.selected.saturating_sub(SHOWN),
            KeyCode::PageDown => self.selected = (self.selected + SHOWN).min(self.found.len()),
            KeyCode::Backspace => {
                self.filter.pop();
                self.search();
            }
            KeyCode::Char('u') if is_control => {
                self.filter.clear();
                self.search();
            }
            KeyCode::Char(letter) if !is_control && !key.modifiers.contains(KeyModifiers::ALT) => {
                self.filter.push(letter);
                self.search();
            }
            _ => {}
        }
        None
    }

    /// Adds a pasted text to the filter.
    pub(crate) fn paste(&mut self, text: &str) {
        self.is_closing = false;
        self.filter.push_str(&on_one_line(text));
        self.search();
    }

    /// Begins a new session, after another Enter if it closes one.
    fn begin(&mut self) -> Option<PickerChoice> {
        self.is_closing = self.replaced.is_some();
        self.selected = self.found.len();
        (!self.is_closing).then_some(PickerChoice::New)
    }

    /// Whether the filter excludes all sessions.
    fn has_no_match(&self) -> bool {
        self.found.is_empty() && !self.filter.is_empty()
    }

    /// Finds the sessions that match the filter. Of equally good ones the last used comes first.
    fn search(&mut self) {
        let mut matcher = Matcher::new(Config::DEFAULT);
        let pattern = Pattern::parse(&self.filter, CaseMatching::Ignore, Normalization::Smart);
        let items = self.searched.iter().enumerate().map(|(index, text)| Searched { index, text });
        let mut found = pattern.match_list(items, &mut matcher);
        found.sort_by_key(|(item, score)| (std::cmp::Reverse(*score), item.index));
        self.found = found.into_iter().map(|(item, _)| item.index).collect();
        self.selected = 0;
    }

    /// What a screen of this size shows.
    pub(crate) fn draw(&self, columns: usize, rows: usize) -> LiveArea {
        let mark = width_of(MARK);
        let widths = self.table.widths(columns.saturating_sub(mark));
        let shown = rows.saturating_sub(FRAME).clamp(1, SHOWN);
        let first = self.selected.min(self.found.len().saturating_sub(1)).saturating_sub(shown - 1);
        let filter = on_one_line(&self.filter);
        let mut lines = vec![self.filter_line(&filter)];
        lines.push(line(None, &self.table.header(&widths)));
        for (row, index) in self.found.iter().enumerate().skip(first).take(shown) {
            let Some(cells) = self.table.rows.get(*index) else { continue };
            lines.push(line(Some(row == self.selected), &self.table.line(cells, &widths)));
        }
        let new_session = Cell { text: self.new_session.clone(), ..Cell::default() };
        let is_new_selected = self.selected == self.found.len() && (self.is_closing || !self.has_no_match());
        lines.push(line(Some(is_new_selected), &[new_session]));
        lines.push(self.footer());
        let cursor = (mark + width_of(&filter)).min(columns.saturating_sub(1));
        LiveArea { lines, cursor: Some((0, cursor)) }
    }

    fn footer(&self) -> Line<'static> {
        match self.replaced.as_ref().filter(|_| self.is_closing) {
            Some(id) => Line::from(
                format!("Enter closes {id} and begins a new session · Esc goes back").fg(Color::Yellow),
            ),
            None if self.has_no_match() => Line::from(NO_MATCH_KEYS.dim()),
            None => Line::from(KEYS.dim()),
        }
    }

    fn filter_line(&self, filter: &str) -> Line<'static> {
        let (found, all) = (self.found.len(), self.searched.len());
        let of = if self.is_cut { format!("the last used {all}") } else { all.to_string() };
        let sessions = if all == 1 { "session" } else { "sessions" };
        Line::from(vec![
            Span::from("> ").dim(),
            Span::from(filter.to_owned()),
            Span::from(format!("  {found} of {of} {sessions}")).dim(),
        ])
    }
}

/// A session while it is searched.
struct Searched<'a> {
    index: usize,
    text: &'a str,
}

impl AsRef<str> for Searched<'_> {
    fn as_ref(&self) -> &str {
        self.text
    }
}

/// The texts of a session that the filter is compared with.
fn searched_text(row: &AnySession) -> String {
    let record = match row {
        AnySession::Record { row, .. } => &row.record,
        AnySession::Native(native) => {
            let session = &native.session;
            let (title, directory) = (session.title.as_deref(), session.directory.as_deref());
            let parts =
                [title.unwrap_or_default(), &session.agent, directory.unwrap_or_default(), &session.session];
            return on_one_line(&format!("native {}", parts.join(" ")));
        }
    };
    let name = record.scope.as_ref().and_then(|scope| scope.name.as_ref()).map(ToString::to_string);
    let parts = [
        name.as_deref().unwrap_or_default(),
        record.info.title().unwrap_or_default(),
        &record.agent.label(),
        record.cwd.as_str(),
        record.id.as_str(),
    ];
    on_one_line(&parts.join(" "))
}

/// A row, with the mark if it can be selected.
fn line(is_selected: Option<bool>, cells: &[Cell]) -> Line<'static> {
    let mark = if is_selected == Some(true) { MARK } else { "  " };
    let cells = cells.iter().map(|cell| Span::styled(cell.text.clone(), colours(cell.style)));
    let line = Line::from([Span::from(mark)].into_iter().chain(cells).collect::<Vec<_>>());
    if is_selected == Some(true) { line.bold() } else { line }
}

fn colours(style: OutputStyle) -> Style {
    match style {
        OutputStyle::Plain => Style::new(),
        OutputStyle::Dim => Style::new().dim(),
        OutputStyle::Bold => Style::new().bold(),
        OutputStyle::Good => Style::new().fg(Color::Green),
        OutputStyle::Warning => Style::new().fg(Color::Yellow),
        OutputStyle::Bad => Style::new().fg(Color::Red).bold(),
        OutputStyle::Accent => Style::new().fg(Color::Cyan),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::{any_session_table, sample_sessions, sample_view};

    fn picker() -> SessionPicker {
        let record = |row| AnySession::Record { row: Box::new(row), turns: 0, tokens: None };
        let rows: Vec<AnySession> = sample_sessions().into_iter().map(record).collect();
        let replaced = Some("019a5f3c".to_owned());
        SessionPicker::new(&rows, any_session_table(&rows, sample_view()), "claude", replaced, false)
    }

    fn shown(picker: &SessionPicker, columns: usize, rows: usize) -> String {
        let area = picker.draw(columns, rows);
        let lines = area.lines.iter().map(|line| line.to_string().trim_end().to_owned());
        lines.collect::<Vec<_>>().join("\n")
    }

    fn typed(picker: &mut SessionPicker, text: &str) {
        for letter in text.chars() {
            assert_eq!(picker.key(KeyEvent::from(KeyCode::Char(letter))), None);
        }
    }

    #[test]
    fn picker_filters_sessions_by_every_text_and_offers_a_new_one() {
        let mut picker = picker();
        insta::assert_snapshot!(shown(&picker, 80, 24), @r"
        >   4 of 4 sessions
          STATE    AGENT       SESSION             DIRECTORY       USED       ID
        › waiting  claude      api                 .               2 min ago  019a5f3c
          working  ./mine --…  Mend the roof now   ~/sr…de/module  2 min ago  019a5f3d-7
          parked   ./mine --…  屋根を直す 屋根を…  ~               2 min ago  019a5f3d-8
          closed   ./mine --…  -                   /srv/[2Jx       2 min ago  ses_1234
          + new session with claude in this directory (closes 019a5f3c)
        Enter opens · Esc leaves · ↑↓ choose · type to filter · Ctrl-N new · acpx --help
        ");
        typed(&mut picker, "rf mend");
        insta::assert_snapshot!(shown(&picker, 60, 24), @r"
        > rf mend  1 of 4 sessions
          STATE    AGENT     SESSION           USED       ID
        › working  ./mine …  Mend the roof n…  2 min ago  019a5f3d-7
          + new session with claude in this directory (closes 019a5f3c)
        Enter opens · Esc leaves · ↑↓ choose · type to filter · Ctrl-N new · acpx --help
        ");
        assert_eq!(picker.key(KeyEvent::from(KeyCode::Enter)), Some(PickerChoice::Open(1)));
        typed(&mut picker, "zzz");
        assert_eq!(picker.key(KeyEvent::from(KeyCode::Enter)), None, "a typing error begins no session");
        let no_match = shown(&picker, 80, 24);
        assert!(no_match.contains("\n  + new session"), "{no_match}");
        assert!(no_match.ends_with(NO_MATCH_KEYS), "{no_match}");
        assert_eq!(picker.key(KeyEvent::new(KeyCode::Char('u'), KeyModifiers::CONTROL)), None);
        assert_eq!(picker.found, [0, 1, 2, 3]);
        assert_eq!(picker.key(KeyEvent::from(KeyCode::Esc)), Some(PickerChoice::Leave));
    }

    #[test]
    fn picker_closes_a_session_for_a_new_one_after_two_enters() {
        let mut picker = picker();
        assert_eq!(picker.key(KeyEvent::from(KeyCode::Up)), None);
        assert_eq!(picker.key(KeyEvent::from(KeyCode::Enter)), None);
        let question = "Enter closes 019a5f3c and begins a new session · Esc goes back";
        assert!(shown(&picker, 80, 24).ends_with(question), "{}", shown(&picker, 80, 24));
        assert_eq!(picker.key(KeyEvent::from(KeyCode::Esc)), None);
        assert!(shown(&picker, 80, 24).ends_with(KEYS));
        assert_eq!(picker.key(KeyEvent::from(KeyCode::Up)), None);
        assert_eq!(picker.key(KeyEvent::new(KeyCode::Char('n'), KeyModifiers::CONTROL)), None);
        assert!(shown(&picker, 80, 24).contains("\n› + new session"), "the row is selected");
        assert_eq!(picker.key(KeyEvent::from(KeyCode::Enter)), Some(PickerChoice::New));
    }

    #[test]
    fn picker_scrolls_to_the_selected_session_on_a_small_terminal() {
        let mut picker = picker();
        for _ in 0..3 {
            picker.key(KeyEvent::from(KeyCode::Down));
        }
        insta::assert_snapshot!(shown(&picker, 20, 6), @r"
        >   4 of 4 sessions
          SESSI…  ID
          屋根…   019a5f3d-8
        › -       ses_1234
          + new session with claude in this directory (closes 019a5f3c)
        Enter opens · Esc leaves · ↑↓ choose · type to filter · Ctrl-N new · acpx --help
        ");
    }
}
