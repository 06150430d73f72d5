//! A record in JSON, with the three ids under their own names and without unknown members; and the lines that several
//! views of a record share.

use std::io::{self, Write};

use acpx_core::model::{
    AbsolutePath, AcpSessionId, AgentExit, AgentMemory, AgentSessionId, AgentSpec, Lifecycle, LineageRow,
    Record, RestoreError, SessionIdentity, SessionName, SessionUsage, Timestamp, title_of,
};
use acpx_core::protocol::meta::MemoryMeta;
use serde::Serialize;

use super::error::{ErrorObject, write_restore_error};
use super::sanitize::{line, on_one_line};

/// An agent, by its name and its command line.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AgentObject<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_name: Option<&'a str>,
    agent_command: String,
}

impl<'a> AgentObject<'a> {
    pub(super) fn of(agent: &'a AgentSpec) -> Self {
        Self { agent_name: agent.name.as_deref(), agent_command: command(agent) }
    }
}

/// How the last agent ended.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ExitObject<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    last_exit: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_exit_at: Option<Timestamp>,
}

impl<'a> ExitObject<'a> {
    pub(super) fn of(exit: Option<&'a AgentExit>) -> Self {
        Self { last_exit: exit.map(|exit| exit.how.words()), last_exit_at: exit.map(|exit| exit.at) }
    }
}

/// A record as in every list.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RecordObject<'a> {
    #[serde(flatten)]
    identity: SessionIdentity,
    #[serde(flatten)]
    agent: AgentObject<'a>,
    agent_argv: Vec<&'a str>,
    cwd: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a SessionName>,
    /// Whether it has no scope, so that only its id finds it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    by_id_only: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    created_at: Timestamp,
    last_used_at: Timestamp,
    last_seq: u64,
    closed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    closed_at: Option<Timestamp>,
}

impl<'a> From<&'a Record> for RecordObject<'a> {
    fn from(record: &'a Record) -> Self {
        Self {
            identity: record.identity(),
            agent: AgentObject::of(&record.agent),
            agent_argv: argv(&record.agent).collect(),
            cwd: record.cwd.as_str(),
            name: name(record),
            by_id_only: record.scope.is_none(),
            title: record.info.title(),
            created_at: record.created_at,
            last_used_at: record.updated_at,
            last_seq: record.last_seq.map_or(0, |seq| seq.0),
            closed: closed_at(record).is_some(),
            closed_at: closed_at(record),
        }
    }
}

/// A record with everything that is known of it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WholeRecord<'a> {
    #[serde(flatten)]
    record: RecordObject<'a>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    additional_directories: &'a [AbsolutePath],
    #[serde(skip_serializing_if = "Option::is_none")]
    last_prompt_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_started_at: Option<Timestamp>,
    #[serde(flatten)]
    exit: ExitObject<'a>,
    turns: u64,
    answered_turns: u64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    private: bool,
    #[serde(flatten)]
    remembered: RememberedObject,
    mcp_servers: Vec<&'a str>,
    lineage: Vec<LineageObject<'a>>,
}

/// One ACP session of a record.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct LineageObject<'a> {
    acpx_session_id: &'a AcpSessionId,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_session_id: Option<&'a AgentSessionId>,
    from: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<Timestamp>,
    reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorObject<'a>>,
}

impl<'a> LineageObject<'a> {
    fn new(row: &'a LineageRow, transcript: &TranscriptView) -> Self {
        let LineageRow { session, agent_session, from, to, reason: _, error } = row;
        Self {
            acpx_session_id: session,
            agent_session_id: agent_session.as_ref(),
            from: *from,
            to: *to,
            reason: transcript.reason(row),
            error: error.as_ref().map(ErrorObject::from),
        }
    }
}

impl<'a> WholeRecord<'a> {
    pub(super) fn new(
        record: &'a Record,
        last_prompt_at: Option<Timestamp>,
        usage: Option<&SessionUsage>,
        transcript: &TranscriptView,
    ) -> Self {
        let run = record.agent_run.as_ref();
        let ended = run.and_then(|run| run.ended.as_ref());
        Self {
            record: record.into(),
            additional_directories: &record.additional_directories,
            last_prompt_at,
            pid: run.filter(|run| run.ended.is_none()).map(|run| run.process.pid),
            agent_started_at: run.map(|run| run.since),
            exit: ExitObject::of(ended),
            turns: transcript.turns(record),
            answered_turns: record.answered_turns,
            private: transcript.is_private,
            remembered: RememberedObject::of(record, usage, transcript),
            mcp_servers: record.mcp_servers.iter().map(|server| server.name.as_str()).collect(),
            lineage: record.lineage.rows().iter().map(|row| LineageObject::new(row, transcript)).collect(),
        }
    }
}

/// The agent as a shell command line.
pub(super) fn command(agent: &AgentSpec) -> String {
    argv(agent).map(crate::agents::quote).collect::<Vec<_>>().join(" ")
}

fn argv(agent: &AgentSpec) -> impl Iterator<Item = &str> {
    [agent.program.as_str()].into_iter().chain(agent.args.iter().map(String::as_str))
}

pub(super) fn name(record: &Record) -> Option<&SessionName> {
    record.scope.as_ref().and_then(|scope| scope.name.as_ref())
}

/// Shown instead of a name for a record that only its id finds.
pub(super) const BY_ID: &str = "[by id]";

/// The name for people. A record without a scope, such as an editor's, is marked.
pub(super) fn shown_name(record: &Record) -> &str {
    match &record.scope {
        None => BY_ID,
        Some(scope) => scope.name.as_ref().map_or("-", SessionName::as_str),
    }
}

/// The directory as a column, without a trailing `/`.
pub(super) fn shown_directory(record: &Record) -> String {
    match record.cwd.as_str().trim_end_matches('/') {
        "" => "/".to_owned(),
        shown => on_one_line(shown),
    }
}

/// A text as a column: its beginning.
pub(super) fn in_a_column(text: Option<&str>) -> String {
    text.and_then(|text| title_of(&on_one_line(text))).unwrap_or_else(|| "-".to_owned())
}

pub(super) fn closed_at(record: &Record) -> Option<Timestamp> {
    match record.lifecycle {
        Lifecycle::Open => None,
        Lifecycle::Closed { at } | Lifecycle::Deleted { at } => Some(at),
    }
}

/// What is known of the transcript that a session's agent keeps itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct TranscriptView {
    /// The command line that continues the session in the agent's own program.
    pub(crate) resume_command: Option<Vec<String>>,
    /// What is wrong with it, if the agent could not restore the session.
    pub(crate) problem: Option<String>,
    /// Whether `acpx mcp` never shows the session.
    pub(crate) is_private: bool,
    /// How many prompts it has, if acpx has no record of the session.
    pub(crate) native_prompts: Option<u64>,
}

/// Why an ACP session of a native session began: acpx has not adopted it.
const NATIVE: &str = "native";

impl TranscriptView {
    /// How many turns the session has.
    pub(super) fn turns(&self, record: &Record) -> u64 {
        self.native_prompts.unwrap_or_else(|| record.last_turn.map_or(0, |turn| turn.0))
    }

    /// Why an ACP session began.
    pub(super) fn reason(&self, row: &LineageRow) -> &'static str {
        if self.native_prompts.is_some() { NATIVE } else { row.reason.as_str() }
    }

    /// The command as a shell takes it.
    pub(super) fn resume_line(&self) -> Option<String> {
        let words = self.resume_command.as_ref()?;
        Some(words.iter().map(|word| crate::agents::quote(word)).collect::<Vec<_>>().join(" "))
    }
}

/// What is known of a session apart from its turns: its usage, and what its agent remembers.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RememberedObject {
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<SessionUsage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<MemoryMeta>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "write_restore_error")]
    last_restore_error: Option<RestoreError>,
    #[serde(skip_serializing_if = "Option::is_none")]
    transcript_problem: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resume_command: Option<Vec<String>>,
}

impl RememberedObject {
    pub(super) fn of(record: &Record, usage: Option<&SessionUsage>, transcript: &TranscriptView) -> Self {
        let TranscriptView { resume_command, problem, is_private: _, native_prompts: _ } = transcript.clone();
        Self {
            transcript_problem: problem,
            resume_command,
            usage: usage.cloned(),
            memory: MemoryMeta::of(record.memory),
            last_restore_error: record.restore_error.clone(),
        }
    }
}

/// The line with a session's usage.
pub(super) fn usage(usage: &SessionUsage, out: &mut dyn Write) -> io::Result<()> {
    let SessionUsage { used, size, cost } = usage;
    let cost = cost.as_ref().map(|cost| format!(", {} {}", cost.amount, cost.currency)).unwrap_or_default();
    line(out, format_args!("context: {used} of {size} tokens{cost}"))
}

/// The lines with why the session was not restored, if the last attempt failed, and with what continues it in the
/// agent's own program.
pub(super) fn restore_lines(
    record: &Record,
    transcript: &TranscriptView,
    out: &mut dyn Write,
) -> io::Result<()> {
    if let Some(error) = &record.restore_error {
        line(out, format_args!("lastRestoreError: {error} at {}", error.at))?;
    }
    if let Some(problem) = &transcript.problem {
        line(out, format_args!("transcriptProblem: {problem}"))?;
    }
    match transcript.resume_line() {
        Some(command) => line(out, format_args!("resumeCommand: {command}")),
        None => Ok(()),
    }
}

/// How much of a conversation an agent remembers, in words, if that is not all of it.
pub(crate) fn memory_words(memory: AgentMemory) -> Option<String> {
    Some(match memory {
        AgentMemory::Whole => return None,
        AgentMemory::Since { from, reason } => {
            let why = reason.map_or_else(String::new, |reason| format!(" ({})", reason.as_str()));
            format!("the agent began afresh{why} and knows nothing that came before event {from}")
        }
        AgentMemory::Compacted => {
            "the agent made its memory shorter: it has a summary of what came before".to_owned()
        }
        AgentMemory::Part => "the agent remembers only part of the conversation".to_owned(),
        AgentMemory::Another => "the agent remembers another conversation than the stored one".to_owned(),
    })
}
