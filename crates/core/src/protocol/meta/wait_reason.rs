//! What a session waits for, on the socket.

use serde::{Deserialize, Serialize};

use crate::engine::{QuestionKind, WaitReason};
use crate::machine::WaitCondition;

/// The result of `_acpx/waiting`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WaitReasonAnswer {
    /// What the session waits for, if anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<WaitReasonMeta>,
}

/// What a session waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitReasonMeta {
    /// `agent-start`, `load-time`, `answer`, `turn-end`, `permission`, `elicitation`, `command`, `agent-read`,
    /// `agent-away` or `agent-end`.
    pub what: String,
    /// The method that the agent has to answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The ids of the pending requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<String>,
    /// When the wait began.
    pub since: String,
    /// When the agent last sent a line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_line_at: Option<String>,
}

impl WaitReasonMeta {
    /// `what` of a session whose agent is being ended.
    pub const AGENT_END: &str = "agent-end";
}

impl From<WaitReason> for WaitReasonMeta {
    fn from(waiting: WaitReason) -> Self {
        let WaitReason { what, is_served, is_unread, is_away, question, since, last_message } = waiting;
        let (what, method) = match what {
            // Nothing else happens before the remote agent is reached again.
            _ if is_away => ("agent-away", None),
            // The agent's send queue is full: it must read before we read from it.
            _ if is_unread => ("agent-read", None),
            _ if is_served => ("command", None),
            WaitCondition::AgentStart => ("agent-start", None),
            WaitCondition::LoadTime => ("load-time", None),
            WaitCondition::Answer(method) => ("answer", Some(method.into_string())),
            WaitCondition::TurnEnd => ("turn-end", None),
            WaitCondition::PendingRequests { .. } if question == Some(QuestionKind::Elicitation) => {
                ("elicitation", None)
            }
            WaitCondition::PendingRequests { .. } => ("permission", None),
            WaitCondition::AgentExit => (Self::AGENT_END, None),
        };
        let (since, last_line_at) =
            (since.to_string(), last_message.map(|last_message| last_message.to_string()));
        Self { what: what.to_owned(), method, questions: Vec::new(), since, last_line_at }
    }
}
