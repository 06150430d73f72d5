//! The only code that writes for people and programs: data to stdout, notices and errors to stderr.
//!
//! Every view is a function over a `Write`, so that tests see what a person sees. With `--format json` every line of
//! stdout is JSON. A closed stdout (`acpx tour | head -1`) ends the program silently: it is an error like any other
//! here, and `CliError` suppresses its message.

mod agent_request;
mod all_sessions;
mod auth;
mod banner;
mod byte_size;
mod compare;
mod configuration;
mod confirmation;
mod console;
mod diff;
mod doctor;
mod elapsed;
mod error;
mod export;
mod fields;
mod form;
mod history;
mod host;
mod host_log;
mod index;
mod list;
mod migrate;
mod notify;
mod pending;
mod private;
mod prune;
mod question;
mod queue;
mod record;
mod remote;
mod sanitize;
mod schema;
mod search;
mod session_table;
mod settings;
mod short_id;
mod show;
mod spinner;
mod status;
pub(crate) mod stdio;
mod style;
mod table;
mod transfer;
mod trust;
mod turn;
mod upkeep;
mod usage;
mod web;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::rc::Rc;

pub(crate) use self::agent_request::{AgentRequest, RequestOutcome, RequestSubject, UnansweredRequests};
pub(crate) use self::all_sessions::{AnySession, NativeRow, all_sessions, any_session_table};
pub(crate) use self::auth::{LoginList, LoginOutcome, logged, login_list};
pub(crate) use self::banner::{
    AgentReadiness, SILENT_STDIN, SessionLabel, WORDS_NOT_BLOCKS, adopted, awake, created,
    created_for_prompt, prompting, report_kept_settings, report_kept_version, starting, watched_closed,
    watched_deleted, watching, watching_closed,
};
pub(crate) use self::compare::{CompareRow, CompareStatus, compared};
pub(crate) use self::configuration::{ShownConfig, ShownSetting, config, config_created};
pub(crate) use self::console::{Console, OutputMode};
pub(crate) use self::diff::{Detail, unified as unified_diff};
pub(crate) use self::doctor::{DoctorSummary, Finding, Level, finding, verdict};
#[cfg(test)]
pub(crate) use self::error::{json as error_json, quiet as error_quiet, text as error_text};
pub(crate) use self::export::{ArchiveWriter, ConversationSection, DocumentKind, Sections, document};
pub(crate) use self::form::{FormReply, TerminalForm};
pub(crate) use self::history::{History, HistoryPart, history};
pub(crate) use self::host::{HostChange, RunningHost, host_changed, host_status};
pub(crate) use self::host_log::log_lines;
pub(crate) use self::index::{IndexReport, index_status, index_updated, left_to_read};
pub(crate) use self::list::{ListRow, RemoteSessionRow, list, list_page, remote_list};
pub(crate) use self::migrate::migrated;
pub(crate) use self::notify::{NotifyTest, SinkState, notify_status, notify_tested};
pub(crate) use self::pending::{
    answered, choice, left_pending, pending, pending_notice, shown as shown_request,
};
pub(crate) use self::private::{PrivateChange, private_changed, private_sessions};
pub(crate) use self::prune::{
    FailedDeletion, PruneOutcome, PruneReport, PrunedSession, age_from, prune_question, prune_table, pruned,
};
pub(crate) use self::question::{TerminalPermissionReply, TerminalQuestion, details_of as request_details};
pub(crate) use self::queue::{queue, queue_dropped};
pub(crate) use self::record::{TranscriptView, memory_words};
pub(crate) use self::remote::{Serving, serving, token_made, token_revoked, tokens};
pub(crate) use self::sanitize::{clean, on_one_line};
pub(crate) use self::schema::{schema, schema_names};
pub(crate) use self::search::{FoundMessage, SearchView, report_progress, search_hits};
#[cfg(test)]
pub(crate) use self::session_table::tests::{rows as sample_sessions, view as sample_view};
pub(crate) use self::session_table::{
    ListedState, SESSION_COLUMNS, SessionRow, TableView, sessions_on_terminal,
};
pub(crate) use self::settings::{SettingChange, chosen, forgotten, setting_choices, shown_otherwise, unmet};
pub(crate) use self::show::show;
pub(crate) use self::spinner::FRAMES as SPINNER_FRAMES;
pub(crate) use self::status::{CLIENT, HOST, Snapshot, awaited, no_session, status};
pub(crate) use self::style::Style as OutputStyle;
pub(crate) use self::table::{Cell, Table, cut_end, width_of};
pub(crate) use self::transfer::{exported, imported};
pub(crate) use self::trust::{
    TrustReview, TrustedFileState, trust_review, trust_revoked, trusted, trusted_files,
};
pub(crate) use self::turn::{
    DenialSummary, FollowView, PromptResult, RecentToolCalls, ResultIds, TimeoutCause, TurnStatus, TurnView,
};
pub(crate) use self::turn::{
    MessageKey, MessageTracker, UpdateReader, command_line, cost, detail as detail_of_fact, first_named,
    knows_before, percent, prompt as prompt_of_event, stop_words, without_fence,
};
pub(crate) use self::upkeep::{StoreBackup, VerifiedStore, backed_up, verified};
pub(crate) use self::usage::{UsageLabel, UsageReport, UsageRow, show_usage};
pub(crate) use self::web::{WebLink, web_link, web_status, web_stopped};
pub(crate) use confirmation::{
    EnsureOrigin, EnsureResult, REPLACE_QUESTION, SessionChange, SessionMove, WaitedState, cancelled, closed,
    damaged_deleted, delete_question, deleted, ensured, moved, not_deleted, queued, renamed, replaced,
    session_changed, unsent_prompts, waited,
};

use acpx_core::protocol::WatchedEvent;

use crate::cli::{ColorMode, Format};
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
        self.part(&format!("{text}\n"))
    }

    /// Writes a part of a line and flushes it.
    pub(crate) fn part(&mut self, text: &str) -> io::Result<()> {
        let mut out = self.out.lock();
        out.write_all(text.as_bytes())?;
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

/// Stdout, for the interactive client, which draws on it while it runs.
pub(crate) fn screen() -> io::Stdout {
    io::stdout()
}

/// The columns and rows of the terminal, or the usual ones if it does not know them.
pub(crate) fn terminal_size() -> (u16, u16) {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| (size.ws_col, size.ws_row));
    size.filter(|(columns, rows)| *columns > 0 && *rows > 0).unwrap_or((80, 24))
}

/// The columns of stdout, if it is a terminal.
pub(crate) fn columns() -> Option<usize> {
    console::stdout_is_terminal().then(|| usize::from(terminal_size().0))
}

/// Closes stdout: its reader sees the end, while the program continues.
pub(crate) fn close_stdout() -> io::Result<()> {
    let nowhere = std::fs::OpenOptions::new().write(true).open("/dev/null")?;
    Ok(rustix::stdio::dup2_stdout(&nowhere)?)
}

/// Writes a line of the log to stderr, with its line break.
pub(crate) fn log_line(line: &str) {
    // An unwritable log is no reason to stop.
    drop(io::stderr().write_all(line.as_bytes()));
}

/// Whether stderr is a terminal.
pub(crate) fn stderr_is_terminal() -> bool {
    io::stderr().is_terminal()
}

/// Writes a message of a server to stderr.
pub(crate) fn log(words: &str) {
    // An unwritable log is no reason to stop.
    drop(sanitize::line(&mut io::stderr(), format_args!("[acpx {}] {words}", std::process::id())));
}

/// Prints why a command failed, once, in the requested format, and returns the exit code.
pub(crate) fn report(error: &CliError, format: Format, color: ColorMode) -> ExitCode {
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
        Format::Text | Format::Quiet if console::stdout_is_terminal() => error::terminal(
            &report.message,
            report.hint.as_deref(),
            &mut console::stderr(color, Rc::default()),
        ),
        Format::Text => error::text(&report, &mut io::stderr()),
        Format::Quiet => error::quiet(&report, &mut io::stderr()),
    });
    CliExit::from(report.class).into()
}

#[cfg(test)]
mod tests;
