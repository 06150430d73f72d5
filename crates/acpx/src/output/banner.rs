//! What is said on stderr about the session that a command uses, for people who read along.

use std::path::Path;

use acpx_core::model::{AgentSpec, ProtocolVersion, Record, RecordId, SessionName};
use acpx_core::protocol::meta::{AwakeningMeta, SessionMeta};

use super::Console;
use super::record::{BY_ID, command, name};

/// A session in a few words.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionLabel<'a> {
    pub(crate) record: &'a RecordId,
    /// Its name; without one it is called `cwd`.
    pub(crate) name: Option<&'a str>,
    /// The directory it works in.
    pub(crate) cwd: &'a Path,
}

impl<'a> SessionLabel<'a> {
    /// A session that is kept. One that no directory leads to is called as lists call it.
    pub(crate) fn of(record: &'a Record) -> Self {
        let name = name(record).map(SessionName::as_str).or(record.scope.is_none().then_some(BY_ID));
        Self { record: &record.id, name, cwd: record.cwd.as_path() }
    }
}

/// How an agent stands when a prompt is about to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AgentReadiness {
    /// It runs and has the session.
    Connected,
    /// It is started for this.
    Starting,
}

/// What is said where words look like content blocks: they are text all the same.
pub(crate) const WORDS_NOT_BLOCKS: &str =
    "the words are sent as text; content blocks are read from stdin or --file";

/// Says that a session was made.
pub(crate) fn created(session: SessionLabel<'_>, agent: &AgentSpec, console: &mut Console<'_>) {
    console.banner(&format!("created session {} ({})", session.name.unwrap_or("cwd"), session.record));
    console.banner(&format!("agent: {}", agent.label()));
    console.banner(&format!("cwd: {}", session.cwd.display()));
}

/// Says which session a prompt goes to, from where it was routed there, and how its agent stands.
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
    let word = match agent {
        AgentReadiness::Connected => "connected",
        AgentReadiness::Starting => "starting",
    };
    let name = session.name.unwrap_or("cwd");
    let (record, cwd) = (session.record, session.cwd.display());
    console.banner(&format!("session {name} ({record}) · {cwd}{routed} · agent {word}"));
}

/// Prints which session is watched, and from where on.
pub(crate) fn watching(session: SessionLabel<'_>, from: &str, console: &mut Console<'_>) {
    let SessionLabel { record, name, cwd } = session;
    let (name, cwd) = (name.unwrap_or("cwd"), cwd.display());
    console.banner(&format!("watching session {name} ({record}) · {cwd} · {from}, until interrupted"));
}

/// Says that a session which is to be watched is closed, so that only what is kept is shown.
pub(crate) fn watching_closed(session: SessionLabel<'_>, console: &mut Console<'_>) {
    let SessionLabel { record, name, cwd } = session;
    let (name, cwd) = (name.unwrap_or("cwd"), cwd.display());
    console.banner(&format!("session {name} ({record}) · {cwd} is closed; this is what there is"));
}

/// Says that a session that is watched was closed. Whoever goes on with it opens it again.
pub(crate) fn watched_closed(console: &mut Console<'_>) {
    console.banner("the session was closed");
}

/// Says that a session that was watched is no more.
pub(crate) fn watched_deleted(console: &mut Console<'_>) {
    console.banner("the session was deleted; there is nothing more to watch");
}

/// Says that an agent which was there has not been given what a command brought along for it.
pub(crate) fn keeps_its_own(meta: &SessionMeta, console: &mut Console<'_>) {
    let brought = [
        (meta.mcp_servers, "MCP servers", "--mcp-config"),
        (meta.additional_directories, "additional directories", "--add-dir"),
    ];
    for (_, what, flag) in brought.into_iter().filter(|(kept, ..)| kept.is_some()) {
        console.say(&format!(
            "the agent keeps the {what} that it has, since it is at work, somebody else is at the session, or it could \
             not bring the session back; give {flag} again with a later prompt, or with sessions new"
        ));
    }
}

/// Says that an agent which was there is not spoken to in the version of the protocol that is wanted.
pub(crate) fn keeps_its_version(wanted: ProtocolVersion, console: &mut Console<'_>) {
    console.say(&format!(
        "the agent runs, and goes on in the version of the protocol that it was started with; give --protocol {} again \
         when it has gone",
        wanted.number()
    ));
}

/// Says, if that was asked for, which agent is started and where.
pub(crate) fn starting(agent: &AgentSpec, cwd: &Path, console: &mut Console<'_>) {
    console.detail(&format!("starting the agent {} in {}", command(agent), cwd.display()));
}

/// Says, if that was asked for, how a session came to have an agent. That it was restored is told by the turn.
pub(crate) fn awake(how: &AwakeningMeta, console: &mut Console<'_>) {
    match (how.by.as_str(), &how.reason) {
        ("live", _) => console.detail("the agent has the session"),
        ("fresh", Some(reason)) => console.detail(&format!("the agent has a fresh session ({reason})")),
        _ => {}
    }
}
