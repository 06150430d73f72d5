//! The log: one line for each event of the library and the program, in the file of a host or on stderr.
//!
//! The library emits events and installs no subscriber; the program decides here which of them are written, and where.
//! A line never delays the code that emits it: the file has a thread of its own behind a bounded queue.

mod file;
mod filter;
mod line;
pub(crate) mod reader;

use std::path::{Path, PathBuf};
use std::time::Duration;

use tracing::subscriber::set_global_default;
use tracing_subscriber::layer::SubscriberExt;

use self::file::{LogFile, LogThread};
pub(crate) use self::filter::LogFilter;
use self::line::LineLayer;

/// The environment variable with the filter.
pub(crate) const VARIABLE: &str = "ACPX_LOG";

/// How long the end of a host waits for its last lines to be written.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Writes the events of this process to a file until the guard is dropped. Every line also goes to `echo`.
pub(crate) fn to_file(path: PathBuf, filter: LogFilter, echo: Option<fn(&str)>) -> LogGuard {
    let thread = LogThread::start(LogFile::new(path, echo.is_none()));
    let lines = thread.clone();
    install(filter, move |line| {
        if let Some(echo) = echo {
            echo(&line);
        }
        lines.write(line);
    });
    // A panic's text may quote a message, unless it is a constant of the program.
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let text = panic.payload().downcast_ref::<&'static str>().copied();
        tracing::error!(place, text, "a task panicked");
    }));
    LogGuard { thread }
}

/// Passes every line of this process's log to `print`.
pub(crate) fn to_stderr(filter: LogFilter, print: fn(&str)) {
    install(filter, move |line| print(&line));
}

fn install(filter: LogFilter, write: impl Fn(String) + Send + Sync + 'static) {
    let LogFilter { targets, problem } = filter;
    let subscriber = tracing_subscriber::registry().with(targets).with(LineLayer::new(write));
    // A process has one log; a second one is ignored.
    drop(set_global_default(subscriber));
    if let Some(problem) = problem {
        tracing::warn!(problem, "{VARIABLE} has a part that is no filter");
    }
}

/// Writes the last lines when it is dropped.
pub(crate) struct LogGuard {
    thread: LogThread,
}

impl Drop for LogGuard {
    fn drop(&mut self) {
        self.thread.flush(LAST_LINES);
    }
}

/// The n-th older part of a log; the first is the log itself.
fn part(path: &Path, n: usize) -> PathBuf {
    if n == 0 {
        return path.to_owned();
    }
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{n}"));
    name.into()
}

/// How many older parts of a log are kept.
const OLDER_PARTS: usize = 3;
/// After how many bytes a log is continued in a new file. All parts together have at most four times as many.
const PART_BYTES: u64 = 4 << 20;
