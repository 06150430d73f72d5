//! A command on a terminal of its own: what it shows can be waited for, and something can be typed.
#![cfg(target_os = "linux")]

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// How long something may take to be shown. Only a test that fails waits for so long.
const TIMEOUT: Duration = Duration::from_mins(1);
/// How many pieces a command may be ahead of its test; then it waits.
const PIECES: usize = 1024;

/// A command at work on a terminal. Dropped, it is killed.
pub(crate) struct OnTerminal {
    child: Child,
    keyboard: File,
    screen: Receiver<String>,
    /// What was shown and not yet waited for.
    shown: String,
    /// All that was shown.
    pub(crate) seen: String,
    /// What a person sees of it.
    emulator: vt100::Parser,
}

impl OnTerminal {
    /// Starts a command as the leader of a session that the terminal controls, so that Ctrl-C reaches it.
    pub(crate) fn start(inner: &Command) -> Self {
        Self::sized(inner, 80, 24)
    }

    /// The same on a terminal of this size.
    pub(crate) fn sized(inner: &Command, columns: u16, rows: u16) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let flags = i32::try_from(OFlags::NOCTTY.bits()).unwrap();
        let slave = File::options().read(true).write(true).custom_flags(flags).open(name).unwrap();
        set_size(&master, columns, rows);
        let mut command = Command::new("setsid");
        command.args(["--ctty", "--wait"]).arg(inner.get_program()).args(inner.get_args());
        command.current_dir(inner.get_current_dir().unwrap());
        for (name, value) in inner.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let stream = || Stdio::from(slave.try_clone().unwrap());
        let child = command.stdin(stream()).stdout(stream()).stderr(stream()).spawn().unwrap();
        let keyboard = File::from(master);
        let screen = screen(keyboard.try_clone().unwrap());
        Self {
            child,
            keyboard,
            screen,
            shown: String::new(),
            seen: String::new(),
            emulator: emulator(columns, rows),
        }
    }

    /// Waits until the screen looks like this; its rows.
    pub(crate) fn wait_until(&mut self, what: &str, is_so: impl Fn(&[String]) -> bool) -> Vec<String> {
        let end = Instant::now() + TIMEOUT;
        loop {
            let rows = self.rows();
            if is_so(&rows) {
                return rows;
            }
            let piece = self.screen.recv_timeout(end.saturating_duration_since(Instant::now()));
            let piece = piece.unwrap_or_else(|error| panic!("{what}, {error}: {rows:#?}"));
            self.take(&piece);
        }
    }

    /// The rows of the screen, without the empty ones at its end.
    pub(crate) fn rows(&self) -> Vec<String> {
        let screen = self.emulator.screen();
        let rows = screen.rows(0, screen.size().1.get()).map(|row| row.trim_end().to_owned());
        let mut rows: Vec<String> = rows.collect();
        rows.truncate(rows.iter().rposition(|row| !row.is_empty()).map_or(0, |last| last + 1));
        rows
    }

    /// Gives the terminal another size.
    pub(crate) fn resize(&mut self, columns: u16, rows: u16) {
        set_size(&self.keyboard, columns, rows);
        self.emulator.screen_mut().set_size(rows.try_into().unwrap(), columns.try_into().unwrap());
    }

    /// Starts what a shell makes of a line, with `$0` as the program.
    pub(crate) fn shell(line: &str, inner: &Command) -> Self {
        let mut shell = Command::new("sh");
        let program: OsString = inner.get_program().to_owned();
        shell.arg("-c").arg(line).arg(program).current_dir(inner.get_current_dir().unwrap());
        for (name, value) in inner.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        Self::start(&shell)
    }

    /// Waits until something is shown, after what was waited for before.
    pub(crate) fn wait_for(&mut self, words: &str) {
        while !self.shown.contains(words) {
            let piece = self.screen.recv_timeout(TIMEOUT);
            let piece = piece.unwrap_or_else(|error| panic!("{words:?} never came, {error}: {}", self.seen));
            self.take(&piece);
        }
        let end = self.shown.find(words).map_or(0, |at| at + words.len());
        self.shown.drain(..end);
    }

    /// Types something.
    pub(crate) fn type_in(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).unwrap();
    }

    /// Ends the process that the terminal belongs to, as a window that is closed does: the terminal hangs up.
    pub(crate) fn hang_up(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its end; its exit code.
    pub(crate) fn done(&mut self) -> Option<i32> {
        while let Ok(piece) = self.screen.recv_timeout(TIMEOUT) {
            self.take(&piece);
        }
        self.child.wait().unwrap().code()
    }

    fn take(&mut self, piece: &str) {
        self.emulator.process(piece.as_bytes());
        // A terminal ends its lines in its own way.
        let piece = piece.replace('\r', "");
        self.shown.push_str(&piece);
        self.seen.push_str(&piece);
    }
}

#[test]
fn demo_agent_started_by_hand_tells_how_to_prompt_it() {
    let place = crate::acpx::Place::new();
    let mut terminal = OnTerminal::start(&place.command(&["demo-agent"]));
    terminal.wait_for("to talk to it, run acpx demo 'hello'");
    terminal.type_in("\u{4}");
    assert_eq!(terminal.done(), Some(0), "{}", terminal.seen);
}

fn set_size(terminal: impl std::os::fd::AsFd, columns: u16, rows: u16) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(terminal, size).unwrap();
}

fn emulator(columns: u16, rows: u16) -> vt100::Parser {
    vt100::Parser::new(rows.try_into().unwrap(), columns.try_into().unwrap(), 1000)
}

/// What is shown, piece by piece. When nobody has the terminal open any more, reading it fails.
fn screen(mut from: File) -> Receiver<String> {
    let (sender, screen) = sync_channel(PIECES);
    std::thread::spawn(move || {
        let mut held = Vec::new();
        let mut bytes = [0; 4096];
        while let Ok(size @ 1..) = from.read(&mut bytes) {
            held.extend_from_slice(&bytes[..size]);
            // A character that is cut waits for its rest.
            let whole = match std::str::from_utf8(&held) {
                Ok(text) => text.len(),
                Err(error) => error.valid_up_to(),
            };
            let text = String::from_utf8(held.drain(..whole).collect()).unwrap();
            if sender.send(text).is_err() {
                break;
            }
        }
    });
    screen
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        // One that has ended cannot be killed, and is only waited for.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
