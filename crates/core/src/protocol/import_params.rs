//! The params and the results of `_acpx/import` and `_acpx/import_archive`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::model::{AbsolutePath, SessionIdentity, SessionName};

/// Looks up the name of an agent by its command line.
pub(crate) type AgentNames = fn(&[String]) -> Option<String>;

/// An agent of the client's configuration. npm acpx stores only its command line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfiguredAgent {
    /// Its name.
    pub name: String,
    /// Its command line: the program and its arguments.
    pub argv: Vec<String>,
}

impl ConfiguredAgent {
    /// The name of an agent with this command line: the one in the configuration before a built-in one.
    pub fn name_of(configured: &[Self], built_in: AgentNames, argv: &[String]) -> Option<String> {
        let own = configured.iter().find(|agent| agent.argv == argv);
        own.map(|agent| agent.name.clone()).or_else(|| built_in(argv))
    }
}

/// The params of `_acpx/import`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImportParams {
    /// The session directory of npm acpx.
    pub directory: PathBuf,
    /// Whether to report only what would be done.
    #[serde(default)]
    pub dry_run: bool,
    /// The agents of the client's configuration.
    #[serde(default)]
    pub agents: Vec<ConfiguredAgent>,
}

/// The result of `_acpx/import`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImportMeta {
    /// Records that were imported for the first time.
    pub taken: Vec<ImportedRecordMeta>,
    /// Records that were imported before and have grown since.
    pub grown: Vec<ImportedRecordMeta>,
    /// How many records are unchanged since their import.
    pub unchanged: usize,
    /// Files that were skipped.
    pub left: Vec<FileMeta>,
    /// Files that cannot be read as a record.
    pub damaged: Vec<FileMeta>,
    /// Why turns that npm acpx added to imported records were not imported, each reason once; all of them are in
    /// `left`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub continued: Vec<String>,
}

/// An imported record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImportedRecordMeta {
    /// Its file.
    pub file: String,
    /// Its id, unchanged.
    pub acpx_record_id: String,
    /// Its ACP session.
    pub acpx_session_id: String,
    /// The agent's inner id, if it was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_session_id: Option<String>,
    /// How many turns were imported.
    pub turns: u64,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// A file that was not imported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileMeta {
    /// The file.
    pub file: String,
    /// The reason.
    pub reason: String,
}

/// The params of `_acpx/import_archive`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ArchiveParams {
    /// The archive's file.
    pub archive: PathBuf,
    /// The name of the session's agent; absent for a command line without a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The agent's command line: the program and its arguments.
    pub argv: Vec<String>,
    /// The session's directory.
    pub cwd: AbsolutePath,
    /// The session's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<SessionName>,
    /// The id of the new record, if the archive was made from a native transcript: that of the agent's session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native_session_id: Option<String>,
}

/// The result of `_acpx/import_archive`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ArchiveMeta {
    /// The ids of the new record.
    #[serde(flatten)]
    pub identity: SessionIdentity,
    /// How many turns it has.
    pub turns: u64,
    /// How many events it has.
    pub events: u64,
    /// Notes for the user.
    pub notes: Vec<String>,
}
