//! A record in JSON: the three ids under their own names; unknown members are omitted.

use acpx_core::model::{
    AbsolutePath, AgentSpec, Lifecycle, LineageRow, Record, SessionIdentity, SessionName, SessionUsage,
    Timestamp, title_of,
};
use serde::Serialize;

use super::agent_memory::RememberedObject;
use super::sanitize::on_one_line;

/// A record as in every list.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RecordObject<'a> {
    #[serde(flatten)]
    identity: SessionIdentity,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_name: Option<&'a str>,
    agent_command: String,
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
            agent_name: record.agent.name.as_deref(),
            agent_command: command(&record.agent),
            agent_argv: argv(&record.agent).collect(),
            cwd: record.cwd.as_str(),
            name: name(record),
            by_id_only: record.scope.is_none(),
            title: record.title.as_deref(),
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
    #[serde(skip_serializing_if = "Option::is_none")]
    last_exit: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_exit_at: Option<Timestamp>,
    turns: u64,
    answered_turns: u64,
    #[serde(flatten)]
    remembered: RememberedObject,
    mcp_servers: Vec<&'a str>,
    lineage: &'a [LineageRow],
}

impl<'a> WholeRecord<'a> {
    pub(super) fn new(
        record: &'a Record,
        last_prompt_at: Option<Timestamp>,
        usage: Option<&SessionUsage>,
    ) -> Self {
        let run = record.agent_run.as_ref();
        let ended = run.and_then(|run| run.ended.as_ref());
        Self {
            record: record.into(),
            additional_directories: &record.additional_directories,
            last_prompt_at,
            pid: run.filter(|run| run.ended.is_none()).map(|run| run.process.pid),
            agent_started_at: run.map(|run| run.since),
            last_exit: ended.map(|exit| exit.how.words()),
            last_exit_at: ended.map(|exit| exit.at),
            turns: record.last_turn.map_or(0, |turn| turn.0),
            answered_turns: record.answered_turns,
            remembered: RememberedObject::of(record, usage),
            mcp_servers: record.mcp_servers.iter().map(|server| server.name.as_str()).collect(),
            lineage: record.lineage.rows(),
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
