//! The only code that writes for people and programs: data to stdout, notices and errors to stderr.
//!
//! Every view is a function over a `Write`, so that tests see what a person sees. With `--format json` every line of
//! stdout is JSON. A closed stdout (`acpx tour | head -1`) ends the program silently: it is an error like any other
//! here, and `CliError` suppresses its message.

mod agent_request;
mod auth;
mod banner;
mod confirmation;
mod console;
mod diff;
mod doctor;
mod error;
mod form;
mod history;
mod host;
mod list;
mod migrate;
mod pending;
mod question;
mod record;
mod remote;
mod sanitize;
mod settings;
mod show;
mod status;
pub(crate) mod stdio;
mod turn;

use std::io::{self, Write};
use std::process::ExitCode;

pub(crate) use self::auth::{LoginList, LoginOutcome, logged, login_list};
pub(crate) use self::banner::{
    AgentReadiness, SessionLabel, WORDS_NOT_BLOCKS, awake, created, prompting, report_kept_settings,
    report_kept_version, starting, watched_closed, watched_deleted, watching, watching_closed,
};
pub(crate) use self::console::{Console, OutputMode};
pub(crate) use self::doctor::{DoctorSummary, Finding, Level, finding, verdict};
#[cfg(test)]
pub(crate) use self::error::{json as error_json, quiet as error_quiet, text as error_text};
pub(crate) use self::form::{FormReply, TerminalForm};
pub(crate) use self::history::{History, history};
pub(crate) use self::host::{HostChange, RunningHost, host_changed, host_status};
pub(crate) use self::list::{ListRow, RemoteSessionRow, list, remote_list};
pub(crate) use self::migrate::migrated;
pub(crate) use self::pending::{answered, pending};
pub(crate) use self::question::{TerminalPermissionReply, TerminalQuestion};
pub(crate) use self::record::memory_words;
pub(crate) use self::remote::{Serving, serving, token_made, token_revoked, tokens};
pub(crate) use self::settings::{SettingChange, chosen, forgotten, shown_otherwise, unmet};
pub(crate) use self::show::show;
pub(crate) use self::status::{CLIENT, HOST, Snapshot, awaited, no_session, status};
pub(crate) use self::turn::{
    DenialSummary, FollowView, PromptResult, RecentToolCalls, ResultError, ResultIds, TimeoutCause,
    TurnStatus, TurnView,
};
pub(crate) use confirmation::{
    EnsureOrigin, EnsureResult, SessionChange, SessionMove, cancelled, closed, deleted, ensured, moved,
    queued, session_changed,
};

use acpx_core::protocol::WatchedEvent;

use crate::cli::Format;
use crate::error::{CliError, CliExit, ErrorReport};
use acpx_core::model::ErrorCode;

/// Writes lines to stdout.
#[derive(Debug)]
pub(crate) struct Printer {
    out: io::Stdout,
}

impl Printer {
    pub(crate) fn stdout() -> Self {
        Self { out: io::stdout() }
    }

    /// Writes a line and flushes it.
    pub(crate) fn line(&mut self, text: &str) -> io::Result<()> {
        let mut out = self.out.lock();
        writeln!(out, "{text}")?;
        out.flush()
    }
}

/// Writes a value as one line of JSON.
fn json_line(value: &impl serde::Serialize, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")
}

/// Prints a requested text, such as help.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Closes stdout: its reader sees the end, while the program continues.
pub(crate) fn close_stdout() -> io::Result<()> {
    let nowhere = std::fs::OpenOptions::new().write(true).open("/dev/null")?;
    Ok(rustix::stdio::dup2_stdout(&nowhere)?)
}

/// Writes to the log: a host's stderr.
pub(crate) fn log(words: &str) {
    // An unwritable log is no reason to stop.
    drop(sanitize::line(&mut io::stderr(), format_args!("[acpx {}] {words}", std::process::id())));
}

/// Prints why a command failed, once, in the requested format, and returns the exit code.
pub(crate) fn report(error: &CliError, format: Format) -> ExitCode {
    if error.is_broken_pipe() {
        return CliExit::Success.into();
    }
    let report = ErrorReport::from(error);
    // A failure of stdout is reported on stderr, even for JSON.
    let format = match (format, &report.code) {
        (Format::Json, ErrorCode::OutputFailed) => Format::Text,
        (format, _) => format,
    };
    // If this fails, there is no stream left to report it on.
    drop(match format {
        Format::Json => error::json(&report, &mut io::stdout()),
        Format::Text => error::text(&report, &mut io::stderr()),
        Format::Quiet => error::quiet(&report, &mut io::stderr()),
    });
    CliExit::from(report.class).into()
}

#[cfg(test)]
mod tests;
