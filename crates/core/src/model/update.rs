//! The content of an event, independent of the protocol version. `acp` parses lines into these types; the model
//! parses none.

use serde::Serialize;
use serde_json::Number;

use super::Fact;

/// What one event contributes to a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// A prompt for the agent.
    Prompt {
        /// The text of its text blocks, joined.
        text: String,
        /// Its other blocks, each as JSON.
        blocks: Vec<Box<str>>,
    },
    /// Something the agent reports.
    Update(Update),
    /// A fact of ours.
    Fact(Fact),
    /// A line that is no part of the conversation: setup, permissions, answers.
    Nothing,
}

/// What a `session/update` reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Update {
    /// A piece of a message.
    Chunk {
        /// Whose message.
        kind: MessageKind,
        /// The agent's id for the message, where it gives one.
        message_id: Option<Box<str>>,
        /// The piece.
        content: ChunkContent,
    },
    /// A whole message: it replaces its earlier content.
    Message {
        /// Whose message.
        kind: MessageKind,
        /// The agent's id for the message.
        message_id: Box<str>,
        /// All of its pieces; `None` leaves them as they are.
        content: Option<Vec<ChunkContent>>,
    },
    /// A tool call, new or changed.
    Tool {
        /// The agent's id for the call.
        call: Box<str>,
        /// The whole update object, as received.
        fields: Box<str>,
    },
    /// A piece that is appended to a tool call's content.
    ToolContent {
        /// The agent's id for the call.
        call: Box<str>,
        /// The piece: JSON as received.
        item: Box<str>,
    },
    /// The agent's plan, whole.
    Plan {
        /// The whole update object, as received.
        fields: Box<str>,
    },
    /// The session's title; `None` clears it.
    Title(Option<Box<str>>),
    /// A message of the agent to the user that is not part of the conversation.
    Notice {
        /// Its severity, in the agent's word.
        severity: Box<str>,
        /// Its title.
        title: Box<str>,
        /// More text.
        description: Option<Box<str>>,
    },
    /// The agent compacts its context.
    Compaction {
        /// The agent's id for it.
        id: Box<str>,
        /// Its status, in the agent's word.
        status: Box<str>,
        /// What went wrong.
        error: Option<Box<str>>,
    },
    /// What the session has used so far.
    Usage {
        /// How much.
        usage: SessionUsage,
        /// Whether the update has no cost, so that the last known cost still applies.
        cost_stands: bool,
    },
    /// State of the session that is no part of its history: commands, mode, options.
    State,
    /// A kind we do not know. It is stored and forwarded.
    Unknown,
}

/// The usage of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SessionUsage {
    /// Tokens in the agent's context.
    pub used: u64,
    /// The size of the context in tokens.
    pub size: u64,
    /// What it has cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
}

impl SessionUsage {
    /// The usage after a report, with the last known cost if the report leaves it as it was.
    #[must_use]
    pub fn after(self, before: Option<&Self>, cost_stands: bool) -> Self {
        let cost = if cost_stands { before.and_then(|before| before.cost.clone()) } else { self.cost };
        Self { cost, ..self }
    }

    /// The latest usage, from updates that come newest first, with the last known cost.
    pub fn last(updates: impl IntoIterator<Item = Update>) -> Option<Self> {
        let mut updates = updates.into_iter().filter_map(|update| match update {
            Update::Usage { usage, cost_stands } => Some((usage, cost_stands)),
            _ => None,
        });
        let (mut last, mut cost_stands) = updates.next()?;
        while cost_stands && let Some((before, stands)) = updates.next() {
            (last.cost, cost_stands) = (before.cost, stands);
        }
        Some(last)
    }
}

/// An amount in a currency or another unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cost {
    /// How much, as the agent wrote it.
    pub amount: Number,
    /// The currency, or another unit.
    pub currency: String,
}

/// Whose message a chunk belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MessageKind {
    /// The user's, echoed or replayed.
    User,
    /// The agent's answer.
    Agent,
    /// The agent's thinking.
    Thought,
}

/// One piece of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChunkContent {
    /// Text.
    Text(Box<str>),
    /// Any other content block: JSON as received.
    Block(Box<str>),
}

impl Update {
    /// Whether it is the user's message.
    pub(crate) fn is_users(&self) -> bool {
        matches!(
            self,
            Self::Chunk { kind: MessageKind::User, .. } | Self::Message { kind: MessageKind::User, .. }
        )
    }

    /// Whether it shows that the agent is working. Title, settings and usage may be reported at any time.
    pub(crate) fn is_activity(&self) -> bool {
        !matches!(self, Self::Title(_) | Self::State | Self::Usage { .. })
    }

    /// Whether this belongs to the conversation itself, so that a replay would contain it.
    pub fn is_history(&self) -> bool {
        match self {
            Self::Chunk { .. }
            | Self::Message { .. }
            | Self::Tool { .. }
            | Self::ToolContent { .. }
            | Self::Plan { .. } => true,
            Self::Title(_)
            | Self::Notice { .. }
            | Self::Compaction { .. }
            | Self::Usage { .. }
            | Self::State
            | Self::Unknown => false,
        }
    }
}
