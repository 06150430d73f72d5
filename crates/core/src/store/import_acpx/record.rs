//! Parses a record file of npm acpx.
//!
//! Three spellings are known: `acpx.session.v1` on disk (snake case), the canonical names (`acpxRecordId` and
//! similar), and the older `id`, `sessionId` and `runtimeSessionId`. They may be mixed. A missing required field is
//! damage; any other gets a default, and a note where the user might wonder. No input makes this panic.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::report::{Damage, ImportNote};
use crate::model::{
    AbsolutePath, AcpSessionId, AgentSessionId, Lifecycle, MODEL_OPTION, RecordId, SessionName, Setting,
    SettingName, SettingValue, SetupOptions, Timestamp, split_command_line,
};

/// The only schema with a known name.
const SCHEMA: &str = "acpx.session.v1";

/// The possible names of each field; the first with a value counts.
const RECORD: &[&str] = &["acpx_record_id", "acpxRecordId", "id"];
const SESSION: &[&str] = &["acp_session_id", "acpx_session_id", "acpxSessionId", "acpSessionId", "sessionId"];
const AGENT_SESSION: &[&str] =
    &["agent_session_id", "agentSessionId", "runtime_session_id", "runtimeSessionId"];
const ARGV: &[&str] = &["agent_argv", "agentArgv"];
const COMMAND: &[&str] = &["agent_command", "agentCommand"];
const CREATED: &[&str] = &["created_at", "createdAt"];
const USED: &[&str] = &["last_used_at", "lastUsedAt"];
const UPDATED: &[&str] = &["updated_at", "updatedAt"];
const CLOSED: &[&str] = &["closed_at", "closedAt"];

/// A record of npm acpx.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::store) struct NpmRecord {
    pub(super) id: RecordId,
    pub(super) session: AcpSessionId,
    pub(super) agent_session: Option<AgentSessionId>,
    /// The command line the agent is started with; never empty.
    pub(super) argv: Vec<String>,
    /// The command line npm acpx knew the agent by, if that differs.
    pub(super) known_as: Option<Vec<String>>,
    pub(super) cwd: AbsolutePath,
    /// `Err` for a name that is not valid here.
    pub(super) name: Result<Option<SessionName>, String>,
    pub(super) title: Option<String>,
    pub(super) lifecycle: Lifecycle,
    pub(super) created_at: Timestamp,
    pub(super) used_at: Timestamp,
    /// The mode and the options that the user chose.
    pub(super) chosen: Vec<Setting>,
    /// The options that the agent was set up with.
    pub(super) setup: SetupOptions,
    /// The conversation, cut to its last part, in npm acpx's own form.
    pub(super) messages: Vec<Value>,
    pub(super) notes: Vec<ImportNote>,
}

impl NpmRecord {
    /// Parses a file's bytes. `written_at`, the file's modification time, replaces missing times.
    pub(super) fn read(bytes: &[u8], written_at: Timestamp) -> Result<Self, Damage> {
        let value: Value = serde_json::from_slice(bytes)
            .map_err(|error| Damage::NotJson { line: error.line(), column: error.column() })?;
        Self::of_value(value, written_at)
    }

    /// The same from parsed JSON.
    pub(super) fn of_value(value: Value, written_at: Timestamp) -> Result<Self, Damage> {
        let Value::Object(mut fields) = value else { return Err(Damage::NotAnObject) };
        check_schema(&fields)?;
        let id = text(&fields, RECORD).and_then(|id| RecordId::new(id).ok());
        let id = id.ok_or(Damage::Missing { what: "record id (acpx_record_id, acpxRecordId or id)" })?;
        let session = text(&fields, SESSION).and_then(|id| AcpSessionId::new(id).ok());
        let session = session
            .ok_or(Damage::Missing { what: "session id (acp_session_id, acpxSessionId or sessionId)" })?;
        let (argv, known_as) = command_lines(&fields)?;
        let cwd = text(&fields, &["cwd"]).ok_or(Damage::Missing { what: "cwd" })?;
        let cwd = AbsolutePath::new(cwd).map_err(|_| Damage::RelativeCwd { cwd: cwd.to_owned() })?;
        let mut notes = Vec::new();
        let (created_at, used_at) = times(&fields, written_at, &mut notes);
        let name =
            text(&fields, &["name"]).map(SessionName::new).transpose().map_err(|error| error.to_string());
        if let Err(problem) = &name {
            notes.push(ImportNote::Name { problem: problem.clone() });
        }
        Ok(Self {
            id,
            session,
            agent_session: AGENT_SESSION.iter().find_map(|key| inner_id(&fields, key)),
            argv,
            known_as,
            cwd,
            name,
            title: text(&fields, &["title"]).map(str::to_owned),
            lifecycle: lifecycle(&fields, used_at),
            created_at,
            used_at,
            chosen: fields.get("acpx").map(chosen).unwrap_or_default(),
            setup: fields.get("acpx").map(setup).unwrap_or_default(),
            messages: match fields.remove("messages") {
                Some(Value::Array(messages)) => messages,
                _ => Vec::new(),
            },
            notes,
        })
    }
}

/// The name of a record's files at npm acpx, without extension.
pub(super) fn file_stem(id: &RecordId) -> String {
    let encode = |byte: u8| {
        let is_plain = byte.is_ascii_alphanumeric() || b"-_.!~*'()".contains(&byte);
        if is_plain { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    };
    id.as_str().bytes().map(encode).collect()
}

fn check_schema(fields: &Map<String, Value>) -> Result<(), Damage> {
    match fields.get("schema") {
        None => Ok(()),
        Some(Value::String(schema)) if schema == SCHEMA => Ok(()),
        Some(other) => Err(Damage::UnknownSchema { found: other.to_string().chars().take(80).collect() }),
    }
}

/// The first non-empty text under these names.
fn text<'a>(fields: &'a Map<String, Value>, names: &[&str]) -> Option<&'a str> {
    names.iter().filter_map(|name| fields.get(*name)?.as_str()).find(|text| !text.is_empty())
}

fn inner_id(fields: &Map<String, Value>, name: &str) -> Option<AgentSessionId> {
    fields.get(name)?.as_str().and_then(AgentSessionId::from_agent)
}

/// The agent's command line, and the one it was known by if that differs.
fn command_lines(fields: &Map<String, Value>) -> Result<(Vec<String>, Option<Vec<String>>), Damage> {
    let argv = ARGV.iter().find_map(|name| words(fields.get(*name)?));
    let command = text(fields, COMMAND);
    let split = command.map(|line| {
        let whole = |_| Damage::UnterminatedQuote { command: line.to_owned() };
        split_command_line(line).map_err(whole)
    });
    match (argv, split) {
        // The words are known already, so a line that cannot be split does no harm.
        (Some(argv), split) => {
            let known_as = split.and_then(Result::ok).filter(|split| *split != argv);
            Ok((argv, known_as))
        }
        (None, Some(split)) => match split? {
            words if words.first().is_some_and(|program| !program.is_empty()) => Ok((words, None)),
            _ => Err(NO_COMMAND),
        },
        (None, None) => Err(NO_COMMAND),
    }
}

const NO_COMMAND: Damage = Damage::Missing { what: "agent command (agent_argv or agent_command)" };

/// A non-empty list of texts whose first one is not empty.
fn words(value: &Value) -> Option<Vec<String>> {
    let words: Option<Vec<String>> =
        value.as_array()?.iter().map(|word| word.as_str().map(str::to_owned)).collect();
    words.filter(|words| words.first().is_some_and(|program| !program.is_empty()))
}

/// When the record was created and last used.
fn times(
    fields: &Map<String, Value>,
    written_at: Timestamp,
    notes: &mut Vec<ImportNote>,
) -> (Timestamp, Timestamp) {
    let time = |names| text(fields, names).and_then(|text| Timestamp::parse(text).ok());
    let (created, used, updated) = (time(CREATED), time(USED), time(UPDATED));
    if created.is_none() {
        notes.push(ImportNote::Time { field: "created_at" });
    }
    if used.is_none() {
        notes.push(ImportNote::Time { field: "last_used_at" });
    }
    let used_at = used.or(updated).unwrap_or(written_at);
    let created_at = created.unwrap_or(used_at);
    // If the clock was set back between the two, the record must not end before it began.
    (created_at, used_at.max(created_at))
}

fn lifecycle(fields: &Map<String, Value>, used_at: Timestamp) -> Lifecycle {
    let at = text(fields, CLOSED).and_then(|text| Timestamp::parse(text).ok());
    match (fields.get("closed").and_then(Value::as_bool), at) {
        (Some(true), at) => Lifecycle::Closed { at: at.unwrap_or(used_at) },
        (None, Some(at)) => Lifecycle::Closed { at },
        (Some(false), _) | (None, None) => Lifecycle::Open,
    }
}

/// The settings that npm acpx would send to a new session of the record: mode, model, options.
fn chosen(state: &Value) -> Vec<Setting> {
    let word = |value: &Value| {
        value.as_str().filter(|text| !text.is_empty()).map(|text| SettingValue::Id(text.into()))
    };
    let mode = state.get("desired_mode_id").and_then(word).map(|value| (SettingName::Mode, value));
    let model = state.pointer("/session_options/model").and_then(word);
    let model = model.and_then(|value| Some((model_option(state)?, value)));
    let options = state.get("desired_config_options").and_then(Value::as_object).into_iter().flatten();
    let options = options.filter_map(|(id, value)| {
        let value = word(value).or_else(|| value.as_bool().map(SettingValue::Flag))?;
        Some((SettingName::Option(id.as_str().into()), value))
    });
    let mut chosen: Vec<Setting> = Vec::new();
    for (name, value) in mode.into_iter().chain(options).chain(model) {
        // An option that was set by its id is newer than the model that the session began with.
        if chosen.iter().all(|setting| setting.name != name) {
            chosen.push(Setting { name, value });
        }
    }
    chosen
}

/// The options that npm acpx would send with a new session of the record. One of a wrong type counts as missing.
fn setup(state: &Value) -> SetupOptions {
    fn option<T: DeserializeOwned>(state: &Value, name: &str) -> Option<T> {
        serde_json::from_value(state.pointer("/session_options")?.get(name)?.clone()).ok()
    }
    SetupOptions {
        system_prompt: option(state, "system_prompt"),
        allowed_tools: option(state, "allowed_tools"),
        max_turns: option(state, "max_turns"),
        ..SetupOptions::default()
    }
}

/// The setting for the model: an option, or `session/set_model`.
fn model_option(state: &Value) -> Option<SettingName> {
    if state.get("model_control").and_then(Value::as_str) == Some("legacy_set_model") {
        return Some(SettingName::Option(MODEL_OPTION.into()));
    }
    let options = state.get("config_options")?.as_array()?;
    let model =
        options.iter().find(|option| option.get("category").and_then(Value::as_str) == Some("model"))?;
    Some(SettingName::Option(model.get("id")?.as_str()?.into()))
}

#[cfg(test)]
mod tests;
