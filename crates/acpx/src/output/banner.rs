//! Notices on stderr about the session that a command uses, for people.

use std::path::Path;

use acpx_core::model::{AgentSpec, ProtocolVersion, Record, RecordId, SessionName};
use acpx_core::protocol::ArchiveMeta;
use acpx_core::protocol::meta::{AwakeningMeta, SessionMeta};
use acpx_core::transcripts::TranscriptSource;

use super::Console;
use super::record::{BY_ID, command, name};
use super::sanitize::on_one_line;
use super::style::{Style, StyledText};
use crate::cli::Format;

/// A session's label.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionLabel<'a> {
    pub(crate) record: &'a RecordId,
    /// Its name; `cwd` if it has none.
    pub(crate) name: Option<&'a str>,
    /// Its directory.
    pub(crate) cwd: &'a Path,
    /// Its agent.
    pub(crate) agent: &'a AgentSpec,
    /// Its id, as short as it can be typed.
    pub(crate) short: &'a str,
}

impl<'a> SessionLabel<'a> {
    /// The label of a record. One without a scope is labelled as in lists.
    pub(crate) fn of(record: &'a Record, short: &'a str) -> Self {
        let name = name(record).map(SessionName::as_str).or(record.scope.is_none().then_some(BY_ID));
        Self { record: &record.id, name, cwd: record.cwd.as_path(), agent: &record.agent, short }
    }

    /// The line for a terminal, except in quiet mode.
    fn banner(self, more: &str, console: &mut Console<'_>) {
        if console.mode.format != Format::Quiet {
            self.header(more, console);
        }
    }

    /// The line for a terminal: agent, directory and session, then `more`.
    fn header(self, more: &str, console: &mut Console<'_>) {
        let name = self.name.filter(|name| *name != BY_ID);
        let name = name.map(|name| format!(" ({})", on_one_line(name))).unwrap_or_default();
        let rest = format!(" · {} · session {}{name}{more}\n", brief_path(self.cwd), self.short);
        let text = StyledText::default().with(Style::Accent, on_one_line(&self.agent.label()));
        console.header(&text.with(Style::Dim, on_one_line(rest.trim_end()) + "\n"));
    }
}

/// A path, with `~` for the home directory.
pub(crate) fn brief_path(path: &Path) -> String {
    let home = std::env::home_dir().filter(|home| home.parent().is_some());
    below_home(path, home.as_deref()).unwrap_or_else(|| path.display().to_string())
}

/// A path in the home directory, with `~` for that.
pub(super) fn below_home(path: &Path, home: Option<&Path>) -> Option<String> {
    match path.strip_prefix(home?).ok()?.to_str()? {
        "" => Some("~".to_owned()),
        below => Some(format!("~/{}", below.trim_end_matches('/'))),
    }
}

/// Whether the agent is running when a prompt is about to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AgentReadiness {
    /// It runs and has the session.
    Connected,
    /// It has to be started.
    Starting,
}

/// Shown where words look like content blocks: they are sent as text.
pub(crate) const WORDS_NOT_BLOCKS: &str =
    "the words are sent as text; content blocks are read from stdin or --file";

/// Shown where stdin is an open pipe and adds nothing to the words of a prompt.
pub(crate) const SILENT_STDIN: &str = "nothing arrived on stdin within a second; the prompt goes without it";

/// Reports that a session was created.
pub(crate) fn created(session: SessionLabel<'_>, console: &mut Console<'_>) {
    if console.mode.is_terminal {
        return session.banner(" · new", console);
    }
    console.banner(&format!("created session {} ({})", session.name.unwrap_or("cwd"), session.record));
    console.banner(&format!("agent: {}", session.agent.label()));
    console.banner(&format!("cwd: {}", session.cwd.display()));
}

/// Reports that a prompt created its session, and which other one may be meant.
pub(crate) fn created_for_prompt(session: SessionLabel<'_>, instead: &str, console: &mut Console<'_>) {
    if console.mode.is_terminal {
        return session.header(&format!(" · new{instead}"), console);
    }
    let SessionLabel { record, name, cwd, agent, .. } = session;
    let name = name.map_or_else(String::new, |name| format!("{name} "));
    let (agent, cwd) = (agent.label(), cwd.display());
    console.notice(&format!("created session {name}({record}) of {agent} in {cwd}{instead}"));
}

/// Reports that a session of the agent's own was adopted.
pub(crate) fn adopted(source: &TranscriptSource, meta: &ArchiveMeta, console: &mut Console<'_>) {
    let TranscriptSource { session, agent, path, .. } = source;
    console.notice(&format!(
        "adopted session {session} of {agent} from {}: {} stored events",
        path.display(),
        meta.events
    ));
    for note in &meta.notes {
        console.notice(note);
    }
}

/// Reports which session a prompt goes to, from which directory it was routed, and whether its agent is running.
pub(crate) fn prompting(
    session: SessionLabel<'_>,
    from: &Path,
    agent: AgentReadiness,
    console: &mut Console<'_>,
) {
    let routed = match from.strip_prefix(session.cwd) {
        Ok(below) if !below.as_os_str().is_empty() => format!(" (routed from ./{})", below.display()),
        _ => String::new(),
    };
    if console.mode.is_terminal {
        return session.banner(&routed, console);
    }
    let word = match agent {
        AgentReadiness::Connected => "connected",
        AgentReadiness::Starting => "starting",
    };
    let name = session.name.unwrap_or("cwd");
    let (record, cwd) = (session.record, session.cwd.display());
    console.banner(&format!("session {name} ({record}) · {cwd}{routed} · agent {word}"));
}

/// Reports which session is watched, and from which event on.
pub(crate) fn watching(session: SessionLabel<'_>, from: &str, console: &mut Console<'_>) {
    if console.mode.is_terminal {
        return session.banner(&format!(" · {from}; Ctrl-C ends the watch"), console);
    }
    let SessionLabel { record, name, cwd, .. } = session;
    let (name, cwd) = (name.unwrap_or("cwd"), cwd.display());
    console.banner(&format!("watching session {name} ({record}) · {cwd} · {from}, until interrupted"));
}

/// Reports that a session to be watched is closed, so that only its stored events are shown.
pub(crate) fn watching_closed(session: SessionLabel<'_>, console: &mut Console<'_>) {
    if console.mode.is_terminal {
        return session.banner(" · closed", console);
    }
    let SessionLabel { record, name, cwd, .. } = session;
    let (name, cwd) = (name.unwrap_or("cwd"), cwd.display());
    console.banner(&format!("session {name} ({record}) · {cwd} is closed; this is what there is"));
}

/// Reports that a watched session was closed. A new prompt reopens it.
pub(crate) fn watched_closed(console: &mut Console<'_>) {
    console.banner("the session was closed");
}

/// Reports that a watched session was deleted.
pub(crate) fn watched_deleted(console: &mut Console<'_>) {
    console.banner("the session was deleted; there is nothing more to watch");
}

/// Reports that a running agent did not get what the command brought for it.
pub(crate) fn report_kept_settings(meta: &SessionMeta, console: &mut Console<'_>) {
    let brought = [
        (meta.mcp_servers, "MCP servers", "--mcp-config"),
        (meta.additional_directories, "additional directories", "--add-dir"),
        (meta.setup, "options of its setup", "the flag"),
    ];
    for (_, what, flag) in brought.into_iter().filter(|(value, ..)| value.is_some()) {
        console.notice(&format!(
            "the agent keeps the {what} that it has, since it is busy, another client uses the session, or it could not \
             restore the session; repeat {flag} with a later prompt, or with sessions new"
        ));
    }
}

/// Reports that a running agent does not use the requested protocol version.
pub(crate) fn report_kept_version(wanted: ProtocolVersion, console: &mut Console<'_>) {
    console.notice(&format!(
        "the running agent keeps its version of the protocol; repeat --protocol {} after it has ended",
        wanted.number()
    ));
}

/// Reports in verbose mode which agent is started, and where.
pub(crate) fn starting(agent: &AgentSpec, cwd: &Path, console: &mut Console<'_>) {
    console.detail(&format!("starting the agent {} in {}", command(agent), cwd.display()));
}

/// Reports in verbose mode how a session got its agent. The turn itself reports that it was restored.
pub(crate) fn awake(how: &AwakeningMeta, console: &mut Console<'_>) {
    match (how.by.as_str(), &how.reason) {
        ("live", _) => console.detail("the agent has the session"),
        ("fresh", Some(reason)) => console.detail(&format!("the agent has a fresh session ({reason})")),
        _ => {}
    }
}
