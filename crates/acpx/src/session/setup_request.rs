//! The requests of a command that create or restore a session.

use acpx_core::acp::client::mcp_server_json;
use acpx_core::engine::SessionError;
use acpx_core::model::{
    AbsolutePath, AgentError, AgentSpec, McpServer, ProtocolVersion, Record, SessionIdentity, SettingValue,
};
use acpx_core::protocol::meta::{NewMeta, RestoreMeta, SessionMeta, SettingMeta};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::prompt_request::AcpxMeta;
use super::recall_server::{RECALL_NAME, recall_server};
use super::settings::CommandSettings;
use crate::agents;
use crate::cli::CliOptions;
use crate::config::{Config, McpFile};
use crate::error::CliError;
use crate::output::{self, Console};

/// The params of `session/new`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NewParams<'a> {
    cwd: &'a AbsolutePath,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    additional_directories: &'a [AbsolutePath],
    mcp_servers: Vec<Box<RawValue>>,
    #[serde(rename = "_meta")]
    meta: SetupMeta<NewMeta>,
}

/// The params of `session/resume`. Absent servers or directories leave those of the session unchanged.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ResumeParams<'a> {
    session_id: &'a str,
    cwd: &'a AbsolutePath,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    additional_directories: &'a [AbsolutePath],
    #[serde(skip_serializing_if = "Option::is_none")]
    mcp_servers: Option<Vec<Box<RawValue>>>,
    #[serde(rename = "_meta")]
    meta: SetupMeta<RestoreMeta>,
}

/// `_meta`: acpx's member, and the agent's own.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SetupMeta<T> {
    acpx: T,
    #[serde(skip_serializing_if = "Option::is_none")]
    claude_code: Option<Value>,
}

impl<T> SetupMeta<T> {
    /// Adds for claude the settings sources of a shell session, as npm acpx does: those of the project, and those of
    /// the user only if `ACPX_CLAUDE_INCLUDE_USER_SETTINGS` is 1.
    fn new(agent: &AgentSpec, acpx: T) -> Self {
        let argv: Vec<String> = [&agent.program].into_iter().chain(&agent.args).cloned().collect();
        let name = agent.name.clone().or_else(|| agents::name_of(&argv));
        let is_claude = name.as_deref() == Some("claude") && agent.url().is_none();
        let with_user =
            std::env::var_os("ACPX_CLAUDE_INCLUDE_USER_SETTINGS").is_some_and(|value| value == "1");
        let sources: &[&str] = if with_user { &["user", "project", "local"] } else { &["project", "local"] };
        let claude_code = is_claude.then(|| json!({ "options": { "settingSources": sources } }));
        Self { acpx, claude_code }
    }
}

/// MCP servers of a command, with the file that defines them.
#[derive(Default)]
pub(crate) struct McpServerSet {
    pub(crate) servers: Vec<McpServer>,
    pub(crate) source: Option<String>,
}

impl McpServerSet {
    /// The servers of a new session: those of the file or the configuration, and the one that gives it past sessions if
    /// that is wanted. A remote agent could not start that one: the flag is an error then, and the configuration's key
    /// has no effect.
    pub(crate) fn of_new(
        settings: &CommandSettings,
        options: &CliOptions,
        config: &Config,
    ) -> Result<Self, CliError> {
        let mut given = Self::of(&settings.mcp_servers(options, config)?, &settings.cwd)?;
        given.add_recall(settings, options.flags.with_recall, config.mcp.recall)?;
        Ok(given)
    }

    fn add_recall(
        &mut self,
        settings: &CommandSettings,
        is_typed: bool,
        is_configured: bool,
    ) -> Result<(), CliError> {
        let is_remote = settings.agent.url().is_some();
        if is_typed && is_remote {
            return Err(SessionError::Agent(AgentError::McpUnsupported {
                agent: settings.typed_agent(),
                index: self.servers.len(),
                server: RECALL_NAME.to_owned(),
                capability: "programs of this machine".into(),
            })
            .into());
        }
        let is_defined = self.servers.iter().any(|server| server.name == RECALL_NAME);
        if (is_typed || is_configured) && !is_remote && !is_defined {
            self.servers.extend(recall_server(&settings.cwd));
        }
        Ok(())
    }

    /// The servers typed for an existing session; `None` without the flag, which leaves the session's servers
    /// unchanged.
    pub(crate) fn typed(settings: &CommandSettings, options: &CliOptions) -> Result<Option<Self>, CliError> {
        let Some(file) = &options.flags.mcp_config else { return Ok(None) };
        let file = McpFile::load(settings.cwd.as_path().join(file))?;
        let mut given = Self::of(&file, &settings.cwd)?;
        given.add_recall(settings, options.flags.with_recall, false)?;
        Ok(Some(given))
    }

    /// The servers of a file, with their programs resolved.
    pub(crate) fn of(file: &McpFile, cwd: &AbsolutePath) -> Result<Self, CliError> {
        let path = std::env::var_os("PATH");
        let around = crate::config::ProgramSearch { cwd: cwd.as_path(), path: path.as_deref() };
        let servers = file.servers(around)?;
        let source = (!servers.is_empty()).then(|| file.source.to_str().map(str::to_owned)).flatten();
        Ok(Self { servers, source })
    }

    /// The servers as the host reads them.
    fn on_wire(&self) -> Vec<Box<RawValue>> {
        self.servers.iter().filter_map(|server| mcp_server_json(server, ProtocolVersion::V1)).collect()
    }
}

impl<'a> NewParams<'a> {
    pub(crate) fn new(settings: &'a CommandSettings, given: &McpServerSet, mut meta: NewMeta) -> Self {
        meta.start.mcp_source.clone_from(&given.source);
        let CommandSettings { cwd, additional_directories, .. } = settings;
        let mcp_servers = given.on_wire();
        let meta = SetupMeta::new(&settings.agent, meta);
        Self { cwd, additional_directories, mcp_servers, meta }
    }

    /// The requested settings.
    pub(crate) fn wanted(&self) -> &[SettingMeta] {
        &self.meta.acpx.start.settings
    }
}

impl<'a> ResumeParams<'a> {
    pub(crate) fn new(
        record: &'a Record,
        settings: &'a CommandSettings,
        given: Option<&McpServerSet>,
        mut meta: RestoreMeta,
    ) -> Self {
        meta.start.mcp_source = given.and_then(|given| given.source.clone());
        let mcp_servers = given.map(McpServerSet::on_wire);
        let session_id = record.id.as_str();
        // A command inside the session's real directory uses that path, even if the session's own path now leads to
        // another one.
        let here = settings.cwd.as_path().canonicalize();
        let is_here = here.is_ok_and(|here| here.starts_with(record.real_cwd.as_path()));
        let cwd = if is_here { &record.real_cwd } else { &record.cwd };
        let additional_directories = &settings.additional_directories;
        meta.same_directories = additional_directories.is_empty();
        let meta = SetupMeta::new(&record.agent, meta);
        Self { session_id, cwd, additional_directories, mcp_servers, meta }
    }

    /// The requested settings.
    pub(crate) fn wanted(&self) -> &[SettingMeta] {
        &self.meta.acpx.start.settings
    }

    /// Lets the host start the agent later.
    pub(crate) fn start_later(&mut self) {
        self.meta.acpx.later = true;
    }
}

/// The session's identity and metadata in the host's reply.
pub(crate) fn read(answer: &str) -> Option<(SessionIdentity, SessionMeta)> {
    #[derive(Deserialize)]
    struct Answer {
        #[serde(rename = "_meta")]
        meta: AcpxMeta<SessionMeta>,
    }
    let meta = serde_json::from_str::<Answer>(answer).ok()?.meta.acpx;
    Some((meta.ids.clone(), meta))
}

/// The value of an option in a reply, by id or category; without an option, the mode.
pub(crate) fn shown(answer: &str, option: Option<&str>) -> Option<SettingValue> {
    let answer: Value = serde_json::from_str(answer).ok()?;
    let options = || answer["configOptions"].as_array().into_iter().flatten();
    let by = |member: &str, word: &str| options().find(|option| option[member] == word);
    let of = |word: &str| Some(&by("id", word).or_else(|| by("category", word))?["currentValue"]);
    let of_list = |list: &str, current: &str| Some(&answer[list][current]).filter(|value| value.is_string());
    let mode = || of_list("modes", "currentModeId");
    let value = match option {
        None => mode().or_else(|| of("mode")),
        Some("mode") => of("mode").or_else(mode),
        Some("model") => of("model").or_else(|| of_list("models", "currentModelId")),
        Some(word) => of(word),
    };
    serde_json::from_value(value?.clone()).ok()
}

/// The values that an option can have, by id or category, or those of the mode; `None` if the reply has no such option.
pub(crate) fn choices(answer: &str, word: &str) -> Option<Vec<String>> {
    let answer: Value = serde_json::from_str(answer).ok()?;
    let options = || answer["configOptions"].as_array().into_iter().flatten();
    let by = |member: &str| options().find(|option| option[member] == word);
    let ids = |list: &Value, member: &str| -> Option<Vec<String>> {
        let text = |item: &Value| item[member].as_str().map(str::to_owned);
        Some(list.as_array()?.iter().filter_map(text).collect())
    };
    if let Some(option) = by("id").or_else(|| by("category")) {
        if option["type"] == "boolean" {
            return Some(vec!["true".to_owned(), "false".to_owned()]);
        }
        // The values may be in groups.
        let items = option["options"].as_array()?;
        let values = items.iter().flat_map(|item| match item["options"].as_array() {
            Some(group) => group.clone(),
            None => vec![item.clone()],
        });
        return ids(&Value::Array(values.collect()), "value");
    }
    match word {
        "mode" => ids(&answer["modes"]["availableModes"], "id"),
        "model" => ids(&answer["models"]["availableModels"], "modelId"),
        _ => None,
    }
}

/// The words for the options of a reply.
pub(crate) fn option_words(answer: &str) -> Vec<Box<str>> {
    let answer: Value = serde_json::from_str(answer).unwrap_or_default();
    let own = answer["configOptions"].as_array().into_iter().flatten();
    let own = own.filter_map(|option| option["id"].as_str().map(Into::into));
    let lists = [("modes", "mode"), ("models", "model")];
    let words = lists.iter().filter(|(list, _)| answer[list].is_object()).map(|(_, word)| (*word).into());
    words.chain(own).collect()
}

/// Reports requested settings for which the agent shows another value.
pub(crate) fn report_applied_settings(wanted: &[SettingMeta], answer: &str, console: &mut Console<'_>) {
    for SettingMeta { option, value } in wanted {
        let other = shown(answer, option.as_deref()).filter(|shown| shown.to_string() != *value);
        if let Some(other) = other {
            output::shown_otherwise(option.as_deref(), value, &other, console);
        }
    }
}
