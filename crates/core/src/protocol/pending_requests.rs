//! The params and results of `_acpx/pending` and `_acpx/answer`.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::model::{OfferedAnswer, SessionIdentity};

/// The params of `_acpx/pending`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PendingParams {
    /// The record whose requests are listed; absent for all records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Whether to send the list again after each change.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub subscribe: bool,
}

/// The notification of the changed list of pending requests.
pub(crate) const PENDING_CHANGED: &str = "_acpx/pending/changed";

/// The result of `_acpx/pending`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingMeta {
    /// The pending requests, oldest first.
    pub questions: Vec<PendingRequestMeta>,
}

/// One pending request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingRequestMeta {
    /// Its id.
    pub question_id: String,
    /// The record of the agent that sent it.
    #[serde(flatten)]
    pub ids: SessionIdentity,
    /// The session's name, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The agent, by its name or its command line.
    pub agent: String,
    /// The session's working directory.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cwd: String,
    /// The agent's title for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The kind of tool call.
    pub kind: String,
    /// The tool call it is about, with all known members, such as its command or diff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call: Option<Map<String, Value>>,
    /// Members of the call that are omitted because they are too long.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// The params of the `elicitation/create`, if it is not a permission request: a form or a URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elicitation: Option<Map<String, Value>>,
    /// The agent's options; a form has none.
    pub options: Vec<OptionMeta>,
    /// When it was sent.
    pub since: String,
    /// The clients that it is routed to; empty if none is attached.
    pub asked: Vec<ResponderMeta>,
}

/// An option of a permission request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OptionMeta {
    /// Its id.
    pub option_id: String,
    /// Its label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

/// A client that a request is routed to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResponderMeta {
    /// Whether it is the turn's own client.
    pub is_turns: bool,
    /// Its name, if it reported one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// The params of `_acpx/answer`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AnswerParams {
    /// The id of the pending request.
    pub question_id: String,
    /// Whether to approve.
    pub approve: bool,
    /// The option: its id, its kind, or its number in the list, from 1. It must identify one option, which must agree
    /// with `approve`. Absent, the narrowest option that agrees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub option_id: Option<String>,
    /// The values of a form's fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Map<String, Value>>,
}

/// Why an answer does not fit its pending request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerProblem {
    /// No option is known to approve.
    NoneApproves,
    /// The text identifies no option, or more than one.
    NotOne,
    /// The chosen option does not approve.
    Refuses,
    /// The option is meant to reject but may approve.
    MayApprove,
    /// It is a form that needs values.
    Unfilled,
}

impl OptionMeta {
    /// Parses the options of a permission request. Options without an id are ignored.
    pub fn of_request(params: &Value) -> Vec<Self> {
        let option = |option: &Value| {
            let text = |name: &str| option.get(name).and_then(Value::as_str).map(str::to_owned);
            Some(Self { option_id: text("optionId")?, name: text("name"), kind: text("kind") })
        };
        let options = params.get("options").and_then(Value::as_array);
        options.into_iter().flatten().filter_map(option).collect()
    }

    /// The label: its name, or else its id.
    pub fn label(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.option_id)
    }

    /// Whether its kind begins with this word: `allow` or `reject`.
    pub(crate) fn is_of_kind(&self, word: &str) -> bool {
        self.kind.as_deref().is_some_and(|kind| kind.starts_with(word))
    }
}

impl OfferedAnswer for OptionMeta {
    fn id(&self) -> &str {
        &self.option_id
    }

    fn kind(&self) -> Option<&str> {
        self.kind.as_deref()
    }
}
