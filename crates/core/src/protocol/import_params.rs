//! The params and the result of `_acpx/import`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What an agent with this command line is called, if it has a name.
pub type AgentNames = fn(&[String]) -> Option<String>;

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

/// What is asked for.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImportParams {
    /// Where npm acpx keeps its sessions.
    pub directory: PathBuf,
    /// Whether only to say what would be done.
    #[serde(default)]
    pub dry_run: bool,
    /// The agents of the client's configuration.
    #[serde(default)]
    pub agents: Vec<ConfiguredAgent>,
}

/// What came of it, as it crosses the socket.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImportMeta {
    /// Records that are new here.
    pub taken: Vec<ImportedRecordMeta>,
    /// Records that came before and have grown.
    pub grown: Vec<ImportedRecordMeta>,
    /// How many are as they were when they came.
    pub unchanged: usize,
    /// Files that were left alone.
    pub left: Vec<FileMeta>,
    /// Files that are no record.
    pub damaged: Vec<FileMeta>,
    /// Why turns that npm acpx has added to imported records are not here, each said once; all of them are in `left`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub continued: Vec<String>,
}

/// A record that came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImportedRecordMeta {
    /// Its file.
    pub file: String,
    /// Its id, as it was.
    pub acpx_record_id: String,
    /// Its ACP session.
    pub acpx_session_id: String,
    /// The harness's own id of it, if it was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_session_id: Option<String>,
    /// How many turns came.
    pub turns: u64,
    /// What a person should know of it.
    pub notes: Vec<String>,
}

/// A file that did not come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileMeta {
    /// The file.
    pub file: String,
    /// Why not.
    pub reason: String,
}
