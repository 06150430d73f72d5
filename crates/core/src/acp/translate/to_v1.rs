//! Translates the updates of a version 2 session for a version 1 client. Version 1 can only append to a message,
//! replaces the content of a tool call as a whole, has one plan, and no terminals of the agent. So the translator
//! remembers what it sent, within bounds that no agent can exceed.

use agent_client_protocol_schema::v1;

use super::TranslatedCall;
use super::blocks;
use super::calls::ToolCallTracker;
use super::error::TranslationError;
use super::options::{commands_to_v1, is_mode_option, option_to_modes, option_to_v1};
use super::plans::Plans;
use super::recent::RecentMap;
use super::sanitize::repaired;
use super::sent_text::{MessageProgress, MessageRemainder};
use crate::wire::json::{RawObject, array, items};

/// How many messages are remembered.
const MAX_MESSAGES: usize = 512;

/// The response to a request that sets a session up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TranslatedSetup {
    /// The result.
    pub result: Box<str>,
    /// The `update` object with the session's commands, for which version 1 has no place in the response.
    pub commands: Option<Box<str>>,
}

/// Translates the updates of one version 2 session. Every output is valid version 1; what version 1 cannot express is
/// left out.
#[derive(Debug, Default)]
pub struct UpdatesToV1 {
    messages: RecentMap<MessageProgress, MAX_MESSAGES>,
    calls: ToolCallTracker,
    plans: Plans,
    offered: ReportedOptions,
}

/// The session's options, as last sent to the client.
#[derive(Debug, Default)]
struct ReportedOptions {
    /// The option that selects the mode: its id and its value, JSON as received.
    mode: Option<(Box<str>, Box<str>)>,
    /// The options of version 1.
    options: Option<Box<str>>,
}

impl UpdatesToV1 {
    /// An empty translator. Each ACP session needs its own, because ids are unique only within a session.
    pub fn new() -> Self {
        Self::default()
    }

    /// The `update` objects that express this one. A chunk of tool call content or terminal output is not sent on its
    /// own: it is pending until the next update of another kind.
    pub fn update(&mut self, update: &str) -> Vec<Box<str>> {
        readable(self.translated(&repaired(update)).unwrap_or_default())
    }

    /// A version 1 tool call, or an update of one, with acpx terminals: their output is sent as text, and sent again
    /// when it changes. `None` if there is nothing to change.
    pub(crate) fn with_terminals(&mut self, update: &str) -> Option<Box<str>> {
        self.calls.with_terminals(RawObject::parse(update)?).map(Into::into)
    }

    /// Whether the content of a tool call has changed and is not sent yet.
    pub(crate) fn has_pending(&self) -> bool {
        self.calls.has_pending()
    }

    /// The `update` objects with the pending content.
    pub(crate) fn settle(&mut self) -> Vec<Box<str>> {
        readable(self.calls.settle())
    }

    fn translated(&mut self, update: &str) -> Option<Vec<String>> {
        let mut members = RawObject::parse(update)?;
        let kind = members.text("sessionUpdate")?;
        let translated = match &*kind {
            "user_message_chunk" | "agent_message_chunk" | "agent_thought_chunk" => {
                vec![self.chunk(&kind, members)?]
            }
            "user_message" => self.message("user_message_chunk", members)?,
            "agent_message" => self.message("agent_message_chunk", members)?,
            "agent_thought" => self.message("agent_thought_chunk", members)?,
            "tool_call_update" => return self.calls.update(members),
            "tool_call_content_chunk" => return self.calls.content_chunk(members),
            "terminal_update" => return self.calls.terminal_update(&members).map(|()| Vec::new()),
            "terminal_output_chunk" => return self.calls.terminal_output(&members).map(|()| Vec::new()),
            "plan_update" => vec![self.plans.update(members)?],
            "plan_removed" => vec![self.plans.removed(members)?],
            "available_commands_update" => {
                let commands = commands_to_v1(members.get("availableCommands")?)?;
                members.set("availableCommands", commands);
                vec![members.to_string()]
            }
            "config_option_update" => self.options_update(members)?,
            "compaction_update" => {
                if let Some(summary) = members.get("summary").map(|it| blocks::list_to_v1(it).into_owned()) {
                    members.set("summary", summary);
                }
                vec![members.to_string()]
            }
            "compaction_summary_chunk" => {
                let content = blocks::to_v1(members.get("content")?).into_owned();
                members.set("content", content);
                vec![members.to_string()]
            }
            "session_info_update" | "usage_update" | "notice" => vec![update.to_owned()],
            _ => Vec::new(),
        };
        let mut updates = self.calls.settle();
        updates.extend(translated);
        Some(updates)
    }

    /// Translates a chunk. Version 2 requires a message id, version 1 does not: a chunk without one is sent without.
    fn chunk(&mut self, kind: &str, mut chunk: RawObject<'_>) -> Option<String> {
        let block = chunk.get("content")?.to_owned();
        let id = chunk.text("messageId");
        chunk.remove("messageId");
        if let Some(id) = id {
            let progress = self.messages.entry(&format!("{kind} {id}"));
            progress.append(&block);
            chunk.set_text("messageId", &progress.id(&id));
        }
        chunk.set("content", blocks::to_v1(&block).into_owned());
        Some(chunk.to_string())
    }

    /// The chunks that complete what the client has of the whole message. The first carries the message's other
    /// members.
    fn message(&mut self, kind: &'static str, mut message: RawObject<'_>) -> Option<Vec<String>> {
        let id = message.text("messageId")?;
        let content = message.remove("content")?;
        let blocks = if content == "null" { Vec::new() } else { items(&content)? };
        let progress = self.messages.entry(&format!("{kind} {id}"));
        let rest = progress.replace(&blocks);
        let id = progress.id(&id);
        let mut chunks = Vec::new();
        for rest in rest {
            let block = match rest {
                MessageRemainder::Block(block) => blocks::to_v1(block).into_owned(),
                MessageRemainder::Text(text) => blocks::text_block(&text).to_string(),
            };
            let mut chunk = if chunks.is_empty() { std::mem::take(&mut message) } else { RawObject::new() };
            chunk.set_text("sessionUpdate", kind);
            chunk.set_text("messageId", &id);
            chunk.set("content", block);
            chunks.push(chunk.to_string());
        }
        Some(chunks)
    }

    /// If only the mode changed, sends only the mode; if only other options changed, sends only those.
    fn options_update(&mut self, mut update: RawObject<'_>) -> Option<Vec<String>> {
        let before = std::mem::take(&mut self.offered);
        self.offered = ReportedOptions::of(update.get("configOptions")?);
        let mut updates = Vec::new();
        let options = self.offered.options.clone().unwrap_or_default();
        let options_changed = before.options != self.offered.options;
        if let Some((_, value)) = &self.offered.mode
            && before.mode.as_ref().map(|(_, value)| value) != Some(value)
        {
            let mut mode = if options_changed { RawObject::new() } else { update.clone() };
            mode.remove("configOptions");
            mode.set_text("sessionUpdate", "current_mode_update");
            mode.set("currentModeId", &**value);
            updates.push(mode.to_string());
        }
        if options_changed || updates.is_empty() {
            update.set("configOptions", String::from(options));
            updates.push(update.to_string());
        }
        Some(updates)
    }

    /// Translates the response to `session/new`, `resume` or `fork`, and remembers the options in it.
    pub(crate) fn setup_answer(&mut self, result: &str) -> TranslatedSetup {
        let mut members = RawObject::parse(result).unwrap_or_default();
        let commands = members.remove("availableCommands").as_deref().and_then(commands_to_v1);
        let commands = commands.filter(|commands| commands != "[]").map(|commands| {
            format!(r#"{{"sessionUpdate":"available_commands_update","availableCommands":{commands}}}"#)
                .into()
        });
        let options = members.remove("configOptions").unwrap_or_default();
        self.offered = ReportedOptions::of(&options);
        if let Some(modes) = mode_option(&options).and_then(option_to_modes) {
            members.set("modes", modes);
        }
        if let Some(options) = self.offered.options.as_deref().filter(|options| *options != "[]") {
            members.set("configOptions", options.to_owned());
        }
        TranslatedSetup { result: members.to_string().into(), commands }
    }

    /// The version 2 request for a client's `session/set_mode`.
    pub(crate) fn set_mode(&self, params: &str) -> Result<TranslatedCall, TranslationError> {
        let wrong = TranslationError::shape;
        let mut members = RawObject::parse(params).ok_or_else(|| wrong("params"))?;
        let mode = members.remove("modeId").ok_or_else(|| wrong("modeId"))?;
        let (option, _) = self.offered.mode.as_ref().ok_or(TranslationError::NoModes)?;
        members.set("configId", &**option);
        members.set_text("type", "id");
        members.set("value", mode);
        Ok(TranslatedCall { method: "session/set_config_option", params: members.to_string().into() })
    }

    /// Translates the response to a client that set an option, and remembers the options in it.
    pub(crate) fn options_answer(&mut self, result: &str) -> Box<str> {
        let mut members = RawObject::parse(result).unwrap_or_default();
        self.offered = ReportedOptions::of(members.get("configOptions").unwrap_or("[]"));
        members.set("configOptions", String::from(self.offered.options.clone().unwrap_or_default()));
        members.to_string().into()
    }

    /// The same for a client that set a mode: in version 1 that response has no options.
    pub(crate) fn mode_answer(&mut self, result: &str) -> Box<str> {
        let mut members = RawObject::parse(result).unwrap_or_default();
        self.offered = ReportedOptions::of(members.remove("configOptions").as_deref().unwrap_or("[]"));
        members.to_string().into()
    }
}

impl ReportedOptions {
    /// Reads a list of version 2 options.
    fn of(options: &str) -> Self {
        let mode = mode_option(options).and_then(RawObject::parse).and_then(|option| {
            Some((Box::from(option.get("configId")?), Box::from(option.get("currentValue")?)))
        });
        let known = items(options).unwrap_or_default().into_iter().filter_map(option_to_v1);
        Self { mode, options: Some(array(known).into()) }
    }
}

/// Keeps only the updates that are valid version 1.
fn readable(updates: Vec<String>) -> Vec<Box<str>> {
    let is_readable = |update: &String| serde_json::from_str::<v1::SessionUpdate>(update).is_ok();
    updates.into_iter().filter(is_readable).map(Into::into).collect()
}

/// The option that selects the mode.
fn mode_option(options: &str) -> Option<&str> {
    items(options)?.into_iter().find(|option| is_mode_option(option))
}
