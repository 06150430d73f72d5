//! The controlling terminal, to ask the person in front of it. It is opened separately from the three streams, since
//! stdin may be the prompt, and stdout and stderr may be files.
//!
//! It is used only if a person can see it and type on it: one of the streams leads to it, and the program is in the
//! foreground. A program started with pipes alone never asks.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};
use rustix::process::getpgrp;
use rustix::termios::{
    LocalModes, OptionalActions, QueueSelector, Termios, isatty, tcflush, tcgetattr, tcgetpgrp, tcsetattr,
    ttyname,
};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

/// The longest line that is read. No answer is longer.
const LONGEST: usize = 4096;

/// The terminal.
pub(crate) struct ControllingTerminal {
    /// A terminal is polled like a pipe.
    input: pipe::Receiver,
    output: File,
    /// The typed part of the next line.
    typed: Vec<u8>,
    /// The terminal's settings before echo was disabled.
    before: Option<Termios>,
}

impl ControllingTerminal {
    /// The program's terminal, if a person is in front of it. Must be called inside a runtime.
    pub(crate) fn of_program() -> Option<Self> {
        Self::at(&path()?).ok().filter(Self::is_in_foreground)
    }

    fn at(path: &Path) -> io::Result<Self> {
        let flags = OFlags::NOCTTY | OFlags::CLOEXEC;
        let open = |flags| -> io::Result<OwnedFd> { Ok(open(path, flags, Mode::empty())?) };
        // Reads are non-blocking; a separate file description keeps that from the shell's.
        let input = File::from(open(flags | OFlags::RDONLY | OFlags::NONBLOCK)?);
        let output = File::from(open(flags | OFlags::WRONLY)?);
        Ok(Self {
            input: pipe::Receiver::from_file_unchecked(input)?,
            output,
            typed: Vec::new(),
            before: None,
        })
    }

    /// The system stops a process that reads in the background.
    fn is_in_foreground(&self) -> bool {
        // A terminal that is not our controlling terminal stops no process.
        tcgetpgrp(&self.output).map_or(true, |group| group == getpgrp())
    }

    /// Writes a text without control characters. Errors are ignored: the next read fails too.
    pub(crate) fn write(&mut self, text: &str) {
        drop(self.output.write_all(text.as_bytes()));
    }

    /// Discards input that was typed before the question.
    pub(crate) fn forget(&mut self) {
        self.typed.clear();
        // Fails only where there is no input queue to flush.
        let _ = tcflush(&self.output, QueueSelector::IFlush);
    }

    /// Disables or restores echo. Without echo the line break is not shown either.
    pub(crate) fn hide(&mut self, hidden: bool) {
        if hidden == self.is_hidden() {
            return;
        }
        if let Some(before) = self.before.take() {
            // Fails only on a closed terminal.
            let _ = tcsetattr(&self.output, OptionalActions::Now, &before);
        } else if let Ok(before) = tcgetattr(&self.output) {
            let mut without = before.clone();
            without.local_modes.remove(LocalModes::ECHO);
            if tcsetattr(&self.output, OptionalActions::Now, &without).is_ok() {
                self.before = Some(before);
            }
        }
    }

    /// Whether echo is disabled.
    pub(crate) fn is_hidden(&self) -> bool {
        self.before.is_some()
    }

    /// Whether the terminal was closed, as opposed to a Ctrl-D on an empty line.
    pub(crate) fn is_gone(&self) -> bool {
        tcgetattr(&self.output).is_err()
    }

    /// Shows a question and reads a line; `None` at the end of input. Earlier input does not answer it.
    pub(crate) async fn ask(&mut self, question: &str) -> Option<String> {
        self.forget();
        self.write(question);
        self.line().await.ok().flatten()
    }

    /// Asks a question and returns whether the answer is yes.
    pub(crate) async fn confirm(&mut self, question: &str) -> bool {
        let answer = self.ask(question).await.unwrap_or_default();
        matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
    }

    /// The next typed line; `None` at the end of input. A partial line survives if this is dropped.
    pub(crate) async fn line(&mut self) -> io::Result<Option<String>> {
        loop {
            if let Some(end) = self.typed.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.typed.drain(..=end).collect();
                return Ok(Some(String::from_utf8_lossy(&line[..end]).into_owned()));
            }
            let mut bytes = [0; 512];
            match self.input.read(&mut bytes).await {
                Ok(0) => return Ok(None),
                Ok(size) => self.typed.extend_from_slice(&bytes[..size]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if self.typed.len() > LONGEST {
                self.typed.clear();
            }
        }
    }
}

impl Drop for ControllingTerminal {
    /// Restores the terminal's settings.
    fn drop(&mut self) {
        self.hide(false);
    }
}

/// Whether stdin, stdout or stderr is a terminal. A run that has none of them is non-interactive.
pub(crate) fn has_terminal_stream() -> bool {
    let streams = crate::output::stdio::streams();
    streams.is_some_and(|streams| streams.iter().any(|stream| isatty(stream.as_fd())))
}

/// The device of the terminal that one of the three streams leads to. Almost every system names it, and by that name it
/// can be polled even where `/dev/tty` cannot.
fn path() -> Option<PathBuf> {
    let streams = crate::output::stdio::streams()?;
    let terminal = streams.iter().find(|stream| isatty(stream.as_fd()))?;
    let named = ttyname(terminal, Vec::new()).ok().and_then(|name| name.into_string().ok());
    Some(named.map(PathBuf::from).filter(|path| path.exists()).unwrap_or_else(|| "/dev/tty".into()))
}
