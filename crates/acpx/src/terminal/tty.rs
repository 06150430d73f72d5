//! The terminal that the program was started from, to ask the person before it. It is opened beside the three streams,
//! since stdin may be the prompt, and stdout and stderr may be files.
//!
//! It counts as one only if a person can see it and type on it: one of the streams leads to it, and the program is not
//! in the background. A program that is started with pipes alone asks nobody, whoever's terminal it was started from.

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

/// The most that is read of a line. No answer is longer.
const LONGEST: usize = 4096;

/// The terminal.
pub(crate) struct ControllingTerminal {
    /// A terminal is waited for as a pipe is: it can be read, or not yet.
    input: pipe::Receiver,
    output: File,
    /// What was typed of the next line.
    typed: Vec<u8>,
    /// How the terminal was before it was told not to show what is typed.
    before: Option<Termios>,
}

impl ControllingTerminal {
    /// The terminal of the program, if a person is before it. To be called inside a runtime.
    pub(crate) fn of_program() -> Option<Self> {
        Self::at(&path()?).ok().filter(Self::is_in_foreground)
    }

    fn at(path: &Path) -> io::Result<Self> {
        let flags = OFlags::NOCTTY | OFlags::CLOEXEC;
        let open = |flags| -> io::Result<OwnedFd> { Ok(open(path, flags, Mode::empty())?) };
        // It is read without waiting, and a description of its own keeps that from the shell's.
        let input = File::from(open(flags | OFlags::RDONLY | OFlags::NONBLOCK)?);
        let output = File::from(open(flags | OFlags::WRONLY)?);
        Ok(Self {
            input: pipe::Receiver::from_file_unchecked(input)?,
            output,
            typed: Vec::new(),
            before: None,
        })
    }

    /// Whoever reads in the background is stopped by the system.
    fn is_in_foreground(&self) -> bool {
        // A terminal that is not the one we are controlled by stops nobody.
        tcgetpgrp(&self.output).map_or(true, |group| group == getpgrp())
    }

    /// Writes a text, which is clean already. A terminal that cannot be written to cannot be read either, and whoever
    /// waits for an answer sees that.
    pub(crate) fn write(&mut self, text: &str) {
        drop(self.output.write_all(text.as_bytes()));
    }

    /// Forgets what was typed before anybody asked for it.
    pub(crate) fn forget(&mut self) {
        self.typed.clear();
        // Where there is nothing to forget, it cannot be forgotten.
        let _ = tcflush(&self.output, QueueSelector::IFlush);
    }

    /// Says whether what is typed is to be hidden. The end of a line is not shown then either.
    pub(crate) fn hide(&mut self, hidden: bool) {
        if hidden == self.is_hidden() {
            return;
        }
        if let Some(before) = self.before.take() {
            // A terminal that is gone shows nothing more.
            let _ = tcsetattr(&self.output, OptionalActions::Now, &before);
        } else if let Ok(before) = tcgetattr(&self.output) {
            let mut without = before.clone();
            without.local_modes.remove(LocalModes::ECHO);
            if tcsetattr(&self.output, OptionalActions::Now, &without).is_ok() {
                self.before = Some(before);
            }
        }
    }

    /// Whether what is typed is not shown.
    pub(crate) fn is_hidden(&self) -> bool {
        self.before.is_some()
    }

    /// Whether the terminal was closed: a line that ends without a word may be a Ctrl-D.
    pub(crate) fn is_gone(&self) -> bool {
        tcgetattr(&self.output).is_err()
    }

    /// The next line that is typed; `None` when no more will come. What was typed of a line stays if this is dropped.
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
    /// Whoever comes next finds the terminal as it was.
    fn drop(&mut self) {
        self.hide(false);
    }
}

/// Whether stdin, stdout or stderr is a terminal. A run that has none of them is non-interactive.
pub(crate) fn has_terminal_stream() -> bool {
    let streams = crate::output::stdio::streams();
    streams.is_some_and(|streams| streams.iter().any(|stream| isatty(stream.as_fd())))
}

/// Where the terminal is that one of the three streams leads to. It has a name of its own almost everywhere, and by that
/// it can be waited for also where the common name cannot be.
fn path() -> Option<PathBuf> {
    let streams = crate::output::stdio::streams()?;
    let terminal = streams.iter().find(|stream| isatty(stream.as_fd()))?;
    let named = ttyname(terminal, Vec::new()).ok().and_then(|name| name.into_string().ok());
    Some(named.map(PathBuf::from).filter(|path| path.exists()).unwrap_or_else(|| "/dev/tty".into()))
}
