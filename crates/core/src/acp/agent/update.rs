//! The `update` object of `session/update`, serialized once.
//!
//! An agent that stores its conversation stores these bytes and sends them again on load, so a replay equals the
//! original.

use agent_client_protocol_schema::v1 as acp;
use serde_json::Value;
use serde_json::value::RawValue;

use super::setup::mode_id;
use crate::model::AbsolutePath;
use crate::wire::encode::json_string;

/// One `update` object, as JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpdateBody(Box<str>);

/// The JSON is not an object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an update must be a JSON object")]
pub struct NotAnUpdate;

/// A step of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanItem {
    /// The task.
    pub text: String,
    /// Its status.
    pub status: PlanStatus,
}

/// The status of a plan step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanStatus {
    /// Not started.
    Pending,
    /// Started.
    InProgress,
    /// Done.
    Completed,
}

/// A slash command for prompts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlashCommand {
    /// The word after the slash.
    pub name: String,
    /// What it does.
    pub description: String,
}

/// A report of a tool call; omitted members keep their last reported value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolReport {
    id: String,
    title: Option<String>,
    kind: Option<ToolCallKind>,
    status: Option<ToolCallStatus>,
    output: Vec<ToolOutput>,
    raw_input: Option<Value>,
    raw_output: Option<Value>,
}

/// The kind of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolCallKind {
    /// Reads files or data.
    Read,
    /// Changes files or data.
    Edit,
    /// Any other kind.
    Other,
}

/// The status of a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolCallStatus {
    /// Not started, or waiting for permission.
    Pending,
    /// Running.
    InProgress,
    /// Done.
    Completed,
    /// Failed.
    Failed,
}

/// Output of a tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolOutput {
    /// Text.
    Text(String),
    /// A content block as JSON. An invalid block is sent as text.
    Block(Value),
    /// A change to a file.
    Diff {
        /// The file.
        path: AbsolutePath,
        /// The old content; `None` for a new file.
        old: Option<String>,
        /// The new content.
        new: String,
    },
}

impl UpdateBody {
    /// A chunk of the user's message: a content block, as received.
    pub fn user_block(block: &str) -> Result<Self, NotAnUpdate> {
        Self::from_json(format!(r#"{{"sessionUpdate":"user_message_chunk","content":{block}}}"#))
    }

    /// A chunk of the agent's message.
    pub fn agent_text(text: impl Into<String>) -> Self {
        Self::of(&acp::SessionUpdate::AgentMessageChunk(text_chunk(text)))
    }

    /// A chunk of the agent's thinking.
    pub fn thought(text: impl Into<String>) -> Self {
        Self::of(&acp::SessionUpdate::AgentThoughtChunk(text_chunk(text)))
    }

    /// The whole current plan.
    pub fn plan(items: impl IntoIterator<Item = PlanItem>) -> Self {
        let entry = |item: PlanItem| {
            let status = match item.status {
                PlanStatus::Pending => acp::PlanEntryStatus::Pending,
                PlanStatus::InProgress => acp::PlanEntryStatus::InProgress,
                PlanStatus::Completed => acp::PlanEntryStatus::Completed,
            };
            acp::PlanEntry::new(item.text, acp::PlanEntryPriority::Medium, status)
        };
        Self::of(&acp::SessionUpdate::Plan(acp::Plan::new(items.into_iter().map(entry).collect())))
    }

    /// The first report of a tool call.
    pub fn tool_call(report: ToolReport) -> Self {
        let title = report.title.clone().unwrap_or_else(|| report.id.clone());
        let mut call = acp::ToolCall::new(report.id, title);
        if let Some(kind) = report.kind {
            call = call.kind(kind.into());
        }
        if let Some(status) = report.status {
            call = call.status(status.into());
        }
        if !report.output.is_empty() {
            call = call.content(report.output.into_iter().map(Into::into).collect());
        }
        call = call.raw_input(report.raw_input).raw_output(report.raw_output);
        Self::of(&acp::SessionUpdate::ToolCall(call))
    }

    /// A later report of a tool call.
    pub fn tool_call_update(report: ToolReport) -> Self {
        Self::of(&acp::SessionUpdate::ToolCallUpdate(report.into()))
    }

    /// The agent changed the session's mode.
    pub fn current_mode(mode: &str) -> Self {
        Self::of(&acp::SessionUpdate::CurrentModeUpdate(acp::CurrentModeUpdate::new(mode_id(mode))))
    }

    /// The agent's slash commands.
    pub fn available_commands(commands: impl IntoIterator<Item = SlashCommand>) -> Self {
        let command = |command: SlashCommand| acp::AvailableCommand::new(command.name, command.description);
        let update = acp::AvailableCommandsUpdate::new(commands.into_iter().map(command).collect());
        Self::of(&acp::SessionUpdate::AvailableCommandsUpdate(update))
    }

    /// The same update as a chunk of the message with this id.
    #[must_use]
    pub fn in_message(self, id: &str) -> Self {
        let rest = self.0[1..].trim_ascii_start();
        let comma = if rest.starts_with('}') { "" } else { "," };
        Self(format!(r#"{{"messageId":{}{comma}{rest}"#, json_string(id)).into())
    }

    /// A stored update, as JSON. Its kind is not checked.
    pub fn from_json(json: impl Into<Box<str>>) -> Result<Self, NotAnUpdate> {
        let json = json.into();
        let is_object = json.starts_with('{') && serde_json::from_str::<&RawValue>(&json).is_ok();
        if is_object { Ok(Self(json)) } else { Err(NotAnUpdate) }
    }

    /// The update as JSON.
    pub fn as_json(&self) -> &str {
        &self.0
    }

    fn of(update: &acp::SessionUpdate) -> Self {
        Self(serde_json::to_string(update).expect("an update has only text, numbers and lists").into())
    }
}

impl ToolReport {
    /// An empty report of the tool call with this id.
    pub fn new(id: impl Into<String>) -> Self {
        let (title, kind, status, raw_input, raw_output) = (None, None, None, None, None);
        Self { id: id.into(), title, kind, status, output: Vec::new(), raw_input, raw_output }
    }

    /// The tool call's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Sets the display title.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Sets the kind of the tool.
    #[must_use]
    pub fn kind(mut self, kind: ToolCallKind) -> Self {
        self.kind = Some(kind);
        self
    }

    /// Sets the status.
    #[must_use]
    pub fn status(mut self, status: ToolCallStatus) -> Self {
        self.status = Some(status);
        self
    }

    /// Adds output.
    #[must_use]
    pub fn output(mut self, output: ToolOutput) -> Self {
        self.output.push(output);
        self
    }

    /// Sets the tool's parameters.
    #[must_use]
    pub fn raw_input(mut self, input: Value) -> Self {
        self.raw_input = Some(input);
        self
    }

    /// Sets the tool's whole result.
    #[must_use]
    pub fn raw_output(mut self, output: Value) -> Self {
        self.raw_output = Some(output);
        self
    }
}

impl From<ToolReport> for acp::ToolCallUpdate {
    fn from(report: ToolReport) -> Self {
        let output: Vec<acp::ToolCallContent> = report.output.into_iter().map(Into::into).collect();
        let fields = acp::ToolCallUpdateFields::new()
            .title(report.title)
            .kind(report.kind.map(acp::ToolKind::from))
            .status(report.status.map(acp::ToolCallStatus::from))
            .content((!output.is_empty()).then_some(output))
            .raw_input(report.raw_input)
            .raw_output(report.raw_output);
        Self::new(report.id, fields)
    }
}

impl From<ToolCallKind> for acp::ToolKind {
    fn from(kind: ToolCallKind) -> Self {
        match kind {
            ToolCallKind::Read => Self::Read,
            ToolCallKind::Edit => Self::Edit,
            ToolCallKind::Other => Self::Other,
        }
    }
}

impl From<ToolCallStatus> for acp::ToolCallStatus {
    fn from(status: ToolCallStatus) -> Self {
        match status {
            ToolCallStatus::Pending => Self::Pending,
            ToolCallStatus::InProgress => Self::InProgress,
            ToolCallStatus::Completed => Self::Completed,
            ToolCallStatus::Failed => Self::Failed,
        }
    }
}

impl From<ToolOutput> for acp::ToolCallContent {
    fn from(output: ToolOutput) -> Self {
        match output {
            ToolOutput::Text(text) => Self::Content(acp::Content::new(text_block(text))),
            ToolOutput::Block(json) => {
                let block = serde_json::from_value(json.clone());
                Self::Content(acp::Content::new(block.unwrap_or_else(|_| text_block(json.to_string()))))
            }
            ToolOutput::Diff { path, old, new } => {
                Self::Diff(acp::Diff::new(path.as_path(), new).old_text(old))
            }
        }
    }
}

fn text_chunk(text: impl Into<String>) -> acp::ContentChunk {
    acp::ContentChunk::new(text_block(text))
}

fn text_block(text: impl Into<String>) -> acp::ContentBlock {
    acp::ContentBlock::Text(acp::TextContent::new(text))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_piece_of_a_message_says_which_before_everything_else() {
        let piece = |json: &str| UpdateBody::from_json(json).unwrap().in_message("m\"");
        assert_eq!(piece(r#"{"a": 1}"#).as_json(), r#"{"messageId":"m\"","a": 1}"#);
        assert_eq!(piece("{ }").as_json(), r#"{"messageId":"m\""}"#);
    }

    #[test]
    fn tool_call_reports_carry_content_blocks_raw_input_and_raw_output() {
        let call = ToolReport::new("c").title("T").kind(ToolCallKind::Other).raw_input(json!({ "a": 1 }));
        let call: Value = serde_json::from_str(UpdateBody::tool_call(call).as_json()).unwrap();
        assert_eq!(
            call,
            json!({ "sessionUpdate": "tool_call", "toolCallId": "c", "title": "T", "rawInput": { "a": 1 } }),
            "other is the kind of a tool call that names none"
        );
        let link = json!({ "type": "resource_link", "name": "n", "uri": "file:///n" });
        let done = ToolReport::new("c")
            .output(ToolOutput::Block(link.clone()))
            .output(ToolOutput::Block(json!({ "type": "hologram" })))
            .raw_output(json!({ "isError": false }));
        let done: Value = serde_json::from_str(UpdateBody::tool_call_update(done).as_json()).unwrap();
        assert_eq!(
            done,
            json!({
                "sessionUpdate": "tool_call_update",
                "toolCallId": "c",
                "content": [
                    { "type": "content", "content": link },
                    { "type": "content", "content": { "type": "text", "text": r#"{"type":"hologram"}"# } },
                ],
                "rawOutput": { "isError": false },
            })
        );
    }
}
