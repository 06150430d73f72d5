//! The terminal in raw mode: its input, the signals that end a program which owns it, and what else takes the screen for
//! a while.
//!
//! Signals are handled before raw mode begins and the mode ends with this value, so that the terminal is never left in
//! it.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::process::Command;
use std::time::Duration;

use crossterm::event::{
    DisableBracketedPaste, EnableBracketedPaste, Event, EventStream, KeyCode, KeyEvent, KeyModifiers,
};
use crossterm::execute;
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use futures_util::StreamExt as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::output::screen;

/// How long to wait for input that was already typed. With no time at all, crossterm finds none.
const TYPED_WAIT: Duration = Duration::from_millis(5);
/// The key that a line feed is in raw mode.
const CONTROL_J: KeyEvent = KeyEvent::new(KeyCode::Char('j'), KeyModifiers::CONTROL);

/// The terminal in raw mode, until it is dropped.
pub(crate) struct RawTerminal {
    events: EventStream,
    /// Input from before raw mode.
    typed_ahead: VecDeque<Event>,
    terminated: Signal,
    hung_up: Signal,
    /// Received and ignored, as in Git: the keys for them are meant for an editor that runs.
    _keys: [Signal; 2],
}

impl RawTerminal {
    /// Takes the terminal. Must be called inside a runtime.
    pub(crate) fn enter() -> io::Result<Self> {
        let mut terminal = Self {
            events: EventStream::new(),
            typed_ahead: VecDeque::new(),
            terminated: signal(SignalKind::terminate())?,
            hung_up: signal(SignalKind::hangup())?,
            _keys: [signal(SignalKind::interrupt())?, signal(SignalKind::quit())?],
        };
        begin()?;
        // Until raw mode, the terminal turned each Enter into a line feed.
        while let Some(event) = typed()? {
            terminal.typed_ahead.push_back(match event {
                Event::Key(key) if key == CONTROL_J => Event::Key(KeyCode::Enter.into()),
                event => event,
            });
        }
        Ok(terminal)
    }

    /// Waits for input; `None` if a signal ends the program, or the terminal is gone.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        if let Some(event) = self.typed_ahead.pop_front() {
            return Some(event);
        }
        tokio::select! {
            event = self.events.next() => event?.ok(),
            _ = self.terminated.recv() => None,
            _ = self.hung_up.recv() => None,
        }
    }

    /// The next input, if it was already typed.
    pub(crate) fn typed(&mut self) -> io::Result<Option<Event>> {
        match self.typed_ahead.pop_front() {
            None => typed(),
            event => Ok(event),
        }
    }

    /// Opens a text in the user's editor; `None` if the editor failed.
    pub(crate) fn edit(&mut self, text: &str) -> io::Result<Option<String>> {
        let mut file = tempfile::Builder::new().prefix("acpx-prompt-").suffix(".md").tempfile()?;
        file.write_all(text.as_bytes())?;
        let editor = ["VISUAL", "EDITOR"].into_iter().find_map(std::env::var_os);
        let editor = editor.filter(|editor| !editor.is_empty()).unwrap_or_else(|| "vi".into());
        // A stream that waits for keys would take them from the editor. A new one does not wait yet.
        self.events = EventStream::new();
        end();
        // As Git does: the variable may have arguments.
        let line = format!("{} \"$@\"", editor.to_string_lossy());
        let ended = Command::new("sh").arg("-c").arg(line).arg("editor").arg(file.path()).status();
        begin()?;
        if !ended?.success() {
            return Ok(None);
        }
        let text = std::fs::read(file.path())?;
        Ok(Some(String::from_utf8_lossy(&text).trim_end().to_owned()))
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        end();
    }
}

/// The alternate screen, until it is dropped.
pub(crate) struct AlternateScreen;

impl AlternateScreen {
    pub(crate) fn enter() -> io::Result<Self> {
        execute!(screen(), EnterAlternateScreen)?;
        Ok(Self)
    }
}

impl Drop for AlternateScreen {
    fn drop(&mut self) {
        // Nothing can be done about a terminal that is gone.
        drop(execute!(screen(), LeaveAlternateScreen));
    }
}

fn begin() -> io::Result<()> {
    enable_raw_mode()?;
    execute!(screen(), EnableBracketedPaste)
}

fn end() {
    // Nothing can be done about a terminal that is gone.
    drop(execute!(screen(), DisableBracketedPaste));
    drop(disable_raw_mode());
}

fn typed() -> io::Result<Option<Event>> {
    if crossterm::event::poll(TYPED_WAIT)? { crossterm::event::read().map(Some) } else { Ok(None) }
}
