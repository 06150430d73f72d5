//! An archive in npm acpx's format 1, with our record in a member of its own. `acpx_core::store::archive` has the rules.

use std::io::{self, Write};
use std::path::Path;

use acpx_core::model::{Event, EventKind, MODEL_OPTION, Record, SettingName, Timestamp, Turn};
use acpx_core::store::archive::{FORMAT_VERSION, event_row, record_object, turn_object};
use serde_json::{Map, Value, json};

use super::ConversationSection;
use super::npm_messages::NpmMessages;

/// The limits of npm acpx's journals, which its records repeat.
const SEGMENT_BYTES: u64 = 64 * 1024 * 1024;
const SEGMENTS: u64 = 5;

/// Writes an archive. The record is read three times: for npm acpx's messages, for the rows of events, and for the
/// history. Nothing but the last messages is held.
#[derive(Debug, Default)]
pub(crate) struct ArchiveWriter {
    messages: NpmMessages,
    last_request: Option<String>,
    /// Whether the open array has an item.
    has_items: bool,
}

impl ArchiveWriter {
    /// Takes a section of the first reading.
    pub(crate) fn section(&mut self, section: &ConversationSection) {
        self.last_request.clone_from(&section.request_id);
        self.messages.section(section);
    }

    /// Writes everything before the turns.
    pub(crate) fn begin(
        &mut self,
        record: &Record,
        home: Option<&Path>,
        at: Timestamp,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let session = self.session(record, home);
        writeln!(
            out,
            "{{\"format_version\":{FORMAT_VERSION},\"exported_at\":\"{at}\",\"exported_by\":\"acpx\","
        )?;
        writeln!(out, "\"session\":{session},")?;
        write!(out, "\"acpx\":{{\"version\":1,\"record\":{},\n\"turns\":[", record_object(record))
    }

    /// Writes a turn.
    pub(crate) fn turn(&mut self, turn: &Turn, out: &mut dyn Write) -> io::Result<()> {
        self.item(&turn_object(turn), out)
    }

    /// Ends the turns and begins the events.
    pub(crate) fn begin_events(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.has_items = false;
        write!(out, "],\n\"events\":[")
    }

    /// Writes the row of an event.
    pub(crate) fn event(&mut self, event: &Event, out: &mut dyn Write) -> io::Result<()> {
        self.item(&event_row(event), out)
    }

    /// Ends the events and begins the history.
    pub(crate) fn begin_history(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.has_items = false;
        write!(out, "]}},\n\"history\":[")
    }

    /// Writes the line of an event, unless it is a fact of ours.
    pub(crate) fn line(&mut self, event: &Event, out: &mut dyn Write) -> io::Result<()> {
        if event.kind == EventKind::Fact { Ok(()) } else { self.item(&event.body, out) }
    }

    /// Ends the archive.
    pub(crate) fn end(out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "]}}")
    }

    fn item(&mut self, json: &str, out: &mut dyn Write) -> io::Result<()> {
        let comma = if std::mem::replace(&mut self.has_items, true) { "," } else { "" };
        write!(out, "{comma}\n{json}")
    }

    /// The member `session`, with the record as npm acpx stores it.
    fn session(&mut self, record: &Record, home: Option<&Path>) -> Value {
        let name = record.scope.as_ref().and_then(|scope| scope.name.as_ref()).map(ToString::to_string);
        let in_home =
            home.and_then(|home| record.cwd.as_path().strip_prefix(home).ok()).and_then(Path::to_str);
        let cwd = in_home.filter(|path| !path.is_empty()).unwrap_or(record.cwd.as_str());
        let agent = npm_command(record);
        let mut session = json!({
            "record_id": record.id,
            "name": name,
            "agent": agent,
            "cwd_relative": cwd,
            "cwd_original": record.cwd,
            "created_at": record.created_at,
            "updated_at": record.updated_at,
        });
        if let Some(agent_name) = &record.agent.name {
            session["agent_name"] = agent_name.as_str().into();
        }
        session["state"] = self.state(record, cwd, &agent, name.as_deref());
        session
    }

    fn state(&mut self, record: &Record, cwd: &str, agent: &str, name: Option<&str>) -> Value {
        let current = record.lineage.current();
        let mut state = json!({
            "schema": "acpx.session.v1",
            "acpx_record_id": record.id,
            "acp_session_id": current.session,
            "agent_command": agent,
            "cwd": cwd,
            "created_at": record.created_at,
            "last_used_at": record.updated_at,
            "last_seq": record.last_seq.map_or(0, |seq| seq.0),
            "event_log": {
                "active_path": ".stream.ndjson",
                "segment_count": 1,
                "max_segment_bytes": SEGMENT_BYTES,
                "max_segments": SEGMENTS,
                "last_write_at": record.updated_at,
                "last_write_error": null,
            },
            "closed": false,
            "protocol_version": 1,
            "title": record.info.title(),
            "messages": self.messages.take(),
            "updated_at": record.updated_at,
            "cumulative_token_usage": {},
            "request_token_usage": {},
            "acpx": chosen(record),
        });
        let optional = [
            ("agent_session_id", current.agent_session.as_ref().map(|id| id.as_str().to_owned())),
            ("name", name.map(str::to_owned)),
            ("last_request_id", self.last_request.take()),
        ];
        for (member, value) in optional {
            if let Some(value) = value {
                state[member] = value.into();
            }
        }
        state
    }
}

/// The chosen settings, as npm acpx stores them.
fn chosen(record: &Record) -> Value {
    let mut settings = json!({});
    let mut options = Map::new();
    for setting in &record.settings.chosen {
        let value = serde_json::to_value(&setting.value).unwrap_or_default();
        match &setting.name {
            SettingName::Mode => settings["desired_mode_id"] = value,
            SettingName::Option(option) if &**option == MODEL_OPTION => {
                settings["session_options"] = json!({ "model": value });
                settings["model_control"] = "legacy_set_model".into();
            }
            SettingName::Option(option) => {
                options.insert(option.to_string(), value);
            }
        }
    }
    if !options.is_empty() {
        settings["desired_config_options"] = options.into();
    }
    settings
}

/// The agent's command line as npm acpx writes it: an agent is recognised by this text.
fn npm_command(record: &Record) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_@%+=:,./^~-".contains(letter);
    let word = |word: &String| {
        let is_plain = !word.is_empty() && word.chars().all(is_plain);
        if is_plain { word.clone() } else { Value::from(word.as_str()).to_string() }
    };
    record.agent.command().iter().map(word).collect::<Vec<_>>().join(" ")
}
